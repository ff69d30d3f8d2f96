// The subcommands; each adds its flags to a CLI11 app and gives back what to run.
#pragma once

#include <functional>

namespace CLI {
class App;
}

namespace tandem::cli {

// Returns the exit status; throws Error.
using Command = std::function<int()>;

Command add_serve(CLI::App& app);
Command add_generate(CLI::App& app);
Command add_bench(CLI::App& app);

}  // namespace tandem::cli
