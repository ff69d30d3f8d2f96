// A loaded weight in tiles (tile.h), and the vectors beside it.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "backend/cpu/kernels/matmul.h"
#include "backend/cpu/memory.h"
#include "backend/cpu/tile.h"
#include "backend/tensor.h"
#include "base/thread_pool.h"

namespace tandem::cpu {

// Rows of one stored matrix.
struct Segment {
  TileFormat format;
  int64_t first_row = 0;  // in the weight
  int64_t rows = 0;
  const uint8_t* tiles = nullptr;
  int64_t stride = 0;  // bytes from tile to tile

  const uint8_t* tile(int64_t index) const { return tiles + index * stride; }
};

struct CpuWeight final : WeightStorage {
  ~CpuWeight() override {
    if (total_bytes) *total_bytes -= bytes();
  }
  int64_t bytes() const {
    return tile_bytes + static_cast<int64_t>((bias.size() + vector.size()) * sizeof(float));
  }

  std::vector<Segment> segments;
  std::vector<MatmulUnit> units;
  std::shared_ptr<Block> block;
  int64_t tile_bytes = 0;
  std::vector<float> bias;    // [rows] or empty
  std::vector<float> vector;  // of load_vector; then nothing else
  bool gated = false;         // units pair gate and up
  bool has_dense = false;
  bool has_quantised = false;
  std::shared_ptr<std::atomic<int64_t>> total_bytes;  // of the backend
};

// Packs the parts, tile by tile on the pool. `gated`: two parts of the same
// shape whose tiles alternate. Throws Error(kLoad) if shapes or sizes disagree.
std::shared_ptr<CpuWeight> pack_weight(std::span<const StoredMatrix> parts,
                                       std::span<const float> bias, bool gated,
                                       SharedBlocks& memory, ThreadPool& pool);

}  // namespace tandem::cpu
