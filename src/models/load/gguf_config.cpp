#include "models/load/gguf_config.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "models/load/report.h"

namespace tandem {
namespace {

using nlohmann::json;

struct Architecture {
  std::string_view gguf;
  const char* model_type;
  const char* activation;
};

constexpr Architecture kArchitectures[] = {
    {"llama", "llama", "silu"},
    {"mistral3", "ministral3", "silu"},
    {"qwen2", "qwen2", "silu"},
    {"qwen3", "qwen3", "silu"},
    {"gemma3", "gemma3_text", "gelu_pytorch_tanh"},
};

// Numbers are stored as f32: 1e-5 would read 9.99999974738e-06. The shortest
// decimal that means the same f32 is what was written into config.json once.
double as_written(double value) {
  if (std::abs(value) > std::numeric_limits<float>::max()) return value;
  char digits[32];
  auto end = std::to_chars(digits, digits + sizeof digits, static_cast<float>(value)).ptr;
  double result = value;
  std::from_chars(digits, end, result);
  return result;
}

// A text that may stand in messages and in JSON whatever the file holds.
std::optional<std::string> word(const GgufMetadata& metadata, std::string_view key) {
  auto text = metadata.text(key);
  if (!text) return text;
  bool plain = std::all_of(text->begin(), text->end(), [](char c) { return c > 0x20 && c < 0x7f; });
  if (text->empty() || text->size() > 64 || !plain) {
    fail_load(metadata.path(), "metadata key " + quote_name(key) + " is " + quote_name(*text) +
                                   ", expected a word of printable ASCII");
  }
  return text;
}

const FileTensor* find_tensor(const GgufFile& file, std::string_view name) {
  for (const FileTensor& tensor : file.tensors) {
    if (tensor.name == name) return &tensor;
  }
  return nullptr;
}

// Reads the keys below the architecture's name.
class ConfigMaker {
 public:
  ConfigMaker(const GgufFile& file, const GgufTokenizer& tokenizer,
              const Architecture& architecture)
      : file_(file), metadata_(file.metadata), tokenizer_(tokenizer), architecture_(architecture) {}

  json make() {
    config_["model_type"] = architecture_.model_type;
    config_["hidden_act"] = architecture_.activation;
    dimensions();
    attention();
    rope();
    presence();
    special_ids();
    if (architecture_.gguf == "gemma3") gemma3();
    if (architecture_.gguf == "mistral3") mistral3();
    return std::move(config_);
  }

 private:
  std::string key(std::string_view name) const {
    return std::string(architecture_.gguf) + "." + std::string(name);
  }

  int64_t required(std::string_view name) const {
    std::string label = "metadata key " + quote_name(key(name));
    auto value = metadata_.uniform_integer(key(name));
    if (!value) fail_load(metadata_.path(), label + " is missing");
    if (*value < 1 || *value > INT32_MAX) {
      fail_load(metadata_.path(), label + " is " + std::to_string(*value) + ", expected 1 or more");
    }
    return *value;
  }

  void copy_integer(const char* to, std::string_view name) {
    if (auto value = metadata_.uniform_integer(key(name))) config_[to] = *value;
  }

  void copy_number(const char* to, std::string_view name) {
    if (auto value = metadata_.number(key(name))) config_[to] = as_written(*value);
  }

  void dimensions() {
    config_["hidden_size"] = required("embedding_length");
    config_["num_hidden_layers"] = required("block_count");
    config_["intermediate_size"] = required("feed_forward_length");
    copy_integer("max_position_embeddings", "context_length");
    copy_integer("vocab_size", "vocab_size");
    auto* table = find_tensor(file_, "token_embd.weight");
    if (table && table->shape.size() == 2) config_["vocab_size"] = table->shape[0];
  }

  void attention() {
    int64_t heads = required("attention.head_count");
    config_["num_attention_heads"] = heads;
    config_["num_key_value_heads"] =
        metadata_.uniform_integer(key("attention.head_count_kv")).value_or(heads);
    copy_integer("head_dim", "attention.key_length");
    if (!config_.contains("head_dim")) {
      config_["head_dim"] = config_["hidden_size"].get<int64_t>() / heads;
    }
    copy_number("rms_norm_eps", "attention.layer_norm_rms_epsilon");
    copy_integer("sliding_window", "attention.sliding_window");
    refuse_other_value_length();
    refuse_partial_rotation();
    refuse_experts();
  }

  void refuse(std::string_view name, const std::string& why) const {
    throw Error(ErrorCode::kUnsupported,
                metadata_.path() + ": metadata key " + quote_name(key(name)) + " " + why);
  }

