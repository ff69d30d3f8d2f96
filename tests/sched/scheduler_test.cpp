#include "sched/scheduler.h"

#include <doctest/doctest.h>

#include <map>

#include "base/error.h"

using namespace tandem;

namespace {

using Ids = std::vector<RowId>;

// A scheduler with the least of an engine around it: pages that rows hold alone.
struct Bench {
  explicit Bench(int32_t max_rows, int64_t pages = 1000, int32_t window = 0)
      : s({.max_rows = max_rows,
           .page_tokens = 4,
           .step_tokens = 8,
           .groups = {{.pages = pages, .window = window}}}),
        pages(pages) {}

  Budget budget() const {
    int64_t held = 0;
    for (const auto& [id, tokens] : covered) held += s.limits().pages_of(tokens);
    return {.tokens = 8, .chunk_tokens = 8, .prompt_outputs = outputs, .pages = {pages - held}};
  }

  // One turn of an engine's loop, without sampling.
  Plan plan() {
    admitted.clear();
    preempted.clear();
    while (s.short_of_pages(budget())) preempt(s.preempt());
    while (const auto id = s.candidate()) {
      if (!s.can_admit(*id, {}, budget())) break;
      s.admit(*id);
      admitted.push_back(*id);
    }
    const Plan plan = s.next(budget());
    for (const PlanRow& r : plan.rows) covered[r.row] = r.begin + r.count;
    CHECK(budget().pages[0] >= 0);
    s.check();
    return plan;
  }

  // Plans a step and lets every sampling row go on.
  Plan step() {
    const Plan plan = this->plan();
    for (const PlanRow& r : plan.rows) {
      if (r.samples) s.advance(r.row);
    }
    return plan;
  }

  void preempt(RowId id) {
    preempted.push_back(id);
    covered.erase(id);
  }
  void finish(RowId id) {
    s.finish(id);
    covered.erase(id);
  }

  Scheduler s;
  int64_t pages;
  int32_t outputs = 8;
  std::map<RowId, int32_t> covered;  // tokens that have pages
  Ids admitted, preempted;           // in the last step
};

RowSpec row(RowId id, int32_t prompt_length = 1, int32_t max_tokens = 100) {
  return {.id = id, .prompt_length = prompt_length, .max_tokens = max_tokens};
}

Ids ids(const Plan& plan) {
  Ids result;
  for (const PlanRow& r : plan.rows) result.push_back(r.row);
  return result;
}

}  // namespace

TEST_CASE("an idle scheduler plans nothing") { CHECK(Bench(2).plan().empty()); }

TEST_CASE("a prompt that fits the budget is computed in one step and samples") {
  Bench b(2);
  b.s.add(row(1, 5));
  const Plan plan = b.plan();
  REQUIRE(plan.rows.size() == 1);
  CHECK(b.admitted == Ids{1});
  CHECK(plan.rows[0].begin == 0);
  CHECK(plan.rows[0].count == 5);
  CHECK(plan.rows[0].samples);
  CHECK(plan.tokens == 5);
}

TEST_CASE("a long prompt is cut into chunks and samples after the last") {
  Bench b(2);
  b.s.add(row(1, 19));
  CHECK_FALSE(b.step().rows[0].samples);
  CHECK(b.step().rows[0].begin == 8);
  const Plan last = b.step();
  CHECK(last.rows[0].count == 3);
  CHECK(last.rows[0].samples);
}

TEST_CASE("a row is not planned again before its sampled token is known") {
  Bench b(2);
  b.s.add(row(1, 2));
  b.plan();
  CHECK(b.plan().empty());
  b.s.advance(1);
  const Plan plan = b.plan();
  CHECK(plan.rows[0].begin == 2);
  CHECK(plan.rows[0].count == 1);
  CHECK(plan.decoding == 1);
}

TEST_CASE("decoding rows come first and prompts share what they leave") {
  Bench b(4);
  b.s.add(row(1, 2));
  b.s.add(row(2, 3));
  b.step();
  b.s.add(row(3, 4));
  b.s.add(row(4, 9));
  const Plan plan = b.step();
  CHECK(ids(plan) == Ids{1, 2, 3, 4});
  CHECK(plan.decoding == 2);
  CHECK(plan.rows[2].count == 4);
  CHECK(plan.rows[3].count == 2);
  CHECK(plan.tokens == 8);
}

TEST_CASE("a decoding row is never skipped while a long prompt is computed") {
  Bench b(2);
  b.s.add(row(1));
  b.step();
  b.s.add(row(2, 500));
  for (int i = 0; i < 50; ++i) CHECK(b.step().rows[0].row == 1);
}

