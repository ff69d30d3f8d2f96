#include "engine/guides.h"

#include <algorithm>

#include "base/error.h"
#include "text/tokenizer.h"

namespace tandem {
namespace {

constexpr size_t kCompiledMax = 64;

// Counts what a row thinks, and ends it at the limit.
class ThinkingBudget {
 public:
  ThinkingBudget(ThinkingLimit limit, const Tokenizer& tokenizer)
      : limit_(std::move(limit)), tokenizer_(tokenizer), thinks_(limit_.begun) {
    if (thinks_ && limit_.tokens_max == 0) force();
  }

  std::optional<int32_t> forced() const {
    return forced_.empty() ? std::nullopt : std::optional(forced_.front());
  }

  void accept(int32_t id) {
    if (!forced_.empty()) {
      forced_.pop_front();
      if (forced_.empty()) over_ = true;
      return;
    }
    if (over_) return;
    text_ += tokenizer_.token_bytes(id);
    if (!thinks_) {
      begin();
      return;
    }
    ++tokens_;
    over_ = text_.find(limit_.close) != std::string::npos;
    if (text_.size() > 2 * limit_.close.size()) text_.erase(0, text_.size() - limit_.close.size());
    if (!over_ && tokens_ >= limit_.tokens_max) force();
  }

 private:
  // The opening tag may come at the very start, behind white space.
  void begin() {
    const size_t start = std::min(text_.find_first_not_of(" \n\r\t"), text_.size());
    const std::string_view text = std::string_view(text_).substr(start);
    thinks_ = text.starts_with(limit_.open);
    over_ = !thinks_ && !std::string_view(limit_.open).starts_with(text);
    if (!thinks_) return;
    text_.clear();
    if (limit_.tokens_max == 0) force();
  }

  void force() { forced_.assign(limit_.close_ids.begin(), limit_.close_ids.end()); }

  const ThinkingLimit limit_;
  const Tokenizer& tokenizer_;
  bool thinks_;
  bool over_ = false;
  int tokens_ = 0;
  std::string text_;
  std::deque<int32_t> forced_;
};

// The matcher of one row, and the mask that is being filled for it.
class GrammarState {
 public:
  GrammarState(GrammarMatcher matcher, int64_t vocab_size, std::shared_ptr<GuideThreads> threads)
      : matcher_(std::move(matcher)), bits_((vocab_size + 31) / 32), threads_(std::move(threads)) {
    start();
  }
  ~GrammarState() { wait(); }

  std::span<const uint32_t> mask() {
    wait();
    if (failed_) std::rethrow_exception(failed_);
    return bits_;
  }

  void accept(int32_t id) {
    wait();
    matcher_.accept(id);
    if (!matcher_.is_stopped()) start();
  }

  bool is_stopped() {
    wait();
    return matcher_.is_stopped();
  }

 private:
  void start() {
    {
      std::lock_guard lock(mutex_);
      running_ = true;
    }
    threads_->post([this] {
      try {
        matcher_.mask(bits_);
      } catch (...) {
        failed_ = std::current_exception();
      }
      // The owner may go as soon as it can see this.
      std::lock_guard lock(mutex_);
      running_ = false;
      done_.notify_all();
    });
  }

  void wait() {
    std::unique_lock lock(mutex_);
    done_.wait(lock, [this] { return !running_; });
  }

  GrammarMatcher matcher_;
  std::vector<uint32_t> bits_;
  std::exception_ptr failed_;
  std::shared_ptr<GuideThreads> threads_;
  std::mutex mutex_;
  std::condition_variable done_;
  bool running_ = false;
};

class RowGuide : public TokenGuide {
 public:
  RowGuide(std::unique_ptr<ThinkingBudget> thinking, std::unique_ptr<GrammarState> grammar,
           std::shared_ptr<std::atomic<int64_t>> live)
      : thinking_(std::move(thinking)), grammar_(std::move(grammar)), live_(std::move(live)) {
    ++*live_;
  }

