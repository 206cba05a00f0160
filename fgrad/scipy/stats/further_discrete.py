"""L7. The rarer discrete distributions: differences and powers of counts, urns, unequal trials."""

from __future__ import annotations

import math

import numpy as np

from fgrad.base.lazy_import import lazy_module
from fgrad.errors import ShapeError
from fgrad.numpy.arrange import moveaxis
from fgrad.numpy.promote import as_operand, broadcast, inexact, promote, user_line
from fgrad.numpy.selection import take_along_axis
from fgrad.ops.elementwise import lit, stop_gradient
from fgrad.random import bernoulli
from fgrad.scipy import special as sp
from fgrad.scipy.special._noncentral import log_series, ncx2_log_density
from fgrad.scipy.stats.discrete import choose, trials
from fgrad.scipy.stats.families import Discrete, log_of
from fgrad.scipy.stats.frozen import draws, method
from fgrad.scipy.stats.further_continuous import ncx2_sf
from fgrad.scipy.stats.integrals import wallenius
from fgrad.scipy.stats.more_continuous import unpower
from fgrad.scipy.stats.multivariate import Multivariate
from fgrad.trace import Value
from fgrad.typing import ArrayLike, PyTree

lax = lazy_module("fgrad.lax")

_TERMS = 24  # of a sum of powers, before its remainder is a series
# B_2m / (2m)!
_EULER = (1 / 12, -1 / 720, 1 / 30240, -1 / 1209600, 1 / 47900160, -691 / 1307674368000)


def _skellam(k: Value, first: Value, second: Value) -> Value:
    up = k >= 0
    x, nc = np.where(up, first, second), np.where(up, second, first)
    return math.log(2) + ncx2_log_density(2 * x, 2 * (1 + np.abs(k)), 2 * nc)


def _skellam_cdf(k: Value, first: Value, second: Value) -> Value:
    down = k < 0
    low = sp.chndtr(2 * second, np.where(down, -2 * k, lit(k, 2)), 2 * first)
    high = ncx2_sf(2 * first, np.where(down, lit(k, 2), 2 * (k + 1)), 2 * second)
    return np.where(down, low, high)


def _skellam_sf(k: Value, first: Value, second: Value) -> Value:
    down = k < 0
    low = ncx2_sf(2 * second, np.where(down, -2 * k, lit(k, 2)), 2 * first)
    high = sp.chndtr(2 * first, np.where(down, lit(k, 2), 2 * (k + 1)), 2 * second)
    return np.where(down, low, high)


def _tail(x: Value, a: Value) -> Value:
    """The corrections of Euler and Maclaurin at one end of a sum of x^-a."""
    total, factor = 0.5 * x**-a, a * x ** (-a - 1)
    for m, b in enumerate(_EULER):
        total = total - b * factor
        factor = factor * (a + 2 * m + 1) * (a + 2 * m + 2) / (x * x)
    return total


def harmonic(n: Value, a: Value) -> Value:
    """sum_(k = 1)^n k^-a: the first terms, and for more an integral with corrections."""
    places = np.arange(1.0, _TERMS + 1).astype(n.dtype)
    terms = np.where(places <= n[..., None], places ** -a[..., None], 0.0)
    start = lit(n, _TERMS)
    end = np.where(n > _TERMS, n, start)
    area = unpower(np.log(end), 1 - a) - unpower(np.log(start), 1 - a)
    rest = area + _tail(end, a) - _tail(start, a)
    return np.sum(terms, axis=-1) + np.where(n > _TERMS, rest, lit(n, 0))


