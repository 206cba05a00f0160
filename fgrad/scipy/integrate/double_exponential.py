"""L7. Integrals by the double exponential rule, and sums of infinitely many terms.

    int_-1^1 f(x) dx = h sum_j w_j f(x_j)      x_j = tanh(pi/2 sinh(j h)), w_j = dx_j/d(j h)

Each level halves h. The rule is a sum of the integrand's values, so that its derivatives are those
of the sum, in the limits too. Sums end with the formula of Euler and Maclaurin:

    sum_(k >= n) f(x_k) = 1/h int_(x_n) f dx + f(x_n) / 2 - h f'(x_n) / 12 + O(h^3)
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping

import numpy as np

from fgrad.base.lazy_import import lazy_module
from fgrad.base.named_tuple import NamedTuple
from fgrad.errors import ArgumentError
from fgrad.lax.branches import cond
from fgrad.numpy.promote import as_array, as_operand, convert, inexact, user_line
from fgrad.ops.elementwise import stop_gradient
from fgrad.scipy._host import arguments, as_result, inside, refuse_options
from fgrad.trace import Value, concrete
from fgrad.tracing.capturing import user_form
from fgrad.transforms.core.linearize import jvp
from fgrad.typing import ArrayLike, PyTree

plain = lazy_module("scipy.integrate")

_BASE = 8  # steps of level 0 on each side
_NEAR = 1e-8  # of a limit, relative, within which values that are not finite count as zero
_HEAD = 512  # terms before a sum is taken for an integral


@as_result
class Quadrature(NamedTuple):
    """What `tanhsinh` returns inside of a transform."""

    success: Value
    status: Value
    integral: Value
    error: Value
    maxlevel: Value


@as_result
class Sum(NamedTuple):
    """What `nsum` returns inside of a transform."""

    success: Value
    status: Value
    sum: Value
    error: Value


class Interval(NamedTuple):
    """A variable t between finite limits, of which the place is x(t)."""

    start: Value
    stop: Value
    end: Value  # from which a half-infinite interval goes
    side: Value  # and where to
    sign: Value  # of the integral
    half: PyTree
    whole: PyTree
    least: float  # t of a half-infinite interval


class Level(NamedTuple):
    """The sum of terms, the greatest of them, and the outermost."""

    total: Value
    greatest: Value
    outermost: Value


@functools.cache
def _first_step(dtype: np.dtype) -> float:
    """The step of level 0, after which the outermost place is all but at the limit."""
    least = 4 * float(np.finfo(dtype).smallest_normal)
    return math.asinh(math.log(2 / least - 1) / math.pi) / _BASE


@functools.cache
def _pairs(level: int, dtype: np.dtype) -> tuple[np.ndarray, np.ndarray]:
    """1 - x_j and w_j for j h >= 0 that are new at a level; those of j = 0 count twice."""
    count = _BASE * 2**level
    j = np.arange(count + 1) if level == 0 else np.arange(1, count + 1, 2)
    u = j * (_first_step(dtype) / 2**level)
    inner = math.pi / 2 * np.sinh(u)
    with np.errstate(over="ignore", under="ignore"):
        weights = math.pi / 2 * np.cosh(u) / np.cosh(inner) ** 2
        rest = 1 / (np.exp(inner) * np.cosh(inner))
    weights[0] /= 2 if level == 0 else 1
    return rest.astype(dtype), weights.astype(dtype)


def _interval(a: Value, b: Value, dtype: np.dtype) -> Interval:
    turned = b < a
    low, high = np.where(turned, b, a), np.where(turned, a, b)
    below, above = np.isinf(low), np.isinf(high)
    whole, half = below & above, below ^ above
    one = dtype.type(1)
    return Interval(
        start=np.where(whole, -one, np.where(half, 0 * one, low)),
        stop=np.where(whole | half, one, high),
        end=np.where(half, np.where(below, high, low), 0 * one),
        side=np.where(below, -one, one),
        sign=np.where(turned, -one, one),
        half=half,
        whole=whole,
        least=1e-100 if dtype == np.float64 else 1e-12,
    )


def _terms(f: Callable[[Value], Value], within: Interval, level: int, dtype: np.dtype) -> Level:
    """The new terms of a level."""
    rest, weights = _pairs(level, dtype)
    start, stop, end, side, sign, half, whole = [v[..., None] for v in within[:7]]
    alpha = (stop - start) / dtype.type(2)
    t = np.concatenate([stop - alpha * rest, start + alpha * rest], axis=-1)
    w = np.concatenate([alpha * weights, alpha * weights], axis=-1) * sign
    valid = (t > start) & (t < stop) & (~half | (t > within.least)) & (w != 0)
    t = np.where(valid, t, start + alpha)
    near, inner = np.where(half, t, 1), np.where(whole, 1 - t * t, 1)
    x = np.where(whole, t / inner, np.where(half, end + side * (1 / near - 1), t))
    scale = np.where(whole, (1 + t * t) / inner**2, np.where(half, 1 / near**2, 1))
    values = f(x)
    at_end = np.concatenate([rest, rest]) < _NEAR
    taken = valid & (np.isfinite(values) | ~at_end)
    terms = np.where(taken, np.where(taken, values, 0) * scale * w, 0)
    sizes = np.reshape(stop_gradient(np.abs(terms)), (*terms.shape[:-1], 2, rest.size))
    places = np.where(valid, np.concatenate([np.arange(rest.size)] * 2), -1)
    places = np.reshape(places, sizes.shape)
    last = places == np.max(places, axis=-1)[..., None]
    outermost = np.max(np.where(last, sizes, 0), axis=(-2, -1))
    return Level(np.sum(terms, axis=-1), np.max(sizes, axis=(-2, -1)), outermost)


def _error(last: list[Value], greatest: Value, outermost: Value, eps: float) -> Value:
    """Bailey's estimate of the error of the last of three sums."""
    now, before, earlier = [stop_gradient(s) for s in last]
    d1, d2 = np.abs(now - before), np.abs(now - earlier)
    moved = (d1 > 0) & (d2 > 0) & (d2 != 1)
    ratio = np.log(np.where(moved, d1, 0.5)) / np.log(np.where(moved, d2, 0.5))
    fast = np.where(moved, np.where(moved, d1, 0.5) ** ratio, 0.0)
    found = np.maximum(np.maximum(fast, d1**2), np.maximum(eps * greatest, outermost))
    least = eps * np.abs(now)
    return np.minimum(np.maximum(found, least), np.maximum(d1, least))


