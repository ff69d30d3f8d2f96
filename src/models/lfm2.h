// LFM2: short convolutions and attention.
#pragma once

#include <memory>

#include "models/load/checkpoint.h"
#include "models/model.h"

namespace tandem {

std::unique_ptr<Model> make_lfm2(Checkpoint& checkpoint, Backend& backend);

}  // namespace tandem