def _fisher_normal(m: Value, n: Value, draws: Value, odds: Value) -> Value:
    """The logarithm of the sum of choose(n, j) choose(m - n, draws - j) odds^j."""
    other = m - n
    low, high = np.maximum(draws - other, 0.0), np.minimum(draws, n)
    a, b, c = odds - 1, (n + draws) * odds + other - draws, n * draws * odds
    middle = 2 * c / (b + np.sqrt(np.maximum(b * b - 4 * a * c, 0.0)))
    parts = (middle, n - middle, draws - middle, other - draws + middle)
    width = 1 / np.sqrt(sum([1 / (np.maximum(part, 0.0) + 1) for part in parts]))
    wide = [x[..., None] for x in (low, n, other, draws, odds)]

    def term(i: Value) -> Value:
        j = np.minimum(i + wide[0], np.minimum(wide[3], wide[1]))
        kinds = choose(wide[1], j) + choose(wide[2], wide[3] - j)
        return kinds + j * np.log(wide[4])

    return log_series(
        term, stop_gradient(np.clip(middle - low, 0.0, high - low)), width, high - low
    )


def _fisher(k: Value, m: Value, n: Value, draws: Value, odds: Value) -> Value:
    kinds = choose(n, k) + choose(m - n, draws - k)
    return kinds + k * np.log(odds) - _fisher_normal(m, n, draws, odds)


def _wallenius(k: Value, m: Value, n: Value, draws: Value, odds: Value) -> Value:
    kinds = choose(n, k) + choose(m - n, draws - k)
    left = odds * (n - k) + (m - n) - (draws - k)
    some = left > 0  # else all are drawn
    found = wallenius(k, draws - k, odds, np.where(some, left, lit(left, 1)))
    return kinds + np.where(some, found, lit(k, 0))


def _urn(m: Value, n: Value, draws: Value, odds: Value) -> Value:
    counts = trials(m) & trials(n) & trials(draws)
    return counts & (n <= m) & (draws <= m) & (odds > 0)


def _drawn(m: Value, n: Value, draws: Value, _: Value) -> tuple[Value, Value]:
    return np.maximum(draws - m + n, 0.0), np.minimum(n, draws)


FAMILIES: tuple[Discrete, ...] = (
    Discrete(
        "randint", "low high", logpmf=lambda k, low, high: -np.log(high - low),
        support=lambda low, high: (low, high - 1),
        valid=lambda low, high: (high > low) & (low == np.floor(low)) & (high == np.floor(high)),
        cdf=lambda k, low, high: (k + 1 - low) / (high - low),
        sf=lambda k, low, high: (high - 1 - k) / (high - low),
    ),
    Discrete(
        "skellam", "mu1 mu2", logpmf=_skellam, support=lambda a, b: (-1e300, 1e300),
        valid=lambda a, b: (a > 0) & (b > 0), cdf=_skellam_cdf, sf=_skellam_sf,
    ),
    Discrete(
        "zipf", "a", logpmf=lambda k, a: -a * np.log(k) - np.log1p(sp.zetac(a)),
        support=lambda a: (1.0, math.inf), valid=lambda a: a > 1, cdf=None,
    ),
    Discrete(
        "zipfian", "a n", logpmf=lambda k, a, n: -a * np.log(k) - np.log(harmonic(n, a)),
        support=lambda a, n: (1.0, n), valid=lambda a, n: (a >= 0) & (n >= 1) & trials(n),
        cdf=lambda k, a, n: harmonic(k, a) / harmonic(n, a),
        sf=lambda k, a, n: (harmonic(n, a) - harmonic(k, a)) / harmonic(n, a),
    ),
    Discrete(
        "nchypergeom_fisher", "M n N odds", logpmf=_fisher, support=_drawn, valid=_urn, cdf=None,
    ),
    Discrete(
        "nchypergeom_wallenius", "M n N odds", logpmf=_wallenius, support=_drawn, valid=_urn,
        cdf=None,
    ),
)  # fmt: skip

FURTHER_DISCRETE: dict[str, Discrete] = {family.name: family for family in FAMILIES}


