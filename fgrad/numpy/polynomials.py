"""L4. Polynomials as arrays of coefficients, highest power first.

NumPy drops leading zeros here and there, so that lengths depend on values.  Where values are known
this is what happens too; where they are not, `polymul` keeps the zeros, and what cannot do without
(`roots`, the remainder of `polydiv`) asks for a keyword that keeps them.
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

from fgrad.errors import ArgumentError, ShapeError
from fgrad.ir.aval import FLOAT64
from fgrad.numpy.arrange import concatenate, take_slice
from fgrad.numpy.calculus import convolve
from fgrad.numpy.creation import vander
from fgrad.numpy.dispatch import implements
from fgrad.numpy.promote import (
    as_array,
    as_operand,
    broadcast_to,
    convert,
    inexact,
    only_real,
    promote,
    reshape,
)
from fgrad.numpy.selection import known_array
from fgrad.ops import complex as cx
from fgrad.ops import elementwise as ew
from fgrad.ops import reduce as rd
from fgrad.ops import shape as sh
from fgrad.trace import Tracer, Value, concrete
from fgrad.typing import ArrayLike


def _line(p: ArrayLike) -> Value:
    """Coefficients, at least one-dimensional."""
    x = as_array(p)
    return x if len(x.shape) else reshape(x, (1,))


def _without_leading_zeros(x: Value) -> Value:
    """As `poly1d` stores it: one coefficient at least, and the first is not 0, as far as known."""
    value = concrete(x)
    if value is None or x.shape[0] <= 1:
        return x
    places = np.flatnonzero(value)
    n = x.shape[0]
    start = int(places[0]) if len(places) else n - 1
    return take_slice(x, 0, start, n)


# --- values and arithmetic ------------------------------------------------------------------------


@implements("polyval")
def polyval(p: ArrayLike, x: ArrayLike) -> Value:
    """A polynomial by Horner's rule, highest power first."""
    coefficients = as_array(p)
    if not coefficients.shape:
        raise ShapeError("polyval takes coefficients along one axis, not a number.")
    x = as_operand(x)
    result: Value = np.zeros_like(x) if isinstance(x, Tracer) else np.zeros_like(np.asarray(x))[()]
    for i in range(coefficients.shape[0]):
        result = np.add(np.multiply(result, x), coefficients[i])
    return result


@implements("polyadd")
def polyadd(a1: ArrayLike, a2: ArrayLike) -> Value:
    """The sum of two polynomials."""
    return np.add(*_same_degree(a1, a2))


@implements("polysub")
def polysub(a1: ArrayLike, a2: ArrayLike) -> Value:
    """The difference of two polynomials."""
    return np.subtract(*_same_degree(a1, a2))


def _same_degree(a1: ArrayLike, a2: ArrayLike) -> tuple[Value, Value]:
    x, y = _line(a1), _line(a2)
    n = max(x.shape[0], y.shape[0])
    x, y = [sh.pad(v, (n - v.shape[0],), (0,)) for v in promote((x, y))]
    return x, y


@implements("polymul")
def polymul(a1: ArrayLike, a2: ArrayLike) -> Value:
    """The product of two polynomials; leading zeros of known values are dropped."""
    x, y = (_without_leading_zeros(_line(a)) for a in (a1, a2))
    return convolve(x, y)


@implements("polydiv", extra=("trim_leading_zeros",))
def polydiv(u: ArrayLike, v: ArrayLike, *, trim_leading_zeros: bool = True) -> tuple[Value, Value]:
    """Quotient and remainder; the remainder's leading zeros are dropped if its values are known.

    With `trim_leading_zeros=False` the remainder has the length of `u`, whatever its values.
    """
    x, y = (_line(a) for a in (u, v))
    x, y = promote([inexact(x), inexact(y)])
    m, n = x.shape[0], y.shape[0]
    scale = ew.div(ew.lit(y, 1), y[0])
    quotient: list[Value] = []
    rest = x
    for k in range(m - n + 1):
        factor = ew.mul(scale, rest[k])
        quotient.append(factor)
        step = ew.mul(broadcast_to(factor, (n,)), y)
        rest = ew.sub(rest, sh.pad(step, (k,), (m - n - k,)))
    found = concatenate([reshape(f, (1,)) for f in quotient]) if quotient else np.zeros(1, x.dtype)
    return found, _trimmed(rest) if trim_leading_zeros else rest


def _trimmed(rest: Value) -> Value:
    """Without the leading numbers that are 0, as closely as NumPy compares them."""
    values = known_array(rest, "polydiv", "fgrad.numpy.polydiv(u, v, trim_leading_zeros=False)")
    start = 0
    while len(values) - start > 1 and np.allclose(values[start], 0, rtol=1e-14):
        start += 1
    return take_slice(rest, 0, start, len(values))


@implements("polyder")
def polyder(p: ArrayLike, m: int = 1) -> Value:
    """The derivative of a polynomial."""
    if m < 0:
        raise ArgumentError("Order of derivative must be positive (see polyint)")
    x = _line(p)
    for _ in range(int(m)):
        n = x.shape[0]
        x = np.multiply(x[: max(n - 1, 0)], np.arange(n - 1, 0, -1))
    return x


@implements("polyint")
def polyint(p: ArrayLike, m: int = 1, k: ArrayLike | None = None) -> Value:
    """The integral of a polynomial, with constants k."""
    if m < 0:
        raise ArgumentError("Order of integral must be positive (see polyder)")
    x = _line(p)
    constants: Value = _line(np.zeros(m) if k is None else k)
    if constants.shape[0] == 1 and m > 1:
        constants = broadcast_to(constants, (m,))
    if constants.ndim > 1 or constants.shape[0] < m:
        raise ArgumentError("k must be a scalar or a rank-1 array of length 1 or >m.")
    for i in range(int(m)):
        x = np.divide(x, np.arange(x.shape[0], 0, -1))
        x = concatenate([x, reshape(as_array(constants[i]), (1,))])
    return x


