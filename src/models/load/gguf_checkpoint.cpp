#include "models/load/gguf_checkpoint.h"

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "models/load/gguf.h"
#include "models/load/gguf_config.h"
#include "models/load/gguf_names.h"
#include "models/load/report.h"
#include "models/load/tensor_table.h"

namespace tandem {
namespace {

// Tensors that a family may leave alone: it asks for them only when its rope
// scaling needs them.
bool may_stay(std::string_view name) {
  return name == "rope_freqs.weight" || name == "rope_factors_long.weight" ||
         name == "rope_factors_short.weight";
}

// A Hugging Face row within a head: half h, pair j. The file has pair j, half h.
std::vector<int32_t> halves_from_pairs(int64_t rows, int64_t heads) {
  std::vector<int32_t> order(static_cast<size_t>(rows));
  int64_t head_dim = rows / heads, pairs = head_dim / 2;
  for (int64_t row = 0; row < rows; row++) {
    int64_t head = row / head_dim, half = row % head_dim / pairs, pair = row % pairs;
    order[static_cast<size_t>(row)] = static_cast<int32_t>(head * head_dim + 2 * pair + half);
  }
  return order;
}

class GgufCheckpoint : public Checkpoint {
 public:
  GgufCheckpoint(FileBytes file, std::string name)
      : file_(std::move(file)), name_(std::move(name)), tensors_(file_.path) {
    GgufFile parsed = parse_gguf(file_);
    refuse_partial(parsed.metadata);
    architecture_ = gguf_architecture(parsed.metadata);
    tokenizer_ = gguf_tokenizer_metadata(parsed.metadata);
    config_ = gguf_config(parsed, tokenizer_);
    for (FileTensor& tensor : parsed.tensors) {
      std::string hf_name = gguf_to_hf_name(tensor.name, architecture_);
      tensors_.add(hf_name, std::move(tensor));
    }
  }

  const std::string& path() const override { return file_.path; }
  const std::string& name() const override { return name_; }
  const nlohmann::json& config() const override { return config_; }
  const nlohmann::json& generation_config() const override { return generation_config_; }
  std::string tokenizer_json() const override { return {}; }
  std::string tokenizer_config_json() const override { return {}; }
  std::string chat_template() const override { return tokenizer_.chat_template; }
  const GgufTokenizer* gguf_tokenizer() const override { return &tokenizer_; }

  bool has(std::string_view name) const override { return tensors_.find(name) != nullptr; }

  StoredMatrix take_matrix(const std::string& base, int64_t rows, int64_t cols) override {
    std::string name = base + ".weight";
    StoredMatrix matrix = as_matrix(path(), take(name, rows, cols), rows, cols);
    if (int64_t heads = heads_permuted(name))
      matrix.row_order = row_order(matrix.name, rows, heads);
    return matrix;
  }

  std::vector<float> take_vector(const std::string& name, int64_t size) override {
    const FileTensor* tensor = tensors_.take(name);
    if (!tensor) tensors_.fail_missing(name, shape_text({size}));
    return floats(name, *tensor, size);
  }

  std::vector<float> take_optional_vector(const std::string& name, int64_t size) override {
    const FileTensor* tensor = tensors_.take(name);
    return tensor ? floats(name, *tensor, size) : std::vector<float>();
  }

  void expect_all_taken() const override {
    std::vector<std::string> names = tensors_.untaken();
    std::erase_if(names, may_stay);
    refuse_unexpected(path(), names);
  }

  int64_t stored_bytes() const override { return tensors_.stored_bytes(); }

 private:
  void refuse_partial(const GgufMetadata& metadata) const {
    int64_t parts = metadata.integer("split.count").value_or(1);
    if (parts > 1) {
      throw Error(ErrorCode::kUnsupported,
                  path() + ": is one of " + std::to_string(parts) +
                      " parts of a split GGUF, which is not supported; merge them into one file");
    }
    std::string type = metadata.text("general.type").value_or("model");
    if (type != "model") {
      throw Error(ErrorCode::kUnsupported,
                  path() + ": general.type is " + quote_name(type) + ", expected 'model'");
    }
  }

  const FileTensor& take(const std::string& name, int64_t rows, int64_t cols) {
    const FileTensor* tensor = tensors_.take(name);
    if (!tensor) tensors_.fail_missing(name, shape_text({rows, cols}));
    return *tensor;
  }

  // Heads whose rows the file permutes in this tensor; 0 for none.
  int64_t heads_permuted(std::string_view name) const {
    if (!gguf_permutes_qk(architecture_)) return 0;
    bool q = name.find(".q_proj.") != std::string_view::npos;
    bool k = name.find(".k_proj.") != std::string_view::npos;
    if (!q && !k) return 0;
    return config_[q ? "num_attention_heads" : "num_key_value_heads"].get<int64_t>();
  }

  std::vector<int32_t> row_order(const std::string& stored_name, int64_t rows,
                                 int64_t heads) const {
    if (heads < 1 || rows % heads != 0 || rows / heads % 2 != 0 || rows > INT32_MAX) {
      fail_load(path(), "tensor " + quote_name(stored_name) + ": " + std::to_string(rows) +
                            " rows cannot be cut into pairs for " + std::to_string(heads) +
                            " heads");
    }
    return halves_from_pairs(rows, heads);
  }

  std::vector<float> floats(const std::string& name, const FileTensor& tensor, int64_t size) const {
    std::vector<float> values = as_floats(path(), tensor, size);
    if (gguf_adds_one_to_norms(architecture_) && name.ends_with("norm.weight")) {
      for (float& value : values) value -= 1.0f;
    }
    int64_t heads = name.ends_with(".bias") ? heads_permuted(name) : 0;
    if (heads == 0) return values;
    std::vector<int32_t> order = row_order(tensor.name, size, heads);
    std::vector<float> reordered;
    for (int32_t stored : order) reordered.push_back(values[static_cast<size_t>(stored)]);
    return reordered;
  }

  FileBytes file_;
  std::string name_;
  std::string architecture_;
  TensorTable tensors_;
  nlohmann::json config_, generation_config_;
  GgufTokenizer tokenizer_;
};

}  // namespace

std::unique_ptr<Checkpoint> make_gguf_checkpoint(FileBytes file, const std::string& name) {
  return std::make_unique<GgufCheckpoint>(std::move(file), name);
}

}  // namespace tandem
