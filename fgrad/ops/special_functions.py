"""L3. Special functions that SciPy evaluates, each with its derivatives.

    j0 = external("j0", lambda t, x, out: ...)       # SciPy's j0; compiled code calls it too

Formulas are those of the Digital Library of Mathematical Functions (dlmf.nist.gov), named by their
numbers.  A derivative that has no formula of functions here is refused by name, never zero.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from fgrad.base.lazy_import import lazy_module
from fgrad.errors import MissingRuleError
from fgrad.ir import traits
from fgrad.ir.aval import Aval
from fgrad.ir.primitive import Primitive
from fgrad.ir.traits import Cost, Host
from fgrad.ops import confluent_limit, quantile_tails
from fgrad.ops.complex import holomorphic_only, is_complex
from fgrad.ops.elementwise import (
    add,
    and_,
    cos,
    div,
    eq,
    exp,
    expm1,
    floor,
    ge,
    le,
    lit,
    log,
    log1p,
    mul,
    neg,
    reciprocal,
    remainder,
    select,
    sign,
    sin,
    sqrt,
    square,
    sub,
)
from fgrad.ops.erf_gamma import digamma, erf, lgamma
from fgrad.ops.families import DerivativeMap, finish_elementwise, same_dtype, same_shape
from fgrad.ops.hurwitz import zeta_slope
from fgrad.ops.incomplete import betainc_slope, gammainc_slope
from fgrad.ops.modified_bessel import over
from fgrad.trace import Value, bind
from fgrad.typing import Array

special = lazy_module("scipy.special")

Function = Callable[..., Value]


def external(
    name: str,
    *maps: DerivativeMap | None,
    evaluate: Callable[..., Array] | None = None,
    accepts: str = "f",
) -> Function:
    """An elementwise function of floats that SciPy evaluates, and how it is differentiated.

    Arguments:
        name: the name in `scipy.special`, and of the primitive.
        maps: the derivative map of each operand.
        evaluate: the NumPy function, if it is not SciPy's of that name.
        accepts: the dtype kinds of the operands: "fc" where SciPy takes complex numbers.
    """
    prim = Primitive(name, traits.elementwise(Cost.FUNCTION, host=Host.SCIPY))
    function = evaluate or (lambda *xs: getattr(special, name)(*xs))

    @prim.evaluate
    def _(*xs: Value) -> Value:
        return np.asarray(function(*xs), dtype=xs[0].dtype)[()]

    @prim.type_rule
    def _(*avals: Aval) -> Aval:
        return Aval(same_shape(prim, avals), same_dtype(prim, avals, accepts))

    finish_elementwise(prim, maps)

    def apply(*xs: Value) -> Value:
        return bind(prim, *xs)

    apply.__name__, apply.__doc__ = name, f"Elementwise `scipy.special.{name}`."
    return apply


def refused(name: str, operand: str) -> DerivativeMap:
    """The map of an operand in which a function has no derivative here."""

    def rule(*_: object) -> Value:
        raise MissingRuleError(
            f"The derivative of {name} in {operand} is not available.",
            (
                ("why", "its formula needs a function that is not available."),
                ("write", f"fgrad.stop_gradient({operand}), if it is a constant of the problem"),
            ),
        )

    return rule


# --- gamma and beta -------------------------------------------------------------------------------


def rgamma_slope(x: Value) -> Value:
    """-psi(x) / gamma(x), which is (-1)^n n! at x = -n (DLMF 5.7.1)."""
    pole = and_(le(x, lit(x, 0)), eq(x, floor(x)))
    safe = select(pole, lit(x, 1), x)
    n = select(pole, neg(x), lit(x, 0))
    parity = sub(lit(x, 1), mul(lit(x, 2), remainder(n, lit(x, 2))))
    at_pole = mul(parity, gamma(add(n, lit(x, 1))))
    return select(pole, at_pole, neg(mul(rgamma(x), digamma(safe))))


gamma = external("gamma", lambda t, x, out: mul(t, mul(out, digamma(x))), accepts="fc")
loggamma = external("loggamma", lambda t, x, out: mul(t, digamma(x)), accepts="fc")
rgamma = external("rgamma", lambda t, x, out: mul(t, rgamma_slope(x)), accepts="fc")
gammasgn = external("gammasgn", None)
zeta_s = external(  # d/dx zeta(x, q)
    "zeta_s", refused("zeta", "x twice"), refused("zeta", "x and q"), evaluate=zeta_slope
)


def _zeta_slope(x: Value, q: Value) -> Value:
    if is_complex(x):
        refused("zeta", "a complex x")()
    return zeta_s(x, q)


zeta = external(
    "zeta",
    lambda t, x, q, out: mul(t, _zeta_slope(x, q)),
    lambda t, x, q, out: neg(mul(t, mul(x, zeta(add(x, lit(x, 1)), q)))),
)
riemann_zeta = external(
    "riemann_zeta",
    lambda t, x, out: mul(t, _zeta_slope(x, lit(x, 1))),
    evaluate=lambda x: special.zeta(x),
    accepts="fc",
)
beta = external(
    "beta",
    lambda t, a, b, out: mul(t, mul(out, sub(digamma(a), digamma(add(a, b))))),
    lambda t, a, b, out: mul(t, mul(out, sub(digamma(b), digamma(add(a, b))))),
)
betaln = external(
    "betaln",
    lambda t, a, b, out: mul(t, sub(digamma(a), digamma(add(a, b)))),
    lambda t, a, b, out: mul(t, sub(digamma(b), digamma(add(a, b)))),
)


# --- incomplete gamma and beta --------------------------------------------------------------------


def _xlogy(x: Value, y: Value) -> Value:
    """x log y, and 0 where x is 0."""
    zero = eq(x, lit(x, 0))
    return select(zero, lit(x, 0), mul(x, log(select(zero, lit(x, 1), y))))


def gamma_density(a: Value, x: Value) -> Value:
    """x^(a - 1) exp(-x) / gamma(a) (DLMF 8.8.13)."""
    return exp(sub(sub(_xlogy(sub(a, lit(a, 1)), x), x), lgamma(a)))


def beta_density(a: Value, b: Value, x: Value) -> Value:
    """x^(a - 1) (1 - x)^(b - 1) / B(a, b) (DLMF 8.17.1)."""
    one = lit(x, 1)
    power = add(_xlogy(sub(a, one), x), _xlogy(sub(b, one), sub(one, x)))
    return exp(sub(power, betaln(a, b)))


gammainc_a = external(
    "gammainc_a",
    refused("the derivative of gammainc in a", "a"),
    lambda t, a, x, out: mul(t, mul(gamma_density(a, x), sub(log(x), digamma(a)))),
    evaluate=gammainc_slope,
)
betainc_a = external(
    "betainc_a",
    refused("the derivative of betainc in a", "a"),
    refused("the derivative of betainc in a", "b"),
    lambda t, a, b, x, out: mul(
        t, mul(beta_density(a, b, x), add(sub(log(x), digamma(a)), digamma(add(a, b))))
    ),
    evaluate=betainc_slope,
)


def betainc_b(a: Value, b: Value, x: Value) -> Value:
    """The derivative of I_x(a, b) = 1 - I_(1-x)(b, a) in b."""
    return neg(betainc_a(b, a, sub(lit(x, 1), x)))


gammainc = external(
    "gammainc",
    lambda t, a, x, out: mul(t, gammainc_a(a, x)),
    lambda t, a, x, out: mul(t, gamma_density(a, x)),
)
gammaincc = external(
    "gammaincc",
    lambda t, a, x, out: neg(mul(t, gammainc_a(a, x))),
    lambda t, a, x, out: neg(mul(t, gamma_density(a, x))),
)
gammaincinv = external(
    "gammaincinv",
    lambda t, a, p, out: neg(mul(t, div(gammainc_a(a, out), gamma_density(a, out)))),
    lambda t, a, p, out: mul(t, reciprocal(gamma_density(a, out))),
)
gammainccinv = external(
    "gammainccinv",
    lambda t, a, p, out: neg(mul(t, div(gammainc_a(a, out), gamma_density(a, out)))),
    lambda t, a, p, out: neg(mul(t, reciprocal(gamma_density(a, out)))),
)
betainc = external(
    "betainc",
    lambda t, a, b, x, out: mul(t, betainc_a(a, b, x)),
    lambda t, a, b, x, out: mul(t, betainc_b(a, b, x)),
    lambda t, a, b, x, out: mul(t, beta_density(a, b, x)),
)
betaincc = external(
    "betaincc",
    lambda t, a, b, x, out: neg(mul(t, betainc_a(a, b, x))),
    lambda t, a, b, x, out: neg(mul(t, betainc_b(a, b, x))),
    lambda t, a, b, x, out: neg(mul(t, beta_density(a, b, x))),
)
betaincinv = external(
    "betaincinv_at",
    lambda t, a, b, p, out: neg(mul(t, div(betainc_a(a, b, out), beta_density(a, b, out)))),
    lambda t, a, b, p, out: neg(mul(t, div(betainc_b(a, b, out), beta_density(a, b, out)))),
    lambda t, a, b, p, out: mul(t, reciprocal(beta_density(a, b, out))),
    evaluate=quantile_tails.betaincinv,
)


# --- error functions and the normal distribution --------------------------------------------------

_TWO_OVER_SQRT_PI = 2 / math.sqrt(math.pi)
_SQRT_TWO_PI = math.sqrt(2 * math.pi)


def _scaled_gauss(x: Value, sign_of: float, factor: float) -> Value:
    return mul(exp(mul(square(x), lit(x, sign_of))), lit(x, factor))


erfcx = external(
    "erfcx",
    lambda t, x, out: mul(t, sub(mul(mul(x, out), lit(x, 2)), lit(x, _TWO_OVER_SQRT_PI))),
    accepts="fc",
)
erfi = external(
    "erfi", lambda t, x, out: mul(t, _scaled_gauss(x, 1.0, _TWO_OVER_SQRT_PI)), accepts="fc"
)
dawsn = external(
    "dawsn", lambda t, x, out: mul(t, sub(lit(x, 1), mul(mul(x, out), lit(x, 2)))), accepts="fc"
)
erfcinv = external(
    "erfcinv", lambda t, x, out: mul(t, _scaled_gauss(out, 1.0, -1 / _TWO_OVER_SQRT_PI))
)
ndtr = external("ndtr", lambda t, x, out: mul(t, _scaled_gauss(x, -0.5, 1 / _SQRT_TWO_PI)))
log_ndtr = external(
    "log_ndtr",
    lambda t, x, out: mul(
        t,
        mul(exp(sub(mul(square(x), lit(x, -0.5)), out)), lit(x, 1 / _SQRT_TWO_PI)),
    ),
    accepts="fc",
)
ndtri = external("ndtri", lambda t, p, out: mul(t, _scaled_gauss(out, 0.5, _SQRT_TWO_PI)))
ndtri_exp = external(
    "ndtri_exp",
    lambda t, y, out: mul(t, mul(exp(add(y, mul(square(out), lit(y, 0.5)))), lit(y, _SQRT_TWO_PI))),
)
owens_t = external(
    "owens_t",
    lambda t, h, a, out: mul(
        t,
        mul(
            _scaled_gauss(h, -0.5, -0.5 / _SQRT_TWO_PI),
            erf(mul(mul(a, h), lit(h, math.sqrt(0.5)))),
        ),
    ),
    lambda t, h, a, out: mul(t, _owens_slope(h, a)),
)


def _owens_slope(h: Value, a: Value) -> Value:
    """exp(-h^2 (1 + a^2) / 2) / (2 pi (1 + a^2))."""
    growth = add(lit(a, 1), square(a))
    return div(exp(mul(mul(square(h), growth), lit(h, -0.5))), mul(growth, lit(a, 2 * math.pi)))


# --- Bessel functions (DLMF 10.6, 10.29) ----------------------------------------------------------

j0 = external("j0", lambda t, x, out: neg(mul(t, j1(x))))
j1 = external("j1", lambda t, x, out: over(t, x, 0.5, _j1_slope))
y0 = external("y0", lambda t, x, out: neg(mul(t, y1(x))))
y1 = external("y1", lambda t, x, out: mul(t, sub(y0(x), div(out, x))))
k0 = external("k0", lambda t, x, out: neg(mul(t, k1(x))))
k1 = external("k1", lambda t, x, out: neg(mul(t, add(k0(x), div(out, x)))))
k0e = external("k0e", lambda t, x, out: mul(t, sub(out, k1e(x))))
k1e = external(
    "k1e", lambda t, x, out: mul(t, sub(mul(out, sub(lit(x, 1), reciprocal(x))), k0e(x)))
)


def _j1_slope(x: Value) -> Value:
    return sub(j0(x), div(j1(x), x))


def _neighbours(f: Function, v: Value, x: Value) -> tuple[Value, Value]:
    one = lit(v, 1)
    return f(sub(v, one), x), f(add(v, one), x)


def _half_difference(f: Function, t: Value, v: Value, x: Value) -> Value:
    below, above = _neighbours(f, v, x)
    return mul(t, mul(sub(below, above), lit(x, 0.5)))


def _half_sum(f: Function, t: Value, v: Value, x: Value) -> Value:
    below, above = _neighbours(f, v, x)
    return mul(t, mul(add(below, above), lit(x, 0.5)))


def _bessel(name: str, slope: DerivativeMap) -> Function:
    """A function of (v, x), whose order is real also where x is complex."""

    def evaluate(v: Array, x: Array) -> Array:
        return getattr(special, name)(np.real(v), x)

    return external(name, refused(name, "its order v"), slope, evaluate=evaluate, accepts="fc")


def _scaled_slope(t: Value, v: Value, x: Value, out: Value) -> Value:
    holomorphic_only("ive", x)
    return sub(_half_sum(ive, t, v, x), mul(t, mul(sign(x), out)))


jv = _bessel("jv", lambda t, v, x, out: _half_difference(jv, t, v, x))
yv = _bessel("yv", lambda t, v, x, out: _half_difference(yv, t, v, x))
iv = _bessel("iv", lambda t, v, x, out: _half_sum(iv, t, v, x))
kv = _bessel("kv", lambda t, v, x, out: neg(_half_sum(kv, t, v, x)))
ive = _bessel("ive", _scaled_slope)
kve = _bessel("kve", lambda t, v, x, out: sub(mul(t, out), _half_sum(kve, t, v, x)))


# --- integrals ------------------------------------------------------------------------------------


def _sinc(x: Value) -> Value:
    zero = eq(x, lit(x, 0))
    safe = select(zero, lit(x, 1), x)
    return select(zero, lit(x, 1), div(sin(safe), safe))


def _half_turns(f: Callable[[Value], Value], x: Value) -> Value:
    return f(mul(square(x), lit(x, math.pi / 2)))


expi = external("expi", lambda t, x, out: mul(t, div(exp(x), x)), accepts="fc")
exp1 = external("exp1", lambda t, x, out: neg(mul(t, div(exp(neg(x)), x))), accepts="fc")
expn = external(
    "expn",
    refused("expn", "n"),
    lambda t, n, x, out: neg(mul(t, _expn_below(n, x))),
)


def _expn_below(n: Value, x: Value) -> Value:
    """E_(n-1)(x), with E_(-1)(x) = exp(-x) (1 + 1/x) / x (DLMF 8.19.12, 8.19.13)."""
    first = ge(n, lit(n, 1))
    below = expn(select(first, sub(n, lit(n, 1)), lit(n, 0)), x)
    inverse = reciprocal(x)
    return select(first, below, mul(mul(exp(neg(x)), inverse), add(lit(x, 1), inverse)))


sine_integral = external(
    "sine_integral",
    lambda t, x, out: mul(t, _sinc(x)),
    evaluate=lambda x: special.sici(x)[0],
    accepts="fc",
)
cosine_integral = external(
    "cosine_integral",
    lambda t, x, out: mul(t, div(cos(x), x)),
    evaluate=lambda x: special.sici(x)[1],
    accepts="fc",
)
fresnel_s = external(
    "fresnel_s",
    lambda t, x, out: mul(t, _half_turns(sin, x)),
    evaluate=lambda x: special.fresnel(x)[0],
    accepts="fc",
)
fresnel_c = external(
    "fresnel_c",
    lambda t, x, out: mul(t, _half_turns(cos, x)),
    evaluate=lambda x: special.fresnel(x)[1],
    accepts="fc",
)


def _spence_slope(z: Value) -> Value:
    """log(z) / (1 - z), which is -1 at 1."""
    one = eq(z, lit(z, 1))
    safe = select(one, lit(z, 2), z)
    return select(one, lit(z, -1), div(log(safe), sub(lit(z, 1), safe)))


spence = external("spence", lambda t, z, out: mul(t, _spence_slope(z)), accepts="fc")


# --- hypergeometric (DLMF 13.3.15, 13.3.22, 15.5.1) -----------------------------------------------


def _up(*xs: Value) -> list[Value]:
    return [add(x, lit(x, 1)) for x in xs]


hyp0f1 = external(
    "hyp0f1_at",
    refused("hyp0f1", "v"),
    lambda t, v, z, out: mul(t, div(hyp0f1(*_up(v), z), v)),
    evaluate=confluent_limit.hyp0f1,
)
hyp1f1 = external(
    "hyp1f1",
    refused("hyp1f1", "a"),
    refused("hyp1f1", "b"),
    lambda t, a, b, x, out: mul(t, mul(div(a, b), hyp1f1(*_up(a, b), x))),
)
hyp2f1 = external(
    "hyp2f1",
    refused("hyp2f1", "a"),
    refused("hyp2f1", "b"),
    refused("hyp2f1", "c"),
    lambda t, a, b, c, z, out: mul(t, mul(div(mul(a, b), c), hyp2f1(*_up(a, b, c), z))),
)
hyperu = external(
    "hyperu",
    refused("hyperu", "a"),
    refused("hyperu", "b"),
    lambda t, a, b, x, out: neg(mul(t, mul(a, hyperu(*_up(a, b), x)))),
)


# --- differences without cancellation -------------------------------------------------------------


def _exprel_slope(x: Value) -> Value:
    """((x - 1) exp(x) + 1) / x^2, by its series for |x| < 0.5: sum x^k (k + 1) / (k + 2)!."""
    near = le(mul(sign(x), x), lit(x, 0.5))
    z = select(near, x, lit(x, 0))
    series = lit(x, 0)
    for k in reversed(range(16)):
        series = add(mul(series, z), lit(x, (k + 1) / math.factorial(k + 2)))
    far = select(near, lit(x, 1), x)
    closed = div(sub(mul(far, exp(far)), expm1(far)), square(far))
    return select(near, series, closed)


exprel = external("exprel", lambda t, x, out: mul(t, _exprel_slope(x)))


def cosm1(x: Value) -> Value:
    """cos(x) - 1 = -2 sin(x / 2)^2, which has all its digits near every multiple of 2 pi."""
    return mul(square(sin(mul(x, lit(x, 0.5)))), lit(x, -2.0))


# --- entropies, powers and losses -----------------------------------------------------------------


def _entropy_slope(x: Value, y: Value) -> Value:
    """log(x / y) + 1, and 0 where both are 0."""
    zero = and_(eq(x, lit(x, 0)), eq(y, lit(y, 0)))
    ratio = sub(log(select(zero, lit(x, 1), x)), log(select(zero, lit(y, 1), y)))
    return select(zero, lit(x, 0), add(ratio, lit(x, 1)))


def _share(x: Value, y: Value) -> Value:
    """x / y, and 0 where both are 0."""
    zero = and_(eq(x, lit(x, 0)), eq(y, lit(y, 0)))
    return div(x, select(zero, lit(y, 1), y))


rel_entr = external(
    "rel_entr",
    lambda t, x, y, out: mul(t, _entropy_slope(x, y)),
    lambda t, x, y, out: neg(mul(t, _share(x, y))),
)
kl_div = external(
    "kl_div",
    lambda t, x, y, out: mul(t, sub(_entropy_slope(x, y), lit(x, 1))),
    lambda t, x, y, out: mul(t, sub(lit(x, 1), _share(x, y))),
)


def _hypotenuse(delta: Value, r: Value) -> Value:
    """sqrt(1 + (r / delta)^2)."""
    return sqrt(add(square(div(r, delta)), lit(r, 1)))


def _huber_slope(delta: Value, r: Value) -> Value:
    """2 delta (s - 1) - r^2 / (delta s) for s = sqrt(1 + (r / delta)^2), and |r| at delta = 0."""
    zero = eq(delta, lit(r, 0))
    safe = select(zero, lit(r, 1), delta)
    s = _hypotenuse(safe, r)
    twice = mul(mul(safe, sub(s, lit(r, 1))), lit(r, 2))
    return select(zero, mul(r, sign(r)), sub(twice, div(square(r), mul(safe, s))))


def _huber_share(delta: Value, r: Value) -> Value:
    """r / s, and 0 at delta = 0."""
    zero = eq(delta, lit(r, 0))
    return select(zero, lit(r, 0), div(r, _hypotenuse(select(zero, lit(r, 1), delta), r)))


pseudo_huber = external(
    "pseudo_huber",
    lambda t, delta, r, out: mul(t, _huber_slope(delta, r)),
    lambda t, delta, r, out: mul(t, _huber_share(delta, r)),
)


def _power_slope(log_x: Value, power: Value) -> Value:
    """The derivative of log_x exprel(power log_x) in the power, 1 / power^2 far below."""
    exponent = mul(power, log_x)
    far = le(exponent, lit(power, -100))
    safe = select(far, lit(power, 0), log_x)
    near = mul(square(safe), _exprel_slope(mul(power, safe)))
    return select(far, reciprocal(square(select(far, power, lit(power, 1)))), near)


boxcox = external(
    "boxcox",
    lambda t, x, p, out: mul(t, exp(_xlogy(sub(p, lit(p, 1)), x))),
    lambda t, x, p, out: mul(t, _power_slope(log(x), p)),
)
boxcox1p = external(
    "boxcox1p",
    lambda t, x, p, out: mul(t, exp(mul(sub(p, lit(p, 1)), log1p(x)))),
    lambda t, x, p, out: mul(t, _power_slope(log1p(x), p)),
)


def _inverse_slope(y: Value, power: Value) -> Value:
    """The derivative of log(1 + power y) / power in the power: y^2 g(power y).

    g(u) = (u / (1 + u) - log(1 + u)) / u^2, by its series sum (-1)^k k / (k + 1) u^(k - 1) for
    |u| < 0.1.
    """
    u = mul(power, y)
    near = le(mul(sign(u), u), lit(u, 0.1))
    z = select(near, u, lit(u, 0))
    series = lit(u, 0)
    for k in reversed(range(1, 17)):
        series = add(mul(series, z), lit(u, (-1) ** k * k / (k + 1)))
    far = select(near, lit(u, 1), u)
    closed = div(sub(div(far, add(far, lit(u, 1))), log1p(far)), square(far))
    return mul(square(y), select(near, series, closed))


inv_boxcox = external(
    "inv_boxcox",
    lambda t, y, p, out: mul(t, exp(_xlogy(sub(lit(p, 1), p), out))),
    lambda t, y, p, out: mul(t, mul(out, _inverse_slope(y, p))),
)
inv_boxcox1p = external(
    "inv_boxcox1p",
    lambda t, y, p, out: mul(t, exp(mul(sub(lit(p, 1), p), log1p(out)))),
    lambda t, y, p, out: mul(t, mul(add(out, lit(p, 1)), _inverse_slope(y, p))),
)
