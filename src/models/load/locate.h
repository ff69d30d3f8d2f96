// Where a model named on a command line lies.
#pragma once

#include <string>

namespace tandem {

// A directory of safetensors or a GGUF file, found but not opened.
struct ModelPlace {
  std::string path;
  std::string name;  // for people: file stem, folder name or hub id
  bool is_directory = false;
};

// Resolves what open_checkpoint takes. Environment: HF_HUB_CACHE, HF_HOME,
// XDG_CACHE_HOME, HOME. Never goes to the network. Throws Error(kNotFound)
// saying where it looked and what to do next, Error(kLoad) for a file or
// directory that holds no model.
ModelPlace locate_model(const std::string& model);

}  // namespace tandem
