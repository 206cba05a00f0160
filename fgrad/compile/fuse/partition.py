"""L5. Pass `fuse`: which equations share a kernel, and which results get a buffer.

Each equation gets a stage: that of its latest source if it can be computed in the same loop nest,
else one more.  Equations of one stage that share a nest form a group, so groups cannot depend on
each other in a circle, and one walk over the program suffices.  Moving equations (reshape, permute,
slice, ...) and cheap small ones are virtual: every reader computes them itself; so are chains of
elementwise ones whose one reader reads at another place, as each part of a concatenation does.

    x: (rows, columns)        stage 1: reduce_max, sub, exp, reduce_sum, div   one row kernel
    softmax(x @ w) @ v        stage 1: gemm   2: the row kernel   3: gemm

A source is read in one of three ways: at the same place ("same"), once for each row ("row", a
broadcast along trailing axes), or elsewhere ("other").
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from fgrad.base.named_tuple import NamedTuple
from fgrad.compile.fuse.columns import join_columns
from fgrad.compile.fuse.outputs import absorb, drop_cheap_outputs, find_outputs, ordered
from fgrad.compile.fuse.parts import (
    CHEAP,
    EXPENSIVE,
    MAX_LEAVES,
    OTHER,
    PRODUCT_COST,
    ROW,
    SAME,
    Leaf,
    Nest,
    Partition,
    common_domain,
    is_library,
    is_trailing,
    max_cost,
    piece_cost,
    rows_of,
    shrinks,
    stripped,
)
from fgrad.compile.kernel.machine import WALKED_TWICE
from fgrad.compile.lower.nest import NESTS
from fgrad.compile.lower.rules import MOVES, REDUCTIONS
from fgrad.compile.lower.sort import is_position
from fgrad.compile.products.matrices import (
    library_operands,
    reads_windows,
    wants_kernel,
    wants_library,
)
from fgrad.compile.products.views import view_of
from fgrad.compile.tasks.steps import Group
from fgrad.ir.program import Atom, Eqn, Program, Var
from fgrad.ir.walk import cost_of, is_ordered
from fgrad.ops import primitives as prims
from fgrad.transforms.checkpoint.checkpoint import barrier_p

FULL = "full"  # beside ROW: the level of an equation that runs once for each element of a nest


class Fusion(NamedTuple):
    """Groups in order, and the equations of variables that have no buffer."""

    groups: list[Group]
    virtual: Mapping[Var, Eqn]


def fuse(program: Program) -> Fusion:
    """Partition the equations of a program."""
    return _Fuser(program).run()


class _Fuser:
    """One traversal of the equations; see the module's docstring."""

    def __init__(self, program: Program) -> None:
        self.p = Partition(program)
        self.siblings: dict[tuple[int, tuple[int, ...], Var], Nest] = {}
        self.products: set[Var] = set()  # what gets a nest for itself and a few cheap readers
        self.library: set[Var] = set()  # first results of library steps
        # Whether a variable is read once, at another place, by the arguments of `_next_reader`: a
        # chain is walked once.  What is kept after a variable does not change once it is asked for.
        self.elsewhere: dict[tuple[Var, bool, bool], bool] = {}
        self.last_effect = 0  # the stage of the last equation with an effect
        self._keep_library_operands()

    def run(self) -> Fusion:
        for k, eqn in enumerate(self.p.program.eqns):
            self._equation(k, eqn)
        join_columns(self.p)
        find_outputs(self.p)
        for nest in self.p.nests:
            if nest.parent is None and nest.kind in ("loop", "product"):
                drop_cheap_outputs(self.p, nest)
        absorb(self.p)
        return Fusion(ordered(self.p), self.p.virtual)

    def _keep_library_operands(self) -> None:
        """Products and sorts read buffers: the variables behind their operands must have one."""
        eqns = self.p.program.eqns
        views = {
            e.outputs[0]: e for e in eqns if e.prim in MOVES and e.outputs[0] not in self.p.kept
        }
        products = []
        for eqn in eqns:
            if eqn.prim is barrier_p:
                self.p.kept.update([a for a in eqn.inputs if type(a) is Var])
            elif is_library(eqn):
                self.library.add(eqn.outputs[0])
                if is_ordered(eqn):
                    self.p.kept.add(eqn.outputs[0])
                given = [a for a in eqn.inputs if type(a) is Var]
                if eqn.prim is prims.sort:
                    given = [a for a in given if not is_position(a, views)]
                self.p.kept.update(given)
            elif eqn.prim is prims.conv or reads_windows(eqn, views):
                self._keep_window_operands(eqn, views)
                self.products.add(eqn.outputs[0])
            elif eqn.prim.contracts and wants_library(eqn, views):
                self._keep_matrices(eqn, views)
                products.append(eqn)
        # Only now: a view that became a buffer for one equation may be unreadable by another.
        for eqn in products:
            left, right, _ = library_operands(eqn, views)
            if left is not None and right is not None:
                (self.products if wants_kernel(eqn, right) else self.library).add(eqn.outputs[0])

    def _keep_matrices(self, eqn: Eqn, views: dict[Var, Eqn]) -> None:
        """Give the operands of a GEMM, or the arrays that they are views of, a buffer."""
        left, right, _ = library_operands(eqn, views)
        for atom, found in zip(eqn.inputs[:2], (left, right), strict=True):
            source = atom if found is None else found.source
            if type(source) is Var:
                self.p.kept.add(source)
                views.pop(source, None)

    def _keep_window_operands(self, eqn: Eqn, views: dict[Var, Eqn]) -> None:
        """Give what a product reads again and again a buffer: x under its windows, and w."""
        for atom in eqn.inputs:
            source: Atom = atom
            if type(atom) is Var and atom in views and views[atom].prim is prims.windows:
                source = views[atom].inputs[0]
            found = view_of(source, views)
            if eqn.prim is prims.conv or source is not atom:
                source = source if found is None else found.source
            if type(source) is Var:
                self.p.kept.add(source)
                views.pop(source, None)

    # One equation.

    def _equation(self, k: int, eqn: Eqn) -> None:
        prim = eqn.prim
        if prim is barrier_p:
            self._opaque(k, eqn, "barrier")
        elif eqn.outputs[0] in self.library:
            self._opaque(k, eqn, "library")
        elif prim in NESTS:
            self._opaque(k, eqn, "nest")
        elif eqn.outputs[0] in self.products:
            self._opaque(k, eqn, "product", stripped(eqn.outputs[0].aval.shape))
        elif prim in MOVES:
            self._move(k, eqn)
        elif prim in REDUCTIONS:
            self._reduction(k, eqn)
        elif prim.contracts:
            self._place(k, eqn, self._elsewhere(eqn), stripped(eqn.outputs[0].aval.shape))
        else:
            self._elementwise(k, eqn)

    def _elsewhere(self, eqn: Eqn) -> tuple[Leaf, ...]:
        return tuple([Leaf(leaf.var, OTHER) for leaf in self.p.sources(eqn)])

    def _opaque(self, k: int, eqn: Eqn, kind: str, domain: tuple[int, ...] = ()) -> None:
        """A step of its own, after all its sources."""
        stage = self._after(self.p.sources(eqn))
        if kind == "library" and is_ordered(eqn):
            stage = self.last_effect = max(stage, self.last_effect + 1)
        self._register(Nest(stage, kind, domain), k, eqn)

    def _register(self, nest: Nest, k: int, eqn: Eqn) -> None:
        if not nest.members:
            self.p.nests.append(nest)
        nest.members.append(k)
        cost = cost_of(eqn)
        nest.cost += cost
        nest.expensive += cost if cost >= EXPENSIVE else 0
        for var in eqn.outputs:
            self.p.nest_of[var] = nest
            self.p.leaves[var] = (Leaf(var, SAME),)

    def _after(self, leaves: Sequence[Leaf]) -> int:
        """The first stage in which all sources are in buffers."""
        stages = [self.p.nest(leaf.var) for leaf in leaves]
        return max([1, *[n.stage + 1 for n in stages if n is not None]])

    # Moving equations.

    def _move(self, k: int, eqn: Eqn) -> None:
        (out,) = eqn.outputs
        leaves, cost = self.p.composed(eqn), self._operand_cost(eqn)
        if eqn.prim is prims.reshape and out in self.p.kept and self._has_buffer(eqn):
            self.p.kept.update([a for a in eqn.inputs if type(a) is Var])
            nest = Nest(self._after(self.p.sources(eqn)), "alias", ())
            self._register(nest, k, eqn)
        elif out in self.p.kept or len(leaves) > MAX_LEAVES or self._is_costly_to_repeat(out, cost):
            self._place(k, eqn, leaves, stripped(out.aval.shape))
        else:
            self._make_virtual(eqn, leaves, cost)

    def _has_buffer(self, eqn: Eqn) -> bool:
        """Whether the operand of a reshape is or can be a buffer."""
        source = eqn.inputs[0]
        return type(source) is Var and source not in self.p.virtual

    def _is_costly_to_repeat(self, out: Var, cost: int) -> bool:
        return cost > CHEAP and len(self.p.readers.get(out, ())) > 1

    def _operand_cost(self, eqn: Eqn) -> int:
        """What each reader of the operands spends on those of them that are virtual."""
        return sum([self.p.cost.get(a, 0) for a in eqn.inputs if type(a) is Var])

    def _make_virtual(self, eqn: Eqn, leaves: tuple[Leaf, ...], cost: int) -> None:
        (out,) = eqn.outputs
        self.p.virtual[out] = eqn
        self.p.leaves[out] = leaves
        self.p.cost[out] = cost

    # Elementwise equations and reductions.

    def _elementwise(self, k: int, eqn: Eqn) -> None:
        (out,) = eqn.outputs
        leaves = self.p.sources(eqn)
        if out not in self.p.kept and len(leaves) <= MAX_LEAVES:
            cost = cost_of(eqn) + self._operand_cost(eqn)
            cheap = cost <= CHEAP and self._is_small(out, leaves)
            if cheap or self._read_once_elsewhere(out, deep=cost <= piece_cost(out.aval.size)):
                self._make_virtual(eqn, leaves, cost)
                return
        self._place(k, eqn, leaves, stripped(out.aval.shape))

    def _is_small(self, out: Var, leaves: Sequence[Leaf]) -> bool:
        """Whether a result is one number, or much larger than what it is computed from."""
        size = out.aval.size
        return size == 1 or 4 * sum([var.aval.size for var, _ in leaves]) <= size

    def _read_once_elsewhere(self, out: Var, deep: bool) -> bool:
        """Whether each element has one reader at most, which reads it at another place, or, if
        `deep`, which is computed from it and so read itself."""
        state, passed = (out, False, deep), list[tuple[Var, bool, bool]]()
        found = self.elsewhere.get(state)
        while found is None:
            passed.append(state)
            step = self._next_reader(*state)
            state = state if isinstance(step, bool) else (*step, deep)
            found = step if isinstance(step, bool) else self.elsewhere.get(state)
        self.elsewhere.update(dict.fromkeys(passed, found))
        return found

    def _next_reader(self, var: Var, moved: bool, deep: bool) -> bool | tuple[Var, bool]:
        """The answer of `_read_once_elsewhere`, or the result of the reader and whether that was
        read at another place."""
        readers = self.p.readers.get(var, ())
        if len(readers) != 1 or readers[0].inputs.count(var) != 1:
            return False
        (reader,) = readers
        prim, out = reader.prim, reader.outputs[0]
        if prim in NESTS:
            return prim not in (prims.argmax, prims.argmin)
        if prim in REDUCTIONS:
            return not is_trailing(reader)
        if not shrinks(prim):
            fused = prim.contracts or prim in MOVES or is_library(reader)
            if moved or fused or not deep or out in self.p.kept:
                return moved and not fused
            return out, moved
        moved = moved or prim is not prims.reshape
        return moved if out in self.p.kept else (out, moved)

    def _reduction(self, k: int, eqn: Eqn) -> None:
        x, (out,) = eqn.inputs[0], eqn.outputs
        if not is_trailing(eqn) or x.aval.size == 0:
            self._place(k, eqn, self._elsewhere(eqn), stripped(out.aval.shape))
            return
        inner = x.aval.size // max(out.aval.size, 1)
        if inner == 1:
            self._place(k, eqn, self.p.sources(eqn), stripped(out.aval.shape))
            return
        self._place(k, eqn, self.p.sources(eqn), stripped(x.aval.shape), inner)

    # Finding a group.

    def _place(
        self, k: int, eqn: Eqn, leaves: tuple[Leaf, ...], shape: tuple[int, ...], inner: int = 0
    ) -> None:
        """Put an equation into the latest group of its sources that it fits, or into a new one.

        `shape` is what it loops over; a trailing reduction of `inner` elements yields row values.
        """
        stage, fitting = self._fitting_nests(eqn, leaves, shape, inner)
        if fitting and not self._can_merge(fitting, shape, inner):
            fitting, stage = [], stage + 1
        if not fitting:
            sibling = self._sibling(stage, leaves, shape, inner)
            fitting = [] if sibling is None else [(sibling, False)]
        if fitting:
            nest, row = fitting[0]
            for other, _ in fitting[1:]:
                nest = self._merge(nest, other)
            if not row:
                nest.domain = common_domain(nest.domain, shape) or nest.domain
        else:
            nest, row = Nest(stage, "loop", shape), False
        if inner:
            nest.rows = rows_of(nest.domain, inner)
        elif nest.rows is not None and not row:
            nest.rows = nest.rows_after()
        self._register(nest, k, eqn)
        if row or bool(inner):
            nest.row_vars.update(eqn.outputs)
        if not row and nest.kind == "loop":
            for leaf in leaves:
                if leaf.how == SAME:
                    self.siblings.setdefault((stage, shape, leaf.var), nest)

    def _fitting_nests(
        self, eqn: Eqn, leaves: tuple[Leaf, ...], shape: tuple[int, ...], inner: int
    ) -> tuple[int, list[tuple[Nest, bool]]]:
        """The stage of an equation, and the groups of its sources in that stage that it fits: with
        each, whether it would yield row values there."""
        stage, size, cost = 1, math.prod(shape), cost_of(eqn)
        joined: dict[int, tuple[Nest, bool]] = {}
        for leaf in leaves:
            nest = self.p.nest(leaf.var)
            if nest is None:
                continue
            level = self._level(nest, leaf, shape, size, inner, cost)
            if nest.kind == "product":
                level = FULL if leaf.how == SAME and self._joins(nest, eqn, leaves, shape) else None
            stage = max(stage, nest.stage + (level is None))
            if level is not None:
                joined[id(nest)] = (nest, level == ROW)
        return stage, [(nest, row) for nest, row in joined.values() if nest.stage == stage]

    def _joins(self, nest: Nest, eqn: Eqn, leaves: Sequence[Leaf], shape: tuple[int, ...]) -> bool:
        """Whether a reader is cheap enough to be computed in the tiles of a product."""
        others = [leaf for leaf in leaves if self.p.nest(leaf.var) is not nest]
        cheap = nest.cost + cost_of(eqn) <= PRODUCT_COST and eqn.prim not in REDUCTIONS
        return cheap and nest.domain == shape and not nest.has_large(others)

    def _level(
        self, nest: Nest, leaf: Leaf, shape: tuple[int, ...], size: int, inner: int, cost: int
    ) -> str | None:
        """At which level of a source's nest a reader can be computed: FULL, ROW, or None."""
        if nest.kind != "loop" or leaf.how == OTHER or self.p.is_full(nest, cost):
            return None
        if inner and nest.rows is not None and nest.inner() != inner:
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
        if domain is None or (inner and rows_of(domain, inner) is None):
            return None
        return FULL

    def _row_reader(self, nest: Nest, leaf: Leaf, size: int) -> str | None:
        """The level of a full-size reader of a row value, which walks the row again."""
        fits = size == math.prod(nest.domain) and nest.inner() <= WALKED_TWICE
        return FULL if fits and not self.p.sums_elsewhere(nest) else None

    def _can_merge(
        self, fitting: Sequence[tuple[Nest, bool]], shape: tuple[int, ...], inner: int
    ) -> bool:
        """Whether several nests of one stage can become one, with the reader at one level."""
        if len({row for _, row in fitting}) > 1:
            return False
        if len(fitting) == 1:
            return True
        if any([nest.kind == "product" for nest, _ in fitting]):
            return False
        if sum([nest.cost for nest, _ in fitting]) > max_cost(shape):
            return False
        walked = any([nest.row_vars for nest, _ in fitting])
        if walked and any([self.p.sums_elsewhere(nest) for nest, _ in fitting]):
            return False
        inners = {nest.inner() for nest, _ in fitting if nest.rows is not None}
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
        return not inners or rows_of(domain, next(iter(inners))) is not None

    def _sibling(
        self, stage: int, leaves: Sequence[Leaf], shape: tuple[int, ...], inner: int
    ) -> Nest | None:
        """A group of the same stage and loops that reads the same source."""
        for leaf in leaves:
            nest = self.siblings.get((stage, shape, leaf.var)) if leaf.how == SAME else None
            while nest is not None and nest.parent is not None:
                nest = nest.parent
            if nest is None or nest.stage != stage or self.p.is_full(nest):
                continue
            if not inner or _takes_rows(nest, inner):
                return nest
        return None

    def _merge(self, a: Nest, b: Nest) -> Nest:
        """One nest with the members of both."""
        if a is b:
            return a
        if len(a.members) < len(b.members):
            a, b = b, a
        b.parent = a
        a.members += b.members
        a.cost += b.cost
        a.expensive += b.expensive
        a.row_vars |= b.row_vars
        a.domain = common_domain(a.domain, b.domain) or a.domain
        if a.row_vars:
            a.rows = a.rows_after()
        return a


def _takes_rows(nest: Nest, inner: int) -> bool:
    """Whether a nest has rows of `inner` elements, or could be cut into such rows."""
    if nest.rows is not None:
        return nest.inner() == inner
    return rows_of(nest.domain, inner) is not None
