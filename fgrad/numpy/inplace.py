"""L4. In-place code on traced arrays, functionalised: assignments, `out=`, writing through views.

    x[1:3] += v      x is pointed to a new value; every view of x sees it
    np.add.at(x, i, v), np.copyto(x, v), np.sin(x, out=y), x.sort(), x.fill(0)

Views write through to their base (`views.py`).  A scalar (rank 0) is a value, as in NumPy: `s += 1`
binds the name anew.
"""

from __future__ import annotations

import functools
import inspect
import math
import operator
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from fgrad.base.installed import at_least
from fgrad.base.source import warn_user
from fgrad.errors import ArgumentError, DtypeError, InPlaceError, TracedIndexError
from fgrad.numpy import arrange
from fgrad.numpy.adopting import adopted
from fgrad.numpy.at_indexing import IndexedElements
from fgrad.numpy.compositions import to_bool
from fgrad.numpy.dispatch import TRACED, add
from fgrad.numpy.indexing import getitem, update
from fgrad.numpy.masked import is_unknown_mask, write_masked
from fgrad.numpy.masked_places import chosen, write_chosen
from fgrad.numpy.operators import check_cast, keep_type
from fgrad.numpy.promote import (
    as_array,
    as_operand,
    broadcast_to,
    convert,
    dtype_of,
    normalize_axis,
    refuse_argument,
    reshape,
    result_type,
    shape_of,
    stored,
    user_line,
)
from fgrad.numpy.rebinding import operator_rebinds
from fgrad.numpy.views import (
    FLAT,
    ViewBy,
    aliasing,
    get_view,
    imaginary_part,
    key_of_view,
    making_arrays,
    real_part,
    same_index,
    viewing,
    viewing_each,
    viewing_one_operand,
)
from fgrad.ops import complex as cx
from fgrad.ops import elementwise as ew
from fgrad.ops import shape as sh
from fgrad.trace import Tracer, Value, concrete, innermost
from fgrad.tracing.assign import (
    View,
    check_layout,
    layout_of,
    link,
    memory_of,
    point_at,
)
from fgrad.tracing.tables import alias_functions, numpy_functions, store_out, ufunc_methods
from fgrad.tracing.thread_state import THREAD
from fgrad.tracing.writing import write_all
from fgrad.transforms.core.wrap import is_weak
from fgrad.typing import ArrayLike, Casting

Function = Callable[..., Any]

_always = functools.partial(viewing, doubtful=False)
_perhaps = functools.partial(viewing, doubtful=True)
_read_only = functools.partial(viewing, doubtful=True, writable=False)

VIEWS: dict[Function, tuple[str, ...]] = {
    _always: (
        "transpose", "swapaxes", "moveaxis", "rollaxis", "expand_dims", "squeeze", "flip", "fliplr",
        "flipud", "rot90", "split", "array_split", "vsplit", "hsplit", "dsplit", "unstack",
        "permute_dims", "matrix_transpose", "linalg.matrix_transpose", "trim_zeros",
    ),
    _perhaps: ("reshape", "ravel"),
    _read_only: (
        "broadcast_to", "diagonal", "diag", "linalg.diagonal",
        "lib.stride_tricks.sliding_window_view",
    ),
    viewing_each: ("atleast_1d", "atleast_2d", "atleast_3d"),
    viewing_one_operand: ("einsum",),
    aliasing: ("asarray", "asanyarray", "ascontiguousarray", "asfortranarray", "require"),
}  # fmt: skip
ARRAYS = (  # make arrays of rank 0, not numbers
    "apply_along_axis", "array", "block", "cov", "diff", "i0", "isin", "linalg.tensordot",
    "pad", "piecewise", "resize", "select", "tensordot", "tile", "where",
)  # fmt: skip
ALIASES = ("broadcast_arrays", "nan_to_num", "real_if_close")  # may give their argument itself


# --- writing --------------------------------------------------------------------------------------


def setitem(x: Tracer, index: object, value: ArrayLike) -> None:
    """x[index] = value."""
    if isinstance(value, Tracer):
        view = value.memory
        if isinstance(view, View) and view.base is x and same_index(view.key, index):
            return  # the second half of x[i] += v: the view has written already
    if key_of_view(x) is FLAT:
        shape = shape_of(getitem(x, index))
        value = reshape(_cycled(value, math.prod(shape), "flat", x.dtype), shape)
    if is_unknown_mask(index):
        write_all(x, write_masked(x, index, value))
        return
    try:
        new: Value | None = update(x, index, value, "set")
    except TracedIndexError:
        at = chosen(index)
        if at is None:
            raise
        new = write_chosen(x, at, value, "set")
    if new is not None:
        write_all(x, new)


