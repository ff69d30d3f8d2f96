// A request body of any content is parsed or refused with an Error; what was
// parsed makes a row, or an Error.
#include <nlohmann/json.hpp>

#include "api/openai/chat_request.h"
#include "api/openai/completion_request.h"
#include "base/error.h"
#include "base/json.h"

namespace {

const tandem::api::ModelFacts kModel{
    .id = "m", .context_length = 64, .vocab_size = 1000, .defaults = {}};

void check_row(const tandem::api::CallOptions& options) {
  try {
    const auto row = make_request(options, kModel, {1, 2, 3}, 0, 1, 0);
    INVARIANT(row.max_tokens + 3 <= kModel.context_length);
    INVARIANT(row.sampling.top_p > 0 && row.sampling.top_p <= 1);
    for (const auto& stop : row.stop) INVARIANT(!stop.empty());
  } catch (const tandem::Error&) {
  }
}

template <typename Parse>
void check(const nlohmann::ordered_json& body, Parse&& parse) {
  try {
    check_row(parse(body).options);
  } catch (const tandem::Error&) {
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  nlohmann::ordered_json body;
  try {
    body = tandem::parse_ordered_json({reinterpret_cast<const char*>(data), size}, {}, "the body");
  } catch (const tandem::Error&) {
    return 0;
  }
  check(body, tandem::api::openai::parse_chat_request);
  check(body, tandem::api::openai::parse_completion_request);
  return 0;
}
