"""L7. Makers of initial weights, by JAX's names: `he_normal()(key, shape, dtype)`.

    variance_scaling(scale, mode, distribution)     variance scale / n, with n by `mode`:
        "fan_in"  "fan_out"  "fan_avg" (their mean)  "fan_geo_avg" (their geometric mean)

Functions of `fgrad.nn` with the same names give the weights at once, `nn.he_normal(key, shape)`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TypeAlias

import numpy as np

from fgrad import random
from fgrad.base.keywords import also_takes
from fgrad.base.pickling import pickles_as_call
from fgrad.errors import ArgumentError, ShapeError
from fgrad.nn import weights
from fgrad.nn.weights import Axes, Shape, centred, fans, times
from fgrad.numpy.promote import as_array, broadcast_to, convert, normalize_axis, user_line
from fgrad.random.keys import Key
from fgrad.trace import Value
from fgrad.typing import ArrayLike, DTypeLike

Initializer: TypeAlias = Callable[..., Value]  # of (key, shape, dtype)

_MODES: dict[str, Callable[[float, float], float]] = {
    "fan_in": lambda i, o: i,
    "fan_out": lambda i, o: o,
    "fan_avg": lambda i, o: (i + o) / 2,
    "fan_geo_avg": lambda i, o: math.sqrt(i * o),
}
# The standard deviation of normal numbers between -2 and 2.
_TRUNCATED = 0.87962566103423978


def _truncated(key: Key, shape: Shape, dtype: DTypeLike | None, deviation: float) -> Value:
    return times(random.truncated_normal(key, -2, 2, tuple(shape), dtype), deviation / _TRUNCATED)


def _uniform(key: Key, shape: Shape, dtype: DTypeLike | None, deviation: float) -> Value:
    return centred(key, shape, dtype, math.sqrt(3) * deviation)


_DISTRIBUTIONS = {"truncated_normal": _truncated, "normal": weights.normal, "uniform": _uniform}


@pickles_as_call
def variance_scaling(
    scale: float,
    mode: str,
    distribution: str,
    in_axis: Axes = -2,
    out_axis: Axes = -1,
    batch_axis: Axes = (),
    dtype: DTypeLike | None = np.float64,
) -> Initializer:
    """A maker of weights whose variance is `scale` divided by a number of connections.

    Arguments:
        scale: a positive number.
        mode: "fan_in", "fan_out", "fan_avg" or "fan_geo_avg".
        distribution: "truncated_normal" (at two standard deviations), "normal" or "uniform".
        in_axis, out_axis, batch_axis: axes, or lists of them; the others are windows.
        dtype: the dtype of weights for which none is given.

    Returns:
        A function of a key, a shape and a dtype.

    Raises:
        ArgumentError: if there is no such mode or distribution.

    Example:
        >>> import fgrad
        >>> make = fgrad.nn.initializers.variance_scaling(2.0, "fan_in", "normal")
        >>> make(fgrad.random.key(0), (3, 4), np.float32).shape
        (3, 4)
    """
    for what, given, known in (
        ("mode", mode, _MODES),
        ("distribution", distribution, _DISTRIBUTIONS),
    ):
        if given not in known:
            raise ArgumentError(
                f"nn.initializers.variance_scaling: {what}={given!r}.",
                (*user_line(), ("write", " or ".join(map(repr, known)))),
            )

    def init(key: Key, shape: Shape, dtype: DTypeLike | None = dtype) -> Value:
        count = _MODES[mode](*fans(shape, in_axis, out_axis, batch_axis))
        deviation = math.sqrt(scale / max(count, 1))
        return _DISTRIBUTIONS[distribution](key, shape, dtype, deviation)

    return init


def _named(name: str, scale: float, mode: str, distribution: str) -> Callable[..., Initializer]:
    """`variance_scaling` with three known arguments."""

    def make(
        in_axis: Axes = -2,
        out_axis: Axes = -1,
        batch_axis: Axes = (),
        dtype: DTypeLike | None = np.float64,
    ) -> Initializer:
        return variance_scaling(scale, mode, distribution, in_axis, out_axis, batch_axis, dtype)

    make.__name__ = make.__qualname__ = name
    make.__doc__ = f"variance_scaling({scale}, {mode!r}, {distribution!r}); arguments as there."
    return pickles_as_call(make)


glorot_normal = xavier_normal = _named("glorot_normal", 1.0, "fan_avg", "truncated_normal")
glorot_uniform = xavier_uniform = _named("glorot_uniform", 1.0, "fan_avg", "uniform")
lecun_normal = _named("lecun_normal", 1.0, "fan_in", "truncated_normal")
lecun_uniform = _named("lecun_uniform", 1.0, "fan_in", "uniform")
he_normal = kaiming_normal = _named("he_normal", 2.0, "fan_in", "truncated_normal")
he_uniform = kaiming_uniform = _named("he_uniform", 2.0, "fan_in", "uniform")


@pickles_as_call
def constant(value: ArrayLike, dtype: DTypeLike | None = np.float64) -> Initializer:
    """A maker of weights that are all `value`, a number or an array that broadcasts to the shape.

    Example:
        >>> import fgrad
        >>> fgrad.nn.initializers.constant(0.5)(fgrad.random.key(0), (2,))
        array([0.5, 0.5])
    """

    def init(key: Key, shape: Shape, dtype: DTypeLike | None = dtype) -> Value:
        del key
        made: Value = broadcast_to(convert(as_array(value), np.dtype(dtype)), tuple(shape))
        return made.copy()

    return init


@also_takes(out_sharding=None)
def zeros(key: Key, shape: Shape, dtype: DTypeLike | None = np.float64) -> Value:
    """Weights that are 0; `key` is not used.

    Example:
        >>> import fgrad
        >>> fgrad.nn.initializers.zeros(fgrad.random.key(0), (2,))
        array([0., 0.])
    """
    return constant(0)(key, shape, dtype)


@also_takes(out_sharding=None)
def ones(key: Key, shape: Shape, dtype: DTypeLike | None = np.float64) -> Value:
    """Weights that are 1; `key` is not used.

    Example:
        >>> import fgrad
        >>> fgrad.nn.initializers.ones(fgrad.random.key(0), (2,))
        array([1., 1.])
    """
    return constant(1)(key, shape, dtype)


@pickles_as_call
def normal(stddev: float = 1e-2, dtype: DTypeLike | None = np.float64) -> Initializer:
    """A maker of normal weights of a standard deviation.

    Example:
        >>> import fgrad
        >>> fgrad.nn.initializers.normal(0.1)(fgrad.random.key(0), (2, 3)).shape
        (2, 3)
    """

    def init(key: Key, shape: Shape, dtype: DTypeLike | None = dtype) -> Value:
        return weights.normal(key, shape, dtype, stddev)

    return init


@pickles_as_call
def truncated_normal(
    stddev: float = 1e-2,
    dtype: DTypeLike | None = np.float64,
    lower: ArrayLike = -2.0,
    upper: ArrayLike = 2.0,
) -> Initializer:
    """A maker of `stddev` times normal numbers between two limits.

    Example:
        >>> import fgrad
        >>> x = fgrad.nn.initializers.truncated_normal(0.1)(fgrad.random.key(0), (100,))
        >>> bool(np.all(abs(x) <= 0.2))
        True
    """

    def init(key: Key, shape: Shape, dtype: DTypeLike | None = dtype) -> Value:
        return times(random.truncated_normal(key, lower, upper, tuple(shape), dtype), stddev)

    return init


@pickles_as_call
def uniform(scale: float = 1e-2, dtype: DTypeLike | None = np.float64) -> Initializer:
    """A maker of weights in [0, scale).

    Example:
        >>> import fgrad
        >>> x = fgrad.nn.initializers.uniform(0.5)(fgrad.random.key(0), (100,))
        >>> bool(np.all((x >= 0) & (x < 0.5)))
        True
    """

    def init(key: Key, shape: Shape, dtype: DTypeLike | None = dtype) -> Value:
        return times(random.uniform(key, tuple(shape), dtype), scale)

    return init


@pickles_as_call
def orthogonal(
    scale: float = 1.0, column_axis: int = -1, dtype: DTypeLike | None = np.float64
) -> Initializer:
    """A maker of `scale` times a matrix with orthonormal columns, or rows where these are fewer.

    Arguments:
        scale: a factor.
        column_axis: the axis of the columns; the others together are the rows.
        dtype: the dtype of weights for which none is given.

    Example:
        >>> import fgrad
        >>> w = fgrad.nn.initializers.orthogonal()(fgrad.random.key(0), (4, 2))
        >>> np.allclose(w.T @ w, np.eye(2))
        True
    """

    def init(key: Key, shape: Shape, dtype: DTypeLike | None = dtype) -> Value:
        if len(shape) < 2:
            raise ShapeError(
                f"nn.initializers.orthogonal: weights of shape {tuple(shape)} are no matrix.",
                user_line(),
            )
        axis = normalize_axis(column_axis, len(shape))
        rest = [n for a, n in enumerate(shape) if a != axis]
        rows, columns = math.prod(rest), shape[axis]
        if not rows * columns:
            return zeros(key, shape, dtype)
        q = random.orthogonal(key, rows, (), dtype, columns)
        return times(np.moveaxis(np.reshape(q, (*rest, columns)), -1, axis), scale)

    return init


@pickles_as_call
def delta_orthogonal(
    scale: float = 1.0, column_axis: int = -1, dtype: DTypeLike | None = np.float64
) -> Initializer:
    """A maker of filters (*window, in, out) that are `orthogonal` in the middle of the window, and
    0 elsewhere (Xiao et al. 2018).

    Example:
        >>> import fgrad
        >>> w = fgrad.nn.initializers.delta_orthogonal()(fgrad.random.key(0), (3, 3, 2, 4))
        >>> np.allclose(w[1, 1] @ w[1, 1].T, np.eye(2)), float(abs(w[0]).max())
        (True, 0.0)
    """

    def init(key: Key, shape: Shape, dtype: DTypeLike | None = dtype) -> Value:
        if len(shape) not in (3, 4, 5) or shape[-1] < shape[-2]:
            raise ShapeError(
                f"nn.initializers.delta_orthogonal: shape {tuple(shape)} is no (*window, in, out) "
                "of one to three window axes with in <= out.",
                user_line(),
            )
        middle = tuple([((n - 1) // 2, n - 1 - (n - 1) // 2) for n in shape[:-2]])
        matrix = orthogonal(scale, column_axis, dtype)(key, shape[-2:], dtype)
        block = np.reshape(matrix, (*[1] * len(middle), *shape[-2:]))
        return np.pad(block, (*middle, (0, 0), (0, 0)))

    return init
