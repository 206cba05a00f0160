"""L7. What distributions share: location and scale, supports, and functions of each other.

norm = Continuous("norm", logpdf=lambda z: ..., cdf=ndtr)
norm.logpdf(x, loc, scale) = logpdf((x - loc) / scale) - log(scale) inside of the support
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np

from fgrad.base.lazy_import import lazy_module
from fgrad.ir.aval import Aval
from fgrad.numpy.promote import as_operand, broadcast, inexact, promote
from fgrad.ops.elementwise import lit, stop_gradient
from fgrad.random import uniform
from fgrad.scipy._either import any_traced, plain_only, refusal
from fgrad.scipy._host import Untraced
from fgrad.scipy.stats.frozen import Frozen, is_key, method
from fgrad.scipy.stats.moments import MOMENTS
from fgrad.scipy.stats.quantiles import refined
from fgrad.trace import Value
from fgrad.transforms.custom.callback import pure_callback
from fgrad.transforms.custom.jvp import CustomJvp
from fgrad.typing import ArrayLike, PyTree

plain = lazy_module("scipy.stats")

Rule: TypeAlias = Callable[..., Value]
Condition: TypeAlias = Callable[..., Value | bool]  # of the parameters
Ends: TypeAlias = tuple[Value | float, Value | float]  # of a support
LOGARITHMS = {"ppf": ("logcdf", "logsf"), "isf": ("logsf", "logcdf")}  # of q, and of 1 - q
Arguments: TypeAlias = tuple[ArrayLike, ...]
Keywords: TypeAlias = dict[str, ArrayLike]


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

    def __call__(self, *args: ArrayLike, **kwargs: ArrayLike) -> Frozen:
        """The distribution with these parameters; its methods take the points alone."""
        return Frozen(self, args, kwargs)

    def __reduce__(self) -> str:
        return self.name  # of the package

    def rvs(
        self, *args: ArrayLike, size: int | tuple[int, ...] | None = None,
        random_state: PyTree = None, **kwargs: ArrayLike,
    ) -> Value:  # fmt: skip
        """Random numbers: SciPy's own, or by a key of `fgrad.random` as `random_state`, which is
        the way for traced parameters. They are quantiles of uniform numbers, and have derivatives
        in the parameters as such; integers have none."""
        if not is_key(random_state):
            if any_traced(args, kwargs):
                why = "its numbers come from a generator with a state."
                write = f"{self.name}.rvs(..., random_state=fgrad.random.key(0))"
                raise refusal(f"scipy.stats.{self.name}.rvs", why, write)
            given = {"size": 1 if size is None else size, "random_state": random_state, **kwargs}
            return getattr(plain, self.name).rvs(*args, **given)
        values = [as_operand(v) for v in (*args, *kwargs.values())]
        shape = np.broadcast_shapes(*[v.shape for v in values]) if size is None else size
        least = float(np.finfo(np.float64).tiny)
        q = np.maximum(uniform(random_state, shape), least)
        return self.ppf(q, *args, **kwargs)

    def _moment(self, name: str, args: Arguments, kwargs: Keywords) -> tuple[Value, Value, Value]:
        """A moment of the standard form, the location and the scale; NaN for invalid parameters."""
        if self.name not in MOMENTS:
            what = f"scipy.stats.{self.name}.{name}"
            raise refusal(what, "it has no formula here.", f"{self.name}.logpdf, .cdf or .ppf")
        located = ("loc", "scale") if "pdf" in self.methods else ("loc",)
        z, *rest = self._operands(0.0, args, kwargs, (*self.shapes, *located))
        count = len(self.shapes)
        shapes, loc = rest[:count], rest[count]
        scale = rest[-1] if len(located) == 2 else lit(z, 1)
        valid = self._allowed(shapes) & (scale > 0)
        found = MOMENTS[self.name][name != "mean"](z, *shapes)
        return np.where(valid, found, lit(z, math.nan)), loc, scale

    @method
    def mean(self, *args: ArrayLike, **kwargs: ArrayLike) -> Value:
        """The mean."""
        found, loc, scale = self._moment("mean", args, kwargs)
        return found * scale + loc

    @method
    def var(self, *args: ArrayLike, **kwargs: ArrayLike) -> Value:
        """The variance."""
        found, _, scale = self._moment("var", args, kwargs)
        return found * scale * scale

    @method
    def std(self, *args: ArrayLike, **kwargs: ArrayLike) -> Value:
        """The root of the variance."""
        return np.sqrt(self.var(*args, **kwargs))

    @method
    def median(self, *args: ArrayLike, **kwargs: ArrayLike) -> Value:
        """The median."""
        return self.ppf(0.5, *args, **kwargs)

    @method
    def interval(
        self, confidence: ArrayLike, *args: ArrayLike, **kwargs: ArrayLike
    ) -> tuple[Value, Value]:
        """The interval about the median that has a probability."""
        half = 0.5 * as_operand(confidence)
        return self.ppf(0.5 - half, *args, **kwargs), self.ppf(0.5 + half, *args, **kwargs)

    def _allowed(self, shapes: Sequence[Value]) -> Value | bool:
        """Whether the parameters are those of a distribution; NaN never is."""
        allowed: Value | bool = self.valid(*shapes)
        for shape in shapes:
            numbers: PyTree = ~np.isnan(shape)
            allowed = allowed & numbers
        return allowed

    def _operands(
        self, x: ArrayLike, args: Arguments, kwargs: Keywords, names: tuple[str, ...]
    ) -> list[Value]:
        """The point and the parameters, with one dtype and shape."""
        given = dict(zip(names, args, strict=False)) | kwargs
        unknown = set(given) - set(names) | set(names[: len(args)]) & set(kwargs)
        missing = [n for n in self.shapes if n not in given]
        if len(args) > len(names) or unknown or missing:
            signature = ", ".join(["x", *names])
            raise TypeError(f"{self.name}({signature}): got {len(args)} and {sorted(kwargs)}")
        defaults = {"loc": 0.0, "scale": 1.0}
        values = [given.get(n, defaults.get(n)) for n in names]
        return broadcast([inexact(v) for v in promote([as_operand(v) for v in (x, *values)])])


def at_host(
    family: Distribution,
    name: str,
    z: Value,
    shapes: Sequence[Value],
    better: Callable[..., np.ndarray] | None = None,
) -> Value:
    """A method of SciPy's that has no formula, without derivative.

    Arguments:
        better: `(found, z, *shapes)` to a better result than `found`, of vectors.
    """

    def of(z: np.ndarray, *shapes: np.ndarray) -> np.ndarray:
        found = getattr(getattr(plain, family.name), name)(z, *shapes)
        if better is not None:
            found = better(*[np.ravel(np.asarray(x, np.float64)) for x in (found, z, *shapes)])
        return np.asarray(found, z.dtype).reshape(z.shape)

    known = [np.broadcast_to(stop_gradient(x), z.shape) for x in (z, *shapes)]
    return pure_callback(of, Aval(z.shape, z.dtype), *known, vmap_method="broadcast_all")


def by_scipy(
    family: Distribution, name: str, z: Value, shapes: Sequence[Value], slope: Rule
) -> Value:
    """The same with its derivative in the point alone, which is `slope(z)`."""

    @CustomJvp
    def rule(z: Value, *shapes: Value) -> Value:
        return at_host(family, name, z, shapes)

    def derivative(
        primals: tuple[Value, ...], tangents: tuple[Value | None, ...]
    ) -> tuple[Value, Value]:
        if any([t is not None for t in tangents[1:]]):
            raise refusal(
                f"The derivative of scipy.stats.{family.name}.{name} in its parameters",
                "SciPy has no formula of it.",
                f"fgrad.stop_gradient(parameter), or {family.name}.logpdf",
            )
        out, dz = rule(*primals), tangents[0]
        return out, np.zeros_like(out) if dz is None else slope(primals[0]) * dz

    rule.defjvp(derivative, symbolic_zeros=True)
    rule.__name__ = rule.name = f"{family.name}.{name}"
    return rule(z, *shapes)


def log_of(p: Value, other: Value) -> Value:
    """log(p) of a probability, from the `other` one, 1 - p, where p is almost 1."""
    small = p < 0.5
    rest = np.where(small | np.isnan(p), lit(p, 0), other)
    return np.where(small, np.log(np.where(small, p, lit(p, 1))), np.log1p(-rest) + 0 * p)


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
        ppf, isf: `(q, *shapes)` to the inverse of cdf, and of sf; by SciPy's if not given.
        open_below, open_above: whether the density at that end of the support is 0 by a limit.
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
        isf: Rule | None = None,
        open_below: bool = False,
        open_above: bool = False,
    ) -> None:
        super().__init__(name, shapes, valid)
        self.rules = {"logpdf": logpdf, "cdf": cdf, "sf": sf, "logcdf": logcdf, "logsf": logsf}
        self.support_of, self.inside = support, inside
        self.quantiles = {"ppf": ppf, "isf": isf}
        self.open_below, self.open_above = open_below, open_above

    def _standard(
        self, x: ArrayLike, args: Arguments, kwargs: Keywords
    ) -> tuple[Value, list[Value], Value, Value]:
        """z, the parameters, the scale, and whether all of them are valid."""
        x, *shapes, loc, scale = self._operands(x, args, kwargs, (*self.shapes, "loc", "scale"))
        valid = (scale > 0) & self._allowed(shapes)
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
        above = (z > low) if self.open_below else (z >= low)
        inner = above & ((z < high) if self.open_above else (z <= high)) & valid & np.isfinite(z)
        density = self.rules["logpdf"](self._inner(z, shapes, inner), *shapes)  # type: ignore[misc]
        density = density - np.log(np.where(valid, scale, lit(scale, 1)))
        return np.where(valid, np.where(inner, density, lit(z, -math.inf)), lit(z, math.nan))

    @method
    def pdf(self, x: ArrayLike, *args: ArrayLike, **kwargs: ArrayLike) -> Value:
        """The density."""
        return np.exp(self.logpdf(x, *args, **kwargs))

    def _cumulated(self, name: str, x: ArrayLike, args: Arguments, kwargs: Keywords) -> Value:
        """A distribution function: 0 below the support and 1 above, or the other way round."""
        z, shapes, _, valid = self._standard(x, args, kwargs)
        if self.rules["cdf"] is None:
            sign = 1.0 if name == "cdf" else -1.0
            found = by_scipy(self, name, z, shapes, lambda z: sign * self.pdf(z, *shapes))
            return np.where(valid, found, lit(z, math.nan))
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
            kinds = ("cdf", "sf") if name == "logcdf" else ("sf", "cdf")
            return log_of(*[self._cumulated(kind, x, args, kwargs) for kind in kinds])
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
        return self._quantile("ppf", q, args, kwargs)

    @method
    def isf(self, q: ArrayLike, *args: ArrayLike, **kwargs: ArrayLike) -> Value:
        """The inverse of `sf`."""
        return self._quantile("isf", q, args, kwargs)

    def _quantile(self, name: str, q: ArrayLike, args: Arguments, kwargs: Keywords) -> Value:
        q, *shapes, loc, scale = self._operands(q, args, kwargs, (*self.shapes, "loc", "scale"))
        rule = self.quantiles[name]
        if rule is None:
            found = self._inverse(name, q, shapes)
            return loc + scale * np.where(scale > 0, found, lit(q, math.nan))
        valid = (scale > 0) & self._allowed(shapes) & (q >= 0) & (q <= 1)
        ends = self._ends(shapes)
        first, last = ends if name == "ppf" else ends[::-1]  # at q = 0, and at 1
        inner = valid & (q > 0) & (q < 1)
        z = rule(np.where(inner, q, lit(q, 0.5)), *shapes)
        z = np.where(inner, z, np.where(q == 0, lit(q, 1) * first, lit(q, 1) * last))
        return np.where(valid, z * scale + loc, lit(q, math.nan))

    def _inverse(self, name: str, q: Value, shapes: list[Value]) -> Value:
        """SciPy's quantile, as the root of cdf(z) - q, or of sf(z) - q."""
        z = at_host(self, name, q, shapes, self._refined(name))
        inner = np.isfinite(z) & (q > 0) & (q < 1)
        at = self._inner(z, shapes, inner)
        least = float(np.finfo(z.dtype).tiny)
        density = np.maximum(stop_gradient(self.pdf(at, *shapes)), least)
        away = q - self.cdf(at, *shapes) if name == "ppf" else self.sf(at, *shapes) - q
        return np.where(inner, at + (away - stop_gradient(away)) / density, z)

    def _tail(self, name: str) -> Rule:
        return lambda z, *shapes: self._logarithm(name, z, shapes, {})

    def _refined(self, name: str) -> Callable[..., np.ndarray] | None:
        """A more exact quantile than SciPy's, where tails are formulas."""
        if self.rules["cdf"] is None and self.rules["logcdf"] is None:
            return None

        def better(found: np.ndarray, q: np.ndarray, *shapes: np.ndarray) -> np.ndarray:
            with Untraced():
                valid = np.broadcast_to(self._allowed(list(shapes)), q.shape)
                ends = [
                    np.broadcast_to(end, q.shape).astype(float) for end in self._ends([*shapes])
                ]
                first, other = LOGARITHMS[name]
                tails = self._tail(first), self._tail(other)
                exact = refined(tails, q, found, (ends[0], ends[1]), shapes)
                return np.where(valid, exact, found)

        return better


