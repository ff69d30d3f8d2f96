// The Gemma family, text only: Gemma 2 and Gemma 3.
#pragma once

#include <memory>

#include "models/load/checkpoint.h"
#include "models/model.h"

namespace tandem {

std::unique_ptr<Model> make_gemma(Checkpoint& checkpoint, Backend& backend);

}  // namespace tandem
