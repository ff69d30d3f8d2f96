// Qwen3-Next and Qwen3.5 (dense and with experts), their text part.
#pragma once

#include <memory>

#include "models/load/checkpoint.h"
#include "models/model.h"

namespace tandem {

std::unique_ptr<Model> make_qwen3_next(Checkpoint& checkpoint, Backend& backend);

}  // namespace tandem
