"""L7. Distributions that are formulas of uniform, exponential, normal and gamma numbers.

All take a key, their parameters, a shape (that of the parameters if None) and a dtype (float64,
float32 or float16), as `fgrad.random.gamma` does, and are differentiable in the parameters.
"""

from __future__ import annotations

import numpy as np

from fgrad.base.keywords import also_takes
from fgrad.ops import elementwise as ew
from fgrad.ops.elementwise import convert, lit, select
from fgrad.random.distributions import exponential, normal, parameters
from fgrad.random.gamma_family import log_gamma
from fgrad.random.keys import Key, Shape, split
from fgrad.random.uniform import bits, unit
from fgrad.trace import Value
from fgrad.typing import ArrayLike, DTypeLike

Ints = tuple[int, ...]


def signs(key: Key, shape: Ints, like: np.dtype) -> Value:
    """-1 and 1 with equal probability."""
    one = like.type(1)
    return select(ew.lt(bits(key, shape, np.uint8), np.uint8(128)), -one, one)


@also_takes(out_sharding=None)
def lognormal(
    key: Key,
    sigma: ArrayLike = 1.0,
    shape: Shape | None = None,
    dtype: DTypeLike | None = np.float64,
) -> Value:
    """exp(sigma z) of normal numbers z.

    Example:
        >>> from fgrad import random
        >>> bool(random.lognormal(random.key(0), 0.5) > 0)
        True
    """
    wanted, kind, (sigma,) = parameters(key, "lognormal", shape, dtype, sigma)
    return convert(ew.exp(sigma * normal(key, wanted, sigma.dtype)), kind)


@also_takes(out_sharding=None)
def maxwell(key: Key, shape: Shape = (), dtype: DTypeLike | None = np.float64) -> Value:
    """Lengths of normal vectors in space.

    Example:
        >>> from fgrad import random
        >>> random.maxwell(random.key(0), 3).shape
        (3,)
    """
    wanted, kind, (one,) = parameters(key, "maxwell", shape, dtype, 1.0)
    return convert(_length(key, wanted, one.dtype), kind)


def _length(key: Key, shape: Ints, dtype: np.dtype) -> Value:
    x, y, z = [normal(k, shape, dtype) for k in split(key, 3)]
    return ew.sqrt(x * x + y * y + z * z)


def double_sided_maxwell(
    key: Key,
    loc: ArrayLike,
    scale: ArrayLike,
    shape: Shape = (),
    dtype: DTypeLike | None = np.float64,
) -> Value:
    """loc + scale times a length of `maxwell` with a random sign.

    Example:
        >>> from fgrad import random
        >>> random.double_sided_maxwell(random.key(0), 1.0, 2.0, 3).shape
        (3,)
    """
    wanted, kind, (loc, scale) = parameters(key, "double_sided_maxwell", shape, dtype, loc, scale)
    first, second = split(key)
    size = _length(first, wanted, loc.dtype) * signs(second, wanted, loc.dtype)
    return convert(loc + scale * size, kind)


@also_takes(out_sharding=None)
def pareto(
    key: Key, b: ArrayLike, shape: Shape | None = None, dtype: DTypeLike | None = np.float64
) -> Value:
    """Numbers above 1 with density b x^(-b - 1).

    Example:
        >>> from fgrad import random
        >>> bool(random.pareto(random.key(0), 3.0) >= 1)
        True
    """
    wanted, kind, (b,) = parameters(key, "pareto", shape, dtype, b)
    return convert(ew.exp(exponential(key, wanted, b.dtype) / b), kind)


@also_takes(out_sharding=None)
def rayleigh(
    key: Key, scale: ArrayLike, shape: Shape | None = None, dtype: DTypeLike | None = np.float64
) -> Value:
    """Lengths of normal vectors in the plane, of standard deviation `scale`.

    Example:
        >>> from fgrad import random
        >>> bool(random.rayleigh(random.key(0), 2.0) > 0)
        True
    """
    wanted, kind, (scale,) = parameters(key, "rayleigh", shape, dtype, scale)
    return convert(scale * ew.sqrt(exponential(key, wanted, scale.dtype) * 2), kind)


def weibull_min(
    key: Key,
    scale: ArrayLike,
    concentration: ArrayLike,
    shape: Shape = (),
    dtype: DTypeLike | None = np.float64,
) -> Value:
    """scale times the power 1 / concentration of exponential numbers.

    Example:
        >>> from fgrad import random
        >>> bool(random.weibull_min(random.key(0), 2.0, 1.5) > 0)
        True
    """
    wanted, kind, (scale, power) = parameters(
        key, "weibull_min", shape, dtype, scale, concentration
    )
    return convert(scale * ew.exp(ew.log(exponential(key, wanted, scale.dtype)) / power), kind)


@also_takes(out_sharding=None)
def triangular(
    key: Key,
    left: ArrayLike,
    mode: ArrayLike,
    right: ArrayLike,
    shape: Shape | None = None,
    dtype: DTypeLike | None = np.float64,
) -> Value:
    """Numbers between `left` and `right` whose density rises to `mode` and falls again, by
    inversion.

    Example:
        >>> from fgrad import random
        >>> x = random.triangular(random.key(0), 0.0, 1.0, 3.0, 100)
        >>> bool(np.all((x >= 0) & (x <= 3)))
        True
    """
    wanted, kind, (a, c, b) = parameters(key, "triangular", shape, dtype, left, mode, right)
    u = unit(key, wanted, a.dtype, centred=True)
    rising = ew.lt(u * (b - a), c - a)
    low = a + ew.sqrt(select(rising, u * (b - a) * (c - a), lit(a, 1)))
    high = b - ew.sqrt(select(rising, lit(a, 1), (1 - u) * (b - a) * (b - c)))
    return convert(select(rising, low, high), kind)


@also_takes(out_sharding=None)
def wald(
    key: Key, mean: ArrayLike, shape: Shape | None = None, dtype: DTypeLike | None = np.float64
) -> Value:
    """Inverse Gaussian numbers of scale 1 (Michael, Schucany and Haas 1976).

    Example:
        >>> from fgrad import random
        >>> bool(random.wald(random.key(0), 2.0) > 0)
        True
    """
    wanted, kind, (mean,) = parameters(key, "wald", shape, dtype, mean)
    first, second = split(key)
    z = normal(first, wanted, mean.dtype)
    # the smaller root m + m y / 2 - m / 2 sqrt(4 y + y^2) with y = m z^2, without cancellation
    y = mean * z * z
    root = 2 * mean / (2 + y + ew.sqrt(y * (4 + y)))
    u = unit(second, wanted, mean.dtype, centred=True)
    return convert(select(ew.le(u * (mean + root), mean), root, mean * mean / root), kind)


@also_takes(out_sharding=None)
def generalized_normal(
    key: Key, p: float, shape: Shape = (), dtype: DTypeLike | None = np.float64
) -> Value:
    """Numbers with density proportional to exp(-|x|^p).

    Example:
        >>> from fgrad import random
        >>> random.generalized_normal(random.key(0), 1.5, 4).shape
        (4,)
    """
    wanted, kind, (power,) = parameters(key, "generalized_normal", shape, dtype, p)
    first, second = split(key)
    size = ew.exp(log_gamma(first, 1 / power, wanted) / power)
    return convert(size * signs(second, wanted, power.dtype), kind)
