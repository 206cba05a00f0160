"""L4. Norms of vectors and matrices; the gradient of a zero norm is 0."""

from __future__ import annotations

import math

import numpy as np

from fgrad.ir.aval import FLOAT64
from fgrad.numpy import reductions as rs
from fgrad.numpy.arrange import moveaxis
from fgrad.numpy.compositions import absolute
from fgrad.numpy.dispatch import implements
from fgrad.numpy.promote import (
    convert,
    inexact,
    normalize_axes,
    ordered_axes,
    reshape,
)
from fgrad.ops import complex as cx
from fgrad.ops import elementwise as ew
from fgrad.ops import reduce as rd
from fgrad.ops.squares import sum_squares
from fgrad.trace import Value
from fgrad.typing import ArrayLike, Axis, NormOrder


def _numbers(x: ArrayLike) -> Value:
    """Floating-point numbers; bfloat16 becomes float64, as integers do."""
    x = inexact(x)
    return convert(x, FLOAT64) if x.dtype.kind == "V" else x


@implements("linalg.norm")
def norm(x: Value, ord: NormOrder = None, axis: Axis = None, keepdims: bool = False) -> Value:
    """The norm of a vector or matrix, over all elements or along axes."""
    x = _numbers(x)
    ndim = len(x.shape)
    if axis is None and (
        ord is None or (ord in ("f", "fro") and ndim == 2) or (ord == 2 and ndim == 1)
    ):
        return _euclid(x, tuple(range(ndim)), keepdims)
    axes = ordered_axes(axis, ndim)
    if len(axes) == 1:
        return _vector(x, 2 if ord is None else ord, axes, keepdims)
    if len(axes) == 2:
        return _matrix(x, ord, axes, keepdims)
    raise ValueError("Improper number of dimensions to norm.")


def _euclid(x: Value, axes: tuple[int, ...], keepdims: bool) -> Value:
    """sqrt(sum x^2)."""
    if x.dtype.char in "fd" and axes:
        total = sum_squares(x, axes)
        return rs.safe_sqrt(rs.keep_axes(total, x.shape, axes) if keepdims else total)
    return rs.safe_sqrt(rs.reduce_with(rd.reduce_sum, rs.squared(x), axes, keepdims))


def _vector(x: Value, p: float | str, axes: tuple[int, ...], keepdims: bool) -> Value:
    """(sum |x|^p)^(1/p) and its limits."""
    if isinstance(p, str):
        raise ValueError(f"Invalid norm order '{p}' for vectors")
    if p == math.inf:
        return _largest(absolute(x), axes, keepdims)
    if p == -math.inf:
        return rs.min_(absolute(x), axes, keepdims=keepdims)
    if p == 0:
        count = convert(ew.ne(x, ew.lit(x, 0)), cx.real_dtype(x.dtype))
        return rs.reduce_with(rd.reduce_sum, count, axes, keepdims)
    if p == 1:
        return rs.reduce_with(rd.reduce_sum, absolute(x), axes, keepdims)
    if p == 2:
        return _euclid(x, axes, keepdims)
    x = absolute(x)
    total = rs.reduce_with(rd.reduce_sum, ew.pow_(x, ew.lit(x, p)), axes, keepdims)
    if p < 0:
        return ew.pow_(total, ew.lit(x, 1 / p))
    zero = ew.eq(total, ew.lit(x, 0))
    root = ew.pow_(ew.select(zero, ew.lit(x, 1), total), ew.lit(x, 1 / p))
    return ew.select(zero, ew.lit(x, 0), root)


def _largest(x: Value, axis: Axis, keepdims: bool = False) -> Value:
    """The largest of numbers that are not negative; 0 of none."""
    none = any([x.shape[i] == 0 for i in normalize_axes(axis, len(x.shape))])
    return rs.max_(x, axis, keepdims=keepdims, **({"initial": 0} if none else {}))


def _matrix(x: Value, p: NormOrder, axes: tuple[int, ...], keepdims: bool) -> Value:
    row, column = axes
    if row == column:
        raise ValueError("Duplicate axes given.")
    both = tuple(sorted(axes))
    if p in (None, "fro", "f"):
        return _euclid(x, both, keepdims)
    if p in (1, -1, math.inf, -math.inf):
        inner, outer = (row, column) if abs(p) == 1 else (column, row)
        sums = rs.reduce_with(rd.reduce_sum, absolute(x), inner, True)
        extremum = _largest if p > 0 else rs.min_
        return _finish(extremum(sums, outer, keepdims=True), both, keepdims)
    if p not in (2, -2, "nuc"):
        raise ValueError("Invalid norm order for matrices.")
    values = np.linalg.svd(moveaxis(x, axes, (-2, -1)), compute_uv=False)
    choose = {2: _largest, -2: rs.min_, "nuc": rs.sum_}[p]
    result = choose(values, -1)
    shape = tuple([1 if i in both else n for i, n in enumerate(x.shape)])
    return reshape(result, shape) if keepdims else result


def _finish(y: Value, axes: tuple[int, ...], keepdims: bool) -> Value:
    if keepdims:
        return y
    return reshape(y, tuple([n for i, n in enumerate(y.shape) if i not in axes]))


@implements("linalg.vector_norm")
def vector_norm(
    x: ArrayLike, /, *, axis: Axis = None, keepdims: bool = False, ord: float | None = 2
) -> Value:
    """The norm of the elements along axes, taken as one vector."""
    x = _numbers(x)
    ord = 2 if ord is None else ord
    return _vector(x, ord, normalize_axes(axis, len(x.shape)), keepdims)


@implements("linalg.matrix_norm")
def matrix_norm(x: Value, /, *, keepdims: bool = False, ord: NormOrder = "fro") -> Value:
    """The norm of the matrices in the last two axes."""
    x = _numbers(x)
    return _matrix(x, ord, ordered_axes((-2, -1), len(x.shape)), keepdims)
