"""L2. Assignment into traced arrays: a tracer is a handle, and a write points it to a new value.

    y = x[1:3]          y.memory = View(x, ...): a view knows how to be read from its base, and how
    y *= 2              a new value of it is written into the base
    x.sum()             sees the write; so does every other view of x

The array at the end of a chain of views, the root, knows its views.  A write takes away the values
of all of them: whoever asks a view for `index` or `value` next, in whatever way, meets
`__getattr__`, which reads it again.  So no handle has a value that is out of date, and
nothing is paid where nothing is written.
"""

from __future__ import annotations

import contextlib
import weakref
from collections.abc import Iterable
from typing import TYPE_CHECKING

import numpy as np

from fgrad.base.source import here, resolve
from fgrad.errors import InPlaceError
from fgrad.ir.aval import Aval
from fgrad.ir.basic import BASIC
from fgrad.tracing.closed import own
from fgrad.tracing.layouts import in_c_order, is_line, mark, note_taken, unknown_layout
from fgrad.tracing.thread_state import THREAD, is_traced
from fgrad.typing import PyTree

if TYPE_CHECKING:
    from fgrad.trace import Builder, Tracer

Frozen = list["weakref.ref[np.ndarray]"]


class View:
    """How a tracer is read from its base and written into it; `key` tells equal views apart.

    `move` is what NumPy does to an array that lies in memory as the base does.  Where `doubtful`,
    that may be a copy: NumPy is asked before the first write.
    """

    __slots__ = ("base", "doubtful", "key", "layout", "root", "stale")
    chosen = False  # by a branch or a loop: whether it is the base, is not known

    def __init__(self, base: Tracer, key: object = None, doubtful: bool = False) -> None:
        self.base = base
        self.key = key
        self.doubtful = doubtful
        self.stale = False
        self.layout: np.ndarray | None = None
        self.root: Tracer | None = None  # the end of the chain, once it was looked for

    def read(self, base: PyTree) -> PyTree:
        """What the view is of a value of its base."""
        raise NotImplementedError

    def write(self, base: PyTree, value: PyTree) -> PyTree:
        """The base, with a value of the view written into it."""
        raise NotImplementedError

    def move(self, array: np.ndarray) -> np.ndarray:
        """The view of an array that lies in memory as the base does."""
        raise NotImplementedError

    def others(self) -> list[Tracer]:
        """The arrays beside the base that `write` changes."""
        return []


class Root:
    """What the end of a chain of views knows: its views, and how many traces were begun when it
    was made."""

    __slots__ = ("apart", "assumed", "doubtful", "layout", "limit", "made", "views", "writes")

    def __init__(self, made: int = 0) -> None:
        self.made = made
        self.writes = 0
        self.views: list[weakref.ref[Tracer]] = []
        self.limit = 64
        self.doubtful = False
        self.layout: np.ndarray | None = None  # where it is known
        self.assumed: np.ndarray | None = None  # else C order, see `check_layout`
        self.apart: list[weakref.ref[Tracer]] | None = None  # that the program found to be others

    def add(self, x: Tracer) -> None:
        """Register a view; dead ones are removed from time to time."""
        if len(self.views) >= self.limit:
            self.limit = 2 * len(self.alive()) + 64
        self.views.append(weakref.ref(x))

    def alive(self) -> list[Tracer]:
        """The views that are still in use, in the order in which they were made."""
        held = [ref() for ref in self.views]
        found = [x for x in held if x is not None and isinstance(x.memory, View)]
        if len(found) < len(self.views):
            self.views = [weakref.ref(x) for x in found]
        return found


def root_of(x: Tracer) -> Tracer:
    """The array at the end of a chain of views."""
    way: list[View] = []
    while isinstance(x.memory, View):
        view = x.memory
        way.append(view)
        x = view.base if view.root is None else view.root
    for view in way:
        view.root = x
    return x


def chain_of(x: Tracer) -> list[Tracer]:
    """What a view is a view of, one after another, up to the root."""
    found: list[Tracer] = []
    while isinstance(x.memory, View):
        x = x.memory.base
        found.append(x)
    return found


def written_with(x: Tracer) -> list[Tracer]:
    """The arrays that a write into `x` changes: the root, and those that it may be instead."""
    chain = [x, *chain_of(x)]
    views = [y.memory for y in chain if isinstance(y.memory, View)]
    return [chain[-1], *[other for view in views for other in view.others()]]


def writes_of(x: Tracer) -> int:
    """How often the memory that `x` stands for was written."""
    memory = root_of(x).memory
    return memory.writes if isinstance(memory, Root) else 0


def memory_of(root: Tracer) -> Root:
    """What is known of the end of a chain of views."""
    found = root.memory
    if found is None:
        found = root.memory = Root()
    assert isinstance(found, Root)
    return found


