// A model for tests of the server: no engine, the events come from the test.
//
// Every byte is a token: id = byte value. Rows run at once with `script`, or
// wait for the test to push events.
#pragma once

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <nlohmann/json.hpp>

#include "server/served_model.h"

namespace tandem::server {

// Where one row's events wait; both ends may be on different threads.
class ScriptedRow {
 public:
  explicit ScriptedRow(Request request) : request(std::move(request)) {}

  void push(Event event) {
    std::lock_guard lock(mutex_);
    events_.push_back(std::move(event));
    if (listener_) listener_();
  }

  void push_text(const std::string& text) {
    Event event;
    event.text = text;
    for (unsigned char byte : text) event.tokens.push_back({.id = byte, .has_logprob = true});
    generated_ += static_cast<int>(text.size());
    push(std::move(event));
  }

  void end(FinishReason finish = FinishReason::kStop) {
    Event event;
    event.finish = finish;
    event.usage.prompt_tokens = static_cast<int>(request.prompt.size());
    event.usage.generated_tokens = generated_;
    push(std::move(event));
  }

  void fail(ErrorCode code, const std::string& message) {
    Event event;
    event.finish = FinishReason::kError;
    event.error_code = static_cast<int>(code);
    event.error = message;
    push(std::move(event));
  }

  bool try_next(Event& event) {
    std::lock_guard lock(mutex_);
    if (events_.empty()) return false;
    event = std::move(events_.front());
    events_.pop_front();
    return true;
  }

  void listen(std::function<void()> listener) {
    std::lock_guard lock(mutex_);
    listener_ = std::move(listener);
    if (listener_ && !events_.empty()) listener_();
  }

  size_t unread() {
    std::lock_guard lock(mutex_);
    return events_.size();
  }

  const Request request;
  std::atomic<bool> cancelled = false;

 private:
  std::mutex mutex_;
  std::deque<Event> events_;
  std::function<void()> listener_;
  int generated_ = 0;
};

class ScriptedModel : public ServedModel {
 public:
  using Script = std::function<void(ScriptedRow&)>;

  explicit ScriptedModel(Script script = {}) : script_(std::move(script)) {
    facts_.id = "scripted";
    facts_.context_length = 1000;
    facts_.vocab_size = 256;
  }

  const api::ModelFacts& facts() const override { return facts_; }
  bool has_tokenizer() const override { return tokenizer; }
  bool has_chat_template() const override { return tokenizer; }
  std::vector<int32_t> encode(std::string_view text) const override {
    std::vector<int32_t> ids;
    for (unsigned char byte : text) ids.push_back(byte);
    return ids;
  }
  ChatPrompt encode_chat(const std::string& messages, const std::string& variables) const override {
    std::string text;
    for (const auto& message : api::Json::parse(messages))
      text += message["content"].get<std::string>();
    template_variables = variables;
    last_messages = messages;
    return {.ids = encode(text),
            .in_reasoning = in_reasoning,
            .thinking = in_reasoning ? Thinking::kBegun : Thinking::kNone};
  }
  bool template_knows_tools() const override { return knows_tools; }
  const OutputFormat& output_format() const override { return format; }
  const std::vector<int32_t>& marker_ids() const override { return no_ids_; }
  std::string token_bytes(int32_t id) const override {
    return tokenizer ? std::string(1, static_cast<char>(id)) : std::string();
  }
  bool ready() const override { return true; }
  api::OrderedJson stats() const override { return {{"active_rows", active_rows()}}; }
  void write_metrics(MetricsText& out) const override {
    out.gauge("num_requests_running", "Requests in the batch.", active_rows());
  }

  std::vector<int32_t> encode_marks(std::string_view text) const override { return encode(text); }
  const Tokenizer* tokenizer_of() const override { return nullptr; }
  void prepare(const GuideSpec& guide) override {
    if (guide.grammar == "bad") throw Error(ErrorCode::kInvalid, "no grammar");
  }
  std::unique_ptr<Row> submit(Request request, const GuideSpec& guide) override;

  // Rows submitted so far and not dropped by the server.
  int active_rows() const {
    std::lock_guard lock(mutex_);
    return static_cast<int>(
        std::count_if(rows_.begin(), rows_.end(), [](const auto& row) { return !row->cancelled; }));
  }

  // Blocks until the i-th row has been submitted.
  std::shared_ptr<ScriptedRow> row(size_t i) {
    std::unique_lock lock(mutex_);
    submitted_.wait_for(lock, std::chrono::seconds(10), [&] { return rows_.size() > i; });
    return rows_.at(i);
  }

  bool tokenizer = true;
  OutputFormat format;
  bool in_reasoning = false;
  bool knows_tools = true;
  mutable std::string last_messages;
  GuideSpec last_guide;
  mutable std::string template_variables;  // of the last prompt

 private:
  class Handle;

  Script script_;
  api::ModelFacts facts_;
  std::vector<int32_t> no_ids_;
  mutable std::mutex mutex_;
  std::condition_variable submitted_;
  std::vector<std::shared_ptr<ScriptedRow>> rows_;
};

class ScriptedModel::Handle : public Row {
 public:
  explicit Handle(std::shared_ptr<ScriptedRow> row) : row_(std::move(row)) {}
  ~Handle() override { cancel(); }
  bool try_next(Event& event) override { return row_->try_next(event); }
  void set_listener(std::function<void()> listener) override { row_->listen(std::move(listener)); }
  void cancel() override { row_->cancelled = true; }

 private:
  std::shared_ptr<ScriptedRow> row_;
};

inline std::unique_ptr<Row> ScriptedModel::submit(Request request, const GuideSpec& guide) {
  last_guide = guide;
  auto row = std::make_shared<ScriptedRow>(std::move(request));
  {
    std::lock_guard lock(mutex_);
    rows_.push_back(row);
    submitted_.notify_all();
  }
  if (script_) script_(*row);
  return std::make_unique<Handle>(row);
}

}  // namespace tandem::server
