#include "cli/program.h"

#include <CLI/CLI.hpp>
#include <iostream>

#include "base/error.h"
#include "base/nearest.h"
#include "cli/commands.h"

namespace tandem::cli {
namespace {

constexpr const char* kExamples = R"(
Examples:
  tandem serve                          serve the default model on http://127.0.0.1:8080
  tandem serve model.gguf --port 9000   serve a GGUF file or a directory of safetensors
  tandem generate --prompt "Why is the sky blue?"
  tandem bench --rows 1,4,16            measure prompt and decode speed

`tandem COMMAND --help` lists the flags of a command.)";

struct Program {
  Program() : app("Runs and serves language models.", "tandem") {
    app.set_version_flag("--version", "tandem " TANDEM_VERSION);
    app.footer(kExamples);
    app.require_subcommand(0, 1);
    add("serve", "serve a model over HTTP, with OpenAI's API", add_serve);
    add("generate", "answer one prompt on the terminal", add_generate);
    add("bench", "measure a model's speed", add_bench);
  }

  void add(const char* name, const char* summary, Command (*add_command)(CLI::App&)) {
    auto* command = app.add_subcommand(name, summary);
    command->set_version_flag("--version", "tandem " TANDEM_VERSION);
    commands.emplace_back(command, add_command(*command));
  }

  CLI::App app;
  std::vector<std::pair<CLI::App*, Command>> commands;
};

std::string with_nearest(std::string message, const std::string& given,
                         const std::vector<std::string>& names) {
  const auto nearest = nearest_name(given, names);
  return nearest.empty() ? message : message + "; did you mean " + nearest + "?";
}

// What CLI11 could not place: a flag that nobody knows, or a word too many.
std::string unexpected(const Program& program) {
  const CLI::App* command = &program.app;
  for (const auto* chosen : program.app.get_subcommands()) command = chosen;
  const auto given = command->remaining(true).front();
  const bool top = command == &program.app;
  const std::string where = top ? "" : " of `tandem " + command->get_name() + "`";
  std::vector<std::string> names;
  if (given.starts_with('-')) {
    for (const auto* option : command->get_options())
      for (const auto& name : option->get_lnames()) names.push_back("--" + name);
    return with_nearest("unknown flag " + given + where, given.substr(0, given.find('=')), names);
  }
  if (!top) return "unexpected argument \"" + given + "\"" + where;
  for (const auto& [known, run] : program.commands) names.push_back(known->get_name());
  return with_nearest("unknown command \"" + given + "\"", given, names);
}

int fail(const std::string& message) {
  std::cerr << "tandem: " << message << '\n';
  return 1;
}

}  // namespace

int run_program(int argc, char** argv) {
  Program program;
  try {
    program.app.parse(argc, argv);
    for (const auto& [command, run] : program.commands)
      if (command->parsed()) return run();
    std::cout << program.app.help();
    return 0;
  } catch (const CLI::ExtrasError&) {
    return fail(unexpected(program));
  } catch (const CLI::Success& asked) {  // --help, --version
    return program.app.exit(asked);
  } catch (const CLI::ParseError& error) {
    return fail(std::string(error.what()) + "; see --help");
  } catch (const Error& error) {
    return fail(error.what());
  } catch (const std::exception& error) {
    return fail(std::string("unexpected: ") + error.what());
  }
}

}  // namespace tandem::cli
