#include "api/sampling_defaults.h"

#include <nlohmann/json.hpp>

namespace tandem::api {
namespace {

std::optional<float> number_in(const Json& config, const char* name, double min, double max) {
  auto it = config.find(name);
  if (it == config.end() || !it->is_number()) return {};
  const double value = it->get<double>();
  if (value < min || value > max) return {};
  return static_cast<float>(value);
}

}  // namespace

SamplingChoice SamplingChoice::over(const SamplingChoice& next) const {
  auto first = [](const auto& a, const auto& b) { return a ? a : b; };
  return {.temperature = first(temperature, next.temperature),
          .top_p = first(top_p, next.top_p),
          .top_k = first(top_k, next.top_k),
          .min_p = first(min_p, next.min_p),
          .repetition_penalty = first(repetition_penalty, next.repetition_penalty),
          .max_tokens = first(max_tokens, next.max_tokens)};
}

SamplingChoice from_generation_config(const Json& config) {
  SamplingChoice choice;
  if (!config.is_object()) return choice;
  choice.temperature = number_in(config, "temperature", 0, 5);
  choice.top_p = number_in(config, "top_p", 1e-6, 1);
  if (auto top_k = number_in(config, "top_k", 0, 1e9)) choice.top_k = static_cast<int>(*top_k);
  choice.min_p = number_in(config, "min_p", 0, 1);
  choice.repetition_penalty = number_in(config, "repetition_penalty", 1e-3, 100);
  auto do_sample = config.find("do_sample");
  if (do_sample != config.end() && do_sample->is_boolean() && !do_sample->get<bool>())
    choice.temperature = 0;
  return choice;
}

}  // namespace tandem::api
