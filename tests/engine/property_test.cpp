// Random mixes of everything the engine does to rows: each must come out as it does
// alone, to the last bit.
#include <doctest/doctest.h>

#include <cstdlib>
#include <filesystem>
#include <map>
#include <random>

#include "engine/kv_pools.h"
#include "helpers.h"

using namespace tandem;
using namespace tandem::testing;

namespace {

using Load = std::function<LoadedModel()>;

struct Kind {
  const char* name;
  int32_t vocab;
  int contexts;  // that the pools hold for the batch
  std::function<LoadedModel(int contexts)> load;
};

Kind fake_kind(const char* name, FakeOptions fake) {
  fake.context_length = 400;
  return {name, 90, 2, [fake](int contexts) {
            FakeOptions own = fake;
            own.contexts_in_memory = contexts;
            return load_fake(own);
          }};
}

Kind tiny_kind(const char* model, Precision precision, int32_t step_tokens) {
  return {model, 90, 2, [=](int contexts) {
            const auto folder = std::filesystem::path(TANDEM_GOLDENS) / "tiny" / model;
            const auto gguf = folder / "model.gguf";
            LoadedModel loaded = load_model({.model = (exists(gguf) ? gguf : folder).string(),
                                             .precision = precision,
                                             .threads = 2});
            loaded.card.kv_bytes_max =
                contexts * kv_row_bytes(loaded.model->info(), loaded.card.kv_codec,
                                        loaded.card.context_length, step_tokens);
            return loaded;
          }};
}

struct Mix {
  Mix(const Kind& kind, uint32_t seed) : kind(kind), random(seed) {}

  int32_t pick(int32_t low, int32_t high) {
    return low + static_cast<int32_t>(random() % static_cast<uint32_t>(high - low + 1));
  }

  Ids random_ids(int length) {
    Ids ids(length);
    for (int32_t& id : ids) id = pick(0, kind.vocab - 1);
    return ids;
  }

  // Prompts begin alike as often as not.
  Ids random_prompt(int longest) {
    Ids ids = bases[pick(0, static_cast<int>(bases.size()) - 1)];
    ids.resize(pick(0, std::min<int>(longest - 1, static_cast<int>(ids.size()))));
    const Ids tail =
        random_ids(pick(pick(0, 3) == 0 ? 0 : 1, longest - static_cast<int>(ids.size())));
    ids.insert(ids.end(), tail.begin(), tail.end());
    if (ids.empty()) ids.push_back(1);
    return ids;
  }

  Request random_request(int context) {
    Request r = request(random_prompt(context * 2 / 3), pick(1, context / 3));
    r.ignore_eos = true;
    r.logprobs = pick(0, 2);
    if (pick(0, 5) == 0) r.prompt_logprobs = 1;
    if (pick(0, 1)) {
      r.sampling.temperature = 0.9f;
      r.sampling.seed = random();
      r.sampling.top_p = 0.95f;
    }
    if (pick(0, 3) == 0) r.sampling.repetition_penalty = 1.2f;
    r.priority = pick(0, 9) == 0 ? 1 : 0;
    return r;
  }

  EngineOptions random_options() {
    EngineOptions options;
    options.max_rows = pick(1, 6);
    options.step_tokens = pick(options.max_rows + 1, 64);
    options.stream_events_max = pick(2, 40);
    options.queue_max = 1000;
    options.prompt_cache_bytes = pick(0, 3) == 0 ? 20'000 : int64_t{1} << 30;
    return options;
  }

