#include "models/load/gguf_names.h"

namespace tandem {
namespace {

struct Name {
  std::string_view gguf, hf;
};

constexpr Name kOutside[] = {
    {"token_embd", "model.embed_tokens"},
    {"output_norm", "model.norm"},
    {"output", "lm_head"},
};

// Within "blk.N." and "model.layers.N.".
constexpr Name kInBlock[] = {
    {"attn_norm", "input_layernorm"},
    {"attn_q", "self_attn.q_proj"},
    {"attn_k", "self_attn.k_proj"},
    {"attn_v", "self_attn.v_proj"},
    {"attn_output", "self_attn.o_proj"},
    {"attn_q_norm", "self_attn.q_norm"},
    {"attn_k_norm", "self_attn.k_norm"},
    {"attn_sinks", "self_attn.sinks"},
    {"ffn_gate", "mlp.gate_proj"},
    {"ffn_up", "mlp.up_proj"},
    {"ffn_down", "mlp.down_proj"},
    {"ffn_gate_inp", "mlp.gate"},
    {"ffn_gate_exps", "mlp.switch_mlp.gate_proj"},
    {"ffn_up_exps", "mlp.switch_mlp.up_proj"},
    {"ffn_down_exps", "mlp.switch_mlp.down_proj"},
};

constexpr Name kPlainNorms[] = {{"ffn_norm", "post_attention_layernorm"}};

constexpr Name kGemmaNorms[] = {
    {"post_attention_norm", "post_attention_layernorm"},
    {"ffn_norm", "pre_feedforward_layernorm"},
    {"post_ffw_norm", "post_feedforward_layernorm"},
};

template <size_t N>
std::string_view lookup(const Name (&names)[N], std::string_view stem) {
  for (const Name& name : names) {
    if (name.gguf == stem) return name.hf;
  }
  return {};
}

bool is_gemma(std::string_view architecture) {
  return architecture == "gemma2" || architecture == "gemma3";
}

std::string_view lookup_in_block(std::string_view stem, std::string_view architecture) {
  auto norm = is_gemma(architecture) ? lookup(kGemmaNorms, stem) : lookup(kPlainNorms, stem);
  return norm.empty() ? lookup(kInBlock, stem) : norm;
}

}  // namespace

std::string gguf_to_hf_name(std::string_view name, std::string_view architecture) {
  size_t dot = name.rfind('.');
  if (dot == std::string_view::npos) return std::string(name);
  std::string_view stem = name.substr(0, dot), leaf = name.substr(dot);
  if (auto hf = lookup(kOutside, stem); !hf.empty()) return std::string(hf) + std::string(leaf);
  if (!stem.starts_with("blk.")) return std::string(name);
  size_t number_end = stem.find('.', 4);
  if (number_end == std::string_view::npos) return std::string(name);
  auto hf = lookup_in_block(stem.substr(number_end + 1), architecture);
  if (hf.empty()) return std::string(name);
  auto layer = stem.substr(4, number_end - 4);
  return "model.layers." + std::string(layer) + "." + std::string(hf) + std::string(leaf);
}

bool gguf_permutes_qk(std::string_view architecture) {
  return architecture == "llama" || architecture == "mistral3";
}

bool gguf_adds_one_to_norms(std::string_view architecture) { return is_gemma(architecture); }

}  // namespace tandem
