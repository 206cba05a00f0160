"""L4. Elements of arrays that branches write, written after the branches.

    y' = switch(i, y -> y.at[j].set(u), y -> y)     becomes
    u, j = switch(i, y -> (u, j), y -> (0, n));     y' = y.at[j].set(u)

An index outside of the array writes nothing.  The array may be one of zeros too, as the cotangent
of what a branch reads.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import cast

import numpy as np

from fgrad.base.named_tuple import NamedTuple
from fgrad.ir.aval import Aval
from fgrad.ir.program import Atom, Eqn, Lit, Params, Program, Var
from fgrad.ir.walk import definitions, use_counts
from fgrad.ops.control import switch_p
from fgrad.ops.index import scatter_p
from fgrad.ops.shape import BROADCAST

FEW = 16  # elements of an array that is left as it is, as it may be in registers
MOST = 8  # writes of a branch
MODES = ("set", "add")

Prepare = Callable[[Program], Program]


class Writes(NamedTuple):
    """How a branch makes a result: writes, in order, into an input of it, or into zeros (None)."""

    base: int | None
    eqns: list[Eqn]


def writes_after_branches(program: Program, prepare: Prepare = lambda p: p) -> Program:
    """The program in which no branch ends with writing elements.

    Arguments:
        prepare: simplifies the branches.
    """
    if not any([eqn.prim is switch_p for eqn in program.eqns]):
        return program

    def move() -> Program:
        eqns: list[Eqn] = []
        for eqn in program.eqns:
            eqns += _written_after(eqn, prepare) if eqn.prim is switch_p else [eqn]
        return program.replace(eqns=tuple(eqns))

    return program.derived(("writes after branches", prepare), move)


def _written_after(eqn: Eqn, prepare: Prepare) -> list[Eqn]:
    """A switch, and the writes after it."""
    for k, out in enumerate(eqn.outputs):
        if out.aval.size > FEW:
            found = _moved(eqn, k, prepare)
            if found is not None:
                return [*_written_after(found[0], prepare), *found[1]]
    return [eqn]


def _moved(eqn: Eqn, k: int, prepare: Prepare) -> tuple[Eqn, list[Eqn]] | None:
    """The branches that give what the k-th result has of an array, and the writes into that."""
    branches = [writes_after_branches(prepare(b), prepare) for b in eqn.params["branches"]]
    every = [_writes_of(branch, k) for branch in branches]
    writes = [w for w in every if w is not None]
    if len(writes) < len(every) or len({w.base for w in writes}) > 1:
        return None
    most = max([len(w.eqns) for w in writes])
    likes = [next(w.eqns[n] for w in writes if len(w.eqns) > n) for n in range(most)]
    if not 0 < most <= MOST or not all([_fits(w, likes) for w in writes]):
        return None
    smaller = [_giving(branch, w, likes, k) for branch, w in zip(branches, writes, strict=True)]
    made = [[Var(a.aval.strong()) for a in like.inputs[1:]] for like in likes]
    outs = (*eqn.outputs[:k], *eqn.outputs[k + 1 :], *[v for each in made for v in each])
    params = Params({**eqn.params, "branches": tuple(smaller)})
    return eqn._replace(params=params, outputs=outs), _after(eqn, k, writes[0].base, likes, made)


def _fits(writes: Writes, likes: Sequence[Eqn]) -> bool:
    """Whether the writes of a branch are of the same form as those of others."""
    pairs = list(zip(writes.eqns, likes, strict=False))
    return all([a.params == b.params and _types(a) == _types(b) for a, b in pairs])


def _types(write: Eqn) -> list[Aval]:
    return [a.aval.strong() for a in write.inputs[1:]]


def _after(
    eqn: Eqn, k: int, base: int | None, likes: Sequence[Eqn], made: Sequence[Sequence[Var]]
) -> list[Eqn]:
    """The writes after a switch."""
    aval = eqn.outputs[k].aval
    eqns: list[Eqn] = []
    if base is None:
        array, zeros = _filled(aval, 0, eqn)
        eqns.append(zeros)
    else:
        array = eqn.inputs[1 + base]
    for n, (like, parts) in enumerate(zip(likes, made, strict=True)):
        out = eqn.outputs[k] if n == len(likes) - 1 else Var(aval)
        eqns.append(Eqn(scatter_p, (array, *parts), like.params, (out,), eqn.loc, eqn.via))
        array = out
    return eqns


def _giving(branch: Program, writes: Writes, likes: Sequence[Eqn], k: int) -> Program:
    """A branch that gives what it writes; what it does not write is outside of the array."""
    eqns = [eqn for eqn in branch.eqns if not any([eqn is own for own in writes.eqns])]
    parts: list[Atom] = []
    for n, like in enumerate(likes):
        if n < len(writes.eqns):
            parts += writes.eqns[n].inputs[1:]
            continue
        shape, axes = like.inputs[0].aval.shape, cast("tuple[int, ...]", like.params["axes"])
        outside = [0, *[shape[a] for a in axes]]
        for a, number in zip(like.inputs[1:], outside, strict=True):
            if not a.aval.shape:
                parts.append(Lit(a.aval.dtype.type(number)))
                continue
            part, made = _filled(a.aval.strong(), number, like)
            parts.append(part)
            eqns.append(made)
    outputs = (*branch.outputs[:k], *branch.outputs[k + 1 :], *parts)
    loc, via = likes[0].loc, likes[0].via
    eqns = [e if e.loc is not None else e._replace(loc=loc, via=via) for e in eqns]
    return branch.replace(eqns=tuple(eqns), outputs=outputs)


def _filled(aval: Aval, number: int, near: Eqn) -> tuple[Var, Eqn]:
    out = Var(aval)
    params = Params(shape=aval.shape, dims=())
    return out, Eqn(BROADCAST, (Lit(aval.dtype.type(number)),), params, (out,), near.loc, near.via)


def _writes_of(branch: Program, k: int) -> Writes | None:
    """The writes that make a result, of which nobody else reads one; None if anything else does."""
    defined, uses = definitions(branch.eqns), use_counts(branch)
    atom, found = branch.outputs[k], list[Eqn]()
    while isinstance(atom, Var) and atom in defined and defined[atom].prim is scatter_p:
        eqn = defined[atom]
        indices = eqn.inputs[2:]
        wide = all([a.aval.dtype.itemsize == 8 for a in indices])
        if uses[atom] != 1 or eqn.params["mode"] not in MODES or not wide:
            return None
        found.append(eqn)
        atom = eqn.inputs[0]
    if atom in branch.inputs:
        return Writes(branch.inputs.index(atom), found[::-1])  # type: ignore[arg-type]
    return Writes(None, found[::-1]) if is_zero(atom, branch, defined) else None


def is_zero(atom: Atom, program: Program, defined: Mapping[Var, Eqn]) -> bool:
    """Whether an array is known to hold zeros alone."""
    while isinstance(atom, Var):
        eqn = defined.get(atom)
        if eqn is None:
            known = next((x for v, x in program.consts if v is atom), None)
            return known is not None and not np.any(known)
        if eqn.prim is not BROADCAST:
            return False
        atom = eqn.inputs[0]
    return not np.any(atom.value)
