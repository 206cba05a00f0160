"""L7. `scipy.special` with derivatives: SciPy for plain arrays, traced forms for tracers.

    import fgrad.scipy.special as sps
    fgrad.grad(sps.gammaln)(2.5)              # digamma(2.5)
    fgrad.grad(scipy.special.gammaln)(2.5)    # SciPy's ufuncs find the same functions

Functions that are sums and products of others are compositions, which compiled code fuses; the rest
are primitives that call SciPy's own code, with derivatives by formula.
Every other name of `scipy.special` is there too, and raises a card when it meets a traced array.
"""

from __future__ import annotations

import functools
import inspect
import math
import re
from collections.abc import Callable
from typing import TypeVar

import numpy as np

from fgrad.base.lazy_import import lazy_module
from fgrad.errors import ArgumentError, UnsupportedNumpyError
from fgrad.nn import activations as act
from fgrad.nn import probability as prob
from fgrad.numpy.promote import (
    as_array,
    as_operand,
    broadcast,
    convert,
    inexact,
    key_of,
    promote,
    resolve_ufunc,
    result_type,
    user_line,
)
from fgrad.ops import composed
from fgrad.ops import elementwise as ew
from fgrad.ops import erf_gamma as eg
from fgrad.ops import special_distributions as sd
from fgrad.ops import special_elliptic as el
from fgrad.ops import special_factorials as sf
from fgrad.ops import special_functions as sp
from fgrad.ops.complex import is_complex
from fgrad.ops.elementwise import lit
from fgrad.scipy._either import either, others
from fgrad.trace import Tracer, Value
from fgrad.tracing.tables import numpy_functions
from fgrad.typing import ArrayLike, Axis, PyTree

plain = lazy_module("scipy.special")

F = TypeVar("F", bound=Callable[..., PyTree])

TRACED: dict[str, Callable[..., PyTree]] = {}  # names of scipy.special -> what they do to tracers


def _operands(*xs: ArrayLike) -> list[Value]:
    """Floating point operands of one dtype and shape."""
    return broadcast([inexact(x) for x in promote([as_operand(x) for x in xs])])


def _converted(name: str, *xs: ArrayLike) -> list[Value]:
    """Operands in the dtype in which SciPy's ufunc of this name gives its result; float16, and
    those that it does not take, are as they were."""
    values = [as_operand(x) for x in xs]
    if result_type(*values).char == "e":
        return values
    try:
        dtype = resolve_ufunc(getattr(plain, name), tuple([key_of(x) for x in values]))[-1]
    except TypeError:
        return values
    return [convert(as_array(x), dtype) for x in values]


def _double(x: ArrayLike) -> Value:
    """An operand in double precision."""
    (x,) = _operands(x)
    return x if is_complex(x) else convert(x, np.dtype(np.float64))


def _publish(name: str, traced: Callable[..., PyTree]) -> Callable[..., PyTree]:
    """SciPy's function of this name, unless a tracer is among the arguments."""
    TRACED[name] = _in_dtypes_of_ufunc(name, traced)
    return either(plain, TRACED[name], name)


def _in_dtypes_of_ufunc(name: str, traced: F) -> F:
    """A function that takes its operands in the dtypes of SciPy's ufunc, if there is one: of
    small integers some make float32, others float64."""
    if not isinstance(getattr(plain, name, None), np.ufunc):
        return traced

    @functools.wraps(traced)
    def function(*xs: ArrayLike, **settings: object) -> Value:
        return traced(*_converted(name, *xs), **settings)

    return function  # type: ignore[return-value]


def _either(traced: F) -> F:
    """Decorator: SciPy's function of the same name, unless a tracer is among the arguments."""
    return _publish(traced.__name__, traced)  # type: ignore[return-value]


def _elementwise(name: str, apply: Callable[..., Value]) -> Callable[..., PyTree]:
    """A function of floats that is one primitive."""

    def traced(*xs: ArrayLike) -> Value:
        return apply(*_operands(*xs))

    names = _argument_names(name)
    traced.__doc__ = f"""`scipy.special.{name}`, with derivatives.

    Arguments:
        {", ".join(names) or "xs"}: arrays of floats, which broadcast; integers become floats.

    Returns:
        An array of the common shape and dtype.
    """
    if names:
        kind = inspect.Parameter.POSITIONAL_ONLY
        parameters = [inspect.Parameter(n, kind, annotation="ArrayLike") for n in names]
        traced.__dict__["__signature__"] = inspect.Signature(parameters, return_annotation="Value")
    return _publish(name, traced)


