"""L4. `r_`, `c_`, `mgrid`, `ogrid`, `ndenumerate`, frequencies: in `fgrad.numpy` only.

NumPy's own objects make plain arrays of what they are given, and ask nobody; these take traced
values, and leave all else to NumPy.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from fgrad.errors import ArgumentError
from fgrad.numpy.arrange import concatenate, swapaxes, transpose
from fgrad.numpy.creation import arange, linspace
from fgrad.numpy.dispatch import OWN, has_tracer
from fgrad.numpy.promote import (
    as_array,
    as_operand,
    broadcast_to,
    convert,
    reshape,
    result_type,
    shape_of,
)
from fgrad.trace import Value
from fgrad.tracing.device_tracing import through
from fgrad.tracing.on_device import device_among
from fgrad.typing import ArrayLike, DTypeLike


def _traced_index(key: Any) -> bool:
    parts = key if isinstance(key, tuple) else (key,)
    ends = [(p.start, p.stop, p.step) if isinstance(p, slice) else (p,) for p in parts]
    return has_tracer([v for group in ends for v in group])


def _line(part: slice) -> Value:
    """The numbers of a slice: a step `5j` is a count, with both ends."""
    start = 0 if part.start is None else part.start
    if isinstance(part.step, complex):
        return linspace(start, part.stop, int(abs(part.step)))
    return arange(start, part.stop, 1 if part.step is None else part.step)


class Concatenator:
    """`r_[a, 0, 1:3]`: arrays, numbers and slices joined along an axis."""

    def __init__(self, plain: Any, axis: int, ndmin: int, trans1d: int) -> None:
        self.plain = plain
        self.axis, self.ndmin, self.trans1d = axis, ndmin, trans1d

    def __getitem__(self, key: Any) -> Value:
        if not _traced_index(key):
            device = device_among(key if isinstance(key, tuple) else (key,))
            return self.plain[key] if device is None else through(device, self.__getitem__, (key,))
        parts = list(key) if isinstance(key, tuple) else [key]
        axis, ndmin, trans1d = self.axis, self.ndmin, self.trans1d
        if isinstance(parts[0], str):
            axis, ndmin, trans1d = self._directive(parts.pop(0))
        values = [_line(p) if isinstance(p, slice) else as_operand(p) for p in parts]
        kind = result_type(*values)
        placed = [
            _placed(convert(v, kind), ndmin, trans1d, isinstance(p, slice))
            for v, p in zip(values, parts, strict=True)
        ]
        return concatenate(placed, axis)

    def _directive(self, text: str) -> tuple[int, int, int]:
        try:
            given = [int(n) for n in text.split(",")]
        except ValueError:
            raise ArgumentError(f"unknown special directive {text!r}") from None
        rest = [self.axis, self.ndmin, self.trans1d][len(given) :]
        axis, ndmin, trans1d = given + rest
        return axis, ndmin, trans1d


def _placed(x: Value, ndmin: int, trans1d: int, from_slice: bool) -> Value:
    """An array with at least `ndmin` axes, its own ones where `trans1d` puts them."""
    x = as_array(x)
    ndim = len(x.shape)
    missing = max(ndmin - ndim, 0) if ndim else max(ndmin, 1)
    wide = reshape(x, (1,) * missing + tuple(x.shape))
    if trans1d == -1 or ndim == 0 or ndim >= ndmin:
        return wide
    if from_slice:
        return swapaxes(wide, -1, trans1d)
    new = ndmin - ndim
    first = trans1d + new + 1 if trans1d < 0 else trans1d
    axes = list(range(ndmin))
    return transpose(wide, axes[:first] + axes[new:] + axes[first:new])


class Grid:
    """`mgrid[a:b:5j, c:d]`: coordinates of a grid, whole ones or open ones."""

    def __init__(self, plain: Any, sparse: bool) -> None:
        self.plain = plain
        self.sparse = sparse

    def __getitem__(self, key: Any) -> Value | tuple[Value, ...]:
        if not _traced_index(key):
            return self.plain[key]
        if isinstance(key, slice):
            return _line(key)
        lines = [_line(part) for part in key]
        kind = result_type(*lines)
        lengths = tuple([shape_of(x)[0] for x in lines])
        out = []
        for axis, x in enumerate(lines):
            shape = tuple([n if i == axis else 1 for i, n in enumerate(lengths)])
            line = reshape(convert(x, kind), shape)
            out.append(line if self.sparse else broadcast_to(line, lengths))
        if self.sparse:
            return tuple(out)
        return concatenate([reshape(x, (1, *lengths)) for x in out], 0)


def ndenumerate(arr: ArrayLike) -> Iterator[tuple[tuple[int, ...], Value]]:
    """Index and element, one after the other."""
    x = as_array(arr)
    return ((index, x[index]) for index in np.ndindex(*x.shape))


def fftfreq(
    n: int, d: float = 1.0, *, dtype: DTypeLike | None = None, device: str | None = None
) -> Value:
    """`np.fft.fftfreq` with a dtype: the frequencies of a transform of length n."""
    found = np.fft.fftfreq(n, d)
    return found if dtype is None else found.astype(dtype)


def rfftfreq(
    n: int, d: float = 1.0, *, dtype: DTypeLike | None = None, device: str | None = None
) -> Value:
    """`np.fft.rfftfreq` with a dtype: the frequencies that are not negative."""
    found = np.fft.rfftfreq(n, d)
    return found if dtype is None else found.astype(dtype)


OWN |= {
    "fft.fftfreq": fftfreq,
    "fft.rfftfreq": rfftfreq,
    "r_": Concatenator(np.r_, 0, 1, -1),
    "c_": Concatenator(np.c_, -1, 2, 0),
    "mgrid": Grid(np.mgrid, False),
    "ogrid": Grid(np.ogrid, True),
    "ndenumerate": ndenumerate,
}
