"""L5. Pass `legalize_complex`: complex arrays -> pairs of real ones, which kernels know.

    z = mul a b        re = a.re * b.re - a.im * b.im;  im = a.re * b.im + a.im * b.re

Requires nothing.  Ensures that the only equations on complex arrays are those that NumPy evaluates
(Fourier transforms, linear algebra, rare functions), and `real`, `imag` and `complex` around them
and at the ends of the program.  Formulas are NumPy's: products are not rescued from overflow,
quotients are Smith's (Algorithm 116: complex division, 1962).

On a GPU, for which NumPy evaluates nothing, `legalize_all_complex` follows: with rules for what the
CPU does better in NumPy's loops (extrema, running products, any powers).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from fgrad.compile.passes import complex_inverses as inverses
from fgrad.compile.passes.complex_functions import FUNCTIONS, Parts, logarithm
from fgrad.compile.passes.complex_loops import looped
from fgrad.compile.passes.complex_rows import arg_extremum, extremum, running
from fgrad.ir.primitive import REGISTRY, Primitive
from fgrad.ir.program import Eqn, Lit, Program, Var
from fgrad.ir.traits import CONTROL
from fgrad.ops import elementwise as ew
from fgrad.ops import primitives as prims
from fgrad.ops.complex import complex_, imag, real, real_dtype
from fgrad.ops.shape import full, reshape, slice_
from fgrad.trace import Value, bind, trace
from fgrad.tracing.thread_state import THREAD


class Split:
    """A complex value as its parts, as a whole, or both; each made from the other when needed."""

    __slots__ = ("_im", "_re", "_whole", "is_real", "shape")

    def __init__(
        self,
        shape: tuple[int, ...],
        re: Any = None,
        im: Any = None,
        whole: Any = None,
    ):
        self.shape = shape
        self._re, self._im, self._whole = re, im, whole
        self.is_real = False  # known to have been converted from a real value

    @property
    def re(self) -> Value:
        """The real part, of full shape unless it is a literal."""
        if self._re is None:
            self._re = real(self._whole)
        return self._re

    @property
    def im(self) -> Value:
        """The imaginary part, likewise."""
        if self._im is None:
            self._im = imag(self._whole)
        return self._im

    @property
    def whole(self) -> Value:
        """The complex array."""
        if self._whole is None:
            self._whole = complex_(*[filled(x, self.shape) for x in (self.re, self.im)])
        return self._whole


Operand: TypeAlias = Any  # a Split, or the value of a real operand
SplitRule = Callable[..., "Operand"]


def filled(x: Value, shape: tuple[int, ...]) -> Value:
    """A literal repeated to a shape."""
    return full(shape, x, x.dtype) if shape and not x.shape else x


def legalize_complex(program: Program) -> Program:
    """The program on real arrays."""
    return _split(program, RULES) if any(_is_complex(eqn) for eqn in program.eqns) else program


def legalize_all_complex(program: Program) -> Program:
    """The same with the rules of `OTHERS` too."""
    left = any([eqn.prim in OTHERS and _is_complex(eqn) for eqn in program.eqns])
    return _split(program, RULES | OTHERS) if left else program


def _split(program: Program, rules: Mapping[Primitive, SplitRule]) -> Program:

    def flat(*inputs: Value) -> list[Value]:
        env: dict[Var, Operand] = {
            v: _operand(x) for v, x in zip(program.inputs, inputs, strict=True)
        }
        env.update({v: _operand(x) for v, x in program.consts})
        for eqn in program.eqns:
            THREAD.state.loc, THREAD.state.via = eqn.loc, eqn.via
            operands = [_operand(a.value) if type(a) is Lit else env[a] for a in eqn.inputs]  # type: ignore[index]
            results = _apply(eqn, operands, rules)
            env.update(zip(eqn.outputs, results, strict=True))
        outs = [_operand(a.value) if type(a) is Lit else env[a] for a in program.outputs]  # type: ignore[index]
        return [_whole(x) for x in outs]

    with np.errstate(all="ignore"):
        traced = trace(flat, program.in_avals, program.name, program.made_by)
    return traced.program.replace(made_by="legalize_complex")


def _is_complex(eqn: Eqn) -> bool:
    return any([a.aval.dtype.kind == "c" for a in (*eqn.inputs, *eqn.outputs)])


def _operand(x: Value) -> Operand:
    if x.dtype.kind != "c":
        return x
    if isinstance(x, np.ndarray | np.generic):
        return Split(x.shape, np.copy(x.real)[()], np.copy(x.imag)[()], x)
    return Split(tuple(x.shape), whole=x)


def _whole(x: Operand) -> Value:
    return x.whole if isinstance(x, Split) else x


def _apply(
    eqn: Eqn, operands: list[Operand], rules: Mapping[Primitive, SplitRule]
) -> Sequence[Operand]:
    """The results of one equation."""
    rule = rules.get(eqn.prim) if _is_complex(eqn) else None
    if rule is not None:
        found = rule(eqn, *operands)
        if found is not None:
            return found if eqn.prim.multiple else [found]
    out = bind(eqn.prim, *[_whole(x) for x in operands], **eqn.params)
    return [_operand(x) for x in (out if eqn.prim.multiple else (out,))]


def _pair(eqn: Eqn, re: Value, im: Value) -> Split:
    shape = eqn.outputs[0].aval.shape
    return Split(shape, filled(re, shape), filled(im, shape))


# --- each part by itself


def _each(eqn: Eqn, *xs: Operand) -> Operand:
    """An equation that is linear over the reals, and does to both parts the same."""
    shapes = [a.aval.shape for a in eqn.inputs]
    parts = []
    for part in ("re", "im"):
        operands = [
            filled(getattr(x, part), shape) if isinstance(x, Split) else x
            for x, shape in zip(xs, shapes, strict=True)
        ]
        parts.append(bind(eqn.prim, *operands, **eqn.params))
    return _pair(eqn, *parts)


def _pad(eqn: Eqn, x: Split) -> Operand:
    value = np.complex128(eqn.params["value"])
    parts = zip((x.re, x.im), (value.real, value.imag), strict=True)
    return _pair(
        eqn,
        *[
            bind(eqn.prim, filled(p, x.shape), **{**eqn.params, "value": float(v)})
            for p, v in parts
        ],
    )


def _scatter(eqn: Eqn, *xs: Operand) -> Operand:
    return _each(eqn, *xs) if eqn.params["mode"] in ("set", "add") else None


def _select(eqn: Eqn, condition: Value, x: Split, y: Split) -> Operand:
    return _pair(eqn, ew.select(condition, x.re, y.re), ew.select(condition, x.im, y.im))


def _convert(eqn: Eqn, x: Operand) -> Operand:
    dtype = eqn.params["dtype"]
    part = real_dtype(dtype)
    if not isinstance(x, Split):
        converted = _pair(eqn, ew.convert(x, part), part.type(0))
        converted.is_real = True
        return converted
    if dtype.kind == "c":
        return _pair(eqn, ew.convert(x.re, part), ew.convert(x.im, part))
    return ew.convert(x.re, dtype) if dtype.kind in "fiu" else None


# --- arithmetic


def _mul(eqn: Eqn, x: Split, y: Split) -> Operand:
    return _pair(eqn, *_times(x, y))


def _times(x: Split, y: Split) -> tuple[Value, Value]:
    re = ew.sub(ew.mul(x.re, y.re), ew.mul(x.im, y.im))
    return re, ew.add(ew.mul(x.re, y.im), ew.mul(x.im, y.re))


def _div(eqn: Eqn, x: Split, y: Split) -> Operand:
    """Smith: divide by the larger part of y first."""
    if y.is_real:
        return _div_by_real(eqn, x, y.re)
    a, b, c, d = x.re, x.im, y.re, y.im
    size_c, size_d = ew.abs_(c), ew.abs_(d)
    wide = ew.ge(size_c, size_d)
    large, small = ew.select(wide, c, d), ew.select(wide, d, c)
    ratio = ew.div(small, large)
    scale = ew.add(large, ew.mul(small, ratio))
    # wide: (a + b r, b - a r);   else: (a r + b, b r - a)
    re = ew.select(wide, ew.add(a, ew.mul(b, ratio)), ew.add(ew.mul(a, ratio), b))
    im = ew.select(wide, ew.sub(b, ew.mul(a, ratio)), ew.sub(ew.mul(b, ratio), a))
    zero = ew.and_(ew.eq(size_c, ew.lit(c, 0)), ew.eq(size_d, ew.lit(d, 0)))
    return _quotients(eqn, zero, (a, b, size_c), (re, im, scale))


def _div_by_real(eqn: Eqn, x: Split, c: Value) -> Operand:
    """The same for y = c + 0i, where r is a zero with the sign of c."""
    a, b, size = x.re, x.im, ew.abs_(c)
    ratio = ew.copysign(filled(ew.lit(c, 0), c.shape), c)
    re, im = ew.add(a, ew.mul(b, ratio)), ew.sub(b, ew.mul(a, ratio))
    return _quotients(eqn, ew.eq(size, ew.lit(c, 0)), (a, b, size), (re, im, c))


def _quotients(
    eqn: Eqn, zero: Value, at_zero: tuple[Value, Value, Value], else_: tuple[Value, Value, Value]
) -> Operand:
    """Both parts by one divisor; the operands where that is zero, and elsewhere."""
    re, im, divisor = (ew.select(zero, p, q) for p, q in zip(at_zero, else_, strict=True))
    return _pair(eqn, ew.div(re, divisor), ew.div(im, divisor))


def _masked(product: SplitRule) -> SplitRule:
    """0 where the first operand is 0, whatever the second is."""

    def rule(eqn: Eqn, t: Split, d: Split) -> Operand:
        nothing = ew.and_(ew.eq(t.re, ew.lit(t.re, 0)), ew.eq(t.im, ew.lit(t.im, 0)))
        out = product(eqn, t, d)
        zero = ew.lit(t.re, 0)
        return _pair(eqn, ew.select(nothing, zero, out.re), ew.select(nothing, zero, out.im))

    return rule


def _dot(eqn: Eqn, x: Split, y: Split) -> Operand:
    (a, b), (c, d) = ((filled(z.re, z.shape), filled(z.im, z.shape)) for z in (x, y))
    dot = lambda p, q: bind(eqn.prim, p, q, **eqn.params)  # noqa: E731
    return _pair(eqn, ew.sub(dot(a, c), dot(b, d)), ew.add(dot(a, d), dot(b, c)))


def _exp(eqn: Eqn, z: Split) -> Operand:
    """e^x (cos y + i sin y), and no 0 * inf for real z; C99 (annex G) for y that is not finite."""
    size = ew.exp(z.re)
    flat = ew.eq(z.im, ew.lit(z.im, 0))
    re = ew.select(flat, size, ew.mul(size, ew.cos(z.im)))
    im = ew.select(flat, z.im, ew.mul(size, ew.sin(z.im)))
    # e^-inf is 0 and |e^inf| is inf, whatever the angle is.
    endless, lost = ew.isinf(z.re), ew.not_(ew.isfinite(z.im))
    known = ew.and_(endless, lost)
    re = ew.select(known, size, re)
    zero = filled(ew.lit(z.re, 0), z.im.shape)
    nothing = ew.lt(z.re, ew.lit(z.re, 0))
    beyond = ew.select(nothing, ew.copysign(zero, z.im), ew.lit(z.re, np.nan))
    return _pair(eqn, re, ew.select(known, beyond, im))


def _exp2(eqn: Eqn, z: Split) -> Operand:
    """e^(z log 2)."""
    factor = ew.lit(z.re, math.log(2))
    return _exp(eqn, Split(z.shape, ew.mul(z.re, factor), ew.mul(z.im, factor)))


def _pow(eqn: Eqn, z: Split, n: Split) -> Operand:
    """Known powers: integer powers by repeated squares, as NumPy has them, others e^(n log z)."""
    if n.shape or not isinstance(n.re, np.generic) or not isinstance(n.im, np.generic):
        return None
    exponent = complex(n.re, n.im).real if not n.im else math.nan  # type: ignore[arg-type]
    if not exponent.is_integer() or abs(exponent) >= 100:
        return _general_power(eqn, z, n)
    if exponent == 0:
        return _pair(eqn, ew.lit(z.re, 1), ew.lit(z.re, 0))
    if exponent in (1, 2, 3):
        square = _mul(eqn, z, z) if exponent > 1 else z
        return _mul(eqn, z, square) if exponent == 3 else square
    one = Split((), ew.lit(z.re, 1), ew.lit(z.re, 0))
    left, power, out = int(abs(exponent)), z, one
    while left:
        if left % 2:
            out = _mul(eqn, out, power)
        left //= 2
        power = _mul(eqn, power, power) if left else power
    return out if exponent > 0 else _unless_zero(eqn, z, _div(eqn, one, out), np.nan)


def _general_power(eqn: Eqn, z: Split, n: Split) -> Operand:
    """e^(n log z); 0 to a power with a positive real part is 0, to others nothing."""
    log = Split(z.shape, *logarithm(z.re, z.im))
    re, im = _times(log, n)
    re = re if n.im else ew.mul(log.re, n.re)  # not NaN where the angle is
    at_zero = 0 if n.re > 0 else np.nan  # type: ignore[operator]
    return _unless_zero(eqn, z, _exp(eqn, Split(z.shape, re, im)), at_zero)


def _unless_zero(eqn: Eqn, z: Split, out: Operand, at_zero: float) -> Operand:
    """Both parts of a result `at_zero` where z is 0."""
    zero = ew.and_(ew.eq(z.re, ew.lit(z.re, 0)), ew.eq(z.im, ew.lit(z.im, 0)))
    nothing = ew.lit(z.re, at_zero)
    return _pair(eqn, ew.select(zero, nothing, out.re), ew.select(zero, nothing, out.im))


def _any_power(eqn: Eqn, z: Split, n: Split) -> Operand:
    """e^(n log z); 1 for n = 0, by repeated squares for integers below 100, as NumPy has it, and
    for zeros 0 or nothing."""
    one, zero = ew.lit(z.re, 1), ew.lit(z.re, 0)
    nothing = ew.and_(ew.eq(z.re, zero), ew.eq(z.im, zero))
    safe = Split(z.shape, ew.select(nothing, one, z.re), z.im)
    shape = eqn.outputs[0].aval.shape
    whole = _exp(eqn, Split(shape, *_times(Split(shape, *logarithm(safe.re, safe.im)), n)))
    at_zero = ew.select(ew.gt(n.re, zero), zero, ew.lit(z.re, np.nan))
    re, im = ew.select(nothing, at_zero, whole.re), ew.select(nothing, at_zero, whole.im)
    size = ew.abs_(n.re)
    small = ew.and_(ew.lt(size, ew.lit(size, 100)), ew.eq(ew.floor(size), size))
    small = ew.and_(small, ew.eq(n.im, zero))
    left = ew.convert(ew.select(small, size, zero), np.dtype(np.int32))
    power, out = z, Split((), one, zero)
    for k in range(7):
        odd = ew.ne(ew.and_(left, np.int32(1 << k)), np.int32(0))
        product = _product(out, power) if k else z
        out = Split(shape, ew.select(odd, product.re, out.re), ew.select(odd, product.im, out.im))
        power = _product(power, power)
    inverse, below = _reciprocal(eqn, out), ew.lt(n.re, zero)
    out = [ew.select(below, a, b) for a, b in ((inverse.re, out.re), (inverse.im, out.im))]
    return _pair(eqn, *[ew.select(small, a, b) for a, b in zip(out, (re, im), strict=True)])


def _reciprocal(eqn: Eqn, z: Split) -> Operand:
    """Smith's quotient for the numerator 1."""
    a, b = z.re, z.im
    wide = ew.ge(ew.abs_(a), ew.abs_(b))
    large, small = ew.select(wide, a, b), ew.select(wide, b, a)
    ratio = ew.div(small, large)
    scale = ew.add(large, ew.mul(small, ratio))
    one = ew.lit(a, 1)
    re = ew.div(ew.select(wide, one, ratio), scale)
    return _pair(eqn, re, ew.div(ew.neg(ew.select(wide, ratio, one)), scale))


