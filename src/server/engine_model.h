// The served model as it is: an engine with the tokenizer and template of its card.
#pragma once

#include "engine/engine.h"
#include "server/served_model.h"

namespace tandem::server {

class EngineModel : public ServedModel {
 public:
  // `engine` is ready and outlives this. `command_line` goes before the
  // defaults of the model's files.
  EngineModel(Engine& engine, const api::SamplingChoice& command_line);

  const api::ModelFacts& facts() const override { return facts_; }
  bool has_tokenizer() const override { return card_.tokenizer != nullptr; }
  bool has_chat_template() const override { return card_.chat_template != nullptr; }
  std::vector<int32_t> encode(std::string_view text) const override;
  std::vector<int32_t> encode_chat(const std::string& messages,
                                   const std::string& variables) const override;
  std::string token_bytes(int32_t id) const override;
  std::unique_ptr<Row> submit(Request request) override;
  // Not while one step takes so long that the engine must be taken for stuck.
  bool ready() const override;
  api::OrderedJson stats() const override;
  void write_metrics(MetricsText& out) const override;

 private:
  Engine& engine_;
  const ModelCard& card_;
  api::ModelFacts facts_;
};

}  // namespace tandem::server
