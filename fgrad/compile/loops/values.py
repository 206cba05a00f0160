"""L5. Values in a whole-loop kernel: small arrays as scalars, large ones in memory.

np.ndarray   the id of the kernel's scalar for each element: a small array in registers
Stored       a strided view of a buffer, from which elements are loaded when they are needed
Sparse       zeros to which a few updates are added, as the cotangent of `x[i]`
Counting     0, 1, 2, ...
Row          elements that an inner loop computes
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TypeAlias

import numpy as np

from fgrad.base.named_tuple import NamedTuple
from fgrad.compile.kernel.affine import AffineIndex, Places, row_major, shifted, total


class TooLarge(Exception):
    """A loop that is not one kernel; its body is compiled as a program."""


class Stored(NamedTuple):
    """Elements of a buffer; a `version` other than None is what the memory holds at that count of
    writes."""

    buffer: str
    dtype: np.dtype
    base: AffineIndex
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    version: int | None = None

    @property
    def size(self) -> int:
        """The number of elements."""
        return math.prod(self.shape)

    def offsets(self) -> np.ndarray:
        """The distance of each element from the first."""
        found = np.zeros((), np.int64)
        for n, stride in zip(self.shape, self.strides, strict=True):
            found = np.add.outer(found, stride * np.arange(n))
        return found

    def moved(self, by: AffineIndex, shape: Sequence[int], strides: Sequence[int]) -> Stored:
        """Another view of the buffer, that begins `by` further on."""
        return self._replace(
            base=total((self.base, by), (1, 1)), shape=tuple(shape), strides=tuple(strides)
        )

    def is_contiguous(self) -> bool:
        """Whether the elements follow one another."""
        pairs = zip(self.shape, self.strides, row_major(self.shape), strict=True)
        return all([n == 1 or stride == step for n, stride, step in pairs])


class Update(NamedTuple):
    """`target[indices] mode= updates`, the places of `axes` given by values, where `inside`."""

    axes: tuple[int, ...]
    mode: str
    indices: tuple[np.ndarray, ...]  # ids, of one shape
    inside: np.ndarray | None  # ids of predicates, of the same shape; None where all are inside
    updates: Value  # of that shape, then the other axes of the target


class Sparse(NamedTuple):
    """Zeros with updates that add."""

    shape: tuple[int, ...]
    dtype: np.dtype
    updates: tuple[Update, ...]


class Counting(NamedTuple):
    """The array 0, 1, ..., `length` - 1."""

    length: int
    dtype: np.dtype


class Row(NamedTuple):
    """Elements that an inner loop computes: `element` writes the code for one, at a place, where a
    predicate holds.

    `reads` is the memory that changes among what is read; an `aligned` row reads it at the place of
    the element alone.  `width` is that of the widest numbers, in bytes; `depth` how many rows are
    computed of one another, `cost` the operations on an element.
    """

    shape: tuple[int, ...]
    dtype: np.dtype
    element: Callable[[Places, int | None], int]
    reads: tuple[Stored, ...]
    aligned: bool
    width: int
    depth: int
    cost: int


Value: TypeAlias = "np.ndarray | Stored | Sparse | Counting | Row"


def stored_at(x: Stored, axis: int, place: AffineIndex) -> Stored:
    """The view without an axis, at a place along it."""
    strides = (*x.strides[:axis], *x.strides[axis + 1 :])
    shape = (*x.shape[:axis], *x.shape[axis + 1 :])
    return x.moved(shifted(place, x.strides[axis], 0), shape, strides)


def reshaped_view(x: Stored, shape: tuple[int, ...]) -> Stored | None:
    """The view under another shape, if it is one."""
    if x.is_contiguous():
        return x._replace(shape=shape, strides=row_major(shape))
    long = [(n, s) for n, s in zip(x.shape, x.strides, strict=True) if n != 1]
    if [n for n, _ in long] == [n for n in shape if n != 1]:
        strides = iter([s for _, s in long])
        return x._replace(
            shape=shape, strides=tuple([next(strides) if n != 1 else 0 for n in shape])
        )
    return None
