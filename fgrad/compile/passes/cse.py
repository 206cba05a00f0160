"""L5. Pass `cse`: merge equations with equal primitive, parameters and operands.

Requires nothing.  Ensures that no two equations compute the same; operands of commutative
primitives are compared without order (x + y and y + x are equal to the last bit).
"""

from __future__ import annotations

from typing import Any

from fgrad.ir.program import Atom, Eqn, Lit, Program, Var
from fgrad.ir.walk import is_ordered, resolve_atom, resolve_operands
from fgrad.ops.shape import unset_p


def cse(program: Program) -> Program:
    """The program with repeated equations and constants computed once."""
    env: dict[Var, Atom] = {}
    consts, arrays = [], {}
    for var, array in program.consts:
        first = arrays.setdefault(id(array), var)
        if first is var:
            consts.append((var, array))
        else:
            env[var] = first
    seen: dict[object, Eqn] = {}
    kept: list[Eqn] = []
    for eqn in program.eqns:
        eqn = resolve_operands(eqn, env)
        first_eqn = seen.setdefault(equation_key(eqn), eqn)
        if first_eqn is eqn or is_ordered(eqn) or eqn.prim is unset_p:  # memory of its own
            kept.append(eqn)
        else:
            env.update(zip(eqn.outputs, first_eqn.outputs, strict=True))
    if not env:
        return program
    outputs = tuple([resolve_atom(a, env) for a in program.outputs])
    return program.replace(consts=tuple(consts), eqns=tuple(kept), outputs=outputs, made_by="cse")


def equation_key(eqn: Eqn) -> tuple[object, ...]:
    """Equal for equations that compute the same."""
    prim, inputs, params = eqn[:3]
    words: tuple[object, ...] = inputs
    if Lit in map(type, inputs):
        words = tuple([atom_key(a) for a in inputs])
    if prim.commutative and inputs[0] is not inputs[1]:
        words = tuple(sorted(words, key=id_of_key))
    return prim, words, params.content if params else ""


def atom_key(atom: Atom) -> object:
    """Equal for equal atoms: a variable itself, a literal's dtype and bits."""
    return atom if type(atom) is Var else (atom.value.dtype.num, atom.value.tobytes())  # type: ignore[union-attr]


def id_of_key(key: Any) -> Any:
    """An arbitrary but fixed order of atoms."""
    return (0, id(key), b"") if type(key) is Var else (1, key[0], key[1])
