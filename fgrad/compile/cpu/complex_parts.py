"""L5. Native steps that take complex arrays apart and put them together: strided copies, by
vectors that are shuffled."""

from __future__ import annotations

from fgrad.compile.kernel.machine import VECTOR_BYTES
from fgrad.compile.llvm.runtime import Source, build_counted
from fgrad.compile.llvm.structured import Routine
from fgrad.compile.llvm.text import constant, element_type
from fgrad.compile.tasks.routines import ComplexParts


def complex_parts(task: ComplexParts) -> int:
    """The address of a step; range: [0, size)."""

    def emit(symbol: str) -> tuple[str, set[str]]:
        code = _Copies(task)
        lanes = VECTOR_BYTES // task.dtype.itemsize
        span = code.op("sub nsw", "i64", "%hi", "%lo")
        whole = code.op("sub nsw", "i64", span, code.op("urem", "i64", span, lanes))
        middle = code.op("add nsw", "i64", "%lo", whole)
        with code.count("%lo", middle, lanes) as i:
            code.move(i, lanes)
        with code.count(middle, "%hi") as i:
            code.move(i, 1)
        return code.define(symbol)

    name, dtype, _, constants = task
    content = f"complex_parts {name} {element_type(dtype)} {constants}"
    return build_counted([Source(content, emit)])[0]


class _Copies(Routine):
    """The text of the copies of one element, or of a vector of them."""

    def __init__(self, task: ComplexParts) -> None:
        super().__init__()
        self.task = task
        self.part, self.size = element_type(task.dtype), task.dtype.itemsize
        arrays = 1 if task.name != "complex" else task.constants.count(None)
        self.buffers = [self.buffer(k) for k in range(arrays + 1)]

    def move(self, i: str, lanes: int) -> None:
        """Copy the elements from one on."""
        twice = self.op("mul nsw", "i64", i, 2)
        other = self.op("add nsw", "i64", twice, lanes)
        kind = f"<{lanes} x {self.part}>"

        def read(buffer: str, place: str) -> str:
            return self.load(kind, buffer, place, self.size, self.part)

        def write(value: str, place: str) -> None:
            self.store(kind, value, self.buffers[-1], place, self.size, self.part)

        if self.task.name == "complex":
            arrays = iter(self.buffers)
            re, im = (
                read(next(arrays), i) if c is None else _splat(c, self.task, lanes)
                for c in self.task.constants
            )
            order = [k // 2 + k % 2 * lanes for k in range(2 * lanes)]
            write(self.shuffled(re, im, order[:lanes], kind), twice)
            write(self.shuffled(re, im, order[lanes:], kind), other)
        else:
            low, high = (read(self.buffers[0], place) for place in (twice, other))
            first = int(self.task.name == "imag")
            write(self.shuffled(low, high, range(first, 2 * lanes, 2), kind), i)


def _splat(number: float, task: ComplexParts, lanes: int) -> str:
    if lanes > 1:
        return constant(number, task.dtype, lanes)
    return f"<{element_type(task.dtype)} {constant(number, task.dtype, 1)}>"
