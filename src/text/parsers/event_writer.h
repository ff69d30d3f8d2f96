// Where the parsers put events; keeps the bytes of a call that is not certain.
#pragma once

#include "text/parsers/call_parser.h"
#include "text/parsers/output_event.h"

namespace tandem {

class EventWriter : public CallSink {
 public:
  explicit EventWriter(ToolSet tools) : tools_(std::move(tools)) {}

  void write_to(OutputEvents& out) { out_ = &out; }
  void content(std::string_view text);
  void reasoning(std::string_view text);

  const ToolSet& tools() const override { return tools_; }
  void begin(std::string_view name, std::string_view id) override;
  void arguments(std::string_view json, size_t held) override;
  void end() override;
  void commit(size_t held) override;

  // A call may begin here.
  void start() { untouched_ = true; }
  // Bytes read since the last commit.
  void read(char c) { raw_ += c; }
  size_t unsure() const { return raw_.size(); }
  std::string take_unsure();
  // Nothing has been committed since the start.
  bool untouched() const { return untouched_; }

  bool full() const { return tools_.calls_max > 0 && ended_ >= tools_.calls_max; }

 private:
  ToolSet tools_;
  OutputEvents* out_ = nullptr;
  std::string raw_;
  bool untouched_ = false;
  int calls_ = 0;
  int ended_ = 0;
};

}  // namespace tandem
