// Random lives of rows, few pages, random hits in a cache of pages that rows share:
// against a naive account of what each row must see and of who holds which page.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <random>
#include <set>

#include "sched/scheduler.h"

using namespace tandem;

namespace {

constexpr int32_t kPage = 4;

struct NaiveRow {
  RowSpec spec;
  int32_t length = 0;
  int32_t computed = 0;
  bool running = false;
  bool paused = false;
  int64_t order = 0;                      // of first admission
  std::vector<std::vector<int>> pages{};  // per group; -1 = behind the window
};

struct Fuzz {
  explicit Fuzz(uint32_t seed) : random(seed), s(limits()) {
    for (const PageGroup& group : s.limits().groups) references.emplace_back(group.pages, 0);
  }

  static SchedulerLimits limits() {
    return {.max_rows = 5,
            .page_tokens = kPage,
            .step_tokens = 32,
            .groups = {{.pages = 21}, {.pages = 17, .window = 9}}};
  }

  int32_t pick(int32_t low, int32_t high) {
    return low + static_cast<int32_t>(random() % static_cast<uint32_t>(high - low + 1));
  }

  void add() {
    RowSpec spec{.id = next_id++, .prompt_length = pick(1, 60), .max_tokens = pick(0, 24)};
    spec.prompt_outputs = pick(0, 4) == 0;
    spec.priority = pick(0, 9) == 0 ? 1 : 0;
    s.add(spec);
    rows[spec.id] = {spec, spec.prompt_length};
    queue.push_back(spec.id);
  }

  void release(NaiveRow& row) {
    for (size_t g = 0; g < row.pages.size(); ++g) {
      for (int page : row.pages[g]) {
        if (page >= 0) --references[g][page];
      }
    }
    row.pages.clear();
    row.computed = 0;
    row.running = false;
  }

  void remove(RowId id) {
    NaiveRow& row = rows.at(id);
    row.running&& pick(0, 1) ? s.finish(id) : s.cancel(id);
    release(row);
    rows.erase(id);
    std::erase(queue, id);
  }

  void toggle_pause(RowId id) {
    NaiveRow& row = rows.at(id);
    if (!row.running && !row.paused) return;
    row.paused = !row.paused;
    row.paused ? s.pause(id) : s.resume(id);
  }

  Budget budget() {
    Budget b{.tokens = tokens, .chunk_tokens = chunk_tokens, .prompt_outputs = outputs};
    for (const auto& group : references) {
      b.pages.push_back(std::count(group.begin(), group.end(), 0));
    }
    return b;
  }

  int take_page(size_t g) {
    const auto free = std::find(references[g].begin(), references[g].end(), 0);
    REQUIRE(free != references[g].end());
    *free = 1;
    return static_cast<int>(free - references[g].begin());
  }

  // Pages that a hit of `tokens` gives: shared with a row that runs, or taken from
  // those that nobody holds, as if they had been cached.
  std::vector<std::vector<int>> hit_pages(const NaiveRow* donor, int32_t tokens) {
    std::vector<std::vector<int>> pages;
    for (size_t g = 0; g < references.size(); ++g) {
      const int32_t window = s.limits().groups[g].window;
      const int32_t first = window > 0 ? std::max(0, tokens - window + 1) / kPage : 0;
      pages.emplace_back();
      for (int32_t i = 0; i < tokens / kPage; ++i) {
        const bool shared = donor && donor->pages[g].at(i) >= 0;
        if (i < first) {
          pages[g].push_back(-1);
        } else if (shared) {
          ++references[g][donor->pages[g][i]];
          pages[g].push_back(donor->pages[g][i]);
        } else {
          pages[g].push_back(take_page(g));
        }
      }
      if (tokens % kPage != 0) pages[g].push_back(take_page(g));  // the copy of a partial page
    }
    return pages;
  }

  PrefixHit random_hit(const NaiveRow& row, const NaiveRow*& donor) {
    donor = nullptr;
    PrefixHit hit;
    if (pick(0, 2) == 0) return hit;
    hit.tokens = pick(0, row.length - 1);
    for (const auto& [id, other] : rows) {
      if (other.running && other.computed >= hit.tokens && pick(0, 1)) donor = &other;
    }
    return hit;
  }

