"""L5. Pass `fold`: evaluate equations whose operands are constants.

Requires nothing.  Ensures that no small equation of literals and constants is left.  Large results
stay equations: a broadcast or iota is cheaper to compute again than to keep.
"""

from __future__ import annotations

import numpy as np

from fgrad.base.sizes import Num
from fgrad.compile.passes.dce import without
from fgrad.compile.passes.fold_sizes import folded_size
from fgrad.ir.aval import Aval
from fgrad.ir.program import Atom, Eqn, Lit, Params, Program, Var
from fgrad.ir.walk import consumers, is_ordered, resolve_atom, resolve_operands
from fgrad.ops import primitives as prims
from fgrad.transforms.checkpoint.checkpoint import barrier_p

FEW = 64  # elements of a constant that stays as it is
SMALL = 1024  # elements of a result that is always folded
MOVED = 1 << 20  # elements of a constant that is only rearranged


def fold(program: Program) -> Program:
    """The program with constant equations evaluated by their NumPy reference."""
    program = _with_broadcasts(program)
    arrays: dict[Var, np.ndarray] = dict(program.consts)
    env: dict[Var, Atom] = {}
    consts = list(program.consts)
    kept: list[Eqn] = []
    sizes: dict[Var, object] = {}
    folded = False
    for eqn in program.eqns:
        eqn = resolve_operands(eqn, env)
        size = folded_size(eqn, sizes) if sizes else None
        if size is not None:
            eqn, folded = size, True
        if eqn.prim is prims.size:
            value, (var,) = eqn.params["value"], eqn.outputs
            if type(value) is not Num:  # of a program for one size, read from a file
                env[var] = Lit(var.aval.dtype.type(value))
                continue
            sizes[var] = value
        if eqn.prim is barrier_p:
            known = [type(a) is Lit for a in eqn.inputs]
            env.update(
                [(v, a) for v, a, k in zip(eqn.outputs, eqn.inputs, known, strict=True) if k]
            )
            eqn = without(eqn, known)
            if not eqn.outputs:
                continue
        values = _evaluate(eqn, arrays) if _foldable(eqn, arrays) else None
        if values is None:
            kept.append(eqn)
            continue
        for var, value in zip(eqn.outputs, values, strict=True):
            if value.ndim == 0:
                env[var] = Lit(value.dtype.type(value))
            else:
                constant = np.ascontiguousarray(value)
                arrays[var] = constant
                consts.append((var, constant))
    if len(kept) == len(program.eqns) and not (env or folded):
        return program
    outputs = tuple([resolve_atom(a, env) for a in program.outputs])
    return program.replace(consts=tuple(consts), eqns=tuple(kept), outputs=outputs, made_by="fold")


def _with_broadcasts(program: Program) -> Program:
    """The program with large constants of equal rows, as batches make them, as broadcasts of a row,
    where only what can be computed from that reads them."""
    if not any([array.size > FEW for _, array in program.consts]):
        return program
    readers = consumers(program.eqns)
    returned = {a for a in program.outputs if type(a) is Var}
    consts: list[tuple[Var, np.ndarray]] = []
    made: list[Eqn] = []
    for var, array in program.consts:
        row, users = array, readers.get(var, [])
        if users and var not in returned and all([_reads_places(eqn) for eqn in users]):
            while row.size > FEW and len(row) > 1 and _repeats(row):
                row = row[0]
        if row is array:
            consts.append((var, array))
            continue
        small: Atom = Var(Aval(row.shape, row.dtype)) if row.ndim else Lit(row.dtype.type(row))
        if isinstance(small, Var):
            consts.append((small, np.ascontiguousarray(row)))
        dims = tuple(range(array.ndim - row.ndim, array.ndim))
        params = Params({"shape": array.shape, "dims": dims})
        made.append(Eqn(prims.broadcast, (small,), params, (var,), users[0].loc, users[0].via))
    return program.replace(consts=tuple(consts), eqns=(*made, *program.eqns)) if made else program


def _reads_places(eqn: Eqn) -> bool:
    """Whether an equation needs no operand in memory."""
    return eqn.prim.elementwise or eqn.prim.movement is not None or eqn.prim.fold is not None


def _repeats(array: np.ndarray) -> bool:
    """Whether all rows are equal, to the bit."""
    if not array.flags.c_contiguous or array.dtype.hasobject:
        return False
    words = array.reshape(len(array), -1).view(np.uint8)
    return bool((words[1] == words[0]).all() and (words == words[0]).all())


def _foldable(eqn: Eqn, arrays: dict[Var, np.ndarray]) -> bool:
    for a in eqn.inputs:
        if type(a) is Var and a not in arrays:
            return False
    prim, size = eqn.prim, sum([v.aval.size for v in eqn.outputs])
    if prim.holds is not None or is_ordered(eqn) or prim is prims.broadcast:
        return False
    moved = prim.movement is not None and prim.movement.permutes
    return size <= (MOVED if moved else SMALL) and bool(eqn.inputs)


def _evaluate(eqn: Eqn, arrays: dict[Var, np.ndarray]) -> list[np.ndarray] | None:
    """The results; None for a check that fails, which may stand in a branch that is not taken."""
    operands = [arrays[a] if type(a) is Var else a.value for a in eqn.inputs]  # type: ignore[union-attr]
    try:
        with np.errstate(all="ignore"):
            results = eqn.prim.evaluate_rule(*operands, **eqn.params)
    except Exception:
        if eqn.prim.checks:
            return None
        raise
    outs = results if eqn.prim.multiple else (results,)
    avals: list[Aval] = [v.aval for v in eqn.outputs]
    return [np.asarray(x, aval.dtype) for x, aval in zip(outs, avals, strict=True)]
