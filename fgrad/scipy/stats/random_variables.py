"""L7. SciPy's distributions as objects of their parameters: Normal, Logistic, Uniform, Binomial.

    Normal(mu=m, sigma=s).logpdf(x) = norm.logpdf(x, m, s)

Parameters and points may be traced; of plain numbers all results are SciPy's.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from fgrad.base.lazy_import import lazy_module
from fgrad.base.named_tuple import NamedTuple
from fgrad.numpy.dispatch import has_tracer
from fgrad.numpy.promote import as_operand, broadcast, inexact, promote
from fgrad.ops.elementwise import lit
from fgrad.scipy._either import check_choice, plain_only, refusal
from fgrad.scipy.stats.continuous import CONTINUOUS
from fgrad.scipy.stats.discrete import DISCRETE
from fgrad.scipy.stats.families import Continuous, Discrete
from fgrad.scipy.stats.frozen import is_key
from fgrad.trace import Value
from fgrad.typing import ArrayLike, PyTree

plain = lazy_module("scipy.stats")

Formula = Callable[..., Value]


class Moments(NamedTuple):
    """Formulas of the parameters."""

    mean: Formula
    variance: Formula
    skewness: Formula
    kurtosis: Formula
    entropy: Formula | None


class RandomVariable:
    """A distribution with its parameters, given by name.

    Arguments:
        parameters: those of SciPy's class; its settings, such as `tol`, are handed on.

    Raises:
        UnsupportedNumpyError: a setting is given, and something is traced.
    """

    family: Continuous | Discrete
    defaults: dict[str, ArrayLike | None]
    moments: Moments

    def __init__(self, **parameters: ArrayLike) -> None:
        self._settings = {k: v for k, v in parameters.items() if k not in self.defaults}
        self._given = {k: v for k, v in parameters.items() if k in self.defaults}
        missing = [k for k, v in self.defaults.items() if v is None and k not in self._given]
        if missing:
            raise TypeError(f"{type(self).__name__}: missing parameters {missing}")
        self._values = {**self.defaults, **self._given}

    def __getattr__(self, name: str) -> PyTree:
        """A parameter, or what has no traced form: SciPy's own."""
        if name.startswith("_"):
            raise AttributeError(name)
        if name in self._values:
            return self._values[name]
        what = f"scipy.stats.{type(self).__name__}.{name}"
        if self._traced(()):
            raise refusal(what, "it has no traced form.", f"{self.family.name}.logpdf(x, ...)")
        return plain_only(getattr(self._scipys(), name), what, "pdf, cdf, icdf, sample, moments")

    def _scipys(self) -> PyTree:
        return getattr(plain, type(self).__name__)(**self._given, **self._settings)

    def _traced(self, points: tuple[PyTree, ...]) -> bool:
        return has_tracer(points) or has_tracer(self._given.values())

    def _arguments(self) -> tuple[ArrayLike, ...]:
        """The arguments of the family."""
        return tuple(self._values.values())  # type: ignore[arg-type]

    def _of(self, name: str, traced: Formula, *points: PyTree, method: str | None = None) -> PyTree:
        """A method: SciPy's of plain numbers, else the traced form."""
        if not self._traced(points):
            return getattr(self._scipys(), name)(*points, method=method)
        if method is not None or self._settings:
            what = f"scipy.stats.{type(self).__name__}.{name} with method or settings"
            raise refusal(what, "it has no traced form.", f"{name}(x) without them")
        return traced(*points)

    def _by_family(self, name: str, to: str, x: ArrayLike, method: str | None) -> PyTree:
        rule = getattr(self.family, to)
        return self._of(name, lambda x: rule(x, *self._arguments()), x, method=method)

    def logcdf(
        self, x: ArrayLike, y: ArrayLike | None = None, /, *, method: str | None = None
    ) -> PyTree:
        """The logarithm of the probability of at most x, or of x to y."""
        if y is None:
            return self._by_family("logcdf", "logcdf", x, method)
        return self._of("logcdf", lambda x, y: np.log(self.cdf(x, y)), x, y, method=method)

    def cdf(
        self, x: ArrayLike, y: ArrayLike | None = None, /, *, method: str | None = None
    ) -> PyTree:
        """The probability of at most x, or of x to y."""
        if y is None:
            return self._by_family("cdf", "cdf", x, method)
        rule = lambda x, y: self.cdf(y) - self.cdf(x)  # noqa: E731
        return self._of("cdf", rule, x, y, method=method)

    def logccdf(
        self, x: ArrayLike, y: ArrayLike | None = None, /, *, method: str | None = None
    ) -> PyTree:
        """The logarithm of the probability of more than x, or of less than x or more than y."""
        if y is None:
            return self._by_family("logccdf", "logsf", x, method)
        return self._of("logccdf", lambda x, y: np.log(self.ccdf(x, y)), x, y, method=method)

    def ccdf(
        self, x: ArrayLike, y: ArrayLike | None = None, /, *, method: str | None = None
    ) -> PyTree:
        """The probability of more than x, or of less than x or more than y."""
        if y is None:
            return self._by_family("ccdf", "sf", x, method)
        rule = lambda x, y: self.cdf(x) + self.ccdf(y)  # noqa: E731
        return self._of("ccdf", rule, x, y, method=method)

    def icdf(self, p: ArrayLike, /, *, method: str | None = None) -> PyTree:
        """The quantile of a probability."""
        return self._by_family("icdf", "ppf", p, method)

    def iccdf(self, p: ArrayLike, /, *, method: str | None = None) -> PyTree:
        """The point beyond which a probability is."""
        return self._by_family("iccdf", "isf", p, method)

    def ilogcdf(self, logp: ArrayLike, /, *, method: str | None = None) -> PyTree:
        """The quantile of the logarithm of a probability."""
        return self._of("ilogcdf", lambda q: self.icdf(np.exp(q)), logp, method=method)

    def ilogccdf(self, logp: ArrayLike, /, *, method: str | None = None) -> PyTree:
        """The point beyond which a probability is, by its logarithm."""
        return self._of("ilogccdf", lambda q: self.iccdf(np.exp(q)), logp, method=method)

    def _moment(self, name: str, formula: Formula | None, method: str | None) -> PyTree:
        def traced() -> Value:
            if formula is None:
                what = f"scipy.stats.{type(self).__name__}.{name}"
                raise refusal(what, "it is a sum without a formula.", "a sum of pmf(k) log pmf(k)")
            given = [inexact(as_operand(v)) for v in self._arguments()]
            return formula(*broadcast(promote(given)))

        return self._of(name, traced, method=method)

    def mean(self, *, method: str | None = None) -> PyTree:
        """The mean."""
        return self._moment("mean", self.moments.mean, method)

    def variance(self, *, method: str | None = None) -> PyTree:
        """The variance."""
        return self._moment("variance", self.moments.variance, method)

    def standard_deviation(self, *, method: str | None = None) -> PyTree:
        """The root of the variance."""
        root = lambda *xs: np.sqrt(self.moments.variance(*xs))  # noqa: E731
        return self._moment("standard_deviation", root, method)

    def skewness(self, *, method: str | None = None) -> PyTree:
        """The third moment in units of the deviation."""
        return self._moment("skewness", self.moments.skewness, method)

    def kurtosis(self, *, method: str | None = None, convention: str = "non-excess") -> PyTree:
        """The fourth moment in units of the deviation; `convention="excess"` is less 3."""
        check_choice("kurtosis", "convention", convention, ("non-excess", "excess"))
        return self._moment("kurtosis", self.moments.kurtosis, method) - 3.0 * (
            convention == "excess"
        )

    def entropy(self, *, method: str | None = None) -> PyTree:
        """The entropy."""
        return self._moment("entropy", self.moments.entropy, method)

    def median(self, *, method: str | None = None) -> PyTree:
        """The median."""
        return self._of("median", lambda: self.icdf(0.5), method=method)

    def sample(
        self, shape: int | tuple[int, ...] = (), *, method: str | None = None, rng: PyTree = None
    ) -> PyTree:
        """Random numbers, by a key of `fgrad.random` as `rng`; else SciPy's."""
        if not is_key(rng):
            if self._traced(()):
                what = f"scipy.stats.{type(self).__name__}.sample"
                why = "its numbers come from a generator with a state."
                raise refusal(what, why, "sample(shape, rng=fgrad.random.key(0))")
            return self._scipys().sample(shape, method=method, rng=rng)
        wanted = (shape,) if isinstance(shape, int) else tuple(shape)
        each = np.broadcast_shapes(*[np.shape(v) for v in self._arguments()])
        return self.family.rvs(*self._arguments(), size=(*wanted, *each), random_state=rng)


