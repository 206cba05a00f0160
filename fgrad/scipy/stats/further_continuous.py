"""L7. The rarer continuous distributions: non-central ones, sums, statistics of tests.

Where a density has no formula it is SciPy's own; its derivative is then refused, but that of the
distribution function is the density.
"""

from __future__ import annotations

import math

import numpy as np

from fgrad.ops.elementwise import lit
from fgrad.scipy import special as sp
from fgrad.scipy.special._inverses import kolmogorov_slope, smirnov_density
from fgrad.scipy.special._noncentral import (
    CHI,
    SNEDECOR,
    STUDENT,
    ncf_log_density,
    nct_log_density,
    ncx2_log_density,
    slope_of,
    upper_tail,
)
from fgrad.scipy.special._table import tabulated
from fgrad.scipy.stats.families import Continuous, plain
from fgrad.scipy.stats.integrals import (
    gauss_hypergeometric,
    generalised_hyperbolic,
    generalised_inverse_gauss,
    landau,
)
from fgrad.scipy.stats.more_continuous import power_log, unpower
from fgrad.trace import Value

_HALF = (0.0, math.inf)
_UNIT = (0.0, 1.0)
_LOG_ROOT_TWO_PI = 0.5 * math.log(2 * math.pi)

ncx2_sf = upper_tail("ncx2_sf", CHI, lambda x, v, nc: plain.ncx2.sf(x, v, nc))
ncf_sf = upper_tail("ncf_sf", SNEDECOR, lambda m, n, nc, x: plain.ncf.sf(x, m, n, nc))
nct_sf = upper_tail("nct_sf", STUDENT, lambda df, nc, t: plain.nct.sf(t, df, nc))

# --- statistics of Kolmogorov and Smirnov, of ranges, sums of uniform numbers ---------------------

kstwo_density = tabulated("kstwo_pdf", "x", None, evaluate=lambda d, n: plain.kstwo.pdf(d, n))
kstwo_cdf = tabulated(
    "kstwo_cdf", lambda d, n, out: kstwo_density(d, n), None,
    evaluate=lambda d, n: plain.kstwo.cdf(d, n),
)  # fmt: skip
kstwo_sf = tabulated(
    "kstwo_sf", lambda d, n, out: -kstwo_density(d, n), None,
    evaluate=lambda d, n: plain.kstwo.sf(d, n),
)  # fmt: skip
ksone_cdf = tabulated(
    "ksone_cdf", lambda d, n, out: smirnov_density(n, d), None,
    evaluate=lambda d, n: plain.ksone.cdf(d, n),
)  # fmt: skip
kolmogorov_cdf = tabulated(
    "kolmogorov_cdf", lambda y, out: -kolmogorov_slope(y),
    evaluate=lambda y: plain.kstwobign.cdf(y),
)  # fmt: skip
range_density = tabulated(
    "studentized_range_pdf", "x", "k", "df",
    evaluate=lambda x, k, df: plain.studentized_range.pdf(x, k, df),
)  # fmt: skip
range_cdf = tabulated(
    "studentized_range_cdf", lambda x, k, df, out: range_density(x, k, df), "k", "df",
    evaluate=lambda x, k, df: plain.studentized_range.cdf(x, k, df),
)  # fmt: skip
range_sf = tabulated(
    "studentized_range_sf", lambda x, k, df, out: -range_density(x, k, df), "k", "df",
    evaluate=lambda x, k, df: plain.studentized_range.sf(x, k, df),
)  # fmt: skip
landau_log_density = tabulated(
    "landau_logpdf", lambda x, out: slope_of(landau, 0, x),
    evaluate=lambda x: plain.landau.logpdf(x),
)  # fmt: skip
landau_cdf = tabulated(
    "landau_cdf", lambda x, out: np.exp(landau_log_density(x)),
    evaluate=lambda x: plain.landau.cdf(x),
)  # fmt: skip
landau_sf = tabulated(
    "landau_sf", lambda x, out: -np.exp(landau_log_density(x)),
    evaluate=lambda x: plain.landau.sf(x),
)  # fmt: skip


def _irwin_hall(x: Value, n: Value) -> Value:
    """The derivative of the density of n numbers, f_(n-1)(x) - f_(n-1)(x - 1)."""
    one = n <= 1
    fewer = np.where(one, lit(n, 1), n - 1)
    return np.where(one, lit(x, 0), irwin_hall(x, fewer) - irwin_hall(x - 1, fewer))


irwin_hall = tabulated(
    "irwinhall_pdf", lambda x, n, out: _irwin_hall(x, n), None,
    evaluate=lambda x, n: plain.irwinhall.pdf(x, n),
)  # fmt: skip
irwin_hall_cdf = tabulated(
    "irwinhall_cdf", lambda x, n, out: irwin_hall(x, n), None,
    evaluate=lambda x, n: plain.irwinhall.cdf(x, n),
)  # fmt: skip
irwin_hall_sf = tabulated(
    "irwinhall_sf", lambda x, n, out: -irwin_hall(x, n), None,
    evaluate=lambda x, n: plain.irwinhall.sf(x, n),
)  # fmt: skip


