"""Tiny random-weight models of one family for each kind of cache, and their goldens.

The configuration is written as the hub's models have it; the weights are saved by transformers
itself (bfloat16), so that names and layouts are those of published checkpoints.
"""

import shutil
import sys
import tempfile

import torch
from transformers import AutoConfig, AutoModelForCausalLM

from common import TINY, fill_random, write_json, write_tiny_golden

SMALL = {"bos_token_id": 1, "eos_token_id": 2, "hidden_size": 64, "intermediate_size": 96,
         "max_position_embeddings": 256, "num_attention_heads": 4, "num_hidden_layers": 3,
         "num_key_value_heads": 2, "head_dim": 16, "rms_norm_eps": 1e-6, "vocab_size": 96,
         "attention_bias": False, "torch_dtype": "bfloat16"}
GEMMA = SMALL | {"hidden_activation": "gelu_pytorch_tanh", "sliding_window": 8,
                 "query_pre_attn_scalar": 24}
GEMMA3 = GEMMA | {"architectures": ["Gemma3ForCausalLM"], "model_type": "gemma3_text"}

DELTA = SMALL | {
    "hidden_act": "silu", "head_dim": 32, "num_key_value_heads": 1, "linear_conv_kernel_dim": 4,
    "linear_key_head_dim": 16, "linear_value_head_dim": 24, "linear_num_key_heads": 2,
    "linear_num_value_heads": 4, "tie_word_embeddings": False, "partial_rotary_factor": 0.25,
    "rope_theta": 10000.0}
LATENT = {k: v for k, v in SMALL.items() if k != "head_dim"} | {
    "hidden_act": "silu", "num_key_value_heads": 4, "num_hidden_layers": 2, "kv_lora_rank": 32,
    "qk_nope_head_dim": 16, "qk_rope_head_dim": 8, "v_head_dim": 16, "first_k_dense_replace": 1,
    "n_routed_experts": 8, "n_shared_experts": 1, "num_experts_per_tok": 3,
    "moe_intermediate_size": 24, "moe_layer_freq": 1, "rope_theta": 10000.0,
    "tie_word_embeddings": False}
YARN = {"type": "yarn", "factor": 8.0, "original_max_position_embeddings": 32, "beta_fast": 32,
        "beta_slow": 1, "mscale": 1.0, "mscale_all_dim": 0.7}
MIXTURE = SMALL | {"hidden_act": "silu", "num_hidden_layers": 2, "num_experts_per_tok": 2,
                   "rope_theta": 10000.0, "tie_word_embeddings": False}

