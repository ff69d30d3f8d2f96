// A loaded model: configuration, weights on a backend, and the forward pass of
// one step. Families derive from it; registry.h makes one from a checkpoint.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "backend/backend.h"

namespace tandem {

// What the engine must know of a model, the same for every family.
struct ModelInfo {
  std::string architecture;  // model_type of config.json
  int64_t vocab_size = 0;    // rows of the logits
  int64_t layers = 0;
  int64_t hidden_size = 0;
  int64_t max_positions = 0;      // longest context it was made for
  std::vector<KvSpec> kv_groups;  // formats are set by whoever makes the stores
  std::vector<StateSpec> state_groups;
  std::vector<int32_t> eos_ids;  // of config.json
};

class Model {
 public:
  virtual ~Model() = default;
  const ModelInfo& info() const { return info_; }

  // Logits [step.outputs, vocab_size]. Writes the keys and values of the step's
  // tokens into step.kv. Engine thread.
  virtual Tensor forward(Backend& backend, const Step& step) const = 0;

 protected:
  ModelInfo info_;
};

}  // namespace tandem
