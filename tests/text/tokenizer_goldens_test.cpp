// Tokenizers of real models against what Hugging Face's libraries give.
#include <doctest/doctest.h>

#include "text/detokenizer.h"
#include "text/goldens.h"

using namespace tandem;
using Ids = std::vector<int32_t>;
using test::Json;

namespace {

bool is_missing(const std::filesystem::path& path) {
  if (std::filesystem::exists(path)) return false;
  MESSAGE("skipped, as there is no ", path.string());
  return true;
}

std::string streamed(const Tokenizer& tokenizer, const Ids& ids) {
  Detokenizer detokenizer(tokenizer, /*skip_special=*/false);
  std::string text;
  for (const int32_t id : ids) text += detokenizer.push(id);
  return text + detokenizer.flush();
}

void check_goldens(const Tokenizer& tokenizer, const std::string& name, bool decodes) {
  const Json texts = test::golden("tokenizer/texts.json")["texts"];
  const Json golden = test::golden("tokenizer/" + name + ".json");
  const Json& entries = golden["entries"];
  REQUIRE(entries.size() == texts.size());
  int wrong = 0;
  const auto expect = [&](bool right, size_t i, const char* what) {
    if (!right && ++wrong <= 10)
      FAIL_CHECK(std::string(what), " of text ", i, ": ", texts[i].dump());
  };
  for (size_t i = 0; i < texts.size(); ++i) {
    const std::string text = texts[i];
    const Json& entry = entries[i];
    const Ids ids = entry[0];
    const Ids plain = entry.size() > 2 ? Ids(entry[2]) : ids;
    expect(tokenizer.encode(text, {.parse_special = true}) == ids, i, "ids");
    expect(tokenizer.encode(text) == plain, i, "plain ids");
    if (!decodes) continue;
    const bool same = entry.size() < 2 || entry[1].is_null();
    const std::string decoded = same ? text : std::string(entry[1]);
    expect(tokenizer.decode(ids, false) == decoded, i, "decoded");
    expect(streamed(tokenizer, ids) == decoded, i, "decoded token by token");
  }
  CHECK(wrong == 0);

  Ids around = golden["added_before"];
  for (const int32_t id : tokenizer.encode("x")) around.push_back(id);
  for (const int32_t id : Ids(golden["added_after"])) around.push_back(id);
  CHECK(tokenizer.encode("x", {.add_special = true}) == around);
}

}  // namespace

TEST_CASE("the default model's tokenizer equals transformers on every golden text") {
  const auto path = test::models_folder() / "SmolLM2-135M-Instruct.Q4_1.gguf";
  if (is_missing(path)) return;
  const auto tokenizer = Tokenizer::from_gguf(test::read_gguf_vocab(path));
  check_goldens(tokenizer, "smollm2", /*decodes=*/true);
  CHECK(tokenizer.eos_ids() == Ids{2});
  CHECK(tokenizer.vocab_size() == 49152);
  CHECK(tokenizer.special_ids().size() == 17);
}

TEST_CASE("a Gemma tokenizer equals SentencePiece on every golden text") {
  const auto path = test::models_folder() / "gemma-3-270m.Q4_K_M.gguf";
  if (is_missing(path)) return;
  check_goldens(Tokenizer::from_gguf(test::read_gguf_vocab(path)), "gemma3", /*decodes=*/true);
}

TEST_CASE("a tokenizer.json equals Hugging Face's library on every golden text") {
  const auto path = test::models_folder() / "minilm/tokenizer.json";
  if (is_missing(path)) return;
  check_goldens(Tokenizer::from_json(test::read_file(path)), "minilm", /*decodes=*/false);
}
