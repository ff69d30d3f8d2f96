#include "models/cache_traits.h"

#include <doctest/doctest.h>

#include "base/error.h"
#include "models/model.h"

using namespace tandem;

namespace {

ModelInfo info_of(std::vector<int> windows, std::vector<CacheKind> kinds, int states = 0,
                  std::vector<CacheKind> state_kinds = {}) {
  ModelInfo info;
  info.architecture = "odd";
  for (int window : windows) info.kv_groups.push_back({.layers = 1, .window = window});
  for (CacheKind kind : kinds) info.kv_traits.push_back(cache_traits(kind));
  info.state_groups.resize(states);
  for (CacheKind kind : state_kinds) info.state_traits.push_back(cache_traits(kind));
  return info;
}

std::string error_of(const ModelInfo& info) {
  try {
    check_cache_traits(info);
  } catch (const Error& error) {
    CHECK(error.code() == ErrorCode::kLoad);
    return error.what();
  }
  return {};
}

}  // namespace

TEST_CASE("a model whose caches are all described passes") {
  CHECK(error_of(info_of({}, {})).empty());
  CHECK(error_of(info_of({0, 9}, {CacheKind::kFull, CacheKind::kSliding})).empty());
  CHECK(error_of(info_of({0}, {CacheKind::kLatent}, 1, {CacheKind::kState})).empty());
}

TEST_CASE("a cache that is not described, or wrongly, is named") {
  CHECK(error_of(info_of({0, 9}, {CacheKind::kFull})) ==
        "odd: 2 page groups, of which 1 are described; a family describes each of its caches");
  CHECK(error_of(info_of({0}, {CacheKind::kFull}, 1)).find("1 state groups") == 5);
  CHECK(error_of(info_of({9}, {CacheKind::kFull})) ==
        "odd: page group 0 is described as full, and its window is 9");
  CHECK(error_of(info_of({0}, {CacheKind::kSliding})).find("its window is 0") > 0);
  CHECK(error_of(info_of({0}, {CacheKind::kState})).find("keeps no pages") > 0);
  CHECK(error_of(info_of({}, {}, 1, {CacheKind::kFull})).find("described as full") > 0);
}

TEST_CASE("a cache that can't be batched must say why, and the model repeats it") {
  ModelInfo info = info_of({0, 0}, {CacheKind::kFull, CacheKind::kLatent});
  CHECK(all_caches(info, &CacheTraits::batchable));
  CHECK(why_not_batchable(info).empty());
  info.kv_traits[1].batchable = false;
  CHECK(error_of(info) == "odd: its latent cache can't be batched, and does not say why");
  info.kv_traits[1].serial_because = "its index works on one row";
  CHECK(error_of(info).empty());
  CHECK_FALSE(all_caches(info, &CacheTraits::batchable));
  CHECK(why_not_batchable(info) == "its index works on one row");
}

TEST_CASE("recurrent state is restored from copies, never taken back") {
  CHECK_FALSE(cache_traits(CacheKind::kState).trimmable);
  CHECK(cache_traits(CacheKind::kState).shareable);
  CHECK(cache_traits(CacheKind::kSliding).trimmable);
}
