"""L5. The loop kernel (level B): structured loops over flat buffers, with straight-line scalar SSA.

A kernel is what one fused group of array equations becomes.  It knows no device: both backends read
it. Arrays are flat buffers addressed by affine maps of the loop variables, so reshape, permute,
slice, broadcast and reverse cost nothing; pad is a predicated load; gather and scatter add indirect
terms.

    kernel k(x: in f32[6], y: out f32[1])
      acc s = add f32 0.0
      reduce i in 6:
        %0 = load x[i]
        %1 = sin f32 %0
        update s %1
      %2 = read s
      store y[0] %2
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np

from fgrad.base.named_tuple import NamedTuple

Scalar: TypeAlias = bool | int | float


class Buffer(NamedTuple):
    """A flat, C-contiguous run of `size` elements; bool is stored as one byte holding 0 or 1."""

    name: str
    dtype: np.dtype
    size: int
    role: str  # "in" | "out" | "inout" | "scratch" (private to an iteration of the loop it is in)


class Affine(NamedTuple):
    """`const + sum(stride * axis)`, in elements of the buffer."""

    const: int
    terms: tuple[
        tuple[str, int], ...
    ] = ()  # (axis name, stride), sorted by axis name, no zero strides


class Const(NamedTuple):
    """`%id = const dtype value`."""

    id: int
    value: Scalar
    dtype: np.dtype


class Index(NamedTuple):
    """`%id = index dtype affine`: the integer value of an affine map of the loop variables."""

    id: int
    index: Affine
    dtype: np.dtype


class Load(NamedTuple):
    """`%id = load buffer[index + sum(value(g) * stride)] if predicate else other`.

    With a predicate, memory is not touched where the predicate is false.
    """

    id: int
    buffer: str
    index: Affine
    gather: tuple[tuple[int, int], ...] = ()  # (id of an int64 value, stride)
    predicate: int | None = None
    other: Scalar = 0


class Op(NamedTuple):
    """`%id = op dtype args...`: one row of `SCALAR_OPS`; `dtype` is the result's."""

    id: int
    op: str
    args: tuple[int, ...]
    dtype: np.dtype


class Read(NamedTuple):
    """`%id = read acc`: the accumulator's present value."""

    id: int
    acc: str


class Init(NamedTuple):
    """`acc name = op dtype start`; `start` is a scalar, or the id of a value as `Ref`.

    `op` is add, mul, max, min, and, or (associative: a reduce loop may reorder them; max and min
    propagate NaN), or carry (the last update wins; only inside serial loops).
    """

    acc: str
    op: str
    dtype: np.dtype
    start: Scalar | Ref


class Ref(NamedTuple):
    """A value used where a scalar could stand."""

    id: int


class Update(NamedTuple):
    """`update acc value`: acc = op(acc, value), or acc = value for carry."""

    acc: str
    value: int


class Store(NamedTuple):
    """`store buffer[index + ...] mode= value if predicate`; mode is set, add, sum, mul, min or max.

    Any mode but set reads the buffer first.  Stores with `scatter` terms or a mode other than set
    may meet the same element twice, so every loop around them that does not appear in the index
    with its own stride is serial.  `sum` is add in any order: in a vector loop that does not appear
    in the index the lanes are summed first.
    """

    buffer: str
    index: Affine
    value: int
    scatter: tuple[tuple[int, int], ...] = ()
    mode: str = "set"
    predicate: int | None = None


class Loop(NamedTuple):
    """`kind axis in extent: body`.

    parallel: iterations are independent (may be vectorised, split among threads, reordered).
    reduce: iterations meet only in associative accumulators and disjoint stores.
    serial: in order.
    while: in order, until a `Break`; the extent is 1, and the axis stands for nothing.
    `lanes` is set by the scheduler: 0 or 1 scalar, else the vector width; `unroll` likewise.
    """

    axis: str
    extent: int
    kind: str
    body: tuple[Statement, ...]
    lanes: int = 0
    unroll: int = 1


class Break(NamedTuple):
    """`break if value`: end the `while` loop whose body this stands in, before it writes anything
    but what its condition alone reads.

    The lanes of a vector loop end together, when all of them want to.
    """

    value: int


Statement: TypeAlias = Const | Index | Load | Op | Read | Init | Update | Store | Break | Loop


class Kernel(NamedTuple):
    """One native function: `buffers` in argument order (scratch ones are not arguments)."""

    name: str
    buffers: tuple[Buffer, ...]
    body: tuple[Statement, ...]
