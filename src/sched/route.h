// Which of two lanes carries a request, decided by a pure function.
//
//   batch   the row shares its steps with other rows
//   serial  the row holds the exclusive domain (gateway.h) and has its steps alone
//
// Both run the same step: the lane changes who else is in it, never the result.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace tandem {

enum class Lane : uint8_t { kBatch, kSerial };

const char* lane_name(Lane lane);

// Why a request can't share a step.
enum class SerialReason : uint8_t {
  kBatchOff,         // one row at a time was asked for
  kMethod,           // the model generates by a loop of its own (diffusion)
  kCache,            // a cache of the model can't hold several rows
  kStateBatchOff,    // switched off: TANDEM_BATCH_SSM=0
  kGrammarBatchOff,  // switched off: TANDEM_GRAMMAR_BATCH=0
  kMedia,            // the model reads media only in a step of their own
  kAdapter,          // the backend applies one set of adapters to a whole step
  kDraft,            // the drafter works for one row at a time
};
inline constexpr int kSerialReasons = 8;

// As /stats and a response's usage name it, e.g. "cache-requires-serial".
const char* serial_reason_name(SerialReason reason);

// What of a request matters here.
struct RequestShape {
  bool grammar = false;
  bool media = false;
  bool adapter = false;
  bool draft = false;
};

// What model and backend can do in a step of several rows.
struct Capabilities {
  bool autoregressive = true;  // false: a loop of its own
  bool caches = true;          // every cache of the model holds several rows
  bool states = false;         // the model has recurrent state
  bool media = true;
  bool adapters = true;
  bool drafts = true;
};

struct RouteSettings {
  int batch = 16;  // rows at once; 1 = off
  bool batch_states = true;
  bool batch_grammar = true;
};

struct Route {
  Lane lane = Lane::kBatch;
  std::vector<SerialReason> reasons;  // every one that holds; none in the batch lane
};

Route route(const RequestShape& shape, const Capabilities& can, const RouteSettings& settings);

// off: one row at a time was asked for; serial: the model allows no more; batch.
const char* batch_mode(const Capabilities& can, const RouteSettings& settings);

// False when the environment variable is "0": a switch that an operator can turn off.
bool switched_on(const std::string& variable);

}  // namespace tandem
