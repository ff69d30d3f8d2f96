#include "models/load/gguf_reader.h"

#include "models/load/report.h"

namespace tandem {
namespace {

constexpr int kArrayDepthMax = 4;

struct TypeFacts {
  const char* name;
  uint64_t bytes;
};

// Indexed by GgufType.
constexpr TypeFacts kTypes[] = {
    {"u8", 1},   {"i8", 1},     {"u16", 2},   {"i16", 2}, {"u32", 4}, {"i32", 4}, {"f32", 4},
    {"bool", 1}, {"string", 0}, {"array", 0}, {"u64", 8}, {"i64", 8}, {"f64", 8},
};

}  // namespace

uint64_t gguf_scalar_bytes(GgufType type) { return kTypes[static_cast<uint32_t>(type)].bytes; }
const char* gguf_type_name(GgufType type) { return kTypes[static_cast<uint32_t>(type)].name; }

void GgufReader::fail(const std::string& what) const { fail_load(file_.path, what); }

std::string_view GgufReader::take(uint64_t bytes, const std::string& field) {
  if (bytes > left()) {
    fail(field + " needs " + std::to_string(bytes) + " bytes at offset " +
         std::to_string(position_) + ", but only " + std::to_string(left()) +
         " are left; is the file truncated?");
  }
  std::string_view view(reinterpret_cast<const char*>(file_.bytes.data()) + position_, bytes);
  position_ += bytes;
  return view;
}

std::string_view GgufReader::string(const std::string& field) {
  // Arrays hold hundreds of thousands of strings: no text is made for each.
  return take(number<uint64_t>(field), field);
}

uint64_t GgufReader::count(const std::string& field, uint64_t bytes_each) {
  uint64_t count = number<uint64_t>(field);
  // Counts come before other things, so the bytes left are an upper bound.
  if (count > left() / bytes_each) {
    fail(field + " is " + std::to_string(count) + ", more than the " + std::to_string(left()) +
         " bytes left can hold; is the file truncated?");
  }
  return count;
}

GgufType GgufReader::type(const std::string& field) {
  uint32_t type = number<uint32_t>(field);
  if (type >= std::size(kTypes)) {
    fail(field + " is " + std::to_string(type) + ", expected a type from 0 to 12");
  }
  return static_cast<GgufType>(type);
}

GgufValue GgufReader::value(const std::string& field) {
  GgufType kind = type(field + ": type");
  if (kind == GgufType::kArray) return array(field, 1);
  GgufValue result;
  result.type = kind;
  auto view = kind == GgufType::kString ? string(field) : take(gguf_scalar_bytes(kind), field);
  result.bytes = std::as_bytes(std::span(view.data(), view.size()));
  return result;
}

GgufValue GgufReader::array(const std::string& field, int depth) {
  if (depth > kArrayDepthMax) {
    fail(field + ": arrays are nested deeper than " + std::to_string(kArrayDepthMax) + " levels");
  }
  GgufValue result;
  result.type = GgufType::kArray;
  result.element_type = type(field + ": element type");
  uint64_t scalar = gguf_scalar_bytes(result.element_type);
  uint64_t least = result.element_type == GgufType::kArray ? 12 : 8;  // type and count, or length
  result.count = count(field + ": element count", scalar ? scalar : least);
  uint64_t begin = position_;
  skip_elements(result.element_type, result.count, field, depth);
  result.bytes = file_.bytes.subspan(begin, position_ - begin);
  return result;
}

void GgufReader::skip_elements(GgufType type, uint64_t count, const std::string& field, int depth) {
  if (uint64_t bytes = gguf_scalar_bytes(type)) {
    take(count * bytes, field);
    return;
  }
  for (uint64_t i = 0; i < count; i++) {
    if (type == GgufType::kString) {
      string(field);
    } else {
      array(field, depth + 1);
    }
  }
}

}  // namespace tandem
