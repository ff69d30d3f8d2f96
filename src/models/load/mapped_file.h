// A file's bytes, mapped read-only: nothing is read before it is touched.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>

namespace tandem {

// Bytes stay valid for as long as a copy of `owner` lives. The file must not be
// shortened meanwhile: the system answers reads behind its end with SIGBUS.
struct FileBytes {
  std::string path;
  std::span<const std::byte> bytes;
  std::shared_ptr<const void> owner;
};

// Throws Error(kNotFound) if there is no such file and Error(kLoad) if it is a
// directory, empty or cannot be read.
FileBytes map_file(const std::string& path);

// A small text file at once. Throws as map_file, and over bytes_max. An
// empty file gives "".
std::string read_text_file(const std::string& path, size_t bytes_max);

}  // namespace tandem
