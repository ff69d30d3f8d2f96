#include "text/grammar.h"

#include "text/bridge.h"
#include "text/tokenizer.h"

namespace tandem {

void GrammarMatcher::Free::operator()(tb_matcher* handle) const { tb_matcher_free(handle); }

GrammarMatcher GrammarMatcher::clone() const {
  tb_matcher* handle = nullptr;
  bridge::Buffer error;
  bridge::check(tb_matcher_clone(handle_.get(), &handle, error.out()), error, ErrorCode::kInvalid);
  return GrammarMatcher(handle);
}

void GrammarMatcher::mask(std::span<uint32_t> bits) {
  bridge::Buffer error;
  bridge::check(tb_matcher_mask(handle_.get(), bits.data(), bits.size(), error.out()), error,
                ErrorCode::kInvalid);
}

void GrammarMatcher::accept(int32_t id) {
  bridge::Buffer error;
  bridge::check(tb_matcher_accept(handle_.get(), id, error.out()), error, ErrorCode::kInvalid);
}

void GrammarMatcher::rollback(size_t count) {
  bridge::Buffer error;
  bridge::check(tb_matcher_rollback(handle_.get(), count, error.out()), error, ErrorCode::kInvalid);
}

bool GrammarMatcher::is_stopped() const { return tb_matcher_is_stopped(handle_.get()); }

void GrammarCompiler::Free::operator()(tb_grammars* handle) const { tb_grammars_free(handle); }

GrammarCompiler::GrammarCompiler(const Tokenizer& tokenizer, std::span<const int32_t> eos_ids) {
  tb_grammars* handle = nullptr;
  bridge::Buffer error;
  bridge::check(
      tb_grammars_new(tokenizer.handle(), eos_ids.data(), eos_ids.size(), &handle, error.out()),
      error, ErrorCode::kInvalid);
  handle_.reset(handle);
}

GrammarMatcher GrammarCompiler::compile(GrammarKind kind, std::string_view text) const {
  tb_matcher* handle = nullptr;
  bridge::Buffer error;
  bridge::check(tb_grammars_compile(handle_.get(), static_cast<int32_t>(kind), bridge::str(text),
                                    &handle, error.out()),
                error, ErrorCode::kInvalid);
  return GrammarMatcher(handle);
}

}  // namespace tandem
