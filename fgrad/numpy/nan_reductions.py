"""L4. Reductions that skip NaN."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, SupportsIndex

import numpy as np

from fgrad.errors import ArgumentError, DtypeError
from fgrad.ir.aval import BOOL, FLOAT64
from fgrad.numpy.dispatch import add, implements
from fgrad.numpy.promote import (
    as_array,
    broadcast,
    convert,
    normalize_axis,
    refuse_out,
)
from fgrad.numpy.reductions import (
    NO_VALUE,
    any_,
    argmax,
    argmin,
    count_of,
    cumprod,
    cumsum,
    degrees_lost,
    deviation_of,
    is_set,
    max_,
    mean,
    min_,
    prod,
    reduced_axes,
    sum_,
    var,
)
from fgrad.ops import elementwise as ew
from fgrad.trace import Value, concrete
from fgrad.typing import Array, ArrayLike, Axis, DTypeLike


def _numbers(a: ArrayLike, fill: float) -> tuple[Value, Value | bool]:
    """The array with NaN replaced, and the mask of numbers (True if there can be no NaN)."""
    x = as_array(a)
    if x.dtype.kind not in "fcV":
        return x, True
    nan = ew.isnan(x)
    return ew.select(nan, ew.lit(x, fill), x), ew.not_(nan)


def _both(where: ArrayLike, present: Value | bool) -> ArrayLike:
    if where is True or where is NO_VALUE:
        return present
    if present is True:
        return where
    return ew.and_(*broadcast((convert(as_array(where), BOOL), present)))


def _check_inexact(present: object, dtype: DTypeLike | None) -> None:
    """Moments of numbers that may be NaN are no integers."""
    if present is not True and dtype is not None and np.dtype(dtype).kind not in "fcV":
        raise DtypeError("If a is inexact, then dtype must be inexact")


@implements("nansum")
def nansum(a: ArrayLike, *args: Any, **kwargs: object) -> Value:
    """The sum of the elements that are not NaN."""
    return sum_(_numbers(a, 0)[0], *args, **kwargs)


@implements("nanprod")
def nanprod(a: ArrayLike, *args: Any, **kwargs: object) -> Value:
    """The product of the elements that are not NaN."""
    return prod(_numbers(a, 1)[0], *args, **kwargs)


@implements("nanmean")
def nanmean(
    a: ArrayLike,
    axis: Axis = None,
    dtype: DTypeLike | None = None,
    out: Array | None = None,
    keepdims: bool = False,
    *,
    where: ArrayLike = True,
) -> Value:
    """The mean of the elements that are not NaN."""
    x, present = _numbers(a, 0)
    axis = axis if present is True else reduced_axes(axis, x)
    _check_inexact(present, dtype)
    return mean(x, axis, dtype, out, keepdims, where=_both(where, present))


@implements("nanvar")
def nanvar(
    a: ArrayLike,
    axis: Axis = None,
    dtype: DTypeLike | None = None,
    out: Array | None = None,
    ddof: float = 0,
    keepdims: bool = False,
    *,
    where: ArrayLike = True,
    mean: Value = NO_VALUE,
    correction: float = NO_VALUE,
) -> Value:
    """The variance of the elements that are not NaN; NaN where too few are left."""
    x, present = _numbers(a, 0)
    ddof = degrees_lost(ddof, correction)
    _check_inexact(present, dtype)
    mask = _both(where, present)
    axis = axis if present is True else reduced_axes(axis, x)
    result = var(x, axis, dtype, out, ddof, keepdims, where=mask, mean=mean)
    if mask is True or result.dtype.kind in "biu":
        return result
    count = convert(count_of(x, axis, mask, is_set(keepdims)), FLOAT64)
    few = ew.le(*broadcast((count, FLOAT64.type(ddof))))
    return ew.select(few, ew.lit(result, math.nan), result)


@implements("nanstd")
def nanstd(a: ArrayLike, *args: Any, **kwargs: object) -> Value:
    """The standard deviation of the elements that are not NaN."""
    return deviation_of(nanvar(a, *args, **kwargs))


def _nan_extremum(name: str, extremum: Callable[..., Value], fill: float) -> Callable[..., Value]:
    def function(
        a: ArrayLike,
        axis: Axis = None,
        out: Array | None = None,
        keepdims: bool = False,
        initial: ArrayLike = NO_VALUE,
        where: ArrayLike = True,
    ) -> Value:
        refuse_out(name, out)
        x, present = _numbers(a, fill)
        result = extremum(x, axis, None, keepdims, initial, where)
        if present is True:
            return result
        found = any_(_both(where, present), axis, keepdims=keepdims)
        if initial is not NO_VALUE:
            return result
        return ew.select(found, result, ew.lit(result, math.nan))

    function.__name__ = name
    function.__doc__ = f"The {name[3:]} of the elements that are not NaN; NaN if all are."
    return function


nanmax = _nan_extremum("nanmax", max_, -math.inf)
nanmin = _nan_extremum("nanmin", min_, math.inf)
add("nanmax", nanmax)
add("nanmin", nanmin)


def _without_nan(a: ArrayLike, fill: float, axis: SupportsIndex | None) -> Value:
    """The array with NaN replaced; a lane of nothing but NaN is an error, where it is known."""
    x, present = _numbers(a, fill)
    if present is not True:
        mask = concrete(present)
        axes = (
            reduced_axes(axis, x)
            if axis is None or not x.shape
            else normalize_axis(axis, len(x.shape))
        )
        if mask is not None and not np.all(np.any(mask, axis=axes)):
            raise ArgumentError("All-NaN slice encountered")
    return x


@implements("nanargmax")
def nanargmax(
    a: ArrayLike, axis: int | None = None, out: Array | None = None, *, keepdims: bool = False
) -> Value:
    """The index of the largest element that is not NaN."""
    return argmax(_without_nan(a, -math.inf, axis), axis, out, keepdims=keepdims)


@implements("nanargmin")
def nanargmin(
    a: ArrayLike, axis: int | None = None, out: Array | None = None, *, keepdims: bool = False
) -> Value:
    """The index of the smallest element that is not NaN."""
    return argmin(_without_nan(a, math.inf, axis), axis, out, keepdims=keepdims)


@implements("nancumsum")
def nancumsum(
    a: ArrayLike, axis: int | None = None, dtype: DTypeLike | None = None, out: Array | None = None
) -> Value:
    """Cumulative sum in which NaN counts as 0."""
    return cumsum(_numbers(a, 0)[0], axis, dtype, out)


@implements("nancumprod")
def nancumprod(
    a: ArrayLike, axis: int | None = None, dtype: DTypeLike | None = None, out: Array | None = None
) -> Value:
    """Cumulative product in which NaN counts as 1."""
    return cumprod(_numbers(a, 1)[0], axis, dtype, out)
