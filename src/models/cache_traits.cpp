#include "models/cache_traits.h"

#include <algorithm>

#include "base/error.h"
#include "models/model.h"

namespace tandem {

namespace {

[[noreturn]] void refuse(const ModelInfo& info, const std::string& what) {
  throw Error(ErrorCode::kLoad, info.architecture + ": " + what);
}

void check_count(const ModelInfo& info, const char* what, size_t caches, size_t traits) {
  if (caches == traits) return;
  refuse(info, std::to_string(caches) + " " + what + ", of which " + std::to_string(traits) +
                   " are described; a family describes each of its caches");
}

}  // namespace

const char* cache_kind_name(CacheKind kind) {
  switch (kind) {
    case CacheKind::kFull: return "full";
    case CacheKind::kSliding: return "sliding";
    case CacheKind::kLatent: return "latent";
    case CacheKind::kShared: return "shared";
    case CacheKind::kState: return "state";
  }
  return "?";
}

CacheTraits cache_traits(CacheKind kind) {
  CacheTraits traits{.kind = kind, .serial_because = {}};
  // A recurrent state is the sum of all tokens: it is restored from a copy, not taken back.
  if (kind == CacheKind::kState) traits.trimmable = false;
  return traits;
}

void check_cache_traits(const ModelInfo& info) {
  check_count(info, "page groups", info.kv_groups.size(), info.kv_traits.size());
  check_count(info, "state groups", info.state_groups.size(), info.state_traits.size());
  for (size_t g = 0; g < info.kv_groups.size(); ++g) {
    const CacheKind kind = info.kv_traits[g].kind;
    const std::string name =
        "page group " + std::to_string(g) + " is described as " + cache_kind_name(kind);
    if (kind == CacheKind::kState) refuse(info, name + ", which keeps no pages");
    if ((info.kv_groups[g].window > 0) == (kind == CacheKind::kSliding)) continue;
    refuse(info, name + ", and its window is " + std::to_string(info.kv_groups[g].window));
  }
  for (const CacheTraits& traits : info.state_traits) {
    if (traits.kind == CacheKind::kState) continue;
    refuse(info, std::string("a state group is described as ") + cache_kind_name(traits.kind));
  }
  for (const auto* list : {&info.kv_traits, &info.state_traits}) {
    for (const CacheTraits& traits : *list) {
      if (traits.batchable || !traits.serial_because.empty()) continue;
      refuse(info, std::string("its ") + cache_kind_name(traits.kind) +
                       " cache can't be batched, and does not say why");
    }
  }
}

bool all_caches(const ModelInfo& info, bool CacheTraits::* trait) {
  const auto has = [trait](const CacheTraits& traits) { return traits.*trait; };
  return std::all_of(info.kv_traits.begin(), info.kv_traits.end(), has) &&
         std::all_of(info.state_traits.begin(), info.state_traits.end(), has);
}

std::string why_not_batchable(const ModelInfo& info) {
  for (const auto* list : {&info.kv_traits, &info.state_traits}) {
    for (const CacheTraits& traits : *list) {
      if (!traits.batchable) return traits.serial_because;
    }
  }
  return {};
}

}  // namespace tandem
