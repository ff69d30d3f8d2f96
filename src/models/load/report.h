// How the loader words its errors: one printable line that names the file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>

namespace tandem {

// Throws Error(kLoad) "<path>: <what>".
[[noreturn]] void fail_load(const std::string& path, const std::string& what);

// A name from a file as it may be shown: in quotes, cut to 80 bytes, with
// anything but printable ASCII as "?".
std::string quote_name(std::string_view name);

std::string shape_text(std::span<const int64_t> shape);  // "[576, 1536]"
std::string shape_text(std::initializer_list<int64_t> shape);

// What a file is by its first bytes, for "this is not a model" messages:
// "a ZIP archive", "a Git LFS pointer (…)", "text".
std::string describe_content(std::span<const std::byte> bytes);

}  // namespace tandem
