"""L5. Row kernels: reductions over the last axes, and all that stands before, between and after
them.

One loop over rows; inside it one loop for each phase, where a phase is what can be computed once
the reductions of earlier phases are known.  A value that several phases need is kept in a scratch
row (or read back from its result) when it is dearer to compute than to load.

    softmax     phase 0: max x      phase 1: e = exp(x - max), scratch[j] = e, sum e      phase 2: e
    / sum

Sums over the rows (`Group.columns`) are kept in a scratch row for each block of rows:

    parallel block: t[j] = 0;  serial row of block: phases, t[j] += x;  part[block, j] = t[j]

A rest of rows that fills no block is one more block, with loops of its own.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TypeAlias

from fgrad.base.named_tuple import NamedTuple
from fgrad.compile.kernel.affine import AffineIndex, Places, row_major, total
from fgrad.compile.kernel.builder import KernelBuilder, Request
from fgrad.compile.kernel.rewrite import identity
from fgrad.compile.lower.rules import REDUCTIONS, accumulate_op
from fgrad.compile.tasks.steps import Cut, Group
from fgrad.ir.program import Atom, Eqn, Var
from fgrad.ir.walk import cost_of

WORTH_KEEPING = 8  # scalar operations above which a value is kept for later phases


class _Range(NamedTuple):
    """Blocks of an axis of rows: how many, the rows of each, and the first block and row."""

    count: int
    size: int
    block: int
    row: int


_Part: TypeAlias = tuple[_Range, ...]


def _parts(cuts: Sequence[Cut]) -> list[_Part]:
    """The full blocks of all axes, and for an axis with a rest those of it."""
    full = tuple([_Range(cut.full, cut.size, 0, 0) for cut in cuts])
    rests = [
        (*full[:k], _Range(1, cut.rest, cut.full, cut.full * cut.size), *full[k + 1 :])
        for k, cut in enumerate(cuts)
        if cut.rest
    ]
    return [full, *rests]


def lower_rows(b: KernelBuilder, group: Group) -> None:
    """Write the kernel of a group with row values."""
    _RowLowering(b, group).run()


class _RowLowering:
    """The phases of one group and their emission."""

    def __init__(self, b: KernelBuilder, group: Group) -> None:
        self.b = b
        self.group = group
        self.own = {v: eqn for eqn in group.eqns for v in eqn.outputs}
        self.phase: dict[Var, int] = {}  # the first loop that can compute a full value
        self.ready: dict[Var, int] = {}  # the first loop that can read a row value
        self.reductions: dict[Var, int] = {}  # the loop that each accumulates in
        self.columns: dict[Var, int] = {}  # the loop that adds to sums over rows
        self.reached: dict[Var, frozenset[Var]] = {}
        self._assign_phases()
        self.needed = self._loops_that_need()

    # Analysis.

    def _sources(self, atom: Atom) -> frozenset[Var]:
        """The group's own values that an atom is computed from, through virtual equations."""
        if not isinstance(atom, Var):
            return frozenset()
        if atom in self.own:
            return frozenset((atom,))
        stack = [atom]
        while stack:
            var = stack[-1]
            eqn = self.b.virtual.get(var)
            inputs = [a for a in eqn.inputs if type(a) is Var] if eqn is not None else []
            open_ = [a for a in inputs if a not in self.reached and a not in self.own]
            if open_ and var not in self.reached:
                stack.extend(open_)
                continue
            stack.pop()
            parts = [frozenset((a,)) if a in self.own else self.reached[a] for a in inputs]
            self.reached[var] = frozenset().union(*parts)
        return self.reached[atom]

    def _reads(self, eqn: Eqn) -> frozenset[Var]:
        return frozenset().union(*[self._sources(a) for a in eqn.inputs])

    def _assign_phases(self) -> None:
        rows = self.group.row_vars
        for eqn in self.group.eqns:
            (out,) = eqn.outputs
            reads = self._reads(eqn)
            after = max([self.ready[v] if v in rows else self.phase[v] for v in reads], default=0)
            if out in self.group.columns:
                self.columns[out] = after
            elif out not in rows:
                self.phase[out] = after
            elif eqn.prim in REDUCTIONS and not any(
                v in rows and v.aval.size == eqn.inputs[0].aval.size for v in reads
            ):
                self.reductions[out] = after
                self.ready[out] = after + 1
            else:
                self.ready[out] = after

    def _loops_that_need(self) -> dict[Var, set[int]]:
        """For each full value, the loops that read it; decides which values are kept."""
        needed: dict[Var, set[int]] = {v: set() for v in self.phase}
        cost: dict[Var, int] = {}
        for eqn in self.group.eqns:
            (out,) = eqn.outputs
            cost[out] = cost_of(eqn) + sum([cost[v] for v in self._reads(eqn) if v in self.phase])
        self.kept: dict[Var, int] = {}  # value -> the loop that computes it
        for eqn in reversed(self.group.eqns):
            (out,) = eqn.outputs
            at = self.reductions.get(out, self.columns.get(out))
            loops = set() if at is None else {at}
            if out in self.phase:
                loops = needed[out]
                if out in self.group.outputs:
                    loops.add(self.phase[out])
                if len(loops) > 1 and cost[out] >= WORTH_KEEPING:
                    self.kept[out] = min(loops)
                    loops = {min(loops)}
            for v in self._reads(eqn):
                if v in self.phase:
                    needed[v] |= loops
        return needed

    # Emission.

    def run(self) -> None:
        for part in _parts(self.group.cuts) if self.group.columns else (None,):
            self._rows(part)

    def _rows(self, part: _Part | None) -> None:
        """The loops over all rows, or over the rows of some blocks."""
        b, group = self.b, self.group
        blocks: Places = ()
        for v in self.kept:
            b.saved.pop(v, None)
        rows_at = b.depth
        if part is None:
            self.row_places = b.open_all(group.domain[: group.rows], "parallel")
        else:
            blocks = self._open_blocks(part)
            rows_at = b.depth
            self._open_rows(blocks, part)
        depth = b.depth
        loops = {*self.reductions.values(), *self.kept.values(), *self.columns.values()}
        loops |= {self.phase[v] for v in group.outputs if v in self.phase}
        for loop in sorted(loops):
            self._emit_loop(loop)
        for out in group.outputs:
            if out in group.row_vars:
                places = self._row_index(out)
                at = total(places, row_major(out.aval.shape))
                b.store(b.buffer(out, "out"), at, b.value(out, places))
        assert b.depth == depth
        b.close_to(rows_at)
        if part is not None:
            self._store_columns(blocks, part)
        b.close_to(0)

    def _open_rows(self, blocks: Places, part: _Part) -> None:
        """The loops over the rows of a block."""
        inside = self.b.open_all([r.size for r in part], "serial")
        steps = zip(blocks, inside, part, strict=True)
        self.row_places = tuple(
            [total((block, row), (r.size, 1), r.row) for block, row, r in steps]
        )

    def _open_blocks(self, part: _Part) -> Places:
        """The loops over blocks of rows, with a scratch row for each sum over rows."""
        b, group = self.b, self.group
        blocks = b.open_all([r.count for r in part], "parallel")
        self.scratch_of: dict[Var, str] = {}
        for v in self.columns:
            dtype = v.aval.dtype
            name = self.scratch_of[v] = b.scratch(dtype, v.aval.size // math.prod(self._counts()))
            depth = b.depth
            inner = b.open_all(group.domain[group.rows :], "parallel")
            at = total(inner, row_major(group.domain[group.rows :]))
            b.store(name, at, b.const(identity(self._operation(v), dtype), dtype))
            b.close_to(depth)
        return blocks

    def _counts(self) -> list[int]:
        """The blocks of each axis of the rows."""
        return [cut.blocks for cut in self.group.cuts]

    def _store_columns(self, blocks: Places, part: _Part) -> None:
        """part[block, j] = scratch[j]."""
        b, group = self.b, self.group
        depth = b.depth
        numbers = [total((block,), (1,), r.block) for block, r in zip(blocks, part, strict=True)]
        for v in self.columns:
            inner = b.open_all(group.domain[group.rows :], "parallel")
            extents = (*self._counts(), *group.domain[group.rows :])
            at = total(inner, row_major(group.domain[group.rows :]))
            x = b.load(self.scratch_of[v], at, mutable=True)
            b.store(b.buffer(v, "out"), total((*numbers, *inner), row_major(extents)), x)
            b.close_to(depth)

    def _operation(self, var: Var) -> str:
        return accumulate_op(self.own[var].prim, var.aval.dtype)

    def _row_index(self, var: Var) -> Places:
        group = self.group
        return self.b.reshaped(self.row_places, group.domain[: group.rows], var.aval.shape)

    def _emit_loop(self, loop: int) -> None:
        """One pass over the row: accumulate, store results, keep values."""
        b, group = self.b, self.group
        sums = [v for v, k in self.reductions.items() if k == loop]
        accs = {v: self._accumulator(v) for v in sums}
        depth = b.depth
        scratch = {
            v: b.scratch(v.aval.dtype, v.aval.size // self._row_count())
            for v, k in self.kept.items()
            if k == loop and v not in group.outputs
        }
        inner = b.open_all(group.domain[group.rows :], "reduce" if sums else "parallel")
        domain_places = (*self.row_places, *inner)
        at = total(domain_places, row_major(group.domain))
        in_row = total(inner, row_major(group.domain[group.rows :]))
        for v, name in scratch.items():
            b.store(name, in_row, b.value(v, self._index(v, domain_places)))
        for v in group.outputs:
            if self.phase.get(v) == loop:
                b.store(b.buffer(v, "out"), at, b.value(v, self._index(v, domain_places)))
        for v, k in self.columns.items():
            if k == loop:
                x = self.own[v].inputs[0]
                id = b.value(x, self._index(x, domain_places))
                b.store(self.scratch_of[v], in_row, id, self._operation(v))
        for v, acc in accs.items():
            x = self.own[v].inputs[0]
            b.update(acc, b.value(x, self._index(x, domain_places)))
        b.close_to(depth)
        for v, acc in accs.items():
            b.remember(Request(v, self._row_index(v)), b.read(acc))
        row_start = self._row_start()
        for v, k in self.kept.items():
            if k == loop:
                name = scratch.get(v)
                b.saved[v] = (b.buffer(v), None) if name is None else (name, row_start)

    def _row_count(self) -> int:
        count = 1
        for n in self.group.domain[: self.group.rows]:
            count *= n
        return max(count, 1)

    def _row_start(self) -> AffineIndex:
        """The flat index of the first element of the row."""
        strides = row_major(self.group.domain)[: self.group.rows]
        return total(self.row_places, strides)

    def _index(self, atom: Atom, places: Places) -> Places:
        return self.b.reshaped(places, self.group.domain, atom.aval.shape)

    def _accumulator(self, var: Var) -> str:
        op = self._operation(var)
        return self.b.accumulator(op, var.aval.dtype, identity(op, var.aval.dtype))
