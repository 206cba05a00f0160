"""L7. Distribution functions of counts, and the inverses of distribution functions.

    F(..., y, ...) = p:    dy/dp = 1 / F_y,    dy/da = -F_a / F_y

An inverse is a row: which operand of F it solves for, where the others stand among its arguments,
and the slopes of F.  A count enters F by its integer part, so that the derivative in it is zero;
where SciPy solves for a count, F is the continuous function that it solves.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from fgrad.base.lazy_import import lazy_module
from fgrad.ops import quantile_tails
from fgrad.ops.elementwise import exp, floor, log, log1p
from fgrad.ops.special_distributions import fdtr, stdtr
from fgrad.ops.special_functions import (
    Function,
    beta_density,
    betainc,
    betainc_a,
    betainc_b,
    gamma_density,
    gammainc_a,
    gammaincc,
    hyp1f1,
    ndtri,
)
from fgrad.scipy.special._table import Slope, special, tabulated, where, whole
from fgrad.trace import Value
from fgrad.transforms.core.linearize import jvp
from fgrad.typing import Array

stats = lazy_module("scipy.stats")

Slopes = Sequence[Callable[..., Value] | None]
_SOLVED = 1e-4  # how far F may be from p at a solution


def inverse(
    name: str,
    places: Sequence[int | None],
    slopes: Slopes,
    evaluate: Callable[..., Array] | None = None,
    solves: Function | None = None,
) -> Function:
    """A function that solves F = p for one operand of F.

    Arguments:
        name: the name in `scipy.special`.
        places: for each operand of F its place among the arguments, None for the one solved for;
            the place that is left is that of p.
        slopes: for each operand of F its slope, a function of all; None for a count.
        evaluate: the NumPy function, if it is not SciPy's of that name.
        solves: F, if SciPy gives an end of its range where nothing solves; slopes are 0 there.
    """
    solved = places.index(None)
    unknown = slopes[solved]
    assert unknown is not None
    (place_of_p,) = {*range(len(places))} - {*places}

    def operands(xs: Sequence[Value]) -> list[Value]:
        return [xs[-1] if place is None else xs[place] for place in places]

    def if_solved(xs: Sequence[Value], found: Value) -> Value:
        if solves is None:
            return found
        away = solves(*operands(xs)) - xs[place_of_p]
        return where((away < _SOLVED) & (away > -_SOLVED), found, xs[0] * 0)

    def by_p(*xs: Value) -> Value:
        return if_solved(xs, 1 / unknown(*operands(xs)))

    def by(slope: Callable[..., Value]) -> Slope:
        return lambda *xs: if_solved(xs, -slope(*operands(xs)) / unknown(*operands(xs)))

    rows: list[Slope] = [by_p] * len(places)
    for place, slope in zip(places, slopes, strict=True):
        if place is not None:
            rows[place] = None if slope is None else by(slope)
    return tabulated(label_of(name, evaluate), *rows, evaluate=evaluate)


def label_of(name: str, evaluate: object) -> str:
    """The name of the primitive: SciPy's only if that is what is computed."""
    return name if evaluate is None else f"{name}_at"


def complement(slopes: Slopes) -> Slopes:
    """The slopes of 1 - F."""
    return [None if s is None else _negative(s) for s in slopes]


def _negative(slope: Callable[..., Value]) -> Callable[..., Value]:
    return lambda *xs: -slope(*xs)


def distribution(
    name: str, slopes: Slopes, evaluate: Callable[..., Array] | None = None
) -> Function:
    """A distribution function that SciPy evaluates."""

    def row(slope: Callable[..., Value]) -> Slope:
        return lambda *xs: slope(*xs[:-1])

    rows = [None if s is None else row(s) for s in slopes]
    return tabulated(label_of(name, evaluate), *rows, evaluate=evaluate)


# --- slopes of distribution functions -------------------------------------------------------------

