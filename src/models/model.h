// A loaded model: configuration, weights on a backend, and the forward pass of
// one step. Families derive from it; registry.h makes one from a checkpoint.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "backend/backend.h"

namespace tandem {

enum class CacheKind : uint8_t { kFull, kSliding, kLatent, kState };

const char* cache_kind_name(CacheKind kind);

// What the cache of one group of layers allows.
struct CacheCapability {
  CacheKind kind = CacheKind::kFull;
  bool batchable = false;   // rows of any lengths in one step
  bool trimmable = false;   // a row's last tokens can be taken back
  bool shareable = false;   // rows of one prefix may hold the same pages, or start from a
                            // copy of one slot
  bool persistent = false;  // its bytes may be stored and read back
};

CacheCapability full_cache();
CacheCapability sliding_cache();
CacheCapability latent_cache();
CacheCapability state_cache();

// What the engine must know of a model, the same for every family.
struct ModelInfo {
  std::string architecture;  // model_type of config.json
  int64_t vocab_size = 0;    // rows of the logits
  int64_t layers = 0;
  int64_t hidden_size = 0;
  int64_t max_positions = 0;      // longest context it was made for
  std::vector<KvSpec> kv_groups;  // formats are set by whoever makes the stores
  std::vector<StateSpec> state_groups;
  // One for each group, in order: make_model refuses a model that lacks one.
  std::vector<CacheCapability> kv_capabilities, state_capabilities;
  std::vector<int32_t> eos_ids;  // of config.json
};

// Does every cache of the model allow this?
bool all_caches(const ModelInfo& info, bool CacheCapability::* can);
// Why rows of this model can't share a step, for people; empty when they can.
std::string why_not_batchable(const ModelInfo& info);

class Model {
 public:
  virtual ~Model() = default;
  const ModelInfo& info() const { return info_; }
  // The same groups with base codec and formats set, before any store is made.
  void set_kv_groups(std::vector<KvSpec> groups) { info_.kv_groups = std::move(groups); }

  // Logits [step.outputs, vocab_size]. Writes the keys and values of the step's
  // tokens into step.kv. Engine thread.
  virtual Tensor forward(Backend& backend, const Step& step) const = 0;

 protected:
  ModelInfo info_;
};

}  // namespace tandem
