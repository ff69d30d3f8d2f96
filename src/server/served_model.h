// The model that is served, as the handlers see it: engine, tokenizer and chat
// template behind one interface, so that tests can put a scripted one there.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "api/call_options.h"
#include "engine/guides.h"
#include "server/metrics_text.h"
#include "text/parsers/answer_grammar.h"
#include "text/parsers/output_format.h"

namespace tandem::server {

// One running row. Dropping it cancels the row.
class Row {
 public:
  virtual ~Row() = default;
  // False when no event waits now.
  virtual bool try_next(Event& event) = 0;
  // Called, from any thread, after an event has arrived, and at once if one waits.
  virtual void set_listener(std::function<void()> listener) = 0;
  virtual void cancel() = 0;
};

struct ChatPrompt {
  std::vector<int32_t> ids;
  bool in_reasoning = false;  // the template has begun it
  Thinking thinking = Thinking::kNone;
};

class ServedModel {
 public:
  virtual ~ServedModel() = default;

  virtual const api::ModelFacts& facts() const = 0;

  virtual bool has_tokenizer() const = 0;
  virtual bool has_chat_template() const = 0;
  // With the BOS that the tokenizer adds of itself. Needs a tokenizer.
  virtual std::vector<int32_t> encode(std::string_view text) const = 0;
  // Renders messages (JSON text of an array, see api/messages.h) with the chat template and a
  // generation prompt; `variables` is JSON text of an object. Throws Error(kInvalid) when the
  // template refuses them.
  virtual ChatPrompt encode_chat(const std::string& messages,
                                 const std::string& variables) const = 0;
  // False if the chat template would leave tools out.
  virtual bool template_knows_tools() const = 0;
  // How the model marks reasoning and calls of tools.
  virtual const OutputFormat& output_format() const = 0;
  // The control tokens among the marks, ascending.
  virtual const std::vector<int32_t>& marker_ids() const = 0;
  // Text in which control tokens are these, and nothing is added.
  virtual std::vector<int32_t> encode_marks(std::string_view text) const = 0;
  // Raw bytes of a token; empty without a tokenizer.
  virtual std::string token_bytes(int32_t id) const = 0;

  // Null if there is none.
  virtual const Tokenizer* tokenizer_of() const = 0;

  // Compiles the grammar, for submit to find it so. Throws what Guides::make throws.
  virtual void prepare(const GuideSpec& guide) = 0;
  // Throws what Engine::submit and Guides::make throw.
  virtual std::unique_ptr<Row> submit(Request request, const GuideSpec& guide) = 0;

  virtual bool ready() const = 0;
  virtual api::OrderedJson stats() const = 0;  // the engine's part of GET /stats
  virtual void write_metrics(MetricsText& out) const = 0;
};

}  // namespace tandem::server
