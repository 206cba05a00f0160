"""L5. Program -> its cache key: the structure without names and source locations.

Variables are numbered in the order in which they are bound, numbers are written by their bits, and
constants by a hash of their contents, so that equal text means an equal program.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

import numpy as np

from fgrad.base.digest import digest
from fgrad.ir.aval import dtype_text
from fgrad.ir.primitive import Opaque
from fgrad.ir.program import Atom, Lit, Params, Program, Var


class Nameless(Exception):
    """A parameter's value has no text form (a Python function, an object)."""


def identity(program: Program) -> str | None:
    """A hash of the program and those in its parameters; None if a parameter is not plain data."""
    try:
        return _known(program, {})
    except Nameless:
        return None


def _known(program: Program, known: dict[int, str]) -> str:
    """The hash of a program, which may stand at several depths of another one."""
    found = known.get(id(program))
    if found is None:
        found = known[id(program)] = _digest(program, known)
    return found


def _digest(program: Program, known: dict[int, str]) -> str:
    number: dict[Atom, str] = {}
    types: dict[Hashable, str] = {}

    def bind(var: Var) -> str:
        number[var] = str(len(number))
        aval = var.aval
        kind = (aval.shape, aval.dtype.num, aval.weak)
        text = types.get(kind)
        if text is None:
            text = types[kind] = f"{dtype_text(aval.dtype)}{aval.shape}{aval.weak:d}"
        return text

    words = [bind(v) for v in program.inputs]
    words += [f"{bind(v)}={array_digest(array)}" for v, array in program.consts]
    for prim, inputs, params, outputs, _, _ in program.eqns:
        words.append(f"\n{prim.name}[{_content(params, known)}]" if params else f"\n{prim.name}")
        words += [number[a] if type(a) is Var else _literal(a) for a in inputs]  # type: ignore[arg-type]
        words.append("->")
        words += [bind(v) for v in outputs]
    words.append("\nreturn")
    words += [number[a] if type(a) is Var else _literal(a) for a in program.outputs]  # type: ignore[arg-type]
    return digest(" ".join(words).encode())


def _content(params: Params, known: dict[int, str]) -> str:
    """The parameters as text; where they are not plain data, the programs in them by their hash."""
    if params.is_plain:
        return params.content
    return repr([_word(value, known) for value in params.values()])


def _literal(lit: Lit) -> str:
    return dtype_text(lit.value.dtype) + lit.value.tobytes().hex()


def array_digest(array: np.ndarray) -> str:
    """A hash of an array's elements."""
    return digest(np.ascontiguousarray(array).view(np.uint8).data)


_PLAIN = frozenset({int, float, bool, str, bytes, type(None)})


def _word(value: Any, known: dict[int, str]) -> Hashable:
    kind = type(value)
    if kind in _PLAIN:
        return value
    if kind is tuple:
        return tuple([_word(item, known) for item in value])
    if isinstance(value, np.dtype):
        return "dtype", dtype_text(value)
    if isinstance(value, np.generic):
        return "number", dtype_text(value.dtype), value.tobytes()
    if kind is Program:
        return "program", _known(value, known)
    if isinstance(value, Opaque):
        return "opaque"
    raise Nameless
