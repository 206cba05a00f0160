"""L4. Sparse matrices whose entries may be traced; the places of the entries are constant.

A product gathers the elements of the vector, and adds what belongs to a row: primitives that every
transform knows. A constant matrix of `scipy.sparse` becomes one of these where it meets a tracer.
"""

from __future__ import annotations

import functools
from collections.abc import Callable

import numpy as np

from fgrad import tree
from fgrad.base.foreign import is_scipy_sparse
from fgrad.errors import ArgumentError, ShapeError, UnsupportedNumpyError, UnsupportedTypeError
from fgrad.numpy.at_indexing import at
from fgrad.numpy.promote import as_array, as_operand, user_line
from fgrad.trace import Tracer, Value
from fgrad.typing import ArrayLike, DTypeLike, PyTree


def _turned(shape: tuple[int, int]) -> tuple[int, int]:
    return shape[1], shape[0]


class Pattern:
    """Where the entries of a sparse matrix lie, by rows; patterns are compared by contents."""

    def __init__(self, indices: np.ndarray, indptr: np.ndarray, shape: tuple[int, int]) -> None:
        self.indices, self.indptr, self.shape = indices, indptr, shape

    @functools.cached_property
    def rows(self) -> np.ndarray:
        """The row of each entry."""
        return np.repeat(np.arange(self.shape[0]), np.diff(self.indptr))

    @functools.cached_property
    def turned(self) -> tuple[np.ndarray, Pattern]:
        """Which entry comes where in the transpose, and the pattern of it."""
        order = np.argsort(self.indices, kind="stable")
        return order, by_rows(self.indices[order], self.rows[order], _turned(self.shape))

    @functools.cached_property
    def _hash(self) -> int:
        return hash((self.shape, self.indices.tobytes(), self.indptr.tobytes()))

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        return (
            isinstance(other, Pattern)
            and self.shape == other.shape
            and np.array_equal(self.indptr, other.indptr)
            and np.array_equal(self.indices, other.indices)
        )

    def __reduce__(self) -> tuple[type[Pattern], tuple[object, ...]]:
        return Pattern, (self.indices, self.indptr, self.shape)


def by_rows(rows: np.ndarray, columns: np.ndarray, shape: tuple[int, int]) -> Pattern:
    """The pattern of entries that are sorted by their rows."""
    indptr = np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=shape[0]))])
    return Pattern(columns, indptr.astype(np.int64), shape)