def link(base: Tracer, out: Tracer, view: View) -> None:
    """Make `out`, a fresh result, a view of `base`; of a number there are none."""
    closed = THREAD.state.closed
    if closed is not None:
        base = own(closed, base)
    above = base.memory
    if above is None:
        if not base.shape:
            return
        memory = Root()
    else:
        memory = above if type(above) is Root else memory_of(root_of(base))
    if out.builder is base.builder and not isinstance(out.memory, View):
        if above is None:
            base.memory = memory
        out.memory = view
        memory.add(out)
        memory.doubtful |= view.doubtful


def layout_of(x: Tracer) -> np.ndarray:
    """An array without contents that lies in memory as `x` does, beside those of its relatives."""
    view = x.memory
    if not isinstance(view, View):
        memory = memory_of(x)
        if memory.layout is not None:
            return memory.layout
        if memory.assumed is None:
            memory.assumed = np.empty(x.shape, x.dtype)
        return memory.assumed
    if view.layout is None:
        view.layout = view.move(layout_of(view.base))
    return view.layout


def check_layout(x: Tracer) -> None:
    """Raise if the layout of an array, or of what it is a view of, is not known."""
    root = root_of(x)
    if memory_of(root).layout is None and not is_line(root.shape) and not in_c_order(root):
        raise unknown_layout(root.aval)
    note_taken(root)


def settle(x: Tracer) -> Tracer:
    """Ask NumPy which views of the root of `x` are really copies; returns the root."""
    root = root_of(x)
    memory = memory_of(root)
    if not memory.doubtful:
        return root
    memory.doubtful = False
    for view in memory.alive():
        how = view.memory
        if isinstance(how, View) and how.doubtful:
            how.doubtful = False
            check_layout(view)
            if not np.may_share_memory(layout_of(view), layout_of(how.base)):
                _cut_off(view, memory_of(root_of(view)))  # its base may have been cut off
    return root_of(x)


def _cut_off(copy: Tracer, memory: Root) -> None:
    """A view that is a copy becomes a root, and takes its own views with it."""
    layout = layout_of(copy)
    copy.memory = own = Root(memory.made)
    own.layout = layout
    views, memory.views = memory.alive(), []
    for x in views:
        if isinstance(x.memory, View):
            x.memory.root = None
    for x in views:
        if x is not copy:
            (own if root_of(x) is copy else memory).add(x)


def told_apart(a: object, b: object) -> None:
    """Note that a program depends on that two arrays, which may be arguments, are not one."""
    if not (is_traced(a) and is_traced(b)):
        return
    if any([isinstance(x.memory, View) or not (x.shape or x.memory) for x in (a, b)]):
        return
    memory = memory_of(a)
    memory.apart = [*(memory.apart or ()), weakref.ref(b)]


def keep_memory(x: Tracer) -> None:
    """Let a tracer of rank 0 be an array, which `x += 1` writes; else it is a number."""
    if not x.shape:
        memory_of(x)


def refresh(x: Tracer) -> None:
    """Recompute a view whose value was invalidated, and before it those that it is a view of."""
    stale = [x]
    while isinstance(view := stale[-1].memory, View):
        base = view.base.memory
        if not isinstance(base, View) or not base.stale:
            break
        stale.append(view.base)
    for one in reversed(stale):
        _read_base(one)


def _read_base(x: Tracer) -> None:
    view, state = x.memory, THREAD.state
    assert isinstance(view, View)
    closed, state.closed = state.closed, None  # it belongs to the trace of its base
    try:
        new = view.read(view.base)
        view.stale = False
        if is_traced(new) and new.builder is x.builder:
            point_at(x, copied_like(x, new) if x.builder.reordered else new)
        else:  # the trace has ended
            x.index, x.value, x.known_aval = -1, new, None
    finally:
        state.closed = closed


def assign(x: Tracer, new: Tracer) -> None:
    """Let `x`, its base and all views of it see the value `new`, of the shape and dtype of `x`."""
    new = new.handle()  # it may be one of the views
    target, value = x, new
    while isinstance(target.memory, View):
        view = target.memory
        value, target = view.write(view.base, value), view.base
    if len(target.shape) > 1:
        value = laid_out(value, in_c_order(target))  # the memory stays as it is
    point_at(target, value)
    memory = memory_of(target)
    memory.writes += 1
    for view in memory.alive():
        take_value(view)
    if x is not target:
        point_at(x, copied_like(x, new) if x.builder.reordered else new)
        view = x.memory
        assert isinstance(view, View)
        view.stale = False


