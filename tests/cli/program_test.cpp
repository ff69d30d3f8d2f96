#include "cli/program.h"

#include <doctest/doctest.h>

#include <iostream>
#include <sstream>
#include <string>
#include <vector>

namespace {

struct Outcome {
  int status = 0;
  std::string out, err;
};

Outcome run(std::vector<std::string> words) {
  words.insert(words.begin(), "tandem");
  std::vector<char*> argv;
  for (auto& word : words) argv.push_back(word.data());
  std::ostringstream out, err;
  auto* old_out = std::cout.rdbuf(out.rdbuf());
  auto* old_err = std::cerr.rdbuf(err.rdbuf());
  const int status = tandem::cli::run_program(static_cast<int>(argv.size()), argv.data());
  std::cout.rdbuf(old_out);
  std::cerr.rdbuf(old_err);
  return {status, out.str(), err.str()};
}

bool holds(const std::string& text, const char* part) {
  return text.find(part) != std::string::npos;
}

// One line on stderr, nothing on stdout, status 1.
void check_refused(const Outcome& outcome, const char* says) {
  CHECK(outcome.status == 1);
  CHECK(outcome.out.empty());
  CHECK(outcome.err.starts_with("tandem: "));
  CHECK(outcome.err.find('\n') == outcome.err.size() - 1);
  INFO(outcome.err);
  CHECK(holds(outcome.err, says));
}

}  // namespace

TEST_CASE("every command has help with examples, and a version") {
  CHECK(holds(run({"--help"}).out, "tandem serve"));
  CHECK(holds(run({}).out, "tandem serve"));
  for (const char* command : {"serve", "generate", "bench"}) {
    const auto help = run({command, "--help"});
    CHECK(help.status == 0);
    CHECK(holds(help.out, "Examples:"));
    CHECK(holds(help.out, "--threads"));
    CHECK(run({command, "--version"}).out.starts_with("tandem "));
  }
  CHECK(run({"--version"}).out.starts_with("tandem "));
}

TEST_CASE("an unknown flag or command is refused with the nearest name") {
  check_refused(run({"serve", "--prot", "1"}), "--port");
  check_refused(run({"serve", "--bach=4"}), "--batch");
  check_refused(run({"bench", "--row", "1"}), "--rows");
  check_refused(run({"srve"}), "serve");
  check_refused(run({"--verson"}), "--version");
  check_refused(run({"serve", "a.gguf", "b.gguf"}), "b.gguf");
}

TEST_CASE("a bad value is refused by its flag") {
  check_refused(run({"serve", "--port", "99999"}), "--port");
  check_refused(run({"serve", "--precision", "best"}), "--precision");
  check_refused(run({"serve", "--batch", "0"}), "--batch");
  check_refused(run({"serve", "--temperature", "hot"}), "--temperature");
  check_refused(run({"bench", "--rows", "1,x"}), "--rows");
  check_refused(run({"generate"}), "--prompt");
}

TEST_CASE("other machines are let in only with a key") {
  check_refused(run({"serve", "--host", "0.0.0.0"}), "--api-key");
}