class _WithDensity(RandomVariable):
    """A distribution with a density."""

    def logpdf(self, x: ArrayLike, /, *, method: str | None = None) -> PyTree:
        """The logarithm of the density."""
        return self._by_family("logpdf", "logpdf", x, method)

    def pdf(self, x: ArrayLike, /, *, method: str | None = None) -> PyTree:
        """The density."""
        return self._by_family("pdf", "pdf", x, method)


class Normal(_WithDensity):
    """The normal distribution of mean `mu` and deviation `sigma`.

    Example:
        >>> import fgrad
        >>> fgrad.grad(lambda m: Normal(mu=m, sigma=2.0).logpdf(1.0))(0.0)
        np.float64(0.25)
    """

    family = CONTINUOUS["norm"]
    defaults = {"mu": 0.0, "sigma": 1.0}  # noqa: RUF012
    moments = Moments(
        lambda mu, sigma: mu, lambda mu, sigma: sigma * sigma, lambda mu, sigma: lit(mu, 0),
        lambda mu, sigma: lit(mu, 3),
        lambda mu, sigma: np.log(sigma) + 0.5 * (1 + math.log(2 * math.pi)),
    )  # fmt: skip


class Logistic(_WithDensity):
    """The standard logistic distribution.

    Example:
        >>> import fgrad
        >>> fgrad.grad(Logistic().logpdf)(0.0)
        np.float64(0.0)
    """

    family = CONTINUOUS["logistic"]
    defaults = {}  # noqa: RUF012
    moments = Moments(
        lambda: as_operand(0.0), lambda: as_operand(math.pi**2 / 3), lambda: as_operand(0.0),
        lambda: as_operand(4.2), lambda: as_operand(2.0),
    )  # fmt: skip


