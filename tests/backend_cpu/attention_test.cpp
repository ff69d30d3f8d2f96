#include <doctest/doctest.h>

#include <algorithm>
#include <map>

#include "backend/cpu/kernels/ref/reference.h"
#include "backend/kv_reference.h"
#include "backend_cpu/random_weights.h"

using namespace tandem;
using namespace tandem::test;

namespace {

constexpr int kWidth = 48;  // columns of the layer's input

struct Shape {
  int heads = 6, kv_heads = 2, head_dim = 32, v_dim = 32;
  bool k_is_v = false, v_norm = false;
  bool rope = true, interleaved = false;
  int rotated = 32;  // dims that rotate
  enum class Norm { kNone, kHead, kWhole } norm = Norm::kNone;
  int window = 0;
  float softcap = 0;
  bool sinks = false;
  KvCodec codec = KvCodec::kF16;
  KvFormat format = {};  // quantised: of the layer's pages from quant_start on
  int quant_start = 0;
  bool on_tiles = false;  // every token is a prompt's, in bf16
};

float as_bf16(float x) { return bf16_to_f32(f32_to_bf16(x)); }

struct Chunk {
  int row = 0;
  int begin = 0, end = 0;            // positions
  int span_begin = 0, span_end = 0;  // positions that attend both ways
};

// One attention layer with its weights, its pages and the input of every token.
class Layer {
 public:
  Layer(const Shape& shape, cpu::Isa isa, int threads, std::vector<int> lengths)
      : shape_(shape),
        be_(backend(isa, shape.on_tiles ? Precision::kHigh : Precision::kExact, threads)),
        lengths_(lengths) {
    Random random(7);
    const int q_rows = shape.heads * shape.head_dim;
    const int k_rows = shape.kv_heads * shape.head_dim;
    const int v_rows = shape.k_is_v ? 0 : shape.kv_heads * shape.v_dim;
    stored_ = random_matrix({WeightFormat::kF32}, q_rows + k_rows + v_rows, kWidth, random);
    for (size_t i = 0; i < stored_.data.size(); i += 4) {
      // On tiles: what bf16 holds, and scores that its digits suffice for.
      const float value = random.normal(shape.on_tiles ? 0.1f : 0.3f);
      put(stored_.data, i, DType::kF32, shape.on_tiles ? as_bf16(value) : value);
    }
    weight_ = be_->load({&stored_.matrix, 1});
    for (const int length : lengths) {
      std::vector<float>& input = inputs_.emplace_back(random.normals(length * kWidth));
      for (float& value : input) value = shape.on_tiles ? as_bf16(value) : value;
    }
    for (int i = 0; i < shape.rotated / 2; i++) {
      rope_.inv_freq.push_back(std::pow(10000.0f, -2.0f * i / shape.rotated));
    }
    rope_.interleaved = shape.interleaved;
    rope_.cos_sin_scale = 1.25f;
    const bool whole = shape.norm == Shape::Norm::kWhole;
    q_norm_ = random.normals(whole ? q_rows : shape.head_dim);
    k_norm_ = random.normals(whole ? k_rows : shape.head_dim);
    sinks_ = random.normals(shape.heads);
    set_options();
    spec_ = {2, shape.kv_heads, shape.head_dim, shape.v_dim, shape.window, shape.codec};
    // The other layer's planes come first in a page and are larger.
    if (shape.format.quantised()) spec_.formats = {KvFormat{KvCodec::kF32}, shape.format};
    spec_.quant_start = shape.quant_start;
    store_ = be_->make_kv_store(spec_);
    lay_out_pages();
  }

