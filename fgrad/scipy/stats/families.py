"""L7. What distributions share: location and scale, supports, and functions of each other.

norm = Continuous("norm", logpdf=lambda z: ..., cdf=ndtr)
norm.logpdf(x, loc, scale) = logpdf((x - loc) / scale) - log(scale) inside of the support
"""

from __future__ import annotations

import functools
import inspect
import math
from collections.abc import Callable
from typing import Any, Concatenate, TypeAlias, TypeVar

import numpy as np

from fgrad.base.lazy_import import lazy_module
from fgrad.numpy.promote import as_operand, broadcast, inexact, promote
from fgrad.ops.elementwise import lit
from fgrad.scipy._either import any_traced, plain_only
from fgrad.trace import Value
from fgrad.typing import ArrayLike, P

plain = lazy_module("scipy.stats")

Rule: TypeAlias = Callable[..., Value]
Condition: TypeAlias = Callable[..., Value | bool]  # of the parameters
Ends: TypeAlias = tuple[Value | float, Value | float]  # of a support
Arguments: TypeAlias = tuple[ArrayLike, ...]
Keywords: TypeAlias = dict[str, ArrayLike]

D = TypeVar("D", bound="Distribution")


def positive(*shapes: Value) -> Value | bool:
    """The condition that every parameter is positive."""
    valid: Value | bool = True
    for s in shapes:
        valid = valid & (s > 0)
    return valid


class Distribution:
    """A family of distributions by SciPy's name; `shapes` are the names of its parameters."""

    methods: tuple[str, ...] = ()

    def __init__(self, name: str, shapes: str, valid: Condition) -> None:
        self.name = name
        self.shapes = tuple(shapes.split())
        self.valid = valid
        self.__module__ = __name__.rpartition(".")[0]

    def __repr__(self) -> str:
        return f"<distribution {self.name}({', '.join(self.shapes)})>"

    def __getattr__(self, method: str) -> Any:
        """The methods that have no traced form: SciPy's own, and a card for traced arrays."""
        if method.startswith("_"):
            raise AttributeError(method)
        write = f"one of {', '.join(self.methods)}"
        target = getattr(getattr(plain, self.name), method)
        found = plain_only(target, f"scipy.stats.{self.name}.{method}", write)
        self.__dict__[method] = found
        return found

    def __reduce__(self) -> str:
        return self.name  # of the package

    def _operands(
        self, x: ArrayLike, args: Arguments, kwargs: Keywords, names: tuple[str, ...]
    ) -> list[Value]:
        """The point and the parameters, with one dtype and shape."""
        given = dict(zip(names, args, strict=False)) | kwargs
        unknown = set(given) - set(names)
        missing = [n for n in self.shapes if n not in given]
        if len(args) > len(names) or unknown or missing:
            signature = ", ".join(["x", *names])
            raise TypeError(f"{self.name}({signature}): got {len(args)} and {sorted(kwargs)}")
        defaults = {"loc": 0.0, "scale": 1.0}
        values = [given.get(n, defaults.get(n)) for n in names]
        return broadcast([inexact(v) for v in promote([as_operand(v) for v in (x, *values)])])


def method(rule: Callable[Concatenate[D, P], Value]) -> Callable[Concatenate[D, P], Value]:
    """Decorator: a method that is SciPy's own unless a tracer is among the arguments."""
    name = rule.__name__

    def function(self: D, *args: P.args, **kwargs: P.kwargs) -> Value:
        if any_traced(args, kwargs):
            with np.errstate(all="ignore"):
                return rule(self, *args, **kwargs)
        return getattr(getattr(plain, self.name), name)(*args, **kwargs)

    functools.update_wrapper(function, rule)
    function.__doc__ = inspect.getdoc(rule)
    return function


