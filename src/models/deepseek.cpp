// Latent attention (keys and values cached compressed) and, but for the first
// layers, a mixture of experts beside a shared one. Sources: DeepSeek-V2,
// arXiv:2405.04434; DeepSeek-V3, arXiv:2412.19437 (sigmoid scores, a bias for the
// choice, groups by the sum of their two best).
#include "models/deepseek.h"

#include <cmath>

#include "models/decoder_config.h"
#include "models/layer_loader.h"
#include "nn/latent_attention.h"
#include "nn/moe.h"
#include "nn/rope.h"

namespace tandem {

namespace {

struct Config : DecoderConfig {
  bool v3 = true, attention_bias = false;
  int q_rank = 0;  // 0 = none
  LatentOptions latent;
  RopeConfig rope;
  bool interleaved = true;
  int experts = 0, expert_size = 0, shared = 0, dense_layers = 0;
  MoeOptions moe;
};

void read_latent(const ConfigReader& in, Config& c) {
  c.q_rank = in.has("q_lora_rank") ? in.count("q_lora_rank", 1 << 20) : 0;
  c.latent.heads = c.heads;
  c.latent.rank = in.count("kv_lora_rank", 1 << 20);
  c.latent.rope_dim = in.count("qk_rope_head_dim", 1 << 12);
  c.latent.nope_dim = in.count("qk_nope_head_dim", 1 << 12);
  c.latent.v_dim = in.count("v_head_dim", 1 << 12);
  if (c.latent.rope_dim % 2 != 0) in.fail("qk_rope_head_dim", "even");
  c.rope = in.rope(c.latent.rope_dim);
  c.interleaved = in.flag("rope_interleave", true);
  double scale = 1 / std::sqrt(static_cast<double>(c.latent.nope_dim + c.latent.rope_dim));
  if (c.rope.type != "default" && c.rope.mscale_all_dim > 0) {
    const double factor = yarn_mscale(c.rope.factor, c.rope.mscale_all_dim);
    scale *= factor * factor;
  }
  c.latent.scale = static_cast<float>(scale);
}

void read_experts(const ConfigReader& in, Config& c) {
  c.dense_layers = c.layers;
  if (in.integer("n_routed_experts", 0) == 0) return;
  c.dense_layers = static_cast<int>(in.integer("first_k_dense_replace", 0));
  if (in.integer("moe_layer_freq", 1) != 1) in.fail("moe_layer_freq", "1");
  c.experts = in.count("n_routed_experts", 1 << 16);
  c.expert_size = in.count("moe_intermediate_size", 1 << 24);
  c.shared = static_cast<int>(in.integer("n_shared_experts", 0));
  c.moe.top_k = in.count("num_experts_per_tok", c.experts);
  c.moe.activation = c.activation;
  c.moe.sigmoid_scores = c.v3;
  c.moe.normalize_scores = c.v3 && in.flag("norm_topk_prob", true);
  c.moe.score_scale = static_cast<float>(in.number("routed_scaling_factor", 1));
  c.moe.group_by_best = !c.v3;
  if (!c.v3 && in.text("topk_method", "greedy") == "greedy") return;
  c.moe.groups = in.has("n_group") ? in.count("n_group", c.experts) : 1;
  c.moe.groups_kept = in.has("topk_group") ? in.count("topk_group", c.moe.groups) : c.moe.groups;
  if (c.experts % c.moe.groups != 0) in.fail("n_group", "a divisor of n_routed_experts");
  if (c.moe.top_k > c.experts / c.moe.groups * c.moe.groups_kept) {
    in.fail("topk_group", "enough groups for num_experts_per_tok experts");
  }
}

Config read_config(const Checkpoint& checkpoint) {
  const ConfigReader in = text_config(checkpoint);
  Config c{read_decoder_config(in)};
  c.v3 = c.model_type != "deepseek_v2";
  c.attention_bias = in.flag("attention_bias", false);
  read_latent(in, c);
  read_experts(in, c);
  return c;
}

struct Block {
  Weight input_norm, post_attention_norm;
  LatentAttention attention;
  FeedForward mlp;
};

class DeepSeek : public Model {
 public:
  DeepSeek(const Config& config, Checkpoint& checkpoint, Backend& backend);
  Tensor forward(Backend& be, const Step& step) const override;

 private:
  LatentAttention load_attention(const std::string& prefix, LayerLoader& in);
  FeedForward load_mlp(int layer, const std::string& prefix, LayerLoader& in) const;

