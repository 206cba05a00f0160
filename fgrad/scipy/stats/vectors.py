"""L7. Further distributions of vectors: Student's, directions, counts, a mean with its variance."""

from __future__ import annotations

import math

import numpy as np

from fgrad.errors import DtypeError, ShapeError
from fgrad.numpy.promote import as_array, as_operand, broadcast, inexact, promote, user_line
from fgrad.ops.elementwise import lit
from fgrad.random import chisquare, gamma, normal, split, uniform
from fgrad.scipy import special as sp
from fgrad.scipy._either import refusal
from fgrad.scipy.stats.frozen import draws, method
from fgrad.scipy.stats.matrices import divided, log_det, square
from fgrad.scipy.stats.multivariate import Multivariate, multivariate_normal
from fgrad.scipy.stats.operands import real_floats
from fgrad.trace import Tracer, Value
from fgrad.typing import ArrayLike, PyTree

Size = int | tuple[int, ...] | None
_LOG_TWO_PI = math.log(2 * math.pi)


def _is_infinite(df: ArrayLike) -> bool:
    return not isinstance(df, Tracer) and np.ndim(df) == 0 and bool(np.isinf(df))  # type: ignore[call-overload]


class MultivariateT(Multivariate):
    """Student's distribution of vectors."""

    def _parameters(self, loc: ArrayLike | None, shape: ArrayLike | None) -> tuple[Value, Value]:
        """The location, and the factor of the shape."""
        if loc is None:
            spread = square(1.0 if shape is None else shape, None, self.name)
            return np.zeros(spread.shape[0]), np.linalg.cholesky(spread)
        middle = np.ravel(real_floats(loc))
        spread = square(1.0 if shape is None else shape, middle.shape[0], self.name)
        return middle, np.linalg.cholesky(spread)

    @method
    def logpdf(
        self, x: ArrayLike, loc: ArrayLike | None = None, shape: ArrayLike | None = 1,
        df: ArrayLike = 1,
    ) -> Value:  # fmt: skip
        """The logarithm of the density.

        Arguments:
            x: points in the last axis.
            loc: a vector; zeros if it is not given.
            shape: a positive definite matrix, its diagonal, or the number in its diagonal.
            df: degrees of freedom.
        """
        if _is_infinite(df):
            return multivariate_normal.logpdf(x, loc, 1 if shape is None else shape)
        middle, factor = self._parameters(loc, shape)
        dim, n = middle.shape[0], as_operand(df)
        points = real_floats(x)
        if len(points.shape) < 2:
            points = np.reshape(points, (-1, 1) if dim == 1 else (1, -1))
        if points.shape[-1] != dim:
            raise ShapeError(f"scipy.stats.{self.name}: {points.shape}, {dim}.", user_line())
        lines = np.reshape(points - middle, (-1, dim))
        squares = np.sum(divided(factor, lines.T) ** 2, axis=0)
        total = 0.5 * (n + dim)
        scale = sp.gammaln(total) - sp.gammaln(0.5 * n) - 0.5 * dim * np.log(n * math.pi)
        out = scale - 0.5 * log_det(factor) - total * np.log1p(squares / n)
        return np.reshape(out, tuple([k for k in points.shape[:-1] if k != 1]))

    @method
    def pdf(
        self, x: ArrayLike, loc: ArrayLike | None = None, shape: ArrayLike | None = 1,
        df: ArrayLike = 1,
    ) -> Value:  # fmt: skip
        """The density."""
        return np.exp(self.logpdf(x, loc, shape, df))

    @method
    def entropy(
        self, loc: ArrayLike | None = None, shape: ArrayLike | None = 1, df: ArrayLike = 1
    ) -> Value:
        """The entropy."""
        middle, factor = self._parameters(loc, shape)
        dim, n = middle.shape[0], as_operand(df)
        total, half = 0.5 * (n + dim), 0.5 * n
        scale = sp.gammaln(half) - sp.gammaln(total) + 0.5 * dim * np.log(n * math.pi)
        return scale + total * (sp.psi(total) - sp.psi(half)) + 0.5 * log_det(factor)

    @draws
    def rvs(
        self, loc: ArrayLike | None = None, shape: ArrayLike | None = 1, df: ArrayLike = 1,
        size: Size = 1, random_state: PyTree = None,
    ) -> Value:  # fmt: skip
        """Random vectors, by a key as `random_state`."""
        middle, factor = self._parameters(loc, shape)
        first, second = split(random_state)
        wanted = _shape(size)
        z = normal(first, (*wanted, middle.shape[0])) @ factor.T
        ratio = np.sqrt(chisquare(second, df, wanted) / df)
        out = middle + z / ratio[..., None]
        return np.reshape(out, tuple([k for k in out.shape if k != 1]))


