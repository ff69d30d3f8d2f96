#include "models/load/checkpoint.h"

#include "models/load/gguf_checkpoint.h"
#include "models/load/locate.h"
#include "models/load/mapped_file.h"
#include "models/load/safetensors_checkpoint.h"

namespace tandem {

std::unique_ptr<Checkpoint> open_checkpoint(const std::string& model) {
  ModelPlace place = locate_model(model);
  if (!place.is_directory) return make_gguf_checkpoint(map_file(place.path), place.name);
  return make_safetensors_checkpoint(read_safetensors_directory(place.path, place.name));
}

}  // namespace tandem
