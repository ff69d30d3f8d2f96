"""Random blocks of the GGUF quantised types, and what they stand for."""

import numpy as np
from gguf import GGMLQuantizationType as T
from gguf import quants

# type: (bytes of a block, offsets of its f16 scale and min, the values' standard deviation for
# random bytes and d = 1, dmin / d that centres the values). Blocks of 256 values.
K_LAYOUT = {
    T.Q2_K: (84, 80, 82, 21.0, 1.5),
    T.Q3_K: (110, 108, None, 42.0, 0.0),
    T.Q4_K: (144, 0, 2, 255.0, 7.5),
    T.Q5_K: (176, 0, 2, 520.0, 15.5),
    T.Q6_K: (210, 208, None, 1370.0, 0.0),
}


def random_k_blocks(rng, kind, shape, std):
    """Raw bytes [rows, blocks * bytes] of random K-quant blocks; every byte but d, dmin is free."""
    size, d_at, dmin_at, unit_std, dmin_ratio = K_LAYOUT[kind]
    rows, columns = shape
    blocks = rng.integers(0, 256, (rows * columns // 256, size), dtype=np.uint8)

    def put(at, scale):
        values = scale * rng.uniform(0.7, 1.3, len(blocks))
        blocks[:, at:at + 2] = values.astype("<f2").view(np.uint8).reshape(-1, 2)

    put(d_at, std / unit_std)
    if dmin_at is not None:
        put(dmin_at, std / unit_std * dmin_ratio)
    return blocks.reshape(rows, -1)


def encode(weight, kind, rng):
    """The raw array GGUF stores for float32 [rows, columns]; K-quants: random, of like spread."""
    if kind in K_LAYOUT:
        return random_k_blocks(rng, kind, weight.shape, float(weight.std()))
    return quants.quantize(weight, kind)


def decode(raw, kind):
    return quants.dequantize(raw, kind).astype(np.float32)
