"""L7. Multivariate distributions: the normal, Dirichlet's, the multinomial."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from fgrad.base.lazy_import import lazy_module
from fgrad.numpy.dispatch import has_tracer
from fgrad.numpy.promote import as_operand, inexact
from fgrad.scipy import special as sp
from fgrad.scipy.linalg import solve_triangular
from fgrad.trace import Value
from fgrad.typing import ArrayLike

plain = lazy_module("scipy.stats")


class _Family:
    """A family by SciPy's name: its other methods are SciPy's own."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __getattr__(self, method: str) -> Any:
        if method.startswith("_"):
            raise AttributeError(method)
        return getattr(getattr(plain, self.name), method)


class MultivariateNormal(_Family):
    """The normal distribution of vectors."""

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
        x, cov = inexact(as_operand(x)), inexact(as_operand(cov))
        known = mean if mean is not None else (cov if len(cov.shape) else x)
        size = np.shape(known)[-1] if np.shape(known) else 1
        x = _points(x, size)
        mean = np.zeros(size) if mean is None else inexact(as_operand(mean))
        if len(cov.shape) < 2:
            cov = cov * np.eye(size) if size > 1 or not cov.shape else np.reshape(cov, (1, 1))
        factor = np.linalg.cholesky(as_operand(cov))
        centered = np.reshape(x - mean, (-1, size))
        white = solve_triangular(factor, centered.T, lower=True)
        square = np.reshape(np.sum(white * white, axis=0), x.shape[:-1])
        volume = 2 * np.sum(np.log(np.diagonal(factor)))
        return -0.5 * (size * math.log(2 * math.pi) + volume + square)

    def pdf(
        self, x: ArrayLike, mean: ArrayLike | None = None, cov: ArrayLike = 1, **kwargs: object
    ) -> Value:
        """The density."""
        return np.exp(self.logpdf(x, mean, cov, **kwargs))


def _points(x: Value, size: int) -> Value:
    """Points in the last axis, as SciPy reads arrays of rank 0 and 1."""
    if len(x.shape) == 0:
        return np.reshape(x, (1,))
    if len(x.shape) == 1 and size == 1:
        return np.reshape(x, (-1, 1))
    return x


class Dirichlet(_Family):
    """Dirichlet's distribution of probabilities."""

    def logpdf(self, x: ArrayLike, alpha: ArrayLike) -> Value:
        """The logarithm of the density of probabilities in the first axis of x.

        Arguments:
            x: probabilities that sum to 1, or all of them but the last.
            alpha: positive concentrations.
        """
        if not has_tracer((x, alpha)):
            return plain.dirichlet.logpdf(x, alpha)
        x, alpha = inexact(as_operand(x)), inexact(as_operand(alpha))
        if x.shape[0] == alpha.shape[0] - 1:
            x = np.concatenate([x, 1 - np.sum(x, axis=0, keepdims=True)])
        powers = np.reshape(alpha - 1, (-1, *[1] * (len(x.shape) - 1)))
        norm = np.sum(sp.gammaln(alpha)) - sp.gammaln(np.sum(alpha))
        return np.sum(sp.xlogy(np.broadcast_to(powers, x.shape), x), axis=0) - norm

    def pdf(self, x: ArrayLike, alpha: ArrayLike) -> Value:
        """The density."""
        return np.exp(self.logpdf(x, alpha))


class Multinomial(_Family):
    """The multinomial distribution of counts."""

    def logpmf(self, x: ArrayLike, n: ArrayLike, p: ArrayLike) -> Value:
        """The logarithm of the probability of counts in the last axis of x, of n trials."""
        if not has_tracer((x, n, p)):
            return plain.multinomial.logpmf(x, n, p)
        x, n, p = inexact(as_operand(x)), inexact(as_operand(n)), inexact(as_operand(p))
        p = np.concatenate([p[..., :-1], 1 - np.sum(p[..., :-1], axis=-1, keepdims=True)], -1)
        possible = (np.sum(x, axis=-1) == n) & np.all((x >= 0) & (x == np.floor(x)), axis=-1)
        mass = sp.gammaln(n + 1) + np.sum(sp.xlogy(x, p) - sp.gammaln(x + 1), axis=-1)
        return np.where(possible, mass, -math.inf)

    def pmf(self, x: ArrayLike, n: ArrayLike, p: ArrayLike) -> Value:
        """The probability."""
        return np.exp(self.logpmf(x, n, p))


multivariate_normal = MultivariateNormal("multivariate_normal")
dirichlet = Dirichlet("dirichlet")
multinomial = Multinomial("multinomial")
