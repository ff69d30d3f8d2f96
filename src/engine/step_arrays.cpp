#include "engine/step_arrays.h"

#include <algorithm>

namespace tandem {

int32_t StepRow::scoring_first() const {
  // The first token is delivered without a score, and each other with that of the one before.
  return std::clamp(row->prompt_delivered - 1 - begin, 0, scoring_end());
}

int32_t StepRow::scoring_end() const {
  if (!row->wants_prompt_logprobs()) return 0;
  // The last prompt token scores no prompt token.
  return std::clamp(row->prompt_length() - 1 - begin, 0, count);
}

const Step& StepArrays::build(std::span<const StepRow> rows, const KvPools& pools) {
  for (auto* array :
       {&tokens_, &positions_, &token_row_, &prompt_length_, &state_slot_, &outputs_}) {
    array->clear();
  }
  row_start_.assign(1, 0);
  for (const StepRow& part : rows) add_row(part);
  add_tables(rows, pools);
  step_ = {};
  step_.tokens = tokens_;
  step_.positions = positions_;
  step_.token_row = token_row_;
  step_.row_start = row_start_;
  step_.prompt_length = prompt_length_;
  if (pools.has_states()) step_.state_slot = state_slot_;
  step_.kv = pools.stores();
  step_.tables = views_;
  step_.states = pools.states();
  step_.outputs = outputs_;
  return step_;
}

void StepArrays::add_row(const StepRow& part) {
  const auto index = static_cast<int32_t>(prompt_length_.size());
  const int32_t first = row_start_.back();
  for (int32_t i = 0; i < part.count; ++i) {
    tokens_.push_back(part.row->tokens[part.begin + i]);
    positions_.push_back(part.begin + i);
    token_row_.push_back(index);
  }
  for (int32_t i = part.scoring_first(); i < part.scoring_end(); ++i) {
    outputs_.push_back(first + i);
  }
  if (part.samples) outputs_.push_back(first + part.count - 1);
  row_start_.push_back(first + part.count);
  prompt_length_.push_back(part.row->prompt_length());
  state_slot_.push_back(part.row->pages.state_slot);
}

void StepArrays::add_tables(std::span<const StepRow> rows, const KvPools& pools) {
  tables_.resize(pools.groups());
  views_.clear();
  for (size_t g = 0; g < tables_.size(); ++g) {
    Table& table = tables_[g];
    table.pages.clear();
    table.row_start.assign(1, 0);
    for (const StepRow& part : rows) {
      const auto pages = part.row->pages.groups[g].pages();
      table.pages.insert(table.pages.end(), pages.begin(), pages.end());
      table.row_start.push_back(static_cast<int32_t>(table.pages.size()));
    }
    views_.push_back({table.pages, table.row_start});
  }
}

}  // namespace tandem
