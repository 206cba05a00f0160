"""L7. Linear operators of traced functions, and what SciPy's solvers take for them on the host.

    op = LinearOperator((n, n), lambda x: p * x)     p may be traced; the adjoint is derived
    op @ x, op.T @ y, 2.0 * op + other, op**2

A function needs no `rmatvec`: the transpose is that of the traced function.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

import numpy as np

from fgrad.base.foreign import is_scipy_sparse
from fgrad.base.installed import at_least
from fgrad.base.lazy_import import lazy_module
from fgrad.base.named_tuple import NamedTuple
from fgrad.base.source import warn_user
from fgrad.compile.jit.jitted import jit
from fgrad.errors import ArgumentError, ShapeError
from fgrad.numpy.promote import as_operand, convert, user_line
from fgrad.numpy.sparse_matrices import CsrMatrix, Pattern, constant_matrix
from fgrad.ops.complex import conj
from fgrad.ops.elementwise import stop_gradient
from fgrad.trace import Value
from fgrad.tracing.capturing import user_form
from fgrad.transforms.core.linear import linear_transpose
from fgrad.transforms.custom.implicit import closure_convert
from fgrad.transforms.vmap import vmap
from fgrad.typing import DTypeLike, PyTree

plain = lazy_module("scipy.sparse.linalg")
scipy = lazy_module("scipy")
scipy_sparse = lazy_module("scipy.sparse")

Product: TypeAlias = Callable[[Value], Value]


class LinearOperator:
    """A matrix that is known by its products with vectors, as `scipy.sparse.linalg.LinearOperator`.

    Arguments:
        shape: the numbers of rows and of columns.
        matvec: a linear function of vectors, of NumPy operations; it may close over traced arrays.
        rmatvec: the product with the adjoint; that of the traced function if None.
        matmat, rmatmat: products with the columns of a matrix; column by column if None.
        dtype: that of the products; derived if None.

    A class of one's own has `_matvec`, and calls `super().__init__(dtype, shape)`.

    Raises:
        ShapeError: a product with an array of another shape.

    Example:
        >>> import numpy as np, fgrad
        >>> def f(p):
        ...     op = LinearOperator((2, 2), lambda x: np.stack([p * x[1], x[0]]))
        ...     return np.sum(op.T @ (op @ np.array([1.0, 2.0])))
        >>> float(f(3.0)), float(fgrad.grad(f)(3.0))
        (19.0, 12.0)
    """

    __array_ufunc__ = None  # NumPy's arrays leave operators to it
    ndim = 2
    shape: tuple[int, int]

    def __new__(cls, *args: PyTree, **kwargs: PyTree) -> PyTree:
        return object.__new__(_OfFunctions if cls is LinearOperator else cls)

    def __init__(self, *args: PyTree, **kwargs: PyTree) -> None:
        self._begin(*args, **kwargs)

    def _begin(self, dtype: DTypeLike | None, shape: Sequence[int]) -> None:
        if len(shape) != 2:
            raise ShapeError(f"LinearOperator of shape {tuple(shape)}.", user_line())
        self.shape = int(shape[0]), int(shape[1])
        self._dtype = None if dtype is None else np.dtype(dtype)

    def __repr__(self) -> str:
        return f"<LinearOperator {self.shape}>"

    @property
    def dtype(self) -> np.dtype:
        """The dtype of the products with real vectors."""
        if self._dtype is None:
            self._dtype = np.dtype(self._matvec(np.zeros(self.shape[1])).dtype)
        return self._dtype

    def _matvec(self, x: Value) -> Value:
        return self.matmat(x[:, None])[:, 0]

    def _rmatvec(self, y: Value) -> Value:
        dtype = np.result_type(self.dtype, y.dtype)
        like = np.zeros(self.shape[1], dtype)
        back = linear_transpose(lambda x: self._matvec(x), like)
        return conj(back(conj(convert(y, dtype)))[0])

    def _applied(self, name: str, x: PyTree, rows: int, size: int) -> Value:
        given = as_operand(x)
        if np.shape(given) not in ((size,), (size, 1)):
            raise ShapeError(
                f"LinearOperator of shape {self.shape} times an array of shape {np.shape(given)}.",
                user_line(),
            )
        if len(given.shape) == 2 and at_least(scipy, 1, 18):
            text = (  # SciPy's words
                f"Calling `{name}` on 'column vectors' of shape `({size}, 1)` was deprecated in "
                "SciPy 1.18.0 and will no longer be possible in SciPy 1.20.0. Please call "
                f"`{name.replace('vec', 'mat')}` instead for identical behaviour."
            )
            warn_user(text, FutureWarning)
        product = self._matvec if name == "matvec" else self._rmatvec
        return np.reshape(product(np.reshape(given, -1)), (rows, *given.shape[1:]))

    def matvec(self, x: PyTree) -> Value:
        """The product with a vector, or one column."""
        return self._applied("matvec", x, *self.shape)

    def rmatvec(self, x: PyTree) -> Value:
        """The product of the adjoint with a vector, or one column."""
        return self._applied("rmatvec", x, self.shape[1], self.shape[0])

    def matmat(self, X: PyTree) -> Value:
        """The product with the columns of a matrix."""
        return vmap(self.matvec, in_axes=1, out_axes=1)(as_operand(X))

    def rmatmat(self, X: PyTree) -> Value:
        """The product of the adjoint with the columns of a matrix."""
        return vmap(self.rmatvec, in_axes=1, out_axes=1)(as_operand(X))

    def dot(self, x: PyTree) -> PyTree:
        """The product with a number, a vector, the columns of a matrix, or another operator."""
        if isinstance(x, LinearOperator):
            return _product_of(self, x)
        if np.ndim(x) == 0:
            return _scaled(self, x)
        return self.matvec(x) if np.ndim(x) == 1 else self.matmat(x)

    def __call__(self, x: PyTree) -> PyTree:
        return self.dot(x)

    def __matmul__(self, x: PyTree) -> PyTree:
        if not isinstance(x, LinearOperator) and np.ndim(x) == 0:
            raise ArgumentError("LinearOperator @ number.", (("write", "op * number"),))
        return self.dot(x)

    def __mul__(self, x: PyTree) -> PyTree:
        return self.dot(x)

    def __rmul__(self, x: PyTree) -> PyTree:
        if np.ndim(x) == 0:
            return _scaled(self, x)
        raise ArgumentError("An array times a LinearOperator.", (("write", "op.T @ x"),))

    __rmatmul__ = __rmul__

    def __truediv__(self, x: PyTree) -> LinearOperator:
        return _scaled(self, 1.0 / as_operand(x))

    def __neg__(self) -> LinearOperator:
        return _scaled(self, -1)

    def __add__(self, other: PyTree) -> LinearOperator:
        return _sum_of(self, aslinearoperator(other))

    def __sub__(self, other: PyTree) -> LinearOperator:
        return _sum_of(self, -aslinearoperator(other))

    def __pow__(self, power: int) -> LinearOperator:
        if power < 0 or int(power) != power:
            raise ArgumentError(f"LinearOperator ** {power!r}.", (("write", "a power 0, 1, ..."),))

        def repeated(product: Product, x: Value) -> Value:
            for _ in range(power):
                x = product(x)
            return x

        return LinearOperator(
            self.shape, lambda x: repeated(self.matvec, x), lambda y: repeated(self.rmatvec, y)
        )

    def adjoint(self) -> LinearOperator:
        """The operator with `matvec` and `rmatvec` exchanged."""
        return LinearOperator(
            self.shape[::-1], self.rmatvec, self.matvec, self.rmatmat, self._dtype, self.matmat
        )

    def transpose(self) -> LinearOperator:
        """The transpose, which is not conjugate."""
        return LinearOperator(
            self.shape[::-1],
            lambda y: conj(self.rmatvec(conj(y))),
            lambda x: conj(self.matvec(conj(x))),
            dtype=self._dtype,
        )

    H = property(adjoint)
    T = property(transpose)


class _OfFunctions(LinearOperator):
    def __init__(
        self,
        shape: Sequence[int],
        matvec: Product,
        rmatvec: Product | None = None,
        matmat: Product | None = None,
        dtype: DTypeLike | None = None,
        rmatmat: Product | None = None,
    ) -> None:
        self._begin(dtype, shape)
        self.given = matvec, rmatvec, matmat, rmatmat

    def _matvec(self, x: Value) -> Value:
        return as_operand(user_form(self.given[0])(x))

    def _rmatvec(self, y: Value) -> Value:
        own = self.given[1]
        return super()._rmatvec(y) if own is None else as_operand(user_form(own)(y))

    def matmat(self, X: PyTree) -> Value:
        own = self.given[2]
        return super().matmat(X) if own is None else user_form(own)(X)

    def rmatmat(self, X: PyTree) -> Value:
        own = self.given[3]
        return super().rmatmat(X) if own is None else user_form(own)(X)


class OfMatrix(LinearOperator):
    """A matrix, dense or sparse, as an operator."""

    def __init__(self, matrix: PyTree) -> None:
        self._begin(matrix.dtype, matrix.shape)
        self.matrix = matrix

    def _matvec(self, x: Value) -> Value:
        return self.matrix @ x

    def _rmatvec(self, y: Value) -> Value:
        return self.adjoint().matrix @ y

    def matmat(self, X: PyTree) -> Value:
        return self.matrix @ as_operand(X)

    def rmatmat(self, X: PyTree) -> Value:
        return self.adjoint().matrix @ as_operand(X)

    def adjoint(self) -> OfMatrix:
        return OfMatrix(conj_of(self.matrix).T)

    def transpose(self) -> OfMatrix:
        return OfMatrix(self.matrix.T)

    H = property(adjoint)
    T = property(transpose)


def conj_of(matrix: PyTree) -> PyTree:
    """A matrix with conjugate entries."""
    return matrix.conj() if isinstance(matrix, CsrMatrix) else conj(matrix)


def _checked(a: LinearOperator, b: LinearOperator, fit: bool, sign: str) -> None:
    if not fit:
        raise ShapeError(f"LinearOperators of shapes {a.shape} {sign} {b.shape}.", user_line())


def _product_of(a: LinearOperator, b: LinearOperator) -> LinearOperator:
    _checked(a, b, a.shape[1] == b.shape[0], "@")
    return LinearOperator(
        (a.shape[0], b.shape[1]),
        lambda x: a.matvec(b.matvec(x)),
        lambda y: b.rmatvec(a.rmatvec(y)),
    )


def _sum_of(a: LinearOperator, b: LinearOperator) -> LinearOperator:
    _checked(a, b, a.shape == b.shape, "+")
    return LinearOperator(
        a.shape, lambda x: a.matvec(x) + b.matvec(x), lambda y: a.rmatvec(y) + b.rmatvec(y)
    )


def _scaled(a: LinearOperator, number: PyTree) -> LinearOperator:
    by = as_operand(number)
    return LinearOperator(a.shape, lambda x: by * a.matvec(x), lambda y: conj(by) * a.rmatvec(y))


def aslinearoperator(A: PyTree) -> LinearOperator:
    """A matrix as an operator, as `scipy.sparse.linalg.aslinearoperator`.

    Arguments:
        A: an array, a sparse matrix of SciPy or of `fgrad.sparse.csr`, or an operator.

    Raises:
        ShapeError: an array of more than two axes.

    Example:
        >>> import numpy as np
        >>> aslinearoperator(np.array([[1.0, 2.0], [3.0, 4.0]])).rmatvec(np.array([1.0, 1.0]))
        array([4., 6.])
    """
    if isinstance(A, LinearOperator):
        return A
    if isinstance(A, CsrMatrix) or is_scipy_sparse(A):
        return OfMatrix(A if isinstance(A, CsrMatrix) else constant_matrix(A))
    if hasattr(A, "shape") and hasattr(A, "matvec"):
        return _of_scipy(A)
    matrix = np.atleast_2d(as_operand(A))
    if len(matrix.shape) != 2:
        raise ShapeError(f"aslinearoperator of an array of shape {matrix.shape}.", user_line())
    return OfMatrix(matrix)


def _of_scipy(a: PyTree) -> LinearOperator:
    """An operator of SciPy, whose products make plain arrays: by what they are made of."""
    if hasattr(a, "A") and not hasattr(a, "args"):  # of a matrix
        return aslinearoperator(a.A)
    product = a._matvec if hasattr(a, "_matvec") else a.matvec
    return LinearOperator(a.shape, product, dtype=getattr(a, "dtype", None))


class HostForm(NamedTuple):
    """A matrix for SciPy's code: the values that it depends on, and how it is made of them."""

    values: list[Value]
    made: Callable[[Sequence[np.ndarray]], PyTree]


