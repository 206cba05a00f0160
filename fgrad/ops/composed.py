"""L3. Elementwise functions that are one call of NumPy's at the prompt, and compositions when
compiled, where they fuse.

logaddexp(x, y) = log(e^x + e^y) = max + log1p(e^(min - max))     slope in x: 1 / (1 + e^(y - x))
hypot(x, y)     = sqrt(x^2 + y^2)     slope in x: x / hypot, 0 at 0
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import lru_cache

import numpy as np

from fgrad.base.lazy_import import lazy_module
from fgrad.ir import traits
from fgrad.ir.aval import Aval
from fgrad.ir.primitive import OUT, Primitive, Reads
from fgrad.ir.program import Program
from fgrad.ops import complex as cx
from fgrad.ops import elementwise as ew
from fgrad.ops.elementwise import lit, select
from fgrad.ops.families import (
    REAL_FLOATS,
    DerivativeMap,
    elementwise,
    finish_elementwise,
    same_dtype,
    same_shape,
)
from fgrad.ops.known import has_no_nan, is_positive, known
from fgrad.ops.selected import Selected, unless
from fgrad.ops.shape import broadcast
from fgrad.trace import Value, bind, trace
from fgrad.tracing.fastpath import binary_door, bind_one

special = lazy_module("scipy.special")

Binary = Callable[[Value, Value], Value]


def compose_when_compiled(prim: Primitive, compose: Callable[..., Value]) -> None:
    """Let compiled code run a function of the operands, with the parameters as keywords."""

    @lru_cache(maxsize=64)
    def program(avals: tuple[Aval, ...], params: tuple[tuple[str, object], ...]) -> Program:
        return trace(lambda *xs: [compose(*xs, **dict(params))], avals, prim.name).program

    def composition(avals: Sequence[Aval], **params: object) -> Program:
        return program(tuple(avals), tuple(params.items()))

    prim.composition = composition


def composed(ufunc: np.ufunc, compose: Binary, reads: Reads, *maps: DerivativeMap) -> Binary:
    """A function of two floats that NumPy has, and of which compiled code is composed."""
    prim = Primitive(ufunc.__name__, traits.FUNCTION, reads=reads)
    prim.evaluate(ufunc)

    @prim.type_rule
    def _(x: Aval, y: Aval) -> Aval:
        return Aval(same_shape(prim, (x, y)), same_dtype(prim, (x, y), "f"))

    finish_elementwise(prim, maps)

    def fitted(x: Value, y: Value) -> Value:
        """The composition for arrays, of which a number is one too."""
        shape = x.shape or y.shape
        return compose(*[v if v.shape == shape else broadcast(v, shape, ()) for v in (x, y)])

    compose_when_compiled(prim, fitted)

    def apply(x: Value, y: Value) -> Value:
        return bind(prim, x, y) if x.dtype.kind == "f" else fitted(x, y)

    apply.__name__, apply.__doc__ = prim.name, f"Elementwise `{prim.name}`."
    return apply


# --- sums of powers in logarithms


def _log_add(ufunc: np.ufunc, exp: Callable[[Value], Value], log_base: float) -> Binary:
    def compose(x: Value, y: Value) -> Value:
        """The larger plus the logarithm of 1 and the ratio; equal infinities are their sum."""
        x_larger = ew.gt(x, y)
        large, small = select(x_larger, x, y), select(x_larger, y, x)
        both = ew.and_(ew.eq(x, y), ew.isinf(x))
        distance = select(both, lit(x, 0), ew.sub(small, large))
        extra = ew.log1p(exp(distance))
        if log_base != 1.0:
            extra = ew.div(extra, lit(x, log_base))
        half_sum = ew.mul(ew.add(x, y), lit(x, 0.5))
        return select(both, half_sum, ew.add(large, extra))

    def slope(t: Value, x: Value, y: Value) -> Value:
        """Equal numbers share the slope, infinite ones as well."""
        distance = ew.sub(x, y)
        if not has_no_nan(distance):
            endless = ew.and_(ew.eq(x, y), ew.isinf(x))
            distance = select(endless, lit(x, 0), distance)
        if log_base != 1.0:
            distance = ew.mul(distance, lit(x, log_base))
        return ew.mul(t, ew.logistic(distance))

    return composed(
        ufunc,
        compose,
        ((0, 1), (0, 1)),
        lambda t, x, y, out: slope(t, x, y),
        lambda t, x, y, out: slope(t, y, x),
    )


logaddexp = _log_add(np.logaddexp, ew.exp, 1.0)
logaddexp2 = _log_add(np.logaddexp2, ew.exp2, math.log(2))


# --- the length of a vector


# Bytes of a float -> the powers of two from which on squares may overflow and below which they may
# underflow, and the powers by which such numbers are multiplied.
_SCALES = {2: (5, -10, -5, 12), 4: (61, -90, -42, 90), 8: (509, -567, -341, 567)}


def _length(x: Value, y: Value) -> Value:
    """sqrt(x^2 + y^2) without overflow: very large and very small numbers are scaled, by powers of
    two, which round nothing."""
    largest = ew.stop_gradient(ew.max_(ew.abs_(x), ew.abs_(y)))
    high, down, low, up = [2.0**power for power in _SCALES[largest.dtype.itemsize]]
    large, small = ew.gt(largest, lit(x, high)), ew.lt(largest, lit(x, low))
    scale = select(large, lit(x, down), select(small, lit(x, up), lit(x, 1)))
    back = select(large, lit(x, 1 / down), select(small, lit(x, 1 / up), lit(x, 1)))
    a, b = ew.mul(x, scale), ew.mul(y, scale)
    root = ew.mul(back, ew.sqrt(ew.add(ew.mul(a, a), ew.mul(b, b))))
    return select(ew.or_(ew.isinf(x), ew.isinf(y)), lit(x, math.inf), root)


def _along(t: Value, x: Value, out: Value) -> Value | Selected:
    """t x / out, and 0 at the origin and for infinite lengths."""
    return _where_smooth(ew.mul(t, ew.div(x, out)), out)


def _where_smooth(t: Value, length: Value) -> Value | Selected:
    """t, and 0 where a length is 0 or infinite."""
    if is_positive(length):
        return t
    return unless(ew.or_(ew.eq(length, lit(length, 0)), ew.isinf(length)), t)


hypot = composed(
    np.hypot,
    _length,
    ((0, OUT), (1, OUT)),
    lambda t, x, y, out: _along(t, x, out),
    lambda t, x, y, out: _along(t, y, out),
)


# --- the size of a complex number, as one cotangent instead of those of two parts

modulus_p = Primitive("modulus", traits.FUNCTION, reads=((0, OUT),))
modulus_p.evaluate(np.absolute)
modulus_p.type_rule(cx.part_type)


def _modulus_map(t: Value, z: Value, out: Value) -> Value | Selected:
    """Re(conj(z) t) / |z|, transposed conj(z) t / |z|; 0 at the origin and for infinite sizes."""
    if cx.is_complex(t):
        return _where_smooth(ew.div(cx.real(ew.mul(cx.conj(z), t)), out), out)
    return _where_smooth(ew.mul(cx.conj(z), cx.to_complex(ew.div(t, out))), out)


finish_elementwise(modulus_p, (_modulus_map,))
compose_when_compiled(modulus_p, lambda z: hypot(cx.real(z), cx.imag(z)))


def modulus(z: Value) -> Value:
    """|z| of complex numbers, with slope 0 at 0."""
    return bind_one(modulus_p, z, {})


# --- products with logarithms


def _times_log(
    name: str, argument: Callable[[Value], Value], log_of: Callable[[Value], Value]
) -> Binary:
    """x log(y), and 0 where x is 0 unless y is NaN."""

    def evaluate(x: Value, y: Value) -> Value:
        return getattr(special, name)(x, y).astype(x.dtype, copy=False)

    prim = elementwise(
        name,
        evaluate,
        lambda t, x, y, out: ew.mul(t, log_of(y)),
        lambda t, x, y, out: ew.mul(t, ew.masked_div(x, argument(y))),
        accepts=REAL_FLOATS,
        reads=((1,), (0, 1)),
        traits=traits.FUNCTION,
    )
    apply = binary_door(prim)
    apply.__name__ = name
    apply.__doc__ = f"x {log_of.__name__}(y), and 0 where x is 0 unless y is NaN."
    return apply


xlogy = _times_log("xlogy", lambda y: y, ew.log)
xlog1py = _times_log("xlog1py", lambda y: ew.add(y, lit(y, 1)), ew.log1p)


# --- sin(pi x) / (pi x), by its Taylor series near 0, where it has all derivatives

_SINC = (1.0, -1 / 6, 1 / 120, -1 / 5040, 1 / 362880, -1 / 39916800)  # (-1)^k / (2k+1)!
_SINC_SLOPE = tuple([2 * k * c for k, c in enumerate(_SINC)][1:])
_NEAR = 0.1

sinc_p = Primitive("sinc", traits.FUNCTION, reads=((0, OUT),))
sinc_p.evaluate(np.sinc)


@sinc_p.type_rule
def _(x: Aval) -> Aval:
    return Aval(x.shape, same_dtype(sinc_p, (x,), "f"))


def _series(y: Value, factors: Sequence[float]) -> Value:
    """The sum of factors times even powers."""
    y2 = ew.mul(y, y)
    total: Value = lit(y, factors[-1])
    for c in reversed(factors[:-1]):
        total = ew.add(ew.mul(total, y2), lit(y, c))
    return total


def _parts_of_sinc(x: Value) -> tuple[Value, Value, Value]:
    """Where pi x is small; pi x there, and 0 elsewhere; pi x elsewhere, and 1 there."""
    y = ew.mul(x, lit(x, math.pi))
    near = ew.lt(modulus(y) if cx.is_complex(y) else ew.abs_(y), cx.real_dtype(y.dtype).type(_NEAR))
    return near, select(near, y, lit(y, 0)), select(near, lit(y, 1), y)


def _sinc(x: Value) -> Value:
    near, small, far = _parts_of_sinc(x)
    return select(near, _series(small, _SINC), ew.div(ew.sin(far), far))


def _sinc_map(t: Value, x: Value, out: Value) -> Value:
    """(cos(pi x) - sinc(x)) / x."""
    near, small, far = _parts_of_sinc(x)
    slope = ew.div(ew.sub(ew.cos(far), out), far)
    if not (known(near) and not near.any()):
        slope = select(near, ew.mul(small, _series(small, _SINC_SLOPE)), slope)
    return ew.mul(t, ew.mul(slope, lit(x, math.pi)))


finish_elementwise(sinc_p, (_sinc_map,))
compose_when_compiled(sinc_p, _sinc)


def sinc(x: Value) -> Value:
    """sin(pi x) / (pi x), and 1 at 0."""
    return bind_one(sinc_p, x, {}) if x.dtype.char in "fd" else _sinc(x)
