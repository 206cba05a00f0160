"""L4. `x[mask]` for a mask with unknown values: usable in arithmetic and in `x[mask] = ...`.

    x[x > 1] *= 2          under jit: reads x[mask], multiplies, assigns to x[mask]

How many elements there are is not known, so this is not an array: it is the whole of `x` together
with the mask.  Elementwise functions act on the whole; an assignment to the same places selects.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NoReturn, TypeGuard

import numpy as np

from fgrad.errors import BoundsError, TracedIndexError
from fgrad.numpy.promote import broadcast_to, convert, reshape, stored, user_line
from fgrad.ops import elementwise as ew
from fgrad.trace import Tracer, Value, concrete
from fgrad.typing import ArrayLike, DTypeLike

ADVICE = (  # where a mask has no known values
    ("write", "np.where(mask, x, 0)       then the reduction that follows"),
    ("write", "np.sum(x, where=mask)      np.mean and others take where= too"),
    ("write", "lambda x: x[mask]          a mask of plain numbers from outside of the function"),
)


def is_unknown_mask(index: object) -> TypeGuard[Tracer]:
    """Whether an index is a traced boolean array without values."""
    return isinstance(index, Tracer) and index.dtype.kind == "b" and concrete(index) is None


class Masked(np.lib.mixins.NDArrayOperatorsMixin):
    """The elements of `whole` where `mask` holds, as many as they may be."""

    __slots__ = ("mask", "whole")
    __array_priority__ = 2000.0

    def __init__(self, whole: Value, mask: Tracer) -> None:
        self.whole = whole
        self.mask = mask

    def __array_ufunc__(
        self, ufunc: np.ufunc, method: str, *inputs: ArrayLike, **kwargs: object
    ) -> Masked:
        kwargs.pop("out", None)
        if method != "__call__" or ufunc.nout != 1:
            raise self._unknown()
        return Masked(ufunc(*[self._operand(x) for x in inputs], **kwargs), self.mask)

    def _operand(self, x: ArrayLike) -> ArrayLike:
        if isinstance(x, Masked):
            if not same_value(x.mask, self.mask):
                raise self._unknown()
            return x.whole
        if np.ndim(x) if not isinstance(x, Tracer) else x.ndim:
            raise self._unknown()
        return x

    def astype(self, dtype: DTypeLike | None) -> Masked:
        """The elements with another dtype."""
        return Masked(convert(self.whole, np.dtype(dtype)), self.mask)

    def copy(self) -> Masked:
        """The same elements."""
        return self

    def __array__(self, *_args: object, **_kwargs: object) -> np.ndarray:
        raise self._unknown()

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("__"):
            raise AttributeError(name)
        raise self._unknown()

    def __iter__(self) -> Iterator[Value]:
        raise self._unknown()

    def __len__(self) -> int:
        raise self._unknown()

    def __getitem__(self, _index: object) -> Value:
        raise self._unknown()

    def _unknown(self) -> TracedIndexError:
        return unknown_size()


def unknown_size() -> TracedIndexError:
    """The card for elements of which it is not known how many there are."""
    return TracedIndexError(
        "A boolean mask has no known values, so the shape of the result is not known.",
        (*user_line(), *ADVICE),
    )


def same_value(a: Tracer, b: Tracer) -> bool:
    """Whether two masks are known to be equal: one value, or one equation made twice."""
    if a.builder is not b.builder:
        return False
    return a.index == b.index or _equation(a) == _equation(b)


def _equation(x: Tracer) -> object:
    for record in reversed(x.builder.records):
        if x.index in record.outs:
            constants = [k if type(k) is int else (str(k), id(type(k))) for k in record.operands]
            return record.prim.name, constants, record.params
    return x.index


def write_masked(x: Value, mask: Tracer, value: ArrayLike | Masked) -> Value:
    """x[mask] = value, without knowing how many elements that are."""
    if x.shape[: mask.ndim] != mask.shape:
        raise BoundsError(
            f"boolean index of shape {mask.shape} does not match an array of shape {x.shape}",
        )
    if isinstance(value, Masked):
        if not same_value(value.mask, mask):
            raise unknown_size()
        new = value.whole
    else:
        new = stored(value, x.dtype)
        if len(np.shape(new)) > x.ndim - mask.ndim:
            raise unknown_size()
    new = broadcast_to(convert(new, x.dtype), x.shape, x if isinstance(x, Tracer) else None)
    rest = (1,) * (x.ndim - mask.ndim)
    return ew.select(broadcast_to(reshape(mask, mask.shape + rest), x.shape), new, x)
