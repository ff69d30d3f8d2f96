#include "engine/memory.h"

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <limits>
#include <optional>
#include <sstream>

namespace tandem {

namespace {

constexpr int64_t kUnlimited = std::numeric_limits<int64_t>::max();

std::optional<int64_t> first_number(const std::string& path) {
  std::ifstream file(path);
  int64_t value = 0;
  if (file >> value) return value;
  return std::nullopt;  // no such file, or "max"
}

// Value of a "name value" line.
std::optional<int64_t> line_number(const std::string& path, const std::string& name) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    std::string word;
    int64_t value = 0;
    if (words >> word >> value && word == name) return value;
  }
  return std::nullopt;
}

// What one control group leaves, by version 2's files or version 1's.
int64_t left_in_group(const std::string& folder) {
  auto limit = first_number(folder + "/memory.max");
  auto used = first_number(folder + "/memory.current");
  if (!limit) limit = first_number(folder + "/memory.limit_in_bytes");
  if (!used) used = first_number(folder + "/memory.usage_in_bytes");
  if (!limit || !used) return kUnlimited;
  auto cache = line_number(folder + "/memory.stat", "inactive_file");
  if (!cache) cache = line_number(folder + "/memory.stat", "total_inactive_file");
  return std::max<int64_t>(0, *limit - *used + cache.value_or(0));
}

// The least over a group and all above it: a path such as "/a/b" below `mount`.
int64_t left_in_groups(const std::string& mount, std::string path) {
  int64_t left = kUnlimited;
  while (true) {
    left = std::min(left, left_in_group(mount + path));
    const size_t slash = path.rfind('/');
    if (slash == std::string::npos) return left;
    path.resize(slash);
  }
}

// The group's path if the line of /proc/self/cgroup is about memory.
std::optional<std::string> memory_group(const std::string& line, bool* version_2) {
  const size_t first = line.find(':');
  const size_t second = line.find(':', first + 1);
  if (first == std::string::npos || second == std::string::npos) return std::nullopt;
  const std::string controllers = line.substr(first + 1, second - first - 1);
  *version_2 = controllers.empty();
  if (!*version_2 && ("," + controllers + ",").find(",memory,") == std::string::npos) {
    return std::nullopt;
  }
  std::string path = line.substr(second + 1);
  return path == "/" ? "" : path;
}

}  // namespace

int64_t available_memory_bytes(const std::string& root) {
  int64_t left = kUnlimited;
  if (const auto kib = line_number(root + "/proc/meminfo", "MemAvailable:")) left = *kib * 1024;
  std::ifstream groups(root + "/proc/self/cgroup");
  for (std::string line; std::getline(groups, line);) {
    bool version_2 = false;
    const auto path = memory_group(line, &version_2);
    if (!path) continue;
    const std::string mount = root + (version_2 ? "/sys/fs/cgroup" : "/sys/fs/cgroup/memory");
    left = std::min(left, left_in_groups(mount, *path));
  }
  return left;
}

std::string bytes_text(int64_t bytes) {
  char text[32];
  if (bytes < 1'000'000) {
    std::snprintf(text, sizeof(text), "%.1f kB", static_cast<double>(bytes) / 1e3);
  } else if (bytes < 1'000'000'000) {
    std::snprintf(text, sizeof(text), "%.1f MB", static_cast<double>(bytes) / 1e6);
  } else {
    std::snprintf(text, sizeof(text), "%.2f GB", static_cast<double>(bytes) / 1e9);
  }
  return text;
}

}  // namespace tandem
