// The families that can be loaded, by model_type of config.json.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "models/load/checkpoint.h"
#include "models/model.h"

namespace tandem {

// Loads the checkpoint's weights onto the backend. Throws Error(kUnsupported)
// for an architecture we do not have (listing those we do, the nearest first)
// and Error(kLoad) for a checkpoint that does not fit its configuration.
std::unique_ptr<Model> make_model(Checkpoint& checkpoint, Backend& backend);

std::vector<std::string> supported_architectures();

}  // namespace tandem
