// Runs a fuzz target without libFuzzer: every seed as it is, then seeded mutations of the seeds.
//   fuzz_<name> [-runs=N] [-seed=S] FILE|FOLDER...
// The same arguments try the same inputs. It prints the run's number when the target dies, so that
// -runs=<number + 1> with the same seed tries it again.
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <csignal>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <random>
#include <string>
#include <string_view>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace {

using Bytes = std::vector<uint8_t>;

constexpr size_t kInputBytesMax = size_t{1} << 16;
volatile std::sig_atomic_t current_run = -1;

void report(int signal) {
  std::array<char, 64> text{"fuzz: died at run "};
  size_t length = std::strlen(text.data());
  auto* end = std::to_chars(text.data() + length, text.data() + 60, int{current_run}).ptr;
  *end++ = '\n';
  if (write(2, text.data(), static_cast<size_t>(end - text.data())) < 0) _exit(1);
  std::signal(signal, SIG_DFL);
  std::raise(signal);
}

Bytes read_file(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

void add_seeds(const std::filesystem::path& path, std::vector<Bytes>& seeds) {
  if (!std::filesystem::is_directory(path)) {
    seeds.push_back(read_file(path));
    return;
  }
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(path)) files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  for (const auto& file : files) seeds.push_back(read_file(file));
}

// Changes an input the ways that break parsers: flipped and overwritten bytes, extreme integers,
// cut, repeated and swapped-in spans.
class Mutator {
 public:
  Mutator(const std::vector<Bytes>& seeds, uint64_t seed) : seeds_(seeds), random_(seed) {}

  Bytes next() {
    Bytes input = seeds_[below(seeds_.size())];
    for (size_t steps = 1 + below(4); steps > 0; --steps) mutate(input);
    if (input.size() > kInputBytesMax) input.resize(kInputBytesMax);
    return input;
  }

 private:
  size_t below(size_t limit) { return limit == 0 ? 0 : random_() % limit; }

  void mutate(Bytes& input) {
    size_t at = below(input.size() + 1);
    size_t length = below(std::min<size_t>(input.size() - at, 64) + 1);
    auto here = input.begin() + static_cast<ptrdiff_t>(at);
    auto there = here + static_cast<ptrdiff_t>(length);
    switch (below(6)) {
      case 0:
        if (at < input.size()) input[at] ^= static_cast<uint8_t>(1U << below(8));
        break;
      case 1:
        if (at < input.size()) input[at] = static_cast<uint8_t>(below(256));
        break;
      case 2:
        write_integer(input, at);
        break;
      case 3:
        input.erase(here, there);
        break;
      case 4: {
        Bytes span(here, there);
        input.insert(here, span.begin(), span.end());
        break;
      }
      default: {
        const Bytes& other = seeds_[below(seeds_.size())];
        size_t from = below(other.size() + 1);
        size_t count = below(std::min<size_t>(other.size() - from, 64) + 1);
        auto start = other.begin() + static_cast<ptrdiff_t>(from);
        input.insert(here, start, start + static_cast<ptrdiff_t>(count));
      }
    }
  }

  void write_integer(Bytes& input, size_t at) {
    constexpr std::array<uint64_t, 9> kValues{
        0, 1, 0x7f, 0xffff, 0x7fffffff, 0xffffffff, uint64_t{1} << 42, INT64_MAX, UINT64_MAX};
    uint64_t value = kValues[below(kValues.size())];
    size_t bytes = std::min(size_t{1} << below(4), input.size() - at);
    std::memcpy(input.data() + at, &value, bytes);
  }

  const std::vector<Bytes>& seeds_;
  std::mt19937_64 random_;
};

void run(const Bytes& input) {
  current_run = current_run + 1;
  LLVMFuzzerTestOneInput(input.data(), input.size());
}

}  // namespace

int main(int argc, char** argv) {
  uint64_t runs = 1000;
  uint64_t seed = 1;
  std::vector<Bytes> seeds;
  for (int i = 1; i < argc; ++i) {
    std::string_view argument = argv[i];
    auto number = argument.substr(std::min(argument.find('=') + 1, argument.size()));
    if (argument.starts_with("-runs=")) {
      std::from_chars(number.data(), number.data() + number.size(), runs);
    } else if (argument.starts_with("-seed=")) {
      std::from_chars(number.data(), number.data() + number.size(), seed);
    } else {
      add_seeds(argv[i], seeds);
    }
  }
  if (seeds.empty()) {
    std::cerr << "fuzz: no seeds; give a file or a folder of them\n";
    return 1;
  }
  for (int signal : {SIGABRT, SIGSEGV, SIGBUS, SIGFPE, SIGILL}) std::signal(signal, report);
  for (const auto& input : seeds) run(input);
  Mutator mutator(seeds, seed);
  for (uint64_t i = seeds.size(); i < runs; ++i) run(mutator.next());
  std::cout << "fuzz: " << current_run + 1 << " inputs from " << seeds.size() << " seeds, seed "
            << seed << '\n';
  return 0;
}
