// Chat templates: messages to the text, and to the token ids, of a prompt.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

struct tb_template;

namespace tandem {

class Tokenizer;

// What a template is given, as JSON text.
struct ChatInput {
  std::string messages = "[]";        // an array of objects
  std::string variables = "{}";       // an object: tools, documents, enable_thinking, ...
  bool add_generation_prompt = true;  // unless the variables say otherwise
  std::optional<int64_t> now = {};    // seconds since 1970 for strftime_now; none: the clock
};

// A rendered prompt. `mark` stands inside spellings of control tokens that
// came from the caller and must stay text; it is part of no text.
struct RenderedChat {
  std::string marked_text;
  char32_t mark = 0;

  // As a person would read it.
  std::string text() const;
};

// A Jinja template, rendered as transformers does. Immutable: the const
// methods may be called from several threads at once.
//
// Control token ids come from the template alone. Whatever the caller's texts
// spell (contents, names, tool descriptions, results), in one text or together
// with what the template puts beside it, is encoded as plain text. What the
// assistant said may hold user-defined tokens such as <think>, for the model
// wrote them; others' texts may not, if the template gives them a meaning.
//
// Errors are kInvalid: a template that does not compile; messages the template
// refuses (the message of its raise_exception); JSON that is none; a rendering
// of more than a fixed number of steps or bytes.
class ChatTemplate {
 public:
  // The tokenizer (of the same model) must outlive this.
  ChatTemplate(std::string_view source, const Tokenizer& tokenizer);

  RenderedChat render(const ChatInput& input) const;

  const std::string& source() const { return source_; }

  // The ids of the rendered prompt; nothing is added around it.
  std::vector<int32_t> encode(const ChatInput& input) const;

 private:
  struct Free {
    void operator()(tb_template* handle) const;
  };

  const Tokenizer* tokenizer_;
  std::string source_;
  std::unique_ptr<tb_template, Free> handle_;
  std::string constants_;
};

}  // namespace tandem
