// A Checkpoint over a directory of safetensors, dense or quantised by MLX.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "models/load/checkpoint.h"
#include "models/load/mapped_file.h"

namespace tandem {

// The files of a model directory, read or mapped. A text is empty when there is
// no such file.
struct SafetensorsFiles {
  std::string path;  // of the directory
  std::string name;  // for people
  std::string config, generation_config, tokenizer, tokenizer_config, chat_template;
  std::vector<FileBytes> shards;
  std::map<std::string, std::string> weight_map;  // of the index; empty = none
};

// Throws Error(kLoad) or Error(kUnsupported) naming file, tensor and field.
std::unique_ptr<Checkpoint> make_safetensors_checkpoint(SafetensorsFiles files);

// Reads and maps the files of a directory. Throws as above, and when a shard
// that the index names is missing.
SafetensorsFiles read_safetensors_directory(const std::string& path, const std::string& name);

// Whether the directory holds safetensors that can be a model.
bool has_safetensors(const std::string& path);

}  // namespace tandem
