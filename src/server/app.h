// What every handler may use.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <string>

#include "server/http.h"
#include "server/served_model.h"

namespace tandem::server {

struct AppOptions {
  std::string api_key;  // empty = open
  // What can't be enforced is asked for in the prompt, in place of an error.
  bool grammar_fallback = false;
  bool strict_model = false;  // a request for another model is 404
};

inline constexpr int kFirstErrorStatus = 400;

struct App {
  ServedModel& model;
  AppOptions options;
  int64_t started = 0;  // unix seconds

  std::atomic<bool> draining = false;
  std::atomic<int64_t> requests = 0;  // since the start
  // Replies with an error, from status kFirstErrorStatus on.
  std::array<std::atomic<int64_t>, 200> errors = {};

  int64_t all_errors() const {
    int64_t sum = 0;
    for (const auto& count : errors) sum += count.load(std::memory_order_relaxed);
    return sum;
  }
};

}  // namespace tandem::server