class CsrMatrix:
    """A sparse matrix by rows, as `fgrad.sparse.csr` makes it; a tree with the leaf `data`.

    Example:
        >>> import fgrad, numpy as np
        >>> a = fgrad.sparse.csr(np.array([1.0, 2.0]), [1, 0], [0, 1, 2], (2, 2))
        >>> a
        <CsrMatrix (2, 2) of float64, 2 entries>
        >>> a @ np.array([3.0, 4.0])
        array([4., 6.])
    """

    __array_ufunc__ = None  # NumPy's arrays leave operators to it
    ndim = 2

    def __init__(self, data: Value, pattern: Pattern) -> None:
        self.data, self.pattern = data, pattern

    def __repr__(self) -> str:
        return f"<CsrMatrix {self.shape} of {self.dtype}, {self.nnz} entries>"

    @property
    def shape(self) -> tuple[int, int]:
        """The numbers of rows and of columns."""
        return self.pattern.shape

    @property
    def dtype(self) -> np.dtype:
        """The dtype of the entries."""
        return self.data.dtype

    @property
    def nnz(self) -> int:
        """How many entries there are."""
        return len(self.pattern.indices)

    @property
    def indices(self) -> np.ndarray:
        """The column of each entry."""
        return self.pattern.indices

    @property
    def indptr(self) -> np.ndarray:
        """Where the entries of each row begin, and the end of the last."""
        return self.pattern.indptr

    @property
    def T(self) -> CsrMatrix:
        """The transpose."""
        order, pattern = self.pattern.turned
        return CsrMatrix(self.data[order], pattern)

    def transpose(self) -> CsrMatrix:
        """The transpose."""
        return self.T

    def astype(self, dtype: DTypeLike) -> CsrMatrix:
        """The matrix with entries of another dtype."""
        return CsrMatrix(self.data.astype(dtype), self.pattern)

    def conj(self) -> CsrMatrix:
        """The matrix with conjugate entries."""
        return CsrMatrix(np.conj(self.data), self.pattern)

    def with_data(self, data: Value) -> CsrMatrix:
        """The matrix with other entries at the same places."""
        return CsrMatrix(data, self.pattern)

    def __matmul__(self, x: PyTree) -> PyTree:
        if isinstance(x, CsrMatrix) or is_scipy_sparse(x):
            return _product_of(self, _sparse(x, "@"))
        return _product(self.data, self.pattern.rows, self.indices, self.shape, x)

    def __rmatmul__(self, x: PyTree) -> PyTree:
        if is_scipy_sparse(x):
            return _product_of(_sparse(x, "@"), self)
        x = _dense(x)
        turned = _turned(self.shape)
        return _product(self.data, self.indices, self.pattern.rows, turned, x.T).T

    def dot(self, x: PyTree) -> Value:
        """The product with a vector or with the columns of a matrix."""
        return self @ x

    def __mul__(self, x: PyTree) -> CsrMatrix:
        return CsrMatrix(self.data * _number(x, "*"), self.pattern)

    __rmul__ = __mul__

    def __truediv__(self, x: PyTree) -> CsrMatrix:
        return CsrMatrix(self.data / _number(x, "/"), self.pattern)

    def __neg__(self) -> CsrMatrix:
        return CsrMatrix(-self.data, self.pattern)

    def __add__(self, other: PyTree) -> CsrMatrix:
        return _sum(self, _sparse(other, "+"))

    __radd__ = __add__

    def __sub__(self, other: PyTree) -> CsrMatrix:
        return _sum(self, -_sparse(other, "-"))

    def __rsub__(self, other: PyTree) -> CsrMatrix:
        return _sum(_sparse(other, "-"), -self)

    def toarray(self) -> Value:
        """The dense matrix."""
        start = np.zeros(self.shape, self.dtype)
        return at(start)[self.pattern.rows, self.indices].add(self.data)

    todense = toarray

    def summed(self) -> CsrMatrix:
        """The matrix with one entry for each place that has some."""
        places = self.pattern.rows * np.int64(self.shape[1]) + self.indices
        return gathered(places, self.data, self.shape)

    def diagonal(self) -> Value:
        """The entries whose row is their column, as a vector."""
        which = np.flatnonzero(self.pattern.rows == self.indices)
        start = np.zeros(min(self.shape), self.dtype)
        return at(start)[self.indices[which]].add(self.data[which])

    def sum(self, axis: int | None = None) -> Value:
        """The sum of all entries, or the sums along an axis."""
        if axis is None:
            return np.sum(self.data)
        if axis not in (-2, -1, 0, 1):
            raise ArgumentError(f"CsrMatrix.sum: axis={axis!r}, but there are two axes.")
        places = self.indices if axis in (0, -2) else self.pattern.rows
        kept = self.shape[1 if axis in (0, -2) else 0]
        total = np.zeros(kept, np.sum(np.zeros(0, self.dtype)).dtype)
        return at(total)[places].add(self.data.astype(total.dtype))

    def __getattr__(self, name: str) -> PyTree:
        return _method_of(self, name)

    def __dir__(self) -> list[str]:
        return [*object.__dir__(self), *_METHODS, *_PROPERTIES]


def _flatten(x: CsrMatrix) -> tuple[tuple[Value], Pattern]:
    return (x.data,), x.pattern


def _unflatten(pattern: Pattern, items: tuple[Value]) -> CsrMatrix:
    return CsrMatrix(items[0], pattern)


tree.register_node(CsrMatrix, _flatten, _unflatten)


def constant_matrix(x: PyTree) -> CsrMatrix:
    """A matrix of `scipy.sparse`; several entries of one place are added by SciPy."""
    if x.ndim != 2:
        raise ShapeError(
            f"A sparse array of shape {x.shape} does not take traced arrays.",
            (*user_line(), ("write", "a sparse matrix, of two axes, or A.toarray()")),
        )
    rows: PyTree = x.tocsr()
    return CsrMatrix(
        rows.data, Pattern(rows.indices, rows.indptr, (int(x.shape[0]), int(x.shape[1])))
    )


