"""GET /metrics as Prometheus reads it."""
from prometheus_client.parser import text_string_to_metric_families

COMPLETION = {"prompt": "One two three", "max_tokens": 5, "temperature": 0, "ignore_eos": True}


def scrape(http):
    reply = http.get("/metrics")
    assert reply.status_code == 200
    assert reply.headers["content-type"].startswith("text/plain; version=0.0.4")
    samples = {}
    for family in text_string_to_metric_families(reply.text):
        assert family.documentation
        for sample in family.samples:
            rest = {k: v for k, v in sample.labels.items() if k != "model_name"}
            assert sample.labels["model_name"]
            samples[sample.name, tuple(sorted(rest.items()))] = sample.value
    return samples


def test_one_request_moves_counters_and_histograms_by_what_it_did(http):
    before = scrape(http)
    usage = http.post("/v1/completions", json=COMPLETION).json()["usage"]
    after = scrape(http)

    def grown(name, *labels):
        return after[name, labels] - before[name, labels]

    assert grown("tandem:generation_tokens_total") == 5
    assert grown("tandem:request_success_total", ("finished_reason", "length")) == 1
    assert grown("tandem:request_prompt_tokens_sum") == usage["prompt_tokens"]
    assert grown("tandem:request_generation_tokens_sum") == 5
    for name in ("time_to_first_token_seconds", "e2e_request_latency_seconds",
                 "request_queue_time_seconds", "request_prefill_time_seconds",
                 "request_decode_time_seconds"):
        assert grown(f"tandem:{name}_count") == 1
    assert grown("tandem:inter_token_latency_seconds_count") == 4
    assert after["tandem:ready", ()] == 1


def test_errors_are_counted_by_status(http):
    assert http.get("/no/such/path").status_code == 404
    before = scrape(http)["tandem:http_errors_total", (("status", "404"),)]
    http.get("/no/such/path")
    assert scrape(http)["tandem:http_errors_total", (("status", "404"),)] == before + 1
