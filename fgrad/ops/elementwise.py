"""L3. Elementwise primitives: one line of mathematics each.

A local derivative may be infinite or NaN where it is not selected, see selected.py:
`where(x < 1, x, sqrt(x))` has derivative 1 at 0.
Conventions at kinks: abs'(0) = 0, max and min share ties equally, clip has slope 1 in the closed
interval.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

import numpy as np

from fgrad.base.lazy_import import lazy_module
from fgrad.errors import DtypeError, ShapeError
from fgrad.ir import traits
from fgrad.ir.aval import BOOL, Aval, has_derivative
from fgrad.ir.basic import BASIC
from fgrad.ir.primitive import OUT, Primitive, Reads
from fgrad.ir.traits import Traits
from fgrad.ops import kept
from fgrad.ops.families import (
    ADD,
    ALL,
    BITS,
    FLOATS,
    INTEGERS,
    NUMBERS,
    ORDERED,
    REAL_FLOATS,
    REALS,
    DerivativeMap,
    binds,
    elementwise,
    finish_elementwise,
    is_literal,
    same_dtype,
    same_shape,
)
from fgrad.ops.known import is_positive, over_squares
from fgrad.ops.selected import SELECT, Selected, unless, where
from fgrad.trace import Tracer, Value, bind
from fgrad.tracing.fastpath import binary_door, bind_one, unary_door
from fgrad.tracing.on_device import DEVICES
from fgrad.typing import Array, Operand, Shaped

special = lazy_module("scipy.special")

Door = TypeVar("Door", bound=Callable[..., Value])

X = ((0,),)  # the derivative of a function of one operand reads that, or the result
RESULT = ((OUT,),)


def lit(x: Shaped, value: Value | complex) -> Value:
    """A constant of the dtype of `x`."""
    return x.dtype.type(value)


def _named(function: Door, prim: Primitive, doc: str) -> Door:
    function.__name__, function.__doc__ = prim.name, doc
    return binds(function, prim)


def _door(prim: Primitive, doc: str) -> Callable[[Operand], Value]:
    return _named(unary_door(prim), prim, doc)


def _binary(prim: Primitive, doc: str) -> Callable[[Operand, Operand], Value]:
    return _named(binary_door(prim), prim, doc)


# --- arithmetic ---------------------------------------------------------------------------------

neg_p = elementwise(
    "neg",
    np.negative,
    lambda t, x, out: neg(t),
    accepts=NUMBERS,
    reads=((),),
    traits=traits.EXACT,
    linear_in="all",
    finite=True,
    operator="-{}",
)
sub_p = elementwise(
    "sub",
    np.subtract,
    lambda t, x, y, out: t,
    lambda t, x, y, out: neg(t),
    accepts=NUMBERS,
    reads=((), ()),
    linear_in="all",
    finite=True,
    operator="{} - {}",
)
mul_p = elementwise(
    "mul",
    np.multiply,
    lambda t, x, y, out: mul(t, y),
    lambda t, x, y, out: mul(t, x),
    accepts=ALL,
    reads=((1,), (0,)),
    traits=traits.COMMUTES,
    linear_in="each",
    finite=True,
    operator="{} * {}",
)
div_p = elementwise(
    "div",
    np.true_divide,
    lambda t, x, y, out: div(t, y),
    # The reciprocal of a broadcast number is one division for all that it divides.
    lambda t, x, y, out: neg(mul(t, mul(out, reciprocal(y)))),
    reads=((1,), (OUT, 1)),
    traits=traits.DIVIDES,
    linear_in=(0,),
    operator="{} / {}",
)
masked_mul_p = elementwise(
    "masked_mul",
    lambda t, d: np.multiply(t, np.where(np.equal(t, 0), d.dtype.type(1), d)),
    lambda s, t, d, out: mul(s, d),
    lambda s, t, d, out: mul(t, s),
    reads=((1,), (0,)),
    linear_in=(0,),
    operator="{0} * {1} if {0} else {0}",
)
masked_div_p = elementwise(
    "masked_div",
    lambda t, d: np.true_divide(t, np.where(np.equal(t, 0), d.dtype.type(1), d)),
    lambda s, t, d, out: div(s, d),
    lambda s, t, d, out: neg(mul(s, masked_div(out, d))),
    reads=((1,), (OUT, 1)),
    traits=traits.DIVIDES,
    linear_in=(0,),
    operator="{0} / {1} if {0} else {0}",
)

add = _binary(ADD, "x + y; logical or for bool.")
sub = _binary(sub_p, "x - y.")
mul = _binary(mul_p, "x * y; logical and for bool.")
div = _binary(div_p, "x / y, for floats.")
neg = _door(neg_p, "-x.")
masked_mul = _binary(masked_mul_p, "t * d, and 0 where t is 0, whatever d is.")
masked_div = _binary(masked_div_p, "t / d, and 0 where t is 0, whatever d is.")


def square(x: Value) -> Value:
    """x * x."""
    return mul(x, x)


reciprocal_p = elementwise(
    "reciprocal",
    np.reciprocal,
    lambda t, x, out: neg(mul(t, square(out))),
    accepts="c",
    reads=((OUT,),),
    traits=traits.elementwise(traits.Cost.DIVISION, host=traits.Host.NUMPY),
)


def reciprocal(x: Value) -> Value:
    """1 / x; of complex numbers with NumPy's signs of zeros, which those of a quotient are not."""
    return bind(reciprocal_p, x) if x.dtype.kind == "c" else div(lit(x, 1), x)


