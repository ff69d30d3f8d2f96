"""Tiny random-weight model folders with dense safetensors, and their goldens."""

import json
import sys

import torch
from safetensors.torch import save_file
from transformers import AutoConfig, AutoModelForCausalLM

from common import TINY, fill_random, write_json, write_tiny_golden

LLAMA = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "attention_bias": False,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "hidden_act": "silu",
    "hidden_size": 64,
    "intermediate_size": 128,
    "max_position_embeddings": 256,
    "mlp_bias": False,
    "num_attention_heads": 4,
    "num_hidden_layers": 2,
    "num_key_value_heads": 2,
    "rms_norm_eps": 1e-5,
    "rope_scaling": None,
    "rope_theta": 10000.0,
    "tie_word_embeddings": False,
    "torch_dtype": "float32",
    "vocab_size": 128,
}
LLAMA3_SCALING = {"factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
                  "original_max_position_embeddings": 32, "rope_type": "llama3"}

# name: (config, what of the base config is left out)
MODELS = {
    "llama": (LLAMA, ()),
    "llama-tied": (LLAMA | {"num_hidden_layers": 1, "tie_word_embeddings": True}, ()),
    "llama-rope-llama3": (LLAMA | {"head_dim": 32, "num_hidden_layers": 1, "rope_theta": 500000.0,
                                   "rope_scaling": LLAMA3_SCALING, "eos_token_id": [2, 5]}, ()),
    "llama-rope-linear": (LLAMA | {"num_hidden_layers": 1,
                                   "rope_scaling": {"type": "linear", "factor": 4.0}}, ()),
    "mistral": ({"architectures": ["MistralForCausalLM"], "model_type": "mistral",
                 "bos_token_id": 1, "eos_token_id": 2, "head_dim": 32, "hidden_act": "silu",
                 "hidden_size": 64, "intermediate_size": 96, "max_position_embeddings": 256,
                 "num_attention_heads": 4, "num_hidden_layers": 1, "num_key_value_heads": 1,
                 "rms_norm_eps": 1e-5, "rope_theta": 1000000.0, "sliding_window": None,
                 "tie_word_embeddings": False, "torch_dtype": "float32", "vocab_size": 128}, ()),
    "qwen2": ({"architectures": ["Qwen2ForCausalLM"], "model_type": "qwen2", "bos_token_id": 1,
               "eos_token_id": 2, "hidden_act": "silu", "hidden_size": 64,
               "intermediate_size": 128, "max_position_embeddings": 256, "max_window_layers": 1,
               "num_attention_heads": 4, "num_hidden_layers": 1, "num_key_value_heads": 2,
               "rms_norm_eps": 1e-6, "rope_theta": 1000000.0, "sliding_window": 256,
               "tie_word_embeddings": True, "torch_dtype": "float32",
               "use_sliding_window": False, "vocab_size": 128}, ()),
    # Written as transformers 5 writes a config: rope_parameters and dtype.
    "smollm2-like": (LLAMA | {"hidden_size": 96, "num_attention_heads": 3,
                              "num_key_value_heads": 1, "intermediate_size": 160,
                              "num_hidden_layers": 1, "tie_word_embeddings": True,
                              "pad_token_id": 2,
                              "rope_parameters": {"rope_theta": 100000.0, "rope_type": "default"},
                              "dtype": "float32"},
                     ("rope_theta", "rope_scaling", "torch_dtype")),
    "llama-bf16": (LLAMA | {"torch_dtype": "bfloat16"}, ()),
    "llama-f16": (LLAMA | {"torch_dtype": "float16"}, ()),
}


def save_folder(directory, config, tensors, file_format):
    """The files of a Hugging Face model folder."""
    directory.mkdir(parents=True, exist_ok=True)
    write_json(directory / "config.json", config)
    generation = {"_from_model_config": True} | {
        k: config[k] for k in ("bos_token_id", "eos_token_id", "pad_token_id") if k in config}
    write_json(directory / "generation_config.json", generation)
    save_file(tensors, directory / "model.safetensors", metadata={"format": file_format})


def stored_tensors(model, dtype):
    tied = model.config.tie_word_embeddings
    return {k: v.detach().to(dtype).contiguous() for k, v in model.state_dict().items()
            if not (tied and k == "lm_head.weight")}


def make(name, seed):
    config, left_out = MODELS[name]
    config = {k: v for k, v in config.items() if k not in left_out}
    directory = TINY / name
    directory.mkdir(parents=True, exist_ok=True)
    write_json(directory / "config.json", config)
    model = AutoModelForCausalLM.from_config(AutoConfig.from_pretrained(directory),
                                             dtype=torch.float32)
    fill_random(model, seed)
    dtype = getattr(torch, config.get("torch_dtype") or config["dtype"])
    save_folder(directory, config, stored_tensors(model, dtype), "pt")
    loaded = AutoModelForCausalLM.from_pretrained(directory, dtype=torch.float32,
                                                  attn_implementation="eager")
    write_tiny_golden(directory, loaded, seed, f"dense {str(dtype).removeprefix('torch.')}")
    print("  rope:", json.dumps(loaded.config.rope_parameters))


if __name__ == "__main__":
    for index, name in enumerate(MODELS):
        if not sys.argv[1:] or name in sys.argv[1:]:
            make(name, 100 + index)
