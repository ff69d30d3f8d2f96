// How many tokens of prompts a step may compute beside rows that decode, so that
// those don't wait long for their next token. Learns from the steps that ran; has no
// clock of its own.
#pragma once

#include <cstdint>

namespace tandem {

class StepCost {
 public:
  // A step took `ms` with so many rows decoding and so many other tokens.
  void observe(int32_t decoding, int32_t chunk_tokens, double ms);

  // Tokens that keep a mixed step near kSlowdownAim times a step that only decodes;
  // at least kTokensMin, so that prompts always advance, and at most `most`.
  int32_t chunk_tokens(int32_t most) const;

  // 3 is what is promised; the rest is for steps that take longer than foreseen.
  static constexpr double kSlowdownAim = 1.8;
  static constexpr int32_t kTokensMin = 4;
  static constexpr int32_t kTokensUnknown = 32;  // before there is anything to go by

 private:
  double token_ms() const;

  double decode_ms_ = 0;  // a step that only decodes; 0 = not known
  double row_ms_ = 0;     // of this, each row's share
  double chunk_ms_ = 0;   // a token of a step without decoding rows; 0 = not known
  double mixed_ms_ = 0;   // a further token beside decoding rows; 0 = not known
};

}  // namespace tandem