  void admit() {
    while (const auto id = s.candidate(held)) {
      NaiveRow& row = rows.at(*id);
      REQUIRE(!row.running);
      REQUIRE(!row.paused);
      if (held) REQUIRE(row.order > 0);
      const NaiveRow* donor = nullptr;
      PrefixHit hit = random_hit(row, donor);
      // What would it take? Try, and undo if it is too much.
      const auto before = references;
      const Budget was = budget();
      const bool possible = std::all_of(was.pages.begin(), was.pages.end(), [&](int64_t pages) {
        return pages >= hit.tokens / kPage + 1;
      });
      if (!possible) hit = {};
      row.pages = hit_pages(possible ? donor : nullptr, hit.tokens);
      const Budget now = budget();
      for (size_t g = 0; g < now.pages.size(); ++g) {
        hit.pages.push_back(was.pages[g] - now.pages[g]);
      }
      if (!s.can_admit(*id, hit, was)) {
        references = before;
        row.pages.clear();
        // An idle batch takes whatever is next.
        REQUIRE(s.running() > 0);
        return;
      }
      s.admit(*id, hit);
      check_order(row);
      row.running = true;
      row.computed = hit.tokens;
      if (row.order == 0) row.order = ++last_order;
    }
  }

  // First admissions follow the queue, but for priorities and rows that were cancelled.
  void check_order(const NaiveRow& row) {
    if (row.order > 0 || row.spec.priority > 0) return;
    for (RowId id : queue) {
      const NaiveRow& other = rows.at(id);
      if (other.spec.id == row.spec.id) return;
      if (other.spec.priority == 0 && !other.paused) REQUIRE(other.order > 0);
    }
  }

  void preempt() {
    while (s.short_of_pages(budget())) {
      RowId youngest = 0, youngest_paused = 0;
      int64_t order = 0, order_paused = 0;
      for (const auto& [id, row] : rows) {
        if (!row.running) continue;
        if (row.order > order) youngest = id, order = row.order;
        if (row.paused && row.order > order_paused) youngest_paused = id, order_paused = row.order;
      }
      const RowId id = s.preempt();
      REQUIRE(id == (youngest_paused > 0 ? youngest_paused : youngest));
      release(rows.at(id));
      ++preemptions;
    }
  }

  void cover(NaiveRow& row, int32_t end) {
    for (size_t g = 0; g < references.size(); ++g) {
      while (std::ssize(row.pages[g]) * kPage < end) row.pages[g].push_back(take_page(g));
    }
  }

  void drop_behind_window(NaiveRow& row) {
    for (size_t g = 0; g < references.size(); ++g) {
      const int32_t window = s.limits().groups[g].window;
      if (window == 0) continue;
      for (int32_t i = 0; i < std::max(0, row.computed - window + 1) / kPage; ++i) {
        if (row.pages[g][i] >= 0) --references[g][row.pages[g][i]];
        row.pages[g][i] = -1;
      }
    }
  }

  void step() {
    tokens = pick(6, 32);
    chunk_tokens = pick(1, 32);
    outputs = pick(1, 8);
    if (pick(0, 40) == 0) held = !held;
    preempt();
    admit();
    const Plan plan = s.next(budget());
    int32_t planned_tokens = 0, prompt_outputs = 0, chunks = 0;
    bool chunk_seen = false;
    std::map<RowId, PlanRow> planned;
    for (const PlanRow& r : plan.rows) {
      NaiveRow& row = rows.at(r.row);
      REQUIRE(planned.emplace(r.row, r).second);
      REQUIRE(row.running);
      REQUIRE(!row.paused);
      REQUIRE(r.begin == row.computed);
      REQUIRE(r.count > 0);
      REQUIRE(r.begin + r.count <= row.length);
      REQUIRE(r.samples == (r.begin + r.count == row.length && row.spec.max_tokens > 0));
      const bool decoding = r.begin >= row.spec.prompt_length && r.begin + 1 == row.length;
      REQUIRE(!(decoding && chunk_seen));
      chunk_seen |= !decoding;
      planned_tokens += r.count;
      if (!decoding) chunks += r.count;
      if (row.spec.prompt_outputs && !decoding) prompt_outputs += r.count;
      cover(row, r.begin + r.count);
    }
    REQUIRE(planned_tokens == plan.tokens);
    REQUIRE(planned_tokens <= tokens);
    REQUIRE(prompt_outputs <= outputs);
    if (plan.decoding > 0) REQUIRE(chunks <= chunk_tokens);
    settle(planned);
    s.check();
  }

