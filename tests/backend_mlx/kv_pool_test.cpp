#include <doctest/doctest.h>

#include <algorithm>

#include "backend_mlx/layer.h"
#include "base/error.h"
#include "mlx/memory.h"

using namespace tandem;
using namespace tandem::test;

namespace {

constexpr double kTolerance = 1e-5;

// Bytes that a step of one decoding row takes at its height, beyond what lives on.
size_t transient_bytes(Layer& layer, int32_t position) {
  const size_t before = mlx::core::get_active_memory();
  mlx::core::reset_peak_memory();
  layer.step({{position, 1, {1}}}, {0});
  return std::max(mlx::core::get_peak_memory(), before) - before;
}

}  // namespace

TEST_CASE("a pool that grows keeps its pages") {
  Layer layer;
  CHECK(layer.store->pages(KvSection::kMain) == 16);
  CHECK(layer.step({{0, 40, {3, 15}}}, {0}) < kTolerance);
  layer.store->grow(KvSection::kMain, 40);
  CHECK(layer.store->pages(KvSection::kMain) == 40);
  CHECK(layer.step({{40, 1, {3, 15}}, {0, 33, {30, 39}}}, {0, 1}) < kTolerance);
  layer.store->grow(KvSection::kMain, 20);
  CHECK(layer.store->pages(KvSection::kMain) == 40);
}

TEST_CASE("a copied page holds every layer's keys and values, also those just written") {
  Layer layer;
  StepOf s = StepOf::rows({{0, 20, {3}}});
  s.with_store(layer.store.get());
  CHECK(layer.step(s, {0}, 0) < kTolerance);
  layer.naive = [&] {
    NaiveLayer second = layer.naive;
    second.forget();
    return second;
  }();
  layer.seed = 300;
  CHECK(layer.step({{0, 20, {3}}}, {0}) < kTolerance);  // layer 1
  layer.store->copy_page(KvSection::kMain, 3, 8);
  CHECK(layer.step({{20, 1, {8}}}, {0}) < kTolerance);
}

TEST_CASE("after a copy the two pages go their own ways") {
  Layer layer;
  CHECK(layer.step({{0, 20, {3}}}, {0}) < kTolerance);
  layer.store->copy_page(KvSection::kMain, 3, 8);
  layer.naive.fork(0, 1);
  CHECK(layer.step({{20, 1, {3}}, {20, 1, {8}}}, {0, 1}) < kTolerance);
  CHECK(layer.step({{21, 1, {8}}, {21, 1, {3}}}, {1, 0}) < kTolerance);
}

TEST_CASE("writing to a page does not copy the pool") {
  Layer layer;
  layer.store->grow(KvSection::kMain, 2000);  // 8 MB a plane
  CHECK(layer.step({{0, 2, {1}}}, {0}) < kTolerance);
  CHECK(transient_bytes(layer, 2) < 1'000'000);
  CHECK(transient_bytes(layer, 3) < 1'000'000);
  layer.store->copy_page(KvSection::kMain, 1, 2);
  CHECK(transient_bytes(layer, 4) < 1'000'000);
}

TEST_CASE("writes that nobody reads are done by the next step") {
  Layer layer;
  layer.store->grow(KvSection::kMain, 2000);
  CHECK(layer.step({{0, 1, {1}}}, {0}) < kTolerance);
  for (int32_t position = 1; position < 4; ++position) {
    StepOf s = StepOf::rows({{position, 1, {1}}});
    s.with_store(layer.store.get());
    layer.backend->begin_step(s.step());
    const Matrix x = random_matrix(1, Layer::kWidth, 77 + position);
    const Tensor in = input(*layer.backend, s, x);
    layer.backend->qkv_rope_write(in, layer.qkv, layer.qkv_options, {0, 1}, s.step());
    layer.naive.forward(x, s, {0});
  }
  CHECK(layer.step({{4, 1, {1}}}, {0}) < kTolerance);
}

TEST_CASE("a page costs what its spec says") {
  Layer layer;
  CHECK(layer.store->page_bytes(KvSection::kMain) ==
        kv_page_bytes(layer.store->spec(), KvSection::kMain));
  const size_t before = mlx::core::get_active_memory();
  layer.store->grow(KvSection::kMain, 16 + 512);
  CHECK(mlx::core::get_active_memory() - before >=
        size_t(512 * layer.store->page_bytes(KvSection::kMain)));
  CHECK(mlx::core::get_active_memory() - before <
        size_t(530 * layer.store->page_bytes(KvSection::kMain)));
}
