"""L2. Assignment into traced arrays: a tracer is a handle, and a write points it to a new value.

    y = x[1:3]          y._view = View(x, ...): a view knows how to be read from its base, and how a
    y *= 2              new value of it is written into the base
    x.sum()             sees the write; so does every other view of x

The root of a chain of views counts its writes in `view`; a view that has seen fewer reads itself
again when it is next used.  Nothing of this is paid for before the first write of a trace.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from fgrad.errors import InPlaceError
from fgrad.ir.aval import Aval
from fgrad.source import here, resolve

if TYPE_CHECKING:
    from fgrad.trace import Builder, Tracer

Read = Callable[[Any], Any]
Write = Callable[[Any, Any], Any]


class View:
    """How a tracer is read from its base and written into it; `key` tells equal views apart.

    `copies`, if it is there, finds out whether NumPy would have made a copy after all.
    """

    __slots__ = ("base", "copies", "key", "read", "version", "write")

    def __init__(self, base: Tracer, read: Read, write: Write, key: Any) -> None:
        self.base = base
        self.read = read
        self.write = write
        self.key = key
        self.copies: Callable[[], bool] | None = None
        self.version = writes_of(base)


def root_of(x: Tracer) -> Tracer:
    """The array at the end of a chain of views."""
    while isinstance(x._view, View):
        x = x._view.base
    return x


def writes_of(x: Tracer) -> int:
    """How often the memory that `x` stands for was written."""
    return root_of(x)._view or 0


def keep_memory(x: Tracer) -> None:
    """Let a tracer of rank 0 be an array, which `x += 1` writes; else it is a number."""
    if x._view is None and not x.shape:
        x._view = 0


def refresh(x: Tracer) -> None:
    """Read a view again if its base was written since."""
    view = x._view
    if isinstance(view, View):
        writes = writes_of(view.base)
        if writes != view.version:
            if _is_copy(x, view):
                return
            refresh(view.base)
            _point(x, view.read(view.base))
            view.version = writes


def _is_copy(x: Tracer, view: View) -> bool:
    """Whether `x` is no view after all, but a copy; then it is one from now on."""
    if view.copies is None:
        return False
    copied, view.copies = view.copies(), None
    if copied:
        x._view = None
    return copied


def link(base: Tracer, out: Tracer, read: Read, write: Write, key: Any = None) -> None:
    """Make `out`, a fresh result, a view of `base`."""
    if out is not base and out.builder is base.builder and out._view is None and out.shape:
        out._view = View(base, read, write, key)


def assign(x: Tracer, new: Tracer, innermost: Builder | None) -> None:
    """Let `x`, its base and all views of it see the value `new`, of the shape and dtype of `x`."""
    if x.builder is not innermost or new.builder is not x.builder:
        raise _foreign(x)
    target, value = x, new
    while isinstance(target._view, View):
        view = target._view
        if _is_copy(target, view):
            break
        refresh(view.base)
        target, value = view.base, view.write(view.base, value)
    _point(target, value)
    written: Any = target._view
    target._view = (written or 0) + 1
    target.builder.plain = False
    if x is not target:
        _point(x, new)
        x._view.version = target._view


def _point(x: Tracer, new: Tracer) -> None:
    x.index, x.value, x._aval = new.index, new.value, new._aval


def _foreign(x: Tracer) -> InPlaceError:
    if x.builder.what == "device":
        return immutable(x.aval)
    used = resolve(here())
    owner = f"{x.builder.what}({x.builder.name})"
    return InPlaceError(
        "An assignment into an array of an outer function.",
        (
            ("value", f"{x.aval} of {owner}"),
            ("used", f"{used}:  {used.text()}"),
            ("why", "the inner function is traced once, and runs any number of times."),
            ("write", "return the new array from the inner function, and assign it outside"),
        ),
    )


def immutable(aval: Aval) -> InPlaceError:
    """The card for a write into an array on a device."""
    used = resolve(here())
    return InPlaceError(
        "An array on a GPU was to be written into.",
        (
            ("value", f"{aval}"),
            ("used", f"{used}:  {used.text()}"),
            ("why", "kernels that were launched may still read it; arrays on a GPU do not change."),
            ("write", "x = x.at[i].set(v)      a new array"),
            ("write", "jit(f)(x)               x[i] = v works inside, and costs no copy"),
        ),
    )
