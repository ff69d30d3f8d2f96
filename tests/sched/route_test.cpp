#include "sched/route.h"

#include <doctest/doctest.h>

#include <cstdlib>
#include <set>
#include <string>
#include <vector>

using namespace tandem;

namespace {

using Reasons = std::vector<SerialReason>;

const RequestShape kEverything{.grammar = true, .media = true, .adapter = true, .draft = true};

}  // namespace

TEST_CASE("the batch carries every kind of request where model and settings allow it") {
  CHECK(route(kEverything, {.states = true}, {}).lane == Lane::kBatch);
  CHECK(route(kEverything, {.states = true}, {}).reasons.empty());
}

TEST_CASE("each reason for the serial lane is found by itself, and named") {
  struct Case {
    RequestShape shape;
    Capabilities can;
    RouteSettings settings;
    Reasons reasons;
    std::string name;
  };
  const Case cases[] = {
      {{}, {}, {.batch = 1}, {SerialReason::kBatchOff}, "batch-off"},
      {{}, {.autoregressive = false}, {}, {SerialReason::kMethod}, "method-requires-serial"},
      {{}, {.caches = false}, {}, {SerialReason::kCache}, "cache-requires-serial"},
      {{},
       {.states = true},
       {.batch_states = false},
       {SerialReason::kStateBatchOff},
       "state-batching-disabled"},
      {{.grammar = true},
       {},
       {.batch_grammar = false},
       {SerialReason::kGrammarBatchOff},
       "grammar-batching-disabled"},
      {{.media = true}, {.media = false}, {}, {SerialReason::kMedia}, "media-requires-serial"},
      {{.adapter = true},
       {.adapters = false},
       {},
       {SerialReason::kAdapter},
       "adapters-require-serial"},
      {{.draft = true}, {.drafts = false}, {}, {SerialReason::kDraft}, "draft-requires-serial"},
  };
  for (const Case& c : cases) {
    CAPTURE(c.name);
    const Route r = route(c.shape, c.can, c.settings);
    CHECK(r.lane == Lane::kSerial);
    CHECK(r.reasons == c.reasons);
    CHECK(serial_reason_name(r.reasons.at(0)) == c.name);
  }
}

TEST_CASE("a switch or a missing capability concerns only the requests that need it") {
  const Capabilities none{.media = false, .adapters = false, .drafts = false};
  const RouteSettings off{.batch_states = false, .batch_grammar = false};
  CHECK(route({}, none, off).lane == Lane::kBatch);
}

TEST_CASE("all reasons are given, not only the first, and no two share a name") {
  const Capabilities none{.autoregressive = false,
                          .caches = false,
                          .states = true,
                          .media = false,
                          .adapters = false,
                          .drafts = false};
  const Route r =
      route(kEverything, none, {.batch = 0, .batch_states = false, .batch_grammar = false});
  CHECK(r.reasons.size() == kSerialReasons);
  std::set<std::string> names;
  for (SerialReason reason : r.reasons) names.insert(serial_reason_name(reason));
  CHECK(names.size() == kSerialReasons);
}

TEST_CASE("the batch mode tells a choice of the operator from a limit of the model") {
  CHECK(std::string(batch_mode({}, {})) == "batch");
  CHECK(std::string(batch_mode({}, {.batch = 1})) == "off");
  CHECK(std::string(batch_mode({.caches = false}, {})) == "serial");
  CHECK(std::string(batch_mode({.states = true}, {.batch_states = false})) == "serial");
}

TEST_CASE("only the value 0 turns a switch off") {
  const char* name = "TANDEM_SWITCH_OF_A_TEST";
  CHECK(switched_on(name));
  setenv(name, "1", 1);
  CHECK(switched_on(name));
  setenv(name, "0", 1);
  CHECK_FALSE(switched_on(name));
  unsetenv(name);
}
