#include "api/call_options.h"

#include <algorithm>
#include <charconv>
#include <limits>
#include <nlohmann/json.hpp>

#include "base/error.h"

namespace tandem::api {
namespace {

constexpr int64_t kIntMax = std::numeric_limits<int32_t>::max();
constexpr int kMaxChoices = 128;
constexpr size_t kMaxStops = 64;
constexpr float kNearZeroTopP = 1e-6f;
constexpr size_t kTokenBytesMax = 256;  // on average over a text, with a wide margin

template <typename T>
std::optional<T> cast(const auto& value) {
  return value ? std::optional<T>(static_cast<T>(*value)) : std::nullopt;
}

std::string stop_string(const Json& value, const std::string& path) {
  if (!value.is_string()) throw_expected(path, "a string", value);
  auto text = value.get<std::string>();
  if (text.empty())
    throw Error(ErrorCode::kInvalid,
                path + ": a stop string must not be empty; leave it out or send null", path);
  return text;
}

std::vector<std::string> parse_stop(Fields& fields) {
  const Json* value = fields.find("stop");
  if (!value) return {};
  const auto path = fields.path_of("stop");
  if (value->is_string()) return {stop_string(*value, path)};
  if (!value->is_array()) throw_expected(path, "a string or an array of strings", *value);
  if (value->size() > kMaxStops)
    throw Error(ErrorCode::kInvalid,
                path + ": at most " + std::to_string(kMaxStops) + " stop strings are allowed",
                path);
  std::vector<std::string> stops;
  for (size_t i = 0; i < value->size(); ++i)
    stops.push_back(stop_string((*value)[i], path + "[" + std::to_string(i) + "]"));
  return stops;
}

std::vector<int32_t> parse_stop_ids(Fields& fields) {
  const Json* value = fields.array("stop_token_ids");
  if (!value) return {};
  std::vector<int32_t> ids;
  for (size_t i = 0; i < value->size(); ++i) {
    const auto& id = (*value)[i];
    const auto path = fields.path_of("stop_token_ids") + "[" + std::to_string(i) + "]";
    if (!id.is_number_integer() || id.get<int64_t>() < 0 || id.get<int64_t>() > kIntMax)
      throw_expected(path, "a token id", id);
    ids.push_back(id.get<int32_t>());
  }
  return ids;
}

std::map<int32_t, float> parse_logit_bias(Fields& fields) {
  const Json* value = fields.object("logit_bias");
  if (!value) return {};
  std::map<int32_t, float> biases;
  for (const auto& [key, bias] : value->items()) {
    const auto path = fields.path_of("logit_bias") + "." + key;
    int32_t id = -1;
    const auto* end = key.data() + key.size();
    auto [rest, failed] = std::from_chars(key.data(), end, id);
    if (failed != std::errc() || rest != end || id < 0)
      throw Error(ErrorCode::kInvalid, path + ": keys must be token ids such as \"42\"", path);
    if (!bias.is_number() || std::abs(bias.get<double>()) > 100)
      throw_expected(path, "a number from -100 to 100", bias);
    biases[id] = bias.get<float>();
  }
  return biases;
}

std::optional<uint64_t> parse_seed(Fields& fields) {
  const Json* value = fields.find("seed");
  if (value && value->is_number_unsigned()) return value->get<uint64_t>();
  return cast<uint64_t>(fields.integer("seed", std::numeric_limits<int64_t>::min(),
                                       std::numeric_limits<int64_t>::max()));
}

// top_k and friends use both 0 and -1 for "off".
std::optional<int> parse_top_k(Fields& fields) {
  auto top_k = fields.integer("top_k", -1, kIntMax);
  return top_k ? std::optional<int>(std::max<int64_t>(*top_k, 0)) : std::nullopt;
}

SamplingChoice parse_sampling(Fields& fields) {
  SamplingChoice choice;
  choice.temperature = cast<float>(fields.number("temperature", 0, 5));
  choice.top_p = cast<float>(fields.number("top_p", 0, 1));
  // A nucleus of no mass still holds the most likely token.
  if (choice.top_p) choice.top_p = std::max(*choice.top_p, kNearZeroTopP);
  choice.top_k = parse_top_k(fields);
  choice.min_p = cast<float>(fields.number("min_p", 0, 1));
  choice.repetition_penalty = cast<float>(fields.number("repetition_penalty", 1e-3, 100));
  const auto newer = fields.integer("max_completion_tokens", 0, kIntMax);
  const auto older = fields.integer("max_tokens", 0, kIntMax);
  choice.max_tokens = cast<int>(newer ? newer : older);
  return choice;
}

[[noreturn]] void refuse(const std::string& path, const std::string& why) {
  throw Error(ErrorCode::kUnsupported, path + ": " + why, path);
}

bool is_off(const Json& value) {
  return value == false || value == 0 || value == "" || value == "none" ||
         ((value.is_array() || value.is_object()) && value.empty());
}

// Fields whose silent loss would change what the client gets.
void refuse_unsupported(Fields& fields) {
  if (fields.integer("best_of", 1, kMaxChoices).value_or(1) > 1)
    refuse(fields.path_of("best_of"), "only 1 is supported; use n for several choices");
  for (const char* name :
       {"suffix", "functions", "adapter", "hlg", "xtc_probability", "dry_multiplier",
        "use_beam_search", "audio", "truncate_prompt_tokens"}) {
    const Json* value = fields.find(name);
    if (value && !is_off(*value)) refuse(fields.path_of(name), "not supported; leave it out");
  }
}

}  // namespace

CallOptions parse_call_options(Fields& fields) {
  CallOptions options;
  options.model = fields.string("model").value_or("");
  options.sampling = parse_sampling(fields);
  options.presence_penalty = fields.number("presence_penalty", -2, 2).value_or(0);
  options.frequency_penalty = fields.number("frequency_penalty", -2, 2).value_or(0);
  options.logit_bias = parse_logit_bias(fields);
  options.seed = parse_seed(fields);
  options.n = fields.integer("n", 1, kMaxChoices).value_or(1);
  options.min_tokens = fields.integer("min_tokens", 0, kIntMax).value_or(0);
  options.ignore_eos = fields.boolean("ignore_eos").value_or(false);
  options.priority = fields.integer("priority", -kIntMax, kIntMax).value_or(0);
  options.stop = parse_stop(fields);
  options.stop_ids = parse_stop_ids(fields);
  options.stream = fields.boolean("stream").value_or(false);
  options.return_token_ids = fields.boolean("return_token_ids").value_or(false);
  if (const Json* stream_options = fields.object("stream_options")) {
    Fields inner(*stream_options, fields.path_of("stream_options"));
    options.include_usage = inner.boolean("include_usage").value_or(false);
  }
  options.form = parse_answer_form(fields);
  refuse_unsupported(fields);
  fields.ignore(
      {"user", "metadata", "store", "service_tier", "safety_identifier", "prompt_cache_key"});
  return options;
}

void check_text_size(size_t bytes, const ModelFacts& model) {
  if (bytes / kTokenBytesMax <= static_cast<size_t>(model.context_length)) return;
  throw Error(ErrorCode::kContextLength,
              "the prompt has " + std::to_string(bytes) + " bytes, more than the context of " +
                  std::to_string(model.context_length) + " tokens can hold: shorten the prompt");
}

Request make_request(const CallOptions& options, const ModelFacts& model,
                     std::vector<int32_t> prompt, int choice, uint64_t seed,
                     int builtin_max_tokens) {
  if (prompt.empty())
    throw Error(ErrorCode::kInvalid, "the prompt is empty: it must hold at least one token",
                "prompt");
  const auto sampling = options.sampling.over(model.defaults);
  const int wanted = sampling.max_tokens.value_or(builtin_max_tokens > 0 ? builtin_max_tokens
                                                                         : model.context_length);
  const int room = model.context_length - static_cast<int>(prompt.size());
  if (room < 0 || (room == 0 && wanted > 0))
    throw Error(ErrorCode::kContextLength,
                "the prompt has " + std::to_string(prompt.size()) +
                    " tokens, but the context holds " + std::to_string(model.context_length) +
                    " for prompt and answer together: shorten the prompt");
  for (const auto& [id, bias] : options.logit_bias)
    if (id >= model.vocab_size)
      throw Error(ErrorCode::kInvalid,
                  "logit_bias." + std::to_string(id) + ": the vocabulary has only " +
                      std::to_string(model.vocab_size) + " tokens",
                  "logit_bias." + std::to_string(id));
  Request request;
  request.prompt = std::move(prompt);
  request.choice = choice;
  request.max_tokens = std::min(wanted, room);
  request.min_tokens = std::min(options.min_tokens, request.max_tokens);
  request.ignore_eos = options.ignore_eos;
  request.stop = options.stop;
  request.stop_ids = options.stop_ids;
  request.priority = options.priority;
  auto& params = request.sampling;
  params.temperature = sampling.temperature.value_or(kBuiltinTemperature);
  params.top_p = sampling.top_p.value_or(1);
  params.top_k = sampling.top_k.value_or(0);
  params.min_p = sampling.min_p.value_or(0);
  params.repetition_penalty = sampling.repetition_penalty.value_or(1);
  params.presence_penalty = options.presence_penalty;
  params.frequency_penalty = options.frequency_penalty;
  params.logit_bias = options.logit_bias;
  params.seed = seed;
  return request;
}

}  // namespace tandem::api
