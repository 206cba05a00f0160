"""L5. What a program is, apart from names and places in the source: the key under which it is kept.

Variables are numbered in the order in which they are bound, numbers are written by their bits, and
constants by a hash of their contents, so that equal text means an equal program.
"""

from __future__ import annotations

import hashlib
from collections.abc import Hashable
from typing import Any

import numpy as np

from fgrad.ir.aval import Aval
from fgrad.ir.primitive import Opaque
from fgrad.ir.program import Lit, Program, Var
from fgrad.ir.walk import subprograms


class Nameless(Exception):
    """A parameter has no text that stands for its value (a Python function, an object)."""


def identity(program: Program) -> str | None:
    """A hash of the program and those in its parameters; None if a parameter is not plain data."""
    known: dict[int, str] = {}
    try:
        for each in reversed(subprograms(program)):
            known[id(each)] = _digest(each, known)
    except Nameless:
        return None
    return known[id(program)]


def _digest(program: Program, known: dict[int, str]) -> str:
    number: dict[Any, int] = {}
    avals: dict[Aval, str] = {}

    def bind(var: Var) -> str:
        number[var] = len(number)
        aval = var.aval
        text = avals.get(aval)
        if text is None:
            text = avals[aval] = f"{aval.dtype.str}{aval.shape}{aval.weak:d}"
        return text

    words: list[Any] = [bind(v) for v in program.inputs]
    words += [(bind(v), array_digest(array)) for v, array in program.consts]
    for prim, inputs, params, outputs, _, _ in program.eqns:
        operands = [number[a] if type(a) is Var else _literal(a) for a in inputs]  # type: ignore[arg-type]
        values = [_word(value, known) for value in params.values()] if params else ()
        words.append((prim.name, operands, values, [bind(v) for v in outputs]))
    words += [number[a] if type(a) is Var else _literal(a) for a in program.outputs]  # type: ignore[arg-type]
    return hashlib.sha256(repr(words).encode()).hexdigest()


def _literal(lit: Lit) -> tuple[str, bytes]:
    return lit.value.dtype.char, lit.value.tobytes()


def array_digest(array: np.ndarray) -> str:
    """A hash of an array's elements."""
    return hashlib.sha256(np.ascontiguousarray(array).data).hexdigest()


_PLAIN = frozenset({int, float, bool, str, bytes, type(None)})


def _word(value: Any, known: dict[int, str]) -> Hashable:
    kind = type(value)
    if kind in _PLAIN:
        return value
    if kind is tuple:
        return tuple([_word(item, known) for item in value])
    if isinstance(value, np.dtype):
        return "dtype", value.str
    if isinstance(value, np.generic):
        return "number", value.dtype.char, value.tobytes()
    if kind is Program:
        return "program", known[id(value)]
    if isinstance(value, Opaque):
        return "opaque"
    raise Nameless
