#include "sched/route.h"

#include <cstdlib>

namespace tandem {

const char* lane_name(Lane lane) { return lane == Lane::kBatch ? "batch" : "serial"; }

const char* serial_reason_name(SerialReason reason) {
  switch (reason) {
    case SerialReason::kBatchOff: return "batch-off";
    case SerialReason::kMethod: return "method-requires-serial";
    case SerialReason::kCache: return "cache-requires-serial";
    case SerialReason::kStateBatchOff: return "state-batching-disabled";
    case SerialReason::kGrammarBatchOff: return "grammar-batching-disabled";
    case SerialReason::kMedia: return "media-requires-serial";
    case SerialReason::kAdapter: return "adapters-require-serial";
    case SerialReason::kDraft: return "draft-requires-serial";
  }
  return "?";
}

Route route(const RequestShape& shape, const Capabilities& can, const RouteSettings& settings) {
  Route result;
  const auto serial_if = [&](bool holds, SerialReason reason) {
    if (holds) result.reasons.push_back(reason);
  };
  serial_if(settings.batch <= 1, SerialReason::kBatchOff);
  serial_if(!can.autoregressive, SerialReason::kMethod);
  serial_if(!can.caches, SerialReason::kCache);
  serial_if(can.states && !settings.batch_states, SerialReason::kStateBatchOff);
  serial_if(shape.grammar && !settings.batch_grammar, SerialReason::kGrammarBatchOff);
  serial_if(shape.media && !can.media, SerialReason::kMedia);
  serial_if(shape.adapter && !can.adapters, SerialReason::kAdapter);
  serial_if(shape.draft && !can.drafts, SerialReason::kDraft);
  if (!result.reasons.empty()) result.lane = Lane::kSerial;
  return result;
}

const char* batch_mode(const Capabilities& can, const RouteSettings& settings) {
  if (settings.batch <= 1) return "off";
  return route({}, can, settings).lane == Lane::kBatch ? "batch" : "serial";
}

bool switched_on(const std::string& variable) {
  const char* value = std::getenv(variable.c_str());
  return value == nullptr || std::string(value) != "0";
}

}  // namespace tandem
