// Rows, snapshots and evictions at random over pools, page lists and the prefix
// index, beside a naive map of all prefixes. Every page carries what was written
// to it, so that a row that reads another's tokens is seen at once.
#include <doctest/doctest.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <list>
#include <map>
#include <memory>
#include <random>
#include <vector>

#include "base/error.h"
#include "cache/page_list.h"
#include "cache/prefix_index.h"

using namespace tandem;

namespace {

constexpr int32_t kPage = 4;
constexpr int32_t kPages = 96;  // per group
constexpr int32_t kSlots = 12;
constexpr int32_t kWindow = 10;
constexpr int32_t kLengthMax = 44;

using Tokens = std::vector<int32_t>;
// Namespace, then the tokens up to the end of a block.
using Key = std::vector<int32_t>;

struct NaiveBlock {
  std::vector<int32_t> pages;  // per group, -1 = none
  bool ready = false;
  bool generated = false;
  int pending = 0;
  int32_t state = -1;

  bool kept() const {
    return state >= 0 || std::ranges::any_of(pages, [](int32_t page) { return page >= 0; });
  }
};

struct Row {
  int32_t space = 0;
  Tokens tokens;       // prompt and what it will generate
  int32_t prompt = 0;  // tokens
  int32_t computed = 0;
  int32_t added = 0;   // blocks
  int32_t marked = 0;  // blocks up to which it has marks
  PrefixRow place;
  std::vector<PageList> lists;
  std::vector<uint64_t> first_kept;  // positions per group
};

struct Snapshot {
  Row row;  // tokens and lists only
};

struct Config {
  bool full = true;
  bool sliding = false;
  bool states = false;
  uint64_t hash_mask = ~uint64_t{0};
};

struct Fuzz {
  Fuzz(uint32_t seed, Config c) : config(c), random(seed) {
    if (config.full) windows.push_back(0);
    if (config.sliding) windows.push_back(kWindow);
    pools.assign(windows.size(), BlockPool(kPages / 2));
    content.assign(windows.size(), std::vector<uint64_t>(kPages * kPage, 0));
    IndexOptions options{.page_tokens = kPage, .groups = {}, .hash_mask = config.hash_mask};
    for (size_t g = 0; g < pools.size(); ++g) options.groups.push_back({&pools[g], windows[g], 10});
    if (config.states) options.slots = &slots;
    options.slot_bytes = 7;
    options.track_unsaved = true;
    index = std::make_unique<PrefixIndex>(options);
  }

  int pick(int low, int high) { return std::uniform_int_distribution(low, high)(random); }
  size_t groups() const { return pools.size(); }

  static CacheNamespace space_of(int32_t space) { return {uint64_t(space), 9}; }

  static Key key_of(const Row& row, int64_t blocks) {
    Key key{row.space};
    key.insert(key.end(), row.tokens.begin(), row.tokens.begin() + blocks * kPage);
    return key;
  }

  // What a correct cache holds at a position: a function of all tokens up to there.
  static uint64_t value_at(const Row& row, int64_t position) {
    return chain_hash(row.space, std::span(row.tokens).first(position + 1)) | 1;
  }

  // The naive index

  const NaiveBlock* block_at(const Key& key) const {
    const auto it = naive.find(key);
    return it == naive.end() ? nullptr : &it->second;
  }

  bool usable(const NaiveBlock* block) const {
    if (block == nullptr || !block->ready) return false;
    for (size_t g = 0; g < groups(); ++g) {
      if (windows[g] == 0 && block->pages[g] < 0) return false;
    }
    return true;
  }

  bool windows_there(const Row& row, int64_t blocks, int64_t length) const {
    for (size_t g = 0; g < groups(); ++g) {
      if (windows[g] == 0) continue;
      const int64_t first = std::max<int64_t>(0, length - windows[g] + 1) / kPage;
      for (int64_t b = first; b < blocks; ++b) {
        if (block_at(key_of(row, b + 1))->pages[g] < 0) return false;
      }
    }
    return true;
  }

