#include "backend/mlx/recurrent.h"

#include <algorithm>
#include <numeric>

namespace tandem::mlx_backend {
namespace {

mx::array int_array(const std::vector<int32_t>& values) {
  return host_array(values, {dim(static_cast<int64_t>(values.size()))});
}

mx::array columns(const mx::array& x, int64_t begin, int64_t end) {
  return mx::slice(x, {0, dim(begin)}, {x.shape(0), dim(end)});
}

mx::array first_rows(const mx::array& x, int begin, int end) {
  mx::Shape from(x.ndim(), 0), to = x.shape();
  from[0] = begin;
  to[0] = end;
  return mx::slice(x, from, to);
}

// x [n, H * D] -> [n, H * times, D], each head of length 1.
mx::array unit_heads(const mx::array& x, int heads, int times) {
  const mx::array split = mx::reshape(x, {x.shape(0), heads, x.shape(1) / heads});
  const mx::array squares = mx::sum(mx::square(split), -1, true);
  const mx::array unit = mx::multiply(split, mx::rsqrt(mx::add(squares, mx::array(1e-6f))));
  return mx::repeat(unit, times, 1);
}

mx::array softplus(const mx::array& x) { return mx::logaddexp(x, mx::array(0.0f)); }

// One token of some rows. All f32; q, k [a, H, Dk], v [a, H, Dv], g, b [a, H].
mx::array advance(mx::array& state, const mx::array& q, const mx::array& k, const mx::array& v,
                  const mx::array& g, const mx::array& b) {
  const mx::array key = mx::expand_dims(k, -1);
  state = mx::multiply(state, mx::expand_dims(mx::expand_dims(g, -1), -1));
  const mx::array known = mx::sum(mx::multiply(state, key), 2);
  const mx::array change = mx::multiply(mx::subtract(v, known), mx::expand_dims(b, -1));
  state = mx::add(state, mx::multiply(key, mx::expand_dims(change, 2)));
  return mx::sum(mx::multiply(state, mx::expand_dims(q, -1)), 2);
}

}  // namespace

Waves plan_waves(const Step& step) {
  const auto length = [&](int32_t row) { return step.row_start[row + 1] - step.row_start[row]; };
  std::vector<int32_t> rows, slots, order(step.n_tokens());
  for (int32_t row = 0; row < step.n_rows(); ++row) {
    if (length(row) > 0) rows.push_back(row);
  }
  std::ranges::sort(rows, [&](int32_t a, int32_t b) {
    return length(a) != length(b) ? length(a) > length(b) : a < b;
  });
  for (const int32_t row : rows) slots.push_back(step.state_slot[row]);
  std::vector<int> active;
  std::vector<mx::array> tokens;
  int32_t placed = 0;
  for (int32_t i = 0; !rows.empty() && i < length(rows[0]); ++i) {
    std::vector<int32_t> wave;
    for (const int32_t row : rows) {
      if (length(row) <= i) break;
      wave.push_back(step.row_start[row] + i);
      order[wave.back()] = placed++;
    }
    active.push_back(static_cast<int>(wave.size()));
    tokens.push_back(int_array(wave));
  }
  return {int_array(slots), active, tokens, int_array(order)};
}

ConvPlan plan_conv(const Step& step, int width) {
  const int32_t kept = width - 1;
  const auto rows = static_cast<int32_t>(step.n_rows());
  // Input `place` of a row, counted from its first token of the step.
  const auto index = [&](int32_t row, int32_t place) {
    return place < 0 ? row * kept + kept + place : rows * kept + step.row_start[row] + place;
  };
  std::vector<mx::array> taps;
  for (int32_t j = 0; j < width; ++j) {
    std::vector<int32_t> inputs;
    for (int32_t t = 0; t < step.n_tokens(); ++t) {
      const int32_t row = step.token_row[t];
      inputs.push_back(index(row, t - step.row_start[row] - kept + j));
    }
    taps.push_back(int_array(inputs));
  }
  std::vector<int32_t> last;
  for (int32_t row = 0; row < rows; ++row) {
    const int32_t count = step.row_start[row + 1] - step.row_start[row];
    for (int32_t i = 0; i < kept; ++i) last.push_back(index(row, count - kept + i));
  }
  return {int_array({step.state_slot.begin(), step.state_slot.end()}), taps, int_array(last)};
}

mx::array causal_conv(const mx::array& x, const mx::array& taps, const ConvPlan& plan,
                      MlxStateStore& store, int layer) {
  const int channels = x.shape(1), width = static_cast<int>(plan.taps.size());
  const int rows = plan.slots.shape(0), kept = width - 1;
  const mx::array state = mx::reshape(store.conv(layer, plan.slots), {rows * kept, channels});
  const mx::array inputs = mx::concatenate({state, x}, 0);
  const mx::array weights = mx::reshape(taps, {width, channels});
  mx::array y = mx::zeros(x.shape(), mx::float32);
  for (int j = 0; j < width; ++j) {
    y = mx::add(y, mx::multiply(mx::take(inputs, plan.taps[j], 0), first_rows(weights, j, j + 1)));
  }
  store.set_conv(layer, plan.slots,
                 mx::reshape(mx::take(inputs, plan.kept, 0), {rows, kept * channels}));
  return y;
}

mx::array gated_delta(const mx::array& qkv, const mx::array& rest, const DeltaWeights& w,
                      const GatedDeltaOptions& o, const Waves& waves, MlxStateStore& store,
                      int layer) {
  const int64_t k_size = int64_t{o.k_heads} * o.k_dim, v_size = int64_t{o.v_heads} * o.v_dim;
  const int n = qkv.shape(0), shared = o.v_heads / o.k_heads;
  const mx::array scale(1.0f / std::sqrt(static_cast<float>(o.k_dim)));
  const mx::array q = mx::multiply(unit_heads(columns(qkv, 0, k_size), o.k_heads, shared), scale);
  const mx::array k = unit_heads(columns(qkv, k_size, 2 * k_size), o.k_heads, shared);
  const mx::array v = mx::reshape(columns(qkv, 2 * k_size, qkv.shape(1)), {n, o.v_heads, o.v_dim});
  const mx::array z = mx::reshape(columns(rest, 0, v_size), {n, o.v_heads, o.v_dim});
  const mx::array beta = mx::sigmoid(columns(rest, v_size, v_size + o.v_heads));
  const mx::array a = columns(rest, v_size + o.v_heads, v_size + 2 * int64_t{o.v_heads});
  const mx::array g = mx::exp(mx::multiply(w.decay, softplus(mx::add(a, w.bias))));

  const int rows = waves.slots.shape(0);
  mx::array state =
      mx::reshape(store.recurrent(layer, waves.slots), {rows, o.v_heads, o.k_dim, o.v_dim});
  std::vector<mx::array> outputs, ended;  // states of rows that have ended, the last first
  for (size_t i = 0; i < waves.active.size(); ++i) {
    const int active = waves.active[i];
    if (active < state.shape(0)) {
      ended.push_back(first_rows(state, active, state.shape(0)));
      state = first_rows(state, 0, active);
    }
    const mx::array& token = waves.tokens[i];
    outputs.push_back(advance(state, mx::take(q, token, 0), mx::take(k, token, 0),
                              mx::take(v, token, 0), mx::take(g, token, 0),
                              mx::take(beta, token, 0)));
  }
  ended.push_back(state);
  std::ranges::reverse(ended);
  store.set_recurrent(layer, waves.slots, mx::concatenate(ended, 0));
  mx::array y = mx::take(mx::concatenate(outputs, 0), waves.order, 0);
  y = mx::fast::rms_norm(y, w.out_norm, o.norm_eps);
  y = mx::multiply(y, mx::multiply(z, mx::sigmoid(z)));
  return mx::reshape(y, {n, dim(v_size)});
}

}  // namespace tandem::mlx_backend
