#include "models/load/gguf.h"

#include <doctest/doctest.h>

#include "base/error.h"
#include "load/builders.h"

using namespace tandem;
using namespace tandem::test;

namespace {

std::string parse_error(const std::string& bytes) {
  return error_of([&] { parse_gguf(file_of(bytes)); });
}

// Header of a file with one tensor description and what follows.
Bytes one_tensor(uint64_t tensors = 1, uint64_t keys = 0) {
  return Bytes().raw("GGUF").number<uint32_t>(3).number(tensors).number(keys);
}

std::string tensor_file(const std::vector<uint64_t>& dims, uint32_t type, uint64_t offset = 0,
                        size_t data_bytes = 64) {
  Bytes file = one_tensor();
  file.string("t.weight").number<uint32_t>(static_cast<uint32_t>(dims.size()));
  for (uint64_t extent : dims) file.number(extent);
  file.number(type).number(offset);
  return file.zeros((32 - file.text().size() % 32) % 32 + data_bytes).text();
}

std::string with_value(uint32_t type, std::string_view bytes) {
  return one_tensor(0, 1).string("k").number(type).raw(bytes).text();
}

}  // namespace

TEST_CASE("metadata of every type are read back") {
  GgufBuilder file;
  file.value("u8", 0, Bytes().number<uint8_t>(200).text());
  file.value("i8", 1, Bytes().number<int8_t>(-5).text());
  file.value("u16", 2, Bytes().number<uint16_t>(60000).text());
  file.value("i16", 3, Bytes().number<int16_t>(-300).text());
  file.u32("u32", 4000000000u);
  file.value("i32", 5, Bytes().number<int32_t>(-7).text());
  file.f32("f32", 0.5f).flag("yes", true).flag("no", false).text("text", "ab\0c");
  file.value("u64", 10, Bytes().number<uint64_t>(uint64_t{1} << 40).text());
  file.value("i64", 11, Bytes().number<int64_t>(-1).text());
  file.value("f64", 12, Bytes().number<double>(0.1).text());
  file.texts("texts", {"a", "", "bc"});
  auto parsed = parse_gguf(file_of(file.bytes()));
  const auto& in = parsed.metadata;
  CHECK(in.integer("u8") == 200);
  CHECK(in.integer("i8") == -5);
  CHECK(in.integer("u16") == 60000);
  CHECK(in.integer("i16") == -300);
  CHECK(in.integer("u32") == 4000000000);
  CHECK(in.integer("i32") == -7);
  CHECK(in.number("f32") == 0.5);
  CHECK(in.flag("yes") == true);
  CHECK(in.flag("no") == false);
  CHECK(in.text("text") == "ab");
  CHECK(in.integer("u64") == int64_t{1} << 40);
  CHECK(in.number("i64") == -1.0);
  CHECK(in.number("f64") == 0.1);
  CHECK(in.texts("texts") == std::vector<std::string>{"a", "", "bc"});
  CHECK(in.integer("absent") == std::nullopt);
  CHECK(in.texts("absent").empty());
}

TEST_CASE("arrays of numbers and nested arrays are read or stepped over") {
  GgufBuilder file;
  Bytes numbers, nested;
  numbers.number<uint32_t>(3).number<uint64_t>(2).number<int16_t>(-1).number<int16_t>(7);
  nested.number<uint32_t>(9).number<uint64_t>(2);
  for (int i = 0; i < 2; i++) nested.number<uint32_t>(8).number<uint64_t>(1).string("inner");
  file.value("numbers", 9, numbers.text()).value("nested", 9, nested.text()).u32("after", 5);
  auto parsed = parse_gguf(file_of(file.bytes()));
  CHECK(parsed.metadata.integers("numbers") == std::vector<int64_t>{-1, 7});
  CHECK(parsed.metadata.floats("numbers") == std::vector<float>{-1, 7});
  CHECK(parsed.metadata.integer("after") == 5);
}

