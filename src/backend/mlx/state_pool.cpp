#include "backend/mlx/state_pool.h"

#include <algorithm>

namespace tandem::mlx_backend {

MlxStateStore::MlxStateStore(const StateSpec& spec, std::shared_ptr<LiveStates> live)
    : spec_(spec), live_(std::move(live)) {
  for (int layer = 0; layer < spec.layers; ++layer) {
    planes_.push_back(mx::zeros({0, dim(spec.conv_floats)}, mx::float32));
    planes_.push_back(mx::zeros({0, dim(spec.recurrent_floats)}, mx::float32));
  }
  live_->stores.push_back(this);
}

MlxStateStore::~MlxStateStore() { std::erase(live_->stores, this); }

void MlxStateStore::grow(int64_t slots) {
  if (slots <= slots_) return;
  try {
    for (mx::array& plane : planes_) {  // one at a time: only one exists twice
      const mx::array fresh = mx::zeros({dim(slots) - plane.shape(0), plane.shape(1)}, mx::float32);
      mx::array grown = plane.shape(0) == 0 ? fresh : mx::concatenate({plane, fresh}, 0);
      mx::eval(grown);
      plane = std::move(grown);
      mx::clear_cache();
    }
  } catch (const std::exception& error) {
    throw Error(ErrorCode::kPoolExhausted, "[state] no memory for " + std::to_string(slots) +
                                               " slots of " + std::to_string(slot_bytes()) +
                                               " bytes: " + error.what());
  }
  slots_ = slots;
}

void MlxStateStore::check(int32_t slot) const { INVARIANT(slot >= 0 && slot < slots_); }

void MlxStateStore::set(size_t plane, const mx::array& slots, const mx::array& values) {
  mx::array& target = planes_[plane];
  if (target.shape(1) == 0) return;
  target = mx::scatter(target, slots, mx::reshape(values, {slots.shape(0), 1, target.shape(1)}), 0);
}

void MlxStateStore::clear_slot(int32_t slot) {
  check(slot);
  guarded("clear_slot", [&] {
    for (size_t p = 0; p < planes_.size(); ++p) {
      set(p, mx::array({slot}), mx::zeros({1, planes_[p].shape(1)}, mx::float32));
    }
  });
}

void MlxStateStore::copy_slot(int32_t from, int32_t to) {
  check(from);
  check(to);
  guarded("copy_slot", [&] {
    std::vector<mx::array> copies;
    for (const mx::array& plane : planes_) copies.push_back(mx::take(plane, mx::array({from}), 0));
    mx::eval(copies);  // before the writes, which would copy the plane while it is read
    for (size_t p = 0; p < planes_.size(); ++p) set(p, mx::array({to}), copies[p]);
  });
}

void MlxStateStore::read_slot(int32_t slot, std::span<std::byte> out) const {
  check(slot);
  INVARIANT(static_cast<int64_t>(out.size()) == slot_bytes());
  guarded("read_slot", [&] {
    size_t at = 0;
    for (const mx::array& plane : planes_) {
      const mx::array row = mx::contiguous(mx::take(plane, mx::array({slot}), 0));
      mx::eval(row);
      if (row.nbytes() > 0) std::memcpy(out.data() + at, row.data<float>(), row.nbytes());
      at += row.nbytes();
    }
  });
}

void MlxStateStore::write_slot(int32_t slot, std::span<const std::byte> in) {
  check(slot);
  INVARIANT(static_cast<int64_t>(in.size()) == slot_bytes());
  guarded("write_slot", [&] {
    size_t at = 0;
    for (size_t p = 0; p < planes_.size(); ++p) {
      std::vector<float> values(static_cast<size_t>(planes_[p].shape(1)));
      if (!values.empty())
        std::memcpy(values.data(), in.data() + at, values.size() * sizeof(float));
      at += values.size() * sizeof(float);
      set(p, mx::array({slot}), host_array(values, {1, planes_[p].shape(1)}));
    }
  });
}

mx::array MlxStateStore::conv(int layer, const mx::array& slots) const {
  return mx::take(planes_[2 * layer], slots, 0);
}

mx::array MlxStateStore::recurrent(int layer, const mx::array& slots) const {
  return mx::take(planes_[2 * layer + 1], slots, 0);
}

void MlxStateStore::set_conv(int layer, const mx::array& slots, const mx::array& values) {
  set(2 * layer, slots, values);
}

void MlxStateStore::set_recurrent(int layer, const mx::array& slots, const mx::array& values) {
  set(2 * layer + 1, slots, values);
}

void MlxStateStore::append_pending(std::vector<mx::array>& arrays) const {
  for (const mx::array& plane : planes_) {
    if (plane.status() == mx::array::Status::unscheduled) arrays.push_back(plane);
  }
}

}  // namespace tandem::mlx_backend
