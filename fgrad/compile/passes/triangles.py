"""L5. Pass `triangles`: systems of matrices that are triangles by what made them need no factors.

    l = cholesky a                                l = cholesky a
    p, e = factor l                     becomes
    x = lu_solve l p e b                          x = triangular_solve[lower=True] l b

NumPy has no function for triangles, so users write `np.linalg.solve(np.linalg.cholesky(a), b)`.

Requires equations of their own for composed functions (`inline`), and complex matrices as such.
Ensures: solutions are those of the triangle, which differ from those of its factors by roundings; a
zero on the diagonal raises as before.
"""

from __future__ import annotations

from collections.abc import Mapping

from fgrad.base.named_tuple import NamedTuple
from fgrad.ir.program import Atom, Eqn, Params, Program, Var
from fgrad.ir.walk import definitions
from fgrad.ops import primitives as prims


class _Triangle(NamedTuple):
    """A matrix that is one triangle of zeros, or the transpose of one."""

    matrix: Var
    lower: bool
    turned: bool


def triangles(program: Program) -> Program:
    """The program, in which such systems are solved as what they are."""
    if not any([eqn.prim is prims.lu_solve for eqn in program.eqns]):
        return program
    made = definitions(program.eqns)
    eqns = tuple([_solved(eqn, made) for eqn in program.eqns])
    if all([eqn is old for eqn, old in zip(eqns, program.eqns, strict=True)]):
        return program
    return program.replace(eqns=eqns, made_by="triangles")


def _solved(eqn: Eqn, made: Mapping[Var, Eqn]) -> Eqn:
    """An equation, or the solution of a triangle in its place."""
    if eqn.prim is not prims.lu_solve:
        return eqn
    a, packed, pivots, b = eqn.inputs
    factors = _maker(packed, made)
    own = (
        factors is not None and factors.prim is prims.factor and factors.outputs == (packed, pivots)
    )
    if not own or _plain(factors.inputs[0], made) is not _plain(a, made):  # type: ignore[union-attr]
        return eqn
    found = _triangle(_plain(a, made), made)
    if found is None:
        return eqn
    trans = bool(eqn.params["trans"]) is not found.turned
    params = Params({"lower": found.lower, "trans": trans, "unit": False})
    return eqn._replace(prim=prims.triangular_solve, inputs=(found.matrix, b), params=params)


def _maker(atom: Atom, made: Mapping[Var, Eqn]) -> Eqn | None:
    return made.get(atom) if isinstance(atom, Var) else None


def _plain(atom: Atom, made: Mapping[Var, Eqn]) -> Atom:
    """The value of an atom, derivatives aside."""
    eqn = _maker(atom, made)
    return atom if eqn is None or eqn.prim is not prims.stop_gradient else eqn.inputs[0]


def _triangle(atom: Atom, made: Mapping[Var, Eqn]) -> _Triangle | None:
    """The triangle that a matrix is, if its equation says so."""
    eqn = _maker(atom, made)
    if eqn is None or not isinstance(atom, Var):
        return None
    if eqn.prim is prims.cholesky:
        return _Triangle(atom, True, False)
    if eqn.prim is prims.qr and atom is eqn.outputs[1]:
        return _Triangle(atom, False, False)
    if eqn.prim is prims.permute and eqn.params["axes"] == _last_two(atom.aval.ndim):
        found = _triangle(eqn.inputs[0], made)
        return None if found is None else found._replace(turned=not found.turned)
    return None


def _last_two(ndim: int) -> tuple[int, ...]:
    """The axes with the last two exchanged."""
    return (*range(ndim - 2), ndim - 1, ndim - 2)
