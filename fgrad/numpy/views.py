"""L4. Views of traced arrays: basic indexing, reshape, transposition, splitting, flipping, parts.

    y = x[1:3].T        y knows how it is read from x, and how a new value of it is written into x

Whether a reshape is a view depends on the layout of memory.  An array that is no view is taken to
be in C order; for views of views NumPy itself is asked, when one of them is first written: its own
functions are applied to an array without contents that has the layout.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from operator import attrgetter
from typing import Any

import numpy as np

from fgrad.base.named_tuple import NamedTuple
from fgrad.errors import ArgumentError, TracedIndexError
from fgrad.numpy.indexing import getitem, update
from fgrad.numpy.masked import Masked, is_unknown_mask
from fgrad.numpy.masked_places import chosen, read_chosen
from fgrad.numpy.promote import traced_full
from fgrad.ops import complex as cx
from fgrad.ops import elementwise as ew
from fgrad.ops import shape as sh
from fgrad.trace import Tracer, Value
from fgrad.tracing.assign import (
    View,
    check_layout,
    copied_like,
    keep_memory,
    laid_out,
    layout_of,
    link,
    memory_of,
    root_of,
)
from fgrad.tracing.layouts import in_c_order, is_line, mark
from fgrad.typing import ArrayLike, Order

Function = Callable[..., Any]

_BASIC = frozenset({int, slice, type(None), type(Ellipsis)})
_new = tuple.__new__  # skips the named tuple's own constructor


FLAT = object()  # the key of `x.flat`: it is written through, but its parts are copies


def get_view(x: Tracer, index: Any) -> Value | Masked:
    """x[index]; a basic index gives a view."""
    if type(index) is Tracer and is_unknown_mask(index):
        return Masked(x.twin(), index.twin())
    try:
        out = getitem(x, index)
    except TracedIndexError:
        at = chosen(index)
        if at is None:
            raise
        return read_chosen(x, at)
    if type(out) is Tracer and is_basic(index) and (out.shape or _keeps_array(index)):
        if out is x:
            out = x.twin()
        memory = x.memory
        if memory is None and not x.shape:  # a number, of which NumPy makes a new array
            keep_memory(out)
        elif memory is None or key_of_view(x) is not FLAT:
            link_part(x, out, _Indexed(x, _kept(index)))
    elif out is x:
        out = x.twin()  # `x[()]` of rank 0 is a number
    return out


def link_part(x: Tracer, out: Tracer, view: View) -> None:
    """Make `out` a view of `x`, perhaps of a trace outside: a write into it is one into `x`."""
    link(x, out, view)
    if out.builder is not x.builder and out.shape and out.memory is None:
        out.memory = view
        memory_of(root_of(x)).add(out)


class _Indexed(View):
    """base[index]."""

    __slots__ = ()

    def read(self, base: Tracer) -> Value:
        return getitem(base, self.key)

    def write(self, base: Value, value: Value) -> Value:
        return update(base, self.key, value, "set")

    def move(self, array: np.ndarray) -> np.ndarray:
        key: Any = self.key
        parts = [0 if type(i) is Tracer else i for i in key] if type(key) is tuple else key
        return array[tuple(parts) if type(key) is tuple else 0 if type(key) is Tracer else key]


def key_of_view(x: Tracer) -> object:
    """What tells equal views apart: the index, for one that was made by an index."""
    return x.memory.key if isinstance(x.memory, View) else None


def is_basic(index: object) -> bool:
    """Whether NumPy would give a view."""
    for i in index if type(index) is tuple else (index,):
        if type(i) not in _BASIC and not isinstance(i, np.integer) and not _is_integer(i):
            return False
    return True


def _is_integer(part: object) -> bool:
    """Whether a part of an index is a traced integer: a number, not an array of rank 0."""
    return (
        type(part) is Tracer
        and not part.shape
        and part.memory is None
        and (part.dtype.kind in "iu")
    )


def _kept(index: Any) -> Any:
    """An index whose traced numbers stay what they are, when their names mean others."""
    if type(index) is tuple:
        return tuple([i.twin() if type(i) is Tracer else i for i in index])
    return index.twin() if type(index) is Tracer else index


def same_index(key: object, index: object) -> bool:
    """Whether two indices are basic and the same."""
    if type(key) is not type(index) or not is_basic(index):
        return False
    if type(key) is tuple and type(index) is tuple:
        return len(key) == len(index) and all(map(_same_part, key, index))
    return _same_part(key, index)


def _same_part(a: Any, b: Any) -> bool:
    if type(a) is Tracer or type(b) is Tracer:
        return type(a) is type(b) and a.builder is b.builder and a.index == b.index
    return a is b or a == b


def _keeps_array(index: object) -> bool:
    """Whether NumPy gives an array even where no axis is left: `x[..., 1]`, not `x[1]`."""
    return index is Ellipsis or (type(index) is tuple and any([i is Ellipsis for i in index]))


def viewing(
    function: Function, target: Function, doubtful: bool = False, writable: bool = True, at: int = 0
) -> Function:
    """A function whose results are views of its argument number `at`.

    `target` is NumPy's own; it says where the elements of a view lie and, if that is `doubtful`,
    whether it is one: a reshape copies where the layout of memory asks for it.
    """

    @functools.wraps(function)
    def viewed(*args: ArrayLike, **kwargs: object) -> object:
        out = function(*args, **kwargs)
        x = args[at] if args else next(iter(kwargs.values()))
        if type(x) is not Tracer:
            return out
        if out is x and (doubtful or not writable):
            out = x.twin()
        if isinstance(out, (list, tuple)):
            for k, part in enumerate(out):
                again = Again(args, kwargs, at, k)
                _link_view(x, part, again, function, target, doubtful, writable)
        elif out is not x:
            again = _new(Again, (args, kwargs, at, None))
            _link_view(x, out, again, function, target, doubtful, writable)
        return out

    return viewed


class Again(NamedTuple):
    """A call, to be made again with another array; `part` says which of its results is wanted."""

    args: tuple[ArrayLike, ...]
    kwargs: dict[str, object]
    at: int
    part: int | None = None

    def call(self, function: Function, array: ArrayLike) -> Any:
        """The call of this function or of its partner in NumPy."""
        if self.args:
            args = (*self.args[: self.at], array, *self.args[self.at + 1 :])
            out = function(*args, **self.kwargs)
        else:
            out = function(**{**self.kwargs, next(iter(self.kwargs)): array})
        return out if self.part is None else out[self.part]


def _link_view(
    base: Tracer,
    out: Value,
    again: Again,
    function: Function,
    target: Function,
    doubtful: bool,
    writable: bool,
) -> None:
    """Make a rearrangement of elements a view; writing finds its places by rearranging numbers."""
    if type(out) is Tracer and out is not base:
        shape = out.shape
        if not shape or not base.shape:
            like = again.call(target, np.zeros(base.shape, base.dtype))
            if not isinstance(like, np.ndarray):
                return  # NumPy gives a number, which is a copy
        if not writable and len(shape) > 1:
            _mark_parts(base, out, again.call(target, layout_of(base)))
        view = _Rearranged(base, None, doubtful)
        view.again, view.function, view.target, view.writable = again, function, target, writable
        link(base, out, view)


class _Rearranged(View):
    """What a function makes of its base: NumPy's `target` says where the elements lie."""

    __slots__ = ("again", "function", "target", "writable")

    again: Again
    function: Function
    target: Function
    writable: bool

    def read(self, base: Value) -> Value:
        return self.again.call(self.function, base)

    def write(self, base: Any, value: Value) -> Value:
        if not self.writable:
            raise ArgumentError("assignment destination is read-only")
        return _write_back(self.move, base, value)

    def move(self, array: np.ndarray) -> np.ndarray:
        return self.again.call(self.target, array)


