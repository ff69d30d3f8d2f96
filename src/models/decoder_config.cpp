#include "models/decoder_config.h"

#include <algorithm>
#include <nlohmann/json.hpp>

namespace tandem {

ModelInfo DecoderConfig::info() const {
  ModelInfo info;
  info.architecture = model_type;
  info.vocab_size = vocab_size;
  info.layers = layers;
  info.hidden_size = hidden_size;
  info.max_positions = max_positions;
  info.eos_ids = eos_ids;
  return info;
}

ConfigReader text_config(const Checkpoint& checkpoint) {
  const ConfigReader in(checkpoint.config(), checkpoint.path());
  return in.has("text_config") ? in.object("text_config") : in;
}

DecoderConfig read_decoder_config(const ConfigReader& in, bool tied_default) {
  DecoderConfig c;
  c.model_type = in.text("model_type", "");
  c.hidden_size = in.count("hidden_size", 1 << 20);
  c.layers = in.count("num_hidden_layers", 1 << 12);
  c.heads = in.count("num_attention_heads", 1 << 12);
  c.kv_heads = in.has("num_key_value_heads") ? in.count("num_key_value_heads", c.heads) : c.heads;
  if (c.heads % c.kv_heads != 0) in.fail("num_key_value_heads", "a divisor of num_attention_heads");
  c.head_dim = in.has("head_dim") ? in.count("head_dim", 1 << 12) : c.hidden_size / c.heads;
  if (c.head_dim < 2 || c.head_dim % 2 != 0) in.fail("head_dim", "even and at least 2");
  const bool only_experts = in.has("moe_intermediate_size") && !in.has("intermediate_size");
  if (!only_experts) c.intermediate_size = in.count("intermediate_size", 1 << 24);
  c.vocab_size = in.count("vocab_size", 1 << 24);
  c.max_positions = in.integer("max_position_embeddings", 2048);
  c.rms_norm_eps = static_cast<float>(in.number("rms_norm_eps", 1e-6));
  c.tied = in.flag("tie_word_embeddings", tied_default);
  c.activation = in.activation();
  c.eos_ids = in.ids("eos_token_id");
  return c;
}

ExpertConfig read_expert_config(const ConfigReader& in, int layers, bool normalize_default) {
  ExpertConfig c;
  c.sparse.assign(layers, false);
  const char* count = in.has("num_local_experts") ? "num_local_experts" : "num_experts";
  if (in.integer(count, 0) == 0) return c;
  c.count = in.count(count, 1 << 16);
  c.top_k = in.count("num_experts_per_tok", c.count);
  c.size = in.count(in.has("moe_intermediate_size") ? "moe_intermediate_size" : "intermediate_size",
                    1 << 24);
  if (in.has("shared_expert_intermediate_size")) {
    c.shared_size = in.count("shared_expert_intermediate_size", 1 << 24);
  }
  c.normalize_scores = in.flag("norm_topk_prob", normalize_default);
  const int64_t step = in.has("decoder_sparse_step") ? in.count("decoder_sparse_step", 1 << 12) : 1;
  const std::vector<int32_t> dense = in.ids("mlp_only_layers");
  for (int layer = 0; layer < layers; ++layer) {
    c.sparse[layer] = (layer + 1) % step == 0 && std::ranges::count(dense, layer) == 0;
  }
  return c;
}

std::vector<std::string> layer_types(const ConfigReader& in, int layers,
                                     const std::vector<std::string>& allowed,
                                     std::string (*otherwise)(const ConfigReader&, int layer)) {
  std::vector<std::string> types = in.texts("layer_types");
  if (types.empty()) {
    for (int layer = 0; layer < layers; ++layer) types.push_back(otherwise(in, layer));
  }
  const bool known = std::ranges::all_of(
      types, [&](const std::string& type) { return std::ranges::count(allowed, type) > 0; });
  if (!known || static_cast<int>(types.size()) != layers) {
    std::string list;
    for (const std::string& type : allowed) list += (list.empty() ? "" : " or ") + type;
    in.fail("layer_types", list + " for each of " + std::to_string(layers) + " layers");
  }
  return types;
}

KvRef add_kv_layer(ModelInfo& info, KvSpec spec, const CacheCapability& capability) {
  std::vector<KvSpec>& groups = info.kv_groups;
  const auto same = [&](const KvSpec& group) {
    return group.kv_heads == spec.kv_heads && group.k_dim == spec.k_dim &&
           group.v_dim == spec.v_dim && group.window == spec.window;
  };
  auto group = std::ranges::find_if(groups, same);
  if (group == groups.end()) {
    spec.layers = 0;
    groups.push_back(spec);
    info.kv_capabilities.push_back(capability);
    group = groups.end() - 1;
  }
  return {.group = static_cast<int>(group - groups.begin()), .layer = group->layers++};
}

KvRef add_state_layer(ModelInfo& info, StateSpec spec) {
  std::vector<StateSpec>& groups = info.state_groups;
  const auto same = [&](const StateSpec& group) {
    return group.conv_floats == spec.conv_floats && group.recurrent_floats == spec.recurrent_floats;
  };
  auto group = std::ranges::find_if(groups, same);
  if (group == groups.end()) {
    spec.layers = 0;
    groups.push_back(spec);
    info.state_capabilities.push_back(state_cache());
    group = groups.end() - 1;
  }
  return {.group = static_cast<int>(group - groups.begin()), .layer = group->layers++};
}

}  // namespace tandem
