"""L0. The types of what functions take and return: `Array`, `ArrayLike`, `Axis`, `PyTree`.

    def softmax(x: ArrayLike, axis: Axis = -1) -> Array: ...

A NumPy array and a traced one share no base class: `Array` is a protocol, which both fulfil.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from types import EllipsisType
from typing import (
    TYPE_CHECKING,
    Any,
    Literal,
    ParamSpec,
    Protocol,
    SupportsIndex,
    TypeAlias,
    TypeVar,
)

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import ArrayLike as NumpyArrayLike
    from numpy.typing import DTypeLike as NumpyDTypeLike
else:  # a module that nothing else needs
    NumpyArrayLike = NumpyDTypeLike = Any

DType: TypeAlias = np.dtype[Any]
"""The element type of an array."""

PyTree: TypeAlias = Any
"""Nested tuples, lists, dicts and registered classes, with arrays as leaves."""

P = ParamSpec("P")
"""The parameters of a function of a user: what is made of it takes the same."""

R = TypeVar("R")
"""What it returns."""

R_co = TypeVar("R_co", covariant=True)

Rule = TypeVar("Rule", bound=Callable[..., PyTree])
"""A function that the user gives as a rule, and gets back."""


class Shaped(Protocol):
    """What has a shape and a dtype: an array, a NumPy scalar, a tracer, an aval."""

    @property
    def shape(self) -> tuple[int, ...]: ...
    @property
    def dtype(self) -> DType: ...


class Array(Protocol):
    """A NumPy array, or a tracer in its place: what both can do.

    Absent is what NumPy's stubs know of some dtypes only: `real`, `imag`, `~x`, `__index__`.
    """

    @property
    def shape(self) -> tuple[int, ...]: ...
    @property
    def dtype(self) -> DType: ...
    @property
    def ndim(self) -> int: ...
    @property
    def size(self) -> int: ...
    @property
    def nbytes(self) -> int: ...
    @property
    def itemsize(self) -> int: ...
    @property
    def T(self) -> Any: ...

    def __array__(self) -> np.ndarray: ...
    def __len__(self) -> int: ...
    def __iter__(self) -> Iterator[Any]: ...
    def __bool__(self) -> bool: ...
    def __int__(self) -> int: ...
    def __float__(self) -> float: ...
    def __complex__(self) -> complex: ...
    def __getitem__(self, index: Any, /) -> Any: ...
    def __setitem__(self, index: Any, value: Any, /) -> None: ...
    def __neg__(self) -> Any: ...

    __abs__ = __neg__

    def __add__(self, other: Any, /) -> Any: ...

    __sub__ = __mul__ = __matmul__ = __truediv__ = __floordiv__ = __mod__ = __pow__ = __add__
    __radd__ = __rsub__ = __rmul__ = __rmatmul__ = __rtruediv__ = __rfloordiv__ = __add__
    __rmod__ = __rpow__ = __and__ = __or__ = __xor__ = __rand__ = __ror__ = __add__
    __lshift__ = __rshift__ = __lt__ = __le__ = __gt__ = __ge__ = __add__

    def astype(self, dtype: NumpyDTypeLike, /) -> Any: ...
    def copy(self) -> Any: ...

    ravel = flatten = conj = squeeze = any = all = item = tolist = copy

    def reshape(self, *shape: Any) -> Any: ...
    def transpose(self, *axes: Any) -> Any: ...
    def swapaxes(self, axis1: int, axis2: int, /) -> Any: ...
    def sum(self, axis: Any = ..., /) -> Any: ...

    mean = max = min = sum


class Operators:
    """For type checkers: what fgrad.numpy.methods gives to tracers and to arrays on a device."""

    if TYPE_CHECKING:

        @property
        def T(self) -> Any: ...

        mT = at = real = imag = T

        def _unary(self) -> Any: ...
        def _binary(self, other: object, /) -> Any: ...
        def _method(self, *args: object, **kwargs: object) -> Any: ...
        def __array__(self) -> np.ndarray: ...
        def __len__(self) -> int: ...
        def __iter__(self) -> Iterator[Any]: ...
        def __bool__(self) -> bool: ...
        def __int__(self) -> int: ...
        def __float__(self) -> float: ...
        def __complex__(self) -> complex: ...
        def __getitem__(self, index: object, /) -> Any: ...
        def __setitem__(self, index: object, value: object, /) -> None: ...

        __neg__ = __pos__ = __abs__ = __invert__ = _unary
        __add__ = __sub__ = __mul__ = __matmul__ = __truediv__ = __floordiv__ = _binary
        __radd__ = __rsub__ = __rmul__ = __rmatmul__ = __rtruediv__ = __rfloordiv__ = _binary
        __mod__ = __pow__ = __lshift__ = __rshift__ = __and__ = __or__ = __xor__ = _binary
        __rmod__ = __rpow__ = __rlshift__ = __rrshift__ = __rand__ = __ror__ = __rxor__ = _binary
        __lt__ = __le__ = __gt__ = __ge__ = _binary
        all = any = argmax = argmin = argsort = astype = clip = conj = copy = cumsum = _method
        cumprod = diagonal = dot = fill = flatten = item = max = mean = min = nonzero = _method
        prod = ptp = ravel = repeat = reshape = round = searchsorted = sort = squeeze = _method
        std = sum = swapaxes = take = tolist = trace = transpose = var = view = _method


ArrayLike: TypeAlias = Array | NumpyArrayLike
"""What becomes an array: arrays, numbers, nested sequences of numbers."""

Operand: TypeAlias = Array | np.generic
"""An array or a NumPy scalar: what a primitive is applied to."""

DTypeLike: TypeAlias = NumpyDTypeLike
"""What names a dtype: `np.float32`, `"f4"`, `float`."""

Scalar: TypeAlias = complex | np.generic
"""A number of Python or of NumPy; `complex` says float, int and bool, too."""

Shape: TypeAlias = tuple[int, ...]
"""The lengths of the axes of an array."""

ShapeLike: TypeAlias = SupportsIndex | Sequence[SupportsIndex]
"""A shape as users write it: `3` for `(3,)`."""

Axis: TypeAlias = SupportsIndex | Sequence[SupportsIndex] | None
"""One axis, several, or None for all."""

IndexOfAxis: TypeAlias = SupportsIndex | slice | EllipsisType | ArrayLike | None
Index: TypeAlias = IndexOfAxis | tuple[IndexOfAxis, ...]
"""What stands between the brackets of `x[...]`."""

Order: TypeAlias = Literal["K", "A", "C", "F"]
"""The order of an array's elements in memory."""

Casting: TypeAlias = Literal["no", "equiv", "safe", "same_kind", "unsafe"]
"""Which conversions of dtypes are allowed."""

NormOrder: TypeAlias = float | Literal["fro", "nuc"] | None
"""Which norm of a vector or a matrix; None for the square root of the sum of squares."""

EqnParams: TypeAlias = Mapping[str, Any]
"""The parameters of an equation by name; each primitive says what they are."""
