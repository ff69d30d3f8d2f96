#include <doctest/doctest.h>

#include "server/metrics_text.h"

using namespace tandem;
using namespace tandem::server;

TEST_CASE("a counter is written with its help, its type and the model") {
  MetricsText out("a/b");
  out.counter("prompt_tokens", "Prompt tokens computed.", 12345678901);
  CHECK(out.text() ==
        "# HELP tandem:prompt_tokens_total Prompt tokens computed.\n"
        "# TYPE tandem:prompt_tokens_total counter\n"
        "tandem:prompt_tokens_total{model_name=\"a/b\"} 12345678901\n");
}

TEST_CASE("the buckets of a histogram add up to its count") {
  Histogram histogram({0.1, 1});
  for (const double value : {0.05, 0.5, 0.6, 7.0}) histogram.observe(value);
  MetricsText out("m");
  out.histogram("t_seconds", "T.", histogram);
  CHECK(out.text() ==
        "# HELP tandem:t_seconds T.\n"
        "# TYPE tandem:t_seconds histogram\n"
        "tandem:t_seconds_bucket{model_name=\"m\",le=\"0.1\"} 1\n"
        "tandem:t_seconds_bucket{model_name=\"m\",le=\"1\"} 3\n"
        "tandem:t_seconds_bucket{model_name=\"m\",le=\"+Inf\"} 4\n"
        "tandem:t_seconds_sum{model_name=\"m\"} 8.15\n"
        "tandem:t_seconds_count{model_name=\"m\"} 4\n");
}

TEST_CASE("quotes, backslashes and line ends in a model's name are escaped") {
  MetricsText out("a\"b\\c\nd");
  out.gauge("ready", "R.", 1);
  CHECK(out.text().find("{model_name=\"a\\\"b\\\\c\\nd\"} 1\n") != std::string::npos);
}
