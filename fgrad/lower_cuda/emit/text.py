"""L6. Structured text of a device function: loops, conditions, variables, memory.

    body = BodyText()
    x, y = body.pointer(0, "float"), body.pointer(1, "float")
    with body.when(body.compare("slt", "i32", "%x", 100)):
        body.store(body.load(x, "%x", "i32"), y, "%x", "i32")
    text = body.finish(2)

The dialect is NVVM's, whose pointers have types and spaces.  Variables live on the stack until the
compiler makes registers of them.  Kernels (body.py) and library steps are written with it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np

from fgrad.base.named_tuple import NamedTuple
from fgrad.compile.llvm.structured import Structured

GLOBAL, SHARED, PRIVATE = " addrspace(1)", " addrspace(3)", ""
_BARRIER = "llvm.nvvm.barrier0"


class Pointer(NamedTuple):
    """An address in a register, of elements of type `kind`."""

    name: str
    kind: str
    space: str

    @property
    def type(self) -> str:
        """Its type."""
        return f"{self.kind}{self.space}*"


class BodyText(Structured):
    """The growing body of `fgrad_body`."""

    def finish(self, arity: int) -> str:
        """The text of the module, whose function takes so many pointers."""
        pointers = "".join([f", i8 addrspace(1)* %p{k}" for k in range(arity)])
        lines = "\n".join([*self._head, *self.lines])
        return (
            "\n".join(sorted(self.declarations))
            + f"\ndefine void @fgrad_body(i32 %block, i32 %x, i32 %y{pointers}) {{\nentry:\n"
            + f"{lines}\n  ret void\n}}\n"
        )

    # Memory.

    def pointer(self, number: int, kind: str) -> Pointer:
        """A buffer as an array."""
        name = self.fresh("g")
        self._head.append(f"  {name} = bitcast i8{GLOBAL}* %p{number} to {kind}{GLOBAL}*")
        return Pointer(name, kind, GLOBAL)

    def shared(self, name: str, kind: str, count: int) -> Pointer:
        """Memory of the block; a name is declared in one way only."""
        array, first = f"[{count} x {kind}]", self.fresh("s")
        self.declare(f"@{name} = internal{SHARED} global {array} undef, align 16")
        self._head.append(
            f"  {first} = getelementptr {array}, {array}{SHARED}* @{name}, i32 0, i32 0"
        )
        return Pointer(first, kind, SHARED)

    def private(self, kind: str, count: int) -> Pointer:
        """Memory of the thread."""
        name = self.fresh("m")
        self._head.append(f"  {name} = alloca {kind}, i32 {count}, align 16")
        return Pointer(name, kind, PRIVATE)

    def at(self, base: Pointer, index: str | int, count: str = "i64") -> Pointer:
        """The address of an element; `count` is the type of the index.

        It is not said to be `inbounds`, which changed no PTX of 1,800 bodies.
        """
        if index == 0:
            return base
        name = self.emit(f"getelementptr {base.kind}, {base.type} {base.name}, {count} {index}")
        return base._replace(name=name)

    def view(self, base: Pointer, kind: str) -> Pointer:
        """The same address, of elements of another type."""
        if kind == base.kind:
            return base
        target = f"{kind}{base.space}*"
        name = self.emit(f"bitcast {base.type} {base.name} to {target}")
        return Pointer(name, kind, base.space)

    def load(
        self, base: Pointer, index: str | int = 0, count: str = "i64", align: int | None = None
    ) -> str:
        """The element."""
        at = self.at(base, index, count)
        tail = f", align {align}" if align else ""
        return self.emit(f"load {at.kind}, {at.type} {at.name}{tail}")

    def store(
        self,
        value: str | int,
        base: Pointer,
        index: str | int = 0,
        count: str = "i64",
        align: int | None = None,
    ) -> None:
        """Write the element."""
        at = self.at(base, index, count)
        tail = f", align {align}" if align else ""
        self.line(f"store {at.kind} {value}, {at.type} {at.name}{tail}")

    def from_memory(self, value: str, dtype: np.dtype) -> str:
        """The register with an element that was loaded."""
        return self.compare("ne", "i8", value, 0) if dtype.kind == "b" else value

    def to_memory(self, value: str, dtype: np.dtype) -> str:
        """What is stored of a register."""
        return self.cast("zext", "i1", value, "i8") if dtype.kind == "b" else value

    # Variables.

    def variable(self, kind: str, start: str | int) -> str:
        """A variable that begins with a value."""
        name = self.fresh("t")
        self._head.append(f"  {name} = alloca {kind}")
        self._kinds[name] = kind
        self.put(name, start)
        return name

    def get(self, variable: str) -> str:
        """The present value."""
        kind = self._kinds[variable]
        return self.emit(f"load {kind}, {kind}* {variable}")

    def put(self, variable: str, value: str | int) -> None:
        """A new value."""
        kind = self._kinds[variable]
        self.line(f"store {kind} {value}, {kind}* {variable}")

    # Values.

    def least(self, kind: str, a: str | int, b: str | int) -> str:
        """The smaller of two signed integers."""
        return self.select(self.compare("slt", kind, a, b), kind, a, b)

    def wide(self, value: str) -> str:
        """An i32 that is not negative as an i64."""
        return self.emit(f"zext i32 {value} to i64")

    def number(self, threads: int) -> str:
        """The number of the thread in the grid, an i64."""
        first = self.op("mul", "i64", self.wide("%block"), threads)
        return self.op("add", "i64", first, self.wide("%x"))

    # Control.

    def barrier(self) -> None:
        """Emit a barrier for the block; earlier writes are visible after it."""
        self.declare(f"declare void @{_BARRIER}()")
        self.line(f"call void @{_BARRIER}()")

    @contextmanager
    def count(
        self, lo: str | int, hi: str | int, step: str | int = 1, kind: str = "i64"
    ) -> Iterator[str]:
        """for i in range(lo, hi, step); the index is the context's value."""
        index = self.variable(kind, lo)
        with self.repeat(lambda: self.compare("slt", kind, self.get(index), hi)):
            i = self.get(index)
            yield i
            self.put(index, self.op("add", kind, i, step))

    @contextmanager
    def either(self, condition: str) -> Iterator[Callable[[], None]]:
        """if condition ... else ...: the context's value is a function that begins the latter."""
        then, other, end = self.labels("then", "else", "end")
        self.branch(condition, then, other)
        self.label(then)

        def otherwise() -> None:
            self.line(f"br label %{end}")
            self.label(other)

        yield otherwise
        self.line(f"br label %{end}")
        self.label(end)
