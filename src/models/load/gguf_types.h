// The numbers that GGUF gives to tensor types.
#pragma once

#include <cstdint>
#include <optional>

#include "backend/stored.h"

namespace tandem {

// Names as the format's document has them; null for a number it does not know.
const char* gguf_tensor_type_name(uint32_t number);

// Empty for types that are not supported.
std::optional<WeightFormat> gguf_weight_format(uint32_t number);

inline constexpr const char* kGgufSupportedTypes =
    "F32, F16, BF16, Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, Q4_K, Q5_K, Q6_K";

}  // namespace tandem
