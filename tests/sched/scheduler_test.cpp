#include "sched/scheduler.h"

#include <doctest/doctest.h>

#include "base/error.h"

using namespace tandem;

namespace {

constexpr Budget kBudget{.tokens = 8, .prompt_outputs = 8};

Scheduler scheduler(int32_t max_rows, int64_t pages = 1000, int32_t window = 0) {
  return Scheduler({.max_rows = max_rows,
                    .page_tokens = 4,
                    .step_tokens = 8,
                    .groups = {{.pages = pages, .window = window}}});
}

RowSpec row(RowId id, int32_t prompt_length = 1, int32_t max_tokens = 100) {
  return {.id = id, .prompt_length = prompt_length, .max_tokens = max_tokens};
}

std::vector<RowId> ids(const Plan& plan) {
  std::vector<RowId> result;
  for (const PlanRow& r : plan.rows) result.push_back(r.row);
  return result;
}

// Plans a step and lets every sampling row go on.
Plan step(Scheduler& s) {
  const Plan plan = s.next(kBudget);
  for (const PlanRow& r : plan.rows) {
    if (r.samples) s.advance(r.row);
  }
  s.check();
  return plan;
}

using Ids = std::vector<RowId>;

}  // namespace

TEST_CASE("an idle scheduler plans nothing") { CHECK(scheduler(2).next(kBudget).empty()); }

TEST_CASE("a prompt that fits the budget is computed in one step and samples") {
  auto s = scheduler(2);
  s.add(row(1, 5));
  const Plan plan = s.next(kBudget);
  REQUIRE(plan.rows.size() == 1);
  CHECK(plan.admitted == Ids{1});
  CHECK(plan.rows[0].begin == 0);
  CHECK(plan.rows[0].count == 5);
  CHECK(plan.rows[0].samples);
  CHECK(plan.tokens == 5);
}

TEST_CASE("a long prompt is cut into chunks and samples after the last") {
  auto s = scheduler(2);
  s.add(row(1, 19));
  CHECK_FALSE(step(s).rows[0].samples);
  CHECK(step(s).rows[0].begin == 8);
  const Plan last = step(s);
  CHECK(last.rows[0].count == 3);
  CHECK(last.rows[0].samples);
}

TEST_CASE("a row is not planned again before its sampled token is known") {
  auto s = scheduler(2);
  s.add(row(1, 2));
  s.next(kBudget);
  CHECK(s.next(kBudget).empty());
  s.advance(1);
  const Plan plan = s.next(kBudget);
  CHECK(plan.rows[0].begin == 2);
  CHECK(plan.rows[0].count == 1);
}

TEST_CASE("decoding rows come first and prompts share what they leave") {
  auto s = scheduler(4);
  s.add(row(1, 2));
  s.add(row(2, 3));
  step(s);
  s.add(row(3, 4));
  s.add(row(4, 9));
  const Plan plan = step(s);
  CHECK(ids(plan) == Ids{1, 2, 3, 4});
  CHECK(plan.rows[2].count == 4);
  CHECK(plan.rows[3].count == 2);
  CHECK(plan.tokens == 8);
}

TEST_CASE("a decoding row is never skipped while a long prompt is computed") {
  auto s = scheduler(2);
  s.add(row(1));
  step(s);
  s.add(row(2, 500));
  for (int i = 0; i < 50; ++i) CHECK(step(s).rows[0].row == 1);
}

TEST_CASE("rows beyond the limit wait until one leaves") {
  auto s = scheduler(1);
  s.add(row(1));
  s.add(row(2));
  CHECK(step(s).admitted == Ids{1});
  CHECK(step(s).admitted.empty());
  s.finish(1);
  CHECK(step(s).admitted == Ids{2});
}

TEST_CASE("a row that must wait holds back later, smaller rows") {
  auto s = scheduler(4, /*pages=*/10);
  s.add(row(1, 4, 20));  // 23 tokens, 6 pages
  s.add(row(2, 4, 20));
  s.add(row(3, 1, 1));  // would fit
  CHECK(step(s).admitted == Ids{1});
  s.finish(1);
  CHECK(step(s).admitted == Ids{2, 3});
}

