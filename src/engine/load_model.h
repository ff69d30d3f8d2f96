// From a name on the command line to what an engine runs: checkpoint, backend,
// weights, tokenizer, chat template, defaults and the memory check.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "backend/backend.h"
#include "engine/kv_scheme.h"
#include "models/model.h"

namespace tandem {

class ChatTemplate;
class Tokenizer;

enum class BackendKind : uint8_t { kCpu, kMlx };

struct LoadOptions {
  std::string model = "default";  // see open_checkpoint
  BackendKind backend = BackendKind::kCpu;
  Precision precision = Precision::kHigh;
  int threads = 0;                  // 0 = physical cores
  std::string chat_template_file;   // in place of the model's own
  std::string served_name;          // empty = the checkpoint's name
  int context_length = 0;           // 0 = min(max_positions, kContextDefault)
  int max_rows = 16;                // as in EngineOptions: how many rows the cache is for
  int step_tokens = 512;            // same
  int64_t memory_budget_bytes = 0;  // weights and KV; 0 = what is available
  int64_t kv_budget_bytes = 0;      // KV alone, within that; 0 = what max_rows contexts need
  KvQuant kv_quant;                 // how keys and values are kept
};

// Context when none is asked for: long enough for agents, and a bound on what
// one request may reserve.
inline constexpr int kContextDefault = 8192;

// What generation_config.json says; a request and the command line go first. An
// explicit "do_sample": false means greedy. Values out of range are left out.
struct GenerationDefaults {
  std::optional<float> temperature;
  std::optional<float> top_p;
  std::optional<int> top_k;
  std::optional<float> min_p;
  std::optional<float> repetition_penalty;
};

// What any thread may know of a loaded model. Immutable.
struct ModelCard {
  std::string id;  // served name
  std::string path;
  std::string architecture;  // model_type
  std::string backend;       // "cpu", "mlx"
  std::string device;
  Precision precision = Precision::kHigh;
  KvCodec kv_codec = KvCodec::kF16;  // the base codec
  std::string kv_scheme = "off";     // kv_quant_name()
  int64_t vocab_size = 0;
  int64_t layers = 0;
  int64_t max_positions = 0;  // longest context it was made for
  int context_length = 0;     // longest prompt and answer together, as served
  int64_t weight_bytes = 0;
  int64_t kv_bytes_max = 0;  // what the page pools may grow to
  double load_ms = 0;
  GenerationDefaults defaults;
  // Union of config.json, generation_config.json and the tokenizer.
  std::vector<int32_t> stop_ids;
  std::shared_ptr<const Tokenizer> tokenizer;         // null: token ids only
  std::shared_ptr<const ChatTemplate> chat_template;  // null: no chat
};

// Lives and dies on the engine thread (MLX streams belong to a thread).
struct LoadedModel {
  ModelCard card;
  std::unique_ptr<Backend> backend;
  std::unique_ptr<Model> model;  // after the backend: dropped before it
};

// Throws Error(kLoad), Error(kNotFound), Error(kUnsupported) and Error(kMemory);
// the last says what is needed, what there is and which option would fit.
LoadedModel load_model(const LoadOptions& options);

}  // namespace tandem