def _mark_parts(base: Tracer, out: Tracer, layout: np.ndarray) -> None:
    """Note how copies lie of a view that repeats or leaves out elements."""
    in_order = in_c_order(root_of(base)) and np.empty_like(layout).flags.c_contiguous
    if in_order != in_c_order(out):
        mark(out, in_order)


def making_arrays(function: Function) -> Function:
    """A function whose results are arrays also where they have no axes; others are numbers."""

    @functools.wraps(function)
    def made(*args: ArrayLike, **kwargs: object) -> object:
        out = function(*args, **kwargs)
        if type(out) is Tracer and not out.shape and not isinstance(out.memory, View):
            out = out.twin()  # it may be an operand
            keep_memory(out)
        return out

    made.makes_arrays = True  # type: ignore[attr-defined]
    return made


def viewing_each(function: Function, target: Function) -> Function:
    """A function of any number of arrays, whose results are views of one of them each."""
    one = viewing(function, target)

    @functools.wraps(function)
    def viewed(*arys: ArrayLike) -> object:
        return one(*arys) if len(arys) == 1 else type(function(*arys))(map(one, arys))

    return viewed


def aliasing(function: Function, target: Function) -> Function:
    """A function that gives its argument itself, or a copy that lies otherwise in memory."""
    simple = target in (np.asarray, np.asanyarray)

    @functools.wraps(function)
    def aliased(*args: ArrayLike, **kwargs: object) -> object:
        out = function(*args, **kwargs)
        x = args[0] if args else next(iter(kwargs.values()))
        again = Again(args, kwargs, 0)
        if type(out) is not Tracer or type(x) is not Tracer or not out.builder.live:
            return out
        if not x.shape and x.memory is None and not out.shape:  # a new array of a number
            out = out.twin()
            keep_memory(out)
            return out
        if not x.shape and out is not x:  # an array that was made of rank 1
            _link_view(x, out, again, function, target, True, True)
            return out
        as_root = is_line(out.shape) and not isinstance(x.memory, View)
        if as_root or (simple and len(args) + len(kwargs) == 1):
            return out
        if out.dtype != x.dtype:
            return _copy_like(x, out, target)
        out = _laid_out_as(target, again, x, out.twin() if out is x else out)
        _link_view(x, out, again, function, target, True, True)
        return out

    return aliased