def laid_out(x: Tracer, c_order: bool) -> Tracer:
    """The same values, which lie in C order or may not."""
    if not x.builder.live or in_c_order(x) == c_order:
        return x
    out = x.builder.record(BASIC.convert, (x,), {"dtype": x.dtype})
    mark(out, c_order)
    return out


def lying_as(x: Tracer, value: PyTree) -> PyTree:
    """What `x` is in the enclosing context, laid out there as far as it is known of `x`."""
    if not x.builder.reordered or is_line(x.shape):
        return value
    c_order = in_c_order(x)
    if is_traced(value):
        return laid_out(value, c_order)
    return np.ascontiguousarray(value) if c_order and value is not None else value


def copied_like(x: Tracer, out: PyTree) -> Tracer:
    """`out`, a new array, laid out as NumPy lays out what is made like `x`: order "K"."""
    if not isinstance(x.memory, View) or is_line(x.shape) or not x.builder.live:
        return out
    as_base = in_c_order(root_of(x))
    return laid_out(out, as_base and np.empty_like(layout_of(x)).flags.c_contiguous)


def adopt(root: Tracer, builder: Builder) -> None:
    """Transfer an array of an enclosing trace to `builder`, during whose trace it was made."""
    point_at(root, builder.capture(root.handle()))
    root.builder = builder
    for view in memory_of(root).alive():
        take_value(view)
        view.builder = builder


def made_inside(root: Tracer, builder: Builder) -> bool:
    """Whether an array of an enclosing trace was made since `builder` was opened."""
    if memory_of(root).made >= builder.opened:
        return True
    return any([b is root.builder and root.index >= count for b, count in builder.before])


def enclosing(builder: Builder | None) -> tuple[tuple[Builder, int], ...]:
    """A builder and those that enclose it, and how many values each of them has."""
    return () if builder is None else ((builder, builder.count), *enclosing(builder.outer))


def take_value(x: Tracer) -> None:
    """Invalidate a view's value until it is read again."""
    view = x.memory
    if isinstance(view, View) and not view.stale:
        view.stale = True
        x.known_aval = x.aval
        if "__getattr__" not in vars(type(x)):
            type(x).__getattr__ = _read_again  # type: ignore[attr-defined]
        del x.index, x.value


def _read_again(x: Tracer, name: str) -> object:
    """`index` and `value` of a view whose base was written.

    As `Tracer.__getattr__` it slows all attributes of all tracers down, by 3 % of a gradient at the
    prompt, so that it is there from the first write on.
    """
    if name in ("index", "value") and isinstance(x.memory, View):
        refresh(x)
        return getattr(x, name)
    raise AttributeError(f"'Tracer' object has no attribute {name!r}", name=name, obj=x)


def point_at(x: Tracer, new: Tracer) -> None:
    """Let a handle be another value of its trace."""
    x.index, x.value, x.known_aval = new.index, new.value, new.known_aval


def foreign(x: Tracer) -> InPlaceError:
    if x.builder.what == "device":
        return immutable(x.aval)
    used = resolve(here())
    owner = f"{x.builder.what}({x.builder.name})"
    return InPlaceError(
        "An assignment into an array of an outer function.",
        (
            ("value", f"{x.aval} of {owner}"),
            ("used", f"{used}:  {used.text()}"),
            ("why", "the inner function is traced once, but may run any number of times."),
            ("write", "x = x.copy()                in the inner function, before it"),
            ("write", "return the new array from the inner function, and assign it outside"),
        ),
    )


def immutable(aval: Aval) -> InPlaceError:
    """The card for a write into an array on a device."""
    used = resolve(here())
    return InPlaceError(
        "Arrays on the GPU are immutable.",
        (
            ("value", f"{aval}"),
            ("used", f"{used}:  {used.text()}"),
            ("why", "kernels that are already launched may still read the array."),
            ("write", "x = x.at[i].set(v)      a new array"),
            ("write", "jit(f)(x)               inside, x = x.copy() and x[i] = v cost no copy"),
        ),
    )


def freeze(arrays: Iterable[np.ndarray], frozen: Frozen) -> None:
    """Make arrays read-only during a trace, without keeping them alive."""
    for x in arrays:
        x.flags.writeable = False
        frozen.append(weakref.ref(x))


def thaw(frozen: Frozen) -> None:
    """Make arrays writable again that were frozen during a trace.

    A view cannot be before its base, and not at all if the user has frozen that meanwhile.
    """
    arrays: list[np.ndarray] = []
    for ref in frozen:
        x = ref()
        if x is not None and x.base is None:
            x.flags.writeable = True
        elif x is not None:
            arrays.append(x)
    frozen.clear()
    for _ in range(len(arrays)):
        for x in arrays:
            with contextlib.suppress(ValueError):
                x.flags.writeable = True
        if all([x.flags.writeable for x in arrays]):
            break
