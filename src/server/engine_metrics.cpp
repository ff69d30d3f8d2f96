// The engine's part of GET /metrics. Names follow vLLM's, so that its dashboards
// need another prefix only.
#include "server/engine_model.h"

namespace tandem::server {
namespace {

void write_gauges(const EngineStats& now, bool ready, MetricsText& out) {
  out.gauge("ready", "1 when requests can be answered.", ready ? 1 : 0);
  out.gauge("num_requests_running", "Requests in the batch.", now.active_rows);
  out.gauge("num_requests_waiting", "Requests that wait for a place in the batch.",
            now.waiting_rows);
  out.gauge("num_requests_paused", "Requests in the batch whose readers are behind.",
            now.paused_rows);
  const auto total = static_cast<double>(now.kv_bytes_total);
  const auto used = static_cast<double>(now.kv_bytes_used);
  out.gauge("kv_cache_usage_perc", "Share of the cache in use, 1 = all.",
            total > 0 ? used / total : 0);
  out.gauge("kv_cache_bytes", "Bytes of cache pages in use.", used);
  out.gauge("kv_cache_bytes_max", "Bytes that cache pages may take.", total);
  out.gauge("weight_bytes", "Bytes of the model's weights.", static_cast<double>(now.weight_bytes));
}

void write_counters(const EngineStats& now, MetricsText& out) {
  out.counter("prompt_tokens", "Prompt tokens computed.", static_cast<double>(now.prompt_tokens));
  out.counter("generation_tokens", "Tokens generated.", static_cast<double>(now.generated_tokens));
  out.counter("engine_steps", "Forward passes.", static_cast<double>(now.steps));
  out.counter("requests_refused", "Requests refused before they were queued.",
              static_cast<double>(now.refused));
  out.counter("num_preemptions", "Rows that had to give their pages back for a while.",
              static_cast<double>(now.preemptions));
  out.counter_head("request_success", "Requests that ended, by reason.");
  const std::pair<FinishReason, int64_t> ends[] = {
      {FinishReason::kStop, now.finished_stop},
      {FinishReason::kLength, now.finished_length},
      {FinishReason::kCancelled, now.finished_cancelled},
      {FinishReason::kError, now.finished_error}};
  for (const auto& [reason, count] : ends) {
    out.counter_one("request_success", "finished_reason", finish_reason_name(reason),
                    static_cast<double>(count));
  }
}

void write_latency(const Latency& latency, MetricsText& out) {
  out.histogram("time_to_first_token_seconds", "From submission to the first token.",
                latency.time_to_first_token);
  out.histogram("inter_token_latency_seconds", "Between tokens of one request.",
                latency.inter_token);
  out.histogram("e2e_request_latency_seconds", "From submission to the end.", latency.end_to_end);
  out.histogram("request_queue_time_seconds", "Waiting for a place in the batch.", latency.queue);
  out.histogram("request_prefill_time_seconds", "From admission to the first token.",
                latency.prefill);
  out.histogram("request_decode_time_seconds", "From the first token to the end.", latency.decode);
  out.histogram("request_prompt_tokens", "Tokens of the prompt.", latency.prompt_tokens);
  out.histogram("request_generation_tokens", "Tokens generated for a request.",
                latency.generated_tokens);
}

}  // namespace

void EngineModel::write_metrics(MetricsText& out) const {
  const EngineStats now = engine_.stats();
  write_gauges(now, ready(), out);
  write_counters(now, out);
  write_latency(engine_.latency(), out);
}

}  // namespace tandem::server
