// Writes metrics in Prometheus' text format (version 0.0.4), each labelled with
// the model alone and what tells series of one name apart.
// Source: https://prometheus.io/docs/instrumenting/exposition_formats/
#pragma once

#include <string>
#include <string_view>

#include "base/histogram.h"

namespace tandem::server {

class MetricsText {
 public:
  explicit MetricsText(std::string_view model);

  // `name` without prefix and, for counters, without "_total".
  void gauge(std::string_view name, std::string_view help, double value);
  void counter(std::string_view name, std::string_view help, double value);
  void histogram(std::string_view name, std::string_view help, const Histogram& histogram);
  // A counter of several series: head() once, then one() for each value of `label`.
  void counter_head(std::string_view name, std::string_view help);
  void counter_one(std::string_view name, std::string_view label, std::string_view label_value,
                   double value);

  const std::string& text() const { return text_; }

 private:
  void head(std::string_view name, std::string_view help, std::string_view type);
  void sample(std::string_view name, std::string_view suffix, std::string_view more_labels,
              double value);

  std::string model_label_;
  std::string text_;
};

}  // namespace tandem::server
