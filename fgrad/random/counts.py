"""L7. Random integers of known distributions: Poisson, binomial, geometric, multinomial.

Small means are inverted, P(k) summed up to a uniform number; large ones are drawn by transformed
rejection (Hoermann 1993), in a few rounds for all elements at once.  They have no derivative.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from fgrad import lax
from fgrad.base.keywords import also_takes
from fgrad.errors import DtypeError, ShapeError
from fgrad.ir.aval import FLOAT64, INT64
from fgrad.numpy.promote import as_array, broadcast_shapes, broadcast_to, user_line
from fgrad.ops import elementwise as ew
from fgrad.ops.elementwise import convert, lit, select, stop_gradient
from fgrad.ops.erf_gamma import lgamma
from fgrad.random.distributions import drawn_shape
from fgrad.random.families import signs
from fgrad.random.keys import Key, Shape, as_shape, check_key, fold_in, split
from fgrad.random.uniform import unit
from fgrad.trace import Value
from fgrad.typing import ArrayLike, DTypeLike, PyTree

Ints = tuple[int, ...]
Attempt = Callable[[Value, Value], tuple[Value, Value]]
_SMALL = 10.0  # the mean up to which a distribution is inverted


def _parameters(
    key: Key, name: str, shape: Shape | None, dtype: DTypeLike | None, *given: ArrayLike
) -> tuple[Ints, np.dtype, list[Value]]:
    """The checked shape and dtype of counts, and the parameters as constants of float64."""
    check_key(key, name)
    kind = np.dtype(dtype)
    if kind.kind not in "iuf":
        raise DtypeError(f"random.{name} gives integers or floats, not {kind}.", user_line())
    arrays = [stop_gradient(convert(as_array(x), FLOAT64)) for x in given]
    wanted = drawn_shape(name, shape, arrays)
    return wanted, kind, [broadcast_to(x, wanted) for x in arrays]


def _counts(k: Value, valid: Value, kind: np.dtype) -> Value:
    """Counts in a dtype; where parameters make no sense NaN, or -1 for integers."""
    bad = lit(k, math.nan) if kind.kind == "f" else lit(k, -1 if kind.kind == "i" else 0)
    return convert(select(valid, k, bad), kind)


def _inverted(
    key: Key, first: Value, ratio: Callable[[Value], Value], wanted: Value, most: Value
) -> Value:
    """The least k with P(0) + ... + P(k) > u, where P(0) is `first` and P(k) is P(k - 1) times
    ratio(k); k is `most` at the most."""
    u = unit(key, first.shape, FLOAT64, centred=True)
    zero = lit(first, 0)
    start = (select(wanted, zero, zero), first, first, wanted)

    def step(state: PyTree) -> PyTree:
        k, p, total, open_ = state
        after = k + 1
        # a sum that rounding keeps below u ends where its terms vanish
        goes_on = ew.and_(ew.and_(open_, ew.ge(u, total)), ew.lt(k, most))
        goes_on = ew.and_(goes_on, ew.gt(p, zero))
        p = select(goes_on, p * ratio(select(goes_on, after, lit(k, 1))), p)
        return (select(goes_on, after, k), p, select(goes_on, total + p, total), goes_on)

    return lax.while_loop(lambda s: np.any(s[3]), step, start)[0]


def _rejected(key: Key, wanted: Value, attempt: Attempt) -> Value:
    """Attempts with two uniform numbers, in (-1/2, 1/2) and (0, 1), until all that are wanted are
    accepted."""

    def step(state: PyTree) -> PyTree:
        count, found, open_ = state
        u, v = [unit(k, wanted.shape, FLOAT64, centred=True) for k in split(fold_in(key, count))]
        k, accepted = attempt(ew.sub(u, lit(u, 0.5)), v)
        fresh = ew.and_(open_, accepted)
        return count + 1, select(fresh, k, found), ew.and_(open_, ew.not_(accepted))

    zero = FLOAT64.type(0)
    start = (np.int64(0), select(wanted, zero, zero), wanted)
    return lax.while_loop(lambda s: np.any(s[2]), step, start)[1]


@also_takes(out_sharding=None)
def poisson(
    key: Key, lam: ArrayLike, shape: Shape | None = None, dtype: DTypeLike | None = np.int64
) -> Value:
    """Counts with mean `lam`, of probability exp(-lam) lam^k / k!.

    Arguments:
        key: a key.
        lam: means, at most 2^50; where one is negative or NaN the result is -1, or NaN.
        shape: the shape of the result, to which `lam` broadcasts; the shape of `lam` if None.
        dtype: an integer or floating-point dtype.

    Raises:
        DtypeError: for another dtype.
        ShapeError: if `lam` does not broadcast to `shape`.

    Example:
        >>> from fgrad import random
        >>> random.poisson(random.key(0), 3.0, 1000).dtype
        dtype('int64')
    """
    _, kind, (lam,) = _parameters(key, "poisson", shape, dtype, lam)
    first, second = split(key)
    valid = ew.and_(ew.ge(lam, lit(lam, 0)), ew.le(lam, lit(lam, 2.0**50)))
    large = ew.and_(valid, ew.ge(lam, lit(lam, _SMALL)))
    low = select(ew.and_(valid, ew.not_(large)), lam, lit(lam, 0))
    inverted = _inverted(
        first, ew.exp(ew.neg(low)), lambda k: low / k, ew.gt(low, lit(low, 0)), lit(low, math.inf)
    )
    high = select(large, lam, lit(lam, _SMALL))
    b = ew.add(lit(high, 0.931), ew.sqrt(high) * 2.53)
    a = ew.add(lit(b, -0.059), b * 0.02483)
    log_mean = ew.log(high)

    def attempt(u: Value, v: Value) -> tuple[Value, Value]:
        us = ew.sub(lit(u, 0.5), ew.abs_(u))
        k = ew.floor((2 * a / us + b) * u + high + 0.43)
        quick = ew.and_(ew.ge(us, lit(us, 0.07)), ew.le(v, 0.9277 - 3.6224 / (b - 2)))
        n = np.maximum(k, lit(k, 0))
        inverse = 1.1239 + 1.1328 / (b - 3.4)
        bound = n * log_mean - high - lgamma(n + 1)
        slow = ew.le(ew.log(v * inverse / (a / (us * us) + b)), bound)
        outside = ew.or_(ew.lt(k, lit(k, 0)), ew.and_(ew.lt(us, lit(us, 0.013)), ew.gt(v, us)))
        return n, ew.or_(quick, ew.and_(ew.not_(outside), slow))

    return _counts(select(large, _rejected(second, large, attempt), inverted), valid, kind)


def binomial(
    key: Key,
    n: ArrayLike,
    p: ArrayLike,
    shape: Shape | None = None,
    dtype: DTypeLike | None = np.int64,
) -> Value:
    """How many of `n` trials succeed that have probability `p` each.

    Arguments:
        key: a key.
        n: numbers of trials, rounded down.
        p: probabilities; where parameters make no sense the result is -1, or NaN.
        shape, dtype: as for `poisson`.

    Example:
        >>> from fgrad import random
        >>> x = random.binomial(random.key(0), 10, 0.3, 1000)
        >>> bool(x.min() >= 0 and x.max() <= 10)
        True
    """
    _, kind, (n, p) = _parameters(key, "binomial", shape, dtype, n, p)
    return _counts(*_successes(key, ew.floor(n), p), kind)


def _successes(key: Key, n: Value, p: Value) -> tuple[Value, Value]:
    """Binomial counts as floats, and where the parameters make sense."""
    first, second = split(key)
    zero, one = lit(p, 0), lit(p, 1)
    valid = ew.and_(
        ew.and_(ew.ge(n, zero), ew.lt(n, lit(p, math.inf))), ew.and_(ew.ge(p, zero), ew.le(p, one))
    )
    mirrored = ew.gt(p, lit(p, 0.5))
    q = select(valid, select(mirrored, one - p, p), zero)
    trials = select(valid, n, zero)
    large = ew.ge(trials * q, lit(p, _SMALL))
    low = select(large, zero, q)
    odds = low / (one - low)
    start = ew.exp(trials * ew.log1p(ew.neg(low)))
    inverted = _inverted(
        first, start, lambda k: odds * (trials - k + 1) / k, ew.gt(low, zero), trials
    )
    rejected = _rejected(second, large, _binomial_attempt(trials, q, large))
    k = select(large, rejected, inverted)
    return select(mirrored, trials - k, k), valid


def _binomial_attempt(n: Value, p: Value, large: Value) -> Attempt:
    """An attempt of algorithm BTRS (Hoermann 1993)."""
    n, p = select(large, n, lit(n, 40)), select(large, p, lit(p, 0.5))
    spread = ew.sqrt(n * p * (1 - p))
    b = 1.15 + 2.53 * spread
    a = -0.0873 + 0.0248 * b + 0.01 * p
    c = n * p + 0.5
    quick_v = 0.92 - 4.2 / b
    alpha = (2.83 + 5.1 / b) * spread
    mode = ew.floor((n + 1) * p)
    log_odds = ew.log(p / (1 - p))
    top = lgamma(mode + 1) + lgamma(n - mode + 1)

    def attempt(u: Value, v: Value) -> tuple[Value, Value]:
        us = ew.sub(lit(u, 0.5), ew.abs_(u))
        k = ew.floor((2 * a / us + b) * u + c)
        quick = ew.and_(ew.ge(us, lit(us, 0.07)), ew.le(v, quick_v))
        inside = ew.and_(ew.ge(k, lit(k, 0)), ew.le(k, n))
        j = np.minimum(np.maximum(k, lit(k, 0)), n)
        left = ew.log(v * alpha / (a / (us * us) + b))
        bound = top - lgamma(j + 1) - lgamma(n - j + 1) + (j - mode) * log_odds
        return j, ew.or_(quick, ew.and_(inside, ew.le(left, bound)))

    return attempt


@also_takes(out_sharding=None)
def geometric(
    key: Key, p: ArrayLike, shape: Shape | None = None, dtype: DTypeLike | None = np.int64
) -> Value:
    """How many trials of success probability `p` it takes to succeed, 1 or more.

    Arguments are those of `poisson`, with `p` in (0, 1].

    Example:
        >>> from fgrad import random
        >>> int(random.geometric(random.key(0), 1.0))
        1
    """
    wanted, kind, (p,) = _parameters(key, "geometric", shape, dtype, p)
    valid = ew.and_(ew.gt(p, lit(p, 0)), ew.le(p, lit(p, 1)))
    certain = ew.eq(p, lit(p, 1))
    usable = ew.and_(valid, ew.not_(certain))
    u = unit(key, wanted, FLOAT64, centred=True)
    failure = ew.log1p(ew.neg(select(usable, p, lit(p, 0.5))))
    k = ew.floor(ew.log(u) / failure) + 1
    return _counts(select(certain, lit(k, 1), k), valid, kind)


@also_takes("unroll")
def multinomial(
    key: Key,
    n: ArrayLike,
    p: ArrayLike,
    *,
    shape: Shape | None = None,
    dtype: DTypeLike | None = np.int64,
) -> Value:
    """How often each category occurs in `n` trials, one binomial draw after the other.

    Arguments:
        key: a key.
        n: numbers of trials (...).
        p: probabilities (..., k), which need not be normalised.
        shape: the shape of the result, which ends in k.
        dtype: an integer or floating-point dtype.

    Raises:
        ShapeError: if the shapes do not fit.

    Example:
        >>> from fgrad import random
        >>> int(random.multinomial(random.key(0), 20, np.array([0.2, 0.3, 0.5])).sum())
        20
    """
    p = as_array(p)
    if not p.shape or not p.shape[-1]:
        raise ShapeError("random.multinomial takes a vector of probabilities.", user_line())
    count = p.shape[-1]
    n = as_array(n)
    common = (*broadcast_shapes(n.shape, p.shape[:-1]), count)
    whole = common if shape is None else as_shape(shape, "multinomial")
    trials = broadcast_to(n, (*n.shape, 1)) if not n.shape else np.expand_dims(n, -1)
    wanted, kind, (n, p) = _parameters(key, "multinomial", whole, dtype, trials, p)
    rest = np.flip(np.cumsum(np.flip(p, -1), axis=-1), -1)
    empty = ew.le(rest, lit(rest, 0))
    share = np.minimum(select(empty, lit(p, 0), p) / select(empty, lit(p, 1), rest), lit(p, 1))
    left = n[..., 0]
    valid = ew.and_(ew.ge(left, lit(left, 0)), np.all(ew.ge(p, lit(p, 0)), axis=-1))

    def draw(left: Value, given: PyTree) -> PyTree:
        k, portion = given
        found, _ = _successes(k, left, portion)
        return left - found, found

    total = select(valid, ew.floor(left), lit(left, 0))
    _, found = lax.scan(draw, total, (split(key, count), np.moveaxis(share, -1, 0)))
    return _counts(np.moveaxis(found, 0, -1), np.broadcast_to(valid[..., None], wanted), kind)


@also_takes(out_sharding=None)
def rademacher(key: Key, shape: Shape = (), dtype: DTypeLike | None = np.int64) -> Value:
    """-1 and 1 with equal probability.

    Raises:
        DtypeError: if `dtype` is unsigned or boolean.

    Example:
        >>> from fgrad import random
        >>> np.unique(random.rademacher(random.key(0), 100))
        array([-1,  1])
    """
    check_key(key, "rademacher")
    kind = np.dtype(dtype)
    if kind.kind not in "ifc":
        raise DtypeError(f"random.rademacher does not give {kind}.", user_line())
    return convert(signs(key, as_shape(shape, "rademacher"), INT64), kind)
