"""L7. Further continuous distributions, one formula each, as in SciPy's documentation of them.

Where no distribution function is given it is SciPy's own, with derivatives in the point alone.
"""

from __future__ import annotations

import math

import numpy as np

from fgrad.ops.elementwise import lit
from fgrad.scipy import special as sp
from fgrad.scipy.stats.families import Continuous, Rule
from fgrad.scipy.stats.tails import (
    alpha_above,
    argus,
    argus_below,
    folded_cauchy_below,
    folded_normal_below,
    jf_below,
    jf_sum,
    log_gamma_below,
    log_gamma_quantile,
    log_share,
    mielke_above,
    pearson_below,
    pearson_ends,
    power_of_normal,
    skew_cauchy_below,
    weibull_gap,
)
from fgrad.trace import Value

_LOG_ROOT_TWO_PI = 0.5 * math.log(2 * math.pi)
_HALF = (0.0, math.inf)
_UNIT = (0.0, 1.0)


def _normal(z: Value) -> Value:
    return -0.5 * z * z - _LOG_ROOT_TWO_PI


def power_log(z: Value, c: Value) -> Value:
    """log(1 + c z) / c, which is z at c = 0."""
    none = c == 0
    return np.where(none, z, np.log1p(c * z) / np.where(none, lit(c, 1), c))


def _log_less(x: Value) -> Value:
    """log(1 - exp(-x))."""
    large = x > 0.7
    low, high = np.where(large, lit(x, 1), x), np.where(large, x, lit(x, 1))
    return np.where(large, np.log1p(-np.exp(-high)), np.log(-np.expm1(-low)))


def unpower(y: Value, c: Value) -> Value:
    """Its inverse, (exp(c y) - 1) / c."""
    none = c == 0
    return np.where(none, y, np.expm1(c * y) / np.where(none, lit(c, 1), c))


def _signed(z: Value, tail: Rule, *shapes: Value) -> Value:
    """The distribution function of a symmetric one, by the tail beyond |z|."""
    beyond = 0.5 * tail(np.abs(z), *shapes)
    return np.where(z > 0, 1 - beyond, beyond)


def _crystal_norm(beta: Value, m: Value) -> Value:
    tail = m / beta / (m - 1) * np.exp(-0.5 * beta * beta)
    return -np.log(tail + math.sqrt(2 * math.pi) * sp.ndtr(beta))


def _crystal(z: Value, beta: Value, m: Value) -> Value:
    inner = z > -beta
    below = np.where(inner, -beta, z)
    power = -m * np.log(1 - beta / m * (beta + below)) - 0.5 * beta * beta
    return _crystal_norm(beta, m) + np.where(inner, -0.5 * z * z, power)


def _crystal_cdf(z: Value, beta: Value, m: Value) -> Value:
    below = np.where(z > -beta, -beta, z)
    base = 1 - beta / m * (beta + below)
    tail = m / beta / (m - 1) * np.exp(-0.5 * beta * beta + (1 - m) * np.log(base))
    rest = math.sqrt(2 * math.pi) * (sp.ndtr(z) - sp.ndtr(-beta))
    return np.exp(_crystal_norm(beta, m)) * (tail + np.where(z > -beta, rest, lit(z, 0)))


def _crystal_sf(z: Value, beta: Value, m: Value) -> Value:
    upper = np.exp(_crystal_norm(beta, m)) * math.sqrt(2 * math.pi) * sp.ndtr(-z)
    return np.where(z > -beta, upper, 1 - _crystal_cdf(z, beta, m))


def _exponnorm_tail(z: Value, k: Value) -> Value:
    return 0.5 / (k * k) - z / k + sp.log_ndtr(z - 1 / k)


def _birnbaum(q: Value, c: Value) -> Value:
    t = c * sp.ndtri(q)
    return 0.25 * (t + np.sqrt(t * t + 4)) ** 2


def _genexpon_log_sf(z: Value, a: Value, b: Value, c: Value) -> Value:
    return -(a + b) * z - b * np.expm1(-c * z) / c


def _jf_density(z: Value, a: Value, b: Value) -> Value:
    below, above = np.log(jf_sum(z, a + b)), np.log(jf_sum(-z, a + b))
    scale = (a + b - 1) * math.log(2) + sp.betaln(a, b) + 0.5 * np.log(a + b)
    return (a + 0.5) * below + (b + 0.5) * above - scale


