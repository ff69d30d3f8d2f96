#include "models/load/safetensors.h"

#include <doctest/doctest.h>

#include "load/builders.h"

using namespace tandem;
using namespace tandem::test;

namespace {

std::string parse_error(const std::string& bytes) {
  return error_of([&] { parse_safetensors(file_of(bytes, "m.safetensors")); });
}

// The error for one tensor `t` with these fields and 16 bytes of data.
std::string entry_error(const std::string& fields) {
  return parse_error(safetensors_bytes("{\"t\": " + fields + "}", std::string(16, 'x')));
}

bool has(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("tensors of a safetensors file are found with type, shape and bytes") {
  std::string bytes = safetensors_bytes(
      R"({"__metadata__": {"format": "pt"},
          "b": {"dtype": "BF16", "shape": [2, 1], "data_offsets": [8, 12]},
          "a": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]},
          "empty": {"dtype": "F32", "shape": [0, 4], "data_offsets": [12, 12]}})",
      "12345678abcd");
  FileBytes file = file_of(bytes);
  auto tensors = parse_safetensors(file);
  REQUIRE(tensors.size() == 3);
  CHECK(tensors[0].name == "a");
  CHECK(tensors[0].data.size() == 8);
  CHECK(tensors[1].format == WeightFormat::kBF16);
  CHECK(tensors[1].shape == std::vector<int64_t>{2, 1});
  CHECK(tensors[1].data[0] == std::byte{'a'});
  CHECK(tensors[2].data.empty());
}

TEST_CASE("a header longer than the file or the limit is an error") {
  CHECK(has(parse_error("abc"), "has 3 bytes, too few"));
  CHECK(has(parse_error(Bytes().number<uint64_t>(50).raw("{}").text()),
            "header length 50 is more than the 2 bytes left"));
  CHECK(has(parse_error(Bytes().number<uint64_t>(UINT64_MAX).zeros(50).text()),
            "header length 18446744073709551615, the limit is 100000000"));
}

TEST_CASE("a file of another kind is named for what it is") {
  CHECK(has(parse_error("version https://git-lfs.github.com/spec/v1\noid sha256:0\n"),
            "not a safetensors file but a Git LFS pointer"));
  CHECK(has(parse_error("PK\x03\x04xxxxxxxxxxxxxxxxxxxx"), "but a ZIP archive"));
}

TEST_CASE("a header that is no JSON object, too deep or with a name twice is an error") {
  CHECK(
      has(parse_error(safetensors_bytes("{\"a\": ", "")), "safetensors header is not valid JSON"));
  CHECK(has(parse_error(safetensors_bytes("[]", "")), "not a JSON object"));
  CHECK(has(parse_error(safetensors_bytes(std::string(100000, '['), "")), "nested too deeply"));
  CHECK(has(parse_error(safetensors_bytes(R"({"a": {}, "a": {}})", "")), "\"a\" twice"));
}

TEST_CASE("each field of a tensor is checked and named") {
  CHECK(entry_error(R"({"dtype": "F32", "shape": [2, 2], "data_offsets": [0, 16]})") == "");
  CHECK(has(entry_error("7"), "tensor 't': expected an object"));
  CHECK(has(entry_error(R"({"shape": [4], "data_offsets": [0, 16]})"), "'t': dtype is missing"));
  CHECK(has(entry_error(R"({"dtype": "Q9", "shape": [4], "data_offsets": [0, 16]})"),
            "'t': dtype 'Q9' is not a known type"));
  CHECK(has(entry_error(R"({"dtype": 3, "shape": [4], "data_offsets": [0, 16]})"),
            "dtype is not a string"));
  CHECK(has(entry_error(R"({"dtype": "F32", "shape": [-4], "data_offsets": [0, 16]})"),
            "'t': shape[0] is not a whole number"));
  CHECK(has(entry_error(R"({"dtype": "F32", "shape": [1.5], "data_offsets": [0, 16]})"),
            "shape[0] is not"));
  CHECK(has(entry_error(R"({"dtype": "F32", "shape": 4, "data_offsets": [0, 16]})"),
            "shape is not an array"));
  CHECK(
      has(entry_error(R"({"dtype": "F32", "shape": [1,1,1,1,1,1,1,1,4], "data_offsets": [0, 16]})"),
          "shape has 9 dimensions"));
  CHECK(has(entry_error(R"({"dtype": "F32", "shape": [4]})"), "data_offsets is missing"));
  CHECK(has(entry_error(R"({"dtype": "F32", "shape": [4], "data_offsets": [0]})"),
            "data_offsets is not a pair"));
  CHECK(has(entry_error(R"({"dtype": "F4", "shape": [3], "data_offsets": [0, 1]})"),
            "does not fill whole bytes"));
}

TEST_CASE("offsets backwards, outside the file or of another size are errors") {
  CHECK(has(entry_error(R"({"dtype": "F32", "shape": [2], "data_offsets": [8, 0]})"),
            "data_offsets [8, 0] run backwards"));
  CHECK(has(entry_error(R"({"dtype": "F32", "shape": [4], "data_offsets": [8, 24]})"),
            "[8, 24] lie outside the file, which has 16 bytes of data; is it truncated?"));
  CHECK(has(
      entry_error(R"({"dtype": "F32", "shape": [4], "data_offsets": [0, 18446744073709551615]})"),
      "lie outside the file"));
  CHECK(has(entry_error(R"({"dtype": "F32", "shape": [3], "data_offsets": [0, 16]})"),
            "hold 16 bytes, expected 12 for F32 [3]"));
}

TEST_CASE("shapes whose product overflows are an error, also beside a zero") {
  CHECK(has(entry_error(
                R"({"dtype": "F32", "shape": [4398046511105, 4194304], "data_offsets": [0, 16]})"),
            "larger than any file"));
  CHECK(
      has(entry_error(
              R"({"dtype": "F32", "shape": [0, 4398046511105, 4194304], "data_offsets": [0, 0]})"),
          "larger than any file"));
}

TEST_CASE("tensors that share bytes are an error naming both") {
  std::string header = R"({"a": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]},
                           "b": {"dtype": "F32", "shape": [2], "data_offsets": [4, 12]}})";
  CHECK(has(parse_error(safetensors_bytes(header, std::string(12, 'x'))),
            "tensor 'b': data_offsets overlap those of 'a'"));
}

TEST_CASE("a safetensors file cut anywhere is an error, never a crash") {
  std::string whole = SafetensorsBuilder().floats("a", {2, 2}, counting(4)).bytes();
  for (size_t size = 0; size < whole.size(); size++) {
    CHECK(parse_error(whole.substr(0, size)) != "");
  }
  CHECK(parse_error(whole) == "");
}

TEST_CASE("an index that is malformed or leads out of the folder is an error") {
  auto index_error = [](std::string_view text) {
    return error_of([&] { parse_safetensors_index("i.json", text); });
  };
  CHECK(index_error(R"({"weight_map": {"a": "model-1.safetensors"}})") == "");
  CHECK(has(index_error("{}"), "i.json: weight_map is missing"));
  CHECK(has(index_error("[]"), "weight_map is missing"));
  CHECK(has(index_error(R"({"weight_map": {}})"), "weight_map is empty"));
  for (const char* name : {"../m.safetensors", "/etc/passwd", "m.bin", "", "a/b.safetensors"}) {
    std::string text = nlohmann::json{{"weight_map", {{"t", name}}}}.dump();
    CHECK(has(index_error(text), "tensor 't' is not the name of a .safetensors file"));
  }
}
