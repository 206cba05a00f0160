"""L7. Ranks, the commonest value, and the error of a mean, as `scipy.stats` has them.

Ranks and counts are constant between ties, so they have derivative zero; the commonest value and
the error of the mean have that of their operand.  Ranks of traced floats are floats, where SciPy
gives integers unless it meets NaN.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from fgrad.base.installed import at_least
from fgrad.base.lazy_import import lazy_module
from fgrad.base.named_tuple import NamedTuple
from fgrad.errors import ArgumentError, DtypeError, ShapeError
from fgrad.lax.reductions import cummax
from fgrad.numpy.arrange import moveaxis
from fgrad.numpy.promote import as_operand, convert, inexact, normalize_axis, user_line
from fgrad.numpy.selection import take_along_axis
from fgrad.ops.elementwise import stop_gradient
from fgrad.scipy._either import either, refusal
from fgrad.scipy.stats.operands import joined, kept, places_of
from fgrad.trace import Value
from fgrad.typing import ArrayLike, Axis, P, R

plain = lazy_module("scipy.stats")
scipy = lazy_module("scipy")

_METHODS = ("average", "min", "max", "dense", "ordinal")


class ModeResult(NamedTuple):
    """The commonest values, and how often they occur."""

    mode: Value
    count: Value


def _either(traced: Callable[P, R]) -> Callable[P, R]:
    """Decorator: SciPy's function of the same name, unless a tracer is among the arguments."""
    return either(plain, traced)


def _real(name: str, a: ArrayLike, nan_policy: str) -> Value:
    """Real numbers."""
    if nan_policy != "propagate":
        raise refusal(
            f"scipy.stats.{name} with nan_policy={nan_policy!r}",
            "which numbers are NaN depends on values.",
            f"{name}(a)    NaN where there is one",
        )
    x = as_operand(a)
    if x.dtype.kind not in "biuf":
        raise DtypeError(f"scipy.stats.{name} takes real numbers, not {x.dtype}.", user_line())
    return x


def _runs(ordered: Value) -> tuple[Value, Value, Value]:
    """Where equal neighbours begin in the last axis, the places, and the first place of each."""
    n = ordered.shape[-1]
    places = np.broadcast_to(np.arange(n), ordered.shape)
    head = np.ones((*ordered.shape[:-1], 1), bool)
    later, earlier = ordered[..., 1:], ordered[..., :-1]
    other = (later != earlier) & ~(np.isnan(later) & np.isnan(earlier))
    begins = np.concatenate([head, other], axis=-1)
    first = cummax(np.where(begins, places, 0), axis=len(ordered.shape) - 1)
    return begins, places, first


@_either
def rankdata(
    a: ArrayLike, method: str = "average", *, axis: int | None = None, nan_policy: str = "propagate"
) -> Value:
    """The place of each number among all in ascending order, from 1; derivative zero.

    Arguments:
        a: real numbers.
        method: what equal numbers get: the "average", "min" or "max" of their places, as "min" but
            without gaps ("dense"), or their places by order ("ordinal").
        axis: along which numbers are ranked; all of them if None.
        nan_policy: "propagate" alone for traced numbers.

    Example:
        >>> rankdata(np.array([0.0, 2.0, 3.0, 2.0]))
        array([1. , 2.5, 4. , 2.5])
    """
    if method not in _METHODS:
        rows = (*user_line(), ("write", " or ".join(map(repr, _METHODS))))
        raise ArgumentError(f"scipy.stats.rankdata: method={method!r}.", rows)
    x = stop_gradient(_real("rankdata", a, nan_policy))
    place = None if axis is None else normalize_axis(axis, len(x.shape))
    x = np.ravel(x) if place is None else moveaxis(x, place, -1)
    missing = np.any(np.isnan(x), axis=-1, keepdims=True)
    order = np.argsort(x, axis=-1, kind="stable")
    begins, places, first = _runs(take_along_axis(x, order, axis=-1))
    ends = np.concatenate([begins[..., 1:], np.ones_like(begins[..., :1])], axis=-1)
    n = x.shape[-1]
    after = np.flip(np.where(ends, places, n - 1), -1)
    last = np.flip(-cummax(-after, axis=len(x.shape) - 1), -1)
    ranks = {
        "average": (first + last) / 2 + 1.0,
        "min": first + 1,
        "max": last + 1,
        "dense": np.cumsum(begins, axis=-1),
        "ordinal": places + 1,
    }[method]
    back = np.argsort(order, axis=-1)
    found = take_along_axis(ranks, back, axis=-1)
    if x.dtype.kind == "f":  # may have NaN, which integers cannot say
        found = np.where(missing, np.nan, found)
    return found if place is None else moveaxis(found, -1, place)


@_either
def mode(
    a: ArrayLike, axis: Axis = 0, nan_policy: str = "propagate", keepdims: bool = False
) -> ModeResult:
    """The commonest number along an axis, of several the smallest, and how often it occurs;
    NaN counts as a number.

    Example:
        >>> mode(np.array([3.0, 1.0, 3.0])).mode
        np.float64(3.0)
    """
    numbers = _real("mode", a, nan_policy)
    axes = places_of(axis, len(numbers.shape))
    x = joined(numbers, axes)
    if not x.shape[-1]:
        raise ShapeError("scipy.stats.mode: there is no number along the axis.", user_line())
    ordered = np.sort(x, axis=-1)
    _, places, first = _runs(ordered)
    counts = places - first + 1
    best = np.argmax(counts, axis=-1)[..., None]
    value = take_along_axis(ordered, best, axis=-1)[..., 0]
    count = take_along_axis(counts, best, axis=-1)[..., 0]
    if 0 in x.shape:  # no results: SciPy's are floats, counts until 1.17
        dtype = inexact(x).dtype
        value = value.astype(dtype)
        count = count if at_least(scipy, 1, 18) else count.astype(dtype)
    if keepdims:
        value, count = [np.reshape(v, kept(numbers.shape, axes)) for v in (value, count)]
    return ModeResult(value, count)


@_either
def sem(
    a: ArrayLike,
    axis: Axis = 0,
    ddof: int = 1,
    nan_policy: str = "propagate",
    *,
    keepdims: bool = False,
) -> Value:
    """The standard error of the mean, std(a, ddof) / sqrt(n).

    Example:
        >>> sem(np.array([1.0, 3.0]))
        np.float64(1.0)
    """
    numbers = inexact(_real("sem", a, nan_policy))
    axes = places_of(axis, len(numbers.shape))
    x = joined(numbers, axes)
    error = convert(np.std(x, axis=-1, ddof=ddof) / np.sqrt(x.shape[-1]), x.dtype)
    return np.reshape(error, kept(numbers.shape, axes)) if keepdims else error