def _asymmetric(z: Value, k: Value) -> Value:
    return -np.log(k + 1 / k) - np.where(z >= 0, z * k, -z / k)


def _asymmetric_cdf(z: Value, k: Value) -> Value:
    right = np.where(z >= 0, z, lit(z, 0))
    left = np.where(z >= 0, lit(z, 0), z)
    upper = 1 - np.exp(-right * k) / (k * (k + 1 / k))
    return np.where(z >= 0, upper, k / (k + 1 / k) * np.exp(left / k))


def _normal_inverse(z: Value, a: Value, b: Value) -> Value:
    s = np.sqrt(1 + z * z)
    scale = np.sqrt(a * a - b * b) + b * z - a * s
    return np.log(a) + np.log(sp.k1e(a * s)) - np.log(math.pi * s) + scale


def _pearson(z: Value, skew: Value) -> Value:
    none = np.abs(skew) < 1.6e-5
    safe = np.where(none, lit(skew, 1), skew)
    beta = 2 / safe
    alpha = beta * beta
    y = beta * (z + beta)
    y = np.where(none | (y < 0), lit(y, 1), y)
    gamma = np.log(np.abs(beta)) + sp.xlogy(alpha - 1, y) - y - sp.gammaln(alpha)
    return np.where(none, _normal(z), gamma)


def _breit(rho: Value) -> Value:
    root = np.sqrt(1 + 1 / (rho * rho))
    return 0.5 * np.log(2 * root * root / (1 + root)) + math.log(2 / math.pi)


def _any(*_: Value) -> bool:
    return True


def _nonnegative(c: Value) -> Value:
    return c >= 0


def _ends_of_power(c: Value) -> tuple[float, Value]:
    """Where 1 - c z is positive, from 0 on."""
    return 0.0, 1 / c


