// The parsers of single formats of tool calls, which an OutputParser runs from
// the text that opens a call to the text that closes it.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "text/parsers/tool_set.h"

namespace tandem {

// Where a call goes. What is not committed becomes plain text if the call
// turns out to be none; every call here but `tools` commits all that was read,
// except for its last `held` bytes.
class CallSink {
 public:
  virtual ~CallSink() = default;
  virtual const ToolSet& tools() const = 0;
  virtual void begin(std::string_view name, std::string_view id = {}) = 0;
  virtual void arguments(std::string_view json, size_t held = 0) = 0;
  virtual void end() = 0;
  virtual void commit(size_t held = 0) = 0;
};

// One thread at a time.
class CallParser {
 public:
  enum class State : uint8_t {
    kMore,
    kDone,  // the byte was the last of the calls
    kBad,   // this is no call: what was not committed is plain text
  };

  virtual ~CallParser() = default;
  virtual State feed(char c, CallSink& sink) = 0;
  // The text has ended: kDone or kBad.
  virtual State finish(CallSink& sink) = 0;
};

// Finds which of a few texts comes, a byte at a time.
class Expected {
 public:
  enum class State : uint8_t { kPart, kFound, kOther };

  explicit Expected(std::vector<std::string> texts) : texts_(std::move(texts)) {}

  // kFound sets `which`. The texts must not begin each other.
  State feed(char c, size_t& which);
  bool begun() const { return !seen_.empty(); }
  void reset() { seen_.clear(); }

 private:
  std::vector<std::string> texts_;
  std::string seen_;
};

// Text up to a closing text, all that is sure.
class Until {
 public:
  // With `trims_newline` a line feed before the closing text belongs to it.
  explicit Until(std::string close, bool trims_newline = false)
      : close_(std::move(close)), trims_newline_(trims_newline) {}

  // Appends to `out`; true if this byte ends the closing text.
  bool feed(char c, std::string& out);
  size_t held() const { return held_.size(); }

 private:
  bool may_close() const;

  std::string close_;
  bool trims_newline_;
  std::string held_;
};

// {"name": N, "arguments": {...}}, one or several, in a list or not.
struct JsonCallsShape {
  std::string close;  // behind the calls; empty: the first whole value ends them
  // For calls without an opening text: another key shows that this is none,
  // and any number of objects follow each other.
  bool strict_keys = false;
};
std::unique_ptr<CallParser> json_calls(JsonCallsShape shape);

// A name, a separator, and the arguments as JSON.
struct NamedCallsShape {
  std::string open;                     // before each call, may be empty
  std::vector<std::string> separators;  // behind the name, one of them
  std::string id_separator;             // NAME id_separator ID separator; empty: none
  std::string close;                    // behind each call; empty: its arguments end it
  std::string section_close;            // behind the last call; empty: nothing
};
std::unique_ptr<CallParser> named_calls(NamedCallsShape shape);

// Tags for each parameter, with values as plain text.
struct TagCallsShape {
  std::string open;             // <function=
  std::string name_end;         // >
  std::string key_open;         // <parameter=
  std::string key_end;          // >
  std::string value_open;       // between key and value, may be empty
  std::string value_close;      // </parameter>
  std::string close;            // </function>
  std::string section_close;    // </tool_call>, may be empty
  bool opened = false;          // `open` is behind us already
  bool trims_newlines = false;  // one at each end of a value
};
std::unique_ptr<CallParser> tag_calls(TagCallsShape shape);

// [name(key=literal, ...), ...] as in Python, in a list or on lines.
struct PythonCallsShape {
  std::string close;  // behind the calls; empty: a list, which its bracket ends
};
std::unique_ptr<CallParser> python_calls(PythonCallsShape shape);

// call:NAME{key:value,...} with strings between quotes of their own.
struct GemmaCallsShape {
  std::string quote;  // <|"|>
  std::string close;
};
std::unique_ptr<CallParser> gemma_calls(GemmaCallsShape shape);

// Chooses by the first byte that is no white space.
struct CallChoice {
  std::string first;  // bytes; empty: any other
  std::unique_ptr<CallParser> parser;
};
std::unique_ptr<CallParser> either_call(std::vector<CallChoice> choices);

}  // namespace tandem
