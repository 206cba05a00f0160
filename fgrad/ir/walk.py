"""L1. Queries on programs: readers of variables, free variables, substitutions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from fgrad.base.kinds import is_tuple
from fgrad.ir.program import Atom, Eqn, Program, Var
from fgrad.ir.traits import Cost, Host


def use_counts(program: Program) -> dict[Var, int]:
    """How often each variable is read, by equations and as an output."""
    counts: dict[Var, int] = {}
    for eqn in program.eqns:
        for atom in eqn.inputs:
            if type(atom) is Var:
                counts[atom] = counts.get(atom, 0) + 1
    for atom in program.outputs:
        if type(atom) is Var:
            counts[atom] = counts.get(atom, 0) + 1
    return counts


def definitions(eqns: Iterable[Eqn]) -> dict[Var, Eqn]:
    """The equation that binds each variable."""
    return {var: eqn for eqn in eqns for var in eqn.outputs}


def consumers(eqns: Iterable[Eqn]) -> dict[Var, list[Eqn]]:
    """The equations that read each variable, each once, in order."""
    users: dict[Var, list[Eqn]] = {}
    for eqn in eqns:
        for atom in eqn.inputs:
            if type(atom) is Var:
                found = users.get(atom)
                if found is None:
                    users[atom] = [eqn]
                elif found[-1] is not eqn:
                    found.append(eqn)
    return users


def resolve_operands(eqn: Eqn, env: Mapping[Var, Atom]) -> Eqn:
    """The equation with its operands replaced; itself when none is in `env`."""
    if not env:
        return eqn
    for atom in eqn.inputs:
        if atom in env:
            return eqn._replace(inputs=tuple([env.get(a, a) for a in eqn.inputs]))  # type: ignore[call-overload]
    return eqn


def resolve_atom(atom: Atom, env: Mapping[Var, Atom]) -> Atom:
    """What an atom stands for after substitution."""
    return env.get(atom, atom)  # type: ignore[call-overload]


def programs_in(params: Mapping[str, object]) -> list[Program]:
    """The programs among the parameters of an equation, also in tuples."""
    found: list[Program] = []
    for value in params.values():
        if isinstance(value, Program):
            found.append(value)
        elif is_tuple(value):
            found += [item for item in value if isinstance(item, Program)]
    return found


def has_effect(eqn: Eqn) -> bool:
    """Whether an equation does more than compute: it, or one of a program in its parameters."""
    if eqn.prim.effect:
        return True
    return any([_acts(held) for held in programs_in(eqn.params)]) if eqn.params else False


def communicates(eqn: Eqn) -> bool:
    """Whether ranks meet in an equation: it, or one of a program in its parameters."""
    across = eqn.prim.across
    if across is not None:
        return across.communicates
    return any([_meets(held) for held in programs_in(eqn.params)]) if eqn.params else False


def _meets(program: Program) -> bool:
    return program.derived("meets", lambda: any([communicates(eqn) for eqn in program.eqns]))


def is_cotangent(eqn: Eqn) -> bool:
    """Whether a pullback has made an equation: the order of its sums is no user's."""
    return "vjp" in eqn.via


def is_ordered(eqn: Eqn) -> bool:
    """Whether an equation stays, in its place among others such, whoever reads it: it has an
    effect, or ranks meet in it, all of which must come to it."""
    return has_effect(eqn) or communicates(eqn)


def may_raise(eqn: Eqn) -> bool:
    """Whether an equation checks values when it runs: it, or one of a program in its parameters."""
    if eqn.prim.checks:
        return True
    return any([has_checks(held) for held in programs_in(eqn.params)]) if eqn.params else False


def has_checks(program: Program) -> bool:
    """Whether a program, or one in it, checks values when it runs."""
    return program.derived("has checks", lambda: any([may_raise(eqn) for eqn in program.eqns]))


def must_run(eqn: Eqn) -> bool:
    """Whether an equation stays, whoever reads it: for what it does, or for the error that it may
    raise, for which no order is kept."""
    return is_ordered(eqn) or may_raise(eqn)


def calls_back(eqn: Eqn) -> bool:
    """Whether an equation, or one of a program in its parameters, calls Python for what it does."""
    if eqn.prim.effect and eqn.prim.host is Host.CALLBACK:
        return True
    return any([_calls_back(held) for held in programs_in(eqn.params)]) if eqn.params else False


def _calls_back(program: Program) -> bool:
    return program.derived("calls back", lambda: any([calls_back(eqn) for eqn in program.eqns]))


def _acts(program: Program) -> bool:
    return program.derived("effect", lambda: any([has_effect(eqn) for eqn in program.eqns]))


def subprograms(program: Program) -> list[Program]:
    """The program and all programs in its parameters, at any depth, each once."""
    found: dict[int, Program] = {id(program): program}
    pending = [program]
    while pending:
        for eqn in pending.pop().eqns:
            for held in programs_in(eqn.params) if eqn.params else ():
                if id(held) not in found:
                    found[id(held)] = held
                    pending.append(held)
    return list(found.values())


def cost_of(eqn: Eqn) -> int:
    """The cost of one element of an equation."""
    cost = eqn.prim.cost
    return Cost.CHEAP if cost is None else cost