MODELS = {
    "gemma3": GEMMA3 | {
        "num_key_value_heads": 1, "rope_local_base_freq": 10000.0, "rope_theta": 1000000.0,
        "rope_scaling": {"factor": 8.0, "rope_type": "linear"}, "sliding_window_pattern": 3},
    # Written as transformers 5 writes it.
    "gemma3-rope-parameters": GEMMA3 | {
        "num_hidden_layers": 2, "layer_types": ["full_attention", "sliding_attention"],
        "rope_parameters": {"full_attention": {"rope_type": "default", "rope_theta": 50000.0},
                            "sliding_attention": {"rope_type": "default", "rope_theta": 500.0}}},
    "gemma2": GEMMA | {
        "architectures": ["Gemma2ForCausalLM"], "model_type": "gemma2", "num_hidden_layers": 2,
        "rope_theta": 10000.0, "attn_logit_softcapping": 4.0, "final_logit_softcapping": 20.0},
    "mistral-window": SMALL | {
        "architectures": ["MistralForCausalLM"], "model_type": "mistral", "hidden_act": "silu",
        "num_hidden_layers": 2, "rope_theta": 10000.0, "sliding_window": 8,
        "tie_word_embeddings": False},
    "qwen3": SMALL | {
        "architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3", "hidden_act": "silu",
        "num_hidden_layers": 2, "head_dim": 32, "rope_theta": 1000000.0,
        "tie_word_embeddings": True},
    "qwen3_next": DELTA | {
        "architectures": ["Qwen3NextForCausalLM"], "model_type": "qwen3_next",
        "num_hidden_layers": 2, "full_attention_interval": 2, "decoder_sparse_step": 1,
        "mlp_only_layers": [1], "num_experts": 8, "num_experts_per_tok": 3,
        "moe_intermediate_size": 24, "shared_expert_intermediate_size": 32,
        "norm_topk_prob": True},
    "qwen3_moe": MIXTURE | {
        "architectures": ["Qwen3MoeForCausalLM"], "model_type": "qwen3_moe", "num_experts": 6,
        "moe_intermediate_size": 24, "norm_topk_prob": True, "decoder_sparse_step": 2,
        "mlp_only_layers": []},
    "qwen2_moe": {k: v for k, v in MIXTURE.items() if k != "attention_bias"} | {
        "architectures": ["Qwen2MoeForCausalLM"], "model_type": "qwen2_moe", "num_experts": 4,
        "moe_intermediate_size": 24, "shared_expert_intermediate_size": 32,
        "norm_topk_prob": False, "decoder_sparse_step": 1, "mlp_only_layers": [1]},
    "mixtral": MIXTURE | {
        "architectures": ["MixtralForCausalLM"], "model_type": "mixtral", "num_hidden_layers": 1,
        "num_local_experts": 4, "intermediate_size": 48, "rms_norm_eps": 1e-5,
        "sliding_window": None},
    "lfm2": {k: v for k, v in SMALL.items() if k not in ("head_dim", "rms_norm_eps")} | {
        "architectures": ["Lfm2ForCausalLM"], "model_type": "lfm2", "block_ff_dim": 144,
        "block_multiple_of": 32, "block_ffn_dim_multiplier": 1.0, "block_auto_adjust_ff_dim": True,
        "conv_L_cache": 3, "conv_bias": False, "full_attn_idxs": [1], "norm_eps": 1e-5,
        "rope_theta": 1000000.0, "tie_embedding": True},
    "deepseek_v3": LATENT | {
        "architectures": ["DeepseekV3ForCausalLM"], "model_type": "deepseek_v3",
        "q_lora_rank": 24, "n_group": 4, "topk_group": 2, "topk_method": "noaux_tc",
        "scoring_func": "sigmoid", "norm_topk_prob": True, "routed_scaling_factor": 2.5,
        "rope_scaling": YARN, "num_nextn_predict_layers": 0},
    "deepseek_v2": LATENT | {
        "architectures": ["DeepseekV2ForCausalLM"], "model_type": "deepseek_v2",
        "q_lora_rank": None, "n_group": 2, "topk_group": 1, "num_experts_per_tok": 2,
        "topk_method": "group_limited_greedy", "scoring_func": "softmax",
        "norm_topk_prob": False, "routed_scaling_factor": 1.5, "n_routed_experts": 6},
    "qwen3_5": DELTA | {
        "architectures": ["Qwen3_5ForCausalLM"], "model_type": "qwen3_5_text",
        "num_hidden_layers": 2, "layer_types": ["linear_attention", "full_attention"]},
}
SEEDS = {"gemma3": 500, "gemma3-rope-parameters": 501, "gemma2": 502, "mistral-window": 503,
         "qwen3": 504, "qwen3_next": 505, "qwen3_5": 506, "lfm2": 506, "deepseek_v3": 506,
         "deepseek_v2": 507, "qwen3_moe": 506, "qwen2_moe": 507, "mixtral": 508}
# Past the window by more than a page of the cache.
LENGTHS = {name: (1, 5, 17, 70) for name in ("gemma3", "mistral-window")}


def make(name, seed):
    directory = TINY / name
    directory.mkdir(parents=True, exist_ok=True)
    write_json(directory / "config.json", MODELS[name])
    model = AutoModelForCausalLM.from_config(AutoConfig.from_pretrained(directory),
                                             dtype=torch.float32)
    fill_random(model, seed, tied=0.5 if name.startswith("gemma") else 2.5)
    for key, value in model.state_dict().items():  # buffers
        if key.endswith("e_score_correction_bias"):
            value.copy_(torch.linspace(-0.3, 0.3, len(value)))
    with tempfile.TemporaryDirectory() as saved:
        model.to(torch.bfloat16).save_pretrained(saved)
        shutil.copy(f"{saved}/model.safetensors", directory / "model.safetensors")
    loaded = AutoModelForCausalLM.from_pretrained(directory, dtype=torch.float32,
                                                  attn_implementation="eager")
    write_tiny_golden(directory, loaded, seed, "dense bfloat16",
                      LENGTHS.get(name, (1, 5, 17, 40)))


if __name__ == "__main__":
    for name in MODELS:
        if not sys.argv[1:] or name in sys.argv[1:]:
            make(name, SEEDS[name])
