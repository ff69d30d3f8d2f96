"""Makes the seeds of the loader's fuzz targets: small valid files, and the known hostile ones."""
import json
import struct
from pathlib import Path

HERE = Path(__file__).resolve().parent


def string(text):
    return struct.pack("<Q", len(text)) + text.encode()


def key(name, kind, value):
    return string(name) + struct.pack("<I", kind) + value


def u32(name, value):
    return key(name, 4, struct.pack("<I", value))


def f32(name, value):
    return key(name, 6, struct.pack("<f", value))


def strings(name, values):
    body = struct.pack("<IQ", 8, len(values)) + b"".join(map(string, values))
    return key(name, 9, body)


def gguf(keys, tensors):
    """tensors: (name, dims innermost first, type, data)."""
    head = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(keys)) + b"".join(keys)
    offset, data = 0, b""
    for name, dims, kind, raw in tensors:
        head += string(name) + struct.pack(f"<I{len(dims)}QIQ", len(dims), *dims, kind, offset)
        data += raw + bytes(-len(raw) % 32)
        offset = len(data)
    return head + bytes(-len(head) % 32) + data


def llama(arch, types):
    keys = [key("general.architecture", 8, string(arch))]
    for name, value in {"embedding_length": 32, "block_count": 1, "feed_forward_length": 32,
                        "attention.head_count": 2, "attention.head_count_kv": 1,
                        "context_length": 64}.items():
        keys.append(u32(f"{arch}.{name}", value))
    keys.append(f32(f"{arch}.attention.layer_norm_rms_epsilon", 1e-5))
    keys.append(strings("tokenizer.ggml.tokens", ["<s>", "a", "b"]))
    keys.append(key("tokenizer.ggml.scores", 9, struct.pack("<IQ3f", 6, 3, 0, -1, -2)))
    keys.append(key("nested", 9, struct.pack("<IQ", 9, 1) + struct.pack("<IQB", 0, 1, 7)))
    keys.append(key("tokenizer.ggml.add_bos_token", 7, b"\1"))
    keys.append(u32("tokenizer.ggml.eos_token_id", 2))
    tensors = []
    for number, (name, rows) in enumerate([("token_embd", 3), ("blk.0.attn_q", 32),
                                           ("blk.0.attn_k", 16), ("blk.0.ffn_up", 4)]):
        kind, size = types[number % len(types)]
        raw = bytes(i % 251 for i in range(rows * size))
        tensors.append((f"{name}.weight", (32, rows), kind, raw))
    tensors.append(("blk.0.attn_norm.weight", (32,), 0, struct.pack("<32f", *range(32))))
    tensors.append(("blk.0.attn_q.bias", (32,), 0, struct.pack("<32f", *range(32))))
    return gguf(keys, tensors)


def hostile_gguf():
    def one(dims, kind=0, offset=0):
        return (b"GGUF" + struct.pack("<IQQ", 3, 1, 0) + string("t.weight")
                + struct.pack(f"<I{len(dims)}QIQ", len(dims), *dims, kind, offset))
    return {
        "zero-dim": one([4, 0]),
        "overflow": one([2**42 + 1, 2**22]),
        "five-dims": one([1, 1, 1, 1, 1]),
        "many-keys": b"GGUF" + struct.pack("<IQQ", 3, 0, 2**60),
        "long-key": b"GGUF" + struct.pack("<IQQQ", 3, 0, 1, 2**63) + bytes(20),
        "no-alignment": gguf([u32("general.alignment", 0)], []),
    }


def safetensors(tensors):
    header, data = {"__metadata__": {"format": "mlx"}}, b""
    for name, (dtype, shape, raw) in tensors.items():
        header[name] = {"dtype": dtype, "shape": shape,
                        "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + data


def quantised(base, bits):
    codes = bytes(i % 251 for i in range(2 * 32 * bits // 8))
    scale = struct.pack("<2H", 0x3F80, 0x3C00)
    return {f"{base}.weight": ("U32", [2, bits], codes), f"{base}.scales": ("BF16", [2, 1], scale),
            f"{base}.biases": ("BF16", [2, 1], scale)}


CONFIG = {"model_type": "llama", "hidden_size": 8, "tie_word_embeddings": True,
          "quantization": {"bits": 4, "group_size": 32, "mode": "affine",
                           "model.layers.0.x": {"bits": 8}, "lm_head": False},
          "vision_config": {}, "text_config": {"tie_word_embeddings": True}}
TOKENIZER = {"chat_template": [{"name": "default", "template": "{{ x }}"}], "eos_token": "</s>"}
INDEX = {"metadata": {"total_size": 8}, "weight_map": {"a.weight": "model-1.safetensors"}}

OVERLAP = json.dumps({"a": {"dtype": "U8", "shape": [2], "data_offsets": [0, 2]},
                      "b": {"dtype": "U8", "shape": [2], "data_offsets": [1, 3]}}).encode()


def main():
    seeds = {
        "gguf": {"q4-0": llama("llama", [(2, 18), (0, 128)]),
                 "q4-1-q8": llama("llama", [(8, 34), (3, 20)]),
                 "gemma": llama("gemma3", [(1, 64), (30, 64), (6, 22), (7, 24)])} | hostile_gguf(),
        "safetensors": {
            "dense": safetensors({"m.weight": ("F32", [2, 2], struct.pack("<4f", 1, 2, 3, 4)),
                                  "v": ("F16", [2], struct.pack("<2H", 0x3C00, 0)),
                                  "e": ("F32", [0, 2], b"")}),
            "affine": safetensors(quantised("model.b", 4) | quantised("a", 3)),
            "overlap": struct.pack("<Q", len(OVERLAP)) + OVERLAP + b"abc"},
        "model_json": {"config": json.dumps(CONFIG).encode(),
                       "tokenizer": json.dumps(TOKENIZER).encode(),
                       "index": json.dumps(INDEX).encode()},
        "json": {"values": b'{"a": [1, -2.5e3, "x\\u00e9\\n", null, true], "b": {"a": {}}}',
                 "deep": b"[" * 200, "twice": b'{"a": 1, "a": 2}', "bad": b'["\xff\xfe"]'},
    }
    for target, files in seeds.items():
        folder = HERE / target
        folder.mkdir(exist_ok=True)
        for name, data in files.items():
            (folder / name).write_bytes(data)


if __name__ == "__main__":
    main()
