"""L7. Multivariate distributions: the normal, Dirichlet's, the multinomial."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from fgrad.base.lazy_import import lazy_module
from fgrad.errors import ShapeError
from fgrad.numpy.dispatch import has_tracer
from fgrad.numpy.promote import as_operand, user_line
from fgrad.scipy import special as sp
from fgrad.scipy._either import plain_only
from fgrad.scipy.linalg import solve_triangular
from fgrad.scipy.stats.frozen import Frozen
from fgrad.scipy.stats.operands import real_floats
from fgrad.trace import Value
from fgrad.typing import ArrayLike, PyTree

plain = lazy_module("scipy.stats")


class Multivariate:
    """A distribution of `scipy.stats`; methods that are not defined here are SciPy's own."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.__module__ = __name__.rpartition(".")[0]

    def __repr__(self) -> str:
        return f"<distribution {self.name}>"

    def __getattr__(self, method: str) -> Any:
        """The methods that have no traced form: SciPy's own, and a card for traced arrays."""
        if method.startswith("_"):
            raise AttributeError(method)
        target = getattr(getattr(plain, self.name), method)
        what = f"scipy.stats.{self.name}.{method}"
        return plain_only(target, what, f"{self.name}.logpdf or .rvs by a key")

    def __call__(self, *args: PyTree, **kwargs: PyTree) -> Frozen:
        """The distribution with these parameters; its methods take the points alone."""
        return Frozen(self, args, kwargs)

    def __reduce__(self) -> str:
        return self.name  # of the package


class MultivariateNormal(Multivariate):
    """The multivariate normal distribution."""

    def logpdf(
        self, x: ArrayLike, mean: ArrayLike | None = None, cov: ArrayLike = 1, **kwargs: object
    ) -> Value:
        """The logarithm of the density.

        Arguments:
            x: points in the last axis.
            mean: a vector; zeros if it is not given.
            cov: a positive definite matrix, a vector of variances, or one variance for all.

        Example:
            >>> import fgrad
            >>> fgrad.grad(lambda m: multivariate_normal.logpdf(np.ones(2), m))(np.zeros(2))
            array([1., 1.])
        """
        if not has_tracer((x, mean, cov)):
            return plain.multivariate_normal.logpdf(x, mean, cov, **kwargs)
        x, cov = real_floats(x), real_floats(cov)
        dim = _dimension(x, mean, cov)
        x = _points(x, dim)
        mean = np.zeros(dim) if mean is None else real_floats(mean)
        if len(cov.shape) < 2:
            cov = cov * np.eye(dim) if dim > 1 or not cov.shape else np.reshape(cov, (1, 1))
        factor = np.linalg.cholesky(as_operand(cov))
        centered = np.reshape(x - mean, (-1, dim))
        whitened = solve_triangular(factor, centered.T, lower=True)
        shape = tuple([n for n in x.shape[:-1] if n != 1])  # as in SciPy
        squared_distance = np.reshape(np.sum(whitened * whitened, axis=0), shape)
        log_det = 2 * np.sum(np.log(np.diagonal(factor)))
        return -0.5 * (dim * math.log(2 * math.pi) + log_det + squared_distance)

    def pdf(
        self, x: ArrayLike, mean: ArrayLike | None = None, cov: ArrayLike = 1, **kwargs: object
    ) -> Value:
        """The density."""
        return np.exp(self.logpdf(x, mean, cov, **kwargs))


def _dimension(x: Value, mean: ArrayLike | None, cov: Value) -> int:
    """The length of one point: that of `mean`, else of `cov` if it has axes, else of `x`."""
    shape = np.shape(mean) if mean is not None else cov.shape or x.shape
    return shape[-1] if shape else 1


def _points(x: Value, dim: int) -> Value:
    """`x` with points of length `dim` in its last axis; a vector is one point, or for `dim` 1 many,
    as in SciPy."""
    if len(x.shape) == 0:
        return np.reshape(x, (1,))
    if len(x.shape) == 1 and dim == 1:
        return np.reshape(x, (-1, 1))
    return x


class Dirichlet(Multivariate):
    """Dirichlet's distribution of probabilities."""

    def logpdf(self, x: ArrayLike, alpha: ArrayLike) -> Value:
        """The logarithm of the density of probabilities in the first axis of x.

        Arguments:
            x: probabilities that sum to 1, or all of them but the last.
            alpha: positive concentrations.
        """
        if not has_tracer((x, alpha)):
            return plain.dirichlet.logpdf(x, alpha)
        x, alpha = real_floats(x), real_floats(alpha)
        if len(alpha.shape) != 1 or not x.shape or alpha.shape[0] - x.shape[0] not in (0, 1):
            what = f"scipy.stats.dirichlet: {x.shape} probabilities, {alpha.shape} concentrations."
            raise ShapeError(what, user_line())
        if x.shape[0] == alpha.shape[0] - 1:
            x = np.concatenate([x, 1 - np.sum(x, axis=0, keepdims=True)])
        exponents = np.reshape(alpha - 1, (-1, *[1] * (len(x.shape) - 1)))
        log_beta = np.sum(sp.gammaln(alpha)) - sp.gammaln(np.sum(alpha))
        return np.sum(sp.xlogy(np.broadcast_to(exponents, x.shape), x), axis=0) - log_beta

    def pdf(self, x: ArrayLike, alpha: ArrayLike) -> Value:
        """The density."""
        return np.exp(self.logpdf(x, alpha))


class Multinomial(Multivariate):
    """The multinomial distribution of counts."""

    def logpmf(self, x: ArrayLike, n: ArrayLike, p: ArrayLike) -> Value:
        """The logarithm of the probability of counts.

        Arguments:
            x: counts in the last axis.
            n: the number of trials.
            p: probabilities in the last axis; the last one is replaced by what is missing to 1.
        """
        if not has_tracer((x, n, p)):
            return plain.multinomial.logpmf(x, n, p)
        x, n, p = real_floats(x), real_floats(n), real_floats(p)
        p = np.concatenate([p[..., :-1], 1 - np.sum(p[..., :-1], axis=-1, keepdims=True)], -1)
        possible = (np.sum(x, axis=-1) == n) & np.all((x >= 0) & (x == np.floor(x)), axis=-1)
        log_mass = sp.gammaln(n + 1) + np.sum(sp.xlogy(x, p) - sp.gammaln(x + 1), axis=-1)
        return np.where(possible, log_mass, -math.inf)

    def pmf(self, x: ArrayLike, n: ArrayLike, p: ArrayLike) -> Value:
        """The probability."""
        return np.exp(self.logpmf(x, n, p))


multivariate_normal = MultivariateNormal("multivariate_normal")
dirichlet = Dirichlet("dirichlet")
multinomial = Multinomial("multinomial")
