#include "load/builders.h"

#include <cstdlib>
#include <cstring>
#include <fstream>

#include "models/load/gguf_checkpoint.h"
#include "models/load/safetensors_checkpoint.h"

namespace tandem::test {

namespace {

constexpr size_t kAlignment = 32;

size_t aligned(size_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

}  // namespace

FileBytes file_of(const std::string& bytes, const std::string& path) {
  std::shared_ptr<std::byte[]> block(new std::byte[bytes.size()]);
  std::memcpy(block.get(), bytes.data(), bytes.size());
  return {path, {block.get(), bytes.size()}, block};
}

GgufBuilder& GgufBuilder::value(std::string_view key, uint32_t type, std::string_view bytes) {
  keys_++;
  metadata_ += Bytes().string(key).number(type).raw(bytes).text();
  return *this;
}

GgufBuilder& GgufBuilder::text(std::string_view key, std::string_view content) {
  return value(key, 8, Bytes().string(content).text());
}

GgufBuilder& GgufBuilder::u32(std::string_view key, uint32_t number) {
  return value(key, 4, Bytes().number(number).text());
}

GgufBuilder& GgufBuilder::f32(std::string_view key, float number) {
  return value(key, 6, Bytes().number(number).text());
}

GgufBuilder& GgufBuilder::flag(std::string_view key, bool on) {
  return value(key, 7, Bytes().number<uint8_t>(on).text());
}

GgufBuilder& GgufBuilder::texts(std::string_view key, const std::vector<std::string>& values) {
  Bytes array;
  array.number<uint32_t>(8).number<uint64_t>(values.size());
  for (const auto& item : values) array.string(item);
  return value(key, 9, array.text());
}

GgufBuilder& GgufBuilder::tensor(std::string_view name, const std::vector<uint64_t>& dims,
                                 uint32_t type, std::string_view data) {
  Bytes description;
  description.string(name).number<uint32_t>(static_cast<uint32_t>(dims.size()));
  for (uint64_t extent : dims) description.number(extent);
  description.number(type);
  tensors_.push_back({description.text(), std::string(data)});
  return *this;
}

GgufBuilder& GgufBuilder::floats(std::string_view name, const std::vector<uint64_t>& dims,
                                 const std::vector<float>& values) {
  return tensor(name, dims, 0, bytes_of(values));
}

std::string GgufBuilder::bytes() const {
  Bytes file;
  file.raw("GGUF").number<uint32_t>(3).number<uint64_t>(tensors_.size()).number(keys_);
  file.raw(metadata_);
  uint64_t offset = 0;
  for (const auto& tensor : tensors_) {
    file.raw(tensor.description).number(offset);
    offset += aligned(tensor.data.size());
  }
  file.zeros(aligned(file.text().size()) - file.text().size());
  for (const auto& tensor : tensors_) {
    file.raw(tensor.data).zeros(aligned(tensor.data.size()) - tensor.data.size());
  }
  return file.text();
}

std::unique_ptr<Checkpoint> GgufBuilder::open() const {
  return make_gguf_checkpoint(file_of(bytes()), "m");
}

GgufBuilder tiny_llama_gguf(std::string_view architecture) {
  GgufBuilder file(architecture);
  auto key = [&](const char* name) { return std::string(architecture) + "." + name; };
  file.u32(key("embedding_length"), 8).u32(key("block_count"), 1);
  file.u32(key("feed_forward_length"), 8).u32(key("context_length"), 64);
  file.u32(key("attention.head_count"), 2).u32(key("attention.head_count_kv"), 1);
  file.f32(key("attention.layer_norm_rms_epsilon"), 1e-5f).f32(key("rope.freq_base"), 10000.0f);
  file.floats("token_embd.weight", {8, 4}, counting(32))
      .floats("output_norm.weight", {8}, counting(8));
  file.floats("blk.0.attn_norm.weight", {8}, counting(8));
  file.floats("blk.0.ffn_norm.weight", {8}, counting(8));
  for (const char* name : {"attn_q", "attn_output", "ffn_gate", "ffn_up", "ffn_down"}) {
    file.floats("blk.0." + std::string(name) + ".weight", {8, 8}, counting(64));
  }
  for (const char* name : {"attn_k", "attn_v"}) {
    file.floats("blk.0." + std::string(name) + ".weight", {8, 4}, counting(32));
  }
  return file;
}

SafetensorsBuilder& SafetensorsBuilder::tensor(const std::string& name, const std::string& dtype,
                                               const std::vector<int64_t>& shape,
                                               std::string_view data) {
  header_[name] = {{"dtype", dtype},
                   {"shape", shape},
                   {"data_offsets", {data_.size(), data_.size() + data.size()}}};
  data_ += data;
  return *this;
}

SafetensorsBuilder& SafetensorsBuilder::floats(const std::string& name,
                                               const std::vector<int64_t>& shape,
                                               const std::vector<float>& values) {
  return tensor(name, "F32", shape, bytes_of(values));
}

std::string SafetensorsBuilder::bytes() const { return safetensors_bytes(header_.dump(), data_); }

std::string safetensors_bytes(std::string_view header, std::string_view data) {
  return Bytes().string(header).raw(data).text();
}

std::unique_ptr<Checkpoint> open_safetensors(const std::string& shard, const nlohmann::json& config,
                                             const std::string& tokenizer_config,
                                             const std::string& chat_template) {
  SafetensorsFiles files;
  files.path = "m";
  files.name = "m";
  files.config = config.dump();
  files.tokenizer_config = tokenizer_config;
  files.chat_template = chat_template;
  files.shards.push_back(file_of(shard, "m/model.safetensors"));
  return make_safetensors_checkpoint(std::move(files));
}

std::string bytes_of(const std::vector<float>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float)};
}

std::vector<float> counting(size_t count) {
  std::vector<float> values;
  for (size_t i = 0; i < count; i++) values.push_back(static_cast<float>(i));
  return values;
}

std::vector<float> dequantized(const StoredMatrix& matrix) {
  std::vector<float> values(static_cast<size_t>(matrix.rows * matrix.cols));
  for (int64_t row = 0; row < matrix.rows; row++) {
    dequantize_row(matrix, row, values.data() + row * matrix.cols);
  }
  return values;
}

TemporaryFolder::TemporaryFolder() {
  std::string name = (std::filesystem::temp_directory_path() / "tandem-test-XXXXXX").string();
  path_ = ::mkdtemp(name.data());
}

TemporaryFolder::~TemporaryFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

std::string TemporaryFolder::write(const std::string& name, std::string_view content) const {
  std::filesystem::path file = path_ / name;
  std::filesystem::create_directories(file.parent_path());
  std::ofstream(file, std::ios::binary) << content;
  return file.string();
}

Environment::Environment(const char* name, const std::optional<std::string>& value) : name_(name) {
  if (const char* before = std::getenv(name)) before_ = before;
  value ? ::setenv(name, value->c_str(), 1) : ::unsetenv(name);
}

Environment::~Environment() {
  before_ ? ::setenv(name_.c_str(), before_->c_str(), 1) : ::unsetenv(name_.c_str());
}

}  // namespace tandem::test
