"""L7. Integrals of samples, by the rules of trapezia and of Simpson, Romberg's, and Gauss's of
functions: compositions of NumPy's operations, with SciPy's signatures."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from fgrad.base.lazy_import import lazy_module
from fgrad.errors import ArgumentError, ShapeError
from fgrad.numpy.arrange import moveaxis
from fgrad.numpy.promote import as_operand, inexact, normalize_axis, user_line
from fgrad.scipy._either import either, refusal
from fgrad.scipy._host import arguments, inside
from fgrad.trace import Value
from fgrad.tracing.capturing import user_form
from fgrad.typing import ArrayLike, P, PyTree, R

plain = lazy_module("scipy.integrate")


def _either(traced: Callable[P, R]) -> Callable[P, R]:
    """Decorator: SciPy's function of the same name, unless a tracer is among the arguments."""
    return either(plain, traced)


def _samples(
    name: str, y: ArrayLike, x: ArrayLike | None, dx: ArrayLike, axis: int
) -> tuple[Value, Value, int]:
    """The samples with their axis last, the distances between them, and the axis."""
    values: PyTree = inexact(as_operand(y))
    place = normalize_axis(axis, len(values.shape))
    values = moveaxis(values, place, -1)
    if x is None:
        steps = inexact(as_operand(dx))
        if steps.shape:
            raise ShapeError(f"scipy.integrate.{name}: dx of shape {steps.shape}.", user_line())
        count = int(values.shape[-1])
        return values, np.broadcast_to(steps, (max(count - 1, 0),)), place
    places: PyTree = inexact(as_operand(x))
    if len(places.shape) > 1:
        places = moveaxis(places, place, -1)
    if places.shape[-1] != values.shape[-1]:
        raise ShapeError(
            f"scipy.integrate.{name}: {values.shape[-1]} samples at {places.shape[-1]} places.",
            user_line(),
        )
    return values, places[..., 1:] - places[..., :-1], place


@_either
def trapezoid(
    y: ArrayLike, x: ArrayLike | None = None, dx: ArrayLike = 1.0, axis: int = -1
) -> Value:
    """The integral of samples by the rule of trapezia.

    Example:
        >>> float(trapezoid(np.array([0.0, 1.0, 4.0])))
        3.0
    """
    values, steps, _ = _samples("trapezoid", y, x, dx, axis)
    return np.sum(0.5 * steps * (values[..., 1:] + values[..., :-1]), axis=-1)


def _begun(parts: Value, initial: ArrayLike | None, place: int, add: bool) -> Value:
    """Running sums along the last axis, after `initial` if it is given."""
    sums = np.cumsum(parts, axis=-1)
    if initial is not None:
        first: Value = np.asarray(initial) if np.isscalar(initial) else as_operand(initial)
        if len(first.shape) > 1:
            first = moveaxis(first, place, -1)
        sums = sums + first if add else sums
        head = np.broadcast_to(first, (*sums.shape[:-1], 1)).astype(sums.dtype)
        sums = np.concatenate([head, sums], axis=-1)
    return moveaxis(sums, -1, place)


@_either
def cumulative_trapezoid(
    y: ArrayLike,
    x: ArrayLike | None = None,
    dx: ArrayLike = 1.0,
    axis: int = -1,
    initial: ArrayLike | None = None,
) -> Value:
    """The integral up to each sample but the first, by the rule of trapezia; `initial`, which is 0
    or None, stands before it.

    Raises:
        ArgumentError: `initial` is another number.
        ShapeError: there is no sample.

    Example:
        >>> cumulative_trapezoid(np.array([0.0, 1.0, 4.0]), initial=0)
        array([0. , 0.5, 3. ])
    """
    if initial is not None and not (np.isscalar(initial) and initial == 0):
        rows = (*user_line(), ("write", "initial=0, or None"))
        raise ArgumentError("scipy.integrate.cumulative_trapezoid: `initial` is not 0.", rows)
    values, steps, place = _samples("cumulative_trapezoid", y, x, dx, axis)
    if values.shape[-1] == 0:
        raise ShapeError("cumulative_trapezoid: at least one point is required.", user_line())
    return _begun(0.5 * steps * (values[..., 1:] + values[..., :-1]), initial, place, False)


def _ratio(a: Value, b: Value) -> Value:
    """a / b, and 0 where b is 0."""
    none = b == 0
    return np.where(none, 0.0, a / np.where(none, 1.0, b))


