#include "cache/prefix_index.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <memory>
#include <numeric>
#include <vector>

#include "cache/page_list.h"

using namespace tandem;

namespace {

constexpr int32_t kPage = 4;
constexpr CacheNamespace kSpace{1, 2};

using Tokens = std::vector<int32_t>;

// first, first + 1, ...
Tokens count_from(int32_t first, int32_t n) {
  Tokens tokens(n);
  std::iota(tokens.begin(), tokens.end(), first);
  return tokens;
}

Tokens joined(Tokens a, const Tokens& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

// An index over one full group and, if asked for, a sliding one and states.
struct Rig {
  explicit Rig(int32_t window = 0, bool states = false, uint64_t hash_mask = ~uint64_t{0}) {
    pools.reserve(2);
    pools.emplace_back(64);
    if (window > 0) pools.emplace_back(64);
    IndexOptions options{.page_tokens = kPage, .groups = {}, .hash_mask = hash_mask};
    for (BlockPool& pool : pools) options.groups.push_back({&pool, 0, 100});
    if (window > 0) options.groups[1].window = window;
    if (states) options.slots = &slots;
    options.slot_bytes = 1000;
    index = std::make_unique<PrefixIndex>(options);
  }

  // A row: what it has of the index and what it computes.
  struct Row {
    PrefixRow place;
    std::vector<PageList> lists;
    int32_t blocks = 0;
  };

  Row enter(const Tokens& tokens, int32_t limit, CacheNamespace space = kSpace) {
    const PrefixHit hit = index->find(space, tokens, limit);
    Row row{index->enter(space, hit), std::vector<PageList>(pools.size(), PageList(kPage))};
    for (size_t g = 0; g < pools.size(); ++g) row.lists[g].adopt(hit.pages[g], pools[g]);
    row.blocks = hit.length / kPage;
    return row;
  }

  // Computes and adds the whole blocks of `tokens` that the row lacks.
  void compute(Row& row, const Tokens& tokens, bool generated = false) {
    for (; (row.blocks + 1) * kPage <= std::ssize(tokens); ++row.blocks) {
      std::vector<int32_t> pages;
      for (size_t g = 0; g < pools.size(); ++g) {
        row.lists[g].cover((row.blocks + 1) * kPage, pools[g]);
        row.lists[g].make_writable(row.blocks * kPage, (row.blocks + 1) * kPage, pools[g]);
        pages.push_back(row.lists[g].pages()[row.blocks]);
      }
      index->add(row.place, std::span(tokens).subspan(row.blocks * kPage, kPage), pages, generated);
    }
  }

  void keep_state(const Row& row) {
    const int32_t slot = slots.take();
    index->keep_state(row.place, slot);
    slots.put(slot);
  }

  void leave(Row& row) {
    index->leave(row.place);
    for (size_t g = 0; g < pools.size(); ++g) row.lists[g].release(pools[g]);
  }

  // A request from beginning to end.
  void serve(const Tokens& tokens, CacheNamespace space = kSpace) {
    Row row = enter(tokens, static_cast<int32_t>(tokens.size()), space);
    compute(row, tokens);
    leave(row);
    index->check();
  }

  int32_t hit_length(const Tokens& tokens, CacheNamespace space = kSpace) const {
    return index->find(space, tokens, static_cast<int32_t>(tokens.size())).length;
  }

  std::vector<BlockPool> pools;
  BlockPool slots{8};
  std::unique_ptr<PrefixIndex> index;
};

}  // namespace

TEST_CASE("an index without blocks finds nothing") {
  const Rig rig;
  CHECK(rig.hit_length(count_from(0, 20)) == 0);
}

TEST_CASE("a request finds the whole blocks it shares with a finished one") {
  Rig rig;
  rig.serve(count_from(0, 14));
  CHECK(rig.pools[0].cached() == 3);
  const PrefixHit hit = rig.index->find(kSpace, joined(count_from(0, 8), {90, 91}), 10);
  CHECK(hit.length == 8);
  CHECK(hit.pages[0].size() == 2);
  CHECK(hit.partial == kNoNode);
}

TEST_CASE("a request finds blocks of a row that is still running") {
  Rig rig;
  auto row = rig.enter(count_from(0, 8), 8);
  rig.compute(row, count_from(0, 8));
  CHECK(rig.hit_length(count_from(0, 8)) == 8);
  rig.leave(row);
}

TEST_CASE("a block that only begins alike serves its first tokens, to be copied on write") {
  Rig rig;
  rig.serve(count_from(0, 8));
  const PrefixHit hit = rig.index->find(kSpace, joined(count_from(0, 6), {90, 91}), 8);
  CHECK(hit.length == 6);
  CHECK(hit.partial != kNoNode);
  CHECK(hit.pages[0].size() == 2);
}

TEST_CASE("an exact hit leaves the last token to be computed") {
  Rig rig;
  rig.serve(count_from(0, 8));
  auto row = rig.enter(count_from(0, 8), 7);
  CHECK(rig.pools[0].used() == 2);
  CHECK(row.lists[0].make_writable(7, 8, rig.pools[0]).size() == 1);
  CHECK(rig.pools[0].used() == 3);
  rig.leave(row);
  rig.index->check();
}

TEST_CASE("namespaces do not share blocks") {
  Rig rig;
  rig.serve(count_from(0, 8));
  CHECK(rig.hit_length(count_from(0, 8), {1, 3}) == 0);
}

TEST_CASE("blocks whose hashes collide are told apart by their tokens") {
  Rig rig(0, false, 0);
  for (int32_t first : {0, 100, 200, 300}) rig.serve(count_from(first, 8));
  std::vector<int32_t> pages;
  for (int32_t first : {0, 100, 200, 300}) {
    const PrefixHit hit = rig.index->find(kSpace, count_from(first, 8), 8);
    CHECK(hit.length == 8);
    pages.push_back(hit.pages[0][1]);
  }
  std::ranges::sort(pages);
  CHECK(std::ranges::adjacent_find(pages) == pages.end());
}

TEST_CASE("of two rows that computed the same block, the first one's page stays") {
  Rig rig;
  const Tokens tokens = count_from(0, 4);
  auto a = rig.enter(tokens, 4), b = rig.enter(tokens, 4);
  rig.compute(a, tokens);
  const int32_t page = b.lists[0].pages().empty() ? rig.pools[0].take() : -1;
  const AddedBlock added = rig.index->add(b.place, tokens, std::vector{page});
  CHECK(added.existed);
  CHECK(added.same_phase);
  CHECK(added.pages[0] == a.lists[0].pages()[0]);
  rig.pools[0].put(page);
  CHECK(rig.index->blocks() == 1);
  rig.leave(a);
  rig.leave(b);
}

TEST_CASE("blocks with generated tokens can be left out") {
  Rig rig;
  auto row = rig.enter(count_from(0, 4), 4);
  rig.compute(row, count_from(0, 4));
  rig.compute(row, count_from(0, 8), true);
  CHECK(rig.index->find(kSpace, count_from(0, 9), 9).length == 8);
  CHECK(rig.index->find(kSpace, count_from(0, 9), 9, true).length == 4);
  rig.leave(row);
}

TEST_CASE("an identical request sees what another is computing, until that one gives up") {
  Rig rig;
  const Tokens tokens = count_from(0, 13);
  auto row = rig.enter(tokens, 12);
  rig.index->mark(row.place, tokens);
  PrefixHit hit = rig.index->find(kSpace, tokens, 12);
  CHECK(hit.length == 0);
  CHECK(hit.pending_length == 12);
  rig.compute(row, count_from(0, 4));
  hit = rig.index->find(kSpace, tokens, 12);
  CHECK(hit.length == 4);
  CHECK(hit.pending_length == 12);
  rig.leave(row);
  hit = rig.index->find(kSpace, tokens, 12);
  CHECK(hit.length == 4);
  CHECK(hit.pending_length == 4);
  CHECK(rig.index->blocks() == 1);
  rig.index->check();
}

TEST_CASE("the leaf used least recently is evicted first, and a row's own never") {
  Rig rig;
  rig.serve(count_from(0, 8));
  rig.serve(count_from(100, 8));
  rig.serve(count_from(0, 8));
  auto row = rig.enter(count_from(200, 8), 8);
  rig.compute(row, count_from(200, 8));
  CHECK(rig.index->evict_pages(0, 60));
  CHECK(rig.hit_length(count_from(0, 8)) == 8);
  CHECK(rig.hit_length(count_from(100, 8)) == 0);
  CHECK_FALSE(rig.index->evict_pages(0, 64));
  CHECK(rig.hit_length(count_from(200, 8)) == 8);
  CHECK(rig.pools[0].available() == 62);
  rig.leave(row);
  CHECK(rig.index->evict_pages(0, 64));
  rig.index->check();
}

TEST_CASE("bytes are evicted until there are enough of them") {
  Rig rig;
  rig.serve(count_from(0, 40));
  CHECK(rig.index->bytes() == 1000);
  CHECK(rig.index->evict_bytes(250) == 300);
  CHECK(rig.hit_length(count_from(0, 40)) == 28);
  CHECK(rig.index->evict_bytes(5000) == 700);
}

TEST_CASE("a sliding group needs only the pages that its window reaches") {
  Rig rig(5);
  rig.serve(count_from(0, 20));
  const PrefixHit hit = rig.index->find(kSpace, count_from(0, 20), 16);
  CHECK(hit.length == 16);
  CHECK(hit.pages[1][2] == -1);
  CHECK(hit.pages[1][3] >= 0);
  CHECK(hit.pages[0][0] >= 0);
}

TEST_CASE("sliding pages behind the window are evicted before any block is lost") {
  Rig rig(5);
  rig.serve(count_from(0, 20));
  CHECK(rig.index->evict_pages(1, 63));
  CHECK(rig.index->pages(1) == 1);
  CHECK(rig.index->pages(0) == 5);
  CHECK(rig.hit_length(count_from(0, 20)) == 20);
  CHECK(rig.hit_length(joined(count_from(0, 8), {90})) == 0);
}

TEST_CASE("a model with state is hit only where a checkpoint lies") {
  Rig rig(0, true);
  auto row = rig.enter(count_from(0, 12), 12);
  rig.compute(row, count_from(0, 8));
  rig.keep_state(row);
  rig.compute(row, count_from(0, 12));
  rig.leave(row);
  const PrefixHit hit = rig.index->find(kSpace, count_from(0, 12), 12);
  CHECK(hit.length == 8);
  CHECK(hit.state_slot >= 0);
  CHECK(rig.slots.cached() == 1);
  CHECK(rig.index->evict_pages(0, 62));
  CHECK(rig.hit_length(count_from(0, 12)) == 8);
  CHECK(rig.index->evict_slots(8));
  CHECK(rig.hit_length(count_from(0, 12)) == 0);
  rig.index->check();
}

TEST_CASE("clearing forgets one namespace, but not what a row is at") {
  Rig rig;
  rig.serve(count_from(0, 8));
  rig.serve(count_from(0, 8), {5, 5});
  auto row = rig.enter(joined(count_from(0, 4), {90}), 4);
  rig.index->clear(kSpace);
  CHECK(rig.hit_length(count_from(0, 8)) == 4);
  CHECK(rig.hit_length(count_from(0, 8), {5, 5}) == 8);
  rig.leave(row);
  rig.index->clear();
  CHECK(rig.pools[0].used() == 0);
  CHECK(rig.index->blocks() == 0);
  rig.index->check();
}
