"""L7. Random initial weights that preserve the variance of activations or gradients.

fan_in and fan_out are the numbers of connections into and out of a unit:

    lecun   variance 1 / fan_in                  (LeCun et al. 1998, section 4.6)
    glorot  variance 2 / (fan_in + fan_out)      (Glorot and Bengio 2010, eq. 16)
    he      variance 2 / fan_in                  (He et al. 2015, eq. 10)
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TypeAlias

import numpy as np

from fgrad import random
from fgrad.errors import ShapeError
from fgrad.numpy.promote import normalize_axis, user_line
from fgrad.ops.elementwise import lit, mul, sub
from fgrad.random.keys import Key
from fgrad.trace import Value
from fgrad.typing import DTypeLike

Shape = tuple[int, ...]
Axes: TypeAlias = "int | Sequence[int]"


def _all(axes: Axes, rank: int) -> list[int]:
    given = [axes] if isinstance(axes, int) else list(axes)
    return [normalize_axis(a, rank) for a in given]


def fans(
    shape: Sequence[int], in_axis: Axes = -2, out_axis: Axes = -1, batch_axis: Axes = ()
) -> tuple[int, int]:
    """How many numbers a unit is connected to, before and after it.

    Axes besides those named are the window of a convolution.

    Raises:
        ShapeError: if there are fewer than two axes.

    Example:
        >>> fans((3, 5)), fans((8, 4, 3, 3), in_axis=1, out_axis=0), fans((5, 4, 8), batch_axis=0)
        ((3, 5), (36, 72), (4, 8))
    """
    rank = len(shape)
    if rank < 2:
        raise ShapeError(f"nn: weights of shape {tuple(shape)} have no fans.", user_line())
    before, after, batch = [_all(a, rank) for a in (in_axis, out_axis, batch_axis)]
    named = {*before, *after, *batch}
    window = math.prod([n for a, n in enumerate(shape) if a not in named])
    sizes = [math.prod([shape[a] for a in axes]) * window for axes in (before, after)]
    return sizes[0], sizes[1]


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
