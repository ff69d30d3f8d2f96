#include "server/handlers/handlers.h"
#include "server/metrics_text.h"

namespace tandem::server {

HttpReply get_metrics(const HttpRequest&, App& app) {
  MetricsText out(app.model.facts().id);
  out.counter("http_requests", "HTTP requests received.", static_cast<double>(app.requests.load()));
  out.counter_head("http_errors", "HTTP replies with an error, by status.");
  for (size_t i = 0; i < app.errors.size(); ++i) {
    const auto count = app.errors[i].load(std::memory_order_relaxed);
    if (count == 0) continue;
    out.counter_one("http_errors", "status", std::to_string(kFirstErrorStatus + i),
                    static_cast<double>(count));
  }
  app.model.write_metrics(out);
  return {.content_type = "text/plain; version=0.0.4; charset=utf-8", .body = out.text()};
}

}  // namespace tandem::server
