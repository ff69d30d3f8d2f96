#include <nlohmann/json.hpp>

#include "api/json_text.h"
#include "server/handlers/handlers.h"

namespace tandem::server {

using api::OrderedJson;

HttpReply get_health(const HttpRequest&, App&) { return {.body = R"({"status": "ok"})"}; }

HttpReply get_ready(const HttpRequest&, App& app) {
  if (app.draining) throw Error(ErrorCode::kUnavailable, "the server is shutting down");
  if (!app.model.ready()) throw Error(ErrorCode::kUnavailable, "the model is not ready");
  return {.body = R"({"status": "ready"})"};
}

HttpReply get_stats(const HttpRequest&, App& app) {
  const OrderedJson stats = {{"server",
                              {{"model", app.model.facts().id},
                               {"started", app.started},
                               {"draining", app.draining.load()},
                               {"requests", app.requests.load()},
                               {"errors", app.all_errors()}}},
                             {"engine", app.model.stats()}};
  return {.body = api::to_text(stats)};
}

}  // namespace tandem::server