  // Runs one step of these chunks; the results of each token by (row, position).
  void run(const std::vector<Chunk>& chunks) {
    std::vector<int32_t> tokens, positions, token_row, row_start = {0}, table_start = {0}, pages;
    std::vector<float> x;
    std::vector<BothWays> spans;
    for (size_t r = 0; r < chunks.size(); r++) {
      const Chunk& c = chunks[r];
      const int first = static_cast<int>(tokens.size());
      for (int p = c.begin; p < c.end; p++) {
        tokens.push_back(0);
        positions.push_back(p);
        token_row.push_back(static_cast<int32_t>(r));
        const float* in = inputs_[c.row].data() + p * kWidth;
        x.insert(x.end(), in, in + kWidth);
      }
      if (c.span_end > c.span_begin) {
        spans.push_back({first + c.span_begin - c.begin, first + c.span_end - c.begin});
      }
      row_start.push_back(static_cast<int32_t>(tokens.size()));
      pages.insert(pages.end(), pages_[c.row].begin(), pages_[c.row].end());
      table_start.push_back(static_cast<int32_t>(pages.size()));
    }
    KvStore* stores[] = {store_.get()};
    const BlockTable tables[] = {{pages, table_start}};
    Step step;
    step.tokens = tokens;
    step.positions = positions;
    step.token_row = token_row;
    step.row_start = row_start;
    const std::vector<int32_t> prompt_length(shape_.on_tiles ? chunks.size() : 0, INT32_MAX);
    step.prompt_length = prompt_length;
    step.kv = stores;
    step.tables = tables;
    step.both_ways = spans;
    be_->begin_step(step);
    const int64_t n = step.n_tokens();
    const Tensor q = be_->qkv_rope_write(tensor(*be_, x, n), weight_, qkv_, {0, 1}, step);
    const auto out = floats(*be_, be_->attention(q, {0, 1}, attention_, step));
    const size_t width = out.size() / n;
    for (int64_t t = 0; t < n; t++) {
      results_[{chunks[token_row[t]].row, positions[t]}] = {out.begin() + t * width,
                                                            out.begin() + (t + 1) * width};
    }
  }

  const std::vector<float>& result(int row, int position) { return results_[{row, position}]; }
  const std::map<std::pair<int, int>, std::vector<float>>& results() const { return results_; }

  // The largest error of the results so far against double precision.
  double error(const std::vector<Chunk>& spans = {}) {
    double worst = 0;
    for (const auto& [key, got] : results_) {
      const auto want = expected(key.first, key.second, spans);
      for (size_t i = 0; i < got.size(); i++) {
        worst = std::max(worst, std::isfinite(got[i]) ? std::fabs(got[i] - want[i]) : 1e9);
      }
    }
    return worst;
  }

  // The mean one; a code that rounding tips over moves a few results by a step.
  double mean_error() {
    double sum = 0;
    int64_t count = 0;
    for (const auto& [key, got] : results_) {
      const auto want = expected(key.first, key.second, {});
      for (size_t i = 0; i < got.size(); i++) sum += std::fabs(got[i] - want[i]);
      count += std::ssize(got);
    }
    return sum / static_cast<double>(count);
  }

 private:
  void set_options() {
    qkv_.heads = shape_.heads;
    qkv_.kv_heads = shape_.kv_heads;
    qkv_.head_dim = shape_.head_dim;
    qkv_.v_dim = shape_.v_dim;
    qkv_.k_is_v = shape_.k_is_v;
    qkv_.v_norm = shape_.v_norm;
    if (shape_.rope) qkv_.rope = &rope_;
    if (shape_.norm != Shape::Norm::kNone) {
      qkv_.q_norm = be_->load_vector(q_norm_);
      qkv_.k_norm = be_->load_vector(k_norm_);
    }
    attention_.heads = shape_.heads;
    attention_.kv_heads = shape_.kv_heads;
    attention_.head_dim = shape_.head_dim;
    attention_.v_dim = shape_.v_dim;
    attention_.scale = 0.2f;
    attention_.window = shape_.window;
    attention_.softcap = shape_.softcap;
    if (shape_.sinks) attention_.sinks = be_->load_vector(sinks_);
  }

  // Pages of the rows in mixed order, as a busy pool would give them, counted in
  // each section from 0 on.
  void lay_out_pages() {
    int next[2] = {};
    pages_.resize(lengths_.size());
    for (int begin = 0; begin < *std::ranges::max_element(lengths_); begin += kPageTokens) {
      for (size_t r = lengths_.size(); r-- > 0;) {
        if (begin >= lengths_[r]) continue;
        pages_[r].push_back(next[static_cast<size_t>(spec_.section(begin))]++);
      }
    }
    for (const KvSection section : kKvSections) {
      const int pages = next[static_cast<size_t>(section)];
      if (pages > 0) store_->grow(section, pages);
    }
  }

