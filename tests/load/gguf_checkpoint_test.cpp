#include "models/load/gguf_checkpoint.h"

#include <doctest/doctest.h>

#include "load/builders.h"

using namespace tandem;
using namespace tandem::test;

namespace {

// First column of each row as the family sees it; `tiny_llama_gguf` counts
// elements, so it is 8 times the stored row.
std::vector<int> stored_rows(const StoredMatrix& matrix) {
  std::vector<float> values = dequantized(matrix);
  std::vector<int> rows;
  for (int64_t row = 0; row < matrix.rows; row++) {
    rows.push_back(static_cast<int>(values[static_cast<size_t>(row * matrix.cols)]) / 8);
  }
  return rows;
}

void take_all(Checkpoint& model) {
  model.take_matrix("model.embed_tokens", 4, 8);
  model.take_vector("model.norm.weight", 8);
  std::string block = "model.layers.0.";
  model.take_vector(block + "input_layernorm.weight", 8);
  model.take_vector(block + "post_attention_layernorm.weight", 8);
  for (const char* name :
       {"self_attn.q_proj", "self_attn.o_proj", "mlp.gate_proj", "mlp.up_proj", "mlp.down_proj"}) {
    model.take_matrix(block + name, 8, 8);
  }
  model.take_matrix(block + "self_attn.k_proj", 4, 8);
  model.take_matrix(block + "self_attn.v_proj", 4, 8);
}

}  // namespace

TEST_CASE("a Llama file's metadata become the keys of config.json") {
  auto config = tiny_llama_gguf().open()->config();
  CHECK(config["model_type"] == "llama");
  CHECK(config["hidden_size"] == 8);
  CHECK(config["num_hidden_layers"] == 1);
  CHECK(config["num_attention_heads"] == 2);
  CHECK(config["num_key_value_heads"] == 1);
  CHECK(config["head_dim"] == 4);
  CHECK(config["intermediate_size"] == 8);
  CHECK(config["rms_norm_eps"] == 1e-5);
  CHECK(config["rope_theta"] == 10000.0);
  CHECK(config["max_position_embeddings"] == 64);
  CHECK(config["vocab_size"] == 4);
  CHECK(config["tie_word_embeddings"] == true);
  CHECK(config["attention_bias"] == false);
  CHECK(config["rope_scaling"].is_null());
}

TEST_CASE("biases, an output matrix and an explicit head dimension show in the config") {
  auto file = tiny_llama_gguf();
  file.floats("blk.0.attn_q.bias", {8}, counting(8)).floats("output.weight", {8, 4}, counting(32));
  file.u32("llama.attention.key_length", 6).u32("llama.attention.value_length", 6);
  auto config = file.open()->config();
  CHECK(config["attention_bias"] == true);
  CHECK(config["tie_word_embeddings"] == false);
  CHECK(config["head_dim"] == 6);
}

TEST_CASE("rope scaling metadata become rope_scaling") {
  auto file = tiny_llama_gguf();
  file.text("llama.rope.scaling.type", "yarn").f32("llama.rope.scaling.factor", 4.0f);
  file.u32("llama.rope.scaling.original_context_length", 4096);
  file.f32("llama.rope.scaling.attn_factor", 1.1f);
  auto scaling = file.open()->config()["rope_scaling"];
  CHECK(scaling["rope_type"] == "yarn");
  CHECK(scaling["factor"] == 4.0);
  CHECK(scaling["original_max_position_embeddings"] == 4096);
  CHECK(scaling["attention_factor"] == 1.1);
  auto none = tiny_llama_gguf().text("llama.rope.scaling.type", "none");
  CHECK(none.open()->config()["rope_scaling"].is_null());
}

TEST_CASE("all end-of-text ids reach the config") {
  auto file = tiny_llama_gguf();
  file.u32("tokenizer.ggml.eos_token_id", 2).u32("tokenizer.ggml.bos_token_id", UINT32_MAX);
  CHECK(file.open()->config()["eos_token_id"] == 2);
  CHECK_FALSE(file.open()->config().contains("bos_token_id"));
  file.u32("tokenizer.ggml.eot_token_id", 3);
  CHECK(file.open()->config()["eos_token_id"] == nlohmann::json({2, 3}));
  CHECK(file.open()->gguf_tokenizer()->eot_id == 3);
}