  int32_t naive_length(const Row& row, int32_t limit) const {
    int32_t blocks = 0, best = 0;
    while ((blocks + 1) * kPage <= limit && usable(block_at(key_of(row, blocks + 1)))) {
      ++blocks;
      const bool state = !config.states || block_at(key_of(row, blocks))->state >= 0;
      if (state && windows_there(row, blocks, blocks * kPage)) best = blocks * kPage;
    }
    if (config.states) return best;
    const Key start = key_of(row, blocks);
    int32_t alike = 0;
    for (auto it = naive.lower_bound(start); it != naive.end(); ++it) {
      const auto& [key, block] = *it;
      if (key.size() < start.size()) break;
      if (!std::equal(start.begin(), start.end(), key.begin())) break;
      if (key.size() != start.size() + kPage || !usable(&block)) continue;
      if (std::ranges::count(block.pages, -1) > 0) continue;
      int32_t n = 0;
      while (n < kPage && blocks * kPage + n < limit &&
             key[start.size() + n] == row.tokens[blocks * kPage + n]) {
        ++n;
      }
      alike = std::max(alike, n);
    }
    const int32_t length = blocks * kPage + alike;
    return alike > 0 && windows_there(row, blocks, length) ? length : best;
  }

  NodeId node_of(const Key& key) const {
    NodeId id = index->tree().find_root(space_of(key[0]));
    for (size_t i = 1; id != kNoNode && i < key.size(); i += kPage) {
      id = index->tree().find_child(id, std::span(key).subspan(i, kPage));
    }
    return id;
  }

  // Takes over what was evicted: it must have been nobody's, unless `cleared`.
  void sync(bool cleared = false) {
    for (auto it = naive.begin(); it != naive.end();) {
      NaiveBlock& block = it->second;
      const NodeId id = node_of(it->first);
      for (size_t g = 0; g < groups(); ++g) {
        const int32_t page = id == kNoNode ? -1 : index->page(id, g);
        if (block.pages[g] >= 0 && page < 0 && !cleared) REQUIRE(holders(g, block.pages[g]) == 0);
        REQUIRE((page < 0 || page == block.pages[g]));
        block.pages[g] = page;
      }
      const int32_t state = id == kNoNode ? -1 : index->state_slot(id);
      REQUIRE((state < 0 || state == block.state));
      block.state = state;
      if (id == kNoNode) REQUIRE(block.pending == 0);
      it = id == kNoNode ? naive.erase(it) : std::next(it);
    }
    REQUIRE(index->blocks() == std::ssize(naive));
  }

  int holders(size_t g, int32_t page) const {
    int count = 0;
    for (const Row& row : rows) count += std::ranges::count(row.lists[g].pages(), page);
    for (const Snapshot& s : snapshots) count += std::ranges::count(s.row.lists[g].pages(), page);
    return count;
  }

  // Events

  Tokens random_tokens() {
    Tokens tokens;
    if (!history.empty() && pick(0, 3) > 0) {
      const Tokens& old = history[pick(0, static_cast<int>(history.size()) - 1)];
      tokens.assign(old.begin(), old.begin() + pick(1, static_cast<int>(old.size())));
    }
    const int wanted = std::max<int>(tokens.size(), pick(1, kLengthMax));
    while (std::ssize(tokens) < wanted) tokens.push_back(pick(0, 2));
    if (history.size() < 20) history.push_back(tokens);
    history[pick(0, static_cast<int>(history.size()) - 1)] = tokens;
    return tokens;
  }

