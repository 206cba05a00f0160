"""L4. Methods of ufuncs on tracers: `reduce`, `accumulate`, `reduceat`, `outer`; `at` is in place.

Sums, products, extrema and truth are primitives.  Every other ufunc is folded over slices: in
halves where it is associative, one after the other where it is not.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from fgrad.errors import ArgumentError, BoundsError
from fgrad.ir.aval import BOOL, INT64
from fgrad.numpy import compositions as co
from fgrad.numpy import reductions as rs
from fgrad.numpy.arrange import concatenate, moveaxis, take_slice
from fgrad.numpy.compositions import to_bool
from fgrad.numpy.dispatch import NO_VALUE
from fgrad.numpy.promote import (
    as_array,
    broadcast,
    broadcast_to,
    convert,
    fresh,
    normalize_axis,
    refuse_argument,
    refuse_out,
    reshape,
    resolve_ufunc,
)
from fgrad.numpy.ufuncs import IMPLEMENTATIONS
from fgrad.ops import elementwise as ew
from fgrad.ops import index as ix
from fgrad.ops.elementwise import lit
from fgrad.trace import Value, concrete
from fgrad.tracing.tables import numpy_functions, ufunc_methods, unsupported_card
from fgrad.typing import Array, ArrayLike, DTypeLike

REDUCTIONS: dict[np.ufunc, Callable[..., Value]] = {
    np.add: rs.sum_,
    np.multiply: rs.prod,
    np.maximum: rs.max_,
    np.minimum: rs.min_,
    np.logical_and: rs.all_,
    np.logical_or: rs.any_,
}
_ASSOCIATIVE = {
    np.logaddexp, np.logaddexp2, np.hypot, np.bitwise_and, np.bitwise_or, np.bitwise_xor,
    np.logical_xor, np.gcd,
}  # fmt: skip
# ufunc -> the extremum of all and so far, and what takes the place of NaN, which they leave out
_WITHOUT_NAN: dict[np.ufunc, tuple[Callable[..., Value], Callable[..., Value], float]] = {
    np.fmax: (rs.max_, rs.cummax, -math.inf),
    np.fmin: (rs.min_, rs.cummin, math.inf),
}
_SCATTERED = {np.add: "add", np.multiply: "mul", np.maximum: "max", np.minimum: "min"}


def _folded(ufunc: np.ufunc, method: str) -> Callable[..., Value]:
    """The traced form of a binary ufunc; a card if it has none."""
    if ufunc.nin != 2 or ufunc.nout != 1:
        raise ArgumentError(f"{method} only supported for binary functions")
    function = numpy_functions.find(ufunc)
    if function is None or ufunc not in IMPLEMENTATIONS:
        raise unsupported_card.call(ufunc, method)
    return function


# --- reduce ---------------------------------------------------------------------------------------


def reduce(
    ufunc: np.ufunc,
    array: ArrayLike,
    axis: int = 0,
    dtype: DTypeLike | None = None,
    out: Array | None = None,
    keepdims: bool = False,
    initial: Any = NO_VALUE,
    where: ArrayLike = True,
) -> Value:
    """ufunc.reduce: over the first axis by default."""
    refuse_out(f"{ufunc.__name__}.reduce", out)
    function = REDUCTIONS.get(ufunc)
    if function is None:
        return _reduce_by_folding(ufunc, as_array(array), axis, dtype, keepdims, initial, where)
    named: dict[str, object] = {"axis": axis, "keepdims": keepdims, "where": where}
    if dtype is not None:
        if ufunc in (np.add, np.multiply):
            named["dtype"] = dtype
        else:
            array = convert(as_array(array), np.dtype(dtype))
    if ufunc not in (np.logical_and, np.logical_or):
        named["initial"] = initial
        return function(array, **named)
    result = function(array, **named)
    if initial is NO_VALUE or initial is None:
        return result
    return numpy_functions[ufunc](result, convert(as_array(initial), BOOL))


def _reduce_by_folding(
    ufunc: np.ufunc,
    x: Value,
    axis: int,
    dtype: DTypeLike | None,
    keepdims: bool,
    initial: ArrayLike,
    where: ArrayLike,
) -> Value:
    """Any other reduction: slices combined in halves, or one after the other."""
    function = _folded(ufunc, "reduce")
    axes = rs.reduced_axes(axis, x)
    if len(axes) > 1 and ufunc not in _ASSOCIATIVE and ufunc not in _WITHOUT_NAN:
        raise ArgumentError(
            f"reduction operation '{ufunc.__name__}' is not reorderable, so at most one axis may "
            "be specified",
        )
    kind = _loop_dtype(ufunc, x, dtype)
    x = to_bool(x) if kind == BOOL else convert(x, kind)
    mask = None if where is True else broadcast_to(convert(as_array(where), BOOL), x.shape)
    start = ufunc.identity if initial is NO_VALUE else initial
    if start is None and (mask is not None or not _has_elements(x, axes)):
        what = "use a where mask" if mask is not None else "reduce an empty array"
        raise ArgumentError(
            f"reduction operation '{ufunc.__name__}' does not have an identity, so to {what} "
            "one has to specify 'initial'",
        )
    start = None if start is None else convert(as_array(start), kind)
    if not axes and start is None:
        return fresh(x)
    if ufunc in _WITHOUT_NAN and _has_elements(x, axes):
        total = _extremum_without_nan(ufunc, x, axes, keepdims, mask)
        return total if start is None else function(*broadcast((total, start)))
    parts, masks = _lanes(x, axes), None if mask is None else _lanes(mask, axes)
    total = _fold(function, parts, masks, start, ufunc in _ASSOCIATIVE)
    shape = tuple([n for i, n in enumerate(x.shape) if i not in axes])
    total = broadcast_to(total, shape)
    return rs.keep_axes(total, x.shape, axes) if keepdims else total


def _present(ufunc: np.ufunc, x: Value, mask: Value | None) -> tuple[Value, Value]:
    """Which elements count, and the array with the others as the last of all."""
    present = ew.not_(co.float_test(ew.isnan, False)(x))
    if mask is not None:
        present = ew.and_(present, mask)
    last = _WITHOUT_NAN[ufunc][2]
    if x.dtype.kind in "iu":
        bounds = np.iinfo(x.dtype)
        last = bounds.min if last < 0 else bounds.max
    elif x.dtype.kind == "b":
        last = last > 0
    return present, ew.select(*broadcast((present, x, lit(x, last))))


def _extremum_without_nan(
    ufunc: np.ufunc, x: Value, axes: tuple[int, ...], keepdims: bool, mask: Value | None
) -> Value:
    """fmax.reduce, fmin.reduce: elements that are equal share the derivative, as for maximum."""
    present, filled = _present(ufunc, x, mask)
    total = _WITHOUT_NAN[ufunc][0](filled, axis=axes, keepdims=keepdims)
    if x.dtype.kind not in "fcV":
        return total
    found = rs.any_(present, axis=axes, keepdims=keepdims)
    return ew.select(*broadcast((found, total, lit(x, math.nan))))


def _loop_dtype(ufunc: np.ufunc, x: Value, dtype: DTypeLike | None) -> np.dtype:
    """The dtype that a reduction is computed in: what comes out goes in again."""
    if ufunc.__name__.startswith("logical"):
        return BOOL
    kinds = resolve_ufunc(ufunc, (x.dtype, x.dtype), dtype)
    if kinds[0] != kinds[-1] or kinds[0] != kinds[1]:
        raise ArgumentError(
            f"No loop matching the specified signature and casting was found for ufunc "
            f"{ufunc.__name__}",
        )
    return kinds[0]


def _has_elements(x: Value, axes: tuple[int, ...]) -> bool:
    return all(x.shape[i] for i in axes)


def _lanes(x: Value, axes: tuple[int, ...]) -> list[Value]:
    """The slices across some axes, in order."""
    lanes = moveaxis(x, axes, tuple(range(len(axes)))) if axes else x
    rest = lanes.shape[len(axes) :]
    count = math.prod(lanes.shape[: len(axes)])
    lanes = reshape(lanes, (count, *rest))
    return [reshape(take_slice(lanes, 0, k, k + 1), rest) for k in range(count)]


def _fold(
    function: Callable[..., Value],
    parts: list[Value],
    masks: list[Value] | None,
    start: Value | None,
    associative: bool,
) -> Value:
    total: Any = start
    if masks is not None:
        for part, mask in zip(parts, masks, strict=True):
            total = ew.select(*broadcast((mask, function(total, part), total)))
        return total
    while len(parts) > 1 and associative:
        rest = parts[-1:] if len(parts) % 2 else []
        parts = [function(a, b) for a, b in zip(parts[::2], parts[1::2], strict=False)] + rest
    for part in parts:
        total = part if total is None else function(total, part)
    return total


# --- accumulate and reduceat ----------------------------------------------------------------------


def accumulate(
    ufunc: np.ufunc,
    array: ArrayLike,
    axis: int = 0,
    dtype: DTypeLike | None = None,
    out: Array | None = None,
) -> Value:
    """ufunc.accumulate: all partial results along an axis."""
    refuse_out(f"{ufunc.__name__}.accumulate", out)
    x = as_array(array)
    if not x.shape:
        raise ArgumentError("cannot accumulate on a scalar")
    i = normalize_axis(axis, len(x.shape))
    if ufunc is np.add:
        return rs.cumsum(x, i, dtype)
    if ufunc is np.multiply:
        return rs.cumprod(x, i, dtype)
    if ufunc in (np.maximum, np.minimum):
        x = x if dtype is None else convert(x, np.dtype(dtype))
        return (rs.cummax if ufunc is np.maximum else rs.cummin)(x, i)
    function = _folded(ufunc, "accumulate")
    kind = _loop_dtype(ufunc, x, dtype)
    x = to_bool(x) if kind == BOOL else convert(x, kind)
    if not x.shape[i]:
        return fresh(x)
    if ufunc in _WITHOUT_NAN:
        present, filled = _present(ufunc, x, None)
        total = _WITHOUT_NAN[ufunc][1](filled, i)
        if x.dtype.kind not in "fcV":
            return total
        return ew.select(*broadcast((rs.cummax(present, i), total, lit(x, math.nan))))
    parts = [take_slice(x, i, 0, 1)]
    for k in range(1, x.shape[i]):
        parts.append(function(parts[-1], take_slice(x, i, k, k + 1)))
    return concatenate(parts, i)


def reduceat(
    ufunc: np.ufunc,
    array: ArrayLike,
    indices: ArrayLike,
    axis: int = 0,
    dtype: DTypeLike | None = None,
    out: Array | None = None,
) -> Value:
    """ufunc.reduceat: a reduction from each of some known places to the next."""
    refuse_out(f"{ufunc.__name__}.reduceat", out)
    x = as_array(array)
    if not x.shape:
        raise ArgumentError("cannot reduceat on a scalar")
    i = normalize_axis(axis, len(x.shape))
    places = _known_places(ufunc, indices, x.shape[i])
    x = convert(x, reduce(ufunc, take_slice(x, i, 0, min(1, x.shape[i])), i, dtype).dtype)
    if not len(places):
        return take_slice(x, i, 0, 0)
    if ufunc in _SCATTERED and len(places) > 8 and np.all(np.diff(places) > 0):
        return _by_segments(_SCATTERED[ufunc], x, places, i)
    ends = [*places[1:].tolist(), x.shape[i]]
    pieces = [
        reduce(
            ufunc,
            take_slice(x, i, start, max(stop, start + 1)),
            i,
            dtype,
            keepdims=True,
            initial=None,
        )
        for start, stop in zip(places.tolist(), ends, strict=True)
    ]
    return concatenate(pieces, i)


def _known_places(ufunc: np.ufunc, indices: ArrayLike, length: int) -> np.ndarray:
    places = concrete(as_array(indices))
    if places is None:
        raise refuse_argument(
            f"{ufunc.__name__}.reduceat",
            "indices",
            "indices that are known, or x.at[segments].add(...)",
        )
    places = np.asarray(places)
    if places.size and (places.min() < 0 or places.max() >= length):
        bad = places[(places < 0) | (places >= length)].flat[0]
        raise BoundsError(f"index {bad} out-of-bounds in {ufunc.__name__}.reduceat [0, {length})")
    return places.astype(INT64)


def _by_segments(mode: str, x: Value, places: np.ndarray, axis: int) -> Value:
    """Increasing places: every element is scattered into the result of its segment."""
    lines = moveaxis(x, axis, 0)
    n, rest = lines.shape[0], lines.shape[1:]
    first = ix.gather(lines, (places,), (0,))
    owner = np.searchsorted(places, np.arange(n), side="right") - 1
    others = np.setdiff1d(np.arange(int(places[0]), n), places)
    values = ix.gather(lines, (others,), (0,)) if len(others) else np.zeros((0, *rest), x.dtype)
    return moveaxis(ix.scatter(first, (owner[others],), values, (0,), mode), 0, axis)


# --- outer ----------------------------------------------------------------------------------------


def outer(ufunc: np.ufunc, a: ArrayLike, b: ArrayLike, **kwargs: object) -> Value:
    """ufunc.outer: the function of all pairs."""
    function = numpy_functions.find(ufunc)
    if function is None:
        raise unsupported_card.call(ufunc, "outer")
    x, y = as_array(a), as_array(b)
    x = reshape(x, tuple(x.shape) + (1,) * len(y.shape))
    return function(x, y, **kwargs)


ufunc_methods.update(
    {"reduce": reduce, "accumulate": accumulate, "outer": outer, "reduceat": reduceat}
)
