#include "models/load/report.h"

#include <algorithm>

#include "base/error.h"

namespace tandem {
namespace {

struct Signature {
  std::string_view start;
  const char* what;
};

constexpr Signature kSignatures[] = {
    {"GGUF", "a GGUF file"},
    {"FUGG", "a big-endian GGUF file"},
    {"tjgg", "a GGML file (the format before GGUF)"},
    {"lmgg", "a GGML file (the format before GGUF)"},
    {"fmgg", "a GGML file (the format before GGUF)"},
    {"PK\x03\x04", "a ZIP archive (perhaps a PyTorch checkpoint)"},
    {"\x80\x02", "a Python pickle (perhaps a PyTorch checkpoint)"},
    {"\x1f\x8b", "a gzip archive"},
    {"\x28\xb5\x2f\xfd", "a zstd archive"},
    {"\x93NUMPY", "a NumPy array"},
    {"\x89HDF", "an HDF5 file"},
    {"SQLite format 3", "an SQLite database"},
    {"version https://git-lfs", "a Git LFS pointer, not the file itself (`git lfs pull` gets it)"},
    {"<!DOCTYPE", "an HTML page (a failed download?)"},
    {"<!doctype", "an HTML page (a failed download?)"},
    {"<html", "an HTML page (a failed download?)"},
    {"\x7f"
     "ELF",
     "a program"},
};

// Eight bytes of header length, then the JSON header.
bool looks_like_safetensors(std::string_view text) {
  return text.size() > 9 && text[8] == '{' && text.substr(5, 3) == std::string_view("\0\0\0", 3);
}

bool printable(char c) { return (c >= 0x20 && c < 0x7f) || c == '\n' || c == '\r' || c == '\t'; }

}  // namespace

void fail_load(const std::string& path, const std::string& what) {
  throw Error(ErrorCode::kLoad, path + ": " + what);
}

std::string quote_name(std::string_view name) {
  constexpr size_t kShown = 80;
  std::string text = "'";
  for (char c : name.substr(0, kShown)) text += c >= 0x20 && c < 0x7f ? c : '?';
  return text + (name.size() > kShown ? "...'" : "'");
}

std::string shape_text(std::span<const int64_t> shape) {
  std::string text = "[";
  for (size_t i = 0; i < shape.size(); i++) text += (i ? ", " : "") + std::to_string(shape[i]);
  return text + "]";
}

std::string shape_text(std::initializer_list<int64_t> shape) {
  return shape_text(std::span(shape.begin(), shape.size()));
}

std::string describe_content(std::span<const std::byte> bytes) {
  std::string_view text(reinterpret_cast<const char*>(bytes.data()),
                        std::min<size_t>(bytes.size(), 512));
  for (const Signature& signature : kSignatures) {
    if (text.starts_with(signature.start)) return signature.what;
  }
  if (looks_like_safetensors(text)) return "a safetensors file";
  if (text.empty()) return "empty";
  if (text[0] == '{' || text[0] == '[') return "JSON text";
  if (std::all_of(text.begin(), text.end(), printable)) return "text";
  return "data of an unknown kind";
}

}  // namespace tandem
