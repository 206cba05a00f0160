"""L5. Products of matrices: sizes, whether a library or a kernel computes them, and their operands.

A dot_general is a library's product when both operands are views of buffers with one unit stride:

    dot_general(permute(w), x)    trans_a           dot_general(broadcast(w), x)    stride_a = 0
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import TypeAlias

from fgrad.base.named_tuple import NamedTuple
from fgrad.compile.kernel.affine import row_major
from fgrad.compile.kernel.machine import (
    L2_PART_BYTES,
    PRODUCTS_PER_CALL,
    PRODUCTS_WORTH_A_KERNEL,
    VECTOR_BYTES,
)
from fgrad.compile.products.views import Layout, collapsed, view_of
from fgrad.ir.program import Eqn, Var
from fgrad.ops import primitives as prims

_Axes: TypeAlias = "tuple[tuple[int, ...], tuple[int, ...]]"  # of the first operand, the second


class MatrixLayout(NamedTuple):
    """An operand as a library product takes it, in whichever buffer."""

    offset: int
    trans: bool
    leading: int
    batch_stride: int


class Matrix(NamedTuple):
    """An operand as a library product takes it."""

    source: Var
    offset: int
    trans: bool
    leading: int
    batch_stride: int


def matrix(
    view: Layout, batch: Sequence[int], rows: Sequence[int], columns: Sequence[int]
) -> MatrixLayout | None:
    """The operand as a batch of `rows` x `columns` matrices with one unit stride, if it is one."""
    steps = [collapsed(view, axes) for axes in (batch, rows, columns)]
    if any(s is None for s in steps):
        return None
    per_batch, down, along = steps
    assert per_batch is not None and down is not None and along is not None
    m, n = (math.prod([view.shape[a] for a in axes]) for axes in (rows, columns))
    if (along == 1 or n == 1) and (m == 1 or down >= max(n, 1)):
        return MatrixLayout(view.offset, False, down if m > 1 else max(n, 1), per_batch)
    if (down == 1 or m == 1) and (n == 1 or along >= max(m, 1)):
        return MatrixLayout(view.offset, True, along if n > 1 else max(m, 1), per_batch)
    return None


class Product(NamedTuple):
    """The sizes and the axes of a dot_general: c[batch, m, n] = sum over k."""

    batch: int
    m: int
    n: int
    k: int
    a_free: tuple[int, ...]
    b_free: tuple[int, ...]


def product_of(eqn: Eqn) -> Product:
    """The shape of a product."""
    a, b = eqn.inputs[:2]
    return _sizes(a.aval.shape, b.aval.shape, eqn.params["contract"], eqn.params["batch"])


@lru_cache(maxsize=4096)
def _sizes(a: tuple[int, ...], b: tuple[int, ...], contract: _Axes, batch: _Axes) -> Product:
    (ca, cb), (ba, bb) = contract, batch
    a_free = tuple([i for i in range(len(a)) if i not in ca and i not in ba])
    b_free = tuple([i for i in range(len(b)) if i not in cb and i not in bb])
    count, m, n, k = [
        math.prod([shape[i] for i in axes])
        for shape, axes in ((a, ba), (a, a_free), (b, b_free), (a, ca))
    ]
    return Product(count, m, n, k, a_free, b_free)


def wants_library(eqn: Eqn, views: Mapping[Var, Eqn] | None = None) -> bool:
    """Whether a product is better called than fused: float, not tiny, with something to reuse.

    Arguments:
        views: the equations that views come from, by which a fused loop would read an operand.
    """
    if eqn.prim is prims.product:
        return True
    p = product_of(eqn)
    work = p.m * p.n * p.k
    if eqn.inputs[0].aval.dtype.name not in ("float32", "float64") or p.k <= 1:
        return False
    calls = work / PRODUCTS_PER_CALL
    if views is not None and 1 / ACROSS < calls <= 1:
        right = library_operands(eqn, views)[1]
        calls *= ACROSS if right is not None and right.trans else 1
    return calls > 1 and (p.batch == 1 or min(p.m, p.n) > 1 or calls > 8)


def wants_kernel(eqn: Eqn, right: Matrix) -> bool:
    """Whether loops made for the shape beat the function for all shapes by more than their
    compilation costs: a few rows or columns, or many small matrices, and enough work."""
    p, size = product_of(eqn), eqn.inputs[0].aval.dtype.itemsize
    if eqn.prim is prims.product or right.trans or 1 in (p.m, p.n):
        return False
    few = p.m <= FEW_ROWS or p.n * size <= FEW_BYTES
    vectors = -(-p.n * size // VECTOR_BYTES)
    filled = 8 * p.n * size >= 7 * vectors * VECTOR_BYTES
    many = p.batch >= MANY and filled and p.k * p.n * size <= L2_PART_BYTES
    return (few or many) and p.batch * p.m * p.n * p.k >= PRODUCTS_WORTH_A_KERNEL


MANY = 8  # matrices of a batch
ACROSS = 4  # times as long a fused loop takes that reads the right operand across its rows


FEW_ROWS = 6
FEW_BYTES = 3 * VECTOR_BYTES // 4  # in a row of the result


def reads_windows(eqn: Eqn, defined: Mapping[Var, Eqn]) -> bool:
    """Whether an operand is all windows of an array, which no library product can read in place."""
    if eqn.prim is not prims.dot_general:
        return False
    found = [defined.get(x) for x in eqn.inputs if isinstance(x, Var)]
    return any([e is not None and e.prim is prims.windows for e in found])


MAX_CALLS = 64  # calls for one product, where its batch axes have no common stride


class Operands(NamedTuple):
    """Both operands as a library product takes them (None for one that has to be copied first), for
    each index of the batch axes `outer`, numbered as they are in the result."""

    left: Matrix | None
    right: Matrix | None
    outer: tuple[int, ...]


def library_operands(eqn: Eqn, virtual: Mapping[Var, Eqn]) -> Operands:
    """How a library product can read its operands."""
    views = [view_of(x, virtual) for x in eqn.inputs[:2]]
    layouts = [None if v is None else Layout(*v[1:]) for v in views]
    shapes = [x.aval.shape for x in eqn.inputs[:2]]
    contract, batch = eqn.params["contract"], eqn.params["batch"]
    left, right, outer = _operand_layouts(*shapes, *layouts, contract, batch)
    return Operands(
        None if left is None or views[0] is None else Matrix(views[0].source, *left),
        None if right is None or views[1] is None else Matrix(views[1].source, *right),
        outer,
    )


@lru_cache(maxsize=4096)
def _operand_layouts(
    a_shape: tuple[int, ...],
    b_shape: tuple[int, ...],
    a: Layout | None,
    b: Layout | None,
    contract: _Axes,
    batch: _Axes,
) -> tuple[MatrixLayout | None, MatrixLayout | None, tuple[int, ...]]:
    """The operands of a product as matrices, without the buffers that they are in."""
    p = _sizes(a_shape, b_shape, contract, batch)
    (ca, cb), (ba, bb) = contract, batch
    best: tuple[MatrixLayout | None, MatrixLayout | None, tuple[int, ...]] = (None, None, ())
    for outer, inner in _batches(tuple([a_shape[i] for i in ba])):
        for order in _orders(a, b, ca, cb):
            left = a and matrix(a, [ba[i] for i in inner], p.a_free, [ca[k] for k in order])
            right = b and matrix(b, [bb[i] for i in inner], [cb[k] for k in order], p.b_free)
            if left and right:
                return left, right, outer
            if not outer and (left or right) and not (best[0] or best[1]):
                best = left or None, right or None, ()
    return best


@lru_cache(maxsize=4096)
def _batches(sizes: tuple[int, ...]) -> list[tuple[tuple[int, ...], tuple[int, ...]]]:
    """Which batch axes may be calls, and which ones the batch of each, the fewest calls first.

    The results of a call are equally far apart.
    """
    result = Layout(0, sizes, row_major(sizes))
    found = []
    for count in range(len(sizes) + 1):
        for outer in itertools.combinations(range(len(sizes)), count):
            inner = tuple([i for i in range(len(sizes)) if i not in outer])
            calls = math.prod([sizes[i] for i in outer])
            if calls <= MAX_CALLS and collapsed(result, inner) is not None:
                found.append((calls, outer, inner))
    return [(outer, inner) for _, outer, inner in sorted(found, key=lambda f: f[0])]


def _orders(
    left: Layout | None, right: Layout | None, ca: Sequence[int], cb: Sequence[int]
) -> list[tuple[int, ...]]:
    """Orders of the contracted axes worth trying: as given, and by the strides of each operand."""
    given = tuple(range(len(ca)))
    orders = [given]
    if len(given) < 2:
        return orders
    for view, axes in ((left, ca), (right, cb)):
        if view is not None:
            steps = [-view.strides[axis] for axis in axes]
            orders.append(tuple(sorted(given, key=steps.__getitem__)))
    return orders
