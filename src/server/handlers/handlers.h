// One function for each route; routes.cpp has the table.
#pragma once

#include "api/openai/chat_request.h"
#include "api/openai/completion_request.h"
#include "server/app.h"

namespace tandem::server {

HttpReply get_health(const HttpRequest& request, App& app);  // the process lives
HttpReply get_ready(const HttpRequest& request, App& app);   // it can answer; 503 otherwise
HttpReply get_stats(const HttpRequest& request, App& app);
HttpReply get_metrics(const HttpRequest& request, App& app);  // Prometheus

HttpReply list_models(const HttpRequest& request, App& app);
HttpReply get_model(const HttpRequest& request, App& app);  // /v1/models/{id}

HttpReply chat_completions(const api::openai::ChatRequest& in, App& app);
HttpReply completions(const api::openai::CompletionRequest& in, App& app);

}  // namespace tandem::server
