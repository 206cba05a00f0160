"""L2. Recorded equations -> a program, when a trace is closed."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from fgrad.base.kinds import is_array
from fgrad.base.named_tuple import NamedTuple
from fgrad.base.source import Loc, RawLoc, resolve
from fgrad.ir.aval import Aval, aval_of
from fgrad.ir.basic import BASIC
from fgrad.ir.primitive import OUT, Places, Primitive
from fgrad.ir.program import Atom, Eqn, Lit, Params, Program, Var
from fgrad.typing import EqnParams, PyTree

new: Callable[..., PyTree] = tuple[object, ...].__new__  # a named tuple's own costs more


class Record(NamedTuple):
    """One recorded equation.

    It names values by number, not by tracer: a tracer is a handle that an assignment may point to
    another value, and records must not keep handles alive.
    """

    prim: Primitive
    operands: Sequence[Any]  # a Python int is the number of a value; anything else is a constant
    # The operands in the enclosing context; an Aval if unknown, or if no derivative reads the value
    # (None in records of the fast path).
    values: Sequence[Any]
    params: EqnParams
    outs: Sequence[int]
    results: Sequence[Any]  # likewise the outputs; None if no derivative reads them
    loc: RawLoc | Loc
    via: tuple[str, ...]


def maker_of(records: list[Record], number: int) -> Record | None:
    """The equation that made a value; None for an input."""
    try:
        return _maker_among(records, number)
    except IndexError:  # some have no results: a loop that only calls Python
        return _maker_among([record for record in records if record.outs], number)


def _maker_among(records: list[Record], number: int) -> Record | None:
    if not records:
        return None
    # There are no more equations since then than numbers, mostly as many.
    last = len(records) - 1
    at = min(max(last - records[-1].outs[0] + number, 0), last)
    if records[at].outs[0] != number:
        at = bisect_right(records, number, at, key=lambda record: record.outs[0]) - 1
    return records[at] if at >= 0 and number in records[at].outs else None


def forget(
    saves: bool, unread: Places, params: EqnParams, ins: list[object], values: list[PyTree]
) -> Places:
    """Drop the operands that no derivative reads; their places, and that of such results.

    Arguments:
        saves: whether the trace is differentiated in reverse.
    """
    if params.get("saved") is not None:
        unread = (OUT, *range(len(values)))
    for k in unread:
        if k != OUT:
            value, x = values[k], ins[k]
            known = type(value) is np.ndarray
            values[k] = Aval(value.shape, value.dtype) if known else aval_of(value)
            if saves and type(x) is np.ndarray and x.flags.c_contiguous:
                ins[k] = None  # a constant that no derivative reads
    return unread


class Numbered(NamedTuple):
    """A value of the trace, as an input or output of the program."""

    number: int
    aval: Aval


class TracedProgram(NamedTuple):
    """A program and the outer tracers, or arrays, that its first inputs stand for."""

    program: Program
    captured: list[Any]
    fits: dict[int, set[np.dtype]]  # inputs that are Python integers, and what they must fit


class Atoms:
    """Numbering of tracers and constants as variables and literals of a program."""

    def __init__(self, count: int, copy_consts: bool) -> None:
        self.vars: list[Var | None] = [None] * count
        self.consts: dict[int, tuple[Var, np.ndarray]] = {}
        self.keep: list[np.ndarray] = []
        self.filled: list[Eqn] = []
        self.loc: Loc | None = None
        self.copy_consts = copy_consts

    def program(
        self,
        name: str,
        inputs: Sequence[Numbered],
        records: Sequence[Record],
        outputs: Sequence[object],
        made_by: str,
    ) -> Program:
        """The closed program of some records; an output is `Numbered` or a constant."""
        ins = tuple([self.bind_var(x.number, x.aval) for x in inputs])
        eqns = [self.eqn(record) for record in records]
        outs = tuple([self.output(x) for x in outputs])
        consts = tuple(self.consts.values())
        return Program(name, ins, consts, (*self.filled, *eqns), outs, made_by)

    def bind_var(self, number: int, aval: Aval) -> Var:
        var = self.vars[number] = Var(aval)
        return var

    def output(self, x: object) -> Atom:
        """A result; a tracer may have become weak after it was recorded."""
        if not isinstance(x, Numbered):
            return self.atom(x)
        var = self.vars[x.number]
        assert var is not None
        if x.aval.weak and not var.aval.weak:
            var.aval = x.aval
        return var

    def atom(self, x: object) -> Atom:
        if type(x) is int:
            var = self.vars[x]
            assert var is not None
            return var
        if not is_array(x):
            return Lit(x if isinstance(x, np.generic) else as_scalar(x))
        if x.ndim == 0:
            return Lit(as_scalar(x))
        if not any(x.strides) and x.size > 1:
            return self.fill(x)
        found = self.consts.get(id(x))
        if found is None:
            self.keep.append(x)
            array = np.array(x, order="C") if self.copy_consts else x
            found = self.consts[id(x)] = (Var(Aval(x.shape, x.dtype)), array)
        return found[0]

    def fill(self, x: np.ndarray) -> Var:
        """One number repeated: an equation instead of a constant as large as its shape."""
        params = Params({"shape": x.shape, "dims": ()})
        var = Var(Aval(x.shape, x.dtype))
        lit = Lit(x[(0,) * x.ndim])
        self.filled.append(Eqn(BASIC.broadcast, (lit,), params, (var,), self.loc))
        return var

    def eqn(self, record: Record) -> Eqn:
        prim, operands, _, params, outs, results, loc, via = record
        known, atom = self.vars, self.atom
        self.loc = loc = resolve(loc)
        inputs = tuple([known[x] if type(x) is int else atom(x) for x in operands])
        outputs = tuple([Var(aval_of(x).strong()) for x in results])
        for k, var in zip(outs, outputs, strict=True):
            known[k] = var
        return new(Eqn, (prim, inputs, Params(params), outputs, loc, via))


def writable_memory(x: np.ndarray) -> list[np.ndarray]:
    """Of an array and those that it is a view of: which can be written."""
    found: list[np.ndarray] = []
    array: object = x
    while is_array(array):
        if array.flags.writeable:
            found.append(array)
        array = array.base
    return found


def as_scalar(x: object) -> Any:
    """A Python number or a rank-0 array as a NumPy scalar."""
    return np.asarray(x)[()]


def passed_by(via: tuple[str, ...], outer: tuple[str, ...]) -> tuple[str, ...]:
    """The transforms of an equation: those that it went through, then those that replay it."""
    if not via or not outer:
        return via or outer
    return (via[:-1] if via[-1] == outer[0] else via) + outer