def _shape(size: Size) -> tuple[int, ...]:
    return () if size is None else (size,) if isinstance(size, int) else tuple(size)


class DirichletMultinomial(Multivariate):
    """Counts whose probabilities have Dirichlet's distribution."""

    def _parameters(self, alpha: ArrayLike, n: ArrayLike) -> tuple[Value, Value, Value]:
        a = real_floats(alpha)
        return a, np.sum(a, axis=-1), as_array(as_operand(n))

    @method
    def logpmf(self, x: ArrayLike, alpha: ArrayLike, n: ArrayLike) -> Value:
        """The logarithm of the probability of counts; -inf if their sum is not n.

        Arguments:
            x: counts in the last axis.
            alpha: positive concentrations in the last axis.
            n: the number of trials.
        """
        a, total, trials = self._parameters(alpha, n)
        k = real_floats(x)
        each = sp.gammaln(k + a) - sp.gammaln(a) - sp.gammaln(k + 1)
        scale = sp.gammaln(total) + sp.gammaln(trials + 1) - sp.gammaln(trials + total)
        out = scale + np.sum(each, axis=-1)
        return np.where(np.sum(k, axis=-1) == trials, out, -math.inf)

    @method
    def pmf(self, x: ArrayLike, alpha: ArrayLike, n: ArrayLike) -> Value:
        """The probability of counts."""
        return np.exp(self.logpmf(x, alpha, n))

    @method
    def mean(self, alpha: ArrayLike, n: ArrayLike) -> Value:
        """The mean counts."""
        a, total, trials = self._parameters(alpha, n)
        return trials[..., None] * a / total[..., None]

    @method
    def var(self, alpha: ArrayLike, n: ArrayLike) -> Value:
        """The variances of the counts."""
        a, total, trials = self._parameters(alpha, n)
        s, t = total[..., None], trials[..., None]
        return t * a / s * (1 - a / s) * (t + s) / (1 + s)

    @method
    def cov(self, alpha: ArrayLike, n: ArrayLike) -> Value:
        """The covariances of the counts."""
        a, total, trials = self._parameters(alpha, n)
        s, t = total[..., None, None], trials[..., None, None]
        share = a / total[..., None]
        one = np.eye(a.shape[-1]) * share[..., None]
        return t * (one - share[..., None] * share[..., None, :]) * (t + s) / (1 + s)


class MultivariateHypergeom(Multivariate):
    """Counts of kinds among draws without replacement."""

    @method
    def logpmf(self, x: ArrayLike, m: ArrayLike, n: ArrayLike) -> Value:
        """The logarithm of the probability of counts.

        Arguments:
            x: counts in the last axis, integers.
            m: how many there are of each kind, integers in the last axis.
            n: how many are drawn, integers.

        Raises:
            DtypeError: they are no integers.
        """
        values = [as_array(as_operand(v)) for v in (x, m, n)]
        if any([v.dtype.kind not in "iu" for v in values]):
            raise DtypeError(f"scipy.stats.{self.name} takes integers.", user_line())
        k, kinds, drawn = values
        k, kinds = np.broadcast_arrays(k, kinds)
        total = np.sum(kinds, axis=-1)
        valid = np.all(kinds >= 0, axis=-1) & (drawn >= 0) & (drawn <= total)
        possible = np.all((k >= 0) & (k <= kinds), axis=-1) & (np.sum(k, axis=-1) == drawn)
        k, drawn = np.clip(k, 0, np.maximum(kinds, 0)), np.clip(drawn, 0, np.maximum(total, 0))
        out = np.sum(_choose(np.maximum(kinds, 0), k), axis=-1)
        out = out - _choose(np.maximum(total, 0), drawn)
        return np.where(valid, np.where(possible, out, -math.inf), math.nan)

    @method
    def pmf(self, x: ArrayLike, m: ArrayLike, n: ArrayLike) -> Value:
        """The probability of counts."""
        return np.exp(self.logpmf(x, m, n))


