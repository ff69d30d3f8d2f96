"""Turns a Llama GGUF file into a folder as mlx-lm writes them: 4 bits, groups of 64.

The weights are what the GGUF's codes stand for, quantised again. Rows of q and k, which GGUF keeps
with rotary pairs side by side, go back to halves.
"""
import json
import struct
from pathlib import Path

from . import gguf

BITS, GROUP_SIZE = 4, 64

NAMES = {"token_embd": "model.embed_tokens", "output_norm": "model.norm", "output": "lm_head",
         "attn_norm": "input_layernorm", "ffn_norm": "post_attention_layernorm",
         "attn_q": "self_attn.q_proj", "attn_k": "self_attn.k_proj", "attn_v": "self_attn.v_proj",
         "attn_output": "self_attn.o_proj", "ffn_gate": "mlp.gate_proj", "ffn_up": "mlp.up_proj",
         "ffn_down": "mlp.down_proj"}
CONTROL = 3  # a token type of GGUF


def mlx_name(name):
    """"blk.3.attn_q" -> "model.layers.3.self_attn.q_proj"."""
    if name.startswith("blk."):
        _, layer, part = name.split(".")
        return f"model.layers.{layer}.{NAMES[part]}"
    return NAMES[name]


def config_of(number):
    """config.json of the metadata's values."""
    quantization = {"group_size": GROUP_SIZE, "bits": BITS, "mode": "affine"}
    return {
        "model_type": "llama", "architectures": ["LlamaForCausalLM"],
        "hidden_size": number["llama.embedding_length"],
        "intermediate_size": number["llama.feed_forward_length"],
        "num_hidden_layers": number["llama.block_count"],
        "num_attention_heads": number["llama.attention.head_count"],
        "num_key_value_heads": number["llama.attention.head_count_kv"],
        "max_position_embeddings": number["llama.context_length"],
        "rms_norm_eps": number["llama.attention.layer_norm_rms_epsilon"],
        "rope_theta": number["llama.rope.freq_base"],
        "vocab_size": len(number["tokenizer.ggml.tokens"]),
        "bos_token_id": number["tokenizer.ggml.bos_token_id"],
        "eos_token_id": number["tokenizer.ggml.eos_token_id"],
        "hidden_act": "silu", "tie_word_embeddings": True, "torch_dtype": "bfloat16",
        "quantization": quantization, "quantization_config": quantization}


def tokenizer_of(number):
    """tokenizer.json of a byte-level BPE vocabulary that splits digits, as SmolLM2's does."""
    tokens, kinds = number["tokenizer.ggml.tokens"], number["tokenizer.ggml.token_type"]
    added = [{"id": id, "content": token, "single_word": False, "lstrip": False, "rstrip": False,
              "normalized": False, "special": True}
             for id, (token, kind) in enumerate(zip(tokens, kinds)) if kind == CONTROL]
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True,
                  "use_regex": True}
    return {
        "version": "1.0", "truncation": None, "padding": None, "added_tokens": added,
        "normalizer": None,
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": [
            {"type": "Digits", "individual_digits": True}, byte_level]},
        "post_processor": None, "decoder": byte_level,
        "model": {"type": "BPE", "dropout": None, "unk_token": None,
                  "continuing_subword_prefix": None, "end_of_word_suffix": None,
                  "fuse_unk": False, "byte_fallback": False,
                  "vocab": {token: id for id, token in enumerate(tokens)},
                  "merges": number["tokenizer.ggml.merges"]}}


def tokenizer_config_of(number):
    tokens = number["tokenizer.ggml.tokens"]
    return {"tokenizer_class": "GPT2Tokenizer", "add_bos_token": False,
            "bos_token": tokens[number["tokenizer.ggml.bos_token_id"]],
            "eos_token": tokens[number["tokenizer.ggml.eos_token_id"]],
            "chat_template": number["tokenizer.chat_template"]}


def convert(source, folder):
    """Writes `folder` from the GGUF file `source`."""
    import mlx.core as mx  # of the project's environment; only this step needs it

    metadata, tensors = gguf.read_header(source)
    number = {name: value.value for name, value in metadata.items()}
    heads = {"attn_q": number["llama.attention.head_count"],
             "attn_k": number["llama.attention.head_count_kv"]}
    with mx.stream(mx.cpu):
        stored, out = mx.load(str(source), format="gguf"), {}
        for tensor in tensors:
            name = tensor.name.removesuffix(".weight")
            part = name.rpartition(".")[2]
            weight = stored[tensor.name]
            if f"{name}.scales" in stored:
                weight = mx.dequantize(weight, stored[f"{name}.scales"], stored[f"{name}.biases"],
                                       group_size=32, bits=8 if tensor.kind == "Q8_0" else 4)
            if part in heads:
                rows, columns = weight.shape
                weight = weight.reshape(heads[part], rows // heads[part] // 2, 2, columns)
                weight = weight.swapaxes(1, 2).reshape(rows, columns)
            path = mlx_name(name)
            if weight.ndim == 1:
                out[f"{path}.weight"] = weight.astype(mx.bfloat16)
                continue
            codes, scales, biases = mx.quantize(weight.astype(mx.bfloat16), GROUP_SIZE, BITS)
            out |= {f"{path}.weight": codes, f"{path}.scales": scales, f"{path}.biases": biases}
        folder.mkdir()
        mx.save_safetensors(str(folder / "model.safetensors"), out, {"format": "mlx"})
    for name, content in (("config", config_of(number)), ("tokenizer", tokenizer_of(number)),
                          ("tokenizer_config", tokenizer_config_of(number))):
        (folder / f"{name}.json").write_text(json.dumps(content, indent=1) + "\n")


def costs(folder):
    """As models.costs: from config.json and the header of model.safetensors."""
    config = json.loads((Path(folder) / "config.json").read_text())
    with open(Path(folder) / "model.safetensors", "rb") as file:
        header = json.loads(file.read(struct.unpack("<Q", file.read(8))[0]))
    header.pop("__metadata__", None)
    codes = [tensor["shape"] for name, tensor in header.items()
             if ".layers." in name and tensor["dtype"] == "U32"]
    head_dim = config["hidden_size"] // config["num_attention_heads"]
    return {"weight_bytes": sum(end - begin for begin, end in
                                (tensor["data_offsets"] for tensor in header.values())),
            "kv_bytes": 2 * 2 * config["num_hidden_layers"] * head_dim
            * config["num_key_value_heads"],
            "layer_weights": sum(rows * columns * 32 // BITS for rows, columns in codes),
            "head_weights": config["vocab_size"] * config["hidden_size"]}
