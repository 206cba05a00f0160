"""L5. Textual LLVM IR, one function at a time: fresh names, declarations, types of lanes.

Text is built with f-strings because that is ten times cheaper than building IR objects.  With one
lane values have scalar types, else `<lanes x type>`; a bool is i1 in registers and i8 in memory.
"""

from __future__ import annotations

import struct

import numpy as np

from fgrad.base.named_tuple import NamedTuple

LLVM_TYPES = {
    "b1": "i1",
    "i1": "i8", "i2": "i16", "i4": "i32", "i8": "i64",
    "u1": "i8", "u2": "i16", "u4": "i32", "u8": "i64",
    "f2": "half", "f4": "float", "f8": "double",
}  # fmt: skip
ATTRIBUTES = (
    'attributes #0 = { nounwind "prefer-vector-width"="512" "min-legal-vector-width"="512" }'
)
INFINITY = {2: 0x7C00, 4: 0x7F800000, 8: 0x7FF0000000000000}  # the bits, by size


class Target(NamedTuple):
    """The compilation target: triple, CPU name and feature string."""

    triple: str
    cpu: str
    features: str


def element_type(dtype: np.dtype) -> str:
    """The register type of one element: `float`, `i64`, `i1` for bool."""
    return LLVM_TYPES[f"{dtype.kind}{dtype.itemsize}"]


def lane_type(dtype: np.dtype, lanes: int) -> str:
    """The register type of `lanes` elements: `<16 x float>`, or `float` for one lane."""
    element = element_type(dtype)
    return element if lanes == 1 else f"<{lanes} x {element}>"


def memory_type(dtype: np.dtype) -> str:
    """The type of one element in memory: bool takes a byte."""
    return "i8" if dtype.kind == "b" else element_type(dtype)


def memory_lanes(dtype: np.dtype, lanes: int) -> str:
    """The type of `lanes` elements in memory."""
    return memory_type(dtype) if lanes == 1 else f"<{lanes} x {memory_type(dtype)}>"


def literal(value: bool | int | float, dtype: np.dtype) -> str:
    """The text of one element's constant, exact for floats."""
    if dtype.kind == "b":
        return "true" if value else "false"
    if dtype.kind in "iu":
        return str(int(np.asarray(value).astype(dtype)))
    rounded = float(np.asarray(value).astype(dtype))
    if dtype.itemsize == 2:
        return f"0xH{np.float16(value).view(np.uint16):04X}"
    return f"0x{struct.unpack('<Q', struct.pack('<d', rounded))[0]:016X}"


def constant(value: bool | int | float, dtype: np.dtype, lanes: int) -> str:
    """The operand text of a constant for `lanes` lanes (without its type)."""
    text = literal(value, dtype)
    return text if lanes == 1 else f"splat ({element_type(dtype)} {text})"


_LOOP = """define void @{symbol}(ptr %bufs, i64 %lo, i64 %hi) #0 {{
entry:
{buffers}
  %some = icmp slt i64 %lo, %hi
  br i1 %some, label %loop, label %end
loop:
  %i = phi i64 [ %lo, %entry ], [ %following, %loop ]
{body}
  %following = add i64 %i, 1
  %again = icmp slt i64 %following, %hi
  br i1 %again, label %loop, label %end
end:
  ret void
}}"""


def range_loop(symbol: str, buffers: int, body: str) -> str:
    """The text of a function that runs `body` for each `%i` of a range; `%b0`, ... are buffers."""
    pointers = [
        f"  %at{k} = getelementptr ptr, ptr %bufs, i64 {k}\n  %b{k} = load ptr, ptr %at{k}, align 8"
        for k in range(buffers)
    ]
    return _LOOP.format(symbol=symbol, buffers="\n".join(pointers), body=body.rstrip("\n"))


class FunctionText:
    """The growing body of one function, and the module declarations that it needs."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.declarations: set[str] = set()
        self.block = "entry"
        self._count = 0

    def fresh(self, prefix: str = "v") -> str:
        """A new SSA name or label stem."""
        self._count += 1
        return f"%{prefix}{self._count}"

    def emit(self, rhs: str) -> str:
        """Append `%new = rhs` and return the name."""
        name = self.fresh()
        self.lines.append(f"  {name} = {rhs}")
        return name

    def line(self, text: str) -> None:
        """Append an instruction without a result."""
        self.lines.append(f"  {text}")

    def label(self, name: str) -> None:
        """Begin the basic block `name` (without the percent sign)."""
        self.lines.append(f"{name}:")
        self.block = name

    def declare(self, text: str) -> None:
        """Add a module-level `declare ...` or global line, once."""
        self.declarations.add(text)