def _of_parts(function: Callable[[Value, Value], tuple[Value, Value]]) -> SplitRule:
    return lambda eqn, z: _pair(eqn, *function(z.re, z.im))


def _scaled_logarithm(factor: float) -> SplitRule:
    def rule(eqn: Eqn, z: Split) -> Operand:
        re, im = logarithm(z.re, z.im)
        return _pair(eqn, ew.mul(re, ew.lit(re, factor)), ew.mul(im, ew.lit(im, factor)))

    return rule


# --- order: by real parts, then by imaginary ones


def _ordered(compare: Callable[[Value, Value], Value], equal: bool) -> SplitRule:
    """x < y, or another comparison; NaN in an imaginary part counts where the real ones decide."""

    def rule(eqn: Eqn, x: Split, y: Split) -> Operand:
        numbers = ew.and_(ew.eq(x.im, x.im), ew.eq(y.im, y.im))
        first = ew.and_(compare(x.re, y.re), numbers)
        tie = (_OR_EQUAL[compare] if equal else compare)(x.im, y.im)
        return ew.or_(first, ew.and_(ew.eq(x.re, y.re), tie))

    return rule


_OR_EQUAL = {ew.lt: ew.le, ew.gt: ew.ge}
_ORDER = {
    prims.lt: _ordered(ew.lt, False), prims.le: _ordered(ew.lt, True),
    prims.gt: _ordered(ew.gt, False), prims.ge: _ordered(ew.gt, True),
}  # fmt: skip


