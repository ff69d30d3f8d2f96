#include <algorithm>

#include "api/openai/completion_reply.h"
#include "server/generation.h"
#include "server/handlers/call.h"
#include "server/handlers/handlers.h"
#include "server/random_id.h"

namespace tandem::server {
namespace {

using api::openai::CompletionRequest;
using api::openai::EchoedPrompt;

constexpr size_t kMaxRows = 256;

std::vector<int32_t> prompt_ids(const api::openai::Prompt& prompt, const App& app) {
  if (const auto* ids = std::get_if<std::vector<int32_t>>(&prompt)) return *ids;
  if (!app.model.has_tokenizer())
    throw Error(ErrorCode::kUnsupported,
                "this model has no tokenizer: send the prompt as token ids", "prompt");
  const auto& text = std::get<std::string>(prompt);
  api::check_text_size(text.size(), app.model.facts());
  return app.model.encode(text);
}

std::string echoed_text(const api::openai::Prompt& prompt, const App& app) {
  if (const auto* text = std::get_if<std::string>(&prompt)) return *text;
  std::string text;
  for (int32_t id : std::get<std::vector<int32_t>>(prompt)) text += app.model.token_bytes(id);
  return text;
}

}  // namespace

HttpReply completions(const CompletionRequest& in, App& app) {
  check_model(in.options, app);
  if (in.prompts.size() * in.options.n > kMaxRows)
    throw Error(ErrorCode::kInvalid,
                "prompt: prompts times n make " + std::to_string(in.prompts.size() * in.options.n) +
                    " choices, at most " + std::to_string(kMaxRows) + " are allowed",
                "prompt");
  const uint64_t seed = in.options.seed.value_or(random_u64());
  // A row that generates nothing is one that scores its prompt.
  const int least = in.options.sampling.max_tokens == 0 ? 0 : -1;
  const LogprobsWanted logprobs{.generated = in.logprobs,
                                .prompt = in.echo ? std::max(in.logprobs, least) : -1};
  GuideSpec guide;
  std::string warning;
  if (in.options.form) {
    guide.kind = in.options.form->grammar.kind;
    guide.grammar = in.options.form->grammar.text;
    warning = prepare_guide(guide, in.options.form->param, in.options.form->refusal, app);
  }
  std::vector<std::unique_ptr<Row>> rows;
  std::vector<EchoedPrompt> echoed;
  for (const auto& prompt : in.prompts) {
    auto ids = prompt_ids(prompt, app);
    const EchoedPrompt repeat{.text = in.echo ? echoed_text(prompt, app) : "", .ids = ids};
    echoed.insert(echoed.end(), in.options.n, repeat);
    submit_choices(in.options, std::move(ids),
                   {.builtin_max_tokens = api::openai::kCompletionMaxTokens,
                    .logprobs = logprobs,
                    .seed = seed,
                    .shown_ids = {},
                    .guide = guide},
                   app, rows);
  }
  auto head = make_head("cmpl-", in.options, in.logprobs >= 0, app);
  auto write = in.options.stream ? api::openai::completion_stream : api::openai::completion_reply;
  auto reply = generation_reply(std::move(rows), write(std::move(head), std::move(echoed)));
  if (!warning.empty()) add_warning(warning, reply);
  return reply;
}

}  // namespace tandem::server
