#include "models/load/locate.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <vector>

#include "base/error.h"
#include "models/load/mapped_file.h"
#include "models/load/report.h"
#include "models/load/safetensors_checkpoint.h"

namespace tandem {
namespace {

namespace fs = std::filesystem;

constexpr const char* kDefaultFile = "SmolLM2-135M-Instruct.Q4_1.gguf";

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

fs::path user_cache() {
  if (auto cache = environment("XDG_CACHE_HOME"); !cache.empty()) return cache;
  return fs::path(environment("HOME")) / ".cache";
}

fs::path hub_cache() {
  if (auto cache = environment("HF_HUB_CACHE"); !cache.empty()) return cache;
  if (auto home = environment("HF_HOME"); !home.empty()) return fs::path(home) / "hub";
  return user_cache() / "huggingface" / "hub";
}

bool path_exists(const fs::path& path) {
  std::error_code ignored;
  return fs::exists(path, ignored);
}

bool folder_exists(const fs::path& path) {
  std::error_code ignored;
  return fs::is_directory(path, ignored);
}

// "a, b and 3 more", at most eight by name.
std::string listed(std::vector<std::string> names) {
  std::sort(names.begin(), names.end());
  size_t shown = std::min<size_t>(names.size(), 8);
  std::string text;
  for (size_t i = 0; i < shown; i++) text += (i ? ", " : "") + quote_name(names[i]);
  if (names.size() > shown) text += " and " + std::to_string(names.size() - shown) + " more";
  return text;
}

std::vector<std::string> names_in(const fs::path& directory, std::string_view extension = {}) {
  std::vector<std::string> names;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(directory, error)) {
    std::string name = entry.path().filename().string();
    if (name.ends_with(extension)) names.push_back(name);
  }
  return names;
}

void check_readable(const fs::path& directory) {
  std::error_code error;
  fs::directory_iterator entries(directory, error);
  if (error) fail_load(directory.string(), "cannot be listed: " + error.message());
}

ModelPlace in_directory(const fs::path& directory, const std::string& name) {
  check_readable(directory);
  if (has_safetensors(directory.string())) return {directory.string(), name, true};
  std::vector<std::string> gguf = names_in(directory, ".gguf");
  if (gguf.size() == 1) return {(directory / gguf[0]).string(), name, false};
  if (gguf.size() > 1) {
    fail_load(directory.string(), "holds " + std::to_string(gguf.size()) +
                                      " GGUF files, give the path of one: " + listed(gguf));
  }
  auto names = names_in(directory);
  fail_load(directory.string(),
            "is no model directory: expected config.json with model*.safetensors, or one .gguf "
            "file; " +
                (names.empty() ? std::string("it is empty") : "found " + listed(names)));
}

ModelPlace at_file(const fs::path& path) {
  FileBytes file = map_file(path.string());
  std::string content = describe_content(file.bytes);
  if (content == "a GGUF file") return {path.string(), path.stem().string(), false};
  std::string hint = content == "a safetensors file"
                         ? "; give its directory, with config.json beside it"
                         : "; expected a .gguf file or a directory of safetensors";
  fail_load(path.string(), "is not a model but " + content + hint);
}

struct HubId {
  std::string organisation, name, revision;
};

bool id_part(std::string_view text) {
  constexpr size_t kPartBytesMax = 128;
  if (text.empty() || text.size() > kPartBytesMax) return false;
  if (text[0] == '.' || text[0] == '-') return false;
  return std::all_of(text.begin(), text.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
           c == '-' || c == '_';
  });
}

// "refs/pr/3" is a revision, "../x" is not.
bool revision_part(const std::string& text) {
  if (text.empty() || text.size() > 200) return false;
  size_t begin = 0;
  while (begin <= text.size()) {
    size_t end = std::min(text.find('/', begin), text.size());
    if (!id_part(std::string_view(text).substr(begin, end - begin))) return false;
    begin = end + 1;
  }
  return true;
}

