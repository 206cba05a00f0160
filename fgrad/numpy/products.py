"""L4. Products of vectors and matrices, all of them `dot_general`."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from fgrad.errors import ArgumentError, ShapeError
from fgrad.ir.aval import FLOAT32, has_derivative
from fgrad.numpy.arrange import known_ints, moveaxis
from fgrad.numpy.dispatch import implements
from fgrad.numpy.promote import (
    as_array,
    broadcast,
    broadcast_shapes,
    broadcast_to,
    convert,
    normalize_axis,
    promote,
    recording_builder,
    refuse_argument,
    refuse_out,
    reshape,
)
from fgrad.ops import complex as cx
from fgrad.ops import dot as dt
from fgrad.ops import elementwise as ew
from fgrad.ops import shape as sh
from fgrad.ops.roll import roll
from fgrad.trace import Tracer, Value
from fgrad.tracing.layouts import ordered
from fgrad.typing import Array, ArrayLike, DTypeLike, Order, ShapeLike


def _mismatch(name: str, a: Value, b: Value) -> ShapeError:
    return ShapeError(
        f"{name}: shapes {a.shape} and {b.shape} do not fit together: the summed axes differ.",
    )


def _pair(name: str, a: ArrayLike, b: ArrayLike) -> tuple[Value, Value]:
    """Promoted operands of a product, bfloat16 as float32; those of rank 0 are refused."""
    x, y = promote((a, b))
    if x.dtype.kind == "V" and has_derivative(x.dtype):
        x, y = convert(x, FLOAT32), convert(y, FLOAT32)
    if (not np.ndim(x) and not isinstance(x, Tracer)) or not len(x.shape) or not len(y.shape):
        raise ArgumentError(f"{name}: operands of rank 0 are not allowed; use * instead")
    return x, y


_ARRAYS = (Tracer, np.ndarray)


@implements("matmul", "linalg.matmul")
def matmul(x1: Value, x2: Value, /, out: Array | None = None, **kwargs: Any) -> Value:
    """The matrix product over the last axes; leading axes broadcast."""
    if out is not None:
        refuse_out("matmul", out)
    if kwargs:
        return _matmul_as(x1, x2, **kwargs)
    a, b = x1, x2
    plain = type(a) in _ARRAYS and type(b) in _ARRAYS
    dtype = a.dtype if plain else None
    if dtype is None or dtype is not b.dtype or dtype.kind != "f":
        a, b = _pair("matmul", a, b)
    left, right = a.shape, b.shape
    m, n = len(left), len(right)
    if not m or not n:
        raise ArgumentError("matmul: operands of rank 0 are not allowed; use * instead")
    if left[-1] != right[-2 if n > 1 else 0]:
        raise _mismatch("matmul", a, b)
    if n <= 2:
        return dt.dot_general(a, b, ((m - 1,), (max(n - 2, 0),)))
    return _batched_matmul(a, b)


def _matmul_as(
    x1: ArrayLike, x2: ArrayLike, dtype: DTypeLike | None = None, order: Order = "K", **rest: object
) -> Value:
    """The matrix product with what ufuncs may be asked for."""
    for name in rest:
        if name not in ("casting", "subok"):
            raise refuse_argument("matmul", name, "np.moveaxis(...)    before and after it")
    a, b = _pair("matmul", x1, x2)
    if dtype is not None:
        a, b = convert(a, np.dtype(dtype)), convert(b, np.dtype(dtype))
    return ordered(matmul(a, b), order)


def _batched_matmul(a: Value, b: Value) -> Value:
    """Products of stacks, whose leading axes broadcast."""
    if len(a.shape) == 1:
        # (k) @ (..., k, n) = (..., n)
        return dt.dot_general(b, a, ((len(b.shape) - 2,), (0,)))
    if len(a.shape) == 2:
        # (m, k) @ (..., k, n): free axes come as (m, ..., n)
        out = dt.dot_general(a, b, ((1,), (len(b.shape) - 2,)))
        return sh.permute(out, (*range(1, len(out.shape) - 1), 0, len(out.shape) - 1))
    lead = broadcast_shapes(a.shape[:-2], b.shape[:-2])
    a = broadcast_to(a, lead + a.shape[-2:])
    b = broadcast_to(b, lead + b.shape[-2:])
    k = len(lead)
    both = tuple(range(k))
    return dt.dot_general(a, b, ((k + 1,), (k,)), (both, both))


@implements("dot")
def dot(a: Value, b: Value, out: Array | None = None) -> Value:
    """Sum over the last axis of `a` and the second to last of `b`; a product for rank 0."""
    refuse_out("dot", out)
    plain = type(a) in _ARRAYS and type(b) in _ARRAYS
    if plain and a.dtype is b.dtype and a.dtype.kind == "f":
        x, y = a, b
    else:
        x, y = promote((as_array(a), as_array(b)))
    m, n = len(x.shape), len(y.shape)
    if not m or not n:
        return ew.mul(*broadcast((x, y)))
    if x.shape[-1] != y.shape[-2 if n > 1 else 0]:
        raise _mismatch("dot", x, y)
    return dt.dot_general(x, y, ((m - 1,), (max(n - 2, 0),)))


@implements("vdot")
def vdot(a: ArrayLike, b: ArrayLike, /) -> Value:
    """The inner product of the flattened arrays, the first conjugated."""
    x, y = promote((as_array(a), as_array(b)))
    x, y = (reshape(v, (math.prod(v.shape),)) for v in (x, y))
    if x.shape != y.shape:
        raise _mismatch("vdot", x, y)
    return dt.dot_general(cx.conj(x), y, ((0,), (0,)))


@implements("inner")
def inner(a: ArrayLike, b: ArrayLike, /) -> Value:
    """Sum over the last axes; a product for rank 0."""
    x, y = promote((as_array(a), as_array(b)))
    if not len(x.shape) or not len(y.shape):
        return ew.mul(*broadcast((x, y)))
    if x.shape[-1] != y.shape[-1]:
        raise _mismatch("inner", x, y)
    return dt.dot_general(x, y, ((len(x.shape) - 1,), (len(y.shape) - 1,)))


@implements("outer")
def outer(a: ArrayLike, b: ArrayLike, out: Array | None = None) -> Value:
    """All products of the elements of two flattened arrays."""
    refuse_out("outer", out)
    x, y = promote((as_array(a), as_array(b)))
    m, n = math.prod(x.shape), math.prod(y.shape)
    x, y = reshape(x, (m,)), reshape(y, (n,))
    if recording_builder(x) is None and recording_builder(y) is None:
        return dt.dot_general(x, y, ((), ()))
    # In a program products of broadcasts fuse with what reads them.
    return ew.mul(sh.broadcast(x, (m, n), (0,)), sh.broadcast(y, (m, n), (1,)))


@implements("tensordot", "linalg.tensordot")
def tensordot(a: Value, b: Value, axes: int | tuple[ShapeLike, ShapeLike] = 2) -> Value:
    """Sum over pairs of axes, or over the last and first few."""
    x, y = promote((as_array(a), as_array(b)))
    m, n = len(x.shape), len(y.shape)
    if isinstance(axes, (tuple, list)):
        left, right = (tuple(known_ints(s)) for s in axes)
    else:
        left, right = tuple(range(m - axes, m)), tuple(range(axes))
    left = tuple([normalize_axis(i, m) for i in left])
    right = tuple([normalize_axis(i, n) for i in right])
    if [x.shape[i] for i in left] != [y.shape[i] for i in right]:
        raise ShapeError(f"tensordot: shapes {x.shape} and {y.shape} do not fit.")
    if not m or not n:
        return ew.mul(*broadcast((x, y)))
    return dt.dot_general(x, y, (left, right))


def _vector_product(x: ArrayLike, y: ArrayLike, axis: int, conjugate: bool = True) -> Value:
    """Sum of products over one axis; the other axes broadcast."""
    a, b = promote((as_array(x), as_array(y)))
    a, b = moveaxis(a, axis, -1), moveaxis(b, axis, -1)
    if a.shape[-1] != b.shape[-1]:
        raise _mismatch("vecdot", a, b)
    lead = broadcast_shapes(a.shape[:-1], b.shape[:-1])
    a, b = broadcast_to(a, (*lead, a.shape[-1])), broadcast_to(b, (*lead, b.shape[-1]))
    both, k = tuple(range(len(lead))), len(lead)
    return dt.dot_general(cx.conj(a) if conjugate else a, b, ((k,), (k,)), (both, both))


@implements("vecdot")
def vecdot(x1: ArrayLike, x2: ArrayLike, /, out: Array | None = None, *, axis: int = -1) -> Value:
    """Inner products along an axis, the first operand conjugated."""
    refuse_out("vecdot", out)
    return _vector_product(x1, x2, axis)


@implements("linalg.vecdot")
def linalg_vecdot(x1: ArrayLike, x2: ArrayLike, /, *, axis: int = -1) -> Value:
    """Inner products along an axis, the first operand conjugated."""
    return _vector_product(x1, x2, axis)


def _with_axes(name: str, *operands: tuple[ArrayLike, int]) -> list[Value]:
    """Operands that have at least so many axes."""
    found = []
    for i, (x, ndim) in enumerate(operands):
        value = as_array(x)
        if len(value.shape) < ndim:
            raise ArgumentError(
                f"{name}: Input operand {i} does not have enough dimensions (has "
                f"{len(value.shape)}, needs {ndim})",
            )
        found.append(value)
    return found


@implements("matvec")
def matvec(x1: ArrayLike, x2: ArrayLike, /, out: Array | None = None) -> Value:
    """Matrices times vectors; leading axes broadcast."""
    refuse_out("matvec", out)
    x1, x2 = _with_axes("matvec", (x1, 2), (x2, 1))
    product = matmul(x1, x2[..., None])
    return reshape(product, product.shape[:-1])


@implements("vecmat")
def vecmat(x1: ArrayLike, x2: ArrayLike, /, out: Array | None = None) -> Value:
    """Conjugated vectors times matrices; leading axes broadcast."""
    refuse_out("vecmat", out)
    x1, x2 = _with_axes("vecmat", (x1, 1), (x2, 2))
    product = matmul(cx.conj(x1)[..., None, :], x2)
    return reshape(product, product.shape[:-2] + product.shape[-1:])


@implements("kron")
def kron(a: ArrayLike, b: ArrayLike) -> Value:
    """The block matrix of a[i, j] * b."""
    x, y = promote((as_array(a), as_array(b)))
    ndim = max(len(x.shape), len(y.shape))
    xs = (1,) * (ndim - len(x.shape)) + x.shape
    ys = (1,) * (ndim - len(y.shape)) + y.shape
    x = reshape(x, tuple([k for n in xs for k in (n, 1)]))
    y = reshape(y, tuple([k for n in ys for k in (1, n)]))
    product = ew.mul(*broadcast((x, y)))
    return reshape(product, tuple([m * n for m, n in zip(xs, ys, strict=True)]))


@implements("cross")
def cross(
    a: ArrayLike,
    b: ArrayLike,
    axisa: int = -1,
    axisb: int = -1,
    axisc: int = -1,
    axis: int | None = None,
) -> Value:
    """The vector product in three dimensions."""
    if axis is not None:
        axisa = axisb = axisc = axis
    x, y = promote((as_array(a), as_array(b)))
    x, y = moveaxis(x, axisa, -1), moveaxis(y, axisb, -1)
    if (x.shape[-1], y.shape[-1]) in ((2, 2), (2, 3), (3, 2)):
        return _flat_cross(x, y, axisc)
    if x.shape[-1] != 3 or y.shape[-1] != 3:
        raise ArgumentError(
            f"Both input arrays must be (arrays of) 3-dimensional vectors, but they are "
            f"{x.shape[-1]} and {y.shape[-1]} dimensional instead.",
        )
    shape = broadcast_shapes(x.shape, y.shape)
    x, y = broadcast_to(x, shape), broadcast_to(y, shape)
    last = len(shape) - 1
    pairs = ew.sub(ew.mul(x, roll(y, -1, last)), ew.mul(roll(x, -1, last), y))
    return moveaxis(roll(pairs, -1, last), -1, axisc)


def _flat_cross(x: Value, y: Value, axis: int) -> Value:
    """With vectors in the plane, whose third number is 0; of two of them that number alone."""
    alone = x.shape[-1] == y.shape[-1]
    spatial = [
        sh.pad(v, (0,) * len(v.shape), (0,) * (len(v.shape) - 1) + (3 - v.shape[-1],))
        for v in (x, y)
    ]
    out = cross(spatial[0], spatial[1])
    return out[..., 2] if alone else moveaxis(out, -1, axis)


@implements("linalg.matrix_power")
def matrix_power(a: ArrayLike, n: int) -> Value:
    """A square matrix multiplied with itself, by repeated squaring."""
    x = as_array(a)
    if n < 0:
        return matrix_power(np.linalg.inv(x), -n)
    if n == 0:
        eye = np.eye(x.shape[-1], dtype=x.dtype)
        return broadcast_to(eye, x.shape)
    while n % 2 == 0:
        x, n = matmul(x, x), n // 2
    result = x
    while n := n // 2:
        x = matmul(x, x)
        if n % 2:
            result = matmul(result, x)
    return result


@implements("linalg.multi_dot")
def multi_dot(arrays: Sequence[ArrayLike], *, out: Array | None = None) -> Value:
    """The product of several matrices in the order of least cost, which is NumPy's: numbers of
    few bits make other products in another order."""
    refuse_out("multi_dot", out)
    xs = [as_array(a) for a in arrays]
    if len(xs) < 2:
        raise ArgumentError("Expecting at least two arrays.")
    if len(xs) == 2:
        return np.dot(xs[0], xs[1])
    for x in xs[1:-1]:
        _check_matrix(x, len(x.shape) == 2)
    for x in (xs[0], xs[-1]):
        _check_matrix(x, len(x.shape) in (1, 2))
    lengths = [1 if len(xs[0].shape) == 1 else xs[0].shape[0]]
    lengths += [x.shape[0] for x in xs[1:]]
    lengths += [1 if len(xs[-1].shape) == 1 else xs[-1].shape[1]]
    return _chain_product(xs, _chain_splits(lengths), 0, len(xs) - 1)


def _chain_product(
    xs: Sequence[Value], splits: dict[tuple[int, int], int], i: int, j: int
) -> Value:
    """The product of the matrices i to j."""
    if i == j:
        return xs[i]
    k = splits[i, j]
    return np.dot(_chain_product(xs, splits, i, k), _chain_product(xs, splits, k + 1, j))


def _check_matrix(x: Value, good: bool) -> None:
    if not good:
        raise np.linalg.LinAlgError(
            f"{len(x.shape)}-dimensional array given. Array must be two-dimensional"
        )


def _chain_splits(lengths: Sequence[int]) -> dict[tuple[int, int], int]:
    """After which factor the product of the matrices i to j is split, for least cost."""
    n = len(lengths) - 1
    cost = {(i, i): 0 for i in range(n)}
    splits: dict[tuple[int, int], int] = {}
    for size in range(1, n):
        for i in range(n - size):
            j = i + size
            outer = lengths[i] * lengths[j + 1]
            cost[i, j], splits[i, j] = min(
                [(cost[i, k] + cost[k + 1, j] + outer * lengths[k + 1], k) for k in range(i, j)]
            )
    return splits
