"""L5. Pass `invariants`: hoist loop-invariant equations out of loops.

    scan (w, c, x) -> ... exp w ...     becomes     e = exp w;  scan (e, c, x) -> ... e ...

Only equations that cannot fail are moved, and of those that move elements only what others need.
A matrix that is multiplied by vectors in every step is laid out with its longer axis last, so that
vectors of it are read.  Requires nothing.  Ensures that the bodies of loops are optimised programs.
"""

from __future__ import annotations

from collections.abc import Sequence

from fgrad.compile.loops.accumulate import accumulate
from fgrad.compile.loops.prepare import prepared, with_counters, without_unread
from fgrad.compile.loops.results import products_after
from fgrad.compile.loops.writer import KINDS
from fgrad.compile.lower.rules import MOVES, REDUCTIONS
from fgrad.compile.passes.dce import dce
from fgrad.ir.aval import Aval
from fgrad.ir.program import Atom, Eqn, Lit, Params, Program, Var
from fgrad.ir.walk import consumers
from fgrad.ops import primitives as prims

LARGE = 256  # elements of a matrix whose layout matters


def hoist_invariants(program: Program) -> Program:
    """The program with invariant equations of loops before them."""
    if not any([eqn.prim.constants for eqn in program.eqns]):
        return program
    program = with_counters(without_unread(accumulate(program, prepared)))
    eqns: list[Eqn] = []
    for eqn in program.eqns:
        if eqn.prim.constants is None:
            eqns.append(eqn)
            continue
        *before, loop = _hoisted(eqn)
        eqns += before
        eqns += products_after(loop) if loop.prim is prims.scan else [loop]
    return dce(program.replace(eqns=tuple(eqns), made_by="invariants"))


class _Body:
    """The body of a loop, and what is given to its constants."""

    def __init__(self, eqn: Eqn) -> None:
        p = eqn.params
        assert eqn.prim.constants is not None
        self.eqn, self.name = eqn, eqn.prim.constants
        self.first = 0 if eqn.prim is prims.scan else p["n_cond"]
        count = p[self.name]
        self.program = _joined(prepared(p["body"]), eqn.inputs[self.first : self.first + count])
        self.given: dict[Var, Atom] = dict(
            zip(self.program.inputs[:count], eqn.inputs[self.first :], strict=False)
        )
        self.rest = self.program.inputs[count:]
        self.before: list[Eqn] = []

    def equations(self) -> list[Eqn]:
        """The equations before the loop, and the loop."""
        body = dce(self.program)
        used = set(body.outputs) | {a for eqn in body.eqns for a in eqn.inputs}
        consts = [v for v in self.given if v in used]
        body = body.replace(inputs=(*consts, *self.rest), made_by="invariants")
        p = self.eqn.params
        stop = self.first + p[self.name]
        inputs = (
            *self.eqn.inputs[: self.first],
            *[self.given[v] for v in consts],
            *self.eqn.inputs[stop:],
        )
        params = Params({**p, "body": body, self.name: len(consts)})
        return [*self.before, self.eqn._replace(inputs=inputs, params=params)]


def _joined(body: Program, given: Sequence[Atom]) -> Program:
    """The body with one variable for constants that are one array."""
    first: dict[int, Var] = {}
    env: dict[Var, Atom] = {}
    for var, atom in zip(body.inputs, given, strict=False):
        kept = first.setdefault(id(atom), var)
        if kept is not var:
            env[var] = kept
    if not env:
        return body
    eqns = [e._replace(inputs=tuple([env.get(a, a) for a in e.inputs])) for e in body.eqns]  # type: ignore[call-overload]
    outputs = tuple([env.get(a, a) for a in body.outputs])  # type: ignore[call-overload]
    return prepared(body.replace(eqns=tuple(eqns), outputs=outputs))


def _hoisted(eqn: Eqn) -> list[Eqn]:
    body = _Body(eqn)
    _move_out(body)
    _lay_out(body)
    return body.equations()


