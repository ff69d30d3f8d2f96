#include "engine/guides.h"

#include <doctest/doctest.h>

#include <thread>

#include "engine/helpers.h"

using namespace tandem;
using namespace tandem::testing;

namespace {

// An engine on the fake model with a tokenizer, and guides for it.
struct Rig {
  explicit Rig(FakeOptions fake = {}, EngineOptions options = {})
      : tokenizer(fake_tokenizer()), guides(*tokenizer, {kEndToken}, kFakeVocab) {
    fake.tokenizer = tokenizer;
    fake.stop_ids = {kEndToken};
    served = engine(fake, options);
  }

  std::shared_ptr<Stream> submit(Request r, const GuideSpec& spec) {
    SubmitOptions options;
    options.resource = guides.make(spec);
    return served->submit(std::move(r), std::move(options));
  }

  std::shared_ptr<const Tokenizer> tokenizer;
  Guides guides;
  std::unique_ptr<Engine> served;
};

GuideSpec regex(std::string text) {
  return {.kind = GrammarKind::kRegex, .grammar = std::move(text), .thinking = {}};
}

Request sampled(int seed) {
  Request r = request(prompt(5, seed), 60);
  r.sampling.temperature = 1.5f;
  r.sampling.seed = static_cast<uint64_t>(seed);
  return r;
}

}  // namespace

TEST_CASE("a row under a grammar says only what it allows, and ends when that is whole") {
  Rig rig;
  for (int seed = 1; seed <= 20; ++seed) {
    const auto answer = collect(*rig.submit(sampled(seed), regex("[0-9]{3}-(ab|cd)")));
    CHECK(answer.last.finish == FinishReason::kStop);
    REQUIRE(answer.text.size() == 6);
    for (int i = 0; i < 3; ++i) CHECK((answer.text[i] >= '0' && answer.text[i] <= '9'));
    CHECK((answer.text.ends_with("-ab") || answer.text.ends_with("-cd")));
  }
}

TEST_CASE("many rows under grammars at once say what each says alone") {
  Rig rig;
  std::vector<std::string> alone, together;
  const auto spec = [](int seed) {
    return regex(seed % 2 == 0 ? "[a-f]{8,30}" : "([0-9]+,)*[0-9]+\\.");
  };
  const auto ask = [&](int seed) {
    Request r = sampled(seed);
    r.sampling.repetition_penalty = 1.2f;
    r.logprobs = 2;
    return rig.submit(std::move(r), spec(seed));
  };
  for (int seed = 1; seed <= 12; ++seed) alone.push_back(collect(*ask(seed)).text);
  std::vector<std::shared_ptr<Stream>> streams;
  for (int seed = 1; seed <= 12; ++seed) streams.push_back(ask(seed));
  for (auto& stream : streams) together.push_back(collect(*stream).text);
  CHECK(together == alone);
}

TEST_CASE("when nothing but the end may come and the end is forbidden, the row ends") {
  Rig rig;
  Request r = sampled(1);
  r.min_tokens = 40;
  const auto answer = collect(*rig.submit(std::move(r), regex("[0-9]{4}")));
  CHECK(answer.last.finish == FinishReason::kStop);
  CHECK(answer.text.size() == 4);
  Request ignoring = sampled(2);
  ignoring.ignore_eos = true;
  CHECK(collect(*rig.submit(std::move(ignoring), regex("[0-9]{4}"))).text.size() == 4);
}

TEST_CASE("a bias can't choose what the grammar forbids") {
  Rig rig;
  Request r = sampled(1);
  r.sampling.logit_bias['x' - kFirstCharacter] = 100;
  CHECK(collect(*rig.submit(std::move(r), regex("y{5}"))).text == "yyyyy");
}

TEST_CASE("a guide is disposed of on every path on which a row ends") {
  {
    Rig rig;
    collect(*rig.submit(sampled(1), regex("[0-9]{4}")));  // whole
    Request poisoned = request({kPoisonToken}, 5);        // fails
    collect(*rig.submit(std::move(poisoned), regex("[0-9]{4}")));
    auto stream = rig.submit(request(prompt(5), 200), regex("[0-9]*"));
    stream->cancel();
    collect(*stream);
    stream.reset();
    rig.submit(request(prompt(5), 200), regex("[0-9]*")).reset();  // nobody reads
    CHECK(error_of([&] { rig.submit(request({}, 5), regex("a")); }).code() ==
          ErrorCode::kInvalid);  // refused
    CHECK(rig.served->wait_idle(std::chrono::seconds(10)));
    CHECK(rig.guides.live() == 0);
  }
  Rig rig;
  auto stream = rig.submit(request(prompt(5), 200), regex("[0-9]*"));
  rig.served.reset();  // the engine ends under it
  CHECK(rig.guides.live() == 0);
}

TEST_CASE("a budget for thinking forces the end of it, and the answer goes on") {
  FakeOptions fake;
  fake.script = {'a' - kFirstCharacter};
  Rig rig(fake);
  const auto ids = [](std::string_view text) {
    Ids out;
    for (const char c : text) out.push_back(c - kFirstCharacter);
    return out;
  };
  GuideSpec spec;
  spec.thinking = ThinkingLimit{
      .tokens_max = 3, .begun = true, .open = "<t>", .close = "</t>", .close_ids = ids("</t>")};
  CHECK(collect(*rig.submit(request(prompt(5), 10), spec)).text == "aaa</t>aaa");
  spec.thinking->tokens_max = 0;
  CHECK(collect(*rig.submit(request(prompt(5), 6), spec)).text == "</t>aa");
  spec.thinking->begun = false;  // and never begins
  CHECK(collect(*rig.submit(request(prompt(5), 6), spec)).text == "aaaaaa");
}

TEST_CASE("a grammar that many ask for at once is compiled once for all, or refused for all") {
  Rig rig;
  std::vector<std::thread> threads;
  std::atomic<int> made = 0, refused = 0;
  for (int i = 0; i < 8; ++i)
    threads.emplace_back([&] {
      if (auto guide = rig.guides.make(regex("[a-z]{1,9}"))) {
        ++made;
        guide->dispose();
      }
      refused += error_of([&] { rig.guides.make(regex("(")); }).code() == ErrorCode::kInvalid;
    });
  for (auto& thread : threads) thread.join();
  CHECK(made == 8);
  CHECK(refused == 8);
  CHECK(rig.guides.live() == 0);
}
