"""Reads the header of a GGUF file, and writes one whose tensors are made on the fly.

Only what the benchmark's own files need. Format: the GGUF specification, version 3; all numbers
are little-endian, dimensions are stored innermost first.
"""
import struct
from pathlib import Path
from typing import NamedTuple

MAGIC = b"GGUF"
VERSION = 3
ALIGNMENT = 32

# Kinds of metadata values.
UINT8, INT8, UINT16, INT16, UINT32, INT32, FLOAT32, BOOL, STRING, ARRAY, UINT64, INT64, FLOAT64 = (
    range(13))
SCALARS = {UINT8: "<B", INT8: "<b", UINT16: "<H", INT16: "<h", UINT32: "<I", INT32: "<i",
           FLOAT32: "<f", BOOL: "<?", UINT64: "<Q", INT64: "<q", FLOAT64: "<d"}


class TensorKind(NamedTuple):
    name: str
    values: int  # in a block
    bytes: int   # of a block


KINDS = {0: TensorKind("F32", 1, 4), 1: TensorKind("F16", 1, 2), 30: TensorKind("BF16", 1, 2),
         2: TensorKind("Q4_0", 32, 18), 3: TensorKind("Q4_1", 32, 20),
         6: TensorKind("Q5_0", 32, 22), 7: TensorKind("Q5_1", 32, 24),
         8: TensorKind("Q8_0", 32, 34), 12: TensorKind("Q4_K", 256, 144),
         13: TensorKind("Q5_K", 256, 176), 14: TensorKind("Q6_K", 256, 210)}
KIND_IDS = {kind.name: id for id, kind in KINDS.items()}


class Value(NamedTuple):
    """A metadata value with its kind; `item` is the kind of an array's items."""
    kind: int
    value: object
    item: int = None


class Tensor(NamedTuple):
    name: str
    shape: tuple  # innermost first: (columns, rows) of a matrix
    kind: str

    @property
    def values(self):
        count = 1
        for size in self.shape:
            count *= size
        return count

    @property
    def bytes(self):
        kind = KINDS[KIND_IDS[self.kind]]
        return self.values // kind.values * kind.bytes


class _Reader:
    def __init__(self, file):
        self.file = file

    def scalar(self, kind):
        text = SCALARS[kind]
        return struct.unpack(text, self.file.read(struct.calcsize(text)))[0]

    def string(self):
        return self.file.read(self.scalar(UINT64)).decode("utf-8", "surrogateescape")

    def items(self, kind, count):
        if kind == STRING:
            return [self.string() for _ in range(count)]
        text = "<" + SCALARS[kind][1] * count
        return list(struct.unpack(text, self.file.read(struct.calcsize(text))))

    def value(self):
        kind = self.scalar(UINT32)
        if kind == STRING:
            return Value(kind, self.string())
        if kind == ARRAY:
            item = self.scalar(UINT32)
            return Value(kind, self.items(item, self.scalar(UINT64)), item)
        return Value(kind, self.scalar(kind))

    def tensor(self):
        name = self.string()
        shape = tuple(self.scalar(UINT64) for _ in range(self.scalar(UINT32)))
        kind = KINDS[self.scalar(UINT32)].name
        self.scalar(UINT64)  # where its data begins
        return Tensor(name, shape, kind)


def read_header(path):
    """(metadata as name -> Value, list of Tensor) of a GGUF file."""
    with open(path, "rb") as file:
        reader = _Reader(file)
        if file.read(4) != MAGIC or reader.scalar(UINT32) != VERSION:
            raise ValueError(f"{path} is not a GGUF file of version {VERSION}")
        tensors, values = reader.scalar(UINT64), reader.scalar(UINT64)
        metadata = {}
        for _ in range(values):
            name = reader.string()
            metadata[name] = reader.value()
        return metadata, [reader.tensor() for _ in range(tensors)]


def _string(text):
    data = text.encode("utf-8", "surrogateescape")
    return struct.pack("<Q", len(data)) + data


def _value(value):
    head = struct.pack("<I", value.kind)
    if value.kind == STRING:
        return head + _string(value.value)
    if value.kind != ARRAY:
        return head + struct.pack(SCALARS[value.kind], value.value)
    head += struct.pack("<IQ", value.item, len(value.value))
    if value.item == STRING:
        return head + b"".join(map(_string, value.value))
    return head + struct.pack("<" + SCALARS[value.item][1] * len(value.value), *value.value)


def _aligned(size):
    return -size % ALIGNMENT + size


def write(path, metadata, tensors, data_of):
    """Writes a file of these tensors; data_of(tensor) gives the bytes of one when it is due."""
    header = [MAGIC, struct.pack("<IQQ", VERSION, len(tensors), len(metadata))]
    for name, value in metadata.items():
        header += [_string(name), _value(value)]
    offset = 0
    for tensor in tensors:
        header.append(_string(tensor.name))
        header.append(struct.pack(f"<I{len(tensor.shape)}Q", len(tensor.shape), *tensor.shape))
        header.append(struct.pack("<IQ", KIND_IDS[tensor.kind], offset))
        offset += _aligned(tensor.bytes)
    text = b"".join(header)
    with open(Path(path), "wb") as file:
        file.write(text.ljust(_aligned(len(text)), b"\0"))
        for tensor in tensors:
            data = data_of(tensor)
            if len(data) != tensor.bytes:
                raise ValueError(f"{tensor.name} has {len(data)} bytes, expected {tensor.bytes}")
            file.write(data)
            file.write(bytes(_aligned(len(data)) - len(data)))
