// Grammars that a generated text must follow: which token may come next.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

struct tb_grammars;
struct tb_matcher;

namespace tandem {

class Tokenizer;

enum class GrammarKind : int32_t {
  kJsonSchema = 0,
  kRegex = 1,  // Rust's regex syntax, of the whole text
  kLark = 2,   // llguidance's variant of Lark
};

// One generation under a grammar. One thread at a time.
class GrammarMatcher {
 public:
  explicit GrammarMatcher(tb_matcher* handle) : handle_(handle) {}

  // An independent copy, for another choice of the same request.
  GrammarMatcher clone() const;

  // Sets bit i % 32 of bits[i / 32] if token i may come next and clears all
  // others. Where nothing may follow, the EOS ids may.
  //   bits: at least vocab_size / 32 words, rounded up
  void mask(std::span<uint32_t> bits);

  // Throws kInvalid, and changes nothing, if the token is not allowed here.
  void accept(int32_t id);

  // Takes back the last `count` tokens, as when drafted tokens are rejected.
  void rollback(size_t count);

  // Nothing but EOS may come any more.
  bool is_stopped() const;

 private:
  struct Free {
    void operator()(tb_matcher* handle) const;
  };

  std::unique_ptr<tb_matcher, Free> handle_;
};

// Compiles grammars for one tokenizer. Immutable: compile may be called from
// several threads at once.
class GrammarCompiler {
 public:
  // Any of the `eos_ids` (one or more) ends a text. Takes tenths of a second.
  GrammarCompiler(const Tokenizer& tokenizer, std::span<const int32_t> eos_ids);

  // Throws kInvalid with what is wrong with the text.
  GrammarMatcher compile(GrammarKind kind, std::string_view text) const;

 private:
  struct Free {
    void operator()(tb_grammars* handle) const;
  };

  std::unique_ptr<tb_grammars, Free> handle_;
};

}  // namespace tandem