def _dense(x: PyTree) -> Value:
    """A vector or a matrix."""
    if isinstance(x, CsrMatrix) or is_scipy_sparse(x):
        raise UnsupportedTypeError(
            "The product of two sparse matrices has no traced form.",
            (*user_line(), ("write", "A @ (B @ x)    products with vectors, or A @ B.toarray()")),
        )
    found = as_array(as_operand(x))
    if len(found.shape) not in (1, 2):
        raise ShapeError(
            f"A sparse matrix times an array of shape {found.shape}.",
            (*user_line(), ("write", "A @ x    of vectors or matrices x, np.reshape before it")),
        )
    return found


def _product(
    data: Value, rows: np.ndarray, columns: np.ndarray, shape: tuple[int, int], x: PyTree
) -> Value:
    """The sums over entries of the same row of data * x[column]."""
    x = _dense(x)
    if x.shape[0] != shape[1]:
        raise ShapeError(
            f"A sparse matrix of shape {shape} times an array of shape {x.shape}.", user_line()
        )
    if data.dtype.kind == "b" and x.dtype.kind == "b":  # whether there is a pair of True
        return np.not_equal(_product(data.astype(np.int64), rows, columns, shape, x), 0)
    terms = (data if len(x.shape) == 1 else data[:, None]) * x[columns]
    return at(np.zeros((shape[0], *x.shape[1:]), terms.dtype))[rows].add(terms)


def _number(x: PyTree, operator: str) -> Value:
    """A number that scales a sparse matrix."""
    if isinstance(x, CsrMatrix) or is_scipy_sparse(x) or np.shape(x) != ():
        raise UnsupportedTypeError(
            f"CsrMatrix {operator} takes a number.",
            (*user_line(), ("write", f"A @ x for products, A.toarray() {operator} x by elements")),
        )
    return as_operand(x)


def _sparse(x: PyTree, operator: str) -> CsrMatrix:
    if isinstance(x, CsrMatrix):
        return x
    if not is_scipy_sparse(x):
        raise UnsupportedTypeError(
            f"CsrMatrix {operator} takes a sparse matrix.",
            (*user_line(), ("write", f"A.toarray() {operator} x    the sum is dense")),
        )
    return constant_matrix(x)


def _sum(a: CsrMatrix, b: CsrMatrix) -> CsrMatrix:
    """The sum: its entries lie where those of one of the two do."""
    if a.shape != b.shape:
        raise ShapeError(f"Sparse matrices of shapes {a.shape} and {b.shape}.", user_line())
    if a.pattern == b.pattern:
        return CsrMatrix(a.data + b.data, a.pattern)
    both = [m.pattern.rows * np.int64(m.shape[1]) + m.indices for m in (a, b)]
    return gathered(np.concatenate(both), np.concatenate([a.data, b.data]), a.shape)


def _product_of(a: CsrMatrix, b: CsrMatrix) -> CsrMatrix:
    """The product of two: each entry of `a` times the entries of `b` in the row that it meets."""
    if a.shape[1] != b.shape[0]:
        raise ShapeError(f"Sparse matrices of shapes {a.shape} @ {b.shape}.", user_line())
    starts, counts = b.indptr[a.indices], np.diff(b.indptr)[a.indices]
    left = np.repeat(np.arange(a.nnz), counts)
    first = np.repeat(starts - np.cumsum(counts) + counts, counts)
    right = first + np.arange(len(left))
    shape = a.shape[0], b.shape[1]
    places = a.pattern.rows[left] * np.int64(shape[1]) + b.indices[right]
    return gathered(places, a.data[left] * b.data[right], shape)


def gathered(places: np.ndarray, data: Value, shape: tuple[int, int]) -> CsrMatrix:
    """The matrix whose entries of one place, a number of row and column, are added."""
    each, which = np.unique(places, return_inverse=True)
    rows, columns = np.divmod(each, max(1, shape[1]))
    total = at(np.zeros(len(each), data.dtype))[which.reshape(-1)].add(data)
    return CsrMatrix(total, by_rows(rows, columns, shape))


# --- further methods, under SciPy's names: functions with f(0) = 0 are of the entries alone

_OF_ENTRIES = (
    "arcsin", "arcsinh", "arctan", "arctanh", "ceil", "deg2rad", "expm1", "floor", "log1p",
    "rad2deg", "rint", "sign", "sin", "sinh", "sqrt", "tan", "tanh", "trunc",
)  # fmt: skip
_SCIPYS = frozenset(
    {
        "argmax", "argmin", "check_format", "eliminate_zeros", "getformat", "maximum", "maxprint",
        "minimum", "nanmax", "nanmin", "nonzero", "prune", "reshape", "resize", "setdiag", "tobsr",
        "tocoo", "tocsc", "todia", "todok", "tolil", "has_canonical_format", "has_sorted_indices",
        "sort_indices", "sorted_indices", "sum_duplicates", "count_nonzero",
    }
)  # fmt: skip