TEST_CASE("Llama's q and k rows come out as halves, other matrices as stored") {
  auto model = tiny_llama_gguf().open();
  // Stored: pairs (0,1) (2,3) in each head of 4 rows; wanted: first halves, then second.
  CHECK(stored_rows(model->take_matrix("model.layers.0.self_attn.q_proj", 8, 8)) ==
        std::vector<int>{0, 2, 1, 3, 4, 6, 5, 7});
  CHECK(stored_rows(model->take_matrix("model.layers.0.self_attn.k_proj", 4, 8)) ==
        std::vector<int>{0, 2, 1, 3});
  CHECK(stored_rows(model->take_matrix("model.layers.0.self_attn.v_proj", 4, 8)) ==
        std::vector<int>{0, 1, 2, 3});
}

TEST_CASE("Llama's q and k biases come out in the order of the rows") {
  auto file = tiny_llama_gguf();
  file.floats("blk.0.attn_q.bias", {8}, counting(8)).floats("blk.0.attn_v.bias", {4}, counting(4));
  auto model = file.open();
  CHECK(model->take_vector("model.layers.0.self_attn.q_proj.bias", 8) ==
        std::vector<float>{0, 2, 1, 3, 4, 6, 5, 7});
  CHECK(model->take_vector("model.layers.0.self_attn.v_proj.bias", 4) == counting(4));
}

TEST_CASE("Qwen2's q and k rows stay as stored") {
  auto model = tiny_llama_gguf("qwen2").open();
  CHECK(model->config()["model_type"] == "qwen2");
  CHECK(model->take_matrix("model.layers.0.self_attn.q_proj", 8, 8).row_order.empty());
}

TEST_CASE("heads that do not cut the rows into pairs are an error naming the tensor") {
  auto model = tiny_llama_gguf().floats("blk.1.attn_k.weight", {8, 5}, counting(40)).open();
  CHECK(error_of([&] { model->take_matrix("model.layers.1.self_attn.k_proj", 5, 8); }) ==
        "m.gguf: tensor 'blk.1.attn_k.weight': 5 rows cannot be cut into pairs for 1 heads");
}

TEST_CASE("Gemma 3's norms and names come out as Hugging Face has them") {
  auto file = tiny_llama_gguf("gemma3");
  file.floats("blk.0.post_attention_norm.weight", {8}, counting(8));
  file.floats("blk.0.attn_q_norm.weight", {4}, {1.5f, 1, 0, 2});
  file.u32("gemma3.attention.sliding_window", 512);
  auto model = file.open();
  CHECK(model->config()["model_type"] == "gemma3_text");
  CHECK(model->config()["query_pre_attn_scalar"] == 4);
  CHECK(model->config()["sliding_window"] == 512);
  CHECK(model->config()["sliding_window_pattern"] == 6);
  CHECK(model->take_vector("model.layers.0.self_attn.q_norm.weight", 4) ==
        std::vector<float>{0.5f, 0, -1, 1});
  CHECK(model->has("model.layers.0.post_attention_layernorm.weight"));
  CHECK(model->has("model.layers.0.pre_feedforward_layernorm.weight"));
}

TEST_CASE("an unknown architecture opens with its name alone") {
  auto model = GgufBuilder("mamba9").open();
  CHECK(model->config() == nlohmann::json{{"model_type", "mamba9"}});
}

TEST_CASE("an architecture that is missing or unprintable is an error naming the key") {
  CHECK(error_of([] { GgufBuilder("a\nb").open(); }).find("'general.architecture' is 'a?b'") !=
        std::string::npos);
  std::string none = Bytes().raw("GGUF").number<uint32_t>(3).zeros(16).text();
  CHECK(error_of([&] {
          make_gguf_checkpoint(file_of(none), "m");
        }).find("'general.architecture' is missing") != std::string::npos);
}

TEST_CASE("a metadata key that a Llama needs and has not is named") {
  CHECK(error_of([] { GgufBuilder("llama").open(); }) ==
        "m.gguf: metadata key 'llama.embedding_length' is missing");
}

