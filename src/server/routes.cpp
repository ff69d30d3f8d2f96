#include "server/routes.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "api/errors.h"
#include "base/json.h"
#include "server/api_key.h"
#include "server/handlers/handlers.h"
#include "server/log.h"

namespace tandem::server {
namespace {

using RunRoute = HttpReply (*)(const HttpRequest&, App&);

enum class Needs : uint8_t { kNothing, kKey, kKeyAndService };

struct Route {
  std::string_view method;
  std::string_view path;  // a trailing * stands for any rest
  Needs needs;
  RunRoute run;
};

// A handler that gets its body parsed.
template <auto parse, auto handler>
HttpReply with_body(const HttpRequest& request, App& app) {
  const auto in = parse(parse_ordered_json(request.body, {}, "the request body"));
  if (!in.unknown_fields.empty()) log_unknown_fields(request.id, in.unknown_fields);
  return handler(in, app);
}

constexpr Route kRoutes[] = {
    {"GET", "/health", Needs::kNothing, get_health},
    {"GET", "/ready", Needs::kNothing, get_ready},
    {"GET", "/stats", Needs::kKey, get_stats},
    {"GET", "/metrics", Needs::kKey, get_metrics},
    {"GET", "/v1/models", Needs::kKey, list_models},
    {"GET", "/v1/models/*", Needs::kKey, get_model},
    {"POST", "/v1/chat/completions", Needs::kKeyAndService,
     with_body<api::openai::parse_chat_request, chat_completions>},
    {"POST", "/v1/completions", Needs::kKeyAndService,
     with_body<api::openai::parse_completion_request, completions>},
};

bool matches(const Route& route, std::string_view path) {
  if (!route.path.ends_with('*')) return path == route.path;
  const auto stem = route.path.substr(0, route.path.size() - 1);
  return path.starts_with(stem) && path.size() > stem.size();
}

HttpReply method_not_allowed(const HttpRequest& request, const std::string& allow) {
  HttpReply reply;
  reply.status = 405;
  reply.headers.emplace_back("Allow", allow);
  reply.body = api::openai_error_body(
      request.method + " is not allowed on " + request.path + ", only " + allow,
      "invalid_request_error", "method_not_allowed");
  return reply;
}

HttpReply dispatch(const HttpRequest& request, App& app) {
  const auto method = request.method == "HEAD" ? std::string_view("GET") : request.method;
  std::string allow;
  for (const auto& route : kRoutes) {
    if (!matches(route, request.path)) continue;
    if (route.method == method) {
      if (route.needs != Needs::kNothing) check_api_key(request, app.options.api_key);
      if (route.needs == Needs::kKeyAndService && app.draining)
        throw Error(ErrorCode::kUnavailable, "the server is shutting down");
      return route.run(request, app);
    }
    if (!allow.empty()) allow += ", ";
    allow += route.method == "GET" ? "GET, HEAD" : route.method;
  }
  if (!allow.empty()) return method_not_allowed(request, allow);
  check_api_key(request, app.options.api_key);
  throw Error(ErrorCode::kNotFound, "no such path: " + request.method + " " + request.path);
}

}  // namespace

HttpReply answer(const HttpRequest& request, App& app) noexcept {
  ++app.requests;
  HttpReply reply;
  try {
    reply = dispatch(request, app);
  } catch (const Error& error) {
    reply = error_reply(error);
  } catch (const std::exception& error) {
    log_bug(request.id, error.what());
    reply = error_reply(Error(ErrorCode::kInternal, "internal error; the log has more"));
  }
  if (reply.status >= kFirstErrorStatus) ++app.errors.at(reply.status - kFirstErrorStatus);
  if (app.draining) reply.close = true;
  return reply;
}

}  // namespace tandem::server
