// How much memory this process may still take.
#pragma once

#include <cstdint>
#include <string>

namespace tandem {

// Bytes: the least of what the system has available and of what every control
// group above this process leaves (page cache that can be dropped counts as
// left). INT64_MAX where nothing says. `root` is where /proc and /sys lie.
int64_t available_memory_bytes(const std::string& root = "");

// "1.25 GB", for messages.
std::string bytes_text(int64_t bytes);

}  // namespace tandem
