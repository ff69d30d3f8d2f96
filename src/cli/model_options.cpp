#include "cli/model_options.h"

#include <CLI/CLI.hpp>

namespace tandem::cli {
namespace {

constexpr std::pair<const char*, Precision> kPrecisions[] = {
    {"exact", Precision::kExact}, {"high", Precision::kHigh}, {"fast", Precision::kFast}};
constexpr std::pair<const char*, BackendKind> kBackends[] = {{"cpu", BackendKind::kCpu},
                                                             {"mlx", BackendKind::kMlx}};

// A flag that takes one of a few names.
template <typename T, size_t N>
void add_choice(CLI::App& app, const std::string& flag, T& value,
                const std::pair<const char*, T> (&choices)[N], const std::string& help) {
  std::vector<std::string> names;
  for (const auto& choice : choices) names.emplace_back(choice.first);
  app.add_option_function<std::string>(
         flag,
         [&value, &choices](const std::string& name) {
           for (const auto& choice : choices)
             if (name == choice.first) value = choice.second;
         },
         help)
      ->check(CLI::IsMember(names))
      ->type_name(CLI::detail::join(names, "|"));
}

}  // namespace

void add_model_options(CLI::App& app, LoadOptions& options) {
  app.add_option("MODEL,--model", options.model,
                 "a .gguf file, a directory of safetensors, a cached Hugging Face id, or "
                 "\"default\"")
      ->type_name("");
  add_choice(app, "--backend", options.backend, kBackends, "what computes (default cpu)");
  add_choice(app, "--precision", options.precision, kPrecisions,
             "exact: float32 throughout; high (default): bf16-class; fast: int8 activations");
  app.add_option("--threads", options.threads, "compute threads (default: physical cores)")
      ->check(CLI::Range(1, 1024))
      ->type_name("N");
  app.add_option("--context-length", options.context_length,
                 "tokens of prompt and answer together (default: the model's, at most " +
                     std::to_string(kContextDefault) + ")")
      ->check(CLI::Range(1, 1 << 24))
      ->type_name("N");
  app.add_option_function<std::string>(
         "--kv-quant",
         [&options](const std::string& text) {
           const int start = options.kv_quant.start;
           options.kv_quant = parse_kv_quant(text);
           options.kv_quant.start = start;
         },
         "keys and values in 8 or 4 bits, per layer from the model's kv_config.json (config), "
         "or by TurboQuant (default off)")
      ->type_name("off|8|4|config|turbo[:kKvV]");
  app.add_option("--kv-quant-start", options.kv_quant.start,
                 "tokens at the start that stay unquantised (default 0; whole pages of " +
                     std::to_string(kPageTokens) + ")")
      ->check(CLI::Range(0, 1 << 24))
      ->type_name("N");
  app.add_option("--memory-budget", options.memory_budget_bytes,
                 "memory for weights and KV cache, e.g. 8GB (default: what is available)")
      ->transform(CLI::AsSizeValue(true))
      ->type_name("SIZE");
  app.add_option("--kv-budget", options.kv_budget_bytes,
                 "memory for the KV cache alone (default: what --batch contexts need)")
      ->transform(CLI::AsSizeValue(true))
      ->type_name("SIZE");
}

void add_sampling_options(CLI::App& app, api::SamplingChoice& choice) {
  app.add_option("--max-tokens", choice.max_tokens, "longest answer, in tokens")
      ->check(CLI::Range(1, 1 << 24))
      ->type_name("N");
  app.add_option("--temperature,--temp", choice.temperature,
                 "0 = always the most likely token (default: the model's, or 0.7)")
      ->check(CLI::Range(0.0, 5.0))
      ->type_name("T");
  app.add_option("--top-p", choice.top_p, "keep the most likely tokens up to this probability")
      ->check(CLI::Range(1e-6, 1.0))
      ->type_name("P");
  app.add_option("--top-k", choice.top_k, "keep this many of the most likely tokens, 0 = all")
      ->check(CLI::Range(0, 1 << 24))
      ->type_name("K");
  app.add_option("--min-p", choice.min_p, "drop tokens less likely than this part of the best")
      ->check(CLI::Range(0.0, 1.0))
      ->type_name("P");
}

}  // namespace tandem::cli