# --- discrete -----------------------------------------------------------------------------------


def _discrete(
    name: str,
    evaluate: Callable[..., Array],
    accepts: str,
    result: np.dtype | None = None,
    traits: Traits = traits.PLAIN,
    operator: str | None = None,
) -> Callable[..., Value]:
    prim = elementwise(
        name, evaluate, accepts=accepts, result=result, traits=traits, operator=operator
    )
    door = _binary if isinstance(evaluate, np.ufunc) and evaluate.nin == 2 else _door
    return door(prim, f"Elementwise `{name}`; its derivative is zero.")


sign = _discrete("sign", np.sign, NUMBERS, traits=traits.EXACT)
floor = _discrete("floor", np.floor, FLOATS, traits=traits.EXACT)
ceil = _discrete("ceil", np.ceil, FLOATS, traits=traits.EXACT)
rint = _discrete("rint", np.rint, FLOATS, traits=traits.EXACT)
trunc = _discrete("trunc", np.trunc, FLOATS, traits=traits.EXACT)
isnan = _discrete("isnan", np.isnan, FLOATS, BOOL)
isinf = _discrete("isinf", np.isinf, FLOATS, BOOL)
isfinite = _discrete("isfinite", np.isfinite, FLOATS, BOOL)
signbit = _discrete("signbit", np.signbit, REAL_FLOATS, BOOL)
eq = _discrete("eq", np.equal, ALL, BOOL, traits.COMMUTES, "{} == {}")
ne = _discrete("ne", np.not_equal, ALL, BOOL, traits.COMMUTES, "{} != {}")
lt = _discrete("lt", np.less, ORDERED, BOOL, operator="{} < {}")
le = _discrete("le", np.less_equal, ORDERED, BOOL, operator="{} <= {}")
gt = _discrete("gt", np.greater, ORDERED, BOOL, operator="{} > {}")
ge = _discrete("ge", np.greater_equal, ORDERED, BOOL, operator="{} >= {}")
not_ = _discrete("not", np.invert, BITS, operator="~{}")
and_ = _discrete("and", np.bitwise_and, BITS, None, traits.COMMUTES, "{} & {}")
or_ = _discrete("or", np.bitwise_or, BITS, None, traits.COMMUTES, "{} | {}")
xor = _discrete("xor", np.bitwise_xor, BITS, traits=traits.COMMUTES)


