"""L7. Distributions of matrices, and Student's and others of vectors, as `scipy.stats` has them.

A symmetric matrix S = L L' enters by its Cholesky factor: log det S = 2 sum log L_ii, and distances
are those of vectors divided by L.  Draws by a key have derivatives in the parameters.
"""

from __future__ import annotations

import math

import numpy as np

from fgrad.errors import ShapeError
from fgrad.numpy.arrange import moveaxis
from fgrad.numpy.promote import as_operand, user_line
from fgrad.random import chisquare, normal, split
from fgrad.scipy import special as sp
from fgrad.scipy.linalg import solve_triangular
from fgrad.scipy.stats.frozen import draws, method
from fgrad.scipy.stats.multivariate import Multivariate
from fgrad.scipy.stats.operands import real_floats
from fgrad.trace import Value
from fgrad.typing import ArrayLike, PyTree

_LOG_TWO, _LOG_PI = math.log(2), math.log(math.pi)
Size = int | tuple[int, ...]


def square(matrix: ArrayLike, dim: int | None, name: str) -> Value:
    """A symmetric matrix from one, from its diagonal, or from the one number of its diagonal.

    Raises:
        ShapeError: it is none of those, or has another size.
    """
    s = real_floats(matrix)
    if len(s.shape) == 0:
        s = s * np.eye(dim or 1)
    elif len(s.shape) == 1:
        s = s[:, None] * np.eye(s.shape[0])
    if len(s.shape) != 2 or s.shape[0] != s.shape[1] or dim not in (None, s.shape[0]):
        raise ShapeError(f"scipy.stats.{name}: a matrix of shape {s.shape}.", user_line())
    return s


def log_det(factor: Value) -> Value:
    """log det(L L')."""
    return 2 * np.sum(np.log(np.diagonal(factor, axis1=-2, axis2=-1)), axis=-1)


def divided(factor: Value, x: Value) -> Value:
    """L^-1 x for matrices x in the last two axes."""
    if len(x.shape) == 2:
        return solve_triangular(factor, x, lower=True)
    lines = np.reshape(moveaxis(x, -2, 0), (x.shape[-2], -1))
    found = np.reshape(
        solve_triangular(factor, lines, lower=True), (x.shape[-2], *x.shape[:-2], x.shape[-1])
    )
    return moveaxis(found, 0, -2)


def _transposed(x: Value) -> Value:
    return moveaxis(x, -1, -2)


def _squeezed(x: Value) -> Value:
    """As SciPy's results, without axes of length 1."""
    return np.reshape(x, tuple([n for n in x.shape if n != 1]))


def _count(size: Size) -> tuple[int, ...]:
    return (size,) if isinstance(size, int) else tuple(size)


def _lower(key: Value, degrees: Value, shape: tuple[int, ...]) -> Value:
    """Lower triangles of normal numbers, with roots of chi^2 numbers in the diagonal."""
    dim = degrees.shape[0]
    first, second = split(key)
    roots = np.sqrt(chisquare(first, degrees, (*shape, dim)))
    below = np.tril(np.ones((dim, dim)), -1)
    return normal(second, (*shape, dim, dim)) * below + roots[..., None] * np.eye(dim)