GAMMA: Slopes = (  # F(a, b, x) = P(b, a x)
    lambda a, b, x: x * gamma_density(b, a * x),
    lambda a, b, x: gammainc_a(b, a * x),
    lambda a, b, x: a * gamma_density(b, a * x),
)
BETA: Slopes = (betainc_a, betainc_b, beta_density)  # F(a, b, x) = I_x(a, b)
CHI2: Slopes = (  # F(v, x) = P(v / 2, x / 2)
    lambda v, x: gammainc_a(v / 2, x / 2) / 2,
    lambda v, x: gamma_density(v / 2, x / 2) / 2,
)
POISSON: Slopes = (  # F(k, m) = Q(k + 1, m)
    lambda k, m: -gammainc_a(k + 1, m),
    lambda k, m: -gamma_density(k + 1, m),
)
BINOMIAL: Slopes = (  # F(k, n, p) = I_(1-p)(n - k, k + 1)
    lambda k, n, p: betainc_b(n - k, k + 1, 1 - p) - betainc_a(n - k, k + 1, 1 - p),
    lambda k, n, p: betainc_a(n - k, k + 1, 1 - p),
    lambda k, n, p: -beta_density(n - k, k + 1, 1 - p),
)
NEGATIVE_BINOMIAL: Slopes = (  # F(k, n, p) = I_p(n, k + 1)
    lambda k, n, p: betainc_b(n, k + 1, p),
    lambda k, n, p: betainc_a(n, k + 1, p),
    lambda k, n, p: beta_density(n, k + 1, p),
)


def _slopes_of(function: Function, count: int) -> Slopes:
    """Those that a function has here."""

    def slope(k: int) -> Callable[..., Value]:
        def at(*xs: Value) -> Value:
            one = lambda x: function(*xs[:k], x, *xs[k + 1 :])  # noqa: E731
            return jvp(one, (xs[k],), (xs[k] * 0 + 1,))[1]

        return at

    return [slope(k) for k in range(count)]


SNEDECOR = _slopes_of(fdtr, 3)
STUDENT = _slopes_of(stdtr, 2)


def _in_counts(slopes: Slopes) -> Slopes:
    """The slopes of F of integer parts: zero in all but the last operand."""
    last = slopes[-1]
    assert last is not None

    def slope(*xs: Value) -> Value:
        return last(*[floor(x) for x in xs[:-1]], xs[-1])

    return [*[None] * (len(slopes) - 1), slope]


def _binomial_density(k: Value, n: Value, p: Value) -> Value:
    """The slope in p; 0 for k = n, where F is 1."""
    whole = floor(k)
    sure = whole >= n
    trials = where(sure, 1, n - whole)
    return where(sure, 0, -beta_density(trials, whole + 1, 1 - p))


BINOMIAL_COUNTS: Slopes = (None, None, _binomial_density)
NEGATIVE_COUNTS = _in_counts(NEGATIVE_BINOMIAL)


def _of_trials(name: str) -> Callable[..., Array]:
    """SciPy's function of (k, n, p) in its variant for integers n: that for floats warns."""

    def evaluate(k: Array, n: Array, p: Array) -> Array:
        found = getattr(special, name)(k, whole(n), p)
        return np.where(np.isfinite(n), found, np.nan)

    return evaluate


bdtr = distribution("bdtr", BINOMIAL_COUNTS, _of_trials("bdtr"))
bdtrc = distribution("bdtrc", complement(BINOMIAL_COUNTS), _of_trials("bdtrc"))
nbdtr = distribution("nbdtr", NEGATIVE_COUNTS)
nbdtrc = distribution("nbdtrc", complement(NEGATIVE_COUNTS))

bdtri = inverse("bdtri", (0, 1, None), BINOMIAL_COUNTS, _of_trials("bdtri"))
bdtrik = inverse(
    "bdtrik", (None, 1, 2), BINOMIAL, solves=lambda k, n, p: betainc(n - k, k + 1, 1 - p)
)
bdtrin = inverse("bdtrin", (0, None, 2), BINOMIAL)
nbdtri = inverse("nbdtri", (0, 1, None), NEGATIVE_COUNTS)
nbdtrik = inverse(
    "nbdtrik", (None, 1, 2), NEGATIVE_BINOMIAL, solves=lambda k, n, p: betainc(n, k + 1, p)
)
nbdtrin = inverse("nbdtrin", (0, None, 2), NEGATIVE_BINOMIAL)
pdtri = inverse("pdtri", (0, None), _in_counts(POISSON))
pdtrik = inverse("pdtrik", (None, 1), POISSON, solves=lambda k, m: gammaincc(k + 1, m))
chdtri = inverse("chdtri", (0, None), complement(CHI2))
chdtriv = inverse("chdtriv", (None, 1), CHI2)
gdtria = inverse("gdtria", (None, 1, 2), GAMMA)
gdtrib = inverse("gdtrib", (0, None, 2), GAMMA)
gdtrix = inverse("gdtrix", (0, 1, None), GAMMA)
btdtria = inverse("btdtria", (None, 1, 2), BETA)
btdtrib = inverse("btdtrib", (0, None, 2), BETA)
betainccinv = inverse(
    "betainccinv", (0, 1, None), complement(BETA), evaluate=quantile_tails.betainccinv
)
fdtri = inverse("fdtri", (0, 1, None), SNEDECOR, evaluate=quantile_tails.fdtri, solves=fdtr)
fdtridfd = inverse("fdtridfd", (0, None, 2), SNEDECOR, solves=fdtr)
stdtridf = inverse("stdtridf", (None, 1), STUDENT, solves=stdtr)


