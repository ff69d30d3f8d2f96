// The served model as it is: an engine with the tokenizer and template of its card.
#pragma once

#include <optional>

#include "engine/engine.h"
#include "server/served_model.h"

namespace tandem::server {

class EngineModel : public ServedModel {
 public:
  // `engine` is ready and outlives this. `command_line` goes before the
  // defaults of the model's files, `tool_format` before what its template shows.
  EngineModel(Engine& engine, const api::SamplingChoice& command_line,
              std::optional<ToolFormat> tool_format = {});

  const api::ModelFacts& facts() const override { return facts_; }
  bool has_tokenizer() const override { return card_.tokenizer != nullptr; }
  bool has_chat_template() const override { return card_.chat_template != nullptr; }
  std::vector<int32_t> encode(std::string_view text) const override;
  ChatPrompt encode_chat(const std::string& messages, const std::string& variables) const override;
  bool template_knows_tools() const override;
  const OutputFormat& output_format() const override { return format_; }
  const std::vector<int32_t>& marker_ids() const override { return marker_ids_; }
  std::vector<int32_t> encode_marks(std::string_view text) const override;
  std::string token_bytes(int32_t id) const override;
  const Tokenizer* tokenizer_of() const override { return card_.tokenizer.get(); }
  void prepare(const GuideSpec& guide) override;
  std::unique_ptr<Row> submit(Request request, const GuideSpec& guide) override;
  // Not while one step takes so long that the engine must be taken for stuck.
  bool ready() const override;
  api::OrderedJson stats() const override;
  void write_metrics(MetricsText& out) const override;

 private:
  Engine& engine_;
  const ModelCard& card_;
  api::ModelFacts facts_;
  OutputFormat format_;
  std::vector<int32_t> marker_ids_;
  std::unique_ptr<Guides> guides_;  // null without a tokenizer
};

}  // namespace tandem::server
