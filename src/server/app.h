// What every handler may use.
#pragma once

#include <atomic>
#include <chrono>
#include <string>

#include "server/http.h"
#include "server/served_model.h"

namespace tandem::server {

struct AppOptions {
  std::string api_key;        // empty = open
  bool strict_model = false;  // a request for another model is 404
};

struct App {
  ServedModel& model;
  AppOptions options;
  int64_t started = 0;  // unix seconds

  std::atomic<bool> draining = false;
  std::atomic<int64_t> requests = 0;  // since the start
  std::atomic<int64_t> errors = 0;    // answered with 4xx or 5xx
};

}  // namespace tandem::server