# --- the normal distribution's parameters ---------------------------------------------------------


def _normal_slope(p: Value) -> Value:
    """The derivative of z = ndtri(p): sqrt(2 pi) exp(z^2 / 2)."""
    return math.sqrt(2 * math.pi) * exp(ndtri(p) ** 2 / 2)


nrdtrimn = tabulated(  # x - std z
    "nrdtrimn",
    lambda p, std, x, out: -std * _normal_slope(p),
    lambda p, std, x, out: -ndtri(p),
    lambda p, std, x, out: p * 0 + 1,
)
nrdtrisd = tabulated(  # (x - mn) / z
    "nrdtrisd",
    lambda mn, p, x, out: -1 / ndtri(p),
    lambda mn, p, x, out: -out * _normal_slope(p) / ndtri(p),
    lambda mn, p, x, out: 1 / ndtri(p),
)


# --- Kolmogorov, Smirnov, Tukey's lambda ----------------------------------------------------------


def kolmogorov_slope(y: Value) -> Value:
    """-8 y sum (-1)^(k-1) k^2 exp(-2 k^2 y^2), and the dual sum of c = ((2k - 1) pi)^2 / 8 for
    y < 0.8: -sqrt(2 pi) sum (2 c / y^4 - 1 / y^2) exp(-c / y^2)."""
    low = y < 0.8
    inside = where(low & (y > 0.02), y, y * 0 + 0.5)
    near, far = y * 0, y * 0
    high = where(low, 1, y)
    for k in range(1, 6):
        c = ((2 * k - 1) * math.pi) ** 2 / 8
        u = 1 / (inside * inside)
        near = near + (2 * c * u - 1) * u * exp(-c * u)
        far = far - (-1) ** k * k * k * exp(-2 * k * k * high * high)
    dual = where(y > 0.02, math.sqrt(2 * math.pi) * near, y * 0)
    return where(low, -dual, -8 * high * far)


kolmogorov = tabulated("kolmogorov", lambda y, out: kolmogorov_slope(y))
kolmogi = tabulated("kolmogi", lambda p, out: 1 / kolmogorov_slope(out))
smirnov_density = tabulated(
    "smirnov_density", None, "d", evaluate=lambda n, d: stats.ksone.pdf(d, n)
)
smirnov = tabulated("smirnov", None, lambda n, d, out: -smirnov_density(n, d))
smirnovi = tabulated("smirnovi", None, lambda n, p, out: -1 / smirnov_density(n, out))


def _tukey_density(x: Value, lam: Value, out: Value) -> Value:
    """1 / (p^(l - 1) + (1 - p)^(l - 1)) at p = F(x), 0 outside of the support."""
    inside = (out > 0) & (out < 1)
    p = where(inside, out, x * 0 + 0.5)
    power = lam - 1
    return where(inside, 1 / (exp(power * log(p)) + exp(power * log1p(-p))), x * 0)


def _power_slope(log_p: Value, lam: Value) -> Value:
    """The derivative of (p^l - 1) / l in l: log(p)^2 int_0^1 s p^(l s) ds."""
    return log_p * log_p * hyp1f1(lam * 0 + 2, lam * 0 + 3, lam * log_p) / 2


def _tukey_slope(x: Value, lam: Value, out: Value) -> Value:
    """-Q_l / Q_p for Q(p) = boxcox(p, l) - boxcox(1 - p, l)."""
    inside = (out > 0) & (out < 1)
    p = where(inside, out, x * 0 + 0.5)
    quantile = _power_slope(log(p), lam) - _power_slope(log1p(-p), lam)
    return -quantile * _tukey_density(x, lam, out)


tklmbda = tabulated("tklmbda", _tukey_density, _tukey_slope)
