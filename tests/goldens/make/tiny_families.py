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
}
# Past the window by more than a page of the cache.
LENGTHS = {name: (1, 5, 17, 70) for name in ("gemma3", "mistral-window")}


def make(name, seed):
    directory = TINY / name
    directory.mkdir(parents=True, exist_ok=True)
    write_json(directory / "config.json", MODELS[name])
    model = AutoModelForCausalLM.from_config(AutoConfig.from_pretrained(directory),
                                             dtype=torch.float32)
    fill_random(model, seed, tied=0.5 if name.startswith("gemma") else 2.5)
    with tempfile.TemporaryDirectory() as saved:
        model.to(torch.bfloat16).save_pretrained(saved)
        shutil.copy(f"{saved}/model.safetensors", directory / "model.safetensors")
    loaded = AutoModelForCausalLM.from_pretrained(directory, dtype=torch.float32,
                                                  attn_implementation="eager")
    write_tiny_golden(directory, loaded, seed, "dense bfloat16",
                      LENGTHS.get(name, (1, 5, 17, 40)))


if __name__ == "__main__":
    for index, name in enumerate(MODELS):
        if not sys.argv[1:] or name in sys.argv[1:]:
            make(name, 500 + index)
