"""L4. Helpers for control-flow rules: split operands and programs into their parts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from fgrad.ir.aval import Aval
from fgrad.ir.primitive import Primitive
from fgrad.ir.program import Atom, Eqn, Program, Var
from fgrad.ops.families import FLOATS, zeros_like
from fgrad.ops.shape import unset_p
from fgrad.trace import Tracer, Value
from fgrad.transforms.core.derived_programs import (
    Mask,
    zeros_of,
)
from fgrad.typing import R

Values = Sequence[Value]
Dims = Sequence["int | None"]


def split_list(values: Sequence[R], *counts: int) -> list[list[R]]:
    """Consecutive parts of the given lengths, and the rest."""
    parts: list[list[R]] = []
    start = 0
    for n in counts:
        parts.append(list(values[start : start + n]))
        start += n
    return [*parts, list(values[start:])]


def recorded(values: Values, prim: Primitive, **params: object) -> Value:
    """What a primitive without operands makes, as an equation of the trace of some values; where
    these are known it is an array."""
    owners = [x.builder for x in values if type(x) is Tracer]
    builder = max(owners, key=lambda b: b.level) if owners else None
    while builder is not None and builder.eager:
        builder = builder.outer
    if builder is None:
        return prim.evaluate_rule(**params)
    return builder.record(prim, (), params)


def unset(aval: Aval, values: Values) -> Value:
    """An array in the trace of some values whose elements are written before they are read."""
    return recorded(values, unset_p, shape=aval.shape, dtype=aval.dtype)


def some(values: Sequence[R], mask: Sequence[bool]) -> list[R]:
    """The values where the mask says so."""
    return [x for x, m in zip(values, mask, strict=True) if m]


def expand_list(values: Iterator[R], mask: Sequence[bool]) -> list[R | None]:
    """The next values where the mask says so, None elsewhere."""
    return [next(values) if m else None for m in mask]


def nonzero_mask(tangents: Sequence[object]) -> Mask:
    """Which tangents are not known zeros."""
    return tuple([t is not None for t in tangents])


def tangents_of(primals: Values, tangents: Sequence[Value | None], mask: Mask) -> list[Value]:
    """Tangents where the mask says so, zeros where they are zero."""
    return [
        zeros_like(x) if t is None else t
        for x, t, m in zip(primals, tangents, mask, strict=True)
        if m
    ]


def inexact_mask(avals: Sequence[Aval], mask: Sequence[bool]) -> Mask:
    """The mask without those that have no derivative."""
    return tuple([bool(m and a.dtype.kind in FLOATS) for a, m in zip(avals, mask, strict=True)])


def known_values(values: Values, avals: Sequence[Aval]) -> list[Value]:
    """Operands with zeros for those without a value, which enter linearly."""
    return [zeros_of(a) if isinstance(v, Aval) else v for v, a in zip(values, avals, strict=True)]


def restricted(program: Program, inputs: tuple[Var, ...], outputs: tuple[Atom, ...]) -> Program:
    """The part of a program that some outputs need."""
    live = {a for a in outputs if type(a) is Var}
    kept: list[Eqn] = []
    for eqn in reversed(program.eqns):
        if any([v in live for v in eqn.outputs]):
            kept.append(eqn)
            live.update([a for a in eqn.inputs if type(a) is Var])
    consts = tuple([pair for pair in program.consts if pair[0] in live])
    return program.replace(
        inputs=inputs, consts=consts, eqns=tuple(reversed(kept)), outputs=outputs
    )
