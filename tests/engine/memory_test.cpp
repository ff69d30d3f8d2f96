#include "engine/memory.h"

#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>

#include "base/error.h"
#include "engine/kv_pools.h"
#include "engine/memory_plan.h"
#include "helpers.h"

using namespace tandem;
namespace fs = std::filesystem;

namespace {

// A made-up /proc and /sys.
class FakeRoot {
 public:
  FakeRoot()
      : path_(fs::temp_directory_path() /
              ("tandem_memory_" +
               std::to_string(std::chrono::steady_clock::now().time_since_epoch().count()))) {
    write("/proc/meminfo", "MemTotal: 9000 kB\nMemAvailable: 8000 kB\n");
  }
  ~FakeRoot() { fs::remove_all(path_); }

  void write(const std::string& name, const std::string& text) const {
    const fs::path file = path_.string() + name;
    fs::create_directories(file.parent_path());
    std::ofstream(file) << text;
  }
  int64_t available() const { return available_memory_bytes(path_.string()); }

 private:
  fs::path path_;
};

ModelInfo model_info(int32_t window = 0) {
  ModelInfo info;
  info.kv_groups.push_back(
      {.layers = 2, .kv_heads = 1, .k_dim = 64, .v_dim = 64, .window = window});
  return info;
}

MemoryRequest request() {
  return {.weight_bytes = 1000, .available_bytes = 1 << 30, .context_length = 1024, .max_rows = 4};
}

}  // namespace

TEST_CASE("available memory is what the system says when no control group limits it") {
  FakeRoot root;
  CHECK(root.available() == 8000 * 1024);
  root.write("/proc/self/cgroup", "0::/\n");
  CHECK(root.available() == 8000 * 1024);
  root.write("/sys/fs/cgroup/memory.max", "max\n");
  CHECK(root.available() == 8000 * 1024);
}

TEST_CASE("a control group's limit counts, also that of a group further up") {
  FakeRoot root;
  root.write("/proc/self/cgroup", "0::/outer/inner\n");
  root.write("/sys/fs/cgroup/outer/memory.max", "5000\n");
  root.write("/sys/fs/cgroup/outer/memory.current", "2000\n");
  root.write("/sys/fs/cgroup/outer/memory.stat", "anon 1\ninactive_file 300\n");
  root.write("/sys/fs/cgroup/outer/inner/memory.max", "9000\n");
  root.write("/sys/fs/cgroup/outer/inner/memory.current", "2000\n");
  CHECK(root.available() == 3300);
}

TEST_CASE("version 1 of control groups is understood") {
  FakeRoot root;
  root.write("/proc/self/cgroup", "9:cpu:/x\n4:memory:/box\n");
  root.write("/sys/fs/cgroup/memory/box/memory.limit_in_bytes", "5000\n");
  root.write("/sys/fs/cgroup/memory/box/memory.usage_in_bytes", "6000\n");
  CHECK(root.available() == 0);
}

TEST_CASE("the cache may grow to what all rows need, or to what there is") {
  const int64_t row = kv_row_bytes(model_info(), KvCodec::kF16, 1024, 512);
  CHECK(row == 1024 * 2 * 2 * 64 * 2);
  CHECK(plan_memory(model_info(), request()).kv_bytes_max == 4 * row);
  MemoryRequest tight = request();
  tight.budget_bytes = 1000 + 2 * row;
  CHECK(plan_memory(model_info(), tight).kv_bytes_max == 2 * row);
}

TEST_CASE("a sliding window bounds what a row's cache needs") {
  CHECK(kv_row_bytes(model_info(128), KvCodec::kF16, 100'000, 64) ==
        kv_row_bytes(model_info(128), KvCodec::kF16, 200'000, 64));
}

TEST_CASE("a cache that does not fit is refused with the context that would") {
  MemoryRequest tight = request();
  tight.budget_bytes = 1000 + kv_row_bytes(model_info(), KvCodec::kF16, 640, 512);
  try {
    plan_memory(model_info(), tight);
    FAIL("must throw");
  } catch (const Error& error) {
    CHECK(error.code() == ErrorCode::kMemory);
    CHECK(std::string(error.what()).find("a context length of 640 would fit") != std::string::npos);
  }
}

TEST_CASE("a budget for the cache alone bounds it, and may hold less than a context") {
  const int64_t row = kv_row_bytes(model_info(), KvCodec::kF16, 1024, 512);
  MemoryRequest own = request();
  own.kv_budget_bytes = row / 2;
  CHECK(plan_memory(model_info(), own).kv_bytes_max == row / 2);
  CHECK(plan_memory(model_info(), own).context_length == 1024);
  own.kv_budget_bytes = 3 * row;
  CHECK(plan_memory(model_info(), own).kv_bytes_max == 3 * row);
  own.kv_budget_bytes = 100;
  CHECK_THROWS_AS(plan_memory(model_info(), own), Error);
}

TEST_CASE("a prompt that the cache can never hold is refused, and a long answer is cut") {
  for (int32_t window : {0, 40}) {
    testing::FakeOptions fake{.context_length = 256, .window = window};
    auto e = std::make_unique<Engine>(EngineOptions{.step_tokens = 64}, [fake] {
      LoadedModel loaded = testing::load_fake(fake);
      loaded.card.kv_bytes_max = kv_row_bytes(loaded.model->info(), loaded.card.kv_codec, 96, 64);
      return loaded;
    });
    e->wait_ready();
    const Error error =
        testing::error_of([&] { e->submit(testing::request(testing::prompt(97), 1)); });
    CHECK(error.code() == ErrorCode::kMemory);
    CHECK(error.param() == "prompt");
    CHECK(std::string(error.what()).find("the prompt has 97 tokens") == 0);
    CHECK(std::string(error.what()).find("which is 96 tokens") != std::string::npos);
    CHECK(e->stats().errors[static_cast<size_t>(ErrorCode::kMemory)] == 1);
    const testing::Collected all = testing::run(*e, testing::request(testing::prompt(90), 100));
    CHECK(all.ids == testing::fake_greedy(testing::prompt(90), 7, fake));
    CHECK(all.last.finish == FinishReason::kLength);
  }
}

TEST_CASE("the account of memory holds weights, rows and cached pages, and a peak") {
  auto e = testing::engine({.context_length = 512});
  testing::run(*e, testing::request(testing::prompt(200), 4));
  const LedgerSnapshot memory = e->stats().memory;
  CHECK(memory.bytes(MemoryUse::kRows) == 0);
  CHECK(memory.bytes(MemoryUse::kCached) == e->stats().kv_bytes_cached);
  CHECK(memory.bytes(MemoryUse::kCached) > 0);
  CHECK(memory.peak_bytes >= memory.total_bytes());
  CHECK(memory.budget_bytes > 0);
}