def _laid_out_as(target: Function, again: Again, x: Tracer, out: Tracer) -> Tracer:
    """The values of `x` in the order of a function's result, which is a copy where it has to be."""
    if is_line(out.shape):
        return out
    if target is np.ascontiguousarray:
        return laid_out(out, True)
    in_order = np.empty_like(again.call(target, layout_of(x))).flags.c_contiguous
    return laid_out(out, in_order and (target is np.asfortranarray or in_c_order(root_of(x))))


def _copy_like(x: Tracer, out: Tracer, target: Function) -> Tracer:
    """A copy of another dtype, which lies as the function says."""
    if target in (np.ascontiguousarray, np.asfortranarray):
        return laid_out(out, target is np.ascontiguousarray)
    return copied_like(x, out)


def copied(x: Any, order: Order) -> Value:
    """A copy, in an order of NumPy's."""
    if type(x) is not Tracer:
        return x.copy(order)
    if not x.shape:
        out = x.twin()
        keep_memory(out)
        return out
    if order in ("K", "A") or is_line(x.shape) or not x.builder.live:
        return copied_like(x, x.twin()) if order == "K" else x.twin()
    return laid_out(x.twin(), order == "C")


def viewing_one_operand(function: Function, target: Function) -> Function:
    """np.einsum, which gives a view where it only rearranges one array."""
    ways = [viewing(function, target, doubtful=True, at=at) for at in (0, 1)]

    @functools.wraps(function)
    def viewed(*operands: ArrayLike, **kwargs: object) -> object:
        named = isinstance(operands[0], str)
        single = len(operands) == 2 if named else len(operands) <= 3
        return (ways[named] if single and not kwargs else function)(*operands, **kwargs)

    return viewed


def _numbers(base: Tracer) -> np.ndarray:
    """The elements of an array by number, lying in memory as they do."""
    numbers = np.empty_like(layout_of(base), np.int64)
    numbers[...] = np.arange(base.size).reshape(base.shape)
    return numbers


def _write_back(move: Function, base: Tracer, value: Value) -> Value:
    """`base` with the elements of its view `move(base)` replaced."""
    places = move(_numbers(base))
    flat = sh.reshape(value, (value.size,))
    if places.size == base.size:
        order = places.ravel()
        if not np.array_equal(order, np.arange(base.size)):
            axes = _axes_of(places, base.shape)
            if axes is not None:
                return sh.permute(value, axes)
            flat = flat[np.argsort(order)]
        return sh.reshape(flat, base.shape)
    whole = update(sh.reshape(base, (base.size,)), places.ravel(), flat, "set")
    return sh.reshape(whole, base.shape)


