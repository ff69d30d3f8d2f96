#include "api/openai/completion_reply.h"

#include <nlohmann/json.hpp>

#include "api/openai/legacy_logprobs.h"
#include "api/openai/wire_parts.h"
#include "api/sse.h"

namespace tandem::api::openai {
namespace {

struct Choice {
  explicit Choice(const EchoedPrompt& prompt) : text(prompt.text), logprobs(prompt.text) {}

  // Text and ids since the last chunk (streams) or the beginning (whole replies).
  std::string text;
  LegacyLogprobs logprobs;
  OrderedJson ids = OrderedJson::array();
  FinishReason finish = FinishReason::kNone;
  bool begun = false;
};

class CompletionWriter : public ReplyWriter {
 public:
  CompletionWriter(CallHead head, std::vector<EchoedPrompt> prompts)
      : head_(std::move(head)), usage_(head_.choices_per_prompt), prompts_(std::move(prompts)) {
    for (const auto& prompt : prompts_) choices_.emplace_back(prompt);
  }

 protected:
  void take_in(int row, const Event& event) {
    auto& choice = choices_[row];
    choice.text += event.text;
    if (head_.with_logprobs) {
      choice.logprobs.add_prompt(event.prompt, head_.token_bytes);
      choice.logprobs.add(event.tokens, head_.token_bytes);
    }
    if (head_.return_token_ids)
      for (const auto& token : event.tokens) choice.ids.push_back(token.id);
    if (event.finish == FinishReason::kNone) return;
    choice.finish = event.finish;
    usage_.add(row, event.usage);
  }

  // The choice as it stands, leaving it empty.
  OrderedJson take_choice(int row) {
    auto& choice = choices_[row];
    OrderedJson out = {{"index", row},
                       {"text", std::move(choice.text)},
                       {"logprobs", nullptr},
                       {"finish_reason", finish_json(choice.finish)}};
    if (head_.with_logprobs) out["logprobs"] = choice.logprobs.take();
    if (head_.return_token_ids) {
      if (!choice.begun) out["prompt_token_ids"] = prompts_[row].ids;
      out["token_ids"] = std::move(choice.ids);
    }
    choice.begun = true;
    choice.text.clear();
    choice.ids = OrderedJson::array();
    return out;
  }

  CallHead head_;
  UsageSum usage_;
  std::vector<EchoedPrompt> prompts_;
  std::vector<Choice> choices_;
};

class WholeReply : public CompletionWriter {
 public:
  using CompletionWriter::CompletionWriter;

  void on_event(int row, const Event& event, std::string&) override { take_in(row, event); }

  void finish(std::string& out) override {
    OrderedJson choices = OrderedJson::array();
    for (size_t row = 0; row < choices_.size(); ++row)
      choices.push_back(take_choice(static_cast<int>(row)));
    auto reply = reply_json(head_, "text_completion", std::move(choices));
    reply["usage"] = usage_json(usage_);
    out += to_text(reply);
  }

  void fail(const Error& error, std::string&) override { throw error; }
  bool streams() const override { return false; }
};

class StreamedReply : public CompletionWriter {
 public:
  using CompletionWriter::CompletionWriter;

  void on_event(int row, const Event& event, std::string& out) override {
    const bool silent = event.text.empty() && choices_[row].text.empty() &&
                        event.finish == FinishReason::kNone && !head_.with_logprobs &&
                        !head_.return_token_ids;
    take_in(row, event);
    if (silent) return;
    auto chunk = reply_json(head_, "text_completion", OrderedJson::array({take_choice(row)}));
    if (head_.include_usage) chunk["usage"] = nullptr;
    append_sse(to_text(chunk), out);
  }

  void finish(std::string& out) override {
    if (head_.include_usage) {
      auto chunk = reply_json(head_, "text_completion", OrderedJson::array());
      chunk["usage"] = usage_json(usage_);
      append_sse(to_text(chunk), out);
    }
    append_sse("[DONE]", out);
  }

  void fail(const Error& error, std::string& out) override { append_stream_error(error, out); }
  bool streams() const override { return true; }
};

}  // namespace

std::unique_ptr<ReplyWriter> completion_reply(CallHead head, std::vector<EchoedPrompt> prompts) {
  return std::make_unique<WholeReply>(std::move(head), std::move(prompts));
}

std::unique_ptr<ReplyWriter> completion_stream(CallHead head, std::vector<EchoedPrompt> prompts) {
  return std::make_unique<StreamedReply>(std::move(head), std::move(prompts));
}

}  // namespace tandem::api::openai
