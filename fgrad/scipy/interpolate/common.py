"""L7. What the interpolators share: SciPy's own object for plain data, cards, shapes."""

from __future__ import annotations

import math
import operator
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


def axis_of_pieces(name: str, axis: int, c: Value) -> int:
    """The axis of the powers among coefficients, which that of the pieces follows."""
    if not 0 <= operator.index(axis) < len(c.shape) - 1:
        raise unfit(name, f"axis={axis} of coefficients of shape {c.shape}", "axis=0")
    return axis


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


def not_complex(places: Value) -> Value:
    """Places as they are; an error for complex ones, whose imaginary parts SciPy drops."""
    if places.dtype.kind == "c":
        write = ("write", "x.real")
        raise ArgumentError("scipy.interpolate: complex places.", (*user_line(), write))
    return places


def real_places(x: ArrayLike) -> Value:
    """Real places in double precision."""
    return not_complex(doubles(x))


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


def within(places: Value, first: Value, last: Value, beyond: object) -> tuple[Value, Value]:
    """Places in one line, in the first period if `beyond` is "periodic", and which have no value:
    NaN, and those outside unless `beyond`."""
    flat = np.ravel(places)
    if beyond == "periodic":
        flat = first + np.mod(flat - first, last - first)
    outside = as_operand(np.isnan(flat))
    if not beyond:
        outside = outside | (flat < first) | (flat > last)
    return flat, outside


def taken(values: Value, k: Value) -> Value:
    """values[k] along the first axis, for traced numbers k."""
    return at(as_operand(values))[k].get()


class _ScipysNames(type):
    """What SciPy's classes have as functions of their own: of plain arrays, else a card."""

    def __getattr__(cls, name: str) -> PyTree:
        scipys = getattr(plain, cls.__name__, None)
        if name.startswith("_") or not hasattr(scipys, name):
            raise AttributeError(f"type object {cls.__name__!r} has no attribute {name!r}")
        function = getattr(scipys, name)
        which = f"{cls.__name__}.{name}"

        def called(*args: PyTree, **kwargs: PyTree) -> PyTree:
            given = [a._plain if isinstance(a, Interpolant) else a for a in args]
            missing = any([g is None and a is not None for g, a in zip(given, args, strict=True)])
            if missing or has_tracer((*given, *kwargs.values())):
                untraceable(which, "traced data", "it has no traced form.", "plain arrays")
            return function(*given, **kwargs)

        return called if callable(function) else function


class Interpolant(metaclass=_ScipysNames):
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


class Integrable(Interpolant):
    """An interpolant that has an integral as an interpolant."""

    _family = ""  # SciPy's name of the class whose methods these are
    extrapolate: bool | str

    def _beyond(self, extrapolate: bool | str | None) -> bool | str:
        return self.extrapolate if extrapolate is None else extrapolate

    def integrate(self, a: ArrayLike, b: ArrayLike, extrapolate: bool | str | None = None) -> Value:
        """The integral from a to b.

        Arguments:
            a, b: the ends.
            extrapolate: as in the class; not "periodic".
        """
        if self._is_plain(a, b):
            return self._plain.integrate(a, b, extrapolate)
        beyond = self._beyond(extrapolate)
        if beyond == "periodic":
            name = f"{self._family}.integrate"
            untraceable(name, "a period", "it has no traced form.", "extrapolate=True")
        return self._between(a, b, beyond)

    def _between(self, a: ArrayLike, b: ArrayLike, beyond: bool | str) -> Value:
        raise NotImplementedError


class Pieces(Integrable):
    """A polynomial in each interval of breakpoints x, by its coefficients c (orders, m, ...)."""

    c: Value
    x: Value
    axis: int

    def _fit(self, name: str) -> None:
        """Raise unless there are coefficients for each interval."""
        if len(self.c.shape) < 2 or not self.c.size or self.c.shape[1] != self.x.shape[0] - 1:
            raise unfit(name, f"c of shape {self.c.shape}", "c of shape (k, len(x) - 1, ...)")

    def _in_intervals(self, k: Value, places: Value) -> Value:
        """The values at places that lie in the intervals k."""
        raise NotImplementedError

    def _slopes(self, c: Value) -> Value:
        """The coefficients of the derivative."""
        raise NotImplementedError

    def _sums(self, c: Value) -> Value:
        """The coefficients of the integral from the first breakpoint on."""
        raise NotImplementedError

    @classmethod
    def construct_fast(
        cls, c: ArrayLike, x: ArrayLike, extrapolate: bool | str | None = None, axis: int = 0
    ) -> Pieces:
        """A piecewise polynomial whose coefficients have their axis first."""
        raise NotImplementedError

    def __call__(self, x: ArrayLike, nu: int = 0, extrapolate: bool | str | None = None) -> Value:
        """The values at places, or the derivatives of an order.

        Arguments:
            x: the places.
            nu: the order of the derivative; negative ones are integrals.
            extrapolate: as in the class.
        """
        if self._is_plain(x):
            return self._plain(x, nu, extrapolate)
        beyond = self._beyond(extrapolate)
        if nu:
            return self.derivative(nu)(x, 0, beyond)
        self._extended()
        places = real_places(x)
        flat, outside = within(places, self.x[0], self.x[-1], beyond)
        found = self._in_intervals(interval(self.x, flat, 0, self.c.shape[1] - 1), flat)
        return shaped(np.where(along(outside, found), math.nan, found), places, self.axis)

    def _extended(self) -> None:
        """Take over what `extend` has added to SciPy's own object."""
        if self._plain is not None:
            self.c, self.x = self._plain.c, self._plain.x

    def derivative(self, nu: int = 1) -> Pieces:
        """The derivative of an order, as such a polynomial; a negative one is an integral."""
        if nu < 0:
            return self.antiderivative(-nu)
        self._extended()
        c = self.c
        for _ in range(nu):
            c = self._slopes(c)
        return self.construct_fast(c, self.x, self.extrapolate, self.axis)

    def antiderivative(self, nu: int = 1) -> Pieces:
        """The integral from the first breakpoint on, as such a polynomial."""
        if nu < 0:
            return self.derivative(-nu)
        self._extended()
        c = self.c
        for _ in range(nu):
            c = self._sums(c)
        beyond = False if self.extrapolate == "periodic" else self.extrapolate
        return self.construct_fast(c, self.x, beyond, self.axis)

    def _between(self, a: ArrayLike, b: ArrayLike, beyond: bool | str) -> Value:
        whole = self.antiderivative()
        return whole(b, 0, beyond) - whole(a, 0, beyond)
