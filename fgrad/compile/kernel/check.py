"""L5. The kernel checker: `check_kernel` names the first violated invariant, K1 to K7.

K1  every name is defined once, before its use and in scope; vector loops nest only as tiles
K2  indices without indirect terms or predicates stay inside their buffers
K3  every operation is in SCALAR_OPS, with operands and result of the right dtypes
K4  every out buffer that has elements is stored
K5  iterations of a parallel loop do not write the same element
K6  updates and reads name a live accumulator; parallel loops update none from outside
K7  a while loop has one `break`, preceded only by updates of accumulators that begin there or are
    an `or` (what has failed), and by writes to memory that is read nowhere else
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NoReturn

import numpy as np

from fgrad.base.named_tuple import NamedTuple
from fgrad.compile.kernel.ir import (
    Affine,
    Break,
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
    Statement,
    Store,
    Update,
)
from fgrad.compile.kernel.rewrite import indices, walk
from fgrad.compile.kernel.scalar import ACCUMULATORS, SCALAR_OPS
from fgrad.compile.kernel.text import PRINTERS, print_kernel
from fgrad.errors import CheckError

_MODES = ("set", "add", "sum", "mul", "min", "max")
_ROLES = ("in", "out", "inout", "scratch")
_BOOL = np.dtype(bool)
_INT64 = np.dtype(np.int64)


def check_kernel(kernel: Kernel) -> None:
    """Check all invariants of a kernel, scheduled or not.

    Raises:
      CheckError: with the invariant's number, the statement and the kernel's text.
    """
    _Checker(kernel).run()


class _Acc(NamedTuple):
    """A live accumulator and the number of loops around it."""

    init: Init
    depth: int


class _Checker:
    """Traverses a kernel, tracking the definitions in scope."""

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self.statement: Statement | None = None
        self.buffers: dict[str, Buffer] = {}
        self.loops: list[Loop] = []
        self.extents: dict[str, int] = {}  # of these loops
        self.dtypes: dict[int, np.dtype] = {}  # of the values in scope
        self.accs: dict[str, _Acc] = {}
        self.seen: set[int] = set()

    def fail(self, rule: str, why: str) -> NoReturn:
        where = "" if self.statement is None else PRINTERS[type(self.statement)](self.statement)
        rows = [("kernel", print_kernel(self.kernel))]
        if where:
            rows.insert(0, ("at", where))
        raise CheckError(f"{rule}: {why}", rows)

    def need(self, condition: bool, rule: str, why: str) -> None:
        if not condition:
            self.fail(rule, why)

    def run(self) -> None:
        for buffer in self.kernel.buffers:
            if buffer.name in self.buffers:
                self.fail("K1", f"buffer {buffer.name} twice")
            if buffer.role not in _ROLES or buffer.size < 0:
                self.fail("K1", f"bad buffer {buffer}")
            self.buffers[buffer.name] = buffer
        self.body(self.kernel.body)
        self.statement = None
        stored = {s.buffer for s in walk(self.kernel.body) if isinstance(s, Store)}
        for buffer in self.kernel.buffers:
            if buffer.role == "out" and buffer.size > 0 and buffer.name not in stored:
                self.fail("K4", f"{buffer.name} is never stored")

    def body(self, body: tuple[Statement, ...]) -> None:
        dtypes, accs = dict(self.dtypes), dict(self.accs)
        for s in body:
            self.statement = s
            _CHECKS[type(s)](self, s)
        self.dtypes, self.accs = dtypes, accs

    def define(self, id: int, dtype: np.dtype) -> None:
        if id in self.seen:
            self.fail("K1", f"%{id} is defined twice")
        self.seen.add(id)
        self.dtypes[id] = dtype

    def use(self, id: int) -> np.dtype:
        dtype = self.dtypes.get(id)
        return self.fail("K1", f"%{id} is not in scope") if dtype is None else dtype

    def buffer(self, name: str) -> Buffer:
        buffer = self.buffers.get(name)
        return self.fail("K1", f"no buffer {name}") if buffer is None else buffer

    def index(self, index: Affine, buffer: Buffer | None, exact: bool) -> None:
        """K1 for the axes, and K2 by interval arithmetic where the index is exact."""
        low = high = index.const
        for axis, stride in index.terms:
            if axis not in self.extents:
                self.fail("K1", f"axis {axis} is not in scope")
            reach = stride * (self.extents[axis] - 1)
            if reach < 0:
                low += reach
            else:
                high += reach
        if buffer is None or not exact or (low >= 0 and high < buffer.size):
            return
        if all(self.extents.values()):
            self.fail("K2", f"index [{low}, {high}] leaves {buffer.name}[{buffer.size}]")

    # --- statements

    def const(self, s: Const) -> None:
        self.define(s.id, s.dtype)

    def index_value(self, s: Index) -> None:
        self.index(s.index, None, False)
        self.define(s.id, s.dtype)

    def access(self, indirect: tuple[tuple[int, int], ...], predicate: int | None) -> None:
        for id, _ in indirect:
            if self.use(id) != _INT64:
                self.fail("K3", f"indirect index %{id} is not int64")
        if predicate is not None and self.use(predicate) != _BOOL:
            self.fail("K3", f"predicate %{predicate} is not bool")

    def load(self, s: Load) -> None:
        buffer = self.buffer(s.buffer)
        if s.gather or s.predicate is not None:
            self.access(s.gather, s.predicate)
        self.index(s.index, buffer, not s.gather and s.predicate is None)
        self.define(s.id, buffer.dtype)

    def op(self, s: Op) -> None:
        row = SCALAR_OPS.get(s.op)
        if row is None:
            self.fail("K3", f"unknown operation {s.op}")
        if len(s.args) != row.arity:
            self.fail("K3", f"{s.op} takes {row.arity} operands")
        dtypes = [self.use(a) for a in s.args]
        if s.op == "select":
            if dtypes[0] != _BOOL:
                self.fail("K3", "select needs a bool first")
            dtypes = dtypes[1:]
        operand = dtypes[0]
        # Texts are formatted only on failure: NumPy prints dtypes slowly, and compares them so.
        if any([d is not operand and d != operand for d in dtypes]):
            self.fail("K3", f"operands of {s.op} differ: {dtypes}")
        if operand.kind not in row.kinds:
            self.fail("K3", f"{s.op} does not take {operand}")
        result = row.result
        expected = operand if result == "same" else _BOOL if result == "bool" else s.dtype
        if s.dtype is not expected and s.dtype != expected:
            self.fail("K3", f"{s.op} gives {expected}, not {s.dtype}")
        if s.op == "bitcast" and s.dtype.itemsize != operand.itemsize:
            self.fail("K3", "bitcast changes the size")
        self.define(s.id, s.dtype)

    def init(self, s: Init) -> None:
        kinds = ACCUMULATORS.get(s.op, "biuf" if s.op == "carry" else "")
        if s.dtype.kind not in kinds:
            self.fail("K3", f"no accumulator {s.op} of {s.dtype}")
        if isinstance(s.start, Ref) and self.use(s.start.id) != s.dtype:
            self.fail("K3", "start has another dtype")
        if s.acc in self.accs:
            self.fail("K1", f"accumulator {s.acc} is live already")
        self.accs[s.acc] = _Acc(s, len(self.loops))

    def live(self, name: str) -> _Acc:
        acc = self.accs.get(name)
        return self.fail("K6", f"accumulator {name} is not live") if acc is None else acc

    def read(self, s: Read) -> None:
        self.define(s.id, self.live(s.acc).init.dtype)

    def update(self, s: Update) -> None:
        acc = self.live(s.acc)
        if self.use(s.value) != acc.init.dtype:
            self.fail("K3", f"update of {s.acc} by another dtype")
        kinds = {loop.kind for loop in self.loops[acc.depth :]}
        if "parallel" in kinds:
            self.fail("K6", f"{s.acc} is updated from a parallel loop")
        if acc.init.op == "carry" and "reduce" in kinds:
            self.fail("K6", f"carry {s.acc} is updated from a reduce loop")

    def store(self, s: Store) -> None:
        buffer = self.buffer(s.buffer)
        if buffer.role == "in":
            self.fail("K1", f"{s.buffer} is read only")
        if s.mode not in _MODES:
            self.fail("K3", f"no store mode {s.mode}")
        if self.use(s.value) != buffer.dtype:
            self.fail("K3", "stored value has another dtype")
        self.access(s.scatter, s.predicate)
        self.index(s.index, buffer, not s.scatter and s.predicate is None)
        if buffer.role != "scratch" and all(self.extents.values()):
            self.disjoint(s)

    def disjoint(self, s: Store) -> None:
        """K5: iterations from the outermost parallel loop inwards write distinct elements."""
        loops = [loop for loop in self.loops if loop.extent > 1]
        first = [k for k, loop in enumerate(loops) if loop.kind == "parallel"][:1]
        inside = loops[first[0] :] if first else []
        strides = dict(s.index.terms)
        for loop in inside:
            if loop.kind == "parallel" and loop.axis not in strides:
                self.fail("K5", f"all iterations of {loop.axis} store the same element")
        reach, within, unit = 0, -1, 0  # of all loops, up to the last parallel one; gcd of others
        terms = [(abs(strides[loop.axis]), loop) for loop in inside if loop.axis in strides]
        for stride, loop in sorted(terms, key=lambda term: term[0]):
            unit = 0 if loop.kind == "parallel" else math.gcd(unit, stride)
            overlaps = stride <= reach if loop.kind == "parallel" else unit <= within
            if overlaps and not s.scatter:
                self.fail("K5", f"iterations of {loop.axis} overlap in {s.buffer}")
            reach += stride * (loop.extent - 1)
            within = reach if loop.kind == "parallel" else within

    def loop(self, s: Loop) -> None:
        if s.kind not in ("parallel", "reduce", "serial", "while"):
            self.fail("K1", f"no loop kind {s.kind}")
        self.leaves(s)
        if s.axis in self.extents:
            self.fail("K1", f"axis {s.axis} is in use")
        vectors = [loop for loop in self.loops if loop.lanes > 1]
        tile = vectors == self.loops[-1:] and all([loop.body == (s,) for loop in vectors])
        if s.lanes > 1 and vectors and not tile:
            self.fail("K1", "a vector loop inside a vector loop")
        self.loops.append(s)
        self.extents[s.axis] = s.extent
        self.body(s.body)
        self.loops.pop()
        del self.extents[s.axis]

    def leaves(self, s: Loop) -> None:
        """K7 for one loop."""
        found = [k for k, inner in enumerate(s.body) if isinstance(inner, Break)]
        if s.kind != "while":
            if found:
                self.fail("K7", f"a break in the {s.kind} loop {s.axis}")
            return
        self.need(len(found) == 1, "K7", f"{len(found)} leaves in {s.axis}")
        self.need(s.extent == 1 and s.lanes < 2, "K7", f"{s.axis} has an extent or lanes")
        self.need(
            not self.written_before(s.body, found[0]), "K7", f"{s.axis} writes before it leaves"
        )
        used = any([a == s.axis for index in indices(s.body) for a, _ in index.terms])
        self.need(not used, "K7", f"{s.axis} is used in an index")

    def written_before(self, body: tuple[Statement, ...], stop: int) -> bool:
        """Whether memory not private to the condition is written before the loop's `break`."""
        before = list(walk(body[:stop]))
        own = {s.acc for s in before if isinstance(s, Init)}
        own |= {s.acc for s in walk(self.kernel.body) if isinstance(s, Init) and s.op == "or"}
        if any([isinstance(s, Update) and s.acc not in own for s in before]):
            return True
        inside = {id(s) for s in before}
        others = [s for s in walk(self.kernel.body) if id(s) not in inside]
        read = {s.buffer for s in others if isinstance(s, Load)}
        stored = {s.buffer for s in before if isinstance(s, Store)}
        return any([name in read or self.buffers[name].role == "inout" for name in stored])

    def break_(self, s: Break) -> None:
        inside = self.loops and self.loops[-1].kind == "while"
        self.need(bool(inside), "K7", "a break outside of a while loop")
        self.need(self.use(s.value) == _BOOL, "K3", f"break by %{s.value}, which is not bool")


_CHECKS: dict[type, Callable[[_Checker, Any], None]] = {
    Const: _Checker.const,
    Index: _Checker.index_value,
    Load: _Checker.load,
    Op: _Checker.op,
    Init: _Checker.init,
    Read: _Checker.read,
    Update: _Checker.update,
    Store: _Checker.store,
    Break: _Checker.break_,
    Loop: _Checker.loop,
}