@_either
def simpson(
    y: ArrayLike, x: ArrayLike | None = None, *, dx: ArrayLike = 1.0, axis: int = -1
) -> Value:
    """The integral of samples by Simpson's rule; of an even number of them the last step belongs to
    the parabola through the last three.

    Example:
        >>> float(simpson(np.array([0.0, 1.0, 4.0])).round(12))
        2.666666666667
    """
    values, steps, _ = _samples("simpson", y, x, dx, axis)
    n = values.shape[-1]
    if n <= 2:
        return np.sum(0.5 * steps * (values[..., 1:] + values[..., :-1]), axis=-1)
    odd = n if n % 2 else n - 1
    h0, h1 = steps[..., 0 : odd - 1 : 2], steps[..., 1 : odd - 1 : 2]
    first, middle, last = [values[..., k : odd - 2 + k : 2] for k in range(3)]
    both = h0 + h1
    weighted = (
        first * (2.0 - _ratio(h1, h0))
        + middle * _ratio(both * both, h0 * h1)
        + last * (2.0 - _ratio(h0, h1))
    )
    total = np.sum(both / 6.0 * weighted, axis=-1)
    if odd == n:
        return total
    h0, h1 = steps[..., -2], steps[..., -1]
    return (
        total
        + _ratio(2 * h1**2 + 3 * h0 * h1, 6 * (h0 + h1)) * values[..., -1]
        + _ratio(h1**2 + 3 * h0 * h1, 6 * h0) * values[..., -2]
        - _ratio(h1**3, 6 * h0 * (h0 + h1)) * values[..., -3]
    )


def _first_of_two(f: tuple[Value, Value, Value], h0: Value, h1: Value) -> Value:
    """The integral over the first step, of the parabola through three samples."""
    whole = h0 + h1
    curved = h0 * h0 / (whole * h1)
    low = 3.0 - h0 / whole
    return h0 / 6.0 * (low * f[0] + (6.0 - low + curved) * f[1] - curved * f[2])


@_either
def cumulative_simpson(
    y: ArrayLike,
    *,
    x: ArrayLike | None = None,
    dx: ArrayLike = 1.0,
    axis: int = -1,
    initial: ArrayLike | None = None,
) -> Value:
    """The integral up to each sample but the first, by parabolas through three of them; `initial`
    stands before it, and is added.

    Example:
        >>> cumulative_simpson(np.array([0.0, 1.0, 4.0])).round(6)
        array([0.333333, 2.666667])
    """
    values, steps, place = _samples("cumulative_simpson", y, x, dx, axis)
    n = values.shape[-1]
    if n < 3:
        parts = 0.5 * steps * (values[..., 1:] + values[..., :-1])
    else:
        three = values[..., :-2], values[..., 1:-1], values[..., 2:]
        h0, h1 = steps[..., :-1], steps[..., 1:]
        rising = _first_of_two(three, h0, h1)
        falling = _first_of_two(three[::-1], h1, h0)
        head = np.where(np.arange(n - 2) % 2 == 0, rising, np.roll(falling, 1, axis=-1))
        parts = np.concatenate([head, falling[..., -1:]], axis=-1)
    return _begun(parts, initial, place, True)


@_either
def romb(y: ArrayLike, dx: ArrayLike = 1.0, axis: int = -1, show: bool = False) -> Value:
    """The integral of 2**k + 1 equally distant samples by Romberg's rule.

    Arguments:
        show: as in SciPy, of plain arrays alone.

    Raises:
        ValueError: there is another number of samples.

    Example:
        >>> float(romb(np.array([0.0, 1.0, 4.0])).round(12))
        2.666666666667
    """
    if show:
        raise refusal("scipy.integrate.romb with show", "it prints values.", "romb(y, dx)")
    values, steps, _ = _samples("romb", y, None, dx, axis)
    n = values.shape[-1] - 1
    if n < 1 or n & (n - 1):
        raise ValueError("Number of samples must be one plus a non-negative power of 2.")
    step = steps[..., 0]
    rows = [0.5 * n * step * (values[..., 0] + values[..., -1])]
    stride = n
    while stride > 1:
        half = stride // 2
        new = 0.5 * rows[0] + half * step * np.sum(values[..., half::stride], axis=-1)
        below = [new]
        for k, above in enumerate(rows, 1):
            below.append(below[-1] + (below[-1] - above) / (4.0**k - 1.0))
        rows, stride = below, half
    return rows[-1]


def fixed_quad(
    func: Callable[..., PyTree], a: ArrayLike, b: ArrayLike, args: PyTree = (), n: int = 5
) -> tuple[Value, None]:
    """The integral of a function from a to b by Gauss's rule of n points, and None.

    Example:
        >>> float(fixed_quad(lambda x: x**2, 0.0, 3.0)[0].round(12))
        9.0
    """
    rest = arguments(args)
    if not inside(a, b, rest):
        return plain.fixed_quad(func, a, b, rest, n)
    low, high = inexact(as_operand(a)), inexact(as_operand(b))
    nodes, weights = np.polynomial.legendre.leggauss(n)
    half = 0.5 * (high - low)
    return half * np.sum(
        weights * user_form(func)(half * (nodes + 1.0) + low, *rest), axis=-1
    ), None