  void refuse_other_value_length() const {
    auto length = metadata_.uniform_integer(key("attention.value_length"));
    if (length && config_.contains("head_dim") && *length != config_["head_dim"]) {
      refuse("attention.value_length", "differs from attention.key_length, which is not supported");
    }
  }

  void refuse_partial_rotation() const {
    auto rotated = metadata_.uniform_integer(key("rope.dimension_count"));
    if (rotated && config_.contains("head_dim") && *rotated != config_["head_dim"]) {
      refuse("rope.dimension_count", "is " + std::to_string(*rotated) + " of head dimension " +
                                         config_["head_dim"].dump() +
                                         "; rotating a part is not supported");
    }
  }

  void refuse_experts() const {
    auto experts = metadata_.uniform_integer(key("expert_count"));
    if (experts.value_or(0) > 0) {
      refuse("expert_count", "is " + std::to_string(*experts) +
                                 "; mixtures of experts are not supported in this architecture");
    }
  }

  // The llama3 scheme is not here: its factors are the tensor rope_freqs.weight.
  void rope() {
    copy_number("rope_theta", "rope.freq_base");
    config_["rope_scaling"] = nullptr;
    std::string type = word(metadata_, key("rope.scaling.type")).value_or("none");
    if (type == "none") return;
    json scaling = {{"rope_type", type}};
    auto copy = [&](const char* to, std::string_view name) {
      if (auto value = metadata_.number(key(name))) scaling[to] = as_written(*value);
    };
    copy("factor", "rope.scaling.factor");
    copy("attention_factor", "rope.scaling.attn_factor");
    copy("beta_fast", "rope.scaling.yarn_beta_fast");
    copy("beta_slow", "rope.scaling.yarn_beta_slow");
    if (auto length = metadata_.integer(key("rope.scaling.original_context_length"))) {
      scaling["original_max_position_embeddings"] = *length;
    }
    config_["rope_scaling"] = scaling;
  }

  void presence() {
    config_["tie_word_embeddings"] = find_tensor(file_, "output.weight") == nullptr;
    config_["attention_bias"] = find_tensor(file_, "blk.0.attn_q.bias") != nullptr;
    config_["mlp_bias"] = find_tensor(file_, "blk.0.ffn_up.bias") != nullptr;
  }

  void special_ids() {
    if (tokenizer_.bos_id) config_["bos_token_id"] = *tokenizer_.bos_id;
    json ids = json::array();
    if (tokenizer_.eos_id) ids.push_back(*tokenizer_.eos_id);
    if (tokenizer_.eot_id && tokenizer_.eot_id != tokenizer_.eos_id) {
      ids.push_back(*tokenizer_.eot_id);
    }
    if (!ids.empty()) config_["eos_token_id"] = ids.size() == 1 ? ids[0] : ids;
  }

  // Every sixth layer sees everything, the others a window; the window's layers
  // have a rotary base of their own. Source: Gemma 3, arXiv:2503.19786.
  void gemma3() {
    constexpr int64_t kLayersOf27B = 62;
    config_["hidden_activation"] = architecture_.activation;
    config_["rope_local_base_freq"] =
        as_written(metadata_.number(key("rope.freq_base_swa")).value_or(10000.0));
    config_["sliding_window_pattern"] =
        metadata_.integer(key("attention.sliding_window_pattern")).value_or(6);
    bool is_27b = config_["num_hidden_layers"] == kLayersOf27B;
    int64_t heads = config_["num_attention_heads"];
    config_["query_pre_attn_scalar"] =
        is_27b ? config_["hidden_size"].get<int64_t>() / heads : config_["head_dim"].get<int64_t>();
    copy_number("final_logit_softcapping", "final_logit_softcapping");
  }

  void mistral3() {
    if (auto beta = metadata_.number(key("attention.temperature_scale"))) {
      if (config_["rope_scaling"].is_null()) config_["rope_scaling"] = {{"rope_type", "default"}};
      config_["rope_scaling"]["llama_4_scaling_beta"] = as_written(*beta);
    }
  }

  const GgufFile& file_;
  const GgufMetadata& metadata_;
  const GgufTokenizer& tokenizer_;
  const Architecture& architecture_;
  json config_ = json::object();
};

}  // namespace

std::string gguf_architecture(const GgufMetadata& metadata) {
  auto name = word(metadata, "general.architecture");
  if (!name) fail_load(metadata.path(), "metadata key 'general.architecture' is missing");
  return *name;
}

json gguf_config(const GgufFile& file, const GgufTokenizer& tokenizer) {
  std::string name = gguf_architecture(file.metadata);
  for (const Architecture& architecture : kArchitectures) {
    if (architecture.gguf == name) return ConfigMaker(file, tokenizer, architecture).make();
  }
  return {{"model_type", name}};
}

}  // namespace tandem
