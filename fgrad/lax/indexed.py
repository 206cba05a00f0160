"""L7. Gathers and scatters with dimension numbers, and sums over segments, as in JAX.

    gather(x, starts, numbers, sizes)    blocks of `sizes` of x, at each row of `starts`
    scatter(x, starts, updates, numbers) x with blocks replaced, added to, ...
    segment_sum(data, ids, n)            out[ids[i]] += data[i]

`fgrad.at(x)[i]` is the way to write it by hand; these are for programs that have them.  Blocks that
do not lie inside are not there: "fill" reads NaN (or the smallest integer), "drop" writes nothing;
"clip" moves them inside.  `indices_are_sorted` and `unique_indices` are accepted for JAX's sake.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Sequence

import numpy as np

from fgrad.base.keywords import also_takes
from fgrad.base.named_tuple import NamedTuple
from fgrad.errors import ArgumentError, DtypeError, ShapeError
from fgrad.ir.aval import INT64
from fgrad.lax.arrays import move_axes
from fgrad.lax.reductions import greatest, least
from fgrad.lax.whole import integers
from fgrad.numpy.at_indexing import IndexedElements, at, fill_of
from fgrad.numpy.promote import as_array, convert, user_line
from fgrad.ops import elementwise as ew
from fgrad.ops.index import gather as gather_elements
from fgrad.ops.index import scatter as scatter_elements
from fgrad.trace import Value, concrete
from fgrad.typing import ArrayLike, PyTree

Ints = tuple[int, ...]


class GatherScatterMode(enum.Enum):
    """What becomes of blocks that do not lie inside of the array."""

    CLIP = "clip"
    FILL_OR_DROP = "fill"
    PROMISE_IN_BOUNDS = "promise_in_bounds"


class GatherDimensionNumbers(NamedTuple):
    """Which axes of a gather are which, as in XLA.

    offset_dims: the axes of the result that count within a block.
    collapsed_slice_dims: axes of the array that a block has length 1 along, and the result has not.
    start_index_map: for each number of a start, the axis of the array that it is along.
    operand_batching_dims, start_indices_batching_dims: axes of the array and of the starts that
        go together.
    """

    offset_dims: Ints
    collapsed_slice_dims: Ints
    start_index_map: Ints
    operand_batching_dims: Ints = ()
    start_indices_batching_dims: Ints = ()


class ScatterDimensionNumbers(NamedTuple):
    """Which axes of a scatter are which; the fields mirror those of `GatherDimensionNumbers`."""

    update_window_dims: Ints
    inserted_window_dims: Ints
    scatter_dims_to_operand_dims: Ints
    operand_batching_dims: Ints = ()
    scatter_indices_batching_dims: Ints = ()


_MODES: dict[object, str] = {
    None: "fill", "fill": "fill", "drop": "fill", "clip": "clip",
    "promise_in_bounds": "clip", GatherScatterMode.CLIP: "clip",
    GatherScatterMode.FILL_OR_DROP: "fill", GatherScatterMode.PROMISE_IN_BOUNDS: "clip",
}  # fmt: skip


class _Places(NamedTuple):
    """Where the elements of all blocks are.

    axes: those of the array that are indexed, ascending; along the others blocks have all of it.
    indices: for each of them an array of the shape (batch axes, block axes).
    inside: whether a block lies inside, of the same number of axes.
    order: the place in the result of each axis of (batch, block, others).
    """

    axes: Ints
    indices: list[Value]
    inside: Value
    order: Ints


def _places(
    name: str, shape: Ints, starts: Value, numbers: GatherDimensionNumbers, sizes: Ints, mode: str
) -> _Places:
    """The places of blocks of `sizes`, which all lie inside if `mode` is "clip"."""
    rank, batch = len(shape), starts.shape[:-1]
    gone = {*numbers.collapsed_slice_dims, *numbers.operand_batching_dims}
    _check(name, shape, starts, numbers, sizes, gone)
    mapped = dict(zip(numbers.start_index_map, range(starts.shape[-1]), strict=True))
    paired = dict(
        zip(numbers.operand_batching_dims, numbers.start_indices_batching_dims, strict=True)
    )
    axes = tuple([a for a in range(rank) if a in mapped or a in gone or sizes[a] != shape[a]])
    block = [a for a in axes if a not in gone]
    total = len(batch) + len(block)
    inside: Value = np.ones((1,) * total, bool)
    indices = []
    for a in axes:
        at_first: Value = np.zeros((1,) * total, INT64)
        if a in mapped:
            at_first = np.reshape(starts[..., mapped[a]], (*batch, *[1] * len(block)))
            last = shape[a] - sizes[a]
            inside = np.logical_and(inside, np.logical_and(at_first >= 0, at_first <= last))
            at_first = np.clip(at_first, 0, last)
        elif a in paired:
            at_first = _along(paired[a], shape[a], total)
        if a not in gone:
            at_first = at_first + _along(len(batch) + block.index(a), sizes[a], total)
        indices.append(at_first)
    kept = [a for a in range(rank) if a not in gone]
    whole = [*block, *[a for a in kept if a not in block]]  # as gathered: the others come last
    spots = dict(zip(kept, numbers.offset_dims, strict=True))
    rest = [k for k in range(len(batch) + len(kept)) if k not in numbers.offset_dims]
    return _Places(axes, indices, inside, (*rest, *[spots[a] for a in whole]))


def _common(indices: list[Value]) -> list[Value]:
    """Index arrays in the shape that they have in common."""
    shape = np.broadcast_shapes(*[i.shape for i in indices])
    return [np.broadcast_to(i, shape) for i in indices]


def _along(axis: int, length: int, rank: int) -> Value:
    """0, 1, ... along one of `rank` axes."""
    return np.arange(length).reshape([-1 if k == axis else 1 for k in range(rank)])


def _check(
    name: str,
    shape: Ints,
    starts: Value,
    numbers: GatherDimensionNumbers,
    sizes: Ints,
    gone: set[int],
) -> None:
    fits = len(sizes) == len(shape) and all(0 <= s <= n for s, n in zip(sizes, shape, strict=True))
    fits = fits and starts.shape[-1:] == (len(numbers.start_index_map),)
    fits = fits and len(numbers.offset_dims) == len(shape) - len(gone)
    fits = fits and len(numbers.operand_batching_dims) == len(numbers.start_indices_batching_dims)
    if not fits or any(sizes[a] != 1 for a in gone):
        raise ShapeError(
            f"lax.{name}: {numbers} for an array of shape {shape}, starts of shape "
            f"{tuple(starts.shape)} and blocks of {sizes}.",
            user_line(),
        )


def _starts(name: str, indices: ArrayLike) -> Value:
    starts = as_array(indices)
    if starts.dtype.kind not in "iu" or not starts.shape:
        raise DtypeError(
            f"lax.{name}: starts are integers in the last axis, not {starts.dtype} of shape "
            f"{starts.shape}.",
            user_line(),
        )
    return starts.astype(INT64)


def _mode(name: str, mode: object) -> str:
    if mode not in _MODES:
        raise ArgumentError(
            f"lax.{name}: mode={mode!r}.",
            (*user_line(), ("write", "'clip', 'fill' or 'promise_in_bounds'")),
        )
    return _MODES[mode]


def gather(
    operand: ArrayLike,
    start_indices: ArrayLike,
    dimension_numbers: GatherDimensionNumbers,
    slice_sizes: Sequence[int],
    *,
    unique_indices: bool = False,
    indices_are_sorted: bool = False,
    mode: str | GatherScatterMode | None = None,
    fill_value: ArrayLike | None = None,
) -> Value:
    """Blocks of an array, at places that are rows of `start_indices`.

    Arguments:
        operand: an array.
        start_indices: integers (batch axes, k): where each block starts along k axes.
        dimension_numbers: which axes are which.
        slice_sizes: the lengths of a block along all axes of the array.
        mode: "clip" (also for None), "fill" or "promise_in_bounds".
        fill_value: what "fill" reads outside; NaN or the smallest integer if None.

    Raises:
        ShapeError, ArgumentError: if these do not fit.

    Example:
        >>> from fgrad import lax
        >>> numbers = lax.GatherDimensionNumbers((1,), (), (0,))
        >>> lax.gather(np.arange(5), np.array([[1], [3]]), numbers, (2,))
        array([[1, 2],
               [3, 4]])
    """
    del unique_indices, indices_are_sorted
    x, how = as_array(operand), "clip" if mode is None else _mode("gather", mode)
    if fill_value is not None and how == "clip":
        raise ArgumentError(
            "lax.gather: a fill value, and blocks that are moved inside.",
            (*user_line(), ("write", "lax.gather(..., mode='fill', fill_value=v)")),
        )
    starts = _starts("gather", start_indices)
    sizes = integers(slice_sizes, "gather")
    places = _places("gather", tuple(x.shape), starts, dimension_numbers, sizes, how)
    indices = _common(places.indices)
    found: Value = gather_elements(x, tuple(indices), places.axes) if indices else x
    if how == "fill":
        fill = fill_of(x.dtype) if fill_value is None else fill_value
        rest = len(found.shape) - len(places.inside.shape)
        inside = np.reshape(places.inside, (*places.inside.shape, *[1] * rest))
        value = convert(as_array(fill), x.dtype)
        shapes = [np.broadcast_to(y, found.shape) for y in (inside, value)]
        found = ew.select(shapes[0], found, shapes[1])
    return move_axes(found, tuple(range(len(places.order))), places.order)


# --- scatter ------------------------------------------------------------------------------------


def _scattered(
    name: str,
    operand: ArrayLike,
    scatter_indices: ArrayLike,
    updates: ArrayLike,
    numbers: ScatterDimensionNumbers,
    mode: str | GatherScatterMode | None,
    how: Callable[[IndexedElements, Value], Value],
) -> Value:
    """`how(elements, updates)`, where the elements are those of `fgrad.at`."""
    x, how_outside = as_array(operand), _mode(name, mode)
    updates = convert(as_array(updates), x.dtype)
    starts = _starts(name, scatter_indices)
    gone = {*numbers.inserted_window_dims, *numbers.operand_batching_dims}
    window = iter(numbers.update_window_dims)
    sizes = tuple([1 if a in gone else updates.shape[next(window)] for a in range(len(x.shape))])
    mirrored = GatherDimensionNumbers(*numbers)
    places = _places(name, tuple(x.shape), starts, mirrored, sizes, how_outside)
    values = move_axes(updates, places.order, tuple(range(len(places.order))))
    if not places.axes:
        return how(at(x)[...], values)
    indices = _common(places.indices)
    if how_outside == "fill":  # a block that is not inside goes to a place that is not there
        indices[0] = np.where(places.inside, indices[0], x.shape[places.axes[0]])
    front = move_axes(x, places.axes, tuple(range(len(places.axes))))
    out = how(at(front)[tuple(indices)], values)
    return move_axes(out, tuple(range(len(places.axes))), places.axes)


def _scatter(name: str, how: str, what: str, example: str) -> Callable[..., Value]:
    """One of the functions that combine blocks with an array."""

    def scatter_as(
        operand: ArrayLike,
        scatter_indices: ArrayLike,
        updates: ArrayLike,
        dimension_numbers: ScatterDimensionNumbers,
        *,
        indices_are_sorted: bool = False,
        unique_indices: bool = False,
        mode: str | GatherScatterMode | None = None,
    ) -> Value:
        del indices_are_sorted, unique_indices
        values = -as_array(updates) if name == "scatter_sub" else updates
        return _scattered(
            name, operand, scatter_indices, values, dimension_numbers, mode,
            lambda elements, given: elements.combined(given, how, "drop"),
        )  # fmt: skip

    scatter_as.__name__ = scatter_as.__qualname__ = name
    scatter_as.__doc__ = f"""An array with blocks {what}, at places that are rows of integers.

    Arguments:
        operand: an array.
        scatter_indices: integers (batch axes, k): where each block starts along k axes.
        updates: the blocks.
        dimension_numbers: which axes are which.
        mode: "fill" or "drop" (also for None): blocks that do not lie inside are left out; "clip"
            moves them inside.

    Raises:
        ShapeError, ArgumentError: if these do not fit.

    Example:
        >>> from fgrad import lax
        >>> numbers = lax.ScatterDimensionNumbers((), (0,), (0,))
        >>> lax.{name}(np.array([4, 5]), np.array([[1]]), np.array([2]), numbers)
        {example}
    """
    return scatter_as


scatter = _scatter("scatter", "set", "replaced", "array([4, 2])")
scatter_add = _scatter("scatter_add", "add", "added", "array([4, 7])")
scatter_sub = _scatter("scatter_sub", "add", "subtracted", "array([4, 3])")
scatter_mul = _scatter("scatter_mul", "mul", "multiplied", "array([ 4, 10])")
scatter_min = _scatter("scatter_min", "min", "where they are smaller", "array([4, 2])")
scatter_max = _scatter("scatter_max", "max", "where they are larger", "array([4, 5])")


def scatter_apply(
    operand: ArrayLike,
    scatter_indices: ArrayLike,
    func: Callable[[Value], Value],
    dimension_numbers: ScatterDimensionNumbers,
    *,
    update_shape: Sequence[int] = (),
    indices_are_sorted: bool = False,
    unique_indices: bool = False,
    mode: str | GatherScatterMode | None = None,
) -> Value:
    """An array with a function applied to the elements of blocks; repeated ones count once.

    Arguments are those of `scatter`, with the shape of updates in their place.

    Arguments:
        scatter_indices: the places of blocks.
        func: a function of arrays of elements.
        update_shape: the shape that updates would have.
        mode: what becomes of blocks beyond the ends, a `GatherScatterMode`.

    Example:
        >>> from fgrad import lax
        >>> numbers = lax.ScatterDimensionNumbers((), (0,), (0,))
        >>> lax.scatter_apply(np.array([4.0, 9.0]), np.array([[1]]), np.sqrt, numbers,
        ...                   update_shape=(1,))
        array([4., 3.])
    """
    del indices_are_sorted, unique_indices
    x = as_array(operand)
    return _scattered(
        "scatter_apply", x, scatter_indices, np.zeros(tuple(update_shape), x.dtype),
        dimension_numbers, mode, lambda elements, _: elements.apply(func, mode="drop"),
    )  # fmt: skip


# --- segments -----------------------------------------------------------------------------------


def _segment(
    name: str, how: str, neutral: Callable[[np.dtype], PyTree], what: str, example: str
) -> Callable[..., Value]:
    """One of the reductions over segments."""

    @also_takes(out_sharding=None)
    def segment_as(
        data: ArrayLike,
        segment_ids: ArrayLike,
        num_segments: int | None = None,
        indices_are_sorted: bool = False,
        unique_indices: bool = False,
        bucket_size: int | None = None,
        mode: str | GatherScatterMode | None = None,
    ) -> Value:
        del indices_are_sorted, unique_indices, bucket_size
        x, ids = as_array(data), as_array(segment_ids)
        _mode(name, mode)
        if ids.dtype.kind not in "iu" or ids.shape != x.shape[: len(ids.shape)]:
            raise ShapeError(
                f"lax.{name}: ids are {ids.dtype} of shape {ids.shape}, data of shape {x.shape}.",
                user_line(),
            )
        count = _count(name, ids) if num_segments is None else int(num_segments)
        start = np.full((count, *x.shape[len(ids.shape) :]), neutral(x.dtype), x.dtype)
        return scatter_elements(start, [convert(ids, INT64)], x, (0,), how)

    segment_as.__name__ = segment_as.__qualname__ = name
    segment_as.__doc__ = f"""The {what} of the data of each segment.

    Arguments:
        data: an array.
        segment_ids: integers, the segment of each item along the first axes; items of a segment
            that is not there (negative, or `num_segments` and more) are left out.
        num_segments: how many there are; where it is None the ids must be known.
        indices_are_sorted, unique_indices, bucket_size: accepted for JAX's sake.
        mode: of `scatter`; ids outside are left out in any case.

    Raises:
        ShapeError: the ids are no integers, or do not fit the data.
        ArgumentError: the number of segments is not known.

    Example:
        >>> from fgrad import lax
        >>> lax.{name}(np.array([1.0, 2.0, 4.0]), np.array([0, 2, 0]), 2)
        {example}
    """
    return segment_as


def _count(name: str, ids: Value) -> int:
    known = concrete(ids)
    if known is None:
        raise ArgumentError(
            f"lax.{name}: the number of segments is not known.",
            (
                *user_line(),
                ("why", "it is the largest id, which has no value here."),
                ("write", f"fgrad.lax.{name}(data, ids, num_segments=n)"),
            ),
        )
    return int(np.max(known, initial=-1)) + 1


segment_sum = _segment("segment_sum", "add", lambda _: 0, "sum", "array([5., 0.])")
segment_prod = _segment("segment_prod", "mul", lambda _: 1, "product", "array([4., 1.])")
segment_max = _segment("segment_max", "max", least, "largest element", "array([  4., -inf])")
segment_min = _segment("segment_min", "min", greatest, "smallest element", "array([ 1., inf])")