class Wishart(Multivariate):
    """Wishart's distribution of symmetric matrices, sums of squares of normal vectors."""

    def _points(self, x: ArrayLike, dim: int) -> Value:
        """Matrices in the last two axes; SciPy has them in the first two."""
        value = real_floats(x)
        if len(value.shape) == 1 and dim == 1:
            return value[:, None, None]
        if len(value.shape) < 2:
            value = square(value, dim, self.name)
        if value.shape[:2] != (dim, dim) or len(value.shape) > 3:
            raise ShapeError(f"scipy.stats.{self.name}: x of shape {value.shape}.", user_line())
        return value[None] if len(value.shape) == 2 else moveaxis(value, -1, 0)

    @method
    def logpdf(self, x: ArrayLike, df: ArrayLike, scale: ArrayLike) -> Value:
        """The logarithm of the density.

        Arguments:
            x: a positive definite matrix, or several of them with their number last.
            df: degrees of freedom, more than the size of the matrix less 1.
            scale: a positive definite matrix, its diagonal, or the number in its diagonal.
        """
        s, n = square(scale, None, self.name), as_operand(df)
        dim = s.shape[0]
        points = self._points(x, dim)
        factor, other = np.linalg.cholesky(s), np.linalg.cholesky(points)
        trace = np.sum(divided(factor, other) ** 2, axis=(-2, -1))
        scale_part = n * dim * _LOG_TWO + n * log_det(factor)
        out = 0.5 * ((n - dim - 1) * log_det(other) - trace - scale_part)
        return _squeezed(out - sp.multigammaln(0.5 * n, dim))

    @method
    def pdf(self, x: ArrayLike, df: ArrayLike, scale: ArrayLike) -> Value:
        """The density."""
        return np.exp(self.logpdf(x, df, scale))

    @method
    def mean(self, df: ArrayLike, scale: ArrayLike) -> Value:
        """The mean."""
        return _squeezed(as_operand(df) * square(scale, None, self.name))

    @method
    def mode(self, df: ArrayLike, scale: ArrayLike) -> Value:
        """The matrix of the greatest density, if df is at least its size and 1."""
        s = square(scale, None, self.name)
        return _squeezed((as_operand(df) - s.shape[0] - 1) * s)

    @method
    def var(self, df: ArrayLike, scale: ArrayLike) -> Value:
        """The variances of the elements."""
        s = square(scale, None, self.name)
        diagonal = np.diagonal(s)
        return _squeezed(as_operand(df) * (s * s + diagonal[:, None] * diagonal))

    @method
    def entropy(self, df: ArrayLike, scale: ArrayLike) -> Value:
        """The entropy."""
        s, n = square(scale, None, self.name), as_operand(df)
        dim = s.shape[0]
        halves = np.sum(sp.psi(0.5 * (n - np.arange(dim))))
        scale_part = 0.5 * (dim + 1) * (log_det(np.linalg.cholesky(s)) + dim * _LOG_TWO)
        rest = 0.5 * n * dim - 0.5 * (n - dim - 1) * halves
        return scale_part + sp.multigammaln(0.5 * n, dim) + rest

    @draws
    def rvs(
        self, df: ArrayLike, scale: ArrayLike, size: Size = 1, random_state: PyTree = None
    ) -> Value:
        """Random matrices, by a key as `random_state`."""
        s = square(scale, None, self.name)
        degrees = as_operand(df) - np.arange(s.shape[0])
        mixed = np.linalg.cholesky(s) @ _lower(random_state, degrees, _count(size))
        return _squeezed(mixed @ _transposed(mixed))


