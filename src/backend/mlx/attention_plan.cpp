#include <algorithm>
#include <numeric>
#include <utility>

#include "backend/mlx/attention.h"

namespace tandem::mlx_backend {
namespace {

// What one row of the step reads.
struct RowSpan {
  int32_t row = 0;
  int32_t token_begin = 0, token_end = 0;
  int32_t first_page = 0;  // in the row's table
  int32_t key_begin = 0;   // first position that any of its tokens sees
  int32_t key_end = 0;     // one past the last

  int32_t tokens() const { return token_end - token_begin; }
  int32_t pages() const { return (key_end + kPageTokens - 1) / kPageTokens - first_page; }
};

RowSpan span_of_row(const Step& step, int32_t row, int window) {
  RowSpan s;
  s.row = row;
  s.token_begin = step.row_start[row];
  s.token_end = step.row_start[row + 1];
  if (s.tokens() == 0) return s;
  const auto positions = step.positions.subspan(s.token_begin, s.tokens());
  const auto [first, last] = std::minmax_element(positions.begin(), positions.end());
  s.key_end = *last + 1;
  s.key_begin = window > 0 ? std::max(0, *first - window + 1) : 0;
  s.first_page = s.key_begin / kPageTokens;
  return s;
}

// The span that attends both ways and holds the token, or none.
const BothWays* both_ways_of(const Step& step, int32_t token) {
  for (const BothWays& span : step.both_ways) {
    if (token >= span.begin && token < span.end) return &span;
  }
  return nullptr;
}

// Whether the token sees the key at `position` of its own row.
bool sees(const Step& step, int32_t token, const BothWays* span, int32_t position, int window) {
  const int32_t own = step.positions[token];
  if (position <= own && (window == 0 || position > own - window)) return true;
  return span && position >= step.positions[span->begin] &&
         position <= step.positions[span->end - 1];
}

bool is_plain_causal(const Step& step, const RowSpan& s, int window) {
  if (window > 0 && s.tokens() > 1 && s.key_end > window) return false;
  for (int32_t t = s.token_begin; t < s.token_end; ++t) {
    if (step.positions[t] != step.positions[s.token_begin] + (t - s.token_begin)) return false;
    if (both_ways_of(step, t)) return false;
  }
  return true;
}

// Ids of pages, and which of them are of the base section.
struct PageIds {
  int base_pages = 0;  // the first pages of each row
  std::vector<int32_t> ids{};
  std::vector<uint8_t> in_base{};
  bool any_in_base = false;
};

PageIds no_pages(const Step& step, int group) {
  const KvSpec& spec = step.kv[group]->spec();
  return {.base_pages = spec.has_base_section() ? spec.quant_start / kPageTokens : 0};
}

// `count` pages, those beyond the row's own filled up with its first one.
void append_pages(const BlockTable& table, const RowSpan& s, int32_t count, PageIds& to) {
  const int32_t* pages = &table.pages[table.row_start[s.row]];
  INVARIANT(s.first_page + s.pages() <= table.row_start[s.row + 1] - table.row_start[s.row]);
  for (int32_t i = 0; i < count; ++i) {
    const int32_t page = s.first_page + (i < s.pages() ? i : 0);
    INVARIANT(pages[page] >= 0);
    to.ids.push_back(pages[page]);
    to.in_base.push_back(page < to.base_pages);
    to.any_in_base |= page < to.base_pages;
  }
}

mx::array int_array(const std::vector<int32_t>& values) {
  return host_array(values, {dim(static_cast<int64_t>(values.size()))});
}

mx::array bool_array(const std::vector<uint8_t>& values, mx::Shape shape) {
  return mx::astype(host_array(values, std::move(shape)), mx::bool_);
}

AttentionBatch make_batch(int rows, int tokens, std::vector<int32_t> tokens_of,
                          const PageIds& pages) {
  AttentionBatch batch{.token_index = int_array(tokens_of), .pages = int_array(pages.ids)};
  if (pages.any_in_base) {
    batch.in_base = bool_array(pages.in_base, {dim(static_cast<int64_t>(pages.ids.size()))});
  }
  batch.rows = rows;
  batch.tokens = tokens;
  batch.tokens_of = std::move(tokens_of);
  return batch;
}

// One row over exactly its keys.
AttentionBatch single_row(const Step& step, int group, const RowSpan& s, int window) {
  std::vector<int32_t> tokens(s.tokens());
  PageIds ids = no_pages(step, group);
  append_pages(step.tables[group], s, s.pages(), ids);
  std::iota(tokens.begin(), tokens.end(), s.token_begin);
  AttentionBatch batch = make_batch(1, s.tokens(), std::move(tokens), ids);
  batch.key_begin = s.key_begin - s.first_page * kPageTokens;
  batch.key_end = s.key_end - s.first_page * kPageTokens;
  batch.causal = is_plain_causal(step, s, window);
  if (batch.causal) return batch;

  const int keys = s.key_end - s.key_begin;
  std::vector<uint8_t> mask(static_cast<size_t>(s.tokens()) * keys);
  for (int32_t t = 0; t < s.tokens(); ++t) {
    const BothWays* span = both_ways_of(step, s.token_begin + t);
    for (int k = 0; k < keys; ++k) {
      mask[static_cast<size_t>(t) * keys + k] =
          sees(step, s.token_begin + t, span, s.key_begin + k, window);
    }
  }
  batch.mask = bool_array(mask, {1, s.tokens(), keys});
  return batch;
}

// Rows of one token each, padded to the pages of the longest with pages of
// their own, which the mask hides.
AttentionBatch decode_rows(const Step& step, int group, std::span<const RowSpan> rows) {
  int32_t pages = 0;
  for (const RowSpan& s : rows) pages = std::max(pages, s.pages());
  const int keys = pages * kPageTokens;
  PageIds ids = no_pages(step, group);
  std::vector<uint8_t> mask;
  std::vector<int32_t> tokens;
  for (const RowSpan& s : rows) {
    append_pages(step.tables[group], s, pages, ids);
    tokens.push_back(s.token_begin);
    for (int k = 0; k < keys; ++k) {
      const int position = s.first_page * kPageTokens + k;
      mask.push_back(position >= s.key_begin && position < s.key_end);
    }
  }
  AttentionBatch batch =
      make_batch(dim(static_cast<int64_t>(rows.size())), 1, std::move(tokens), ids);
  batch.key_end = keys;
  batch.mask = bool_array(mask, {batch.rows, 1, keys});
  batch.written = mx::reshape(*batch.mask, {batch.rows, keys});
  return batch;
}

// Neighbours in length share a batch while padding costs less than a third.
void plan_decode_rows(const Step& step, int group, std::vector<RowSpan>& rows, int window,
                      std::vector<AttentionBatch>& batches) {
  std::sort(rows.begin(), rows.end(), [](const RowSpan& a, const RowSpan& b) {
    return std::pair(a.pages(), a.row) < std::pair(b.pages(), b.row);
  });
  for (size_t begin = 0, end; begin < rows.size(); begin = end) {
    const int32_t limit = rows[begin].pages() + std::max(1, rows[begin].pages() / 3);
    for (end = begin + 1; end < rows.size() && rows[end].pages() <= limit;) ++end;
    if (end - begin == 1) {
      batches.push_back(single_row(step, group, rows[begin], window));
    } else {
      batches.push_back(decode_rows(step, group, std::span(rows).subspan(begin, end - begin)));
    }
  }
}

}  // namespace

std::vector<WritePlan> plan_writes(const Step& step, int group) {
  const BlockTable& table = step.tables[group];
  const KvStore& store = *step.kv[group];
  struct Places {
    std::vector<int32_t> tokens, page, slot;
  };
  Places places[2];
  for (int32_t t = 0; t < step.n_tokens(); ++t) {
    const int32_t row = step.token_row[t], position = step.positions[t];
    const int32_t entry = table.row_start[row] + position / kPageTokens;
    INVARIANT(entry < table.row_start[row + 1] && table.pages[entry] >= 0);
    Places& own = places[static_cast<size_t>(store.section(position))];
    own.tokens.push_back(t);
    own.page.push_back(table.pages[entry]);
    own.slot.push_back(position % kPageTokens);
  }
  std::vector<WritePlan> plans;
  for (const KvSection section : kKvSections) {
    const Places& own = places[static_cast<size_t>(section)];
    if (own.tokens.empty()) continue;
    WritePlan plan{.section = section, .page = int_array(own.page), .slot = int_array(own.slot)};
    if (std::ssize(own.tokens) < step.n_tokens()) plan.tokens = int_array(own.tokens);
    plans.push_back(std::move(plan));
  }
  return plans;
}

AttentionPlan plan_attention(const Step& step, int group, int window) {
  AttentionPlan plan;
  std::vector<RowSpan> decoding;
  for (int32_t row = 0; row < step.n_rows(); ++row) {
    const RowSpan s = span_of_row(step, row, window);
    if (s.tokens() == 1) decoding.push_back(s);
    if (s.tokens() > 1) plan.batches.push_back(single_row(step, group, s, window));
  }
  plan_decode_rows(step, group, decoding, window, plan.batches);

  std::vector<int32_t> order(step.n_tokens());
  int32_t next = 0;
  bool in_order = true;
  for (const AttentionBatch& batch : plan.batches) {
    for (const int32_t token : batch.tokens_of) {
      in_order &= token == next;
      order[token] = next++;
    }
  }
  INVARIANT(next == step.n_tokens());
  if (!in_order || plan.batches.size() > 1) plan.order = int_array(order);
  return plan;
}

}  // namespace tandem::mlx_backend
