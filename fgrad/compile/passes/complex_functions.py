"""L5. Elementary functions of complex numbers by those of their parts, for kernels.

    function(x, y) -> (re, im)     for z = x + iy

Special values are those of C99 (annex G), which NumPy's functions follow; arguments that overflow
in between are scaled.  [K] Kahan, Branch cuts for complex elementary functions, 1987.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from fgrad.ir.primitive import Primitive
from fgrad.ops import elementwise as ew
from fgrad.ops import primitives as prims
from fgrad.trace import Value

Parts = tuple[Value, Value]

_FAR = 20.0  # from where on cosh and |sinh| are e^|x| / 2 in double precision
_UPPER_BITS = {8: (np.uint64, 0xFFFFFFFFF8000000), 4: (np.uint32, 0xFFFFF000)}


def is_zero(x: Value) -> Value:
    """Whether x is 0 or -0."""
    return ew.eq(x, ew.lit(x, 0))


def _sign(x: Value) -> Value:
    """1 or -1, also for zeros."""
    return ew.select(ew.signbit(x), ew.lit(x, -1), ew.lit(x, 1))


def square_root(x: Value, y: Value) -> Parts:
    """With s = max(|x|, |y|): t = sqrt(s) sqrt((|x / s| + |z / s|) / 2) and y / 2t, in the order
    that makes the real part positive."""
    zero, infinite = ew.lit(x, 0), ew.lit(x, math.inf)
    size_x, size_y = ew.abs_(x), ew.abs_(y)
    largest = ew.max_(size_x, size_y)
    scale = ew.select(is_zero(largest), ew.lit(x, 1), largest)
    a, b = ew.div(size_x, scale), ew.div(size_y, scale)
    length = ew.sqrt(ew.add(ew.mul(a, a), ew.mul(b, b)))
    half = ew.mul(ew.add(a, length), ew.lit(x, 0.5))
    t, root = ew.sqrt(ew.select(is_zero(half), ew.lit(x, 1), half)), ew.sqrt(scale)
    long = ew.select(is_zero(largest), zero, ew.mul(t, root))
    short = ew.mul(ew.div(ew.mul(b, ew.lit(x, 0.5)), t), root)
    right = ew.ge(x, zero)
    re, im = ew.select(right, long, short), ew.select(right, short, long)
    # an infinite y, then an infinite x
    endless = ew.isinf(x)
    re = ew.select(endless, ew.select(right, infinite, ew.mul(ew.abs_(y), zero)), re)
    im = ew.select(endless, ew.select(right, ew.mul(ew.abs_(y), zero), infinite), im)
    across = ew.isinf(y)
    re, im = ew.select(across, infinite, re), ew.select(across, infinite, im)
    return re, ew.mul(im, _sign(y))


def logarithm(x: Value, y: Value) -> Parts:
    """log |z| and the angle; log |z| = log1p(|z|^2 - 1) / 2 near the unit circle, else with
    s >= t the sizes of the parts log s + log1p((t / s)^2) / 2."""
    one, half = ew.lit(x, 1), ew.lit(x, 0.5)
    size_x, size_y = ew.abs_(x), ew.abs_(y)
    large, small = ew.max_(size_x, size_y), ew.min_(size_x, size_y)
    near = ew.and_(ew.ge(large, half), ew.le(large, ew.lit(x, 2)))
    ratio = ew.div(small, ew.select(is_zero(large), one, large))
    v = ew.select(near, _beyond_one(large, small), ew.mul(ratio, ratio))
    far = ew.select(near, ew.lit(x, 0), ew.log(large))
    re = ew.add(far, ew.mul(ew.log1p(v), half))
    re = ew.select(ew.or_(ew.isinf(x), ew.isinf(y)), ew.lit(x, math.inf), re)
    return re, ew.atan2(y, x)


def _beyond_one(s: Value, t: Value) -> Value:
    """s^2 + t^2 - 1, from the upper and lower halves of both: the squares of the upper ones are
    exact, so that nothing is lost where the sum is small."""
    (a, b), (c, d) = _halves(s), _halves(t)
    two = ew.lit(s, 2)
    main = ew.add(ew.sub(ew.mul(a, a), ew.lit(s, 1)), ew.mul(c, c))
    rest = ew.add(ew.mul(ew.mul(two, a), b), ew.mul(ew.mul(two, c), d))
    return ew.add(main, ew.add(rest, ew.add(ew.mul(b, b), ew.mul(d, d))))


def _halves(x: Value) -> Parts:
    """x = a + b, where a has the upper half of its digits."""
    word, mask = _UPPER_BITS[x.dtype.itemsize]
    upper = ew.bitcast(ew.and_(ew.bitcast(x, np.dtype(word)), word(mask)), x.dtype)
    return upper, ew.sub(x, upper)


def sinh(x: Value, y: Value) -> Parts:
    """sinh x cos y + i cosh x sin y."""
    re = _times_exponential(x, ew.sinh(x), ew.cos(y), True)
    im = _times_exponential(x, ew.cosh(x), ew.sin(y), False)
    re = ew.select(_lost(x, y), ew.select(is_zero(x), x, ew.lit(x, math.inf)), re)
    return re, ew.select(is_zero(y), y, im)


def cosh(x: Value, y: Value) -> Parts:
    """cosh x cos y + i sinh x sin y."""
    re = _times_exponential(x, ew.cosh(x), ew.cos(y), False)
    im = _times_exponential(x, ew.sinh(x), ew.sin(y), True)
    re = ew.select(ew.and_(ew.isinf(x), ew.not_(ew.isfinite(y))), ew.lit(x, math.inf), re)
    im = ew.select(ew.and_(is_zero(x), ew.not_(ew.isfinite(y))), ew.lit(x, 0), im)
    direction = ew.select(ew.isnan(x), ew.lit(x, 1), _sign(x))
    return re, ew.select(is_zero(y), ew.mul(y, direction), im)


def _lost(x: Value, y: Value) -> Value:
    """Whether x is 0 or infinite, and the angle y not known."""
    return ew.and_(ew.or_(is_zero(x), ew.isinf(x)), ew.not_(ew.isfinite(y)))


def _times_exponential(x: Value, near: Value, factor: Value, odd: bool) -> Value:
    """cosh x (or sinh x) times a factor, which may bring it back from overflow."""
    half = ew.lit(x, 0.5)
    root = ew.exp(ew.mul(ew.abs_(x), half))
    far = ew.mul(ew.mul(ew.mul(factor, half), root), root)
    if odd:
        far = ew.select(ew.signbit(x), ew.neg(far), far)
    return ew.select(ew.gt(ew.abs_(x), ew.lit(x, _FAR)), far, ew.mul(near, factor))


def tanh(x: Value, y: Value) -> Parts:
    """With t = tan y, s = sinh x, b = 1 + t^2, r = sqrt(1 + s^2): (b r s + i t) / (1 + b s^2) [K];
    for large x, 1 + 4 i sin y cos y e^-2|x|."""
    one, zero = ew.lit(x, 1), ew.lit(x, 0)
    far, known = ew.gt(ew.abs_(x), ew.lit(x, _FAR)), ew.isfinite(y)
    t, s = ew.tan(y), ew.sinh(ew.select(far, zero, x))
    b = ew.add(one, ew.mul(t, t))
    r = ew.sqrt(ew.add(one, ew.mul(s, s)))
    below = ew.add(one, ew.mul(ew.mul(b, s), s))
    decay = ew.exp(ew.mul(ew.abs_(x), ew.lit(x, -2)))
    turn = ew.mul(ew.mul(ew.lit(x, 4), ew.mul(ew.sin(y), ew.cos(y))), decay)
    turn = ew.select(ew.and_(ew.isinf(x), ew.not_(known)), ew.mul(zero, _sign(y)), turn)
    full = ew.and_(far, ew.or_(known, ew.isinf(x)))
    re = ew.select(full, _sign(x), ew.div(ew.mul(ew.mul(b, s), r), below))
    im = ew.select(far, turn, ew.div(t, below))
    re = ew.select(ew.and_(is_zero(x), ew.not_(known)), x, re)
    return re, ew.select(is_zero(y), y, im)


def sin(x: Value, y: Value) -> Parts:
    """-i sinh iz."""
    re, im = sinh(ew.neg(y), x)
    lost = ew.and_(ew.isinf(y), ew.not_(ew.isfinite(x)))
    return im, ew.select(lost, ew.lit(x, math.inf), ew.neg(re))


def tan(x: Value, y: Value) -> Parts:
    """-i tanh iz."""
    re, im = tanh(ew.neg(y), x)
    return im, ew.neg(re)


def cos(x: Value, y: Value) -> Parts:
    """cosh iz."""
    return cosh(ew.neg(y), x)


def expm1(x: Value, y: Value) -> Parts:
    """(e^x - 1) cos y - 2 sin^2(y / 2) + i e^x sin y."""
    s = ew.sin(ew.mul(y, ew.lit(y, 0.5)))
    re = ew.sub(ew.mul(ew.expm1(x), ew.cos(y)), ew.mul(ew.mul(s, s), ew.lit(x, 2)))
    return re, ew.mul(ew.exp(x), ew.sin(y))


def log1p(x: Value, y: Value) -> Parts:
    """log(1 + z); its real part is log1p(2x + x^2 + y^2) / 2 near 0."""
    one, half = ew.lit(x, 1), ew.lit(x, 0.5)
    near = ew.and_(ew.lt(ew.abs_(x), half), ew.lt(ew.abs_(y), half))
    v = ew.add(ew.mul(x, ew.add(x, ew.lit(x, 2))), ew.mul(y, y))
    re, im = logarithm(ew.add(x, one), y)
    v = ew.select(near, v, ew.lit(x, 0))
    return ew.select(near, ew.mul(ew.log1p(v), half), re), im


FUNCTIONS: dict[Primitive, Callable[[Value, Value], Parts]] = {
    prims.sqrt: square_root,
    prims.log: logarithm,
    prims.sin: sin,
    prims.cos: cos,
    prims.tan: tan,
    prims.sinh: sinh,
    prims.cosh: cosh,
    prims.tanh: tanh,
    prims.expm1: expm1,
    prims.log1p: log1p,
}