TEST_CASE("a row reserves pages for all it may generate, so that it can always finish") {
  auto s = scheduler(4, /*pages=*/3);
  s.add(row(1, 1, 8));  // 8 computed tokens: 2 pages
  s.add(row(2, 1, 8));
  step(s);
  CHECK(s.pages_reserved(0) == 2);
  CHECK(s.waiting() == 1);
}

TEST_CASE("a row with a sliding window reserves no more than window and chunk") {
  auto s = scheduler(4, /*pages=*/6, /*window=*/5);
  s.add(row(1, 1000, 1000));
  step(s);
  CHECK(s.pages_reserved(0) == 4);  // 4 + 8 tokens, from the middle of a page
}

TEST_CASE("a row that could never fit is refused with the numbers") {
  auto s = scheduler(4, /*pages=*/3);
  try {
    s.add(row(1, 10, 10));
    FAIL("must throw");
  } catch (const Error& error) {
    CHECK(error.code() == ErrorCode::kPoolExhausted);
    CHECK(std::string(error.what()).find("may need 5 cache pages of 4 tokens") == 12);
  }
  CHECK(s.waiting() == 0);
}

TEST_CASE("a paused row is not planned, keeps its pages, and goes on when resumed") {
  auto s = scheduler(2);
  s.add(row(1));
  s.add(row(2));
  step(s);
  const int64_t reserved = s.pages_reserved(0);
  s.pause(1);
  CHECK(ids(step(s)) == Ids{2});
  CHECK(s.pages_reserved(0) == reserved);
  s.resume(1);
  CHECK(ids(step(s)) == Ids{1, 2});
}

TEST_CASE("a waiting row can be cancelled") {
  auto s = scheduler(1);
  s.add(row(1));
  s.add(row(2));
  s.add(row(3));
  step(s);
  s.cancel(2);
  s.finish(1);
  CHECK(step(s).admitted == Ids{3});
}

TEST_CASE("a running row that is cancelled in mid-prompt frees its pages") {
  auto s = scheduler(1);
  s.add(row(1, 100));
  step(s);
  s.cancel(1);
  CHECK(s.pages_reserved(0) == 0);
  CHECK(step(s).empty());
}

TEST_CASE("a higher priority goes ahead of waiting rows, in order among equals") {
  auto s = scheduler(1);
  s.add(row(1));
  step(s);
  for (RowId id : {2, 3, 4}) {
    RowSpec spec = row(id);
    spec.priority = id == 2 ? 0 : 5;
    s.add(spec);
  }
  Ids order;
  for (RowId last = 1; s.waiting() > 0;) {
    s.finish(last);
    last = step(s).admitted.at(0);
    order.push_back(last);
  }
  CHECK(order == Ids{3, 4, 2});
}

TEST_CASE("a row of low priority is overtaken only so often") {
  auto s = scheduler(1);
  s.add(row(1));
  RowId running = step(s).admitted[0];
  s.add(row(2));
  RowId next_id = 3;
  int overtaken = 0;
  for (; overtaken < 1000; ++overtaken) {
    RowSpec spec = row(next_id++);
    spec.priority = 9;
    s.add(spec);
    s.finish(running);
    running = step(s).admitted.at(0);
    if (running == 2) break;
  }
  CHECK(overtaken == kOvertakenMax);
}

TEST_CASE("a row that generates nothing computes its prompt without sampling") {
  auto s = scheduler(1);
  s.add(row(1, 5, 0));
  CHECK_FALSE(s.next(kBudget).rows[0].samples);
  CHECK(s.next(kBudget).empty());
}

TEST_CASE("prompt outputs shrink the chunks of the rows that want them, and only theirs") {
  auto s = scheduler(3);
  for (RowId id : {1, 2}) {
    RowSpec spec = row(id, 6);
    spec.prompt_outputs = true;
    s.add(spec);
  }
  s.add(row(3, 10));
  const Plan plan = s.next({.tokens = 8, .prompt_outputs = 2});
  CHECK(ids(plan) == Ids{1, 3});
  CHECK(plan.rows[0].count == 2);
  CHECK(plan.rows[1].count == 6);
}
