// Every weight format, from a file's bytes to floats, against gguf-py and MLX.
#include <doctest/doctest.h>

#include <cstring>
#include <fstream>
#include <iterator>

#include "load/builders.h"
#include "models/load/gguf_types.h"

using namespace tandem;
using namespace tandem::test;
using nlohmann::json;

namespace {

const std::string kFolder = std::string(TANDEM_GOLDENS) + "/dequant/";

std::string read(const std::string& name) {
  std::ifstream in(kFolder + name, std::ios::binary);
  REQUIRE(in.good());
  return {std::istreambuf_iterator<char>(in), {}};
}

struct Goldens {
  json entries = json::parse(read("index.json"))["entries"];
  std::string blocks = read("blocks.bin");
  std::string values = read("values.f32");

  std::string_view data(const json& entry, const char* plane) const {
    return std::string_view(blocks).substr(entry[plane]["offset"], entry[plane]["bytes"]);
  }

  // Bytes, so that the comparison is of bits.
  std::string expected(const json& entry) const {
    return values.substr(entry["values_offset"].get<size_t>() * 4,
                         entry["values"].get<size_t>() * 4);
  }
};

// All blocks of an entry as a matrix of two rows.
std::vector<float> read_gguf(const Goldens& goldens, const json& entry) {
  uint64_t columns = entry["values"].get<uint64_t>() / 2;
  auto file = GgufBuilder("other").tensor("t.weight", {columns, 2}, entry["type_id"],
                                          goldens.data(entry, "data"));
  return dequantized(file.open()->take_matrix("t", 2, static_cast<int64_t>(columns)));
}

std::vector<float> read_affine(const Goldens& goldens, const json& entry) {
  int64_t rows = entry["rows"], columns = entry["columns"], bits = entry["bits"],
          group = entry["group_size"];
  std::string type = entry["scale_type"] == "bfloat16"  ? "BF16"
                     : entry["scale_type"] == "float16" ? "F16"
                                                        : "F32";
  SafetensorsBuilder file;
  file.tensor("t.weight", "U32", {rows, columns * bits / 32}, goldens.data(entry, "weight"));
  file.tensor("t.scales", type, {rows, columns / group}, goldens.data(entry, "scales"));
  file.tensor("t.biases", type, {rows, columns / group}, goldens.data(entry, "biases"));
  json config = {{"quantization", {{"bits", bits}, {"group_size", group}}}};
  return dequantized(open_safetensors(file.bytes(), config)->take_matrix("t", rows, columns));
}

}  // namespace

TEST_CASE("every GGUF type that is supported dequantises to gguf-py's bits") {
  Goldens goldens;
  int compared = 0;
  for (const json& entry : goldens.entries) {
    if (entry["format"] != "gguf" || !gguf_weight_format(entry["type_id"])) continue;
    CAPTURE(entry.dump());
    CHECK(bytes_of(read_gguf(goldens, entry)) == goldens.expected(entry));
    compared++;
  }
  CHECK(compared == 10);
}

TEST_CASE("every affine width, group and scale type dequantises to MLX's bits") {
  Goldens goldens;
  int compared = 0;
  for (const json& entry : goldens.entries) {
    if (entry["format"] != "mlx" || entry["mode"] != "affine") continue;
    CAPTURE(entry.dump());
    CHECK(bytes_of(read_affine(goldens, entry)) == goldens.expected(entry));
    compared++;
  }
  CHECK(compared == 54);
}

TEST_CASE("each tiny golden model opens with the configuration it was made from") {
  int opened = 0;
  for (const auto& entry :
       std::filesystem::directory_iterator(std::string(TANDEM_GOLDENS) + "/tiny")) {
    CAPTURE(entry.path().string());
    auto model = open_checkpoint(entry.path().string());
    const json& config = model->config();
    for (const char* key : {"model_type", "hidden_size", "num_hidden_layers", "vocab_size",
                            "num_attention_heads", "intermediate_size"}) {
      CHECK(config.contains(key));
    }
    int64_t hidden = config["hidden_size"], inner = config["intermediate_size"];
    CHECK(model->take_matrix("model.embed_tokens", config["vocab_size"], hidden).cols == hidden);
    // Families with experts or names of their own have no such layer.
    if (!model->has("model.layers.0.mlp.down_proj.weight")) continue;
    CHECK(config.contains("rms_norm_eps"));
    CHECK(model->take_matrix("model.layers.0.mlp.down_proj", hidden, inner).rows == hidden);
    CHECK(model->take_vector("model.norm.weight", hidden).size() == static_cast<size_t>(hidden));
    CHECK(model->stored_bytes() > 0);
    opened++;
  }
  CHECK(opened >= 38);
}
