"""L4. Methods of ufuncs on tracers: `reduce`, `accumulate`, `outer`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from fgrad.numpy import reductions as rs
from fgrad.numpy.arrange import concatenate, take_slice
from fgrad.numpy.promote import (
    as_array,
    convert,
    normalize_axes,
    normalize_axis,
    refuse_out,
    reshape,
)
from fgrad.numpy.ufuncs import IMPLEMENTATIONS
from fgrad.trace import Value, numpy_functions, ufunc_methods, unsupported_hook

REDUCTIONS: dict[Any, Callable[..., Value]] = {
    np.add: rs.sum_,
    np.multiply: rs.prod,
    np.maximum: rs.max_,
    np.minimum: rs.min_,
    np.logical_and: rs.all_,
    np.logical_or: rs.any_,
}


def reduce(
    ufunc: Any,
    array: Any,
    axis: Any = 0,
    dtype: Any = None,
    out: Any = None,
    keepdims: bool = False,
    initial: Any = rs.NO_VALUE,
    where: Any = True,
) -> Value:
    """ufunc.reduce: over the first axis by default."""
    refuse_out(f"{ufunc.__name__}.reduce", out)
    function = REDUCTIONS.get(ufunc)
    named: dict[str, Any] = {"axis": axis, "keepdims": keepdims, "where": where}
    if function is None:
        return _fold(ufunc, as_array(array), axis, keepdims, initial, where)
    if dtype is not None:
        if ufunc in (np.add, np.multiply):
            named["dtype"] = dtype
        else:
            array = convert(as_array(array), np.dtype(dtype))
    if initial is not rs.NO_VALUE and ufunc not in (np.logical_and, np.logical_or):
        named["initial"] = initial
    return function(array, **named)


def _fold(ufunc: Any, x: Value, axis: Any, keepdims: bool, initial: Any, where: Any) -> Value:
    """Any other reduction: halves of the array combined, as the ufunc is associative or not."""
    if where is not True or ufunc.nin != 2 or ufunc not in IMPLEMENTATIONS:
        raise unsupported_hook[0](ufunc, "reduce")
    axes = normalize_axes(axis, len(x.shape))
    if len(axes) != 1:
        raise ValueError(f"reduction operation '{ufunc.__name__}' is not reorderable")
    (i,) = axes
    function = numpy_functions[ufunc]
    parts = [take_slice(x, i, k, k + 1) for k in range(x.shape[i])]
    if initial is not rs.NO_VALUE and initial is not None:
        parts.insert(0, initial)
    if not parts:
        raise ValueError(f"zero-size array to reduction operation {ufunc.__name__}")
    while len(parts) > 1 and ufunc in _ASSOCIATIVE:
        rest = parts[-1:] if len(parts) % 2 else []
        parts = [function(a, b) for a, b in zip(parts[::2], parts[1::2], strict=False)] + rest
    total = parts[0]
    for part in parts[1:]:
        total = function(total, part)
    return total if keepdims else reshape(total, x.shape[:i] + x.shape[i + 1 :])


_ASSOCIATIVE = {
    np.logaddexp, np.logaddexp2, np.hypot, np.fmax, np.fmin, np.bitwise_and, np.bitwise_or,
    np.bitwise_xor, np.logical_xor,
}  # fmt: skip


def accumulate(ufunc: Any, array: Any, axis: int = 0, dtype: Any = None, out: Any = None) -> Value:
    """ufunc.accumulate: all partial results along an axis."""
    refuse_out(f"{ufunc.__name__}.accumulate", out)
    x = as_array(array)
    i = normalize_axis(axis, len(x.shape))
    if dtype is not None:
        x = convert(x, np.dtype(dtype))
    if ufunc is np.add:
        return rs.cumsum(x, i, dtype)
    if ufunc is np.multiply:
        return rs.cumprod(x, i, dtype)
    if ufunc is np.maximum:
        return rs.cummax(x, i)
    if ufunc is np.minimum:
        return rs.cummin(x, i)
    if ufunc.nin != 2 or ufunc not in IMPLEMENTATIONS:
        raise unsupported_hook[0](ufunc, "accumulate")
    function = numpy_functions[ufunc]
    parts = [take_slice(x, i, 0, 1)]
    for k in range(1, x.shape[i]):
        parts.append(function(parts[-1], take_slice(x, i, k, k + 1)))
    return concatenate(parts, i)


def outer(ufunc: Any, a: Any, b: Any, **kwargs: Any) -> Value:
    """ufunc.outer: the function of all pairs."""
    x, y = as_array(a), as_array(b)
    x = reshape(x, tuple(x.shape) + (1,) * len(y.shape))
    return numpy_functions[ufunc](x, y, **kwargs)


ufunc_methods.update({"reduce": reduce, "accumulate": accumulate, "outer": outer})
