#include <nlohmann/json.hpp>

#include "api/json_text.h"
#include "server/handlers/handlers.h"

namespace tandem::server {
namespace {

using api::OrderedJson;

OrderedJson model_json(const App& app) {
  const auto& facts = app.model.facts();
  return {{"id", facts.id},
          {"object", "model"},
          {"created", app.started},
          {"owned_by", "tandem"},
          {"context_window", facts.context_length}};
}

}  // namespace

HttpReply list_models(const HttpRequest&, App& app) {
  const OrderedJson list = {{"object", "list"}, {"data", OrderedJson::array({model_json(app)})}};
  return {.body = api::to_text(list)};
}

HttpReply get_model(const HttpRequest& request, App& app) {
  const auto id = request.path.substr(std::string_view("/v1/models/").size());
  if (id != app.model.facts().id)
    throw Error(ErrorCode::kNotFound,
                "the model \"" + id + "\" is not served here; \"" + app.model.facts().id + "\" is",
                "model");
  return {.body = api::to_text(model_json(app))};
}

}  // namespace tandem::server