  void start() {
    Row row;
    row.space = pick(0, 5) == 0;
    row.tokens = random_tokens();
    row.prompt = pick(1, static_cast<int>(row.tokens.size()));
    const int32_t limit = row.prompt - pick(0, 1);
    const auto prompt = std::span(row.tokens).first(row.prompt);
    const PrefixHit hit = index->find(space_of(row.space), prompt, limit);
    REQUIRE(hit.length == naive_length(row, limit));
    REQUIRE(hit.pending_length >= hit.length);
    row.place = index->enter(space_of(row.space), hit);
    for (size_t g = 0; g < groups(); ++g) {
      row.lists.emplace_back(kPage);
      row.lists[g].adopt(hit.pages[g], pools[g]);
    }
    if (config.states && hit.length > 0) {
      REQUIRE(state_content[hit.state_slot] == value_at(row, hit.length - 1));
    }
    row.computed = hit.length;
    row.added = row.marked = hit.length / kPage;
    rows.push_back(std::move(row));
    check_contents(rows.back());
    if (pick(0, 1) == 0) mark(rows.back(), prompt);
  }

  void mark(Row& row, std::span<const int32_t> prompt) {
    index->mark(row.place, prompt);
    row.marked = static_cast<int32_t>(prompt.size()) / kPage;
    for (int32_t b = row.added; b < row.marked; ++b) {
      NaiveBlock& block = naive[key_of(row, b + 1)];
      block.pages.resize(groups(), -1);
      ++block.pending;
    }
    Row other;
    other.space = row.space;
    other.tokens.assign(prompt.begin(), prompt.end());
    const auto hit = index->find(space_of(row.space), prompt, row.prompt);
    REQUIRE(hit.pending_length >= row.marked * kPage);
  }

  // Room for the row's next tokens, or false.
  bool make_room(Row& row, int32_t end) {
    for (size_t g = 0; g < groups(); ++g) {
      const int32_t needed =
          row.lists[g].pages_missing(end) + row.lists[g].pages_shared(row.computed, end, pools[g]);
      if (needed <= pools[g].available()) continue;
      const int32_t obtainable = pools[g].available() + pools[g].cached();
      const bool evicted = index->evict_pages(g, needed);
      sync();
      // Without snapshots everything cached can be had.
      if (snapshots.empty()) REQUIRE(evicted == (needed <= obtainable));
      if (!evicted) return false;
    }
    return true;
  }

  void step(std::list<Row>::iterator it) {
    Row& row = *it;
    const auto length = static_cast<int32_t>(row.tokens.size());
    if (row.computed == length) return finish(it);
    const int32_t end = std::min(length, row.computed + pick(1, 9));
    for (size_t g = 0; g < groups(); ++g) {
      if (windows[g] == 0) continue;
      row.lists[g].drop_before(std::max(0, row.computed - windows[g] + 1), pools[g]);
    }
    if (!make_room(row, end)) return finish(it);
    for (size_t g = 0; g < groups(); ++g) {
      for (const PageCopy& copy : row.lists[g].make_writable(row.computed, end, pools[g])) {
        std::copy_n(&content[g][copy.from * kPage], kPage, &content[g][copy.to * kPage]);
      }
      row.lists[g].cover(end, pools[g]);
      for (int32_t p = row.computed; p < end; ++p) {
        const int32_t page = row.lists[g].pages()[p / kPage];
        REQUIRE(pools[g].references(page) == 1);
        content[g][page * kPage + p % kPage] = value_at(row, p);
      }
    }
    row.computed = end;
    check_contents(row);
    while ((row.added + 1) * kPage <= row.computed) add(row);
  }

  void add(Row& row) {
    std::vector<int32_t> pages;
    for (const PageList& list : row.lists) pages.push_back(list.pages()[row.added]);
    const int32_t end = (row.added + 1) * kPage;
    const bool generated = end > row.prompt;
    const auto tokens = std::span(row.tokens).subspan(end - kPage, kPage);
    const AddedBlock added = index->add(row.place, tokens, pages, generated);
    NaiveBlock& block = naive[key_of(row, ++row.added)];
    block.pages.resize(groups(), -1);
    REQUIRE(added.existed == block.ready);
    if (!block.ready) block.generated = generated;
    REQUIRE(added.same_phase == (block.generated == generated));
    block.ready = true;
    if (row.added <= row.marked) --block.pending;
    for (size_t g = 0; g < groups(); ++g) {
      if (block.pages[g] < 0) block.pages[g] = pages[g];
      REQUIRE(added.pages[g] == block.pages[g]);
      if (added.pages[g] != pages[g] && pick(0, 1) == 0) {
        row.lists[g].replace(row.added - 1, added.pages[g], pools[g]);
      }
    }
    if (config.states && pick(0, 2) == 0) keep_state(row, block);
  }

