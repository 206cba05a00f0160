"""L7. Gamma distributed numbers, and what is made of them: beta, chi square, F, t, Dirichlet.

A draw is x(a, noise) for the shape parameter a; its derivative keeps the noise, and with it
P(a, x), fixed:  dx/da = -(dP/da) / p(x)  (Figurnov, Mohamed and Mnih 2018).
"""

from __future__ import annotations

import math

import numpy as np

from fgrad import lax
from fgrad.base.keywords import also_takes
from fgrad.errors import ShapeError
from fgrad.numpy.promote import inexact, user_line
from fgrad.ops import elementwise as ew
from fgrad.ops.elementwise import convert, lit, select, stop_gradient
from fgrad.ops.erf_gamma import digamma, lgamma
from fgrad.ops.reduce import reduce_sum, spread
from fgrad.ops.special_functions import gammainc_a
from fgrad.random.distributions import normal, parameters
from fgrad.random.keys import Key, Shape, as_shape, fold_in, split
from fgrad.random.uniform import unit
from fgrad.trace import Value
from fgrad.transforms.custom.jvp import custom_jvp
from fgrad.typing import ArrayLike, DTypeLike, PyTree

Ints = tuple[int, ...]

# --- gamma --------------------------------------------------------------------------------------


@also_takes(out_sharding=None)
def loggamma(
    key: Key, a: ArrayLike, shape: Shape | None = None, dtype: DTypeLike | None = np.float64
) -> Value:
    """The logarithm of numbers of a gamma distribution, which does not vanish where `a` is small.

    Arguments:
        key: a key.
        a: the shape parameter, positive; differentiable.
        shape: the shape of the result, to which `a` broadcasts; the shape of `a` if None.
        dtype: float64, float32 or float16.

    Raises:
        DtypeError: for another dtype.
        ShapeError: if `a` does not broadcast to `shape`.

    Example:
        >>> from fgrad import random
        >>> bool(np.isfinite(random.loggamma(random.key(0), 1e-4)))
        True
    """
    wanted, kind, (a,) = parameters(key, "loggamma", shape, dtype, a)
    return convert(log_gamma(key, a, wanted), kind)


@also_takes(out_sharding=None)
def gamma(
    key: Key, a: ArrayLike, shape: Shape | None = None, dtype: DTypeLike | None = np.float64
) -> Value:
    """Numbers with density x^(a - 1) exp(-x) / gamma(a) (Marsaglia and Tsang 2000).

    Arguments and errors are those of `loggamma`; where `a` is not positive, the result is NaN.

    Example:
        >>> import fgrad
        >>> key = fgrad.random.key(1)
        >>> x, slope = fgrad.value_and_grad(lambda a: fgrad.random.gamma(key, a))(2.0)
        >>> bool(x > 0 and slope > 0)
        True
    """
    wanted, kind, (a,) = parameters(key, "gamma", shape, dtype, a)
    return convert(ew.exp(log_gamma(key, a, wanted)), kind)


def log_gamma(key: Key, a: Value, shape: Ints) -> Value:
    """`loggamma` of parameters that have the dtype and the shape of the result."""
    return _of_parameter(_log_draw(key, stop_gradient(a), shape), a)


def _log_draw(key: Key, a: Value, shape: Ints) -> Value:
    """log x = log d + 3 log(1 + c z), with d = a - 1/3 and c = 1 / sqrt(9 d), accepted where
    log u < z^2 / 2 + d - d v + d log v.  For a < 1: x(a) = x(a + 1) u^(1 / a)."""
    first, second = split(key)
    valid = ew.and_(ew.gt(a, lit(a, 0)), ew.not_(ew.isinf(a)))
    small = ew.lt(a, lit(a, 1))
    safe = select(valid, a, lit(a, 1))
    d = select(small, safe + 1, safe) - lit(a, 1 / 3)
    c = lit(a, 1) / ew.sqrt(d * 9)

    def attempt(state: PyTree) -> PyTree:
        step, done, found = state
        noise, level = split(fold_in(first, step))
        z = normal(noise, shape, a.dtype)
        root = ew.add(lit(a, 1), c * z)
        positive = ew.gt(root, lit(a, 0))
        log_root = ew.log(select(positive, root, lit(a, 1)))
        v = root * root * root
        bound = z * z * lit(a, 0.5) + d - d * v + d * log_root * 3
        u = unit(level, shape, a.dtype, centred=True)
        accepted = ew.and_(positive, ew.lt(ew.log(u), bound))
        fresh = ew.and_(accepted, ew.not_(done))
        return step + 1, ew.or_(done, accepted), select(fresh, log_root * 3, found)

    start = (np.int64(0), ew.not_(valid), select(valid, lit(a, 0), lit(a, 0)))
    _, _, cubed = lax.while_loop(lambda s: ew.not_(np.all(s[1])), attempt, start)
    u = unit(second, shape, a.dtype, centred=True)
    boost = select(small, ew.log(u) / safe, lit(a, 0))
    limits = select(
        ew.eq(a, lit(a, 0)),
        lit(a, -math.inf),
        select(ew.eq(a, lit(a, math.inf)), lit(a, math.inf), lit(a, math.nan)),
    )
    return select(valid, ew.log(d) + cubed + boost, limits)


@custom_jvp
def _of_parameter(log_x: Value, a: Value) -> Value:
    """`log_x`, as it depends on the parameter of its distribution."""
    return log_x