class Uniform(_WithDensity):
    """The uniform distribution from `a` to `b`.

    Example:
        >>> import fgrad
        >>> fgrad.grad(lambda b: Uniform(a=0.0, b=b).pdf(0.5))(2.0)
        np.float64(-0.25)
    """

    family = CONTINUOUS["uniform"]
    defaults = {"a": None, "b": None}  # noqa: RUF012
    moments = Moments(
        lambda a, w: a + 0.5 * w, lambda a, w: w * w / 12, lambda a, w: lit(a, 0),
        lambda a, w: lit(a, 1.8), lambda a, w: np.log(w),
    )  # fmt: skip

    def _arguments(self) -> tuple[ArrayLike, ...]:
        low, high = [as_operand(self._values[k]) for k in ("a", "b")]  # type: ignore[arg-type]
        return low, high - low


class Binomial(RandomVariable):
    """The number of successes in `n` trials of probability `p`.

    Example:
        >>> import fgrad
        >>> fgrad.grad(lambda p: Binomial(n=2, p=p).pmf(2))(0.5)
        np.float64(1.0)
    """

    family = DISCRETE["binom"]
    defaults = {"n": None, "p": None}  # noqa: RUF012
    moments = Moments(
        lambda n, p: n * p, lambda n, p: n * p * (1 - p),
        lambda n, p: (1 - 2 * p) / np.sqrt(n * p * (1 - p)),
        lambda n, p: 3 + (1 - 6 * p * (1 - p)) / (n * p * (1 - p)), None,
    )  # fmt: skip

    def logpmf(self, x: ArrayLike, /, *, method: str | None = None) -> PyTree:
        """The logarithm of the probability of x."""
        return self._by_family("logpmf", "logpmf", x, method)

    def pmf(self, x: ArrayLike, /, *, method: str | None = None) -> PyTree:
        """The probability of x."""
        return self._by_family("pmf", "pmf", x, method)