class Continuous(Distribution):
    """A continuous distribution with location and scale.

    Arguments:
        name: SciPy's name.
        shapes: the names of its parameters, before `loc` and `scale`.
        logpdf: `(z, *shapes)` to the log-density inside of the support, at scale 1.
        support: `(*shapes)` to the ends of the support.
        inside: `(*shapes)` to a point in it, where nothing is infinite.
        valid: `(*shapes)` to the condition on the parameters.
        cdf, sf, logcdf, logsf: `(z, *shapes)`; from each other where they are not given.
        ppf: `(q, *shapes)` to the quantile.
        open_below: whether the density at the lower end of the support is 0 by a limit.
    """

    methods = ("logpdf", "pdf", "cdf", "sf", "logcdf", "logsf", "ppf", "isf")

    def __init__(
        self,
        name: str,
        shapes: str = "",
        *,
        logpdf: Rule,
        support: Ends | Callable[..., Ends] = (-math.inf, math.inf),
        inside: float | Rule = 0.0,
        valid: Condition = positive,
        cdf: Rule | None = None,
        sf: Rule | None = None,
        logcdf: Rule | None = None,
        logsf: Rule | None = None,
        ppf: Rule | None = None,
        open_below: bool = False,
    ) -> None:
        super().__init__(name, shapes, valid)
        self.rules = {"logpdf": logpdf, "cdf": cdf, "sf": sf, "logcdf": logcdf, "logsf": logsf}
        self.support_of, self.inside, self.quantile = support, inside, ppf
        self.open_below = open_below

    def _standard(
        self, x: ArrayLike, args: Arguments, kwargs: Keywords
    ) -> tuple[Value, list[Value], Value, Value]:
        """z, the parameters, the scale, and whether all of them are valid."""
        x, *shapes, loc, scale = self._operands(x, args, kwargs, (*self.shapes, "loc", "scale"))
        valid = (scale > 0) & self.valid(*shapes)
        z = (x - loc) / np.where(valid, scale, lit(scale, 1))
        return z, shapes, scale, valid & ~np.isnan(z)

    def _ends(self, shapes: list[Value]) -> Ends:
        ends = self.support_of
        return ends(*shapes) if callable(ends) else ends

    def _inner(self, z: Value, shapes: list[Value], inner: Value) -> Value:
        """z where it is inside of the support, else a harmless point."""
        point = self.inside(*shapes) if callable(self.inside) else lit(z, self.inside)
        return np.where(inner, z, point)

    @method
    def logpdf(self, x: ArrayLike, *args: ArrayLike, **kwargs: ArrayLike) -> Value:
        """The logarithm of the density."""
        z, shapes, scale, valid = self._standard(x, args, kwargs)
        low, high = self._ends(shapes)
        inner = ((z > low) if self.open_below else (z >= low)) & (z <= high) & valid
        density = self.rules["logpdf"](self._inner(z, shapes, inner), *shapes)  # type: ignore[misc]
        density = density - np.log(np.where(valid, scale, lit(scale, 1)))
        return np.where(valid, np.where(inner, density, lit(z, -math.inf)), lit(z, math.nan))

    @method
    def pdf(self, x: ArrayLike, *args: ArrayLike, **kwargs: ArrayLike) -> Value:
        """The density."""
        return np.exp(self.logpdf(x, *args, **kwargs))

    def _cumulated(self, name: str, x: ArrayLike, args: Arguments, kwargs: Keywords) -> Value:
        """A distribution function: 0 below the support and 1 above, or the other way round."""
        if self.rules["cdf"] is None:
            return self.__getattr__(name)(x, *args, **kwargs)
        z, shapes, _, valid = self._standard(x, args, kwargs)
        low, high = self._ends(shapes)
        inner = (z > low) & (z < high) & valid
        rule = self.rules[name]
        if rule is None:
            other = self.rules["sf" if name == "cdf" else "cdf"]
            value = lit(z, 1) - other(self._inner(z, shapes, inner), *shapes)  # type: ignore[misc]
        else:
            value = rule(self._inner(z, shapes, inner), *shapes)
        outer = (z >= high) if name == "cdf" else (z <= low)
        value = np.where(inner, value, np.where(outer, lit(z, 1), lit(z, 0)))
        return np.where(valid, value, lit(z, math.nan))

    @method
    def cdf(self, x: ArrayLike, *args: ArrayLike, **kwargs: ArrayLike) -> Value:
        """The probability of a value of at most x."""
        return self._cumulated("cdf", x, args, kwargs)

    @method
    def sf(self, x: ArrayLike, *args: ArrayLike, **kwargs: ArrayLike) -> Value:
        """The probability of a value above x."""
        return self._cumulated("sf", x, args, kwargs)

    def _logarithm(self, name: str, x: ArrayLike, args: Arguments, kwargs: Keywords) -> Value:
        rule = self.rules[name]
        if rule is None:
            return np.log(self._cumulated(name.removeprefix("log"), x, args, kwargs))
        z, shapes, _, valid = self._standard(x, args, kwargs)
        low, high = self._ends(shapes)
        inner = (z > low) & (z < high) & valid
        outer = (z >= high) if name == "logcdf" else (z <= low)
        value = rule(self._inner(z, shapes, inner), *shapes)
        value = np.where(inner, value, np.where(outer, lit(z, 0), lit(z, -math.inf)))
        return np.where(valid, value, lit(z, math.nan))

    @method
    def logcdf(self, x: ArrayLike, *args: ArrayLike, **kwargs: ArrayLike) -> Value:
        """The logarithm of `cdf`."""
        return self._logarithm("logcdf", x, args, kwargs)

    @method
    def logsf(self, x: ArrayLike, *args: ArrayLike, **kwargs: ArrayLike) -> Value:
        """The logarithm of `sf`."""
        return self._logarithm("logsf", x, args, kwargs)

    @method
    def ppf(self, q: ArrayLike, *args: ArrayLike, **kwargs: ArrayLike) -> Value:
        """The quantile: the inverse of `cdf`."""
        if self.quantile is None:
            return self.__getattr__("ppf")(q, *args, **kwargs)
        q, *shapes, loc, scale = self._operands(q, args, kwargs, (*self.shapes, "loc", "scale"))
        valid = (scale > 0) & self.valid(*shapes) & (q >= 0) & (q <= 1)
        low, high = self._ends(shapes)
        inner = valid & (q > 0) & (q < 1)
        z = self.quantile(np.where(inner, q, lit(q, 0.5)), *shapes)
        z = np.where(inner, z, np.where(q == 0, lit(q, 1) * low, lit(q, 1) * high))
        return np.where(valid, z * scale + loc, lit(q, math.nan))

    @method
    def isf(self, q: ArrayLike, *args: ArrayLike, **kwargs: ArrayLike) -> Value:
        """The inverse of `sf`."""
        return self.ppf(1 - as_operand(q), *args, **kwargs)


