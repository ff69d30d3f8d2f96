// A model on disk, whatever its file format: configuration, tensors by their
// Hugging Face names, and what the tokenizer needs.
//
// Families see one naming (model.layers.0.self_attn.q_proj.weight) and one
// configuration (the keys of config.json); GGUF files are mapped onto both.
// Files stay memory-mapped for as long as the checkpoint lives.
#pragma once

#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "backend/stored.h"

namespace tandem {

// Tokenizer metadata as a GGUF file holds it (tokenizer.ggml.*), unchecked.
struct GgufTokenizer {
  std::string model;  // "gpt2", "llama", ...
  std::string pre;    // name of the pre-tokenizer
  std::vector<std::string> tokens;
  std::vector<float> scores;
  std::vector<int32_t> token_types;
  std::vector<std::string> merges;
  std::optional<int32_t> bos_id, eos_id, eot_id, unknown_id, padding_id;
  std::optional<bool> add_bos, add_eos, add_space_prefix;
  std::string chat_template;
};

class Checkpoint {
 public:
  virtual ~Checkpoint() = default;

  // Path for messages, and a short name for people ("SmolLM2-135M-Instruct.Q4_1").
  virtual const std::string& path() const = 0;
  virtual const std::string& name() const = 0;

  // Contents of config.json (or its equal made from GGUF metadata), and of
  // generation_config.json (null if there is none).
  virtual const nlohmann::json& config() const = 0;
  virtual const nlohmann::json& generation_config() const = 0;

  // Tokenizer files as text; empty if there are none. GGUF files give gguf_tokenizer.
  virtual std::string tokenizer_json() const = 0;
  virtual std::string tokenizer_config_json() const = 0;
  virtual std::string chat_template() const = 0;
  virtual const GgufTokenizer* gguf_tokenizer() const = 0;

  // Taking a tensor marks it as used. Throws Error(kLoad) naming the tensor,
  // its shape and what was expected when it is missing or has another shape.
  //   base: name without ".weight", e.g. "model.layers.0.mlp.down_proj"
  virtual bool has(std::string_view name) const = 0;  // full name
  virtual StoredMatrix take_matrix(const std::string& base, int64_t rows, int64_t cols) = 0;
  virtual std::vector<float> take_vector(const std::string& name, int64_t size) = 0;
  // Empty when the file has no such tensor.
  virtual std::vector<float> take_optional_vector(const std::string& name, int64_t size) = 0;

  // Throws Error(kLoad) listing tensors that nobody took (known leftovers such
  // as rotary_emb.inv_freq excepted).
  virtual void expect_all_taken() const = 0;

  virtual int64_t stored_bytes() const = 0;
};

// Opens a directory of safetensors, a .gguf file, a hub id found in the Hugging
// Face cache, or "default". Throws Error(kLoad) or Error(kNotFound).
std::unique_ptr<Checkpoint> open_checkpoint(const std::string& model);

}  // namespace tandem