def store(
    out: Any,
    function: Function,
    method: str,
    args: tuple[ArrayLike, ...],
    kwargs: dict[str, Any],
) -> Any:
    """`out=`: call a function, and write its results over arrays."""
    outs = out if isinstance(out, tuple) else (out,)
    if method == "__call__" and len(outs) == 1 and operator_rebinds(outs):
        (plain,) = outs
        (own,) = outs = (adopted(plain),)
        args = tuple([own if a is plain else a for a in args])
    for o in outs:
        if o is not None and not isinstance(o, Tracer):
            called = "" if method == "__call__" else f".{method}"
            raise _plain_output(function, called, is_out=True)
    is_ufunc = isinstance(function, np.ufunc)
    where = kwargs.pop("where", True) if is_ufunc and method == "__call__" else True
    results = getattr(function, method)(*args, **kwargs)
    parts = results if isinstance(results, tuple) and len(outs) > 1 else (results,)
    casting = kwargs.get("casting", "same_kind")
    stored = tuple(
        [
            r if o is None else _store_one(o, r, where, casting)
            for o, r in zip(outs, parts, strict=True)
        ]
    )
    return stored if len(outs) > 1 else stored[0]


def _store_one(out: Tracer, result: Any, where: ArrayLike, casting: Casting) -> Tracer:
    """Write one result over an array, where a mask holds."""
    if shape_of(as_operand(result)) != out.shape:
        result = broadcast_to(as_array(result), out.shape, out)
    new = convert(result, out.dtype) if casting == "unsafe" else keep_type(out, result)
    if where is not True:
        new = numpy_functions[np.where](where, new, out)
    write_all(out, new)
    return out


def _plain_output(function: object, method: str = "", is_out: bool = False) -> InPlaceError:
    """The card for a plain array that a traced value would be written into.

    Arguments:
        is_out: whether the array is the `out=` of the function, and not its first argument.
    """
    name = f"np.{getattr(function, '__name__', 'function')}{method}"
    instead = (
        "b = fgrad.numpy.array(a)     in the function: what is written into b is traced",
        f"{name}(b, ...)",
    )
    if is_out:
        instead = (
            f"y = {name}(...)             a new array instead of out=",
            "y = y + x                    instead of y += x",
            "import fgrad.numpy as np     whose zeros() can be assigned into",
        )
    return InPlaceError(
        f"{name} would write a traced value into a plain NumPy array.",
        (
            *user_line(),
            ("why", "a plain array holds numbers, and the trace would lose what they depend on."),
            *[("write", line) for line in instead],
        ),
    )


def _spread(value: Value, x: Tracer) -> Value:
    return value if value.shape == x.shape else broadcast_to(value, x.shape, x)


def in_place(operator: Function) -> Function:
    """`x += y`: an array keeps its shape and dtype and is written; a scalar is a new value."""

    def assign_operator(x: Tracer, y: ArrayLike) -> Value:
        new = operator(x, y)
        if new is NotImplemented or not (x.shape or x.memory is not None):
            return new
        write_all(x, keep_type(x, new))
        return x

    return assign_operator


_REPEATABLE = {np.add: "add", np.subtract: "add", np.multiply: "mul", np.maximum: "max",
               np.minimum: "min"}  # fmt: skip


def _fits(values: ArrayLike, x: Tracer, combine: str) -> bool:
    """Whether values in the dtype of `x` give what NumPy computes in a wider one and cuts off:
    the larger one of two integers may be another one."""
    wide = result_type(x, values)
    same = wide == x.dtype or combine in ("add", "mul")
    return same and np.can_cast(wide, x.dtype, "same_kind")


def ufunc_at(
    ufunc: np.ufunc, x: ArrayLike, indices: ArrayLike, values: ArrayLike | None = None
) -> None:
    """np.add.at(x, i, v) and its relatives: repeated indices count each time."""
    if not isinstance(x, Tracer):
        raise _plain_output(ufunc, ".at")
    if values is not None:
        values = as_operand(values)
    combine = _REPEATABLE.get(ufunc)
    if combine is not None and values is not None and _fits(values, x, combine):
        negative = ufunc is np.subtract
        added = ew.neg(convert(as_array(values), x.dtype)) if negative else values
        return write_all(x, IndexedElements(x, indices).combined(added, combine))
    for place, part in _single_places(ufunc, x, indices, values):
        old = getitem(x, place)
        new = ufunc(old) if values is None else ufunc(old, part)
        write_all(x, update(x, place, new, "set"))
    return None


