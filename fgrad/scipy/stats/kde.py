"""L7. Densities from samples by normal kernels, as `scipy.stats.gaussian_kde` has them.

    f(x) = sum_i w_i N(x; x_i, h^2 S),    S the covariance of the samples, h the bandwidth

Samples, weights, the bandwidth and points may be traced; of plain arrays all results are SciPy's.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from fgrad.base.lazy_import import lazy_module
from fgrad.errors import ArgumentError, DtypeError, ShapeError
from fgrad.numpy.dispatch import has_tracer
from fgrad.numpy.promote import as_operand, inexact, user_line
from fgrad.ops import checked
from fgrad.ops.elementwise import stop_gradient
from fgrad.random import categorical, normal, split
from fgrad.scipy import special as sp
from fgrad.scipy._either import refusal
from fgrad.scipy.linalg import solve_triangular
from fgrad.scipy.stats.frozen import is_key
from fgrad.trace import Value
from fgrad.typing import ArrayLike, PyTree

plain = lazy_module("scipy.stats")

Bandwidth = str | ArrayLike | Callable[["gaussian_kde"], ArrayLike] | None


class gaussian_kde:
    """A density from samples.

    Arguments:
        dataset: the samples: numbers, or vectors as columns.
        bw_method: "scott" (also None), "silverman", a number, or a function of this object.
        weights: of the samples; equal if they are not given.

    Raises:
        ValueError: there are fewer samples than dimensions, or weights of another number.

    Example:
        >>> import fgrad
        >>> x = np.array([0.0, 1.0, 3.0])
        >>> f = lambda h: gaussian_kde(x, h).logpdf(np.array([1.0]))[0]
        >>> round(float(fgrad.grad(f)(0.5)), 6)
        -0.69592
    """

    def __init__(
        self, dataset: ArrayLike, bw_method: Bandwidth = None, weights: ArrayLike | None = None
    ) -> None:
        self._given = (dataset, bw_method, weights)
        data = inexact(as_operand(dataset))
        if data.dtype.kind == "c":
            raise DtypeError("scipy.stats.gaussian_kde takes real samples.", user_line())
        self.dataset = np.reshape(data, (1, -1)) if len(data.shape) < 2 else data
        if math.prod(self.dataset.shape) < 2:
            raise ValueError("`dataset` input should have multiple elements.")
        self.d, self.n = self.dataset.shape
        if self.d > self.n:
            raise ValueError("There are more dimensions than samples: are samples columns?")
        self.weights: Value = np.full(self.n, 1.0 / self.n)
        if weights is not None:
            given = inexact(as_operand(weights))
            if given.shape != (self.n,):
                raise ValueError("`weights` input should be of length n")
            negative = checked.text_of(ValueError("aweights cannot be negative"))
            checked.require(np.all(~(stop_gradient(given) < 0)), negative)
            self.weights = given / np.sum(given)
        self.neff = 1 / np.sum(self.weights * self.weights)
        self.set_bandwidth(bw_method)

    def scotts_factor(self) -> Value:
        """The bandwidth n^(-1 / (d + 4))."""
        return self.neff ** (-1.0 / (self.d + 4))

    def silverman_factor(self) -> Value:
        """The bandwidth (n (d + 2) / 4)^(-1 / (d + 4))."""
        return (self.neff * (self.d + 2.0) / 4.0) ** (-1.0 / (self.d + 4))

    def covariance_factor(self) -> ArrayLike:
        """The bandwidth."""
        return self.factor

    def set_bandwidth(self, bw_method: Bandwidth = None) -> None:
        """Take another bandwidth; None leaves it.

        Raises:
            ArgumentError: it is none of those that the class takes.
        """
        if bw_method is None and hasattr(self, "factor"):
            return
        names = {"scott": self.scotts_factor, "silverman": self.silverman_factor}
        if bw_method is None or (isinstance(bw_method, str) and bw_method in names):
            factor: ArrayLike = names[str(bw_method or "scott")]()
        elif callable(bw_method):
            factor = bw_method(self)
        elif isinstance(bw_method, str) or np.ndim(bw_method):
            write = "'scott', 'silverman', a number, or a function"
            raise ArgumentError(f"gaussian_kde: bw_method={bw_method!r}.", (("write", write),))
        else:
            factor = bw_method
        self._given = (self._given[0], bw_method, self._given[2])
        self.factor = factor
        self._data_covariance = self._spread()
        self.covariance = self._data_covariance * as_operand(factor) ** 2
        self._lower = np.linalg.cholesky(self._data_covariance) * as_operand(factor)

    def _spread(self) -> Value:
        """The covariance of the weighted samples."""
        w = self.weights
        away = self.dataset - np.sum(self.dataset * w, axis=1, keepdims=True)
        return (away * w) @ away.T / (1 - np.sum(w * w))

    @property
    def inv_cov(self) -> Value:
        """The inverse of the covariance of a kernel."""
        return np.linalg.inv(self.covariance)

    @property
    def cho_cov(self) -> Value:
        """The Cholesky factor of the covariance of a kernel."""
        return self._lower

    def _scipys(self) -> PyTree:
        """SciPy's object of the same samples, if nothing in it is traced."""
        traced = has_tracer((self.dataset, self.weights, self.factor))
        return None if traced else plain.gaussian_kde(*self._given)

    def _log_scale(self, lower: Value) -> Value:
        return -np.sum(np.log(np.diagonal(lower))) - 0.5 * self.d * math.log(2 * math.pi)

    def logpdf(self, x: ArrayLike) -> Value:
        """The logarithm of the density at points: numbers, or vectors as columns."""
        scipys = None if has_tracer((x,)) else self._scipys()
        if scipys is not None:
            return scipys.logpdf(x)
        points = inexact(as_operand(x))
        points = np.reshape(points, (1, -1)) if len(points.shape) < 2 else points
        if points.shape[0] != self.d:
            if points.shape != (1, self.d):
                where = f"points have dimension {points.shape[0]}, dataset has dimension {self.d}"
                raise ShapeError(where, user_line())
            points = np.reshape(points, (self.d, 1))
        z = solve_triangular(self._lower, points, lower=True)
        centres = solve_triangular(self._lower, self.dataset, lower=True)
        away = z[:, :, None] - centres[:, None, :]
        logs = -0.5 * np.sum(away * away, axis=0) + np.log(self.weights)
        return sp.logsumexp(logs, axis=1) + self._log_scale(self._lower)

    def evaluate(self, points: ArrayLike) -> Value:
        """The density at points: numbers, or vectors as columns."""
        scipys = None if has_tracer((points,)) else self._scipys()
        return np.exp(self.logpdf(points)) if scipys is None else scipys.evaluate(points)

    __call__ = evaluate
    pdf = evaluate

    def integrate_gaussian(self, mean: ArrayLike, cov: ArrayLike) -> Value:
        """The integral of the density times a normal one.

        Raises:
            ShapeError: the normal density has another dimension.
        """
        middle = np.reshape(inexact(as_operand(mean)), -1)
        spread = inexact(as_operand(cov))
        spread = np.reshape(spread, (1, 1)) if len(spread.shape) < 2 else spread
        if middle.shape != (self.d,) or spread.shape != (self.d, self.d):
            raise ShapeError(f"mean or covariance has not dimension {self.d}.", user_line())
        return self._products(self.dataset - middle[:, None], spread, self.weights)

    def _products(self, away: Value, spread: Value, weights: Value) -> Value:
        """The sum of weighted normal densities of both covariances at differences."""
        lower = np.linalg.cholesky(self.covariance + spread)
        z = solve_triangular(lower, away, lower=True)
        density = np.exp(self._log_scale(lower) - 0.5 * np.sum(z * z, axis=0))
        return np.sum(weights * density)

    def integrate_kde(self, other: gaussian_kde) -> Value:
        """The integral of the product of two such densities.

        Raises:
            ShapeError: the other has another dimension.
        """
        if other.d != self.d:
            raise ShapeError("KDEs are not the same dimensionality", user_line())
        away = self.dataset[:, :, None] - other.dataset[:, None, :]
        weights = self.weights[:, None] * other.weights
        lines = np.reshape(away, (self.d, -1))
        return self._products(lines, other.covariance, np.reshape(weights, -1))

    def integrate_box_1d(self, low: ArrayLike, high: ArrayLike) -> Value:
        """The probability between two numbers.

        Raises:
            ShapeError: the density is of vectors.
        """
        if self.d != 1:
            raise ShapeError("integrate_box_1d() only handles 1D pdfs", user_line())
        width, centres = self._lower[0, 0], self.dataset[0]
        ends = [sp.ndtr((inexact(as_operand(x)) - centres) / width) for x in (high, low)]
        return np.sum(self.weights * (ends[0] - ends[1]))

    def integrate_box(
        self, low_bounds: ArrayLike, high_bounds: ArrayLike, maxpts: int | None = None,
        *, rng: PyTree = None,
    ) -> Value:  # fmt: skip
        """The probability of a box, by SciPy, of plain arrays; traced ones in one dimension.

        Raises:
            UnsupportedNumpyError: something is traced, and there are several dimensions.
        """
        scipys = None if has_tracer((low_bounds, high_bounds)) else self._scipys()
        if scipys is not None:
            return scipys.integrate_box(low_bounds, high_bounds, maxpts, rng=rng)
        if self.d != 1:
            why = "SciPy integrates by random points."
            raise refusal("gaussian_kde.integrate_box", why, "marginal(k).integrate_box_1d(a, b)")
        low, high = [np.reshape(as_operand(x), -1)[0] for x in (low_bounds, high_bounds)]
        return self.integrate_box_1d(low, high)

    def resample(self, size: int | None = None, seed: PyTree = None) -> Value:
        """Random points of the density as columns.

        Arguments:
            size: how many; as many as there are effective samples if None, which must be known.
            seed: a key of `fgrad.random`; of plain samples also SciPy's.

        Raises:
            UnsupportedNumpyError: the samples are traced, and there is no key.
        """
        scipys = None if is_key(seed) else self._scipys()
        if scipys is not None:
            return scipys.resample(size, seed)
        if not is_key(seed):
            why = "its numbers come from a generator with a state."
            raise refusal("gaussian_kde.resample", why, "resample(n, fgrad.random.key(0))")
        first, second = split(seed)
        count = self.n if size is None else size
        chosen = categorical(first, np.log(stop_gradient(self.weights)), shape=(count,))
        moved = self._lower @ normal(second, (self.d, count))
        return np.take(self.dataset, chosen, axis=1) + moved

    def marginal(self, dimensions: int | Sequence[int]) -> gaussian_kde:
        """The density of some of the coordinates.

        Raises:
            ValueError: one of them does not exist, or is told twice.
        """
        dims = np.atleast_1d(dimensions)
        if dims.dtype.kind not in "iu":
            raise ValueError("Elements of `dimensions` must be integers.")
        dims = np.where(dims < 0, dims + self.d, dims)
        if len({*dims.tolist()}) != len(dims) or np.any((dims < 0) | (dims >= self.d)):
            raise ValueError(f"Dimensions {dimensions} are invalid in {self.d} dimensions.")
        return gaussian_kde(self.dataset[dims], self.factor, self.weights)
