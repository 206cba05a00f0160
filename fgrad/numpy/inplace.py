"""L4. In-place code on traced arrays, functionalised: assignments, `out=`, writing through views.

    x[1:3] += v      x is pointed to a new value; every view of x sees it
    np.add.at(x, i, v), np.copyto(x, v), np.sin(x, out=y), x.sort(), x.fill(0)

Views are what they are in NumPy: basic indexing, reshape, ravel, transposition, squeezing,
splitting, flipping.  A scalar (rank 0) is a value, as in NumPy: `s += 1` binds the name anew.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from fgrad.assign import View, link, refresh
from fgrad.errors import ArgumentError, InPlaceError
from fgrad.numpy.compositions import to_bool
from fgrad.numpy.indexing import getitem, update
from fgrad.numpy.masked import Masked, is_unknown_mask, write_masked
from fgrad.numpy.operators import check_cast, keep_type
from fgrad.numpy.promote import (
    as_array,
    as_value,
    broadcast_to,
    convert,
    normalize_axis,
    refuse_argument,
    reshape,
    result_type,
    shape_of,
    user_line,
)
from fgrad.numpy.register import TRACED, add
from fgrad.ops import shape as sh
from fgrad.ops.elementwise import convert_p
from fgrad.ops.families import BROADCAST
from fgrad.trace import (
    Builder,
    Tracer,
    Value,
    alias_functions,
    assign_to,
    concrete,
    numpy_functions,
    own_handle,
    store_hook,
    ufunc_methods,
)

Function = Callable[..., Any]

VIEWS = (
    "reshape", "ravel", "transpose", "swapaxes", "moveaxis", "rollaxis", "expand_dims", "squeeze",
    "atleast_1d", "atleast_2d", "atleast_3d", "flip", "fliplr", "flipud", "rot90", "split",
    "array_split", "vsplit", "hsplit", "dsplit", "unstack", "permute_dims", "matrix_transpose",
    "linalg.matrix_transpose", "real",
)  # fmt: skip
ALIASES = ("asarray", "asanyarray", "ascontiguousarray", "asfortranarray", "require")
READ_ONLY_VIEWS = ("broadcast_to", "diagonal", "broadcast_arrays")


# --- writing --------------------------------------------------------------------------------------


def setitem(x: Tracer, index: Any, value: Any) -> None:
    """x[index] = value."""
    if isinstance(value, Tracer):
        view = value._view
        if isinstance(view, View) and view.base is x and _same_index(view.key, index):
            refresh(value)  # the second half of x[i] += v: the view has written already
            return
    if is_unknown_mask(index):
        assign_to(x, _traced(x, write_masked(x, index, value)))
    else:
        assign_to(x, _traced(x, update(x, index, value, "set")))


def _same_index(key: Any, index: Any) -> bool:
    return type(key) is type(index) and isinstance(key, (int, slice, tuple)) and key == index


def _traced(x: Tracer, new: Value) -> Tracer:
    """A new value of `x` as a tracer of its trace: a constant is recorded there."""
    if isinstance(new, Tracer) and new.builder is x.builder:
        return new
    return x.builder.record(convert_p, (new,), {"dtype": x.dtype})


def adopt(builder: Builder, array: np.ndarray) -> Tracer:
    """A plain array as a value of a trace; one number repeated stays small."""
    if array.size and not np.any(array != array.flat[0]):
        params = {"shape": array.shape, "dims": ()}
        return builder.record(BROADCAST, (array.dtype.type(array.flat[0]),), params)
    return builder.record(convert_p, (array,), {"dtype": array.dtype})


def store(out: Any, function: Any, method: str, args: Any, kwargs: dict[str, Any]) -> Any:
    """`out=`: call a function, and write its results over arrays."""
    outs = out if isinstance(out, tuple) else (out,)
    for o in outs:
        if o is not None and not isinstance(o, Tracer):
            raise _plain_output(function)
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


def _store_one(out: Tracer, result: Value, where: Any, casting: str) -> Tracer:
    """Write one result over an array, where a mask holds."""
    if shape_of(as_value(result)) != out.shape:
        result = broadcast_to(as_array(result), out.shape, out)
    new = convert(result, out.dtype) if casting == "unsafe" else keep_type(out, result)
    if where is not True:
        new = numpy_functions[np.where](where, new, out)
    write_all(out, new)
    return out


def _plain_output(function: Any) -> InPlaceError:
    name = getattr(function, "__name__", "function")
    return InPlaceError(
        f"np.{name} would write a traced value into a plain NumPy array.",
        (
            *user_line(),
            ("why", "a plain array holds numbers, and the trace would lose what they depend on."),
            ("write", f"y = np.{name}(...)             a new array instead of out="),
            ("write", "y = y + x                    instead of y += x"),
            ("write", "import fgrad.numpy as np     whose zeros() can be assigned into"),
        ),
    )


def _spread(value: Value, x: Tracer) -> Value:
    value = as_array(value)
    return value if value.shape == x.shape else broadcast_to(value, x.shape, x)


def write_all(x: Tracer, value: Value) -> None:
    """Let `x` hold another value of its shape and dtype."""
    assign_to(x, _traced(x, value))


def in_place(operator: Function) -> Function:
    """`x += y`: an array keeps its shape and dtype and is written; a scalar is a new value."""

    def assign_operator(x: Tracer, y: Any) -> Any:
        new = operator(x, y)
        if new is NotImplemented or not x.shape:
            return new
        write_all(x, keep_type(x, new))
        return x

    return assign_operator


_REPEATABLE = {np.add: "add", np.subtract: "add", np.multiply: "mul", np.maximum: "max",
               np.minimum: "min"}  # fmt: skip


def ufunc_at(ufunc: Any, x: Any, indices: Any, values: Any = None) -> None:
    """np.add.at(x, i, v) and its relatives: repeated indices count each time."""
    if not isinstance(x, Tracer):
        raise _plain_output(ufunc)
    combine = _REPEATABLE.get(ufunc)
    if combine is not None:
        values = as_value(values)
        check_cast(x, result_type(x, values))
        if ufunc is np.subtract:
            values = numpy_functions[np.negative](as_array(values))
        return write_all(x, update(x, indices, values, combine))
    for place, part in _single_places(ufunc, x, indices, values):
        old = getitem(x, place)
        new = ufunc(old) if values is None else ufunc(old, part)
        check_cast(x, new.dtype)
        write_all(x, update(x, place, new, "set"))
    return None


def _single_places(ufunc: Any, x: Tracer, indices: Any, values: Any) -> Iterator[tuple[Any, Any]]:
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


def _plain_index(parts: tuple[Any, ...]) -> tuple[Any, ...]:
    """An index without tracers: those of rank 0 are one place, whichever it is."""
    known = [concrete(i) if isinstance(i, Tracer) else i for i in parts]
    return tuple([0 if value is None and part is not None else value
                  for value, part in zip(known, parts, strict=True)])  # fmt: skip


def copyto(dst: Any, src: Any, casting: str = "same_kind", where: Any = True) -> None:
    """np.copyto: write `src` over `dst` where a mask holds."""
    if not isinstance(dst, Tracer):
        raise _plain_output(np.copyto)
    value = _spread(src, dst)
    value = convert(value, dst.dtype) if casting == "unsafe" else keep_type(dst, value)
    if where is not True:
        value = convert(numpy_functions[np.where](where, value, dst), dst.dtype)
    write_all(dst, value)


def fill(x: Tracer, value: Any) -> None:
    """x.fill(value)."""
    copyto(x, value, casting="unsafe")


def _cycled(values: Any, count: int, function: str) -> Value:
    """The first `count` of values that repeat for ever."""
    line = as_array(values)
    line = reshape(line, (math.prod(shape_of(line)),))
    n = line.shape[0]
    if n == count:
        return line
    if not n:
        raise ArgumentError(f"{function}: there are no values to be written", user_line())
    return numpy_functions[np.take](line, np.arange(count) % n)


def put(a: Any, ind: Any, v: Any, mode: str = "raise") -> None:
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
        raise ArgumentError(
            f"clipmode must be one of 'clip', 'raise', or 'wrap' (got {mode!r})", user_line()
        )
    if not places.shape[0]:
        return
    values = _cycled(v, places.shape[0], "put")
    new = update(sh.reshape(a, (a.size,)), places, values, "set")
    write_all(a, sh.reshape(new, a.shape))


def put_along_axis(arr: Any, indices: Any, values: Any, axis: Any) -> None:
    """np.put_along_axis: the writing partner of take_along_axis."""
    if not isinstance(arr, Tracer):
        raise _plain_output(np.put_along_axis)
    indices = as_array(indices)
    if axis is None:
        line = reshape(indices, (math.prod(shape_of(indices)),))
        new = update(sh.reshape(arr, (arr.size,)), line, as_array(values), "set")
        return write_all(arr, sh.reshape(new, arr.shape))
    axis = normalize_axis(axis, arr.ndim)
    if len(indices.shape) != arr.ndim:
        raise ArgumentError(
            "`indices` and `arr` must have the same number of dimensions", user_line()
        )
    lengths = [
        m if a == axis else n for a, (n, m) in enumerate(zip(arr.shape, indices.shape, strict=True))
    ]
    grid = np.ix_(*[np.arange(n) for n in lengths])
    where = tuple([indices if a == axis else g for a, g in enumerate(grid)])
    return setitem(arr, where, values)


def putmask(a: Any, mask: Any, values: Any) -> None:
    """np.putmask: values by position where a mask holds; they repeat if there are fewer."""
    if not isinstance(a, Tracer):
        raise _plain_output(np.putmask)
    new = reshape(_cycled(values, a.size, "putmask"), a.shape)
    copyto(a, new, casting="unsafe", where=reshape(as_array(mask), a.shape))


def place(arr: Any, mask: Any, vals: Any) -> None:
    """np.place: the first values go to the first true elements; they repeat if there are fewer."""
    if not isinstance(arr, Tracer):
        raise _plain_output(np.place)
    values = as_array(vals)
    values = reshape(values, (math.prod(shape_of(values)),))
    mask = to_bool(as_array(mask))
    if not values.shape[0]:
        found = concrete(mask)
        if found is None or np.any(found):
            raise ArgumentError("Cannot insert from an empty array!", user_line())
        return
    rank = numpy_functions[np.cumsum](mask)
    number = numpy_functions[np.remainder](np.subtract(rank, 1), values.shape[0])
    new = reshape(numpy_functions[np.take](values, number), arr.shape)
    copyto(arr, new, casting="unsafe", where=reshape(mask, arr.shape))


def fill_diagonal(a: Any, val: Any, wrap: bool = False) -> None:
    """np.fill_diagonal of a matrix, or of a cube of equal sides."""
    if not isinstance(a, Tracer):
        raise _plain_output(np.fill_diagonal)
    places = np.zeros(a.shape, bool)
    np.fill_diagonal(places, True, wrap)
    put(a, np.flatnonzero(places), val)


def sort_in_place(
    x: Tracer, axis: int = -1, kind: Any = None, order: Any = None, *, stable: Any = None
) -> None:
    """x.sort()."""
    write_all(x, numpy_functions[np.sort](x, axis=axis))


def partition_in_place(
    x: Tracer, kth: Any, axis: int = -1, kind: Any = None, order: Any = None
) -> None:
    """x.partition(k)."""
    write_all(x, numpy_functions[np.partition](x, kth, axis=axis))


# --- views ----------------------------------------------------------------------------------------


def get_view(x: Tracer, index: Any) -> Value:
    """x[index]; a basic index gives a view."""
    if is_unknown_mask(index):
        return Masked(x.twin(), index)
    out = getitem(x, index)
    if type(out) is Tracer and out.shape and _is_basic(index):
        if out is x:
            out = x.twin()
        link(
            x,
            out,
            lambda base: getitem(base, index),
            lambda base, v: update(base, index, v, "set"),
            index,
        )
    return out


def _is_basic(index: Any) -> bool:
    """Whether NumPy would give a view."""
    parts = index if type(index) is tuple else (index,)
    return all(
        i is None or i is Ellipsis or type(i) in (int, slice) or isinstance(i, np.integer)
        for i in parts
    )


def viewing(function: Function) -> Function:
    """A function whose results are views of its first argument."""

    @functools.wraps(function)
    def viewed(x: Any, *args: Any, **kwargs: Any) -> Any:
        out = function(x, *args, **kwargs)
        if type(x) is Tracer:
            if type(out) is Tracer:
                link_view(x, out, lambda base: function(base, *args, **kwargs))
            elif isinstance(out, (list, tuple)):
                for k, part in enumerate(out):
                    link_view(x, part, lambda base, k=k: function(base, *args, **kwargs)[k])
        return out

    return viewed


def link_view(base: Tracer, out: Any, read: Function) -> None:
    """Make a rearrangement of elements a view; writing finds its places by rearranging numbers."""
    if type(out) is Tracer and out is not base:
        link(base, out, read, lambda whole, v: _write_back(whole, v, read))


def _write_back(base: Tracer, value: Value, read: Function) -> Value:
    """`base` with the elements of its view `read(base)` replaced."""
    with Builder("view", "places", eager=True) as builder:
        places = concrete(read(builder.input(np.arange(base.size).reshape(base.shape))))
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


def _copying(function: Function, target: Any) -> Function:
    """A method that gives a new array in NumPy, never its object."""

    @functools.wraps(function)
    def method(x: Tracer, *args: Any, **kwargs: Any) -> Any:
        return own_handle(function(x, *args, **kwargs), target, (x,))

    return method


COPYING_METHODS = (
    "astype", "copy", "flatten", "round", "clip", "sum", "prod", "max", "min", "mean", "conj",
    "conjugate", "repeat", "take", "cumsum", "cumprod", "choose",
)  # fmt: skip
VIEWING_METHODS = ("reshape", "transpose", "ravel", "squeeze", "swapaxes")


def mark_views() -> None:
    """Let the functions that give views in NumPy, as far as they are loaded, give views."""
    for name in VIEWS:
        target, function = TRACED.get(name, (None, None))
        if target is not None and target not in alias_functions:
            add(name, viewing(function))  # type: ignore[arg-type]
            alias_functions.add(target)
    alias_functions.update(TRACED[n][0] for n in (*ALIASES, *READ_ONLY_VIEWS) if n in TRACED)


def install(methods: dict[str, Any]) -> dict[str, Any]:
    """The methods of a mutable array, made of those of a value; fills the tables of views."""
    mark_views()
    for function in (copyto, put, put_along_axis, putmask, place, fill_diagonal):
        add(function.__name__, function)
    ufunc_methods["at"] = ufunc_at
    store_hook[:] = [store]
    table = dict(methods)
    for name in COPYING_METHODS:
        table[name] = _copying(table[name], name)
    for name in VIEWING_METHODS:
        table[name] = viewing(table[name])
    for name in ("T", "mT", "real"):
        table[name] = property(viewing(table[name].fget))
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