def _extremum(comparison: Primitive) -> SplitRule:
    """x where it has NaN or wins, else y."""

    def rule(eqn: Eqn, x: Split, y: Split) -> Operand:
        wins = ew.or_(_ORDER[comparison](eqn, x, y), _isnan(eqn, x))
        re, im = ew.select(wins, x.re, y.re), ew.select(wins, x.im, y.im)
        return Split(re.shape, re, im)

    return rule


_larger, _smaller = _extremum(prims.ge), _extremum(prims.le)


def _isnan(eqn: Eqn, z: Split) -> Operand:
    return ew.or_(ew.isnan(z.re), ew.isnan(z.im))


def _clip(eqn: Eqn, z: Split, low: Split, high: Split) -> Operand:
    return _smaller(eqn, _larger(eqn, z, low), high)


# --- along axes


def _extremum_of(largest: bool) -> SplitRule:
    def rule(eqn: Eqn, z: Split) -> Operand:
        re, im = filled(z.re, z.shape), filled(z.im, z.shape)
        return _pair(eqn, *extremum(re, im, eqn.params["axes"], largest))

    return rule


def _arg_extremum(largest: bool) -> SplitRule:
    def rule(eqn: Eqn, z: Split) -> Operand:
        re, im = filled(z.re, z.shape), filled(z.im, z.shape)
        return arg_extremum(re, im, eqn.params["axis"], largest)

    return rule


