// What a GGUF file's metadata say in the words of config.json.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "models/load/checkpoint.h"
#include "models/load/gguf.h"

namespace tandem {

// The keys of config.json that families read. An architecture that this mapping
// does not know gives {"model_type": <its name>} alone. Throws Error(kLoad)
// naming a metadata key that is missing or of another type, and
// Error(kUnsupported) for what families cannot express.
//   tokenizer: gives the ids of special tokens
nlohmann::json gguf_config(const GgufFile& file, const GgufTokenizer& tokenizer);

// general.architecture, a word of printable ASCII. Throws Error(kLoad).
std::string gguf_architecture(const GgufMetadata& metadata);

// tokenizer.ggml.* and tokenizer.chat_template. Throws Error(kLoad) for a value
// of the wrong type.
GgufTokenizer gguf_tokenizer_metadata(const GgufMetadata& metadata);

}  // namespace tandem
