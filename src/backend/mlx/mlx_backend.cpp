#include "backend/mlx/mlx_backend.h"

#include <cmath>
#include <cstdlib>
#include <variant>

#include "backend/mlx/moe.h"

namespace tandem::mlx_backend {
namespace {

const mx::array& array_of(const Tensor& tensor) {
  INVARIANT(tensor.data != nullptr);
  return *static_cast<const mx::array*>(tensor.data);
}

const mx::array& vector_of(const Weight& weight) {
  const MlxWeight& stored = storage(weight);
  INVARIANT(stored.vector.has_value());
  return *stored.vector;
}

std::optional<mx::array> optional_vector(const Weight& weight) {
  if (!weight) return std::nullopt;
  return vector_of(weight);
}

mx::array activated(const mx::array& x, Activation activation) {
  const auto constant = [](float value) { return mx::array(value); };
  switch (activation) {
    case Activation::kSilu: return mx::multiply(x, mx::sigmoid(x));
    case Activation::kGelu: {
      const mx::array erf = mx::erf(mx::multiply(x, constant(std::sqrt(0.5f))));
      return mx::multiply(mx::multiply(x, constant(0.5f)), mx::add(erf, constant(1.0f)));
    }
    case Activation::kGeluTanh: {
      const mx::array cube = mx::multiply(mx::multiply(x, x), x);
      const mx::array inner = mx::add(x, mx::multiply(cube, constant(0.044715f)));
      const mx::array tanh = mx::tanh(mx::multiply(inner, constant(0.7978845608f)));
      return mx::multiply(mx::multiply(x, constant(0.5f)), mx::add(tanh, constant(1.0f)));
    }
    case Activation::kRelu2: return mx::square(mx::maximum(x, constant(0.0f)));
    case Activation::kSigmoid: return mx::sigmoid(x);
  }
  INVARIANT(false);
  return x;
}

mx::array slice_columns(const mx::array& x, int64_t begin, int64_t end) {
  return mx::slice(x, {0, dim(begin)}, {x.shape(0), dim(end)});
}

// [n, heads * width] -> [n, heads, width]
mx::array split_heads(const mx::array& x, int heads) {
  return mx::reshape(x, {x.shape(0), heads, x.shape(1) / heads});
}

// RMS norm of each head, or of all heads together where the weight is that long.
mx::array head_norm(const mx::array& x, const Weight& w, float eps) {
  if (!w) return x;
  if (w.cols == x.shape(2)) return mx::fast::rms_norm(x, vector_of(w), eps);
  const int all = x.shape(1) * x.shape(2);
  INVARIANT(w.cols == all);
  return mx::reshape(mx::fast::rms_norm(mx::reshape(x, {x.shape(0), all}), vector_of(w), eps),
                     x.shape());
}

MlxKvStore& store_of(const Step& step, int group) {
  INVARIANT(group >= 0 && group < static_cast<int>(step.kv.size()));
  auto* store = dynamic_cast<MlxKvStore*>(step.kv[group]);
  INVARIANT(store != nullptr);
  return *store;
}

// x [n, H, in] by each head's own matrix: [n, H, out].
mx::array by_heads(const mx::array& x, const MlxWeight& weight, const Numerics& numerics) {
  INVARIANT(weight.segments.size() == 1 && !weight.segments[0].scales);
  const mx::array& w = weight.segments[0].w;
  const int heads = x.shape(1);
  const mx::array each = mx::reshape(w, {heads, w.shape(0) / heads, w.shape(1)});
  mx::array in = mx::transpose(x, {1, 0, 2});
  if (numerics.half) in = mx::astype(mx::multiply(in, mx::array(kHalfScale)), mx::float16);
  mx::array y = mx::transpose(mx::matmul(in, mx::transpose(each, {0, 2, 1})), {1, 0, 2});
  if (!numerics.half) return y;
  return mx::multiply(mx::astype(y, mx::float32), mx::array(1.0f / kHalfScale));
}

MlxStateStore& states_of(const Step& step, int group) {
  INVARIANT(group >= 0 && group < static_cast<int>(step.states.size()));
  INVARIANT(static_cast<int64_t>(step.state_slot.size()) == step.n_rows());
  auto* store = dynamic_cast<MlxStateStore*>(step.states[group]);
  INVARIANT(store != nullptr);
  return *store;
}

}  // namespace

MlxBackend::MlxBackend(Precision precision, const Numerics& numerics)
    : precision_(precision), numerics_(numerics) {}

std::string MlxBackend::device() const {
  return guarded("device", [] {
    const mx::Device& device = mx::default_device();
    std::string name = device == mx::Device::gpu ? "gpu" : "cpu";
    const auto& info = mx::device_info(device);
    if (const auto it = info.find("device_name"); it != info.end()) {
      if (const auto* text = std::get_if<std::string>(&it->second)) name += " (" + *text + ")";
    }
    return name;
  });
}

// --- Loading ----------------------------------------------------------------

Weight MlxBackend::counted(Weight weight) {
  weight_bytes_ += storage(weight).bytes();
  return weight;
}

Weight MlxBackend::load(std::span<const StoredMatrix> parts, std::span<const float> bias) {
  return guarded("load", [&] { return counted(load_matrix(parts, bias, numerics_)); });
}

Weight MlxBackend::load_gate_up(const StoredMatrix& gate, const StoredMatrix& up,
                                std::span<const float> bias) {
  INVARIANT(gate.rows == up.rows && gate.cols == up.cols);
  const StoredMatrix parts[] = {gate, up};
  return guarded("load_gate_up", [&] { return counted(load_matrix(parts, bias, numerics_)); });
}

Weight MlxBackend::load_experts(std::span<const StoredExpert> experts) {
  return guarded("load_experts", [&] {
    Weight weight = mlx_backend::load_experts(experts, numerics_);
    weight_bytes_ += expert_storage(weight).bytes();
    return weight;
  });
}

Weight MlxBackend::load_heads(std::span<const StoredMatrix> heads) { return load(heads, {}); }

Weight MlxBackend::load_vector(std::span<const float> values) {
  return guarded("load_vector", [&] { return counted(mlx_backend::load_vector(values)); });
}

std::unique_ptr<KvStore> MlxBackend::make_kv_store(const KvSpec& spec) {
  return guarded("make_kv_store", [&] { return std::make_unique<MlxKvStore>(spec, live_); });
}

std::unique_ptr<StateStore> MlxBackend::make_state_store(const StateSpec& spec) {
  return guarded("make_state_store",
                 [&] { return std::make_unique<MlxStateStore>(spec, live_states_); });
}

// --- A step -----------------------------------------------------------------

void MlxBackend::flush(std::vector<mx::array> with) {
  for (const MlxKvStore* store : live_->stores) store->append_pending(with);
  for (const MlxStateStore* store : live_states_->stores) store->append_pending(with);
  if (!with.empty()) mx::eval(std::move(with));
}

void MlxBackend::begin_step(const Step&) {
  guarded("begin_step", [&] { flush({}); });
  arena_.clear();
  rotary_.clear();
  writes_.clear();
  reads_.clear();
  waves_.reset();
  conv_plans_.clear();
}

Tensor MlxBackend::keep(mx::array array) {
  INVARIANT(array.ndim() == 2 && array.dtype() == mx::float32);
  arena_.push_back(std::move(array));
  mx::array& kept = arena_.back();
  return {kept.shape(0), kept.shape(1), &kept};
}

mx::array MlxBackend::product(const Tensor& x, const Weight& w) const {
  INVARIANT(x.cols == w.cols);
  return x.rows == 0 ? no_rows(w.rows) : mlx_backend::multiply(array_of(x), storage(w), numerics_);
}

const RotaryTable& MlxBackend::rotary(const Rope& rope, const Step& step) {
  const auto found = rotary_.find(&rope);
  if (found != rotary_.end()) return found->second;
  return rotary_.emplace(&rope, rotary_table(rope, step.positions)).first->second;
}

const std::vector<WritePlan>& MlxBackend::writes(int group, const Step& step) {
  const auto found = writes_.find(group);
  if (found != writes_.end()) return found->second;
  return writes_.emplace(group, plan_writes(step, group)).first->second;
}

const AttentionPlan& MlxBackend::reads(int group, int window, const Step& step) {
  const auto found = reads_.find({group, window});
  if (found != reads_.end()) return found->second;
  return reads_.emplace(std::pair(group, window), plan_attention(step, group, window))
      .first->second;
}

const Waves& MlxBackend::waves(const Step& step) {
  if (!waves_) waves_ = plan_waves(step);
  return *waves_;
}

const ConvPlan& MlxBackend::conv_plan(int width, const Step& step) {
  const auto found = conv_plans_.find(width);
  if (found != conv_plans_.end()) return found->second;
  return conv_plans_.emplace(width, plan_conv(step, width)).first->second;
}

Tensor MlxBackend::embed(const Weight& table, float scale, const Step& step) {
  std::vector<int32_t> ids(step.tokens.begin(), step.tokens.end());
  for (const int32_t token : step.embedding_token) ids[token] = 0;
  for (const int32_t id : ids) {
    if (id < 0 || id >= table.rows) {
      throw Error(ErrorCode::kInvalid, "[embed] token id must be from 0 to " +
                                           std::to_string(table.rows - 1) + ", got " +
                                           std::to_string(id));
    }
  }
  return guarded("embed", [&] {
    mx::array x = lookup(storage(table), host_array(ids, {dim(step.n_tokens())}));
    if (!step.embedding_token.empty()) {
      const int media = dim(static_cast<int64_t>(step.embedding_token.size()));
      const mx::array rows(step.embeddings.data(), {media, 1, dim(table.cols)});
      x = mx::scatter(x, mx::array(step.embedding_token.data(), {media}), rows, 0);
    }
    return keep(scale == 1.0f ? x : mx::multiply(x, mx::array(scale)));
  });
}

Tensor MlxBackend::norm(const Tensor& x, const Weight& w, const NormOptions& options,
                        const Weight& bias) {
  INVARIANT(w.cols == x.cols);
  return guarded("norm", [&] {
    if (x.rows == 0) return keep(no_rows(x.cols));
    if (options.layer_norm) {
      return keep(
          mx::fast::layer_norm(array_of(x), vector_of(w), optional_vector(bias), options.eps));
    }
    return keep(mx::fast::rms_norm(array_of(x), vector_of(w), options.eps));
  });
}

Tensor MlxBackend::linear(const Tensor& x, const Weight& w, const Tensor& residual, float scale) {
  return guarded("linear", [&] {
    mx::array y = product(x, w);
    if (scale != 1.0f) y = mx::multiply(y, mx::array(scale));
    return keep(residual ? mx::add(array_of(residual), y) : y);
  });
}

void MlxBackend::write_kv(const mx::array& k, const mx::array& v, KvRef kv, const Step& step) {
  MlxKvStore& store = store_of(step, kv.group);
  for (const WritePlan& plan : writes(kv.group, step)) {
    const mx::array own_k = plan.tokens ? mx::take(k, *plan.tokens, 0) : k;
    const mx::array own_v = plan.tokens ? mx::take(v, *plan.tokens, 0) : v;
    store.write(plan.section, kv.layer, plan.page, plan.slot, own_k, own_v);
  }
}

Tensor MlxBackend::qkv_rope_write(const Tensor& x, const Weight& w, const QkvOptions& o, KvRef kv,
                                  const Step& step) {
  const int64_t q_end = int64_t{o.heads} * o.head_dim;
  const int64_t k_end = q_end + int64_t{o.kv_heads} * o.head_dim;
  const int64_t v_end = k_end + int64_t{o.kv_heads} * o.v_dim;
  INVARIANT(w.rows == (o.k_is_v ? k_end : v_end) && (!o.k_is_v || o.v_dim == o.head_dim));
  INVARIANT(x.rows == step.n_tokens());
  return guarded("qkv_rope_write", [&] {
    const mx::array y = product(x, w);
    mx::array q = split_heads(slice_columns(y, 0, q_end), o.heads);
    mx::array k = split_heads(slice_columns(y, q_end, k_end), o.kv_heads);
    mx::array v = o.k_is_v ? k : split_heads(slice_columns(y, k_end, v_end), o.kv_heads);
    q = head_norm(q, o.q_norm, o.norm_eps);
    k = head_norm(k, o.k_norm, o.norm_eps);
    if (o.v_norm) v = mx::fast::rms_norm(v, std::nullopt, o.norm_eps);
    if (o.rope && !o.rope->inv_freq.empty()) {
      const RotaryTable& table = rotary(*o.rope, step);
      q = rotate(q, table, o.rope->interleaved);
      k = rotate(k, table, o.rope->interleaved);
    }
    write_kv(k, v, kv, step);
    return keep(mx::reshape(q, {q.shape(0), dim(q_end)}));
  });
}

Tensor MlxBackend::attention(const Tensor& q, KvRef kv, const AttentionOptions& options,
                             const Step& step) {
  INVARIANT(q.rows == step.n_tokens() && q.cols == int64_t{options.heads} * options.head_dim);
  return guarded("attention", [&] {
    return keep(attend(array_of(q), store_of(step, kv.group), kv.layer, options,
                       optional_vector(options.sinks), reads(kv.group, options.window, step),
                       numerics_));
  });
}

Tensor MlxBackend::gate_up(const Tensor& x, const Weight& w, Activation activation) {
  return guarded("gate_up", [&] {
    const mx::array y = product(x, w);
    const int64_t width = w.rows / 2;
    return keep(mx::multiply(activated(slice_columns(y, 0, width), activation),
                             slice_columns(y, width, 2 * width)));
  });
}

Tensor MlxBackend::moe(const Tensor& x, const MoeWeights& w, const MoeOptions& options,
                       const Tensor& residual) {
  const MlxExperts& all = expert_storage(w.experts);
  INVARIANT(w.router.rows == all.experts && options.top_k >= 1 && options.top_k <= all.experts);
  return guarded("moe", [&] {
    if (x.rows == 0) return keep(no_rows(x.cols));
    const Choice choice = choose(product(x, w.router), optional_vector(w.router_bias), options);
    const auto by = [&](const mx::array& in, const MlxWeight& weight) {
      return multiply_chosen(in, weight, all.experts, choice.experts, numerics_);
    };
    const mx::array gate = activated(by(array_of(x), all.gate), options.activation);
    const mx::array y = by(mx::multiply(gate, by(array_of(x), all.up)), all.down);
    const mx::array sum = mx::sum(mx::multiply(y, mx::expand_dims(choice.weights, -1)), 1);
    return keep(mx::add(array_of(residual), sum));
  });
}

Tensor MlxBackend::gated_delta(const Tensor& x, const GatedDeltaWeights& w,
                               const GatedDeltaOptions& o, KvRef ref, const Step& step) {
  const int64_t channels = o.channels();
  INVARIANT(x.rows == step.n_tokens());
  INVARIANT(x.cols == channels + int64_t{o.v_heads} * (o.v_dim + 2));
  return guarded("gated_delta", [&] {
    if (x.rows == 0) return keep(no_rows(int64_t{o.v_heads} * o.v_dim));
    MlxStateStore& store = states_of(step, ref.group);
    const mx::array qkv = causal_conv(slice_columns(array_of(x), 0, channels), vector_of(w.conv),
                                      conv_plan(o.conv_width, step), store, ref.layer);
    return keep(mlx_backend::gated_delta(
        activated(qkv, Activation::kSilu), slice_columns(array_of(x), channels, x.cols),
        {vector_of(w.decay), vector_of(w.bias), vector_of(w.out_norm)}, o, waves(step), store,
        ref.layer));
  });
}

Tensor MlxBackend::short_conv(const Tensor& x, const Weight& taps, int width, KvRef ref,
                              const Step& step) {
  INVARIANT(x.rows == step.n_tokens() && x.cols % 3 == 0);
  return guarded("short_conv", [&] {
    const int64_t width_of_one = x.cols / 3;
    if (x.rows == 0) return keep(no_rows(width_of_one));
    const mx::array& in = array_of(x);
    const mx::array u = mx::multiply(slice_columns(in, 0, width_of_one),
                                     slice_columns(in, 2 * width_of_one, x.cols));
    const mx::array y = causal_conv(u, vector_of(taps), conv_plan(width, step),
                                    states_of(step, ref.group), ref.layer);
    return keep(mx::multiply(slice_columns(in, width_of_one, 2 * width_of_one), y));
  });
}

// As attention of all heads over one key, the rotated part first.
Tensor MlxBackend::latent_attention(const Tensor& q, const Tensor& latent, const LatentWeights& w,
                                    const LatentOptions& o, KvRef kv, const Step& step) {
  const int key = o.rope_dim + o.rank;
  INVARIANT(q.rows == step.n_tokens() && q.cols == int64_t{o.heads} * (o.nope_dim + o.rope_dim));
  INVARIANT(latent.rows == q.rows && latent.cols == key);
  return guarded("latent_attention", [&] {
    const int n = dim(q.rows);
    if (n == 0) return keep(no_rows(int64_t{o.heads} * o.v_dim));
    const mx::array heads = split_heads(array_of(q), o.heads);
    const auto part = [&](const mx::array& x, int begin, int end) {
      return mx::slice(x, {0, 0, begin}, {n, x.shape(1), end});
    };
    const mx::array absorbed = by_heads(part(heads, 0, o.nope_dim), storage(w.key_up), numerics_);
    const mx::array compressed =
        mx::expand_dims(mx::fast::rms_norm(slice_columns(array_of(latent), 0, o.rank),
                                           vector_of(w.norm), o.norm_eps),
                        1);
    mx::array rotated_q = part(heads, o.nope_dim, heads.shape(2));
    mx::array rotated_k = mx::expand_dims(slice_columns(array_of(latent), o.rank, key), 1);
    if (o.rope) {
      const RotaryTable& table = rotary(*o.rope, step);
      rotated_q = rotate(rotated_q, table, o.rope->interleaved);
      rotated_k = rotate(rotated_k, table, o.rope->interleaved);
    }
    write_kv(mx::concatenate({rotated_k, compressed}, 2), compressed, kv, step);
    const AttentionOptions attended{
        .heads = o.heads, .kv_heads = 1, .head_dim = key, .v_dim = o.rank, .scale = o.scale};
    const mx::array query =
        mx::reshape(mx::concatenate({rotated_q, absorbed}, 2), {n, o.heads * key});
    const mx::array sums = attend(query, store_of(step, kv.group), kv.layer, attended, {},
                                  reads(kv.group, 0, step), numerics_);
    const mx::array out = by_heads(split_heads(sums, o.heads), storage(w.value_up), numerics_);
    return keep(mx::reshape(out, {n, o.heads * o.v_dim}));
  });
}

Tensor MlxBackend::add(const Tensor& a, const Tensor& b) {
  INVARIANT(a.rows == b.rows && a.cols == b.cols);
  return guarded("add", [&] { return keep(mx::add(array_of(a), array_of(b))); });
}

Tensor MlxBackend::multiply(const Tensor& a, const Tensor& b) {
  INVARIANT(a.rows == b.rows && (a.cols == b.cols || b.cols == 1));
  return guarded("multiply", [&] { return keep(mx::multiply(array_of(a), array_of(b))); });
}

Tensor MlxBackend::scale(const Tensor& x, float factor) {
  return guarded("scale", [&] { return keep(mx::multiply(array_of(x), mx::array(factor))); });
}

Tensor MlxBackend::activate(const Tensor& x, Activation activation) {
  return guarded("activate", [&] { return keep(activated(array_of(x), activation)); });
}

Tensor MlxBackend::columns(const Tensor& x, int64_t begin, int64_t end) {
  INVARIANT(begin >= 0 && begin <= end && end <= x.cols);
  return guarded("columns", [&] { return keep(slice_columns(array_of(x), begin, end)); });
}

Tensor MlxBackend::select_outputs(const Tensor& x, const Step& step) {
  return guarded("select_outputs", [&] {
    const int outputs = dim(static_cast<int64_t>(step.outputs.size()));
    if (outputs == 0) return keep(no_rows(x.cols));
    return keep(mx::take(array_of(x), mx::array(step.outputs.data(), {outputs}), 0));
  });
}

Tensor MlxBackend::head(const Tensor& x, const Weight& w, float scale, float softcap) {
  return guarded("head", [&] {
    mx::array logits = product(x, w);
    if (scale != 1.0f) logits = mx::multiply(logits, mx::array(scale));
    if (softcap > 0) {
      const mx::array cap(softcap);
      logits = mx::multiply(mx::tanh(mx::divide(logits, cap)), cap);
    }
    return keep(logits);
  });
}

std::span<const float> MlxBackend::read(const Tensor& x) {
  return guarded("read", [&]() -> std::span<const float> {
    arena_.push_back(mx::contiguous(array_of(x)));
    mx::array& result = arena_.back();
    flush({result});
    return {result.data<float>(), static_cast<size_t>(x.rows * x.cols)};
  });
}

std::unique_ptr<Backend> make_backend(Precision precision, const Numerics& numerics) {
  return std::make_unique<MlxBackend>(precision, numerics);
}

}  // namespace tandem::mlx_backend

namespace tandem {

std::unique_ptr<Backend> make_mlx_backend(const BackendOptions& options) {
  return mlx_backend::guarded("make_mlx_backend", [&]() -> std::unique_ptr<Backend> {
    const bool exact = options.precision == Precision::kExact;
    // MLX multiplies f32 matrices in TF32 on CUDA unless told otherwise before
    // its first product.
    if (exact) setenv("MLX_ENABLE_TF32", "0", 1);
    mlx_backend::Numerics numerics;
    if (mlx_backend::mx::default_device() == mlx_backend::mx::Device::gpu) {
      numerics.half = !exact;
      numerics.expand_from_rows = 8;
      numerics.fused_attention = !exact;
    }
    return mlx_backend::make_backend(options.precision, numerics);
  });
}

}  // namespace tandem