  static void normalise(float* x, int heads, int dim, const std::vector<float>& w, bool whole,
                        float eps) {
    const int count = whole ? 1 : heads;
    const int size = whole ? heads * dim : dim;
    for (int h = 0; h < count; h++) {
      const auto y = cpu::ref::norm({x + h * size, static_cast<size_t>(size)}, w, {}, eps, false);
      for (int i = 0; i < size; i++) x[h * size + i] = static_cast<float>(y[i]);
    }
  }

  void rotate(float* head, int position) const {
    const int half = shape_.rotated / 2;
    for (int i = 0; i < half; i++) {
      const float angle = static_cast<float>(position) * rope_.inv_freq[i];
      const double c = std::cos(double{angle}) * rope_.cos_sin_scale;
      const double s = std::sin(double{angle}) * rope_.cos_sin_scale;
      float& a = head[shape_.interleaved ? 2 * i : i];
      float& b = head[shape_.interleaved ? 2 * i + 1 : i + half];
      const double x = a, y = b;
      a = static_cast<float>(x * c - y * s);
      b = static_cast<float>(y * c + x * s);
    }
  }

  // Heads of dim elements as the pages hold them.
  void code(std::vector<float>& heads, int dim, int position, bool keys) const {
    const KvFormat format =
        spec_.section(position) == KvSection::kBase ? KvFormat{spec_.base} : spec_.format(1);
    const PlaneFormat plane = keys ? k_plane_format(format) : v_plane_format(format);
    for (auto head = heads.begin(); head != heads.end(); head += dim) {
      const auto read = round_trip({head, head + dim}, plane);
      std::copy(read.begin(), read.end(), head);
    }
  }

  struct Qkv {
    std::vector<float> q, k, v;
  };
  const Qkv& qkv(int row, int position) {
    auto [it, fresh] = qkvs_.try_emplace({row, position});
    if (!fresh) return it->second;
    const std::span<const float> x{inputs_[row].data() + position * kWidth, kWidth};
    const auto all = cpu::ref::matmul(stored_.matrix, x, 1, 0);
    const auto at = all.begin();
    const int q_rows = shape_.heads * shape_.head_dim;
    const int k_rows = shape_.kv_heads * shape_.head_dim;
    Qkv& out = it->second;
    out.q.assign(at, at + q_rows);
    out.k.assign(at + q_rows, at + q_rows + k_rows);
    out.v = shape_.k_is_v ? out.k : std::vector<float>(at + q_rows + k_rows, all.end());
    if (shape_.norm != Shape::Norm::kNone) {
      const bool whole = shape_.norm == Shape::Norm::kWhole;
      normalise(out.q.data(), shape_.heads, shape_.head_dim, q_norm_, whole, qkv_.norm_eps);
      normalise(out.k.data(), shape_.kv_heads, shape_.head_dim, k_norm_, whole, qkv_.norm_eps);
    }
    if (shape_.v_norm) {
      normalise(out.v.data(), shape_.kv_heads, shape_.v_dim, {}, false, qkv_.norm_eps);
    }
    if (shape_.rope) {
      for (int h = 0; h < shape_.heads; h++) rotate(&out.q[h * shape_.head_dim], position);
      for (int h = 0; h < shape_.kv_heads; h++) rotate(&out.k[h * shape_.head_dim], position);
    }
    code(out.k, shape_.head_dim, position, true);
    code(out.v, shape_.v_dim, position, false);
    return out;
  }

