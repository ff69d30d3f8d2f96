"""The files that both engines are measured on; made once and kept in the cache.

  default   SmolLM2-135M-Instruct, Q4_1: what `make model` gets
  mlx       the same model in MLX's 4-bit form, groups of 64: ours only, against the GGUF
  1b        random weights in the shape of Llama 3.2 1B, Q4_0 with a Q6_K embedding, as llama.cpp
            quantises such a model; the default model's vocabulary
"""
import hashlib
import json
import random
import shutil
import struct
import sys
from pathlib import Path

from . import gguf, mlx_form
from .peer import cache_folder, say

DEFAULT = "models/SmolLM2-135M-Instruct.Q4_1.gguf"
RECIPE = 1  # another number has the made files made again

LAYERS, WIDTH, HIDDEN, HEADS, KV_HEADS, HEAD_DIM = 16, 2048, 8192, 32, 8, 64
WEIGHT_DEVIATION = 0.02


def default_model():
    return cache_folder() / DEFAULT


def model_path(name):
    """The file or folder of a model, made if it is not there yet."""
    if name == "default":
        return default_model()
    if name == "mlx":
        return _made("bench/SmolLM2-135M-Instruct-4bit", lambda path: mlx_form.convert(
            default_model(), path))
    return _made("bench/llama-1b-random.Q4_0.gguf", make_random_llama)


def _made(name, make):
    """The path of `name` below the cache folder. It appears whole or not at all; the file beside
    it names the recipe and what came out."""
    path = cache_folder() / name
    note = path.with_name(path.name + ".made.json")
    wanted = {"recipe": RECIPE, "bytes": stored_bytes(path) if path.exists() else None}
    if note.exists() and wanted.items() <= json.loads(note.read_text()).items():
        return path
    say(f"making {path}")
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(path.name + ".partial")
    _remove(partial)
    make(partial)
    _remove(path)
    partial.rename(path)
    note.write_text(json.dumps({"recipe": RECIPE, "bytes": stored_bytes(path),
                                "sha256": sha256_of(path)}, indent=2) + "\n")
    return path


def _remove(path):
    if path.is_dir():
        shutil.rmtree(path)
    path.unlink(missing_ok=True)


def _files(path):
    return sorted(path.iterdir()) if path.is_dir() else [path]


def stored_bytes(path):
    return sum(file.stat().st_size for file in _files(path))


def sha256_of(path):
    digest = hashlib.sha256()
    for file in _files(path):
        with open(file, "rb") as data:
            while chunk := data.read(1 << 22):
                digest.update(chunk)
    return digest.hexdigest()


# --- The random model ------------------------------------------------------------------------


def random_llama_tensors(vocabulary):
    def matrix(name, columns, rows, kind="Q4_0"):
        return gguf.Tensor(f"{name}.weight", (columns, rows), kind)

    def norm(name):
        return gguf.Tensor(f"{name}.weight", (WIDTH,), "F32")

    tensors = [matrix("token_embd", WIDTH, vocabulary, "Q6_K"), norm("output_norm")]
    for layer in range(LAYERS):
        block = f"blk.{layer}."
        tensors += [norm(block + "attn_norm"), norm(block + "ffn_norm"),
                    matrix(block + "attn_q", WIDTH, HEADS * HEAD_DIM),
                    matrix(block + "attn_k", WIDTH, KV_HEADS * HEAD_DIM),
                    matrix(block + "attn_v", WIDTH, KV_HEADS * HEAD_DIM),
                    matrix(block + "attn_output", HEADS * HEAD_DIM, WIDTH),
                    matrix(block + "ffn_gate", WIDTH, HIDDEN),
                    matrix(block + "ffn_up", WIDTH, HIDDEN),
                    matrix(block + "ffn_down", HIDDEN, WIDTH)]
    return tensors


def random_llama_metadata(tokenizer):
    def count(value):
        return gguf.Value(gguf.UINT32, value)

    return {"general.architecture": gguf.Value(gguf.STRING, "llama"),
            "general.name": gguf.Value(gguf.STRING, "random weights, Llama 3.2 1B's shape"),
            "general.file_type": count(2),
            "llama.block_count": count(LAYERS), "llama.context_length": count(8192),
            "llama.embedding_length": count(WIDTH), "llama.feed_forward_length": count(HIDDEN),
            "llama.attention.head_count": count(HEADS),
            "llama.attention.head_count_kv": count(KV_HEADS),
            "llama.rope.dimension_count": count(HEAD_DIM),
            "llama.rope.freq_base": gguf.Value(gguf.FLOAT32, 500000.0),
            "llama.attention.layer_norm_rms_epsilon": gguf.Value(gguf.FLOAT32, 1e-5),
            "llama.vocab_size": count(len(tokenizer["tokenizer.ggml.tokens"].value)),
            **tokenizer}


def random_blocks(tensor, rng):
    """Bytes of a tensor: norms of ones, matrices of random codes under one fixed scale."""
    if tensor.kind == "F32":
        return struct.pack("<f", 1.0) * tensor.values
    data = bytearray(rng.randbytes(tensor.bytes))
    if tensor.kind == "Q4_0":  # 18 bytes: scale, then 32 codes of -8 to 7
        size, place, scale = 18, 0, WEIGHT_DEVIATION / 4.6
    else:  # Q6_K, 210 bytes: 256 codes of -32 to 31, 16 scales of a byte, then their scale
        size, place, scale = 210, 208, WEIGHT_DEVIATION / (18.5 * 74)
    for offset, byte in enumerate(struct.pack("<e", scale)):
        data[place + offset::size] = bytes([byte]) * (tensor.bytes // size)
    return data


def make_random_llama(path):
    metadata, _ = gguf.read_header(default_model())
    tokenizer = {name: value for name, value in metadata.items() if name.startswith("tokenizer.")}
    tensors = random_llama_tensors(len(tokenizer["tokenizer.ggml.tokens"].value))
    rng = random.Random(1)
    gguf.write(path, random_llama_metadata(tokenizer), tensors,
               lambda tensor: random_blocks(tensor, rng))


# --- What a step reads and computes ----------------------------------------------------------


def costs(path):
    """Per token of a model with a tied embedding: bytes of weights that a decoding step reads,
    bytes of f16 keys and values per token of context, and multiply-adds in its layers and in its
    head."""
    if Path(path).is_dir():
        return mlx_form.costs(path)
    metadata, tensors = gguf.read_header(path)
    number = {name: value.value for name, value in metadata.items()}
    matrices = [tensor for tensor in tensors if len(tensor.shape) == 2]
    layer_weights = sum(t.values for t in matrices if t.name.startswith("blk."))
    head_weights = max(t.values for t in matrices if not t.name.startswith("blk."))
    head_dim = (number["llama.embedding_length"] // number["llama.attention.head_count"])
    return {"weight_bytes": sum(tensor.bytes for tensor in tensors),
            "kv_bytes": (2 * 2 * number["llama.block_count"] * head_dim
                         * number["llama.attention.head_count_kv"]),
            "layer_weights": layer_weights, "head_weights": head_weights}


if __name__ == "__main__":
    for wanted in sys.argv[1:]:
        print(model_path(wanted))
