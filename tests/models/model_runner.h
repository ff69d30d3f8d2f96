// Runs steps of a model directly, without an engine: the test decides which
// tokens of which rows make up each step.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "models/model.h"
#include "models/registry.h"

namespace tandem {

// A model on a backend, with the checkpoint it came from.
struct TestModel {
  std::unique_ptr<Checkpoint> checkpoint;
  std::unique_ptr<Backend> backend;
  std::unique_ptr<Model> model;
};

TestModel open_test_model(const std::string& path, std::unique_ptr<Backend> backend);

// Tokens that a row adds with one step.
struct Chunk {
  int row = 0;
  std::vector<int32_t> tokens;
};

class ModelRunner {
 public:
  // Every layer's pages in `format` from position `quant_start` on, or in the base codec.
  explicit ModelRunner(const TestModel& test, const std::optional<KvFormat>& format = {},
                       int quant_start = 0);

  // Runs one step and returns the logits of all its tokens, or of none, by row:
  // [tokens of that chunk][vocab_size]. A row's first chunk starts at position 0.
  using Logits = std::vector<std::vector<float>>;
  std::map<int, Logits> step(const std::vector<Chunk>& chunks, bool outputs = true);

  // From position `length` on the row's tokens were generated; without this call
  // they are all of a prompt.
  void end_prompt(int row, int32_t length) { this->row(row).prompt_length = length; }

  // A whole sequence as one row of its own, in chunks of `chunk` tokens.
  Logits run(int row, const std::vector<int32_t>& tokens, size_t chunk, bool outputs = true);

 private:
  struct Row {
    int32_t length = 0;
    int32_t prompt_length = INT32_MAX;
    int32_t state_slot = 0;
    std::vector<std::vector<int32_t>> pages;  // of each group; -1 behind its window
  };

  Row& row(int id);
  void make_room(Row& row, int32_t count);

  const Model& model_;
  Backend& backend_;
  std::vector<std::unique_ptr<KvStore>> stores_;
  std::vector<std::unique_ptr<StateStore>> states_;
  std::vector<int32_t> pages_used_;  // of each group
  std::map<int, Row> rows_;
};

// log softmax of one row of logits, in double.
std::vector<double> log_softmax(const std::vector<float>& logits);

// Index of the largest, the lowest on ties.
int32_t argmax(const std::vector<float>& values);

}  // namespace tandem