  std::vector<double> expected(int row, int position, const std::vector<Chunk>& spans) {
    int begin = shape_.window > 0 ? std::max(0, position + 1 - shape_.window) : 0;
    int end = position + 1;
    for (const Chunk& c : spans) {
      if (c.row != row || position < c.span_begin || position >= c.span_end) continue;
      begin = std::min(begin, c.span_begin);
      end = std::max(end, c.span_end);
    }
    std::vector<double> out;
    for (int h = 0; h < shape_.heads; h++) {
      const int kv_head = h / (shape_.heads / shape_.kv_heads);
      std::vector<float> keys, values;
      for (int p = begin; p < end; p++) {
        const auto k = qkv(row, p).k.begin() + kv_head * shape_.head_dim;
        const auto v = qkv(row, p).v.begin() + kv_head * shape_.v_dim;
        keys.insert(keys.end(), k, k + shape_.head_dim);
        values.insert(values.end(), v, v + shape_.v_dim);
      }
      const std::vector<float>& q = qkv(row, position).q;
      const auto o = cpu::ref::attention(
          {q.data() + h * shape_.head_dim, static_cast<size_t>(shape_.head_dim)}, keys, values,
          end - begin, attention_.scale, shape_.softcap, shape_.sinks ? &sinks_[h] : nullptr);
      out.insert(out.end(), o.begin(), o.end());
    }
    return out;
  }

  Shape shape_;
  std::unique_ptr<Backend> be_;
  std::vector<int> lengths_;
  OwnedMatrix stored_;
  Weight weight_;
  Rope rope_;
  std::vector<float> q_norm_, k_norm_, sinks_;
  std::vector<std::vector<float>> inputs_;
  QkvOptions qkv_;
  AttentionOptions attention_;
  KvSpec spec_;
  std::unique_ptr<KvStore> store_;
  std::vector<std::vector<int32_t>> pages_;
  std::map<std::pair<int, int>, std::vector<float>> results_;
  std::map<std::pair<int, int>, Qkv> qkvs_;
};

// Every row on its own, in chunks of `size` tokens.
void run_chunked(Layer& layer, const std::vector<int>& lengths, int size) {
  for (size_t row = 0; row < lengths.size(); row++) {
    for (int begin = 0; begin < lengths[row]; begin += size) {
      layer.run({{static_cast<int>(row), begin, std::min(begin + size, lengths[row])}});
    }
  }
}

double worst_error(const Shape& shape) {
  const std::vector<int> lengths = {150, 33, 7};
  double worst = 0;
  for (const cpu::Isa isa : shape.on_tiles ? cpu::testable_isas() : cpu::available_isas()) {
    Layer layer(shape, isa, 2, lengths);
    layer.run({{0, 0, 100}, {1, 0, 33}, {2, 0, 1}});
    layer.run({{0, 100, 150}, {2, 1, 7}});
    worst = std::max(worst, layer.error());
  }
  return worst;
}

constexpr double kTolerance = 3e-3;  // f16 keys may round to either neighbour

const std::vector<KvFormat>& kv_formats() {
  static const std::vector<KvFormat> formats = {
      kv_affine(8, 64), kv_affine(8, 32), kv_affine(4, 64), kv_affine(4, 32), kv_turbo(8, 3),
      kv_turbo(8, 8),   kv_turbo(5, 5),   kv_turbo(4, 4),   kv_turbo(2, 2)};
  return formats;
}

Shape quantised_shape(const KvFormat& format, int quant_start = 0) {
  Shape shape;
  shape.head_dim = shape.v_dim = shape.rotated = 64;
  shape.format = format;
  shape.quant_start = quant_start;
  return shape;
}

std::string name_of(const Shape& shape) {
  return kv_format_name(shape.format) + " from " + std::to_string(shape.quant_start);
}

}  // namespace

TEST_CASE("attention agrees with double precision for the Llama shape") {
  CHECK(worst_error({}) < kTolerance);
  CHECK(worst_error({.codec = KvCodec::kF32}) < 2e-5);
  CHECK(worst_error({.codec = KvCodec::kBF16}) < 3e-2);
}

TEST_CASE("q and k norms apply to each head or to all heads at once") {
  CHECK(worst_error({.norm = Shape::Norm::kHead, .codec = KvCodec::kF32}) < 2e-5);
  CHECK(worst_error({.norm = Shape::Norm::kWhole, .codec = KvCodec::kF32}) < 2e-5);
}

TEST_CASE("values may be the keys before norm and rope, with a norm of their own") {
  CHECK(worst_error({.k_is_v = true, .codec = KvCodec::kF32}) < 2e-5);
  CHECK(worst_error(
            {.k_is_v = true, .v_norm = true, .norm = Shape::Norm::kHead, .codec = KvCodec::kF32}) <
        2e-5);
}