class InverseWishart(Wishart):
    """The distribution of inverses of matrices that have Wishart's."""

    @method
    def logpdf(self, x: ArrayLike, df: ArrayLike, scale: ArrayLike) -> Value:
        """The logarithm of the density; the arguments are those of `wishart.logpdf`."""
        s, n = square(scale, None, self.name), as_operand(df)
        dim = s.shape[0]
        other = np.linalg.cholesky(self._points(x, dim))
        factor = np.linalg.cholesky(s)
        wide = np.broadcast_to(factor, other.shape)
        trace = np.sum(np.linalg.solve(other, wide) ** 2, axis=(-2, -1))
        parts = n * log_det(factor) - n * dim * _LOG_TWO - (n + dim + 1) * log_det(other)
        return _squeezed(0.5 * (parts - trace) - sp.multigammaln(0.5 * n, dim))

    @method
    def mean(self, df: ArrayLike, scale: ArrayLike) -> Value:
        """The mean, if df is more than the size and 1."""
        s = square(scale, None, self.name)
        return _squeezed(s / (as_operand(df) - s.shape[0] - 1))

    @method
    def mode(self, df: ArrayLike, scale: ArrayLike) -> Value:
        """The matrix of the greatest density."""
        s = square(scale, None, self.name)
        return _squeezed(s / (as_operand(df) + s.shape[0] + 1))

    @method
    def var(self, df: ArrayLike, scale: ArrayLike) -> Value:
        """The variances of the elements, if df is more than the size and 3."""
        s = square(scale, None, self.name)
        over = as_operand(df) - s.shape[0]
        diagonal = np.diagonal(s)
        outer = diagonal[:, None] * diagonal
        total = (over + 1) * s * s + (over - 1) * outer
        return _squeezed(total / (over * (over - 1) ** 2 * (over - 3)))

    @method
    def entropy(self, df: ArrayLike, scale: ArrayLike) -> Value:
        """The entropy."""
        s, n = square(scale, None, self.name), as_operand(df)
        dim = s.shape[0]
        halves = np.sum(sp.psi(0.5 * (n - dim + np.arange(1, dim + 1))))
        scale_part = 0.5 * (dim + 1) * (log_det(np.linalg.cholesky(s)) - _LOG_TWO)
        rest = 0.5 * n * dim - 0.5 * (n + dim + 1) * halves
        return scale_part + sp.multigammaln(0.5 * n, dim) + rest

    @draws
    def rvs(
        self, df: ArrayLike, scale: ArrayLike, size: Size = 1, random_state: PyTree = None
    ) -> Value:
        """Random matrices, by a key as `random_state`."""
        s = square(scale, None, self.name)
        dim = s.shape[0]
        degrees = as_operand(df) - dim + 1 + np.arange(dim)
        lower = _lower(random_state, degrees, _count(size))
        return _squeezed(_inverse_factor(lower, np.linalg.cholesky(s)))


def _inverse_factor(lower: Value, factor: Value) -> Value:
    """L A^-1 A^-T L'."""
    wide = np.broadcast_to(_transposed(factor), lower.shape)
    half = np.linalg.solve(_transposed(lower), wide)  # A^-T L'
    return _transposed(half) @ half


class _OfMatrices(Multivariate):
    """A distribution of matrices with a spread of the rows and one of the columns."""

    def _standard(
        self, x: ArrayLike | None, mean: ArrayLike | None, rows: ArrayLike, columns: ArrayLike
    ) -> tuple[Value, Value, Value, Value]:
        """x without its mean divided by both factors, the mean, and the factors."""
        middle = None if mean is None else real_floats(mean)
        if middle is not None and len(middle.shape) != 2:
            raise ShapeError(f"scipy.stats.{self.name}: mean {middle.shape}.", user_line())
        shape = (None, None) if middle is None else middle.shape
        left = np.linalg.cholesky(square(rows, shape[0], self.name))
        right = np.linalg.cholesky(square(columns, shape[1], self.name))
        dims = (left.shape[0], right.shape[0])
        middle = np.zeros(dims) if middle is None else middle
        points = middle if x is None else real_floats(x)
        if points.shape[-2:] != dims:
            raise ShapeError(f"scipy.stats.{self.name}: {points.shape}, {dims}.", user_line())
        half = divided(left, points - middle)
        return _transposed(divided(right, _transposed(half))), middle, left, right