class Discrete(Distribution):
    """A distribution of integers, with a location.

    Arguments:
        name, shapes, valid: as for continuous ones.
        logpmf: `(k, *shapes)` inside of the support.
        support: `(*shapes)` to its first and last integer.
        cdf, sf: `(k, *shapes)` for integers of the support but the last; SciPy's if not given,
            without derivatives in the parameters.
    """

    methods = ("logpmf", "pmf", "cdf", "sf", "logcdf", "logsf", "ppf", "isf")

    def __init__(
        self,
        name: str,
        shapes: str,
        *,
        logpmf: Rule,
        support: Callable[..., Ends],
        valid: Condition,
        cdf: Rule | None,
        sf: Rule | None = None,
    ) -> None:
        super().__init__(name, shapes, valid)
        self.mass, self.support_of = logpmf, support
        self.cumulated = {"cdf": cdf, "sf": sf}

    def _standard(
        self, k: ArrayLike, args: Arguments, kwargs: Keywords
    ) -> tuple[Value, list[Value], Value | float, Value | float, Value]:
        given, *shapes, loc = self._operands(k, args, kwargs, (*self.shapes, "loc"))
        low, high = self.support_of(*shapes)
        moved = given - loc
        return moved, shapes, low, high, self._allowed(shapes) & ~np.isnan(moved)

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

    def _cumulated(self, name: str, k: ArrayLike, args: Arguments, kwargs: Keywords) -> Value:
        k, shapes, low, high, valid = self._standard(k, args, kwargs)
        k, rule = np.floor(k), self.cumulated[name]
        if rule is None:
            return by_scipy(self, name, k, shapes, lambda k: k * 0)
        inner = (k >= low) & (k < high) & valid
        value = rule(np.where(inner, k, lit(k, 1) * low), *shapes)
        outer = (k >= high) if name == "cdf" else (k < low)
        value = np.where(inner, value, np.where(outer, lit(k, 1), lit(k, 0)))
        return np.where(valid, value, lit(k, math.nan))

    @method
    def cdf(self, k: ArrayLike, *args: ArrayLike, **kwargs: ArrayLike) -> Value:
        """The probability of an integer of at most k."""
        return self._cumulated("cdf", k, args, kwargs)

    @method
    def sf(self, k: ArrayLike, *args: ArrayLike, **kwargs: ArrayLike) -> Value:
        """The probability of an integer above k."""
        return self._cumulated("sf", k, args, kwargs)

    @method
    def logcdf(self, k: ArrayLike, *args: ArrayLike, **kwargs: ArrayLike) -> Value:
        """The logarithm of `cdf`."""
        return log_of(*[self._cumulated(name, k, args, kwargs) for name in ("cdf", "sf")])

    @method
    def logsf(self, k: ArrayLike, *args: ArrayLike, **kwargs: ArrayLike) -> Value:
        """The logarithm of `sf`."""
        return log_of(*[self._cumulated(name, k, args, kwargs) for name in ("sf", "cdf")])

    def _quantile(self, name: str, q: ArrayLike, args: Arguments, kwargs: Keywords) -> Value:
        q, *shapes, loc = self._operands(q, args, kwargs, (*self.shapes, "loc"))
        return at_host(self, name, q, shapes) + loc

    @method
    def ppf(self, q: ArrayLike, *args: ArrayLike, **kwargs: ArrayLike) -> Value:
        """The quantile: the least integer whose `cdf` is at least q; derivative zero."""
        return self._quantile("ppf", q, args, kwargs)

    @method
    def isf(self, q: ArrayLike, *args: ArrayLike, **kwargs: ArrayLike) -> Value:
        """The inverse of `sf`; derivative zero."""
        return self._quantile("isf", q, args, kwargs)
