#include "server/engine_model.h"

#include <nlohmann/json.hpp>

#include "api/encode.h"

namespace tandem::server {
namespace {

constexpr double kStepMsMax = 60'000;

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

api::SamplingChoice of_model_files(const GenerationDefaults& defaults) {
  return {.temperature = defaults.temperature,
          .top_p = defaults.top_p,
          .top_k = defaults.top_k,
          .min_p = defaults.min_p,
          .repetition_penalty = defaults.repetition_penalty};
}

}  // namespace

EngineModel::EngineModel(Engine& engine, const api::SamplingChoice& command_line)
    : engine_(engine),
      card_(engine.card()),
      facts_{.id = card_.id,
             .context_length = card_.context_length,
             .vocab_size = static_cast<int>(card_.vocab_size),
             .defaults = command_line.over(of_model_files(card_.defaults))} {}

std::vector<int32_t> EngineModel::encode(std::string_view text) const {
  return api::encode_prompt(*card_.tokenizer, text);
}

std::vector<int32_t> EngineModel::encode_chat(const std::string& messages,
                                              const std::string& variables) const {
  return api::encode_chat(*card_.chat_template, messages, variables);
}

std::string EngineModel::token_bytes(int32_t id) const {
  return card_.tokenizer ? api::token_bytes(*card_.tokenizer, id) : std::string();
}

std::unique_ptr<Row> EngineModel::submit(Request request) {
  return std::make_unique<StreamRow>(engine_.submit(std::move(request)));
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
          {"preemptions", now.preemptions},
          {"last_step_ms", now.last_step_ms},
          {"kv",
           {{"pages_used", now.kv_pages_used},
            {"pages_total", now.kv_pages_total},
            {"bytes_used", now.kv_bytes_used},
            {"bytes_total", now.kv_bytes_total}}},
          {"weight_bytes", now.weight_bytes}};
}

}  // namespace tandem::server
