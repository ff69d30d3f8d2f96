// Makes the guides of rows: compiled grammars, kept for the next request that asks
// for the same, and the threads that fill masks while the forward pass runs.
#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <functional>
#include <future>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include "sched/token_guide.h"
#include "text/grammar.h"

namespace tandem {

class Tokenizer;

// Runs what it is given, in order, on a few threads.
class GuideThreads {
 public:
  explicit GuideThreads(int threads);
  ~GuideThreads();  // what waits is still run
  GuideThreads(const GuideThreads&) = delete;
  GuideThreads& operator=(const GuideThreads&) = delete;

  void post(std::function<void()> work);

 private:
  void run();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> work_;
  bool ended_ = false;
  std::vector<std::thread> threads_;
};

// How many tokens a row may think.
struct ThinkingLimit {
  int tokens_max = 0;
  bool begun = false;              // by the prompt
  std::string open, close;         // the tags as text
  std::vector<int32_t> close_ids;  // what is generated when the budget is spent
};

struct GuideSpec {
  std::optional<GrammarKind> kind;  // none: no grammar
  std::string grammar;
  std::optional<ThinkingLimit> thinking;

  bool any() const { return kind || thinking; }
};

class Guides {
 public:
  // `stop_ids` end a text (one or more for grammars). All must outlive this and its
  // guides; so must this its guides.
  Guides(const Tokenizer& tokenizer, std::vector<int32_t> stop_ids, int64_t vocab_size);

  // Any thread. Compiles once for all that ask at the same time. Throws
  // Error(kInvalid) with what is wrong with the grammar.
  std::unique_ptr<TokenGuide> make(const GuideSpec& spec);

  // Compiles what make will need, so that it only copies. Throws as make does.
  void prepare(GrammarKind kind, const std::string& grammar) { compile(kind, grammar); }

  // Guides made and not disposed of.
  int64_t live() const { return *live_; }

 private:
  using Compiled = std::shared_future<std::shared_ptr<const GrammarMatcher>>;
  struct Entry {
    Compiled compiled;
    std::list<std::string>::iterator place;
  };

  std::shared_ptr<const GrammarMatcher> compile(GrammarKind kind, const std::string& text);
  const GrammarCompiler& compiler();

  const Tokenizer& tokenizer_;
  const std::vector<int32_t> stop_ids_;
  const int64_t vocab_size_;
  std::once_flag compiler_once_;
  std::unique_ptr<GrammarCompiler> compiler_;
  std::mutex mutex_;
  std::unordered_map<std::string, Entry> compiled_;
  std::list<std::string> used_;  // keys, the latest first
  std::shared_ptr<std::atomic<int64_t>> live_ = std::make_shared<std::atomic<int64_t>>(0);
  std::shared_ptr<GuideThreads> threads_;
};

}  // namespace tandem
