"""L5. Carries that a loop's body updates in place: only the elements that change are written.

    body   (b, i) -> (scatter[set] b u i)     becomes     body' (b, i) -> (u, i), then  b[i] = u

The writes follow when the body has run, so that all it reads of the carry is read before.  A sum
with an update of zeros, as the cotangents of `x[i]` are, is a write that adds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from fgrad.compile.dce import dce
from fgrad.compile.inline import inline_calls
from fgrad.compile.kernel.ir import Kernel
from fgrad.compile.lower_build import KernelBuilder
from fgrad.compile.lower_nest import write_block, write_updates
from fgrad.compile.lower_rules import RULES
from fgrad.ir.program import Atom, Eqn, Program, Var
from fgrad.ir.walk import definitions, use_counts


class Write(NamedTuple):
    """A kernel on the carry `None` and on results of the body, by number."""

    kernel: Kernel
    args: tuple[int | None, ...]


class Split(NamedTuple):
    """A body without the carries that are written in place.

    `outputs[k]` is the number of the body's k-th result among those of `program`, None for a carry
    in place, to which `writes[k]` are then done in order.
    """

    program: Program
    outputs: tuple[int | None, ...]
    writes: dict[int, tuple[Write, ...]]


class _Update(NamedTuple):
    eqn: Eqn
    mode: str


def split_writes(body: Program, n_consts: int, n_carry: int) -> Split:
    """The body of a loop, and what it does to carries in place."""
    program = dce(inline_calls(body))
    defined, uses = definitions(program.eqns), use_counts(program)
    chains: dict[int, list[_Update]] = {}
    for k in range(n_carry):
        chain = _chain(program.outputs[k], program.inputs[n_consts + k], defined, uses)
        if chain is not None:
            chains[k] = chain
    kept = [k for k in range(len(program.outputs)) if k not in chains]
    extra: dict[Var, int] = {}
    for chain in chains.values():
        for update in chain:
            for atom in update.eqn.inputs[1:]:
                if isinstance(atom, Var):
                    extra.setdefault(atom, len(kept) + len(extra))
    outputs: list[int | None] = [None] * len(program.outputs)
    for n, k in enumerate(kept):
        outputs[k] = n
    results = (*[program.outputs[k] for k in kept], *extra)
    writes = {k: tuple([_write(u, extra) for u in chain]) for k, chain in chains.items()}
    return Split(dce(program.replace(outputs=results)), tuple(outputs), writes)


def _chain(
    atom: Atom, carry: Var, defined: Mapping[Var, Eqn], uses: Mapping[Var, int]
) -> list[_Update] | None:
    """The updates that make a result of the carry, in order; None if it is made otherwise."""
    found: list[_Update] = []
    while atom is not carry:
        eqn = defined.get(atom) if isinstance(atom, Var) else None
        if eqn is None or uses[atom] > 1:  # type: ignore[index]
            return None
        if eqn.prim.name == "add":
            update, atom = _addition(eqn.inputs, defined, uses)
            if update is None:
                return None
            found.append(update)
        elif eqn.prim.name in _WRITERS:
            found.append(_Update(eqn, eqn.params.get("mode", "set")))
            atom = eqn.inputs[0]
        else:
            return None
    return found[::-1]


def _addition(
    terms: Sequence[Atom], defined: Mapping[Var, Eqn], uses: Mapping[Var, int]
) -> tuple[_Update | None, Atom]:
    """`x + update(zeros, ...)` as an update of x that adds."""
    for term, other in (terms[::-1], terms):
        eqn = defined.get(term) if isinstance(term, Var) else None
        if eqn is None or eqn.prim.name not in _WRITERS or uses[term] > 1:  # type: ignore[index]
            continue
        if eqn.params.get("mode", "add") == "add" and _is_zero(eqn.inputs[0], defined):
            return _Update(eqn, "add"), other
    return None, terms[0]


def _is_zero(atom: Atom, defined: Mapping[Var, Eqn]) -> bool:
    while isinstance(atom, Var):
        eqn = defined.get(atom)
        if eqn is None or eqn.prim.name != "broadcast":
            return False
        atom = eqn.inputs[0]
    return not atom.value.any()


_WRITERS = {"scatter": write_updates, "dynamic_update": write_block}


def _write(update: _Update, extra: Mapping[Var, int]) -> Write:
    b = KernelBuilder({}, {}, RULES)
    _WRITERS[update.eqn.prim.name](b, update.eqn, update.mode)
    (out,) = update.eqn.outputs
    return Write(b.kernel(), tuple([None if v is out else extra[v] for v in b.args]))