def _go_on(needed: Value, more: Callable[[], Level], none: Level) -> tuple[Level, bool]:
    """The terms of a further level if some sum needs it; whether none does, if that is known."""
    known = concrete(needed)
    if known is not None:
        return (more(), False) if bool(np.any(known)) else (none, True)
    return cond(np.any(needed), more, lambda: none), False


def _adaptive(
    f: Callable[[Value], Value],
    within: Interval,
    levels: tuple[int, int],
    tolerances: tuple[float, float],
    dtype: np.dtype,
) -> Quadrature:
    eps, step = float(np.finfo(dtype).eps), dtype.type(_first_step(dtype))
    least, most = levels
    first = [_terms(f, within, k, dtype) for k in range(min(2, most) + 1)]
    total, sums = first[0].total * 0, []
    for k, found in enumerate(first):
        total = total + found.total
        sums.append(total * (step / dtype.type(2**k)))
    sums = [sums[0]] * (3 - len(sums)) + sums
    greatest = functools.reduce(np.maximum, [found.greatest for found in first])
    outermost = functools.reduce(np.minimum, [found.outermost for found in first])
    error = _error(sums[::-1], greatest, outermost, eps)
    used, best = np.full(np.shape(total), len(first) - 1), sums[-1]
    atol, rtol = tolerances
    none = Level(total * 0, greatest * 0, outermost * 0)

    def unmet(error: Value, best: Value) -> PyTree:
        return (error > atol) & (error > rtol * np.abs(stop_gradient(best)))

    for k in range(3, most + 1):
        needed = unmet(error, best) | (k <= least)
        found, ended = _go_on(needed, lambda k=k: _terms(f, within, k, dtype), none)
        if ended:
            break
        total = total + found.total
        sums = [*sums[1:], total * (step / dtype.type(2**k))]
        greatest = np.maximum(greatest, found.greatest)
        outermost = np.minimum(outermost, found.outermost)
        fresh = _error(sums[::-1], greatest, outermost, eps)
        best = np.where(needed, sums[-1], best)
        error, used = np.where(needed, fresh, error), np.where(needed, k, used)
    finite = np.isfinite(best)
    success = finite & ~unmet(error, best)
    status = np.where(success, 0, np.where(finite, -2, -3))
    return Quadrature(success, status, best, error, used)


