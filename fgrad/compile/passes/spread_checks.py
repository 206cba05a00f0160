"""L5. Pass `spread_checks`: checks of arrays -> what kernels compute, and one truth value.

    y = in_range[low=0 high=9] n      ->      required all(n == min(max(n, 0), 9))
    y = checked x, passed             ->      required all(passed)

A step of its own for a check would read and copy its array once more.

Requires `ranges`, which proves checks.  Ensures that no check of an array is left; those in the
bodies of loops are theirs.
"""

from __future__ import annotations

import numpy as np

from fgrad.compile.passes.writer import Writer
from fgrad.ir.program import Atom, Eqn, Lit, Program, Var
from fgrad.ir.walk import resolve_atom, resolve_operands
from fgrad.ops import primitives as prims


def spread_checks(program: Program) -> Program:
    """The program with its checks apart from what they check."""
    if not any([_is_spread(eqn) for eqn in program.eqns]):
        return program
    writer, env = Writer(), dict[Var, Atom]()
    for given in program.eqns:
        eqn = writer.like = resolve_operands(given, env)
        if not _is_spread(eqn):
            writer.eqns.append(eqn)
        else:
            checks = eqn.prim is prims.checked
            _require(writer, eqn, eqn.inputs[1] if checks else _is_inside(writer, eqn))
            env[eqn.outputs[0]] = eqn.inputs[0]
    outputs = tuple([resolve_atom(a, env) for a in program.outputs])
    return program.replace(eqns=tuple(writer.eqns), outputs=outputs, made_by="spread_checks")


def _is_spread(eqn: Eqn) -> bool:
    return eqn.prim is prims.checked or (
        eqn.prim is prims.in_range and eqn.outputs[0].aval.size > 1
    )


def _is_inside(w: Writer, eqn: Eqn) -> Atom:
    x, shape = eqn.inputs[0], eqn.outputs[0].aval.shape
    found = x
    for prim, name in ((prims.max, "low"), (prims.min, "high")):
        limit = eqn.params[name]
        if limit is not None:
            literal = Lit(x.aval.dtype.type(limit))
            found = w.apply(prim, found, w.apply(prims.broadcast, literal, shape=shape, dims=()))
    return w.apply(prims.eq, found, x)


def _require(w: Writer, eqn: Eqn, passed: Atom) -> None:
    axes = tuple(range(passed.aval.ndim))
    if axes and passed.aval.size:
        passed = w.apply(prims.reduce_all, passed, axes=axes)
    elif axes:
        passed = Lit(np.bool_(True))
    w.apply(prims.required, passed, error=eqn.params["error"])
