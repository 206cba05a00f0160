"""L5. `KernelBuilder`: writes one kernel, computing values of array variables at places on demand.

A value is requested as `(atom, places, predicate)`.  Rules (compile/lower/rules.py) are generators
that yield such requests and return a value id: chains of any length need no recursion.  Each
statement goes into the outermost open loop in which its operands exist: loop-invariant code is
hoisted by construction.  Equal statements of one scope are written once.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Hashable, Mapping, Sequence
from typing import TypeAlias

import numpy as np

from fgrad.base.named_tuple import NamedTuple
from fgrad.base.size_functions import rounded
from fgrad.base.sizes import Num
from fgrad.compile.kernel.affine import (
    ZERO,
    AffineIndex,
    Places,
    axis,
    bounds,
    reshaped,
    row_major,
    total,
    value,
)
from fgrad.compile.kernel.ir import (
    Buffer,
    Const,
    Index,
    Init,
    Kernel,
    Load,
    Loop,
    Op,
    Read,
    Ref,
    Scalar,
    Statement,
    Store,
    Update,
)
from fgrad.ir.aval import BOOL, INT64
from fgrad.ir.primitive import Primitive
from fgrad.ir.program import Atom, Eqn, Lit, Var

UINT64 = np.dtype(np.uint64)


class Request(NamedTuple):
    """The value of an atom at an index; where `predicate` is false nothing may be read."""

    atom: Atom
    places: Places
    predicate: int | None = None


Rule: TypeAlias = "Generator[Request, int, int]"
ValueRule: TypeAlias = "Callable[[KernelBuilder, Eqn, int, Request], Rule]"


class Frame:
    """An open loop: its statements so far, and the values known in it."""

    __slots__ = ("body", "known", "loop")

    def __init__(self, loop: Loop | None) -> None:
        self.loop = loop
        self.body: list[Statement] = []
        self.known: dict[Hashable, int] = {}


class KernelBuilder:
    """Writes a kernel statement by statement.

    Arguments:
        inside: the equations of this kernel's own results, by output.
        virtual: those of variables that have no buffer; any other variable is one.
        rules: the value rule of each primitive.
    """

    def __init__(
        self,
        inside: Mapping[Var, Eqn],
        virtual: Mapping[Var, Eqn],
        rules: Mapping[Primitive, ValueRule],
    ) -> None:
        self.inside = inside
        self.virtual = virtual
        self.rules = rules
        self.frames = [Frame(None)]
        self.depth_of_axis: dict[str, int] = {}
        self.extents: dict[str, int] = {}
        self.depths: list[int] = []  # of each value id: the loop it lives in
        self.buffers: list[Buffer] = []
        self.args: list[Var] = []
        self.name_of: dict[Var, str] = {}
        self.accs = 0
        self.integers: dict[int, AffineIndex] = {}  # constants and places, by id
        # Values kept in memory: the buffer, and the flat index its first element stands for.
        self.saved: dict[Var, tuple[str, AffineIndex | None]] = {}
        # Axes that places were divided inside of, and how long the inner of two axes had to be.
        self.cuts: dict[str, int] = {}

    # Buffers.

    def buffer(self, var: Var, role: str = "in") -> str:
        """The name of the buffer of a variable, declared at first use."""
        name = self.name_of.get(var)
        if name is None:
            name = self.name_of[var] = f"b{len(self.buffers)}"
            self.buffers.append(Buffer(name, var.aval.dtype, var.aval.size, role))
            self.args.append(var)
        return name

    def scratch(self, dtype: np.dtype, size: int) -> str:
        """A fresh private buffer."""
        name = f"b{len(self.buffers)}"
        self.buffers.append(Buffer(name, dtype, size, "scratch"))
        return name

    def kernel(self) -> Kernel:
        """The finished kernel: arguments first, scratch last."""
        ordered = sorted(self.buffers, key=lambda b: b.role == "scratch")
        return Kernel("k", tuple(ordered), tuple(self.frames[0].body))

    # Loops.

    @property
    def depth(self) -> int:
        """How many loops are open."""
        return len(self.frames) - 1

    def open(self, extent: int, kind: str) -> AffineIndex:
        """Open a loop and return its axis."""
        name = f"i{len(self.extents)}"
        self.frames.append(Frame(Loop(name, extent, kind, ())))
        self.depth_of_axis[name] = self.depth
        self.extents[name] = extent
        return axis(name)

    def open_all(self, extents: Sequence[int], kind: str) -> Places:
        """Open a nest; an axis of length 1 needs no loop."""
        return tuple([self.open(n, kind) if n != 1 else ZERO for n in extents])

    def close(self) -> None:
        """Close the innermost loop."""
        frame = self.frames.pop()
        assert frame.loop is not None
        if frame.body:
            self.frames[-1].body.append(frame.loop._replace(body=tuple(frame.body)))

    def close_to(self, depth: int) -> None:
        """Close loops until `depth` are open."""
        while self.depth > depth:
            self.close()

    def retreat(self, depth: int) -> list[Frame]:
        """Go on writing at `depth`; the loops set aside are returned, for `resume`."""
        aside = self.frames[depth + 1 :]
        del self.frames[depth + 1 :]
        return aside

    def resume(self, aside: list[Frame]) -> None:
        """Come back to the loops that were set aside."""
        self.frames.extend(aside)

    # Statements.

    def place_depth(self, place: AffineIndex) -> int:
        """The innermost loop that a place depends on."""
        depth = 0
        for name, _ in place.terms:
            depth = max(depth, self.depth_of_axis[name])
        for id, _ in place.values:
            depth = max(depth, self.depths[id])
        return depth

    def _hoisted(self, depth: int) -> int:
        """`depth`, but inside every loop that may not run at all."""
        for k in range(self.depth, depth, -1):
            loop = self.frames[k].loop
            if loop is not None and loop.extent == 0:
                return k
        return depth

    def _emit(self, key: object, depth: int, make: Callable[[int], Statement]) -> int:
        """The value that `key` identifies, written at `depth` unless it is known."""
        depth = self._hoisted(depth)
        known = self.frames[depth].known
        id = known.get(key)
        if id is None:
            id = known[key] = len(self.depths)
            self.depths.append(depth)
            self.frames[depth].body.append(make(id))
        return id

    def const(self, x: object, dtype: np.dtype) -> int:
        """A number."""
        scalar = _python_scalar(x, dtype)
        key = ("const", dtype.num, repr(scalar))
        id = self._emit(key, 0, lambda id: Const(id, scalar, dtype))
        if dtype == INT64:
            self.integers[id] = AffineIndex(scalar if type(scalar) is Num else int(scalar))
        return id

    def index(self, place: AffineIndex, dtype: np.dtype = INT64) -> int:
        """A place as an integer value."""
        if not place.terms and not place.values:
            return self.const(place.const, dtype)
        if not place.values:
            key = ("index", dtype.num, place)
            depth = self.place_depth(place)
            id = self._emit(key, depth, lambda id: Index(id, place.affine, dtype))
            if dtype == INT64:
                self.integers[id] = place
            return id
        if place == value(place.values[0][0]) and dtype == INT64:
            return place.values[0][0]
        sum_id = self.index(place._replace(values=()))
        for id, stride in place.values:
            term = id if stride == 1 else self.op("mul", INT64, id, self.const(stride, INT64))
            sum_id = self.op("add", INT64, sum_id, term)
        return sum_id if dtype == INT64 else self.op("convert", dtype, sum_id)

    def op(self, name: str, dtype: np.dtype, *args: int) -> int:
        """A scalar operation; `dtype` is the result's."""
        if name in ("max", "min") and dtype == INT64:
            ends = [self.integers.get(a) for a in args]
            known = self._larger(*ends) if None not in ends else None  # type: ignore[arg-type]
            if known is not None:
                return args[known if name == "max" else 1 - known]
        depth = max([self.depths[a] for a in args])
        return self._emit((name, dtype.num, args), depth, lambda id: Op(id, name, args, dtype))

    def _resolved(self, place: AffineIndex) -> AffineIndex:
        """A place of which values that are known to be places are parts."""
        known = [(self.integers[id], stride) for id, stride in place.values if id in self.integers]
        if not known:
            return place
        rest = [(id, stride) for id, stride in place.values if id not in self.integers]
        parts, strides = zip(*known, strict=True)
        return total((place._replace(values=tuple(rest)), *parts), (1, *strides))

    def _larger(self, x: AffineIndex, y: AffineIndex) -> int | None:
        """Which of two places is never the smaller one; None if neither is."""
        limits = bounds(total((x, y), (1, -1)), self.extents)
        if limits is None:
            return None
        return 0 if limits[0] >= 0 else 1 if limits[1] <= 0 else None

    def load(
        self, buffer: str, place: AffineIndex, predicate: int | None = None, other: Scalar = 0,
        mutable: bool = False,
    ) -> int:  # fmt: skip
        """An element of a buffer; one of a `mutable` buffer is read here and now."""
        place = self._resolved(place)
        depth = max(self.place_depth(place), 0 if predicate is None else self.depths[predicate])
        key = ("load", buffer, place, predicate, repr(other))
        if mutable:
            depth, key = self.depth, ("load", len(self.depths))
        return self._emit(
            key, depth, lambda id: Load(id, buffer, place.affine, place.values, predicate, other)
        )

    def store(
        self,
        buffer: str,
        place: AffineIndex,
        value: int,
        mode: str = "set",
        predicate: int | None = None,
    ) -> None:
        """Write an element, in the innermost open loop."""
        place = self._resolved(place)
        self.frames[-1].body.append(
            Store(buffer, place.affine, value, place.values, mode, predicate)
        )

    def accumulator(self, op: str, dtype: np.dtype, start: object) -> str:
        """A fresh accumulator in the innermost open loop."""
        name = f"s{self.accs}"
        self.accs += 1
        begin = start if isinstance(start, Ref) else _python_scalar(start, dtype)
        self.frames[-1].body.append(Init(name, op, dtype, begin))
        return name

    def update(self, acc: str, value: int) -> None:
        """acc = op(acc, value)."""
        self.frames[-1].body.append(Update(acc, value))

    def read(self, acc: str) -> int:
        """The present value of an accumulator."""
        id = len(self.depths)
        self.depths.append(self.depth)
        self.frames[-1].body.append(Read(id, acc))
        return id

    # Helpers of rules.

    def divide(self, place: AffineIndex, by: int) -> tuple[AffineIndex, AffineIndex]:
        """Quotient and remainder of a place, computed by integer operations."""
        for name, stride in place.terms:
            inner, uneven = divmod(by, stride)
            if not uneven and 1 < inner < self.extents[name] and self.extents[name] % inner == 0:
                self.cuts.setdefault(name, inner)
        flat, step = self.index(place), self.const(by, INT64)
        quotient = self.op("floor_divide", INT64, flat, step)
        return value(quotient), total((place, value(quotient)), (1, -by))

    def reshaped(self, places: Places, shape: Sequence[int], to: Sequence[int]) -> Places:
        """The index of the same element under the shape `to`."""
        return reshaped(places, shape, to, self.extents, self.divide)

    def both(self, a: int | None, b: int | None) -> int | None:
        """The conjunction of two predicates."""
        if a is None or b is None:
            return b if a is None else a
        return a if a == b else self.op("and", BOOL, a, b)

    def within(self, place: AffineIndex, low: int, high: int, predicate: int | None) -> int | None:
        """`predicate` and low <= place < high, where that is not certain."""
        limits = bounds(place, self.extents)
        if limits is None and low == 0:  # one comparison: negative numbers are large unsigned ones
            unsigned = self.op("convert", UINT64, self.index(place))
            return self.both(predicate, self.op("lt", BOOL, unsigned, self.const(high, UINT64)))
        if limits is None or limits[0] < low:
            at_least = self.op("ge", BOOL, self.index(place), self.const(low, INT64))
            predicate = self.both(predicate, at_least)
        if limits is None or limits[1] >= high:
            below = self.op("lt", BOOL, self.index(place), self.const(high, INT64))
            predicate = self.both(predicate, below)
        return predicate

    # Values.

    def value(self, atom: Atom, places: Places, predicate: int | None = None) -> int:
        """The value of an atom at a place: computed where it has an equation, else loaded."""
        return self.drive(self._request(Request(atom, places, predicate)))

    def drive(self, step: int | Rule) -> int:
        """Run a rule to its end, and the rules that it asks for, without recursion."""
        if isinstance(step, int):
            return step
        stack, answer = [step], None
        while stack:
            try:
                request = stack[-1].send(answer)  # type: ignore[arg-type]
            except StopIteration as stop:
                stack.pop()
                answer = stop.value
                continue
            found = self._request(request)
            if isinstance(found, int):
                answer = found
            else:
                stack.append(found)
                answer = None
        assert answer is not None
        return answer

    def _request(self, request: Request) -> int | Rule:
        atom, places, predicate = request
        if type(atom) is Lit:
            return self.const(atom.value, atom.aval.dtype)
        assert isinstance(atom, Var)
        for frame in reversed(self.frames):
            id = frame.known.get(request)
            if id is not None:
                return id
        kept = self.saved.get(atom)
        if kept is not None:
            flat = total(places, row_major(atom.aval.shape))
            return self.load(kept[0], flat if kept[1] is None else total((flat, kept[1]), (1, -1)))
        eqn = self.inside.get(atom) or self.virtual.get(atom)
        if eqn is None:
            flat = total(places, row_major(atom.aval.shape))
            return self.load(self.buffer(atom), flat, predicate)
        return self._compute(eqn, request)

    def _compute(self, eqn: Eqn, request: Request) -> Rule:
        position = next(k for k, v in enumerate(eqn.outputs) if v is request.atom)
        id = yield from self.rules[eqn.prim](self, eqn, position, request)
        self.remember(request, id)
        return id

    def remember(self, request: Request, id: int) -> None:
        """Let later requests in the same scope find the value."""
        self.frames[min(self.depths[id], self.depth)].known[request] = id


def _python_scalar(x: object, dtype: np.dtype) -> Scalar:
    """A number as the Python scalar that a kernel holds."""
    if type(x) is Num:
        return rounded(x, dtype)
    with np.errstate(all="ignore"):
        return np.asarray(x).astype(dtype).item() if type(x) is not bool else x
