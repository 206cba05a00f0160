"""L5. The constants of a scheduled kernel: which are structural, and which can be parameters.

Extents, strides, offsets and constants may be data: the code of a kernel is then right for all
kernels of its structure, and reads them from a table.  What decides which instructions are written
is structure: small numbers, how a loop is cut into vectors, loops that are written out.  So are
constants that LLVM could compute with: code has the same bits whether a number stands in it or not.

    parallel i in 1000 lanes 8:        structure: parallel i in # lanes 8:     numbers: 1000, 0.37
      %0 = load x[i]                                %0 = load x[i]
      %1 = const float64 0.37      ->               %1 = const float64 #
      %2 = mul float64 %0 %1                        %2 = mul float64 %0 %1
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from collections.abc import Set as AbstractSet
from typing import Any, TypeAlias

from fgrad.base.named_tuple import NamedTuple
from fgrad.base.size_functions import bits, rounded, truncated
from fgrad.base.sizes import NotShared, Num, is_symbolic, settled
from fgrad.compile.kernel.cost import weight
from fgrad.compile.kernel.ir import (
    Affine,
    Const,
    Index,
    Kernel,
    Load,
    Loop,
    Op,
    Statement,
    Store,
)
from fgrad.compile.kernel.rewrite import is_tile, walk
from fgrad.compile.kernel.text import print_kernel

LEAST = 5  # numbers below are structure: strides that vectors know, loops that are written out
SHORT_SCRATCH = 16  # elements of scratch memory that may live in registers
_PLAIN = (0.0, 1.0, -1.0, 2.0, 0.5, -0.5)  # constants with instructions of their own

Number: TypeAlias = "int | float"


class Register:
    """A number that is not known when code is written.

    There is no arithmetic, so what would need its value fails.  `value` is one that it can have, to
    ask what all of them have in common.
    """

    __slots__ = ("text", "value")

    def __init__(self, text: str, value: Number = 0) -> None:
        self.text = text
        self.value = value

    def __repr__(self) -> str:
        return self.text

    def _unknown(self, *_: object) -> object:
        raise NotShared(self.text)

    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __neg__ = _unknown
    __mod__ = __floordiv__ = __lt__ = __le__ = __gt__ = __ge__ = __abs__ = __index__ = _unknown


def known(extent: int | Register) -> int:
    """An extent, or one of those that it can have."""
    return truncated(extent.value) if isinstance(extent, Register) else extent


def is_written_out(loop: Loop) -> bool:
    """Whether a loop's passes are straight code."""
    extent, lanes = known(loop.extent), max(loop.lanes, 1)
    if is_tile(loop) or loop.kind == "while":
        return extent <= lanes
    few = extent < LEAST and all([is_written_out(s) for s in loop.body if isinstance(s, Loop)])
    return few or (loop.unroll > 1 and loop.unroll * lanes == extent)


def turn_cost(loop: Loop) -> float:
    """The cycles of one turn, without the loops in it that look for signals themselves."""
    cost = 1.0
    for s in loop.body:
        if not isinstance(s, Loop):
            cost += weight(s)
        elif not looks_for_signals(s):
            cost += s.extent * turn_cost(s)
    return cost


def looks_for_signals(loop: Loop) -> bool:
    """Whether a loop may run long: without end, or in order; and one around it.  That does not
    depend on how long it is, so that sizes share code."""
    if loop.kind == "while" or any([isinstance(s, Loop) and _in_order(s) for s in loop.body]):
        return True
    return loop.kind == "serial" and not is_written_out(loop)


def _in_order(loop: Loop) -> bool:
    return loop.kind in ("while", "serial") and looks_for_signals(loop)


def capacity(size: int | Register) -> int:
    """The elements that a scratch buffer has room for: one figure for many sizes."""
    if not isinstance(size, Register) and size < SHORT_SCRATCH:
        return size
    room = 64
    while room < known(size):
        room *= 8
    return room


