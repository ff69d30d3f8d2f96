#include <CLI/CLI.hpp>
#include <cstdio>
#include <ctime>
#include <iostream>

#include "base/error.h"
#include "cli/commands.h"
#include "cli/model_options.h"
#include "cli/signals.h"
#include "engine/engine.h"
#include "server/engine_model.h"
#include "server/http_server.h"
#include "server/log.h"
#include "server/routes.h"

namespace tandem::cli {
namespace {

constexpr const char* kExamples = R"(
Examples:
  tandem serve                                   the default model on port 8080
  tandem serve ~/models/my.gguf --port 0         on a free port; the ready line tells which
  tandem serve org/name --batch 32 --context-length 16384
  tandem serve --host 0.0.0.0 --api-key SECRET   for other machines
  curl localhost:8080/v1/chat/completions -d '{"messages":[{"role":"user","content":"Hi"}]}'

When it can answer it prints one line: ready http://HOST:PORT model=ID
SIGTERM and SIGINT let running requests finish; a second one ends at once.
Sampling values come from: the request, these flags, the model's generation_config.json,
and last temperature 0.7 with everything else off.)";

constexpr auto kReplyWaitMax = std::chrono::seconds(2);

struct ServeOptions {
  LoadOptions load;
  EngineOptions engine;
  server::HttpOptions http;
  server::AppOptions app;
  api::SamplingChoice sampling;
  std::optional<ToolFormat> tool_format;
  int shutdown_seconds = 30;
  std::string log_level = "info";
};

void add_listen_options(CLI::App& app, ServeOptions& options) {
  app.add_option("--host", options.http.host, "address to listen on (default 127.0.0.1)")
      ->type_name("HOST");
  app.add_option("--port", options.http.port, "port (default 8080), 0 = a free one")
      ->check(CLI::Range(0, 65535))
      ->type_name("PORT");
  app.add_option("--unix", options.http.unix_path, "serve on a Unix socket in place of a port")
      ->type_name("PATH");
  app.add_option("--api-key", options.app.api_key,
                 "ask clients for this key (also from TANDEM_API_KEY)")
      ->envname("TANDEM_API_KEY")
      ->type_name("KEY");
  app.add_option("--shutdown-timeout", options.shutdown_seconds,
                 "seconds that running requests get to finish when stopped (default 30)")
      ->check(CLI::Range(0, 86400))
      ->type_name("S");
  app.add_option("--log-level", options.log_level,
                 "debug, info (default, a line a request), warn, error or off; on stderr")
      ->check(CLI::IsMember({"debug", "info", "warn", "error", "off"}))
      ->type_name("LEVEL");
}

void add_service_options(CLI::App& app, ServeOptions& options) {
  app.add_option("--batch", options.engine.max_rows, "requests computed at once (default 16)")
      ->check(CLI::Range(1, 1024))
      ->type_name("N");
  app.add_option("--prompt-cache", options.engine.prompt_cache_bytes,
                 "bytes that prompts and answers of finished requests may keep of the KV cache, "
                 "for requests that begin alike (default 8GB), 0 = off")
      ->transform(CLI::AsSizeValue(true))
      ->type_name("SIZE");
  app.add_option("--served-model-name", options.load.served_name,
                 "the model's id for clients (default: from its file)")
      ->type_name("NAME");
  app.add_option("--chat-template", options.load.chat_template_file,
                 "a Jinja file in place of the model's own template")
      ->check(CLI::ExistingFile)
      ->type_name("FILE");
  std::vector<std::string> formats;
  for (const ToolFormat format : all_tool_formats()) formats.emplace_back(tool_format_name(format));
  app.add_option_function<std::string>(
         "--tool-format",
         [&options](const std::string& name) { options.tool_format = tool_format_of(name); },
         "how the model writes calls of tools, if its chat template does not show it")
      ->check(CLI::IsMember(formats))
      ->type_name("NAME");
  app.add_option_function<std::string>(
         "--grammar-fallback",
         [&options](const std::string& how) { options.app.grammar_fallback = how == "prompt"; },
         "what a schema or grammar that can't be enforced gets: error (default), or prompt, a "
         "hint to the model and a Warning header")
      ->check(CLI::IsMember({"error", "prompt"}))
      ->type_name("error|prompt");
  app.add_flag("--strict-model", options.app.strict_model,
               "answer 404 when a request names another model");
}

bool is_loopback(const std::string& host) {
  return host == "localhost" || host == "::1" || host.starts_with("127.");
}

void check_exposure(const ServeOptions& options) {
  if (!options.http.unix_path.empty() || is_loopback(options.http.host)) return;
  if (!options.app.api_key.empty()) return;
  throw Error(ErrorCode::kInvalid, "--host " + options.http.host +
                                       " lets other machines in: give --api-key KEY as well, or "
                                       "serve on 127.0.0.1");
}

// Lets running requests finish, ends those that do not, and closes.
void drain(server::App& app, Engine& engine, server::HttpServer& http, int seconds) {
  app.draining = true;
  server::log_info("stopping: running requests get " + std::to_string(seconds) + " s to finish");
  engine.drain(std::chrono::seconds(seconds));
  http.wait_idle(kReplyWaitMax);
  http.stop();
}

void log_loaded(const ModelCard& card) {
  char line[256];
  std::snprintf(line, sizeof line,
                "loaded in %.2f s: %s on %s (%s), %s precision, weights %.0f MB, context %d, "
                "KV cache up to %.0f MB",
                card.load_ms / 1e3, card.architecture.c_str(), card.backend.c_str(),
                card.device.c_str(), precision_name(card.precision),
                static_cast<double>(card.weight_bytes) / 1e6, card.context_length,
                static_cast<double>(card.kv_bytes_max) / 1e6);
  server::log_info(line);
}

int serve(ServeOptions& options) {
  check_exposure(options);
  server::set_log_level(options.log_level);
  StopSignals signals;
  options.load.max_rows = options.engine.max_rows;
  std::unique_ptr<server::App> app;
  // Takes the address before the model loads, which may take long.
  auto http = std::make_unique<server::HttpServer>(
      options.http,
      [&app](const server::HttpRequest& request) { return server::answer(request, *app); });
  Engine engine(options.engine, [&options] { return load_model(options.load); });
  engine.wait_ready();
  server::EngineModel model(engine, options.sampling, options.tool_format);
  app.reset(new server::App{
      .model = model, .options = options.app, .started = static_cast<int64_t>(std::time(nullptr))});
  signals.set_patient();
  http->listen();
  log_loaded(engine.card());
  const std::string why = engine.stats().serial_because;
  if (!why.empty()) server::log_info("requests run one at a time: " + why);
  std::cout << "ready " << http->address() << " model=" << model.facts().id << '\n' << std::flush;
  signals.wait();
  drain(*app, engine, *http, options.shutdown_seconds);
  http.reset();
  return 0;
}

}  // namespace

Command add_serve(CLI::App& app) {
  auto options = std::make_shared<ServeOptions>();
  add_model_options(app, options->load);
  add_listen_options(app, *options);
  add_service_options(app, *options);
  add_sampling_options(app, options->sampling);
  app.footer(kExamples);
  return [options] { return serve(*options); };
}

}  // namespace tandem::cli
