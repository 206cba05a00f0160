"""L5. Inverse functions of complex numbers by real functions of their parts, for kernels.

    arcsinh, arcsin, arccos, arccosh      [H] Hull, Fairgrieve, Tang, Implementing the complex
                                              arcsine and arccosine functions, 1997
    arctanh, arctan                       [K] Kahan, Branch cuts for complex elementary
                                              functions, 1987

Special values are those of C99 (annex G).
"""

from __future__ import annotations

import math

import numpy as np

from fgrad.base.named_tuple import NamedTuple
from fgrad.compile.passes.complex_functions import Parts, is_zero
from fgrad.ops import elementwise as ew
from fgrad.trace import Value

_SHRINK = {8: -515, 4: -70}  # powers of two that make squares of large numbers finite
_CROSSOVER = 10.0  # of A in [H]: from there on A^2 - 1 loses nothing
_STEEP = 0.6417  # of y / A in [H]: from there on A - y does


def asinh(x: Value, y: Value) -> Parts:
    """asinh |x| + i|y| by `_hull`; it is odd, and so is its conjugate."""
    parts = _hull(ew.abs_(x), ew.abs_(y))
    re, im = parts.size, ew.atan2(parts.along, parts.across)
    nan = ew.lit(x, np.nan)
    unknown = ew.or_(ew.isnan(x), ew.isnan(y))
    # inf + i nan, nan + i inf, nan + 0i, all others
    endless = ew.or_(ew.isinf(x), ew.isinf(y))
    re = ew.select(unknown, ew.select(endless, ew.lit(x, math.inf), nan), re)
    im = ew.select(unknown, ew.select(is_zero(y), y, nan), im)
    return ew.copysign(re, x), ew.copysign(im, y)


def asin(x: Value, y: Value) -> Parts:
    """-i asinh iz."""
    re, im = asinh(ew.neg(y), x)
    return im, ew.neg(re)


def acos(x: Value, y: Value) -> Parts:
    """The angle from sqrt(A^2 - x^2) and x, and -asinh of the size with the sign of y [H]."""
    parts = _hull(ew.abs_(y), ew.abs_(x))
    re = ew.atan2(parts.across, ew.copysign(parts.along, x))
    im = ew.select(ew.signbit(y), parts.size, ew.neg(parts.size))
    unknown, nan = ew.or_(ew.isnan(x), ew.isnan(y)), ew.lit(x, np.nan)
    turned = ew.select(is_zero(x), ew.lit(x, math.pi / 2), nan)
    endless = ew.or_(ew.isinf(x), ew.isinf(y))
    beyond = ew.select(endless, ew.copysign(ew.lit(x, math.inf), ew.neg(y)), nan)
    return ew.select(unknown, turned, re), ew.select(unknown, beyond, im)


def acosh(x: Value, y: Value) -> Parts:
    """i acos z or -i acos z, whichever has a positive real part."""
    re, im = acos(x, y)
    return ew.abs_(im), ew.copysign(re, y)


class _Hull(NamedTuple):
    """Re asinh(x + iy) = size, and its imaginary part is the angle of across + i along."""

    size: Value
    across: Value
    along: Value


def _hull(x: Value, y: Value) -> _Hull:
    """With R, S the distances of (x, y) from (0, -1), (0, 1) and A = (R + S) / 2: asinh has the
    real part log(A + sqrt(A^2 - 1)) and the imaginary part arcsin(y / A), for x, y >= 0.

    A - 1 and A - y are taken without cancellation [H].  Large numbers are scaled, so that 1
    vanishes beside them.
    """
    eps = float(np.finfo(x.dtype).eps)
    zero, one = ew.lit(x, 0), ew.lit(x, 1)
    power = _SHRINK[x.dtype.itemsize]
    large = ew.gt(ew.max_(x, y), ew.lit(x, 1 / eps))
    scale, unit = ew.select(large, ew.lit(x, 2.0**power), one), ew.select(large, zero, one)
    a, b = ew.mul(x, scale), ew.mul(y, scale)
    above, below = ew.add(b, unit), ew.sub(b, unit)
    r, s = _length(a, above), _length(a, below)
    mean = ew.max_(ew.mul(ew.add(r, s), ew.lit(x, 0.5)), unit)
    # A^2 - 1 = (A - 1) (A + 1), by A - 1 where x is not tiny beside |y - 1|
    wide = ew.ge(a, ew.mul(ew.lit(x, eps), ew.abs_(below)))
    beyond = ew.add(_excess(a, above, r), _excess(a, ew.neg(below), s))
    thin = ew.mul(ew.abs_(below), above)  # |y - 1| (y + 1)
    root = ew.sqrt(ew.mul(beyond, ew.add(mean, one)))
    outer = ew.add(ew.max_(below, zero), ew.sqrt(thin))
    inner = ew.div(a, ew.sqrt(ew.select(is_zero(thin), one, thin)))
    flat = ew.lt(b, one)
    near = ew.select(wide, ew.add(beyond, root), ew.select(flat, inner, outer))
    far = ew.add(mean, ew.sqrt(ew.mul(ew.sub(mean, unit), ew.add(mean, unit))))
    close = ew.and_(ew.lt(mean, ew.lit(x, _CROSSOVER)), ew.not_(large))
    size = ew.select(close, ew.log1p(near), ew.log(ew.select(close, one, far)))
    tiny = ew.and_(close, ew.and_(ew.not_(wide), flat))
    size = ew.select(tiny, inner, size)
    # on the cut's end, y = 1: sqrt(x) for tiny x
    end = ew.and_(ew.eq(b, unit), ew.lt(a, ew.lit(x, eps * eps / 128)))
    size = ew.select(ew.and_(end, ew.not_(large)), ew.sqrt(a), size)
    size = ew.add(size, ew.select(large, ew.lit(x, -power * math.log(2)), zero))
    # A^2 - y^2 = (A - y) (A + y)
    steep = ew.gt(b, ew.mul(mean, ew.lit(x, _STEEP)))
    rest = ew.add(_excess(a, above, r), _excess(a, below, s))
    beside = ew.select(flat, ew.sqrt(thin), ew.mul(inner, b))
    full = ew.sqrt(ew.mul(ew.select(steep, rest, ew.sub(mean, b)), ew.add(mean, b)))
    across = ew.select(ew.and_(steep, ew.not_(wide)), beside, full)
    endless = ew.or_(ew.isinf(x), ew.isinf(y))
    size = ew.select(endless, ew.lit(x, math.inf), size)
    return _Hull(size, ew.select(large, x, across), y)


