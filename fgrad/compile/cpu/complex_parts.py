"""L5. Native steps that take complex arrays apart and put them together: strided copies."""

from __future__ import annotations

import numpy as np

from fgrad.compile.cpu.llvm_text import element_type
from fgrad.compile.cpu.runtime import Source, build

_TEXT = """define void @{symbol}(ptr %bufs, i64 %lo, i64 %hi) #0 {{
entry:
  %at0 = getelementptr ptr, ptr %bufs, i64 0
  %b0 = load ptr, ptr %at0, align 8
  %at1 = getelementptr ptr, ptr %bufs, i64 1
  %b1 = load ptr, ptr %at1, align 8
  %at2 = getelementptr ptr, ptr %bufs, i64 {last}
  %b2 = load ptr, ptr %at2, align 8
  %some = icmp slt i64 %lo, %hi
  br i1 %some, label %loop, label %end
loop:
  %i = phi i64 [ %lo, %entry ], [ %following, %loop ]
  %twice = mul i64 %i, 2
  %other = add i64 %twice, 1
{body}
  %following = add i64 %i, 1
  %again = icmp slt i64 %following, %hi
  br i1 %again, label %loop, label %end
end:
  ret void
}}"""


def _move(kind: str, number: int, target: str, to: str, source: str, place: str) -> str:
    """The text of target[to] = source[place]."""
    return (
        f"  %s{number} = getelementptr {kind}, ptr {source}, i64 {place}\n"
        f"  %v{number} = load {kind}, ptr %s{number}\n"
        f"  %t{number} = getelementptr {kind}, ptr {target}, i64 {to}\n"
        f"  store {kind} %v{number}, ptr %t{number}\n"
    )


def complex_parts(name: str, dtype: np.dtype, size: int) -> int:
    """The address of `real`, `imag` (buffers: z, x) or `complex` (x, y, z) for parts of a dtype;
    range: [0, size)."""
    kind = element_type(dtype)
    if name == "complex":
        body = _move(kind, 0, "%b2", "%twice", "%b0", "%i")
        body += _move(kind, 1, "%b2", "%other", "%b1", "%i")
    else:
        body = _move(kind, 0, "%b1", "%i", "%b0", "%twice" if name == "real" else "%other")

    def emit(symbol: str) -> tuple[str, set[str]]:
        return _TEXT.format(symbol=symbol, last=2 if name == "complex" else 1, body=body), set()

    return build([Source(f"complex_parts {name} {kind}", emit)])[0]
