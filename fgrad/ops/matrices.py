"""L3. Functions of matrices in the last two axes, from which the rules of linear algebra are made.

All leading axes are a batch; nothing broadcasts.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache

import numpy as np

from fgrad.errors import DtypeError, ShapeError
from fgrad.ir.aval import INT64, Aval
from fgrad.ir.primitive import Primitive
from fgrad.ops.complex import conj, is_complex, real, to_complex
from fgrad.ops.diagonals import diagonal, on_diagonal
from fgrad.ops.dot import dot_general
from fgrad.ops.elementwise import add, convert, eq, ge, lit, mul, select
from fgrad.ops.families import batch_first
from fgrad.ops.shape import broadcast, concatenate, iota, move_axis, permute, reshape, slice_
from fgrad.trace import Value, bind, innermost

LAPACK_DTYPES = "fdFD"
SMALL = 64  # rows of matrices whose triangles are remembered


# --- products and transposes


def transposed(a: Value) -> Value:
    """The transpose, without conjugation."""
    n = len(a.shape)
    return permute(a, (*range(n - 2), n - 1, n - 2))


def adjoint(a: Value) -> Value:
    """The conjugate transpose."""
    return conj(transposed(a))


def matmul(a: Value, b: Value) -> Value:
    """The matrix product."""
    n = len(a.shape)
    lead = tuple(range(n - 2))
    return dot_general(a, b, ((n - 1,), (n - 2,)), (lead, lead))


def per_column(x: Value, m: int) -> Value:
    """The (..., m, n) matrix all of whose rows are `x`."""
    n = len(x.shape)
    shape = (*x.shape[:-1], m, x.shape[-1])
    return broadcast(x, shape, (*range(n - 1), n))


def per_row(x: Value, n: int) -> Value:
    """The (..., m, n) matrix all of whose columns are `x`."""
    return broadcast(x, (*x.shape, n), tuple(range(len(x.shape))))


def per_matrix(x: Value, shape: tuple[int, ...]) -> Value:
    """One number for each matrix, repeated over it."""
    return broadcast(x, tuple(shape), tuple(range(len(shape) - 2)))


def scale_columns(a: Value, x: Value) -> Value:
    """a diag(x)."""
    return mul(a, per_column(x, a.shape[-2]))


# --- triangles and diagonals


def _stacked(mask: Value, shape: tuple[int, ...]) -> Value:
    k = len(shape) - 2
    return broadcast(mask, shape, (k, k + 1)) if k else mask


@lru_cache(maxsize=64)
def _small_triangle(rows: int, columns: int, k: int, dtype: type) -> np.ndarray:
    mask = np.tri(rows, columns, k, dtype)
    mask.flags.writeable = False
    return mask


def _below(plane: tuple[int, ...], k: int) -> Value:
    """Where an element is on diagonal k or below; computed where a program is made, for which it is
    no constant."""
    builder = innermost()
    if builder is not None and not builder.eager:
        return ge(add(iota(plane, INT64, 0), np.int64(k)), iota(plane, INT64, 1))
    rows, columns = plane
    return (_small_triangle if rows <= SMALL else np.tri)(rows, columns, k, bool)


def lower_triangle(a: Value, k: int = 0) -> Value:
    """The lower triangle, up to diagonal k."""
    return select(_stacked(_below(a.shape[-2:], k), a.shape), a, lit(a, 0))


def upper_triangle(a: Value, k: int = 0) -> Value:
    """The upper triangle, from diagonal k."""
    return select(_stacked(_below(a.shape[-2:], k - 1), a.shape), lit(a, 0), a)


def identity_like(a: Value) -> Value:
    """Identity matrices of the shape and dtype of a square `a`."""
    plane = a.shape[-2:]
    one = convert(eq(iota(plane, INT64, 0), iota(plane, INT64, 1)), a.dtype)
    return _stacked(one, a.shape)


def hermitian(a: Value, low: bool = True) -> Value:
    """The Hermitian matrix that has one triangle of `a`: what LAPACK reads."""
    strict = lower_triangle(a, -1) if low else upper_triangle(a, 1)
    return add(add(strict, adjoint(strict)), on_diagonal(real_part(diagonal(a))))


def pull_hermitian(ct: Value, low: bool = True) -> Value:
    """The transpose of `hermitian`: a triangle of ct + ct^H, and the real part of the diagonal."""
    both = add(ct, adjoint(ct))
    line = on_diagonal(real_part(diagonal(ct)))
    return add(lower_triangle(both, -1) if low else upper_triangle(both, 1), line)


def real_part(x: Value) -> Value:
    """The real part, in the dtype of `x`."""
    return to_complex(real(x)) if is_complex(x) else x


# --- blocks


def block(a: Value, top: int, bottom: int, left: int, right: int) -> Value:
    """a[..., top:bottom, left:right]."""
    lead = a.shape[:-2]
    return slice_(a, (*[0] * len(lead), top, left), (*lead, bottom, right))


def beside(*parts: Value) -> Value:
    """Matrices joined into wider ones; those without columns are left out."""
    kept = [p for p in parts if p.shape[-1]] or list(parts[:1])
    return concatenate(kept, len(parts[0].shape) - 1)


def above(*parts: Value) -> Value:
    """Matrices joined into higher ones; those without rows are left out."""
    kept = [p for p in parts if p.shape[-2]] or list(parts[:1])
    return concatenate(kept, len(parts[0].shape) - 2)


# --- rules


def require_finite(a: Value) -> None:
    """LAPACK's search for singular values of infinite numbers does not end."""
    if not np.isfinite(a).all():
        raise np.linalg.LinAlgError("SVD did not converge")


