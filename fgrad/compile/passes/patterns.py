"""L5. Pattern matching: find equations that compute a given function.

    pattern(lambda x, b: relu(x + b), FLOAT32, FLOAT32).match(v)   ->   what x and b are

A pattern is the function's own program after the passes that other programs have been through, so
it is written once, where the function is.  All its operations are elementwise.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from fgrad.base.named_tuple import NamedTuple
from fgrad.compile.passes.cse import atom_key, cse
from fgrad.compile.passes.dce import dce
from fgrad.compile.passes.fold import fold
from fgrad.compile.passes.inline import inline_calls
from fgrad.compile.passes.simplify import simplify
from fgrad.ir.aval import Aval
from fgrad.ir.program import Atom, Eqn, Lit, Program, Var
from fgrad.ir.walk import definitions
from fgrad.trace import trace
from fgrad.typing import PyTree


class Match(NamedTuple):
    """What the operands of a pattern are, in order, and the equations that are as it says."""

    operands: tuple[Atom, ...]
    eqns: tuple[Eqn, ...]


class Pattern:
    """A function of arrays of one shape, whose values are to be found."""

    def __init__(self, fun: Callable[..., PyTree], dtypes: Sequence[np.dtype]) -> None:
        avals = [Aval((2,), dtype) for dtype in dtypes]
        with np.errstate(all="ignore"):
            program = trace(lambda *xs: [fun(*xs)], avals, "pattern").program
        for rewrite in (inline_calls, fold, simplify, cse, dce):
            program = rewrite(program)
        self.program: Program = program
        self.made = definitions(program.eqns)

    def match(self, atom: Atom, defined: Mapping[Var, Eqn], *known: Atom) -> Match | None:
        """How an atom is a value of the function, of some first operands that are known; `defined`
        has the equations of variables."""
        search = _Search(self, defined)
        search.bound.update(zip(self.program.inputs, known, strict=False))
        if not search.fits(self.program.outputs[0], atom):
            return None
        operands = tuple([search.bound[v] for v in self.program.inputs])
        return Match(operands, tuple(search.eqns.values()))


class _Search:
    """One attempt."""

    def __init__(self, pattern: Pattern, defined: Mapping[Var, Eqn]) -> None:
        self.made, self.defined = pattern.made, defined
        self.bound: dict[Var, Atom] = {}
        self.eqns: dict[Var, Eqn] = {}

    def fits(self, wanted: Atom, atom: Atom) -> bool:
        """Whether an atom is what the pattern has here."""
        if isinstance(wanted, Lit):
            return isinstance(atom, Lit) and atom_key(wanted) == atom_key(atom)
        if wanted in self.bound:
            return self.bound[wanted] is atom
        if wanted.aval.dtype != atom.aval.dtype:
            return False
        form = self.made.get(wanted)
        if form is not None and not self._made_as(form, atom):
            return False
        self.bound[wanted] = atom
        return True

    def _made_as(self, form: Eqn, atom: Atom) -> bool:
        eqn = self.defined.get(atom) if isinstance(atom, Var) else None
        if eqn is None or eqn.prim is not form.prim or eqn.params != form.params:
            return False
        orders = [eqn.inputs]
        if form.prim.commutative:
            orders.append(eqn.inputs[::-1])
        before = dict(self.bound), dict(self.eqns)
        for inputs in orders:
            if all([self.fits(p, a) for p, a in zip(form.inputs, inputs, strict=True)]):
                self.eqns[eqn.outputs[0]] = eqn
                return True
            self.bound, self.eqns = dict(before[0]), dict(before[1])
        return False