def _single_places(
    ufunc: np.ufunc, x: Tracer, indices: ArrayLike, values: Value | None
) -> Iterator[tuple[Any, Value | None]]:
    """Indices none of which names an element twice, one after the other, with their values."""
    parts = indices if isinstance(indices, tuple) else (indices,)
    unknown = any(isinstance(i, Tracer) and i.ndim and concrete(i) is None for i in parts)
    if unknown:
        raise refuse_argument(
            f"{ufunc.__name__}.at", "indices", "indices that are known, or add, multiply, max, min"
        )
    places = np.arange(x.size).reshape(x.shape)[_plain_index(parts)]
    flat = places.reshape(-1)
    if len(np.unique(flat)) == flat.size:
        yield indices, values
        return
    spread = None if values is None else broadcast_to(as_array(values), places.shape)
    for k in np.ndindex(*places.shape):
        yield np.unravel_index(places[k], x.shape), None if spread is None else spread[k]


def _plain_index(parts: tuple[ArrayLike, ...]) -> tuple[Any, ...]:
    """An index without tracers: those of rank 0 are one place, whichever it is."""
    known = [concrete(i) if isinstance(i, Tracer) else i for i in parts]
    return tuple([0 if value is None and part is not None else value
                  for value, part in zip(known, parts, strict=True)])  # fmt: skip


def copyto(
    dst: ArrayLike, src: ArrayLike, casting: str = "same_kind", where: ArrayLike = True
) -> None:
    """np.copyto: write `src` over `dst` where a mask holds."""
    if not isinstance(dst, Tracer):
        raise _plain_output(np.copyto)
    if casting != "unsafe":
        check_cast(dst, result_type(dst, src) if is_weak(src) else dtype_of(as_array(src)))
    value = _spread(convert(as_operand(src), dst.dtype), dst)
    if where is not True:
        value = convert(numpy_functions[np.where](where, value, dst), dst.dtype)
    write_all(dst, value)


def fill(x: Tracer, value: ArrayLike) -> None:
    """x.fill(value)."""
    copyto(x, value, casting="unsafe")


def _cycled(values: ArrayLike, count: int, function: str, dtype: np.dtype) -> Value:
    """The first `count` of values that repeat for ever."""
    line = stored(values, dtype)
    line = reshape(line, (math.prod(shape_of(line)),))
    n = line.shape[0]
    if n == count:
        return line
    if not n:
        raise ArgumentError(f"{function}: there are no values to be written")
    return numpy_functions[np.take](line, np.arange(count) % n)


def put(a: ArrayLike, ind: ArrayLike, v: ArrayLike, mode: str = "raise") -> None:
    """np.put: write values at flat indices; they repeat if there are fewer."""
    if not isinstance(a, Tracer):
        raise _plain_output(np.put)
    places = as_array(ind)
    places = reshape(places, (math.prod(shape_of(places)),))
    if mode == "wrap":
        places = numpy_functions[np.remainder](places, a.size)
    elif mode == "clip":
        places = numpy_functions[np.clip](places, 0, a.size - 1)
    elif mode != "raise":
        raise ArgumentError(f"clipmode must be one of 'clip', 'raise', or 'wrap' (got {mode!r})")
    if not places.shape[0]:
        return
    values = _cycled(v, places.shape[0], "put", a.dtype)
    new = update(sh.reshape(a, (a.size,)), places, values, "set")
    write_all(a, sh.reshape(new, a.shape))


def put_along_axis(arr: ArrayLike, indices: ArrayLike, values: ArrayLike, axis: int) -> None:
    """np.put_along_axis: the writing partner of take_along_axis."""
    if not isinstance(arr, Tracer):
        raise _plain_output(np.put_along_axis)
    indices = as_array(indices)
    if axis is None:
        line = reshape(indices, (math.prod(shape_of(indices)),))
        new = update(sh.reshape(arr, (arr.size,)), line, values, "set")
        return write_all(arr, sh.reshape(new, arr.shape))
    axis = normalize_axis(axis, arr.ndim)
    if len(indices.shape) != arr.ndim:
        raise ArgumentError("`indices` and `arr` must have the same number of dimensions")
    lengths = [
        m if a == axis else n for a, (n, m) in enumerate(zip(arr.shape, indices.shape, strict=True))
    ]
    grid = np.ix_(*[np.arange(n) for n in lengths])
    where = tuple([indices if a == axis else g for a, g in enumerate(grid)])
    return setitem(arr, where, values)


