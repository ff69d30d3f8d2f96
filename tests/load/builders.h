// Model files made in memory, right or wrong in any field.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "models/load/checkpoint.h"
#include "models/load/mapped_file.h"

namespace tandem::test {

// Little-endian bytes, one after another.
class Bytes {
 public:
  template <typename T>
  Bytes& number(T value) {
    text_.append(reinterpret_cast<const char*>(&value), sizeof value);
    return *this;
  }
  Bytes& raw(std::string_view text) {
    text_ += text;
    return *this;
  }
  Bytes& zeros(size_t count) {
    text_.append(count, '\0');
    return *this;
  }
  Bytes& string(std::string_view text) { return number<uint64_t>(text.size()).raw(text); }

  const std::string& text() const { return text_; }

 private:
  std::string text_;
};

// Copies the bytes to a block of exactly their size, so that a sanitizer sees
// every read outside it.
FileBytes file_of(const std::string& bytes, const std::string& path = "m.gguf");

// A GGUF file. Every tensor's data is given; offsets are filled in.
class GgufBuilder {
 public:
  explicit GgufBuilder(std::string_view architecture = "llama") {
    text("general.architecture", architecture);
  }

  GgufBuilder& text(std::string_view key, std::string_view value);
  GgufBuilder& u32(std::string_view key, uint32_t value);
  GgufBuilder& f32(std::string_view key, float value);
  GgufBuilder& flag(std::string_view key, bool value);
  GgufBuilder& texts(std::string_view key, const std::vector<std::string>& values);
  // Type number and value as given.
  GgufBuilder& value(std::string_view key, uint32_t type, std::string_view bytes);
  // dims innermost first, as in the file.
  GgufBuilder& tensor(std::string_view name, const std::vector<uint64_t>& dims, uint32_t type,
                      std::string_view data);
  GgufBuilder& floats(std::string_view name, const std::vector<uint64_t>& dims,
                      const std::vector<float>& values);

  std::string bytes() const;
  std::unique_ptr<Checkpoint> open() const;

 private:
  struct Tensor {
    std::string description;  // up to the offset
    std::string data;
  };

  std::string metadata_;
  uint64_t keys_ = 0;
  std::vector<Tensor> tensors_;
};

// A one-layer Llama: hidden 8, 2 heads of 4, 1 key/value head, inner 8,
// vocabulary 4; all weights f32 and tensor `t` counting up from 0.
GgufBuilder tiny_llama_gguf(std::string_view architecture = "llama");

// A safetensors file.
class SafetensorsBuilder {
 public:
  SafetensorsBuilder& tensor(const std::string& name, const std::string& dtype,
                             const std::vector<int64_t>& shape, std::string_view data);
  SafetensorsBuilder& floats(const std::string& name, const std::vector<int64_t>& shape,
                             const std::vector<float>& values);
  std::string bytes() const;

 private:
  nlohmann::json header_ = nlohmann::json::object();
  std::string data_;
};

std::string safetensors_bytes(std::string_view header, std::string_view data);

// A checkpoint of one shard in memory.
std::unique_ptr<Checkpoint> open_safetensors(const std::string& shard, const nlohmann::json& config,
                                             const std::string& tokenizer_config = {},
                                             const std::string& chat_template = {});

std::string bytes_of(const std::vector<float>& values);
std::vector<float> counting(size_t count);  // 0, 1, 2, ...

// All rows of a matrix.
std::vector<float> dequantized(const StoredMatrix& matrix);

// What the error says; "" when nothing is thrown.
template <typename Action>
std::string error_of(Action action) {
  try {
    action();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

// An empty folder that goes with the object.
class TemporaryFolder {
 public:
  TemporaryFolder();
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }
  std::string write(const std::string& name, std::string_view content) const;  // full path

 private:
  std::filesystem::path path_;
};

// Sets an environment variable (or removes it) and puts it back.
class Environment {
 public:
  Environment(const char* name, const std::optional<std::string>& value);
  ~Environment();
  Environment(const Environment&) = delete;
  Environment& operator=(const Environment&) = delete;

 private:
  std::string name_;
  std::optional<std::string> before_;
};

}  // namespace tandem::test
