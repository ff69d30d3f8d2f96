#include <doctest/doctest.h>

#include <cmath>
#include <functional>

#include "backend/mlx/numerics.h"
#include "backend_mlx/layer.h"

using namespace tandem;
using namespace tandem::test;

namespace {

constexpr double kTolerance = 1e-5;
constexpr double kHalfTolerance = 1e-2;

const Rope& some_rope() {
  static const Rope rope{.inv_freq = {1.0f, 0.5f, 0.25f, 0.1f, 0.05f, 0.01f, 0.005f, 0.001f}};
  return rope;
}

// Prefill in chunks over a page border, decode, and several rows at once.
double ragged_error(Layer& layer) {
  const std::vector<int32_t> a = {3, 9}, b = {1, 12, 4}, c = {5};
  double worst = 0;
  const auto run = [&](const std::vector<StepOf::Row>& rows, const std::vector<int>& names) {
    worst = std::max(worst, layer.step(rows, names));
  };
  run({{0, 30, a}}, {0});
  run({{30, 1, a}, {0, 40, b}}, {0, 1});
  run({{31, 3, a}, {40, 1, b}, {0, 1, c}}, {0, 1, 2});
  run({{40 + 1, 1, b}, {34, 1, a}, {1, 1, c}}, {1, 0, 2});  // decode alone, not by length
  run({{42, 30, b}, {35, 1, a}}, {1, 0});
  run({{72, 1, b}, {36, 1, a}, {2, 1, c}}, {1, 0, 2});
  return worst;
}

}  // namespace

TEST_CASE("ragged rows attend to their own pages alone") {
  Layer layer;
  CHECK(ragged_error(layer) < kTolerance);
}

TEST_CASE("every option of projection and attention agrees with plain loops") {
  struct Case {
    const char* name;
    std::function<void(NaiveLayer&)> set;
  };
  static const Rope partial{.inv_freq = {1.0f, 0.3f, 0.02f}};
  static const Rope interleaved{.inv_freq = some_rope().inv_freq, .interleaved = true};
  static const Rope scaled{.inv_freq = {1.0f, 0.1f}, .cos_sin_scale = 1.3f, .interleaved = true};
  const Case cases[] = {
      {"rope", [](NaiveLayer& n) { n.rope = &some_rope(); }},
      {"partial rope", [](NaiveLayer& n) { n.rope = &partial; }},
      {"interleaved rope", [](NaiveLayer& n) { n.rope = &interleaved; }},
      {"partial, interleaved, scaled rope", [](NaiveLayer& n) { n.rope = &scaled; }},
      {"q and k norm of each head",
       [](NaiveLayer& n) {
         n.rope = &some_rope();
         n.q_norm = random_matrix(1, n.head_dim, 31).floats();
         n.k_norm = random_matrix(1, n.head_dim, 32).floats();
       }},
      {"q and k norm over all heads",
       [](NaiveLayer& n) {
         n.q_norm = random_matrix(1, n.head_dim * n.heads, 33).floats();
         n.k_norm = random_matrix(1, n.head_dim * n.kv_heads, 34).floats();
       }},
      {"v norm", [](NaiveLayer& n) { n.v_norm = true; }},
      {"k is v",
       [](NaiveLayer& n) {
         n.k_is_v = n.v_norm = true;
         n.rope = &some_rope();
         n.k_norm = random_matrix(1, n.head_dim, 35).floats();
       }},
      {"narrow v", [](NaiveLayer& n) { n.v_dim = 8; }},
      {"window", [](NaiveLayer& n) { n.window = 7; }},
      {"window of more than a page", [](NaiveLayer& n) { n.window = 37; }},
      {"softcap", [](NaiveLayer& n) { n.softcap = 0.7f; }},
      {"sinks", [](NaiveLayer& n) { n.sinks = {0.5f, -1.0f, 2.0f, 0.0f}; }},
      {"window, softcap and sinks",
       [](NaiveLayer& n) {
         n.window = 20;
         n.softcap = 1.5f;
         n.sinks = {0.5f, -1.0f, 2.0f, 0.0f};
       }},
      {"one key head", [](NaiveLayer& n) { n.kv_heads = 1; }},
      {"a key head for each query head", [](NaiveLayer& n) { n.kv_heads = 4; }},
  };
  for (const Case& c : cases) {
    CAPTURE(c.name);
    NaiveLayer naive;
    c.set(naive);
    Layer layer(naive);
    CHECK(ragged_error(layer) < kTolerance);
    // As on a GPU in `high`.
    Layer rough(
        naive, mlx_backend::make_backend(Precision::kHigh, {.half = true, .fused_attention = true}),
        KvCodec::kF16);
    CHECK(ragged_error(rough) < kHalfTolerance);
  }
}

TEST_CASE("a prompt in chunks gives what it gives whole") {
  Layer layer;
  const std::vector<int32_t> pages = {2, 7, 5};
  CHECK(layer.step({{0, 70, pages}}, {0}) < kTolerance);
  Layer chunked;
  for (int32_t at = 0; at < 70; at += 14) {
    CHECK(chunked.step({{at, 14, pages}}, {0}) < kTolerance);
  }
}

TEST_CASE("tokens of a span see each other both ways, window or not") {
  for (const int window : {0, 4}) {
    CAPTURE(window);
    NaiveLayer naive;
    naive.window = window;
    Layer layer(naive);
    StepOf s = StepOf::rows({{0, 3, {1}}, {0, 36, {2, 3}}});
    s.both_ways = {{8, 20}, {30, 39}};
    CHECK(layer.step(s, {0, 1}) < kTolerance);
    CHECK(layer.step({{3, 1, {1}}, {36, 1, {2, 3}}}, {0, 1}) < kTolerance);
  }
}

TEST_CASE("pages behind the window may be gone") {
  NaiveLayer naive;
  naive.window = 10;
  Layer layer(naive);
  CHECK(layer.step({{0, 75, {6, 2, 4}}}, {0}) < kTolerance);
  CHECK(layer.step({{75, 1, {-1, -1, 4}}}, {0}) < kTolerance);
  CHECK(layer.step({{76, 4, {-1, -1, 4}}, {0, 1, {6}}}, {0, 1}) < kTolerance);
}

TEST_CASE("what another row left in a page does not matter, even if it is not a number") {
  Layer layer;
  StepOf poison = StepOf::rows({{0, 32, {1}}, {0, 32, {2}}});
  poison.with_store(layer.store.get());
  layer.backend->begin_step(poison.step());
  Matrix bad(64, Layer::kWidth);
  for (double& value : bad.values) value = NAN;
  const Tensor in = input(*layer.backend, poison, bad);
  layer.backend->qkv_rope_write(in, layer.qkv, layer.qkv_options, {0, 1}, poison.step());
  CHECK(layer.step({{0, 5, {1}}}, {0}) < kTolerance);
  CHECK(layer.step({{5, 1, {1}}, {0, 1, {2}}}, {0, 1}) < kTolerance);  // decoded together
}

TEST_CASE("halves in the pool cost no more than their rounding") {
  for (const KvCodec codec : {KvCodec::kF16, KvCodec::kBF16}) {
    CAPTURE(kv_codec_name(codec));
    Layer layer(NaiveLayer{}, nullptr, codec);
    const double error = ragged_error(layer);
    CHECK(error < kHalfTolerance);
    CHECK(error > 0);
  }
}
