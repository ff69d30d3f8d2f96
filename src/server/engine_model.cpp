#include "server/engine_model.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <span>

#include "api/encode.h"
#include "base/error.h"
#include "text/chat_template.h"
#include "text/tokenizer.h"

namespace tandem::server {
namespace {

constexpr double kStepMsMax = 60'000;
constexpr size_t kPromptEndTokens = 24;  // more than a tag and white space have

class StreamRow : public Row {
 public:
  explicit StreamRow(std::shared_ptr<Stream> stream) : stream_(std::move(stream)) {}
  bool try_next(Event& event) override { return stream_->try_next(event); }
  void set_listener(std::function<void()> listener) override {
    stream_->set_listener(std::move(listener));
  }
  void cancel() override { stream_->cancel(); }

 private:
  std::shared_ptr<Stream> stream_;
};

std::vector<int32_t> control_ids(const std::vector<std::string>& texts,
                                 const Tokenizer& tokenizer) {
  std::vector<int32_t> ids;
  for (const std::string& text : texts)
    if (const auto id = tokenizer.token_to_id(text); id && tokenizer.is_special(*id))
      ids.push_back(*id);
  std::sort(ids.begin(), ids.end());
  return ids;
}

api::SamplingChoice of_model_files(const GenerationDefaults& defaults) {
  return {.temperature = defaults.temperature,
          .top_p = defaults.top_p,
          .top_k = defaults.top_k,
          .min_p = defaults.min_p,
          .repetition_penalty = defaults.repetition_penalty};
}

// How rows share steps, and which could not.
api::OrderedJson batch_stats(const EngineStats& now) {
  api::OrderedJson reasons = api::OrderedJson::object();
  for (size_t i = 0; i < now.serial_reasons.size(); ++i) {
    if (now.serial_reasons[i] > 0)
      reasons[serial_reason_name(static_cast<SerialReason>(i))] = now.serial_reasons[i];
  }
  api::OrderedJson stats = {{"configured", now.max_rows},
                            {"mode", now.batch_mode},
                            {"busy", now.busy},
                            {"locked", now.locked},
                            {"active_rows", now.active_rows},
                            {"pending_rows", now.waiting_rows},
                            {"exclusive_waiting", now.exclusive_waiting},
                            {"submitted_rows", now.submitted_batch},
                            {"submitted_serial", now.submitted_serial},
                            {"serial_reasons", std::move(reasons)},
                            {"preemptions", now.preemptions},
                            {"kv_bytes", now.kv_bytes_projected},
                            {"kv_budget_bytes", now.kv_bytes_total}};
  if (!now.serial_because.empty()) stats["serial_because"] = now.serial_because;
  return stats;
}

api::OrderedJson prompt_cache_stats(const EngineStats& now) {
  return {{"bytes", now.kv_bytes_cached},
          {"blocks", now.prefix.blocks},
          {"queries", now.prefix.queries},
          {"hits", now.prefix.hits},
          {"query_tokens", now.prefix.query_tokens},
          {"hit_tokens", now.prefix.hit_tokens}};
}

api::OrderedJson memory_stats(const LedgerSnapshot& memory) {
  api::OrderedJson stats = {{"budget_bytes", memory.budget_bytes},
                            {"peak_bytes", memory.peak_bytes}};
  for (size_t use = 0; use < kMemoryUses; ++use) {
    stats[std::string(memory_use_name(static_cast<MemoryUse>(use))) + "_bytes"] =
        memory.used_bytes[use];
  }
  return stats;
}

}  // namespace

EngineModel::EngineModel(Engine& engine, const api::SamplingChoice& command_line,
                         std::optional<ToolFormat> tool_format)
    : engine_(engine),
      card_(engine.card()),
      facts_{.id = card_.id,
             .context_length = card_.context_length,
             .vocab_size = static_cast<int>(card_.vocab_size),
             .defaults = command_line.over(of_model_files(card_.defaults))},
      format_(detect_output_format(card_.chat_template ? card_.chat_template->source() : "",
                                   card_.architecture, tool_format)) {
  if (!card_.tokenizer) return;
  guides_ = std::make_unique<Guides>(*card_.tokenizer, card_.stop_ids, card_.vocab_size);
  marker_ids_ = control_ids(marker_texts(format_), *card_.tokenizer);
}

std::vector<int32_t> EngineModel::encode(std::string_view text) const {
  return api::encode_prompt(*card_.tokenizer, text);
}

ChatPrompt EngineModel::encode_chat(const std::string& messages,
                                    const std::string& variables) const {
  ChatPrompt prompt{.ids = api::encode_chat(*card_.chat_template, messages, variables)};
  const std::span<const int32_t> ids = prompt.ids;
  const auto end = ids.last(std::min(ids.size(), kPromptEndTokens));
  const std::string text = card_.tokenizer->decode(end, /*skip_special=*/false);
  prompt.in_reasoning = ends_in_reasoning(format_, text);
  prompt.thinking = prompt.in_reasoning                                       ? Thinking::kBegun
                    : format_.thinks && !ends_behind_reasoning(format_, text) ? Thinking::kMay
                                                                              : Thinking::kNone;
  return prompt;
}

std::vector<int32_t> EngineModel::encode_marks(std::string_view text) const {
  return card_.tokenizer->encode(text, {.parse_special = true, .add_special = false});
}

std::string EngineModel::token_bytes(int32_t id) const {
  return card_.tokenizer ? api::token_bytes(*card_.tokenizer, id) : std::string();
}

bool EngineModel::template_knows_tools() const {
  return card_.chat_template && card_.chat_template->source().find("tools") != std::string::npos;
}

void EngineModel::prepare(const GuideSpec& guide) {
  if (!guide.kind) return;
  if (!guides_)
    throw Error(ErrorCode::kUnsupported,
                "this model has no tokenizer, so no grammar can be enforced");
  guides_->prepare(*guide.kind, guide.grammar);
}

std::unique_ptr<Row> EngineModel::submit(Request request, const GuideSpec& guide) {
  SubmitOptions options;
  if (guide.any() && guides_) options.resource = guides_->make(guide);
  return std::make_unique<StreamRow>(engine_.submit(std::move(request), std::move(options)));
}

bool EngineModel::ready() const {
  return engine_.ready() && engine_.stats().running_step_ms < kStepMsMax;
}

api::OrderedJson EngineModel::stats() const {
  const auto now = engine_.stats();
  return {{"backend", card_.backend},
          {"device", card_.device},
          {"precision", precision_name(card_.precision)},
          {"kv_codec", kv_codec_name(card_.kv_codec)},
          {"kv_quant", card_.kv_scheme},
          {"context_length", card_.context_length},
          {"load_ms", card_.load_ms},
          {"ready", now.ready},
          {"draining", now.draining},
          {"active_rows", now.active_rows},
          {"waiting_rows", now.waiting_rows},
          {"paused_rows", now.paused_rows},
          {"max_rows", now.max_rows},
          {"submitted", now.submitted},
          {"refused", now.refused},
          {"finished",
           {{"stop", now.finished_stop},
            {"length", now.finished_length},
            {"cancelled", now.finished_cancelled},
            {"error", now.finished_error}}},
          {"prompt_tokens", now.prompt_tokens},
          {"generated_tokens", now.generated_tokens},
          {"steps", now.steps},
          {"last_step_ms", now.last_step_ms},
          {"kv",
           {{"pages_used", now.kv_pages_used},
            {"pages_cached", now.kv_pages_cached},
            {"pages_total", now.kv_pages_total},
            {"bytes_used", now.kv_bytes_used},
            {"bytes_total", now.kv_bytes_total}}},
          {"batch", batch_stats(now)},
          {"prompt_cache", prompt_cache_stats(now)},
          {"memory", memory_stats(now.memory)},
          {"weight_bytes", now.weight_bytes}};
}

}  // namespace tandem::server
