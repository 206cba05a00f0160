"""L5. The rewriter of `simplify`: looks up equations and creates new ones."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from fgrad.base.named_tuple import NamedTuple
from fgrad.compile.passes.cse import atom_key
from fgrad.ir.primitive import Primitive
from fgrad.ir.program import Atom, Eqn, Lit, Params, Program, Var
from fgrad.ir.walk import resolve_atom, resolve_operands
from fgrad.ops import primitives as prims

APPLIED: Counter[str] = Counter()
ELEMENTWISE = None  # the primitives of a law: all with a scalar row


class Law(NamedTuple):
    """A law and the primitives that it rewrites; None: all with a scalar row."""

    apply: Callable[[Rewriter, Eqn], Atom | None]
    prims: tuple[Primitive, ...] | None

    @property
    def name(self) -> str:
        """The name of the law's function."""
        return self.apply.__name__

    def rewrites(self, prim: Primitive) -> bool:
        """Whether the law is one of the equations of a primitive."""
        return prim.scalar is not None if self.prims is None else prim in self.prims


class Rewriter:
    """The new equations so far, and what old variables became."""

    def __init__(self, laws: Mapping[Primitive, list[Law]]) -> None:
        self.laws = laws
        self.env: dict[Var, Atom] = {}
        self.eqns: list[Eqn] = []
        self.defined: dict[Var, Eqn] = {}
        self.like: Eqn | None = None

    def run(self, program: Program) -> Program:
        """The program with the laws applied."""
        return self.walk(program, self.rewritten, "simplify")

    def walk(self, program: Program, change: Callable[[Eqn], Atom | None], by: str) -> Program:
        """The program with what equations become by a change, which gives None for those that stay.

        The same program if all stay.
        """
        for eqn in program.eqns:
            self.like = eqn
            eqn = resolve_operands(eqn, self.env)
            new = None if eqn.prim.multiple else change(eqn)
            if new is None:
                self.append(eqn)
            else:
                self.env[eqn.outputs[0]] = new
        if not self.env:
            return program
        outputs = tuple([self.resolved(a) for a in program.outputs])
        return program.replace(eqns=tuple(self.eqns), outputs=outputs, made_by=by)

    def reads(self, eqn: Eqn, prim: Primitive) -> bool:
        """Whether an operand comes from an equation of a primitive."""
        for atom in eqn.inputs:
            source = self.defined.get(atom)  # type: ignore[call-overload]
            if source is not None and source.prim is prim:
                return True
        return False

    def append(self, eqn: Eqn) -> None:
        self.eqns.append(eqn)
        if not eqn.prim.multiple:
            self.defined[eqn.outputs[0]] = eqn

    def rewritten(self, eqn: Eqn) -> Atom | None:
        for law in self.laws.get(eqn.prim, ()):
            new = law[0](self, eqn)
            if new is not None and new.aval.shape == eqn.outputs[0].aval.shape:
                APPLIED[law.name] += 1
                return new
        return None

    def make(self, prim: Primitive, *inputs: Atom, **params: object) -> Atom:
        """The result of a new equation, simplified in its turn."""
        aval = prim.type_of(*[x.aval for x in inputs], **params)
        like = self.like
        assert like is not None
        eqn = Eqn(prim, inputs, Params(params), (Var(aval),), like.loc, like.via)
        new = self.rewritten(eqn)
        if new is None:
            self.append(eqn)
            return eqn.outputs[0]
        return new

    def resolved(self, atom: Atom) -> Atom:
        """What an old variable became."""
        return resolve_atom(atom, self.env)

    def source(self, atom: Atom, *which: Primitive) -> Eqn | None:
        """The equation of an atom, if its primitive is one of `which`."""
        eqn = self.defined.get(atom)  # type: ignore[call-overload]
        return eqn if eqn is not None and eqn.prim in which else None

    def full(self, number: Atom, shape: tuple[int, ...]) -> Atom:
        """A scalar repeated to a shape."""
        return self.make(prims.broadcast, number, shape=shape, dims=()) if shape else number


def number_of(atom: Atom) -> Any:
    """The Python number of a literal, or None."""
    return atom.value.item() if type(atom) is Lit else None


def known_starts(
    starts: Sequence[Atom], shape: Sequence[int], sizes: Sequence[int]
) -> list[int] | None:
    """Where a block of some sizes begins in an array, clamped so that it lies inside; None if that
    is not known."""
    numbers = [number_of(s) for s in starts]
    if any(n is None for n in numbers):
        return None
    found = zip(numbers, shape, sizes, strict=True)
    return [min(max(n, 0), length - size) for n, length, size in found]


def lit(value: object, dtype: np.dtype) -> Lit:
    return Lit(dtype.type(value))


def is_float(atom: Atom) -> bool:
    return atom.aval.dtype.kind in "fc"


def same(x: Atom, y: Atom) -> bool:
    return atom_key(x) == atom_key(y)
