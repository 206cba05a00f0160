"""L5. Pass `fuse`: which equations share a kernel, and which results get a buffer.

Each equation gets a stage: that of its latest source if it can be computed in the same loop nest,
else one more.  Equations of one stage that share a nest form a group, so groups cannot depend on
each other in a circle, and one walk over the program suffices.  Moving equations (reshape, permute,
slice, ...) and cheap small ones are virtual: every reader computes them itself.

    x: (rows, columns)        stage 1: reduce_max, sub, exp, reduce_sum, div   one row kernel
    softmax(x @ w) @ v        stage 1: gemm   2: the row kernel   3: gemm

A source is read in one of three ways: at the same place ("same"), once for each row ("row", a
broadcast along trailing axes), or elsewhere ("other").
"""

from __future__ import annotations

import heapq
import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from fgrad.compile.lower_dot import blas_operands, wants_blas
from fgrad.compile.lower_linalg import on_host
from fgrad.compile.lower_nest import NESTS
from fgrad.compile.lower_rules import MOVES, REDUCTIONS
from fgrad.compile.steps import Group
from fgrad.errors import CheckError
from fgrad.ir.program import Eqn, Program, Var
from fgrad.ir.walk import consumers

LIBRARY = frozenset({"sort"})
CONTRACTIONS = frozenset({"dot_general", "conv"})
COST = {  # of one scalar operation; 1 for the others
    **dict.fromkeys(["div", "sqrt", "masked_div", "remainder", "floor_divide", "fmod"], 4),
    **dict.fromkeys(
        [
            "exp",
            "exp2",
            "expm1",
            "log",
            "log2",
            "log10",
            "log1p",
            "sin",
            "cos",
            "tan",
            "asin",
            "acos",
            "atan",
            "sinh",
            "cosh",
            "tanh",
            "asinh",
            "acosh",
            "atanh",
            "erf",
            "erfc",
            "erfinv",
            "lgamma",
            "digamma",
            "logistic",
            "atan2",
            "cbrt",
            "pow",
        ],
        16,
    ),
}
CHEAP = 12  # scalar operations that may be computed again by every reader
MAX_COST = 384  # of one element in one kernel: compile time grows with it, and gains nothing
MAX_LEAVES = 12  # sources of one virtual value
ROW_LIMIT = 1 << 15  # elements of a row that is walked more than once
_SHRINKING = frozenset({"permute", "reshape", "slice", "reverse", "index", "pad", "dynamic_slice"})

SAME, ROW, OTHER = "same", "row", "other"


class Fusion(NamedTuple):
    """Groups in order, and the equations of variables that have no buffer."""

    groups: list[Group]
    virtual: Mapping[Var, Eqn]


class Leaf(NamedTuple):
    """A source with a buffer or a group, and how it is read."""

    var: Var
    how: str


def fuse(program: Program) -> Fusion:
    """Partition the equations of a program."""
    return _Fuser(program).run()


class _Nest:
    """A group in the making; merged ones point to the survivor."""

    __slots__ = (
        "cost",
        "domain",
        "kind",
        "members",
        "outputs",
        "parent",
        "row_vars",
        "rows",
        "stage",
    )  # fmt: skip

    def __init__(self, stage: int, kind: str, domain: tuple[int, ...]) -> None:
        self.stage = stage
        self.kind = kind
        self.domain = domain
        self.rows: int | None = None
        self.members: list[int] = []
        self.row_vars: set[Var] = set()
        self.parent: _Nest | None = None
        self.outputs: dict[Var, None] = {}
        self.cost = 0


def _is_library(eqn: Eqn) -> bool:
    return eqn.prim.name in LIBRARY or on_host(eqn)


def cost_of(eqn: Eqn) -> int:
    """The cost of one element of an equation."""
    return 0 if eqn.prim.name in MOVES else COST.get(eqn.prim.name, 1)


def _stripped(shape: Iterable[int]) -> tuple[int, ...]:
    return tuple([n for n in shape if n != 1])