  void settle(const std::map<RowId, PlanRow>& planned) {
    const NaiveRow* oldest_chunk = nullptr;
    std::vector<RowId> done;
    for (auto& [id, row] : rows) {
      if (!row.running || row.paused || row.computed == row.length) continue;
      const bool decoding =
          row.computed >= row.spec.prompt_length && row.computed + 1 == row.length;
      const auto it = planned.find(id);
      if (decoding) REQUIRE(it != planned.end());
      if (!decoding && (!oldest_chunk || row.order < oldest_chunk->order)) oldest_chunk = &row;
    }
    if (oldest_chunk) REQUIRE(planned.count(oldest_chunk->spec.id) == 1);
    for (const auto& [id, r] : planned) {
      NaiveRow& row = rows.at(id);
      row.computed += r.count;
      REQUIRE(s.computed(id) == row.computed);
      drop_behind_window(row);
      if (row.computed < row.length) continue;
      if (row.spec.max_tokens == 0 ||
          row.length == row.spec.prompt_length + row.spec.max_tokens - 1) {
        done.push_back(id);
      } else {
        s.advance(id);
        ++row.length;
      }
    }
    for (RowId id : done) {
      s.finish(id);
      release(rows.at(id));
      rows.erase(id);
      std::erase(queue, id);
      ++finished;
    }
  }

  std::mt19937 random;
  Scheduler s;
  std::map<RowId, NaiveRow> rows;
  std::vector<RowId> queue;                  // in the order they were added
  std::vector<std::vector<int>> references;  // per group and page
  bool held = false;                         // no new rows
  int32_t tokens = 32, chunk_tokens = 32, outputs = 8;
  RowId next_id = 1;
  int64_t last_order = 0, preemptions = 0, finished = 0;
};

// How much longer than in `make test` a fuzz test is to run.
int fuzz_factor() {
  const char* text = std::getenv("TANDEM_FUZZ_FACTOR");
  return text ? std::max(1, static_cast<int>(std::strtol(text, nullptr, 10))) : 1;
}

}  // namespace

TEST_CASE("whatever rows do, budgets hold, pages suffice, and all rows finish in the end") {
  const uint32_t seed = std::random_device{}();
  CAPTURE(seed);
  Fuzz fuzz(seed);
  for (int i = 0; i < 20000 * fuzz_factor(); ++i) {
    const int dice = fuzz.pick(0, 99);
    if (dice < 20 && fuzz.rows.size() < 40) fuzz.add();
    if (!fuzz.rows.empty()) {
      const RowId any =
          std::next(fuzz.rows.begin(), fuzz.pick(0, std::ssize(fuzz.rows) - 1))->first;
      if (dice >= 97) fuzz.remove(any);
      if (dice >= 85 && dice < 95) fuzz.toggle_pause(any);
    }
    fuzz.step();
  }
  CHECK(fuzz.preemptions > 100);
  CHECK(fuzz.finished > 100);
  fuzz.held = false;
  for (auto& [id, row] : fuzz.rows) {
    if (row.paused) fuzz.toggle_pause(id);
  }
  int steps = 0;
  for (; !fuzz.rows.empty() && steps < 5000; ++steps) {
    fuzz.held = false;
    fuzz.step();
  }
  CHECK(fuzz.rows.empty());
  CHECK(fuzz.s.running() == 0);
  for (const auto& group : fuzz.references) {
    CHECK(std::count(group.begin(), group.end(), 0) == std::ssize(group));
  }
}
