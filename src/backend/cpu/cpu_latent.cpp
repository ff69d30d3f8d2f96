// Multi-head latent attention on the CPU: ordinary attention of all heads over one
// key, whose first part is rotated and whose second is also the value.
#include <cstring>

#include "backend/cpu/cpu_backend.h"
#include "base/error.h"

namespace tandem::cpu {
namespace {

struct CpuHeads final : WeightStorage {
  std::vector<Weight> heads;
};

// Columns of one tensor to columns of another, token by token and head by head.
struct Columns {
  const Tensor& tensor;
  int64_t begin = 0;   // of the first head
  int64_t stride = 0;  // from head to head; 0 = the same for all
};

void copy_columns(const Columns& from, const Columns& to, int64_t heads, int64_t width) {
  for (int64_t t = 0; t < from.tensor.rows; t++) {
    const float* source = activations(from.tensor).floats + t * from.tensor.cols + from.begin;
    float* target = activations(to.tensor).floats + t * to.tensor.cols + to.begin;
    for (int64_t h = 0; h < heads; h++) {
      std::memcpy(target + h * to.stride, source + h * from.stride, sizeof(float) * width);
    }
  }
}

}  // namespace

Weight CpuBackend::load_heads(std::span<const StoredMatrix> heads) {
  INVARIANT(!heads.empty());
  auto all = std::make_shared<CpuHeads>();
  for (const StoredMatrix& head : heads) {
    INVARIANT(head.rows == heads[0].rows && head.cols == heads[0].cols);
    all->heads.push_back(load(std::span(&head, 1), {}));
    INVARIANT(!static_cast<const CpuWeight&>(*all->heads.back().storage).has_quantised);
  }
  return {static_cast<int64_t>(heads.size()) * heads[0].rows, heads[0].cols, std::move(all)};
}

Tensor CpuBackend::by_heads(const Tensor& x, int64_t stride, int64_t begin, const Weight& w) {
  const std::vector<Weight>& heads = static_cast<const CpuHeads&>(*w.storage).heads;
  const auto count = static_cast<int64_t>(heads.size());
  const int64_t n = x.rows, in = w.cols, out = w.rows / count;
  const Tensor own = make_tensor(count * n, in);  // head by head
  for (int64_t h = 0; h < count; h++) {
    for (int64_t t = 0; t < n; t++) {
      std::memcpy(activations(own).floats + (h * n + t) * in,
                  activations(x).floats + t * x.cols + h * stride + begin, sizeof(float) * in);
    }
  }
  const Tensor y = make_tensor(n, w.rows);
  auto* scratch = reinterpret_cast<MatmulScratch*>(matmul_scratch_.data());
  pool_.parallel_for(count, [&](int64_t h, int worker) {
    const CpuWeight& head = static_cast<const CpuWeight&>(*heads[h].storage);
    MatmulArgs args;
    args.units = head.units.data();
    args.columns = in;
    args.exact = true;
    args.floats = activations(own).floats + h * n * in;
    args.epilogue.out = activations(y).floats + h * out;
    args.epilogue.stride = y.cols;
    for (int64_t t = 0; t < n; t += kMatmulTokens) {
      matmul_(args, 0, static_cast<int64_t>(head.units.size()), t,
              std::min<int64_t>(t + kMatmulTokens, n), scratch[worker]);
    }
  });
  return y;
}

Tensor CpuBackend::latent_attention(const Tensor& q, const Tensor& latent, const LatentWeights& w,
                                    const LatentOptions& o, KvRef ref, const Step& step) {
  const int64_t n = q.rows, heads = o.heads, key = o.rope_dim + o.rank;
  const int64_t q_head = o.nope_dim + o.rope_dim;
  INVARIANT(n == step.n_tokens() && q.cols == heads * q_head);
  INVARIANT(latent.rows == n && latent.cols == key);
  INVARIANT(w.key_up.rows == heads * o.rank && w.value_up.rows == heads * o.v_dim);
  const Tensor absorbed = by_heads(q, q_head, 0, w.key_up);
  const Tensor normed =
      norm(columns(latent, 0, o.rank), w.norm, {.eps = o.norm_eps, .for_linear = false}, {});

  const Tensor qkv = make_tensor(n, heads * key + key + o.rank);
  copy_columns({q, o.nope_dim, q_head}, {qkv, 0, key}, heads, o.rope_dim);
  copy_columns({absorbed, 0, o.rank}, {qkv, o.rope_dim, key}, heads, o.rank);
  copy_columns({latent, o.rank}, {qkv, heads * key}, 1, o.rope_dim);
  copy_columns({normed}, {qkv, heads * key + o.rope_dim}, 1, o.rank);
  copy_columns({normed}, {qkv, heads * key + key}, 1, o.rank);
  const QkvOptions written{.heads = o.heads,
                           .kv_heads = 1,
                           .head_dim = static_cast<int>(key),
                           .v_dim = o.rank,
                           .rope = o.rope};
  const AttentionOptions attended{.heads = o.heads,
                                  .kv_heads = 1,
                                  .head_dim = static_cast<int>(key),
                                  .v_dim = o.rank,
                                  .scale = o.scale};
  const Tensor sums = attention(finish_qkv(qkv, written, ref, step), ref, attended, step);
  return by_heads(sums, o.rank, 0, w.value_up);
}

}  // namespace tandem::cpu