  const Kind& kind;
  std::mt19937 random;
  std::vector<Ids> bases;
};

std::unique_ptr<Engine> engine_of(const Kind& kind, int contexts, EngineOptions options) {
  auto result =
      std::make_unique<Engine>(options, [&kind, contexts] { return kind.load(contexts); });
  result->wait_ready();
  return result;
}

struct Job {
  Request request;
  Collected alone;
  std::shared_ptr<Stream> stream;
  Collected got;
  int cancel_after = -1;  // events
};

void take(Job& job, const Event& event) {
  for (const TokenInfo& token : event.tokens) job.got.ids.push_back(token.id);
  job.got.tokens.insert(job.got.tokens.end(), event.tokens.begin(), event.tokens.end());
  job.got.prompt.insert(job.got.prompt.end(), event.prompt.begin(), event.prompt.end());
  job.got.last = event;
  if (job.cancel_after >= 0 && job.cancel_after-- == 0) job.stream->cancel();
}

// Requires: what was delivered is the beginning of what is delivered alone.
void require_beginning(const std::vector<TokenInfo>& got, const std::vector<TokenInfo>& alone) {
  REQUIRE(got.size() <= alone.size());
  for (size_t i = 0; i < got.size(); ++i) {
    REQUIRE(got[i].id == alone[i].id);
    REQUIRE(got[i].logprob == alone[i].logprob);
  }
}

void run_mix(Mix& mix, int jobs_count) {
  auto quiet = engine_of(
      mix.kind, 1,
      {.max_rows = 1, .step_tokens = 64, .prompt_cache_bytes = 0, .stream_events_max = 1000});
  const int context = std::min(400, quiet->card().context_length);
  for (int i = 0; i < 3; ++i) mix.bases.push_back(mix.random_ids(context));
  std::vector<Job> jobs(jobs_count);
  for (Job& job : jobs) {
    job.request = mix.random_request(context);
    job.alone = run(*quiet, job.request);
    REQUIRE(job.alone.last.finish == FinishReason::kLength);
    if (mix.pick(0, 4) == 0) job.cancel_after = mix.pick(0, 20);
  }
  auto busy = engine_of(mix.kind, mix.kind.contexts, mix.random_options());
  size_t submitted = 0;
  std::vector<Job*> open;
  while (submitted < jobs.size() || !open.empty()) {
    if (submitted < jobs.size() && mix.pick(0, 3) == 0) {
      Job& job = jobs[submitted++];
      job.stream = busy->submit(job.request);
      open.push_back(&job);
    }
    if (open.empty()) continue;
    Job& job = *open[mix.pick(0, static_cast<int>(open.size()) - 1)];
    Event event;
    // Readers come now and then, so that some rows are paused.
    for (int i = mix.pick(0, 8); i > 0 && job.stream->next_for(event, std::chrono::milliseconds(2));
         --i) {
      take(job, event);
    }
    if (job.stream->finished()) std::erase(open, &job);
  }
  int cancelled = 0;
  for (size_t i = 0; i < jobs.size(); ++i) {
    CAPTURE(i);
    const Job& job = jobs[i];
    CAPTURE(job.request.prompt.size());
    CAPTURE(job.request.prompt_logprobs);
    CAPTURE(job.request.max_tokens);
    CAPTURE(job.got.tokens.size());
    require_beginning(job.got.tokens, job.alone.tokens);
    require_beginning(job.got.prompt, job.alone.prompt);
    if (job.got.last.finish == FinishReason::kCancelled) {
      ++cancelled;
      continue;
    }
    REQUIRE(job.got.last.finish == FinishReason::kLength);
    REQUIRE(job.got.tokens.size() == job.alone.tokens.size());
    REQUIRE(job.got.prompt.size() == job.alone.prompt.size());
  }
  REQUIRE(busy->wait_idle(std::chrono::seconds(60)));
  const EngineStats stats = busy->stats();
  CHECK(stats.finished_error == 0);
  CHECK(stats.finished_cancelled == cancelled);
  CHECK(stats.kv_pages_used == 0);
  CHECK(stats.waiting_rows == 0);
  CHECK_FALSE(stats.locked);
}

// How much longer than in `make test` a fuzz test is to run.
int fuzz_factor() {
  const char* text = std::getenv("TANDEM_FUZZ_FACTOR");
  return text ? std::max(1, static_cast<int>(std::strtol(text, nullptr, 10))) : 1;
}

}  // namespace

TEST_CASE("whatever joins, leaves, waits, shares and is preempted, each row is as it is alone") {
  const Kind kinds[] = {
      fake_kind("full", {}),
      fake_kind("sliding", {.window = 40}),
      fake_kind("state", {.states = true}),
      fake_kind("all", {.window = 33, .states = true}),
  };
  const uint32_t seed = std::random_device{}();
  CAPTURE(seed);
  for (int round = 0; round < 4 * fuzz_factor(); ++round) {
    for (const Kind& kind : kinds) {
      CAPTURE(round);
      CAPTURE(std::string(kind.name));
      Mix mix(kind, seed + round);
      run_mix(mix, 30);
    }
  }
}

TEST_CASE("whatever happens to rows of a real model, their bits are those of a row alone") {
  const Kind kinds[] = {
      tiny_kind("llama", Precision::kExact, 64),
      tiny_kind("gguf-q4_1", Precision::kHigh, 64),
      tiny_kind("mlx-4bit-g64", Precision::kFast, 64),
      tiny_kind("gemma3", Precision::kHigh, 64),
      tiny_kind("mistral-window", Precision::kExact, 64),
  };
  const uint32_t seed = std::random_device{}();
  CAPTURE(seed);
  for (int round = 0; round < fuzz_factor(); ++round) {
    for (const Kind& kind : kinds) {
      CAPTURE(round);
      CAPTURE(std::string(kind.name));
      Mix mix(kind, seed + round);
      run_mix(mix, 12);
    }
  }
}
