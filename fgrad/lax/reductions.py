"""L7. Reductions by the names of `jax.lax`: sums in the dtype of the array, folds of any monoid,
windows, sorts of several arrays.

    reduce(x, init, combine, axes)     combine must be associative; init is its neutral element

A `combine` that is one operation (add, mul, max, min, and, or) is that reduction.  Any other one is
applied to neighbours, in log2(n) steps for n elements.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from fgrad import tree
from fgrad.base.keywords import also_takes
from fgrad.errors import ArgumentError, DtypeError, ShapeError
from fgrad.ir.aval import BOOL, Aval
from fgrad.ir.primitive import Primitive
from fgrad.lax.arrays import filled
from fgrad.lax.loops import associative_scan
from fgrad.lax.paddings import window_padding
from fgrad.lax.sorting import top_k
from fgrad.lax.whole import integers
from fgrad.numpy.promote import as_array, convert, normalize_axes, normalize_axis, user_line
from fgrad.ops import elementwise as ew
from fgrad.ops import reduce as rd
from fgrad.ops import window
from fgrad.ops.families import ADD
from fgrad.ops.sort import sort as sort_rows
from fgrad.trace import Value, trace
from fgrad.tracing.capturing import user_form
from fgrad.transforms.vmap import vmap
from fgrad.typing import ArrayLike, DTypeLike, PyTree

Ints = Sequence[int]
Combine = Callable[[Value, Value], Value]


def _axes(x: Value, axes: Ints) -> tuple[int, ...]:
    return normalize_axes(integers(axes, "reduce"), len(x.shape))


@also_takes(out_sharding=None)
def reduce_sum(operand: ArrayLike, axes: Ints) -> Value:
    """The sum along axes, in the dtype of the array.

    Example:
        >>> from fgrad import lax
        >>> lax.reduce_sum(np.array([1, 2], np.int8), (0,))
        np.int8(3)
    """
    x = as_array(operand)
    return rd.reduce_sum(x, _axes(x, axes))


def reduce_prod(operand: ArrayLike, axes: Ints) -> Value:
    """The product along axes, in the dtype of the array.

    Example:
        >>> from fgrad import lax
        >>> lax.reduce_prod(np.array([2.0, 3.0]), (0,))
        np.float64(6.0)
    """
    x = as_array(operand)
    return rd.reduce_prod(x, _axes(x, axes))


def reduce_max(operand: ArrayLike, axes: Ints) -> Value:
    """The largest element along axes; of none -inf, or the smallest integer.

    Example:
        >>> from fgrad import lax
        >>> lax.reduce_max(np.array([2.0, 3.0]), (0,))
        np.float64(3.0)
    """
    x = as_array(operand)
    return np.max(x, axis=_axes(x, axes), initial=least(x.dtype))


def reduce_min(operand: ArrayLike, axes: Ints) -> Value:
    """The smallest element along axes; of none inf, or the largest integer.

    Example:
        >>> from fgrad import lax
        >>> lax.reduce_min(np.array([2.0, 3.0]), (0,))
        np.float64(2.0)
    """
    x = as_array(operand)
    return np.min(x, axis=_axes(x, axes), initial=greatest(x.dtype))


def reduce_and(operand: ArrayLike, axes: Ints) -> Value:
    """The bitwise and along axes.

    Example:
        >>> from fgrad import lax
        >>> lax.reduce_and(np.array([6, 3]), (0,))
        np.int64(2)
    """
    x = as_array(operand)
    return np.bitwise_and.reduce(x, axis=_axes(x, axes))


def reduce_or(operand: ArrayLike, axes: Ints) -> Value:
    """The bitwise or along axes.

    Example:
        >>> from fgrad import lax
        >>> lax.reduce_or(np.array([6, 3]), (0,))
        np.int64(7)
    """
    x = as_array(operand)
    return np.bitwise_or.reduce(x, axis=_axes(x, axes))


def reduce_xor(operand: ArrayLike, axes: Ints) -> Value:
    """The bitwise exclusive or along axes.

    Example:
        >>> from fgrad import lax
        >>> lax.reduce_xor(np.array([6, 3]), (0,))
        np.int64(5)
    """
    x = as_array(operand)
    return np.bitwise_xor.reduce(x, axis=_axes(x, axes))


def _ordered(dtype: np.dtype) -> None:
    """Refuse complex numbers, of which none is the least."""
    if dtype.kind == "c":
        raise DtypeError(
            f"{dtype} numbers have no least and no largest one.",
            (*user_line(), ("write", "np.max(x, axes), np.min(x, axes)    in NumPy's order")),
        )


def least(dtype: np.dtype) -> PyTree:
    """The neutral element of max."""
    if dtype.kind == "b":
        return np.bool_(False)
    _ordered(dtype)
    return dtype.type(-math.inf) if dtype.kind == "f" else np.iinfo(dtype).min


def greatest(dtype: np.dtype) -> PyTree:
    """The neutral element of min."""
    if dtype.kind == "b":
        return np.bool_(True)
    _ordered(dtype)
    return dtype.type(math.inf) if dtype.kind == "f" else np.iinfo(dtype).max


def argmax(operand: ArrayLike, axis: int, index_dtype: DTypeLike | None = np.int64) -> Value:
    """Where the largest element along an axis is; the first one, or the first NaN.

    Example:
        >>> from fgrad import lax
        >>> lax.argmax(np.array([1.0, 3.0]), 0, np.int32)
        np.int32(1)
    """
    return np.argmax(as_array(operand), axis=axis).astype(np.dtype(index_dtype))


def argmin(operand: ArrayLike, axis: int, index_dtype: DTypeLike | None = np.int64) -> Value:
    """Where the smallest element along an axis is; the first one, or the first NaN.

    Example:
        >>> from fgrad import lax
        >>> lax.argmin(np.array([1.0, 3.0]), 0, np.int32)
        np.int32(0)
    """
    return np.argmin(as_array(operand), axis=axis).astype(np.dtype(index_dtype))


# --- cumulative ---------------------------------------------------------------------------------


def _cumulative(name: str, what: str, example: str) -> Callable[..., Value]:
    """A fold of the elements up to each one, which is a primitive."""
    fold = getattr(rd, name)

    def public(operand: ArrayLike, axis: int = 0, reverse: bool = False) -> Value:
        x = as_array(operand)
        return fold(x, normalize_axis(axis, len(x.shape)), reverse)

    public.__name__ = public.__qualname__ = name
    public.__doc__ = f"""{what} of the elements up to each one, or with `reverse` from each one on.

    Example:
        >>> from fgrad import lax
        >>> lax.{name}(np.array([1, 3, 2]))
        {example}
    """
    return public


cumsum = _cumulative("cumsum", "Sums", "array([1, 4, 6])")
cumprod = _cumulative("cumprod", "Products", "array([1, 3, 6])")
cummax = _cumulative("cummax", "The largest", "array([1, 3, 3])")
cummin = _cumulative("cummin", "The smallest", "array([1, 1, 1])")


def cumlogsumexp(operand: ArrayLike, axis: int = 0, reverse: bool = False) -> Value:
    """log(sum(exp(x))) of the elements up to each one, or from each one on.

    Example:
        >>> from fgrad import lax
        >>> lax.cumlogsumexp(np.array([0.0, 0.0]))
        array([0.        , 0.69314718])
    """
    x = as_array(operand)
    axis = normalize_axis(axis, len(x.shape))
    if not x.shape[axis]:
        return x
    return associative_scan(np.logaddexp, x, reverse=reverse, axis=axis)


# --- any monoid ---------------------------------------------------------------------------------

# Operations of which a reduction is a primitive, and that reduction.
_REDUCTIONS: dict[Primitive, Callable[[Value, tuple[int, ...]], Value]] = {
    ADD: rd.reduce_sum,
    ew.mul_p: rd.reduce_prod,
    ew.max_p: rd.reduce_max,
    ew.min_p: rd.reduce_min,
}


def _operation(combine: Combine, dtype: np.dtype) -> Primitive | None:
    """The one operation that `combine` is, of two scalars of a dtype; None if it is another one."""
    aval = Aval((), dtype)
    program = trace(lambda a, b: [user_form(combine)(a, b)], [aval, aval]).program
    if len(program.eqns) != 1 or len(program.inputs) != 2:
        return None
    [eqn] = program.eqns
    same = set(eqn.inputs) == set(program.inputs) and program.outputs == eqn.outputs
    return eqn.prim if same and dtype != BOOL else None


def _folded(x: PyTree, combine: Combine, axis: int) -> PyTree:
    """Neighbours combined along an axis, which is not empty, until one is left."""
    leaves = tree.leaves(x)
    many = vmap(combine)
    moved = tree.map(lambda y: np.moveaxis(y, axis, 0), x)
    count = leaves[0].shape[axis]
    rest = moved if count else None
    while count > 1:
        half = count // 2
        left, right = [_every_second(rest, k, 2 * half) for k in (0, 1)]
        combined = _over_all(many, left, right)
        if count % 2:
            last = tree.map(lambda y: y[-1:], rest)
            combined = tree.map(lambda a, b: np.concatenate([a, b]), combined, last)
        rest, count = combined, half + count % 2
    return tree.map(lambda y: y[0], rest)


def _every_second(x: PyTree, start: int, stop: int) -> PyTree:
    return tree.map(lambda y: y[start:stop:2], x)


def _over_all(many: Combine, left: PyTree, right: PyTree) -> PyTree:
    """`combine` of scalars, for each element of arrays of one shape."""
    shape = tree.leaves(left)[0].shape
    flat = [tree.map(lambda y: np.reshape(y, -1), part) for part in (left, right)]
    return tree.map(lambda y: np.reshape(y, shape), many(*flat))


def _operands(
    name: str, operands: PyTree, init_values: PyTree
) -> tuple[list[Value], list[Value], tree.TreeDef]:
    found, treedef = tree.flatten(operands)
    starts: PyTree = treedef.flatten_up_to(init_values)
    inits = [as_array(x) for x in starts]
    arrays = [as_array(x) for x in found]
    for x, init in zip(arrays, inits, strict=True):
        if init.shape or x.shape != arrays[0].shape:
            raise ShapeError(
                f"lax.{name}: operands of shapes {[y.shape for y in arrays]} and initial values "
                f"of shapes {[y.shape for y in inits]}, which must be scalars.",
                user_line(),
            )
        if np.dtype(init.dtype).kind == "c" and np.dtype(x.dtype).kind != "c":
            raise DtypeError(
                f"lax.{name}: a complex initial value for an array of {x.dtype}.",
                (*user_line(), ("write", "x.astype(complex)")),
            )
    return arrays, [convert(i, x.dtype) for i, x in zip(inits, arrays, strict=True)], treedef


@also_takes(out_sharding=None)
def reduce(operands: PyTree, init_values: PyTree, computation: Combine, dimensions: Ints) -> PyTree:
    """Arrays folded along axes by an associative function.

    Arguments:
        operands: an array, or a tree of arrays of one shape that are folded together.
        init_values: scalars like them: the neutral element of `computation`.
        computation: a function of two scalars, or of two trees of scalars.
        dimensions: the axes.

    Raises:
        ShapeError: if shapes differ.

    Example:
        >>> from fgrad import lax
        >>> lax.reduce(np.array([2.0, 5.0, 3.0]), 0.0, lambda a, b: a + b - a * b, (0,))
        np.float64(9.0)
        >>> lax.reduce(np.array([2.0, 5.0, 3.0]), -np.inf, lax.max, (0,))
        np.float64(5.0)
    """
    arrays, inits, treedef = _operands("reduce", operands, init_values)
    axes = _axes(arrays[0], dimensions) if arrays else ()
    return _reduced(arrays, inits, treedef, computation, axes)


def _reduced(
    arrays: list[Value],
    inits: list[Value],
    treedef: tree.TreeDef,
    computation: Combine,
    axes: tuple[int, ...],
) -> PyTree:
    """`reduce` of arrays; the axes together are one, in row-major order."""
    shape = arrays[0].shape
    kept = tuple([a for a in range(len(shape)) if a not in axes])
    empty = any(shape[a] == 0 for a in axes)
    if len(arrays) == 1 and not empty:
        operation = _operation(computation, arrays[0].dtype)
        if operation in _REDUCTIONS:
            found = _REDUCTIONS[operation](arrays[0], axes)
            first = np.broadcast_to(inits[0], found.shape)
            return tree.unflatten(treedef, [_apply(computation, first, found)])
    if empty:
        sizes = tuple([shape[a] for a in kept])
        return tree.unflatten(treedef, [np.broadcast_to(i, sizes).copy() for i in inits])
    flat = [
        np.reshape(np.transpose(x, (*kept, *axes)), (*[shape[a] for a in kept], -1)) for x in arrays
    ]
    folded = _folded(tree.unflatten(treedef, flat), user_form(computation), len(kept))
    first = tree.map(lambda y, i: np.broadcast_to(i, y.shape), folded,
                     tree.unflatten(treedef, inits))  # fmt: skip
    out = _over_all(vmap(user_form(computation)), first, folded)
    return tree.map(lambda y: y[()], out)


def _apply(combine: Combine, x: Value, y: Value) -> Value:
    """A `combine` that is one elementwise operation, of whole arrays."""
    return user_form(combine)(x, y)


def reduce_window(
    operand: PyTree,
    init_value: PyTree,
    computation: Combine,
    window_dimensions: Ints,
    window_strides: Ints | None = None,
    padding: str | Sequence[tuple[int, int]] = "VALID",
    base_dilation: Ints | None = None,
    window_dilation: Ints | None = None,
) -> PyTree:
    """The elements of each window folded by an associative function: pooling.

    Arguments:
        operand, init_value, computation: as for `reduce`.
        window_dimensions: the length of the window along each axis.
        window_strides: the distance of windows along each axis, 1 if None.
        padding: "VALID", "SAME", "SAME_LOWER", or a (low, high) for each axis; what is added is
            `init_value`.
        base_dilation: the distance of the elements of the array.
        window_dilation: the distance of the elements of a window.

    Raises:
        ShapeError, ArgumentError: if these do not fit.

    Example:
        >>> from fgrad import lax
        >>> lax.reduce_window(np.array([1.0, 4.0, 2.0, 3.0]), -np.inf, lax.max, (2,), (2,))
        array([4., 3.])
    """
    arrays, inits, treedef = _operands("reduce_window", operand, init_value)
    rank = len(arrays[0].shape)
    ones = (1,) * rank
    sizes = integers(window_dimensions, "reduce_window")
    settings = [window_strides, base_dilation, window_dilation]
    steps, base, apart = [ones if s is None else integers(s, "reduce_window") for s in settings]
    if not len(sizes) == len(steps) == len(base) == len(apart) == rank:
        raise ShapeError(
            f"lax.reduce_window: {len(sizes)} window lengths for {rank} axes.", user_line()
        )
    if min((*sizes, *steps, *base, *apart), default=1) < 1:
        raise ArgumentError(
            f"lax.reduce_window: windows of {sizes}, strides {steps} and dilations {base} and "
            f"{apart} must be at least 1.",
            user_line(),
        )
    lengths = tuple(map(window.spread_length, arrays[0].shape, base))
    pairs = window_padding("reduce_window", padding, lengths, sizes, steps, apart)
    low, high = [tuple([p[k] for p in pairs]) for k in (0, 1)]
    interior = tuple([d - 1 for d in base])
    whole = [filled(x, low, high, interior, i) for x, i in zip(arrays, inits, strict=True)]
    axes = tuple(range(rank))
    found = [window.windows(x, axes, sizes, steps, apart) for x in whole]
    return _reduced(found, inits, treedef, computation, tuple(range(rank, 2 * rank)))


# --- sorting ------------------------------------------------------------------------------------


def sort(operand: PyTree, dimension: int = -1, is_stable: bool = True, num_keys: int = 1) -> PyTree:
    """An array, or several, in the order of the first ones along an axis.

    Arguments:
        operand: an array, or a tuple of arrays of one shape.
        dimension: the axis.
        is_stable: accepted for JAX's sake: equal elements always keep their order.
        num_keys: how many of the arrays decide the order, one after the other.

    Raises:
        ShapeError: if shapes differ.

    Example:
        >>> from fgrad import lax
        >>> lax.sort((np.array([2, 1]), np.array([5.0, 6.0])))
        (array([1, 2]), array([6., 5.]))
    """
    del is_stable
    several = isinstance(operand, (tuple, list))
    xs = [as_array(x) for x in operand] if several else [as_array(operand)]
    if len({x.shape for x in xs}) > 1:
        raise ShapeError(f"lax.sort: arrays of shapes {[x.shape for x in xs]}.", user_line())
    axis = normalize_axis(dimension, len(xs[0].shape))
    out = sort_rows(tuple(xs), axis, num_keys)
    return tuple(out) if several else out[0]


def sort_key_val(
    keys: ArrayLike, values: ArrayLike, dimension: int = -1, is_stable: bool = True
) -> tuple[Value, Value]:
    """Two arrays in the order of the first one.

    Arguments:
        keys, values: arrays of one shape.
        is_stable: accepted for JAX's sake: equal keys keep their order in any case.

    Example:
        >>> from fgrad import lax
        >>> lax.sort_key_val(np.array([2, 1]), np.array([5.0, 6.0]))
        (array([1, 2]), array([6., 5.]))
    """
    first, second = sort((keys, values), dimension, is_stable)
    return first, second


@also_takes("reduction_input_size_override", aggregate_to_topk=True)
def approx_max_k(
    operand: ArrayLike, k: int, reduction_dimension: int = -1, recall_target: float = 0.95
) -> tuple[Value, Value]:
    """`top_k`, exactly; `recall_target` is accepted for JAX's sake.

    Arguments:
        k: how many.
        reduction_dimension: along which axis.

    Example:
        >>> from fgrad import lax
        >>> lax.approx_max_k(np.array([1.0, 3.0, 2.0]), 2)
        (array([3., 2.]), array([1, 2]))
    """
    _check_recall(recall_target)
    return top_k(operand, k, axis=reduction_dimension)


@also_takes("reduction_input_size_override", aggregate_to_topk=True)
def approx_min_k(
    operand: ArrayLike, k: int, reduction_dimension: int = -1, recall_target: float = 0.95
) -> tuple[Value, Value]:
    """The `k` smallest elements, exactly; `recall_target` is accepted for JAX's sake.

    Arguments:
        reduction_dimension: along which axis.

    Raises:
        DtypeError: if the array is not of floats.

    Example:
        >>> from fgrad import lax
        >>> lax.approx_min_k(np.array([1.0, 3.0, 2.0]), 2)
        (array([1., 2.]), array([0, 2]))
    """
    _check_recall(recall_target)
    x = as_array(operand)
    if x.dtype.kind != "f":
        raise DtypeError(f"lax.approx_min_k takes floats, not {x.dtype}.", user_line())
    values, places = top_k(-x, k, axis=reduction_dimension)
    return -values, places


def _check_recall(recall: float) -> None:
    if not 0 < recall <= 1:
        raise ArgumentError(f"lax.approx_max_k: recall_target={recall}.", user_line())
