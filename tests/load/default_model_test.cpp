#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "models/load/checkpoint.h"

using namespace tandem;

namespace {

// Null where the default model has not been fetched.
std::unique_ptr<Checkpoint> default_model() {
  try {
    return open_checkpoint("default");
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kNotFound) throw;
    MESSAGE("not tested: " << error.what());
    return nullptr;
  }
}

}  // namespace

TEST_CASE("the default model's metadata read like its config.json") {
  auto model = default_model();
  if (!model) return;
  CHECK(model->name() == "SmolLM2-135M-Instruct.Q4_1");
  const auto& config = model->config();
  CHECK(config["model_type"] == "llama");
  CHECK(config["hidden_size"] == 576);
  CHECK(config["num_hidden_layers"] == 30);
  CHECK(config["num_attention_heads"] == 9);
  CHECK(config["num_key_value_heads"] == 3);
  CHECK(config["head_dim"] == 64);
  CHECK(config["intermediate_size"] == 1536);
  CHECK(config["rms_norm_eps"] == 1e-5);
  CHECK(config["rope_theta"] == 100000.0);
  CHECK(config["rope_scaling"].is_null());
  CHECK(config["max_position_embeddings"] == 8192);
  CHECK(config["vocab_size"] == 49152);
  CHECK(config["tie_word_embeddings"] == true);
  CHECK(config["attention_bias"] == false);
  CHECK(config["eos_token_id"] == 2);
  CHECK(config["bos_token_id"] == 1);
}

TEST_CASE("the default model's tokenizer metadata are complete") {
  auto model = default_model();
  if (!model) return;
  const GgufTokenizer& tokenizer = *model->gguf_tokenizer();
  CHECK(tokenizer.model == "gpt2");
  CHECK(tokenizer.pre == "smollm");
  CHECK(tokenizer.tokens.size() == 49152);
  CHECK(tokenizer.tokens[1] == "<|im_start|>");
  CHECK(tokenizer.token_types.size() == 49152);
  CHECK(tokenizer.merges.size() == 48900);
  CHECK(tokenizer.eos_id == 2);
  CHECK(tokenizer.add_bos == false);
  CHECK(tokenizer.eot_id == std::nullopt);
  CHECK(model->chat_template().find("<|im_start|>") != std::string::npos);
}

TEST_CASE("every tensor of the default model can be taken by its Hugging Face name") {
  auto model = default_model();
  if (!model) return;
  CHECK(model->take_matrix("model.embed_tokens", 49152, 576).format == WeightFormat::kQ8_0);
  CHECK_THROWS_WITH_AS(model->expect_all_taken(), doctest::Contains("271 tensors"), Error);
  for (int layer = 0; layer < 30; layer++) {
    std::string prefix = "model.layers." + std::to_string(layer) + ".";
    CHECK(model->take_vector(prefix + "input_layernorm.weight", 576).size() == 576);
    CHECK(model->take_vector(prefix + "post_attention_layernorm.weight", 576).size() == 576);
    CHECK(model->take_matrix(prefix + "self_attn.q_proj", 576, 576).row_order.size() == 576);
    CHECK(model->take_matrix(prefix + "self_attn.k_proj", 192, 576).row_order.size() == 192);
    CHECK(model->take_matrix(prefix + "self_attn.v_proj", 192, 576).row_order.empty());
    model->take_matrix(prefix + "self_attn.o_proj", 576, 576);
    model->take_matrix(prefix + "mlp.gate_proj", 1536, 576);
    model->take_matrix(prefix + "mlp.up_proj", 1536, 576);
    CHECK(model->take_matrix(prefix + "mlp.down_proj", 576, 1536).format == WeightFormat::kQ4_1);
  }
  model->take_vector("model.norm.weight", 576);
  CHECK_NOTHROW(model->expect_all_taken());
  CHECK(model->stored_bytes() > 90'000'000);
  CHECK(model->stored_bytes() < 98'362'432);
}