def _wrapped(wraps: Callable[..., Array], ufunc: np.ufunc) -> Callable[..., Array]:
    """Whether what integers have for a result is what it would be without limits."""

    def fits(x: Array, y: Array) -> Array:
        with np.errstate(over="ignore"):
            return np.logical_not(wraps(x, y, ufunc(x, y)))

    return fits


def _product_wraps(x: Any, y: Any, out: Any) -> Any:
    far = np.multiply(x, y, dtype=np.float64) - np.asarray(out, np.float64)
    return np.abs(far) > 2.0 ** (out.dtype.itemsize * 8 - 2)  # it is off by a multiple of 2**bits


def _fits(
    name: str, ufunc: np.ufunc, wraps: Callable[..., Array]
) -> Callable[[Operand, Operand], Value]:
    prim = elementwise(name, _wrapped(wraps, ufunc), accepts="i", result=BOOL)
    return _binary(prim, f"Whether `{name[:3]}` of integers does not wrap.")


add_fits = _fits("add_fits", np.add, lambda x, y, out: ((x ^ out) & (y ^ out)) < 0)
sub_fits = _fits("sub_fits", np.subtract, lambda x, y, out: ((x ^ y) & (x ^ out)) < 0)
mul_fits = _fits("mul_fits", np.multiply, _product_wraps)
shift_left = _discrete("shift_left", np.left_shift, INTEGERS)
shift_right = _discrete("shift_right", np.right_shift, INTEGERS)
floor_divide = _discrete("floor_divide", np.floor_divide, REALS, traits=traits.DIVIDES)


def _stop(x: Value) -> Value:
    return x


stop_gradient_p = elementwise("stop_gradient", _stop, None, accepts=ALL, traits=traits.COPIES)
stop_gradient = _door(stop_gradient_p, "`x`, regarded as a constant by every derivative.")


# --- neighbours and remainders: piecewise linear in x -------------------------------------------

nextafter_p = elementwise(
    "nextafter",
    np.nextafter,
    lambda t, x, y, out: t,
    None,
    accepts=REAL_FLOATS,
    reads=((), ()),
)
nextafter = _binary(nextafter_p, "The number after x towards y: x but for rounding.")


def _quotient_map(t: Value, x: Value, y: Value, out: Value) -> Value:
    """-k t, where x = k y + out: k is a whole number, that of out."""
    return neg(mul(t, rint(div(sub(x, out), y))))


def _remainder(name: str, evaluate: Callable[..., Array]) -> Primitive:
    maps = (lambda t, x, y, out: t, _quotient_map)
    divides = traits.DIVIDES._replace(finite=True)
    return elementwise(
        name, evaluate, *maps, accepts=REALS, reads=((), (0, 1, OUT)), traits=divides
    )


remainder_p = _remainder("remainder", np.remainder)
fmod_p = _remainder("fmod", np.fmod)
remainder = _binary(remainder_p, "x - floor(x / y) * y: the sign of the divisor.")
fmod = _binary(fmod_p, "x - trunc(x / y) * y: the sign of the dividend.")


# --- absolute value, order ----------------------------------------------------------------------


def _share(t: Value, holds: Value, ties: Value) -> Selected:
    """t where `holds`, of which t / 2 where `ties`, else 0."""
    if type(ties) is np.ndarray and not np.logical_or.reduce(ties, None):
        return where(holds, t)
    return where(holds, select(ties, mul(t, lit(t, 0.5)), t))


def _integer_or(evaluate: Callable[..., Array]) -> Callable[[Array], Array]:
    """Absolute value of bool is the value itself."""
    return lambda x: x if x.dtype.kind == "b" else evaluate(x)


def _extremum(
    name: str,
    evaluate: Callable[..., Array],
    wins: Callable[..., Value],
    loses: Callable[..., Value],
) -> Primitive:
    return elementwise(
        name,
        evaluate,
        lambda t, x, y, out: _share(t, wins(x, y), eq(x, y)),
        lambda t, x, y, out: _share(t, loses(x, y), eq(x, y)),
        accepts=ORDERED,
        reads=((0, 1), (0, 1)),
        traits=traits.COMMUTES_EXACTLY,
        finite=True,
    )


