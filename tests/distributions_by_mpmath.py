"""Distribution functions of scipy.stats by mpmath, of so many digits that 1 - F is exact far out.

`CDF` has formulas of F; `PDF` densities, whose tails are integrals.  A row is a function of a point
and the parameters of `scipy_distributions.SHAPES`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import mpmath as mp

Function = Callable[..., Any]
HALF, PI = mp.mpf(1) / 2, lambda: mp.pi


def _p(a: Any, x: Any) -> Any:
    return mp.gammainc(a, 0, x, regularized=True)


def _i(a: Any, b: Any, x: Any) -> Any:
    """The regularised incomplete beta function; by its other tail where x is nearly 1."""
    if x > HALF:
        return 1 - mp.betainc(b, a, 0, 1 - x, regularized=True)
    return mp.betainc(a, b, 0, x, regularized=True)


def _t(x: Any, df: Any) -> Any:
    tail = _i(df / 2, HALF, df / (df + x * x)) / 2
    return 1 - tail if x > 0 else tail


def _gennorm(x: Any, b: Any) -> Any:
    return HALF + mp.sign(x) * _p(1 / b, abs(x) ** b) / 2


def _invgauss(x: Any, mu: Any) -> Any:
    root = 1 / mp.sqrt(x)
    return mp.ncdf(root * (x / mu - 1)) + mp.exp(2 / mu) * mp.ncdf(-root * (x / mu + 1))


def _argus(x: Any, chi: Any) -> Any:
    def psi(z: Any) -> Any:
        return mp.ncdf(z) - z * mp.npdf(z) - HALF

    return 1 - psi(chi * mp.sqrt(1 - x * x)) / psi(chi)


def _crystalball(x: Any, b: Any, m: Any) -> Any:
    tail = m / b * mp.exp(-b * b / 2) / (m - 1)
    root = mp.sqrt(2 * mp.pi)
    whole = tail + root * mp.ncdf(b)
    if x <= -b:
        return tail * (m / b / (m / b - b - x)) ** (m - 1) / whole
    return (tail + root * (mp.ncdf(x) - mp.ncdf(-b))) / whole


def _genhalflogistic(x: Any, c: Any) -> Any:
    power = (1 - c * x) ** (1 / c)
    return (1 - power) / (1 + power)


def _laplace_asymmetric(x: Any, k: Any) -> Any:
    if x < 0:
        return k * k / (1 + k * k) * mp.exp(x / k)
    return 1 - mp.exp(-k * x) / (1 + k * k)


def _skewcauchy(x: Any, a: Any) -> Any:
    side = 1 + a if x > 0 else 1 - a
    return (1 - a) / 2 + side / mp.pi * mp.atan(x / side)


def _pearson3(x: Any, skew: Any) -> Any:
    rate = 2 / skew
    return _p(rate * rate, rate * (x + rate))


def _triang(x: Any, c: Any) -> Any:
    return x * x / c if x < c else 1 - (1 - x) ** 2 / (1 - c)


def _truncweibull(x: Any, c: Any, a: Any, b: Any) -> Any:
    first, last = mp.exp(-(a**c)), mp.exp(-(b**c))
    return (first - mp.exp(-(x**c))) / (first - last)


def _wrapcauchy(x: Any, c: Any) -> Any:
    found = mp.atan((1 + c) / (1 - c) * mp.tan(x / 2)) / mp.pi
    return found if x < mp.pi else 1 + found


def _logistic(x: Any) -> Any:
    return 1 / (1 + mp.exp(-x))


CDF: dict[str, Function] = {
    "alpha": lambda x, a: mp.ncdf(a - 1 / x) / mp.ncdf(a),
    "anglit": lambda x: mp.sin(x + mp.pi / 4) ** 2,
    "arcsine": lambda x: 2 / mp.pi * mp.asin(mp.sqrt(x)), "argus": _argus,
    "beta": lambda x, a, b: _i(a, b, x), "betaprime": lambda x, a, b: _i(a, b, x / (1 + x)),
    "bradford": lambda x, c: mp.log(1 + c * x) / mp.log(1 + c),
    "burr": lambda x, c, d: (1 + x**-c) ** -d, "burr12": lambda x, c, d: 1 - (1 + x**c) ** -d,
    "cauchy": lambda x: HALF + mp.atan(x) / mp.pi, "chi": lambda x, k: _p(k / 2, x * x / 2),
    "chi2": lambda x, k: _p(k / 2, x / 2),
    "cosine": lambda x: (mp.pi + x + mp.sin(x)) / (2 * mp.pi), "crystalball": _crystalball,
    "dgamma": lambda x, a: HALF + mp.sign(x) * _p(a, abs(x)) / 2,
    "dweibull": lambda x, c: HALF + mp.sign(x) * (1 - mp.exp(-(abs(x) ** c))) / 2,
    "erlang": lambda x, a: _p(a, x), "expon": lambda x: 1 - mp.exp(-x),
    "exponnorm": lambda x, k: mp.ncdf(x) - mp.exp(1 / (2 * k * k) - x / k) * mp.ncdf(x - 1 / k),
    "exponpow": lambda x, b: 1 - mp.exp(1 - mp.exp(x**b)),
    "exponweib": lambda x, a, c: (1 - mp.exp(-(x**c))) ** a,
    "f": lambda x, m, n: _i(m / 2, n / 2, m * x / (n + m * x)),
    "fatiguelife": lambda x, c: mp.ncdf((mp.sqrt(x) - 1 / mp.sqrt(x)) / c),
    "fisk": lambda x, c: 1 / (1 + x**-c),
    "foldcauchy": lambda x, c: (mp.atan(x - c) + mp.atan(x + c)) / mp.pi,
    "foldnorm": lambda x, c: mp.ncdf(x - c) + mp.ncdf(x + c) - 1, "gamma": lambda x, a: _p(a, x),
    "genexpon": lambda x, a, b, c: 1 - mp.exp(-(a + b) * x + b / c * (1 - mp.exp(-c * x))),
    "genextreme": lambda x, c: mp.exp(-((1 - c * x) ** (1 / c))),
    "gengamma": lambda x, a, c: _p(a, x**c), "genhalflogistic": _genhalflogistic,
    "genlogistic": lambda x, c: (1 + mp.exp(-x)) ** -c, "gennorm": _gennorm,
    "genpareto": lambda x, c: 1 - (1 + c * x) ** (-1 / c),
    "gibrat": lambda x: mp.ncdf(mp.log(x)),
    "gompertz": lambda x, c: 1 - mp.exp(-c * mp.expm1(x)),
    "gumbel_l": lambda x: 1 - mp.exp(-mp.exp(x)), "gumbel_r": lambda x: mp.exp(-mp.exp(-x)),
    "halfcauchy": lambda x: 2 / mp.pi * mp.atan(x),
    "halfgennorm": lambda x, b: _p(1 / b, x**b), "halflogistic": lambda x: mp.tanh(x / 2),
    "halfnorm": lambda x: mp.erf(x / mp.sqrt(2)),
    "hypsecant": lambda x: 2 / mp.pi * mp.atan(mp.exp(x)),
    "invgamma": lambda x, a: mp.gammainc(a, 1 / x, mp.inf, regularized=True),
    "invgauss": _invgauss, "invweibull": lambda x, c: mp.exp(-(x**-c)),
    "jf_skew_t": lambda x, a, b: _i(a, b, (1 + x / mp.sqrt(a + b + x * x)) / 2),
    "johnsonsb": lambda x, a, b: mp.ncdf(a + b * mp.log(x / (1 - x))),
    "johnsonsu": lambda x, a, b: mp.ncdf(a + b * mp.asinh(x)),
    "kappa3": lambda x, a: x * (a + x**a) ** (-1 / a),
    "laplace": lambda x: mp.exp(x) / 2 if x < 0 else 1 - mp.exp(-x) / 2,
    "laplace_asymmetric": _laplace_asymmetric,
    "levy": lambda x: mp.erfc(1 / mp.sqrt(2 * x)), "levy_l": lambda x: mp.erf(1 / mp.sqrt(-2 * x)),
    "loggamma": lambda x, c: _p(c, mp.exp(x)), "logistic": _logistic,
    "loglaplace": lambda x, c: x**c / 2 if x < 1 else 1 - x**-c / 2,
    "lognorm": lambda x, s: mp.ncdf(mp.log(x) / s),
    "loguniform": lambda x, a, b: mp.log(x / a) / mp.log(b / a),
    "lomax": lambda x, c: 1 - (1 + x) ** -c, "maxwell": lambda x: _p(3 * HALF, x * x / 2),
    "mielke": lambda x, k, s: x**k / (1 + x**s) ** (k / s),
    "moyal": lambda x: mp.erfc(mp.exp(-x / 2) / mp.sqrt(2)),
    "nakagami": lambda x, nu: _p(nu, nu * x * x), "norm": mp.ncdf,
    "pareto": lambda x, b: 1 - x**-b, "pearson3": _pearson3, "powerlaw": lambda x, a: x**a,
    "powerlognorm": lambda x, c, s: 1 - mp.ncdf(-mp.log(x) / s) ** c,
    "powernorm": lambda x, c: 1 - mp.ncdf(-x) ** c,
    "rayleigh": lambda x: 1 - mp.exp(-x * x / 2),
    "rdist": lambda x, c: _i(c / 2, c / 2, (1 + x) / 2),
    "recipinvgauss": lambda x, mu: 1 - _invgauss(1 / x, mu),
    "reciprocal": lambda x, a, b: mp.log(x / a) / mp.log(b / a),
    "semicircular": lambda x: HALF + (x * mp.sqrt(1 - x * x) + mp.asin(x)) / mp.pi,
    "skewcauchy": _skewcauchy, "t": _t, "triang": _triang,
    "truncexpon": lambda x, b: mp.expm1(-x) / mp.expm1(-b),
    "truncnorm": lambda x, a, b: (mp.ncdf(x) - mp.ncdf(a)) / (mp.ncdf(b) - mp.ncdf(a)),
    "truncpareto": lambda x, b, c: (1 - x**-b) / (1 - c**-b),
    "truncweibull_min": _truncweibull, "wald": lambda x: _invgauss(x, mp.mpf(1)),
    "weibull_max": lambda x, c: mp.exp(-((-x) ** c)),
    "weibull_min": lambda x, c: 1 - mp.exp(-(x**c)), "wrapcauchy": _wrapcauchy,
}  # fmt: skip

PDF: dict[str, Function] = {
    "ncx2": lambda x, k, nc: mp.exp(-(x + nc) / 2) * (x / nc) ** (k / 4 - HALF)
    * mp.besseli(k / 2 - 1, mp.sqrt(nc * x)) / 2,
    "norminvgauss": lambda x, a, b: a / mp.pi * mp.besselk(1, a * mp.sqrt(1 + x * x))
    / mp.sqrt(1 + x * x) * mp.exp(mp.sqrt(a * a - b * b) + b * x),
    "rice": lambda x, b: x * mp.exp(-(x * x + b * b) / 2) * mp.besseli(0, x * b),
    "skewnorm": lambda x, a: 2 * mp.npdf(x) * mp.ncdf(a * x),
    "geninvgauss": lambda x, p, b: x ** (p - 1) * mp.exp(-b * (x + 1 / x) / 2)
    / (2 * mp.besselk(p, b)),
}  # fmt: skip
DIGITS = 330  # of F: the tails compared are above 1e-300


def tails(name: str, x: float, shapes: tuple[float, ...]) -> tuple[Any, Any]:
    """F(x) and 1 - F(x)."""
    at, given = mp.mpf(x), [mp.mpf(s) for s in shapes]
    if name in CDF:
        with mp.workdps(DIGITS):
            found = mp.mpf(CDF[name](at, *given))
            return found, 1 - found
    with mp.workdps(30):
        f = lambda x: PDF[name](x, *given)  # noqa: E731
        far = abs(mp.diff(lambda x: mp.log(f(x)), at)) or mp.mpf(1)
        steps = [at + sign * 2**k / far for sign in (1,) for k in range(-2, 9)]
        above = mp.quad(f, [at, *steps])
        low = mp.mpf(0) if name in ("ncx2", "rice", "geninvgauss") else -mp.inf
        down = [at - 2**k / far for k in range(-2, 9) if at - 2**k / far > low]
        below = mp.quad(f, [at, *down, *([low] if low == 0 else [])]) * -1
        return below, above
