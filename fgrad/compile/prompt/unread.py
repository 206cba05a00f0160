"""L5. Program -> whether it checks what no result is computed from.

Compiled code leaves out what nobody reads: an index that is out of bounds, a division by zero.
Python raises there.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from fgrad.ir.program import Atom, Eqn, Lit, Program
from fgrad.ir.walk import has_effect, programs_in, subprograms
from fgrad.ops import primitives as prims


def has_unread_checks(program: Program) -> bool:
    """Whether some check of a program, or of a body in it, is not needed for the results."""
    if not any([_is_check(eqn) for part in subprograms(program) for eqn in part.eqns]):
        return False
    return _read(program, [True] * len(program.outputs)) is None


def _is_check(eqn: Eqn) -> bool:
    return eqn.prim in (prims.checked, prims.in_range)


def _read(program: Program, outs: Sequence[bool]) -> list[bool] | None:
    """The inputs that are read for some of the results; None if a check is not."""
    needed: set[Atom] = {v for v, is_read in zip(program.outputs, outs, strict=True) if is_read}
    unread: list[Eqn] = []
    for eqn in reversed(program.eqns):
        if has_effect(eqn):
            needed |= set(eqn.inputs)
        results = [v in needed for v in eqn.outputs]
        places = _operands(eqn, results)
        if places is None:
            return None
        if _is_check(eqn) and not any(results):
            unread.append(eqn)
        needed |= {v for v, is_read in zip(eqn.inputs, places, strict=True) if is_read}
    if unread and not _are_repeated(unread, program, needed):
        return None
    return [v in needed for v in program.inputs]


def _are_repeated(unread: Sequence[Eqn], program: Program, needed: set[Atom]) -> bool:
    """Whether checks that nobody reads are also made where they are read: a loop that is written
    out was traced before as one that is not."""
    numbers: dict[Atom, int] = {}
    known: dict[Hashable, int] = {}
    keys: dict[int, Hashable] = {}
    read: set[Hashable] = set()
    for k, eqn in enumerate(program.eqns):
        given = [
            (v.aval.dtype, v.aval.shape, str(v.value)) if isinstance(v, Lit) else numbers.get(v, v)
            for v in eqn.inputs
        ]
        try:
            key: Hashable = (eqn.prim, *given, *sorted(eqn.params.items()))
            first = known.setdefault(key, k)
        except TypeError:  # parameters that are not compared
            key = first = k
        if len(eqn.outputs) == 1:
            numbers[eqn.outputs[0]] = first
        keys[id(eqn)] = key
        if _is_check(eqn) and not needed.isdisjoint(eqn.outputs):
            read.add(key)
    return all([keys[id(eqn)] in read for eqn in unread])


def _operands(eqn: Eqn, results: list[bool]) -> Sequence[bool] | None:
    """The operands that are read for some results of an equation; None as above."""
    params = eqn.params
    if not programs_in(params):
        return [any(results)] * len(eqn.inputs)
    if eqn.prim is prims.scan:
        return _loop(params["body"], params["n_consts"], results, params["n_carry"])
    if eqn.prim is prims.while_:
        asked = _read(params["cond"], [True])
        if asked is None:
            return None
        results = [a or b for a, b in zip(results, asked[params["n_cond"] :], strict=True)]
        found = _loop(params["body"], params["n_body"], results, len(results))
        return None if found is None else [*asked[: params["n_cond"]], *found]
    branches = [_read(branch, results) for branch in programs_in(params)]
    found = [read for read in branches if read is not None]
    if eqn.prim is not prims.switch or len(found) < len(branches):
        return None
    return [True, *[any(places) for places in zip(*found, strict=True)]]


def _loop(body: Program, before: int, results: list[bool], count: int) -> list[bool] | None:
    """The operands of a loop that are read: a carry may be for the next step alone."""
    wanted = list(results)
    while True:
        inner = _needed(body, wanted)
        now = [a or inner[before + k] for k, a in enumerate(wanted[:count])]
        if now == wanted[:count]:
            return _read(body, wanted)
        wanted[:count] = now


def _needed(program: Program, outs: Sequence[bool]) -> list[bool]:
    """The inputs that are read for some of the results, or in any program inside."""
    needed: set[Atom] = {v for v, is_read in zip(program.outputs, outs, strict=True) if is_read}
    for eqn in reversed(program.eqns):
        if has_effect(eqn) or any([v in needed for v in eqn.outputs]):
            needed |= set(eqn.inputs)
    return [v in needed for v in program.inputs]