def _vector(
    f: Callable[..., PyTree], args: tuple[PyTree, ...], *given: ArrayLike
) -> tuple[Callable[[Value], Value], list[Value], np.dtype]:
    """A function of places with one more axis, and the limits, of the shape of all arguments."""
    values = [as_array(as_operand(v)) for v in (*given, *args)]
    ends = [inexact(v) for v in values[: len(given)]]
    dtype = np.result_type(*[v.dtype for v in ends], np.float32)
    if dtype.kind == "c":
        what = "scipy.integrate: complex limits."
        raise ArgumentError(what, (*user_line(), ("write", "real ones")))
    shape = np.broadcast_shapes(*[v.shape for v in values])
    spread = [np.broadcast_to(v, shape)[..., None] for v in values[len(given) :]]

    def of(x: Value) -> Value:
        return np.broadcast_to(as_operand(user_form(f)(x, *spread)), x.shape)

    return of, [np.broadcast_to(convert(v, dtype), shape) for v in ends], dtype


def tanhsinh(
    f: Callable[..., PyTree],
    a: ArrayLike,
    b: ArrayLike,
    *,
    args: PyTree = (),
    log: bool = False,
    maxlevel: int | None = None,
    minlevel: int = 2,
    atol: float | None = None,
    rtol: float | None = None,
    preserve_shape: bool = False,
    callback: Callable[..., object] | None = None,
) -> PyTree:
    """`scipy.integrate.tanhsinh` with derivatives: integrals that may be singular at their ends.

    Arguments:
        f: `f(x, *args)` of arrays, element by element, of NumPy operations; derivatives flow to
            `args` and to what it closes over.
        a, b: the limits, which may be infinite, and arrays.
        maxlevel, minlevel, atol, rtol: as in SciPy.
        log, preserve_shape, callback: as in SciPy, outside of transforms.

    Returns:
        SciPy's result; inside of transforms `(success, status, integral, error, maxlevel)`.

    Example:
        >>> import numpy as np, fgrad
        >>> def f(p):
        ...     return tanhsinh(lambda x: x ** (p - 1), 0.0, 1.0).integral
        >>> float(fgrad.grad(f)(0.5).round(6))
        -4.0
    """
    rest = arguments(args)
    if not inside(a, b, rest):
        return plain.tanhsinh(
            f, a, b, args=rest, log=log, maxlevel=maxlevel, minlevel=minlevel, atol=atol,
            rtol=rtol, preserve_shape=preserve_shape, callback=callback,
        )  # fmt: skip
    refused = {"log": log, "preserve_shape": preserve_shape, "callback": callback}
    refuse_options("scipy.integrate.tanhsinh", refused)
    of, (low, high), dtype = _vector(f, rest, a, b)
    usual = float(np.finfo(dtype).eps) ** 0.75
    tolerances = 0.0 if atol is None else atol, usual if rtol is None else rtol
    levels = minlevel, 10 if maxlevel is None else maxlevel
    found = _adaptive(of, _interval(low, high, dtype), levels, tolerances, dtype)
    same = low == high
    zero = np.where(same, 0.0, found.integral)
    return Quadrature(
        found.success | same, np.where(same, 0, found.status), zero[()],
        np.where(same, 0.0, found.error)[()], found.maxlevel[()],
    )  # fmt: skip


# --- sums ---------------------------------------------------------------------------------------


def _directly(f: Callable[[Value], Value], a: Value, step: Value, count: np.ndarray) -> Value:
    """The sum of `count` terms from a on."""
    k = np.arange(int(count.max(initial=0)))
    taken = k < count[..., None]
    x = a[..., None] + np.where(taken, k, 0).astype(a.dtype) * step[..., None]
    return np.sum(np.where(taken, f(x), 0.0), axis=-1)


def _slope(f: Callable[[Value], Value], x: Value) -> tuple[Value, Value]:
    """f and its derivative at x (...)."""
    value, slope = jvp(lambda x: f(x[..., None])[..., 0], (x,), (np.ones_like(x),))
    return value, slope


