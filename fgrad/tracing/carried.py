"""L2. Bodies of loops and branches that write arrays from outside: these become carries.

    y = np.zeros(n)               the body of the loop is traced with `y`, the array that all names
    for i in range(n):            and views of it lead to, standing for the carry; so writes by any
        y[i] = ...                name are seen, and reads by any other

A write to an array that is not carried yet raises `Written`, and the body is traced again.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from fgrad.tracing.assign import (
    chain_of,
    made_inside,
    memory_of,
    point_at,
    root_of,
    take_value,
    written_with,
)
from fgrad.tracing.thread_state import THREAD

if TYPE_CHECKING:
    from fgrad.trace import Builder, Tracer


class Written(BaseException):
    """A body writes an array from outside that it does not carry.  No error: user code must not
    catch it."""

    def __init__(self, root: Tracer) -> None:
        self.root = root


class Body:
    """The trace of a loop's body or of a branch; `with body.carrying(builder, roots, inputs)`.

    Arguments:
        builder: of the trace.
        roots: arrays of enclosing traces that are carried.
        inputs: what stands for them inside.
    """

    def __init__(self, builder: Builder, roots: Sequence[Tracer], inputs: Sequence[Tracer]) -> None:
        self.builder, self.roots, self.inputs = builder, roots, inputs
        self.made: dict[int, Any] = {}  # lists and the like that were made inside
        self.decides = False  # whether it is the condition of a loop
        self.entered: list[Any] = []  # the handles that variables have where it begins
        self.given: set[int] = set()  # of all of these, and of lists of them, the identities
        self.saved: list[tuple[Any, ...]] = []
        self.before: list[Tracer] = []  # the arrays that are carried, and views of them

    def __enter__(self) -> Body:
        for root in self.roots:
            self.saved.append((root.builder, root.index, root.value, root.known_aval))
        state = THREAD.state
        self.outer, state.bodies = state.bodies, (*state.bodies, self)
        for root, inner in zip(self.roots, self.inputs, strict=True):
            views = _seen_by(root)
            self.before += [root, *views]
            for view in views:
                take_value(view)
                view.builder = self.builder
            root.builder = self.builder
            point_at(root, inner)
        return self

    def __exit__(self, *_exc: object) -> None:
        THREAD.state.bodies = self.outer
        for root, (builder, index, value, aval) in zip(self.roots, self.saved, strict=True):
            root.builder, root.index, root.value, root.known_aval = builder, index, value, aval
            for view in _seen_by(root):
                take_value(view)
                view.builder = builder

    def carries(self, root: Tracer) -> bool:
        """Whether an array is a carry."""
        return any([root is own for own in self.roots])

    def knew(self, array: Tracer) -> bool:
        """Whether a carried array, or a view of one, was there before the body."""
        return any([array is x for x in self.before])


def _seen_by(root: Tracer) -> list[Tracer]:
    """The views of an array; of one that another array may be, that one, and its views."""
    views = memory_of(root).alive()
    chosen = [x for x in views if root_of(x) is not root]
    return views + [
        view
        for x in chosen
        for view in memory_of(root_of(x)).alive()
        if view is not x and any([y is x for y in chain_of(view)])
    ]


def body_of(builder: Builder | None) -> Body | None:
    """The body that a builder traces, if it does."""
    bodies = THREAD.state.bodies
    return next((b for b in bodies if b.builder is builder), None) if bodies else None


def innermost_body() -> Body | None:
    """The body that is being traced."""
    bodies = THREAD.state.bodies
    return bodies[-1] if bodies else None


def refuse_uncarried(x: Tracer, innermost: Builder | None) -> None:
    """Raise `Written` if a write into `x` changes an array from outside of a body."""
    for root in written_with(x):
        builder = innermost
        while builder is not None and builder is not root.builder:
            if body_of(builder) is not None and not made_inside(root, builder):
                raise Written(root)
            builder = builder.outer