  Config config_;
  Rope rope_;
  DecoderEnds ends_;
  std::vector<Block> blocks_;
};

DeepSeek::DeepSeek(const Config& config, Checkpoint& checkpoint, Backend& be)
    : config_(config), rope_(make_rope(config.rope)) {
  rope_.interleaved = config_.interleaved;
  config_.latent.rope = &rope_;
  info_ = config_.info();
  LayerLoader in(checkpoint, be);
  ends_ = in.ends(config_.vocab_size, config_.hidden_size, config_.tied);
  for (int layer = 0; layer < config_.layers; ++layer) {
    const std::string prefix = "model.layers." + std::to_string(layer) + ".";
    blocks_.push_back(
        {.input_norm = in.norm(prefix + "input_layernorm", config_.hidden_size),
         .post_attention_norm = in.norm(prefix + "post_attention_layernorm", config_.hidden_size),
         .attention = load_attention(prefix + "self_attn.", in),
         .mlp = load_mlp(layer, prefix + "mlp.", in)});
  }
}

LatentAttention DeepSeek::load_attention(const std::string& prefix, LayerLoader& in) {
  const LatentOptions& o = config_.latent;
  const int64_t dim = config_.hidden_size, heads = o.heads;
  const bool bias = config_.attention_bias;
  LatentAttention attention;
  if (config_.q_rank > 0) {
    attention.q_down = in.matrix(prefix + "q_a_proj", config_.q_rank, dim, bias);
    attention.q_norm = in.norm(prefix + "q_a_layernorm", config_.q_rank);
    attention.q = in.matrix(prefix + "q_b_proj", heads * (o.nope_dim + o.rope_dim), config_.q_rank);
  } else {
    attention.q = in.matrix(prefix + "q_proj", heads * (o.nope_dim + o.rope_dim), dim);
  }
  attention.kv_down = in.matrix(prefix + "kv_a_proj_with_mqa", o.rank + o.rope_dim, dim, bias);
  attention.weights.norm = in.norm(prefix + "kv_a_layernorm", o.rank);
  const StoredMatrix kv_up =
      in.checkpoint().take_matrix(prefix + "kv_b_proj", heads * (o.nope_dim + o.v_dim), o.rank);
  attention.weights.key_up = in.heads(kv_up, heads, 0, o.nope_dim, /*transposed=*/true);
  attention.weights.value_up = in.heads(kv_up, heads, o.nope_dim, o.v_dim, /*transposed=*/false);
  attention.out = in.matrix(prefix + "o_proj", dim, heads * o.v_dim, bias);
  attention.options = o;
  attention.kv = add_kv_layer(info_, o.kv(), latent_cache());
  return attention;
}

FeedForward DeepSeek::load_mlp(int layer, const std::string& prefix, LayerLoader& in) const {
  const Config& c = config_;
  if (layer < c.dense_layers) {
    return {.mlp = in.mlp(prefix, c.hidden_size, c.intermediate_size, c.activation), .mixture = {}};
  }
  ExpertMixture mixture;
  mixture.options = c.moe;
  mixture.weights.router = in.matrix(prefix + "gate", c.experts, c.hidden_size);
  if (c.v3) {
    mixture.weights.router_bias = in.vector(prefix + "gate.e_score_correction_bias", c.experts);
  }
  mixture.weights.experts = in.experts(prefix, c.experts, c.hidden_size, c.expert_size);
  if (c.shared > 0) {
    mixture.shared = in.mlp(prefix + "shared_experts.", c.hidden_size,
                            int64_t{c.shared} * c.expert_size, c.activation);
  }
  return {.mlp = {}, .mixture = mixture};
}

Tensor DeepSeek::forward(Backend& be, const Step& step) const {
  const NormOptions norm{.eps = config_.rms_norm_eps};
  Tensor x = be.embed(ends_.embedding, 1.0f, step);
  for (const Block& block : blocks_) {
    x = block.attention.forward(be, be.norm(x, block.input_norm, norm), x, step);
    x = block.mlp.forward(be, be.norm(x, block.post_attention_norm, norm), x);
  }
  return be.head(be.norm(be.select_outputs(x, step), ends_.norm, norm), ends_.head, 1.0f, 0.0f);
}

}  // namespace

std::unique_ptr<Model> make_deepseek(Checkpoint& checkpoint, Backend& backend) {
  return std::make_unique<DeepSeek>(read_config(checkpoint), checkpoint, backend);
}

}  // namespace tandem