  std::optional<int32_t> forced() override {
    return thinking_ ? thinking_->forced() : std::nullopt;
  }
  std::span<const uint32_t> mask() override {
    return grammar_ ? grammar_->mask() : std::span<const uint32_t>();
  }
  void accept(int32_t id) override {
    if (thinking_) thinking_->accept(id);
    if (grammar_) grammar_->accept(id);
  }
  bool terminated() override { return grammar_ && grammar_->is_stopped(); }
  void dispose() noexcept override {
    grammar_.reset();
    --*live_;
  }

 private:
  std::unique_ptr<ThinkingBudget> thinking_;
  std::unique_ptr<GrammarState> grammar_;
  std::shared_ptr<std::atomic<int64_t>> live_;
};

}  // namespace

GuideThreads::GuideThreads(int threads) {
  for (int i = 0; i < threads; ++i) threads_.emplace_back([this] { run(); });
}

GuideThreads::~GuideThreads() {
  {
    std::lock_guard lock(mutex_);
    ended_ = true;
  }
  changed_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void GuideThreads::post(std::function<void()> work) {
  {
    std::lock_guard lock(mutex_);
    work_.push_back(std::move(work));
  }
  changed_.notify_one();
}

void GuideThreads::run() {
  for (;;) {
    std::function<void()> work;
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [this] { return ended_ || !work_.empty(); });
      if (work_.empty()) return;
      work = std::move(work_.front());
      work_.pop_front();
    }
    work();
  }
}

Guides::Guides(const Tokenizer& tokenizer, std::vector<int32_t> stop_ids, int64_t vocab_size)
    : tokenizer_(tokenizer),
      stop_ids_(std::move(stop_ids)),
      vocab_size_(std::max<int64_t>(vocab_size, tokenizer.vocab_size())),
      threads_(std::make_shared<GuideThreads>(
          std::clamp<int>(static_cast<int>(std::thread::hardware_concurrency()) / 2, 1, 4))) {}

const GrammarCompiler& Guides::compiler() {
  std::call_once(compiler_once_, [this] {
    if (stop_ids_.empty())
      throw Error(ErrorCode::kUnsupported,
                  "this model names no token that ends a text, which a grammar needs");
    compiler_ = std::make_unique<GrammarCompiler>(tokenizer_, stop_ids_);
  });
  return *compiler_;
}

std::shared_ptr<const GrammarMatcher> Guides::compile(GrammarKind kind, const std::string& text) {
  const std::string key = std::to_string(static_cast<int>(kind)) + text;
  std::promise<std::shared_ptr<const GrammarMatcher>> promise;
  Compiled compiled;
  {
    std::lock_guard lock(mutex_);
    if (const auto it = compiled_.find(key); it != compiled_.end()) {
      used_.splice(used_.begin(), used_, it->second.place);
      compiled = it->second.compiled;
    } else {
      used_.push_front(key);
      compiled_.emplace(key, Entry{promise.get_future().share(), used_.begin()});
      if (used_.size() > kCompiledMax) {
        compiled_.erase(used_.back());
        used_.pop_back();
      }
    }
  }
  if (compiled.valid()) return compiled.get();
  try {
    auto made = std::make_shared<const GrammarMatcher>(compiler().compile(kind, text));
    promise.set_value(made);
    return made;
  } catch (...) {
    promise.set_exception(std::current_exception());
    std::lock_guard lock(mutex_);
    if (const auto it = compiled_.find(key); it != compiled_.end()) {
      used_.erase(it->second.place);
      compiled_.erase(it);
    }
    throw;
  }
}

std::unique_ptr<TokenGuide> Guides::make(const GuideSpec& spec) {
  std::unique_ptr<ThinkingBudget> thinking;
  std::unique_ptr<GrammarState> grammar;
  if (spec.thinking) thinking = std::make_unique<ThinkingBudget>(*spec.thinking, tokenizer_);
  if (spec.kind)
    grammar = std::make_unique<GrammarState>(compile(*spec.kind, spec.grammar)->clone(),
                                             vocab_size_, threads_);
  return std::make_unique<RowGuide>(std::move(thinking), std::move(grammar), live_);
}

}  // namespace tandem
