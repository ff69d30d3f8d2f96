// Text to token ids and back, with the results of Hugging Face's libraries.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

struct tb_tokenizer;

namespace tandem {

// The tokenizer.* metadata of a GGUF file, as the loader found it. Absent
// arrays are empty; the index of a token is its id.
struct GgufVocab {
  std::string model;         // tokenizer.ggml.model: "gpt2" or "llama"
  std::string pre;           // tokenizer.ggml.pre
  std::string architecture;  // general.architecture
  std::vector<std::string> tokens;
  std::vector<float> scores;
  std::vector<int32_t> token_types;
  std::vector<std::string> merges;
  std::optional<int32_t> bos_id, eos_id, eot_id, eom_id, unknown_id, padding_id;
  std::optional<bool> add_bos, add_eos, add_space_prefix;
  std::string chat_template;
};

struct EncodeOptions {
  bool parse_special = false;  // spellings of control tokens become their ids
  bool add_special = false;    // with the BOS and EOS this tokenizer adds
};

// Immutable: every const method may be called from several threads at once.
// Errors: kLoad from the factories, kInvalid from the methods.
class Tokenizer {
 public:
  // From the texts of tokenizer.json and, if there is one,
  // tokenizer_config.json (control tokens, chat template).
  static Tokenizer from_json(std::string_view tokenizer_json, std::string_view config_json = {});
  static Tokenizer from_gguf(const GgufVocab& vocab);

  // Throws kInvalid with the byte's place if `text` is not valid UTF-8.
  std::vector<int32_t> encode(std::string_view text, EncodeOptions options = {}) const;

  // As encode with parse_special, but a spelling that `mark` disturbs stays
  // text, and `mark` itself is not encoded: see ChatTemplate.
  std::vector<int32_t> encode_marked(std::string_view text, char32_t mark) const;

  // Always valid UTF-8: a part that is not becomes U+FFFD, one for each
  // maximal invalid part. Ids that name no token are skipped.
  std::string decode(std::span<const int32_t> ids, bool skip_special = true) const;

  // The exact bytes of a token, perhaps a part of a character; none for an id
  // that names no token. Valid as long as the tokenizer.
  std::string_view token_bytes(int32_t id) const;

  // A control token: skipped in decoded text.
  bool is_special(int32_t id) const;

  // One more than the highest id. The model may have more output rows.
  int32_t vocab_size() const { return static_cast<int32_t>(count_); }

  std::optional<int32_t> token_to_id(std::string_view token) const;
  // The token as the vocabulary spells it ("Ġthe"). Throws kInvalid.
  std::string id_to_token(int32_t id) const;

  std::optional<int32_t> bos_id() const { return bos_id_; }
  // Ascending; what the tokenizer's own files name, in addition to which the
  // model's configuration may name more.
  const std::vector<int32_t>& eos_ids() const { return eos_ids_; }
  std::vector<int32_t> special_ids() const;

  // The tokens that templates know by a name: ("bos_token", "<s>"), ...
  const std::vector<std::pair<std::string, std::string>>& named_tokens() const {
    return named_tokens_;
  }
  // Source of the chat template, or empty.
  const std::string& chat_template() const { return chat_template_; }

  // A decoded text loses one space at its start.
  bool strips_leading_space() const { return strips_leading_space_; }

  const tb_tokenizer* handle() const { return handle_.get(); }

 private:
  struct Free {
    void operator()(tb_tokenizer* handle) const;
  };

  explicit Tokenizer(tb_tokenizer* handle);
  std::vector<int32_t> encode_with(std::string_view text, uint32_t flags, char32_t mark) const;
  void read_config(std::string_view config_json);

  std::unique_ptr<tb_tokenizer, Free> handle_;
  const uint8_t* bytes_ = nullptr;
  const uint32_t* ends_ = nullptr;
  const uint8_t* kinds_ = nullptr;
  size_t count_ = 0;
  bool strips_leading_space_ = false;
  std::optional<int32_t> bos_id_;
  std::vector<int32_t> eos_ids_;
  std::vector<std::pair<std::string, std::string>> named_tokens_;
  std::string chat_template_;
};

}  // namespace tandem