def _count(n: Value) -> Value:
    return (n >= 1) & (n == np.round(n))


# --- formulas -------------------------------------------------------------------------------------


def _mills(z: Value) -> Value:
    """log((1 - Phi(z)) / phi(z))."""
    return sp.log_ndtr(-z) + 0.5 * z * z + _LOG_ROOT_TWO_PI


def _double_pareto(z: Value, u: Value, s: Value, a: Value, b: Value) -> Value:
    y = (np.log(z) - u) / s
    scale = np.log(a) + np.log(b) - np.log(a + b) - np.log(z)
    tails = np.logaddexp(_mills(a * s - y), _mills(b * s + y))
    return scale - 0.5 * y * y - _LOG_ROOT_TWO_PI + tails


def _double_pareto_cdf(z: Value, u: Value, s: Value, a: Value, b: Value) -> Value:
    y = (np.log(z) - u) / s
    log_density = -0.5 * y * y - _LOG_ROOT_TWO_PI - np.log(a + b)
    left = np.exp(log_density + np.log(b) + _mills(a * s - y))
    return sp.ndtr(y) - left + np.exp(log_density + np.log(a) + _mills(b * s + y))


def _double_pareto_sf(z: Value, u: Value, s: Value, a: Value, b: Value) -> Value:
    y = (np.log(z) - u) / s
    log_density = -0.5 * y * y - _LOG_ROOT_TWO_PI - np.log(a + b)
    left = np.exp(log_density + np.log(b) + _mills(a * s - y))
    return sp.ndtr(-y) + left - np.exp(log_density + np.log(a) + _mills(b * s + y))


def _kappa(z: Value, h: Value, k: Value) -> tuple[Value, Value]:
    """q = -log(1 - k z) / k, and r = -log(1 - h exp(-q)) / h = -log F."""
    q = power_log(z, -k)
    return q, power_log(np.exp(-q), -h)


def _kappa_density(z: Value, h: Value, k: Value) -> Value:
    q, r = _kappa(z, h, k)
    return -(1 - k) * q - (1 - h) * r


def _kappa_ends(h: Value, k: Value) -> tuple[Value, Value]:
    positive, none = h > 0, k == 0
    limit = 1 / np.where(none, lit(k, 1), k)
    by_h = unpower(np.log(np.where(positive, h, lit(h, 1))), -k)
    low = np.where(positive, by_h, np.where(k < 0, limit, lit(h, -math.inf)))
    return low, np.where(k > 0, limit, lit(h, math.inf))


def _kappa_inside(h: Value, k: Value) -> Value:
    """The median."""
    return _kappa_quantile(0.5 + 0 * h, h, k)


def _kappa_quantile(q: Value, h: Value, k: Value) -> Value:
    return unpower(-np.log(unpower(-np.log(q), -h)), -k)


def _trapezoid(z: Value, c: Value, d: Value) -> Value:
    left, right = z < c, z > d
    rise = np.where(left, z / np.where(c > 0, c, lit(c, 1)), lit(z, 1))
    fall = np.where(right, (1 - z) / np.where(d < 1, 1 - d, lit(d, 1)), lit(z, 1))
    return np.log(2 * rise * fall / (d - c + 1))


def _trapezoid_cdf(z: Value, c: Value, d: Value) -> Value:
    left = z * z / np.where(c > 0, c, lit(c, 1))
    right = (1 - z) ** 2 / np.where(d < 1, 1 - d, lit(d, 1))
    height = d - c + 1
    middle = (c + 2 * (z - c)) / height
    return np.where(z < c, left / height, np.where(z > d, 1 - right / height, middle))


def _trapezoid_quantile(q: Value, c: Value, d: Value) -> Value:
    height = d - c + 1
    low, high = q < c / height, q > (2 * d - c) / height
    left = np.sqrt(np.where(low, q, lit(q, 0.5)) * c * height)
    right = 1 - np.sqrt((1 - np.where(high, q, lit(q, 0.5))) * height * (1 - d))
    return np.where(low, left, np.where(high, right, 0.5 * q * height + 0.5 * c))


def _tukey(z: Value, lam: Value) -> Value:
    p, rest = sp.tklmbda(z, lam), sp.tklmbda(-z, lam)
    return -np.logaddexp((lam - 1) * np.log(p), (lam - 1) * np.log(rest))


def _tukey_ends(lam: Value) -> tuple[Value, Value]:
    end = np.where(lam > 0, 1 / np.where(lam > 0, lam, lit(lam, 1)), lit(lam, math.inf))
    return -end, end


def _any(*_: Value) -> bool:
    return True


