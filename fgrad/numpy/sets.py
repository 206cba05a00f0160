"""L4. Comparison of whole arrays, counting and sets.

Where the shape of a result depends on values (`np.unique`), these must be known: the function then
picks elements by constant indices, and has derivatives.
"""

from __future__ import annotations

import numpy as np

from fgrad.errors import ArgumentError
from fgrad.numpy import reductions as rs
from fgrad.numpy.arrange import ravel, take_slice
from fgrad.numpy.dispatch import implements
from fgrad.numpy.promote import (
    as_array,
    broadcast,
    broadcast_shapes,
    convert,
    promote,
    refuse_argument,
    reshape,
    shape_of,
)
from fgrad.numpy.selection import bisect, isclose, known_array
from fgrad.ops import complex as cx
from fgrad.ops import elementwise as ew
from fgrad.ops import index as ix
from fgrad.ops import reduce as rd
from fgrad.ops import sort as so
from fgrad.trace import Value, concrete
from fgrad.tracing.overlap import asked_overlap
from fgrad.typing import ArrayLike, DTypeLike

FEW = 64  # members up to which each element is compared with all of them

# --- whole arrays ---------------------------------------------------------------------------------


@implements("array_equal")
def array_equal(a1: ArrayLike, a2: ArrayLike, equal_nan: bool = False) -> Value | np.bool_:
    """Whether two arrays have one shape and equal elements."""
    x, y = promote((as_array(a1), as_array(a2)))
    if shape_of(x) != shape_of(y):
        return np.bool_(False)
    equal = ew.eq(x, y)
    if equal_nan and x.dtype.kind == "f":
        equal = ew.or_(equal, ew.and_(ew.isnan(x), ew.isnan(y)))
    return rs.all_(equal)


@implements("array_equiv")
def array_equiv(a1: ArrayLike, a2: ArrayLike) -> Value | np.bool_:
    """Whether two arrays are equal after broadcasting."""
    x, y = promote((as_array(a1), as_array(a2)))
    try:
        broadcast_shapes(shape_of(x), shape_of(y))
    except ValueError:
        return np.bool_(False)
    return rs.all_(ew.eq(*broadcast((x, y))))


@implements("allclose")
def allclose(
    a: ArrayLike,
    b: ArrayLike,
    rtol: ArrayLike = 1e-5,
    atol: ArrayLike = 1e-8,
    equal_nan: bool = False,
) -> Value:
    """Whether all elements are close."""
    return rs.all_(isclose(a, b, rtol, atol, equal_nan))


@implements("iscomplexobj")
def iscomplexobj(x: ArrayLike) -> bool:
    """Whether the dtype is complex."""
    return as_array(x).dtype.kind == "c"


@implements("isrealobj")
def isrealobj(x: ArrayLike) -> bool:
    """Whether the dtype is not complex."""
    return not iscomplexobj(x)


@implements("may_share_memory", "shares_memory")
def shares_memory(a: ArrayLike, b: ArrayLike, max_work: object = None) -> bool:
    """Whether a write into one of two arrays may be seen in the other."""
    return asked_overlap(a, b)


# --- membership -----------------------------------------------------------------------------------


@implements("isin")
def isin(
    element: ArrayLike,
    test_elements: ArrayLike,
    assume_unique: bool = False,
    invert: bool = False,
    *,
    kind: str | None = None,
) -> Value:
    """For each element, whether it is among others."""
    x, members = promote((as_array(element), ravel(test_elements)))
    if members.shape[0] > FEW and x.dtype.kind in "iuf":
        (ordered,) = so.sort((members,), 0)
        place = ew.min_(bisect(ordered, x, "left"), np.int64(members.shape[0] - 1))
        found = ew.eq(ix.gather(ordered, (place,), (0,)), x)
        return ew.not_(found) if invert else found
    pairs = ew.eq(*broadcast((reshape(x, (*shape_of(x), 1)), members)))
    found = rd.reduce_any(pairs, (len(pairs.shape) - 1,))
    return ew.not_(found) if invert else found


@implements("in1d")
def in1d(
    ar1: ArrayLike,
    ar2: ArrayLike,
    assume_unique: bool = False,
    invert: bool = False,
    *,
    kind: str | None = None,
) -> Value:
    """`isin` of the flattened array."""
    return isin(ravel(ar1), ar2, assume_unique, invert)


@implements("trim_zeros")
def trim_zeros(filt: ArrayLike, trim: str = "fb", **kwargs: object) -> Value:
    """Without leading and trailing zeros, of known values."""
    if kwargs.get("axis") is not None:
        raise refuse_argument("trim_zeros", "axis", "x[a:b] with known bounds")
    x = as_array(filt)
    places = np.flatnonzero(known_array(x, "trim_zeros"))
    n = x.shape[0]
    if not len(places):
        return take_slice(x, 0, 0, 0)
    start = int(places[0]) if "f" in trim.lower() else 0
    stop = int(places[-1]) + 1 if "b" in trim.lower() else n
    return take_slice(x, 0, start, stop)


# --- indices and dtypes ---------------------------------------------------------------------------


@implements("tril_indices_from")
def tril_indices_from(arr: ArrayLike, k: int = 0) -> tuple[np.ndarray, ...]:
    """The indices of the lower triangle."""
    rows, columns = _matrix_shape(arr)
    return np.tril_indices(rows, k, columns)


@implements("triu_indices_from")
def triu_indices_from(arr: ArrayLike, k: int = 0) -> tuple[np.ndarray, ...]:
    """The indices of the upper triangle."""
    rows, columns = _matrix_shape(arr)
    return np.triu_indices(rows, k, columns)


def _matrix_shape(arr: ArrayLike) -> tuple[int, int]:
    shape = shape_of(as_array(arr))
    if len(shape) != 2:
        raise ArgumentError("input array must be 2-d")
    return shape


@implements("common_type")
def common_type(*arrays: ArrayLike) -> type:
    """The floating point type that holds all arrays."""
    dtypes = [as_array(a).dtype for a in arrays]
    return np.common_type(*[np.empty(0, d) for d in dtypes])


@implements("min_scalar_type")
def min_scalar_type(a: ArrayLike) -> np.dtype:
    """The dtype of the array: its values are not looked at."""
    return as_array(a).dtype


@implements("asarray_chkfinite")
def asarray_chkfinite(
    a: ArrayLike, dtype: DTypeLike | None = None, order: str | None = None
) -> Value:
    """The array; an error if its values are known and not finite."""
    x = as_array(a)
    value = concrete(x)
    if value is not None and value.dtype.kind in "fc" and not np.isfinite(value).all():
        raise ArgumentError("array must not contain infs or NaNs")
    return x if dtype is None else convert(x, np.dtype(dtype))


@implements("angle")
def angle(z: ArrayLike, deg: bool = False) -> Value:
    """The angle in the complex plane: 0, or pi for negative real numbers."""
    x = as_array(z)
    if cx.is_complex(x):
        result = ew.atan2(cx.imag(x), cx.real(x))
        return ew.mul(result, ew.lit(result, 180 / np.pi)) if deg else result
    result = np.arctan2(0, ew.stop_gradient(x))  # piecewise constant
    return np.multiply(result, 180 / np.pi) if deg else result


@implements("isscalar")
def isscalar(element: ArrayLike) -> bool:
    """Arrays are not scalars, traced ones included."""
    return False