def _in_registers(kernel: Kernel) -> frozenset[str]:
    """The scratch buffers that may live in registers: few elements, met at constant places."""
    short = {b.name for b in kernel.buffers if b.role == "scratch" and b.size < SHORT_SCRATCH}
    if not short:
        return frozenset()
    body = list(walk(kernel.body))
    moving = {s.axis for s in body if isinstance(s, Loop) and not is_written_out(s)}
    for s in body:
        if isinstance(s, (Load, Store)) and not moving.isdisjoint([a for a, _ in s.index.terms]):
            short.discard(s.buffer)
    return frozenset(short)


class Structure(NamedTuple):
    """A kernel without its numbers; what each of them is, is the same for all of a structure."""

    text: str
    numbers: tuple[Number, ...]
    roles: tuple[str, ...]


def structure(kernel: Kernel) -> Structure:
    """The structure of a canonical scheduled kernel, and its numbers in order."""
    numbers: list[Number] = []
    roles: list[str] = []

    def take(number: Number, role: str) -> Any:
        numbers.append(number)
        roles.append(role)
        return _HOLE

    replaced = _replaced(kernel, take).kernel
    lines = [print_kernel(replaced)]
    for b, given in zip(replaced.buffers, kernel.buffers, strict=True):
        if b.role == "scratch":
            size = b.size if isinstance(b.size, int) else Register("#", given.size)
            lines.append(str(capacity(size)))
    return Structure("\n".join(lines), tuple(numbers), tuple(roles))


class Form(NamedTuple):
    """A kernel as code is written for it, with registers in place of some numbers.

    `turns` are the cycles of one turn of the loops that look for signals, by their axes.
    """

    kernel: Kernel
    turns: dict[str, object]


def form(kernel: Kernel, registers: Sequence[Register | None] | None = None) -> Form:
    """The form of a kernel; without registers all its numbers are known."""
    if registers is None:
        loops = [s for s in walk(kernel.body) if isinstance(s, Loop)]
        return Form(kernel, {s.axis: int(turn_cost(s)) for s in loops if looks_for_signals(s)})
    given = iter(registers)

    def take(number: Number, _role: str) -> Any:
        found = next(given)
        return number if found is None else found

    return _replaced(kernel, take)


_HOLE = Register("#")
_Take: TypeAlias = Callable[[Number, str], object]


def _replaced(kernel: Kernel, take: _Take) -> Form:
    fixed = _in_registers(kernel)
    buffers = [
        b._replace(size=0)
        if b.role != "scratch"
        else b
        if b.name in fixed
        else b._replace(size=take(b.size, "size"))
        for b in kernel.buffers
    ]
    replacing = _Replacing(take, _folded(kernel.body))
    body = replacing.body(kernel.body)
    return Form(kernel._replace(buffers=tuple(buffers), body=body), replacing.turns)


def _folded(body: tuple[Statement, ...]) -> frozenset[int]:
    """The constants that meet nothing but constants, indices and choices of them, with which LLVM
    could compute."""
    found: set[int] = set()
    constant: set[int] = set()
    bools: set[int] = set()
    for s in walk(body):
        if isinstance(s, (Const, Index)) and not is_symbolic(s):
            constant.add(s.id)
        elif isinstance(s, Op):
            if s.dtype.kind == "b":
                bools.add(s.id)
            args = s.args[1:] if s.op == "select" else s.args
            if constant.issuperset(args):
                constant.add(s.id)
                found.update(args)
            elif s.op == "convert" and not bools.isdisjoint(args):
                constant.add(s.id)
    return frozenset(found)


