#include <doctest/doctest.h>

#include <cmath>

#include "backend_cpu/random_weights.h"

using namespace tandem;
using namespace tandem::test;

namespace {

constexpr GatedDeltaOptions kShape{
    .k_heads = 2, .v_heads = 4, .k_dim = 12, .v_dim = 72, .conv_width = 4, .norm_eps = 1e-6f};

struct DeltaInputs {
  std::vector<float> conv, decay, bias, norm;

  explicit DeltaInputs(Random& random)
      : conv(random.normals(kShape.channels() * kShape.conv_width, 0.5f)),
        decay(random.normals(kShape.v_heads)),
        bias(random.normals(kShape.v_heads)),
        norm(random.normals(kShape.v_dim)) {
    for (float& value : decay) value = -std::exp(value);
  }
  GatedDeltaWeights load(Backend& be) const {
    return {be.load_vector(conv), be.load_vector(decay), be.load_vector(bias),
            be.load_vector(norm)};
  }
};

int64_t input_columns() { return kShape.channels() + kShape.v_heads * (kShape.v_dim + 2); }

// A step of some rows, each with a number of tokens, in slots 0, 1, ...
struct RowsStep {
  std::vector<int32_t> tokens, positions, rows, starts{0}, slots;
  std::vector<StateStore*> states;
  Step step;

  RowsStep(const std::vector<int32_t>& counts, StateStore& store, int32_t first_slot = 0) {
    for (size_t row = 0; row < counts.size(); row++) {
      for (int32_t i = 0; i < counts[row]; i++) {
        tokens.push_back(0);
        positions.push_back(i);
        rows.push_back(static_cast<int32_t>(row));
      }
      starts.push_back(static_cast<int32_t>(tokens.size()));
      slots.push_back(first_slot + static_cast<int32_t>(row));
    }
    states.push_back(&store);
    step.tokens = tokens;
    step.positions = positions;
    step.token_row = rows;
    step.row_start = starts;
    step.state_slot = slots;
    step.states = states;
  }
};

std::unique_ptr<StateStore> store_of(Backend& be, int64_t slots) {
  auto store = be.make_state_store(kShape.state());
  store->grow(slots);
  for (int32_t slot = 0; slot < slots; slot++) store->clear_slot(slot);
  return store;
}

std::vector<float> run(Backend& be, const DeltaInputs& w, const std::vector<float>& x,
                       const RowsStep& rows) {
  be.begin_step(rows.step);
  const Tensor in = tensor(be, x, rows.step.n_tokens());
  return floats(be, be.gated_delta(in, w.load(be), kShape, {}, rows.step));
}

// The formulas in double precision, one row from an empty state.
std::vector<double> reference(const DeltaInputs& w, const std::vector<float>& x, int64_t n) {
  const int64_t channels = kShape.channels(), heads = kShape.v_heads, cols = input_columns();
  const int64_t dk = kShape.k_dim, dv = kShape.v_dim, k_size = kShape.k_heads * dk;
  std::vector<double> state(heads * dk * dv), out;
  const auto silu = [](double v) { return v / (1 + std::exp(-v)); };
  for (int64_t t = 0; t < n; t++) {
    std::vector<double> qkv(channels);
    for (int64_t c = 0; c < channels; c++) {
      double sum = 0;
      for (int64_t j = 0; j < kShape.conv_width; j++) {
        const int64_t source = t - (kShape.conv_width - 1) + j;
        if (source >= 0) sum += double{w.conv[j * channels + c]} * x[source * cols + c];
      }
      qkv[c] = silu(sum);
    }
    for (int64_t h = 0; h < heads; h++) {
      const double* q = &qkv[h / 2 * dk];
      const double* k = &qkv[k_size + h / 2 * dk];
      const double* v = &qkv[2 * k_size + h * dv];
      const float* rest = &x[t * cols + channels];
      double q_length = 1e-6, k_length = 1e-6, squares = 0;
      for (int64_t i = 0; i < dk; i++) {
        q_length += q[i] * q[i];
        k_length += k[i] * k[i];
      }
      q_length = std::sqrt(q_length) * std::sqrt(double(dk));
      k_length = std::sqrt(k_length);
      const double beta = 1 / (1 + std::exp(-double{rest[heads * dv + h]}));
      const double a = double{rest[heads * dv + heads + h]} + w.bias[h];
      const double decay = std::exp(w.decay[h] * std::log1p(std::exp(a)));
      std::vector<double> o(dv);
      for (int64_t j = 0; j < dv; j++) {
        double* s = &state[h * dk * dv + j];
        double known = 0;
        for (int64_t i = 0; i < dk; i++) known += (s[i * dv] *= decay) * k[i] / k_length;
        for (int64_t i = 0; i < dk; i++) {
          s[i * dv] += k[i] / k_length * beta * (v[j] - known);
          o[j] += s[i * dv] * q[i] / q_length;
        }
        squares += o[j] * o[j];
      }
      for (int64_t j = 0; j < dv; j++) {
        out.push_back(o[j] / std::sqrt(squares / double(dv) + kShape.norm_eps) * w.norm[j] *
                      silu(rest[h * dv + j]));
      }
    }
  }
  return out;
}

std::vector<float> rows_of(const std::vector<float>& x, int64_t cols, int64_t begin, int64_t end) {
  return {x.begin() + begin * cols, x.begin() + end * cols};
}

}  // namespace