FAMILIES: tuple[Continuous, ...] = (
    Continuous(
        "alpha", "a",
        logpdf=lambda z, a: -2 * np.log(z) + _normal(a - 1 / z) - sp.log_ndtr(a),
        support=_HALF, inside=1.0, open_below=True,
        cdf=lambda z, a: sp.ndtr(a - 1 / z) / sp.ndtr(a), sf=alpha_above,
        ppf=lambda q, a: 1 / (a - sp.ndtri(q * sp.ndtr(a))),
    ),
    Continuous(
        "anglit", logpdf=lambda z: np.log(np.cos(2 * z)), support=(-math.pi / 4, math.pi / 4),
        cdf=lambda z: np.sin(z + math.pi / 4) ** 2, sf=lambda z: np.sin(math.pi / 4 - z) ** 2,
        ppf=lambda q: np.arcsin(np.sqrt(q)) - math.pi / 4,
    ),
    Continuous(
        "arcsine", logpdf=lambda z: -math.log(math.pi) - 0.5 * (np.log(z) + np.log1p(-z)),
        support=_UNIT, inside=0.5, cdf=lambda z: 2 / math.pi * np.arcsin(np.sqrt(z)),
        ppf=lambda q: np.sin(0.5 * math.pi * q) ** 2,
    ),
    Continuous(
        "argus", "chi",
        logpdf=lambda z, chi: (
            3 * np.log(chi) - np.log(0.5 * argus(chi)) - _LOG_ROOT_TWO_PI + np.log(z)
            + 0.5 * np.log1p(-z * z) - 0.5 * chi * chi * (1 - z * z)
        ),
        support=_UNIT, inside=0.5,
        cdf=argus_below,
        sf=lambda z, chi: argus(chi * np.sqrt(1 - z * z)) / argus(chi),
    ),
    Continuous(
        "betaprime", "a b",
        logpdf=lambda z, a, b: sp.xlogy(a - 1, z) - sp.xlog1py(a + b, z) - sp.betaln(a, b),
        support=_HALF, inside=1.0, cdf=lambda z, a, b: sp.betainc(a, b, z / (1 + z)),
        sf=lambda z, a, b: sp.betainc(b, a, 1 / (1 + z)),
    ),
    Continuous(
        "bradford", "c",
        logpdf=lambda z, c: np.log(c) - np.log1p(c * z) - np.log(np.log1p(c)),
        support=_UNIT, cdf=lambda z, c: np.log1p(c * z) / np.log1p(c),
        ppf=lambda q, c: np.expm1(q * np.log1p(c)) / c,
    ),
    Continuous(
        "burr", "c d",
        logpdf=lambda z, c, d: (
            np.log(c) + np.log(d) + (c * d - 1) * np.log(z) - (d + 1) * np.log1p(z**c)
        ),
        support=_HALF, inside=1.0, cdf=lambda z, c, d: (1 + z**-c) ** -d,
        logcdf=lambda z, c, d: -d * np.logaddexp(lit(z, 0), -c * np.log(z)),
        sf=lambda z, c, d: -np.expm1(-d * np.log1p(z**-c)),
        ppf=lambda q, c, d: (q ** (-1 / d) - 1) ** (-1 / c),
    ),
    Continuous(
        "burr12", "c d",
        logpdf=lambda z, c, d: (
            np.log(c) + np.log(d) + sp.xlogy(c - 1, z) - (d + 1) * np.log1p(z**c)
        ),
        support=_HALF, inside=1.0, cdf=lambda z, c, d: -np.expm1(-d * np.log1p(z**c)),
        sf=lambda z, c, d: (1 + z**c) ** -d, logsf=lambda z, c, d: -d * np.log1p(z**c),
        ppf=lambda q, c, d: np.expm1(-np.log1p(-q) / d) ** (1 / c),
    ),
    Continuous(
        "crystalball", "beta m", logpdf=_crystal, valid=lambda beta, m: (beta > 0) & (m > 1),
        cdf=_crystal_cdf, sf=_crystal_sf,
    ),
    Continuous(
        "dgamma", "a",
        logpdf=lambda z, a: (
            sp.xlogy(a - 1, np.abs(z)) - np.abs(z) - math.log(2) - sp.gammaln(a)
        ),
        inside=1.0, cdf=lambda z, a: _signed(z, lambda x, a: sp.gammaincc(a, x), a),
        sf=lambda z, a: _signed(-z, lambda x, a: sp.gammaincc(a, x), a),
    ),
    Continuous(
        "dweibull", "c",
        logpdf=lambda z, c: (
            np.log(c) - math.log(2) + sp.xlogy(c - 1, np.abs(z)) - np.abs(z) ** c
        ),
        inside=1.0, cdf=lambda z, c: _signed(z, lambda x, c: np.exp(-(x**c)), c),
        sf=lambda z, c: _signed(-z, lambda x, c: np.exp(-(x**c)), c),
    ),
    Continuous(
        "erlang", "a",
        logpdf=lambda z, a: sp.xlogy(a - 1, z) - z - sp.gammaln(a), support=_HALF, inside=1.0,
        cdf=lambda z, a: sp.gammainc(a, z), sf=lambda z, a: sp.gammaincc(a, z),
        ppf=lambda q, a: sp.gammaincinv(a, q),
    ),
    Continuous(
        "exponnorm", "K", logpdf=lambda z, k: _exponnorm_tail(z, k) - np.log(k),
        cdf=lambda z, k: sp.ndtr(z) - np.exp(_exponnorm_tail(z, k)),
        sf=lambda z, k: sp.ndtr(-z) + np.exp(_exponnorm_tail(z, k)),
    ),
    Continuous(
        "exponpow", "b",
        logpdf=lambda z, b: 1 + np.log(b) + sp.xlogy(b - 1, z) + z**b - np.exp(z**b),
        support=_HALF, inside=1.0, cdf=lambda z, b: -np.expm1(-np.expm1(z**b)),
        sf=lambda z, b: np.exp(-np.expm1(z**b)),
        ppf=lambda q, b: np.log1p(-np.log1p(-q)) ** (1 / b),
    ),
    Continuous(
        "exponweib", "a c",
        logpdf=lambda z, a, c: (
            np.log(a) + np.log(c) + sp.xlogy(a - 1, -np.expm1(-(z**c))) - z**c
            + sp.xlogy(c - 1, z)
        ),
        support=_HALF, inside=1.0, cdf=lambda z, a, c: (-np.expm1(-(z**c))) ** a,
        sf=lambda z, a, c: -np.expm1(a * _log_less(z**c)),
        ppf=lambda q, a, c: (-np.log1p(-(q ** (1 / a)))) ** (1 / c),
    ),
    Continuous(
        "fatiguelife", "c",
        logpdf=lambda z, c: (
            np.log1p(z) - (z - 1) ** 2 / (2 * z * c * c) - math.log(2) - np.log(c)
            - _LOG_ROOT_TWO_PI - 1.5 * np.log(z)
        ),
        support=_HALF, inside=1.0, open_below=True,
        cdf=lambda z, c: sp.ndtr((np.sqrt(z) - 1 / np.sqrt(z)) / c),
        sf=lambda z, c: sp.ndtr((1 / np.sqrt(z) - np.sqrt(z)) / c), ppf=_birnbaum,
    ),
    Continuous(
        "fisk", "c",
        logpdf=lambda z, c: np.log(c) + sp.xlogy(c - 1, z) - 2 * np.log1p(z**c),
        support=_HALF, inside=1.0, cdf=lambda z, c: 1 / (1 + z**-c),
        sf=lambda z, c: 1 / (1 + z**c), ppf=lambda q, c: (q / (1 - q)) ** (1 / c),
    ),
    Continuous(
        "foldcauchy", "c",
        logpdf=lambda z, c: (
            np.log(1 / (1 + (z - c) ** 2) + 1 / (1 + (z + c) ** 2)) - math.log(math.pi)
        ),
        support=_HALF, valid=_nonnegative,
        cdf=folded_cauchy_below,
        sf=lambda z, c: (np.arctan2(lit(z, 1), z - c) + np.arctan2(lit(z, 1), z + c)) / math.pi,
    ),
    Continuous(
        "foldnorm", "c", logpdf=lambda z, c: np.logaddexp(_normal(z - c), _normal(z + c)),
        support=_HALF, valid=_nonnegative, cdf=folded_normal_below,
        sf=lambda z, c: sp.ndtr(c - z) + sp.ndtr(-z - c),
    ),
    Continuous(
        "genexpon", "a b c",
        logpdf=lambda z, a, b, c: (
            np.log(a - b * np.expm1(-c * z)) + _genexpon_log_sf(z, a, b, c)
        ),
        support=_HALF, cdf=lambda z, a, b, c: -np.expm1(_genexpon_log_sf(z, a, b, c)),
        sf=lambda z, a, b, c: np.exp(_genexpon_log_sf(z, a, b, c)), logsf=_genexpon_log_sf,
    ),
    Continuous(
        "genextreme", "c",
        logpdf=lambda z, c: -(1 - c) * power_log(z, -c) - np.exp(-power_log(z, -c)),
        support=lambda c: (
            np.where(c < 0, 1 / np.where(c == 0, lit(c, 1), c), lit(c, -math.inf)),
            np.where(c > 0, 1 / np.where(c == 0, lit(c, 1), c), lit(c, math.inf)),
        ),
        valid=_any, open_below=True, cdf=lambda z, c: np.exp(-np.exp(-power_log(z, -c))),
        sf=lambda z, c: -np.expm1(-np.exp(-power_log(z, -c))),
        logcdf=lambda z, c: -np.exp(-power_log(z, -c)),
        ppf=lambda q, c: unpower(-np.log(-np.log(q)), -c),
    ),
    Continuous(
        "gengamma", "a c",
        logpdf=lambda z, a, c: (
            np.where((z == 0) & (c < 0), -np.inf, np.log(np.abs(c)) + sp.xlogy(c * a - 1, z) - z**c)
            - sp.gammaln(a)
        ),
        support=_HALF, inside=1.0, valid=lambda a, c: (a > 0) & (c != 0),
        cdf=lambda z, a, c: np.where(c > 0, sp.gammainc(a, z**c), sp.gammaincc(a, z**c)),
        sf=lambda z, a, c: np.where(c > 0, sp.gammaincc(a, z**c), sp.gammainc(a, z**c)),
    ),
    Continuous(
        "genhalflogistic", "c",
        logpdf=lambda z, c: (
            math.log(2) + (1 - c) * -power_log(z, -c) - 2 * np.log1p(np.exp(-power_log(z, -c)))
        ),
        support=_ends_of_power, cdf=lambda z, c: np.tanh(0.5 * power_log(z, -c)),
        ppf=lambda q, c: unpower(2 * np.arctanh(q), -c),
    ),
    Continuous(
        "genlogistic", "c",
        logpdf=lambda z, c: np.log(c) + (c + 1) * sp.log_expit(z) - z,
        cdf=lambda z, c: np.exp(c * sp.log_expit(z)), logcdf=lambda z, c: c * sp.log_expit(z),
        sf=lambda z, c: -np.expm1(c * sp.log_expit(z)),
        ppf=lambda q, c: -np.log(q ** (-1 / c) - 1),
    ),
    Continuous(
        "genpareto", "c", logpdf=lambda z, c: -(1 + c) * power_log(z, c),
        support=lambda c: (
            0.0, np.where(c < 0, -1 / np.where(c == 0, lit(c, 1), c), lit(c, math.inf)),
        ),
        valid=_any, cdf=lambda z, c: -np.expm1(-power_log(z, c)),
        sf=lambda z, c: np.exp(-power_log(z, c)), logsf=lambda z, c: -power_log(z, c),
        ppf=lambda q, c: unpower(-np.log1p(-q), c),
    ),
    Continuous(
        "gibrat", logpdf=lambda z: _normal(np.log(z)) - np.log(z), support=_HALF, inside=1.0,
        open_below=True, cdf=lambda z: sp.ndtr(np.log(z)), sf=lambda z: sp.ndtr(-np.log(z)),
        ppf=lambda q: np.exp(sp.ndtri(q)),
    ),
    Continuous(
        "gompertz", "c", logpdf=lambda z, c: np.log(c) + z - c * np.expm1(z), support=_HALF,
        cdf=lambda z, c: -np.expm1(-c * np.expm1(z)), sf=lambda z, c: np.exp(-c * np.expm1(z)),
        logsf=lambda z, c: -c * np.expm1(z), ppf=lambda q, c: np.log1p(-np.log1p(-q) / c),
    ),
    Continuous(
        "halfgennorm", "beta",
        logpdf=lambda z, beta: np.log(beta) - sp.gammaln(1 / beta) - z**beta,
        support=_HALF, inside=1.0, cdf=lambda z, beta: sp.gammainc(1 / beta, z**beta),
        sf=lambda z, beta: sp.gammaincc(1 / beta, z**beta),
        ppf=lambda q, beta: sp.gammaincinv(1 / beta, q) ** (1 / beta),
    ),
    Continuous(
        "halflogistic", logpdf=lambda z: math.log(2) - z - 2 * np.log1p(np.exp(-z)), support=_HALF,
        cdf=lambda z: np.tanh(0.5 * z), sf=lambda z: 2 * sp.expit(-z),
        ppf=lambda q: 2 * np.arctanh(q),
    ),
    Continuous(
        "hypsecant",
        logpdf=lambda z: (
            math.log(2 / math.pi) - np.abs(z) - np.log1p(np.exp(-2 * np.abs(z)))
        ),
        cdf=lambda z: 2 / math.pi * np.arctan(np.exp(z)),
        sf=lambda z: 2 / math.pi * np.arctan(np.exp(-z)),
        ppf=lambda q: np.log(np.tan(0.5 * math.pi * q)),
    ),
    Continuous(
        "invweibull", "c", logpdf=lambda z, c: np.log(c) - (c + 1) * np.log(z) - z**-c,
        support=_HALF, inside=1.0, open_below=True, cdf=lambda z, c: np.exp(-(z**-c)),
        sf=lambda z, c: -np.expm1(-(z**-c)), logcdf=lambda z, c: -(z**-c),
        ppf=lambda q, c: (-np.log(q)) ** (-1 / c),
    ),
    Continuous(
        "jf_skew_t", "a b", logpdf=_jf_density,
        cdf=jf_below, sf=lambda z, a, b: jf_below(-z, b, a),
    ),
    Continuous(
        "johnsonsb", "a b", open_below=True, open_above=True,
        logpdf=lambda z, a, b: (
            np.log(b) - np.log(z) - np.log1p(-z) + _normal(a + b * sp.logit(z))
        ),
        support=_UNIT, inside=0.5, valid=lambda a, b: b > 0,
        cdf=lambda z, a, b: sp.ndtr(a + b * sp.logit(z)),
        sf=lambda z, a, b: sp.ndtr(-a - b * sp.logit(z)),
        ppf=lambda q, a, b: sp.expit((sp.ndtri(q) - a) / b),
    ),
    Continuous(
        "johnsonsu", "a b",
        logpdf=lambda z, a, b: (
            np.log(b) - 0.5 * np.log1p(z * z) + _normal(a + b * np.arcsinh(z))
        ),
        valid=lambda a, b: b > 0, cdf=lambda z, a, b: sp.ndtr(a + b * np.arcsinh(z)),
        sf=lambda z, a, b: sp.ndtr(-a - b * np.arcsinh(z)),
        ppf=lambda q, a, b: np.sinh((sp.ndtri(q) - a) / b),
    ),
    Continuous(
        "kappa3", "a", logpdf=lambda z, a: np.log(a) - (a + 1) / a * np.log(a + z**a),
        support=_HALF, inside=1.0, cdf=lambda z, a: z * (a + z**a) ** (-1 / a),
        sf=lambda z, a: -np.expm1(-np.log1p(a * z**-a) / a),
        ppf=lambda q, a: (a / (q**-a - 1)) ** (1 / a),
    ),
    Continuous(
        "laplace_asymmetric", "kappa", logpdf=_asymmetric, cdf=_asymmetric_cdf,
        sf=lambda z, kappa: _asymmetric_cdf(-z, 1 / kappa),
    ),
    Continuous(
        "levy_l", logpdf=lambda z: -_LOG_ROOT_TWO_PI - 1.5 * np.log(-z) + 0.5 / z,
        support=(-math.inf, 0.0), inside=-1.0, open_above=True,
        cdf=lambda z: sp.erf(np.sqrt(-0.5 / z)),
        sf=lambda z: sp.erfc(np.sqrt(-0.5 / z)),
    ),
    Continuous(
        "loggamma", "c", logpdf=lambda z, c: c * z - np.exp(z) - sp.gammaln(c),
        cdf=log_gamma_below, sf=lambda z, c: sp.gammaincc(c, np.exp(z)), ppf=log_gamma_quantile,
    ),
    Continuous(
        "loglaplace", "c",
        logpdf=lambda z, c: (
            np.log(0.5 * c) + np.where(z < 1, sp.xlogy(c - 1, z), -(c + 1) * np.log(z))
        ),
        support=_HALF, inside=1.0,
        cdf=lambda z, c: np.where(z < 1, 0.5 * z**c, 1 - 0.5 * z**-c),
        sf=lambda z, c: np.where(z < 1, 1 - 0.5 * z**c, 0.5 * z**-c),
        ppf=lambda q, c: np.where(q < 0.5, (2 * q) ** (1 / c), (2 * (1 - q)) ** (-1 / c)),
    ),
    Continuous(
        "lomax", "c", logpdf=lambda z, c: np.log(c) - (c + 1) * np.log1p(z), support=_HALF,
        cdf=lambda z, c: -np.expm1(-c * np.log1p(z)), sf=lambda z, c: np.exp(-c * np.log1p(z)),
        logsf=lambda z, c: -c * np.log1p(z), ppf=lambda q, c: np.expm1(-np.log1p(-q) / c),
    ),
    Continuous(
        "mielke", "k s",
        logpdf=lambda z, k, s: np.log(k) + sp.xlogy(k - 1, z) - (1 + k / s) * np.log1p(z**s),
        support=_HALF, inside=1.0, cdf=lambda z, k, s: z**k / (1 + z**s) ** (k / s),
        sf=mielke_above,
        ppf=lambda q, k, s: (q ** (s / k) / (1 - q ** (s / k))) ** (1 / s),
    ),
    Continuous(
        "moyal", logpdf=lambda z: -0.5 * (z + np.exp(-z)) - _LOG_ROOT_TWO_PI,
        cdf=lambda z: sp.erfc(np.exp(-0.5 * z) / math.sqrt(2)),
        sf=lambda z: sp.erf(np.exp(-0.5 * z) / math.sqrt(2)),
    ),
    Continuous(
        "nakagami", "nu",
        logpdf=lambda z, nu: (
            math.log(2) + nu * np.log(nu) - sp.gammaln(nu) + sp.xlogy(2 * nu - 1, z) - nu * z * z
        ),
        support=_HALF, inside=1.0, cdf=lambda z, nu: sp.gammainc(nu, nu * z * z),
        sf=lambda z, nu: sp.gammaincc(nu, nu * z * z),
        ppf=lambda q, nu: np.sqrt(sp.gammaincinv(nu, q) / nu),
    ),
    Continuous(
        "norminvgauss", "a b", logpdf=_normal_inverse,
        valid=lambda a, b: (a > 0) & (np.abs(b) < a),
    ),
    Continuous(
        "pearson3", "skew", logpdf=_pearson, support=pearson_ends, valid=_any,
        cdf=pearson_below, sf=lambda z, skew: pearson_below(-z, -skew),
    ),
    Continuous(
        "powerlognorm", "c s",
        logpdf=lambda z, c, s: (
            np.log(c) - np.log(z * s) + _normal(np.log(z) / s)
            + (c - 1) * sp.log_ndtr(-np.log(z) / s)
        ),
        support=_HALF, inside=1.0, open_below=True,
        cdf=lambda z, c, s: -np.expm1(c * sp.log_ndtr(-np.log(z) / s)),
        sf=lambda z, c, s: np.exp(c * sp.log_ndtr(-np.log(z) / s)),
        logsf=lambda z, c, s: c * sp.log_ndtr(-np.log(z) / s),
        ppf=lambda q, c, s: np.exp(s * power_of_normal(q, c)),
    ),
    Continuous(
        "powernorm", "c", logpdf=lambda z, c: np.log(c) + _normal(z) + (c - 1) * sp.log_ndtr(-z),
        cdf=lambda z, c: -np.expm1(c * sp.log_ndtr(-z)),
        sf=lambda z, c: np.exp(c * sp.log_ndtr(-z)), logsf=lambda z, c: c * sp.log_ndtr(-z),
        ppf=power_of_normal,
    ),
    Continuous(
        "rdist", "c",
        logpdf=lambda z, c: sp.xlog1py(0.5 * c - 1, -z * z) - sp.betaln(lit(c, 0.5), 0.5 * c),
        support=(-1.0, 1.0), cdf=lambda z, c: sp.betainc(0.5 * c, 0.5 * c, 0.5 * (z + 1)),
        sf=lambda z, c: sp.betainc(0.5 * c, 0.5 * c, 0.5 * (1 - z)),
        ppf=lambda q, c: 2 * sp.betaincinv(0.5 * c, 0.5 * c, q) - 1,
    ),
    Continuous(
        "recipinvgauss", "mu",
        logpdf=lambda z, mu: (
            -(1 - mu * z) ** 2 / (2 * z * mu * mu) - _LOG_ROOT_TWO_PI - 0.5 * np.log(z)
        ),
        support=_HALF, inside=1.0, open_below=True,
        cdf=lambda z, mu: (
            sp.ndtr((z - 1 / mu) / np.sqrt(z))
            - np.exp(2 / mu + sp.log_ndtr(-(1 / mu + z) / np.sqrt(z)))
        ),
        sf=lambda z, mu: (
            sp.ndtr((1 / mu - z) / np.sqrt(z))
            + np.exp(2 / mu + sp.log_ndtr(-(1 / mu + z) / np.sqrt(z)))
        ),
    ),
    Continuous(
        "reciprocal", "a b",
        logpdf=lambda z, a, b: -np.log(z) - np.log(np.log(b) - np.log(a)),
        support=lambda a, b: (a, b), inside=lambda a, b: 0.5 * (a + b),
        valid=lambda a, b: (a > 0) & (b > a),
        cdf=log_share, sf=lambda z, a, b: log_share(z, b, a),
        ppf=lambda q, a, b: np.exp(np.log(a) + q * (np.log(b) - np.log(a))),
    ),
    Continuous(
        "rel_breitwigner", "rho",
        logpdf=lambda z, rho: (
            _breit(rho) - np.log1p(((z - rho) * (z + rho) / rho) ** 2)
        ),
        support=_HALF, inside=1.0,
    ),
    Continuous(
        "rice", "b",
        logpdf=lambda z, b: np.log(z) - 0.5 * (z - b) ** 2 + np.log(sp.i0e(z * b)),
        support=_HALF, inside=1.0, valid=_nonnegative,
    ),
    Continuous(
        "semicircular", logpdf=lambda z: math.log(2 / math.pi) + 0.5 * np.log1p(-z * z),
        support=(-1.0, 1.0),
        cdf=lambda z: sp.betainc(lit(z, 1.5), lit(z, 1.5), 0.5 * (1 + z)),
        sf=lambda z: sp.betainc(lit(z, 1.5), lit(z, 1.5), 0.5 * (1 - z)),
    ),
    Continuous(
        "skewcauchy", "a",
        logpdf=lambda z, a: (
            -math.log(math.pi) - np.log1p((z / (1 + a * np.sign(z))) ** 2)
        ),
        valid=lambda a: np.abs(a) < 1, cdf=skew_cauchy_below,
        sf=lambda z, a: skew_cauchy_below(-z, -a),
    ),
    Continuous(
        "truncexpon", "b", logpdf=lambda z, b: -z - np.log(-np.expm1(-b)),
        support=lambda b: (0.0, b), cdf=lambda z, b: np.expm1(-z) / np.expm1(-b),
        sf=lambda z, b: np.exp(-z) * np.expm1(z - b) / np.expm1(-b),
        ppf=lambda q, b: -np.log1p(q * np.expm1(-b)),
    ),
    Continuous(
        "truncpareto", "b c",
        logpdf=lambda z, b, c: np.log(b / -np.expm1(-b * np.log(c))) - (b + 1) * np.log(z),
        support=lambda b, c: (1.0, c), inside=1.0, valid=lambda b, c: (b != 0) & (c > 1),
        cdf=lambda z, b, c: np.expm1(-b * np.log(z)) / np.expm1(-b * np.log(c)),
        sf=lambda z, b, c: z**-b * np.expm1(b * np.log(z / c)) / np.expm1(-b * np.log(c)),
        ppf=lambda q, b, c: np.exp(-np.log1p(q * np.expm1(-b * np.log(c))) / b),
    ),
    Continuous(
        "truncweibull_min", "c a b",
        logpdf=lambda z, c, a, b: (
            np.log(c) + sp.xlogy(c - 1, z) - z**c - weibull_gap(c, a, b)
        ),
        support=lambda c, a, b: (a, b), inside=lambda c, a, b: 0.5 * (a + b),
        valid=lambda c, a, b: (a >= 0) & (b > a) & (c > 0),
        cdf=lambda z, c, a, b: np.exp(weibull_gap(c, a, z) - weibull_gap(c, a, b)),
        sf=lambda z, c, a, b: np.exp(weibull_gap(c, z, b) - weibull_gap(c, a, b)),
    ),
    Continuous(
        "vonmises_line", "kappa",
        logpdf=lambda z, kappa: (
            kappa * (np.cos(z) - 1) - math.log(2 * math.pi) - np.log(sp.i0e(kappa))
        ),
        support=(-math.pi, math.pi), valid=_nonnegative,
    ),
    Continuous(
        "weibull_max", "c",
        logpdf=lambda z, c: np.log(c) + sp.xlogy(c - 1, -z) - (-z) ** c,
        support=(-math.inf, 0.0), inside=-1.0, cdf=lambda z, c: np.exp(-((-z) ** c)),
        sf=lambda z, c: -np.expm1(-((-z) ** c)), logcdf=lambda z, c: -((-z) ** c),
        ppf=lambda q, c: -((-np.log(q)) ** (1 / c)),
    ),
    Continuous(
        "wrapcauchy", "c",
        logpdf=lambda z, c: (
            np.log1p(-c * c) - math.log(2 * math.pi) - np.log(1 + c * c - 2 * c * np.cos(z))
        ),
        support=(0.0, 2 * math.pi), inside=1.0, valid=lambda c: (c > 0) & (c < 1),
    ),
)  # fmt: skip

MORE_CONTINUOUS: dict[str, Continuous] = {family.name: family for family in FAMILIES}