max_p = _extremum("max", np.maximum, ge, le)
min_p = _extremum("min", np.minimum, le, ge)
abs_p = elementwise(
    "abs",
    _integer_or(np.absolute),
    lambda t, x, out: mul(t, sign(x)),
    accepts=BITS + REAL_FLOATS,
    reads=X,
    traits=traits.EXACT,
    finite=True,
    operator="abs({})",
)
copysign_p = elementwise(
    "copysign",
    np.copysign,
    lambda t, x, y, out: mul(t, select(ne(signbit(x), signbit(y)), lit(x, -1), lit(x, 1))),
    None,
    accepts=REAL_FLOATS,
    reads=((0, 1), ()),
    traits=traits.EXACT,
    finite=True,
)


def _clip(x: Value, lo: Value, hi: Value) -> Value:
    out = np.maximum(x, lo)
    return np.minimum(out, hi, out=out) if isinstance(out, np.ndarray) else np.minimum(out, hi)


def _between(x: Value, lo: Value, hi: Value) -> Value:
    """Where `x` is what is left of it; between limits that meet, the upper one is."""
    inside = and_(ge(x, lo), le(x, hi))
    if is_literal(lo) and is_literal(hi) and lo < hi:
        return inside
    return and_(inside, lt(lo, hi))


clip_p = elementwise(
    "clip",
    _clip,
    lambda t, x, lo, hi, out: where(_between(x, lo, hi), t),
    lambda t, x, lo, hi, out: where(and_(lt(x, lo), lt(lo, hi)), t),
    lambda t, x, lo, hi, out: where(or_(gt(x, hi), ge(lo, hi)), t),
    accepts=ORDERED,
    reads=((0, 1, 2),) * 3,
    traits=traits.EXACT,
    finite=True,
)

abs_ = _door(abs_p, "|x|.")
max_ = _binary(max_p, "The larger of x and y; NaN if either is.")
min_ = _binary(min_p, "The smaller of x and y; NaN if either is.")
copysign = _binary(copysign_p, "|x| with the sign of y.")


def clip(x: Operand, lo: Operand, hi: Operand) -> Value:
    """min(max(x, lo), hi)."""
    return bind(clip_p, x, lo, hi)


# --- exp, log, powers ---------------------------------------------------------------------------


def unary(
    name: str,
    evaluate: Callable[..., Array],
    reads: Reads,
    derivative: DerivativeMap,
    traits: Traits = traits.FINITE_FUNCTION,
) -> Callable[..., Value]:
    """A function of floats, with its derivative map."""
    prim = elementwise(name, evaluate, derivative, reads=reads, traits=traits)
    return _door(prim, f"Elementwise `{name}`.")


# Of functions that end, or have a pole: there the derivative is infinite.
singular = partial(unary, traits=traits.FUNCTION)


def by_scipy(name: str) -> Callable[[Array], Array]:
    """SciPy's function of a name; float16 stays that, of which SciPy makes float32 or float64."""
    return lambda x: getattr(special, name)(x).astype(x.dtype, copy=False)


exp = unary("exp", np.exp, RESULT, lambda t, x, out: mul(t, out))
exp2 = unary("exp2", np.exp2, RESULT, lambda t, x, out: mul(t, mul(out, lit(out, math.log(2)))))
expm1 = unary("expm1", np.expm1, RESULT, lambda t, x, out: mul(t, add(out, lit(out, 1))))
log = singular("log", np.log, X, lambda t, x, out: div(t, x))
log2 = singular("log2", np.log2, X, lambda t, x, out: div(t, mul(x, lit(x, math.log(2)))))
log10 = singular("log10", np.log10, X, lambda t, x, out: div(t, mul(x, lit(x, math.log(10)))))
log1p = singular("log1p", np.log1p, X, lambda t, x, out: div(t, add(x, lit(x, 1))))
sqrt = unary(
    "sqrt", np.sqrt, RESULT, lambda t, x, out: div(t, mul(out, lit(out, 2))), traits.DIVIDES
)
cbrt = singular("cbrt", np.cbrt, RESULT, lambda t, x, out: div(t, mul(mul(out, out), lit(out, 3))))
logistic = unary(
    "logistic",
    by_scipy("expit"),
    RESULT,
    lambda t, x, out: mul(t, mul(out, sub(lit(out, 1), out))),
)