# --- roots ----------------------------------------------------------------------------------------


@implements("poly")
def poly(seq_of_zeros: ArrayLike) -> Value:
    """The polynomial with given roots, or the characteristic polynomial of a matrix.

    Of complex roots it is complex, also where these are conjugate pairs.
    """
    x = _line(seq_of_zeros)
    shape = x.shape
    square = len(shape) == 2 and shape[0] == shape[1] and bool(shape[0])
    real = square and x.dtype.kind != "c"
    if square:
        x = np.linalg.eigvals(x)
    elif len(shape) == 1:
        x = convert(x, np.dtype(np.mintypecode(x.dtype.char)))
    else:
        raise ShapeError("input must be 1d or non-empty square 2d array.")
    result: Any = np.ones(1, x.dtype)
    one = np.ones(1, x.dtype)
    for i in range(x.shape[0]):
        result = convolve(result, concatenate([one, reshape(ew.neg(x[i]), (1,))]))
    return cx.real(result) if real else result


@implements("roots", extra=("strip_zeros",))
def roots(p: ArrayLike, *, strip_zeros: bool = True) -> Value:
    """The roots, as eigenvalues of the companion matrix; complex, also where all are real.

    How many leading and trailing zeros there are must be known; with `strip_zeros=False` there are
    as many roots as coefficients but one.
    """
    x = _line(p)
    if len(x.shape) != 1:
        raise ShapeError("Input must be a rank-1 array.")
    trailing = 0
    if strip_zeros:
        places = np.flatnonzero(known_array(x, "roots", "fgrad.numpy.roots(p, strip_zeros=False)"))
        if not len(places):
            return np.zeros(0)
        trailing = x.shape[0] - 1 - int(places[-1])
        x = take_slice(x, 0, int(places[0]), int(places[-1]) + 1)
    x = inexact(x)
    n = x.shape[0] - 1
    kind = np.result_type(x.dtype, np.complex64)
    zeros = np.zeros(trailing, kind)
    if n < 1:
        return zeros
    first = ew.neg(ew.div(*_spread(x[1:], x[0])))
    below = np.eye(n - 1, n, dtype=x.dtype)
    companion = concatenate([reshape(first, (1, n)), below])
    found = convert(np.linalg.eigvals(companion), kind)
    return concatenate([found, zeros]) if trailing else found


def _spread(x: Value, scalar: Value) -> tuple[Value, Value]:
    return x, broadcast_to(scalar, x.shape)


# --- fitting --------------------------------------------------------------------------------------


@implements("polyfit")
def polyfit(
    x: Value,
    y: Value,
    deg: int,
    rcond: float | None = None,
    full: bool = False,
    w: Value | None = None,
    cov: bool | Literal["unscaled"] = False,
) -> Value | tuple[ArrayLike, ...]:
    """The polynomial of least squares through points; with `full` or `cov` also how good it is."""
    order = int(deg) + 1
    points, values = inexact(x), inexact(y)
    points = convert(points, np.result_type(points.dtype, FLOAT64))
    _check_fit(points, values, int(deg))
    cut: float = points.shape[0] * np.finfo(FLOAT64).eps if rcond is None else rcond
    matrix = vander(points, order)
    if w is not None:
        weights = inexact(w)
        if "f" in (points.dtype.kind, values.dtype.kind):
            only_real("polyfit", weights)
        if len(weights.shape) != 1:
            raise ArgumentError("expected a 1-d array for weights")
        if weights.shape != values.shape[:1]:
            raise ArgumentError("expected w and y to have the same length")
        column = reshape(weights, (weights.shape[0], 1))
        matrix = np.multiply(matrix, column)
        values = np.multiply(values, column if len(values.shape) == 2 else weights)
    scale = ew.sqrt(rd.reduce_sum(ew.mul(matrix, matrix), (0,)))
    matrix = np.divide(matrix, scale)
    found, residuals, rank, singular = np.linalg.lstsq(matrix, values, cut)
    scaling = reshape(scale, (order, 1)) if len(values.shape) == 2 else scale
    found = np.divide(found, scaling)
    if full:
        return found, residuals, convert(rank, np.dtype(np.int32)), singular, cut
    if not cov:
        return found
    return found, _covariance(matrix, scale, residuals, values, order, cov)


def _check_fit(x: Value, y: Value, deg: int) -> None:
    if deg < 0:
        raise ArgumentError("expected deg >= 0")
    if len(x.shape) != 1:
        raise ArgumentError("expected 1D vector for x")
    if not x.shape[0]:
        raise ArgumentError("expected non-empty vector for x")
    if len(y.shape) not in (1, 2):
        raise ArgumentError("expected 1D or 2D array for y")
    if x.shape[0] != y.shape[0]:
        raise ArgumentError("expected x and y to have same length")


def _covariance(
    matrix: Value, scale: Value, residuals: Value, y: Value, order: int, kind: bool | str
) -> Value:
    """The covariance of the coefficients; "unscaled" ones take the weights for exact."""
    base = np.divide(np.linalg.inv(np.matmul(np.transpose(matrix), matrix)), np.outer(scale, scale))
    factor: Value = FLOAT64.type(1)
    if not (isinstance(kind, str) and kind == "unscaled"):
        n = matrix.shape[0]
        if n <= order:
            raise ArgumentError(
                "the number of data points must exceed order to scale the covariance matrix",
            )
        factor = np.divide(residuals, n - order)
    if len(y.shape) == 1:
        return np.multiply(base, factor)
    return np.multiply(reshape(base, (*base.shape, 1)), factor)
