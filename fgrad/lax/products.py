"""L7. Products of arrays by the names of `jax.lax`, with the axes named by number.

`precision` is accepted for JAX's sake: products are exact to rounding in the dtype of the operands.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np

from fgrad.base.keywords import also_takes
from fgrad.errors import ShapeError
from fgrad.lax import loops
from fgrad.lax.whole import places
from fgrad.numpy.promote import as_array, promote, user_line
from fgrad.ops import dot as dots
from fgrad.trace import Value
from fgrad.typing import ArrayLike, DTypeLike

Axes = Sequence[int]
DotDimensionNumbers: TypeAlias = "tuple[tuple[Axes, Axes], tuple[Axes, Axes]]"


def _two(lhs: ArrayLike, rhs: ArrayLike, dtype: DTypeLike | None) -> list[Value]:
    a, b = promote([as_array(lhs), as_array(rhs)])
    return [a, b] if dtype is None else [a.astype(np.dtype(dtype)), b.astype(np.dtype(dtype))]


@also_takes(out_sharding=None)
def dot_general(
    lhs: ArrayLike,
    rhs: ArrayLike,
    dimension_numbers: DotDimensionNumbers,
    precision: object = None,
    preferred_element_type: DTypeLike | None = None,
) -> Value:
    """Products summed over some axes, and of corresponding places along others.

    Arguments:
        lhs, rhs: arrays.
        dimension_numbers: ((axes summed of lhs, of rhs), (batch axes of lhs, of rhs)).
        precision: see above.
        preferred_element_type: the dtype of the products and of the result.

    Returns:
        An array with the batch axes, then the other ones of `lhs`, then those of `rhs`.

    Raises:
        ShapeError: if the axes do not fit.

    Example:
        >>> from fgrad import lax
        >>> lax.dot_general(np.ones((2, 3)), np.ones((4, 3)), (((1,), (1,)), ((), ()))).shape
        (2, 4)
    """
    del precision
    a, b = _two(lhs, rhs, preferred_element_type)
    (ca, cb), (ba, bb) = [[tuple(map(int, side)) for side in pair] for pair in dimension_numbers]
    for x, axes in ((a, (*ca, *ba)), (b, (*cb, *bb))):
        if len(set(axes)) != len(axes) or any(not 0 <= k < len(x.shape) for k in axes):
            raise ShapeError(f"lax.dot_general: axes {axes} of shape {x.shape}.", user_line())
    lengths = [[x.shape[k] for k in axes] for x, axes in ((a, (*ca, *ba)), (b, (*cb, *bb)))]
    if lengths[0] != lengths[1] or len(ca) != len(cb):
        raise ShapeError(
            f"lax.dot_general: {dimension_numbers} of shapes {a.shape} and {b.shape}.", user_line()
        )
    return dots.dot_general(a, b, (ca, cb), (ba, bb))


@also_takes(out_sharding=None)
def dot(
    lhs: ArrayLike,
    rhs: ArrayLike,
    *,
    dimension_numbers: DotDimensionNumbers | None = None,
    precision: object = None,
    preferred_element_type: DTypeLike | None = None,
) -> Value:
    """The product of vectors and matrices, or `dot_general` with `dimension_numbers`.

    Raises:
        ShapeError: if an operand has more than two axes.

    Example:
        >>> from fgrad import lax
        >>> lax.dot(np.ones((2, 3)), np.ones(3))
        array([3., 3.])
    """
    if dimension_numbers is None:
        x, y = as_array(lhs), as_array(rhs)
        if not 1 <= min(len(x.shape), len(y.shape)) <= max(len(x.shape), len(y.shape)) <= 2:
            raise ShapeError(
                f"lax.dot takes vectors and matrices, not shapes {x.shape} and {y.shape}.",
                (*user_line(), ("write", "x @ y, or lax.dot_general")),
            )
        dimension_numbers = (((len(x.shape) - 1,), (0,)), ((), ()))
    return dot_general(lhs, rhs, dimension_numbers, precision, preferred_element_type)


def batch_matmul(lhs: ArrayLike, rhs: ArrayLike, precision: object = None) -> Value:
    """The products of matrices in the last two axes.

    Example:
        >>> from fgrad import lax
        >>> lax.batch_matmul(np.ones((5, 2, 3)), np.ones((5, 3, 4))).shape
        (5, 2, 4)
    """
    del precision
    return np.matmul(as_array(lhs), as_array(rhs))


@also_takes(group_offset=None, out_sharding=None)
def ragged_dot(
    lhs: ArrayLike,
    rhs: ArrayLike,
    group_sizes: ArrayLike,
    precision: object = None,
    preferred_element_type: DTypeLike | None = None,
) -> Value:
    """Groups of rows, each times a matrix of its own: a mixture of experts.

    Arguments:
        lhs: (m, k), the rows of the first group first.
        rhs: (g, k, n), a matrix for each group.
        group_sizes: how many rows each of the g groups has; rows beyond them all give 0.
        precision: see above.
        preferred_element_type: the dtype of the products and of the result.

    Raises:
        ShapeError: if shapes do not fit.
        DtypeError: if `group_sizes` are not integers.

    Example:
        >>> from fgrad import lax
        >>> w = np.array([[[1.0]], [[10.0]]])
        >>> lax.ragged_dot(np.array([[1.0], [2.0], [3.0]]), w, np.array([1, 2])).ravel()
        array([ 1., 20., 30.])
    """
    del precision
    a, b = _two(lhs, rhs, preferred_element_type)
    sizes = places(group_sizes, "ragged_dot")
    fits = len(a.shape) == 2 and len(b.shape) == 3 and a.shape[1] == b.shape[1]
    if not fits or sizes.shape != b.shape[:1]:
        raise ShapeError(
            f"lax.ragged_dot: shapes {a.shape}, {b.shape} and {sizes.shape} for "
            "(m, k), (g, k, n) and (g,).",
            user_line(),
        )
    ends = np.cumsum(sizes)
    row = np.arange(a.shape[0])

    def step(total: Value, group: Value) -> tuple[Value, None]:
        start, end, matrix = group
        inside = np.logical_and(row >= start, row < end)
        return total + np.where(inside[:, None], a, 0) @ matrix, None

    zeros = np.zeros((a.shape[0], b.shape[2]), a.dtype)
    return loops.scan(step, zeros, (ends - sizes, ends, b))[0]
