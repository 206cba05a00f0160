"""L6. What a compiled kernel needs of a GPU: a cubin and the linker's log -> Resources.

Registers, stack and code size are read from the cubin, an ELF file; how many bytes are spilled
stands only in the log, and the shared memory of the kernel without what the GPU itself takes of it.
`opcodes` counts the instructions of PTX: what the compiler made of accesses and precision.
"""

from __future__ import annotations

import re
import struct
from collections import Counter
from collections.abc import Iterator

from fgrad.base.named_tuple import NamedTuple

_REGISTERS = 0x2F  # attributes of the section .nv.info: (function, value)
_FRAME = 0x11
_HAS_VALUES = 4


class Resources(NamedTuple):
    """What one kernel takes; `stack_bytes` and `spill_bytes` are of one thread."""

    registers: int
    spill_bytes: int  # written and read
    stack_bytes: int
    shared_bytes: int  # static
    code_bytes: int


class Cubin(NamedTuple):
    """Machine code for one kind of GPU, and the name of the kernel in it."""

    image: bytes
    entry: str
    resources: Resources


class _Section(NamedTuple):
    name: str
    kind: int
    data: bytes
    size: int


def resources(image: bytes, log: str) -> Resources:
    """The resources of the kernel in a cubin, of the functions that it calls the largest."""
    registers = stack = code = 0
    for section in _sections(image):
        if section.name == ".nv.info":
            values = list(_attributes(section.data))
            registers = max([v for kind, v in values if kind == _REGISTERS], default=0)
            stack = max([v for kind, v in values if kind == _FRAME], default=0)
        elif section.name.startswith(".text."):
            code += section.size
    spills = re.findall(r"(\d+) bytes spill stores, (\d+) bytes spill loads", log)
    spilled = max([int(stores) + int(loads) for stores, loads in spills], default=0)
    shared = [int(size) for size in re.findall(r"Used .*?(\d+) bytes smem", log)]
    return Resources(registers, spilled, stack, max(shared, default=0), code)


def opcodes(ptx: str) -> Counter[str]:
    """How often each instruction occurs in PTX, by its full name: `ld.global.nc.v4.f32`."""
    return Counter(re.findall(r"^\s*(?:@!?%p\d+\s+)?([a-z][\w.]*)(?:\s|;)", ptx, re.MULTILINE))


def float64_opcodes(ptx: str) -> Counter[str]:
    """The instructions on float64, which are 32 to 64 times slower on most GPUs."""
    return Counter({name: n for name, n in opcodes(ptx).items() if ".f64" in name})


def wide_accesses(ptx: str) -> tuple[int, int]:
    """How many loads and stores of 128 bits there are, of global memory."""
    wide = re.compile(r"(ld|st)\.global.*\.(v4\.[bfsu]32|v2\.[bfsu]64)")
    kinds = Counter({"ld": 0, "st": 0})
    for name, n in opcodes(ptx).items():
        found = wide.fullmatch(name)
        if found:
            kinds[found[1]] += n
    return kinds["ld"], kinds["st"]


def _sections(image: bytes) -> Iterator[_Section]:
    """The sections of a 64-bit little-endian ELF file."""
    (start,) = struct.unpack_from("<Q", image, 0x28)
    step, count, names = struct.unpack_from("<HHH", image, 0x3A)
    headers = [struct.unpack_from("<IIQQQQIIQQ", image, start + k * step) for k in range(count)]
    table = headers[names][4]
    for name, kind, _, _, offset, size, *_ in headers:
        end = image.index(b"\0", table + name)
        text = image[table + name : end].decode()
        yield _Section(text, kind, image[offset : offset + size], size)


def _attributes(data: bytes) -> Iterator[tuple[int, int]]:
    """Kind and value of the attributes of functions in a section .nv.info."""
    place = 0
    while place < len(data):
        form, kind, size = struct.unpack_from("<BBH", data, place)
        place += 4
        if form != _HAS_VALUES:  # the value stands in the place of the size
            continue
        if size == 8:
            yield kind, struct.unpack_from("<II", data, place)[1]
        place += size