def _pow_base_map(t: Value, x: Value, n: Value, out: Value) -> Value | None:
    """n x^(n-1), and 0 where n is 0."""
    if x.dtype.kind not in FLOATS:
        return None
    if is_literal(n):
        if n == 0:
            return None
        if n == 1:
            return t
        slope = mul(x if n == 2 else pow_(x, lit(x, n - 1)), lit(x, n))
        return mul(t, slope)
    return mul(t, masked_mul(n, pow_(x, sub(n, lit(n, 1)))))


def _pow_exponent_map(t: Value, x: Value, n: Value, out: Value) -> Value | None:
    """x^n log x, and 0 where x is 0 and n is positive."""
    if n.dtype.kind not in FLOATS:
        return None
    if is_positive(x):
        return mul(t, mul(out, log(x)))
    one = lit(n, 1)
    # Beyond 1 the derivative of the product in x is 0 as well.
    safe = select(and_(eq(x, lit(x, 0)), gt(n, one)), lit(x, 1), x)
    return mul(t, masked_mul(out, log(safe)))


pow_p = elementwise(
    "pow",
    np.power,
    _pow_base_map,
    _pow_exponent_map,
    accepts=NUMBERS,
    reads=((0, 1), (0, 1, OUT)),
    traits=traits.FUNCTION,
)


pow_ = _binary(pow_p, "x ** n.")


# --- trigonometric and hyperbolic ---------------------------------------------------------------


def _one(x: Value) -> Value:
    """1 or 1 - 0i, for 1 - x and x + 1: their imaginary parts keep the sign of zero, and with it
    the side of the branch cut that x is on."""
    return lit(x, complex(1, -0.0) if x.dtype.kind == "c" else 1)


sin = unary("sin", np.sin, X, lambda t, x, out: mul(t, cos(x)))
cos = unary("cos", np.cos, X, lambda t, x, out: neg(mul(t, sin(x))))
tan = unary("tan", np.tan, RESULT, lambda t, x, out: mul(t, add(square(out), lit(out, 1))))
asin = singular("asin", np.arcsin, X, lambda t, x, out: div(t, sqrt(sub(_one(x), square(x)))))
acos = singular("acos", np.arccos, X, lambda t, x, out: neg(div(t, sqrt(sub(_one(x), square(x))))))
atan = unary("atan", np.arctan, X, lambda t, x, out: div(t, add(square(x), lit(x, 1))))
sinh = unary("sinh", np.sinh, X, lambda t, x, out: mul(t, cosh(x)))
cosh = unary("cosh", np.cosh, X, lambda t, x, out: mul(t, sinh(x)))
tanh = unary("tanh", np.tanh, RESULT, lambda t, x, out: mul(t, sub(lit(out, 1), square(out))))
asinh = unary("asinh", np.arcsinh, X, lambda t, x, out: div(t, sqrt(add(square(x), _one(x)))))
acosh = singular(
    "acosh",
    np.arccosh,
    X,
    lambda t, x, out: div(t, mul(sqrt(sub(x, lit(x, 1))), sqrt(add(x, _one(x))))),
)
atanh = singular("atanh", np.arctanh, X, lambda t, x, out: div(t, sub(lit(x, 1), square(x))))


def _over_squares(x: Value, y: Value) -> Value:
    """x / (x^2 + y^2), without squares that overflow: 1 / p (1 + q^2), p the larger one."""
    found = over_squares(x, y)
    if found is not None:
        return found
    wide = ge(abs_(x), abs_(y))
    p = select(wide, x, y)
    q = div(select(wide, y, x), p)
    s = reciprocal(mul(p, add(square(q), lit(q, 1))))
    return select(wide, s, mul(q, s))


