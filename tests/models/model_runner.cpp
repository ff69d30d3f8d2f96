#include "models/model_runner.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace tandem {

TestModel open_test_model(const std::string& path, std::unique_ptr<Backend> backend) {
  TestModel test;
  test.checkpoint = open_checkpoint(path);
  test.backend = std::move(backend);
  test.model = make_model(*test.checkpoint, *test.backend);
  return test;
}

ModelRunner::ModelRunner(const TestModel& test, const std::optional<KvFormat>& format,
                         int quant_start)
    : model_(*test.model), backend_(*test.backend) {
  for (KvSpec spec : model_.info().kv_groups) {
    spec.base = backend_.precision() == Precision::kExact ? KvCodec::kF32 : KvCodec::kF16;
    if (format) spec = with_format(spec, *format);
    spec.quant_start = quant_start;
    stores_.push_back(backend_.make_kv_store(spec));
  }
  for (const StateSpec& spec : model_.info().state_groups) {
    states_.push_back(backend_.make_state_store(spec));
  }
  pages_used_.resize(stores_.size());
}

ModelRunner::Row& ModelRunner::row(int id) {
  const auto [found, fresh] = rows_.try_emplace(id);
  Row& row = found->second;
  if (!fresh) return row;
  row.pages.resize(stores_.size());
  row.state_slot = static_cast<int32_t>(rows_.size()) - 1;
  for (auto& states : states_) {
    if (states->slots() <= row.state_slot) states->grow(2 * row.state_slot + 1);
    states->clear_slot(row.state_slot);
  }
  return row;
}

// Pages for `count` more tokens; those behind a window are taken away, as an
// engine would.
void ModelRunner::make_room(Row& row, int32_t count) {
  const auto needed = static_cast<size_t>((row.length + count + kPageTokens - 1) / kPageTokens);
  for (size_t g = 0; g < stores_.size(); ++g) {
    std::vector<int32_t>& pages = row.pages[g];
    while (pages.size() < needed) pages.push_back(pages_used_[g]++);
    for (const KvSection section : kKvSections) {  // the same ids in both
      if (section == KvSection::kBase && !stores_[g]->spec().has_base_section()) continue;
      const int64_t now = stores_[g]->pages(section);
      if (now < pages_used_[g])
        stores_[g]->grow(section, std::max<int64_t>(pages_used_[g], 2 * now));
    }
    const int window = stores_[g]->spec().window;
    const int behind = window > 0 ? std::max(0, row.length - window + 1) / kPageTokens : 0;
    std::fill_n(pages.begin(), std::min<size_t>(behind, pages.size()), -1);
  }
}

std::map<int, ModelRunner::Logits> ModelRunner::step(const std::vector<Chunk>& chunks,
                                                     bool all_outputs) {
  std::vector<int32_t> tokens, positions, token_row, row_start{0}, prompt_length, slots, outputs;
  std::vector<std::vector<int32_t>> pages(stores_.size()), page_start(stores_.size(), {0});
  for (size_t r = 0; r < chunks.size(); ++r) {
    Row& row = this->row(chunks[r].row);
    const auto count = static_cast<int32_t>(chunks[r].tokens.size());
    make_room(row, count);
    for (int32_t i = 0; i < count; ++i) {
      tokens.push_back(chunks[r].tokens[i]);
      positions.push_back(row.length + i);
      token_row.push_back(static_cast<int32_t>(r));
    }
    row.length += count;
    row_start.push_back(static_cast<int32_t>(tokens.size()));
    prompt_length.push_back(std::min(row.prompt_length, row.length));
    slots.push_back(row.state_slot);
    for (size_t g = 0; g < stores_.size(); ++g) {
      pages[g].insert(pages[g].end(), row.pages[g].begin(), row.pages[g].end());
      page_start[g].push_back(static_cast<int32_t>(pages[g].size()));
    }
  }
  if (all_outputs) {
    outputs.resize(tokens.size());
    std::iota(outputs.begin(), outputs.end(), 0);
  }

  std::vector<KvStore*> stores;
  std::vector<StateStore*> states;
  std::vector<BlockTable> tables;
  for (auto& store : stores_) stores.push_back(store.get());
  for (auto& state : states_) states.push_back(state.get());
  for (size_t g = 0; g < stores_.size(); ++g) tables.push_back({pages[g], page_start[g]});
  Step step{.tokens = tokens,
            .positions = positions,
            .token_row = token_row,
            .row_start = row_start,
            .prompt_length = prompt_length,
            .state_slot = slots,
            .kv = stores,
            .tables = tables,
            .states = states,
            .outputs = outputs};

  backend_.begin_step(step);
  const std::span<const float> flat = backend_.read(model_.forward(backend_, step));
  const auto vocab = static_cast<size_t>(model_.info().vocab_size);
  std::map<int, Logits> logits;
  for (size_t i = 0; i < outputs.size(); ++i) {
    const auto row = flat.subspan(i * vocab, vocab);
    logits[chunks[token_row[i]].row].emplace_back(row.begin(), row.end());
  }
  return logits;
}

ModelRunner::Logits ModelRunner::run(int row, const std::vector<int32_t>& tokens, size_t chunk,
                                     bool outputs) {
  Logits all;
  for (size_t begin = 0; begin < tokens.size(); begin += chunk) {
    const size_t end = std::min(tokens.size(), begin + chunk);
    Logits part = step({{row, {tokens.begin() + begin, tokens.begin() + end}}}, outputs)[row];
    std::ranges::move(part, std::back_inserter(all));
  }
  return all;
}

std::vector<double> log_softmax(const std::vector<float>& logits) {
  const double top = *std::ranges::max_element(logits);
  double sum = 0;
  for (float x : logits) sum += std::exp(x - top);
  std::vector<double> out(logits.begin(), logits.end());
  for (double& x : out) x -= top + std::log(sum);
  return out;
}

int32_t argmax(const std::vector<float>& values) {
  return static_cast<int32_t>(std::ranges::max_element(values) - values.begin());
}

}  // namespace tandem
