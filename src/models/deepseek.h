// DeepSeek V2 and V3.
#pragma once

#include <memory>

#include "models/load/checkpoint.h"
#include "models/model.h"

namespace tandem {

std::unique_ptr<Model> make_deepseek(Checkpoint& checkpoint, Backend& backend);

}  // namespace tandem
