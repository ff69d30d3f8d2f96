#include "api/openai/chat_reply.h"
#include "server/generation.h"
#include "server/handlers/call.h"
#include "server/handlers/handlers.h"
#include "server/random_id.h"

namespace tandem::server {
namespace {

void check_can_chat(const App& app) {
  const char* missing = !app.model.has_tokenizer()       ? "no tokenizer"
                        : !app.model.has_chat_template() ? "no chat template"
                                                         : nullptr;
  if (missing)
    throw Error(ErrorCode::kUnsupported,
                std::string("this model has ") + missing + ": use /v1/completions" +
                    (app.model.has_tokenizer() ? ", or serve with --chat-template FILE"
                                               : " with token ids as prompt"),
                "messages");
}

api::openai::ChatOutput output_of(const api::openai::ChatRequest& in, const ChatPrompt& prompt,
                                  const App& app) {
  return {.parser = {.format = app.model.output_format(),
                     .tools = api::tool_set(in.tools),
                     .in_reasoning = prompt.in_reasoning},
          .include_reasoning = in.include_reasoning,
          .new_call_id = [] { return "call_" + random_hex(); }};
}

}  // namespace

HttpReply chat_completions(const api::openai::ChatRequest& in, App& app) {
  check_model(in.options, app);
  check_can_chat(app);
  api::check_text_size(in.messages.size(), app.model.facts());
  auto prompt = app.model.encode_chat(in.messages, in.template_variables);
  auto output = output_of(in, prompt, app);
  std::vector<std::unique_ptr<Row>> rows;
  submit_choices(in.options, std::move(prompt.ids),
                 {.builtin_max_tokens = 0,
                  .logprobs = {.generated = in.logprobs},
                  .seed = in.options.seed.value_or(random_u64()),
                  .shown_ids = app.model.marker_ids()},
                 app, rows);
  auto head = make_head("chatcmpl-", in.options, in.logprobs >= 0, app);
  auto write = in.options.stream ? api::openai::chat_stream : api::openai::chat_reply;
  return generation_reply(std::move(rows), write(std::move(head), in.options.n, std::move(output)));
}

}  // namespace tandem::server
