"""L5. Carries updated in place by a loop's body: only changed elements are written.

    body   (b, i) -> (scatter[set] b u i)     becomes     body' (b, i) -> (u, i), then  b[i] = u

The writes follow when the body has run, so that all it reads of the carry is read before.  A sum
with an update of zeros, as the cotangents of `x[i]` are, is a write that adds.  In a batch, lanes
that have ended write nothing: select(go, b.at[lane, i].set(u), b) sets at `lane` only where `go`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from fgrad.base.named_tuple import NamedTuple
from fgrad.compile.kernel.builder import KernelBuilder
from fgrad.compile.lower.nest import write_block, write_updates
from fgrad.compile.lower.rules import RULES
from fgrad.compile.passes.dce import dce
from fgrad.compile.passes.inline import inline_calls
from fgrad.compile.tasks.routines import Write
from fgrad.ir.aval import Aval
from fgrad.ir.program import Atom, Eqn, Lit, Params, Program, Var
from fgrad.ir.walk import definitions, use_counts
from fgrad.ops import primitives as prims


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
    program = _without_ended_lanes(dce(inline_calls(body)), n_consts, n_carry)
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


def _without_ended_lanes(program: Program, n_consts: int, n_carry: int) -> Program:
    """The program where carries that are written lane by lane are written where lanes go on."""
    defined, uses = definitions(program.eqns), use_counts(program)
    number = {id(eqn): k for k, eqn in enumerate(program.eqns)}
    outputs, changed = list(program.outputs), {}
    for k in range(n_carry):
        carry, atom = program.inputs[n_consts + k], outputs[k]
        eqn = defined.get(atom) if isinstance(atom, Var) else None
        if eqn is None or eqn.prim is not prims.select or eqn.inputs[2] is not carry:
            continue
        go = _of_lanes(eqn.inputs[0], defined)
        chain = _chain(eqn.inputs[1], carry, defined, uses)
        if go is None or not chain or not all([_is_by_lane(u.eqn, defined) for u in chain]):
            continue
        first = min([number[id(u.eqn)] for u in chain])
        if go in defined and number[id(defined[go])] > first:
            continue
        outputs[k] = eqn.inputs[1]
        changed.update({id(u.eqn): _predicated(u.eqn, go) for u in chain})
    if not changed:
        return program
    eqns = [e for eqn in program.eqns for e in changed.get(id(eqn), (eqn,))]
    return dce(program.replace(eqns=tuple(eqns), outputs=tuple(outputs)))


def _of_lanes(test: Atom, defined: Mapping[Var, Eqn]) -> Var | None:
    """The flags of lanes, in the first axis, that a test repeats along all others."""
    while isinstance(test, Var) and (eqn := defined.get(test)) and eqn.prim is prims.broadcast:
        if eqn.params["dims"] != tuple(range(eqn.inputs[0].aval.ndim)):
            return None
        test = eqn.inputs[0]
    return test if isinstance(test, Var) and test.aval.ndim == 1 else None


def _is_by_lane(eqn: Eqn, defined: Mapping[Var, Eqn]) -> bool:
    """Whether each place of an index writes into its own row."""
    if eqn.prim is not prims.scatter or eqn.params["axes"][0]:
        return False
    made = defined.get(eqn.inputs[2])  # type: ignore[call-overload]
    return made is not None and made.prim is prims.iota and not made.params["axis"]


def _predicated(eqn: Eqn, go: Var) -> tuple[Eqn, ...]:
    """The update, with rows out of bounds for lanes that have ended."""
    lane = eqn.inputs[2]
    test, place = Var(Aval(lane.aval.shape, go.aval.dtype)), Var(lane.aval.strong())
    spread = Params({"shape": lane.aval.shape, "dims": (0,)})
    none = Lit(lane.aval.dtype.type(eqn.inputs[0].aval.shape[0]))
    return (
        Eqn(prims.broadcast, (go,), spread, (test,), eqn.loc),
        Eqn(prims.select, (test, lane, none), Params(), (place,), eqn.loc),
        eqn._replace(inputs=(*eqn.inputs[:2], place, *eqn.inputs[3:])),
    )


def _chain(
    atom: Atom, carry: Var, defined: Mapping[Var, Eqn], uses: Mapping[Var, int]
) -> list[_Update] | None:
    """The updates that make a result of the carry, in order; None if it is made otherwise."""
    found: list[_Update] = []
    while atom is not carry:
        eqn = defined.get(atom) if isinstance(atom, Var) else None
        if eqn is None or uses[atom] > 1:  # type: ignore[index]
            return None
        if eqn.prim is prims.add:
            update, atom = _addition(eqn.inputs, defined, uses)
            if update is None:
                return None
            found.append(update)
        elif eqn.prim in _WRITERS:
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
        if eqn is None or eqn.prim not in _WRITERS or uses[term] > 1:  # type: ignore[index]
            continue
        if eqn.params.get("mode", "add") == "add" and _is_zero(eqn.inputs[0], defined):
            return _Update(eqn, "add"), other
    return None, terms[0]


def _is_zero(atom: Atom, defined: Mapping[Var, Eqn]) -> bool:
    while isinstance(atom, Var):
        eqn = defined.get(atom)
        if eqn is None or eqn.prim is not prims.broadcast:
            return False
        atom = eqn.inputs[0]
    return not atom.value.any()


_WRITERS = {prims.scatter: write_updates, prims.dynamic_update: write_block}


def _write(update: _Update, extra: Mapping[Var, int]) -> Write:
    b = KernelBuilder({}, {}, RULES)
    _WRITERS[update.eqn.prim](b, update.eqn, update.mode)
    (out,) = update.eqn.outputs
    return Write(b.kernel(), tuple([None if v is out else extra[v] for v in b.args]))