class MatrixNormal(_OfMatrices):
    """The normal distribution of matrices."""

    @method
    def logpdf(
        self, X: ArrayLike, mean: ArrayLike | None = None, rowcov: ArrayLike = 1,
        colcov: ArrayLike = 1,
    ) -> Value:  # fmt: skip
        """The logarithm of the density.

        Arguments:
            X: matrices in the last two axes.
            mean: a matrix; zeros if it is not given.
            rowcov, colcov: covariances of the elements of a column, and of a row: matrices,
                diagonals, or numbers.
        """
        z, _, left, right = self._standard(X, mean, rowcov, colcov)
        n, p = z.shape[-2:]
        spread = p * log_det(left) + n * log_det(right)
        distance = np.sum(z * z, axis=(-2, -1))
        return -0.5 * (n * p * (_LOG_TWO + _LOG_PI) + spread + distance)

    @method
    def pdf(
        self, X: ArrayLike, mean: ArrayLike | None = None, rowcov: ArrayLike = 1,
        colcov: ArrayLike = 1,
    ) -> Value:  # fmt: skip
        """The density."""
        return np.exp(self.logpdf(X, mean, rowcov, colcov))

    @method
    def entropy(self, rowcov: ArrayLike = 1, colcov: ArrayLike = 1) -> Value:
        """The entropy."""
        _, mean, left, right = self._standard(None, None, rowcov, colcov)
        n, p = mean.shape
        spread = p * log_det(left) + n * log_det(right)
        return 0.5 * (n * p * (1 + _LOG_TWO + _LOG_PI) + spread)

    @draws
    def rvs(
        self, mean: ArrayLike | None = None, rowcov: ArrayLike = 1, colcov: ArrayLike = 1,
        size: int = 1, random_state: PyTree = None,
    ) -> Value:  # fmt: skip
        """Random matrices, by a key as `random_state`."""
        _, middle, left, right = self._standard(None, mean, rowcov, colcov)
        shape = middle.shape if size == 1 else (size, *middle.shape)
        return middle + left @ normal(random_state, shape) @ right.T


class MatrixT(_OfMatrices):
    """Student's distribution of matrices."""

    @method
    def logpdf(
        self, X: ArrayLike, mean: ArrayLike | None = None, row_spread: ArrayLike = 1,
        col_spread: ArrayLike = 1, df: ArrayLike = 1,
    ) -> Value:  # fmt: skip
        """The logarithm of the density.

        Arguments:
            X, mean: as of `matrix_normal.logpdf`.
            row_spread, col_spread: as its covariances.
            df: degrees of freedom.
        """
        z, _, left, right = self._standard(X, mean, row_spread, col_spread)
        m, n = z.shape[-2:]
        degrees = as_operand(df)
        t = _transposed(z)
        gram = z @ t if m < n else t @ z
        factor = np.linalg.cholesky(gram + np.eye(min(m, n)))
        total = (degrees + m + n - 1) / 2
        scale = sp.multigammaln(total, n) - sp.multigammaln((degrees + n - 1) / 2, n)
        spread = 0.5 * (m * n * _LOG_PI + n * log_det(left) + m * log_det(right))
        return _squeezed(scale - spread - total * log_det(factor))

    @method
    def pdf(
        self, X: ArrayLike, mean: ArrayLike | None = None, row_spread: ArrayLike = 1,
        col_spread: ArrayLike = 1, df: ArrayLike = 1,
    ) -> Value:  # fmt: skip
        """The density."""
        return np.exp(self.logpdf(X, mean, row_spread, col_spread, df))

    @draws
    def rvs(
        self, mean: ArrayLike | None = None, row_spread: ArrayLike = 1, col_spread: ArrayLike = 1,
        df: ArrayLike = 1, size: int = 1, random_state: PyTree = None,
    ) -> Value:  # fmt: skip
        """Random matrices, by a key as `random_state`: normal ones whose covariance of rows has
        the inverse of Wishart's distribution."""
        _, middle, left, right = self._standard(None, mean, row_spread, col_spread)
        m, n = middle.shape
        first, second = split(random_state)
        lower = _lower(first, as_operand(df) + np.arange(m), (size,))
        half = np.linalg.solve(lower, normal(second, (size, m, n)))
        found = middle + left @ half @ right.T
        return found[0] if size == 1 else found


wishart = Wishart("wishart")
invwishart = InverseWishart("invwishart")
matrix_normal = MatrixNormal("matrix_normal")
matrix_t = MatrixT("matrix_t")
