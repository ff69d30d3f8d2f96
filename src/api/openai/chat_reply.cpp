#include "api/openai/chat_reply.h"

#include <nlohmann/json.hpp>

#include "api/openai/wire_parts.h"
#include "api/sse.h"

namespace tandem::api::openai {
namespace {

OrderedJson token_json(int32_t id, float logprob, const TokenBytes& token_bytes) {
  const auto bytes = token_bytes(id);
  OrderedJson list = OrderedJson::array();
  for (unsigned char byte : bytes) list.push_back(byte);
  return {{"token", bytes}, {"logprob", logprob}, {"bytes", std::move(list)}};
}

void append_logprobs(const std::vector<TokenInfo>& tokens, const TokenBytes& token_bytes,
                     OrderedJson& content) {
  for (const auto& token : tokens) {
    auto entry = token_json(token.id, token.logprob, token_bytes);
    OrderedJson top = OrderedJson::array();
    for (const auto& other : token.top)
      top.push_back(token_json(other.id, other.logprob, token_bytes));
    entry["top_logprobs"] = std::move(top);
    content.push_back(std::move(entry));
  }
}

using Kind = OutputEvent::Kind;

// The parser of one row, and what is known of its calls.
class RowOutput {
 public:
  explicit RowOutput(const ChatOutput& output)
      : parser_(make_output_parser(output.parser)), include_reasoning_(output.include_reasoning) {}

  // What the event of the row makes certain.
  OutputEvents take(const Event& event) {
    OutputEvents events;
    parser_->push(event.text, events);
    if (event.finish != FinishReason::kNone) parser_->finish(events);
    for (const OutputEvent& part : events) called_ |= part.kind == Kind::kCallEnd;
    if (!include_reasoning_)
      std::erase_if(events, [](const auto& part) { return part.kind == Kind::kReasoning; });
    return events;
  }

  bool closed() const { return parser_->closed(); }

  OrderedJson finish_json(FinishReason finish) const {
    return called_ && finish == FinishReason::kStop ? OrderedJson("tool_calls")
                                                    : openai::finish_json(finish);
  }

 private:
  std::unique_ptr<OutputParser> parser_;
  bool include_reasoning_;
  bool called_ = false;  // a call is whole
};

class WholeReply : public ReplyWriter {
 public:
  WholeReply(CallHead head, int rows, ChatOutput output)
      : head_(std::move(head)), output_(std::move(output)), usage_(head_.choices_per_prompt) {
    for (int row = 0; row < rows; ++row) choices_.emplace_back(output_);
  }

  void on_event(int row, const Event& event, std::string&) override {
    auto& choice = choices_[row];
    for (const OutputEvent& part : choice.output.take(event)) add(part, choice);
    if (head_.with_logprobs) append_logprobs(event.tokens, head_.token_bytes, choice.logprobs);
    if (head_.return_token_ids)
      for (const auto& token : event.tokens) choice.ids.push_back(token.id);
    if (event.finish == FinishReason::kNone) return;
    choice.finish = event.finish;
    usage_.add(row, event.usage);
  }

  bool wants_more(int row) const override { return !choices_[row].output.closed(); }

  void finish(std::string& out) override {
    OrderedJson choices = OrderedJson::array();
    for (size_t row = 0; row < choices_.size(); ++row) choices.push_back(choice_json(row));
    auto reply = reply_json(head_, "chat.completion", std::move(choices));
    reply["usage"] = usage_json(usage_);
    out += to_text(reply);
  }

  void fail(const Error& error, std::string&) override { throw error; }
  bool streams() const override { return false; }

 private:
  struct Choice {
    explicit Choice(const ChatOutput& how) : output(how) {}

    RowOutput output;
    std::string text, reasoning;
    struct Call {
      std::string id, name, arguments;
    };
    std::vector<Call> calls;
    OrderedJson logprobs = OrderedJson::array();
    OrderedJson ids = OrderedJson::array();
    FinishReason finish = FinishReason::kNone;
  };

  void add(const OutputEvent& part, Choice& choice) {
    switch (part.kind) {
      case Kind::kContent: choice.text += part.text; return;
      case Kind::kReasoning: choice.reasoning += part.text; return;
      case Kind::kCallBegin:
        choice.calls.push_back({part.id.empty() ? output_.new_call_id() : part.id, part.text, {}});
        return;
      case Kind::kArguments: choice.calls.at(part.call).arguments += part.text; return;
      case Kind::kCallEnd: return;
    }
  }

  static OrderedJson message_json(const Choice& choice) {
    OrderedJson message = {{"role", "assistant"}, {"content", choice.text}, {"refusal", nullptr}};
    if (choice.text.empty() && !choice.calls.empty()) message["content"] = nullptr;
    if (!choice.reasoning.empty()) {
      message["reasoning_content"] = choice.reasoning;
      message["reasoning"] = choice.reasoning;
    }
    if (choice.calls.empty()) return message;
    OrderedJson calls = OrderedJson::array();
    for (const auto& call : choice.calls)
      calls.push_back({{"id", call.id},
                       {"type", "function"},
                       {"function", {{"name", call.name}, {"arguments", call.arguments}}}});
    message["tool_calls"] = std::move(calls);
    return message;
  }

