// The ops of CpuBackend that know rows, positions and pages.
#include <algorithm>
#include <cmath>
#include <string>

#include "backend/cpu/cpu_backend.h"
#include "base/error.h"

namespace tandem::cpu {
namespace {

const float* vector_or_null(const Weight& w) {
  return w ? static_cast<const CpuWeight&>(*w.storage).vector.data() : nullptr;
}

KvLayer kv_of(KvRef ref, const Step& step) {
  INVARIANT(step.kv[ref.group] != nullptr);
  return static_cast<const CpuKvStore*>(step.kv[ref.group])->layer(ref.layer);
}

// Whether a q or k norm's weight spans all heads; else it must span one.
bool norm_is_whole(const Weight& norm, int64_t heads, int64_t dim) {
  if (!norm || norm.cols == dim) return false;
  INVARIANT(norm.cols == heads * dim);
  return true;
}

}  // namespace

const CpuBackend::Angles& CpuBackend::angles(const Rope& rope, const Step& step) {
  for (const Angles& angles : angles_) {
    if (angles.rope == &rope) return angles;
  }
  const int64_t half = static_cast<int64_t>(rope.inv_freq.size());
  const int64_t n = step.n_tokens();
  Angles& angles = angles_.emplace_back();
  angles.rope = &rope;
  angles.cos = arena_->take<float>(n * half);
  angles.sin = arena_->take<float>(n * half);
  for_rows(n, n * half * 16, [&](int64_t begin, int64_t end, int) {
    for (int64_t i = begin * half; i < end * half; i++) {
      const float angle = static_cast<float>(step.positions[i / half]) * rope.inv_freq[i % half];
      angles.cos[i] = std::cos(angle) * rope.cos_sin_scale;
      angles.sin[i] = std::sin(angle) * rope.cos_sin_scale;
    }
  });
  return angles;
}

const CpuBackend::Visible& CpuBackend::visible(int window, const Step& step) {
  for (const Visible& visible : visible_) {
    if (visible.window == window) return visible;
  }
  const int64_t n = step.n_tokens();
  Visible& visible = visible_.emplace_back();
  visible.window = window;
  visible.begin = arena_->take<int32_t>(n);
  visible.end = arena_->take<int32_t>(n);
  for (int64_t t = 0; t < n; t++) {
    const int32_t position = step.positions[t];
    visible.end[t] = position + 1;
    visible.begin[t] = window > 0 ? std::max(0, position + 1 - window) : 0;
  }
  for (const BothWays& span : step.both_ways) {
    for (int32_t t = span.begin; t < span.end; t++) {
      visible.begin[t] = std::min(visible.begin[t], step.positions[span.begin]);
      visible.end[t] = std::max(visible.end[t], step.positions[span.end - 1] + 1);
    }
  }
  return visible;
}

const CpuBackend::Places& CpuBackend::places(int group, const Step& step) {
  for (const Places& places : places_) {
    if (places.group == group) return places;
  }
  const int64_t n = step.n_tokens();
  const BlockTable& table = step.tables[group];
  const KvStore& store = *step.kv[group];
  Places& places = places_.emplace_back();
  places.group = group;
  places.page = arena_->take<int32_t>(n);
  for (int64_t t = 0; t < n; t++) {
    const int32_t position = step.positions[t];
    const int32_t page = table.pages[table.row_start[step.token_row[t]] + position / kPageTokens];
    INVARIANT(page >= 0 && page < store.pages(store.section(position)));
    places.page[t] = page;
  }
  return places;
}

Tensor CpuBackend::qkv_rope_write(const Tensor& x, const Weight& w, const QkvOptions& o, KvRef ref,
                                  const Step& step) {
  const int64_t n = x.rows;
  const int64_t q_size = int64_t{o.heads} * o.head_dim;
  const int64_t k_size = int64_t{o.kv_heads} * o.head_dim;
  const int64_t v_size = int64_t{o.kv_heads} * o.v_dim;
  INVARIANT(n == step.n_tokens());
  INVARIANT(w.rows == q_size + k_size + (o.k_is_v ? 0 : v_size));
  INVARIANT(!o.k_is_v || o.v_dim == o.head_dim);
  return finish_qkv(linear(x, w, {}, 1.0f), o, ref, step);
}

Tensor CpuBackend::finish_qkv(const Tensor& qkv, const QkvOptions& o, KvRef ref, const Step& step) {
  const int64_t n = qkv.rows;
  const int64_t q_size = int64_t{o.heads} * o.head_dim;
  const int64_t k_size = int64_t{o.kv_heads} * o.head_dim;
  const int64_t v_size = int64_t{o.kv_heads} * o.v_dim;
  const Tensor q = make_tensor(qkv, q_size);

  QkvArgs args;
  args.options = &o;
  args.qkv = activations(qkv).floats;
  args.stride = qkv.cols;
  args.q_norm = vector_or_null(o.q_norm);
  args.k_norm = vector_or_null(o.k_norm);
  args.q_norm_whole = norm_is_whole(o.q_norm, o.heads, o.head_dim);
  args.k_norm_whole = norm_is_whole(o.k_norm, o.kv_heads, o.head_dim);
  if (o.rope && !o.rope->inv_freq.empty()) {
    const Angles& found = angles(*o.rope, step);
    args.cos = found.cos;
    args.sin = found.sin;
    args.rope_half = static_cast<int64_t>(o.rope->inv_freq.size());
    INVARIANT(2 * args.rope_half <= o.head_dim);
  }
  args.kv = kv_of(ref, step);
  args.page = places(ref.group, step).page;
  args.position = step.positions.data();
  args.q = activations(q).floats;
  const int64_t floats = q_size + k_size + v_size;
  reserve_worker_floats(floats);
  for_rows(n, n * floats, [&](int64_t begin, int64_t end, int worker) {
    rows_.finish_qkv(args, begin, end, worker_floats(worker));
  });
  return q;
}

int64_t CpuBackend::tokens_on_tiles(const Step& step, int64_t row) const {
  if (step.prompt_length.empty()) return 0;
  const int64_t begin = step.row_start[row];
  const int64_t count = step.row_start[row + 1] - begin;
  if (count == 0) return 0;
  return std::clamp<int64_t>(step.prompt_length[row] - step.positions[begin], 0, count);
}

// Cuts the step into blocks of queries: of one row, of one key/value head.
std::vector<AttentionBlock> CpuBackend::attention_blocks(const AttentionOptions& o,
                                                         const BlockTable& table, const Step& step,
                                                         int64_t queries, bool on_tiles) const {
  const int64_t group = o.heads / o.kv_heads;
  const int64_t heads = std::min(group, queries);
  const int64_t tokens = queries / heads;
  std::vector<AttentionBlock> blocks;
  for (int64_t row = 0; row < step.n_rows(); row++) {
    const int64_t cut = step.row_start[row] + (attend_on_tiles_ ? tokens_on_tiles(step, row) : 0);
    const int64_t row_begin = on_tiles ? step.row_start[row] : cut;
    const int64_t row_end = on_tiles ? cut : step.row_start[row + 1];
    // The last tokens see most keys: first, so that the end evens out.
    for (int64_t end = row_end; end > row_begin; end -= std::min(tokens, end - row_begin)) {
      const int64_t begin = std::max(row_begin, end - tokens);
      for (int64_t head = 0; head < o.heads; head++) {
        const int64_t within = head % group;
        if (within % heads != 0) continue;
        blocks.push_back({table.pages.data() + table.row_start[row], begin, end - begin, head,
                          std::min(heads, group - within)});
      }
    }
  }
  return blocks;
}

Tensor CpuBackend::attention(const Tensor& q, KvRef ref, const AttentionOptions& o,
                             const Step& step) {
  INVARIANT(q.cols == int64_t{o.heads} * o.head_dim && o.heads % o.kv_heads == 0);
  const Tensor out = make_tensor(q, int64_t{o.heads} * o.v_dim);
  AttentionArgs args;
  args.q = activations(q).floats;
  args.out = activations(out).floats;
  args.heads = o.heads;
  args.kv_heads = o.kv_heads;
  args.head_dim = o.head_dim;
  args.v_dim = o.v_dim;
  args.scale = o.scale;
  args.softcap = o.softcap;
  args.sinks = vector_or_null(o.sinks);
  args.kv = kv_of(ref, step);
  const Visible& seen = visible(o.window, step);
  args.key_begin = seen.begin;
  args.key_end = seen.end;
  reserve_worker_floats(attention_scratch_floats(o.head_dim, o.v_dim));
  const BlockTable& table = step.tables[ref.group];
  attend_on_tiles_ =
      prompt_ && prompt_attention_ && activations(q).per_token && prompt_attention_fits(args);
  if (attend_on_tiles_) {
    reserve_worker_floats(prompt_attention_floats(o.head_dim, o.v_dim));
    const auto prompts = attention_blocks(o, table, step, kPromptQueries, true);
    pool_.parallel_for(static_cast<int64_t>(prompts.size()), [&](int64_t i, int worker) {
      prompt_attention_(args, prompts[i], worker_floats(worker));
    });
  }
  const auto blocks = attention_blocks(o, table, step, kBlockQueries, false);
  if (blocks.empty()) return out;
  // Long rows one by one leave threads idle unless their keys are shared out.
  const bool few = static_cast<int64_t>(blocks.size()) < 4 * int64_t{pool_.threads()};
  few ? attend_in_partitions(args, blocks) : attend_in_blocks(args, blocks);
  return out;
}

void CpuBackend::attend_in_blocks(const AttentionArgs& args,
                                  const std::vector<AttentionBlock>& blocks) {
  pool_.parallel_for(static_cast<int64_t>(blocks.size()), [&](int64_t i, int worker) {
    attention_.block(args, blocks[i], worker_floats(worker));
  });
}

void CpuBackend::attend_in_partitions(const AttentionArgs& args,
                                      const std::vector<AttentionBlock>& blocks) {
  struct Part {
    size_t block;
    int64_t partition;
    float* states;
  };
  struct Span {
    float* states;
    int64_t count;   // partitions
    int64_t floats;  // of one
  };
  const int64_t stride = state_floats(args.v_dim);
  std::vector<Part> parts;
  std::vector<Span> spans;
  for (size_t i = 0; i < blocks.size(); i++) {
    const AttentionBlock& block = blocks[i];
    int64_t begin = args.key_begin[block.token];
    int64_t end = args.key_end[block.token];
    for (int64_t t = block.token; t < block.token + block.tokens; t++) {
      begin = std::min<int64_t>(begin, args.key_begin[t]);
      end = std::max<int64_t>(end, args.key_end[t]);
    }
    const int64_t first = begin / kPartitionKeys;
    const int64_t count = (end + kPartitionKeys - 1) / kPartitionKeys - first;
    const int64_t floats = block.tokens * block.heads * stride;
    float* states = arena_->take<float>(count * floats);
    for (int64_t p = 0; p < count; p++) parts.push_back({i, first + p, states + p * floats});
    spans.push_back({states, count, floats});
  }
  pool_.parallel_for(static_cast<int64_t>(parts.size()), [&](int64_t i, int worker) {
    attention_.partition(args, blocks[parts[i].block], parts[i].partition, worker_floats(worker),
                         parts[i].states);
  });
  for (size_t i = 0; i < blocks.size(); i++) {
    attention_.merge(args, blocks[i], spans[i].count, spans[i].states);
    arena_->give_back(spans[i].states, spans[i].count * spans[i].floats);
  }
}

}  // namespace tandem::cpu
