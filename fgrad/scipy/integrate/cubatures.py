"""L7. Integrals over boxes, by SciPy's adaptive rules or by quasi-random points, with derivatives.

    I = int_box f(x, p) dx = int_(0..1)^d f(x(s), p) |dx/ds| ds

so that the limits are parameters of the integrand, whose integral has the rule of `quadrature.py`.
An infinite interval is one of s, too:

    (a, inf)  x = a + s / (1 - s)        (-inf, inf)  x = t / (1 - t^2),  t = 2 s - 1
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from fgrad.base.lazy_import import lazy_module
from fgrad.base.named_tuple import NamedTuple
from fgrad.errors import ArgumentError
from fgrad.numpy.dispatch import has_tracer
from fgrad.numpy.promote import as_array, as_operand, convert, user_line
from fgrad.scipy._either import refusal
from fgrad.scipy._host import arguments, as_result, inside, must_be_real, refuse_options
from fgrad.scipy.integrate.quadrature import FLOAT, Integrand, Numbers, integral_of
from fgrad.trace import Value, concrete
from fgrad.tracing.capturing import user_form
from fgrad.transforms.core.wrap import function_name
from fgrad.transforms.vmap import vmap
from fgrad.typing import ArrayLike, PyTree

if TYPE_CHECKING:
    from scipy.stats.qmc import QMCEngine

plain = lazy_module("scipy.integrate")


@as_result
class Cubature(NamedTuple):
    """What `cubature` returns inside of a transform."""

    estimate: Value
    error: Value
    success: Value | np.bool_


@as_result
class QuasiRandom(NamedTuple):
    """What `qmc_quad` returns inside of a transform."""

    integral: Value
    standard_error: Value


class BoxRule(NamedTuple):
    """SciPy's adaptive integration over the unit box of some dimensions."""

    dimensions: int
    options: dict[str, PyTree]

    @property
    def place(self) -> Value:
        """The middle."""
        return np.full(self.dimensions, 0.5)

    def errors(self, size: int) -> tuple[int, ...]:
        """One for each number."""
        return (size,)

    def numeric(self, size: int) -> Callable[..., Numbers]:
        """The integration of a plain function to `size` numbers."""
        ends = np.zeros(self.dimensions), np.ones(self.dimensions)

        def integrate(f: Integrand, *_no_limits: None) -> Numbers:
            found = plain.cubature(lambda s: np.asarray(vmap(f)(s)), *ends, **self.options)
            return np.reshape(found.estimate, size), np.reshape(found.error, size)

        return integrate


def _vector(end: PyTree) -> Value:
    """A limit: an array, or a list of numbers of which some are traced."""
    listed = isinstance(end, (list, tuple)) and has_tracer(end)
    return np.stack([as_operand(e) for e in end]) if listed else as_array(as_operand(end))


def _limits(name: str, a: ArrayLike, b: ArrayLike) -> tuple[Value, Value]:
    """Both limits as vectors of one length."""
    ends = [_vector(end) for end in (a, b)]
    low, high = [np.ravel(convert(end, FLOAT)) for end in ends]
    shapes = [end.shape for end in ends]
    if max(map(len, shapes)) > 1 or not low.shape[0] or not high.shape[0]:
        what = f"scipy.integrate.{name}: limits of shapes {shapes[0]} and {shapes[1]}."
        raise ArgumentError(what, (*user_line(), ("write", "a vector for each")))
    count = max(low.shape[0], high.shape[0])
    return np.broadcast_to(low, (count,)), np.broadcast_to(high, (count,))


def _infinity(end: Value) -> Value:
    """The signs of infinite parts of a limit, and 0 for others."""
    infinite = np.isinf(end)
    return np.where(infinite, np.sign(np.where(infinite, end, 0.0)), 0.0)


def _mapped(s: Value, low: Value, high: Value) -> tuple[Value, Value]:
    """The place of s in a box, and the volume there of a unit of s."""
    first, last = _infinity(low), _infinity(high)
    half, whole = (first == 0) ^ (last == 0), (first != 0) & (last != 0)
    start, stop = np.where(first == 0, low, 0.0), np.where(last == 0, high, 0.0)
    side = first + last  # of a half-infinite interval
    rest, t = 1.0 - s, 2.0 * s - 1.0
    inner = 1.0 - t * t
    away = start + stop + side * s / rest
    x = np.where(whole, last * t / inner, np.where(half, away, start + (stop - start) * s))
    falling = (last - first) / rest**2
    far = np.where(whole, last * 2.0 * (1.0 + t * t) / inner**2, falling)
    return x, np.prod(np.where(half | whole, far, stop - start), keepdims=True)


def _split(name: str, points: Sequence[ArrayLike], low: Value, high: Value) -> list[np.ndarray]:
    """Places at which the box is divided, in coordinates of the unit box."""
    known = [concrete(end) for end in (low, high)]
    if any([end is None or np.any(np.isinf(end)) for end in known]):
        what = f"scipy.integrate.{name} with points"
        raise refusal(what, "its limits are not known, or infinite.", "an integral for each part")
    start, stop = [np.asarray(end) for end in known]
    return [(np.asarray(concrete(as_operand(p))) - start) / (stop - start) for p in points]


