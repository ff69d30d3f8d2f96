// One step of the engine as the ops see it: a flat list of tokens from many
// rows. No batch axis, no padding, no mask; only ops that mix tokens
// (attention, recurrent layers) look at rows at all.
#pragma once

#include <cstdint>
#include <span>

namespace tandem {

class KvStore;
class StateStore;

// Pages of every row in one cache group: row r owns
// pages[row_start[r] .. row_start[r + 1]), the i-th of them holding its
// positions [i * page_tokens, (i + 1) * page_tokens) and counted in the store's
// section of those positions. -1 = freed (behind a window).
struct BlockTable {
  std::span<const int32_t> pages;
  std::span<const int32_t> row_start;  // [rows + 1]
};

// Tokens [begin, end) of the step that attend to each other both ways (an image).
struct BothWays {
  int32_t begin = 0;
  int32_t end = 0;
};

// All spans are borrowed from the engine and live until the step is done.
struct Step {
  // Per token [n]
  std::span<const int32_t> tokens;     // ids
  std::span<const int32_t> positions;  // absolute position in its row
  std::span<const int32_t> token_row;  // which row of the step it belongs to
  std::span<const int32_t> adapter;    // adapter index or -1; empty = no adapters

  // Per row [rows]
  std::span<const int32_t> row_start;      // [rows + 1] first token of each row
  std::span<const int32_t> prompt_length;  // a token at position >= this was generated
  std::span<const int32_t> state_slot;     // slot in each StateStore; empty = none

  // Per cache group
  std::span<KvStore* const> kv;  // null where the group keeps no pages
  std::span<const BlockTable> tables;
  std::span<StateStore* const> states;

  // Tokens of the step whose logits are wanted, ascending [outputs].
  std::span<const int32_t> outputs;

  // Media: rows of `embeddings` [k, D] f32 replace the embedding of the tokens
  // named in embedding_token [k].
  std::span<const float> embeddings;
  std::span<const int32_t> embedding_token;
  std::span<const BothWays> both_ways;

  int64_t n_tokens() const { return static_cast<int64_t>(tokens.size()); }
  int64_t n_rows() const { return static_cast<int64_t>(row_start.size()) - 1; }
};

}  // namespace tandem
