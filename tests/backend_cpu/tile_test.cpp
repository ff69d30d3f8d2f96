#include "backend/cpu/tile.h"

#include <doctest/doctest.h>

#include "backend/cpu/memory.h"
#include "backend_cpu/random_weights.h"
#include "base/error.h"

using namespace tandem;
using namespace tandem::test;

namespace {

// Rows of a matrix by way of tiles.
std::vector<float> through_tiles(const StoredMatrix& m) {
  const cpu::TileFormat format = cpu::tile_format(m);
  std::vector<float> out(m.rows * m.cols);
  for (int64_t tile = 0; tile * cpu::kTileRows < m.rows; tile++) {
    cpu::Block block(format.tile_bytes);
    cpu::pack_tile(m, format, tile, block.data());
    for (int64_t row = tile * cpu::kTileRows;
         row < std::min<int64_t>(m.rows, (tile + 1) * cpu::kTileRows); row++) {
      cpu::unpack_row(format, block.data(), static_cast<int>(row % cpu::kTileRows),
                      out.data() + row * m.cols);
    }
  }
  return out;
}

double worst_difference(const StoredMatrix& m, const std::vector<float>& got) {
  std::vector<float> row(m.cols);
  double worst = 0;
  for (int64_t r = 0; r < m.rows; r++) {
    dequantize_row(m, r, row.data());
    for (int64_t k = 0; k < m.cols; k++) {
      worst = std::max(worst, std::fabs(double{got[r * m.cols + k]} - row[k]));
    }
  }
  return worst;
}

}  // namespace

TEST_CASE("packed tiles hold the weights that the stored blocks stand for") {
  Random random(11);
  auto formats = quantised_formats();
  for (const Format& format : dense_formats()) formats.push_back(format);
  for (const Format& format : formats) {
    const OwnedMatrix owned = random_matrix(format, 37, 512, random);
    CAPTURE(format.name());
    CHECK(worst_difference(owned.matrix, through_tiles(owned.matrix)) < 1e-6);
  }
}

TEST_CASE("tiles follow the row order of the matrix") {
  Random random(12);
  for (const Format& format : {Format{WeightFormat::kQ4_1}, Format{WeightFormat::kBF16}}) {
    OwnedMatrix owned = random_matrix(format, 40, 64, random);
    for (int32_t row = 0; row < 40; row++) owned.matrix.row_order.push_back((row * 7 + 3) % 40);
    CHECK(worst_difference(owned.matrix, through_tiles(owned.matrix)) < 1e-6);
  }
}

TEST_CASE("tiles cost hardly more memory than the file") {
  Random random(13);
  for (const Format& format : quantised_formats()) {
    if (format.bits == 2 || format.bits == 3) continue;  // kept in four bits
    const OwnedMatrix owned = random_matrix(format, 16, 4096, random);
    const double stored = owned.data.size() + owned.scales.size() + owned.biases.size();
    const double packed = cpu::tile_format(owned.matrix).tile_bytes;
    CAPTURE(format.name());
    CHECK(packed < 1.04 * stored);
  }
}

TEST_CASE("columns that no group fits are refused by name") {
  StoredMatrix m;
  m.name = "blk.0.ffn_down.weight";
  m.format = WeightFormat::kQ4_0;
  m.rows = 4;
  m.cols = 48;
  CHECK_THROWS_WITH_AS(cpu::tile_format(m), doctest::Contains("blk.0.ffn_down.weight"), Error);
  m.format = WeightFormat::kAffine;
  m.bits = 7;
  m.group_size = 64;
  CHECK_THROWS_WITH_AS(cpu::tile_format(m), doctest::Contains("7 bits"), Error);
}
