"""Special functions, and probabilities of discrete distributions, against mpmath in their hard
regions: large orders, tiny and huge parameters, cancellation; compiled."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any

import mpmath as mp
import numpy as np
import pytest
from mpmath import mpf

import fgrad
import fgrad.scipy.special as special
import fgrad.scipy.stats as stats

TOLERANCE = 1e-10
DIGITS = 40
Row = tuple[Callable[..., Any], Sequence[tuple[float, ...]]]


def _series(a: Any, x: Any) -> Any:
    """P(a, x) by its series, for large a."""
    total = term = 1 / a
    n = 0
    while abs(term) > abs(total) * mpf(10) ** -45:
        n += 1
        term *= x / (a + n)
        total += term
    return total * mp.exp(-x + a * mp.log(x) - mp.loggamma(a))


def _beta(a: Any, b: Any, x: Any) -> Any:
    return mp.betainc(a, b, 0, x, regularized=True)


def _scaled(f: Callable[..., Any], sign: int) -> Callable[..., Any]:
    return lambda v, x: mp.exp(sign * x) * f(v, x)


def _faddeeva(x: Any, y: Any) -> Any:
    z = mp.mpc(x, y)
    return mp.exp(-z * z) * mp.erfc(-1j * z)


ROWS: dict[str, Row] = {
    "jv": (mp.besselj, [(0.5, 1e4), (50, 40), (100, 1), (200, 250), (1000, 900), (1000, 1010),
                        (3.3, 1e-8), (-2.5, 3)]),
    "yv": (mp.bessely, [(0.5, 1e4), (50, 40), (100, 100), (1000, 1010), (3.3, 1e-8), (-2.5, 3)]),
    "iv": (mp.besseli, [(0.5, 600), (50, 40), (100, 1), (700, 700), (3.3, 1e-8)]),
    "kv": (mp.besselk, [(0.5, 600), (50, 40), (100, 1), (200, 250), (0.1, 1e-30)]),
    "ive": (_scaled(mp.besseli, -1), [(0.5, 1e5), (100, 1e4)]),
    "kve": (_scaled(mp.besselk, 1), [(0.5, 1e5), (100, 1e4)]),
    "j0": (mp.j0, [(1e4,), (1e6,)]), "j1": (mp.j1, [(1e4,), (1e-10,)]),
    "k1": (lambda x: mp.besselk(1, x), [(700,), (1e-300,)]),
    "gammainc": (_series, [(1e6, 1e6), (1e6, 0.999e6), (1e5, 9.5e4), (1e-10, 1e-10), (50, 1),
                           (1000, 800), (0.5, 1e-20)]),
    "gammaincc": (lambda a, x: 1 - _series(a, x), [(1e6, 1e6), (1e6, 1.001e6), (1e5, 1.01e5),
                                                   (0.5, 50), (100, 150)]),
    "loggamma": (mp.loggamma, [(1e-300,), (1.0000001,), (1.9999999,), (1e15,), (170,)]),
    "gammaln": (lambda x: mp.log(abs(mp.gamma(x))), [(2.0000001,), (-2.5,), (-100.5,), (0.99,)]),
    "digamma": (mp.digamma, [(1e-10,), (1.4616321449683622,), (1e10,), (-10.2,)]),
    "zeta": (mp.zeta, [(1.0000001, 1), (1.5, 1e6), (50, 1), (2, 1e-8)]),
    "zetac": (lambda x: mp.zeta(x) - 1, [(60,), (1.0001,), (-20.5,)]),
    "betainc": (_beta, [(1e-10, 1e-10, 0.5), (1e-3, 1e5, 1e-8), (1e3, 1e-3, 0.999),
                        (50, 3e4, 0.0017), (0.5, 0.5, 1e-300), (300, 2, 0.99)]),
    "betaln": (lambda a, b: mp.loggamma(a) + mp.loggamma(b) - mp.loggamma(a + b),
               [(1e10, 1e-5), (1e8, 1e8), (1e-300, 1)]),
    "hyp1f1": (mp.hyp1f1, [(0.5, 1.5, 50), (0.5, 1.5, -50), (30, 2, 10), (-3.5, 1.2, 20),
                           (10, 100, -200), (2, 5, 300), (1, 2, -700)]),
    "hyp0f1": (mp.hyp0f1, [(200, -50), (200, -5000), (1000, -2000), (1000, -3e5), (60, -1e-3),
                           (160, -0.01), (400, -500), (-200.5, -50), (1e5, -3e5), (41, -1e3),
                           (171.5, 30), (400, 1e5), (3, -200), (1000, -2.6e5), (5000, -2e5)]),
    "cosm1": (lambda x: -2 * mp.sin(x / 2) ** 2, [(2 * np.pi,), (-44.0,), (1e-9,), (6.2831,)]),
    "i0": (lambda x: mp.besseli(0, x), [(1e-10,), (7.99,), (8.01,), (50,), (713.5,), (-3,)]),
    "i1": (lambda x: mp.besseli(1, x), [(1e-300,), (7.99,), (8.01,), (50,), (713.5,), (-3,)]),
    "i0e": (lambda x: mp.exp(-x) * mp.besseli(0, x), [(1e-10,), (8.01,), (1e5,), (1e200,)]),
    "i1e": (lambda x: mp.exp(-x) * mp.besseli(1, x), [(1e-10,), (8.01,), (1e5,), (1e200,)]),
    "hyp2f1": (mp.hyp2f1, [(0.5, 0.5, 1.5, 0.999999), (10, 20, 30, 0.5), (0.3, 0.7, 1.9, -1e5),
                           (50, -3.5, 2, 0.7), (1, 1, 2, -1e-9), (1.5, 2.5, 4, -0.99)]),
    "hyperu": (mp.hyperu, [(0.5, 1.5, 100), (3, 2, 0.01), (10, 0.5, 5)]),
    "erfcx": (lambda x: mp.exp(x * x) * mp.erfc(x), [(1e5,), (-5,), (25,), (-26,)]),
    "erfc": (mp.erfc, [(26,), (-5,), (10,)]), "erfi": (mp.erfi, [(20,), (1e-9,)]),
    "erfinv": (mp.erfinv, [(1 - 1e-15,), (1e-300,), (-0.999999,)]),
    "dawsn": (lambda x: mp.sqrt(mp.pi) / 2 * mp.exp(-x * x) * mp.erfi(x), [(50,), (1e-8,)]),
    "wofz": (_faddeeva, [(5, 1e-10), (1, 20), (6, 0.1), (0.1, 1e-3), (30, 0.5)]),
    "log_ndtr": (lambda x: mp.log(mp.ncdf(x)), [(-37,), (-200,), (8,), (-5,)]),
    "ndtri": (lambda p: mp.sqrt(2) * mp.erfinv(2 * p - 1), [(1e-15,), (1 - 1e-12,)]),
    "expn": (lambda n, x: mp.expint(int(n), x), [(1, 1e-10), (50, 3), (3, 600), (1000, 50)]),
    "exp1": (mp.e1, [(1e-15,), (700,)]), "expi": (mp.ei, [(1e-15,), (700,), (-700,)]),
    "spence": (lambda z: mp.polylog(2, 1 - z), [(1e-15,), (1.0000001,), (1e5,)]),
    "ellipk": (mp.ellipk, [(1 - 1e-15,), (-1e10,)]),
    "ellipe": (mp.ellipe, [(1 - 1e-15,), (-1e10,)]),
    "ellipkinc": (mp.ellipf, [(1.57, 0.9999), (100, 0.5), (1e-5, 0.3), (1.5, -1e6)]),
    "ellipeinc": (mp.ellipe, [(1.57, 0.9999), (100, 0.5), (1e-5, 0.3), (1.5, -1e6)]),
    "elliprf": (mp.elliprf, [(1e-10, 1, 1e10), (0, 1, 2)]),
    "elliprd": (mp.elliprd, [(1e-10, 1, 1e5), (0, 1, 2)]),
    "elliprj": (mp.elliprj, [(1e-5, 1, 1e3, 0.1), (0, 1, 2, 3)]),
    "struve": (mp.struveh, [(0.5, 100), (30, 20), (2, 1e-5)]),
    "modstruve": (mp.struvel, [(0.5, 100), (30, 20), (2, 1e-5)]),
    "binom": (mp.binomial, [(1e10, 3), (100.5, 50.2), (1000, 500)]),
    "poch": (mp.rf, [(1e5, 3), (0.1, 100), (1e8, 0.5)]),
    "eval_legendre": (mp.legendre, [(100, 0.99), (500, 0.3), (1000, -0.7)]),
    "eval_hermite": (mp.hermite, [(50, 3), (100, 0.1)]),
    "eval_chebyt": (mp.chebyt, [(1000, 0.3), (50, 1.5)]),
    "logit": (lambda x: mp.log(x / (1 - x)), [(1e-300,), (0.5000001,)]),
    "powm1": (lambda x, y: x**y - 1, [(1.0000001, 1e-5), (2, 1e-18)]),
    "boxcox": (lambda x, a: mp.expm1(a * mp.log(x)) / a, [(1.5, 1e-18), (1e-10, 0.5)]),
}  # fmt: skip


def _close(found: Any, exact: Any, where: object, tolerance: float = TOLERANCE) -> None:
    error = abs(mp.mpmathify(complex(found)) - exact) / abs(exact)
    assert error < tolerance, (where, found, mp.nstr(exact, 20), float(error))


@pytest.mark.parametrize("name", ROWS)
def test_special_functions(name: str) -> None:
    exact, points = ROWS[name]
    for given in points:
        if name == "wofz":
            found = fgrad.jit(special.wofz)(complex(*given))
        else:
            found = fgrad.jit(getattr(special, name))(*[np.float64(x) for x in given])
        with mp.workdps(DIGITS):
            _close(found, exact(*[mpf(x) for x in given]), given)


def test_orders_of_polygamma() -> None:
    for n, x in ((1, 1e-5), (5, 1e3), (20, 3.0), (50, 60.0)):
        found = fgrad.jit(lambda x, n=n: special.polygamma(n, x))(x)
        with mp.workdps(DIGITS):
            _close(found, mp.polygamma(n, mpf(x)), (n, x))


def _binomial(k: Any, n: Any, p: Any) -> Any:
    return mp.binomial(n, k) * p**k * (1 - p) ** (n - k)


def _hypergeometric(k: Any, many: Any, good: Any, drawn: Any) -> Any:
    return mp.binomial(good, k) * mp.binomial(many - good, drawn - k) / mp.binomial(many, drawn)


DISCRETE: dict[str, tuple[Callable[..., Any], tuple[float, ...], tuple[int, ...], int]] = {
    "binom": (_binomial, (400, 0.03), (0, 12, 60, 150), 400),
    "poisson": (lambda k, m: mp.exp(-m) * m**k / mp.factorial(k), (30.0,), (0, 30, 90, 200), 500),
    "nbinom": (lambda k, n, p: mp.binomial(k + n - 1, k) * p**n * (1 - p) ** k, (5.5, 0.3),
               (0, 12, 100, 300), 1500),
    "geom": (lambda k, p: p * (1 - p) ** (k - 1), (0.02,), (1, 50, 900), 9000),
    "hypergeom": (_hypergeometric, (200, 60, 50), (0, 15, 35, 48), 50),
    "logser": (lambda k, p: -(p**k) / k / mp.log1p(-p), (0.7,), (1, 20, 200), 1500),
    "planck": (lambda k, a: -mp.expm1(-a) * mp.exp(-a * k), (0.3,), (0, 20, 900), 4000),
    "dlaplace": (lambda k, a: mp.tanh(a / 2) * mp.exp(-a * abs(k)), (0.8,), (0, 20, 300), 900),
}  # fmt: skip


@pytest.mark.parametrize("name", DISCRETE)
def test_discrete_distributions(name: str) -> None:
    """Probabilities and both tails, by sums; a quantile is the least number that reaches it."""
    pmf, shapes, places, most = DISCRETE[name]
    family = getattr(stats, name)
    first = -most if name == "dlaplace" else int(family.support(*shapes)[0])
    with warnings.catch_warnings(), mp.workdps(DIGITS):
        warnings.simplefilter("ignore")
        terms = {k: pmf(mpf(k), *map(mpf, shapes)) for k in range(first, most + 1)}
        for k in places:
            above = mp.fsum([v for j, v in terms.items() if j > k])
            below = mp.fsum([v for j, v in terms.items() if j <= k])
            exact = {"pmf": terms[k], "cdf": below, "sf": above}
            exact |= {"logpmf": mp.log(terms[k]), "logsf": mp.log(above)}
            for method, value in exact.items():
                found = fgrad.jit(getattr(family, method))(k, *shapes)
                if value > 1e-307 or method.startswith("log"):
                    _close(found, value, (method, k))
            for q in (float(below) * (1 - 1e-9), float(below) * (1 + 1e-9)):
                if q > 1e-300 and terms[k] > 1e-6 * below:  # far from the next one's
                    reached = family.ppf(q, *shapes)
                    found = fgrad.jit(lambda q: family.ppf(q, *shapes))(q)
                    assert found == reached == k + (q > below)