class PoissonBinomial(Multivariate):
    """The number of successes in trials of unequal probabilities."""

    def _masses(self, p: ArrayLike) -> Value:
        """The probabilities of 0 to n successes, in the last axis, as those of trials in p."""
        if isinstance(p, (list, tuple)):
            p = np.stack([inexact(as_operand(x)) for x in p], axis=-1)
        values = inexact(as_operand(p))
        if not values.shape:
            raise ShapeError("scipy.stats.poisson_binom: p is a vector.", user_line())
        values = moveaxis(values, -1, 0)
        start = np.zeros((*values.shape[1:], values.shape[0] + 1), values.dtype)
        start[..., 0] = 1

        def trial(mass: Value, q: Value) -> tuple[Value, None]:
            share = q[..., None]
            moved = np.concatenate([0 * mass[..., :1], mass[..., :-1]], axis=-1)
            return mass * (1 - share) + moved * share, None

        found, _ = lax.scan(trial, start, values)
        valid = np.all((values >= 0) & (values <= 1), axis=0)[..., None]
        return np.where(valid, found, math.nan)

    def _at(self, table: Value, k: ArrayLike, loc: ArrayLike, above: float) -> Value:
        """The entries of a table at the integers k - loc, 0 below and `above` beyond."""
        (place, shift) = promote([as_operand(k), as_operand(loc)])
        moved = inexact(place - shift)
        shape = np.broadcast_shapes(moved.shape, table.shape[:-1])
        moved = np.broadcast_to(moved, shape)
        n = table.shape[-1]
        index = np.clip(np.nan_to_num(np.floor(moved)), 0, n - 1).astype(np.int64)
        found = take_along_axis(np.broadcast_to(table, (*shape, n)), index[..., None], axis=-1)[
            ..., 0
        ]
        found = np.where(moved < 0, 0.0 * found, np.where(moved >= n, 0 * found + above, found))
        return np.where(np.isnan(moved), math.nan, found)

    @method
    def pmf(self, k: ArrayLike, p: ArrayLike, loc: ArrayLike = 0) -> Value:
        """The probability of k.

        Arguments:
            k: counts.
            p: the probabilities of the trials, in the last axis.
            loc: what is added to the count.
        """
        found = self._at(self._masses(p), k, loc, 0.0)
        moved = as_operand(k) - as_operand(loc)
        return np.where(moved == np.floor(moved), found, 0.0 * found)

    @method
    def logpmf(self, k: ArrayLike, p: ArrayLike, loc: ArrayLike = 0) -> Value:
        """The logarithm of the probability of k."""
        return np.log(self.pmf(k, p, loc))

    @method
    def cdf(self, k: ArrayLike, p: ArrayLike, loc: ArrayLike = 0) -> Value:
        """The probability of at most k."""
        return self._at(np.cumsum(self._masses(p), axis=-1), k, loc, 1.0)

    @method
    def sf(self, k: ArrayLike, p: ArrayLike, loc: ArrayLike = 0) -> Value:
        """The probability of more than k."""
        masses = self._masses(p)
        after = np.flip(np.cumsum(np.flip(masses, -1), axis=-1), -1) - masses
        found = self._at(after, k, loc, 0.0)
        return np.where(as_operand(k) < as_operand(loc), 1.0 + 0 * found, found)

    @method
    def logcdf(self, k: ArrayLike, p: ArrayLike, loc: ArrayLike = 0) -> Value:
        """The logarithm of `cdf`."""
        return log_of(*broadcast([self.cdf(k, p, loc), self.sf(k, p, loc)]))

    @method
    def logsf(self, k: ArrayLike, p: ArrayLike, loc: ArrayLike = 0) -> Value:
        """The logarithm of `sf`."""
        return log_of(*broadcast([self.sf(k, p, loc), self.cdf(k, p, loc)]))

    @draws
    def rvs(
        self, p: ArrayLike, loc: ArrayLike = 0, size: int | tuple[int, ...] | None = None,
        random_state: PyTree = None,
    ) -> Value:  # fmt: skip
        """Random counts, by a key as `random_state`; derivative zero."""
        q = stop_gradient(inexact(as_operand(p)))
        shape = q.shape[:-1] if size is None else (size,) if isinstance(size, int) else tuple(size)
        drawn = bernoulli(random_state, q, (*shape, q.shape[-1]))
        return np.sum(drawn, axis=-1) + loc


poisson_binom = PoissonBinomial("poisson_binom")