TEST_CASE("the gated delta rule agrees with double precision on every ISA") {
  Random random(41);
  const DeltaInputs w(random);
  const std::vector<float> x = random.normals(23 * input_columns());
  const std::vector<double> want = reference(w, x, 23);
  for (const cpu::Isa isa : cpu::available_isas()) {
    CAPTURE(cpu::isa_name(isa));
    auto be = backend(isa, Precision::kHigh);
    auto store = store_of(*be, 1);
    const std::vector<float> got = run(*be, w, x, RowsStep({23}, *store));
    REQUIRE(got.size() == want.size());
    double worst = 0;
    for (size_t i = 0; i < got.size(); i++) {
      worst = std::max(worst, std::fabs(got[i] - want[i]) / std::max(1.0, std::fabs(want[i])));
    }
    CHECK(worst < 1e-4);
  }
}

TEST_CASE("a row's delta rule has the same bits alone, among others and in chunks") {
  Random random(42);
  const DeltaInputs w(random);
  const int64_t cols = input_columns();
  const std::vector<float> x = random.normals(9 * cols), other = random.normals(5 * cols);
  auto be = backend(cpu::available_isas().back(), Precision::kHigh);
  auto store = store_of(*be, 3);
  const std::vector<float> whole = run(*be, w, x, RowsStep({9}, *store));

  std::vector<float> chunked;
  for (const auto& [begin, end] : {std::pair{0, 1}, {1, 3}, {3, 8}, {8, 9}}) {
    const std::vector<float> part =
        run(*be, w, rows_of(x, cols, begin, end), RowsStep({end - begin}, *store, 1));
    chunked.insert(chunked.end(), part.begin(), part.end());
  }
  CHECK(same_bits(whole, chunked));

  store->clear_slot(1);
  std::vector<float> both = other;
  both.insert(both.end(), x.begin(), x.end());
  const std::vector<float> batched = run(*be, w, both, RowsStep({5, 9}, *store, 1));
  CHECK(same_bits(whole, rows_of(batched, kShape.v_heads * kShape.v_dim, 5, 14)));
}

TEST_CASE("a state slot that is copied, or written back as bytes, goes on as the original") {
  Random random(43);
  const DeltaInputs w(random);
  const int64_t cols = input_columns();
  const std::vector<float> x = random.normals(6 * cols), next = random.normals(cols);
  auto be = backend(cpu::available_isas().back(), Precision::kHigh);
  auto store = store_of(*be, 1);
  run(*be, w, x, RowsStep({6}, *store));
  std::vector<std::byte> bytes(store->slot_bytes());
  store->read_slot(0, bytes);
  store->grow(4);
  store->copy_slot(0, 2);
  store->write_slot(3, bytes);
  const std::vector<float> original = run(*be, w, next, RowsStep({1}, *store, 0));
  CHECK(same_bits(original, run(*be, w, next, RowsStep({1}, *store, 2))));
  CHECK(same_bits(original, run(*be, w, next, RowsStep({1}, *store, 3))));
  store->clear_slot(2);
  CHECK_FALSE(same_bits(original, run(*be, w, next, RowsStep({1}, *store, 2))));
}
