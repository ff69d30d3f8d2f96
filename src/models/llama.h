// The Llama family: Llama 2 and 3, SmolLM2, TinyLlama, Mistral and Mixtral, Qwen2
// and 3, with experts or without.
#pragma once

#include <memory>

#include "models/load/checkpoint.h"
#include "models/model.h"

namespace tandem {

std::unique_ptr<Model> make_llama(Checkpoint& checkpoint, Backend& backend);

}  // namespace tandem
