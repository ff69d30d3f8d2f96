#include <CLI/CLI.hpp>
#include <iostream>
#include <nlohmann/json.hpp>

#include "api/json_text.h"
#include "api/messages.h"
#include "base/error.h"
#include "cli/commands.h"
#include "cli/model_options.h"
#include "cli/signals.h"
#include "engine/engine.h"
#include "server/engine_model.h"
#include "server/random_id.h"

namespace tandem::cli {
namespace {

using api::OrderedJson;

constexpr const char* kExamples = R"(
Examples:
  tandem generate --prompt "Why is the sky blue?"
  tandem generate model.gguf --prompt "Once upon a time" --raw --max-tokens 50
  tandem generate --prompt - --temperature 0 < question.txt
  tandem generate --prompt "Hi" --json            one JSON object with text and token counts

The prompt is one user message in the model's chat template; --raw, or a model without a
template, continues the text as it stands. Ctrl-C ends the answer (exit status 130).)";

struct GenerateOptions {
  LoadOptions load;
  api::SamplingChoice sampling;
  std::string prompt;
  std::string system;
  std::optional<uint64_t> seed;
  std::vector<std::string> stop;
  bool raw = false;
  bool json = false;
};

std::vector<int32_t> prompt_ids(const GenerateOptions& options, const server::EngineModel& model) {
  if (!model.has_tokenizer())
    throw Error(ErrorCode::kUnsupported,
                "this model has no tokenizer, so that it cannot read text: serve it, and send "
                "token ids");
  auto text = options.prompt;
  if (text == "-") text.assign(std::istreambuf_iterator<char>(std::cin), {});
  if (options.raw || !model.has_chat_template()) return model.encode(text);
  auto messages = api::Json::array();
  if (!options.system.empty())
    messages.push_back({{"role", "system"}, {"content", options.system}});
  messages.push_back({{"role", "user"}, {"content", text}});
  return model.encode_chat(api::normalise_messages(messages, "messages"), "{}").ids;
}

struct Answer {
  std::string text;
  FinishReason finish = FinishReason::kNone;
  Usage usage;
};

// Reads the row to its end, writing text as it comes unless it is kept for JSON.
Answer read_answer(Stream& stream, bool print) {
  Answer answer;
  Event event;
  while (stream.next(event)) {
    if (print)
      std::cout << event.text << std::flush;
    else
      answer.text += event.text;
    if (event.finish == FinishReason::kError)
      throw Error(static_cast<ErrorCode>(event.error_code), event.error);
    if (event.finish == FinishReason::kNone) continue;
    answer.finish = event.finish;
    answer.usage = event.usage;
  }
  return answer;
}

void print_json(const Answer& answer, uint64_t seed, const std::string& model) {
  const OrderedJson out = {{"model", model},
                           {"text", answer.text},
                           {"finish_reason", finish_reason_name(answer.finish)},
                           {"seed", seed},
                           {"usage",
                            {{"prompt_tokens", answer.usage.prompt_tokens},
                             {"completion_tokens", answer.usage.generated_tokens}}},
                           {"prefill_ms", answer.usage.prefill_ms},
                           {"decode_ms", answer.usage.decode_ms}};
  std::cout << api::to_text(out);
}

int generate(GenerateOptions& options) {
  StopSignals signals;
  options.load.max_rows = 1;
  EngineOptions engine_options;
  engine_options.max_rows = 1;
  Engine engine(engine_options, [&options] { return load_model(options.load); });
  engine.wait_ready();
  server::EngineModel model(engine, options.sampling);
  api::CallOptions call;
  call.stop = options.stop;
  const uint64_t seed = options.seed.value_or(server::random_u64() >> 1);
  const auto stream =
      engine.submit(api::make_request(call, model.facts(), prompt_ids(options, model), 0, seed, 0));
  signals.on_stop([&stream] { stream->cancel(); });
  signals.set_patient();
  const auto answer = read_answer(*stream, !options.json);
  signals.on_stop({});
  if (options.json) print_json(answer, seed, model.facts().id);
  std::cout << '\n' << std::flush;
  return signals.received() ? 128 + signals.received() : 0;
}

}  // namespace

Command add_generate(CLI::App& app) {
  auto options = std::make_shared<GenerateOptions>();
  add_model_options(app, options->load);
  app.add_option("--prompt", options->prompt, "the text to answer; - reads standard input")
      ->required()
      ->type_name("TEXT");
  app.add_option("--system", options->system, "a system message before it")->type_name("TEXT");
  add_sampling_options(app, options->sampling);
  app.add_option("--seed", options->seed, "the same seed gives the same answer")->type_name("S");
  app.add_option("--stop", options->stop, "end the answer before this text; may be repeated")
      ->type_name("TEXT")
      ->expected(1)
      ->take_all();
  app.add_option("--chat-template", options->load.chat_template_file,
                 "a Jinja file in place of the model's own template")
      ->check(CLI::ExistingFile)
      ->type_name("FILE");
  app.add_flag("--raw", options->raw, "no chat template: continue the text");
  app.add_flag("--json", options->json, "print one JSON object at the end");
  app.footer(kExamples);
  return [options] { return generate(*options); };
}

}  // namespace tandem::cli
