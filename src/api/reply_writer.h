// Turns the events of one call's rows into the bytes of its reply. One class for
// each endpoint and for streamed and whole replies.
#pragma once

#include <functional>
#include <string>

#include "base/error.h"
#include "sched/request.h"

namespace tandem::api {

// Raw bytes of one token, possibly part of a character; empty without a tokenizer.
using TokenBytes = std::function<std::string(int32_t id)>;

// What every reply repeats.
struct CallHead {
  std::string id;       // "chatcmpl-..."
  int64_t created = 0;  // unix seconds
  std::string model;    // served id
  int choices_per_prompt = 1;
  bool include_usage = false;
  bool return_token_ids = false;
  bool with_logprobs = false;
  TokenBytes token_bytes;
};

// Tokens of a call, over all of its rows: a prompt counts once for all of its
// choices.
class UsageSum {
 public:
  explicit UsageSum(int choices_per_prompt) : choices_per_prompt_(choices_per_prompt) {}
  void add(int row, const Usage& usage);

  int prompt_tokens = 0;
  int cached_tokens = 0;
  int generated_tokens = 0;

 private:
  int choices_per_prompt_;
};

class ReplyWriter {
 public:
  virtual ~ReplyWriter() = default;

  // Events of a row come in order; rows are interleaved. Appends what can be
  // sent now.
  virtual void on_event(int row, const Event& event, std::string& out) = 0;
  // All rows have ended.
  virtual void finish(std::string& out) = 0;
  // A stream that has begun ends with this instead of finish.
  virtual void fail(const Error& error, std::string& out) = 0;

  // False when what comes of this row any more would be dropped: it may end early.
  virtual bool wants_more(int /*row*/) const { return true; }

  virtual bool streams() const = 0;  // server-sent events; otherwise one JSON body
};

}  // namespace tandem::api
