"""L7. The messages of protobuf as bytes, as far as files of ONNX need them.

message({1: 3, 2: "name", 7: [node, node]})      a field of a list is repeated

[P] Protocol Buffers: Encoding, protobuf.dev.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping


def varint(n: int) -> bytes:
    """An integer, seven bits a byte, the lowest first; negative ones as 64 bits."""
    n &= (1 << 64) - 1
    out = bytearray()
    while n > 127:
        out.append(n & 127 | 128)
        n >>= 7
    out.append(n)
    return bytes(out)


def message(fields: Mapping[int, object]) -> bytes:
    """A message of numbered fields: integers, floats of 32 bits, texts, and messages as bytes."""
    return b"".join([_field(number, value) for number, value in fields.items()])


def _field(number: int, value: object) -> bytes:
    if isinstance(value, (list, tuple)):
        return b"".join([_field(number, item) for item in value])
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    if isinstance(value, float):
        return varint(number << 3 | 5) + struct.pack("<f", value)
    data = value.encode() if isinstance(value, str) else value
    assert isinstance(data, bytes)
    return varint(number << 3 | 2) + varint(len(data)) + data
