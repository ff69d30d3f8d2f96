"""Tiny GGUF models of each weight type, and their goldens.

Llama files hold q and k with the rows of each head permuted, as llama.cpp's converter writes them
(rotary pairs side by side); the reference un-permutes the dequantised weights.
"""

import sys

import numpy as np
import torch
from gguf import GGMLQuantizationType as T
from gguf import GGUFWriter, RopeScalingType
from transformers import (LlamaConfig, LlamaForCausalLM, Qwen2Config, Qwen2ForCausalLM, Qwen3Config,
                          Qwen3ForCausalLM)

from common import TINY, fill_random, write_tiny_golden
from gguf_blocks import decode, encode

SMALL = {"hidden_size": 64, "intermediate_size": 128, "num_attention_heads": 4,
         "num_key_value_heads": 2, "num_hidden_layers": 1, "vocab_size": 96,
         "max_position_embeddings": 256, "rms_norm_eps": 1e-5, "tie_word_embeddings": False,
         "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0}}
WIDE = SMALL | {"hidden_size": 256, "intermediate_size": 256, "num_key_value_heads": 1,
                "tie_word_embeddings": True}
LLAMA3_ROPE = {"rope_type": "llama3", "rope_theta": 500000.0, "factor": 8.0,
               "low_freq_factor": 1.0, "high_freq_factor": 4.0,
               "original_max_position_embeddings": 32}
LINEAR_ROPE = {"rope_type": "linear", "rope_theta": 10000.0, "factor": 4.0}

# name: (arch, config, type of the matrices, types of single tensors)
FILES = {
    "gguf-f32": ("llama", SMALL, T.F32, {}),
    "gguf-f16": ("llama", SMALL, T.F16, {}),
    "gguf-bf16": ("llama", SMALL, T.BF16, {}),
    "gguf-q4_0": ("llama", SMALL, T.Q4_0, {}),
    "gguf-q4_1": ("llama", SMALL | {"tie_word_embeddings": True}, T.Q4_1,
                  {"token_embd.weight": T.Q8_0}),
    "gguf-q5_0": ("llama", SMALL, T.Q5_0, {}),
    "gguf-q5_1": ("llama", SMALL, T.Q5_1, {}),
    "gguf-q8_0": ("llama", SMALL, T.Q8_0, {}),
    "gguf-q4_k": ("llama", WIDE, T.Q4_K, {"token_embd.weight": T.Q6_K}),
    "gguf-q5_k": ("llama", WIDE, T.Q5_K, {"blk.0.attn_v.weight": T.Q6_K}),
    "gguf-q6_k": ("llama", WIDE, T.Q6_K, {}),
    "gguf-rope-llama3": ("llama", SMALL | {"head_dim": 32, "rope_parameters": LLAMA3_ROPE},
                         T.Q8_0, {}),
    "gguf-rope-linear": ("llama", SMALL | {"rope_parameters": LINEAR_ROPE}, T.Q8_0, {}),
    "gguf-qwen2": ("qwen2", SMALL | {"tie_word_embeddings": True}, T.Q8_0, {}),
    "gguf-qwen3": ("qwen3", SMALL | {"tie_word_embeddings": True, "head_dim": 32}, T.Q8_0, {}),
}

TENSOR_NAMES = {
    "model.embed_tokens": "token_embd", "model.norm": "output_norm", "lm_head": "output",
    "input_layernorm": "attn_norm", "post_attention_layernorm": "ffn_norm",
    "self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output", "self_attn.q_norm": "attn_q_norm",
    "self_attn.k_norm": "attn_k_norm",
    "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up", "mlp.down_proj": "ffn_down",
}


def gguf_name(name):
    path, _, leaf = name.rpartition(".")
    if path.startswith("model.layers."):
        _, _, layer, rest = path.split(".", 3)
        return f"blk.{layer}.{TENSOR_NAMES[rest]}.{leaf}"
    return f"{TENSOR_NAMES[path]}.{leaf}"


def permute(weight, heads):
    """Rows of each head from (first halves, second halves) to pairs side by side."""
    rows = weight.shape[0]
    return (weight.reshape(heads, 2, rows // heads // 2, -1).swapaxes(1, 2)
            .reshape(weight.shape))


def unpermute(weight, heads):
    rows = weight.shape[0]
    return (weight.reshape(heads, rows // heads // 2, 2, -1).swapaxes(1, 2)
            .reshape(weight.shape))


def heads_permuted(arch, config, name):
    """How many heads' rows the file permutes in this tensor; 0 for none."""
    if arch != "llama":
        return 0
    if name.endswith("q_proj.weight"):
        return config.num_attention_heads
    return config.num_key_value_heads if name.endswith("k_proj.weight") else 0


def write_metadata(writer, arch, config):
    rope = config.rope_parameters
    head_dim = getattr(config, "head_dim", None) or (
        config.hidden_size // config.num_attention_heads)
    writer.add_name(f"tiny {arch}")
    writer.add_block_count(config.num_hidden_layers)
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(config.num_key_value_heads)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    writer.add_rope_freq_base(rope["rope_theta"])
    writer.add_vocab_size(config.vocab_size)
    if head_dim * config.num_attention_heads != config.hidden_size:
        writer.add_key_length(head_dim)
        writer.add_value_length(head_dim)
    if arch == "llama":
        writer.add_rope_dimension_count(head_dim)
    if rope["rope_type"] == "linear":
        writer.add_rope_scaling_type(RopeScalingType.LINEAR)
        writer.add_rope_scaling_factor(rope["factor"])


def rope_factors(model):
    """What each rotary frequency is divided by: llama.cpp's rope_freqs.weight."""
    plain = 1.0 / model.config.rope_parameters["rope_theta"] ** (
        torch.arange(0, model.config.head_dim, 2) / model.config.head_dim)
    return (plain / model.model.rotary_emb.inv_freq).numpy().astype(np.float32)


def make(name, seed):
    arch, settings, kind, other_kinds = FILES[name]
    config_class, model_class = {"llama": (LlamaConfig, LlamaForCausalLM),
                                 "qwen2": (Qwen2Config, Qwen2ForCausalLM),
                                 "qwen3": (Qwen3Config, Qwen3ForCausalLM)}[arch]
    config = config_class(**settings, attn_implementation="eager")
    model = model_class(config)
    fill_random(model, seed)
    rng = np.random.default_rng(seed)
    directory = TINY / name
    directory.mkdir(parents=True, exist_ok=True)
    writer = GGUFWriter(directory / "model.gguf", arch)
    write_metadata(writer, arch, config)
    if config.rope_parameters["rope_type"] == "llama3":
        writer.add_tensor("rope_freqs.weight", rope_factors(model))
    dense = {}
    for hf_name, tensor in model.state_dict().items():
        if config.tie_word_embeddings and hf_name == "lm_head.weight":
            continue
        weight = tensor.detach().numpy()
        target = gguf_name(hf_name)
        if weight.ndim == 1:
            writer.add_tensor(target, weight)
            continue
        heads = heads_permuted(arch, config, hf_name)
        tensor_kind = other_kinds.get(target, kind)
        raw = encode(permute(weight, heads) if heads else weight, tensor_kind, rng)
        value = decode(raw, tensor_kind)
        writer.add_tensor(target, raw, raw_dtype=tensor_kind)
        dense[hf_name] = torch.from_numpy(unpermute(value, heads) if heads else value)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    model.load_state_dict(dense, strict=False)
    model.tie_weights()
    mixed = {k: v.name for k, v in other_kinds.items()}
    write_tiny_golden(directory, model, seed, f"gguf {kind.name}" + (f", {mixed}" if mixed else ""))


if __name__ == "__main__":
    for index, name in enumerate(FILES):
        if not sys.argv[1:] or name in sys.argv[1:]:
            make(name, 300 + index)