atan2_p = elementwise(
    "atan2",
    np.arctan2,
    lambda t, y, x, out: mul(t, _over_squares(x, y)),
    lambda t, y, x, out: neg(mul(t, _over_squares(y, x))),
    accepts=REAL_FLOATS,
    reads=((0, 1), (0, 1)),
    traits=traits.FUNCTION,
)


atan2 = _binary(atan2_p, "The angle of the point (x, y).")


# --- selection, conversion ----------------------------------------------------------------------

select_p = SELECT
_CONVERTS = traits.elementwise(finite=True)
convert_p = Primitive("convert", _CONVERTS, ("dtype",), "all", scalar="convert", reads=((),))
BASIC.convert = convert_p
bitcast_p = Primitive("bitcast", traits.PLAIN, params=("dtype",), scalar="bitcast")


@select_p.type_rule
def _(cond: Aval, x: Aval, y: Aval) -> Aval:
    if cond.dtype.kind != "b":
        raise DtypeError(f"select: the condition is {cond.dtype}, not bool.")
    return Aval(same_shape(select_p, (cond, x, y)), same_dtype(select_p, (x, y), ALL))


select_p.evaluate(kept.select)
finish_elementwise(
    select_p,
    (
        None,
        lambda t, c, x, y, out: where(c, t),
        lambda t, c, x, y, out: unless(c, t),
    ),
)


@convert_p.type_rule
def _(x: Aval, *, dtype: np.dtype) -> Aval:
    return Aval(x.shape, dtype)


def _convert_map(t: Value, x: Value, out: Value, *, dtype: np.dtype) -> Value | None:
    """The tangent in the other precision; zero to or from integers."""
    if not (has_derivative(x.dtype) and has_derivative(dtype)):
        return None
    return convert(t, dtype if t.dtype == x.dtype else x.dtype)


@convert_p.evaluate
def _(x: Any, *, dtype: np.dtype) -> Value:
    """As `astype`; the real part of a complex number where the result is real."""
    if x.dtype.kind == "c" and dtype.kind in "fiu":
        x = x.real
    return x.astype(dtype)


finish_elementwise(convert_p, (_convert_map,))


@bitcast_p.type_rule
def _(x: Aval, *, dtype: np.dtype) -> Aval:
    if dtype.itemsize != x.dtype.itemsize:
        raise ShapeError(f"bitcast: {x.dtype} and {dtype} differ in size.")
    return Aval(x.shape, dtype)


bitcast_p.evaluate(lambda x, *, dtype: x.view(dtype))
finish_elementwise(bitcast_p, (None,))


for _prim in (ADD, sub_p, neg_p, select_p, convert_p):
    _prim.harmless = lambda k, values: True
mul_p.harmless = lambda k, values: _is_finite(values[1 - k])
div_p.harmless = lambda k, values: k == 0 and _is_finite(values[1]) and values[1] != 0


def _is_finite(x: Value) -> bool:
    """Whether a value is a finite number that is known."""
    return is_literal(x) and x.dtype.kind in "fc" and bool(np.isfinite(x))


def select(cond: Operand, x: Operand, y: Operand) -> Value:
    """x where cond, else y."""
    if type(cond) is np.ndarray and type(x) is not Tracer and type(y) is not Tracer and not DEVICES:
        return select_p.evaluate_rule(cond, x, y)
    return bind(select_p, cond, x, y)


def convert(x: Any, dtype: np.dtype) -> Value:
    """`x` with another dtype, as `astype`; `x` itself if it has it."""
    return x if x.dtype == dtype else bind_one(convert_p, x, {"dtype": dtype})


def bitcast(x: Operand, dtype: np.dtype) -> Value:
    """The bits of `x` read as another dtype of the same size."""
    return bind_one(bitcast_p, x, {"dtype": dtype})
