"""L5. erf, erfc, erfinv, lgamma and digamma, as vector instructions.

Positive arguments are within 2.5 ulp.  lgamma and digamma of negative arguments go through a
reflection, whose error is relative to its two terms: near their zeros on the negative axis only the
absolute error is small.
"""

from __future__ import annotations

from fgrad.compile.llvm.vector.coefficients import (
    COS,
    DIGAMMA,
    DIGAMMA_TAIL,
    ERF,
    ERF_PIECES,
    ERF_TAIL,
    ERFCX,
    ERFINV,
    ERFINV_FAR,
    ERFINV_TAIL,
    EXP,
    EXP2,
    LGAMMA,
    LGAMMA_TAIL,
    SIN,
)
from fgrad.compile.llvm.vector.exp import (
    normal_power,
    reduce_by_ln2,
    round_to_int,
    scale_by_power,
)
from fgrad.compile.llvm.vector.lanes import INF, NAN, Lanes
from fgrad.compile.llvm.vector.log import fast_two_sum, log, log_parts

PI_32 = (3.1415927410125732, -8.742277657347586e-08)
PI_64 = (3.141592653589793, 1.2246467991473532e-16)
# The positive zero of digamma.
DIGAMMA_ZERO_32 = (1.4616321325302124, 1.243815006546356e-08)
DIGAMMA_ZERO_64 = (1.4616321449683622, 9.549995429965697e-17)
HALF_LOG_TWO_PI = 0.9189385332046728


def _erf_near(v: Lanes, x: str) -> str:
    """erf x = x + x P(x^2) for |x| < 1"""
    return v.muladd(x, v.fit(ERF, v.mul(x, x)), x)


def erf(v: Lanes, x: str) -> str:
    """1 - 2^(-P(|x|)) from 1 on"""
    if v.narrow:
        return v.in_register(erf, x)
    if v.avx512:
        return _erf_in_pieces(v, x)
    size = v.abs(x)
    exponent = v.neg(v.fit(ERF_TAIL, v.at_most(size, v.pick(4.1, 6.1))))
    bits, n = round_to_int(v, exponent, 1.0)
    r = v.sub(exponent, n)
    far = v.mul(v.muladd(r, v.fit(EXP2, r), 1.0), normal_power(v, bits))
    near = v.compare("olt", size, 1.0)
    return v.copysign(v.select(near, _erf_near(v, size), v.sub(1.0, far)), x)


def _erf_in_pieces(v: Lanes, x: str) -> str:
    """erf c + r P(r) for the nearest c of 16 (float32) or 8 (float64), whose P are looked up"""
    step = v.pick(65 / 256, 102 / 128)
    size = v.at_most(v.abs(x), v.pick(3.93, 5.97))
    bits, n = round_to_int(v, size, 1 / step)
    r = v.fma(n, -step, size)
    start, *slope = v.pick(*ERF_PIECES)
    y = v.fma(r, v.lookup_fit(slope, bits, r), v.lookup(start, bits))
    return v.copysign(y, x)


def erfc(v: Lanes, x: str) -> str:
    """e^(-x^2) P(q) / (|x| + 2), q = (|x| - 2) / (|x| + 2), with the rounding errors of factors"""
    size = v.at_most(v.abs(x), v.pick(10.5, 27.5))
    square = v.mul(size, size)
    square_low = v.fma(size, size, v.neg(square))
    bits, n, start = reduce_by_ln2(v, v.neg(square))
    r, r_low = fast_two_sum(v, start, v.neg(square_low))
    tail, tail_low = fast_two_sum(v, r, v.mul(v.mul(r, r), v.fit(EXP, r)))
    y, y_low = fast_two_sum(v, v.number(1.0), tail)
    y_low = v.add(y_low, v.add(tail_low, r_low))
    shifted = v.add(size, 2.0)
    missing = v.sub(size, v.sub(shifted, 2.0))
    inverse = v.div(1.0, shifted)
    rest = v.sub(v.fma(v.neg(inverse), shifted, 1.0), v.mul(inverse, missing))
    q = v.mul(v.sub(size, 2.0), inverse)
    series, series_low = v.fit_parts(ERFCX, v.muladd(q, rest, q))
    factor = v.mul(series, inverse)
    error = v.muladd(series_low, inverse, v.fma(series, inverse, v.neg(factor)))
    factor_low = v.muladd(factor, rest, error)
    product = v.mul(y, factor)
    low = v.muladd(y_low, factor, v.muladd(y, factor_low, v.fma(y, factor, v.neg(product))))
    far = scale_by_power(v, v.add(product, low), bits, n)
    far = v.select(v.compare("olt", x, 0.0), v.sub(2.0, far), far)
    return v.select(v.compare("olt", size, 0.8), v.sub(1.0, _erf_near(v, x)), far)


def erfinv(v: Lanes, x: str) -> str:
    """x P(w) with w = -log(1 - x^2); beyond w = 5 polynomials in sqrt(w), whose slope is about 1"""
    rest = v.fma(v.neg(x), x, 1.0)
    w = v.neg(log(v, rest))
    large = v.compare("ogt", w, 5.0)
    central = v.fit_parts(ERFINV, w)

    def rare() -> list[str]:
        high, low = log_parts(v, rest)
        root = v.sqrt(v.neg(high))
        root_low = v.div(v.sub(v.fma(v.neg(root), root, v.neg(high)), low), v.add(root, root))
        tail, tail_low = v.fit_parts(ERFINV_TAIL, v.sub(root, 3.0))
        if v.double:
            beyond = v.compare("ogt", root, 4.0)
            far, far_low = v.fit_parts((ERFINV_FAR, ERFINV_FAR), v.sub(root, 5.0))
            tail, tail_low = v.select(beyond, far, tail), v.select(beyond, far_low, tail_low)
        finite = v.compare("olt", w, INF)
        tail_low = v.select(finite, v.add(tail_low, root_low), 0.0)
        tail = v.select(finite, tail, INF)
        return [v.select(large, tail, central[0]), v.select(large, tail_low, central[1])]

    high, low = v.replace_rarely(large, [(part, v.float) for part in central], rare)
    return v.copysign(v.fma(x, high, v.mul(x, low)), x)


