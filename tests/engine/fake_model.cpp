#include "fake_model.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/rng.h"
#include "text/tokenizer.h"

namespace tandem::testing {

namespace {

// Keeps the token id of each position.
class FakeKv : public KvStore {
 public:
  explicit FakeKv(const KvSpec& spec) : spec_(spec) {}
  const KvSpec& spec() const override { return spec_; }
  int64_t pages(KvSection section) const override { return std::ssize(ids(section)) / kPageTokens; }
  void grow(KvSection section, int64_t pages) override {
    ids(section).resize(pages * kPageTokens, -7);
  }
  void copy_page(KvSection section, int32_t from, int32_t to) override {
    std::copy_n(&ids(section)[from * kPageTokens], kPageTokens, &ids(section)[to * kPageTokens]);
  }
  // The ids, and zeros up to the size that the spec gives a page.
  void read_page(KvSection section, int32_t page, std::span<std::byte> out) const override {
    const auto own = std::as_bytes(std::span(&ids(section)[page * kPageTokens], kPageTokens));
    std::fill(out.begin(), out.end(), std::byte{});
    std::copy(own.begin(), own.end(), out.begin());
  }
  void write_page(KvSection section, int32_t page, std::span<const std::byte> in) override {
    const std::span own(&ids(section)[page * kPageTokens], kPageTokens);
    std::copy_n(in.begin(), own.size_bytes(), std::as_writable_bytes(own).begin());
  }

  std::vector<int32_t>& ids(KvSection section) { return ids_[static_cast<size_t>(section)]; }
  const std::vector<int32_t>& ids(KvSection section) const {
    return ids_[static_cast<size_t>(section)];
  }

 private:
  KvSpec spec_;
  std::vector<int32_t> ids_[2];
};

class FakeStates : public StateStore {
 public:
  explicit FakeStates(const StateSpec& spec) : spec_(spec) {}
  const StateSpec& spec() const override { return spec_; }
  int64_t slots() const override { return std::ssize(sums); }
  void grow(int64_t slots) override { sums.resize(slots, 12345); }
  void clear_slot(int32_t slot) override { sums[slot] = 0; }
  void copy_slot(int32_t from, int32_t to) override { sums[to] = sums[from]; }
  void read_slot(int32_t slot, std::span<std::byte> out) const override {
    std::memcpy(out.data(), &sums[slot], sizeof(uint64_t));
  }
  void write_slot(int32_t slot, std::span<const std::byte> in) override {
    std::memcpy(&sums[slot], in.data(), sizeof(uint64_t));
  }

  std::vector<uint64_t> sums;

 private:
  StateSpec spec_;
};

class FakeBackend : public Backend {
 public:
  const char* name() const override { return "fake"; }
  std::string device() const override { return "none"; }
  Precision precision() const override { return Precision::kExact; }
  Weight load(std::span<const StoredMatrix>, std::span<const float>) override { return {}; }
  Weight load_gate_up(const StoredMatrix&, const StoredMatrix&, std::span<const float>) override {
    return {};
  }
  Weight load_vector(std::span<const float>) override { return {}; }
  int64_t weight_bytes() const override { return 0; }
  std::unique_ptr<KvStore> make_kv_store(const KvSpec& spec) override {
    return std::make_unique<FakeKv>(spec);
  }
  std::unique_ptr<StateStore> make_state_store(const StateSpec& spec) override {
    return std::make_unique<FakeStates>(spec);
  }
  void begin_step(const Step&) override { logits.clear(); }
  Tensor embed(const Weight&, float, const Step&) override { unsupported("embed"); }
  Tensor norm(const Tensor&, const Weight&, const NormOptions&, const Weight&) override {
    unsupported("norm");
  }
  Tensor linear(const Tensor&, const Weight&, const Tensor&, float) override {
    unsupported("linear");
  }
  Tensor qkv_rope_write(const Tensor&, const Weight&, const QkvOptions&, KvRef,
                        const Step&) override {
    unsupported("qkv_rope_write");
  }
  Tensor attention(const Tensor&, KvRef, const AttentionOptions&, const Step&) override {
    unsupported("attention");
  }
  Tensor gate_up(const Tensor&, const Weight&, Activation) override { unsupported("gate_up"); }
  Tensor add(const Tensor&, const Tensor&) override { unsupported("add"); }
  Tensor multiply(const Tensor&, const Tensor&) override { unsupported("multiply"); }
  Tensor scale(const Tensor&, float) override { unsupported("scale"); }
  Tensor activate(const Tensor&, Activation) override { unsupported("activate"); }
  Tensor columns(const Tensor&, int64_t, int64_t) override { unsupported("columns"); }
  Tensor select_outputs(const Tensor&, const Step&) override { unsupported("select_outputs"); }
  Tensor head(const Tensor&, const Weight&, float, float) override { unsupported("head"); }
  std::span<const float> read(const Tensor&) override { return logits; }

