// The Llama family: Llama 2 and 3, SmolLM2, TinyLlama, Mistral, Qwen2 and 3.
#pragma once

#include <memory>

#include "models/load/checkpoint.h"
#include "models/model.h"

namespace tandem {

std::unique_ptr<Model> make_llama(Checkpoint& checkpoint, Backend& backend);

}  // namespace tandem
