#include "server/metrics_text.h"

#include <cmath>
#include <cstdio>

namespace tandem::server {
namespace {

constexpr std::string_view kPrefix = "tandem:";

std::string escaped(std::string_view value) {
  std::string out;
  for (const char c : value) {
    if (c == '\n') {
      out += "\\n";
      continue;
    }
    if (c == '\\' || c == '"') out += '\\';
    out += c;
  }
  return out;
}

std::string number(double value) {
  char digits[40];
  const bool whole = value == std::floor(value) && std::fabs(value) < 1e15;
  std::snprintf(digits, sizeof digits, whole ? "%.0f" : "%.9g", value);
  return digits;
}

std::string labelled(std::string_view label, std::string_view value) {
  return std::string(label) + "=\"" + escaped(value) + "\"";
}

}  // namespace

MetricsText::MetricsText(std::string_view model) : model_label_(labelled("model_name", model)) {}

void MetricsText::head(std::string_view name, std::string_view help, std::string_view type) {
  for (const auto& [word, rest] : {std::pair("HELP", help), std::pair("TYPE", type)}) {
    text_.append("# ").append(word).append(" ").append(kPrefix).append(name);
    text_.append(" ").append(rest).append("\n");
  }
}

void MetricsText::sample(std::string_view name, std::string_view suffix,
                         std::string_view more_labels, double value) {
  text_.append(kPrefix).append(name).append(suffix).append("{").append(model_label_);
  if (!more_labels.empty()) text_.append(",").append(more_labels);
  text_.append("} ").append(number(value)).append("\n");
}

void MetricsText::gauge(std::string_view name, std::string_view help, double value) {
  head(name, help, "gauge");
  sample(name, "", "", value);
}

void MetricsText::counter(std::string_view name, std::string_view help, double value) {
  counter_head(name, help);
  sample(name, "_total", "", value);
}

void MetricsText::counter_head(std::string_view name, std::string_view help) {
  head(std::string(name) + "_total", help, "counter");
}

void MetricsText::counter_one(std::string_view name, std::string_view label,
                              std::string_view label_value, double value) {
  sample(name, "_total", labelled(label, label_value), value);
}

void MetricsText::histogram(std::string_view name, std::string_view help,
                            const Histogram& histogram) {
  head(name, help, "histogram");
  const auto counts = histogram.counts();
  int64_t below = 0;
  for (size_t i = 0; i < counts.size(); ++i) {
    below += counts[i];
    const bool last = i == histogram.bounds().size();
    const std::string bound = last ? "+Inf" : number(histogram.bounds()[i]);
    sample(name, "_bucket", labelled("le", bound), static_cast<double>(below));
  }
  sample(name, "_sum", "", histogram.sum());
  sample(name, "_count", "", static_cast<double>(below));
}

}  // namespace tandem::server