def _choose(n: Value, k: Value) -> Value:
    n, k = n * 1.0, k * 1.0
    return sp.gammaln(n + 1) - sp.gammaln(k + 1) - sp.gammaln(n - k + 1)


class VonMisesFisher(Multivariate):
    """The distribution of directions about one."""

    def _log_scale(self, dim: int, kappa: Value) -> Value:
        order = lit(kappa, 0.5 * dim - 1)
        bessel = np.log(sp.ive(order, kappa)) + kappa
        return (0.5 * dim - 1) * np.log(kappa) - 0.5 * dim * _LOG_TWO_PI - bessel

    def _parameters(self, mu: ArrayLike | None, kappa: ArrayLike) -> tuple[Value, Value]:
        if mu is None or np.ndim(mu) != 1 or np.shape(mu)[0] < 2:
            raise ShapeError(f"scipy.stats.{self.name}: mu is a unit vector.", user_line())
        return real_floats(mu), real_floats(kappa)

    @method
    def logpdf(self, x: ArrayLike, mu: ArrayLike | None = None, kappa: ArrayLike = 1) -> Value:
        """The logarithm of the density.

        Arguments:
            x: unit vectors in the last axis.
            mu: the middle, a unit vector.
            kappa: the concentration.
        """
        middle, k = self._parameters(mu, kappa)
        points = real_floats(x)
        if points.shape[-1] != middle.shape[0]:
            raise ShapeError(f"scipy.stats.{self.name}: x of {points.shape}.", user_line())
        return self._log_scale(middle.shape[0], k) + k * np.sum(points * middle, axis=-1)

    @method
    def pdf(self, x: ArrayLike, mu: ArrayLike | None = None, kappa: ArrayLike = 1) -> Value:
        """The density."""
        return np.exp(self.logpdf(x, mu, kappa))

    @method
    def entropy(self, mu: ArrayLike | None = None, kappa: ArrayLike = 1) -> Value:
        """The entropy."""
        middle, k = self._parameters(mu, kappa)
        dim = middle.shape[0]
        ratio = sp.ive(lit(k, 0.5 * dim), k) / sp.ive(lit(k, 0.5 * dim - 1), k)
        return -self._log_scale(dim, k) - k * ratio

    @draws
    def rvs(
        self, mu: ArrayLike | None = None, kappa: ArrayLike = 1, size: Size = 1,
        random_state: PyTree = None,
    ) -> Value:  # fmt: skip
        """Random directions in space, by a key as `random_state`."""
        middle, k = self._parameters(mu, kappa)
        if middle.shape[0] != 3:
            why = "SciPy's way to draw them rejects numbers."
            raise refusal("vonmises_fisher.rvs by a key, but in space", why, "mu of length 3")
        first, second = split(random_state)
        wanted = _shape(size)
        u = uniform(first, wanted)
        along = 1 + np.log(u + (1 - u) * np.exp(-2 * k)) / k
        across = np.sqrt(np.maximum(1 - along * along, 0.0))
        turn = 2 * math.pi * uniform(second, wanted)
        return _about(middle, along, across * np.cos(turn), across * np.sin(turn))


def _about(middle: Value, z: Value, x: Value, y: Value) -> Value:
    """z m + x e + y f, for the unit vectors e, f that Duff and others' formula gives for m."""
    a, b, c = middle[0], middle[1], middle[2]
    sign = np.where(c >= 0, 1.0, -1.0)
    s = -1 / (sign + c)
    t = a * b * s
    e = np.stack([1 + sign * a * a * s, sign * t, -sign * a])
    f = np.stack([t, sign + b * b * s, -b])
    return z[..., None] * middle + x[..., None] * e + y[..., None] * f