# --- equations


def _is_safe(eqn: Eqn) -> bool:
    prim = eqn.prim
    real = all([a.aval.dtype.kind in KINDS for a in (*eqn.inputs, *eqn.outputs)])
    known = prim in MOVES or prim in REDUCTIONS or prim is prims.dot_general
    return real and (known or prim.scalar is not None)


def _move_out(body: _Body) -> None:
    """Equations of constants alone go before the loop; moves that both sides read stand on both."""
    program = body.program
    fixed: set[Var] = set(body.given)
    moved: list[Eqn] = []
    for eqn in program.eqns:
        inputs = [a for a in eqn.inputs if isinstance(a, Var)]
        if inputs and all([v in fixed for v in inputs]) and _is_safe(eqn):
            fixed.update(eqn.outputs)
            moved.append(eqn)
    gone = {id(eqn) for eqn in _worth(program, moved)}
    kept = [eqn for eqn in program.eqns if id(eqn) not in gone]
    needed = {a for eqn in kept for a in eqn.inputs} | set(program.outputs)
    env: dict[Var, Atom] = dict(body.given)
    for eqn in moved:
        outputs = tuple([Var(v.aval.strong()) for v in eqn.outputs])
        inputs = tuple([env[a] if isinstance(a, Var) else a for a in eqn.inputs])
        body.before.append(eqn._replace(inputs=inputs, outputs=outputs))
        for old, new in zip(eqn.outputs, outputs, strict=True):
            env[old] = new
            if id(eqn) in gone and old in needed:
                body.given[old] = new
    body.program = program.replace(eqns=tuple(kept))


def _worth(program: Program, moved: list[Eqn]) -> list[Eqn]:
    """Without equations that only move elements for readers in the loop."""
    while True:
        inside = {id(eqn) for eqn in moved}
        needed = {a for e in program.eqns if id(e) not in inside for a in e.inputs}
        needed |= set(program.outputs)
        kept = [e for e in moved if e.prim not in MOVES or needed.isdisjoint(e.outputs)]
        if len(kept) == len(moved):
            return kept
        moved = kept


# --- matrices


def _lay_out(body: _Body) -> None:
    """Tall matrices that only meet vectors are transposed before the loop."""
    readers = consumers(body.program.eqns)
    outputs = set(body.program.outputs)
    for var, atom in list(body.given.items()):
        rows, columns = var.aval.shape if var.aval.ndim == 2 else (0, 0)
        met = readers.get(var, [])
        if var.aval.size < LARGE or rows <= columns or not met or var in outputs:
            continue
        if isinstance(atom, Lit) or not all([_is_matvec(e, var) for e in met]):
            continue
        turned = Aval((columns, rows), var.aval.dtype)
        inside, outside = Var(turned), Var(turned)
        permute = prims.permute
        body.before.append(
            Eqn(permute, (atom,), Params({"axes": (1, 0)}), (outside,), body.eqn.loc)
        )
        del body.given[var]
        body.given[inside] = outside
        ids = {id(e) for e in met}
        eqns = [_turned(e, var, inside) if id(e) in ids else e for e in body.program.eqns]
        body.program = body.program.replace(eqns=tuple(eqns))


def _is_matvec(eqn: Eqn, var: Var) -> bool:
    if eqn.prim is not prims.dot_general or eqn.params["batch"] != ((), ()):
        return False
    a, b = eqn.inputs
    return (a is var) != (b is var) and (b if a is var else a).aval.ndim == 1


def _turned(eqn: Eqn, var: Var, inside: Var) -> Eqn:
    """A product with the transposed matrix."""
    contract = list(eqn.params["contract"])
    k = 0 if eqn.inputs[0] is var else 1
    contract[k] = (1 - contract[k][0],)
    inputs = tuple([inside if a is var else a for a in eqn.inputs])
    return eqn._replace(inputs=inputs, params=Params({**eqn.params, "contract": tuple(contract)}))
