"""L7. Random initial weights that preserve the variance of activations or gradients.

fan_in and fan_out are the numbers of connections into and out of a unit:

    lecun   variance 1 / fan_in                  (LeCun et al. 1998, section 4.6)
    glorot  variance 2 / (fan_in + fan_out)      (Glorot and Bengio 2010, eq. 16)
    he      variance 2 / fan_in                  (He et al. 2015, eq. 10)
"""

from __future__ import annotations

import math

import numpy as np

from fgrad import random
from fgrad.errors import ShapeError
from fgrad.numpy.promote import normalize_axis, user_line
from fgrad.ops.elementwise import lit, mul, sub
from fgrad.random.keys import Key
from fgrad.trace import Value
from fgrad.typing import DTypeLike

Shape = tuple[int, ...]


def fans(shape: Shape, in_axis: int = -2, out_axis: int = -1) -> tuple[int, int]:
    """fan_in and fan_out of weights; axes besides the two are the window of a convolution.

    Raises:
        ShapeError: if there are fewer than two axes.

    Example:
        >>> fans((3, 5)), fans((8, 4, 3, 3), in_axis=1, out_axis=0)
        ((3, 5), (36, 72))
    """
    if len(shape) < 2:
        raise ShapeError(
            f"nn: weights of shape {shape} have no fans: two axes are needed.", user_line()
        )
    i, o = normalize_axis(in_axis, len(shape)), normalize_axis(out_axis, len(shape))
    window = math.prod([n for axis, n in enumerate(shape) if axis not in (i, o)])
    return shape[i] * window, shape[o] * window


def _normal(key: Key, shape: Shape, dtype: DTypeLike | None, variance: float) -> Value:
    x = random.normal(key, shape, dtype)
    return mul(x, lit(x, math.sqrt(variance)))


def _uniform(key: Key, shape: Shape, dtype: DTypeLike | None, variance: float) -> Value:
    """Uniform in [-a, a), where a^2 = 3 variance."""
    limit = math.sqrt(3 * variance)
    u = random.uniform(key, shape, dtype)
    return sub(mul(u, lit(u, 2 * limit)), lit(u, limit))


def glorot_normal(
    key: Key,
    shape: Shape,
    dtype: DTypeLike | None = np.float64,
    in_axis: int = -2,
    out_axis: int = -1,
) -> Value:
    """Weights from a normal distribution of variance 2 / (fan_in + fan_out).

    Arguments:
        key: a key of `fgrad.random`.
        shape: the shape of the weights.
        dtype: a floating-point dtype.
        in_axis, out_axis: the axes of inputs and outputs: (-2, -1) for `x @ w`, (1, 0) for `conv`
            in the layout "NCHW".

    Raises:
        ShapeError: if `shape` has fewer than two axes.

    Example:
        >>> from fgrad import random
        >>> glorot_normal(random.key(0), (3, 4), np.float32).shape
        (3, 4)
    """
    return _normal(key, shape, dtype, 2 / max(1, sum(fans(shape, in_axis, out_axis))))


def glorot_uniform(
    key: Key,
    shape: Shape,
    dtype: DTypeLike | None = np.float64,
    in_axis: int = -2,
    out_axis: int = -1,
) -> Value:
    """Uniformly distributed weights of variance 2 / (fan_in + fan_out); see `glorot_normal`.

    Example:
        >>> from fgrad import random
        >>> bool(np.all(abs(glorot_uniform(random.key(0), (3, 3))) <= 1))
        True
    """
    return _uniform(key, shape, dtype, 2 / max(1, sum(fans(shape, in_axis, out_axis))))


def he_normal(
    key: Key,
    shape: Shape,
    dtype: DTypeLike | None = np.float64,
    in_axis: int = -2,
    out_axis: int = -1,
) -> Value:
    """Normal weights of variance 2 / fan_in, for relu; arguments as for `glorot_normal`.

    Example:
        >>> from fgrad import random
        >>> he_normal(random.key(0), (3, 4)).dtype
        dtype('float64')
    """
    return _normal(key, shape, dtype, 2 / max(1, fans(shape, in_axis, out_axis)[0]))


def he_uniform(
    key: Key,
    shape: Shape,
    dtype: DTypeLike | None = np.float64,
    in_axis: int = -2,
    out_axis: int = -1,
) -> Value:
    """Uniform weights of variance 2 / fan_in; arguments as for `glorot_normal`.

    Example:
        >>> from fgrad import random
        >>> bool(np.all(abs(he_uniform(random.key(0), (6, 3))) <= 1))
        True
    """
    return _uniform(key, shape, dtype, 2 / max(1, fans(shape, in_axis, out_axis)[0]))


def lecun_normal(
    key: Key,
    shape: Shape,
    dtype: DTypeLike | None = np.float64,
    in_axis: int = -2,
    out_axis: int = -1,
) -> Value:
    """Normal weights of variance 1 / fan_in; arguments as for `glorot_normal`.

    Example:
        >>> from fgrad import random
        >>> lecun_normal(random.key(0), (3, 4)).shape
        (3, 4)
    """
    return _normal(key, shape, dtype, 1 / max(1, fans(shape, in_axis, out_axis)[0]))


def lecun_uniform(
    key: Key,
    shape: Shape,
    dtype: DTypeLike | None = np.float64,
    in_axis: int = -2,
    out_axis: int = -1,
) -> Value:
    """Uniform weights of variance 1 / fan_in; arguments as for `glorot_normal`.

    Example:
        >>> from fgrad import random
        >>> bool(np.all(abs(lecun_uniform(random.key(0), (3, 3))) <= 1))
        True
    """
    return _uniform(key, shape, dtype, 1 / max(1, fans(shape, in_axis, out_axis)[0]))