def _argument_names(name: str) -> list[str]:
    """The names of the arguments of SciPy's ufunc, from `gammainc(a, x, out=None)` in its text."""
    ufunc = getattr(plain, name, None)
    if not isinstance(ufunc, np.ufunc):
        return []
    names = re.findall(r"\w+", (ufunc.__doc__ or "").partition("(")[2].partition(")")[0])
    return names[: ufunc.nin] if len(names) >= ufunc.nin else []


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
    "i0": sp.i0, "i0e": sp.i0e, "i1": sp.i1, "i1e": sp.i1e, "iv": sp.iv, "ive": sp.ive,
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
    globals()[_name] = _elementwise(_name, _apply)


@_either
def sici(x: ArrayLike) -> tuple[Value, Value]:
    """The integrals of sin(t) / t and cos(t) / t."""
    (x,) = _operands(x)
    return sp.sine_integral(x), sp.cosine_integral(x)


@_either
def fresnel(x: ArrayLike) -> tuple[Value, Value]:
    """The integrals of sin(pi t^2 / 2) and cos(pi t^2 / 2)."""
    (x,) = _operands(x)
    return sp.fresnel_s(x), sp.fresnel_c(x)


# --- gamma, zeta, combinatorics -------------------------------------------------------------------


@_either
def loggamma(x: ArrayLike) -> Value:
    """log(gamma(x)), real for positive x; NaN for negative ones that are not complex."""
    (x,) = _operands(x)
    if is_complex(x):
        return sp.loggamma(x)
    return ew.select(ew.lt(x, lit(x, 0)), lit(x, math.nan), eg.lgamma(x))


@_either
def zeta(x: ArrayLike, q: ArrayLike | None = None) -> Value:
    """The Hurwitz zeta function, sum over k >= 0 of (k + q)^-x, differentiable in q; Riemann's,
    which is continued to x < 1, if there is no q."""
    if q is None:
        return sp.riemann_zeta(*_operands(*_converted("entr", x)))
    return sp.zeta(*_operands(*_converted("binom", x, q)))


@_either
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
    order = _known_integers("polygamma", "n", n)
    m, x = _operands(order.astype(float), x)
    sign = np.where(order % 2 == 1, 1.0, -1.0) * plain.gamma(order + 1.0)
    high = sp.zeta(ew.add(m, lit(m, 1)), x) * sign.astype(x.dtype)
    return high if (order > 0).all() else np.where(order == 0, eg.digamma(x), high)


def _known_integers(function: str, argument: str, n: ArrayLike) -> np.ndarray:
    if isinstance(n, Tracer) or np.asarray(n).dtype.kind not in "iu":
        raise ArgumentError(
            f"{function}: {argument} must be a known integer.",
            (*user_line(), ("why", "the function has no derivative in it.")),
        )
    return np.asarray(n)


@_either
def multigammaln(a: ArrayLike, d: int) -> Value:
    """The logarithm of the multivariate gamma function of dimension d, in double precision."""
    x = _double(a)
    total = lit(x, 0.25 * d * (d - 1) * math.log(math.pi))
    for k in range(d):
        total = total + eg.lgamma(x - lit(x, 0.5 * k))
    return total


@_either
def factorial(n: ArrayLike, exact: bool = False, extend: str = "zero") -> Value:
    """gamma(n + 1) in double precision, and 0 for negative n."""
    _refuse_exact("factorial", exact)
    x = _double(n)
    return ew.select(ew.lt(x, lit(x, 0)), lit(x, 0), sp.gamma(x + lit(x, 1)))


@_either
def comb(N: ArrayLike, k: ArrayLike, *, exact: bool = False, repetition: bool = False) -> Value:
    """The number of ways to take k things of N."""
    _refuse_exact("comb", exact)
    n, k = _operands(*_converted("binom", N, k))
    if repetition:
        none = (k == lit(k, 0)) & (n >= lit(n, 0))
        return ew.select(none, lit(n, 1), sf.binom(n + k - lit(n, 1), k))
    possible = (k <= n) & (n >= lit(n, 0)) & (k >= lit(n, 0))
    return ew.select(possible, sf.binom(n, k), lit(n, 0))


@_either
def perm(N: ArrayLike, k: ArrayLike, exact: bool = False) -> Value:
    """The number of ways to take k things of N in order."""
    _refuse_exact("perm", exact)
    n, k = _operands(*_converted("poch", N, k))
    possible = (k <= n) & (n >= lit(n, 0)) & (k >= lit(n, 0))
    return ew.select(possible, sf.poch(n - k + lit(n, 1), k), lit(n, 0))


def _refuse_exact(name: str, exact: bool) -> None:
    if exact:
        raise UnsupportedNumpyError(
            f"scipy.special.{name} with exact=True does not take traced arrays.",
            (*user_line(), ("why", "it counts with Python integers."), ("write", "exact=False")),
        )


# --- logarithms and entropies ---------------------------------------------------------------------


