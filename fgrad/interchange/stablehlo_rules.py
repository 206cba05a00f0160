"""L7. How each primitive is written as StableHLO, by its name.

sin x           stablehlo.sine
asin x          chlo.asin                                a function of its library
remainder x y   a composition, see composed.py

[S] The StableHLO specification, version 1.
"""

from __future__ import annotations

import numpy as np

from fgrad.compile.passes.inline import IDENTITIES, Expansions
from fgrad.interchange import composed as c
from fgrad.interchange.stablehlo_control import CONTROL
from fgrad.interchange.stablehlo_places import PLACES
from fgrad.interchange.stablehlo_writer import Ref, Rule, Writer
from fgrad.interchange.traced import no_form
from fgrad.ir.aval import BOOL
from fgrad.ir.primitive import REGISTRY
from fgrad.ir.program import Eqn, Program
from fgrad.ops import elementwise as ew
from fgrad.ops.complex import complex_, imag, real, real_dtype
from fgrad.ops.dot import dot_general
from fgrad.ops.elementwise import lit
from fgrad.ops.fft import fft_p
from fgrad.trace import Value, bind

# --- elementwise ----------------------------------------------------------------------------------

SAME = {
    "sub": "subtract", "div": "divide", "neg": "negate", "sign": "sign", "floor": "floor",
    "ceil": "ceil", "rint": "round_nearest_even", "not": "not", "and": "and", "or": "or",
    "xor": "xor", "shift_left": "shift_left", "max": "maximum", "min": "minimum",
    "exp": "exponential", "expm1": "exponential_minus_one", "log": "log", "sqrt": "sqrt",
    "log1p": "log_plus_one", "cbrt": "cbrt", "logistic": "logistic", "pow": "power",
    "sin": "sine", "cos": "cosine", "tan": "tan", "tanh": "tanh", "atan2": "atan2",
}  # fmt: skip
LIBRARY = {
    "asin": "asin", "acos": "acos", "atan": "atan", "sinh": "sinh", "cosh": "cosh",
    "asinh": "asinh", "acosh": "acosh", "atanh": "atanh", "erf": "erf", "erfc": "erfc",
    "erfinv": "erf_inv", "lgamma": "lgamma", "digamma": "digamma", "nextafter": "next_after",
}  # fmt: skip
COMPARES = {"eq": "EQ", "ne": "NE", "lt": "LT", "le": "LE", "gt": "GT", "ge": "GE"}


def _same(name: str) -> Rule:
    return lambda w, eqn, xs: w.hlo(f"stablehlo.{name}", *xs)


def _library(name: str) -> Rule:
    return lambda w, eqn, xs: w.hlo(f"chlo.{name}", *xs)


def _ordered(rule: Rule) -> Rule:
    """Refused for complex numbers, which NumPy orders by their parts."""

    def written(w: Writer, eqn: Eqn, xs: list[Ref]) -> Ref | list[Ref]:
        if xs[0].dtype.kind == "c":
            raise no_form(w.form, eqn, "complex numbers have no order there.")
        return rule(w, eqn, xs)

    return written


def _compares(how: str) -> Rule:
    return lambda w, eqn, xs: w.compare(how, *xs)


def _by_kind(of_bools: str, of_others: str) -> Rule:
    def written(w: Writer, _eqn: Eqn, xs: list[Ref]) -> Ref:
        return w.hlo(f"stablehlo.{of_bools if xs[0].dtype.kind == 'b' else of_others}", *xs)

    return written


def _sign(w: Writer, eqn: Eqn, xs: list[Ref]) -> Ref:
    (x,) = xs
    if x.dtype.kind == "u":
        return w.convert(w.compare("NE", x, w.scalar(0, x.dtype)), x.dtype)
    if x.dtype.kind == "c":
        raise no_form(w.form, eqn, "NumPy's sign of complex numbers is another function.")
    return w.hlo("stablehlo.sign", x)


def _abs(w: Writer, _eqn: Eqn, xs: list[Ref]) -> Ref:
    return xs[0] if xs[0].dtype.kind in "ub" else w.hlo("stablehlo.abs", *xs)


def _shift_right(w: Writer, _eqn: Eqn, xs: list[Ref]) -> Ref:
    how = "arithmetic" if xs[0].dtype.kind == "i" else "logical"
    return w.hlo(f"stablehlo.shift_right_{how}", *xs)


def _safe(w: Writer, x: Ref, y: Ref) -> tuple[Ref, Ref, Ref]:
    """Where a divisor is 0, 0, and the divisor with 1 there."""
    zero = w.scalar(0, y.dtype)
    none = w.compare("EQ", y, zero)
    return none, zero, w.select(none, w.scalar(1, y.dtype), y)