TEST_CASE("a count that is zero is an error naming the key") {
  auto file = GgufBuilder("gemma3");
  file.u32("gemma3.embedding_length", 8).u32("gemma3.block_count", 1);
  file.u32("gemma3.feed_forward_length", 8).u32("gemma3.attention.head_count", 0);
  CHECK(error_of([&] { file.open(); }) ==
        "m.gguf: metadata key 'gemma3.attention.head_count' is 0, expected 1 or more");
}

TEST_CASE("settings that differ between layers are refused by name") {
  Bytes heads;
  heads.number<uint32_t>(4).number<uint64_t>(2).number<uint32_t>(2).number<uint32_t>(4);
  GgufBuilder file("llama");
  file.u32("llama.embedding_length", 8).u32("llama.block_count", 2);
  file.u32("llama.feed_forward_length", 8).value("llama.attention.head_count", 9, heads.text());
  CHECK(error_of([&] {
          file.open();
        }).find("'llama.attention.head_count' differs between layers") != std::string::npos);
}

TEST_CASE("a part of a split file, an adapter and experts are refused") {
  CHECK(error_of([] { tiny_llama_gguf().u32("split.count", 3).open(); }).find("one of 3 parts") !=
        std::string::npos);
  CHECK(error_of([] {
          tiny_llama_gguf().text("general.type", "adapter").open();
        }).find("general.type is 'adapter'") != std::string::npos);
  CHECK(error_of([] {
          tiny_llama_gguf().u32("llama.expert_count", 8).open();
        }).find("'llama.expert_count' is 8") != std::string::npos);
}

TEST_CASE("a tensor of another shape is named with got and expected") {
  auto model = tiny_llama_gguf().open();
  CHECK(error_of([&] { model->take_matrix("model.layers.0.mlp.up_proj", 16, 8); }) ==
        "m.gguf: tensor 'blk.0.ffn_up.weight': shape [8, 8], expected [16, 8]");
  CHECK(error_of([&] { model->take_vector("model.norm.weight", 9); }) ==
        "m.gguf: tensor 'output_norm.weight': shape [8], expected [9]");
}

TEST_CASE("a missing tensor is named with the nearest one") {
  auto model = tiny_llama_gguf().open();
  CHECK(error_of([&] { model->take_vector("model.norms.weight", 8); }) ==
        "m.gguf: tensor 'model.norms.weight' is missing, expected [8]; the nearest of 11 tensors "
        "is 'model.norm.weight'");
  CHECK(model->take_optional_vector("model.norms.weight", 8).empty());
}

TEST_CASE("tensors that nobody took are an error that lists them, rope factors excepted") {
  auto file = tiny_llama_gguf().floats("rope_freqs.weight", {2}, {1, 8});
  auto model = file.open();
  take_all(*model);
  CHECK_NOTHROW(model->expect_all_taken());
  CHECK(model->take_optional_vector("rope_freqs.weight", 2) == std::vector<float>{1, 8});

  auto other = file.floats("blk.0.surprise.weight", {1}, {1}).open();
  take_all(*other);
  CHECK(error_of([&] { other->expect_all_taken(); }) ==
        "m.gguf: 1 tensor is not part of this architecture: 'blk.0.surprise.weight'");
}

TEST_CASE("the tokenizer's metadata are handed on as they are") {
  auto file = tiny_llama_gguf();
  Bytes scores, types;
  scores.number<uint32_t>(6).number<uint64_t>(2).number(0.5f).number(-1.0f);
  types.number<uint32_t>(5).number<uint64_t>(2).number<int32_t>(3).number<int32_t>(1);
  file.text("tokenizer.ggml.model", "llama").texts("tokenizer.ggml.tokens", {"<s>", "a"});
  file.value("tokenizer.ggml.scores", 9, scores.text());
  file.value("tokenizer.ggml.token_type", 9, types.text());
  file.flag("tokenizer.ggml.add_bos_token", true).text("tokenizer.chat_template", "{{ x }}");
  auto model = file.open();
  const GgufTokenizer& tokenizer = *model->gguf_tokenizer();
  CHECK(tokenizer.tokens == std::vector<std::string>{"<s>", "a"});
  CHECK(tokenizer.scores == std::vector<float>{0.5f, -1.0f});
  CHECK(tokenizer.token_types == std::vector<int32_t>{3, 1});
  CHECK(tokenizer.add_bos == true);
  CHECK(tokenizer.add_eos == std::nullopt);
  CHECK(model->chat_template() == "{{ x }}");
}