class _Replacing:
    """Copies statements with their numbers replaced."""

    def __init__(self, take: _Take, folded: frozenset[int]) -> None:
        self.take, self.folded = take, folded
        self.turns: dict[str, object] = {}

    def body(self, body: tuple[Statement, ...]) -> tuple[Statement, ...]:
        out: list[Statement] = []
        for s in body:
            if type(s) is Load:
                index, gather = self.affine(s.index), self.indirect(s.gather)
                s = Load(s.id, s.buffer, index, gather, s.predicate, s.other)
            elif type(s) is Store:
                s = s._replace(index=self.affine(s.index), scatter=self.indirect(s.scatter))
            elif type(s) is Index:
                s = Index(s.id, self.affine(s.index), s.dtype)
            elif type(s) is Const:
                s = self.const(s)
            elif type(s) is Loop:
                s = self.loop(s)
            out.append(s)
        return tuple(out)

    def number(self, number: int) -> Any:
        return settled(number) if -LEAST < number < LEAST else self.take(number, "stride")

    def affine(self, index: Affine) -> Affine:
        terms = [(axis, self.number(stride)) for axis, stride in index.terms]
        const: Any = self.take(index.const, "offset") if index.const else 0
        return Affine(const, tuple(terms))

    def indirect(self, terms: tuple[tuple[int, int], ...]) -> tuple[tuple[int, int], ...]:
        if not terms:
            return ()
        return tuple([(value, self.number(stride)) for value, stride in terms])

    def const(self, s: Const) -> Const:
        kind = s.dtype.kind
        if kind == "b" or s.id in self.folded or s.dtype.itemsize < 4:
            return s
        value = rounded(s.value, s.dtype)
        if not is_symbolic(value):
            few = value in _PLAIN or not math.isfinite(value) if kind == "f" else abs(value) < LEAST
            if few:
                return s
        return s._replace(value=self.take(value, "constant"))

    def loop(self, s: Loop) -> Loop:
        extent = settled(s.extent) if is_written_out(s) else self.take(s.extent, "extent")
        if looks_for_signals(s):
            self.turns[s.axis] = self.take(truncated(turn_cost(s)), "cost")
        return s._replace(extent=extent, body=self.body(s.body))


class Pattern(NamedTuple):
    """Which numbers of a structure are data: for each the number of its word in the table, or None
    for one that stands in the code as it does in `numbers`."""

    words: tuple[int | None, ...]
    numbers: tuple[Number, ...]

    def table(self, numbers: Sequence[Number]) -> tuple[int, ...] | None:
        """The table of a kernel with these numbers; None if the code is not for it."""
        found: dict[int, Number] = {}
        for word, mine, number in zip(self.words, self.numbers, numbers, strict=True):
            if not _same(found.setdefault(word, number) if word is not None else mine, number):
                return None
        return tuple([_word(found[k]) for k in range(len(found))])

    def registers(self) -> list[Register | None]:
        """The registers that hold the table's words."""
        return [
            None if word is None else Register(f"%number{word}", number)
            for word, number in zip(self.words, self.numbers, strict=True)
        ]


def pattern(
    seen: Sequence[tuple[Number, ...]],
    roles: Sequence[str],
    constants: AbstractSet[tuple[str, Number]] | None,
    symbols: Sequence[Number],
) -> Pattern | None:
    """The pattern of kernels of one structure: what differs among them is data, and numbers of one
    kind that are equal in each of them are one word; None if nothing is data.

    Arguments:
        seen: the numbers of each kernel.
        roles: what each number is.
        constants: what the program had at other sizes; other numbers are data too.
        symbols: the numbers of the last kernel, which are Nums where sizes are symbols: data, and
            one word where they are the same at all sizes.
    """
    words: dict[tuple[Any, ...], int] = {}
    found: list[int | None] = []
    for role, symbol, row in zip(roles, symbols, zip(*seen, strict=True), strict=True):
        varies = type(symbol) is Num or any([not _same(row[0], number) for number in row])
        varies = varies or (constants is not None and (role, row[0]) not in constants)
        symbolic = id(symbol) if type(symbol) is Num else None
        key = role, type(row[0]), symbolic, *row  # 3 and 3.0 are equal, but no one word
        found.append(words.setdefault(key, len(words)) if varies else None)
    return Pattern(tuple(found), seen[-1]) if words else None


def _same(a: Number, b: Number) -> bool:
    """Whether two numbers are the same, at all sizes if these are symbols."""
    return a is b or (type(a) is type(b) and type(a) is not Num and a == b)


def _word(number: Number) -> int:
    """A number as 64 bits."""
    if isinstance(number, float):
        return bits(number)
    return number if type(number) is Num or number < 1 << 63 else number - (1 << 64)
