"""L5. Loops and branches on complex arrays -> the same ones on their parts.

    scan (w, c, x) body   ->   scan (w.re, w.im, c.re, c.im, x.re, x.im) body'
    body' (re, im, ...)   =    the parts of body (complex re im, ...)

Inside of bodies the passes for them find the parts again.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fgrad.ir.aval import Aval
from fgrad.ir.program import Eqn, Params, Program
from fgrad.ops.complex import complex_, imag, real, real_dtype
from fgrad.trace import Value, bind, run, trace


def looped(eqn: Eqn, operands: Sequence[tuple[Value, ...]]) -> list[tuple[Value, ...]]:
    """The results of a loop or branch; a complex value is two parts, any other one is itself."""
    given = [part for x in operands for part in x]
    outs = bind(eqn.prim, *given, **_params(eqn))
    return _grouped(outs, [v.aval for v in eqn.outputs])


def _params(eqn: Eqn) -> Params:
    """The programs on parts, and how many of them are constants and carries."""
    changed: dict[str, object] = {}
    p, first = eqn.params, 0
    for name in ("n_consts", "n_carry", "n_cond", "n_body"):
        if name in p:
            inside = eqn.inputs[first : first + p[name]]
            changed[name] = sum([_count(a.aval) for a in inside])
            first += p[name]
    for name in ("cond", "body"):
        if name in p:
            changed[name] = _on_parts(p[name])
    if "branches" in p:
        changed["branches"] = tuple([_on_parts(branch) for branch in p["branches"]])
    return Params({**p, **changed})


def _count(aval: Aval) -> int:
    return 2 if aval.dtype.kind == "c" else 1


def _on_parts(program: Program) -> Program:
    """A program whose inputs and outputs are parts."""

    def flat(*parts: Value) -> list[Value]:
        given = [complex_(*x) if len(x) == 2 else x[0] for x in _grouped(parts, program.in_avals)]
        outs = run(program, given)
        return [part for x in outs for part in _parts(x)]

    avals = [
        Aval(aval.shape, real_dtype(aval.dtype)) if _count(aval) == 2 else aval
        for aval in program.in_avals
        for _ in range(_count(aval))
    ]
    with np.errstate(all="ignore"):
        traced = trace(flat, avals, program.name, program.made_by)
    return traced.program.replace(made_by="complex_loops")


def _parts(x: Value) -> tuple[Value, ...]:
    return (real(x), imag(x)) if x.dtype.kind == "c" else (x,)


def _grouped(parts: Sequence[Value], avals: Sequence[Aval]) -> list[tuple[Value, ...]]:
    """The parts that belong together."""
    rest = iter(parts)
    return [tuple([next(rest) for _ in range(_count(aval))]) for aval in avals]