  void keep_state(const Row& row, NaiveBlock& block) {
    if (slots.available() == 0) {
      REQUIRE(index->evict_slots(1));
      sync();
    }
    const int32_t slot = slots.take();
    state_content[slot] = value_at(row, row.added * kPage - 1);
    index->keep_state(row.place, slot);
    slots.put(slot);
    if (block.state < 0) block.state = slot;
    REQUIRE(index->has_state(row.place));
  }

  void finish(std::list<Row>::iterator it) {
    Row& row = *it;
    for (int32_t b = row.added; b < row.marked; ++b) --naive.at(key_of(row, b + 1)).pending;
    index->leave(row.place);
    drop_unused(row);
    for (size_t g = 0; g < groups(); ++g) row.lists[g].release(pools[g]);
    rows.erase(it);
  }

  // Leaves that hold nothing and that no row is at or computing go.
  void drop_unused(const Row& left) {
    const auto at = [&](const Key& key) {
      return std::ranges::any_of(rows, [&](const Row& row) {
        return &row != &left && (key_of(row, row.added) == key ||
                                 (row.added < row.marked && key_of(row, row.marked) == key));
      });
    };
    for (int64_t b = std::max(left.added, left.marked); b > 0; --b) {
      const Key key = key_of(left, b);
      const auto it = naive.find(key);
      if (it == naive.end()) continue;
      const auto next = std::next(it);
      const bool leaf = next == naive.end() ||
                        !std::equal(key.begin(), key.end(), next->first.begin(),
                                    next->first.begin() + std::min(key.size(), next->first.size()));
      if (leaf && !it->second.kept() && it->second.pending == 0 && !at(key)) naive.erase(it);
    }
  }

  void snapshot(const Row& row) {
    Snapshot s;
    s.row.space = row.space;
    s.row.tokens = row.tokens;
    s.row.computed = row.computed;
    for (size_t g = 0; g < groups(); ++g) {
      s.row.lists.push_back(row.lists[g].share(row.computed, pools[g]));
    }
    snapshots.push_back(std::move(s));
  }

  void drop_snapshot(std::list<Snapshot>::iterator it) {
    check_contents(it->row);
    for (size_t g = 0; g < groups(); ++g) it->row.lists[g].release(pools[g]);
    snapshots.erase(it);
  }

  // Every position in reach reads what this row's own tokens have put there.
  void check_contents(const Row& row) const {
    for (size_t g = 0; g < groups(); ++g) {
      const auto pages = row.lists[g].pages();
      int32_t first = 0;
      if (windows[g] > 0) first = std::max(0, row.computed - windows[g] + 1);
      for (int32_t p = first; p < row.computed; ++p) {
        const int32_t page = pages[p / kPage];
        REQUIRE(page >= 0);
        if (content[g][page * kPage + p % kPage] != value_at(row, p)) {
          FAIL("group ", g, " position ", p, " holds another row's tokens");
        }
      }
    }
  }

  void check_all() const {
    index->check();
    if (config.states) slots.check();
    for (const Row& row : rows) check_contents(row);
    for (const Snapshot& s : snapshots) check_contents(s.row);
    for (size_t g = 0; g < groups(); ++g) {
      std::vector<int> counts(kPages, 0);
      const auto count = [&](const Row& row) {
        for (int32_t page : row.lists[g].pages()) counts[page < 0 ? 0 : page] += page >= 0;
      };
      for (const Row& row : rows) count(row);
      for (const Snapshot& s : snapshots) count(s.row);
      int cached = 0, in_use = 0;
      for (const auto& [key, block] : naive) {
        const int32_t page = block.pages[g];
        if (page < 0) continue;
        cached += counts[page] == 0;
        counts[page] += 1;
      }
      for (int32_t page = 0; page < pools[g].total(); ++page) {
        if (pools[g].references(page) != counts[page]) FAIL("page ", page, " of group ", g);
        in_use += counts[page] > 0;
      }
      REQUIRE(pools[g].cached() == cached);
      REQUIRE(pools[g].available() + in_use == pools[g].total());
    }
  }

