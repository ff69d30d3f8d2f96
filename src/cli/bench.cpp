#include <CLI/CLI.hpp>
#include <cstdio>
#include <iostream>
#include <nlohmann/json.hpp>

#include "api/json_text.h"
#include "backend/cpu/isa.h"
#include "base/error.h"
#include "base/thread_pool.h"
#include "cli/bench_run.h"
#include "cli/commands.h"
#include "cli/model_options.h"

namespace tandem::cli {
namespace {

using api::OrderedJson;

constexpr uint64_t kRowsMax = 1024;  // in a run; each row has a seed of its own

constexpr const char* kExamples = R"(
Examples:
  tandem bench                                  the default model: prompt of 512, 1 row
  tandem bench model.gguf --rows 1,4,16 --gen-tokens 128
  tandem bench --depth 4096 --rows 1            decode behind a long context
  tandem bench --precision fast --threads 4 --json > result.json

Prompts are random token ids; answers run to their full length. Each number is the best of
--repeat runs after one that is not counted; progress goes to stderr.)";

struct BenchOptions {
  LoadOptions load;
  int prompt_tokens = 512;
  int gen_tokens = 128;
  int depth = 0;
  int repeat = 3;
  std::vector<int> rows = {1};
  bool json = false;
};

struct BenchResult {
  double prefill_tps = 0;
  std::vector<std::pair<int, DecodeSpeed>> decode;  // by rows
};

void note(const std::string& progress) { std::cerr << progress << '\n'; }

double best_prefill(Engine& engine, const BenchOptions& options, uint64_t seed) {
  double best = 0;
  for (int run = 0; run < options.repeat; ++run)
    best = std::max(best, measure_prefill(engine, options.prompt_tokens, seed + kRowsMax * run));
  return best;
}

DecodeSpeed best_decode(Engine& engine, const BenchOptions& options, int rows, uint64_t seed) {
  DecodeSpeed best;
  for (int run = 0; run < options.repeat; ++run) {
    const auto speed =
        measure_decode(engine, rows, options.depth, options.gen_tokens, seed + kRowsMax * run);
    if (speed.tps > best.tps) best = speed;
  }
  return best;
}

BenchResult run_bench(Engine& engine, const BenchOptions& options) {
  BenchResult result;
  uint64_t seed = 1;
  const auto next_seed = [&] { return seed += kRowsMax * options.repeat; };
  // Once without the clock: first use of kernels and buffers.
  measure_prefill(engine, std::clamp(options.prompt_tokens, 16, 512), next_seed());
  if (options.prompt_tokens > 0) {
    note("prefill: " + std::to_string(options.prompt_tokens) + " tokens");
    result.prefill_tps = best_prefill(engine, options, next_seed());
  }
  for (int rows : options.rows) {
    note("decode: " + std::to_string(rows) + " rows of " + std::to_string(options.gen_tokens) +
         " tokens");
    result.decode.emplace_back(rows, best_decode(engine, options, rows, next_seed()));
  }
  return result;
}

std::string used_isa(const BenchOptions& options) {
  if (options.load.backend != BackendKind::kCpu) return "none";
  const char* forced = std::getenv("TANDEM_ISA");
  return cpu::isa_name(cpu::choose_isa(forced ? forced : ""));
}

int used_threads(const BenchOptions& options) {
  return options.load.threads > 0 ? options.load.threads : physical_cores();
}

void print_json(const BenchResult& result, const ModelCard& card, const BenchOptions& options) {
  auto decode = OrderedJson::array();
  for (const auto& [rows, speed] : result.decode)
    decode.push_back(
        OrderedJson{{"rows", rows}, {"tps", speed.tps}, {"engine_share", speed.engine_share}});
  const OrderedJson out = {
      {"model", card.id},
      {"backend", card.backend},
      {"threads", used_threads(options)},
      {"isa", used_isa(options)},
      {"precision", precision_name(card.precision)},
      {"depth", options.depth},
      {"prefill", {{"tokens", options.prompt_tokens}, {"tps", result.prefill_tps}}},
      {"decode", std::move(decode)}};
  std::cout << api::to_text(out) << '\n';
}

void print_table(const BenchResult& result, const ModelCard& card, const BenchOptions& options) {
  std::printf("%s  %s  %s  %d threads  %s\n\n", card.id.c_str(), card.backend.c_str(),
              used_isa(options).c_str(), used_threads(options), precision_name(card.precision));
  std::printf("%-28s %12s\n", "", "tokens/s");
  if (options.prompt_tokens > 0)
    std::printf("%-28s %12.1f\n",
                ("prefill " + std::to_string(options.prompt_tokens) + " tokens").c_str(),
                result.prefill_tps);
  for (const auto& [rows, speed] : result.decode) {
    const auto label =
        "decode " + std::to_string(rows) + " rows, depth " + std::to_string(options.depth);
    std::printf("%-28s %12.1f\n", label.c_str(), speed.tps);
  }
}

int bench(BenchOptions& options) {
  EngineOptions engine_options;
  engine_options.max_rows = *std::max_element(options.rows.begin(), options.rows.end());
  engine_options.step_tokens = std::max(engine_options.step_tokens, engine_options.max_rows * 2);
  engine_options.queue_max = engine_options.max_rows;
  options.load.max_rows = engine_options.max_rows;
  if (options.load.context_length == 0)
    options.load.context_length =
        std::max(options.prompt_tokens, options.depth + options.gen_tokens) + 16;
  note("loading " + options.load.model);
  Engine engine(engine_options, [&options] { return load_model(options.load); });
  engine.wait_ready();
  const auto result = run_bench(engine, options);
  if (options.json)
    print_json(result, engine.card(), options);
  else
    print_table(result, engine.card(), options);
  return 0;
}

}  // namespace

Command add_bench(CLI::App& app) {
  auto options = std::make_shared<BenchOptions>();
  add_model_options(app, options->load);
  app.add_option("--prompt-tokens", options->prompt_tokens,
                 "length of the prompt to compute (default 512), 0 = skip")
      ->check(CLI::Range(0, 1 << 20))
      ->type_name("N");
  app.add_option("--gen-tokens", options->gen_tokens, "tokens to decode in each row (default 128)")
      ->check(CLI::Range(1, 1 << 20))
      ->type_name("N");
  app.add_option("--rows", options->rows, "rows decoded at once; several: 1,4,16 (default 1)")
      ->delimiter(',')
      ->check(CLI::Range(1, static_cast<int>(kRowsMax)))
      ->type_name("N,N,...");
  app.add_option("--depth", options->depth, "tokens in the context before decoding (default 0)")
      ->check(CLI::Range(0, 1 << 20))
      ->type_name("N");
  app.add_option("--repeat", options->repeat, "runs of each; the best counts (default 3)")
      ->check(CLI::Range(1, 1000))
      ->type_name("N");
  app.add_flag("--json", options->json, "print one JSON object");
  app.footer(kExamples);
  return [options] { return bench(*options); };
}

}  // namespace tandem::cli
