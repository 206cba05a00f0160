"""L4. Views of traced arrays: basic indexing, reshape, transposition, splitting, flipping, parts.

    y = x[1:3].T        y knows how it is read from x, and how a new value of it is written into x

Whether a reshape is a view depends on the layout of memory.  An array that is no view is taken to
be in C order; for views of views NumPy itself is asked, when one of them is first written.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from fgrad.assign import View, link, root_of
from fgrad.numpy.indexing import getitem, update
from fgrad.numpy.masked import Masked, is_unknown_mask
from fgrad.numpy.promote import traced_full
from fgrad.ops import complex as cx
from fgrad.ops import shape as sh
from fgrad.trace import Builder, Tracer, Value, concrete

Function = Callable[..., Any]


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


def viewing(function: Function, reshapes: str = "") -> Function:
    """A function whose results are views of its first argument.

    `reshapes` names the method of arrays that copies where the layout of memory asks for it.
    """

    @functools.wraps(function)
    def viewed(x: Any, *args: Any, **kwargs: Any) -> Any:
        out = function(x, *args, **kwargs)
        if type(x) is Tracer:
            if type(out) is Tracer:
                link_view(x, out, lambda base: function(base, *args, **kwargs))
                if reshapes and out is not x:
                    _check_layout(x, out, reshapes, args, kwargs)
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
    builder = Builder("view", "places", eager=True)
    with builder.running, builder:
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


# --- layouts --------------------------------------------------------------------------------------


def _check_layout(base: Tracer, out: Tracer, method: str, args: Any, kwargs: Any) -> None:
    """Reshaping a transposed or strided array copies it: ask NumPy, when it first matters."""
    ordered = kwargs.get("order", "C") != "C" or "F" in args
    view = out._view
    if isinstance(view, View) and (ordered or isinstance(base._view, View)):
        view.copies = lambda: _would_copy(base, method, args, kwargs)


def _places(x: Tracer) -> np.ndarray:
    """For each element of a view, its number in the array at the end of the chain."""
    view = x._view
    if not isinstance(view, View):
        return np.arange(x.size).reshape(x.shape)
    builder = Builder("view", "places", eager=True)
    with builder.running, builder:
        return concrete(view.read(builder.input(_places(view.base))))


def memory_axes(x: Value) -> tuple[int, ...]:
    """The axes in the order of their strides, the longest first: how an array lies in memory."""
    if not isinstance(x, Tracer):
        steps: Any = np.asarray(x).strides
    elif isinstance(x._view, View) and x.size:
        steps = _steps(_places(x))
    else:
        return tuple(range(len(x.shape)))
    return tuple(sorted(range(len(steps)), key=lambda a: -abs(steps[a])))


def lies_in_columns(x: Value) -> bool:
    """Whether an array is contiguous in Fortran's order, and not in C's."""
    if not isinstance(x, Tracer):
        return np.asarray(x).flags.fnc
    if not isinstance(x._view, View) or not x.size:
        return False
    places = _places(x).T
    return places.ndim > 1 and not np.any(np.diff(places.ravel()) != 1)


def _steps(places: np.ndarray) -> list[int]:
    """How far apart neighbours along each axis are."""
    first = int(places.flat[0])
    return [
        int(places.take(1, i).flat[0]) - first if n > 1 else 0 for i, n in enumerate(places.shape)
    ]


def overlap(a: Tracer, b: Tracer) -> bool:
    """Whether two arrays are views of one, and have elements of it in common."""
    if root_of(a) is not root_of(b):
        return False
    return bool(np.isin(_places(a), _places(b)).any())


def _would_copy(base: Tracer, method: str, args: Any, kwargs: Any) -> bool:
    """Whether NumPy's own method copies an array that is laid out like `base`."""
    places = _places(base)
    if not places.size:
        return True
    memory = np.empty(root_of(base).size, np.int8)[int(places.flat[0]) :]
    same = np.lib.stride_tricks.as_strided(memory, places.shape, _steps(places))
    given = [v for k, v in kwargs.items() if k in ("shape", "newshape")]
    order = {"order": kwargs["order"]} if "order" in kwargs else {}
    return not np.may_share_memory(getattr(same, method)(*args, *given, **order), same)


# --- parts of complex numbers ---------------------------------------------------------------------


def real_part(x: Tracer) -> Value:
    """x.real; writing it leaves the imaginary part."""
    out = cx.real(x)
    if cx.is_complex(x) and type(out) is Tracer:
        link(x, out, cx.real, lambda base, v: cx.complex_(v, cx.imag(base)), "real")
        return out
    return same_view(x)


def same_view(x: Tracer) -> Tracer:
    """x[...]: all of the array, as a view."""
    out = x.twin()
    link(x, out, lambda base: base.twin(), lambda base, v: v, "same")
    return out


def imaginary_part(x: Tracer) -> Value:
    """x.imag; writing it leaves the real part."""
    if not cx.is_complex(x):
        return traced_full(x, x.shape, 0, x.dtype)
    out = cx.imag(x)
    if type(out) is Tracer:
        link(x, out, cx.imag, lambda base, v: cx.complex_(cx.real(base), v), "imag")
    return out