TEST_CASE("rope rotates all dims, some, pairs side by side, or none") {
  CHECK(worst_error({.rotated = 10, .codec = KvCodec::kF32}) < 2e-5);
  CHECK(worst_error({.interleaved = true, .codec = KvCodec::kF32}) < 2e-5);
  CHECK(worst_error({.interleaved = true, .rotated = 12, .codec = KvCodec::kF32}) < 2e-5);
  CHECK(worst_error({.rope = false, .codec = KvCodec::kF32}) < 2e-5);
}

TEST_CASE("a window, a softcap and sinks change the weights as defined") {
  CHECK(worst_error({.window = 40, .codec = KvCodec::kF32}) < 2e-5);
  CHECK(worst_error({.window = 1, .codec = KvCodec::kF32}) < 2e-5);
  CHECK(worst_error({.softcap = 3.0f, .codec = KvCodec::kF32}) < 2e-5);
  CHECK(worst_error({.sinks = true, .codec = KvCodec::kF32}) < 2e-5);
  CHECK(worst_error({.window = 37, .softcap = 5.0f, .sinks = true, .codec = KvCodec::kF32}) < 2e-5);
}

TEST_CASE("heads and dims may be odd, and values narrower than keys") {
  CHECK(worst_error({.heads = 5,
                     .kv_heads = 1,
                     .head_dim = 30,
                     .v_dim = 20,
                     .rotated = 30,
                     .codec = KvCodec::kF32}) < 2e-5);
  CHECK(worst_error({.heads = 70,
                     .kv_heads = 1,
                     .head_dim = 16,
                     .v_dim = 8,
                     .rotated = 16,
                     .codec = KvCodec::kF32}) < 2e-5);
  CHECK(worst_error({.heads = 2,
                     .kv_heads = 2,
                     .head_dim = 80,
                     .v_dim = 80,
                     .rotated = 80,
                     .codec = KvCodec::kF16}) < kTolerance);
}

TEST_CASE("tokens of a span see each other both ways, inside a window too") {
  for (const int window : {0, 24}) {
    for (const cpu::Isa isa : cpu::available_isas()) {
      Shape shape;
      shape.window = window;
      shape.codec = KvCodec::kF32;
      Layer layer(shape, isa, 2, {120});
      const std::vector<Chunk> chunks = {{0, 0, 120, 20, 70}};
      layer.run(chunks);
      CHECK(layer.error(chunks) < 2e-5);
    }
  }
}

TEST_CASE("a token's attention has the same bits in any chunk, batch, thread count or ISA") {
  const std::vector<int> lengths = {521, 130, 64, 40, 31, 17, 9, 5};
  for (const int window : {0, 100}) {
    Shape shape;
    shape.window = window;
    Layer whole(shape, cpu::available_isas().back(), 1, lengths);
    run_chunked(whole, lengths, 521);
    for (const int size : {1, 7, 512}) {
      Layer chunked(shape, cpu::available_isas().back(), 2, lengths);
      run_chunked(chunked, lengths, size);
      CAPTURE(size);
      for (const auto& [key, result] : whole.results()) {
        CHECK(same_bits(result, chunked.result(key.first, key.second)));
      }
    }
    for (const cpu::Isa isa : cpu::available_isas()) {
      for (const int threads : {1, 2, 3}) {
        Layer batch(shape, isa, threads, lengths);
        // Prompts side by side, then everybody's last tokens one by one.
        std::vector<Chunk> prompts, last;
        for (size_t r = 0; r < lengths.size(); r++) {
          prompts.push_back({static_cast<int>(r), 0, lengths[r] - 1});
          last.push_back({static_cast<int>(r), lengths[r] - 1, lengths[r]});
        }
        batch.run(prompts);
        batch.run(last);
        CAPTURE(cpu::isa_name(isa));
        for (const auto& [key, result] : whole.results()) {
          CHECK(same_bits(result, batch.result(key.first, key.second)));
        }
      }
    }
  }
}

