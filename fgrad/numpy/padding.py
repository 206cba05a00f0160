"""L4. `np.pad` in every mode: constants by the pad primitive, repeats by an index map."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, TypeAlias

import numpy as np

from fgrad.errors import ArgumentError
from fgrad.numpy import reductions as rs
from fgrad.numpy.arrange import known_ints, take_slice
from fgrad.numpy.creation import linspace
from fgrad.numpy.dispatch import has_tracer, implements
from fgrad.numpy.promote import (
    as_array,
    as_operand,
    broadcast,
    broadcast_to,
    convert,
    refuse_argument,
    shape_of,
)
from fgrad.numpy.quantiles import median
from fgrad.numpy.selection import take
from fgrad.ops import elementwise as ew
from fgrad.ops import shape as sh
from fgrad.trace import Tracer, Value, concrete
from fgrad.typing import ArrayLike

Repeating: TypeAlias = Literal["edge", "reflect", "symmetric", "wrap"]

_REPEATING = ("edge", "reflect", "symmetric", "wrap")
_STATISTICS: dict[str, Callable[..., Value]] = {
    "maximum": rs.max_,
    "minimum": rs.min_,
    "mean": rs.mean,
    "median": median,
}


MODES = ("constant", "empty", "linear_ramp", *_REPEATING, *_STATISTICS)


@implements("pad")
def pad(array: ArrayLike, pad_width: ArrayLike, mode: str = "constant", **kwargs: Any) -> Value:
    """The array with elements added around it."""
    x = as_array(array)
    given = concrete(pad_width) if isinstance(pad_width, Tracer) else None
    given = pad_width if given is None else given.tolist()
    pairs = [known_ints(w) for w in _pairs(given, len(x.shape), x.shape)]
    widths = [(low, high) for low, high in pairs]
    if any(n < 0 for w in widths for n in w) or (type(given) is int and given < 0):
        raise ArgumentError("index can't contain negative values")
    if not callable(mode) and mode not in MODES:
        raise ArgumentError(f"mode '{mode}' is not supported")
    if mode == "empty":
        mode = "constant"
    if mode == "constant":
        return _constant(x, widths, kwargs.get("constant_values", 0))
    for axis, width in enumerate(widths):
        if width != (0, 0):
            x = _pad_axis(x, axis, width, mode, kwargs)
    return x


def _pairs(value: ArrayLike, ndim: int, shape: tuple[int, ...]) -> list[Any]:
    """One (before, after) for each axis, from a number, a pair, a list of pairs or a dict."""
    if isinstance(value, dict):
        table = {axis % ndim: v for axis, v in value.items()}
        return [_pair_of(table.get(i, 0)) for i in range(ndim)]
    if has_tracer((value,)):
        rows = value if isinstance(value, (list, tuple)) else (value,)
        return [_pair_of(rows[0] if len(rows) == 1 else rows)] * ndim
    given = np.asarray(value)
    if given.ndim > 2 or any(
        n not in (1, m) for n, m in zip(given.shape[::-1], (2, ndim), strict=False)
    ):
        raise ArgumentError(
            f"an argument of shape {given.shape} does not fit pairs for {ndim} axes"
        )
    return [tuple(row) for row in np.broadcast_to(given, (ndim, 2)).tolist()]


def _pair_of(value: ArrayLike) -> tuple[ArrayLike, ArrayLike]:
    if isinstance(value, (list, tuple)):
        return (value[0], value[-1])
    return (value, value)


def _constant(x: Value, widths: list[tuple[int, int]], values: Value) -> Value:
    fills = _pairs(values, len(x.shape), x.shape)
    fills = [tuple([convert(as_operand(f), x.dtype) for f in pair]) for pair in fills]
    flat = [f for pair in fills for f in pair]
    if not has_tracer(flat) and len(set(flat)) <= 1:
        low, high = zip(*widths, strict=True) if widths else ((), ())
        return sh.pad(x, low, high, value=flat[0] if flat else 0)
    for axis, ((before, after), (first, last)) in enumerate(zip(widths, fills, strict=True)):
        x = _join(x, axis, _block(x, axis, before, first), _block(x, axis, after, last))
    return x


def _block(x: Value, axis: int, width: int, value: Value) -> Value | None:
    """A constant block to be joined to `x` along an axis."""
    if not width:
        return None
    shape = tuple([width if i == axis else n for i, n in enumerate(x.shape)])
    return broadcast_to(
        convert(as_operand(value), x.dtype), shape, x if isinstance(x, Tracer) else None
    )


def _join(x: Value, axis: int, before: Value | None, after: Value | None) -> Value:
    return sh.concatenate([p for p in (before, x, after) if p is not None], axis)


def _pad_axis(
    x: Value, axis: int, width: tuple[int, int], mode: str, options: dict[str, Any]
) -> Value:
    n = x.shape[axis]
    if not n:
        raise ArgumentError(
            f"can't extend empty axis {axis} using modes other than 'constant' or 'empty'",
        )
    if mode in _REPEATING:
        if options.get("reflect_type", "even") != "even":
            return _odd(x, axis, width, mode)
        return take(x, np.pad(np.arange(n), width, mode), axis)
    if mode == "linear_ramp":
        ends = _pairs(options.get("end_values", 0), len(x.shape), x.shape)[axis]
        before = _ramp(x, axis, width[0], ends[0], 0)
        after = _ramp(x, axis, width[1], ends[1], n - 1)
        return _join(x, axis, before, None if after is None else sh.reverse(after, (axis,)))
    if mode in _STATISTICS:
        lengths = options.get("stat_length")
        first, last = (n, n) if lengths is None else _pairs(lengths, len(x.shape), x.shape)[axis]
        before = _statistic(x, axis, width[0], mode, 0, min(first, n))
        after = _statistic(x, axis, width[1], mode, max(n - last, 0), n)
        return _join(x, axis, before, after)
    raise refuse_argument("pad", f"mode={mode!r}", "a mode by name, or np.concatenate")


def _odd(x: Value, axis: int, width: tuple[int, int], mode: Repeating) -> Value:
    """2 edge - reflection: the sum of a few elements each, with the factors that NumPy gives."""
    n = x.shape[axis]
    factors = np.pad(np.eye(n), [width, (0, 0)], mode, reflect_type="odd")
    total: Any = None
    line = tuple([len(factors) if i == axis else 1 for i in range(len(x.shape))])
    order = np.argsort(factors == 0, axis=1, kind="stable")
    for k in range(int(np.count_nonzero(factors, axis=1).max())):
        factor = np.take_along_axis(factors, order[:, k : k + 1], 1).astype(x.dtype).reshape(line)
        part = ew.mul(*broadcast((factor, take(x, order[:, k], axis))))
        part = ew.select(*broadcast((factor != 0, part, ew.lit(x, 0))))
        total = part if total is None else ew.add(total, part)
    return total


def _ramp(x: Value, axis: int, width: int, end: ArrayLike, edge: int) -> Value | None:
    """Numbers from the end value up to the edge, the edge excluded."""
    if not width:
        return None
    border = take_slice(x, axis, edge, edge + 1)
    border = take(border, np.int64(0), axis)
    points = linspace(end, border, width, endpoint=False, axis=0)
    points = convert(ew.floor(points) if x.dtype.kind in "iu" else points, x.dtype)
    order = (*range(1, axis + 1), 0, *range(axis + 1, len(points.shape)))
    return sh.permute(points, order) if axis else points


def _statistic(x: Value, axis: int, width: int, mode: str, start: int, stop: int) -> Value | None:
    if not width:
        return None
    value = _STATISTICS[mode](take_slice(x, axis, start, stop), axis, keepdims=True)
    if x.dtype.kind in "iu" and shape_of(value) and value.dtype.kind == "f":
        value = ew.rint(value)
    value = convert(value, x.dtype)
    shape = tuple([width if i == axis else n for i, n in enumerate(x.shape)])
    return broadcast_to(value, shape)