  OrderedJson choice_json(size_t row) {
    auto& choice = choices_[row];
    OrderedJson out = {{"index", row},
                       {"message", message_json(choice)},
                       {"logprobs", nullptr},
                       {"finish_reason", choice.output.finish_json(choice.finish)}};
    if (head_.with_logprobs)
      out["logprobs"] = {{"content", std::move(choice.logprobs)}, {"refusal", nullptr}};
    if (head_.return_token_ids) out["token_ids"] = std::move(choice.ids);
    return out;
  }

  CallHead head_;
  ChatOutput output_;
  UsageSum usage_;
  std::vector<Choice> choices_;
};

class StreamedReply : public ReplyWriter {
 public:
  StreamedReply(CallHead head, int rows, ChatOutput output)
      : head_(std::move(head)), output_(std::move(output)), usage_(head_.choices_per_prompt) {
    for (int row = 0; row < rows; ++row) rows_.emplace_back(output_);
    begun_.resize(rows);
  }

  void on_event(int row, const Event& event, std::string& out) override {
    if (!begun_[row]) {
      begun_[row] = true;
      append_chunk(row, {{"role", "assistant"}, {"content", ""}}, {}, nullptr, out);
    }
    const auto parts = rows_[row].take(event);
    const bool details = head_.with_logprobs || head_.return_token_ids;
    // The first delta carries what is said of the event's tokens.
    bool first = true;
    for (const OutputEvent& part : parts) {
      if (part.kind == Kind::kCallEnd) continue;
      append_chunk(row, delta_json(part), first ? event.tokens : kNoTokens, nullptr, out);
      first = false;
    }
    if (first && details && !event.tokens.empty())
      append_chunk(row, {{"content", ""}}, event.tokens, nullptr, out);
    if (event.finish == FinishReason::kNone) return;
    append_chunk(row, OrderedJson::object(), {}, rows_[row].finish_json(event.finish), out);
    usage_.add(row, event.usage);
  }

  bool wants_more(int row) const override { return !rows_[row].closed(); }

  void finish(std::string& out) override {
    if (head_.include_usage) {
      auto chunk = reply_json(head_, "chat.completion.chunk", OrderedJson::array());
      chunk["usage"] = usage_json(usage_);
      append_sse(to_text(chunk), out);
    }
    append_sse("[DONE]", out);
  }

  void fail(const Error& error, std::string& out) override { append_stream_error(error, out); }
  bool streams() const override { return true; }

 private:
  inline static const std::vector<TokenInfo> kNoTokens;

  OrderedJson delta_json(const OutputEvent& part) {
    switch (part.kind) {
      case Kind::kContent: return {{"content", part.text}};
      case Kind::kReasoning: return {{"reasoning_content", part.text}, {"reasoning", part.text}};
      case Kind::kCallBegin:
        return {{"tool_calls",
                 OrderedJson::array({{{"index", part.call},
                                      {"id", part.id.empty() ? output_.new_call_id() : part.id},
                                      {"type", "function"},
                                      {"function", {{"name", part.text}, {"arguments", ""}}}}})}};
      default:
        return {{"tool_calls", OrderedJson::array({{{"index", part.call},
                                                    {"function", {{"arguments", part.text}}}}})}};
    }
  }

  void append_chunk(int row, OrderedJson delta, const std::vector<TokenInfo>& tokens,
                    OrderedJson finish, std::string& out) {
    OrderedJson choice = {{"index", row},
                          {"delta", std::move(delta)},
                          {"logprobs", nullptr},
                          {"finish_reason", std::move(finish)}};
    if (head_.with_logprobs && !tokens.empty()) {
      OrderedJson content = OrderedJson::array();
      append_logprobs(tokens, head_.token_bytes, content);
      choice["logprobs"] = {{"content", std::move(content)}, {"refusal", nullptr}};
    }
    if (head_.return_token_ids && !tokens.empty()) choice["token_ids"] = ids_json(tokens);
    auto chunk =
        reply_json(head_, "chat.completion.chunk", OrderedJson::array({std::move(choice)}));
    if (head_.include_usage) chunk["usage"] = nullptr;
    append_sse(to_text(chunk), out);
  }

  CallHead head_;
  ChatOutput output_;
  UsageSum usage_;
  std::vector<RowOutput> rows_;
  std::vector<bool> begun_;
};

}  // namespace

std::unique_ptr<ReplyWriter> chat_reply(CallHead head, int rows, ChatOutput output) {
  return std::make_unique<WholeReply>(std::move(head), rows, std::move(output));
}

std::unique_ptr<ReplyWriter> chat_stream(CallHead head, int rows, ChatOutput output) {
  return std::make_unique<StreamedReply>(std::move(head), rows, std::move(output));
}

}  // namespace tandem::api::openai
