"""L5. Index arithmetic of lowering: where in its operand an equation reads, as affine forms.

An `AffineIndex` is `const + sum(stride * loop axis) + sum(stride * computed value)`; an element of
an array is at one of them for each axis.  Moving equations only change these:

    reverse      i  ->  n - 1 - i            slice      i  ->  start + step * i
    permute      (i, j) -> (j, i)            reshape    (i, j) -> flat -> (k, l, m)
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

from fgrad.base.named_tuple import NamedTuple
from fgrad.compile.kernel.ir import Affine


class AffineIndex(NamedTuple):
    """An integer: affine in loop axes, plus multiples of values that the kernel computes."""

    const: int = 0
    terms: tuple[tuple[str, int], ...] = ()  # (axis, stride), sorted, no zero strides
    values: tuple[tuple[int, int], ...] = ()  # (value id, stride), sorted, no zero strides

    @property
    def affine(self) -> Affine:
        """The part without computed values."""
        return Affine(self.const, self.terms)


Places: TypeAlias = tuple[AffineIndex, ...]
ZERO = AffineIndex()


def axis(name: str) -> AffineIndex:
    """The loop axis `name` itself."""
    return AffineIndex(0, ((name, 1),))


def value(id: int) -> AffineIndex:
    """A computed value as an index."""
    return AffineIndex(0, (), ((id, 1),))


def total(places: Sequence[AffineIndex], strides: Sequence[int], const: int = 0) -> AffineIndex:
    """const + sum(stride * place)."""
    terms: dict[str, int] = {}
    values: dict[int, int] = {}
    for place, stride in zip(places, strides, strict=True):
        const += stride * place.const
        for name, s in place.terms:
            terms[name] = terms.get(name, 0) + stride * s
        for id, s in place.values:
            values[id] = values.get(id, 0) + stride * s
    return AffineIndex(
        const,
        tuple(sorted([t for t in terms.items() if t[1]])),
        tuple(sorted([v for v in values.items() if v[1]])),
    )


def shifted(place: AffineIndex, stride: int, const: int) -> AffineIndex:
    """const + stride * place."""
    return total((place,), (stride,), const)


def row_major(shape: Sequence[int]) -> tuple[int, ...]:
    """The strides of a C-contiguous array."""
    strides, step = [], 1
    for n in reversed(shape):
        strides.append(step)
        step *= n
    return tuple(reversed(strides))


def bounds(place: AffineIndex, extents: Mapping[str, int]) -> tuple[int, int] | None:
    """The least and greatest value over all loop iterations; None if it depends on a value."""
    if place.values:
        return None
    low = high = place.const
    for name, stride in place.terms:
        reach = stride * (extents[name] - 1)
        low, high = low + min(reach, 0), high + max(reach, 0)
    return low, high


def divided(
    place: AffineIndex, by: int, extents: Mapping[str, int]
) -> tuple[AffineIndex, AffineIndex] | None:
    """(place // by, place % by) where both are affine; None where they are not."""
    quotient = AffineIndex(
        0,
        tuple([(n, s // by) for n, s in place.terms if s % by == 0]),
        tuple([(v, s // by) for v, s in place.values if s % by == 0]),
    )
    rest = AffineIndex(
        place.const,
        tuple([t for t in place.terms if t[1] % by]),
        tuple([v for v in place.values if v[1] % by]),
    )
    limits = bounds(rest, extents)
    if limits is None or limits[0] // by != limits[1] // by:
        return None
    whole = limits[0] // by
    return quotient._replace(const=whole), rest._replace(const=rest.const - whole * by)


def reshaped(
    places: Places,
    shape: Sequence[int],
    to: Sequence[int],
    extents: Mapping[str, int],
    divide: Callable[[AffineIndex, int], tuple[AffineIndex, AffineIndex]],
) -> Places:
    """The index of the same element under the shape `to`.

    Axes are matched in the smallest runs of equal products.  `divide` computes quotient and
    remainder in the kernel where no affine form exists.
    """
    if math.prod(shape) == 0:
        return (ZERO,) * len(to)
    out: list[AffineIndex] = []
    for (a, b), (c, d) in axis_runs(shape, to):
        flat = total(places[a:b], row_major(shape[a:b]))
        run = to[c:d]
        lengths = [k for k, n in enumerate(run) if n != 1]
        for k, step in enumerate(row_major(run)):
            if run[k] == 1:
                out.append(ZERO)
            elif k == lengths[-1]:
                out.append(flat)
            else:
                parts = divided(flat, step, extents)
                quotient, flat = parts if parts is not None else divide(flat, step)
                out.append(quotient)
    return tuple(out)


Run: TypeAlias = tuple[int, int]


def axis_runs(shape: Sequence[int], to: Sequence[int]) -> list[tuple[Run, Run]]:
    """The smallest matching runs of axes of two shapes of equal size.

    >>> axis_runs((6, 4, 5), (2, 3, 20))
    [((0, 1), (0, 2)), ((1, 3), (2, 3))]
    """
    runs: list[tuple[Run, Run]] = []
    a = c = i = j = 0
    left = right = 1
    while i < len(shape) or j < len(to):
        if (left <= right and i < len(shape)) or j == len(to):
            left *= shape[i]
            i += 1
        else:
            right *= to[j]
            j += 1
        if left == right and left != 1:
            runs.append(((a, i), (c, j)))
            a, c, left, right = i, j, 1, 1
    if (a, c) != (i, j):
        runs.append(((a, i), (c, j)))
    return runs
