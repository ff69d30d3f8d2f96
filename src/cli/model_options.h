// Flags that every subcommand which loads a model has.
#pragma once

#include "api/sampling_defaults.h"
#include "engine/load_model.h"

namespace CLI {
class App;
}

namespace tandem::cli {

// MODEL, --model, --backend, --precision, --threads, --context-length,
// --memory-budget, --kv-budget.
void add_model_options(CLI::App& app, LoadOptions& options);

// --max-tokens, --temperature, --top-p, --top-k, --min-p.
void add_sampling_options(CLI::App& app, api::SamplingChoice& choice);

}  // namespace tandem::cli