def _axes_of(places: np.ndarray, shape: tuple[int, ...]) -> tuple[int, ...] | None:
    """The transposition that brings numbered elements back into order, if there is one."""
    if places.ndim != len(shape) or places.ndim > 4:
        return None
    steps = [int(np.take(places, 1, a).flat[0]) - int(places.flat[0]) if n > 1 else 0
             for a, n in enumerate(places.shape)]  # fmt: skip
    axes = tuple(sorted(range(places.ndim), key=lambda a: (-steps[a], a)))
    back = np.transpose(places, axes)
    return (
        axes
        if back.shape == shape and np.array_equal(back.ravel(), np.arange(places.size))
        else None
    )


# --- layouts --------------------------------------------------------------------------------------


def memory_axes(x: Value) -> tuple[int, ...]:
    """The axes in NumPy's order "K": the one that is furthest apart in memory first."""
    return order_of(result_layout(_known_layout(x)))


def _known_layout(x: Value) -> np.ndarray:
    if not isinstance(x, Tracer):
        return np.asarray(x)
    if is_line(x.shape):
        return np.empty(x.shape, x.dtype)
    check_layout(x)
    return layout_of(x)


def order_of(layout: np.ndarray) -> tuple[int, ...]:
    """The axes of an array, by decreasing strides."""
    return tuple(sorted(range(layout.ndim), key=lambda a: -abs(layout.strides[a])))


def result_layout(*operands: np.ndarray) -> np.ndarray:
    """An array without contents that lies in memory as the result of a ufunc does."""
    how: Any = [["readonly"]] * len(operands) + [["writeonly", "allocate"]]
    flags: Any = ["zerosize_ok", "refs_ok"]
    kinds = [None] * len(operands) + [operands[0].dtype]
    return np.nditer([*operands, None], flags, how, kinds).operands[-1]


def lies_in_columns(x: Value) -> bool:
    """Whether an array is contiguous in Fortran's order, and not in C's."""
    return _known_layout(x).flags.fnc


# --- parts of complex numbers ---------------------------------------------------------------------


class ViewBy(View):
    """What functions say: how it is read from its base, written into it, and lies in memory."""

    __slots__ = ("by",)

    def __init__(
        self, base: Tracer, read: Function, write: Function, move: Function, key: object = None
    ) -> None:
        super().__init__(base, key)
        self.by = read, write, move

    def read(self, base: Value) -> Value:
        return self.by[0](base)

    def write(self, base: Value, value: Value) -> Value:
        return self.by[1](base, value)

    def move(self, array: np.ndarray) -> np.ndarray:
        return self.by[2](array)


def real_part(x: Tracer) -> Value:
    """x.real; writing it leaves the imaginary part."""
    out = cx.real(x)
    if cx.is_complex(x) and type(out) is Tracer:
        view = ViewBy(x, cx.real, lambda base, v: cx.complex_(v, cx.imag(base)), attrgetter("real"))
        link(x, out, view)
        return out
    return same_view(x)


def same_view(x: Tracer) -> Tracer:
    """x[...]: all of the array, as a view."""
    out = x.twin()
    link(x, out, ViewBy(x, lambda base: base, lambda _base, v: v, lambda array: array[...]))
    return out


def bits_view(x: Tracer, dtype: np.dtype) -> Value:
    """x.view(dtype): the same bits, as numbers of another dtype of that size."""
    out: Any = ew.bitcast(x, dtype)
    own = x.dtype
    view = ViewBy(
        x,
        lambda base: ew.bitcast(base, dtype),
        lambda _base, v: ew.bitcast(v, own),
        lambda array: array.view(dtype),
    )
    link(x, out, view)
    return out


def imaginary_part(x: Tracer) -> Value:
    """x.imag; writing it leaves the real part."""
    if not cx.is_complex(x):
        return traced_full(x, x.shape, 0, x.dtype)
    out = cx.imag(x)
    if type(out) is Tracer:
        view = ViewBy(x, cx.imag, lambda base, v: cx.complex_(cx.real(base), v), attrgetter("imag"))
        link(x, out, view)
    return out