def _fmod(w: Writer, _eqn: Eqn, xs: list[Ref]) -> Ref:
    """Integers by 0 are 0, as in NumPy."""
    x, y = xs
    if x.dtype.kind not in "iu":
        return w.hlo("stablehlo.remainder", x, y)
    none, zero, safe = _safe(w, x, y)
    return w.select(none, zero, w.hlo("stablehlo.remainder", x, safe))


def _floor_divide(w: Writer, _eqn: Eqn, xs: list[Ref]) -> Ref:
    """Of integers: the quotient towards zero, less 1 where a rest has the other sign."""
    x, y = xs
    none, zero, safe = _safe(w, x, y)
    quotient = w.hlo("stablehlo.divide", x, safe)
    if x.dtype.kind == "i":
        rest = w.hlo("stablehlo.remainder", x, safe)
        differ = w.compare("NE", w.compare("LT", rest, zero), w.compare("LT", safe, zero))
        below = w.hlo("stablehlo.and", differ, w.compare("NE", rest, zero))
        less = w.hlo("stablehlo.subtract", quotient, w.scalar(1, x.dtype))
        quotient = w.select(below, less, quotient)
    return w.select(none, zero, quotient)


def _is_finite(w: Writer, _eqn: Eqn, xs: list[Ref]) -> Ref:
    return w.op("stablehlo.is_finite", xs, xs[0].shape, BOOL)


def _signbit(w: Writer, _eqn: Eqn, xs: list[Ref]) -> Ref:
    (x,) = xs
    word = np.dtype(f"i{x.dtype.itemsize}")
    bits = w.op("stablehlo.bitcast_convert", [x], x.shape, word)
    return w.compare("LT", bits, w.scalar(0, word))


def _select(w: Writer, _eqn: Eqn, xs: list[Ref]) -> Ref:
    return w.select(*xs)


def _convert(w: Writer, eqn: Eqn, xs: list[Ref]) -> Ref:
    (x,), dtype = xs, eqn.params["dtype"]
    if dtype.kind == "b" and x.dtype.kind != "b":
        return w.compare("NE", x, w.scalar(0, x.dtype))
    if x.dtype.kind == "c" and dtype.kind != "c":
        x = _part(w, "real", x)
    return w.convert(x, dtype)


def _part(w: Writer, name: str, x: Ref) -> Ref:
    return w.op(f"stablehlo.{name}", [x], x.shape, real_dtype(x.dtype))


def _complex(w: Writer, eqn: Eqn, xs: list[Ref]) -> Ref:
    aval = eqn.outputs[0].aval
    return w.op("stablehlo.complex", [w.wide(x, aval.shape) for x in xs], aval.shape, aval.dtype)


def _bitcast(w: Writer, eqn: Eqn, xs: list[Ref]) -> Ref:
    if xs[0].dtype.kind == "b" or eqn.params["dtype"].kind in "bc":
        raise no_form(w.form, eqn, "truth values have no bits there.")
    return w.op("stablehlo.bitcast_convert", xs, xs[0].shape, eqn.params["dtype"])


def _itself(_w: Writer, _eqn: Eqn, xs: list[Ref]) -> list[Ref]:
    return xs


# --- matrices, convolutions, transforms -----------------------------------------------------------


def _dot_general(w: Writer, eqn: Eqn, xs: list[Ref]) -> Ref:
    (ca, cb), (ba, bb) = eqn.params["contract"], eqn.params["batch"]
    aval = eqn.outputs[0].aval
    batch = f", batching_dims = {list(ba)} x {list(bb)}" if ba else ""
    how = f"{batch}, contracting_dims = {list(ca)} x {list(cb)}, precision = [HIGHEST, HIGHEST]"
    return w.op("stablehlo.dot_general", xs, aval.shape, aval.dtype, how)


def _conv(w: Writer, eqn: Eqn, xs: list[Ref]) -> Ref:
    params, aval = eqn.params, eqn.outputs[0].aval
    features, batches = params["feature_groups"], params["batch_groups"]
    if features > 1 and batches > 1:
        raise no_form(w.form, eqn, "it has groups of features or of the batch, not both.")
    spatial = "".join([f", {k}" for k in range(aval.ndim - 2)])
    low_high = ", ".join([f"[{low}, {high}]" for low, high in params["padding"]])
    how = (
        f" dim_numbers = [b, f{spatial}]x[o, i{spatial}]->[b, f{spatial}], window = {{"
        f"stride = {list(params['strides'])}, pad = [{low_high}], "
        f"lhs_dilate = {list(params['x_dilation'])}, rhs_dilate = {list(params['w_dilation'])}}} "
        f"{{batch_group_count = {batches} : i64, feature_group_count = {features} : i64, "
        "precision_config = [#stablehlo<precision HIGHEST>, #stablehlo<precision HIGHEST>]}"
    )
    return w.called("stablehlo.convolution", xs, aval.shape, aval.dtype, how)


