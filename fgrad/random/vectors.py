"""L7. Random vectors and matrices: normal with a covariance, in a ball, orthogonal."""

from __future__ import annotations

import math

import numpy as np

from fgrad.base.keywords import also_takes
from fgrad.errors import ArgumentError, ShapeError
from fgrad.numpy.linalg_functions import cholesky, eigh, svd
from fgrad.numpy.promote import as_array, broadcast_shapes, broadcast_to, convert, user_line
from fgrad.ops import elementwise as ew
from fgrad.ops.complex import complex_, complex_dtype
from fgrad.ops.decompositions import qr
from fgrad.random.distributions import exponential, normal, working
from fgrad.random.families import generalized_normal
from fgrad.random.keys import Key, Shape, as_shape, check_key, split
from fgrad.random.uniform import float_dtype
from fgrad.trace import Value
from fgrad.typing import ArrayLike, DTypeLike

_ROOTS = ("cholesky", "eigh", "svd")


@also_takes(out_sharding=None)
def multivariate_normal(
    key: Key,
    mean: ArrayLike,
    cov: ArrayLike,
    shape: Shape | None = None,
    dtype: DTypeLike | None = np.float64,
    method: str = "cholesky",
) -> Value:
    """Normal vectors with a mean and a covariance matrix, mean + A z with A A' = cov.

    Arguments:
        key: a key.
        mean: vectors (..., n); differentiable.
        cov: matrices (..., n, n); differentiable.
        shape: the shape of the draw without the last axis, to which the others broadcast.
        dtype: float64, float32 or float16.
        method: which A: "cholesky", "eigh" or "svd", which also take singular matrices.

    Raises:
        ShapeError: if the shapes do not fit.
        ArgumentError: if `method` is none of these.

    Example:
        >>> from fgrad import random
        >>> cov = np.array([[2.0, 1.0], [1.0, 3.0]])
        >>> random.multivariate_normal(random.key(0), np.zeros(2), cov, 5).shape
        (5, 2)
    """
    check_key(key, "multivariate_normal")
    kind = float_dtype(dtype, "multivariate_normal")
    mean, cov = [convert(as_array(x), working(kind)) for x in (mean, cov)]
    n = mean.shape[-1] if mean.shape else -1
    if cov.shape[-2:] != (n, n):
        raise ShapeError(
            f"random.multivariate_normal: a mean of shape {mean.shape} and a covariance of shape "
            f"{cov.shape}.",
            user_line(),
        )
    if method not in _ROOTS:
        raise ArgumentError(
            f"random.multivariate_normal: method={method!r}.",
            (*user_line(), ("write", " or ".join(map(repr, _ROOTS)))),
        )
    common = broadcast_shapes(mean.shape[:-1], cov.shape[:-2])
    lead = common if shape is None else as_shape(shape, "multivariate_normal")
    z = normal(key, (*lead, n), working(kind))
    drawn = np.matmul(_root(cov, method), z[..., None])[..., 0]
    return convert(broadcast_to(mean, (*lead, n)) + drawn, kind)


def _root(cov: Value, method: str) -> Value:
    """A matrix A with A A' = cov."""
    if method == "cholesky":
        return cholesky(cov)
    if method == "eigh":
        values, vectors = eigh(cov)
    else:
        vectors, values, _ = svd(cov)
    return vectors * np.sqrt(values)[..., None, :]


@also_takes(out_sharding=None)
def ball(
    key: Key, d: int, p: float = 2, shape: Shape = (), dtype: DTypeLike | None = np.float64
) -> Value:
    """Points that are uniformly distributed in the unit ball of the p-norm (Barthe et al. 2005).

    Arguments:
        key: a key.
        d: the dimension of the ball.
        p: the norm is sum(|x|^p)^(1/p).
        shape: the shape of the draw without the last axis, which has length `d`.
        dtype: float64, float32 or float16.

    Example:
        >>> from fgrad import random
        >>> x = random.ball(random.key(0), 3, shape=100)
        >>> x.shape, bool(np.all(np.linalg.norm(x, axis=1) <= 1))
        ((100, 3), True)
    """
    check_key(key, "ball")
    kind = float_dtype(dtype, "ball")
    lead, work = as_shape(shape, "ball"), working(kind)
    first, second = split(key)
    x: Value = generalized_normal(first, p, (*lead, int(d)), work)
    total = np.sum(np.abs(x) ** p, axis=-1) + exponential(second, lead, work)
    return convert(x / (total ** (1 / p))[..., None], kind)


@also_takes(out_sharding=None)
def orthogonal(
    key: Key,
    n: int,
    shape: Shape = (),
    dtype: DTypeLike | None = np.float64,
    m: int | None = None,
) -> Value:
    """Random matrices with orthonormal columns, or rows, by Haar's measure (Mezzadri 2007).

    Arguments:
        key: a key.
        n: the number of rows.
        shape: the shape of the draw without the last two axes.
        dtype: a floating-point dtype; complex ones give unitary matrices.
        m: the number of columns; `n` if None.

    Example:
        >>> from fgrad import random
        >>> q = random.orthogonal(random.key(0), 3)
        >>> np.allclose(q.T @ q, np.eye(3))
        True
    """
    check_key(key, "orthogonal")
    kind, columns = np.dtype(dtype), n if m is None else m
    if kind.kind != "c":
        kind = float_dtype(dtype, "orthogonal")
    lead = as_shape(shape, "orthogonal")
    tall, wide = max(n, columns), min(n, columns)
    z = _normal_of(key, (*lead, tall, wide), kind)
    q, r = qr(z)
    diagonal = np.diagonal(r, axis1=-2, axis2=-1)
    size = np.abs(diagonal)
    phase = ew.select(ew.gt(size, ew.lit(size, 0)), diagonal, ew.lit(diagonal, 1)) / ew.select(
        ew.gt(size, ew.lit(size, 0)), size, ew.lit(size, 1)
    )
    found: Value = q * phase[..., None, :]
    return convert(found if n >= columns else np.swapaxes(found, -1, -2), kind)


def _normal_of(key: Key, shape: tuple[int, ...], kind: np.dtype) -> Value:
    """Normal numbers, of complex dtypes with independent parts."""
    if kind.kind != "c":
        return normal(key, shape, working(kind))
    part = np.dtype(np.float32 if kind.itemsize == 8 else np.float64)
    first, second = [normal(k, shape, part) for k in split(key)]
    return complex_(first, second) * complex_dtype(part).type(math.sqrt(0.5))
