"""L7. Special functions by the names of `jax.lax`; those of `fgrad.scipy.special` take more."""

from __future__ import annotations

from collections.abc import Callable

from fgrad.numpy.promote import as_operand, broadcast, broadcast_shapes, inexact, promote
from fgrad.ops import elementwise as ew
from fgrad.ops import erf_gamma as eg
from fgrad.ops import modified_bessel as mb
from fgrad.ops import special_functions as sp
from fgrad.trace import Value
from fgrad.tracing.device_tracing import lowered
from fgrad.typing import ArrayLike, PyTree

Function = Callable[..., PyTree]


def _elementwise(name: str, function: Function, text: str, example: str) -> Function:
    """A function of floats that are promoted and broadcast."""

    def public(*xs: ArrayLike) -> Value:
        operands = promote([inexact(as_operand(x)) for x in xs])
        shape = broadcast_shapes(*[x.shape for x in operands])
        return function(*broadcast(operands, shape))

    public.__name__ = public.__qualname__ = name
    public.__doc__ = f"""{text}

    Example:
        >>> from fgrad import lax
        >>> {example}
    """
    return lowered(public)


bessel_i0e = _elementwise(
    "bessel_i0e", mb.i0e, "exp(-|x|) I0(x).", "lax.bessel_i0e(0.0)\n        np.float64(1.0)"
)
bessel_i1e = _elementwise(
    "bessel_i1e", mb.i1e, "exp(-|x|) I1(x).", "lax.bessel_i1e(0.0)\n        np.float64(0.0)"
)
betainc = _elementwise(
    "betainc", sp.betainc, "The regularised incomplete beta function of a, b and x.",
    "lax.betainc(1.0, 1.0, 0.25)\n        np.float64(0.25)",
)  # fmt: skip
digamma = _elementwise(
    "digamma", eg.digamma, "The derivative of lgamma.",
    "lax.digamma(1.0)\n        np.float64(-0.5772156649015329)",
)  # fmt: skip
erf = _elementwise("erf", eg.erf, "The error function.", "lax.erf(0.0)\n        np.float64(0.0)")
erfc = _elementwise("erfc", eg.erfc, "1 - erf(x).", "lax.erfc(0.0)\n        np.float64(1.0)")
erf_inv = _elementwise(
    "erf_inv", eg.erfinv, "The inverse of erf.", "lax.erf_inv(0.0)\n        np.float64(0.0)"
)
igamma = _elementwise(
    "igamma", sp.gammainc, "The regularised lower incomplete gamma function of a and x.",
    "lax.igamma(1.0, 0.0)\n        np.float64(0.0)",
)  # fmt: skip
igammac = _elementwise(
    "igammac", sp.gammaincc, "The regularised upper incomplete gamma function of a and x.",
    "lax.igammac(1.0, 0.0)\n        np.float64(1.0)",
)  # fmt: skip
lgamma = _elementwise(
    "lgamma", eg.lgamma, "log |gamma(x)|.", "lax.lgamma(1.0)\n        np.float64(0.0)"
)
logistic = _elementwise(
    "logistic", ew.logistic, "1 / (1 + exp(-x)).", "lax.logistic(0.0)\n        np.float64(0.5)"
)
zeta = _elementwise(
    "zeta", sp.zeta, "The Hurwitz zeta function, the sum of (k + q)^-x over k = 0, 1, ...",
    "round(float(lax.zeta(2.0, 1.0)), 12)\n        1.644934066848",
)  # fmt: skip