TEST_CASE("a metadata value of another type is an error that names the key and both types") {
  GgufBuilder file;
  file.text("a", "x").u32("b", 1).value("c", 10, Bytes().number<uint64_t>(UINT64_MAX).text());
  auto parsed = parse_gguf(file_of(file.bytes()));
  const auto& in = parsed.metadata;
  CHECK(error_of([&] { in.integer("a"); }) ==
        "m.gguf: metadata key 'a' is string and not an integer below 2^63");
  CHECK(error_of([&] { in.text("b"); }) == "m.gguf: metadata key 'b' is u32 and not a string");
  CHECK(error_of([&] { in.flag("b"); }) == "m.gguf: metadata key 'b' is u32 and not a bool");
  CHECK(error_of([&] { in.integer("c"); }).find("below 2^63") != std::string::npos);
  CHECK(error_of([&] { in.texts("a"); }).find("not an array of strings") != std::string::npos);
}

TEST_CASE("tensors are found with their shape outermost first") {
  auto parsed = parse_gguf(file_of(GgufBuilder().floats("t", {3, 2}, counting(6)).bytes()));
  REQUIRE(parsed.tensors.size() == 1);
  CHECK(parsed.tensors[0].shape == std::vector<int64_t>{2, 3});
  CHECK(parsed.tensors[0].data.size() == 24);
  CHECK(parsed.tensors[0].format == WeightFormat::kF32);
}

TEST_CASE("a dimension of zero is an error that names tensor and field") {
  Bytes file = one_tensor();
  file.string("t.weight").number<uint32_t>(2).number<uint64_t>(4).number<uint64_t>(0);
  file.number<uint32_t>(0).number<uint64_t>(0);
  CHECK(file.text().size() < 100);
  CHECK(parse_error(file.text()) == "m.gguf: tensor 't.weight': dims[1] is 0, expected 1 or more");
}

TEST_CASE("dimensions whose product overflows are an error") {
  uint64_t two42 = uint64_t{1} << 42;
  CHECK(parse_error(tensor_file({two42 + 1, uint64_t{1} << 22}, 0))
            .find("tensor 't.weight': dims[1]") != std::string::npos);
  CHECK(parse_error(tensor_file({UINT64_MAX}, 0)).find("dims[0] is 18446744073709551615") !=
        std::string::npos);
  // The product fits, its bytes do not.
  CHECK(parse_error(tensor_file({uint64_t{1} << 62}, 0)).find("larger than any file") !=
        std::string::npos);
}

TEST_CASE("more or fewer dimensions than 1 to 4 are an error") {
  CHECK(parse_error(tensor_file({1, 1, 1, 1, 1}, 0)) ==
        "m.gguf: tensor 't.weight': n_dims is 5, expected 1 to 4");
  CHECK(parse_error(tensor_file({}, 0)).find("n_dims is 0") != std::string::npos);
}

TEST_CASE("counts that the file cannot hold are errors before anything is allocated") {
  uint64_t huge = uint64_t{1} << 60;
  CHECK(parse_error(one_tensor(0, huge).text()).find("metadata key count is 1152921504606846976") !=
        std::string::npos);
  CHECK(parse_error(one_tensor(huge, 0).text()).find("tensor count is 1152921504606846976") !=
        std::string::npos);
  Bytes array;
  array.number<uint32_t>(8).number(huge);
  CHECK(parse_error(with_value(9, array.text())).find("metadata key 'k': element count") !=
        std::string::npos);
  Bytes long_key = one_tensor(0, 1).number(uint64_t{1} << 63).raw("abcdefghijklm");
  CHECK(parse_error(long_key.text()).find("name of metadata key 0 needs 9223372036854775808") !=
        std::string::npos);
}

TEST_CASE("deeply nested arrays are an error") {
  Bytes nested;
  for (int i = 0; i < 10; i++) nested.number<uint32_t>(9).number<uint64_t>(1);
  CHECK(parse_error(with_value(9, nested.text())).find("nested deeper than 4") !=
        std::string::npos);
}

TEST_CASE("an alignment that is no power of two is an error") {
  for (uint32_t alignment : {0u, 3u, 48u, 1u << 30}) {
    std::string message = parse_error(GgufBuilder().u32("general.alignment", alignment).bytes());
    CHECK(message.find("metadata key 'general.alignment' is " + std::to_string(alignment)) !=
          std::string::npos);
  }
}

