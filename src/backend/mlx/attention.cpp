#include "backend/mlx/attention.h"

#include <cmath>
#include <limits>

namespace tandem::mlx_backend {
namespace {

// Pages of a plane, [pages, page, Hkv, dim].
mx::array pages_of(const Plane& plane, const mx::array& ids) {
  std::vector<mx::array> parts;
  for (const mx::array& part : plane.parts) parts.push_back(mx::take(part, ids, 0));
  return decode(parts, plane.format, plane.dim);
}

// Keys or values of a batch, [rows, Hkv, keys, dim].
mx::array gather(const Plane& main, const Plane* base, const AttentionBatch& batch) {
  const int heads = main.parts[0].shape(2), width = main.dim;
  mx::array x = mx::array(0.0f);
  if (!batch.in_base) {
    x = pages_of(main, batch.pages);
  } else if (main.parts[0].shape(0) == 0) {
    x = pages_of(*base, batch.pages);
  } else {
    // Each section has ids of its own; what the other one has at that id is not read.
    const mx::array zero(0, mx::int32);
    const mx::array own = pages_of(main, mx::where(*batch.in_base, zero, batch.pages));
    const mx::array low = pages_of(*base, mx::where(*batch.in_base, batch.pages, zero));
    x = mx::where(mx::reshape(*batch.in_base, {own.shape(0), 1, 1, 1}),
                  mx::astype(low, mx::float32), mx::astype(own, mx::float32));
  }
  const int keys = x.shape(0) / batch.rows * kPageTokens;
  x = mx::reshape(x, {batch.rows, keys, heads, width});
  if (batch.key_begin > 0 || batch.key_end < keys) {
    x = mx::slice(x, {0, batch.key_begin, 0, 0}, {batch.rows, batch.key_end, heads, width});
  }
  return mx::transpose(x, {0, 2, 1, 3});
}

// Lower-right causal mask, bool [1, tokens, keys].
mx::array causal_mask(int tokens, int keys) {
  const mx::array own = mx::reshape(mx::arange(keys - tokens, keys, mx::int32), {1, tokens, 1});
  const mx::array key = mx::reshape(mx::arange(0, keys, mx::int32), {1, 1, keys});
  return mx::greater_equal(own, key);
}

mx::array softmax_with_sinks(const mx::array& scores, const mx::array& sinks) {
  mx::Shape shape = scores.shape();
  shape.back() = 1;
  const mx::array column =
      mx::broadcast_to(mx::reshape(sinks, {1, shape[1], shape[2], 1, 1}), shape);
  const mx::array all = mx::softmax(mx::concatenate({column, scores}, -1), -1, true);
  mx::Shape start(all.ndim(), 0);
  start.back() = 1;
  return mx::slice(all, start, all.shape());
}

// All options, in f32. q [B, H, n, D] scaled, k and v [B, Hkv, keys, *].
mx::array attend_plain(const mx::array& q, const mx::array& k, const mx::array& v,
                       const AttentionOptions& o, const std::optional<mx::array>& sinks,
                       const AttentionBatch& batch) {
  const int rows = batch.rows, n = batch.tokens, keys = k.shape(2);
  const int shared = o.heads / o.kv_heads;  // query heads of one key head
  const mx::array grouped = mx::reshape(q, {rows, o.kv_heads, shared * n, o.head_dim});
  mx::array scores = mx::matmul(grouped, mx::transpose(k, {0, 1, 3, 2}));
  scores = mx::reshape(scores, {rows, o.kv_heads, shared, n, keys});
  if (o.softcap > 0) {
    scores = mx::multiply(mx::tanh(mx::divide(scores, mx::array(o.softcap))), mx::array(o.softcap));
  }
  if (batch.mask || (batch.causal && n > 1)) {
    const mx::array mask = batch.mask ? *batch.mask : causal_mask(n, keys);
    scores = mx::where(mx::reshape(mask, {rows, 1, 1, n, keys}), scores,
                       mx::array(-std::numeric_limits<float>::infinity()));
  }
  mx::array weights = sinks ? softmax_with_sinks(scores, *sinks) : mx::softmax(scores, -1, true);
  weights = mx::reshape(weights, {rows, o.kv_heads, shared * n, keys});
  return mx::reshape(mx::matmul(weights, v), {rows, o.heads, n, o.v_dim});
}

bool fused_fits(const AttentionOptions& o, const AttentionBatch& batch) {
  return o.softcap == 0 && o.head_dim == o.v_dim && !batch.written;
}

mx::array attend_fused(const mx::array& q, const mx::array& k, const mx::array& v,
                       const AttentionOptions& o, const std::optional<mx::array>& sinks,
                       const AttentionBatch& batch) {
  const bool causal = batch.causal && batch.tokens > 1;
  std::optional<mx::array> mask, cast_sinks;
  if (batch.mask) mask = mx::expand_dims(*batch.mask, 1);
  if (sinks) cast_sinks = mx::astype(*sinks, k.dtype());
  const mx::array out =
      mx::fast::scaled_dot_product_attention(mx::astype(q, k.dtype()), k, v, o.scale,
                                             causal ? "causal"
                                             : mask ? "array"
                                                    : "",
                                             mask, cast_sinks);
  return mx::astype(out, mx::float32);
}

// [B * n, H * v_dim] of the batch's tokens in its own order.
mx::array attend_batch(const mx::array& q, const MlxKvStore& store, int layer,
                       const AttentionOptions& o, const std::optional<mx::array>& sinks,
                       const AttentionBatch& batch, const Numerics& numerics) {
  const bool base = store.spec().has_base_section();
  const KvSection main = KvSection::kMain, low = KvSection::kBase;
  const int rows = batch.rows, n = batch.tokens;
  mx::array own = mx::transpose(mx::reshape(q, {rows, n, o.heads, o.head_dim}), {0, 2, 1, 3});
  mx::array k = gather(store.keys(main, layer), base ? &store.keys(low, layer) : nullptr, batch);
  mx::array v =
      gather(store.values(main, layer), base ? &store.values(low, layer) : nullptr, batch);
  mx::array out = own;
  if (numerics.fused_attention && fused_fits(o, batch)) {
    // Decoded keys and values are f32, but know less than a half does.
    const mx::Dtype type = store.spec().quantised() ? mx::float16 : k.dtype();
    out = attend_fused(own, mx::astype(k, type), mx::astype(v, type), o, sinks, batch);
  } else {
    k = mx::astype(k, mx::float32);
    v = mx::astype(v, mx::float32);
    // What lies beyond a row's length belongs to nobody and may be anything.
    if (batch.written) {
      v = mx::where(mx::reshape(*batch.written, {rows, 1, k.shape(2), 1}), v, mx::array(0.0f));
    }
    out = attend_plain(mx::multiply(own, mx::array(o.scale)), k, v, o, sinks, batch);
  }
  return mx::reshape(mx::transpose(out, {0, 2, 1, 3}), {rows * n, o.heads * o.v_dim});
}

}  // namespace

mx::array attend(const mx::array& q, const MlxKvStore& store, int layer,
                 const AttentionOptions& options, const std::optional<mx::array>& sinks,
                 const AttentionPlan& plan, const Numerics& numerics) {
  std::vector<mx::array> outputs;
  for (const AttentionBatch& batch : plan.batches) {
    const mx::array own = plan.order ? mx::take(q, batch.token_index, 0) : q;
    outputs.push_back(attend_batch(own, store, layer, options, sinks, batch, numerics));
  }
  if (outputs.empty()) return no_rows(int64_t{options.heads} * options.v_dim);
  const mx::array joined = outputs.size() == 1 ? outputs[0] : mx::concatenate(outputs, 0);
  return plan.order ? mx::take(joined, *plan.order, 0) : joined;
}

}  // namespace tandem::mlx_backend
