// Real (tiny) models through the whole engine, and what loading them decides.
#include "engine/load_model.h"

#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "helpers.h"
#include "text/chat_template.h"

using namespace tandem;
using namespace tandem::testing;
namespace fs = std::filesystem;

namespace {

const fs::path kTiny = fs::path(TANDEM_GOLDENS) / "tiny";

LoadOptions tiny(const std::string& name, Precision precision = Precision::kExact) {
  const fs::path folder = kTiny / name;
  const bool gguf = fs::exists(folder / "model.gguf");
  return {.model = (gguf ? folder / "model.gguf" : folder).string(),
          .precision = precision,
          .threads = 2};
}

struct Golden {
  Ids prompt, greedy;
};

std::vector<Golden> goldens(const std::string& name) {
  std::ifstream file(kTiny / name / "golden.json");
  std::vector<Golden> result;
  const nlohmann::json content = nlohmann::json::parse(file);
  for (const auto& item : content["cases"]) {
    result.push_back({item["prompt_ids"].get<Ids>(), item["greedy_ids"].get<Ids>()});
  }
  return result;
}

std::unique_ptr<Engine> engine_of(const LoadOptions& load, EngineOptions options = {}) {
  auto result = std::make_unique<Engine>(options, [load] { return load_model(load); });
  result->wait_ready();
  return result;
}

// A copy of the tiny llama that the test may change.
class TemporaryModel {
 public:
  TemporaryModel() : path_(fs::temp_directory_path() / ("tandem_engine_" + unique())) {
    fs::copy(kTiny / "llama", path_);
  }
  ~TemporaryModel() { fs::remove_all(path_); }

  void write(const std::string& name, const nlohmann::json& content) const {
    std::ofstream(path_ / name) << content;
  }
  void write_text(const std::string& name, const std::string& text) const {
    std::ofstream(path_ / name) << text;
  }
  std::string file(const std::string& name) const { return (path_ / name).string(); }
  LoadOptions load() const { return {.model = path_.string(), .threads = 1}; }

 private:
  static std::string unique() {
    return std::to_string(std::chrono::steady_clock::now().time_since_epoch().count());
  }

  fs::path path_;
};

Error load_error(const LoadOptions& options) {
  return error_of([&] { load_model(options); });
}

}  // namespace

TEST_CASE("tiny models give the reference's greedy tokens, all requests at once, in chunks") {
  for (const char* name : {"llama", "mistral", "qwen2", "smollm2-like", "mlx-4bit-g64", "gguf-q4_1",
                           "gguf-q6_k", "gguf-rope-llama3", "mistral-window", "gemma3",
                           "qwen3_next", "qwen3_5", "lfm2", "deepseek_v3"}) {
    CAPTURE(name);
    auto e = engine_of(tiny(name), {.max_rows = 4, .step_tokens = 9});
    std::vector<std::shared_ptr<Stream>> streams;
    const std::vector<Golden> all = goldens(name);
    for (const Golden& golden : all) {
      Request r = request(golden.prompt, static_cast<int>(golden.greedy.size()));
      r.ignore_eos = true;
      streams.push_back(e->submit(r));
    }
    for (size_t i = 0; i < all.size(); ++i) CHECK(collect(*streams[i]).ids == all[i].greedy);
    CHECK(e->stats().kv_pages_used == 0);
  }
}

TEST_CASE("log-probabilities have the same bits alone and in a busy, chunked batch") {
  for (Precision precision : {Precision::kExact, Precision::kHigh, Precision::kFast}) {
    for (const char* name : {"llama-bf16", "gguf-q4_1", "gemma3", "qwen3_next", "deepseek_v3"}) {
      CAPTURE(name);
      const std::vector<Golden> all = goldens(name);
      Request r = request(all.back().prompt, 24);
      r.ignore_eos = true;
      r.logprobs = 3;
      r.prompt_logprobs = 3;
      r.sampling.temperature = 0.8f;
      r.sampling.seed = 3;
      auto quiet = engine_of(tiny(name, precision));
      auto busy = engine_of(tiny(name, precision), {.max_rows = 7, .step_tokens = 11});
      std::vector<std::shared_ptr<Stream>> neighbours;
      for (int i = 0; i < 9; ++i) {
        neighbours.push_back(busy->submit(request(all[i % all.size()].prompt, 10 + i)));
      }
      const Collected alone = run(*quiet, r), together = run(*busy, r);
      REQUIRE(alone.ids == together.ids);
      REQUIRE(alone.prompt.size() == together.prompt.size());
      for (size_t i = 0; i < alone.tokens.size(); ++i) {
        CHECK(alone.tokens[i].logprob == together.tokens[i].logprob);
      }
      for (size_t i = 1; i < alone.prompt.size(); ++i) {
        CHECK(alone.prompt[i].logprob == together.prompt[i].logprob);
        CHECK(alone.prompt[i].top[2].logprob == together.prompt[i].top[2].logprob);
      }
    }
  }
}

