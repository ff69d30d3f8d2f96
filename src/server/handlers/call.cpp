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

std::string prepare_guide(GuideSpec& guide, const std::string& param, const std::string& refusal,
                          App& app) {
  try {
    if (!refusal.empty()) throw Error(ErrorCode::kInvalid, refusal, param);
    app.model.prepare(guide);
    return {};
  } catch (const Error& error) {
    const bool can_fall_back =
        error.code() == ErrorCode::kInvalid || error.code() == ErrorCode::kUnsupported;
    if (app.options.grammar_fallback && can_fall_back) {
      guide.kind.reset();
      return error.what();
    }
    // The grammar's compiler knows no field.
    if (!error.param().empty()) throw;
    throw Error(error.code(), param + ": " + error.what(), param);
  }
}

void add_warning(const std::string& why, HttpReply& reply) {
  std::string text = "199 tandem \"not enforced: ";
  for (const char c : why) {
    if (c == '"' || c == '\\')
      text += '\'';
    else
      text += c >= 0x20 && c < 0x7F ? c : ' ';
  }
  reply.headers.emplace_back("Warning", text + '"');
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
    rows.push_back(app.model.submit(std::move(request), choices.guide));
  }
}

}  // namespace tandem::server
