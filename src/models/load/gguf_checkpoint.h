// A Checkpoint over one GGUF file.
#pragma once

#include <memory>
#include <string>

#include "models/load/checkpoint.h"
#include "models/load/mapped_file.h"

namespace tandem {

// Throws Error(kLoad) or Error(kUnsupported) for a file that is no complete
// language model: another format, a part of a split file, an adapter.
std::unique_ptr<Checkpoint> make_gguf_checkpoint(FileBytes file, const std::string& name);

}  // namespace tandem
