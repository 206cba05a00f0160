"""L7. What the interpolators share: SciPy's own object for plain data, cards, shapes."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from fgrad.base.lazy_import import lazy_module
from fgrad.errors import ArgumentError, ShapeError
from fgrad.numpy.arrange import moveaxis
from fgrad.numpy.at_indexing import at
from fgrad.numpy.dispatch import has_tracer
from fgrad.numpy.promote import as_operand, convert, inexact, normalize_axis, user_line
from fgrad.ops import checked
from fgrad.scipy._either import Either, refusal
from fgrad.trace import Value, concrete
from fgrad.typing import ArrayLike, PyTree

plain = lazy_module("scipy.interpolate")

of_data = Either(plain)


def unfit(name: str, what: str, write: str) -> ArgumentError:
    """The error for an argument that SciPy refuses too."""
    return ArgumentError(f"scipy.interpolate.{name}: {what}.", (*user_line(), ("write", write)))


def untraceable(name: str, what: str, why: str, write: str) -> None:
    """Raise the card for a way to use an interpolator that has no traced form."""
    raise refusal(f"scipy.interpolate.{name} with {what}", why, write)


def fixed(name: str, what: str, given: PyTree, why: str, write: str) -> PyTree:
    """A plain array; a card if it is traced, since its derivatives would be lost."""
    if has_tracer((given,)):
        untraceable(name, f"traced {what}", why, write)
    return np.asarray(given)


def doubles(x: ArrayLike) -> Value:
    """Numbers in double precision, real or complex."""
    x = inexact(as_operand(x))
    return convert(x, np.dtype(np.complex128 if x.dtype.kind == "c" else np.float64))


def real_places(x: ArrayLike) -> Value:
    """Places in double precision; an error for complex ones, whose imaginary parts SciPy drops."""
    places = doubles(x)
    if places.dtype.kind == "c":
        write = ("write", "x.real")
        raise ArgumentError("scipy.interpolate: complex places.", (*user_line(), write))
    return places


def table(name: str, x: ArrayLike, y: ArrayLike, axis: int) -> tuple[Value, Value, int]:
    """Places, values with their axis first, and where that was; places ascend."""
    places, values = real_places(x), doubles(y)
    axis = normalize_axis(axis, len(values.shape)) if values.shape else 0
    values = moveaxis(values, axis, 0) if values.shape else values
    if len(places.shape) != 1 or places.shape[:1] != values.shape[:1]:
        raise ShapeError(
            f"scipy.interpolate.{name}: places of shape {places.shape}, values of {values.shape}.",
            (*user_line(), ("write", "as many places as values along the axis")),
        )
    order = concrete(places)
    if order is not None and not np.all(np.asarray(order)[1:] > np.asarray(order)[:-1]):
        raise unfit(name, "places that do not ascend", "x[order], y[order] for np.argsort(x)")
    if order is None:
        error = checked.text_of(ValueError(f"{name}: x must ascend"))
        checked.require(np.all(places[1:] > places[:-1]), error)
    return places, values, axis


def along(v: Value, like: Value) -> Value:
    """A vector with ones as further axes, to broadcast with values along their first axis."""
    return np.reshape(v, (-1, *[1] * (len(like.shape) - 1)))


def shaped(flat: Value, x: Value, axis: int) -> Value:
    """Results (places, ...) with the axes of the places at `axis`."""
    rank, rest = len(x.shape), flat.shape[1:]
    found = np.reshape(flat, (*x.shape, *rest))
    if not axis or not rest:
        return found[()]
    order = [*range(rank, rank + axis), *range(rank), *range(rank + axis, rank + len(rest))]
    return np.transpose(found, order)


def interval(breaks: Value, x: Value, low: int, high: int) -> Value:
    """The number of the interval of each place, from low to high."""
    return np.clip(np.searchsorted(breaks, x, side="right") - 1, low, high)


def taken(values: Value, k: Value) -> Value:
    """values[k] along the first axis, for traced numbers k."""
    return at(as_operand(values))[k].get()


class Interpolant:
    """A function of places: SciPy's own object where neither data nor places are traced."""

    _plain: PyTree = None
    _prepare: Callable[[], None] | None = None
    _name = ""

    def _made(self, make: Callable[..., PyTree], *args: PyTree, **kwargs: PyTree) -> bool:
        """Make SciPy's object of plain arguments; False if one is traced."""
        if has_tracer((*args, *kwargs.values())):
            return False
        self._plain = make(*args, **kwargs)
        return True

    def _prepared(self, prepare: Callable[[], None]) -> None:
        """Make what traced calls need: now if data are traced, else before the first of them, so
        that plain data may be all that SciPy takes."""
        self._prepare = prepare
        if self._plain is None:
            self._ready()

    def _ready(self) -> None:
        if self._prepare is not None:
            self._prepare()
            self._prepare = None

    def _is_plain(self, *given: PyTree) -> bool:
        return self._plain is not None and not has_tracer(given)

    def __getattr__(self, name: str) -> PyTree:
        """What only SciPy's own object has."""
        if name.startswith("__") or not hasattr(getattr(plain, type(self).__name__, None), name):
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        if self._plain is None:
            which = f"{type(self).__name__}.{name}"
            untraceable(which, "traced data", "it has no traced form.", "plain arrays")
        return getattr(self._plain, name)