// org/name or org/name@revision; empty name otherwise.
HubId parse_hub_id(const std::string& model) {
  HubId id;
  std::string rest = model;
  if (size_t at = rest.find('@'); at != std::string::npos) {
    id.revision = rest.substr(at + 1);
    rest.resize(at);
    if (!revision_part(id.revision)) return {};
  }
  size_t slash = rest.find('/');
  if (slash == std::string::npos) return {};
  id.organisation = rest.substr(0, slash);
  id.name = rest.substr(slash + 1);
  if (!id_part(id.organisation) || !id_part(id.name)) return {};
  return id;
}

std::string trimmed(std::string text) {
  while (!text.empty() && (text.back() == '\n' || text.back() == '\r' || text.back() == ' ')) {
    text.pop_back();
  }
  return text;
}

// The snapshot's folder: a revision is a commit, or a branch whose commit the
// file refs/<revision> holds.
fs::path snapshot_of(const fs::path& repository, const HubId& id, const std::string& model) {
  std::string revision = id.revision.empty() ? "main" : id.revision;
  fs::path direct = repository / "snapshots" / revision;
  if (!id.revision.empty() && folder_exists(direct)) return direct;
  fs::path ref = repository / "refs" / revision;
  std::vector<std::string> others = names_in(repository / "snapshots");
  std::string have = others.empty() ? "" : "; it has " + listed(others);
  if (!path_exists(ref)) {
    throw Error(ErrorCode::kNotFound, repository.string() + ": has no revision " +
                                          quote_name(revision) + have + " (" + model +
                                          "@<revision> picks one)");
  }
  std::string commit = trimmed(read_text_file(ref.string(), 4096));
  if (!id_part(commit))
    fail_load(ref.string(), "holds " + quote_name(commit) + ", expected a commit");
  fs::path snapshot = repository / "snapshots" / commit;
  if (!folder_exists(snapshot)) {
    throw Error(ErrorCode::kNotFound,
                snapshot.string() + ": is missing, though refs/" + revision + " names it" + have);
  }
  return snapshot;
}

ModelPlace in_hub_cache(const std::string& model, const HubId& id) {
  std::string name = id.organisation + "/" + id.name;
  fs::path repository = hub_cache() / ("models--" + id.organisation + "--" + id.name);
  if (!folder_exists(repository)) {
    throw Error(ErrorCode::kNotFound, "model " + quote_name(model) +
                                          " was not found: there is no such path, and the hub "
                                          "cache has no " +
                                          repository.string() + "; `hf download " + name +
                                          "` gets it, or give a path");
  }
  return in_directory(snapshot_of(repository, id, name), name);
}

ModelPlace default_model() {
  fs::path path = user_cache() / "tandem" / "models" / kDefaultFile;
  if (!path_exists(path)) {
    throw Error(ErrorCode::kNotFound, "the default model is not there: " + path.string() +
                                          "; run `make model`, or give a MODEL (a path, or a hub "
                                          "id such as org/name)");
  }
  return at_file(path);
}

std::string directory_name(const fs::path& path) {
  std::error_code error;
  fs::path full = fs::canonical(path, error);
  return (error ? path : full).filename().string();
}

}  // namespace

ModelPlace locate_model(const std::string& model) {
  if (model.empty()) throw Error(ErrorCode::kInvalid, "the model is empty, expected a path or id");
  if (model == "default") return default_model();
  if (folder_exists(model)) return in_directory(model, directory_name(model));
  if (path_exists(model)) return at_file(model);
  HubId id = parse_hub_id(model);
  if (!id.name.empty()) return in_hub_cache(model, id);
  throw Error(
      ErrorCode::kNotFound,
      "model " + quote_name(model) +
          " was not found: there is no such path, and it "
          "is no hub id; expected a .gguf file, a directory of safetensors, org/name or 'default'");
}

}  // namespace tandem
