"""L7. Functions of one primitive, and compositions: gamma, zeta, counts, logarithms, losses."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from fgrad.errors import DtypeError, UnsupportedNumpyError
from fgrad.nn import activations as act
from fgrad.nn import probability as prob
from fgrad.numpy.promote import as_operand, user_line
from fgrad.ops import composed
from fgrad.ops import elementwise as ew
from fgrad.ops import erf_gamma as eg
from fgrad.ops import modified_bessel as mb
from fgrad.ops import special_distributions as sd
from fgrad.ops import special_elliptic as el
from fgrad.ops import special_factorials as sf
from fgrad.ops import special_functions as sp
from fgrad.ops.complex import is_complex, real
from fgrad.ops.elementwise import lit
from fgrad.scipy.special.common import (
    converted,
    double,
    either_form,
    elementwise,
    known_integers,
    operands,
    plain,
)
from fgrad.trace import Value
from fgrad.transforms.custom.jvp import CustomJvp
from fgrad.typing import ArrayLike, Axis

# --- one primitive --------------------------------------------------------------------------------

PRIMITIVES: dict[str, Callable[..., Value]] = {
    "erf": eg.erf, "erfc": eg.erfc, "erfinv": eg.erfinv, "gammaln": eg.lgamma,
    "digamma": eg.digamma, "psi": eg.digamma, "expit": ew.logistic, "expm1": ew.expm1,
    "log1p": ew.log1p, "exp2": ew.exp2, "cbrt": ew.cbrt, "gamma": sp.gamma, "rgamma": sp.rgamma,
    "gammasgn": sp.gammasgn, "poch": sf.poch, "beta": sp.beta, "betaln": sp.betaln,
    "binom": sf.binom, "gammainc": sp.gammainc, "gammaincc": sp.gammaincc,
    "gammaincinv": sp.gammaincinv, "gammainccinv": sp.gammainccinv, "betainc": sp.betainc,
    "betaincc": sp.betaincc, "betaincinv": sp.betaincinv, "erfcx": sp.erfcx, "erfi": sp.erfi,
    "dawsn": sp.dawsn, "erfcinv": sp.erfcinv, "log_ndtr": sp.log_ndtr, "ndtri": sp.ndtri,
    "ndtri_exp": sp.ndtri_exp, "owens_t": sp.owens_t, "j0": sp.j0, "j1": sp.j1, "y0": sp.y0,
    "y1": sp.y1, "jv": sp.jv, "jn": sp.jv, "yv": sp.yv, "yn": lambda n, x: sp.yv(ew.trunc(n), x),
    "i0": mb.i0, "i0e": mb.i0e, "i1": mb.i1, "i1e": mb.i1e, "iv": sp.iv, "ive": sp.ive,
    "k0": sp.k0, "k0e": sp.k0e, "k1": sp.k1, "k1e": sp.k1e, "kv": sp.kv,
    "kn": lambda n, x: sp.kv(ew.trunc(n), x), "kve": sp.kve, "expi": sp.expi, "exp1": sp.exp1,
    "expn": lambda n, x: sp.expn(ew.trunc(n), x), "spence": sp.spence, "ellipk": el.ellipk,
    "ellipkm1": el.ellipkm1, "ellipe": el.ellipe, "hyp0f1": sp.hyp0f1, "hyp1f1": sp.hyp1f1,
    "hyp2f1": sp.hyp2f1, "hyperu": sp.hyperu, "stdtr": sd.stdtr, "stdtrit": sd.stdtrit,
    "gdtr": sd.gdtr, "gdtrc": sd.gdtrc, "pdtr": sd.pdtr, "pdtrc": sd.pdtrc, "fdtr": sd.fdtr,
    "fdtrc": sd.fdtrc, "rel_entr": sp.rel_entr, "kl_div": sp.kl_div,
    "pseudo_huber": sp.pseudo_huber, "boxcox": sp.boxcox, "boxcox1p": sp.boxcox1p,
    "inv_boxcox": sp.inv_boxcox, "inv_boxcox1p": sp.inv_boxcox1p, "exprel": sp.exprel,
    "cosm1": sp.cosm1,
}  # fmt: skip

for _name, _apply in PRIMITIVES.items():
    elementwise(_name, _apply)


@either_form
def sici(x: ArrayLike) -> tuple[Value, Value]:
    """The integrals of sin(t) / t and cos(t) / t."""
    (x,) = operands(x)
    return sp.sine_integral(x), sp.cosine_integral(x)


@either_form
def fresnel(x: ArrayLike) -> tuple[Value, Value]:
    """The integrals of sin(pi t^2 / 2) and cos(pi t^2 / 2)."""
    (x,) = operands(x)
    return sp.fresnel_s(x), sp.fresnel_c(x)


# --- gamma, zeta, combinatorics -------------------------------------------------------------------


@either_form
def loggamma(x: ArrayLike) -> Value:
    """log(gamma(x)), real for positive x; NaN for negative ones that are not complex."""
    (x,) = operands(x)
    if is_complex(x):
        return sp.loggamma(x)
    return ew.select(ew.lt(x, lit(x, 0)), lit(x, math.nan), eg.lgamma(x))


@either_form
def zeta(x: ArrayLike, q: ArrayLike | None = None) -> Value:
    """The Hurwitz zeta function, sum over k >= 0 of (k + q)^-x; Riemann's, which is continued to
    x < 1, if there is no q."""
    if q is None:
        return sp.riemann_zeta(*operands(*converted("entr", x)))
    return sp.zeta(*operands(*converted("binom", x, q)))


@either_form
def polygamma(n: ArrayLike, x: ArrayLike) -> Value:
    """The n-th derivative of digamma: (-1)^(n + 1) n! zeta(n + 1, x) (DLMF 5.15.1).

    Arguments:
        n: known integers, not traced.
        x: an array.

    Example:
        >>> import fgrad
        >>> fgrad.grad(lambda x: polygamma(1, x))(2.0)
        np.float64(-0.4041138063191886)
    """
    order = known_integers("polygamma", "n", n)
    m, x = operands(order.astype(float), x)
    sign = np.where(order % 2 == 1, 1.0, -1.0) * plain.gamma(order + 1.0)
    high = sp.zeta(ew.add(m, lit(m, 1)), x) * sign.astype(x.dtype)
    return high if (order > 0).all() else np.where(order == 0, eg.digamma(x), high)


@either_form
def multigammaln(a: ArrayLike, d: int) -> Value:
    """The logarithm of the multivariate gamma function of dimension d, in double precision."""
    x = double(a)
    total = lit(x, 0.25 * d * (d - 1) * math.log(math.pi))
    for k in range(d):
        total = total + eg.lgamma(x - lit(x, 0.5 * k))
    return total


@either_form
def factorial(n: ArrayLike, exact: bool = False, extend: str = "zero") -> Value:
    """gamma(n + 1) in double precision, and 0 for negative n."""
    _refuse_exact("factorial", exact)
    x = double(n)
    return ew.select(ew.lt(x, lit(x, 0)), lit(x, 0), sp.gamma(x + lit(x, 1)))


@either_form
def comb(N: ArrayLike, k: ArrayLike, *, exact: bool = False, repetition: bool = False) -> Value:
    """The number of ways to take k things of N."""
    _refuse_exact("comb", exact)
    n, k = operands(*converted("binom", N, k))
    if repetition:
        none = (k == lit(k, 0)) & (n >= lit(n, 0))
        return ew.select(none, lit(n, 1), sf.binom(n + k - lit(n, 1), k))
    possible = (k <= n) & (n >= lit(n, 0)) & (k >= lit(n, 0))
    return ew.select(possible, sf.binom(n, k), lit(n, 0))


@either_form
def perm(N: ArrayLike, k: ArrayLike, exact: bool = False) -> Value:
    """The number of ways to take k things of N in order."""
    _refuse_exact("perm", exact)
    n, k = operands(*converted("poch", N, k))
    possible = (k <= n) & (n >= lit(n, 0)) & (k >= lit(n, 0))
    return ew.select(possible, sf.poch(n - k + lit(n, 1), k), lit(n, 0))


def _refuse_exact(name: str, exact: bool) -> None:
    if exact:
        raise UnsupportedNumpyError(
            f"scipy.special.{name} with exact=True does not take traced arrays.",
            (*user_line(), ("why", "it counts with Python integers."), ("write", "exact=False")),
        )


# --- logarithms and entropies ---------------------------------------------------------------------


@CustomJvp
def _logit(p: Value) -> Value:
    """log1p((1 - 2 q) / q), of the smaller q of p and 1 - p, with a sign; 1 - 2 q is exact where
    the result is near zero. The quotient would overflow below the smallest normal number."""
    info = np.finfo(p.dtype)
    low = p < lit(p, 0.5)
    q = ew.select(low, p, lit(p, 1) - p)
    q = ew.select(ew.eq(q, lit(p, 0)), lit(p, 0), q)  # whatever its sign
    tiny = (q < lit(p, info.tiny)) & (q > lit(p, -info.tiny))
    size = info.nmant + 1
    wide = ew.select(tiny, q * lit(p, 2.0**size), q)
    found = ew.log1p((lit(p, 1) - lit(p, 2) * q) / wide)
    found = found + ew.select(tiny, lit(p, size * math.log(2.0)), lit(p, 0))
    return ew.select(low, -found, found)


@_logit.defjvp
def _(primals: tuple[Value], tangents: tuple[Value]) -> tuple[Value, Value]:
    (p,), (t,) = primals, tangents
    return _logit(p), t / (p * (lit(p, 1) - p))


@either_form
def logit(x: ArrayLike) -> Value:
    """log(p / (1 - p))."""
    return _logit(*operands(x))


@either_form
def log_expit(x: ArrayLike) -> Value:
    """log(expit(x)), without underflow."""
    return act.log_sigmoid(*operands(x))


@either_form
def softplus(x: ArrayLike) -> Value:
    """log(1 + exp(x)), without overflow."""
    return act.softplus(*operands(x))


@either_form
def xlogy(x: ArrayLike, y: ArrayLike) -> Value:
    """x log(y), and 0 where x is 0 unless y is NaN."""
    x, y = operands(x, y)
    return _times_log(x, y, ew.log) if is_complex(x) else composed.xlogy(x, y)


@either_form
def xlog1py(x: ArrayLike, y: ArrayLike) -> Value:
    """x log(1 + y), and 0 where x is 0 unless y is NaN."""
    x, y = operands(x, y)
    return _times_log(x, y, ew.log1p) if is_complex(x) else composed.xlog1py(x, y)


def _times_log(x: Value, y: Value, log: Callable[[Value], Value]) -> Value:
    """x log(y) of complex numbers."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return ew.select(ew.isnan(y), lit(y, math.nan), ew.masked_mul(x, log(y)))