def _length(a: Value, b: Value) -> Value:
    return ew.sqrt(ew.add(ew.mul(a, a), ew.mul(b, b)))


def _excess(a: Value, b: Value, h: Value) -> Value:
    """(h - b) / 2 for h = sqrt(a^2 + b^2)."""
    half = ew.lit(a, 0.5)
    total = ew.add(h, b)
    ratio = ew.div(a, ew.select(is_zero(total), ew.lit(a, 1), total))
    positive = ew.mul(ew.mul(a, ratio), half)
    return ew.select(ew.gt(b, ew.lit(a, 0)), positive, ew.mul(ew.sub(h, b), half))


def atanh(x: Value, y: Value) -> Parts:
    """log1p(4 x / ((1 - x)^2 + y^2)) / 4, and half the angle of (1 - x) (1 + x) - y^2 + 2iy [K];
    for large z the real part of 1 / z, and a right angle."""
    eps = float(np.finfo(x.dtype).eps)
    zero, one, half = ew.lit(x, 0), ew.lit(x, 1), ew.lit(x, 0.5)
    a, b = ew.abs_(x), ew.abs_(y)
    largest = ew.max_(a, b)
    large = ew.gt(largest, ew.lit(x, 1 / eps))
    p, q = ew.select(large, one, a), ew.select(large, one, b)
    left = ew.sub(p, one)
    distance = ew.add(ew.mul(left, left), ew.mul(q, q))
    end = ew.and_(ew.eq(p, one), ew.lt(q, ew.lit(x, eps)))  # beside the pole: log(2 / y) / 2
    ratio = ew.div(ew.mul(p, ew.lit(x, 4)), ew.select(end, one, distance))
    pole = ew.mul(ew.sub(ew.lit(x, math.log(2)), ew.log(ew.select(end, q, one))), half)
    re = ew.select(end, pole, ew.mul(ew.log1p(ratio), ew.lit(x, 0.25)))
    turn = ew.sub(ew.mul(ew.sub(one, p), ew.add(one, p)), ew.mul(q, q))
    im = ew.mul(ew.atan2(ew.mul(q, ew.lit(x, 2)), turn), half)
    # 1 / z for large z, 0 for infinite ones
    whole = ew.select(large, largest, one)
    c, d = ew.div(a, whole), ew.div(b, whole)
    inverse = ew.div(ew.div(c, ew.add(ew.mul(c, c), ew.mul(d, d))), whole)
    endless = ew.or_(ew.isinf(x), ew.isinf(y))
    re = ew.select(large, ew.select(endless, zero, inverse), re)
    im = ew.select(large, ew.lit(x, math.pi / 2), im)
    # NaN, but for 0 + i nan, inf + i nan and nan + i inf
    unknown, nan = ew.or_(ew.isnan(x), ew.isnan(y)), ew.lit(x, np.nan)
    known = ew.or_(endless, is_zero(x))
    re = ew.select(unknown, ew.select(known, zero, nan), re)
    im = ew.select(unknown, ew.select(ew.isinf(y), ew.lit(x, math.pi / 2), nan), im)
    return ew.copysign(re, x), ew.copysign(im, y)


def atan(x: Value, y: Value) -> Parts:
    """-i atanh iz."""
    re, im = atanh(ew.neg(y), x)
    return im, ew.neg(re)
