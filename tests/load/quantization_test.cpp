#include "models/load/quantization.h"

#include <doctest/doctest.h>

#include "load/builders.h"

using namespace tandem;
using namespace tandem::test;
using nlohmann::json;

namespace {

std::string config_error(const json& config) {
  return error_of([&] { Quantization(config, "config.json"); });
}

bool has(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("without settings nothing is quantised") {
  CHECK_FALSE(Quantization(json::object(), "c").of("m").has_value());
  CHECK_FALSE(Quantization({{"quantization", nullptr}}, "c").of("m").has_value());
}

TEST_CASE("one setting holds for all modules but those with their own") {
  Quantization settings({{"quantization_config",
                          {{"bits", 4},
                           {"group_size", 64},
                           {"mode", "affine"},
                           {"model.a", {{"bits", 6}}},
                           {"model.b", true},
                           {"lm_head", false}}}},
                        "c");
  CHECK(settings.of("model.x")->bits == 4);
  CHECK(settings.of("model.a")->bits == 6);
  CHECK(settings.of("language_model.model.a")->group_size == 64);
  CHECK(settings.of("model.b")->bits == 4);
  CHECK_FALSE(settings.of("lm_head").has_value());
}

TEST_CASE("other schemes are refused by name with what is supported") {
  CHECK(has(config_error({{"quantization_config", {{"quant_method", "gptq"}, {"bits", 4}}}}),
            "config.json: quantization_config.quant_method is 'gptq', which is not supported"));
  CHECK(has(config_error({{"quantization", {{"bits", 4}, {"group_size", 32}, {"mode", "mxfp4"}}}}),
            "quantization.mode is 'mxfp4', which is not supported; supported is 'affine'"));
  json module = {{"bits", 4}, {"group_size", 32}, {"model.a", {{"mode", "nvfp4"}}}};
  CHECK(has(config_error({{"quantization", module}}), "quantization['model.a'].mode is 'nvfp4'"));
}

TEST_CASE("bits and groups that do not exist are errors naming the field") {
  CHECK(config_error({{"quantization", {{"bits", 7}, {"group_size", 64}}}}) ==
        "config.json: quantization.bits is 7, expected 2, 3, 4, 5, 6 or 8");
  CHECK(has(config_error({{"quantization", {{"bits", 4}, {"group_size", 16}}}}),
            "quantization.group_size is 16, expected 32, 64 or 128"));
  CHECK(has(config_error({{"quantization", {{"bits", "4"}, {"group_size", 64}}}}),
            "quantization.bits is string"));
  CHECK(has(config_error({{"quantization", {{"bits", 4}}}}), "quantization.group_size is missing"));
  CHECK(has(config_error({{"quantization", 4}}), "quantization is not an object"));
}