@either_form
def entr(x: ArrayLike) -> Value:
    """-x log(x); 0 at 0, -inf below."""
    (x,) = operands(x)
    return ew.select(ew.lt(x, lit(x, 0)), lit(x, -math.inf), ew.neg(composed.xlogy(x, x)))


@either_form
def logsumexp(
    a: ArrayLike,
    axis: Axis = None,
    b: ArrayLike | None = None,
    keepdims: bool = False,
    return_sign: bool = False,
) -> Value | tuple[Value, Value]:
    """log(sum(b exp(a))) without overflow; see `fgrad.nn.logsumexp`."""
    return prob.logsumexp(a, axis, b, keepdims, return_sign)


def _with_largest(x: ArrayLike, axis: Axis) -> Value:
    """The operand, if the maximum that SciPy subtracts exists."""
    x = as_operand(x)
    if x.dtype.kind == "b":
        raise DtypeError("SciPy subtracts the maximum, which booleans do not allow.", user_line())
    np.max(real(x), axis=axis)
    return x


@either_form
def softmax(x: ArrayLike, axis: Axis = None) -> Value:
    """exp(x) / sum(exp(x)), over all elements unless an axis is given."""
    return prob.softmax(_with_largest(x, axis), axis)


@either_form
def log_softmax(x: ArrayLike, axis: Axis = None) -> Value:
    """log(softmax(x)), over all elements unless an axis is given."""
    return prob.log_softmax(_with_largest(x, axis), axis)