@_either
def logit(x: ArrayLike) -> Value:
    """log(p / (1 - p))."""
    (p,) = _operands(x)
    centered = p * lit(p, 2) - lit(p, 1)
    middle = (p > lit(p, 0.3)) & (p < lit(p, 0.65))
    inner = ew.select(middle, centered, lit(p, 0))
    outer = ew.select(middle, lit(p, 0.75), p)
    near = ew.log1p(inner) - ew.log1p(-inner)
    far = ew.log(outer) - ew.log1p(-outer)
    return ew.select(middle, near, far)


@_either
def log_expit(x: ArrayLike) -> Value:
    """log(expit(x)), without underflow."""
    return act.log_sigmoid(*_operands(x))


@_either
def softplus(x: ArrayLike) -> Value:
    """log(1 + exp(x)), without overflow."""
    return act.softplus(*_operands(x))


@_either
def xlogy(x: ArrayLike, y: ArrayLike) -> Value:
    """x log(y), and 0 where x is 0 unless y is NaN."""
    x, y = _operands(x, y)
    return _times_log(x, y, ew.log) if is_complex(x) else composed.xlogy(x, y)


@_either
def xlog1py(x: ArrayLike, y: ArrayLike) -> Value:
    """x log(1 + y), and 0 where x is 0 unless y is NaN."""
    x, y = _operands(x, y)
    return _times_log(x, y, ew.log1p) if is_complex(x) else composed.xlog1py(x, y)


def _times_log(x: Value, y: Value, log: Callable[[Value], Value]) -> Value:
    """x log(y) of complex numbers."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return ew.select(ew.isnan(y), lit(y, math.nan), ew.masked_mul(x, log(y)))


@_either
def entr(x: ArrayLike) -> Value:
    """-x log(x); 0 at 0, -inf below."""
    (x,) = _operands(x)
    return ew.select(ew.lt(x, lit(x, 0)), lit(x, -math.inf), ew.neg(composed.xlogy(x, x)))


@_either
def logsumexp(
    a: ArrayLike,
    axis: Axis = None,
    b: ArrayLike | None = None,
    keepdims: bool = False,
    return_sign: bool = False,
) -> Value | tuple[Value, Value]:
    """log(sum(b exp(a))) without overflow; see `fgrad.nn.logsumexp`."""
    return prob.logsumexp(a, axis, b, keepdims, return_sign)


@_either
def softmax(x: ArrayLike, axis: Axis = None) -> Value:
    """exp(x) / sum(exp(x)), over all elements unless an axis is given."""
    return prob.softmax(x, axis)


@_either
def log_softmax(x: ArrayLike, axis: Axis = None) -> Value:
    """log(softmax(x)), over all elements unless an axis is given."""
    return prob.log_softmax(x, axis)


# --- powers and losses ----------------------------------------------------------------------------


@_either
def exp10(x: ArrayLike) -> Value:
    """10^x."""
    (x,) = _operands(x)
    return lit(x, 10) ** x


@_either
def sinc(x: ArrayLike) -> Value:
    """sin(pi x) / (pi x)."""
    return np.sinc(*_operands(x))


@_either
def huber(delta: ArrayLike, r: ArrayLike) -> Value:
    """r^2 / 2 for |r| <= delta, delta (|r| - delta / 2) beyond; inf for negative delta."""
    delta, r = _operands(delta, r)
    size = ew.abs_(r)
    near = ew.square(r) * lit(r, 0.5)
    loss = ew.select(size <= delta, near, delta * (size - delta * lit(r, 0.5)))
    return ew.select(ew.lt(delta, lit(r, 0)), lit(r, math.inf), loss)


# --- distributions --------------------------------------------------------------------------------


@_either
def ndtr(x: ArrayLike) -> Value:
    """The standard normal distribution function."""
    (x,) = _operands(x)
    return eg.erfc(x * lit(x, -math.sqrt(0.5))) * lit(x, 0.5)


@_either
def chdtr(v: ArrayLike, x: ArrayLike) -> Value:
    """The chi-square distribution function with v degrees of freedom."""
    v, x = _operands(v, x)
    return sp.gammainc(v * lit(v, 0.5), x * lit(x, 0.5))


@_either
def chdtrc(v: ArrayLike, x: ArrayLike) -> Value:
    """1 - chdtr(v, x)."""
    v, x = _operands(v, x)
    return sp.gammaincc(v * lit(v, 0.5), x * lit(x, 0.5))


# --- SciPy's own names ----------------------------------------------------------------------------


def register() -> None:
    """SciPy's ufuncs find these functions when they are called with tracers."""
    for name, traced in TRACED.items():
        target = getattr(plain, name, None)
        if isinstance(target, np.ufunc):
            numpy_functions.setdefault(target, traced)


__getattr__ = others(__name__, plain)
register()
