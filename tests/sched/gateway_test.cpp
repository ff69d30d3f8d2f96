#include "sched/gateway.h"

#include <doctest/doctest.h>

#include <random>
#include <set>

#include "sched/row_resource.h"

using namespace tandem;

namespace {

constexpr bool kStarted = true, kWaits = true;

struct Counted : RowResource {
  explicit Counted(int& count) : count(count) {}
  void dispose() noexcept override { ++count; }
  int& count;
};

}  // namespace

TEST_CASE("the domain is handed on in the order of requests") {
  ExclusiveDomain d;
  CHECK_FALSE(d.locked());
  d.request(1);
  d.request(2);
  d.request(3);
  CHECK(d.grant() == 1);
  CHECK_FALSE(d.grant().has_value());
  d.release(2);  // gave up waiting
  d.release(1);
  CHECK(d.grant() == 3);
  CHECK(d.locked());
  d.release(3);
  CHECK_FALSE(d.locked());
}

TEST_CASE("releasing twice, or what was never asked for, changes nothing") {
  ExclusiveDomain d;
  d.request(1);
  d.request(2);
  d.grant();
  d.release(1);
  d.grant();
  d.release(1);
  d.release(7);
  CHECK(d.holder() == 2);
}

TEST_CASE("the batch admits freely while nothing else waits") {
  Gateway g;
  CHECK_FALSE(g.turn(false, false).batch_admits);
  CHECK(g.turn(false, kWaits).batch_admits);
  CHECK(g.turn(kStarted, kWaits).batch_admits);
  CHECK(g.locked());
  g.turn(false, false);
  CHECK_FALSE(g.locked());
}

TEST_CASE("waiting exclusive work holds admission back until running rows have finished") {
  Gateway g;
  g.turn(false, kWaits);
  g.request(-1);
  const Gateway::Turn held = g.turn(kStarted, kWaits);
  CHECK(held.id == 0);
  CHECK_FALSE(held.batch_admits);
  const Gateway::Turn handed_on = g.turn(!kStarted, kWaits);
  CHECK(handed_on.id == -1);
  CHECK_FALSE(handed_on.batch_admits);
  g.release(-1);
  CHECK(g.turn(!kStarted, kWaits).batch_admits);
}

TEST_CASE("the batch gets its turn between exclusive work, and then takes in what waits") {
  Gateway g;
  g.request(-1);
  g.request(-2);
  CHECK(g.turn(false, kWaits).id == -1);
  g.request(-3);
  g.release(-1);
  CHECK(g.turn(false, kWaits).id == -2);
  g.release(-2);
  const Gateway::Turn turn = g.turn(false, kWaits);  // it asked before -3 did
  CHECK(turn.id == 0);
  CHECK(turn.batch_admits);
  CHECK_FALSE(g.turn(kStarted, kWaits).batch_admits);
  CHECK(g.turn(false, false).id == -3);
}

TEST_CASE("a serial row that made way comes before those that wait") {
  Gateway g;
  g.request(5);
  g.request(6);
  CHECK(g.turn(false, false).id == 5);
  g.release(5);
  CHECK(g.turn(false, false).id == 6);
  g.request(7);
  g.request_again(5);
  g.release(6);
  CHECK(g.turn(false, false).id == 5);
}

TEST_CASE("whatever is asked for and given up, all get the domain, one at a time") {
  const uint32_t seed = std::random_device{}();
  CAPTURE(seed);
  std::mt19937 random(seed);
  Gateway g;
  std::set<int64_t> open;  // asked for, not served
  int batch_waiting = 0, batch_running = 0, served = 0;
  int64_t next_id = 1;
  for (int i = 0; i < 20000 || (g.locked() && i < 200000); ++i) {
    const bool closing = i >= 20000;
    if (!closing && random() % 4 == 0) {
      const int64_t id = random() % 2 ? next_id : -next_id;
      ++next_id;
      g.request(id);
      open.insert(id);
    }
    if (!closing && random() % 3 == 0) ++batch_waiting;
    if (!open.empty() && random() % 20 == 0) {
      g.release(*open.begin());
      open.erase(open.begin());
    }
    const Gateway::Turn turn = g.turn(batch_running > 0, batch_waiting > 0);
    if (turn.batch_admits) {
      REQUIRE(turn.id == 0);
      batch_running += batch_waiting;
      batch_waiting = 0;
    }
    if (turn.id != 0) {
      REQUIRE(batch_running == 0);
      REQUIRE(open.count(turn.id) == 1);
      if (random() % 2) {
        g.release(turn.id);
        open.erase(turn.id);
        ++served;
      }
    }
    if (batch_running > 0 && random() % 2) --batch_running;
  }
  CHECK(open.empty());
  CHECK(batch_waiting == 0);
  CHECK(served > 1000);
  CHECK_FALSE(g.locked());
}

TEST_CASE("a resource is disposed of once, however often it is asked for or moved") {
  int count = 0;
  {
    ResourceOwner a(std::make_unique<Counted>(count));
    ResourceOwner b = std::move(a);
    a.dispose();
    CHECK(count == 0);
    b.dispose();
    b.dispose();
    CHECK(count == 1);
    ResourceOwner c(std::make_unique<Counted>(count));
    c = ResourceOwner(std::make_unique<Counted>(count));
    CHECK(count == 2);
  }
  CHECK(count == 3);
}
