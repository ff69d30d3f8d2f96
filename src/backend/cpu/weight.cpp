#include "backend/cpu/weight.h"

#include <algorithm>
#include <string>

#include "base/error.h"

namespace tandem::cpu {
namespace {

int64_t tiles_of(int64_t rows) { return (rows + kTileRows - 1) / kTileRows; }

std::string shape_text(int64_t rows, int64_t cols) {
  std::string text = "[";
  text += std::to_string(rows);
  text += ", ";
  text += std::to_string(cols);
  return text + "]";
}

void check_bytes(const StoredMatrix& part, const char* plane, size_t got, int64_t wanted) {
  if (static_cast<int64_t>(got) >= wanted) return;
  throw Error(ErrorCode::kLoad, "[load] '" + part.name + "' " + shape_text(part.rows, part.cols) +
                                    " has " + std::to_string(got) + " bytes of " + plane +
                                    "; expected " + std::to_string(wanted));
}

void check_part(const StoredMatrix& part, int64_t cols) {
  if (part.rows <= 0 || part.cols <= 0 || part.cols != cols) {
    throw Error(ErrorCode::kLoad, "[load] '" + part.name + "' has shape " +
                                      shape_text(part.rows, part.cols) + "; expected " +
                                      std::to_string(cols) + " columns");
  }
  int64_t stored_rows = part.rows;
  for (const int32_t row : part.row_order) stored_rows = std::max<int64_t>(stored_rows, row + 1);
  INVARIANT(part.row_order.empty() || static_cast<int64_t>(part.row_order.size()) == part.rows);
  if (part.format == WeightFormat::kAffine) {
    const int64_t planes = stored_rows * (cols / part.group_size) * dtype_bytes(part.scale_type);
    check_bytes(part, "codes", part.data.size(), stored_rows * cols * part.bits / 8);
    check_bytes(part, "scales", part.scales.size(), planes);
    check_bytes(part, "biases", part.biases.size(), planes);
    return;
  }
  check_bytes(part, "data", part.data.size(),
              stored_rows * (cols / block_columns(part.format)) * block_bytes(part.format));
}

// Segment after segment, or where gate and up are read together, in turn.
void place_tiles(CpuWeight& weight, const uint8_t* memory) {
  for (Segment& segment : weight.segments) {
    segment.tiles = memory;
    segment.stride = segment.format.tile_bytes;
    memory += tiles_of(segment.rows) * segment.stride;
  }
  if (!weight.gated) return;
  Segment& gate = weight.segments[0];
  Segment& up = weight.segments[1];
  gate.stride = up.stride = gate.format.tile_bytes + up.format.tile_bytes;
  up.tiles = gate.tiles + gate.format.tile_bytes;
}

void set_tile(MatmulUnit& unit, int n, const Segment& segment, int64_t tile) {
  unit.format[n] = &segment.format;
  unit.tile[n] = segment.tile(tile);
  unit.first_row[n] = segment.first_row + tile * kTileRows;
  unit.rows[n] = static_cast<int>(std::min<int64_t>(kTileRows, segment.rows - tile * kTileRows));
}

void make_units(CpuWeight& weight) {
  if (weight.gated) {
    for (int64_t tile = 0; tile < tiles_of(weight.segments[0].rows); tile++) {
      MatmulUnit& unit = weight.units.emplace_back();
      set_tile(unit, 0, weight.segments[0], tile);
      set_tile(unit, 1, weight.segments[1], tile);
    }
    return;
  }
  for (const Segment& segment : weight.segments) {
    const int64_t tiles = tiles_of(segment.rows);
    for (int64_t tile = 0; tile < tiles; tile += 2) {
      MatmulUnit& unit = weight.units.emplace_back();
      set_tile(unit, 0, segment, tile);
      if (tile + 1 < tiles) set_tile(unit, 1, segment, tile + 1);
    }
  }
}

}  // namespace

std::shared_ptr<CpuWeight> pack_weight(std::span<const StoredMatrix> parts,
                                       std::span<const float> bias, bool gated,
                                       SharedBlocks& memory, ThreadPool& pool) {
  INVARIANT(!parts.empty());
  auto weight = std::make_shared<CpuWeight>();
  weight->gated = gated;
  int64_t rows = 0;
  for (const StoredMatrix& part : parts) {
    Segment& segment = weight->segments.emplace_back();
    segment.format = tile_format(part);
    check_part(part, parts[0].cols);
    segment.first_row = rows;
    segment.rows = part.rows;
    rows += part.rows;
    weight->tile_bytes += tiles_of(part.rows) * segment.format.tile_bytes;
    (segment.format.dense ? weight->has_dense : weight->has_quantised) = true;
  }
  if (gated && parts[0].rows != parts[1].rows) {
    throw Error(ErrorCode::kLoad, "[load] '" + parts[0].name + "' has " +
                                      std::to_string(parts[0].rows) + " rows and '" +
                                      parts[1].name + "' " + std::to_string(parts[1].rows) +
                                      "; expected as many");
  }
  if (!bias.empty() && static_cast<int64_t>(bias.size()) != rows) {
    throw Error(ErrorCode::kLoad, "[load] the bias of '" + parts[0].name + "' has " +
                                      std::to_string(bias.size()) + " elements; expected " +
                                      std::to_string(rows));
  }
  weight->bias.assign(bias.begin(), bias.end());
  SharedBlocks::Piece piece = memory.take(weight->tile_bytes);
  weight->block = std::move(piece.block);
  place_tiles(*weight, piece.data);
  for (size_t i = 0; i < parts.size(); i++) {
    const Segment& segment = weight->segments[i];
    pool.parallel_for(tiles_of(segment.rows), [&](int64_t tile, int) {
      pack_tile(parts[i], segment.format, tile, piece.data + (segment.tile(tile) - piece.data));
    });
  }
  make_units(*weight);
  return weight;
}

}  // namespace tandem::cpu
