#include "backend/cpu/cpu_backend.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>

#include "base/error.h"

namespace tandem {

std::unique_ptr<Backend> make_cpu_backend(const BackendOptions& options) {
  if (options.threads < 0 || options.threads > 1024) {
    throw Error(ErrorCode::kInvalid,
                "threads must be between 1 and 1024, got " + std::to_string(options.threads));
  }
  const char* forced = std::getenv("TANDEM_ISA");
  return std::make_unique<cpu::CpuBackend>(options, cpu::choose_isa(forced ? forced : ""));
}

namespace cpu {
namespace {

constexpr int kHighLimit = 16256;  // 127 * 128: two int8 terms
constexpr int kFastLimit = 127;

const CpuWeight& storage(const Weight& w) { return static_cast<const CpuWeight&>(*w.storage); }
const float* vector_or_null(const Weight& w) { return w ? storage(w).vector.data() : nullptr; }

int64_t blocks_of(int64_t count, int64_t size) { return (count + size - 1) / size; }

}  // namespace

Activations::Activations(std::shared_ptr<Arena> arena, int64_t rows, int64_t cols)
    : rows(rows), cols(cols), arena_(std::move(arena)), round_(arena_->round()) {
  floats = arena_->take<float>(rows * cols);
}

Activations::~Activations() {
  if (round_ != arena_->round()) return;
  arena_->give_back(floats, rows * cols);
  const int64_t groups = quant.stride * cols / kGroupColumns;
  arena_->give_back(quant.codes, groups * kGroupColumns);
  arena_->give_back(quant.bytes, groups * kGroupColumns * quant.terms);
  arena_->give_back(quant.scale, groups);
  arena_->give_back(quant.scaled_sum, groups);
  arena_->give_back(quant.sum, groups * 2);
  arena_->give_back(prompt, prompt_values_);
}

QuantizeArgs Activations::make_codes(bool bytes, int terms) {
  QuantizeArgs args;
  args.x = floats;
  args.columns = cols;
  args.stride = rows | 1;
  args.terms = terms;
  const int64_t groups = args.stride * cols / kGroupColumns;
  if (bytes) {
    args.bytes = arena_->take<int8_t>(groups * kGroupColumns * terms);
  } else {
    args.codes = arena_->take<int16_t>(groups * kGroupColumns);
  }
  args.scale = arena_->take<float>(groups);
  args.scaled_sum = arena_->take<float>(groups);
  args.sum = arena_->take<int32_t>(groups * 2);
  quant = {args.codes, args.scale, args.scaled_sum, args.sum, args.bytes, terms, args.stride};
  return args;
}

uint16_t* Activations::make_prompt(int64_t tokens) {
  prompt_values_ = prompt_values(tokens, cols);
  uint16_t* values = arena_->take<uint16_t>(prompt_values_);
  prompt = values;
  return values;
}

CpuBackend::CpuBackend(const BackendOptions& options, Isa isa)
    : precision_(options.precision),
      isa_(vector_isa(isa)),
      device_(isa == Isa::kAvx512 ? "avx512vnni" : isa_name(isa)),
      pool_(options.threads > 0 ? options.threads : physical_cores()),
      matmul_(matmul_kernel(isa_)),
      prompt_(prompt_kernels(isa)),
      rows_(row_kernels(isa_)),
      attention_(attention_kernels(isa_)),
      prompt_attention_(prompt_attention_kernel(isa)),
      recurrent_(recurrent_kernels(isa_)),
      weight_bytes_(std::make_shared<std::atomic<int64_t>>(0)),
      matmul_scratch_(sizeof(MatmulScratch) * static_cast<size_t>(pool_.threads())) {
  if (precision_ == Precision::kExact) prompt_ = {};
  if (prompt_) prompt_scratch_ = Block(sizeof(PromptScratch) * pool_.threads());
}

std::string CpuBackend::device() const {
  const int threads = pool_.threads();
  const char* refused = tiles_refused() ? " (the system refuses AMX)" : "";
  return device_ + refused + ", " + std::to_string(threads) +
         (threads == 1 ? " thread" : " threads");
}

// --- Loading -------------------------------------------------------------------

Weight CpuBackend::wrap(std::shared_ptr<CpuWeight> weight, int64_t rows, int64_t cols) {
  any_quantised_ |= weight->has_quantised;
  *weight_bytes_ += weight->bytes();
  weight->total_bytes = weight_bytes_;
  return {rows, cols, std::move(weight)};
}

Weight CpuBackend::load(std::span<const StoredMatrix> parts, std::span<const float> bias) {
  auto weight = pack_weight(parts, bias, false, weight_memory_, pool_);
  const Segment& last = weight->segments.back();
  const int64_t rows = last.first_row + last.rows;
  return wrap(std::move(weight), rows, parts[0].cols);
}

Weight CpuBackend::load_gate_up(const StoredMatrix& gate, const StoredMatrix& up,
                                std::span<const float> bias) {
  const StoredMatrix parts[] = {gate, up};
  return wrap(pack_weight(parts, bias, true, weight_memory_, pool_), gate.rows + up.rows,
              gate.cols);
}

Weight CpuBackend::load_vector(std::span<const float> values) {
  auto weight = std::make_shared<CpuWeight>();
  weight->vector.assign(values.begin(), values.end());
  return wrap(std::move(weight), 1, static_cast<int64_t>(values.size()));
}

std::unique_ptr<KvStore> CpuBackend::make_kv_store(const KvSpec& spec) {
  return std::make_unique<CpuKvStore>(spec);
}

// --- Helpers ---------------------------------------------------------------------

void CpuBackend::begin_step(const Step& step) {
  arena_->reset();
  if (prompt_) sort_phases(step);
  angles_.clear();
  visible_.clear();
  places_.clear();
}

void CpuBackend::sort_phases(const Step& step) {
  prompt_tokens_.clear();
  generated_.clear();
  for (int64_t t = 0; t < step.n_tokens(); t++) {
    if (!step.prompt_length.empty() && step.positions[t] < step.prompt_length[step.token_row[t]]) {
      prompt_tokens_.push_back(static_cast<int32_t>(t));
    } else if (!generated_.empty() && generated_.back().end == t) {
      generated_.back().end++;
    } else {
      generated_.push_back({t, t + 1});
    }
  }
}

Tensor CpuBackend::make_tensor(const Tensor& like, int64_t cols) {
  Tensor x = make_tensor(like.rows, cols);
  activations(x).per_token = activations(like).per_token;
  return x;
}

Tensor CpuBackend::make_tensor(int64_t rows, int64_t cols) {
  auto owner = std::make_shared<Activations>(arena_, rows, cols);
  Tensor x{rows, cols, owner.get()};
  x.owner = std::move(owner);
  return x;
}

void CpuBackend::reserve_worker_floats(int64_t floats) {
  if (floats <= float_scratch_floats_) return;
  float_scratch_floats_ = round_up(floats, kLineBytes);
  float_scratch_ =
      Block(sizeof(float) * static_cast<size_t>(float_scratch_floats_ * pool_.threads()));
}

float* CpuBackend::worker_floats(int worker) const {
  return reinterpret_cast<float*>(float_scratch_.data()) + worker * float_scratch_floats_;
}

void CpuBackend::quantize(const Tensor& x, std::span<const TokenRange> ranges) {
  if (activations(x).quant.scale) return;
  int64_t rows = 0;
  for (const TokenRange& range : ranges) rows += range.end - range.begin;
  const int terms = precision_ == Precision::kFast ? 1 : 2;
  QuantizeArgs args = activations(x).make_codes(wants_bytes(isa_, terms, rows), terms);
  args.limit = terms == 1 ? kFastLimit : kHighLimit;
  for (const TokenRange& range : ranges) {
    const int64_t count = range.end - range.begin;
    for_rows(count, count * x.cols, [&](int64_t begin, int64_t end, int) {
      rows_.quantize(args, range.begin + begin, range.begin + end);
    });
  }
}

const uint16_t* CpuBackend::prompt_tiles(const Tensor& x) {
  Activations& data = activations(x);
  if (data.prompt) return data.prompt;
  PromptRowsArgs args;
  args.x = data.floats;
  args.columns = x.cols;
  args.rows = prompt_tokens_.data();
  args.count = static_cast<int64_t>(prompt_tokens_.size());
  args.out = data.make_prompt(args.count);
  for_rows(blocks_of(args.count, kPromptBlock), args.count * x.cols,
           [&](int64_t begin, int64_t end, int) { prompt_.to_tiles(args, begin, end); });
  return data.prompt;
}

// --- Projections -------------------------------------------------------------------

Tensor CpuBackend::matmul(const Tensor& x, const Weight& w, Epilogue epilogue, int64_t out_cols) {
  INVARIANT(x.cols == w.cols);
  const CpuWeight& weight = storage(w);
  Tensor y = make_tensor(x, out_cols);
  epilogue.out = activations(y).floats;
  epilogue.stride = out_cols;
  epilogue.bias = weight.bias.empty() ? nullptr : weight.bias.data();
  const auto units = static_cast<int64_t>(weight.units.size());
  const TokenRange all = {0, x.rows};
  std::span<const TokenRange> ranges = {&all, 1};
  if (prompt_ && activations(x).per_token) {
    ranges = generated_;
    if (!prompt_tokens_.empty()) {
      PromptMatmulArgs args;
      args.units = weight.units.data();
      args.columns = w.cols;
      args.x = prompt_tiles(x);
      args.rows = prompt_tokens_.data();
      args.epilogue = epilogue;
      run_prompt_matmul(args, units);
    }
  }
  if (ranges.empty()) return y;
  MatmulArgs args;
  args.units = weight.units.data();
  args.columns = w.cols;
  args.exact = precision_ == Precision::kExact;
  args.floats = activations(x).floats;
  if (weight.has_quantised && !args.exact) {
    quantize(x, ranges);
    args.quant = activations(x).quant;
  }
  args.epilogue = epilogue;
  for (const TokenRange& range : ranges) run_matmul(args, units, range);
  return y;
}

void CpuBackend::run_matmul(const MatmulArgs& args, int64_t units, TokenRange tokens) {
  const int64_t count = tokens.end - tokens.begin;
  const int64_t token_blocks = blocks_of(count, kMatmulTokens);
  const int64_t per_block = blocks_of(count, std::max<int64_t>(token_blocks, 1));
  // Few enough parts to stream through memory, enough to even out.
  const int64_t parts = std::min<int64_t>(units, 4 * int64_t{pool_.threads()});
  auto* scratch = reinterpret_cast<MatmulScratch*>(matmul_scratch_.data());
  pool_.parallel_for(token_blocks * parts, [&](int64_t task, int worker) {
    const int64_t part = task % parts;
    const int64_t token = tokens.begin + task / parts * per_block;
    matmul_(args, units * part / parts, units * (part + 1) / parts, token,
            std::min(token + per_block, tokens.end), scratch[worker]);
  });
}

void CpuBackend::run_prompt_matmul(const PromptMatmulArgs& args, int64_t units) {
  const auto tokens = static_cast<int64_t>(prompt_tokens_.size());
  const int64_t token_blocks = blocks_of(tokens, kPromptTokens);
  const int64_t per_block = round_up(blocks_of(tokens, token_blocks), kPromptBlock);
  const int64_t parts = std::min<int64_t>(units, 4 * int64_t{pool_.threads()});
  auto* scratch = reinterpret_cast<PromptScratch*>(prompt_scratch_.data());
  pool_.parallel_for(token_blocks * parts, [&](int64_t task, int worker) {
    const int64_t part = task % parts;
    const int64_t token = task / parts * per_block;
    if (token >= tokens) return;
    prompt_.matmul(args, units * part / parts, units * (part + 1) / parts, token,
                   std::min(token + per_block, tokens), scratch[worker]);
  });
}

Tensor CpuBackend::linear(const Tensor& x, const Weight& w, const Tensor& residual, float scale) {
  INVARIANT(!storage(w).gated);
  Epilogue epilogue;
  epilogue.scale = scale;
  if (residual) {
    INVARIANT(residual.rows == x.rows && residual.cols == w.rows);
    epilogue.residual = activations(residual).floats;
  }
  return matmul(x, w, epilogue, w.rows);
}

Tensor CpuBackend::linear_act(const Tensor& x, const Weight& w, Activation activation) {
  Epilogue epilogue;
  epilogue.has_activation = true;
  epilogue.activation = activation;
  return matmul(x, w, epilogue, w.rows);
}

Tensor CpuBackend::gate_up(const Tensor& x, const Weight& w, Activation activation) {
  INVARIANT(storage(w).gated);
  Epilogue epilogue;
  epilogue.gated = true;
  epilogue.activation = activation;
  return matmul(x, w, epilogue, w.rows / 2);
}

Tensor CpuBackend::head(const Tensor& x, const Weight& w, float scale, float softcap) {
  Epilogue epilogue;
  epilogue.scale = scale;
  epilogue.softcap = softcap;
  return matmul(x, w, epilogue, w.rows);
}

// --- Rows --------------------------------------------------------------------------

Tensor CpuBackend::embed(const Weight& table, float scale, const Step& step) {
  const CpuWeight& weight = storage(table);
  const int64_t n = step.n_tokens();
  Tensor x = make_tensor(n, table.cols);
  activations(x).per_token = true;
  float* out = activations(x).floats;
  std::vector<int32_t> ids(step.tokens.begin(), step.tokens.end());
  for (const int32_t token : step.embedding_token) ids[token] = 0;
  for (const int32_t id : ids) {
    if (id >= 0 && id < table.rows) continue;
    throw Error(ErrorCode::kInvalid, "[embed] token id must be from 0 to " +
                                         std::to_string(table.rows - 1) + ", got " +
                                         std::to_string(id));
  }
  for_rows(n, n * table.cols * 4, [&](int64_t begin, int64_t end, int) {
    for (int64_t t = begin; t < end; t++) {
      const int64_t row = ids[t];
      size_t s = 0;
      while (row >= weight.segments[s].first_row + weight.segments[s].rows) s++;
      const Segment& segment = weight.segments[s];
      const int64_t within = row - segment.first_row;
      unpack_row(segment.format, segment.tile(within / kTileRows),
                 static_cast<int>(within % kTileRows), out + t * table.cols);
    }
  });
  for (size_t i = 0; i < step.embedding_token.size(); i++) {
    std::memcpy(out + step.embedding_token[i] * table.cols, step.embeddings.data() + i * table.cols,
                table.cols * sizeof(float));
  }
  if (scale != 1.0f) {
    for (int64_t i = 0; i < n * table.cols; i++) out[i] *= scale;
  }
  return x;
}

Tensor CpuBackend::norm(const Tensor& x, const Weight& w, const NormOptions& options,
                        const Weight& bias) {
  INVARIANT(w.cols == x.cols && (!bias || bias.cols == x.cols));
  Tensor y = make_tensor(x, x.cols);
  NormArgs args;
  args.x = activations(x).floats;
  args.out = activations(y).floats;
  args.columns = x.cols;
  args.weight = vector_or_null(w);
  args.bias = vector_or_null(bias);
  args.eps = options.eps;
  args.layer_norm = options.layer_norm;
  for_rows(x.rows, x.rows * x.cols,
           [&](int64_t begin, int64_t end, int) { rows_.norm(args, begin, end); });
  return y;
}

Tensor CpuBackend::elementwise(ElementwiseArgs args, const Tensor& x) {
  Tensor y = make_tensor(x, x.cols);
  args.a = activations(x).floats;
  args.out = activations(y).floats;
  for_rows(x.rows, x.rows * x.cols, [&](int64_t begin, int64_t end, int) {
    rows_.elementwise(args, begin * x.cols, end * x.cols);
  });
  return y;
}

Tensor CpuBackend::add(const Tensor& a, const Tensor& b) {
  INVARIANT(a.rows == b.rows && a.cols == b.cols);
  ElementwiseArgs args;
  args.op = Elementwise::kAdd;
  args.b = activations(b).floats;
  return elementwise(args, a);
}

Tensor CpuBackend::multiply(const Tensor& a, const Tensor& b) {
  INVARIANT(a.rows == b.rows && (a.cols == b.cols || b.cols == 1));
  if (b.cols != a.cols) return multiply_rows(a, b);
  ElementwiseArgs args;
  args.op = Elementwise::kMultiply;
  args.b = activations(b).floats;
  return elementwise(args, a);
}

Tensor CpuBackend::multiply_rows(const Tensor& x, const Tensor& factors) {
  Tensor y = make_tensor(x.rows, x.cols);
  for_rows(x.rows, x.rows * x.cols, [&](int64_t begin, int64_t end, int) {
    for (int64_t t = begin; t < end; t++) {
      ElementwiseArgs args;
      args.op = Elementwise::kScale;
      args.a = activations(x).floats + t * x.cols;
      args.factor = activations(factors).floats[t];
      args.out = activations(y).floats + t * x.cols;
      rows_.elementwise(args, 0, x.cols);
    }
  });
  return y;
}

Tensor CpuBackend::scale(const Tensor& x, float factor) {
  ElementwiseArgs args;
  args.op = Elementwise::kScale;
  args.factor = factor;
  return elementwise(args, x);
}

Tensor CpuBackend::activate(const Tensor& x, Activation activation) {
  ElementwiseArgs args;
  args.op = Elementwise::kActivate;
  args.activation = activation;
  return elementwise(args, x);
}

Tensor CpuBackend::columns(const Tensor& x, int64_t begin, int64_t end) {
  INVARIANT(begin >= 0 && begin <= end && end <= x.cols);
  Tensor y = make_tensor(x, end - begin);
  for (int64_t t = 0; t < x.rows; t++) {
    std::memcpy(activations(y).floats + t * y.cols, activations(x).floats + t * x.cols + begin,
                y.cols * sizeof(float));
  }
  return y;
}

Tensor CpuBackend::select_outputs(const Tensor& x, const Step& step) {
  Tensor y = make_tensor(static_cast<int64_t>(step.outputs.size()), x.cols);
  for (int64_t i = 0; i < y.rows; i++) {
    std::memcpy(activations(y).floats + i * y.cols,
                activations(x).floats + step.outputs[i] * x.cols, y.cols * sizeof(float));
  }
  return y;
}

std::span<const float> CpuBackend::read(const Tensor& x) {
  return {activations(x).floats, static_cast<size_t>(x.rows * x.cols)};
}

}  // namespace cpu
}  // namespace tandem
