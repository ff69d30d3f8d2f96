"""Random quantised blocks and the float32 values that gguf-py and MLX give them."""

from importlib.metadata import version

import gguf
import mlx.core as mx
import numpy as np
from gguf import GGMLQuantizationType as T

from common import GOLDENS, write_lines
from gguf_blocks import decode

mx.set_default_device(mx.cpu)

# Where a type's blocks hold float16 numbers; the other bytes are free.
HALF_OFFSETS = {T.Q4_0: (0,), T.Q4_1: (0, 2), T.Q5_0: (0,), T.Q5_1: (0, 2), T.Q8_0: (0,),
                T.Q2_K: (80, 82), T.Q3_K: (108,), T.Q4_K: (0, 2), T.Q5_K: (0, 2), T.Q6_K: (208,)}
AFFINE_BITS = (2, 3, 4, 5, 6, 8)
AFFINE_GROUP_SIZES = (32, 64, 128)
SCALE_TYPES = {"bfloat16": mx.bfloat16, "float16": mx.float16, "float32": mx.float32}
# mode: (group size, bits)
FLOAT_MODES = {"mxfp4": (32, 4), "mxfp8": (32, 8), "nvfp4": (16, 4)}
ROWS, COLUMNS = 2, 256


class Writer:
    """Appends arrays to blocks.bin and values.f32; every entry starts at a multiple of 16 bytes."""

    def __init__(self):
        self.raw, self.values, self.entries = bytearray(), [], []
        self.value_count = 0

    def put(self, data):
        self.raw += bytes(-len(self.raw) % 16)
        at = len(self.raw)
        self.raw += data
        return {"offset": at, "bytes": len(data)}

    def add(self, entry, values):
        values = np.ascontiguousarray(values, dtype="<f4")
        assert np.isfinite(values).all(), entry
        self.entries.append(entry | {"values_offset": self.value_count, "values": values.size})
        self.values.append(values.ravel())
        self.value_count += values.size

    def save(self, directory):
        directory.mkdir(exist_ok=True)
        (directory / "blocks.bin").write_bytes(self.raw)
        np.concatenate(self.values).tofile(directory / "values.f32")
        head = {"source": f"gguf {version('gguf')}, mlx {mx.__version__}", "blocks": "blocks.bin",
                "values": "values.f32"}
        write_lines(directory / "index.json", head, "entries", self.entries)


def finite_halves(rng, shape):
    """Any finite float16 bits: both signs, subnormals and zero too."""
    bits = rng.integers(0, 1 << 16, shape, dtype=np.uint16)
    return np.where((bits & 0x7C00) == 0x7C00, bits & 0x83FF, bits).astype("<u2")


def add_gguf(writer, rng):
    for kind, offsets in HALF_OFFSETS.items():
        values, size = gguf.GGML_QUANT_SIZES[kind]
        count = 8 if values == 256 else 32
        blocks = rng.integers(0, 256, (count, size), dtype=np.uint8)
        for at in offsets:
            blocks[:, at:at + 2] = finite_halves(rng, (count, 1)).view(np.uint8)
        entry = {"format": "gguf", "type": kind.name, "type_id": int(kind), "blocks": count,
                 "block_values": values, "block_bytes": size, "data": writer.put(blocks.tobytes())}
        writer.add(entry, decode(blocks, kind))
    for kind, mask in ((T.F16, 0x7C00), (T.BF16, 0x7F80)):
        bits = rng.integers(0, 1 << 16, 512, dtype=np.uint16)
        bits = np.where((bits & mask) == mask, bits & ~np.uint16(mask), bits).astype("<u2")
        raw = bits.view("<f2") if kind == T.F16 else bits.view(np.uint8)
        entry = {"format": "gguf", "type": kind.name, "type_id": int(kind), "blocks": 512,
                 "block_values": 1, "block_bytes": 2, "data": writer.put(bits.tobytes())}
        writer.add(entry, decode(raw, kind))


def stored_bytes(array):
    if array.dtype == mx.bfloat16:
        array = array.view(mx.uint16)
    return np.array(array).tobytes()


def add_affine(writer, rng):
    for bits in AFFINE_BITS:
        for group_size in AFFINE_GROUP_SIZES:
            for type_name, dtype in SCALE_TYPES.items():
                shape = (ROWS, COLUMNS // group_size)
                codes = mx.array(rng.integers(0, 1 << 32, (ROWS, COLUMNS * bits // 32),
                                              dtype=np.uint32))
                scales = mx.array(rng.normal(0, 0.02, shape).astype(np.float32)).astype(dtype)
                biases = mx.array(rng.normal(0, 0.3, shape).astype(np.float32)).astype(dtype)
                values = mx.dequantize(codes, scales.astype(mx.float32),
                                       biases.astype(mx.float32), group_size=group_size, bits=bits)
                entry = {"format": "mlx", "mode": "affine", "bits": bits, "group_size": group_size,
                         "scale_type": type_name, "rows": ROWS, "columns": COLUMNS,
                         "weight": writer.put(stored_bytes(codes)),
                         "scales": writer.put(stored_bytes(scales)),
                         "biases": writer.put(stored_bytes(biases))}
                writer.add(entry, np.array(values))


def add_float_modes(writer, rng):
    for mode, (group_size, bits) in FLOAT_MODES.items():
        weight = mx.array(rng.normal(0, 1, (ROWS, COLUMNS)).astype(np.float32))
        codes, scales = mx.quantize(weight, group_size=group_size, bits=bits, mode=mode)
        values = mx.dequantize(codes, scales, group_size=group_size, bits=bits, mode=mode,
                               dtype=mx.float32)
        entry = {"format": "mlx", "mode": mode, "bits": bits, "group_size": group_size,
                 "scale_type": "uint8", "rows": ROWS, "columns": COLUMNS,
                 "weight": writer.put(stored_bytes(codes)),
                 "scales": writer.put(stored_bytes(scales))}
        writer.add(entry, np.array(values))


def main():
    rng = np.random.default_rng(400)
    writer = Writer()
    add_gguf(writer, rng)
    add_affine(writer, rng)
    add_float_modes(writer, rng)
    writer.save(GOLDENS / "dequant")


if __name__ == "__main__":
    main()