def cubature(
    f: Callable[..., PyTree],
    a: ArrayLike,
    b: ArrayLike,
    *,
    rule: str = "gk21",
    rtol: float = 1e-8,
    atol: float = 0,
    max_subdivisions: int | None = 10000,
    args: PyTree = (),
    workers: int = 1,
    points: Sequence[ArrayLike] | None = None,
) -> PyTree:
    """`scipy.integrate.cubature` with derivatives: the integral over a box of several dimensions.

    Arguments:
        f: `f(x, *args)` of places x (points, dimensions) to numbers (points, ...), of NumPy
            operations; derivatives flow to `args` and to what it closes over.
        a, b: the limits, shape (dimensions,), which may be infinite.
        rule, rtol, atol, max_subdivisions, points: as in SciPy, for derivatives too.
        workers: as in SciPy, outside of transforms.

    Returns:
        SciPy's result; inside of transforms `(estimate, error, success)`.

    Raises:
        UnsupportedNumpyError: complex values, `workers`, or `points` in a box that is not known.

    Example:
        >>> import fgrad
        >>> def volume(p):
        ...     return cubature(lambda x: (x[:, 0] * x[:, 1]) ** p, [0, 0], [1, 1]).estimate
        >>> float(volume(1.0)), float(fgrad.grad(volume)(1.0).round(9))
        (0.25, -0.25)
    """
    rest = arguments(args)
    if not inside(a, b, rest):
        return plain.cubature(
            f, a, b, rule=rule, rtol=rtol, atol=atol, max_subdivisions=max_subdivisions,
            args=rest, workers=workers, points=points,
        )  # fmt: skip
    refuse_options("scipy.integrate.cubature", {"workers": workers != 1})
    low, high = _limits("cubature", a, b)

    def at(x: Value) -> Value:
        found = must_be_real(user_form(f)(x[None], *rest), "scipy.integrate.cubature")
        return np.reshape(found, np.shape(found)[1:])

    shape = np.shape(at(0.5 * np.ones(low.shape)))
    size = int(np.prod(shape))

    def vector(s: Value) -> Value:
        x, volume = _mapped(s, low, high)
        return (np.reshape(at(x), size) * volume).astype(FLOAT)

    vector.__name__ = function_name(f)
    given = {"rule": rule, "rtol": rtol, "atol": atol, "max_subdivisions": max_subdivisions}
    if points is not None:
        given["points"] = _split("cubature", points, low, high)
    found = integral_of(vector, size, None, None, BoxRule(low.shape[0], given))
    met = np.all(found.error <= atol + rtol * np.abs(found.value))
    return Cubature(np.reshape(found.value, shape)[()], np.reshape(found.error, shape)[()], met)


def _samples(qrng: QMCEngine, dimensions: int, estimates: int, count: int) -> np.ndarray:
    """SciPy's points of the unit box, shape (estimates, dimensions, count)."""
    seen: list[np.ndarray] = []

    def record(x: np.ndarray) -> np.ndarray:
        seen.append(x)
        return np.ones(x.shape[1:])

    ends = np.zeros(dimensions), np.ones(dimensions)
    plain.qmc_quad(record, *ends, n_estimates=estimates, n_points=count, qrng=copy.deepcopy(qrng))
    return np.stack(seen[-estimates:])


def qmc_quad(
    func: Callable[..., PyTree],
    a: ArrayLike,
    b: ArrayLike,
    *,
    n_estimates: int = 8,
    n_points: int = 1024,
    qrng: QMCEngine | None = None,
    log: bool = False,
) -> PyTree:
    """`scipy.integrate.qmc_quad` with derivatives: an integral over a box by quasi-random points.

    Arguments:
        func: `func(x)` of places x (dimensions, points) to numbers (points,), of NumPy operations;
            derivatives flow to what it closes over.
        a, b: the limits, shape (dimensions,).
        n_estimates, n_points: how many independent estimates, and of how many points.
        qrng: SciPy's generator of points. Inside of transforms it must be given, and a copy of it
            draws: the points are the same in each call.
        log: as in SciPy, outside of transforms.

    Returns:
        SciPy's result; inside of transforms `(integral, standard_error)`.

    Raises:
        ArgumentError: `func` does not return a number for each place.
        UnsupportedNumpyError: inside of transforms, without `qrng` or with `log`.

    Example:
        >>> import fgrad, scipy.stats
        >>> def square(b):
        ...     points = scipy.stats.qmc.Halton(1, seed=1)
        ...     return qmc_quad(lambda x: x[0] ** 2, 0.0, b, qrng=points).integral
        >>> float(fgrad.grad(square)(3.0).round(1))
        9.0
    """
    if not inside(a, b):
        return plain.qmc_quad(
            func, a, b, n_estimates=n_estimates, n_points=n_points, qrng=qrng, log=log
        )
    refuse_options("scipy.integrate.qmc_quad", {"log": log})
    if min(n_estimates, n_points) < 1:
        what = f"scipy.integrate.qmc_quad: n_estimates={n_estimates}, n_points={n_points}."
        raise ArgumentError(what, (*user_line(), ("write", "positive integers")))
    if qrng is None:
        what, why = "scipy.integrate.qmc_quad without qrng", "its points are those of one trace."
        raise refusal(what, why, "qrng=scipy.stats.qmc.Halton(dimensions, seed=0)")
    first, last = _limits("qmc_quad", a, b)
    turned = last < first
    low, high = np.where(turned, last, first), np.where(turned, first, last)
    samples = _samples(qrng, low.shape[0], n_estimates, n_points)
    places = np.moveaxis(samples, 1, 0).reshape(low.shape[0], -1)
    x = low[:, None] + (high - low)[:, None] * places
    values = as_operand(user_form(func)(x))
    if values.shape != x.shape[1:]:
        what = f"scipy.integrate.qmc_quad: {values.shape} values of {x.shape} places."
        raise ArgumentError(what, (*user_line(), ("write", "func of x (dimensions, points)")))
    means = np.mean(np.reshape(values, (n_estimates, n_points)), axis=1)
    estimates = means * np.prod(high - low)
    spread = np.std(estimates, ddof=1) / np.sqrt(float(n_estimates))
    return QuasiRandom(np.mean(estimates) * np.prod(np.where(turned, -1.0, 1.0)), spread)
