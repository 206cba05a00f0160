"""L5. Groups that are alike: equal equations up to names, so that each kind is lowered once.

The content of a group is its equations, and the virtual ones behind them, with variables numbered
in the order in which they are met.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping

from fgrad.compile.cse import param_key
from fgrad.compile.steps import Group
from fgrad.ir.program import Eqn, Lit, Var


class _Numbers(dict[Var, int]):
    """Numbers variables as they are met."""

    def __missing__(self, var: Var) -> int:
        self[var] = number = len(self)
        return number


def content(group: Group, virtual: Mapping[Var, Eqn]) -> tuple[Hashable, list[Var]]:
    """What groups that need one kernel have in common, and this one's variables by number."""
    number = _Numbers()
    own = {v for eqn in group.eqns for v in eqn.outputs}
    words: list[Hashable] = [group.kind, group.domain, group.rows]
    seen: set[Var] = set()
    pending = list(reversed(group.eqns))
    while pending:
        eqn = pending.pop()
        words.append(_words(eqn, number))
        for atom in eqn.inputs:
            if type(atom) is Var and atom not in seen and atom not in own:
                seen.add(atom)
                behind = virtual.get(atom)
                if behind is not None:
                    pending.append(behind)
    words += [number[v] for v in group.outputs]
    words += [tuple(sorted([number[v] for v in vs])) for vs in (group.row_vars, group.columns)]
    words.append(group.splits)
    return tuple(words), list(number)


def _words(eqn: Eqn, number: _Numbers) -> Hashable:
    inputs = tuple(
        [
            (a.value.dtype.char, a.value.tobytes()) if isinstance(a, Lit) else (number[a], _kind(a))
            for a in eqn.inputs
        ]
    )
    outputs = tuple([(number[v], _kind(v)) for v in eqn.outputs])
    params = tuple([param_key(value) for value in eqn.params.values()])
    return eqn.prim.name, params, inputs, outputs


def _kind(var: Var) -> Hashable:
    return var.aval.shape, var.aval.dtype.char
