#include <algorithm>
#include <charconv>
#include <filesystem>
#include <set>

#include "base/error.h"
#include "models/load/report.h"
#include "models/load/safetensors.h"
#include "models/load/safetensors_checkpoint.h"

namespace tandem {
namespace {

namespace fs = std::filesystem;

constexpr size_t kConfigBytesMax = size_t{16} << 20;
constexpr size_t kIndexBytesMax = size_t{64} << 20;
constexpr size_t kTokenizerBytesMax = size_t{512} << 20;
constexpr const char* kIndexName = "model.safetensors.index.json";

bool path_exists(const fs::path& path) {
  std::error_code ignored;
  return fs::exists(path, ignored);
}

std::string optional_text(const fs::path& path, size_t bytes_max) {
  return path_exists(path) ? read_text_file(path.string(), bytes_max) : std::string();
}

// File names of the weights when there is no index: model*.safetensors, or
// weights*.safetensors as early MLX models have them.
std::vector<std::string> weight_files(const fs::path& directory) {
  std::vector<std::string> names;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(directory, error)) {
    std::string name = entry.path().filename().string();
    if (!name.ends_with(".safetensors")) continue;
    if (name.starts_with("model") || name.starts_with("weights")) names.push_back(name);
  }
  std::sort(names.begin(), names.end());
  auto single = std::find(names.begin(), names.end(), "model.safetensors");
  if (single != names.end()) return {*single};
  return names;
}

// "model-00001-of-00004.safetensors" promises four files.
void check_complete(const std::string& path, const std::vector<std::string>& names) {
  size_t of = names[0].rfind("-of-");
  if (of == std::string::npos) return;
  size_t promised = 0;
  const char* digits = names[0].data() + of + 4;
  std::from_chars(digits, names[0].data() + names[0].size(), promised);
  if (promised == names.size()) return;
  fail_load(path, quote_name(names[0]) + " is one of " + std::to_string(promised) + " files, but " +
                      std::to_string(names.size()) + " are there; is the download incomplete?");
}

std::vector<std::string> indexed_files(const SafetensorsFiles& files) {
  std::set<std::string> names;
  for (const auto& [tensor, file] : files.weight_map) names.insert(file);
  for (const std::string& name : names) {
    if (path_exists(fs::path(files.path) / name)) continue;
    fail_load(files.path, std::string(kIndexName) + " names " + quote_name(name) +
                              ", which is missing; is the download incomplete?");
  }
  return {names.begin(), names.end()};
}

}  // namespace

bool has_safetensors(const std::string& path) {
  return path_exists(fs::path(path) / kIndexName) || !weight_files(path).empty();
}

SafetensorsFiles read_safetensors_directory(const std::string& path, const std::string& name) {
  fs::path directory(path);
  SafetensorsFiles files;
  files.path = path;
  files.name = name;
  if (!path_exists(directory / "config.json")) {
    fail_load(path, "has safetensors but no config.json, which is needed to know the architecture");
  }
  files.config = read_text_file((directory / "config.json").string(), kConfigBytesMax);
  files.generation_config = optional_text(directory / "generation_config.json", kConfigBytesMax);
  files.tokenizer = optional_text(directory / "tokenizer.json", kTokenizerBytesMax);
  files.tokenizer_config = optional_text(directory / "tokenizer_config.json", kConfigBytesMax);
  files.chat_template = optional_text(directory / "chat_template.jinja", kConfigBytesMax);
  std::vector<std::string> names;
  if (path_exists(directory / kIndexName)) {
    std::string index = (directory / kIndexName).string();
    files.weight_map = parse_safetensors_index(index, read_text_file(index, kIndexBytesMax));
    names = indexed_files(files);
  } else {
    names = weight_files(directory);
    check_complete(path, names);
  }
  for (const std::string& file : names)
    files.shards.push_back(map_file((directory / file).string()));
  return files;
}

}  // namespace tandem