FAMILIES: tuple[Continuous, ...] = (
    Continuous(
        "ncx2", "df nc", logpdf=ncx2_log_density, support=_HALF, inside=1.0,
        valid=lambda df, nc: (df > 0) & (nc >= 0), cdf=lambda z, df, nc: sp.chndtr(z, df, nc),
        sf=ncx2_sf,
    ),
    Continuous(
        "ncf", "dfn dfd nc", support=_HALF, inside=1.0,
        logpdf=lambda z, m, n, nc: ncf_log_density(m, n, nc, z),
        valid=lambda m, n, nc: (m > 0) & (n > 0) & (nc >= 0),
        cdf=lambda z, m, n, nc: sp.ncfdtr(m, n, nc, z), sf=lambda z, m, n, nc: ncf_sf(m, n, nc, z),
    ),
    Continuous(
        "nct", "df nc", logpdf=lambda z, df, nc: nct_log_density(df, nc, z),
        valid=lambda df, nc: df > 0, cdf=lambda z, df, nc: sp.nctdtr(df, nc, z),
        sf=lambda z, df, nc: nct_sf(df, nc, z),
    ),
    Continuous(
        "dpareto_lognorm", "u s a b", logpdf=_double_pareto, support=_HALF, inside=1.0,
        open_below=True, valid=lambda u, s, a, b: (s > 0) & (a > 0) & (b > 0),
        cdf=_double_pareto_cdf, sf=_double_pareto_sf,
    ),
    Continuous(
        "gausshyper", "a b c z", support=_UNIT, inside=0.5,
        logpdf=lambda x, a, b, c, z: (
            sp.xlogy(a - 1, x) + sp.xlog1py(b - 1, -x) - c * np.log1p(z * x)
            - gauss_hypergeometric(a, b, c, z)
        ),
        valid=lambda a, b, c, z: (a > 0) & (b > 0) & (z > -1),
    ),
    Continuous(
        "genhyperbolic", "p a b", logpdf=generalised_hyperbolic,
        valid=lambda p, a, b: (
            ((np.abs(b) < a) & (p >= 0)) | ((np.abs(b) <= a) & (p < 0))
        ),
    ),
    Continuous(
        "geninvgauss", "p b", support=_HALF, inside=1.0, open_below=True,
        logpdf=lambda z, p, b: (
            (p - 1) * np.log(z) - b * (z + 1 / z) / 2 - generalised_inverse_gauss(p, b)
        ),
        valid=lambda p, b: b > 0,
    ),
    Continuous(
        "irwinhall", "n", logpdf=lambda z, n: np.log(irwin_hall(z, n)),
        support=lambda n: (0.0, n), inside=lambda n: 0.5 * n, valid=_count, cdf=irwin_hall_cdf,
        sf=irwin_hall_sf,
    ),
    Continuous(
        "kappa4", "h k", logpdf=_kappa_density, support=_kappa_ends, inside=_kappa_inside,
        valid=_any, cdf=lambda z, h, k: np.exp(-_kappa(z, h, k)[1]),
        logcdf=lambda z, h, k: -_kappa(z, h, k)[1],
        sf=lambda z, h, k: -np.expm1(-_kappa(z, h, k)[1]),
        ppf=_kappa_quantile,
    ),
    Continuous(
        "ksone", "n", logpdf=lambda z, n: np.log(smirnov_density(n, z)), support=_UNIT, inside=0.5,
        valid=_count, cdf=ksone_cdf, sf=lambda z, n: sp.smirnov(n, z),
    ),
    Continuous(
        "kstwo", "n", logpdf=lambda z, n: np.log(kstwo_density(z, n)),
        support=lambda n: (0.5 / n, 1.0), inside=lambda n: 0.5 + 0.25 / n, valid=_count,
        cdf=kstwo_cdf, sf=kstwo_sf,
    ),
    Continuous(
        "kstwobign", logpdf=lambda z: np.log(-kolmogorov_slope(z)), support=_HALF, inside=1.0,
        open_below=True, cdf=kolmogorov_cdf, sf=sp.kolmogorov, isf=sp.kolmogi,
    ),
    Continuous(
        "landau", logpdf=landau_log_density, cdf=landau_cdf, sf=landau_sf,
    ),
    Continuous(
        "studentized_range", "k df", support=_HALF, inside=1.0,
        logpdf=lambda z, k, df: np.log(range_density(z, k, df)),
        valid=lambda k, df: (k > 1) & (df > 0), cdf=range_cdf, sf=range_sf,
    ),
    Continuous(
        "trapezoid", "c d", logpdf=_trapezoid, support=_UNIT, inside=0.5,
        valid=lambda c, d: (c >= 0) & (c <= 1) & (d >= 0) & (d <= 1) & (d >= c),
        cdf=_trapezoid_cdf, sf=lambda z, c, d: _trapezoid_cdf(1 - z, 1 - d, 1 - c),
        ppf=_trapezoid_quantile,
    ),
    Continuous(
        "tukeylambda", "lam", logpdf=_tukey, support=_tukey_ends, valid=np.isfinite,
        open_below=True, open_above=True, cdf=sp.tklmbda, sf=lambda z, lam: sp.tklmbda(-z, lam),
        ppf=lambda q, lam: sp.boxcox(q, lam) - sp.boxcox1p(-q, lam),
    ),
)  # fmt: skip

FURTHER_CONTINUOUS: dict[str, Continuous] = {family.name: family for family in FAMILIES}
