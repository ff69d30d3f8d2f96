#include "engine/load_model.h"

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "base/error.h"
#include "engine/memory.h"
#include "engine/memory_plan.h"
#include "models/load/checkpoint.h"
#include "models/registry.h"
#include "text/chat_template.h"
#include "text/tokenizer.h"

namespace tandem {

namespace {

std::unique_ptr<Backend> make_backend(const LoadOptions& options) {
  const BackendOptions backend{.precision = options.precision, .threads = options.threads};
  if (options.backend == BackendKind::kCpu) return make_cpu_backend(backend);
#ifdef TANDEM_MLX
  return make_mlx_backend(backend);
#else
  throw Error(ErrorCode::kUnsupported, "this build has no mlx backend; use the cpu backend",
              "backend");
#endif
}

GgufVocab vocab_of(const GgufTokenizer& from, const std::string& architecture) {
  return {.model = from.model,
          .pre = from.pre,
          .architecture = architecture,
          .tokens = from.tokens,
          .scores = from.scores,
          .token_types = from.token_types,
          .merges = from.merges,
          .bos_id = from.bos_id,
          .eos_id = from.eos_id,
          .eot_id = from.eot_id,
          .unknown_id = from.unknown_id,
          .padding_id = from.padding_id,
          .add_bos = from.add_bos,
          .add_eos = from.add_eos,
          .add_space_prefix = from.add_space_prefix,
          .chat_template = from.chat_template};
}

// Null when the checkpoint has none.
std::shared_ptr<const Tokenizer> make_tokenizer(const Checkpoint& checkpoint,
                                                const std::string& architecture) {
  const GgufTokenizer* gguf = checkpoint.gguf_tokenizer();
  if (gguf && !gguf->tokens.empty()) {
    return std::make_shared<const Tokenizer>(Tokenizer::from_gguf(vocab_of(*gguf, architecture)));
  }
  const std::string json = checkpoint.tokenizer_json();
  if (json.empty()) return nullptr;
  return std::make_shared<const Tokenizer>(
      Tokenizer::from_json(json, checkpoint.tokenizer_config_json()));
}

std::string read_file(const std::string& path) {
  std::ifstream file(path);
  std::ostringstream text;
  if (!(text << file.rdbuf())) {
    throw Error(ErrorCode::kLoad, path + ": the chat template can't be read, or is empty",
                "chat_template");
  }
  return text.str();
}

// The file that was asked for, or the model's own; null when there is none.
std::shared_ptr<const ChatTemplate> make_chat_template(
    const LoadOptions& options, const Checkpoint& checkpoint,
    const std::shared_ptr<const Tokenizer>& tokenizer) {
  if (!tokenizer) return nullptr;
  const bool given = !options.chat_template_file.empty();
  std::string source = given ? read_file(options.chat_template_file) : checkpoint.chat_template();
  if (source.empty()) source = tokenizer->chat_template();
  if (source.empty()) return nullptr;
  try {
    // The template refers to the tokenizer: the deleter keeps it alive.
    return {new ChatTemplate(source, *tokenizer),
            [tokenizer](const ChatTemplate* done) { delete done; }};
  } catch (const Error& error) {
    throw Error(ErrorCode::kLoad, (given ? options.chat_template_file : checkpoint.path()) +
                                      ": chat template: " + error.what() +
                                      (given ? "" : "; another can be given as a file"));
  }
}

// A value is used only if it is a number within the range of the parameter.
std::optional<float> number(const nlohmann::json& config, const char* key, float low, float high) {
  const auto it = config.find(key);
  if (it == config.end() || !it->is_number()) return std::nullopt;
  const float value = it->get<float>();
  return value >= low && value <= high ? std::optional(value) : std::nullopt;
}

GenerationDefaults defaults_of(const nlohmann::json& config) {
  GenerationDefaults defaults;
  if (!config.is_object()) return defaults;
  defaults.temperature = number(config, "temperature", 0, 100);
  defaults.top_p = number(config, "top_p", 1e-6f, 1);
  defaults.min_p = number(config, "min_p", 0, 1);
  defaults.repetition_penalty = number(config, "repetition_penalty", 1e-3f, 100);
  if (const auto top_k = number(config, "top_k", 0, 1e7f)) {
    defaults.top_k = static_cast<int>(*top_k);
  }
  const auto do_sample = config.find("do_sample");
  if (do_sample != config.end() && *do_sample == false) defaults.temperature = 0;
  return defaults;
}

// eos_token_id of generation_config.json: an id or a list of them.
void add_stop_ids(const nlohmann::json& config, std::vector<int32_t>& ids) {
  if (!config.is_object() || !config.contains("eos_token_id")) return;
  const nlohmann::json& value = config["eos_token_id"];
  const auto add = [&ids](const nlohmann::json& id) {
    if (id.is_number_integer()) ids.push_back(id.get<int32_t>());
  };
  if (value.is_array()) {
    for (const auto& id : value) add(id);
  } else {
    add(value);
  }
}

std::vector<int32_t> stop_ids_of(const ModelInfo& info, const nlohmann::json& generation_config,
                                 const Tokenizer* tokenizer) {
  std::vector<int32_t> ids = info.eos_ids;
  add_stop_ids(generation_config, ids);
  if (tokenizer) {
    ids.insert(ids.end(), tokenizer->eos_ids().begin(), tokenizer->eos_ids().end());
  }
  std::erase_if(ids, [&](int32_t id) { return id < 0 || id >= info.vocab_size; });
  std::sort(ids.begin(), ids.end());
  ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
  return ids;
}

int context_of(const LoadOptions& options, const ModelInfo& info) {
  const int64_t made_for = info.max_positions > 0 ? info.max_positions : INT32_MAX;
  if (options.context_length == 0) {
    return static_cast<int>(std::min<int64_t>(made_for, kContextDefault));
  }
  if (options.context_length < 0 || options.context_length > made_for) {
    throw Error(ErrorCode::kInvalid,
                "the context length must be between 1 and " + std::to_string(made_for) +
                    " for this model, got " + std::to_string(options.context_length),
                "context_length");
  }
  return options.context_length;
}

// Before anything large is read: could the weights fit at all?
void check_weights_fit(const Checkpoint& checkpoint, const LoadOptions& options) {
  const int64_t limit = options.memory_budget_bytes > 0
                            ? std::min(options.memory_budget_bytes, available_memory_bytes())
                            : available_memory_bytes();
  if (checkpoint.stored_bytes() <= limit) return;
  throw Error(ErrorCode::kMemory,
              checkpoint.path() + ": the weights take " + bytes_text(checkpoint.stored_bytes()) +
                  ", and " + bytes_text(limit) + " are available" +
                  (options.memory_budget_bytes > 0 ? " within the memory budget" : "") +
                  "; choose a smaller or more quantised model");
}

KvCodec base_codec(Precision precision) {
  return precision == Precision::kExact ? KvCodec::kF32 : KvCodec::kF16;
}

// The folder of the model's files.
std::string folder_of(const Checkpoint& checkpoint) {
  const std::filesystem::path path = checkpoint.path();
  return (std::filesystem::is_directory(path) ? path : path.parent_path()).string();
}

ModelCard describe(const LoadOptions& options, const Checkpoint& checkpoint,
                   const LoadedModel& loaded) {
  const ModelInfo& info = loaded.model->info();
  ModelCard card;
  card.id = options.served_name.empty() ? checkpoint.name() : options.served_name;
  card.path = checkpoint.path();
  card.architecture = info.architecture;
  card.backend = loaded.backend->name();
  card.device = loaded.backend->device();
  card.precision = loaded.backend->precision();
  card.kv_codec = base_codec(card.precision);
  card.kv_scheme = kv_quant_name(options.kv_quant);
  card.vocab_size = info.vocab_size;
  card.layers = info.layers;
  card.max_positions = info.max_positions;
  card.weight_bytes = loaded.backend->weight_bytes();
  card.defaults = defaults_of(checkpoint.generation_config());
  card.tokenizer = make_tokenizer(checkpoint, info.architecture);
  card.chat_template = make_chat_template(options, checkpoint, card.tokenizer);
  card.stop_ids = stop_ids_of(info, checkpoint.generation_config(), card.tokenizer.get());
  const MemoryPlan plan = plan_memory(info, {.weight_bytes = card.weight_bytes,
                                             .budget_bytes = options.memory_budget_bytes,
                                             .kv_budget_bytes = options.kv_budget_bytes,
                                             .available_bytes = available_memory_bytes(),
                                             .context_length = context_of(options, info),
                                             .max_rows = options.max_rows,
                                             .step_tokens = options.step_tokens,
                                             .codec = card.kv_codec});
  card.context_length = plan.context_length;
  card.kv_bytes_max = plan.kv_bytes_max;
  return card;
}

}  // namespace

LoadedModel load_model(const LoadOptions& options) {
  const auto begin = std::chrono::steady_clock::now();
  const std::unique_ptr<Checkpoint> checkpoint = open_checkpoint(options.model);
  check_weights_fit(*checkpoint, options);
  LoadedModel loaded;
  loaded.backend = make_backend(options);
  loaded.model = make_model(*checkpoint, *loaded.backend);
  loaded.model->set_kv_groups(kv_groups_of(loaded.model->info(),
                                           base_codec(loaded.backend->precision()),
                                           options.kv_quant, folder_of(*checkpoint)));
  loaded.card = describe(options, *checkpoint, loaded);
  loaded.card.load_ms =
      std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count();
  return loaded;
}

}  // namespace tandem
