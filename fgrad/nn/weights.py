"""L7. Random initial weights that preserve the variance of activations or gradients.

fan_in and fan_out are the numbers of connections into and out of a unit:

    lecun   variance 1 / fan_in                  (LeCun et al. 1998, section 4.6)
    glorot  variance 2 / (fan_in + fan_out)      (Glorot and Bengio 2010, eq. 16)
    he      variance 2 / fan_in                  (He et al. 2015, eq. 10)
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TypeAlias

import numpy as np

from fgrad import random
from fgrad.errors import ShapeError
from fgrad.numpy.promote import as_array, convert, normalize_axis, user_line
from fgrad.random.keys import Key
from fgrad.trace import Value
from fgrad.typing import ArrayLike, DTypeLike

Shape: TypeAlias = Sequence[int]
Axes: TypeAlias = "int | Sequence[int]"
Weights: TypeAlias = Callable[..., Value]  # of (key, shape, dtype, in_axis, out_axis)


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


def times(x: Value, factor: ArrayLike) -> Value:
    """`x` times a number, in the dtype of `x`."""
    return x * convert(as_array(factor), x.dtype)


def normal(key: Key, shape: Shape, dtype: DTypeLike | None, deviation: float) -> Value:
    """Normal numbers of a standard deviation."""
    return times(random.normal(key, tuple(shape), dtype), deviation)


def centred(key: Key, shape: Shape, dtype: DTypeLike | None, limit: float) -> Value:
    """Uniform numbers in [-limit, limit), of variance limit^2 / 3."""
    return random.uniform(key, tuple(shape), dtype, -limit, limit)


def _uniform(key: Key, shape: Shape, dtype: DTypeLike | None, variance: float) -> Value:
    return centred(key, shape, dtype, math.sqrt(3 * variance))


def _normal(key: Key, shape: Shape, dtype: DTypeLike | None, variance: float) -> Value:
    return normal(key, shape, dtype, math.sqrt(variance))


def _glorot(before: int, after: int) -> float:
    return 2 / max(1, before + after)


def _he(before: int, after: int) -> float:
    return 2 / max(1, before)


def _lecun(before: int, after: int) -> float:
    return 1 / max(1, before)


def _weights(
    name: str, variance: Callable[[int, int], float], draw: Callable[..., Value], text: str
) -> Weights:
    """Weights of a variance that follows from the two fans."""

    def make(
        key: Key,
        shape: Shape,
        dtype: DTypeLike | None = np.float64,
        in_axis: int = -2,
        out_axis: int = -1,
    ) -> Value:
        return draw(key, shape, dtype, variance(*fans(shape, in_axis, out_axis)))

    make.__name__ = make.__qualname__ = name
    make.__doc__ = f"""{text}

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
        >>> {name}(random.key(0), (3, 4), np.float32).shape
        (3, 4)
    """
    return make


_OF_SUM, _OF_INPUTS = "variance 2 / (fan_in + fan_out)", "variance 2 / fan_in, for relu"
_EQUAL = "variance 1 / fan_in"
glorot_normal = _weights("glorot_normal", _glorot, _normal, f"Normal weights of {_OF_SUM}.")
glorot_uniform = _weights("glorot_uniform", _glorot, _uniform, f"Uniform weights of {_OF_SUM}.")
he_normal = _weights("he_normal", _he, _normal, f"Normal weights of {_OF_INPUTS}.")
he_uniform = _weights("he_uniform", _he, _uniform, f"Uniform weights of {_OF_INPUTS}.")
lecun_normal = _weights("lecun_normal", _lecun, _normal, f"Normal weights of {_EQUAL}.")
lecun_uniform = _weights("lecun_uniform", _lecun, _uniform, f"Uniform weights of {_EQUAL}.")
