// A model whose logits are a hash of a row's own tokens, read back through pages
// as attention would: a wrong page, position or neighbour shows at once.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "engine/load_model.h"

namespace tandem::testing {

inline constexpr int32_t kFakeVocab = 97;
// A row whose last token is this one gets NaN logits.
inline constexpr int32_t kPoisonToken = 96;

struct FakeOptions {
  int context_length = 256;
  int64_t contexts_in_memory = 16;  // how many whole contexts the pools hold
  int32_t window = 0;               // of a second cache group; 0 = no such group
  bool states = false;              // a recurrent group as well
  std::vector<int32_t> stop_ids;
  std::shared_ptr<const Tokenizer> tokenizer;
  // What every row generates, in place of what the hash says. Too short: repeated.
  std::vector<int32_t> script;
  // Changes what the model says of itself.
  std::function<void(ModelInfo&)> describe;
  // Called in each forward pass, on the engine thread, before anything else.
  std::function<void(const Step&)> on_forward;
};

// Byte-level tokens of kFakeVocab ids: 0 to 89 are one printable character each
// (kFirstCharacter + id), 90 to 93 the bytes of an emoji, 94 is "ab", 95 the
// control token "<end>".
std::string fake_tokenizer_json();
std::shared_ptr<const Tokenizer> fake_tokenizer();
inline constexpr char kFirstCharacter = '!';
inline constexpr int32_t kEmojiToken = 90, kTwoLetterToken = 94, kEndToken = 95;

LoadedModel load_fake(const FakeOptions& options);

// The logits after `tokens`, computed without any cache.
std::vector<float> fake_logits(const std::vector<int32_t>& tokens, const FakeOptions& options);

// Greedy continuation, straight from fake_logits.
std::vector<int32_t> fake_greedy(std::vector<int32_t> tokens, int count,
                                 const FakeOptions& options = {});

}  // namespace tandem::testing
