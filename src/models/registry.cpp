#include "models/registry.h"

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/nearest.h"
#include "models/deepseek.h"
#include "models/gemma.h"
#include "models/lfm2.h"
#include "models/llama.h"
#include "models/qwen3_next.h"

namespace tandem {

namespace {

using Maker = std::unique_ptr<Model> (*)(Checkpoint&, Backend&);

struct Family {
  const char* model_type;
  Maker make;
};

constexpr Family kFamilies[] = {
    {"deepseek_v2", make_deepseek},
    {"deepseek_v3", make_deepseek},
    {"gemma2", make_gemma},
    {"gemma3", make_gemma},
    {"gemma3_text", make_gemma},
    {"lfm2", make_lfm2},
    {"llama", make_llama},
    {"mistral", make_llama},
    {"mixtral", make_llama},
    {"qwen2", make_llama},
    {"qwen2_moe", make_llama},
    {"qwen3", make_llama},
    {"qwen3_5", make_qwen3_next},
    {"qwen3_5_moe", make_qwen3_next},
    {"qwen3_5_moe_text", make_qwen3_next},
    {"qwen3_5_text", make_qwen3_next},
    {"qwen3_moe", make_llama},
    {"qwen3_next", make_qwen3_next},
};

std::string unknown_architecture(const Checkpoint& checkpoint, const std::string& type) {
  const std::vector<std::string> known = supported_architectures();
  std::string list;
  for (const std::string& name : known) list += (list.empty() ? "" : ", ") + name;
  return checkpoint.path() + ": architecture \"" + type +
         "\" is not supported; supported: " + list + " (nearest: " + nearest_name(type, known) +
         ")";
}

// Nothing may hold a cache of which it is not known what may be done with it.
void require_capabilities(const Checkpoint& checkpoint, const ModelInfo& info) {
  if (info.kv_capabilities.size() == info.kv_groups.size() &&
      info.state_capabilities.size() == info.state_groups.size()) {
    return;
  }
  throw Error(ErrorCode::kLoad, checkpoint.path() + ": architecture \"" + info.architecture +
                                    "\" does not say for each of its cache groups what it allows");
}

}  // namespace

std::vector<std::string> supported_architectures() {
  std::vector<std::string> names;
  for (const Family& family : kFamilies) names.push_back(family.model_type);
  return names;
}

std::unique_ptr<Model> make_model(Checkpoint& checkpoint, Backend& backend) {
  const auto& config = checkpoint.config();
  const auto type = config.is_object() ? config.value("model_type", "") : "";
  for (const Family& family : kFamilies) {
    if (type != family.model_type) continue;
    auto model = family.make(checkpoint, backend);
    checkpoint.expect_all_taken();
    require_capabilities(checkpoint, model->info());
    return model;
  }
  throw Error(ErrorCode::kUnsupported, unknown_architecture(checkpoint, type));
}

}  // namespace tandem
