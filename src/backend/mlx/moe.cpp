#include "backend/mlx/moe.h"

#include <limits>

namespace tandem::mlx_backend {
namespace {

mx::array last_columns(const mx::array& x, int begin, int end) {
  mx::Shape from(x.ndim(), 0), to = x.shape();
  from.back() = begin;
  to.back() = end;
  return mx::slice(x, from, to);
}

// Ids of the `count` largest along the last axis; of equals the lower.
mx::array largest(const mx::array& x, int count) {
  return last_columns(mx::argsort(mx::negative(x), -1), 0, count);
}

MlxWeight stacked(const std::vector<StoredMatrix>& parts, const Numerics& numerics) {
  MlxWeight weight = storage(load_matrix(parts, {}, numerics));
  if (weight.segments.size() != 1) {
    throw Error(ErrorCode::kUnsupported, "[load_experts] the experts beside '" + parts[0].name +
                                             "' differ in format; the mlx backend wants one");
  }
  return weight;
}

// -infinity outside the groups that are kept.
mx::array keep_groups(const mx::array& scores, const MoeOptions& o) {
  const int n = scores.shape(0), size = scores.shape(1) / o.groups;
  const mx::array split = mx::reshape(scores, {n, o.groups, size});
  const mx::array best =
      last_columns(mx::sort(split, -1), std::max(0, size - (o.group_by_best ? 1 : 2)), size);
  const mx::array kept =
      mx::reshape(largest(mx::sum(best, -1), o.groups_kept), {n, 1, o.groups_kept});
  const mx::array groups = mx::reshape(mx::arange(o.groups), {1, o.groups, 1});
  const mx::array stays = mx::any(mx::equal(groups, mx::astype(kept, groups.dtype())), -1, true);
  const mx::array never(-std::numeric_limits<float>::infinity());
  return mx::reshape(mx::where(stays, split, never), scores.shape());
}

}  // namespace

Weight load_experts(std::span<const StoredExpert> experts, const Numerics& numerics) {
  INVARIANT(!experts.empty());
  std::vector<StoredMatrix> gate, up, down;
  for (const StoredExpert& expert : experts) {
    gate.push_back(expert.gate);
    up.push_back(expert.up);
    down.push_back(expert.down);
  }
  auto all = std::make_shared<MlxExperts>();
  all->experts = static_cast<int>(experts.size());
  all->gate = stacked(gate, numerics);
  all->up = stacked(up, numerics);
  all->down = stacked(down, numerics);
  return {static_cast<int64_t>(experts.size()), experts[0].gate.cols, all};
}

const MlxExperts& expert_storage(const Weight& weight) {
  const auto* mine = dynamic_cast<const MlxExperts*>(weight.storage.get());
  INVARIANT(mine != nullptr);
  return *mine;
}

Choice choose(const mx::array& logits, const std::optional<mx::array>& bias, const MoeOptions& o) {
  const mx::array scores = o.sigmoid_scores ? mx::sigmoid(logits) : mx::softmax(logits, -1, true);
  mx::array choice = bias ? mx::add(scores, *bias) : scores;
  if (o.groups > 1) choice = keep_groups(choice, o);
  const mx::array experts = mx::astype(mx::sort(largest(choice, o.top_k), -1), mx::int32);
  mx::array weights = mx::take_along_axis(scores, experts, -1);
  if (o.normalize_scores) {
    weights = mx::divide(weights, mx::add(mx::sum(weights, -1, true), mx::array(1e-20f)));
  }
  return {experts, mx::multiply(weights, mx::array(o.score_scale))};
}

mx::array multiply_chosen(const mx::array& x, const MlxWeight& weight, int experts,
                          const mx::array& chosen, const Numerics& numerics) {
  const Segment& s = weight.segments[0];
  const auto split = [&](const mx::array& plane) {
    return mx::reshape(plane, {experts, plane.shape(0) / experts, plane.shape(1)});
  };
  mx::array in = x.ndim() == 2 ? mx::expand_dims(x, 1) : x;  // [n, 1 or top_k, D]
  in = mx::expand_dims(in, 2);
  if (numerics.half) in = mx::astype(mx::multiply(in, mx::array(kHalfScale)), mx::float16);
  mx::array y = s.scales ? mx::gather_qmm(in, split(s.w), split(*s.scales), split(*s.biases), {},
                                          chosen, true, s.group_size, s.bits)
                         : mx::gather_mm(in, mx::transpose(split(s.w), {0, 2, 1}), {}, chosen);
  y = mx::squeeze(y, 2);
  if (!numerics.half) return y;
  return mx::multiply(mx::astype(y, mx::float32), mx::array(1.0f / kHalfScale));
}

}  // namespace tandem::mlx_backend