TEST_CASE("quantised pages give what plain loops make of every key and value") {
  std::vector<Shape> shapes;
  for (const KvFormat& format : kv_formats()) {
    for (const int start : {0, 64}) shapes.push_back(quantised_shape(format, start));
  }
  shapes.push_back(quantised_shape(kv_turbo(8, 3)));
  shapes.back().head_dim = shapes.back().v_dim = 128;
  for (const Shape& shape : shapes) {
    CAPTURE(name_of(shape));
    for (const cpu::Isa isa : {cpu::Isa::kScalar, cpu::available_isas().back()}) {
      Layer layer(shape, isa, 2, {150, 33, 7});
      layer.run({{0, 0, 100}, {1, 0, 33}, {2, 0, 1}});
      layer.run({{0, 100, 150}, {2, 1, 7}});
      const double mean = layer.mean_error();
      CHECK(mean < 2e-4);
    }
  }
}

TEST_CASE("quantised pages, too, give the same bits in any chunk, batch, thread count or ISA") {
  const std::vector<int> lengths = {300, 70, 33, 5};
  for (const KvFormat& format : kv_formats()) {
    for (const int start : {0, 64}) {
      const Shape shape = quantised_shape(format, start);
      CAPTURE(name_of(shape));
      Layer whole(shape, cpu::available_isas().back(), 1, lengths);
      run_chunked(whole, lengths, 300);
      for (const cpu::Isa isa : cpu::available_isas()) {
        Layer chunked(shape, isa, 3, lengths);
        run_chunked(chunked, lengths, 23);
        Layer batch(shape, isa, 2, lengths);
        std::vector<Chunk> prompts, last;
        for (int r = 0; r < 4; r++) {
          prompts.push_back({r, 0, lengths[r] - 1});
          last.push_back({r, lengths[r] - 1, lengths[r]});
        }
        batch.run(prompts);
        batch.run(last);
        CAPTURE(cpu::isa_name(isa));
        for (const auto& [key, result] : whole.results()) {
          CHECK(same_bits(result, chunked.result(key.first, key.second)));
          CHECK(same_bits(result, batch.result(key.first, key.second)));
        }
      }
    }
  }
}

TEST_CASE("attention of prompts on tiles agrees with double precision to bf16's digits") {
  CHECK(worst_error({.on_tiles = true}) < 3e-2);
  CHECK(worst_error({.window = 40, .on_tiles = true}) < 3e-2);
  CHECK(worst_error({.sinks = true, .on_tiles = true}) < 3e-2);
  CHECK(worst_error({.heads = 3,
                     .kv_heads = 1,
                     .head_dim = 64,
                     .v_dim = 48,
                     .rotated = 64,
                     .codec = KvCodec::kBF16,
                     .on_tiles = true}) < 3e-2);
}

TEST_CASE("attention of prompts on tiles has the same bits in any chunk, batch or thread count") {
  const std::vector<int> lengths = {521, 130, 64, 31, 5};
  for (const int window : {0, 100}) {
    Shape shape;
    shape.window = window;
    shape.on_tiles = true;
    const cpu::Isa emulated = cpu::Isa::kAmxEmulated;
    Layer whole(shape, emulated, 1, lengths);
    run_chunked(whole, lengths, 521);
    for (const int size : {1, 7, 300}) {
      // The machine's tiles, where it has them, for one of the sizes.
      const cpu::Isa best = cpu::available_isas().back();
      const cpu::Isa isa = size == 300 && best == cpu::Isa::kAmx ? best : emulated;
      Layer chunked(shape, isa, 2, lengths);
      run_chunked(chunked, lengths, size);
      CAPTURE(size);
      for (const auto& [key, result] : whole.results()) {
        CHECK(same_bits(result, chunked.result(key.first, key.second)));
      }
    }
    Layer batch(shape, emulated, 3, lengths);
    std::vector<Chunk> prompts;
    for (size_t r = 0; r < lengths.size(); r++) prompts.push_back({int(r), 0, lengths[r]});
    batch.run(prompts);
    for (const auto& [key, result] : whole.results()) {
      CHECK(same_bits(result, batch.result(key.first, key.second)));
    }
  }
}
