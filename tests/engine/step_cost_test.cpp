#include "engine/step_cost.h"

#include <doctest/doctest.h>

#include <initializer_list>

using namespace tandem;

namespace {

// A machine whose steps cost so much, and what the rule makes of it.
struct Machine {
  double decode_ms = 10;
  double token_ms = 0.5;
  StepCost cost{};

  double step(int32_t decoding, int32_t chunk) {
    const double ms = (decoding > 0 ? decode_ms : 1) + chunk * token_ms;
    cost.observe(decoding, chunk, ms);
    return ms;
  }
};

}  // namespace

TEST_CASE("chunks beside decoding rows keep a step below three times a decoding step") {
  for (double token_ms : {0.01, 0.5, 2.0}) {
    Machine machine{.token_ms = token_ms};
    machine.step(0, 512);
    for (int i = 0; i < 10; ++i) machine.step(4, 0);
    for (int i = 0; i < 50; ++i) {
      const int32_t chunk = machine.cost.chunk_tokens(512);
      const double ms = machine.step(4, chunk);
      if (chunk > StepCost::kTokensMin) CHECK(ms < 3 * machine.decode_ms);
      CHECK((chunk == 512 || chunk == StepCost::kTokensMin || ms > 1.5 * machine.decode_ms));
    }
  }
}

TEST_CASE("the first chunk beside decoding rows is short though long chunks were cheap") {
  StepCost cost;
  cost.observe(0, 512, 512 * 0.2);
  for (int i = 0; i < 10; ++i) cost.observe(8, 0, 16);
  // A token beside them costs as much as a row: 2 ms.
  CHECK(16 + cost.chunk_tokens(512) * 2 < 3 * 16);
}

TEST_CASE("one step that takes far too long makes the next chunk shorter at once") {
  Machine machine{.token_ms = 0.2};
  for (int i = 0; i < 30; ++i) machine.step(4, i % 2 == 0 ? 0 : machine.cost.chunk_tokens(512));
  const int32_t before = machine.cost.chunk_tokens(512);
  machine.token_ms = 1;
  machine.step(4, before);
  CHECK(machine.cost.chunk_tokens(512) < before / 2);
}

TEST_CASE("prompts always advance, however dear a token is") {
  Machine machine{.token_ms = 1000};
  machine.step(1, 0);
  machine.step(1, 8);
  CHECK(machine.cost.chunk_tokens(512) == StepCost::kTokensMin);
  CHECK(machine.cost.chunk_tokens(3) == 3);
}

TEST_CASE("before anything is known chunks are short, and never longer than a step") {
  CHECK(StepCost().chunk_tokens(512) == StepCost::kTokensUnknown);
  CHECK(StepCost().chunk_tokens(5) == 5);
}

TEST_CASE("the rule follows a machine that becomes slower") {
  Machine machine{.token_ms = 0.1};
  for (int i = 0; i < 20; ++i) machine.step(4, i % 2 == 0 ? 0 : machine.cost.chunk_tokens(512));
  const int32_t before = machine.cost.chunk_tokens(512);
  machine.token_ms = 1;
  for (int i = 0; i < 40; ++i) machine.step(4, machine.cost.chunk_tokens(512));
  CHECK(machine.cost.chunk_tokens(512) < before / 4);
  CHECK(machine.step(4, machine.cost.chunk_tokens(512)) < 3 * machine.decode_ms);
}
