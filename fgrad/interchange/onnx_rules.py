"""L7. How each primitive is written as nodes of ONNX, by its name.

sin x           Sin
remainder x y   a composition, see composed.py

[O] ONNX operators, opset 18.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from fgrad.compile.passes.inline import IDENTITIES, Expansions
from fgrad.interchange import composed as c
from fgrad.interchange.onnx_control import CONTROL
from fgrad.interchange.onnx_places import PLACES
from fgrad.interchange.onnx_writer import Ref, Rule, Writer
from fgrad.interchange.traced import no_form
from fgrad.ir.aval import INT32
from fgrad.ir.primitive import REGISTRY
from fgrad.ir.program import Eqn, Lit
from fgrad.ops import elementwise as ew
from fgrad.ops.dot import dot_general
from fgrad.ops.elementwise import lit, select
from fgrad.trace import Value

# --- elementwise ----------------------------------------------------------------------------------

SAME = {
    "sub": "Sub", "neg": "Neg", "floor": "Floor", "ceil": "Ceil", "rint": "Round", "exp": "Exp",
    "log": "Log", "sqrt": "Sqrt", "logistic": "Sigmoid", "pow": "Pow", "sin": "Sin", "cos": "Cos",
    "tan": "Tan", "asin": "Asin", "acos": "Acos", "atan": "Atan", "sinh": "Sinh", "cosh": "Cosh",
    "tanh": "Tanh", "asinh": "Asinh", "acosh": "Acosh", "atanh": "Atanh", "erf": "Erf",
}  # fmt: skip
COMPARES = {"lt": "Less", "le": "LessOrEqual", "gt": "Greater", "ge": "GreaterOrEqual"}


def _same(kind: str) -> Rule:
    return lambda w, eqn, xs: w.each(kind, *xs)


def _by_kind(of_bools: str, of_integers: str, of_floats: str) -> Rule:
    """Operations that have other names for truth values and for integers."""

    def written(w: Writer, eqn: Eqn, xs: list[Ref]) -> Ref:
        kind = {"b": of_bools, "i": of_integers, "u": of_integers}.get(xs[0].dtype.kind, of_floats)
        if not kind:
            raise no_form(w.form, eqn, f"there is none for {xs[0].dtype}.")
        return w.each(kind, *xs)

    return written


def _compares(kind: str) -> Rule:
    def written(w: Writer, _eqn: Eqn, xs: list[Ref]) -> Ref:
        return w.compare(kind, *[w.cast(x, INT32) if x.dtype.kind == "b" else x for x in xs])

    return written


def _different(w: Writer, _eqn: Eqn, xs: list[Ref]) -> Ref:
    return w.each("Not", w.compare("Equal", *xs))


def _sign(w: Writer, _eqn: Eqn, xs: list[Ref]) -> Ref:
    """NaN stays NaN, which no version of Sign promises."""
    (x,) = xs
    sign = w.each("Sign", x)
    return w.select(_isnan(w, x), x, sign) if x.dtype.kind in "fV" else sign


def _isnan(w: Writer, x: Ref) -> Ref:
    return w.each("Not", w.compare("Equal", x, x))


def _abs(w: Writer, _eqn: Eqn, xs: list[Ref]) -> Ref:
    return xs[0] if xs[0].dtype.kind in "ub" else w.each("Abs", *xs)


def _safe(w: Writer, y: Ref) -> tuple[Ref, Ref, Ref]:
    """Where a divisor is 0, 0, and the divisor with 1 there."""
    zero = w.scalar(0, y.dtype)
    none = w.compare("Equal", y, zero)
    return none, zero, w.select(none, w.scalar(1, y.dtype), y)


def _fmod(w: Writer, _eqn: Eqn, xs: list[Ref]) -> Ref:
    """Integers by 0 are 0, as in NumPy."""
    x, y = xs
    shape = max(x.shape, y.shape, key=len)
    if x.dtype.kind not in "iu":
        return w.op("Mod", [x, y], shape, x.dtype, fmod=1)
    none, zero, safe = _safe(w, y)
    return w.select(none, zero, w.op("Mod", [x, safe], shape, x.dtype, fmod=1))


def _floor_divide(w: Writer, _eqn: Eqn, xs: list[Ref]) -> Ref:
    """Of integers: the quotient towards zero, less 1 where a rest has the other sign."""
    x, y = xs
    none, zero, safe = _safe(w, y)
    quotient = w.each("Div", x, safe)
    if x.dtype.kind == "i":
        rest = w.each("Sub", x, w.each("Mul", quotient, safe))
        signs = [w.compare("Less", v, zero) for v in (rest, safe)]
        some = w.each("Not", w.compare("Equal", rest, zero))
        below = w.each("And", w.each("Xor", *signs), some)
        quotient = w.select(below, w.each("Sub", quotient, w.scalar(1, x.dtype)), quotient)
    return w.select(none, zero, quotient)


def _extremum(kind: str, of_bools: str) -> Rule:
    """Max and Min say nothing of NaN: it stays."""

    def written(w: Writer, _eqn: Eqn, xs: list[Ref]) -> Ref:
        x, y = xs
        if x.dtype.kind == "b":
            return w.each(of_bools, x, y)
        best = w.each(kind, x, y)
        if x.dtype.kind not in "fV":
            return best
        return w.select(_isnan(w, x), x, w.select(_isnan(w, y), y, best))

    return written


def _is_finite(w: Writer, _eqn: Eqn, xs: list[Ref]) -> Ref:
    size = w.each("Abs", xs[0])
    return w.compare("Less", size, w.scalar(math.inf, xs[0].dtype))


def _signbit(w: Writer, eqn: Eqn, xs: list[Ref]) -> Ref:
    """Below 0, or a zero whose reciprocal is; the sign of NaN cannot be read."""
    (x,) = xs
    zero, one = w.scalar(0, x.dtype), w.scalar(1, x.dtype)
    below = w.compare("Less", x, zero)
    nothing = w.compare("Equal", x, zero)
    far = w.compare("Less", w.each("Div", one, x), zero)
    return w.each("Or", below, w.each("And", nothing, far))


def _select(w: Writer, _eqn: Eqn, xs: list[Ref]) -> Ref:
    return w.select(*xs)


def _convert(w: Writer, eqn: Eqn, xs: list[Ref]) -> Ref:
    (x,), dtype = xs, eqn.params["dtype"]
    if dtype.kind == "b" and x.dtype.kind != "b":
        return w.each("Not", w.compare("Equal", x, w.scalar(0, x.dtype)))
    return w.cast(x, dtype)


def _shift(direction: str) -> Rule:
    def written(w: Writer, eqn: Eqn, xs: list[Ref]) -> Ref:
        x, by = xs
        if x.dtype.kind != "u":
            return _shifted(w, eqn, x, direction)
        shape = max(x.shape, by.shape, key=len)
        moved = w.op("BitShift", [x, by], shape, x.dtype, direction=direction)
        bits = w.scalar(8 * x.dtype.itemsize, x.dtype)
        return w.select(w.compare("Less", by, bits), moved, w.scalar(0, x.dtype))

    return written


def _shifted(w: Writer, eqn: Eqn, x: Ref, direction: str) -> Ref:
    """Signed integers: multiplied, or divided and rounded down, by a power of 2 that is known."""
    by = eqn.inputs[1]
    if not isinstance(by, Lit) or not 0 <= by.value < 8 * x.dtype.itemsize - 1:
        raise no_form(w.form, eqn, "bits of signed integers are shifted by known numbers alone.")
    power = w.scalar(1 << int(by.value), x.dtype)
    if direction == "LEFT":
        return w.each("Mul", x, power)
    return _floor_divide(w, eqn, [x, power])


def _itself(_w: Writer, _eqn: Eqn, xs: list[Ref]) -> list[Ref]:
    return xs


# --- products -------------------------------------------------------------------------------------


def _dot_general(w: Writer, eqn: Eqn, xs: list[Ref]) -> Ref:
    """MatMul of (batch, free, contracted) and (batch, contracted, free)."""
    (a, b), aval = xs, eqn.outputs[0].aval
    (ca, cb), (ba, bb) = eqn.params["contract"], eqn.params["batch"]
    left = _matrices(w, a, ba, [k for k in range(len(a.shape)) if k not in (*ca, *ba)], ca)
    right = _matrices(w, b, bb, cb, [k for k in range(len(b.shape)) if k not in (*cb, *bb)])
    shape = (left.shape[0], left.shape[1], right.shape[2])
    if 0 in (*left.shape, *right.shape):
        return w.wide(w.scalar(0, aval.dtype), aval.shape)
    return w.reshape(w.op("MatMul", [left, right], shape, aval.dtype), aval.shape)


def _matrices(
    w: Writer, x: Ref, batch: Sequence[int], rows: Sequence[int], columns: Sequence[int]
) -> Ref:
    shape = [math.prod([x.shape[k] for k in part]) for part in (batch, rows, columns)]
    return w.reshape(w.transpose(x, [*batch, *rows, *columns]), shape)


def _conv(w: Writer, eqn: Eqn, xs: list[Ref]) -> Ref:
    p, aval = eqn.params, eqn.outputs[0].aval
    low, high = [lo for lo, _ in p["padding"]], [hi for _, hi in p["padding"]]
    return w.op(
        "Conv", xs, aval.shape, aval.dtype, strides=p["strides"], dilations=p["w_dilation"],
        pads=[*low, *high], group=p["feature_groups"],
    )  # fmt: skip


# --- what is composed -----------------------------------------------------------------------------


def _log1p(x: Value) -> Value:
    """log(u) x / (u - 1) for u = 1 + x, which makes good what u lost."""
    u = ew.add(x, lit(x, 1))
    plain = ew.or_(ew.eq(u, lit(x, 1)), ew.eq(u, lit(x, math.inf)))
    ratio = ew.div(x, select(plain, lit(x, 1), ew.sub(u, lit(x, 1))))
    return select(ew.eq(u, lit(x, 1)), x, ew.mul(ew.log(u), select(plain, lit(x, 1), ratio)))


def _expm1(x: Value) -> Value:
    """2 t / (1 - t) for t = tanh(x / 2), near 0."""
    near = ew.lt(ew.abs_(x), lit(x, 0.5))
    t = ew.tanh(ew.mul(select(near, x, lit(x, 0)), lit(x, 0.5)))
    small = ew.div(ew.mul(t, lit(x, 2)), ew.sub(lit(x, 1), t))
    return select(near, small, ew.sub(ew.exp(x), lit(x, 1)))


def _cbrt(x: Value) -> Value:
    size = ew.abs_(x)
    root = ew.pow_(size, c.zero_of(x) + lit(x, 1 / 3))
    return select(ew.eq(x, lit(x, 0)), x, select(ew.lt(x, lit(x, 0)), ew.neg(root), root))


def _atan2(y: Value, x: Value) -> Value:
    """atan(y / x), turned by pi to the left of the origin; infinities count as 1."""
    endless = ew.and_(ew.eq(ew.abs_(x), lit(x, math.inf)), ew.eq(ew.abs_(y), lit(y, math.inf)))
    one = lit(x, 1)
    across, up = [select(endless, select(ew.lt(v, lit(v, 0)), ew.neg(one), one), v) for v in (x, y)]
    left, below = ew.signbit(x), ew.signbit(y)
    origin = ew.and_(ew.eq(x, lit(x, 0)), ew.eq(y, lit(y, 0)))
    angle = ew.atan(ew.div(up, select(origin, one, across)))
    angle = select(origin, y, angle)
    half = select(below, lit(x, -math.pi), lit(x, math.pi))
    turned = select(origin, half, ew.add(angle, half))
    upright = ew.and_(ew.eq(x, lit(x, 0)), ew.ne(y, lit(y, 0)))
    quarter = select(below, lit(x, -math.pi / 2), lit(x, math.pi / 2))
    quarter = select(ew.ne(y, y), y, quarter)
    return select(upright, quarter, select(left, turned, angle))


_COMPOSED: dict[str, c.Expand] = {
    **c.ALWAYS,
    "log1p": c.composed(_log1p, "f"),
    "expm1": c.composed(_expm1, "f"),
    "cbrt": c.composed(_cbrt, "f"),
    "atan2": c.composed(_atan2, "f"),
    "dot_general": c.as_integers(dot_general),
    "sort": c.one_key,
    "conv": c.plain_conv,
}
EXPANSIONS: Expansions = {**IDENTITIES, **{REGISTRY[k]: v for k, v in _COMPOSED.items()}}
UNCHECKED: Expansions = {REGISTRY[k]: v for k, v in c.WITHOUT_CHECKS.items()}

RULES: dict[str, Rule] = {
    **{name: _same(kind) for name, kind in SAME.items()},
    **{name: _compares(kind) for name, kind in COMPARES.items()},
    "eq": lambda w, eqn, xs: w.compare("Equal", *xs),
    "ne": _different,
    "add": _by_kind("Or", "Add", "Add"),
    "mul": _by_kind("And", "Mul", "Mul"),
    "div": _same("Div"),
    "not": _by_kind("Not", "BitwiseNot", ""),
    "and": _by_kind("And", "BitwiseAnd", ""),
    "or": _by_kind("Or", "BitwiseOr", ""),
    "xor": _by_kind("Xor", "BitwiseXor", ""),
    "max": _extremum("Max", "Or"),
    "min": _extremum("Min", "And"),
    "sign": _sign,
    "abs": _abs,
    "fmod": _fmod,
    "floor_divide": _floor_divide,
    "isfinite": _is_finite,
    "signbit": _signbit,
    "select": _select,
    "convert": _convert,
    "shift_left": _shift("LEFT"),
    "shift_right": _shift("RIGHT"),
    "stop_gradient": _itself,
    "barrier": _itself,
    "dot_general": _dot_general,
    "conv": _conv,
    **PLACES,
    **CONTROL,
}
