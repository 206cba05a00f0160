"""L5. Branches inside of a whole-loop kernel.

cheap ones    all of them, and a selection of what they give
others        each in a loop that runs once, or not at all
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from fgrad.compile.kernel.affine import AffineIndex
from fgrad.compile.loops.control import (
    break_if,
    has_loops,
    is_at,
    newest,
    scan,
    weight_of,
    while_,
)
from fgrad.compile.loops.linalg import LINALG_RULES
from fgrad.compile.loops.rows import chosen, is_long
from fgrad.compile.loops.rules import RULES
from fgrad.compile.loops.values import Stored, TooLarge, Value
from fgrad.compile.loops.writer import FEW, LoopRule, LoopWriter, is_mutable
from fgrad.ir.aval import BOOL, INT64
from fgrad.ir.primitive import Primitive
from fgrad.ir.program import Atom, Eqn, Program, Var
from fgrad.ir.walk import definitions, use_counts
from fgrad.ops import primitives as prims

CHEAP_BRANCH = 64  # cost of a branch that is computed even if it is not chosen


def switch(w: LoopWriter, eqn: Eqn) -> Sequence[Value]:
    """One branch of several."""
    branches = [w.prepare(p) for p in eqn.params["branches"]]
    which = int(w.operand(eqn.inputs[0]).flat[0])
    operands = [w.value(a) for a in eqn.inputs[1:]]
    known = w.place(which)
    if known == AffineIndex(known.const):
        return w.program(branches[min(max(known.const, 0), len(branches) - 1)], operands)
    if _reads_overwritten(w, branches, operands):
        raise TooLarge
    heavy = any([has_loops(p) or weight_of(p) > CHEAP_BRANCH for p in branches])
    return (_one_of if heavy else _selected)(w, eqn, which, branches, operands)


def _chosen_by(w: LoopWriter, which: int, k: int, count: int) -> int:
    """Whether the clamped index is k."""
    test = "le" if k == 0 else "ge" if k == count - 1 else "eq"
    return w.b.op(test, BOOL, which, w.number(k, INT64))


def _selected(
    w: LoopWriter, eqn: Eqn, which: int, branches: Sequence[Program], operands: Sequence[Value]
) -> list[Value]:
    """All branches, and a selection of what they give."""
    found, predicate = [], w.predicate
    for k, branch in enumerate(branches):
        w.predicate = w.b.both(predicate, _chosen_by(w, which, k, len(branches)))
        found.append(w.program(branch, [_fresh(w, x) for x in operands]))
    w.predicate = predicate
    hits = [_chosen_by(w, which, k, len(branches)) for k in range(len(branches))]
    outs: list[Value] = []
    homes: list[Stored] = []
    for var, column in zip(eqn.outputs, zip(*found, strict=True), strict=True):
        home = next((x for x in column if is_mutable(x)), None)
        if home is not None:
            homes.append(home)  # type: ignore[arg-type]
            _distinct(homes)
            outs.append(_joined(w, home, column, hits))  # type: ignore[arg-type]
            continue
        if not w.lanes and any([is_long(w, x) for x in column]):
            outs.append(_long_selected(w, column, hits))
            continue
        best = w.cells(column[-1])
        for hit, other in reversed(list(zip(hits, column[:-1], strict=False))):
            ids = [
                p if p == q else w.b.op("select", var.aval.dtype, hit, int(p), int(q))
                for p, q in zip(w.cells(other).flat, best.flat, strict=True)
            ]
            best = np.array(ids, np.int64).reshape(best.shape)
        outs.append(best)
    return outs


def _long_selected(w: LoopWriter, column: Sequence[Value], hits: Sequence[int]) -> Value:
    """A row of the chosen one among values."""
    best = column[-1]
    for hit, other in reversed(list(zip(hits, column[:-1], strict=False))):
        best = chosen(w, hit, other, best)
    return best


def _fresh(w: LoopWriter, x: Value) -> Value:
    """Memory as the branches before left it, which wrote nothing if this one is chosen."""
    return x._replace(version=w.versions[x.buffer]) if is_mutable(x) else x  # type: ignore[union-attr]


def _reads_overwritten(
    w: LoopWriter, branches: Sequence[Program], operands: Sequence[Value]
) -> bool:
    """Whether a branch reads, or returns, what an equation before it has overwritten."""
    used = [use_counts(branch) for branch in branches]
    return any([
        is_mutable(x) and x.version != w.versions[x.buffer]  # type: ignore[union-attr]
        and any([p.inputs[j] in uses for p, uses in zip(branches, used, strict=True)])
        for j, x in enumerate(operands)
    ])  # fmt: skip


def _joined(w: LoopWriter, home: Stored, column: Sequence[Value], hits: Sequence[int]) -> Value:
    """An array in memory, into which the branches write that have left it elsewhere."""
    predicate = w.predicate
    for x, hit in zip(column, hits, strict=True):
        if is_mutable(x) and is_at(x, home):
            continue
        w.predicate = w.b.both(predicate, hit)
        w.write(home, _held(w, x))
    w.predicate = predicate
    return newest(w, home)  # type: ignore[return-value]


def _held(w: LoopWriter, x: Value) -> Value:
    """What can be written to memory that it may have been read from: rows, or registers."""
    return x if is_long(w, x) and not w.lanes else w.cells(x)


def _distinct(homes: Sequence[Stored | None]) -> None:
    """Give up if two results would be left in one place."""
    buffers = [x.buffer for x in homes if x is not None]
    if len(set(buffers)) < len(buffers):
        raise TooLarge


def _one_of(
    w: LoopWriter, eqn: Eqn, which: int, branches: Sequence[Program], operands: Sequence[Value]
) -> list[Value]:
    """Each branch in a loop that ends after one step, and does not begin if it is not chosen."""
    shapes = [w.shape(v) for v in eqn.outputs]
    held = [
        _in_place(w, eqn, k, operands) or _room_for(w, shapes[k], eqn.outputs[k].aval.dtype)
        for k in range(len(shapes))
    ]
    _distinct(held)
    accs = [
        [] if where is not None else w.carried(np.array(w.zeros(shape, v.aval.dtype)), v.aval.dtype)
        for v, shape, where in zip(eqn.outputs, shapes, held, strict=True)
    ]
    for k, branch in enumerate(branches):
        waits = w.b.accumulator("carry", BOOL, False)
        hit = _chosen_by(w, which, k, len(branches))
        w.b.update(waits, hit)
        w.b.open(1, "while")
        break_if(w, w.b.op("not", BOOL, w.b.read(waits)))
        outs = w.program(branch, [_fresh(w, x) for x in operands])
        w.b.update(waits, w.number(False, BOOL))
        for own, y, where in zip(accs, outs, held, strict=True):
            if where is not None and not (is_mutable(y) and is_at(y, where)):
                w.write(where, _held(w, y))
            for acc, id in zip(own, [] if where is not None else w.cells(y).flat, strict=True):
                w.b.update(acc, int(id))
        w.b.close()
    return [
        newest(w, where) if where is not None else w.reads(own, shape)
        for own, shape, where in zip(accs, shapes, held, strict=True)
    ]


def _room_for(w: LoopWriter, shape: Sequence[int], dtype: np.dtype) -> Stored | None:
    """Memory for a result that is too large for registers."""
    if w.lanes or math.prod(shape) <= w.most_cells:
        return None
    return w.scratch(shape, dtype)


def _in_place(w: LoopWriter, eqn: Eqn, k: int, operands: Sequence[Value]) -> Stored | None:
    """The memory in which branches leave their k-th result."""
    for branch in eqn.params["branches"]:
        program = w.prepare(branch)
        atom = _origin(program, program.outputs[k])
        x = operands[program.inputs.index(atom)] if atom in program.inputs else None  # type: ignore[arg-type]
        if x is not None and is_mutable(x) and x.size > FEW:  # type: ignore[union-attr]
            return x  # type: ignore[return-value]
    return None


def _origin(program: Program, atom: Atom) -> Atom:
    """The array that a result is an updated version of."""
    defined = definitions(program.eqns)
    while isinstance(atom, Var) and atom in defined:
        eqn = defined[atom]
        p, k = eqn.params, eqn.outputs.index(atom)
        if eqn.prim in (prims.scatter, prims.dynamic_update, prims.add):
            atom = eqn.inputs[0]
        elif eqn.prim is prims.scan and k < p["n_carry"]:
            atom = eqn.inputs[p["n_consts"] + k]
        elif eqn.prim is prims.while_:
            atom = eqn.inputs[p["n_cond"] + p["n_body"] + k]
        else:
            break
    return atom


LOOP_RULES: Mapping[Primitive, LoopRule] = type(RULES)(
    {**RULES, **LINALG_RULES, prims.scan: scan, prims.while_: while_, prims.switch: switch}
)