# --- powers and losses ----------------------------------------------------------------------------


@either_form
def exp10(x: ArrayLike) -> Value:
    """10^x."""
    (x,) = operands(x)
    return lit(x, 10) ** x


@either_form
def sinc(x: ArrayLike) -> Value:
    """sin(pi x) / (pi x)."""
    return np.sinc(*operands(x))


@either_form
def huber(delta: ArrayLike, r: ArrayLike) -> Value:
    """r^2 / 2 for |r| <= delta, delta (|r| - delta / 2) beyond; inf for negative delta."""
    delta, r = operands(delta, r)
    size = ew.abs_(r)
    near = ew.square(r) * lit(r, 0.5)
    loss = ew.select(size <= delta, near, delta * (size - delta * lit(r, 0.5)))
    return ew.select(ew.lt(delta, lit(r, 0)), lit(r, math.inf), loss)


# --- distributions --------------------------------------------------------------------------------


@either_form
def ndtr(x: ArrayLike) -> Value:
    """The standard normal distribution function."""
    (x,) = operands(x)
    return eg.erfc(x * lit(x, -math.sqrt(0.5))) * lit(x, 0.5)


@either_form
def chdtr(v: ArrayLike, x: ArrayLike) -> Value:
    """The chi-square distribution function with v degrees of freedom."""
    v, x = operands(v, x)
    return sp.gammainc(v * lit(v, 0.5), x * lit(x, 0.5))


@either_form
def chdtrc(v: ArrayLike, x: ArrayLike) -> Value:
    """1 - chdtr(v, x)."""
    v, x = operands(v, x)
    return sp.gammaincc(v * lit(v, 0.5), x * lit(x, 0.5))