def host_form(op: LinearOperator, dtype: np.dtype, adjoint: bool = True) -> HostForm:
    """What SciPy's code takes for an operator, when the program runs.

    Arguments:
        dtype: that of the vectors.
        adjoint: whether products with the adjoint are needed.
    """
    if isinstance(op, OfMatrix):
        return _of_matrix(op.matrix)
    rows, columns = op.shape
    forward, given = closure_convert(op.matvec, np.zeros(columns, dtype))
    back, more = forward, given[:0]
    if adjoint:
        back, more = closure_convert(op.rmatvec, np.zeros(rows, dtype))
    n, forward, back = len(given), jit(forward), jit(back)

    def made(values: Sequence[np.ndarray]) -> PyTree:
        return plain.LinearOperator(
            op.shape,
            lambda x: forward(np.reshape(x, -1).astype(dtype), *values[:n]),
            rmatvec=lambda y: back(np.reshape(y, -1).astype(dtype), *values[n:]),
            dtype=dtype,
        )

    return HostForm([stop_gradient(as_operand(v)) for v in (*given, *more)], made)


def _of_matrix(matrix: PyTree) -> HostForm:
    if not isinstance(matrix, CsrMatrix):
        return HostForm([stop_gradient(matrix)], lambda values: values[0])
    pattern = matrix.pattern
    return HostForm([stop_gradient(matrix.data)], lambda values: as_scipy(pattern, values[0]))


def as_scipy(pattern: Pattern, data: np.ndarray) -> PyTree:
    """A matrix of `scipy.sparse`."""
    return scipy_sparse.csr_array((data, pattern.indices, pattern.indptr), pattern.shape)
