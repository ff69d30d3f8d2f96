#include "text/tokenizer.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "text/bridge.h"
#include "text/detokenizer.h"

namespace tandem {
namespace {

using Json = nlohmann::json;

std::vector<tb_str> strs(const std::vector<std::string>& texts) {
  std::vector<tb_str> out;
  out.reserve(texts.size());
  for (const auto& text : texts) out.push_back(bridge::str(text));
  return out;
}

int8_t flag(std::optional<bool> value) { return value ? static_cast<int8_t>(*value) : -1; }

// A token is named by its text, or by an object that holds it.
std::string token_text(const Json& token) {
  if (token.is_string()) return token;
  if (!token.is_object()) return {};
  const auto content = token.find("content");
  if (content == token.end() || !content->is_string()) return {};
  return *content;
}

// One template, or a list of named ones of which "default" is taken.
std::string template_text(const Json& config) {
  const auto found = config.find("chat_template");
  if (found == config.end()) return {};
  if (found->is_string()) return *found;
  if (!found->is_array()) return {};
  for (const auto& entry : *found) {
    if (!entry.is_object()) continue;
    const auto name = entry.find("name"), text = entry.find("template");
    if (name != entry.end() && *name == "default" && text != entry.end() && text->is_string()) {
      return *text;
    }
  }
  return {};
}

// Turns that end by a token of one of these names end there even where the
// file names another one as EOS.
constexpr std::string_view kTurnEnds[] = {"<|im_end|>", "<|eot_id|>", "<|eom_id|>", "<end_of_turn>",
                                          "<turn|>",    "<|end|>",    "<|return|>", "<|call|>"};

}  // namespace

void Tokenizer::Free::operator()(tb_tokenizer* handle) const { tb_tokenizer_free(handle); }

Tokenizer::Tokenizer(tb_tokenizer* handle) : handle_(handle) {
  const tb_table table = tb_tokenizer_table(handle);
  bytes_ = table.bytes;
  ends_ = table.ends;
  kinds_ = table.kinds;
  count_ = table.count;
  strips_leading_space_ = table.strips_leading_space;
}

Tokenizer Tokenizer::from_json(std::string_view tokenizer_json, std::string_view config_json) {
  tb_tokenizer* handle = nullptr;
  bridge::Buffer error;
  bridge::check(tb_tokenizer_from_json(bridge::str(tokenizer_json), bridge::str(config_json),
                                       &handle, error.out()),
                error, ErrorCode::kLoad);
  Tokenizer tokenizer(handle);
  if (!config_json.empty()) tokenizer.read_config(config_json);
  return tokenizer;
}

void Tokenizer::read_config(std::string_view config_json) {
  const Json config = Json::parse(config_json, nullptr, /*allow_exceptions=*/false);
  if (!config.is_object()) {
    throw Error(ErrorCode::kLoad, "tokenizer_config.json is not a JSON object");
  }
  chat_template_ = template_text(config);
  for (const auto& [name, value] : config.items()) {
    if (!name.ends_with("_token")) continue;
    const std::string token = token_text(value);
    if (token.empty()) continue;
    named_tokens_.emplace_back(name, token);
    const auto id = token_to_id(token);
    if (name == "bos_token") bos_id_ = id;
    if (name == "eos_token" && id) eos_ids_ = {*id};
  }
}

Tokenizer Tokenizer::from_gguf(const GgufVocab& vocab) {
  const auto tokens = strs(vocab.tokens), merges = strs(vocab.merges);
  const tb_gguf_vocab raw = {
      .model = bridge::str(vocab.model),
      .pre = bridge::str(vocab.pre),
      .architecture = bridge::str(vocab.architecture),
      .tokens = tokens.data(),
      .token_count = tokens.size(),
      .scores = vocab.scores.data(),
      .score_count = vocab.scores.size(),
      .types = vocab.token_types.data(),
      .type_count = vocab.token_types.size(),
      .merges = merges.data(),
      .merge_count = merges.size(),
      .bos_id = vocab.bos_id.value_or(-1),
      .eos_id = vocab.eos_id.value_or(-1),
      .unknown_id = vocab.unknown_id.value_or(-1),
      .add_bos = flag(vocab.add_bos),
      .add_eos = flag(vocab.add_eos),
      .add_space_prefix = flag(vocab.add_space_prefix),
  };
  tb_tokenizer* handle = nullptr;
  bridge::Buffer error;
  bridge::check(tb_tokenizer_from_gguf(&raw, &handle, error.out()), error, ErrorCode::kLoad);

  Tokenizer tokenizer(handle);
  tokenizer.chat_template_ = vocab.chat_template;
  tokenizer.bos_id_ = vocab.bos_id;
  const std::pair<const char*, std::optional<int32_t>> named[] = {
      {"bos_token", vocab.bos_id},
      {"eos_token", vocab.eos_id},
      {"unk_token", vocab.unknown_id},
      {"pad_token", vocab.padding_id},
  };
  for (const auto& [name, id] : named) {
    if (id && *id >= 0 && *id < tokenizer.vocab_size()) {
      tokenizer.named_tokens_.emplace_back(name, vocab.tokens[*id]);
    }
  }
  auto& eos = tokenizer.eos_ids_;
  for (const auto id : {vocab.eos_id, vocab.eot_id, vocab.eom_id}) {
    if (id && *id >= 0 && *id < tokenizer.vocab_size()) eos.push_back(*id);
  }
  for (const auto name : kTurnEnds) {
    const auto id = tokenizer.token_to_id(name);
    if (id && tokenizer.is_special(*id)) eos.push_back(*id);
  }
  std::sort(eos.begin(), eos.end());
  eos.erase(std::unique(eos.begin(), eos.end()), eos.end());
  return tokenizer;
}

std::vector<int32_t> Tokenizer::encode(std::string_view text, EncodeOptions options) const {
  const uint32_t flags = (options.parse_special ? TB_ENCODE_PARSE_SPECIAL : 0) |
                         (options.add_special ? TB_ENCODE_ADD_SPECIAL : 0);
  return encode_with(text, flags, 0);
}

std::vector<int32_t> Tokenizer::encode_marked(std::string_view text, char32_t mark) const {
  return encode_with(text, TB_ENCODE_PARSE_SPECIAL, mark);
}

std::vector<int32_t> Tokenizer::encode_with(std::string_view text, uint32_t flags,
                                            char32_t mark) const {
  bridge::Ids out;
  bridge::Buffer error;
  bridge::check(
      tb_tokenizer_encode(handle_.get(), bridge::str(text), flags, mark, out.out(), error.out()),
      error, ErrorCode::kInvalid);
  return bridge::ids(out);
}

std::string Tokenizer::decode(std::span<const int32_t> ids, bool skip_special) const {
  Detokenizer detokenizer(*this, skip_special);
  std::string text;
  for (const int32_t id : ids) text += detokenizer.push(id);
  return text + detokenizer.flush();
}

std::string_view Tokenizer::token_bytes(int32_t id) const {
  const auto index = static_cast<size_t>(id);
  if (id < 0 || index >= count_) return {};
  const size_t start = index == 0 ? 0 : ends_[index - 1];
  return {reinterpret_cast<const char*>(bytes_) + start, ends_[index] - start};
}

bool Tokenizer::is_special(int32_t id) const {
  return id >= 0 && static_cast<size_t>(id) < count_ && (kinds_[id] & TB_KIND_CONTROL) != 0;
}

std::optional<int32_t> Tokenizer::token_to_id(std::string_view token) const {
  const int32_t id = tb_tokenizer_token_to_id(handle_.get(), bridge::str(token));
  return id < 0 ? std::nullopt : std::optional(id);
}

std::string Tokenizer::id_to_token(int32_t id) const {
  bridge::Buffer out, error;
  bridge::check(tb_tokenizer_id_to_token(handle_.get(), id, out.out(), error.out()), error,
                ErrorCode::kInvalid);
  return bridge::text(out);
}

std::vector<int32_t> Tokenizer::special_ids() const {
  std::vector<int32_t> out;
  for (int32_t id = 0; id < vocab_size(); ++id) {
    if (is_special(id)) out.push_back(id);
  }
  return out;
}

}  // namespace tandem