class Discrete(Distribution):
    """A distribution of integers, with a location.

    Arguments:
        name, shapes, valid: as for continuous ones.
        logpmf: `(k, *shapes)` inside of the support.
        support: `(*shapes)` to its first and last integer.
        cdf: `(k, *shapes)` for integers of the support but the last.
    """

    methods = ("logpmf", "pmf", "cdf", "sf", "logcdf", "logsf")

    def __init__(
        self,
        name: str,
        shapes: str,
        *,
        logpmf: Rule,
        support: Callable[..., Ends],
        valid: Condition,
        cdf: Rule | None,
    ) -> None:
        super().__init__(name, shapes, valid)
        self.mass, self.support_of, self.cumulated = logpmf, support, cdf

    def _standard(
        self, k: ArrayLike, args: Arguments, kwargs: Keywords
    ) -> tuple[Value, list[Value], Value | float, Value | float, Value]:
        given, *shapes, loc = self._operands(k, args, kwargs, (*self.shapes, "loc"))
        low, high = self.support_of(*shapes)
        moved = given - loc
        return moved, shapes, low, high, self.valid(*shapes) & ~np.isnan(moved)

    @method
    def logpmf(self, k: ArrayLike, *args: ArrayLike, **kwargs: ArrayLike) -> Value:
        """The logarithm of the probability of k; -inf if k is no integer."""
        k, shapes, low, high, valid = self._standard(k, args, kwargs)
        inner = (k >= low) & (k <= high) & (k == np.floor(k)) & valid
        mass = self.mass(np.where(inner, k, lit(k, 1) * low), *shapes)
        return np.where(valid, np.where(inner, mass, lit(k, -math.inf)), lit(k, math.nan))

    @method
    def pmf(self, k: ArrayLike, *args: ArrayLike, **kwargs: ArrayLike) -> Value:
        """The probability of k."""
        return np.exp(self.logpmf(k, *args, **kwargs))

    @method
    def cdf(self, k: ArrayLike, *args: ArrayLike, **kwargs: ArrayLike) -> Value:
        """The probability of an integer of at most k."""
        if self.cumulated is None:
            return self.__getattr__("cdf")(k, *args, **kwargs)
        k, shapes, low, high, valid = self._standard(k, args, kwargs)
        inner = (k >= low) & (k < high) & valid
        value = self.cumulated(np.where(inner, np.floor(k), lit(k, 1) * low), *shapes)
        value = np.where(inner, value, np.where(k >= high, lit(k, 1), lit(k, 0)))
        return np.where(valid, value, lit(k, math.nan))

    @method
    def sf(self, k: ArrayLike, *args: ArrayLike, **kwargs: ArrayLike) -> Value:
        """The probability of an integer above k."""
        return 1 - self.cdf(k, *args, **kwargs)

    @method
    def logcdf(self, k: ArrayLike, *args: ArrayLike, **kwargs: ArrayLike) -> Value:
        """The logarithm of `cdf`."""
        return np.log(self.cdf(k, *args, **kwargs))

    @method
    def logsf(self, k: ArrayLike, *args: ArrayLike, **kwargs: ArrayLike) -> Value:
        """The logarithm of `sf`."""
        return np.log(self.sf(k, *args, **kwargs))
