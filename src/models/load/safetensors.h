// The safetensors format: a JSON header of names, types, shapes and offsets,
// then the bytes.
// Source: https://huggingface.co/docs/safetensors, "Format".
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "models/load/mapped_file.h"
#include "models/load/tensor_table.h"

namespace tandem {

// The tensors of one file; their data points into file.bytes. Everything in the
// header is checked against the file's size before it is used. Throws
// Error(kLoad) naming file, tensor and field.
std::vector<FileTensor> parse_safetensors(const FileBytes& file);

// weight_map of a model.safetensors.index.json: tensor name to file name.
// File names are plain (no folders). Throws Error(kLoad).
std::map<std::string, std::string> parse_safetensors_index(const std::string& path,
                                                           std::string_view text);

}  // namespace tandem