def _as_integral(
    f: Callable[[Value], Value], a: Value, b: Value, step: Value, tolerances: tuple[float, float]
) -> tuple[Value, Value]:
    """The sum of very many terms, and its error."""
    dtype = a.dtype
    head = _directly(f, a, step, np.full(a.shape, _HEAD))
    start = a + dtype.type(_HEAD) * step
    tail = _adaptive(f, _interval(start, b, dtype), (2, 10), tolerances, dtype)
    value, slope = _slope(f, start)
    found = head + tail.integral / step + value / 2 - step * slope / 12
    error = stop_gradient(tail.error / step + np.abs(step * slope / 12))
    infinite = np.isinf(b)
    value, slope = _slope(f, np.where(infinite, start, b))
    return found + np.where(infinite, 0.0, value / 2 + step * slope / 12), error


def _counted(a: Value, b: Value, step: Value) -> tuple[np.ndarray, np.ndarray]:
    """How many terms there are, and which sums have infinitely many."""
    last = concrete(b)
    if last is not None and np.all(np.isposinf(np.asarray(last))):
        return np.zeros(b.shape, np.int64), np.ones(b.shape, bool)
    known = [concrete(v) for v in (a, b, step)]
    if any([v is None for v in known]):
        why = "each term is an operation on arrays."
        raise ArgumentError(
            "nsum: how many terms there are is not known while tracing.",
            (*user_line(), ("why", why), ("write", "a, b and step of plain numbers")),
        )
    first, last, width = [np.asarray(v) for v in known]
    infinite = np.isposinf(last)
    with np.errstate(invalid="ignore"):
        count = np.floor((np.where(infinite, first, last) - first) / width) + 1
    return np.where(infinite, 0, np.maximum(np.nan_to_num(count), 0)).astype(np.int64), infinite


def nsum(
    f: Callable[..., PyTree],
    a: ArrayLike,
    b: ArrayLike,
    *,
    step: ArrayLike = 1,
    args: PyTree = (),
    log: bool = False,
    maxterms: int = 2**20,
    tolerances: Mapping[str, float] | None = None,
) -> PyTree:
    """`scipy.integrate.nsum` with derivatives: f(a) + f(a + step) + ... up to b, or infinity.

    Arguments:
        f: `f(x, *args)` of arrays, element by element, of NumPy operations; of more than `maxterms`
            terms a function that falls. Derivatives flow to `args` and to what it closes over.
        a, b, step: first and last place and their distance, arrays; b may be infinite.
        maxterms, tolerances: as in SciPy.
        log: as in SciPy, outside of transforms.

    Returns:
        SciPy's result; inside of transforms `(success, status, sum, error)`.

    Raises:
        ArgumentError: inside of transforms, how many terms there are is not known.
        UnsupportedNumpyError: inside of transforms, `log`, or `a` is infinite.

    Example:
        >>> import numpy as np, fgrad
        >>> def zeta(p):
        ...     return nsum(lambda k: k**-p, 1, np.inf).sum
        >>> float(zeta(2.0).round(9)), float(fgrad.grad(zeta)(2.0).round(6))
        (1.644934067, -0.937548)
    """
    rest = arguments(args)
    if not inside(a, b, step, rest):
        return plain.nsum(
            f, a, b, step=step, args=rest, log=log, maxterms=maxterms, tolerances=tolerances
        )
    start = concrete(as_operand(a))
    unbounded = start is not None and np.any(np.isinf(np.asarray(start)))
    refuse_options("scipy.integrate.nsum", {"log": log, "infinite a": unbounded})
    of, (low, high, width), dtype = _vector(f, rest, a, b, step)
    count, infinite = _counted(low, high, width)
    given = tolerances or {}
    usual = float(np.finfo(dtype).eps) ** 0.75
    atol, rtol = [given.get(k) for k in ("atol", "rtol")]
    bounds = 0.0 if atol is None else atol, usual if rtol is None else rtol
    many = infinite | (count > max(maxterms, _HEAD))
    found = _directly(of, low, width, np.where(many, 0, count))
    error = stop_gradient(np.abs(found)) * float(np.finfo(dtype).eps)
    if many.any():
        last = low + (count - 1).astype(dtype) * width
        far = np.where(infinite | ~many, np.inf, last).astype(dtype)
        rest_of, rest_error = _as_integral(of, low, far, width, bounds)
        found, error = np.where(many, rest_of, found), np.where(many, rest_error, error)
    success = np.isfinite(found)
    return Sum(success, np.where(success, 0, -3), found[()], error[()])
