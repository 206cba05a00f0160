"""L5. An element that is read where one was written into an array of equal ones.

    x.at[i].set(u)[j]     becomes     select(i == j, u, x[j])            for x = [c, c, ...]
    x.at[i].add(u)[j]     becomes     x[j] + select(i == j, u, 0)        also one after the other

Bits of supports are made so, and read at a place: no array is made for them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from fgrad.ir.aval import BOOL, INT64, Aval
from fgrad.ir.primitive import Primitive
from fgrad.ir.program import Atom, Eqn, Lit, Params, Program, Var
from fgrad.ir.walk import definitions
from fgrad.ops import primitives as prims

FLAG, NUMBER = Aval((), BOOL), Aval((), INT64)
MOST = 4  # elements that are written at once
MOST_WRITES = 8  # one after the other: those of two arrays in four steps that are written out


def read_written(program: Program) -> Program:
    """The program that reads no array into which it has written but a few elements."""
    defined, consts = definitions(program.eqns), dict(program.consts)
    eqns: list[Eqn] = []
    for eqn in program.eqns:
        writes = _writes_before(eqn, defined, consts) if _reads_element(eqn) else []
        eqns += _Read(eqn, writes).eqns() if writes else [eqn]
    return program if len(eqns) == len(program.eqns) else program.replace(eqns=tuple(eqns))


def _reads_element(eqn: Eqn) -> bool:
    if eqn.prim is not prims.gather or not isinstance(eqn.inputs[0], Var):
        return False
    indices = [a.aval for a in eqn.inputs[1:]]
    return not eqn.outputs[0].aval.shape and all([a.strong() == NUMBER for a in indices])


def _writes_before(
    read: Eqn, defined: Mapping[Var, Eqn], consts: Mapping[Var, np.ndarray]
) -> list[Eqn]:
    """The writes that make what is read of an array of equal elements, in order; none if anything
    else does."""
    atom, found = read.inputs[0], list[Eqn]()
    while isinstance(atom, Var) and atom in defined and len(found) <= MOST_WRITES:
        write = defined[atom]
        if write.prim is not prims.scatter:
            break
        if write.params["axes"] != read.params["axes"] or not _is_small(write):
            return []
        found.append(write)
        atom = write.inputs[0]
    return found[::-1] if len(found) <= MOST_WRITES and _is_uniform(atom, defined, consts) else []


def _is_small(write: Eqn) -> bool:
    shape, mode = write.inputs[1].aval.shape, write.params["mode"]
    if mode not in ("set", "add") or (shape and mode == "set"):
        return False
    places = [a.aval for a in write.inputs[2:]]
    alike = all([a.dtype == INT64 and a.shape == shape for a in places])
    return alike and len(shape) < 2 and write.inputs[1].aval.size <= MOST


def _is_uniform(atom: Atom, defined: Mapping[Var, Eqn], consts: Mapping[Var, np.ndarray]) -> bool:
    """Whether all elements of an array are one number."""
    if isinstance(atom, Var) and atom in consts:
        array = consts[atom]
        return array.size > 0 and array.tobytes() == array.flat[0].tobytes() * array.size
    eqn = defined.get(atom) if isinstance(atom, Var) else None
    return eqn is not None and eqn.prim is prims.broadcast and not eqn.inputs[0].aval.shape


class _Read:
    """An element that is read where some were written."""

    def __init__(self, read: Eqn, writes: Sequence[Eqn]) -> None:
        self.read, self.writes = read, writes
        self.found: list[Eqn] = []

    def made(self, prim: Primitive, aval: Aval, *inputs: Atom, **params: object) -> Var:
        """The result of a further equation."""
        out = Var(aval)
        eqn = Eqn(prim, inputs, Params(params), (out,), self.read.loc, self.read.via)
        self.found.append(eqn)
        return out

    def eqns(self) -> list[Eqn]:
        """What was there, then what was written where that is what is read."""
        aval, places = self.read.outputs[0].aval, self.read.inputs[1:]
        zero = Lit(aval.dtype.type(0))
        start = self.writes[0].inputs[0]
        value = self.made(prims.gather, aval, start, *places, **self.read.params)
        inside = self.inside(start.aval.shape)
        for write in self.writes:
            for k in range(write.inputs[1].aval.size):
                new, *at = [self.element(a, k) for a in write.inputs[1:]]
                hit = self.hit(at, inside)
                if write.params["mode"] == "set":
                    value = self.made(prims.select, aval, hit, new, value)
                else:
                    value = self.made(
                        prims.add, aval, value, self.made(prims.select, aval, hit, new, zero)
                    )
        last = self.found.pop()
        return [*self.found, last._replace(outputs=self.read.outputs)]

    def element(self, atom: Atom, k: int) -> Atom:
        """An element of what is written, or of where."""
        if not atom.aval.shape:
            return atom
        return self.made(prims.index, Aval((), atom.aval.dtype), atom, ints=(k,))

    def inside(self, shape: Sequence[int]) -> list[tuple[Atom, Atom | None]]:
        """The places that are read, and whether they are in the array, if nothing is read else."""
        found: list[tuple[Atom, Atom | None]] = []
        for j, axis in zip(self.read.inputs[1:], self.read.params["axes"], strict=True):
            last = Lit(INT64.type(shape[axis] - 1))
            place = self.made(prims.clip, NUMBER, j, Lit(INT64.type(0)), last)
            fills = self.read.params["mode"] == "fill"
            found.append((place, self.made(prims.eq, FLAG, place, j) if fills else None))
        return found

    def hit(self, at: Sequence[Atom], inside: Sequence[tuple[Atom, Atom | None]]) -> Atom:
        """Whether what is written is what is read."""
        tests: list[Atom] = []
        for i, (j, within) in zip(at, inside, strict=True):
            tests.append(self.made(prims.eq, FLAG, i, j))
            tests += [] if within is None else [within]
        hit = tests[0]
        for test in tests[1:]:
            hit = self.made(prims.and_, FLAG, hit, test)
        return hit
