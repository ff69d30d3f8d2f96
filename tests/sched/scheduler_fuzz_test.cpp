// Random lives of rows against a naive account of what each must see.
#include <doctest/doctest.h>

#include <map>
#include <random>

#include "sched/scheduler.h"

using namespace tandem;

namespace {

struct NaiveRow {
  RowSpec spec;
  int32_t length = 0;
  int32_t computed = 0;
  bool running = false;
  bool paused = false;
  int steps_unplanned = 0;  // since it was last planned while prefilling
};

struct Fuzz {
  explicit Fuzz(uint32_t seed) : random(seed) {}

  int32_t pick(int32_t low, int32_t high) {
    return low + static_cast<int32_t>(random() % static_cast<uint32_t>(high - low + 1));
  }

  void add() {
    RowSpec spec{.id = next_id++, .prompt_length = pick(1, 60), .max_tokens = pick(0, 20)};
    spec.prompt_outputs = pick(0, 4) == 0;
    spec.priority = pick(0, 9) == 0 ? 1 : 0;
    s.add(spec);
    rows[spec.id] = {spec, spec.prompt_length};
  }

  void remove(RowId id) {
    rows.at(id).running&& pick(0, 1) ? s.finish(id) : s.cancel(id);
    rows.erase(id);
  }

  void toggle_pause(RowId id) {
    NaiveRow& row = rows.at(id);
    if (!row.running) return;
    row.paused = !row.paused;
    row.paused ? s.pause(id) : s.resume(id);
  }

  void step() {
    const Budget budget{.tokens = pick(6, 32), .prompt_outputs = pick(1, 8)};
    const Plan plan = s.next(budget);
    for (RowId id : plan.admitted) rows.at(id).running = true;
    int32_t tokens = 0, prompt_outputs = 0;
    std::map<RowId, PlanRow> planned;
    for (const PlanRow& r : plan.rows) {
      const NaiveRow& row = rows.at(r.row);
      REQUIRE(planned.emplace(r.row, r).second);
      REQUIRE(row.running);
      REQUIRE(!row.paused);
      REQUIRE(r.begin == row.computed);
      REQUIRE(r.count > 0);
      REQUIRE(r.begin + r.count <= row.length);
      REQUIRE(r.samples == (r.begin + r.count == row.length && row.spec.max_tokens > 0));
      tokens += r.count;
      if (row.spec.prompt_outputs && r.begin < row.spec.prompt_length) prompt_outputs += r.count;
    }
    REQUIRE(tokens == plan.tokens);
    REQUIRE(tokens <= budget.tokens);
    REQUIRE(prompt_outputs <= budget.prompt_outputs);
    settle(planned);
    s.check();
  }

  void settle(const std::map<RowId, PlanRow>& planned) {
    int prefilling_planned = 0, prefilling_due = 0;
    std::vector<RowId> done;
    for (auto& [id, row] : rows) {
      if (!row.running || row.paused || row.computed == row.length) continue;
      const bool decoding = row.computed >= row.spec.prompt_length;
      const auto it = planned.find(id);
      if (decoding) REQUIRE(it != planned.end());
      prefilling_due += !decoding;
      if (it == planned.end()) continue;
      prefilling_planned += !decoding;
      row.computed += it->second.count;
      if (row.computed < row.length) continue;
      if (row.length == row.spec.prompt_length + row.spec.max_tokens - 1 ||
          row.spec.max_tokens == 0) {
        done.push_back(id);
      } else {
        s.advance(id);
        ++row.length;
      }
    }
    if (prefilling_due > 0) REQUIRE(prefilling_planned > 0);
    for (RowId id : done) {
      s.finish(id);
      rows.erase(id);
    }
  }

  std::mt19937 random;
  Scheduler s{{.max_rows = 5,
               .page_tokens = 4,
               .step_tokens = 32,
               .groups = {{.pages = 50}, {.pages = 40, .window = 9}}}};
  std::map<RowId, NaiveRow> rows;
  RowId next_id = 1;
};

}  // namespace

TEST_CASE("whatever rows do, budgets hold, decoding rows run, and all rows finish in the end") {
  const uint32_t seed = std::random_device{}();
  CAPTURE(seed);
  Fuzz fuzz(seed);
  for (int i = 0; i < 20000; ++i) {
    const int dice = fuzz.pick(0, 99);
    if (dice < 20 && fuzz.rows.size() < 40) fuzz.add();
    if (!fuzz.rows.empty()) {
      const RowId any =
          std::next(fuzz.rows.begin(), fuzz.pick(0, std::ssize(fuzz.rows) - 1))->first;
      if (dice >= 95) fuzz.remove(any);
      if (dice >= 85 && dice < 95) fuzz.toggle_pause(any);
    }
    fuzz.step();
  }
  for (auto& [id, row] : fuzz.rows) {
    if (row.paused) fuzz.toggle_pause(id);
  }
  int steps = 0;
  for (; !fuzz.rows.empty() && steps < 5000; ++steps) fuzz.step();
  CHECK(fuzz.rows.empty());
  CHECK(fuzz.s.running() == 0);
  CHECK(fuzz.s.pages_reserved(0) == 0);
}
