"""L4. `x[...]` for every index that NumPy knows.

An index is parsed into one item for each axis; slices are applied first, then all integer arrays by
one gather, then the axes are put where NumPy puts them: at the first integer array if these are
adjacent, else in front.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from fgrad.base.named_tuple import NamedTuple
from fgrad.base.size_functions import length_of, slice_of
from fgrad.errors import BoundsError, TracedIndexError
from fgrad.ir.aval import INT64
from fgrad.numpy.bounds import bounds_error, known_indices, traced_indices
from fgrad.numpy.dispatch import has_tracer
from fgrad.numpy.masked import ADVICE
from fgrad.numpy.promote import (
    Shape,
    as_array,
    as_operand,
    broadcast,
    broadcast_shapes,
    broadcast_to,
    convert,
    dtype_of,
    fresh,
    reshape,
    shape_of,
    stored,
    strong,
    user_line,
)
from fgrad.ops import elementwise as ew
from fgrad.ops import index as ix
from fgrad.ops import shape as sh
from fgrad.ops.size import number
from fgrad.trace import Tracer, Value, concrete
from fgrad.tracing.checks import checks
from fgrad.tracing.fastpath import bind_one
from fgrad.typing import ArrayLike


class Slice(NamedTuple):
    """A slice of an axis: `count` elements from `start`, `step` apart."""

    start: int
    count: int
    step: int

    def is_full(self, length: int) -> bool:
        """Whether it is the axis as it stands."""
        return self.start == 0 and self.step == 1 and self.count == length


_ALL = slice(None)

Item = Any  # a Slice, an int, an integer array or tracer, or None for a new axis


class Index(NamedTuple):
    """A parsed index: the item of each axis of the array, and the layout of the result."""

    items: tuple[Item, ...]  # Slice, int or integer array, one for each axis
    layout: tuple[Any, ...]  # axis number of a slice, None for a new axis, "i" for index axes
    has_arrays: bool


# --- parsing --------------------------------------------------------------------------------------


def parse(shape: Shape, index: object, bounds: str = "raise") -> Index:
    """The items of an index into an array of this shape; known integers are checked and wrapped.

    `bounds` says what becomes of integers out of bounds: "raise" (where they are known), "clip",
    or "drop", which makes them the length of the axis, where there is nothing.
    """
    parts = [_known(part) for part in (index if isinstance(index, tuple) else (index,))]
    expanded = _expand(parts, len(shape))
    items: list[Item] = []
    layout: list[Any] = []
    advanced: list[int] = []  # places in `layout` of integers and integer arrays
    for part in expanded:
        if part is None or part is _GAP:
            layout.append(part)
            continue
        axis = len(items)
        item = _item(part, axis, shape[axis], bounds)
        items.append(item)
        if isinstance(item, Slice):
            layout.append(axis)
        else:
            advanced.append(len(layout))
            layout.append("i")
    has_arrays = any(not isinstance(item, (Slice, int)) for item in items)
    return Index(tuple(items), _place(layout, advanced), has_arrays)


def _place(layout: list[Value], advanced: list[int]) -> tuple[Any, ...]:
    """One "i" for all index axes: where the first stands if they are adjacent, else in front."""
    if not advanced:
        return tuple([x for x in layout if x is not _GAP])
    rest_before = [x for x in layout[: advanced[0]] if x not in ("i", _GAP)]
    rest_after = [x for x in layout[advanced[0] :] if x not in ("i", _GAP)]
    if advanced[-1] - advanced[0] + 1 == len(advanced):
        return (*rest_before, "i", *rest_after)
    return ("i", *rest_before, *rest_after)


def _known(part: Any) -> Any:
    """A part of an index, as a constant where its value is known."""
    if part is None or part is Ellipsis or isinstance(part, slice) or type(part) is int:
        return part
    if isinstance(part, (list, tuple, range)) and not has_tracer(part):
        part = np.asarray(part) if len(part) else np.zeros(0, INT64)
    part = as_operand(part)
    if isinstance(part, Tracer):
        value = concrete(part)
        part = part if value is None else value
    if dtype_of(part).kind not in "biu":
        raise BoundsError(
            "only integers, slices (`:`), ellipsis (`...`), numpy.newaxis (`None`) and integer or "
            "boolean arrays are valid indices",
        )
    if isinstance(part, Tracer) and part.dtype.kind == "b":
        raise TracedIndexError(
            "A boolean mask has no known values, so the shape of the result is not known.",
            (*user_line(), *ADVICE),
        )
    return part


def _expand(parts: list[Value], ndim: int) -> list[Any]:
    """The parts with masks as integers, the ellipsis as slices, and an item for every axis."""
    out: list[Any] = []
    ellipsis = -1
    for part in parts:
        if part is Ellipsis:
            if ellipsis >= 0:
                raise BoundsError("an index can only have a single ellipsis ('...')")
            ellipsis = len(out)
        elif getattr(part, "dtype", None) == np.bool_ or type(part) is bool:
            out.extend(_mask_indices(part))
        else:
            out.append(part)
    used = len([part for part in out if part is not None])
    if used > ndim:
        raise BoundsError(
            f"too many indices for array: array is {ndim}-dimensional, but {used} were indexed",
        )
    fill = [slice(None)] * (ndim - used)
    if ellipsis < 0:
        return out + fill
    return out[:ellipsis] + (fill or [_GAP]) + out[ellipsis:]


_GAP = object()  # an ellipsis that stands for no axis, but still parts integer arrays


def _is_truth(part: Any) -> bool:
    """Whether a part of an index is one truth value, which consumes no axis."""
    return type(part) is bool or (getattr(part, "dtype", None) == np.bool_ and not part.shape)


def with_truth_axes(x: Value, index: object) -> tuple[Value, object]:
    """`x[True, i]` as an index of `x` with an axis of length 1 where the truth value stands.

    True takes that axis and False takes none of it, together with the other integer arrays.
    """
    parts = list(index) if isinstance(index, tuple) else [index]
    if not any(_is_truth(part) for part in parts):
        return x, index
    known = [_known(part) for part in parts]
    consumed = [_consumed(part) for part in known]
    shape, axis = list(x.shape), 0
    for k, part in enumerate(known):
        if _is_truth(part):
            shape.insert(axis, 1)
            parts[k] = np.zeros(int(bool(part)), INT64)
            axis += 1
        elif part is Ellipsis:
            axis += max(len(x.shape) - sum(consumed), 0)
        else:
            axis += consumed[k]
    return reshape(x, tuple(shape)), tuple(parts)


def _consumed(part: Any) -> int:
    """How many axes a part of an index stands for."""
    if part is None or part is Ellipsis or _is_truth(part):
        return 0
    return len(part.shape) if getattr(part, "dtype", None) == np.bool_ else 1


def _mask_indices(mask: Value) -> list[_Mask]:
    return [_Mask(where, n) for where, n in zip(np.nonzero(mask), mask.shape, strict=True)]


class _Mask(NamedTuple):
    """The integers that a mask selects along one axis, which must have its length."""

    where: np.ndarray
    length: int


def _item(part: Any, axis: int, length: int, bounds: str) -> Item:
    if isinstance(part, slice):
        start, stop, step = slice_of(part, length)
        return Slice(start, length_of(start, stop, step), step)
    if isinstance(part, _Mask):
        if part.length != length:
            raise BoundsError(
                f"boolean index did not match indexed array along axis {axis}; size of axis is "
                f"{length} but size of corresponding boolean axis is {part.length}",
            )
        return part.where
    if bounds != "raise":
        return _bounded(part, length, bounds)
    if isinstance(part, Tracer):
        return traced_indices(part, axis, length)
    if np.ndim(part) == 0:
        i = int(part)
        if not -length <= i < length:
            raise bounds_error(i, axis, length)
        return i + length if i < 0 else i
    return known_indices(part, axis, length)


def _bounded(part: Value, length: int, bounds: str) -> Item:
    """Integers from the end where they are negative, and then clipped, or `length` if outside."""
    i = convert(strong(part) if isinstance(part, Tracer) else as_array(part), INT64)
    zero, n = np.int64(0), number(length, INT64, i.shape)
    i = ew.select(ew.lt(i, zero), ew.add(i, n), i)
    if bounds == "clip":
        return ew.clip(i, zero, number(max(length - 1, 0), INT64, i.shape))
    return ew.select(ew.lt(i, zero), n, ew.min_(i, n))


# --- reading --------------------------------------------------------------------------------------


def getitem(x: Tracer, index: object) -> Value:
    """x[index]."""
    if type(index) is int:
        value = x.value
        shape = x.aval.shape if value is None else value.shape
        if shape and -shape[0] <= index < shape[0]:
            if index < 0:
                index += shape[0]
            return bind_one(sh.index_p, x, {"ints": (index,)})
    elif type(index) is tuple:
        if np.ndarray in map(type, index):
            found = _read_places(x, index)
        elif _all_ints(index, x.shape):
            lengths = x.shape[: len(index)]
            wrapped = [i if i >= 0 else i + n for i, n in zip(index, lengths, strict=True)]
            return sh.index(x, tuple(wrapped))
        else:
            found = read_basic(x, index)
        return _read_any(x, index) if found is None else found
    elif type(index) is Tracer and index.dtype.kind in "iub":
        known = concrete(index)
        if known is not None and index.dtype.kind != "b" and not index.shape:
            return getitem(x, int(known))
        if type(known) is np.ndarray:
            return getitem(x, known)
    elif type(index) is slice and x.shape:
        found = read_basic(x, (index,))
        return _read_any(x, index) if found is None else found
    elif type(index) is np.ndarray and index.shape and x.shape:
        found = _known_places(index, x.shape[0])
        if found is not None:
            return ix.gather(x, (found,), (0,))
    return _read_any(x, index)


def _read_places(x: Tracer, index: tuple[Value, ...]) -> Value | None:
    """x[:, i] or x[i, j] for known integer arrays of one shape; None for anything else.

    As `read_basic`, this is what `parse` and `read` do, without looking at each part four times.
    """
    axes, places = [], []
    shape = x.shape
    if len(index) > len(shape):
        return None
    for a, part in enumerate(index):
        if type(part) is np.ndarray and part.dtype.kind in "iu" and part.shape:
            axes.append(a)
            places.append(known_indices(part, a, shape[a]))
            if part.shape != places[0].shape:
                return None
        elif type(part) is not slice or part != _ALL:
            return None
    if not axes or axes[-1] - axes[0] + 1 > len(axes):
        return None
    out = ix.gather(x, places, tuple(axes))
    return sh.move_axes(out, places[0].ndim, axes[0]) if axes[0] else out


def _known_places(index: np.ndarray, length: int) -> np.ndarray | None:
    """The places of integers, or of a mask, along one axis; None for anything else."""
    if index.dtype.kind in "iu":
        return known_indices(index, 0, length)
    return index.nonzero()[0] if index.dtype.kind == "b" and index.shape == (length,) else None


def _read_any(x: Value, index: object) -> Value:
    x, index = with_truth_axes(x, index)
    return read(x, parse(x.shape, index))


def _all_ints(index: tuple[Value, ...], shape: Shape) -> bool:
    if not index or len(index) > len(shape):
        return False
    for i, n in zip(index, shape, strict=False):
        if type(i) is not int or not -n <= i < n:
            return False
    return True


def read_basic(x: Value, index: tuple[Any, ...]) -> Value | None:
    """x[index] for slices, integers, new axes and an ellipsis; None for anything else.

    What it does is what `parse` and `read` do; it exists because gradients read rows and columns in
    Python loops.
    """
    shape = x.shape
    ndim = len(shape)
    start: list[int] = []
    stop: list[int] = []
    step: list[int] = []
    result: list[int] = []
    backward: tuple[int, ...] = ()
    whole = True
    for part in index:
        kind, axis = type(part), len(start)
        if kind is slice and axis < ndim:
            low, last, stride, count = _taken(part, shape[axis])
            if stride < 0:
                backward, stride = (*backward, axis), -stride
            whole = whole and count == shape[axis]
            start.append(low)
            stop.append(last)
            step.append(stride)
            result.append(count)
        elif kind is int and axis < ndim and -shape[axis] <= part < shape[axis]:
            low = part % shape[axis]
            whole = whole and shape[axis] == 1
            start.append(low)
            stop.append(low + 1)
            step.append(1)
        elif part is None:
            result.append(1)
        elif part is Ellipsis:
            end = _end_of_ellipsis(index, ndim)
            if end < axis:
                return None
            kept = shape[axis:end]
            start.extend([0] * len(kept))
            stop.extend(kept)
            step.extend([1] * len(kept))
            result.extend(kept)
        else:
            return None
    if not whole:
        rest = shape[len(start) :]
        zeros = (0,) * len(rest)
        ones = (1,) * len(rest)
        x = sh.slice_(x, (*start, *zeros), (*stop, *rest), (*step, *ones))
    if backward:
        x = sh.reverse(x, backward)
    return reshape(x, (*result, *shape[len(start) :]))


def _taken(part: slice, length: int) -> tuple[int, int, int, int]:
    """The first and the end of the elements that a slice takes of an axis, in ascending order, the
    step, which is negative for a slice that goes backwards, and their number."""
    low, high, stride = slice_of(part, length)
    if stride == 1:
        return (low, high, 1, high - low) if low < high else (0, 0, 1, 0)
    count = length_of(low, high, stride)
    if count < 2:
        return (low, low + 1, 1, 1) if count else (0, 0, 1, 0)
    last = low + (count - 1) * stride
    return (low, last + 1, stride, count) if stride > 0 else (last, low + 1, stride, count)


def _end_of_ellipsis(index: tuple[Any, ...], ndim: int) -> int:
    """The axis before which an ellipsis ends; -1 if there are several."""
    if len([p for p in index if p is Ellipsis]) > 1:
        return -1
    at = [p is Ellipsis for p in index].index(True)
    return ndim - len([p for p in index[at + 1 :] if p is not None])


def read(x: Value, index: Index, mode: str = "clip") -> Value:
    """The elements that a parsed index selects; `mode` is that of `gather`."""
    if mode == "clip" and _is_block(x.shape, index):
        sizes = [i.count if isinstance(i, Slice) else 1 for i in index.items]
        block = ix.dynamic_slice(x, _starts(index), tuple(sizes))
        return reshape(
            block, tuple([sizes[p] if p is not None else 1 for p in index.layout if p != "i"])
        )
    sliced = apply_slices(x, index)
    if not index.has_arrays:
        shape = [index.items[p].count if p is not None else 1 for p in index.layout if p != "i"]
        return reshape(sliced, tuple(shape))
    axes, indices = index_arrays(index)
    out = ix.gather(sliced, indices, axes, mode)
    rank = len(shape_of(indices[0]))
    slices = [a for a in range(len(index.items)) if a not in axes]
    source = {a: rank + k for k, a in enumerate(slices)}
    order: list[int] = []
    shape = []
    for place in index.layout:
        if place == "i":
            order.extend(range(rank))
            shape.extend(out.shape[:rank])
        elif place is None:
            shape.append(1)
        else:
            order.append(source[place])
            shape.append(out.shape[source[place]])
    if order != sorted(order):
        out = sh.permute(out, tuple(order))
    return reshape(out, tuple(shape))


def _is_block(shape: Shape, index: Index) -> bool:
    """Whether an index is a part of some axes at places of others that are traced."""
    items = list(zip(index.items, shape, strict=True))
    slices = [(i, n) for i, n in items if isinstance(i, Slice)]
    numbers = [i for i, _ in items if not isinstance(i, Slice)]
    if not index.has_arrays or any([shape_of(i) for i in numbers]):
        return False
    return all([i.step == 1 and i.count for i, _ in slices]) and not all(
        [i.is_full(n) for i, n in slices]
    )


def _starts(index: Index) -> list[Value]:
    """Where a block begins along each axis."""
    firsts: list[Any] = [i.start if isinstance(i, Slice) else i for i in index.items]
    return [np.asarray(i, INT64)[()] if isinstance(i, int) else i for i in firsts]


def apply_slices(x: Value, index: Index) -> Value:
    """`x` with its slices taken; where there is no array, integers are slices of length 1."""
    shape = x.shape
    bounds: list[tuple[int, int, int]] = []
    backward: list[int] = []
    for axis, (item, n) in enumerate(zip(index.items, shape, strict=True)):
        if isinstance(item, Slice):
            if item.step < 0:
                backward.append(axis)
            bounds.append(forward(item))
        elif isinstance(item, int) and not index.has_arrays:
            bounds.append((item, item + 1, 1))
        else:
            bounds.append((0, n, 1))
    if any(b != (0, n, 1) for b, n in zip(bounds, shape, strict=True)):
        start, stop, step = zip(*bounds, strict=True)
        x = sh.slice_(x, start, stop, step)
    return sh.reverse(x, tuple(backward)) if backward else x


def forward(item: Slice) -> tuple[int, int, int]:
    """(start, stop, step) with a positive step: the same elements, perhaps in reverse."""
    if item.count == 0:
        return 0, 0, 1
    last = item.start + (item.count - 1) * item.step
    low = min(item.start, last)
    step = abs(item.step) if item.count > 1 else 1
    return low, max(item.start, last) + 1, step


def index_arrays(index: Index) -> tuple[tuple[int, ...], list[Value]]:
    """The axes that integers index, and their indices with one common shape."""
    axes = tuple([a for a, item in enumerate(index.items) if not isinstance(item, Slice)])
    return axes, same_shapes([index.items[a] for a in axes])


def same_shapes(indices: Sequence[Value]) -> list[Value]:
    """Integer arrays broadcast together, all of them in full."""
    arrays = [np.int64(i) if isinstance(i, int) else i for i in indices]
    shape = broadcast_shapes(*[i.shape for i in arrays])
    return [broadcast_to(i, shape) for i in arrays]


# --- writing --------------------------------------------------------------------------------------


def update(
    x: Value, index: object, values: ArrayLike | None, mode: str, bounds: str = "raise"
) -> Value:
    """`x` with `values` set, added, ... at an index; a new array."""
    x = as_array(x)
    wide, index = with_truth_axes(x, index)
    if wide is not x:
        return reshape(update(wide, index, values, mode, bounds), x.shape)
    parsed = parse(x.shape, index, bounds)
    values = stored(values, x.dtype)
    checked = bounds == "raise" and mode == "set" and checks()  # else what is outside is dropped
    if not parsed.has_arrays or (checked and _is_block(x.shape, parsed)):
        if mode != "set":
            values = COMBINE[mode](*broadcast((read(x, parsed), values)))
        return write_basic(x, parsed, values)
    return write_scatter(x, parsed, values, mode)


COMBINE: dict[str, Callable[[Value, Value], Value]] = {
    "add": ew.add,
    "mul": ew.mul,
    "min": ew.min_,
    "max": ew.max_,
}


def write_basic(x: Value, index: Index, values: Value) -> Value:
    """Slices and known integers: a block is replaced."""
    if any(isinstance(i, Slice) and i.step != 1 and i.count > 1 for i in index.items):
        return write_scatter(x, index, values, "set")
    block = tuple([i.count if isinstance(i, Slice) else 1 for i in index.items])
    if math.prod(block) == 0:
        return x
    result = tuple([1 if p is None else block[p] for p in index.layout if p != "i"])
    values = reshape(_stored(values, result, x), block)
    if block == x.shape:
        return fresh(values)
    return ix.dynamic_update(x, values, _starts(index))


def _stored(values: Value, shape: Shape, x: Value) -> Value:
    """Values as they are stored in a place of a shape: leading axes of length 1 do not count."""
    own = shape_of(values)
    extra = len(own) - len(shape)
    if shape and extra > 0 and math.prod(own[:extra]) == 1:
        values = reshape(values, own[extra:])
    return broadcast_to(values, shape, x if isinstance(x, Tracer) else None)


def write_scatter(x: Value, index: Index, values: Value, mode: str) -> Value:
    """Integer arrays, and slices that are not whole axes as integer arrays too."""
    arrays = {a: i for a, i in enumerate(index.items) if not isinstance(i, Slice)}
    partial = [
        a for a, i in enumerate(index.items) if isinstance(i, Slice) and not i.is_full(x.shape[a])
    ]
    full = [a for a in range(len(index.items)) if a not in arrays and a not in partial]
    common = same_shapes(list(arrays.values()))
    inner = shape_of(common[0]) if common else ()
    indices: dict[int, Value] = {
        a: reshape(i, inner + (1,) * len(partial)) for a, i in zip(arrays, common, strict=True)
    }
    for k, a in enumerate(partial):
        item = index.items[a]
        line = item.start + item.step * np.arange(item.count)
        indices[a] = line.reshape((1,) * (len(inner) + k) + (-1,) + (1,) * (len(partial) - k - 1))
    axes = tuple(sorted(indices))
    values = _updates(x, index, values, inner, partial + full)
    return ix.scatter(x, same_shapes([indices[a] for a in axes]), values, axes, mode)


def _updates(x: Value, index: Index, values: Value, inner: Shape, slices: list[int]) -> Value:
    """Values in the layout of the result, brought into index axes followed by slices."""
    counts = {a: index.items[a].count for a in slices}
    spread = [
        n for p in index.layout for n in (inner if p == "i" else (1 if p is None else counts[p],))
    ]
    values = _stored(values, tuple(spread), x)
    present = [p for p in index.layout if p is not None]
    squeezed = tuple([n for p in present for n in (inner if p == "i" else (counts[p],))])
    first: dict[Any, int] = {}
    for p in present:
        first[p] = sum([len(inner) if q == "i" else 1 for q in first])
    head = range(first["i"], first["i"] + len(inner)) if "i" in first else ()
    order = (*head, *[first[a] for a in slices])
    values = reshape(values, squeezed)
    return values if order == tuple(sorted(order)) else sh.permute(values, order)
