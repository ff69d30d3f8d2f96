// Keys and values of a page in stock ops: coded when written, decoded when read.
#pragma once

#include <vector>

#include "backend/kv_store.h"
#include "backend/mlx/runtime.h"

namespace tandem::mlx_backend {

// The arrays that hold one plane, empty: dense [0, page, heads, dim]; quantised
// codes uint8 [0, page, heads, bytes], f16 scales and (affine) biases [.., groups].
std::vector<mx::array> empty_parts(const PlaneFormat& format, int heads, int dim);

// x [n, heads, dim] f32 -> the parts of n tokens, each [n, heads, *].
std::vector<mx::array> encode(const mx::array& x, const PlaneFormat& format);

// Parts [..., *] -> [..., dim]: as stored if dense, else f32.
mx::array decode(const std::vector<mx::array>& parts, const PlaneFormat& format, int dim);

}  // namespace tandem::mlx_backend