class NormalInverseGamma(Multivariate):
    """The distribution of a mean and its variance."""

    def _operands(self, *values: ArrayLike) -> tuple[list[Value], Value]:
        """Values with one dtype and shape, and whether lmbda, a and b are positive."""
        found = broadcast([inexact(v) for v in promote([as_operand(v) for v in values])])
        lmbda, a, b = found[-3:]
        return found, (lmbda > 0) & (a > 0) & (b > 0)

    @method
    def logpdf(
        self, x: ArrayLike, s2: ArrayLike, mu: ArrayLike = 0, lmbda: ArrayLike = 1,
        a: ArrayLike = 1, b: ArrayLike = 1,
    ) -> Value:  # fmt: skip
        """The logarithm of the density.

        Arguments:
            x, s2: the mean and the variance.
            mu, lmbda, a, b: the parameters.
        """
        (x, s2, mu, lmbda, a, b), valid = self._operands(x, s2, mu, lmbda, a, b)
        valid, inner = valid & ~np.isnan(x + s2), valid & (s2 > 0)
        s2, lmbda, a, b = [np.where(inner, v, lit(v, 1)) for v in (s2, lmbda, a, b)]
        out = 0.5 * (np.log(lmbda) - _LOG_TWO_PI - np.log(s2)) + a * np.log(b) - sp.gammaln(a)
        out = out - (a + 1) * np.log(s2) - (2 * b + lmbda * (x - mu) ** 2) / (2 * s2)
        return np.where(valid, np.where(inner, out, lit(out, -math.inf)), lit(out, math.nan))

    @method
    def pdf(
        self, x: ArrayLike, s2: ArrayLike, mu: ArrayLike = 0, lmbda: ArrayLike = 1,
        a: ArrayLike = 1, b: ArrayLike = 1,
    ) -> Value:  # fmt: skip
        """The density."""
        return np.exp(self.logpdf(x, s2, mu, lmbda, a, b))

    @method
    def mean(
        self, mu: ArrayLike = 0, lmbda: ArrayLike = 1, a: ArrayLike = 1, b: ArrayLike = 1
    ) -> tuple[Value, Value]:
        """The means of both."""
        (mu, _, a, b), valid = self._operands(mu, lmbda, a, b)
        known = valid & (a > 1)
        over = np.where(known, a - 1, lit(a, 1))
        return np.where(known, mu, lit(mu, math.nan)), np.where(known, b / over, lit(b, math.nan))

    @method
    def var(
        self, mu: ArrayLike = 0, lmbda: ArrayLike = 1, a: ArrayLike = 1, b: ArrayLike = 1
    ) -> tuple[Value, Value]:
        """The variances of both."""
        (_, lmbda, a, b), valid = self._operands(mu, lmbda, a, b)
        one, two = valid & (a > 1), valid & (a > 2)
        over = np.where(one, a - 1, lit(a, 1))
        more = np.where(two, a - 2, lit(a, 1))
        nan = lit(a, math.nan)
        of_mean = np.where(one, b / (over * lmbda), nan)
        return of_mean, np.where(two, b * b / (over * over * more), nan)

    @draws
    def rvs(
        self, mu: ArrayLike = 0, lmbda: ArrayLike = 1, a: ArrayLike = 1, b: ArrayLike = 1,
        size: Size = None, random_state: PyTree = None,
    ) -> tuple[Value, Value]:  # fmt: skip
        """Random means and variances, by a key as `random_state`."""
        (mu, lmbda, a, b), _ = self._operands(mu, lmbda, a, b)
        wanted = mu.shape if size is None else _shape(size)
        first, second = split(random_state)
        s2 = b / gamma(first, a, wanted)
        return mu + np.sqrt(s2 / lmbda) * normal(second, wanted), s2


multivariate_t = MultivariateT("multivariate_t")
dirichlet_multinomial = DirichletMultinomial("dirichlet_multinomial")
multivariate_hypergeom = MultivariateHypergeom("multivariate_hypergeom")
vonmises_fisher = VonMisesFisher("vonmises_fisher")
normal_inverse_gamma = NormalInverseGamma("normal_inverse_gamma")
