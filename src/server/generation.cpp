#include "server/generation.h"

namespace tandem::server {
namespace {

// Enough to fill a packet or two; more waits until this is written.
constexpr size_t kPumpBytes = 16 << 10;

Error stopping_error() {
  return {ErrorCode::kUnavailable, "the server is shutting down; the answer is not complete"};
}

Error row_error(const Event& event) {
  if (event.finish == FinishReason::kError)
    return {static_cast<ErrorCode>(event.error_code), event.error};
  // Nobody who still reads has cancelled it: the engine is being drained.
  if (event.error.empty()) return stopping_error();
  return {ErrorCode::kUnavailable, event.error};
}

}  // namespace

Generation::Generation(std::vector<std::unique_ptr<Row>> rows,
                       std::unique_ptr<api::ReplyWriter> writer)
    : rows_(std::move(rows)), writer_(std::move(writer)), running_(rows_.size()) {}

Generation::~Generation() {
  for (auto& row : rows_)
    if (row) row->set_listener({});
}

void Generation::set_waker(std::function<void()> wake) {
  for (auto& row : rows_)
    if (row) row->set_listener(wake);
}

void Generation::stop() { stopping_ = true; }

bool Generation::take(int row, std::string& out) {
  Event event;
  if (!rows_[row]->try_next(event)) return false;
  // A row that ended early because its reply is whole was not cut off.
  if (event.finish == FinishReason::kCancelled && !writer_->wants_more(row))
    event.finish = FinishReason::kStop;
  if (event.finish == FinishReason::kError || event.finish == FinishReason::kCancelled)
    throw row_error(event);
  writer_->on_event(row, event, out);
  if (event.finish == FinishReason::kNone) {
    if (!writer_->wants_more(row)) rows_[row]->cancel();
    return true;
  }
  usage_.add(row, event.usage);
  rows_[row]->set_listener({});
  rows_[row].reset();
  if (--running_ == 0) writer_->finish(out);
  return true;
}

void Generation::end_early(const Error& error, std::string& out) {
  ended_ = true;
  for (auto& row : rows_)
    if (row) row->cancel();
  if (!begun_) {
    out.clear();
    throw error;
  }
  writer_->fail(error, out);
}

Producer::State Generation::pump(std::string& out) {
  if (ended_) return State::kDone;
  try {
    for (size_t row = 0; row < rows_.size(); ++row)
      while (rows_[row] && out.size() < kPumpBytes && take(static_cast<int>(row), out)) {
      }
    if (stopping_ && running_ > 0) throw stopping_error();
  } catch (const Error& error) {
    end_early(error, out);
  }
  if (writer_->streams()) begun_ = begun_ || !out.empty();
  if (running_ == 0 || ended_) return State::kDone;
  return out.size() >= kPumpBytes ? State::kMore : State::kWaiting;
}

std::string Generation::summary() const {
  return "prompt=" + std::to_string(usage_.prompt_tokens) +
         " generated=" + std::to_string(usage_.generated_tokens);
}

HttpReply generation_reply(std::vector<std::unique_ptr<Row>> rows,
                           std::unique_ptr<api::ReplyWriter> writer) {
  HttpReply reply;
  if (writer->streams()) {
    reply.content_type = "text/event-stream; charset=utf-8";
    reply.headers.emplace_back("Cache-Control", "no-cache");
    reply.headers.emplace_back("X-Accel-Buffering", "no");
  }
  reply.producer = std::make_unique<Generation>(std::move(rows), std::move(writer));
  return reply;
}

}  // namespace tandem::server