  std::vector<float> logits;
};

// Order-dependent hash of the tokens a layer can see.
uint64_t mix(uint64_t hash, int32_t id) { return (hash ^ (id + 1)) * 0x9E3779B97F4A7C15u + 1; }

struct Seen {
  uint64_t full = 0;    // all tokens
  uint64_t window = 0;  // the last so many
  uint64_t state = 0;   // all, by recurrence
};

void add_logits(const Seen& seen, int32_t last, std::vector<float>& logits) {
  for (int32_t id = 0; id < kFakeVocab; ++id) {
    const double draw = uniform_draw(seen.full ^ seen.window * 3 ^ seen.state * 5, 0, id);
    logits.push_back(last == kPoisonToken ? std::numeric_limits<float>::quiet_NaN()
                     : id == kPoisonToken ? -9.0f
                                          : static_cast<float>(draw * 8 - 4));
  }
}

class FakeModel : public Model {
 public:
  explicit FakeModel(const FakeOptions& options) : options_(options) {
    info_.architecture = "fake";
    info_.vocab_size = kFakeVocab;
    info_.layers = 1;
    info_.hidden_size = 1;
    info_.max_positions = 4096;
    info_.kv_groups.push_back({.layers = 1, .kv_heads = 1, .k_dim = 4, .v_dim = 4});
    info_.kv_capabilities.push_back(full_cache());
    if (options.window > 0) {
      info_.kv_groups.push_back(
          {.layers = 1, .kv_heads = 1, .k_dim = 4, .v_dim = 4, .window = options.window});
      info_.kv_capabilities.push_back(sliding_cache());
    }
    if (options.states) {
      info_.state_groups.push_back({.layers = 1, .conv_floats = 2});
      info_.state_capabilities.push_back(state_cache());
    }
    if (options.describe) options.describe(info_);
  }

  Tensor forward(Backend& backend, const Step& step) const override {
    if (options_.on_forward) options_.on_forward(step);
    auto& out = static_cast<FakeBackend&>(backend).logits;
    size_t next_output = 0;
    for (int64_t t = 0; t < step.n_tokens(); ++t) {
      const Seen seen = see(step, t);
      if (next_output < step.outputs.size() && step.outputs[next_output] == t) {
        add_logits(seen, step.tokens[t], out);
        follow_script(step, t, out);
        ++next_output;
      }
    }
    INVARIANT(next_output == step.outputs.size());
    return {std::ssize(step.outputs), kFakeVocab, out.data()};
  }

 private:
  // Writes the token into its page, then reads what the token may see.
  Seen see(const Step& step, int64_t t) const {
    Seen seen;
    const int32_t position = step.positions[t];
    for (size_t g = 0; g < info_.kv_groups.size(); ++g) {
      slot(step, g, t, position) = step.tokens[t];
      const int32_t window = info_.kv_groups[g].window;
      uint64_t hash = 0;
      for (int32_t p = window > 0 ? std::max(0, position - window + 1) : 0; p <= position; ++p) {
        hash = mix(hash, slot(step, g, t, p));
      }
      (g == 0 ? seen.full : seen.window) = hash;
    }
    if (options_.states) {
      auto& sums = static_cast<FakeStates*>(step.states[0])->sums;
      uint64_t& sum = sums[step.state_slot[step.token_row[t]]];
      seen.state = sum = mix(sum, step.tokens[t]);
    }
    return seen;
  }

  // Raises the scripted token's logit in the last row of `out`.
  void follow_script(const Step& step, int64_t t, std::vector<float>& out) const {
    const int32_t generated = step.positions[t] + 1 - step.prompt_length[step.token_row[t]];
    if (options_.script.empty() || generated < 0) return;
    const int32_t id = options_.script[generated % options_.script.size()];
    out[out.size() - kFakeVocab + id] = 50;
  }