TEST_CASE("a tensor type that is not supported is named with what is supported") {
  CHECK(parse_error(tensor_file({256}, 10)) ==
        "m.gguf: tensor 't.weight': type is Q2_K (10), which is not supported; supported are F32, "
        "F16, BF16, Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, Q4_K, Q5_K, Q6_K");
  CHECK(parse_error(tensor_file({256}, 77)).find("type is unknown (77)") != std::string::npos);
}

TEST_CASE("rows that do not fill whole blocks are an error") {
  CHECK(parse_error(tensor_file({48, 2}, 2)).find("dims[0] is 48, expected a multiple of 32") !=
        std::string::npos);
}

TEST_CASE("offsets outside the data, unaligned or overlapping are errors") {
  CHECK(parse_error(tensor_file({16}, 0)) == "");
  CHECK(parse_error(tensor_file({17}, 0)).find("lies outside the 64 bytes") != std::string::npos);
  CHECK(parse_error(tensor_file({8}, 0, 64)).find("offset 64, 32 bytes: lies outside") !=
        std::string::npos);
  CHECK(parse_error(tensor_file({8}, 0, UINT64_MAX - 31)).find("lies outside") !=
        std::string::npos);
  CHECK(parse_error(tensor_file({8}, 0, 8)).find("not a multiple of the alignment 32") !=
        std::string::npos);
  Bytes file = one_tensor(2);
  for (const char* name : {"a", "b"}) {
    file.string(name).number<uint32_t>(1).number<uint64_t>(16).number<uint32_t>(0);
    file.number<uint64_t>(name[0] == 'a' ? 0 : 32);
  }
  CHECK(parse_error(file.zeros(128).text()) ==
        "m.gguf: tensor 'b': offset 32 lies within tensor 'a'");
}

TEST_CASE("versions other than 2 and 3 and big-endian files are errors of their own") {
  auto version = [](uint32_t number) {
    return parse_error(Bytes().raw("GGUF").number(number).zeros(16).text());
  };
  CHECK(version(2) == "");
  CHECK(version(1) == "m.gguf: version is 1, expected 2 or 3");
  CHECK(version(4).find("version is 4") != std::string::npos);
  CHECK(version(0x03000000).find("big-endian") != std::string::npos);
}

TEST_CASE("a name or key that is there twice is an error") {
  CHECK(parse_error(GgufBuilder().u32("k", 1).u32("k", 2).bytes()) ==
        "m.gguf: metadata key 'k' is there twice");
  GgufBuilder twice = tiny_llama_gguf().floats("output_norm.weight", {1}, {1});
  CHECK(error_of([&] { twice.open(); }).find("is there twice") != std::string::npos);
}

TEST_CASE("messages show hostile names as short printable text") {
  std::string name = "\x1b[2J\n" + std::string(900, 'x');
  std::string message = parse_error(GgufBuilder().tensor(name, {0}, 0, "").bytes());
  CHECK(message.size() < 200);
  CHECK(message.find('\n') == std::string::npos);
  CHECK(message.find('\x1b') == std::string::npos);
}

TEST_CASE("a file cut anywhere is an error or a shorter model, never a crash") {
  std::string whole = tiny_llama_gguf().bytes();
  size_t refused = 0;
  for (size_t size = 0; size < whole.size(); size++) {
    if (!parse_error(whole.substr(0, size)).empty()) refused++;
  }
  // Only the padding behind the last tensor may be missing.
  CHECK(refused >= whole.size() - 32);
}

TEST_CASE("extreme values anywhere are an error or read, never a crash") {
  std::string whole = tiny_llama_gguf().texts("tokenizer.ggml.tokens", {"a", "b"}).bytes();
  for (size_t at = 0; at + 8 < whole.size(); at++) {
    for (uint64_t value : {uint64_t{0}, uint64_t{1} << 42, uint64_t{1} << 63, UINT64_MAX}) {
      for (size_t width : {1, 4, 8}) {
        std::string changed = whole;
        changed.replace(at, width, reinterpret_cast<const char*>(&value), width);
        error_of([&] { parse_gguf(file_of(changed)); });
      }
    }
  }
}