def _running(combine: SplitRule) -> SplitRule:
    def rule(eqn: Eqn, z: Split) -> Operand:
        def both(x: Parts, y: Parts) -> Parts:
            out = combine(eqn, *[Split(part[0].shape, *part) for part in (x, y)])
            return out.re, out.im

        re, im = filled(z.re, z.shape), filled(z.im, z.shape)
        return _pair(eqn, *running(re, im, **eqn.params, combine=both))

    return rule


def _reduce_prod(eqn: Eqn, z: Split) -> Operand:
    """Products of halves, of quarters, ..."""
    z = Split(z.shape, filled(z.re, z.shape), filled(z.im, z.shape))
    for axis in eqn.params["axes"]:
        rest = None
        while z.shape[axis] > 1:
            n = z.shape[axis] // 2
            if z.shape[axis] % 2:
                last = _cut(z, axis, 2 * n, 2 * n + 1)
                rest = last if rest is None else _product(rest, last)
            z = _product(_cut(z, axis, 0, n), _cut(z, axis, n, 2 * n))
        if not z.shape[axis]:
            return None
        z = z if rest is None else _product(z, rest)
    shape = eqn.outputs[0].aval.shape
    return Split(shape, reshape(z.re, shape), reshape(z.im, shape))


def _cut(z: Split, axis: int, start: int, stop: int) -> Split:
    low = tuple([start if a == axis else 0 for a in range(len(z.shape))])
    high = tuple([stop if a == axis else n for a, n in enumerate(z.shape)])
    shape = tuple([b - a for a, b in zip(low, high, strict=True)])
    return Split(shape, slice_(z.re, low, high), slice_(z.im, low, high))


