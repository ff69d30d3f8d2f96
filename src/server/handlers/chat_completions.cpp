#include "api/openai/chat_reply.h"
#include "api/tool_prompt.h"
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

struct Guided {
  GuideSpec spec;
  std::string param;
};

std::vector<CallableTool> callable_tools(const api::ToolOptions& options) {
  const bool must = options.choice != api::ToolChoice::kAuto;
  std::vector<CallableTool> tools;
  for (const auto& tool : options.tools) {
    if (!options.named.empty() && tool.name != options.named) continue;
    tools.push_back({tool.name, tool.parameters, /*checked=*/must || tool.strict});
  }
  return tools;
}

// The grammar of the answer, if there is one to follow.
Guided grammar_of(const api::openai::ChatRequest& in, const ChatPrompt& prompt, const App& app) {
  const auto& format = app.model.output_format();
  const auto* tokenizer = app.model.tokenizer_of();
  const auto& form = in.options.form;
  const bool must_call =
      in.tools.choice == api::ToolChoice::kRequired || in.tools.choice == api::ToolChoice::kNamed;
  const bool calls = in.tools.any() && (must_call || form || api::any_strict(in.tools));
  if (!calls && !form) return {};
  if (!tokenizer) return {.spec = {}, .param = form ? form->param : "tools"};
  const CallRules rules{.text_allowed = !must_call,
                        .several = in.tools.parallel && in.tools.named.empty(),
                        .form = form && !must_call ? std::optional(form->grammar) : std::nullopt};
  const GrammarText grammar =
      calls ? call_grammar(format, prompt.thinking, callable_tools(in.tools), rules, *tokenizer)
            : text_grammar(format, prompt.thinking, form->grammar, *tokenizer);
  return {.spec = {.kind = grammar.kind, .grammar = grammar.text, .thinking = {}},
          .param = calls ? "tools" : form->param};
}

// What is asked for in words when no grammar can see to it.
std::string hint_of(const api::openai::ChatRequest& in) {
  if (!in.options.form) return "Answer with a call of a tool, and nothing else.";
  const auto& grammar = in.options.form->grammar;
  const char* how = grammar.kind == GrammarKind::kJsonSchema ? "with JSON of this schema"
                    : grammar.kind == GrammarKind::kRegex ? "with text of this regular expression"
                                                          : "with text of this grammar";
  return std::string("Answer ") + how + " only, without any other text:\n" + grammar.text;
}

Guided guide_of(const api::openai::ChatRequest& in, const ChatPrompt& prompt, const App& app) {
  Guided guided = grammar_of(in, prompt, app);
  const auto& format = app.model.output_format();
  if (in.thinking_budget && prompt.thinking != Thinking::kNone && !format.think_close.empty())
    guided.spec.thinking = ThinkingLimit{.tokens_max = *in.thinking_budget,
                                         .begun = prompt.in_reasoning,
                                         .open = format.think_open,
                                         .close = format.think_close,
                                         .close_ids = app.model.encode_marks(format.think_close)};
  return guided;
}

}  // namespace

HttpReply chat_completions(const api::openai::ChatRequest& in, App& app) {
  check_model(in.options, app);
  check_can_chat(app);
  api::check_text_size(in.messages.size(), app.model.facts());
  const std::string messages =
      app.model.template_knows_tools() ? in.messages : api::describe_tools(in.messages, in.tools);
  auto prompt = app.model.encode_chat(messages, in.template_variables);
  Guided guided = guide_of(in, prompt, app);
  const std::string refusal = in.options.form ? in.options.form->refusal : "";
  const std::string warning = prepare_guide(guided.spec, guided.param, refusal, app);
  if (!warning.empty())
    prompt = app.model.encode_chat(api::with_hint(messages, hint_of(in)), in.template_variables);
  auto output = output_of(in, prompt, app);
  std::vector<std::unique_ptr<Row>> rows;
  submit_choices(in.options, std::move(prompt.ids),
                 {.builtin_max_tokens = 0,
                  .logprobs = {.generated = in.logprobs},
                  .seed = in.options.seed.value_or(random_u64()),
                  .shown_ids = app.model.marker_ids(),
                  .guide = guided.spec},
                 app, rows);
  auto head = make_head("chatcmpl-", in.options, in.logprobs >= 0, app);
  auto write = in.options.stream ? api::openai::chat_stream : api::openai::chat_reply;
  auto reply =
      generation_reply(std::move(rows), write(std::move(head), in.options.n, std::move(output)));
  if (!warning.empty()) add_warning(warning, reply);
  return reply;
}

}  // namespace tandem::server
