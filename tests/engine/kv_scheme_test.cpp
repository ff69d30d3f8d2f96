#include "engine/kv_scheme.h"

#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>

#include "base/error.h"

using namespace tandem;

namespace {

ModelInfo two_kinds() {
  ModelInfo info;
  info.kv_groups = {{.layers = 3, .kv_heads = 2, .k_dim = 64, .v_dim = 64},
                    {.layers = 2, .kv_heads = 2, .k_dim = 64, .v_dim = 64, .window = 100}};
  return info;
}

ModelInfo one_kind() {
  ModelInfo info = two_kinds();
  info.kv_groups.pop_back();
  return info;
}

// A folder with this kv_config.json, or none.
struct Folder {
  explicit Folder(const std::string& config) {
    path = (std::filesystem::temp_directory_path() / "tandem-kv-scheme-test").string();
    std::filesystem::create_directories(path);
    if (!config.empty()) std::ofstream(path + "/kv_config.json") << config;
  }
  ~Folder() { std::filesystem::remove_all(path); }
  std::string path;
};

}  // namespace

TEST_CASE("a KV scheme is parsed and named; anything else is told what there is") {
  for (const auto& [text, name] :
       std::vector<std::pair<std::string, std::string>>{{"off", "off"},
                                                        {"8", "kv8"},
                                                        {"4", "kv4"},
                                                        {"config", "config"},
                                                        {"turbo", "turbo-k8v3"},
                                                        {"turbo:k4v2", "turbo-k4v2"}}) {
    CHECK(kv_quant_name(parse_kv_quant(text)) == name);
  }
  KvQuant later = parse_kv_quant("8");
  later.start = 100;
  CHECK(kv_quant_name(later) == "kv8@128");
  for (const char* bad : {"", "6", "turbo:", "turbo:k8", "turbo:k8v3x", "on"}) {
    CAPTURE(bad);
    CHECK_THROWS_WITH_AS(parse_kv_quant(bad), doctest::Contains("turbo:kKvV"), Error);
  }
}

TEST_CASE("uniform bits quantise every layer, turbo those without a window") {
  const auto q8 = kv_groups_of(two_kinds(), KvCodec::kF16, parse_kv_quant("8"), "");
  CHECK(q8[0].formats == std::vector<KvFormat>(3, kv_affine(8, 64)));
  CHECK(q8[1].formats == std::vector<KvFormat>(2, kv_affine(8, 64)));
  const auto turbo = kv_groups_of(two_kinds(), KvCodec::kF16, parse_kv_quant("turbo"), "");
  CHECK(turbo[0].formats == std::vector<KvFormat>(3, kv_turbo(8, 3)));
  CHECK_FALSE(turbo[1].quantised());
}

TEST_CASE("turbo and bits that a model does not allow fail at once") {
  ModelInfo info = one_kind();
  info.kv_groups[0].k_dim = 80;
  CHECK_THROWS_WITH_AS(kv_groups_of(info, KvCodec::kF16, parse_kv_quant("turbo"), ""),
                       doctest::Contains("this model has 80"), Error);
  CHECK_THROWS_WITH_AS(kv_groups_of(one_kind(), KvCodec::kF16, parse_kv_quant("turbo:k9v3"), ""),
                       doctest::Contains("k9v3"), Error);
}

TEST_CASE("a per-layer config names layers; the others keep the base codec") {
  const KvQuant config = parse_kv_quant("config");
  const Folder good(R"([{"layer_idx": 0, "bits": 8, "group_size": 64},
                        {"layer_idx": 2, "bits": 4, "group_size": 32}])");
  const auto groups = kv_groups_of(one_kind(), KvCodec::kF16, config, good.path);
  CHECK(groups[0].formats ==
        std::vector<KvFormat>{kv_affine(8, 64), {KvCodec::kF16}, kv_affine(4, 32)});
}

TEST_CASE("a missing or bad per-layer config is refused with its path") {
  const KvQuant config = parse_kv_quant("config");
  for (const auto& [text, problem] : std::vector<std::pair<std::string, std::string>>{
           {"", "there is none in"},
           {"{}", "must be a JSON list"},
           {"[1]", "must be an object"},
           {R"([{"layer_idx": 3, "bits": 8, "group_size": 64}])", "between 0 and 2, got 3"},
           {R"([{"layer_idx": 0, "bits": 8}])", "integer group_size"},
           {R"([{"layer_idx": 0, "bits": 3, "group_size": 64}])", "8 or 4 bits, got 3"}}) {
    CAPTURE(text);
    const Folder folder(text);
    CHECK_THROWS_WITH_AS(kv_groups_of(one_kind(), KvCodec::kF16, config, folder.path),
                         doctest::Contains(problem.c_str()), Error);
  }
}