  void event() {
    const int dice = pick(0, 99);
    const auto any = [&](auto& list) {
      return std::next(list.begin(), pick(0, static_cast<int>(list.size()) - 1));
    };
    if (dice < 20 && rows.size() < 5) return start();
    if (dice < 70 && !rows.empty()) return step(any(rows));
    if (dice < 78 && !rows.empty()) return finish(any(rows));
    if (dice < 80 && !rows.empty() && snapshots.size() < 3) return snapshot(*any(rows));
    if (dice < 84 && !snapshots.empty()) return drop_snapshot(any(snapshots));
    if (dice < 87 && groups() > 0) {
      const int g = pick(0, static_cast<int>(groups()) - 1);
      index->evict_pages(g, pools[g].available() + pick(0, 12));
    } else if (dice < 89 && config.states) {
      index->evict_slots(pick(0, kSlots));
    } else if (dice < 91) {
      const int64_t before = index->bytes();
      index->evict_bytes(pick(0, 100));
      REQUIRE(index->bytes() <= before);
    } else if (dice == 91) {
      index->clear(space_of(pick(0, 1)));
      return sync(true);
    } else if (dice == 92) {
      const NodeId id = index->next_unsaved();
      if (id != kNoNode) index->mark_saved(id);
    } else if (dice == 93) {
      for (BlockPool& pool : pools) pool.grow(std::min(kPages, pool.total() + pick(0, 3)));
    }
    sync();
  }

  void run(int events) {
    for (int i = 0; i < events; ++i) {
      event();
      for (const BlockPool& pool : pools) REQUIRE(pool.used() + pool.available() == pool.total());
      if (i % 32 == 0) check_all();
    }
    while (!rows.empty()) finish(rows.begin());
    while (!snapshots.empty()) drop_snapshot(snapshots.begin());
    check_all();
    index->clear();
    for (const BlockPool& pool : pools) REQUIRE(pool.used() == 0);
    REQUIRE(slots.used() == 0);
    REQUIRE(index->blocks() == 0);
    REQUIRE(index->bytes() == 0);
    REQUIRE(index->next_unsaved() == kNoNode);
  }

  const Config config;
  std::mt19937 random;
  std::vector<int32_t> windows;
  std::vector<BlockPool> pools;
  BlockPool slots{kSlots};
  std::vector<std::vector<uint64_t>> content;  // [group][page, position]
  std::map<int32_t, uint64_t> state_content;
  std::unique_ptr<PrefixIndex> index;
  std::map<Key, NaiveBlock> naive;
  std::list<Row> rows;
  std::list<Snapshot> snapshots;
  std::vector<Tokens> history;
};

// Events in all; `make fuzz` sets millions.
int events_wanted() {
  int events = 200'000;
  if (const char* text = std::getenv("TANDEM_FUZZ_EVENTS")) {
    std::from_chars(text, text + std::strlen(text), events);
  }
  return events;
}

}  // namespace

TEST_CASE("rows, snapshots and evictions at random never read or lose another's pages") {
  const uint32_t seed = std::random_device{}();
  CAPTURE(seed);
  const std::vector<Config> configs = {
      {},
      {.hash_mask = 3},
      {.sliding = true},
      {.full = false, .sliding = true},
      {.states = true},
      {.sliding = true, .states = true, .hash_mask = 15},
      {.full = false, .states = true},
  };
  for (size_t i = 0; i < configs.size(); ++i) {
    CAPTURE(i);
    Fuzz(seed + i, configs[i]).run(events_wanted() / static_cast<int>(configs.size()));
  }
}