def _cholesky(w: Writer, eqn: Eqn, xs: list[Ref]) -> Ref:
    (a,) = xs
    lower = w.op("stablehlo.cholesky", [a], a.shape, a.dtype, ", lower = true")
    rows, columns = [w.iota(a.shape, k) for k in (len(a.shape) - 2, len(a.shape) - 1)]
    return w.select(w.compare("GE", rows, columns), lower, w.scalar(0, a.dtype))


def _triangular_solve(w: Writer, eqn: Eqn, xs: list[Ref]) -> Ref:
    b, params = xs[1], eqn.params
    turned = "TRANSPOSE" if params["trans"] else "NO_TRANSPOSE"
    how = (
        f"left_side = true, lower = {str(params['lower']).lower()}, "
        f"transpose_a = #stablehlo<transpose {turned}>, "
        f"unit_diagonal = {str(params['unit']).lower()}"
    )
    return w.generic("stablehlo.triangular_solve", xs, [(b.shape, b.dtype)], how)[0]


def _fft(w: Writer, eqn: Eqn, xs: list[Ref]) -> Ref:
    (x,), aval, (axis,) = xs, eqn.outputs[0].aval, eqn.params["axes"]
    kind, n = eqn.params["kind"], eqn.params["n"] or x.shape[eqn.params["axes"][0]]
    order = [*[a for a in range(aval.ndim) if a != axis], axis]
    moved = w.transpose(x, order)
    shape = (*moved.shape[:-1], aval.shape[axis])
    how = f", type = {kind.upper()}, length = [{n}]"
    out = w.op("stablehlo.fft", [moved], shape, aval.dtype, how)
    return w.transpose(out, [order.index(a) for a in range(aval.ndim)])


# --- the tables -----------------------------------------------------------------------------------

RULES: dict[str, Rule] = {
    **{name: _same(word) for name, word in SAME.items()},
    **{name: _library(word) for name, word in LIBRARY.items()},
    **{name: _ordered(_compares(word)) for name, word in COMPARES.items()},
    **{name: _ordered(_same(SAME[name])) for name in ("max", "min")},
    "eq": _compares("EQ"),
    "ne": _compares("NE"),
    "add": _by_kind("or", "add"),
    "mul": _by_kind("and", "multiply"),
    "sign": _sign,
    "abs": _abs,
    "fmod": _fmod,
    "floor_divide": _floor_divide,
    "shift_right": _shift_right,
    "isfinite": _is_finite,
    "signbit": _signbit,
    "select": _select,
    "convert": _convert,
    "real": lambda w, eqn, xs: _part(w, "real", *xs),
    "imag": lambda w, eqn, xs: _part(w, "imag", *xs),
    "complex": _complex,
    "bitcast": _bitcast,
    "stop_gradient": _itself,
    "barrier": _itself,
    "dot_general": _dot_general,
    "conv": _conv,
    "cholesky": _cholesky,
    "triangular_solve": _triangular_solve,
    "fft": _fft,
    **PLACES,
    **CONTROL,
}


def _finite_parts(z: Value) -> Value:
    return ew.and_(ew.isfinite(real(z)), ew.isfinite(imag(z)))


def _one_axis_each(x: Value, *, kind: str, axes: tuple[int, ...], n: int | None) -> Value:
    for axis in reversed(axes):
        x = bind(fft_p, x, kind=kind, axes=(axis,), n=n)
    return x


def _several_axes(eqn: Eqn) -> Program | None:
    return _BY_AXIS(eqn) if len(eqn.params["axes"]) > 1 else None


_BY_AXIS = c.composed(_one_axis_each)

_COMPOSED: dict[str, c.Expand] = {
    **c.ALWAYS,
    "isfinite": c.composed(_finite_parts, "c"),
    "conj": c.composed(lambda z: complex_(real(z), ew.neg(imag(z)))),
    "reciprocal": c.composed(lambda z: ew.div(lit(z, 1), z)),
    "dot_general": c.as_integers(dot_general),
    "fft": _several_axes,
}
EXPANSIONS: Expansions = {**IDENTITIES, **{REGISTRY[k]: v for k, v in _COMPOSED.items()}}
UNCHECKED: Expansions = {REGISTRY[k]: v for k, v in c.WITHOUT_CHECKS.items()}