def _sin_cos_pi(v: Lanes, x: str) -> tuple[str, str]:
    """(|sin(pi x)|, |cos(pi x)|), with exact zeros"""
    turn = v.abs(v.sub(x, v.call("rint", x)))
    steep = v.compare("ogt", turn, 0.25)
    part = v.select(steep, v.sub(0.5, turn), turn)
    high, low = v.pick(PI_32, PI_64)
    r = v.fma(part, high, v.mul(part, low))
    z = v.mul(r, r)
    sine = v.muladd(v.mul(z, r), v.fit(SIN, z), r)
    cosine = v.muladd(v.mul(z, z), v.fit(COS, z), v.muladd(z, -0.5, 1.0))
    return v.select(steep, cosine, sine), v.select(steep, sine, cosine)


def _lgamma_positive(v: Lanes, x: str) -> str:
    """(x - 1) (x - 2) P on [1/2, 4], (x - 1/2) (log x - 1) + ... above"""
    series, series_low = v.fit_parts(LGAMMA, v.div(v.sub(x, 1.5), v.add(x, 1.5)))
    above_one, above_two = v.sub(x, 1.0), v.sub(x, 2.0)
    zeros = v.mul(above_one, above_two)
    zeros_low = v.fma(above_one, above_two, v.neg(zeros))
    rest = v.muladd(zeros, series_low, v.mul(zeros_low, series))
    near = v.add(v.fma(zeros, series, rest), 0.0)
    high, low = log_parts(v, v.at_most(x, v.pick(3.4e38, 1.7e308)))
    factor, error = fast_two_sum(v, high, v.number(-1.0))
    start = v.sub(x, 0.5)
    product = v.mul(start, factor)
    rest = v.fma(start, factor, v.neg(product))
    rest = v.muladd(start, v.add(error, low), rest)
    inverse = v.div(1.0, x)
    series = v.muladd(inverse, v.fit(LGAMMA_TAIL, v.mul(inverse, inverse)), HALF_LOG_TWO_PI - 0.5)
    far = v.add(product, v.add(series, rest))
    far = v.select(v.compare("olt", product, INF), far, product)
    return v.select(v.compare("ogt", x, 4.0), far, near)


def lgamma(v: Lanes, x: str) -> str:
    """log|gamma(x)|: lgamma(1 + x) - log x below 1/2, log|pi / sin pi x| - lgamma(1 - x) below 0"""
    below = v.compare("olt", x, 0.5)
    positive = _lgamma_positive(v, v.select(below, v.add(v.abs(x), 1.0), x))

    def rare() -> list[str]:
        negative = v.compare("olt", x, 0.0)
        sine, _ = _sin_cos_pi(v, x)
        high, low = v.pick(PI_32, PI_64)
        inverse = 1.0 / (high + low)
        logarithm = log(v, v.select(negative, v.mul(sine, inverse), v.abs(x)))
        reflected = v.sub(v.select(negative, v.neg(positive), positive), logarithm)
        reflected = v.select(v.compare("oeq", sine, 0.0), INF, reflected)
        reflected = v.select(v.compare("oeq", v.abs(x), INF), x, reflected)
        return [v.select(below, reflected, positive)]

    return v.replace_rarely(below, [(positive, v.float)], rare)[0]


def _digamma_positive(v: Lanes, x: str, x_low: str) -> str:
    """(x - zero) P on [1, 4], log x - 1 / (2 x) - ... above; x_low is a rounding error of x"""
    series, series_low = v.fit_parts(DIGAMMA, v.div(v.sub(x, 2.0), v.add(x, 2.0)))
    high, low = v.pick(DIGAMMA_ZERO_32, DIGAMMA_ZERO_64)
    distance = v.add(v.sub(x, high), v.sub(x_low, low))
    near = v.fma(distance, series, v.mul(distance, series_low))
    inverse = v.div(1.0, x)
    w = v.mul(inverse, inverse)
    tail = v.muladd(inverse, 0.5, v.mul(w, v.fit(DIGAMMA_TAIL, w)))
    return v.select(v.compare("ogt", x, 4.0), v.sub(log(v, x), tail), near)


def digamma(v: Lanes, x: str) -> str:
    """The derivative of lgamma; digamma(1 + x) - 1 / x below 1, a reflection below 0"""
    below = v.compare("olt", x, 1.0)
    negative = v.compare("olt", x, 0.0)
    size = v.abs(x)
    shifted = v.add(size, 1.0)
    error = v.select(below, v.sub(size, v.sub(shifted, 1.0)), 0.0)
    positive = _digamma_positive(v, v.select(below, shifted, x), error)

    def rare() -> list[str]:
        sine, cosine = _sin_cos_pi(v, x)
        right = v.compare("ogt", x, v.call("rint", x))
        cotangent = v.copysign(v.div(cosine, sine), v.select(right, 1.0, -1.0))
        reflected = v.muladd(v.neg(cotangent), 3.141592653589793, positive)
        integral = v.compare("oeq", x, v.call("rint", x))
        reflected = v.select(integral, NAN, reflected)
        shifted = v.sub(positive, v.div(1.0, x))
        return [v.select(below, v.select(negative, reflected, shifted), positive)]

    return v.replace_rarely(below, [(positive, v.float)], rare)[0]
