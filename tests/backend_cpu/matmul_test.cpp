#include <doctest/doctest.h>

#include "backend/cpu/kernels/ref/reference.h"
#include "backend_cpu/random_weights.h"

using namespace tandem;
using namespace tandem::test;

namespace {

constexpr int kHighLimit = 16256;
constexpr int kFastLimit = 127;

int limit_of(Precision precision) {
  return precision == Precision::kExact  ? 0
         : precision == Precision::kHigh ? kHighLimit
                                         : kFastLimit;
}

std::vector<float> run_linear(Backend& be, const OwnedMatrix& w, const std::vector<float>& x,
                              int64_t n) {
  const Weight weight = be.load({&w.matrix, 1});
  FlatStep flat(n);
  be.begin_step(flat.step);
  return floats(be, be.linear(tensor(be, x, n), weight));
}

std::vector<Format> all_formats() {
  auto formats = quantised_formats();
  for (const Format& format : dense_formats()) formats.push_back(format);
  return formats;
}

int64_t some_columns(const Format& format) {
  const bool super = format.format == WeightFormat::kQ4_K || format.format == WeightFormat::kQ5_K ||
                     format.format == WeightFormat::kQ6_K;
  if (super) return 512;
  if (format.format == WeightFormat::kAffine) return format.group_size * 5;
  return format.bits == 0 && block_columns(format.format) == 1 ? 83 : 352;
}

}  // namespace

TEST_CASE("every instruction set gives the reference's bits for every format and row count") {
  Random random(1);
  for (const cpu::Isa isa : cpu::available_isas()) {
    for (const Precision precision : {Precision::kHigh, Precision::kFast}) {
      auto be = backend(isa, precision);
      for (const Format& format : all_formats()) {
        const OwnedMatrix w = random_matrix(format, 53, some_columns(format), random);
        for (const int64_t n : {1, 2, 3, 5, 16, 33}) {
          const auto x = random.normals(n * w.matrix.cols);
          CAPTURE(cpu::isa_name(isa));
          CAPTURE(format.name());
          CAPTURE(n);
          CHECK(same_bits(run_linear(*be, w, x, n),
                          cpu::ref::matmul(w.matrix, x, n, limit_of(precision))));
        }
      }
    }
  }
}

TEST_CASE("exact precision multiplies the expanded weights as floats") {
  Random random(2);
  for (const cpu::Isa isa : cpu::available_isas()) {
    auto be = backend(isa, Precision::kExact);
    for (const Format& format : all_formats()) {
      const OwnedMatrix w = random_matrix(format, 40, some_columns(format), random);
      for (const int64_t n : {1, 4, 17}) {
        const auto x = random.normals(n * w.matrix.cols);
        const auto got = run_linear(*be, w, x, n);
        const auto want = cpu::ref::matmul(w.matrix, x, n, 0);
        CAPTURE(cpu::isa_name(isa));
        CAPTURE(format.name());
        for (size_t i = 0; i < got.size(); i++) CHECK(std::fabs(got[i] - want[i]) < 2e-5f);
      }
    }
  }
}

TEST_CASE("integer activations stay close to the float product") {
  Random random(3);
  for (const Format& format : quantised_formats()) {
    const OwnedMatrix w = random_matrix(format, 64, 512, random);
    const auto x = random.normals(4 * 512);
    const auto exact = cpu::ref::matmul(w.matrix, x, 4, 0);
    double norm = 0;
    for (const float value : exact) norm += double{value} * value;
    for (const Precision precision : {Precision::kHigh, Precision::kFast}) {
      auto be = backend(cpu::available_isas().back(), precision);
      const auto got = run_linear(*be, w, x, 4);
      double error = 0;
      for (size_t i = 0; i < got.size(); i++) error += std::pow(double{got[i]} - exact[i], 2);
      CAPTURE(format.name());
      CHECK(std::sqrt(error / norm) < (precision == Precision::kHigh ? 2e-4 : 2e-2));
    }
  }
}
