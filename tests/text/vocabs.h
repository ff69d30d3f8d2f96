// Small vocabularies for the tests of this room.
#pragma once

#include <string>
#include <vector>

#include "text/tokenizer.h"

namespace tandem::test {

// The byte as byte-level vocabularies spell it, in UTF-8.
inline std::string byte_letter(int byte) {
  int code = byte;
  if (byte <= 0x20) code = 0x100 + byte;
  if (byte >= 0x7F && byte <= 0xA0) code = 0x121 + byte - 0x7F;
  if (byte == 0xAD) code = 0x143;
  if (code < 0x80) return std::string(1, static_cast<char>(code));
  return {static_cast<char>(0xC0 | code >> 6), static_cast<char>(0x80 | (code & 0x3F))};
}

// Byte-level BPE. Ids 0 to 255 are the bytes; then "th", "the", " the"; then
// the control tokens <|im_start|>, <|im_end|>, <|pad|>, and the user-defined
// <think>, </think>.
inline GgufVocab byte_level_vocab(const std::string& pre = "gpt-2") {
  GgufVocab vocab;
  vocab.model = "gpt2";
  vocab.pre = pre;
  for (int byte = 0; byte < 256; ++byte) vocab.tokens.push_back(byte_letter(byte));
  for (const char* token : {"th", "the", "Ġthe"}) vocab.tokens.push_back(token);
  vocab.token_types.assign(vocab.tokens.size(), 1);
  for (const char* token : {"<|im_start|>", "<|im_end|>", "<|pad|>"}) {
    vocab.tokens.push_back(token);
    vocab.token_types.push_back(3);
  }
  for (const char* token : {"<think>", "</think>"}) {
    vocab.tokens.push_back(token);
    vocab.token_types.push_back(4);
  }
  vocab.merges = {"t h", "th e", "Ġ the"};
  vocab.bos_id = 259;
  vocab.eos_id = 260;
  return vocab;
}

// SentencePiece: <unk>, <s>, </s>, 256 byte tokens, then pieces of which the
// longer ones have the better scores.
inline GgufVocab sentencepiece_vocab() {
  GgufVocab vocab;
  vocab.model = "llama";
  vocab.tokens = {"<unk>", "<s>", "</s>"};
  vocab.token_types = {2, 3, 3};
  vocab.scores = {0, 0, 0};
  for (int byte = 0; byte < 256; ++byte) {
    constexpr char kHex[] = "0123456789ABCDEF";
    vocab.tokens.push_back(std::string("<0x") + kHex[byte >> 4] + kHex[byte & 15] + ">");
    vocab.token_types.push_back(6);
    vocab.scores.push_back(0);
  }
  float score = -1;
  for (const char* piece : {"▁the", "the", "th", "he", "▁", "t", "h", "e"}) {
    vocab.tokens.push_back(piece);
    vocab.token_types.push_back(1);
    vocab.scores.push_back(score--);
  }
  vocab.bos_id = 1;
  vocab.eos_id = 2;
  vocab.unknown_id = 0;
  return vocab;
}

}  // namespace tandem::test