def common_domain(a: tuple[int, ...], b: tuple[int, ...]) -> tuple[int, ...] | None:
    """The coarsest loops of which both shapes are merges; None if there are none.

    >>> common_domain((6, 4), (2, 3, 4))
    (2, 3, 4)
    """
    if a == b:
        return a
    if math.prod(a) != math.prod(b) or 0 in a:
        return None
    steps = sorted(_suffixes(a) | _suffixes(b))
    if any(big % small for small, big in itertools.pairwise(steps)):
        return None
    sizes = [big // small for small, big in itertools.pairwise(steps)]
    return tuple(reversed(sizes))


def _suffixes(shape: Sequence[int]) -> set[int]:
    products, step = {1}, 1
    for n in reversed(shape):
        step *= n
        products.add(step)
    return products


def _rows_of(domain: tuple[int, ...], inner: int) -> int | None:
    """How many leading axes leave `inner` elements; None if no axis ends there."""
    step = 1
    for k in range(len(domain), -1, -1):
        if step == inner:
            return k
        if k:
            step *= domain[k - 1]
    return None


class _Fuser:
    """One walk over the equations; see the module's docstring."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.readers = consumers(program.eqns)
        self.kept = {a for a in program.outputs if type(a) is Var}
        self.leaves: dict[Var, tuple[Leaf, ...]] = {}
        self.cost: dict[Var, int] = {}
        self.virtual: dict[Var, Eqn] = {}
        self.nest_of: dict[Var, _Nest] = {}
        self.siblings: dict[tuple[int, tuple[int, ...], Var], _Nest] = {}
        self.nests: list[_Nest] = []
        self.dropped: dict[Var, tuple[Leaf, ...]] = {}  # results of groups that became virtual
        for var in (*program.inputs, *[v for v, _ in program.consts]):
            self.leaves[var] = (Leaf(var, SAME),)
        self._keep_library_operands()

    def run(self) -> Fusion:
        for k, eqn in enumerate(self.program.eqns):
            self._equation(k, eqn)
        self._find_outputs()
        for nest in self.nests:
            if nest.parent is None and nest.kind == "loop":
                self._drop_cheap_outputs(nest)
        self._absorb()
        return Fusion(self._ordered(), self.virtual)

    def _keep_library_operands(self) -> None:
        """BLAS and the sorter read buffers: the variables behind their operands must have one."""
        eqns = self.program.eqns
        views = {
            e.outputs[0]: e for e in eqns if e.prim.name in MOVES and e.outputs[0] not in self.kept
        }
        self.blas: set[Var] = set()
        for eqn in eqns:
            if _is_library(eqn):
                self.kept.update([a for a in eqn.inputs if type(a) is Var])
            elif eqn.prim.name == "dot_general" and wants_blas(eqn):
                left, right, _ = blas_operands(eqn, views)
                for atom, found in zip(eqn.inputs, (left, right), strict=True):
                    source = atom if found is None else found.source
                    if type(source) is Var:
                        self.kept.add(source)
                        views.pop(source, None)
                self.blas.add(eqn.outputs[0])

    # One equation.

    def _equation(self, k: int, eqn: Eqn) -> None:
        name = eqn.prim.name
        if _is_library(eqn):
            self._opaque(k, eqn, "library")
        elif name in NESTS:
            self._opaque(k, eqn, "nest")
        elif eqn.outputs[0] in self.blas:
            self._opaque(k, eqn, "library")
        elif name in MOVES:
            self._move(k, eqn)
        elif name in REDUCTIONS:
            self._reduction(k, eqn)
        elif name in CONTRACTIONS:
            self._place(k, eqn, self._elsewhere(eqn), _stripped(eqn.outputs[0].aval.shape))
        else:
            self._elementwise(k, eqn)

    def _sources(self, eqn: Eqn) -> tuple[Leaf, ...]:
        """The leaves of all operands, each once."""
        found: dict[Leaf, None] = {}
        for atom in eqn.inputs:
            if type(atom) is Var:
                found.update(dict.fromkeys(self.leaves[atom]))
        if not self.dropped:
            return tuple(found)
        pending, found = list(found), {}
        while pending:
            leaf = pending.pop()
            below = self.dropped.get(leaf.var)
            if below is None:
                found[leaf] = None
            else:
                pending += [
                    inner if leaf.how == SAME else Leaf(inner.var, OTHER) for inner in below
                ]
        return tuple(found)

    def _elsewhere(self, eqn: Eqn) -> tuple[Leaf, ...]:
        return tuple([Leaf(leaf.var, OTHER) for leaf in self._sources(eqn)])

    def _opaque(self, k: int, eqn: Eqn, kind: str) -> None:
        """A step of its own, after all its sources."""
        nest = _Nest(self._after(self._sources(eqn)), kind, ())
        self._register(nest, k, eqn)

    def _register(self, nest: _Nest, k: int, eqn: Eqn) -> None:
        if not nest.members:
            self.nests.append(nest)
        nest.members.append(k)
        nest.cost += cost_of(eqn)
        for var in eqn.outputs:
            self.nest_of[var] = nest
            self.leaves[var] = (Leaf(var, SAME),)

    def _after(self, leaves: Sequence[Leaf]) -> int:
        """The first stage in which all sources are in buffers."""
        stages = [self._nest(leaf.var) for leaf in leaves]
        return max([1, *[n.stage + 1 for n in stages if n is not None]])

    def _nest(self, var: Var) -> _Nest | None:
        nest = self.nest_of.get(var)
        if nest is None:
            return None
        while nest.parent is not None:
            nest = nest.parent
        return nest

    # Moving equations.

    def _move(self, k: int, eqn: Eqn) -> None:
        (out,) = eqn.outputs
        leaves = _composed(eqn, self._sources(eqn))
        spent = sum([self.cost.get(a, 0) for a in eqn.inputs if type(a) is Var])
        if eqn.prim.name == "reshape" and out in self.kept and self._has_buffer(eqn):
            self.kept.update([a for a in eqn.inputs if type(a) is Var])
            nest = _Nest(self._after(self._sources(eqn)), "alias", ())
            self._register(nest, k, eqn)
        elif out in self.kept or len(leaves) > MAX_LEAVES or self._read_often(out, spent):
            self._place(k, eqn, leaves, _stripped(out.aval.shape))
        else:
            self._make_virtual(eqn, leaves, spent)

    def _has_buffer(self, eqn: Eqn) -> bool:
        """Whether the operand of a reshape is or can be a buffer."""
        source = eqn.inputs[0]
        return type(source) is Var and source not in self.virtual

    def _read_often(self, out: Var, spent: int) -> bool:
        return spent > CHEAP and len(self.readers.get(out, ())) > 1

    def _make_virtual(self, eqn: Eqn, leaves: tuple[Leaf, ...], spent: int) -> None:
        (out,) = eqn.outputs
        self.virtual[out] = eqn
        self.leaves[out] = leaves
        self.cost[out] = spent

    # Elementwise equations and reductions.

    def _elementwise(self, k: int, eqn: Eqn) -> None:
        (out,) = eqn.outputs
        leaves = self._sources(eqn)
        spent = sum([self.cost.get(a, 0) for a in eqn.inputs if type(a) is Var])
        spent += cost_of(eqn)
        if out not in self.kept and len(leaves) <= MAX_LEAVES:
            small = 4 * sum([leaf.var.aval.size for leaf in leaves]) <= out.aval.size
            scalar = out.aval.size == 1
            if spent <= CHEAP and (small or scalar):
                self._make_virtual(eqn, leaves, spent)
                return
            if self._read_once_elsewhere(out):
                self._make_virtual(eqn, leaves, spent)
                return
        self._place(k, eqn, leaves, _stripped(out.aval.shape))

    def _read_once_elsewhere(self, out: Var) -> bool:
        """Whether each element has one reader at most, which reads it at another place."""
        var, moved = out, False
        while True:
            readers = self.readers.get(var, ())
            if len(readers) != 1:
                return False
            (reader,) = readers
            name = reader.prim.name
            if sum([a is var for a in reader.inputs]) != 1:
                return False
            if name in NESTS:
                return name not in ("argmax", "argmin")
            if name in REDUCTIONS:
                return not _is_trailing(reader)
            if name not in _SHRINKING:
                return moved and name not in CONTRACTIONS | MOVES and not _is_library(reader)
            moved = moved or name != "reshape"
            if reader.outputs[0] in self.kept:
                return moved
            var = reader.outputs[0]

    def _reduction(self, k: int, eqn: Eqn) -> None:
        x, (out,) = eqn.inputs[0], eqn.outputs
        if not _is_trailing(eqn) or x.aval.size == 0:
            self._place(k, eqn, self._elsewhere(eqn), _stripped(out.aval.shape))
            return
        inner = x.aval.size // max(out.aval.size, 1)
        if inner == 1:
            self._place(k, eqn, self._sources(eqn), _stripped(out.aval.shape))
            return
        self._place(k, eqn, self._sources(eqn), _stripped(x.aval.shape), inner)

    # Finding a group.

    def _place(
        self, k: int, eqn: Eqn, leaves: tuple[Leaf, ...], shape: tuple[int, ...], inner: int = 0
    ) -> None:
        """Put an equation into the latest group of its sources that it fits, or into a new one.

        `shape` is what it loops over; a trailing reduction of `inner` elements yields row values.
        """
        stage, size = 1, math.prod(shape)
        joined: dict[int, tuple[_Nest, bool]] = {}
        for leaf in leaves:
            nest = self._nest(leaf.var)
            if nest is None:
                continue
            level = self._level(nest, leaf, shape, size, inner)
            stage = max(stage, nest.stage + (level is None))
            if level is not None:
                joined[id(nest)] = (nest, level == ROW)
        fitting = [(nest, row) for nest, row in joined.values() if nest.stage == stage]
        if fitting and not self._agree(fitting, shape, inner):
            fitting, stage = [], stage + 1
        if not fitting:
            sibling = self._sibling(stage, leaves, shape, inner)
            fitting = [] if sibling is None else [(sibling, False)]
        if fitting:
            nest, row = fitting[0][0], fitting[0][1]
            for other, _ in fitting[1:]:
                nest = self._merge(nest, other)
            if not row:
                nest.domain = common_domain(nest.domain, shape) or nest.domain
        else:
            nest, row = _Nest(stage, "loop", shape), False
        if inner:
            nest.rows = _rows_of(nest.domain, inner)
        elif nest.rows is not None and not row:
            nest.rows = self._rows_after(nest)
        self._register(nest, k, eqn)
        self._note_level(nest, eqn, row or bool(inner))
        if not row:
            for leaf in leaves:
                if leaf.how == SAME:
                    self.siblings.setdefault((stage, shape, leaf.var), nest)

    def _note_level(self, nest: _Nest, eqn: Eqn, row: bool) -> None:
        if row:
            nest.row_vars.update(eqn.outputs)

    def _rows_after(self, nest: _Nest) -> int | None:
        """The row count of a nest, whose domain may have been refined."""
        return _rows_of(nest.domain, self._inner(nest))

    def _inner(self, nest: _Nest) -> int:
        rows = next(iter(nest.row_vars)).aval.size
        return math.prod(nest.domain) // max(rows, 1)

    def _level(
        self, nest: _Nest, leaf: Leaf, shape: tuple[int, ...], size: int, inner: int
    ) -> str | None:
        """At which level of a source's nest a reader can be computed: full, row, or not at all."""
        if nest.kind != "loop" or leaf.how == OTHER or nest.cost >= MAX_COST:
            return None
        if inner and nest.rows is not None and self._inner(nest) != inner:
            return None
        if leaf.var in nest.row_vars:
            if inner:
                return None if leaf.how == SAME else self._row_reader(nest, leaf, size)
            if leaf.how == SAME:
                return ROW if size == leaf.var.aval.size else None
            return self._row_reader(nest, leaf, size)
        if leaf.how == ROW:
            return None
        domain = common_domain(nest.domain, shape)
        if domain is None or (inner and _rows_of(domain, inner) is None):
            return None
        return SAME

    def _row_reader(self, nest: _Nest, leaf: Leaf, size: int) -> str | None:
        """A full-size reader of a row value: it walks the row again."""
        fits = size == math.prod(nest.domain) and self._inner(nest) <= ROW_LIMIT
        return SAME if fits else None

    def _agree(
        self, fitting: Sequence[tuple[_Nest, bool]], shape: tuple[int, ...], inner: int
    ) -> bool:
        """Whether several nests of one stage can become one, with the reader at one level."""
        if len({row for _, row in fitting}) > 1:
            return False
        if len(fitting) == 1:
            return True
        if sum([nest.cost for nest, _ in fitting]) > MAX_COST:
            return False
        inners = {self._inner(nest) for nest, _ in fitting if nest.rows is not None}
        inners |= {inner} if inner else set()
        if len(inners) > 1:
            return False
        domain: tuple[int, ...] | None = fitting[0][0].domain
        for nest, _ in fitting[1:]:
            domain = None if domain is None else common_domain(domain, nest.domain)
        if domain is not None and not fitting[0][1]:
            domain = common_domain(domain, shape)
        if domain is None:
            return False
        return not inners or _rows_of(domain, next(iter(inners))) is not None

    def _sibling(
        self, stage: int, leaves: Sequence[Leaf], shape: tuple[int, ...], inner: int
    ) -> _Nest | None:
        """A group of the same stage and loops that reads the same source."""
        for leaf in leaves:
            nest = self.siblings.get((stage, shape, leaf.var)) if leaf.how == SAME else None
            while nest is not None and nest.parent is not None:
                nest = nest.parent
            if nest is None or nest.stage != stage or nest.cost >= MAX_COST:
                continue
            if inner and (_rows_of(nest.domain, inner) is None or nest.rows is not None):
                fits = nest.rows is not None and self._inner(nest) == inner
            else:
                fits = True
            if fits:
                return nest
        return None

    def _merge(self, a: _Nest, b: _Nest) -> _Nest:
        """One nest with the members of both."""
        if a is b:
            return a
        if len(a.members) < len(b.members):
            a, b = b, a
        b.parent = a
        a.members += b.members
        a.cost += b.cost
        a.row_vars |= b.row_vars
        a.domain = common_domain(a.domain, b.domain) or a.domain
        if a.row_vars:
            a.rows = self._rows_after(a)
        return a

    # The result.

    def _find_outputs(self) -> None:
        """Which results others read, and which of these not element by element."""
        self.spread: set[Var] = set()
        for eqn in self.program.eqns:
            if eqn.outputs[0] in self.virtual:
                continue
            own = self._nest(eqn.outputs[0])
            for leaf in _composed(eqn, self._sources(eqn)):
                nest = self._nest(leaf.var)
                if nest is not None and nest is not own:
                    nest.outputs.setdefault(leaf.var)
                    if leaf.how != SAME or eqn.prim.name in CONTRACTIONS:
                        self.spread.add(leaf.var)
            for var in eqn.outputs:
                if own is not None and (var in self.kept or own.kind != "loop"):
                    own.outputs.setdefault(var)

    def _drop_cheap_outputs(self, nest: _Nest) -> None:
        """A result that is cheap to compute from what has a buffer anyway is not stored."""
        hard = {v for v in nest.outputs if v in self.kept or v in self.spread}
        eqns = {
            v: e for k in sorted(nest.members) for e in (self.program.eqns[k],) for v in e.outputs
        }
        for var in sorted(nest.outputs, key=list(eqns).index) if len(nest.outputs) > 1 else ():
            if var in hard or var in nest.row_vars:
                continue
            found = self._recomputed(var, eqns, hard, nest)
            if found is None:
                hard.add(var)
                continue
            inside, rows = found
            del nest.outputs[var]
            for v in inside:
                if v not in self.dropped:
                    self.virtual[v] = eqns[v]
                    self.dropped[v] = self._sources(eqns[v])
                    self.cost[v] = CHEAP // 2
            nest.outputs.update(dict.fromkeys(rows))

    def _recomputed(
        self, var: Var, eqns: Mapping[Var, Eqn], hard: set[Var], nest: _Nest
    ) -> tuple[list[Var], list[Var]] | None:
        """What to compute again for `var`, and the row values it reads; None if dear."""
        inside: dict[Var, None] = {}
        leaves: dict[Var, None] = {}
        rows: list[Var] = []
        pending, spent = [var], 0
        while pending:
            v = pending.pop()
            if v in inside or v in leaves:
                continue
            if v in eqns and v in nest.row_vars:
                rows.append(v)
                leaves[v] = None
            elif v in eqns and (v not in hard or v is var):
                if eqns[v].prim.name in REDUCTIONS or eqns[v].prim.name in CONTRACTIONS:
                    return None
                inside[v] = None
                spent += cost_of(eqns[v])
                for atom in eqns[v].inputs:
                    if type(atom) is Var:
                        spent += self.cost.get(atom, 0)
                        pending += [leaf.var for leaf in self.leaves[atom]]
            elif v in self.dropped and v not in eqns:
                spent += self.cost[v]
                pending += [leaf.var for leaf in self.dropped[v]]
            else:
                leaves[v] = None
            if spent > CHEAP or len(leaves) > MAX_LEAVES:
                return None
        if sum([v.aval.size for v in leaves]) > 1.1 * var.aval.size + 64:
            return None
        return list(inside), rows

    def _absorb(self) -> None:
        """A group whose results one other group alone reads, element by element, moves into it."""
        readers: dict[int, dict[int, _Nest]] = {}
        for eqn in self.program.eqns:
            own = self._nest(eqn.outputs[0])
            if own is None:
                continue
            for leaf in self._sources(eqn):
                nest = self._nest(leaf.var)
                if nest is not None and nest is not own:
                    readers.setdefault(id(nest), {})[id(own)] = own
        for nest in reversed(self.nests):
            found = list(readers.get(id(nest), {}).values())
            plain = nest.parent is None and nest.kind == "loop" and not nest.row_vars
            if not plain or len(found) != 1 or not nest.outputs:
                continue
            reader = found[0]
            while reader.parent is not None:
                reader = reader.parent
            if self._can_absorb(nest, reader):
                reader.domain = common_domain(nest.domain, reader.domain) or reader.domain
                reader.members += nest.members
                reader.cost += nest.cost
                if reader.row_vars:
                    reader.rows = self._rows_after(reader)
                nest.parent = reader
                nest.outputs = {}

    def _can_absorb(self, nest: _Nest, reader: _Nest) -> bool:
        if reader.kind != "loop" or nest.cost + reader.cost > MAX_COST:
            return False
        if any(v in self.kept or v in self.spread for v in nest.outputs):
            return False
        if math.prod(nest.domain) != math.prod(reader.domain):
            return False
        domain = common_domain(nest.domain, reader.domain)
        if domain is None:
            return False
        return not reader.row_vars or _rows_of(domain, self._inner(reader)) is not None

    def _ordered(self) -> list[Group]:
        """Groups with outputs, each after those it reads, else in program order."""
        live = [n for n in self.nests if n.parent is None and n.outputs]
        waiting: dict[int, int] = {}
        readers: dict[int, list[_Nest]] = {}
        for nest in live:
            nest.members.sort()
            sources = self._read_by(nest)
            waiting[id(nest)] = len(sources)
            for source in sources:
                readers.setdefault(source, []).append(nest)
        ready = [(n.members[-1], i, n) for i, n in enumerate(live) if not waiting[id(n)]]
        heapq.heapify(ready)
        count, groups = len(live), []
        while ready:
            _, _, nest = heapq.heappop(ready)
            groups.append(self._group(nest))
            for reader in readers.get(id(nest), ()):
                waiting[id(reader)] -= 1
                if not waiting[id(reader)]:
                    count += 1
                    heapq.heappush(ready, (reader.members[-1], count, reader))
        if len(groups) != len(live):
            raise CheckError("after pass 'fuse': groups read each other in a circle.")
        return groups

    def _read_by(self, nest: _Nest) -> set[int]:
        """The groups whose buffers a group reads, also through results that it computes again."""
        found: set[int] = set()
        seen: set[Var] = set()
        pending = [v for k in nest.members for v, _ in self._sources(self.program.eqns[k])]
        while pending:
            var = pending.pop()
            other = self._nest(var)
            if other is None or other is nest or var in seen:
                continue
            seen.add(var)
            if var in self.virtual:
                pending += [v for v, _ in self._sources(self.virtual[var])]
            else:
                found.add(id(other))
        return found

    def _group(self, nest: _Nest) -> Group:
        eqns = tuple([self.program.eqns[k] for k in nest.members])
        rows = len(nest.domain) if nest.rows is None else nest.rows
        return Group(
            nest.kind, eqns, tuple(nest.outputs), nest.domain, rows, frozenset(nest.row_vars)
        )


def _is_trailing(eqn: Eqn) -> bool:
    """Whether the reduced axes come after the kept ones, not counting those of length 1."""
    axes, shape = eqn.params["axes"], eqn.inputs[0].aval.shape
    long = [k in axes for k, n in enumerate(shape) if n != 1]
    return long == sorted(long)


def _composed(eqn: Eqn, leaves: tuple[Leaf, ...]) -> tuple[Leaf, ...]:
    """How the sources are read through a moving equation."""
    how = _movement(eqn)
    if how == SAME:
        return leaves
    if how == ROW:
        found = [Leaf(v, OTHER if h == OTHER else ROW) for v, h in leaves]
    else:
        found = [Leaf(v, OTHER) for v, _ in leaves]
    return tuple(dict.fromkeys(found))


def _movement(eqn: Eqn) -> str:
    name = eqn.prim.name
    if name not in MOVES:
        return SAME
    if name == "reshape":
        return SAME
    if name == "broadcast":
        shape, dims = eqn.params["shape"], eqn.params["dims"]
        used = [k in dims for k, n in enumerate(shape) if n != 1]
        if all(used):
            return SAME
        return ROW if used == sorted(used, reverse=True) else OTHER
    return OTHER
