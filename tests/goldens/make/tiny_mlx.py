"""Tiny model folders quantised with MLX's affine mode, as mlx-lm writes them, and their goldens.

The reference's weights are scale * code + bias in float32, with the stored scales and biases
widened first: nothing is rounded to their 16-bit type again.
"""

import sys

import mlx.core as mx
import numpy as np
import torch
from transformers import AutoConfig, AutoModelForCausalLM

from common import TINY, fill_random, write_json, write_tiny_golden
from tiny_dense import LLAMA

mx.set_default_device(mx.cpu)

BITS = (2, 3, 4, 5, 6, 8)
GROUP_SIZES = (32, 64, 128)
BASE = {k: v for k, v in LLAMA.items() if k != "torch_dtype"} | {
    "hidden_size": 128, "intermediate_size": 128, "num_hidden_layers": 1,
    "tie_word_embeddings": True, "vocab_size": 96}

MIXED = {
    "group_size": 64, "bits": 4, "mode": "affine",
    "model.layers.0.mlp.down_proj": {"group_size": 32, "bits": 6},
    "model.layers.0.self_attn.o_proj": True,
    "model.layers.1.self_attn.v_proj": {"group_size": 128, "bits": 8, "mode": "affine"},
    "model.layers.1.mlp.gate_proj": {"group_size": 32, "bits": 3, "mode": "affine"},
    "lm_head": False,
}


def to_mlx(tensor, dtype):
    return mx.array(tensor.detach().numpy()).astype(dtype)


def to_torch(array):
    return torch.from_numpy(np.array(array.astype(mx.float32)))


def quantise(model, quantization, dtype):
    """What mlx-lm stores for each weight, and the float32 weights it stands for."""
    stored, dense = {}, {}
    for name, weight in model.state_dict().items():
        if model.config.tie_word_embeddings and name == "lm_head.weight":
            continue
        path = name.removesuffix(".weight")
        chosen = quantization.get(path, True)
        if "norm" in name or chosen is False:
            stored[name] = to_mlx(weight, dtype)
            dense[name] = to_torch(stored[name])
            continue
        params = chosen if isinstance(chosen, dict) else quantization
        sizes = {"group_size": params["group_size"], "bits": params["bits"]}
        codes, scales, biases = mx.quantize(to_mlx(weight, dtype), **sizes)
        stored |= {name: codes, path + ".scales": scales, path + ".biases": biases}
        dense[name] = to_torch(mx.dequantize(codes, scales.astype(mx.float32),
                                             biases.astype(mx.float32), **sizes))
    return stored, dense


def make(name, seed, config, quantization, dtype):
    directory = TINY / name
    directory.mkdir(parents=True, exist_ok=True)
    write_json(directory / "config.json", config)
    model = AutoModelForCausalLM.from_config(AutoConfig.from_pretrained(directory),
                                             dtype=torch.float32, attn_implementation="eager")
    fill_random(model, seed)
    stored, dense = quantise(model, quantization, dtype)
    mx.save_safetensors(str(directory / "model.safetensors"), stored, {"format": "mlx"})
    dtype_name = str(dtype).rpartition(".")[2]
    write_json(directory / "config.json", config | {
        "quantization": quantization, "quantization_config": quantization,
        "torch_dtype": dtype_name})
    write_json(directory / "generation_config.json", {"bos_token_id": 1, "eos_token_id": 2})
    missing, unexpected = model.load_state_dict(dense, strict=False)
    assert not unexpected and missing in ([], ["lm_head.weight"]), (missing, unexpected)
    model.tie_weights()
    write_tiny_golden(directory, model, seed,
                      f"mlx affine {quantization['bits']} bits, group {quantization['group_size']},"
                      f" {dtype_name} scales" + (", overrides" if len(quantization) > 3 else ""))


def main():
    wanted = sys.argv[1:]
    jobs = []
    for bits in BITS:
        for group_size in GROUP_SIZES:
            dtype = (mx.bfloat16, mx.float16)[len(jobs) % 2]
            quantization = {"group_size": group_size, "bits": bits, "mode": "affine"}
            jobs.append((f"mlx-{bits}bit-g{group_size}", BASE, quantization, dtype))
    mixed = BASE | {"num_hidden_layers": 2, "tie_word_embeddings": False}
    jobs.append(("mlx-mixed", mixed, MIXED, mx.bfloat16))
    for index, (name, config, quantization, dtype) in enumerate(jobs):
        if not wanted or name in wanted:
            make(name, 200 + index, config, quantization, dtype)


if __name__ == "__main__":
    main()
