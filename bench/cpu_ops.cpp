// Times the CPU backend without a model file: single projections in GOPS, and a
// Llama-shaped stack of random weights in tokens a second. Best of several runs,
// since other programs may share the cores; with one thread, processor time.
//
//   bench_cpu_ops ops [threads]
//   bench_cpu_ops model [threads] [exact|high|fast]
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <functional>
#include <map>
#include <string>

#include "backend_cpu/random_weights.h"

using namespace tandem;
using namespace tandem::test;

namespace {

clockid_t bench_clock = CLOCK_MONOTONIC;

double now_seconds() {
  timespec time;
  clock_gettime(bench_clock, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

double best_seconds(int runs, const std::function<void()>& fn) {
  double best = 1e9;
  for (int i = 0; i < runs; i++) {
    const double start = now_seconds();
    fn();
    best = std::min(best, now_seconds() - start);
  }
  return best;
}

std::unique_ptr<Backend> make_backend(int threads, Precision precision) {
  return make_cpu_backend({.precision = precision, .threads = threads});
}

void bench_ops(int threads, Precision precision) {
  struct Shape {
    Format format;
    int64_t rows, cols;
  };
  const Shape shapes[] = {
      {{WeightFormat::kQ4_1}, 576, 576},
      {{WeightFormat::kQ4_1}, 3072, 576},
      {{WeightFormat::kQ4_1}, 576, 1536},
      {{WeightFormat::kQ8_0}, 49152, 576},
      {{WeightFormat::kQ4_0}, 4096, 4096},
      {{WeightFormat::kQ4_K}, 4096, 4096},
      {{WeightFormat::kQ6_K}, 4096, 4096},
      {{WeightFormat::kAffine, 4, 64, DType::kBF16}, 4096, 4096},
      {{WeightFormat::kBF16}, 4096, 4096},
  };
  auto be = make_backend(threads, precision);
  Random random(1);
  for (const Shape& shape : shapes) {
    const OwnedMatrix stored = random_matrix(shape.format, shape.rows, shape.cols, random);
    const Weight weight = be->load({&stored.matrix, 1});
    std::printf("%-14s %6ld x %5ld", shape.format.name().c_str(), long(shape.rows),
                long(shape.cols));
    for (const int64_t n : {1, 4, 8, 16, 64, 512}) {
      if (n * shape.rows > 8'000'000) continue;
      const auto x = random.normals(n * shape.cols);
      FlatStep flat(n);
      const int repeats = n == 1 ? 20 : 1;
      const double seconds = best_seconds(12, [&] {
        be->begin_step(flat.step);
        const Tensor input = tensor(*be, x, n);
        for (int i = 0; i < repeats; i++) be->linear(input, weight);
      });
      const double ops = 2.0 * n * shape.rows * shape.cols * repeats;
      std::printf("  %4ld: %6.1f", long(n), ops / seconds / 1e9);
      if (n == 1) std::printf(" (%4.1f GB/s)", stored.data.size() * repeats / seconds / 1e9);
    }
    std::printf("  GOPS\n");
  }
}

// SmolLM2-135M's shape with random weights.
class Stack {
 public:
  explicit Stack(Backend& be) : be_(be) {
    Random random(3);
    const Format q4{WeightFormat::kQ4_1};
    for (int i = 0; i < kLayers; i++) {
      Layer& layer = layers_.emplace_back();
      layer.norm = be.load_vector(std::vector<float>(kWidth, 1.0f));
      layer.qkv = load(q4, (kHeads + 2 * kKvHeads) * kDim, kWidth, random);
      layer.out = load(q4, kWidth, kHeads * kDim, random);
      const OwnedMatrix gate = random_matrix(q4, kHidden, kWidth, random);
      const OwnedMatrix up = random_matrix(q4, kHidden, kWidth, random);
      layer.gate_up = be.load_gate_up(gate.matrix, up.matrix);
      layer.down = load(q4, kWidth, kHidden, random);
    }
    table_ = load({WeightFormat::kQ8_0}, kVocabulary, kWidth, random);
    for (int i = 0; i < kDim / 2; i++) {
      rope_.inv_freq.push_back(std::pow(10000.0f, -2.0f * i / kDim));
    }
    store_ =
        be.make_kv_store({kLayers, kKvHeads, kDim, kDim, 0,
                          be.precision() == Precision::kExact ? KvCodec::kF32 : KvCodec::kF16});
    store_->grow(KvSection::kMain, 1024);
  }

  // One step: each of `rows` rows takes tokens [begin, end).
  void step(int rows, int begin, int end) {
    std::vector<int32_t> tokens, positions, token_row, row_start = {0}, pages, table = {0}, outputs;
    const std::vector<int32_t> prompt_length(rows, end - begin > 1 ? end : 0);
    for (int r = 0; r < rows; r++) {
      for (int p = begin; p < end; p++) {
        tokens.push_back((p * 7919 + r) % kVocabulary);
        positions.push_back(p);
        token_row.push_back(r);
      }
      outputs.push_back(static_cast<int32_t>(tokens.size()) - 1);
      row_start.push_back(static_cast<int32_t>(tokens.size()));
      const int count = (end + kPageTokens - 1) / kPageTokens;
      for (int i = 0; i < count; i++) pages.push_back(r * count + i);
      table.push_back(static_cast<int32_t>(pages.size()));
    }
    KvStore* stores[] = {store_.get()};
    const BlockTable tables[] = {{pages, table}};
    Step step;
    step.tokens = tokens;
    step.positions = positions;
    step.token_row = token_row;
    step.row_start = row_start;
    step.prompt_length = prompt_length;
    step.kv = stores;
    step.tables = tables;
    step.outputs = outputs;
    be_.begin_step(step);
    forward(step);
  }

 private:
  static constexpr int kLayers = 30, kWidth = 576, kHeads = 9, kKvHeads = 3, kDim = 64,
                       kHidden = 1536, kVocabulary = 49152;
  struct Layer {
    Weight norm, qkv, out, gate_up, down;
  };

  Weight load(const Format& format, int64_t rows, int64_t cols, Random& random) {
    const OwnedMatrix stored = random_matrix(format, rows, cols, random);
    return be_.load({&stored.matrix, 1});
  }

  // Adds the time since the last call to one op's account.
  void count(const char* op) {
    const double now = now_seconds();
    if (op) times_[op] += now - last_;
    last_ = now;
  }

 public:
  std::map<std::string, double> times_;

 private:
  double last_ = 0;

  void forward(const Step& step) {
    QkvOptions qkv;
    qkv.heads = kHeads;
    qkv.kv_heads = kKvHeads;
    qkv.head_dim = qkv.v_dim = kDim;
    qkv.rope = &rope_;
    AttentionOptions attention;
    attention.heads = kHeads;
    attention.kv_heads = kKvHeads;
    attention.head_dim = attention.v_dim = kDim;
    attention.scale = 0.125f;
    count(nullptr);
    Tensor x = be_.embed(table_, 1.0f, step);
    count("embed");
    for (int i = 0; i < kLayers; i++) {
      const Layer& layer = layers_[i];
      Tensor h = be_.norm(x, layer.norm, {});
      count("norm");
      const Tensor q = be_.qkv_rope_write(h, layer.qkv, qkv, {0, i}, step);
      count("qkv");
      const Tensor o = be_.attention(q, {0, i}, attention, step);
      count("attention");
      x = be_.linear(o, layer.out, x);
      count("out");
      h = be_.norm(x, layer.norm, {});
      count("norm");
      h = be_.gate_up(h, layer.gate_up, Activation::kSilu);
      count("gate_up");
      x = be_.linear(h, layer.down, x);
      count("down");
    }
    x = be_.norm(be_.select_outputs(x, step), layers_[0].norm, {});
    be_.head(x, table_, 1.0f, 0.0f);
    count("head");
  }

  Backend& be_;
  Rope rope_;
  std::vector<Layer> layers_;
  Weight table_;
  std::unique_ptr<KvStore> store_;
};

void bench_model(int threads, Precision precision) {
  auto be = make_backend(threads, precision);
  Stack stack(*be);
  std::printf("%s\n", be->device().c_str());
  const auto report = [&](const char* what, int rows, int begin, int end, int runs) {
    stack.step(rows, begin, end);
    stack.times_.clear();
    const double seconds = best_seconds(runs, [&] { stack.step(rows, begin, end); });
    std::printf("%-22s %8.1f tok/s  (", what, rows * (end - begin) / seconds);
    double sum = 0;
    for (const auto& [op, time] : stack.times_) sum += time;
    for (const auto& [op, time] : stack.times_)
      std::printf(" %s %.0f%%", op.c_str(), 100 * time / sum);
    std::printf(" )\n");
  };
  report("prefill 512", 1, 0, 512, 6);
  report("prefill 2048", 1, 0, 2048, 2);
  report("decode at 64", 1, 64, 65, 150);
  report("decode at 1024", 1, 1024, 1025, 100);
  report("decode 4 rows at 64", 4, 64, 65, 50);
  report("decode 16 rows at 64", 16, 64, 65, 20);
}

}  // namespace

int main(int argc, char** argv) {
  const std::string what = argc > 1 ? argv[1] : "model";
  const int threads = argc > 2 ? std::stoi(argv[2]) : 0;
  const std::string name = argc > 3 ? argv[3] : "high";
  const Precision precision = name == "exact"  ? Precision::kExact
                              : name == "fast" ? Precision::kFast
                                               : Precision::kHigh;
  if (threads == 1) bench_clock = CLOCK_PROCESS_CPUTIME_ID;
  if (what == "ops") {
    bench_ops(threads, precision);
  } else {
    bench_model(threads, precision);
  }
}
