#include "models/load/safetensors_checkpoint.h"

#include <doctest/doctest.h>

#include "load/builders.h"

using namespace tandem;
using namespace tandem::test;
using nlohmann::json;

namespace {

bool has(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

json quantized(int bits, int group) {
  return {{"quantization", {{"bits", bits}, {"group_size", group}}}};
}

// Planes of a quantised matrix [2, 64] as the settings say, zeros throughout.
SafetensorsBuilder affine_matrix(int bits, int group, const std::string& base = "m") {
  SafetensorsBuilder file;
  auto zeros = [](int64_t bytes) { return Bytes().zeros(static_cast<size_t>(bytes)).text(); };
  file.tensor(base + ".weight", "U32", {2, 64 * bits / 32}, zeros(2 * 64 * bits / 8));
  file.tensor(base + ".scales", "BF16", {2, 64 / group}, zeros(2 * 64 / group * 2));
  file.tensor(base + ".biases", "BF16", {2, 64 / group}, zeros(2 * 64 / group * 2));
  return file;
}

std::string take_error(const SafetensorsBuilder& file, const json& config, int64_t rows = 2,
                       int64_t cols = 64) {
  return error_of([&] { open_safetensors(file.bytes(), config)->take_matrix("m", rows, cols); });
}

}  // namespace

TEST_CASE("dense matrices and vectors of any float type come out as floats") {
  SafetensorsBuilder file;
  file.floats("a.weight", {1, 2}, {1.5f, -2});
  file.tensor("b.weight", "F16", {1, 2},
              Bytes().number<uint16_t>(0x3c00).number<uint16_t>(0xc000).text());
  file.tensor("c", "BF16", {2}, Bytes().number<uint16_t>(0x3f80).number<uint16_t>(0xc000).text());
  auto model = open_safetensors(file.bytes(), json::object());
  CHECK(dequantized(model->take_matrix("a", 1, 2)) == std::vector<float>{1.5f, -2});
  CHECK(dequantized(model->take_matrix("b", 1, 2)) == std::vector<float>{1, -2});
  CHECK(model->take_vector("c", 2) == std::vector<float>{1, -2});
  CHECK(model->stored_bytes() == 16);
  CHECK_NOTHROW(model->expect_all_taken());
}

TEST_CASE("names are found with or without the prefixes of multimodal models") {
  for (const char* stored : {"model.layers.0.x.weight", "language_model.model.layers.0.x.weight",
                             "model.language_model.layers.0.x.weight", "layers.0.x.weight",
                             "language_model.layers.0.x.weight"}) {
    auto model =
        open_safetensors(SafetensorsBuilder().floats(stored, {1, 1}, {3}).bytes(), json::object());
    CHECK(model->has("model.layers.0.x.weight"));
    CHECK(dequantized(model->take_matrix("model.layers.0.x", 1, 1))[0] == 3);
  }
  auto head = SafetensorsBuilder().floats("language_model.lm_head.weight", {1, 1}, {3});
  CHECK(open_safetensors(head.bytes(), json::object())->has("lm_head.weight"));
}

TEST_CASE("quantised matrices of every width and group carry their planes") {
  for (int bits : {2, 3, 4, 5, 6, 8}) {
    for (int group : {32, 64}) {
      auto model = open_safetensors(affine_matrix(bits, group).bytes(), quantized(bits, group));
      StoredMatrix matrix = model->take_matrix("m", 2, 64);
      CHECK(matrix.format == WeightFormat::kAffine);
      CHECK(matrix.bits == bits);
      CHECK(matrix.group_size == group);
      CHECK(matrix.scale_type == DType::kBF16);
      CHECK(matrix.data.size() == static_cast<size_t>(2 * 64 * bits / 8));
      CHECK_NOTHROW(model->expect_all_taken());
    }
  }
}

TEST_CASE("planes that do not fit bits, group or expected shape are errors naming the tensor") {
  CHECK(take_error(affine_matrix(4, 32), quantized(4, 32)) == "");
  CHECK(take_error(affine_matrix(4, 32), quantized(8, 32)) ==
        "m: tensor 'm.weight': shape [2, 8], expected [2, 16] for 8-bit codes in groups of 32");
  CHECK(take_error(affine_matrix(4, 32), quantized(4, 64)) ==
        "m: tensor 'm.scales': shape [2, 2], expected [2, 1] for 4-bit codes in groups of 64");
  CHECK(has(take_error(affine_matrix(4, 32), quantized(4, 32), 3, 64), "expected [3, 8]"));
  CHECK(has(take_error(affine_matrix(4, 32), quantized(4, 32), 2, 48), "48 columns cannot be"));
  auto mixed = affine_matrix(4, 32).tensor("m.biases", "F16", {2, 2}, Bytes().zeros(8).text());
  CHECK(has(take_error(mixed, quantized(4, 32)), "the same for scales and biases"));
  auto floats = affine_matrix(4, 32).floats("m.weight", {2, 8}, counting(16));
  CHECK(has(take_error(floats, quantized(4, 32)), "type F32, expected U32"));
}

TEST_CASE("missing planes and settings that contradict the file are errors") {
  SafetensorsBuilder codes;
  codes.tensor("m.weight", "U32", {2, 8}, Bytes().zeros(64).text());
  CHECK(has(take_error(codes, quantized(4, 32)), "'m.weight': is packed (U32), but its .scales"));
  codes.tensor("m.scales", "BF16", {2, 2}, Bytes().zeros(8).text());
  CHECK(has(take_error(codes, quantized(4, 32)), "tensor 'm.biases' is missing"));
  CHECK(has(take_error(affine_matrix(4, 32), json::object()), "this module is not quantised"));
  json off = {{"quantization", {{"bits", 4}, {"group_size", 32}, {"m", false}}}};
  CHECK(has(take_error(affine_matrix(4, 32), off), "this module is not quantised"));
}

TEST_CASE("a module's own settings win, whatever prefix their key has") {
  for (const char* key : {"model.layers.0.x", "layers.0.x", "language_model.model.layers.0.x"}) {
    json config = quantized(4, 64);
    config["quantization"][key] = {{"bits", 8}, {"group_size", 32}};
    auto file = affine_matrix(8, 32, "model.layers.0.x");
    auto matrix = open_safetensors(file.bytes(), config)->take_matrix("model.layers.0.x", 2, 64);
    CHECK(matrix.bits == 8);
    CHECK(matrix.group_size == 32);
  }
}

TEST_CASE("a module that is not quantised is read dense") {
  json config = {{"quantization", {{"bits", 4}, {"group_size", 64}, {"m", false}}}};
  auto file = SafetensorsBuilder().floats("m.weight", {1, 2}, {1, 2});
  CHECK(open_safetensors(file.bytes(), config)->take_matrix("m", 1, 2).format ==
        WeightFormat::kF32);
}

TEST_CASE("integer tensors where floats are expected are an error naming the type") {
  auto file = SafetensorsBuilder().tensor("m.weight", "I8", {2, 2}, "abcd");
  CHECK(take_error(file, json::object(), 2, 2) ==
        "m: tensor 'm.weight': type I8 cannot be read as floats, expected F32, F16 or BF16");
}

TEST_CASE("layers that only draft further tokens are tolerated") {
  SafetensorsBuilder file;
  file.floats("model.layers.2.eh_proj.weight", {1, 1}, {1}).floats("mtp.fc.weight", {1, 1}, {1});
  const json drafting = {{"num_hidden_layers", 2}, {"num_nextn_predict_layers", 1}};
  CHECK_NOTHROW(open_safetensors(file.bytes(), drafting)->expect_all_taken());
  const json plain = {{"num_hidden_layers", 2}};
  CHECK(has(error_of([&] { open_safetensors(file.bytes(), plain)->expect_all_taken(); }),
            "'model.layers.2.eh_proj.weight'"));
}

TEST_CASE("leftovers that hold nothing are tolerated, others are listed") {
  SafetensorsBuilder file;
  file.floats("model.layers.0.self_attn.rotary_emb.inv_freq", {1}, {1});
  file.floats("h.0.attn.masked_bias", {1}, {1});
  CHECK_NOTHROW(open_safetensors(file.bytes(), json::object())->expect_all_taken());
  file.floats("lm_head.weight", {1, 1}, {1}).floats("vision_tower.x.weight", {1}, {1});
  CHECK(has(error_of([&] { open_safetensors(file.bytes(), json::object())->expect_all_taken(); }),
            "m: 2 tensors are not part of this architecture: 'lm_head.weight', 'vision_tower.x"));
  json multimodal = {{"vision_config", json::object()},
                     {"text_config", {{"tie_word_embeddings", true}}}};
  CHECK_NOTHROW(open_safetensors(file.bytes(), multimodal)->expect_all_taken());
  for (char c = 'a'; c < 'u'; c++) file.floats({'x', c}, {1}, {1});
  std::string message =
      error_of([&] { open_safetensors(file.bytes(), multimodal)->expect_all_taken(); });
  CHECK(has(message, "20 tensors"));
  CHECK(has(message, "'xa', 'xb', 'xc'"));
  CHECK_FALSE(has(message, "'xi'"));
}

TEST_CASE("the chat template's file wins over the tokenizer's config") {
  std::string shard = SafetensorsBuilder().bytes();
  auto chosen = [&](const json& tokenizer, const std::string& file = "") {
    return open_safetensors(shard, json::object(), tokenizer.dump(), file)->chat_template();
  };
  CHECK(chosen({{"chat_template", "own"}}) == "own");
  CHECK(chosen({{"chat_template", "own"}}, "file") == "file");
  json named = json::array({{{"name", "tool_use"}, {"template", "tools"}},
                            {{"name", "default"}, {"template", "plain"}}});
  CHECK(chosen({{"chat_template", named}}) == "plain");
  named.erase(1);
  CHECK(chosen({{"chat_template", named}}) == "tools");
  CHECK(chosen(json::object()) == "");
  CHECK(has(error_of([&] { chosen({{"chat_template", 7}}); }),
            "tokenizer_config.json: chat_template"));
}
