// The fields of config.json that nearly every decoder has.
#pragma once

#include <string>
#include <vector>

#include "models/config_reader.h"
#include "models/load/checkpoint.h"
#include "models/model.h"

namespace tandem {

struct DecoderConfig {
  std::string model_type;
  int hidden_size = 0, layers = 0, heads = 0, kv_heads = 0, head_dim = 0, intermediate_size = 0;
  int64_t vocab_size = 0, max_positions = 0;
  float rms_norm_eps = 1e-6f;
  bool tied = false;
  Activation activation = Activation::kSilu;
  std::vector<int32_t> eos_ids;

  // What a Model tells of itself, but for its cache groups.
  ModelInfo info() const;
};

// A mixture of experts, as Qwen and Mixtral configure it.
struct ExpertConfig {
  int count = 0;  // 0 = no layer has experts
  int size = 0;   // of one expert
  int top_k = 0;
  int shared_size = 0;  // of the expert that sees every token; 0 = none
  bool normalize_scores = true;
  std::vector<bool> sparse;  // of each layer: whether it has experts
};
ExpertConfig read_expert_config(const ConfigReader& in, int layers, bool normalize_default);

// Reads them, from text_config where the configuration has one.
DecoderConfig read_decoder_config(const ConfigReader& in, bool tied_default = false);

// The configuration of the language model: text_config, or all of it.
ConfigReader text_config(const Checkpoint& checkpoint);

// layer_types, or for each layer what `otherwise` says. Throws Error(kLoad) unless
// there is one of `allowed` for every layer.
std::vector<std::string> layer_types(const ConfigReader& in, int layers,
                                     const std::vector<std::string>& allowed,
                                     std::string (*otherwise)(const ConfigReader&, int layer));

// The place of one more layer: in the group of its spec, made if there is none.
// spec.layers is not looked at.
KvRef add_kv_layer(ModelInfo& info, KvSpec spec, const CacheCapability& capability);
KvRef add_state_layer(ModelInfo& info, StateSpec spec);

}  // namespace tandem