TEST_CASE("chunks are kept short while rows decode, and not when none does") {
  Bench b(2);
  b.s.add(row(1, 3));
  Budget budget{.tokens = 8, .chunk_tokens = 2, .pages = {100}};
  b.s.admit(1);
  CHECK(b.s.next(budget).rows[0].count == 3);
  b.s.advance(1);
  b.s.add(row(2, 30));
  b.s.admit(2);
  CHECK(b.s.next(budget).rows[1].count == 2);
  b.s.finish(1);
  CHECK(b.s.next(budget).rows[0].count == 8);
}

TEST_CASE("rows beyond the limit wait until one leaves") {
  Bench b(1);
  b.s.add(row(1));
  b.s.add(row(2));
  b.step();
  CHECK(b.admitted == Ids{1});
  b.step();
  CHECK(b.admitted.empty());
  b.finish(1);
  b.step();
  CHECK(b.admitted == Ids{2});
}

TEST_CASE("a row that must wait holds back later, smaller rows") {
  Bench b(4, /*pages=*/10);
  b.s.add(row(1, 24, 2));
  b.s.add(row(2, 24, 2));
  b.s.add(row(3, 1, 1));  // would fit
  b.step();
  CHECK(b.admitted == Ids{1});
  b.finish(1);
  b.step();
  CHECK(b.admitted == Ids{2, 3});
}

TEST_CASE("a row holds only the pages it has filled, so more rows run than their limits allow") {
  Bench b(4, /*pages=*/12);
  for (RowId id : {1, 2, 3}) b.s.add(row(id, 1, 40));  // 10 pages each at the end
  b.step();
  CHECK(b.admitted == Ids{1, 2, 3});
}

TEST_CASE("a row is admitted only when the pages of its whole prompt are there, and some more") {
  Bench b(4, /*pages=*/10);
  b.s.add(row(1, 16, 2));
  b.s.add(row(2, 16, 2));  // 4 + 4 pages, and 2 so that both go on
  b.s.add(row(3, 1, 1));
  b.step();
  CHECK(b.admitted == Ids{1, 2});
  CHECK(b.s.waiting() == 1);
}

TEST_CASE("what the cache holds of a prompt needs no new pages") {
  Bench b(4);
  const auto fits = [&](RowId id, const PrefixHit& hit, int64_t pages) {
    return b.s.can_admit(id, hit, {.pages = {pages}});
  };
  b.s.add(row(1, 40));
  CHECK_FALSE(fits(1, {}, 9));
  CHECK(fits(1, {}, 10));
  CHECK(fits(1, {.tokens = 36}, 1));
  CHECK_FALSE(fits(1, {.tokens = 36, .pages = {9}}, 9));  // they were evictable
  CHECK(fits(1, {.tokens = 36, .pages = {9}}, 10));
  b.s.admit(1, {.tokens = 36});
  CHECK(b.plan().rows[0].begin == 36);
}

TEST_CASE("a row with a sliding window needs no more than window and chunk") {
  const Bench b(4, /*pages=*/6, /*window=*/5);
  const SchedulerLimits& limits = b.s.limits();
  CHECK(limits.pages_needed(row(1, 1000, 1000), limits.groups[0]) == 4);  // 12 tokens, in mid-page
  CHECK(limits.pages_needed(row(1, 5, 1), limits.groups[0]) == 2);
}

TEST_CASE("a row that could never fit is refused with the numbers") {
  Bench b(4, /*pages=*/3);
  try {
    b.s.add(row(1, 10, 10));
    FAIL("must throw");
  } catch (const Error& error) {
    CHECK(error.code() == ErrorCode::kPoolExhausted);
    CHECK(std::string(error.what()).find("may need 5 cache pages of 4 tokens") == 12);
  }
  CHECK(b.s.waiting() == 0);
}

TEST_CASE("when pages run out the youngest row goes to the front of the queue, and later on") {
  Bench b(3, /*pages=*/6);
  b.s.add(row(1, 1, 23));  // 6 pages at the end
  b.s.add(row(2, 1, 23));
  while (b.preempted.empty()) b.step();
  CHECK(b.preempted == Ids{2});
  const int32_t length = b.s.computed(1) + 1;
  b.s.add(row(3, 1, 1));
  CHECK(b.s.candidate() == 2);
  CHECK(b.s.candidate(/*preempted_only=*/true) == 2);
  CHECK(b.s.started() == 2);
  b.finish(1);
  const Plan plan = b.plan();
  CHECK(b.admitted == Ids{2});
  // The tokens it had are computed again, in one chunk or more, and then it samples.
  CHECK(plan.rows[0].row == 2);
  CHECK(plan.rows[0].begin == 0);
  CHECK(plan.rows[0].count == std::min(8, length - 1));
}

