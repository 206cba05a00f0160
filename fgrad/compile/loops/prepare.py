"""L5. The programs of loops and branches as they are written into kernels: optimised, and without
results that nobody reads."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np

from fgrad.base.named_tuple import NamedTuple
from fgrad.compile.loops.accumulate import accumulate
from fgrad.compile.loops.join_branches import join_branches
from fgrad.compile.loops.read_written import read_written
from fgrad.compile.passes.cse import cse
from fgrad.compile.passes.dce import dce
from fgrad.compile.passes.fold import fold
from fgrad.compile.passes.inline import inline_calls
from fgrad.compile.passes.legalize_complex import legalize_complex
from fgrad.compile.passes.read_updates import read_updates
from fgrad.compile.passes.simplify import simplify
from fgrad.ir.aval import INT64
from fgrad.ir.program import Atom, Eqn, Params, Program, Var
from fgrad.ir.traits import Holds
from fgrad.ir.walk import is_ordered, may_raise
from fgrad.ops import primitives as prims
from fgrad.transforms.control.branch_writes import writes_after_branches


def prepared(program: Program) -> Program:
    """The body of a loop as it is written into a kernel."""

    def prepare() -> Program:
        found = program
        rewrites = (
            inline_calls,
            dce,
            cse,
            legalize_complex,
            fold,
            simplify,
            read_updates,
            cse,
            dce,
        )
        for rewrite in rewrites:
            found = rewrite(found)
        found = loops_late(writes_after_branches(join_branches(found), prepared))
        found = read_written(accumulate(found, prepared))
        return with_counters(dce(without_unread(dce(found))))

    found = program.derived("prepared", prepare)
    return found.derived("prepared", lambda: found) if found is not program else found


def loops_late(program: Program) -> Program:
    """The program in which loops come after all that does not need them, so that they can begin
    with it (`accumulate.py`)."""
    loops = [n for n, eqn in enumerate(program.eqns) if eqn.prim.holds is Holds.LOOP]
    if not loops or any([is_ordered(eqn) for eqn in program.eqns]):
        return program
    found: list[Eqn] = []
    left: Sequence[Eqn] = program.eqns
    while left:
        waiting: set[Atom] = set(left[0].outputs) if left[0].prim.holds is Holds.LOOP else set()
        later: list[Eqn] = []
        if waiting:
            for eqn in left[1:]:
                if eqn.prim.holds is Holds.LOOP or not waiting.isdisjoint(eqn.inputs):
                    waiting.update(eqn.outputs)
                    later.append(eqn)
                else:
                    found.append(eqn)
            found.append(left[0])
            left = later
        else:
            found.append(left[0])
            left = left[1:]
    return program.replace(eqns=tuple(found))


def with_counters(program: Program) -> Program:
    """The program with constants 0, 1, 2, ... that loops walk as equations, whose elements loops
    know by their place."""
    items = [
        (a, eqn)
        for eqn in program.eqns
        if eqn.prim is prims.scan
        for a in eqn.inputs[eqn.params["n_consts"] + eqn.params["n_carry"] :]
    ]
    arrays = dict(program.consts) if items else {}
    made: dict[Var, Eqn] = {}
    for atom, eqn in items:
        array = arrays.get(atom)  # type: ignore[call-overload]
        if isinstance(atom, Var) and atom not in made and array is not None and _counts(array):
            params = Params({"shape": array.shape, "dtype": INT64, "axis": 0})
            made[atom] = Eqn(prims.iota, (), params, (atom,), eqn.loc, eqn.via)
    if not made:
        return program
    consts = tuple([pair for pair in program.consts if pair[0] not in made])
    return program.replace(consts=consts, eqns=(*made.values(), *program.eqns))


def _counts(array: np.ndarray) -> bool:
    return (
        array.dtype == INT64
        and array.ndim == 1
        and 0 < array.size == array[-1] + 1
        and bool(np.array_equal(array, np.arange(array.size)))
    )


def without_unread(program: Program) -> Program:
    """The program with unread carries and results of loops removed."""
    live = {a for a in program.outputs if isinstance(a, Var)}
    kept: list[Eqn] = []
    for eqn in reversed(program.eqns):
        acts = is_ordered(eqn)
        if live.isdisjoint(eqn.outputs) and not acts and not may_raise(eqn):
            continue
        if eqn.prim.holds is Holds.LOOP and not acts:
            eqn = _pruned(eqn, live)
        elif eqn.prim is prims.switch and not acts:
            eqn = _pruned_branches(eqn, live)
        live.update([a for a in eqn.inputs if isinstance(a, Var)])
        kept.append(eqn)
    return program.replace(eqns=tuple(reversed(kept)))


class _Needs(NamedTuple):
    """What some results of a loop take: its programs, the numbers of all results that must stay,
    and what these read in the body."""

    body: Program
    cond: Program | None
    results: set[int]
    used: set[Atom]


def _needs(eqn: Eqn, live: Collection[Var]) -> _Needs:
    """What the live results of a loop take."""
    scan, p = eqn.prim is prims.scan, eqn.params
    body = prepared(p["body"])
    cond = None if scan else prepared(p["cond"])
    first = p["n_consts"] if scan else p["n_body"]
    count = p["n_carry"] if scan else len(body.outputs)
    carried = body.inputs[first : first + count]
    tested = _read(cond.eqns, cond.outputs) if cond is not None else set()
    needed = {k for k, v in enumerate(eqn.outputs) if v in live} or _smallest(eqn)
    if cond is not None:
        needed |= {k for k, v in enumerate(cond.inputs[p["n_cond"] :]) if v in tested}
    while True:
        used = _read(body.eqns, [body.outputs[k] for k in sorted(needed)])
        more = {k for k, v in enumerate(carried) if v in used} - needed
        if not more:
            return _Needs(body, cond, needed, used)
        needed |= more


def _pruned(eqn: Eqn, live: Collection[Var]) -> Eqn:
    """A loop with the carries and results that are needed."""
    scan, p = eqn.prim is prims.scan, eqn.params
    body, cond, needed, used = _needs(eqn, live)
    first = p["n_consts"] if scan else p["n_body"]
    count = p["n_carry"] if scan else len(body.outputs)
    carries = [k for k in range(count) if k in needed]
    consts = [k for k in range(first) if body.inputs[k] in used]
    items = [k for k in range(first + count, len(body.inputs)) if body.inputs[k] in used]
    kept = [*consts, *[first + k for k in carries], *items]
    if len(needed) == len(eqn.outputs) and len(kept) == len(body.inputs):
        return eqn
    small = body.replace(
        inputs=tuple([body.inputs[k] for k in kept]),
        outputs=tuple([body.outputs[k] for k in sorted(needed)]),
    )
    # Inner loops go first without what nothing reads: its operands are no inputs here any more.
    changes = {"body": prepared(dce(without_unread(small)))}
    operands = [eqn.inputs[k + (0 if scan else p["n_cond"])] for k in kept]
    if cond is not None:
        inputs = (*cond.inputs[: p["n_cond"]], *[cond.inputs[p["n_cond"] + k] for k in carries])
        changes |= {"cond": prepared(cond.replace(inputs=inputs)), "n_body": len(consts)}
        operands = [*eqn.inputs[: p["n_cond"]], *operands]
    else:
        changes |= {"n_consts": len(consts), "n_carry": len(carries)}
    outputs = tuple([eqn.outputs[k] for k in sorted(needed)])
    return eqn._replace(inputs=tuple(operands), params=Params({**p, **changes}), outputs=outputs)


def _pruned_branches(eqn: Eqn, live: Collection[Var]) -> Eqn:
    """A switch with the results and operands that are needed."""
    outs = sorted({k for k, v in enumerate(eqn.outputs) if v in live} or _smallest(eqn))
    branches = [prepared(b) for b in eqn.params["branches"]]
    if len(outs) < len(eqn.outputs):
        few = [b.replace(outputs=tuple([b.outputs[k] for k in outs])) for b in branches]
        branches = [prepared(dce(b)) for b in few]
    read = [_read(b.eqns, b.outputs) for b in branches]
    ins = [
        j
        for j in range(len(eqn.inputs) - 1)
        if any([b.inputs[j] in own for b, own in zip(branches, read, strict=True)])
    ]
    if len(outs) == len(eqn.outputs) and len(ins) == len(eqn.inputs) - 1:
        return eqn
    # Their loops may still name operands that no step reads, which are gone now.
    small = tuple([prepared(b.replace(inputs=tuple([b.inputs[j] for j in ins]))) for b in branches])
    return eqn._replace(
        inputs=(eqn.inputs[0], *[eqn.inputs[1 + j] for j in ins]),
        params=Params({**eqn.params, "branches": small}),
        outputs=tuple([eqn.outputs[k] for k in outs]),
    )


def _smallest(eqn: Eqn) -> set[int]:
    """The result that stays where an equation only checks, as steps have one."""
    return {min(range(len(eqn.outputs)), key=lambda k: eqn.outputs[k].aval.size)}


def _read(eqns: Sequence[Eqn], outputs: Sequence[Atom]) -> set[Atom]:
    """Everything that some outputs, and what may raise, depend on."""
    live: set[Atom] = set(outputs)
    for eqn in reversed(eqns):
        if not live.isdisjoint(eqn.outputs) or may_raise(eqn):
            live.update(_taken(eqn, live))
    return live


def _taken(eqn: Eqn, live: Collection[Atom]) -> Sequence[Atom]:
    """The operands that the live results of an equation depend on."""
    if eqn.prim.holds is not Holds.LOOP or is_ordered(eqn):
        return eqn.inputs
    p, scan = eqn.params, eqn.prim is prims.scan
    found = _needs(eqn, [v for v in eqn.outputs if v in live])
    skipped, first = (0, p["n_consts"]) if scan else (p["n_cond"], p["n_body"])
    kept = {found.body.inputs[first + k] for k in found.results if not scan or k < p["n_carry"]}
    pairs = zip(found.body.inputs, eqn.inputs[skipped:], strict=True)
    return [*eqn.inputs[:skipped], *[a for v, a in pairs if v in found.used or v in kept]]