def _of_entries(name: str) -> Callable[[CsrMatrix], CsrMatrix]:
    def method(a: CsrMatrix) -> CsrMatrix:
        once = a.summed()
        return once.with_data(getattr(np, name)(once.data))

    return method


def _power(a: CsrMatrix, n: ArrayLike, dtype: object = None) -> CsrMatrix:
    """Each entry to a positive power."""
    if np.shape(n) != () or not np.greater(n, 0):
        rows = (*user_line(), ("write", "a number above zero, so that zeros stay zero"))
        raise ArgumentError(f"CsrMatrix.power: n={n!r}.", rows)
    once = a.summed()
    found = once.with_data(once.data**n)
    return found if dtype is None else found.astype(dtype)  # type: ignore[arg-type]


def _multiply(a: CsrMatrix, other: PyTree) -> CsrMatrix:
    """The product by elements with a number, an array that broadcasts, or a sparse matrix."""
    if isinstance(other, CsrMatrix) or is_scipy_sparse(other):
        return _both(a, other if isinstance(other, CsrMatrix) else constant_matrix(other))
    x = as_operand(other)
    if np.shape(x) == ():
        return a.with_data(a.data * x)
    try:
        fits = np.broadcast_shapes(np.shape(x), a.shape) == a.shape
    except ValueError:
        fits = False
    if not fits:
        raise ShapeError(
            f"A sparse matrix of shape {a.shape} times an array of shape {np.shape(x)}.",
            user_line(),
        )
    return a.with_data(a.data * np.broadcast_to(x, a.shape)[a.pattern.rows, a.indices])


def _places(a: CsrMatrix) -> np.ndarray:
    return a.pattern.rows * np.int64(a.shape[1]) + a.indices


def _both(a: CsrMatrix, b: CsrMatrix) -> CsrMatrix:
    """The entries that both have."""
    if a.shape != b.shape:
        raise ShapeError(f"Sparse matrices of shapes {a.shape} and {b.shape}.", user_line())
    a, b = a.summed(), b.summed()
    places, left, right = np.intersect1d(
        _places(a), _places(b), assume_unique=True, return_indices=True
    )
    return gathered(places, a.data[left] * b.data[right], a.shape)


def _mean(a: CsrMatrix, axis: int | None = None) -> Value:
    """The mean of all elements, zeros too, or the means along an axis."""
    total = (a if a.dtype.kind in "fc" else a.astype(np.float64)).sum(axis)
    count = a.shape[0] * a.shape[1] if axis is None else a.shape[axis]
    return total / count


def _trace(a: CsrMatrix, offset: int = 0) -> Value:
    """The sum of the entries of a diagonal."""
    which = np.flatnonzero(a.indices - a.pattern.rows == offset)
    return np.sum(a.data[which])


def _extreme(name: str) -> Callable[..., Value]:
    def method(a: CsrMatrix, axis: None = None) -> Value:
        if axis is not None:
            raise _refused(f"{name} with axis")
        once = a.summed()
        full = once.nnz == a.shape[0] * a.shape[1]
        parts = [once.data] if full else [once.data, np.zeros(1, a.dtype)]
        return getattr(np, name)(np.concatenate(parts))

    return method


def _copy(a: CsrMatrix, order: object = None, copy: bool = False) -> CsrMatrix:
    """The same: nothing is written into a traced matrix."""
    return a


def _conjugate(a: CsrMatrix, copy: bool = True) -> CsrMatrix:
    return a.conj()


def _asformat(a: CsrMatrix, format: str | None, copy: bool = False) -> CsrMatrix:
    """The matrix, which is by rows."""
    if format not in (None, "csr"):
        raise _refused(f"asformat({format!r})")
    return a


def _refused(name: str) -> UnsupportedNumpyError:
    return UnsupportedNumpyError(
        f"CsrMatrix.{name} does not take traced arrays.",
        (
            *user_line(),
            ("why", "where the entries of a traced matrix lie is constant, by rows."),
            ("write", "A.toarray()                   a dense array"),
            ("or", "A.data, A.indices, A.indptr   the entries and their places"),
        ),
    )


