"""L4. `np.linalg` of traced arrays: systems, factorisations, eigenvalues; norms are in `norms`."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

import numpy as np

from fgrad.errors import ShapeError
from fgrad.ir.aval import FLOAT32, FLOAT64
from fgrad.numpy.creation import diagonal as diagonal_of
from fgrad.numpy.creation import trace as trace_of
from fgrad.numpy.promote import (
    as_array,
    broadcast_shapes,
    broadcast_to,
    convert,
    normalize_axis,
    promote,
    reshape,
    result_type,
    user_line,
)
from fgrad.numpy.register import implements
from fgrad.ops import linalg as la
from fgrad.ops.matrices import adjoint
from fgrad.ops.shape import permute
from fgrad.trace import Value

INEXACT = "fdFD"


def linear_operands(name: str, *xs: Any) -> list[Value]:
    """Operands of one dtype that LAPACK knows: integers become float64."""
    values = promote([as_array(x) for x in xs])
    dtype = np.dtype(values[0].dtype)
    if dtype.char in INEXACT:
        return values
    if dtype.kind in "biu":
        return [convert(x, FLOAT64) for x in values]
    raise TypeError(f"array type {dtype} is unsupported in linalg")


def matrices(name: str, a: Any, square: bool = False) -> Value:
    """An operand that is a stack of matrices; NumPy's errors if it is not."""
    (x,) = linear_operands(name, a)
    if len(x.shape) < 2:
        raise np.linalg.LinAlgError(
            f"{len(x.shape)}-dimensional array given. Array must be at least two-dimensional"
        )
    if square and x.shape[-1] != x.shape[-2]:
        raise np.linalg.LinAlgError("Last 2 dimensions of the array must be square")
    return x


# --- systems


@implements("linalg.solve")
def solve(a: Any, b: Any) -> Value:
    """x with a x = b; b is one vector if it has one axis, else matrices."""
    x, y = linear_operands("solve", a, b)
    matrices("solve", x, square=True)
    if len(y.shape) == 1:
        column = reshape(y, (*y.shape, 1))
        out = _solve(x, column)
        return reshape(out, out.shape[:-1])
    return _solve(x, y)


def _solve(a: Value, b: Value) -> Value:
    if a.shape[-1] != b.shape[-2]:
        raise ShapeError(f"solve: shapes {a.shape} and {b.shape} do not fit.", user_line())
    lead = broadcast_shapes(a.shape[:-2], b.shape[:-2])
    if len(a.shape) == 2 and lead:
        return _solve_columns(a, b)
    return la.solve(broadcast_to(a, lead + a.shape[-2:]), broadcast_to(b, lead + b.shape[-2:]))


def _solve_columns(a: Value, b: Value) -> Value:
    """One matrix for many right-hand sides: they are columns of one."""
    k = len(b.shape)
    n, columns = b.shape[-2:]
    lead = b.shape[:-2]
    wide = reshape(permute(b, (k - 2, *range(k - 2), k - 1)), (n, math.prod(lead) * columns))
    out = reshape(la.solve(a, wide), (n, *lead, columns))
    return permute(out, (*range(1, k - 1), 0, k - 1))


@implements("linalg.inv")
def inv(a: Any) -> Value:
    """The inverse."""
    return la.inv(matrices("inv", a, square=True))


@implements("linalg.det")
def det(a: Any) -> Value:
    """The determinant; its gradient exists at singular matrices too."""
    return la.det(matrices("det", a, square=True))


@implements("linalg.slogdet")
def slogdet(a: Any) -> Any:
    """The sign and the logarithm of the size of the determinant."""
    return _named("slogdet", la.slogdet(matrices("slogdet", a, square=True)))


@implements("linalg.cholesky")
def cholesky(a: Any, /, *, upper: bool = False) -> Value:
    """The triangular factor of Hermitian matrices, of which one triangle is read."""
    x = matrices("cholesky", a, square=True)
    return adjoint(la.cholesky(adjoint(x))) if upper else la.cholesky(x)


@lru_cache
def _result_kind(name: str) -> Any:
    return type(getattr(np.linalg, name)(np.eye(1)))


def _named(name: str, values: tuple[Any, ...]) -> Any:
    """Several results in the named tuple that NumPy returns them in."""
    return _result_kind(name)(*values)
