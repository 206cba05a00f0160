"""L5. Groups that are alike: equal equations up to names, so that each kind is lowered once.

The content of a group is its equations, and the virtual ones behind them, with variables numbered
in the order in which they are met.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping

from fgrad.compile.tasks.steps import Group
from fgrad.ir.aval import dtype_text
from fgrad.ir.program import Eqn, Lit, Var


def content(group: Group, virtual: Mapping[Var, Eqn]) -> tuple[Hashable, list[Var]]:
    """What groups that need one kernel have in common, and this one's variables by number."""
    number: dict[Var, int] = {}
    own = {v for eqn in group.eqns for v in eqn.outputs}
    words: list[Hashable] = [group.kind, group.domain, group.rows]
    seen: set[Var] = set()
    pending = list(reversed(group.eqns))
    while pending:
        eqn = pending.pop()
        _write(eqn, number, words)
        for atom in eqn.inputs:
            if type(atom) is Var and atom not in seen and atom not in own:
                seen.add(atom)
                behind = virtual.get(atom)
                if behind is not None:
                    pending.append(behind)
    words += [number[v] for v in group.outputs]
    words += [tuple(sorted([number[v] for v in vs])) for vs in (group.row_vars, group.columns)]
    words.append(group.cuts)
    return tuple(words), list(number)


def _write(eqn: Eqn, number: dict[Var, int], words: list[Hashable]) -> None:
    """The words of an equation; a variable's shape and dtype where it is met first."""
    prim, inputs, params, outputs, _, _ = eqn
    words += (prim.name, params.content if params else "", len(inputs), len(outputs))
    for atom in (*inputs, *outputs):
        if type(atom) is Lit:
            words += (dtype_text(atom.value.dtype), atom.value.tobytes())
            continue
        known = number.get(atom)  # type: ignore[arg-type]
        if known is None:
            known = number[atom] = len(number)  # type: ignore[index]
            words += (atom.aval.shape, dtype_text(atom.aval.dtype))
        words.append(known)