  static int32_t& slot(const Step& step, size_t g, int64_t t, int32_t position) {
    const BlockTable& table = step.tables[g];
    const int32_t row = step.token_row[t];
    const int32_t index = table.row_start[row] + position / kPageTokens;
    INVARIANT(index < table.row_start[row + 1]);
    INVARIANT(table.pages[index] >= 0);
    auto& ids = static_cast<FakeKv*>(step.kv[g])->ids(step.kv[g]->section(position));
    return ids.at(table.pages[index] * kPageTokens + position % kPageTokens);
  }

  FakeOptions options_;
};

}  // namespace

std::string fake_tokenizer_json() {
  // Byte-level spelling: printable ASCII as it is, F0 9F 98 80 as four letters.
  nlohmann::json vocab;
  for (int32_t id = 0; id < kEmojiToken; ++id) {
    vocab[std::string(1, static_cast<char>(kFirstCharacter + id))] = id;
  }
  int32_t id = kEmojiToken;
  for (const char* byte : {"\u00f0", "\u0141", "\u013a", "\u0122", "ab"}) vocab[byte] = id++;
  const nlohmann::json byte_level = {{"type", "ByteLevel"},
                                     {"add_prefix_space", false},
                                     {"trim_offsets", true},
                                     {"use_regex", true}};
  const nlohmann::json added = {{"id", kEndToken},      {"content", "<end>"}, {"special", true},
                                {"single_word", false}, {"lstrip", false},    {"rstrip", false},
                                {"normalized", false}};
  const nlohmann::json tokenizer = {
      {"version", "1.0"},
      {"truncation", nullptr},
      {"padding", nullptr},
      {"added_tokens", nlohmann::json::array({added})},
      {"normalizer", nullptr},
      {"pre_tokenizer", byte_level},
      {"post_processor", nullptr},
      {"decoder", byte_level},
      {"model", {{"type", "BPE"}, {"vocab", vocab}, {"merges", nlohmann::json::array()}}}};
  return tokenizer.dump();
}

std::shared_ptr<const Tokenizer> fake_tokenizer() {
  return std::make_shared<const Tokenizer>(Tokenizer::from_json(fake_tokenizer_json()));
}

LoadedModel load_fake(const FakeOptions& options) {
  LoadedModel loaded;
  loaded.backend = std::make_unique<FakeBackend>();
  loaded.model = std::make_unique<FakeModel>(options);
  loaded.card.id = "fake";
  loaded.card.vocab_size = kFakeVocab;
  loaded.card.context_length = options.context_length;
  loaded.card.stop_ids = options.stop_ids;
  loaded.card.tokenizer = options.tokenizer;
  KvSpec spec = loaded.model->info().kv_groups[0];
  spec.base = loaded.card.kv_codec;
  const int64_t groups = std::ssize(loaded.model->info().kv_groups);
  const int64_t context_pages = (options.context_length + kPageTokens - 1) / kPageTokens;
  int64_t context_bytes = groups * context_pages * kv_page_bytes(spec, KvSection::kMain);
  for (const StateSpec& state : loaded.model->info().state_groups) {
    context_bytes += state_slot_bytes(state);
  }
  loaded.card.kv_bytes_max = options.contexts_in_memory * context_bytes;
  return loaded;
}

std::vector<float> fake_logits(const std::vector<int32_t>& tokens, const FakeOptions& options) {
  Seen seen;
  const auto size = static_cast<int32_t>(tokens.size());
  for (int32_t p = 0; p < size; ++p) {
    seen.full = mix(seen.full, tokens[p]);
    if (options.states) seen.state = seen.full;
    if (options.window > 0 && p >= size - options.window) seen.window = mix(seen.window, tokens[p]);
  }
  std::vector<float> logits;
  add_logits(seen, tokens.back(), logits);
  return logits;
}

std::vector<int32_t> fake_greedy(std::vector<int32_t> tokens, int count,
                                 const FakeOptions& options) {
  std::vector<int32_t> generated;
  for (int i = 0; i < count; ++i) {
    const auto logits = fake_logits(tokens, options);
    generated.push_back(
        static_cast<int32_t>(std::max_element(logits.begin(), logits.end()) - logits.begin()));
    tokens.push_back(generated.back());
  }
  return generated;
}

}  // namespace tandem::testing