def putmask(a: ArrayLike, mask: ArrayLike, values: ArrayLike) -> None:
    """np.putmask: values by position where a mask holds; they repeat if there are fewer."""
    if not isinstance(a, Tracer):
        raise _plain_output(np.putmask)
    _check_safe(a, values)
    new = reshape(_cycled(values, a.size, "putmask", a.dtype), a.shape)
    copyto(a, new, casting="unsafe", where=reshape(as_array(mask), a.shape))


def _check_safe(x: Tracer, values: ArrayLike) -> None:
    """Raise unless an array of values, which is no list and no Python number, fits into `x`."""
    if is_weak(values) or not isinstance(values, (Tracer, np.ndarray, np.generic)):
        return
    if not np.can_cast(values.dtype, x.dtype, "safe"):
        raise DtypeError(
            f"an array of {x.dtype} cannot take all values of {values.dtype}.",
            (*user_line(), ("write", f"values.astype(np.{x.dtype})")),
        )


def place(arr: ArrayLike, mask: ArrayLike, vals: ArrayLike) -> None:
    """np.place: the first values go to the first true elements; they repeat if there are fewer."""
    if not isinstance(arr, Tracer):
        raise _plain_output(np.place)
    _check_safe(arr, vals)
    values = stored(vals, arr.dtype)
    values = reshape(values, (math.prod(shape_of(values)),))
    mask = to_bool(as_array(mask))
    if not values.shape[0]:
        found = concrete(mask)
        if found is None or np.any(found):
            raise ArgumentError("Cannot insert from an empty array!")
        return
    rank = numpy_functions[np.cumsum](mask)
    number = numpy_functions[np.remainder](np.subtract(rank, 1), values.shape[0])
    new = reshape(numpy_functions[np.take](values, number), arr.shape)
    copyto(arr, new, casting="unsafe", where=reshape(mask, arr.shape))


def fill_diagonal(a: ArrayLike, val: ArrayLike, wrap: bool = False) -> None:
    """np.fill_diagonal of a matrix, or of a cube of equal sides."""
    if not isinstance(a, Tracer):
        raise _plain_output(np.fill_diagonal)
    places = np.zeros(a.shape, bool)
    np.fill_diagonal(places, True, wrap)
    put(a, np.flatnonzero(places), val)


def sort_in_place(
    x: Tracer,
    axis: int = -1,
    kind: str | None = None,
    order: str | None = None,
    *,
    stable: bool | None = None,
    descending: bool | None = None,
) -> None:
    """x.sort()."""
    write_all(x, numpy_functions[np.sort](x, axis=axis, descending=descending))


def partition_in_place(
    x: Tracer,
    kth: int | Sequence[int],
    axis: int = -1,
    kind: str | None = None,
    order: str | None = None,
) -> None:
    """x.partition(k)."""
    write_all(x, numpy_functions[np.partition](x, kth, axis=axis))


# --- the methods of a mutable array ---------------------------------------------------------------


NEW_ARRAYS = (
    "all", "any", "argmax", "argmin", "choose", "clip", "compress", "copy", "cumprod", "cumsum",
    "dot", "flatten", "max", "mean", "min", "prod", "repeat", "round", "std", "sum", "take",
    "trace", "var",
)  # fmt: skip
VIEWING_METHODS = {"reshape": _perhaps, "ravel": _perhaps, "transpose": _always,
                   "squeeze": _always, "swapaxes": _always, "diagonal": _read_only}  # fmt: skip


def _new_array(function: Function) -> Function:
    """A method that gives a new array, never its object, or writes it over `out`."""

    @functools.wraps(function)
    def method(x: Tracer, *args: ArrayLike, **kwargs: Any) -> object:
        if kwargs and kwargs.get("out") is not None:
            return store(kwargs.pop("out"), function, "__call__", (x, *args), kwargs)
        out = function(x, *args, **kwargs)
        return x.twin() if out is x else out

    return method


def flat_of(x: Tracer) -> Value:
    """x.flat: the elements in order, which can be written; a part of them is a copy."""
    out = arrange.ravel(x)
    if type(out) is not Tracer:
        return out  # the trace has ended
    if out is x:
        out = x.twin()
    view = ViewBy(x, arrange.ravel, lambda base, v: sh.reshape(v, base.shape), np.ravel, FLAT)
    link(x, out, view)
    return out