def check_matrix(prim: Primitive, a: Aval, square: bool = False) -> None:
    """Raise unless an operand is a stack of matrices of a dtype that LAPACK knows."""
    if a.dtype.char not in LAPACK_DTYPES:
        raise DtypeError(f"{prim.name} does not take {a.dtype} operands.")
    if a.ndim < 2 or (square and a.shape[-1] != a.shape[-2]):
        kind = "a square matrix" if square else "a matrix"
        raise ShapeError(f"{prim.name}: shape {a.shape} is not that of {kind}.")


def check_equal(prim: Primitive, *parts: object) -> None:
    """Raise unless shapes, or dtypes, agree."""
    if any(p != parts[0] for p in parts):
        raise ShapeError(f"{prim.name}: {' and '.join(map(str, parts))} do not fit together.")


def batch_leading(prim: Primitive) -> Callable[..., tuple[Value, int | list[int]]]:
    """Set the batching rule of a primitive all of whose operands have the same leading axes."""

    def batch(
        size: int, operands: Sequence[Value], dims: Sequence[int | None], **params: object
    ) -> tuple[Value, int | list[int]]:
        moved = [batch_first(size, x, d) for x, d in zip(operands, dims, strict=True)]
        out = bind(prim, *moved, **params)
        return out, [0] * len(out) if prim.multiple else 0

    return prim.batch(batch)


def batch_solution(prim: Primitive) -> Callable[..., tuple[Value, int | list[int]]]:
    """Set the batching rule of a primitive whose last operand is a right-hand side: where no other
    operand is batched, the examples become further columns of it."""

    def batch(
        size: int, operands: Sequence[Value], dims: Sequence[int], **params: object
    ) -> tuple[Value, int]:
        *shared, b = operands
        if any(d is not None for d in dims[:-1]):
            moved = [batch_first(size, x, d) for x, d in zip(operands, dims, strict=True)]
            return bind(prim, *moved, **params), 0
        n = len(b.shape)
        b = move_axis(b, dims[-1], n - 2)
        wide = reshape(b, (*b.shape[:-2], size * b.shape[-1]))
        return reshape(bind(prim, *shared, wide, **params), b.shape), n - 2

    return prim.batch(batch)


def each_matrix(
    function: Callable[..., tuple[np.ndarray, ...]],
    shapes: Sequence[tuple[tuple[int, ...], np.dtype]],
    *stacks: np.ndarray,
) -> tuple[np.ndarray, ...]:
    """Apply a function of matrices to each lane of stacks.

    Arguments:
        function: takes one lane of each stack and returns a tuple of arrays.
        shapes: (shape, dtype) of each result of one lane.
    """
    lead = stacks[0].shape[:-2]
    if not lead and all(x.size for x in stacks):
        return function(*stacks)
    outs = tuple([np.zeros((*lead, *shape), dtype) for shape, dtype in shapes])
    if all(x.size for x in stacks):
        for lane in np.ndindex(*lead):
            results = function(*[x[(*lane, ...)] for x in stacks])
            for out, result in zip(outs, results, strict=True):
                out[lane] = result
    return outs
