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

class WholeReply : public ReplyWriter {
 public:
  WholeReply(CallHead head, int rows)
      : head_(std::move(head)), usage_(head_.choices_per_prompt), choices_(rows) {}

  void on_event(int row, const Event& event, std::string&) override {
    auto& choice = choices_[row];
    choice.text += event.text;
    if (head_.with_logprobs) append_logprobs(event.tokens, head_.token_bytes, choice.logprobs);
    if (head_.return_token_ids)
      for (const auto& token : event.tokens) choice.ids.push_back(token.id);
    if (event.finish == FinishReason::kNone) return;
    choice.finish = event.finish;
    usage_.add(row, event.usage);
  }

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
    std::string text;
    OrderedJson logprobs = OrderedJson::array();
    OrderedJson ids = OrderedJson::array();
    FinishReason finish = FinishReason::kNone;
  };

  OrderedJson choice_json(size_t row) {
    auto& choice = choices_[row];
    OrderedJson out = {
        {"index", row},
        {"message", {{"role", "assistant"}, {"content", choice.text}, {"refusal", nullptr}}},
        {"logprobs", nullptr},
        {"finish_reason", finish_json(choice.finish)}};
    if (head_.with_logprobs)
      out["logprobs"] = {{"content", std::move(choice.logprobs)}, {"refusal", nullptr}};
    if (head_.return_token_ids) out["token_ids"] = std::move(choice.ids);
    return out;
  }

  CallHead head_;
  UsageSum usage_;
  std::vector<Choice> choices_;
};

class StreamedReply : public ReplyWriter {
 public:
  StreamedReply(CallHead head, int rows)
      : head_(std::move(head)), usage_(head_.choices_per_prompt), begun_(rows) {}

  void on_event(int row, const Event& event, std::string& out) override {
    if (!begun_[row]) {
      begun_[row] = true;
      append_chunk(row, {{"role", "assistant"}, {"content", ""}}, {}, FinishReason::kNone, out);
    }
    const bool details = head_.with_logprobs || head_.return_token_ids;
    if (!event.text.empty() || (details && !event.tokens.empty()))
      append_chunk(row, {{"content", event.text}}, event.tokens, FinishReason::kNone, out);
    if (event.finish == FinishReason::kNone) return;
    append_chunk(row, OrderedJson::object(), {}, event.finish, out);
    usage_.add(row, event.usage);
  }

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
  void append_chunk(int row, OrderedJson delta, const std::vector<TokenInfo>& tokens,
                    FinishReason finish, std::string& out) {
    OrderedJson choice = {{"index", row},
                          {"delta", std::move(delta)},
                          {"logprobs", nullptr},
                          {"finish_reason", finish_json(finish)}};
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
  UsageSum usage_;
  std::vector<bool> begun_;
};

}  // namespace

std::unique_ptr<ReplyWriter> chat_reply(CallHead head, int rows) {
  return std::make_unique<WholeReply>(std::move(head), rows);
}

std::unique_ptr<ReplyWriter> chat_stream(CallHead head, int rows) {
  return std::make_unique<StreamedReply>(std::move(head), rows);
}

}  // namespace tandem::api::openai