def _product(x: Split, y: Split) -> Split:
    return Split(x.shape, *_times(x, y))


def _looped(eqn: Eqn, *xs: Operand) -> list[Operand]:
    parts = [
        (filled(x.re, x.shape), filled(x.im, x.shape)) if isinstance(x, Split) else (x,) for x in xs
    ]
    shapes = [v.aval.shape for v in eqn.outputs]
    outs = zip(shapes, looped(eqn, parts), strict=True)
    return [Split(shape, *out) if len(out) == 2 else out[0] for shape, out in outs]


RULES: dict[Primitive, SplitRule] = {
    prims.real: lambda eqn, z: filled(z.re, z.shape),
    prims.imag: lambda eqn, z: filled(z.im, z.shape),
    prims.complex: lambda eqn, x, y: _pair(eqn, x, y),
    prims.conj: lambda eqn, z: _pair(eqn, z.re, ew.neg(z.im)),
    prims.neg: lambda eqn, z: _pair(eqn, ew.neg(z.re), ew.neg(z.im)),
    prims.add: lambda eqn, x, y: _pair(eqn, ew.add(x.re, y.re), ew.add(x.im, y.im)),
    prims.sub: lambda eqn, x, y: _pair(eqn, ew.sub(x.re, y.re), ew.sub(x.im, y.im)),
    prims.mul: _mul,
    prims.div: _div,
    prims.masked_mul: _masked(_mul),
    prims.masked_div: _masked(_div),
    prims.eq: lambda eqn, x, y: ew.and_(ew.eq(x.re, y.re), ew.eq(x.im, y.im)),
    prims.ne: lambda eqn, x, y: ew.or_(ew.ne(x.re, y.re), ew.ne(x.im, y.im)),
    prims.isnan: _isnan,
    prims.isinf: lambda eqn, z: ew.or_(ew.isinf(z.re), ew.isinf(z.im)),
    prims.isfinite: lambda eqn, z: ew.and_(ew.isfinite(z.re), ew.isfinite(z.im)),
    **_ORDER,
    prims.max: _larger,
    prims.min: _smaller,
    prims.clip: _clip,
    prims.reduce_prod: _reduce_prod,
    prims.exp: _exp,
    prims.exp2: _exp2,
    prims.pow: _pow,
    prims.reciprocal: _reciprocal,
    **{prim: _of_parts(function) for prim, function in FUNCTIONS.items()},
    **{
        prim: _of_parts(function)
        for prim, function in (
            (prims.asinh, inverses.asinh), (prims.asin, inverses.asin),
            (prims.acos, inverses.acos), (prims.acosh, inverses.acosh),
            (prims.atanh, inverses.atanh), (prims.atan, inverses.atan),
        )
    },
    prims.log2: _scaled_logarithm(1 / math.log(2)),
    prims.log10: _scaled_logarithm(1 / math.log(10)),
    prims.stop_gradient: lambda eqn, z: z,  # as it is, whole or in parts
    prims.select: _select,
    prims.convert: _convert,
    prims.pad: _pad,
    prims.scatter: _scatter,
    prims.dot_general: _dot,
    **dict.fromkeys(
        (
            prims.broadcast, prims.permute, prims.reshape, prims.slice, prims.index, prims.reverse,
            prims.concatenate, prims.gather, prims.dynamic_slice, prims.dynamic_update,
            prims.windows, prims.fold, prims.reduce_sum, prims.cumsum,
        ),
        _each,
    ),
    **{prim: _looped for prim in REGISTRY.values() if prim.holds in CONTROL},
}  # fmt: skip

OTHERS: dict[Primitive, SplitRule] = {
    prims.pow: _any_power,
    prims.reduce_max: _extremum_of(largest=True),
    prims.reduce_min: _extremum_of(largest=False),
    prims.argmax: _arg_extremum(largest=True),
    prims.argmin: _arg_extremum(largest=False),
    prims.cumprod: _running(lambda eqn, x, y: _product(x, y)),
    prims.cummax: _running(_larger),
    prims.cummin: _running(_smaller),
}