@_of_parameter.defjvp
def _(primals: tuple[Value, Value], tangents: tuple[Value, Value]) -> tuple[Value, Value]:
    log_x, a = primals
    out = _of_parameter(log_x, a)
    return out, tangents[0] + tangents[1] * _slope(a, out)


def _slope(a: Value, log_x: Value) -> Value:
    """d log x / da at fixed P(a, x), which is x^a / gamma(a + 1) where x vanishes."""
    tiny = ew.lt(log_x, lit(a, -25))
    proper = select(tiny, lit(a, 0), log_x)
    x = ew.exp(proper)
    density = ew.exp(a * proper - x - lgamma(a))  # of log x
    usable = ew.gt(density, lit(a, 0))
    ratio = gammainc_a(a, x) / select(usable, density, lit(a, 1))
    limit = (log_x - digamma(a + 1)) / a
    return ew.neg(select(tiny, limit, select(usable, ratio, lit(a, 0))))


# --- ratios of gamma numbers --------------------------------------------------------------------


@also_takes(out_sharding=None)
def beta(
    key: Key,
    a: ArrayLike,
    b: ArrayLike,
    shape: Shape | None = None,
    dtype: DTypeLike | None = np.float64,
) -> Value:
    """Numbers with density proportional to x^(a - 1) (1 - x)^(b - 1); arguments as for `gamma`.

    Example:
        >>> from fgrad import random
        >>> x = random.beta(random.key(0), 0.5, 2.0, 1000)
        >>> bool(np.all((x >= 0) & (x <= 1)))
        True
    """
    wanted, kind, (a, b) = parameters(key, "beta", shape, dtype, a, b)
    first, second = split(key)
    odds = log_gamma(first, a, wanted) - log_gamma(second, b, wanted)
    return convert(ew.logistic(odds), kind)


@also_takes(out_sharding=None)
def chisquare(
    key: Key, df: ArrayLike, shape: Shape | None = None, dtype: DTypeLike | None = np.float64
) -> Value:
    """Numbers distributed as sums of `df` squares of normal ones; arguments as for `gamma`.

    Example:
        >>> from fgrad import random
        >>> random.chisquare(random.key(0), np.array([1.0, 5.0]), (3, 2)).shape
        (3, 2)
    """
    wanted, kind, (df,) = parameters(key, "chisquare", shape, dtype, df)
    return convert(2 * ew.exp(log_gamma(key, df / 2, wanted)), kind)


@also_takes(out_sharding=None)
def f(
    key: Key,
    dfnum: ArrayLike,
    dfden: ArrayLike,
    shape: Shape | None = None,
    dtype: DTypeLike | None = np.float64,
) -> Value:
    """Numbers of the F distribution, ratios of mean squares; arguments as for `gamma`.

    Example:
        >>> from fgrad import random
        >>> bool(random.f(random.key(0), 3.0, 5.0) > 0)
        True
    """
    wanted, kind, (m, n) = parameters(key, "f", shape, dtype, dfnum, dfden)
    first, second = split(key)
    logs = log_gamma(first, m / 2, wanted) - log_gamma(second, n / 2, wanted)
    return convert(ew.exp(logs) * n / m, kind)


@also_takes(out_sharding=None)
def t(
    key: Key, df: ArrayLike, shape: Shape | None = None, dtype: DTypeLike | None = np.float64
) -> Value:
    """Numbers of Student's t distribution; arguments as for `gamma`.

    Example:
        >>> from fgrad import random
        >>> random.t(random.key(0), 4.0, 3).shape
        (3,)
    """
    wanted, kind, (df,) = parameters(key, "t", shape, dtype, df)
    first, second = split(key)
    half = df / 2
    spread_of = ew.exp((ew.log(half) - log_gamma(second, half, wanted)) / 2)
    return convert(normal(first, wanted, half.dtype) * spread_of, kind)


@also_takes(out_sharding=None)
def dirichlet(
    key: Key, alpha: ArrayLike, shape: Shape | None = None, dtype: DTypeLike | None = np.float64
) -> Value:
    """Probabilities of a Dirichlet distribution: gamma numbers divided by their sum.

    Arguments:
        key: a key.
        alpha: positive concentrations along the last axis; differentiable.
        shape: the shape of the result without that axis, to which the others broadcast.
        dtype: float64, float32 or float16.

    Raises:
        ShapeError: if `alpha` has no axis.

    Example:
        >>> from fgrad import random
        >>> np.round(random.dirichlet(random.key(0), np.ones(3), 4).sum(axis=1), 12)
        array([1., 1., 1., 1.])
    """
    alpha = inexact(alpha)
    if not alpha.shape:
        raise ShapeError("random.dirichlet takes a vector of concentrations.", user_line())
    lead = alpha.shape[:-1] if shape is None else as_shape(shape, "dirichlet")
    whole = (*lead, alpha.shape[-1])
    wanted, kind, (alpha,) = parameters(key, "dirichlet", whole, dtype, alpha)
    last = (len(wanted) - 1,)
    logs = log_gamma(key, alpha, wanted)
    largest = stop_gradient(np.max(logs, axis=-1, initial=-math.inf))
    parts = ew.exp(logs - spread(largest, wanted, last))
    return convert(parts / spread(reduce_sum(parts, last), wanted, last), kind)
