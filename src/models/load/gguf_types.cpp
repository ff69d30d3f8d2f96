#include "models/load/gguf_types.h"

namespace tandem {
namespace {

struct TensorType {
  uint32_t number;
  const char* name;
  std::optional<WeightFormat> format;
};

constexpr TensorType kTypes[] = {
    {0, "F32", WeightFormat::kF32},
    {1, "F16", WeightFormat::kF16},
    {2, "Q4_0", WeightFormat::kQ4_0},
    {3, "Q4_1", WeightFormat::kQ4_1},
    {6, "Q5_0", WeightFormat::kQ5_0},
    {7, "Q5_1", WeightFormat::kQ5_1},
    {8, "Q8_0", WeightFormat::kQ8_0},
    {9, "Q8_1", {}},
    {10, "Q2_K", {}},
    {11, "Q3_K", {}},
    {12, "Q4_K", WeightFormat::kQ4_K},
    {13, "Q5_K", WeightFormat::kQ5_K},
    {14, "Q6_K", WeightFormat::kQ6_K},
    {15, "Q8_K", {}},
    {16, "IQ2_XXS", {}},
    {17, "IQ2_XS", {}},
    {18, "IQ3_XXS", {}},
    {19, "IQ1_S", {}},
    {20, "IQ4_NL", {}},
    {21, "IQ3_S", {}},
    {22, "IQ2_S", {}},
    {23, "IQ4_XS", {}},
    {24, "I8", {}},
    {25, "I16", {}},
    {26, "I32", {}},
    {27, "I64", {}},
    {28, "F64", {}},
    {29, "IQ1_M", {}},
    {30, "BF16", WeightFormat::kBF16},
    {34, "TQ1_0", {}},
    {35, "TQ2_0", {}},
    {39, "MXFP4", {}},
};

const TensorType* find(uint32_t number) {
  for (const TensorType& type : kTypes) {
    if (type.number == number) return &type;
  }
  return nullptr;
}

}  // namespace

const char* gguf_tensor_type_name(uint32_t number) {
  const TensorType* type = find(number);
  return type ? type->name : nullptr;
}

std::optional<WeightFormat> gguf_weight_format(uint32_t number) {
  const TensorType* type = find(number);
  return type ? type->format : std::nullopt;
}

}  // namespace tandem