TEST_CASE("the stop set is the union of config.json and generation_config.json, list or id") {
  TemporaryModel model;
  model.write("generation_config.json", {{"eos_token_id", {7, 9}}});
  const auto from_list = load_model(model.load()).card.stop_ids;
  for (int32_t id : {7, 9}) CHECK(std::count(from_list.begin(), from_list.end(), id) == 1);
  std::ifstream file(kTiny / "llama" / "config.json");
  nlohmann::json config = nlohmann::json::parse(file);
  config["eos_token_id"] = 5;
  model.write("config.json", config);
  model.write("generation_config.json", {{"eos_token_id", 7}});
  CHECK(load_model(model.load()).card.stop_ids == Ids{5, 7});
  config["eos_token_id"] = nullptr;
  model.write("config.json", config);
  model.write("generation_config.json", nlohmann::json::object());
  CHECK(load_model(model.load()).card.stop_ids.empty());
}

TEST_CASE("generation_config.json gives the defaults, and nonsense in it is passed over") {
  TemporaryModel model;
  model.write("generation_config.json",
              {{"temperature", 0.6}, {"top_p", 3}, {"top_k", 20}, {"min_p", "x"}});
  const GenerationDefaults defaults = load_model(model.load()).card.defaults;
  CHECK(defaults.temperature == 0.6f);
  CHECK(defaults.top_k == 20);
  CHECK_FALSE(defaults.top_p.has_value());
  CHECK_FALSE(defaults.min_p.has_value());
  CHECK_FALSE(defaults.repetition_penalty.has_value());
}

TEST_CASE("a generation_config.json that says do_sample false means greedy") {
  TemporaryModel model;
  model.write("generation_config.json", {{"temperature", 0.4}, {"do_sample", false}});
  CHECK(load_model(model.load()).card.defaults.temperature == 0.0f);
}

TEST_CASE("the chat template is the model's own, or the file that was asked for") {
  TemporaryModel model;
  CHECK(load_model(model.load()).card.chat_template == nullptr);  // no tokenizer, no template
  model.write_text("tokenizer.json", fake_tokenizer_json());
  CHECK(load_model(model.load()).card.chat_template == nullptr);
  model.write_text("chat_template.jinja", "own");
  const auto text = [](const LoadedModel& loaded) {
    return loaded.card.chat_template->render({}).text();
  };
  CHECK(text(load_model(model.load())) == "own");
  model.write_text("other.jinja", "other");
  LoadOptions options = model.load();
  options.chat_template_file = model.file("other.jinja");
  CHECK(text(load_model(options)) == "other");
  model.write_text("other.jinja", "{% for");
  const Error broken = load_error(options);
  CHECK(broken.code() == ErrorCode::kLoad);
  CHECK(std::string(broken.what()).find("other.jinja: chat template: ") != std::string::npos);
  options.chat_template_file = model.file("missing.jinja");
  CHECK(load_error(options).code() == ErrorCode::kLoad);
}

TEST_CASE("a card says what was loaded and how it is served") {
  LoadOptions options = tiny("llama");
  options.served_name = "small";
  options.context_length = 96;
  const ModelCard card = load_model(options).card;
  CHECK(card.id == "small");
  CHECK(card.architecture == "llama");
  CHECK(card.backend == "cpu");
  CHECK(card.kv_codec == KvCodec::kF32);
  CHECK(card.context_length == 96);
  CHECK(card.weight_bytes > 0);
  CHECK(card.load_ms > 0);
  CHECK(load_model(tiny("llama", Precision::kHigh)).card.kv_codec == KvCodec::kF16);
}

TEST_CASE("a model, a context or a budget that can't be had is refused in so many words") {
  LoadOptions options = tiny("llama");
  options.model = (kTiny / "no-such-model").string();
  CHECK(load_error(options).code() == ErrorCode::kNotFound);
  options = tiny("llama");
  options.context_length = 1 << 28;
  CHECK(load_error(options).param() == "context_length");
  options = tiny("llama");
  options.memory_budget_bytes = 100;
  CHECK(load_error(options).code() == ErrorCode::kMemory);
}
