"""L5. Products of matrices: a dot_general becomes one call when its operands are views of buffers.

A view is a buffer with an offset and a stride for each axis; permute, broadcast, slice and index
make new views of the same buffer, so transposed, sliced and repeated matrices cost nothing:

    dot_general(permute(w), x)    trans_a           dot_general(broadcast(w), x)    stride_a = 0
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple, TypeAlias

from fgrad.compile.lower.index import axis_runs, row_major
from fgrad.compile.steps import LibraryStep
from fgrad.ir.program import Atom, Eqn, Params, Var

TINY = 4096  # multiplications of one matrix product up to which loops beat a call


class Layout(NamedTuple):
    """Where the elements of a view are: `offset + sum(stride * index)`."""

    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]


_Move: TypeAlias = "tuple[str, Params, tuple[int, ...]]"  # the primitive, and the result's shape


class View(NamedTuple):
    """Elements of a buffer: `offset + sum(stride * index)`."""

    source: Var
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]


def view_of(atom: Atom, virtual: Mapping[Var, Eqn]) -> View | None:
    """The view that an atom is, or None if it must be computed."""
    moves: list[_Move] = []
    while True:
        if type(atom) is not Var:
            return None
        eqn = virtual.get(atom)
        if eqn is None:
            break
        if eqn.prim.name not in VIEWS:
            return None
        moves.append((eqn.prim.name, eqn.params, eqn.outputs[0].aval.shape))
        atom = eqn.inputs[0]
    layout = _layout(atom.aval.shape, tuple(moves))
    return None if layout is None else View(atom, *layout)


@lru_cache(maxsize=4096)
def _layout(shape: tuple[int, ...], moves: tuple[_Move, ...]) -> Layout | None:
    """The elements of an array of this shape after some moves, the last one first."""
    layout: Layout | None = Layout(0, shape, row_major(shape))
    for name, params, moved in reversed(moves):
        assert layout is not None
        layout = VIEWS[name](layout, params, moved)
        if layout is None:
            return None
    return layout


def _permuted(view: Layout, params: Mapping[str, Any], shape: tuple[int, ...]) -> Layout:
    return Layout(view.offset, shape, tuple([view.strides[a] for a in params["axes"]]))


def _broadcast(view: Layout, params: Mapping[str, Any], shape: tuple[int, ...]) -> Layout:
    strides = [0] * len(shape)
    for stride, d in zip(view.strides, params["dims"], strict=True):
        strides[d] = stride
    return Layout(view.offset, shape, tuple(strides))


def _sliced(view: Layout, params: Mapping[str, Any], shape: tuple[int, ...]) -> Layout:
    start = sum(s * a for s, a in zip(view.strides, params["start"], strict=True))
    strides = [s * k for s, k in zip(view.strides, params["step"], strict=True)]
    return Layout(view.offset + start, shape, tuple(strides))


def _indexed(view: Layout, params: Mapping[str, Any], shape: tuple[int, ...]) -> Layout:
    ints = params["ints"]
    start = sum(s * i for s, i in zip(view.strides, ints, strict=False))
    return Layout(view.offset + start, shape, view.strides[len(ints) :])


def _reshaped(view: Layout, params: Mapping[str, Any], shape: tuple[int, ...]) -> Layout | None:
    """Possible where each run of merged axes has one stride."""
    strides: list[int] = []
    if math.prod(shape) == 0:
        return None
    for (a, b), (c, d) in axis_runs(view.shape, shape):
        step = collapsed(view, range(a, b))
        if step is None:
            return None
        strides += [step * s for s in row_major(shape[c:d])]
    return Layout(view.offset, shape, tuple(strides))


VIEWS = {
    "permute": _permuted,
    "broadcast": _broadcast,
    "slice": _sliced,
    "index": _indexed,
    "reshape": _reshaped,
}


def collapsed(view: View | Layout, axes: Sequence[int]) -> int | None:
    """The stride of several axes taken as one; None where they have no common one."""
    axes = [a for a in axes if view.shape[a] != 1]
    for a, b in itertools.pairwise(axes):
        if view.strides[a] != view.strides[b] * view.shape[b]:
            return None
    return view.strides[axes[-1]] if axes else 0


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


def wants_library(eqn: Eqn) -> bool:
    """Whether a product is better called than fused: float, not tiny, with something to reuse."""
    if eqn.prim.name == "product":
        return True
    p = product_of(eqn)
    work = p.m * p.n * p.k
    if eqn.inputs[0].aval.dtype.name not in ("float32", "float64") or p.k <= 1:
        return False
    return work > TINY and (p.batch == 1 or min(p.m, p.n) > 1 or work > 8 * TINY)


def wants_kernel(eqn: Eqn, right: Matrix) -> bool:
    """Whether loops made for the shape beat the function for all shapes by more than their
    compilation costs: a few rows or columns, or many small matrices, and enough work."""
    p, size = product_of(eqn), eqn.inputs[0].aval.dtype.itemsize
    if eqn.prim.name == "product" or right.trans or 1 in (p.m, p.n):
        return False
    few = p.m <= FEW_ROWS or p.n * size <= FEW_BYTES
    vectors = -(-p.n * size // VECTOR_BYTES)
    filled = 8 * p.n * size >= 7 * vectors * VECTOR_BYTES
    many = p.batch >= MANY and filled and p.k * p.n * size <= SMALL_BYTES
    return (few or many) and p.batch * p.m * p.n * p.k >= KERNEL_WORK


VECTOR_BYTES = 64
MANY = 8  # matrices of a batch
SMALL_BYTES = 128 << 10  # of each
FEW_ROWS = 6
FEW_BYTES = 48  # in a row of the result: three quarters of a vector
KERNEL_WORK = 1 << 19


def reads_windows(eqn: Eqn, defined: Mapping[Var, Eqn]) -> bool:
    """Whether an operand is all windows of an array, which no library product can read in place."""
    if eqn.prim.name != "dot_general":
        return False
    found = [defined.get(x) for x in eqn.inputs if isinstance(x, Var)]
    return any([e is not None and e.prim.name == "windows" for e in found])


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


def product_step(eqn: Eqn, virtual: Mapping[Var, Eqn]) -> LibraryStep:
    """The calls of `gemm` for a product whose operands are matrices of buffers.

    A `product` has the names of its numbers and its epilogue besides, and perhaps a bias.
    """
    p = product_of(eqn)
    left, right, outer = library_operands(eqn, virtual)
    assert left is not None and right is not None
    (out,) = eqn.outputs
    sizes = tuple([eqn.inputs[0].aval.shape[i] for i in eqn.params["batch"][0]])
    steps = [*_batch_steps(eqn, virtual), tuple([p.m * p.n * s for s in row_major(sizes)])]
    inner = [i for i in range(len(sizes)) if i not in outer]
    between = collapsed(Layout(0, sizes, steps[2]), inner)
    params = {
        "dtype": left.source.aval.dtype, "m": p.m, "n": p.n, "k": p.k,
        "batch": math.prod([sizes[i] for i in inner]),
        "lda": left.leading, "ldb": right.leading, "ldc": p.n,
        "trans_a": left.trans, "trans_b": right.trans,
        "stride_a": left.batch_stride, "stride_b": right.batch_stride,
        "stride_c": between or p.m * p.n,
    }  # fmt: skip
    widths = [v.aval.dtype.itemsize for v in (left.source, right.source, out)]
    calls = []
    for at in itertools.product(*[range(sizes[i]) for i in outer]):
        moved = [sum([i * s[k] for i, k in zip(at, outer, strict=True)]) for s in steps]
        places = (left.offset + moved[0], right.offset + moved[1], moved[2])
        calls.append(tuple([w * place for w, place in zip(widths, places, strict=True)]))
    args = (left.source, right.source, out)
    if eqn.prim.name == "dot_general":
        return LibraryStep("gemm", params, args, tuple(calls))
    params |= {name: eqn.params[name] for name in ("operand", "result", "epilogue")}
    bias = [view_of(x, virtual) for x in eqn.inputs[2:]]
    kept = [v.source for v in bias if v is not None]
    params["bias"] = [v.offset * v.source.aval.dtype.itemsize for v in bias if v is not None]
    return LibraryStep("product", params, (*args, *kept), tuple(calls))


def _batch_steps(eqn: Eqn, virtual: Mapping[Var, Eqn]) -> list[tuple[int, ...]]:
    """How far apart the operands of a batch are, along each of its axes."""
    steps = []
    for x, axes in zip(eqn.inputs, eqn.params["batch"], strict=False):
        view = view_of(x, virtual)
        assert view is not None
        steps.append(tuple([view.strides[i] for i in axes]))
    return steps