TEST_CASE("a row that was preempted is never overtaken, and keeps its age") {
  Bench b(3);
  b.s.add(row(1, 2));
  b.s.add(row(2, 2));
  b.s.add(row(3, 2));
  b.step();
  b.s.preempt(2);
  b.s.preempt(3);
  RowSpec urgent = row(4);
  urgent.priority = 9;
  b.s.add(urgent);
  CHECK(b.s.candidate() == 2);
  b.s.admit(2);
  CHECK(b.s.candidate() == 3);
  b.s.admit(3);
  CHECK(b.s.preempt() == 3);
}

TEST_CASE("a paused row is the first to give its pages back, and waits aside until resumed") {
  Bench b(3);
  b.s.add(row(1));
  b.s.add(row(2));
  b.step();
  b.s.pause(1);
  CHECK(b.s.preempt() == 1);
  b.s.add(row(3));
  CHECK(b.s.candidate() == 3);
  b.s.resume(1);
  CHECK(b.s.candidate() == 1);
}

TEST_CASE("the oldest row advances even when younger rows would take every page") {
  Bench b(3, /*pages=*/8);
  b.s.add(row(1, 24, 1));
  b.s.add(row(2, 1, 20));
  b.s.admit(1);
  b.s.admit(2);
  b.covered = {{1, 0}, {2, 0}};
  for (int i = 0; i < 20 && b.s.computed(1) < 24; ++i) b.step();
  CHECK(b.s.computed(1) == 24);
}

TEST_CASE("a paused row is not planned, keeps its pages, and goes on when resumed") {
  Bench b(2);
  b.s.add(row(1));
  b.s.add(row(2));
  b.step();
  b.s.pause(1);
  CHECK(ids(b.step()) == Ids{2});
  b.s.resume(1);
  CHECK(ids(b.step()) == Ids{1, 2});
}

TEST_CASE("tokens that others computed are passed over") {
  Bench b(2);
  b.s.add(row(1, 20));
  b.step();
  b.s.skip(1, 8);
  CHECK(b.plan().rows[0].begin == 16);
}

TEST_CASE("a waiting row can be cancelled") {
  Bench b(1);
  b.s.add(row(1));
  b.s.add(row(2));
  b.s.add(row(3));
  b.step();
  b.s.cancel(2);
  b.finish(1);
  b.step();
  CHECK(b.admitted == Ids{3});
}

TEST_CASE("a running row can be cancelled in mid-prompt") {
  Bench b(1);
  b.s.add(row(1, 100));
  b.step();
  b.s.cancel(1);
  CHECK(b.s.running() == 0);
}

TEST_CASE("a higher priority goes ahead of waiting rows, in order among equals") {
  Bench b(1);
  b.s.add(row(1));
  b.step();
  for (RowId id : {2, 3, 4}) {
    RowSpec spec = row(id);
    spec.priority = id == 2 ? 0 : 5;
    b.s.add(spec);
  }
  Ids order;
  for (RowId last = 1; b.s.waiting() > 0;) {
    b.finish(last);
    b.step();
    last = b.admitted.at(0);
    order.push_back(last);
  }
  CHECK(order == Ids{3, 4, 2});
}

TEST_CASE("a row of low priority is overtaken only so often") {
  Bench b(1);
  b.s.add(row(1));
  b.step();
  RowId running = 1;
  b.s.add(row(2));
  RowId next_id = 3;
  int overtaken = 0;
  for (; overtaken < 1000; ++overtaken) {
    RowSpec spec = row(next_id++);
    spec.priority = 9;
    b.s.add(spec);
    b.finish(running);
    b.step();
    running = b.admitted.at(0);
    if (running == 2) break;
  }
  CHECK(overtaken == kOvertakenMax);
}

TEST_CASE("a row that runs alone is passed over, and admitted by its id") {
  Bench b(2);
  RowSpec solo = row(1);
  solo.solo = true;
  b.s.add(solo);
  CHECK_FALSE(b.s.candidate().has_value());
  b.s.admit(1);
  CHECK(b.s.started() == 0);
  CHECK(ids(b.plan()) == Ids{1});
  b.s.preempt(1);
  b.s.add(row(2));
  CHECK(b.s.candidate() == 2);
}

TEST_CASE("a row that generates nothing computes its prompt without sampling") {
  Bench b(1);
  b.s.add(row(1, 5, 0));
  CHECK_FALSE(b.plan().rows[0].samples);
  CHECK(b.plan().empty());
}

TEST_CASE("prompt outputs shrink the chunks of the rows that want them, and only theirs") {
  Bench b(3);
  for (RowId id : {1, 2}) {
    RowSpec spec = row(id, 6);
    spec.prompt_outputs = true;
    b.s.add(spec);
  }
  b.s.add(row(3, 10));
  b.outputs = 2;
  const Plan plan = b.plan();
  CHECK(ids(plan) == Ids{1, 3});
  CHECK(plan.rows[0].count == 2);
  CHECK(plan.rows[1].count == 6);
}
