#include "backend/mlx/state_pool.h"

#include <doctest/doctest.h>

#include "backend/mlx/numerics.h"

using namespace tandem;
using namespace tandem::mlx_backend;

namespace {

using Bytes = std::vector<std::byte>;

Bytes pattern(int64_t count, int seed) {
  std::vector<float> values(static_cast<size_t>(count) / sizeof(float));
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(seed * 100 + int(i));
  Bytes bytes(static_cast<size_t>(count));
  std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

Bytes read(const StateStore& store, int32_t slot) {
  Bytes bytes(static_cast<size_t>(store.slot_bytes()));
  store.read_slot(slot, bytes);
  return bytes;
}

}  // namespace

TEST_CASE("a state slot gives back the bytes that were written, cleared or copied into it") {
  for (const StateSpec& spec : {StateSpec{.layers = 2, .conv_floats = 6, .recurrent_floats = 8},
                                StateSpec{.layers = 1, .conv_floats = 4}}) {
    const auto backend = make_backend(Precision::kExact, {});
    const auto store = backend->make_state_store(spec);
    CHECK(store->slot_bytes() == spec.layers * (spec.conv_floats + spec.recurrent_floats) * 4);
    store->grow(2);
    for (int32_t slot = 0; slot < 2; ++slot) {
      store->write_slot(slot, pattern(store->slot_bytes(), slot + 1));
    }
    store->grow(4);
    store->copy_slot(1, 3);
    store->clear_slot(1);
    CHECK(read(*store, 0) == pattern(store->slot_bytes(), 1));
    CHECK(read(*store, 1) == Bytes(static_cast<size_t>(store->slot_bytes())));
    CHECK(read(*store, 3) == pattern(store->slot_bytes(), 2));
  }
}
