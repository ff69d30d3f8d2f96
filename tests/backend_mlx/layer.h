// An attention layer on the backend and its plain twin, driven together.
#pragma once

#include <memory>
#include <utility>

#include "backend_mlx/naive_attention.h"
#include "backend_mlx/rig.h"

namespace tandem::test {

// A layer of 4 query and 2 key heads of 16 and its plain twin, driven together.
struct Layer {
  static constexpr int kWidth = 64;
  std::unique_ptr<Backend> backend;
  std::unique_ptr<KvStore> store;
  NaiveLayer naive;
  Weight qkv;
  QkvOptions qkv_options;
  AttentionOptions attention_options;
  uint32_t seed = 100;

  explicit Layer(const NaiveLayer& plain = {}, std::unique_ptr<Backend> made = nullptr,
                 KvCodec codec = KvCodec::kF32)
      : backend(std::move(made)), naive(plain) {
    if (!backend) backend = make_mlx_backend({.precision = Precision::kExact});
    store = backend->make_kv_store({.layers = 2,
                                    .kv_heads = naive.kv_heads,
                                    .k_dim = naive.head_dim,
                                    .v_dim = naive.v_dim,
                                    .base = codec});
    store->grow(KvSection::kMain, 16);
    naive.weight = random_matrix(naive.weight_rows(), kWidth, 50);
    for (double& value : naive.weight.values) value *= 0.5;
    const Stored stored = stored_f32(naive.weight);
    qkv = backend->load(std::span(&stored.matrix, 1));
    set_options();
  }

  void set_options() {
    qkv_options = {.heads = naive.heads,
                   .kv_heads = naive.kv_heads,
                   .head_dim = naive.head_dim,
                   .v_dim = naive.v_dim,
                   .k_is_v = naive.k_is_v,
                   .rope = naive.rope,
                   .v_norm = naive.v_norm,
                   .norm_eps = naive.norm_eps};
    if (!naive.q_norm.empty()) qkv_options.q_norm = backend->load_vector(naive.q_norm);
    if (!naive.k_norm.empty()) qkv_options.k_norm = backend->load_vector(naive.k_norm);
    attention_options = {.heads = naive.heads,
                         .kv_heads = naive.kv_heads,
                         .head_dim = naive.head_dim,
                         .v_dim = naive.v_dim,
                         .scale = naive.scale,
                         .window = naive.window,
                         .softcap = naive.softcap};
    if (!naive.sinks.empty()) attention_options.sinks = backend->load_vector(naive.sinks);
  }

  // One step of the layer on random activations; `names` says which rows of the
  // plain twin the step's rows are.
  double step(StepOf& s, const std::vector<int>& names, int layer = 1) {
    const Matrix x = random_matrix(static_cast<int64_t>(s.tokens.size()), kWidth, seed++);
    backend->begin_step(s.step());
    if (s.step().kv.empty()) s.with_store(store.get());
    const Tensor in = input(*backend, s, x);
    const Tensor q = backend->qkv_rope_write(in, qkv, qkv_options, {0, layer}, s.step());
    const Tensor o = backend->attention(q, {0, layer}, attention_options, s.step());
    const Matrix want = naive.forward(x, s, names);
    return relative_error(backend->read(o), want);
  }

  double step(const std::vector<StepOf::Row>& rows, const std::vector<int>& names) {
    StepOf s = StepOf::rows(rows);
    return step(s, names);
  }
};

}  // namespace tandem::test
