"""L7. Random numbers by keys where `scipy.stats` takes generators: the bootstrap, random rotations.

The samples of a resample are chosen by the key alone, so that its statistic has the derivative of
the statistic at the samples that were chosen.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Sequence

import numpy as np

from fgrad.base.lazy_import import lazy_module
from fgrad.base.named_tuple import NamedTuple
from fgrad.errors import ShapeError
from fgrad.numpy.arrange import moveaxis
from fgrad.numpy.dispatch import has_tracer
from fgrad.numpy.promote import as_operand, inexact, normalize_axis, user_line
from fgrad.numpy.selection import take
from fgrad.ops.elementwise import stop_gradient
from fgrad.random import normal, orthogonal, randint, split
from fgrad.scipy import special as sp
from fgrad.scipy._either import check_choice, refusal
from fgrad.scipy.stats.frozen import draws, is_key
from fgrad.scipy.stats.multivariate import Multivariate
from fgrad.scipy.stats.trimmed import quantile
from fgrad.trace import Value
from fgrad.transforms.vmap import vmap
from fgrad.typing import ArrayLike, PyTree

plain = lazy_module("scipy.stats")

Statistic = Callable[..., Value]
Size = int | tuple[int, ...] | None


class Interval(NamedTuple):
    """A confidence interval."""

    low: Value
    high: Value


class Bootstrapped(NamedTuple):
    """What `bootstrap` returns by a key."""

    confidence_interval: Interval
    bootstrap_distribution: Value
    standard_error: Value


def _along_last(statistic: Statistic, vectorized: bool | None, rank: int) -> Statistic:
    """The statistic of samples in the last axis."""
    named = "axis" in inspect.signature(statistic).parameters if vectorized is None else vectorized
    if named:
        return lambda *xs: statistic(*xs, axis=-1)
    if rank > 1:
        why = "it is called with vectors."
        raise refusal("A statistic without axis of samples with axes", why, "def f(x, axis): ...")

    def of(*xs: Value) -> Value:
        return statistic(*xs) if len(xs[0].shape) == 1 else vmap(statistic)(*xs)

    return of


def _samples(data: Sequence[ArrayLike], axis: int) -> list[Value]:
    """The samples with their axis last."""
    found = [inexact(as_operand(x)) for x in data]
    found = [moveaxis(x, normalize_axis(axis, len(x.shape)), -1) for x in found]
    if not found or any([x.shape[-1] < 2 for x in found]):
        raise ShapeError("bootstrap takes samples of two numbers or more.", user_line())
    return found


def _jackknife(of: Statistic, samples: list[Value]) -> Value:
    """The acceleration: the skewness of the statistic without one of the numbers."""
    cubes: list[Value] = []
    squares: list[Value] = []
    for j, sample in enumerate(samples):
        n = sample.shape[-1]
        left = np.array([[k for k in range(n) if k != i] for i in range(n)])
        wide: list[Value] = [
            np.broadcast_to(x[..., None, :], (*x.shape[:-1], n, x.shape[-1])) for x in samples
        ]
        wide[j] = take(sample, left, axis=-1)
        values = of(*wide)
        away = (n - 1) * (np.mean(values, axis=-1, keepdims=True) - values)
        cubes += [np.sum(away**3, axis=-1) / n**3]
        squares += [np.sum(away**2, axis=-1) / n**2]
    return sum(cubes[1:], cubes[0]) / (6 * sum(squares[1:], squares[0]) ** 1.5)


def _shares(of: Statistic, samples: list[Value], drawn: Value, alpha: float, way: str) -> Value:
    """The probabilities of the ends of the interval, in a new last axis."""
    if way != "bca":
        return np.array([alpha, 1 - alpha], drawn.dtype)
    value = stop_gradient(of(*samples))[..., None]
    known = stop_gradient(drawn)
    rank = np.mean((known < value) * 0.5 + (known <= value) * 0.5, axis=-1)
    z0, a = sp.ndtri(rank), _jackknife(of, samples)
    ends: list[Value] = []
    for z in (float(sp.ndtri(alpha)), -float(sp.ndtri(alpha))):
        ends += [sp.ndtr(z0 + (z0 + z) / (1 - a * (z0 + z)))]
    return np.stack(ends, axis=-1)


def bootstrap(
    data: Sequence[ArrayLike],
    statistic: Statistic,
    *,
    n_resamples: int = 9999,
    batch: int | None = None,
    vectorized: bool | None = None,
    paired: bool = False,
    axis: int = 0,
    confidence_level: float = 0.95,
    alternative: str = "two-sided",
    method: str = "BCa",
    bootstrap_result: PyTree = None,
    rng: PyTree = None,
    **kwargs: PyTree,
) -> PyTree:
    """The interval and the error of a statistic, by samples that are drawn from the samples.

    Arguments:
        data: a sequence of samples.
        statistic: a function of samples, and of `axis` if it is vectorized.
        n_resamples: how many resamples are drawn.
        batch: as in SciPy, of plain samples alone; by a key all are made at once.
        vectorized: whether the statistic takes `axis`; by its arguments if None.
        paired: whether the numbers of all samples are drawn together.
        axis: that of the samples.
        confidence_level: the probability of the interval.
        alternative: "two-sided", "less" or "greater".
        method: "percentile", "basic" or "BCa".
        bootstrap_result: as in SciPy, of plain samples alone.
        rng: a key of `fgrad.random`; of plain samples also SciPy's.
        kwargs: SciPy's `random_state`.

    Raises:
        UnsupportedNumpyError: samples are traced, and there is no key.

    Example:
        >>> import fgrad
        >>> x, key = np.arange(9.0), fgrad.random.key(0)
        >>> bool(bootstrap((x,), np.mean, rng=key).standard_error < 1.0)
        True
    """
    for option in kwargs.keys() - {"random_state"}:
        raise TypeError(f"bootstrap() got an unexpected keyword argument {option!r}")
    if not is_key(rng):
        if has_tracer(data):
            why = "its numbers come from a generator with a state."
            raise refusal("scipy.stats.bootstrap", why, "bootstrap(..., rng=fgrad.random.key(0))")
        given = {"rng": rng} if rng is not None else {}
        return plain.bootstrap(
            data, statistic, n_resamples=n_resamples, batch=batch, vectorized=vectorized,
            paired=paired, axis=axis, confidence_level=confidence_level, alternative=alternative,
            method=method, bootstrap_result=bootstrap_result, **given, **kwargs,
        )  # fmt: skip
    if batch is not None or bootstrap_result is not None or kwargs:
        what = "scipy.stats.bootstrap by a key with batch, bootstrap_result or random_state"
        raise refusal(what, "it has no traced form.", "bootstrap(data, statistic, rng=key)")
    way, side = method.lower(), alternative.lower()
    check_choice("scipy.stats.bootstrap", "method", way, ("percentile", "basic", "bca"))
    check_choice("scipy.stats.bootstrap", "alternative", side, ("two-sided", "less", "greater"))
    samples = _samples(data, axis)
    of = _along_last(statistic, vectorized, max([len(x.shape) for x in samples]))
    if paired:
        samples, of = _in_pairs(samples, of)
    drawn = of(*_resampled(samples, rng, n_resamples))
    alpha = (1 - confidence_level) / (2 if side == "two-sided" else 1)
    shares = _shares(of, samples, drawn, alpha, way)
    ends = quantile(drawn, shares, axis=-1)
    low, high = ends[..., 0], ends[..., 1]
    if way == "basic":
        value = of(*samples)
        low, high = 2 * value - high, 2 * value - low
    low = np.full_like(low, -math.inf) if side == "less" else low
    high = np.full_like(high, math.inf) if side == "greater" else high
    return Bootstrapped(Interval(low, high), drawn, np.std(drawn, ddof=1, axis=-1))


def _resampled(samples: list[Value], key: Value, count: int) -> list[Value]:
    """The samples drawn anew, each resample in the last axis."""
    found: list[Value] = []
    for k, x in zip(split(key, len(samples)), samples, strict=True):
        places = randint(k, (count, x.shape[-1]), 0, x.shape[-1])
        found += [take(x, places, axis=-1)]
    return found


def _in_pairs(samples: list[Value], of: Statistic) -> tuple[list[Value], Statistic]:
    """The places of the numbers as the one sample, and the statistic of places."""
    n = samples[0].shape[-1]
    if any([x.shape[-1] != n for x in samples]):
        raise ShapeError("paired samples have equal lengths.", user_line())

    def at(places: Value) -> Value:
        chosen = stop_gradient(places).astype(np.int64)
        return of(*[take(x, chosen, axis=-1) for x in samples])

    return [np.arange(float(n))], at


class _Rotations(Multivariate):
    """Random matrices or directions of a dimension."""

    def _shape(self, size: Size) -> tuple[int, ...]:
        one = size is None or size == 1
        return () if one else (size,) if isinstance(size, int) else tuple(size)  # type: ignore[arg-type]


class OrthogonalGroup(_Rotations):
    """Random orthogonal matrices."""

    @draws
    def rvs(self, dim: int, size: Size = 1, random_state: PyTree = None) -> Value:
        """Random matrices, by a key as `random_state`."""
        return orthogonal(random_state, dim, self._shape(size))


class SpecialOrthogonalGroup(_Rotations):
    """Random rotations: orthogonal matrices of determinant 1."""

    @draws
    def rvs(self, dim: int, size: Size = 1, random_state: PyTree = None) -> Value:
        """Random matrices, by a key as `random_state`."""
        q = orthogonal(random_state, dim, self._shape(size))
        first = np.arange(dim) == 0
        return q * np.where(first, np.linalg.det(q)[..., None, None], 1.0)


class UnitaryGroup(_Rotations):
    """Random unitary matrices."""

    @draws
    def rvs(self, dim: int, size: Size = 1, random_state: PyTree = None) -> Value:
        """Random matrices, by a key as `random_state`."""
        return orthogonal(random_state, dim, self._shape(size), np.complex128)


class UniformDirection(_Rotations):
    """Random unit vectors."""

    @draws
    def rvs(self, dim: int, size: Size = None, random_state: PyTree = None) -> Value:
        """Random vectors, by a key as `random_state`."""
        lead = () if size is None else (size,) if isinstance(size, int) else tuple(size)
        x = normal(random_state, (*lead, dim))
        return x / np.sqrt(np.sum(x * x, axis=-1, keepdims=True))


ortho_group = OrthogonalGroup("ortho_group")
special_ortho_group = SpecialOrthogonalGroup("special_ortho_group")
unitary_group = UnitaryGroup("unitary_group")
uniform_direction = UniformDirection("uniform_direction")
