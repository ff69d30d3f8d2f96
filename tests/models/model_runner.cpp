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

ModelRunner::ModelRunner(const TestModel& test) : model_(*test.model), backend_(*test.backend) {
  for (KvSpec spec : model_.info().kv_groups) {
    spec.base = backend_.precision() == Precision::kExact ? KvCodec::kF32 : KvCodec::kF16;
    stores_.push_back(backend_.make_kv_store(spec));
  }
}

void ModelRunner::make_room(Row& row, int32_t length) {
  const auto needed = static_cast<size_t>((length + kPageTokens - 1) / kPageTokens);
  while (row.pages.size() < needed) row.pages.push_back(pages_used_++);
  for (auto& store : stores_) {
    if (store->pages(KvSection::kMain) < pages_used_)
      store->grow(KvSection::kMain,
                  std::max<int64_t>(pages_used_, 2 * store->pages(KvSection::kMain)));
  }
}

std::map<int, ModelRunner::Logits> ModelRunner::step(const std::vector<Chunk>& chunks) {
  std::vector<int32_t> tokens, positions, token_row, row_start{0}, prompt_length, outputs, pages,
      page_start{0};
  for (size_t r = 0; r < chunks.size(); ++r) {
    Row& row = rows_[chunks[r].row];
    const auto count = static_cast<int32_t>(chunks[r].tokens.size());
    make_room(row, row.length + count);
    for (int32_t i = 0; i < count; ++i) {
      tokens.push_back(chunks[r].tokens[i]);
      positions.push_back(row.length + i);
      token_row.push_back(static_cast<int32_t>(r));
    }
    row.length += count;
    row_start.push_back(static_cast<int32_t>(tokens.size()));
    prompt_length.push_back(row.length);
    pages.insert(pages.end(), row.pages.begin(), row.pages.end());
    page_start.push_back(static_cast<int32_t>(pages.size()));
  }
  outputs.resize(tokens.size());
  std::iota(outputs.begin(), outputs.end(), 0);

  std::vector<KvStore*> stores;
  for (auto& store : stores_) stores.push_back(store.get());
  const std::vector<BlockTable> tables(stores.size(), BlockTable{pages, page_start});
  Step step{.tokens = tokens,
            .positions = positions,
            .token_row = token_row,
            .row_start = row_start,
            .prompt_length = prompt_length,
            .kv = stores,
            .tables = tables,
            .outputs = outputs};

  backend_.begin_step(step);
  const std::span<const float> flat = backend_.read(model_.forward(backend_, step));
  const auto vocab = static_cast<size_t>(model_.info().vocab_size);
  std::map<int, Logits> logits;
  for (size_t i = 0; i < tokens.size(); ++i) {
    const auto row = flat.subspan(i * vocab, vocab);
    logits[chunks[token_row[i]].row].emplace_back(row.begin(), row.end());
  }
  return logits;
}

ModelRunner::Logits ModelRunner::run(int row, const std::vector<int32_t>& tokens, size_t chunk) {
  Logits all;
  for (size_t begin = 0; begin < tokens.size(); begin += chunk) {
    const size_t end = std::min(tokens.size(), begin + chunk);
    Logits part = step({{row, {tokens.begin() + begin, tokens.begin() + end}}})[row];
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
