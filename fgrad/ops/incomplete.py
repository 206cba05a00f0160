"""L3. Derivatives of the incomplete gamma and beta functions in their first parameter, in NumPy.

Where the function is a series or a continued fraction, its derivative is the same sum with dual
numbers: each quantity carries its derivative in `a`.
"""

from __future__ import annotations

import numpy as np

from fgrad.base.lazy_import import lazy_module
from fgrad.trace import Value

special = lazy_module("scipy.special")

TERMS = 10_000  # after which a sum that has not converged is taken as it is
EPSILON = 1e-17


def gammainc_slope(a: Value, x: Value) -> np.ndarray:
    """dP(a, x) / da for the regularised lower incomplete gamma function P.

    By the series of DLMF 8.7.1 for x below a + 1, and by the continued fraction of DLMF 8.9.2 for
    Q = 1 - P above.
    """
    dtype = np.result_type(a, x)
    a, x = np.broadcast_arrays(np.asarray(a, np.float64), np.asarray(x, np.float64))
    out = np.full(a.shape, np.nan)
    proper = (a > 0) & (x >= 0)
    out[proper & ((x == 0) | np.isinf(x))] = 0.0
    proper &= (x > 0) & np.isfinite(x) & np.isfinite(a)
    low = proper & (x < a + 1)
    high = proper & ~low
    with np.errstate(all="ignore"):
        out[low] = _gamma_series(a[low], x[low])
        out[high] = -_gamma_fraction(a[high], x[high])
    return out.astype(dtype)


def _gamma_series(a: np.ndarray, x: np.ndarray) -> np.ndarray:
    """The derivative of x^a e^-x sum_n x^n / gamma(a + n + 1)."""
    front = np.exp(a * np.log(x) - x - special.gammaln(a + 1))
    slope = np.log(x) - special.digamma(a + 1)  # of log(front)
    term = np.ones_like(a)
    dterm = np.zeros_like(a)
    total, dtotal = term.copy(), dterm.copy()
    for n in range(1, TERMS):
        ratio = x / (a + n)
        dterm = dterm * ratio - term * ratio / (a + n)
        term = term * ratio
        total += term
        dtotal += dterm
        if np.all((term <= EPSILON * total) & (np.abs(dterm) <= EPSILON * np.abs(dtotal))):
            break
    return front * (slope * total + dtotal)


def _gamma_fraction(a: np.ndarray, x: np.ndarray) -> np.ndarray:
    """The derivative of Q = x^a e^-x / gamma(a) / (x + 1 - a - 1 (1 - a) / (x + 3 - a - ...))."""
    front = np.exp(a * np.log(x) - x - special.gammaln(a))
    slope = np.log(x) - special.digamma(a)
    b, db = x + 1 - a, -np.ones_like(a)
    fraction = _Lentz(b, db)
    for n in range(1, TERMS):
        fraction.step(-n * (n - a), n * np.ones_like(a), b + 2 * n, db)
        if fraction.converged():
            break
    value, dvalue = fraction.inverse()
    return front * (slope * value + dvalue)


class _Lentz:
    """A continued fraction b0 + a1 / (b1 + a2 / (b2 + ...)) with its derivative.

    The modified algorithm of Lentz; Thompson and Barnett (1986), J. Comput. Phys. 64.
    """

    def __init__(self, b: np.ndarray, db: np.ndarray) -> None:
        self.f, self.df = b, db
        self.c, self.dc = b, db
        self.d, self.dd = np.zeros_like(b), np.zeros_like(b)
        self.delta, self.ddelta = np.ones_like(b), np.zeros_like(b)

    def step(self, a: np.ndarray, da: Value, b: np.ndarray, db: Value) -> None:
        """Add one partial quotient, a / (b + ...)."""
        down, ddown = b + a * self.d, db + da * self.d + a * self.dd
        down = np.where(down == 0, 1e-300, down)
        self.d, self.dd = 1 / down, -ddown / down**2
        c = b + a / self.c
        self.dc = db + da / self.c - a * self.dc / self.c**2
        self.c = np.where(c == 0, 1e-300, c)
        self.delta = self.c * self.d
        self.ddelta = self.dc * self.d + self.c * self.dd
        self.df = self.df * self.delta + self.f * self.ddelta
        self.f = self.f * self.delta

    def converged(self) -> bool:
        """Whether the last step changed neither the value nor the derivative."""
        small = np.abs(self.f * self.ddelta) <= 1e-16 * np.maximum(np.abs(self.df), 1e-300)
        return bool(np.all((np.abs(self.delta - 1) <= 1e-16) & small))

    def inverse(self) -> tuple[np.ndarray, np.ndarray]:
        """The reciprocal and its derivative."""
        return 1 / self.f, -self.df / self.f**2


def betainc_slope(a: Value, b: Value, x: Value) -> np.ndarray:
    """dI_x(a, b) / da for the regularised incomplete beta function I.

    By the continued fraction of DLMF 8.17.22, for x above (a + 1) / (a + b + 2) after the
    reflection I_x(a, b) = 1 - I_(1-x)(b, a).
    """
    dtype = np.result_type(a, b, x)
    a, b, x = np.broadcast_arrays(*[np.asarray(v, np.float64) for v in (a, b, x)])
    out = np.full(a.shape, np.nan)
    proper = (a > 0) & (b > 0) & (x >= 0) & (x <= 1)
    out[proper & ((x == 0) | (x == 1))] = 0.0
    proper &= (x > 0) & (x < 1) & np.isfinite(a) & np.isfinite(b)
    low = proper & (x < (a + 1) / (a + b + 2))
    high = proper & ~low
    with np.errstate(all="ignore"):
        out[low] = _beta_fraction(a[low], b[low], x[low], 1.0, 0.0)
        out[high] = -_beta_fraction(b[high], a[high], 1 - x[high], 0.0, 1.0)
    return out.astype(dtype)


def _beta_fraction(a: np.ndarray, b: np.ndarray, x: np.ndarray, da: float, db: float) -> np.ndarray:
    """The derivative of I_x(a, b) along (da, db)."""
    front = np.exp(special.xlogy(a, x) + special.xlog1py(b, -x) - special.betaln(a, b)) / a
    both = special.digamma(a + b)
    slope = da * (np.log(x) - special.digamma(a) + both - 1 / a)
    slope = slope + db * (np.log1p(-x) - special.digamma(b) + both)
    one = np.ones_like(a)
    fraction = _Lentz(one, 0 * one)
    for n in range(1, TERMS):
        fraction.step(*_beta_quotient(n, a, b, x, da, db), one, 0 * one)
        if fraction.converged():
            break
    value, dvalue = fraction.inverse()
    return front * (slope * value + dvalue)


def _beta_quotient(
    n: int, a: np.ndarray, b: np.ndarray, x: np.ndarray, da: float, db: float
) -> tuple[np.ndarray, np.ndarray]:
    """The n-th partial numerator d_n of DLMF 8.17.23 and its derivative."""
    m, odd = divmod(n, 2)
    below = (a + 2 * m) * (a + 2 * m + 1) if odd else (a + 2 * m - 1) * (a + 2 * m)
    if odd:
        above = -(a + m) * (a + b + m)
        dabove = -(da * (a + b + m) + (a + m) * (da + db))
        dbelow = da * (2 * a + 4 * m + 1)
    else:
        above = m * (b - m)
        dabove = m * db
        dbelow = da * (2 * a + 4 * m - 1)
    return above * x / below, x * (dabove / below - above * dbelow / below**2)
