#include "models/load/gguf_config.h"
#include "models/load/report.h"

namespace tandem {
namespace {

std::optional<int32_t> token_id(const GgufMetadata& metadata, std::string_view key) {
  auto id = metadata.integer(key);
  if (!id) return std::nullopt;
  // Writers store "none" as the largest u32 or as -1.
  if (*id == -1 || *id == UINT32_MAX) return std::nullopt;
  if (*id < 0 || *id > INT32_MAX) {
    fail_load(metadata.path(), "metadata key " + quote_name(key) + " is " + std::to_string(*id) +
                                   ", expected a token id");
  }
  return static_cast<int32_t>(*id);
}

std::vector<int32_t> token_types(const GgufMetadata& metadata) {
  std::vector<int32_t> types;
  for (int64_t type : metadata.integers("tokenizer.ggml.token_type")) {
    types.push_back(type >= 0 && type <= INT32_MAX ? static_cast<int32_t>(type) : 0);
  }
  return types;
}

}  // namespace

GgufTokenizer gguf_tokenizer_metadata(const GgufMetadata& metadata) {
  GgufTokenizer result;
  result.model = metadata.text("tokenizer.ggml.model").value_or("");
  result.pre = metadata.text("tokenizer.ggml.pre").value_or("");
  result.tokens = metadata.texts("tokenizer.ggml.tokens");
  result.scores = metadata.floats("tokenizer.ggml.scores");
  result.token_types = token_types(metadata);
  result.merges = metadata.texts("tokenizer.ggml.merges");
  result.bos_id = token_id(metadata, "tokenizer.ggml.bos_token_id");
  result.eos_id = token_id(metadata, "tokenizer.ggml.eos_token_id");
  result.eot_id = token_id(metadata, "tokenizer.ggml.eot_token_id");
  result.unknown_id = token_id(metadata, "tokenizer.ggml.unknown_token_id");
  result.padding_id = token_id(metadata, "tokenizer.ggml.padding_token_id");
  result.add_bos = metadata.flag("tokenizer.ggml.add_bos_token");
  result.add_eos = metadata.flag("tokenizer.ggml.add_eos_token");
  result.add_space_prefix = metadata.flag("tokenizer.ggml.add_space_prefix");
  result.chat_template = metadata.text("tokenizer.chat_template").value_or("");
  return result;
}

}  // namespace tandem
