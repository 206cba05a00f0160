"""L5. Sums to which loops, branches and updates add, begun with what they are added to.

    x + zeros.at[i].add(u)               becomes     x.at[i].add(u)
    x + scan(..., zeros, ...)            becomes     scan(..., x, ...)     if a step only adds
    a + b of a scan that adds to both    becomes     a of one that adds all to a
    x + switch(k, f, g)(...)             becomes     switch(k, x + f, x + g)(..., x)

The cotangents of what loops read are such sums: an inner loop would else make an array of zeros,
and add all of it, in each step of the outer one.  Sums of floats are taken in another order.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from fgrad.base.named_tuple import NamedTuple
from fgrad.ir.program import Atom, Eqn, Params, Program, Var
from fgrad.ir.walk import definitions, is_ordered, resolve_atom, resolve_operands, use_counts
from fgrad.ops import primitives as prims
from fgrad.transforms.control.branch_writes import is_zero
from fgrad.transforms.core.merged_loops import sorted_eqns

Prepare = Callable[[Program], Program]


def accumulate(program: Program, prepared: Prepare) -> Program:
    """The program with sums that are begun with what they are added to.

    Arguments:
        prepared: optimises the program of a loop or branch.
    """
    if not any([eqn.prim is prims.add for eqn in program.eqns]):
        return program
    return _Sums(program, prepared).rewritten()


class _Term(NamedTuple):
    """A term of a sum, which equation `number` makes as its k-th result."""

    var: Var
    number: int
    k: int


class _Sums:
    """The sums of one program."""

    def __init__(self, program: Program, prepared: Prepare) -> None:
        self.program, self.prepared = program, prepared
        self.defined, self.uses = definitions(program.eqns), use_counts(program)
        self.number = {id(eqn): n for n, eqn in enumerate(program.eqns)}
        self.eqns = list(program.eqns)
        self.before: dict[int, list[Eqn]] = {}
        self.env: dict[Var, Atom] = {}
        self.gone: set[int] = set()

    def rewritten(self) -> Program:
        """The program with other sums."""
        inner = {
            a
            for eqn in self.program.eqns
            if eqn.prim is prims.add
            for a in eqn.inputs
            if isinstance(a, Var) and self._is_sum(a)
        }
        for n, eqn in enumerate(self.program.eqns):
            out = eqn.outputs[0] if eqn.prim is prims.add else None
            if out is not None and out.aval.size > 1 and out not in inner:
                self._sum(n, eqn)
        if not self.gone:
            return self.program
        eqns: list[Eqn] = []
        for n, eqn in enumerate(self.eqns):
            eqns += [resolve_operands(e, self.env) for e in self.before.get(n, ())]
            if n not in self.gone:
                eqns.append(resolve_operands(eqn, self.env))
        outputs = tuple([resolve_atom(a, self.env) for a in self.program.outputs])
        return self.program.replace(eqns=tuple(eqns), outputs=outputs)

    def _is_sum(self, atom: Var) -> bool:
        eqn = self.defined.get(atom)
        return eqn is not None and eqn.prim is prims.add and self.uses[atom] == 1

    def _sum(self, number: int, root: Eqn) -> None:
        """Rewrite one sum, which ends in the equation `root`."""
        leaves, sums = self._leaves(root, number)
        leaves = [a for a in leaves if isinstance(a, Var) or np.any(a.value)]
        if any([a.aval.shape != root.outputs[0].aval.shape for a in leaves]):
            return  # a number that is added to all elements
        found: dict[int, _Term] = {}
        absorbed: set[Atom] = set()
        for atom in leaves:
            term = self._absorbs(atom)
            if term is None or not self._joins(found.setdefault(term.number, term), term):
                continue
            absorbed.add(term.var)
        if not found:
            return
        terms = sorted(found.values(), key=lambda term: term.number)
        updates = [t for t in terms if self.eqns[t.number].prim is prims.scatter]
        loops = [t for t in terms if self.eqns[t.number].prim is not prims.scatter]
        rest = [a for a in leaves if not (isinstance(a, Var) and a in absorbed)]
        if loops:
            rest = self._begin(loops, rest, root)
        here = self.before.setdefault(number, [])
        total = self._added(rest, root, here)
        for term in updates:  # they follow all else, as nobody else reads them
            eqn = self.eqns[term.number]
            if total is not None:
                eqn = eqn._replace(inputs=(total, *eqn.inputs[1:]))
            here.append(eqn)
            total = term.var
        self.gone.update(sums)
        self.gone.update([term.number for term in updates])
        assert total is not None
        self.env[root.outputs[0]] = resolve_atom(total, self.env)

    def _begin(self, loops: Sequence[_Term], rest: Sequence[Atom], root: Eqn) -> list[Atom]:
        """Begin loops and branches with what is known before; what is left to be added."""
        start = loops[0].number
        late = [a for a in rest if self._made_at(a) >= start]
        first = [a for a in rest if self._made_at(a) < start]
        total = self._added(first, root, self.before.setdefault(start, []))
        for term in loops:
            if total is not None:
                self.eqns[term.number] = self._begun(self.eqns[term.number], term.k, total)
            total = term.var
        return [total, *late]  # type: ignore[list-item]

    def _leaves(self, root: Eqn, number: int) -> tuple[list[Atom], list[int]]:
        """The terms of a sum, and the numbers of its additions."""
        leaves: list[Atom] = []
        sums, pending = [number], list(root.inputs)
        while pending:
            atom = pending.pop()
            if isinstance(atom, Var) and self._is_sum(atom):
                eqn = self.defined[atom]
                sums.append(self.number[id(eqn)])
                pending += eqn.inputs
            else:
                leaves.append(atom)
        return leaves, sums

    def _made_at(self, atom: Atom) -> int:
        eqn = self.defined.get(atom) if isinstance(atom, Var) else None
        return -1 if eqn is None else self.number[id(eqn)]

    def _absorbs(self, atom: Atom) -> _Term | None:
        """A term that may begin with what it is added to."""
        eqn = self.defined.get(atom) if isinstance(atom, Var) else None
        if eqn is None or not isinstance(atom, Var) or self.uses[atom] != 1 or is_ordered(eqn):
            return None
        k = eqn.outputs.index(atom)
        start = start_of(eqn, k)
        if eqn.prim is prims.switch:
            good = True
        else:
            good = start is not None and self._is_zero(eqn.inputs[start])
            good = good and only_adds(eqn, k, self.prepared)
        return _Term(atom, self.number[id(eqn)], k) if good else None

    def _joins(self, first: _Term, term: _Term) -> bool:
        """Whether two terms are one sum: two carries to which a loop only adds are then one."""
        if first is term:
            return True
        joined = _joined(self.eqns[term.number], first.k, term.k, self.prepared)
        if joined is None:
            return False
        self.eqns[term.number] = joined
        return True

    def _is_zero(self, atom: Atom) -> bool:
        return is_zero(atom, self.program, self.defined)

    def _begun(self, eqn: Eqn, k: int, total: Atom) -> Eqn:
        """The equation that adds to `total`."""
        start = start_of(eqn, k)
        if start is not None:
            inputs = list(eqn.inputs)
            inputs[start] = total
            return eqn._replace(inputs=tuple(inputs))
        branches = []
        for branch in eqn.params["branches"]:
            branch = self.prepared(branch)
            given, out = Var(eqn.outputs[k].aval), branch.outputs[k]
            outputs, eqns = list(branch.outputs), branch.eqns
            if is_zero(out, branch, definitions(branch.eqns)):
                outputs[k] = given
            else:
                outputs[k] = Var(eqn.outputs[k].aval)
                near = branch.eqns[-1] if branch.eqns else eqn
                more = Eqn(prims.add, (given, out), Params(), (outputs[k],), near.loc, near.via)  # type: ignore[arg-type]
                eqns = (*eqns, more)
            branches.append(
                branch.replace(inputs=(*branch.inputs, given), eqns=eqns, outputs=tuple(outputs))
            )
        params = Params({**eqn.params, "branches": tuple(branches)})
        return eqn._replace(inputs=(*eqn.inputs, total), params=params)

    def _added(self, atoms: Sequence[Atom | None], root: Eqn, into: list[Eqn]) -> Atom | None:
        """The sum of some terms."""
        total: Atom | None = None
        for atom in atoms:
            if atom is None or total is None:
                total = atom if total is None else total
                continue
            out = Var(root.outputs[0].aval)
            into.append(Eqn(prims.add, (total, atom), Params(), (out,), root.loc, root.via))
            total = out
        return total


def _joined(eqn: Eqn, k: int, other: int, prepared: Prepare) -> Eqn | None:
    """A loop that adds to its k-th carry what it has added to another one, which stays."""
    if eqn.prim not in (prims.scan, prims.while_):
        return None
    body = prepared(eqn.params["body"])
    first = eqn.params["n_consts" if eqn.prim is prims.scan else "n_body"]
    given, outputs = body.inputs[first + other], list(body.outputs)
    env: dict[Var, Atom] = {given: outputs[k]}
    outputs[k], outputs[other] = resolve_atom(outputs[other], env), given  # it may add nothing
    eqns = sorted_eqns([resolve_operands(e, env) for e in body.eqns], body)
    if eqns is None:
        return None
    made = body.replace(eqns=tuple(eqns), outputs=tuple(outputs))
    return eqn._replace(params=Params({**eqn.params, "body": made}))


def start_of(eqn: Eqn, k: int) -> int | None:
    """Which operand the k-th result begins with, if it is a carry or an update."""
    p = eqn.params
    if eqn.prim is prims.scatter:
        return 0 if p["mode"] == "add" else None
    if eqn.prim is prims.scan:
        return p["n_consts"] + k if k < p["n_carry"] else None
    return p["n_cond"] + p["n_body"] + k if eqn.prim is prims.while_ else None


def only_adds(eqn: Eqn, k: int, prepared: Prepare) -> bool:
    """Whether the k-th result is what it begins with and terms that do not depend on that."""
    p = eqn.params
    if eqn.prim is prims.scatter:
        return p["mode"] == "add"
    if eqn.prim is prims.scan:
        body = prepared(p["body"])
        return k < p["n_carry"] and _grows(body, p["n_consts"] + k, k, prepared)
    if eqn.prim is not prims.while_:
        return False
    cond, body = prepared(p["cond"]), prepared(p["body"])
    tested = cond.inputs[p["n_cond"] + k] in use_counts(cond)
    return not tested and _grows(body, p["n_body"] + k, k, prepared)


def _grows(body: Program, given: int, k: int, prepared: Prepare) -> bool:
    """Whether result k of a program is an input, which nobody else reads, and other terms."""
    defined, uses = definitions(body.eqns), use_counts(body)
    var = body.inputs[given]
    return uses.get(var) == 1 and _leads(body.outputs[k], var, defined, uses, prepared)


def _leads(
    atom: Atom, var: Var, defined: Mapping[Var, Eqn], uses: Mapping[Var, int], prepared: Prepare
) -> bool:
    """Whether `atom` is `var` and other terms; as `var` is read once, these do not depend on it."""
    pending = [atom]
    while pending:
        atom = pending.pop()
        if atom is var:
            return True
        eqn = defined.get(atom) if isinstance(atom, Var) else None
        if eqn is None or uses[atom] != 1:  # type: ignore[index]
            continue
        k = eqn.outputs.index(atom)  # type: ignore[arg-type]
        if eqn.prim is prims.add:
            pending += eqn.inputs
        elif eqn.prim is prims.switch:
            pending += _through_branches(eqn, k, prepared)
        elif only_adds(eqn, k, prepared):
            pending.append(eqn.inputs[start_of(eqn, k)])  # type: ignore[index]
    return False


def _through_branches(eqn: Eqn, k: int, prepared: Prepare) -> list[Atom]:
    """The operands to which all branches of a switch add their k-th result."""
    branches = [prepared(branch) for branch in eqn.params["branches"]]
    return [
        a
        for j, a in enumerate(eqn.inputs[1:])
        if a.aval.shape == eqn.outputs[k].aval.shape
        and all([_grows(branch, j, k, prepared) for branch in branches])
    ]