_METHODS: dict[str, Callable[..., PyTree]] = {
    **{name: _of_entries(name) for name in _OF_ENTRIES},
    "asformat": _asformat, "conjugate": _conjugate, "copy": _copy, "max": _extreme("max"),
    "mean": _mean,
    "min": _extreme("min"), "multiply": _multiply, "power": _power, "tocsr": _copy,
    "trace": _trace,
}  # fmt: skip
_PROPERTIES: dict[str, Callable[[CsrMatrix], object]] = {
    "format": lambda a: "csr",
    "imag": lambda a: a.with_data(np.imag(a.data)),
    "mT": lambda a: a.T,  # SciPy's have it since 1.18
    "real": lambda a: a.with_data(np.real(a.data)),
    "size": lambda a: a.nnz,
}


def _method_of(a: CsrMatrix, name: str) -> PyTree:
    """A method or property of SciPy's sparse matrices.

    Raises:
        UnsupportedNumpyError: it has no traced form.
        AttributeError: SciPy has none of this name either.
    """
    if name in _PROPERTIES:
        return _PROPERTIES[name](a)
    if name in _METHODS:
        return functools.partial(_METHODS[name], a)
    if name in _SCIPYS:
        raise _refused(name)
    raise AttributeError(f"'CsrMatrix' object has no attribute {name!r}")


def csr(data: PyTree, indices: PyTree, indptr: PyTree, shape: tuple[int, int]) -> CsrMatrix:
    """A sparse matrix by rows, whose entries may be traced; where they lie is constant.

    Arguments:
        data: the entries, a vector.
        indices: the column of each.
        indptr: where the entries of each row begin, and the end of the last.
        shape: the numbers of rows and of columns.

    Returns:
        A matrix with `A @ x`, `x @ A`, `A.T`, sums and differences with sparse matrices, products
        and quotients with numbers, `toarray()`, `diagonal()`, `sum(axis)`. It is a tree with the
        leaf `data`; several entries of one place are added, as in SciPy.

    Raises:
        ShapeError: the three vectors do not fit together.
        ArgumentError: a column is outside of the matrix, or the pattern is traced.

    Example:
        >>> import fgrad, numpy as np
        >>> def energy(data):
        ...     a = fgrad.sparse.csr(data, [0, 1, 1], [0, 2, 3], (2, 2))
        ...     return np.sum(a @ np.array([1.0, 2.0]))
        >>> fgrad.grad(energy)(np.array([3.0, 4.0, 5.0]))
        array([1., 2., 2.])
    """
    if isinstance(indices, Tracer) or isinstance(indptr, Tracer):
        raise ArgumentError(
            "sparse.csr: the pattern is traced.",
            (
                *user_line(),
                ("why", "indices and indptr decide how large the result's parts are."),
                ("write", "indices and indptr as plain arrays, or static_argnums of jit"),
            ),
        )
    pattern = Pattern(
        _integers("indices", indices), _integers("indptr", indptr), (int(shape[0]), int(shape[1]))
    )
    entries = as_array(as_operand(data))
    _check(entries, pattern)
    return CsrMatrix(entries, pattern)


def _integers(name: str, x: PyTree) -> np.ndarray:
    found = np.array(x)
    if found.ndim != 1 or (found.size and found.dtype.kind not in "iu"):
        raise ShapeError(f"sparse.csr: {name} is a vector of integers.", user_line())
    return found.astype(np.int64)


def _check(data: Value, pattern: Pattern) -> None:
    rows, columns = pattern.shape
    indices, indptr = pattern.indices, pattern.indptr
    if data.shape != indices.shape or len(indptr) != rows + 1:
        raise ShapeError(
            f"sparse.csr: data of shape {data.shape}, {len(indices)} indices and {len(indptr)} "
            f"places of rows for a matrix of shape {pattern.shape}.",
            user_line(),
        )
    if indptr[0] != 0 or indptr[-1] != len(indices) or np.any(np.diff(indptr) < 0):
        raise ArgumentError(
            f"sparse.csr: indptr ascends from 0 to {len(indices)}, the number of entries.",
            user_line(),
        )
    if np.any((indices < 0) | (indices >= columns)):
        raise ArgumentError(f"sparse.csr: columns lie in 0, ..., {columns - 1}.", user_line())