def set_flat(x: Tracer, value: ArrayLike) -> None:
    """x.flat = value: values that repeat."""
    write_all(x, sh.reshape(_cycled(value, x.size, "flat", x.dtype), x.shape))


_SETTING = (  # NumPy's words
    "Setting the shape on a NumPy array has been deprecated in NumPy 2.5.\n"
    "As an alternative, you can create a new view using np.reshape (with copy=False if needed)."
)
_COPYING = (
    "Incompatible shape for in-place modification. Use `.reshape()` to make a copy with the "
    "desired shape."
)


def set_shape(x: Tracer, shape: Any) -> None:
    """x.shape = shape: of an array that the function has made, and has no views of.

    Raises:
        AttributeError: an array that lies so in memory has no view of that shape.
        InPlaceError: others would not see it.
    """
    builder, memory = innermost(), x.memory
    seen = isinstance(memory, View) or (memory is not None and memory_of(x).alive())
    if seen or x.builder is not builder or any([body.carries(x) for body in THREAD.state.bodies]):
        raise InPlaceError(
            "The shape of an array that others see is assigned.",
            (
                ("value", f"{x.aval}"),
                *user_line(),
                ("why", "it is of an outer function or step, or a view, or there is a view of it."),
                ("write", "y = x.reshape(shape)      a view with another shape"),
            ),
        )
    if at_least(np, 2, 5):
        warn_user(_SETTING, DeprecationWarning)
    check_layout(x)
    before = layout_of(x)
    layout = before.reshape(shape)  # or NumPy's error
    if not np.may_share_memory(layout, before) and before.size:
        raise AttributeError(_COPYING)
    point_at(x, sh.reshape(x, layout.shape).handle())  # type: ignore[union-attr]
    own = memory_of(x)
    own.layout, own.writes = layout, own.writes + 1


def _part_of(part: Function, plain: Function) -> Function:
    """np.real and np.imag, whose result is a view of a traced array."""

    @functools.wraps(plain)
    def function(val: ArrayLike) -> Value:
        return part(val) if type(val) is Tracer and not val.weak else plain(val)

    return function


def _set_real(x: Tracer, value: Value) -> None:
    copyto(real_part(x), value, casting="unsafe")


def _set_imag(x: Tracer, value: Value) -> None:
    if not cx.is_complex(x):
        raise ArgumentError("array does not have imaginary part to set")
    copyto(imaginary_part(x), value, casting="unsafe")


def mark_views() -> None:
    """Let the functions that give views in NumPy, as far as they are loaded, give views."""
    for way, names in VIEWS.items():
        for name in names:
            target, function = TRACED.get(name, (None, None))
            if target is not None and target not in alias_functions:
                plain: Any = inspect.unwrap(function)  # type: ignore[arg-type]
                add(name, way(plain, target))
                alias_functions.add(target)
    alias_functions.update(TRACED[n][0] for n in ALIASES if n in TRACED)
    for name in ARRAYS:
        function = TRACED[name][1] if name in TRACED else None
        if function is not None and not hasattr(function, "makes_arrays"):
            add(name, making_arrays(function))


def install(methods: dict[str, Any]) -> dict[str, Any]:
    """The methods of a mutable array, made of those of a value; fills the tables of views."""
    mark_views()
    for function in (copyto, put, put_along_axis, putmask, place, fill_diagonal):
        add(function.__name__, function)
    ufunc_methods["at"] = ufunc_at
    for name, part in (("real", real_part), ("imag", imaginary_part)):
        target, function = TRACED[name]
        add(name, _part_of(part, inspect.unwrap(function)))
        alias_functions.add(target)
    store_out.provide(store)
    table = dict(methods)
    for name in NEW_ARRAYS:
        table[name] = _new_array(table[name])
    for name, way in VIEWING_METHODS.items():
        table[name] = way(table[name], getattr(np.ndarray, name))
    for name in ("T", "mT"):
        table[name] = property(_always(table[name].fget, operator.attrgetter(name)))
    table["real"] = property(real_part, _set_real)
    table["imag"] = property(imaginary_part, _set_imag)
    table["flat"] = property(flat_of, set_flat)
    table["shape"] = property(Tracer.shape.fget, set_shape)
    for name in methods:
        base = methods.get(f"__{name[3:]}")
        if name.startswith("__i") and name.endswith("__") and name != "__invert__" and base:
            table[name] = in_place(base)
    table |= {
        "__getitem__": get_view,
        "__setitem__": setitem,
        "fill": fill,
        "put": put,
        "sort": sort_in_place,
        "partition": partition_in_place,
    }
    return table
