#include "server/handlers/call.h"

#include <ctime>

#include "server/random_id.h"

namespace tandem::server {

void check_model(const api::CallOptions& options, const App& app) {
  const auto& served = app.model.facts().id;
  if (!app.options.strict_model || options.model.empty() || options.model == served) return;
  throw Error(ErrorCode::kNotFound,
              "the model \"" + options.model + "\" is not served here; \"" + served + "\" is",
              "model");
}

api::CallHead make_head(const char* prefix, const api::CallOptions& options, bool with_logprobs,
                        const App& app) {
  return {.id = prefix + random_hex(),
          .created = static_cast<int64_t>(std::time(nullptr)),
          .model = app.model.facts().id,
          .choices_per_prompt = options.n,
          .include_usage = options.include_usage,
          .return_token_ids = options.return_token_ids,
          .with_logprobs = with_logprobs,
          .token_bytes = [&model = app.model](int32_t id) { return model.token_bytes(id); }};
}

void submit_choices(const api::CallOptions& options, std::vector<int32_t> prompt,
                    const ChoiceOptions& choices, App& app,
                    std::vector<std::unique_ptr<Row>>& rows) {
  for (int choice = 0; choice < options.n; ++choice) {
    auto request = make_request(options, app.model.facts(), prompt, choice, choices.seed,
                                choices.builtin_max_tokens);
    request.logprobs = choices.logprobs.generated;
    request.prompt_logprobs = choices.logprobs.prompt;
    request.shown_ids = choices.shown_ids;
    try {
      rows.push_back(app.model.submit(std::move(request), choices.guide));
    } catch (const Error& error) {
      // The grammar's compiler knows no field.
      if (!choices.guide.kind || !error.param().empty()) throw;
      if (error.code() != ErrorCode::kInvalid) throw;
      throw Error(error.code(), choices.guide_param + ": " + error.what(), choices.guide_param);
    }
  }
}

}  // namespace tandem::server
