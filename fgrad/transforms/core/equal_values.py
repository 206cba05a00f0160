"""L4. Values of one program that another one computes too, in the same way."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from fgrad.ir.program import Atom, Lit, Program, Var
from fgrad.ir.walk import calls_back, is_ordered


def places_of(
    atoms: Sequence[Atom], program: Program, other: Program, first: int
) -> list[int] | None:
    """Where some values of a program are among the results of another one with the same inputs,
    from the `first` on; None if one of them is not.
    """
    names: dict[Hashable, int] = {}
    theirs = _Names(other, names)
    places: dict[int, int] = {}
    for k, atom in enumerate(other.outputs[first:]):
        places.setdefault(theirs.of(atom), k)
    own = _Names(program, names)
    found = [places.get(own.of(atom)) for atom in atoms]
    return None if None in found else found  # type: ignore[return-value]


class _Names:
    """A number for each value of a program: equal ones for what is computed in the same way."""

    def __init__(self, program: Program, names: dict[Hashable, int]) -> None:
        self.names = names
        self.known: dict[Var, int] = {}
        for k, var in enumerate(program.inputs):
            self.known[var] = self.name("input", k)
        for var, array in program.consts:
            self.known[var] = self.name("const", array.dtype, array.shape, array.tobytes())
        for n, eqn in enumerate(program.eqns):
            again = n if is_ordered(eqn) or calls_back(eqn) else None
            made = (eqn.prim, eqn.params, again, *[self.of(a) for a in eqn.inputs])
            for k, var in enumerate(eqn.outputs):
                self.known[var] = self.name(*made, k)

    def name(self, *what: Hashable) -> int:
        """The number of what is made so."""
        return self.names.setdefault(what, len(self.names))

    def of(self, atom: Atom) -> int:
        """The number of a value."""
        if isinstance(atom, Lit):
            return self.name("number", atom.aval.dtype, atom.value.tobytes())
        return self.known[atom]
