// Recurrent state as MLX arrays, one for each layer and part.
#pragma once

#include <memory>
#include <vector>

#include "backend/kv_store.h"
#include "backend/mlx/runtime.h"

namespace tandem::mlx_backend {

class MlxStateStore;

// The stores that are alive; shared by the backend and its stores.
struct LiveStates {
  std::vector<MlxStateStore*> stores;
};

// Planes are f32 [slots, floats]; an update is an op whose output takes the
// plane's place, as in kv_pool.h.
class MlxStateStore : public StateStore {
 public:
  MlxStateStore(const StateSpec& spec, std::shared_ptr<LiveStates> live);
  ~MlxStateStore() override;
  MlxStateStore(const MlxStateStore&) = delete;
  MlxStateStore& operator=(const MlxStateStore&) = delete;

  const StateSpec& spec() const override { return spec_; }
  int64_t slots() const override { return slots_; }
  void grow(int64_t slots) override;
  void clear_slot(int32_t slot) override;
  void copy_slot(int32_t from, int32_t to) override;
  void read_slot(int32_t slot, std::span<std::byte> out) const override;
  void write_slot(int32_t slot, std::span<const std::byte> in) override;

  // Rows of the given slots (int32 [rows]): [rows, conv_floats] and
  // [rows, recurrent_floats].
  mx::array conv(int layer, const mx::array& slots) const;
  mx::array recurrent(int layer, const mx::array& slots) const;
  void set_conv(int layer, const mx::array& slots, const mx::array& values);
  void set_recurrent(int layer, const mx::array& slots, const mx::array& values);

  // Appends planes with writes that have not been evaluated.
  void append_pending(std::vector<mx::array>& arrays) const;

 private:
  void set(size_t plane, const mx::array& slots, const mx::array& values);
  void check(int32_t slot) const;

  StateSpec spec_;
  int64_t slots_ = 0;
  std::vector<mx::array> planes_;  // conv and recurrent of each layer in turn
  std::shared_ptr<LiveStates> live_;
};

}  // namespace tandem::mlx_backend
