"""L2. Named axes: which are open, and where an equation over one of them is recorded.

    vmap(f, axis_name="data")    opens an axis while f is traced, and its programs are batched

A value *varies* over an axis if it may differ along it (`Aval.varies`); what does not is the same
for all.  Inside of the axis' own trace, all that varies is unknown.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from fgrad.base.named_tuple import NamedTuple
from fgrad.base.provided import Provided
from fgrad.errors import AxisNameError, FgradError, Row
from fgrad.ir.aval import NO_AXES, Aval, Axes, varying
from fgrad.ir.primitive import Primitive
from fgrad.ir.program import Program
from fgrad.ir.walk import programs_in
from fgrad.tracing.thread_state import THREAD, is_traced
from fgrad.typing import PyTree

if TYPE_CHECKING:
    from fgrad.trace import Builder

T = TypeVar("T")

# What a trace with named axes does, beside what all do: these are in fgrad/ops/varying.py.
aligned: Provided[Callable[..., tuple[Sequence[Any], dict[str, object], bool]]] = Provided(
    "fgrad.ops.varying.aligned"
)
typed: Provided[Callable[..., PyTree]] = Provided("fgrad.ops.varying.typed")
bind_over_axes: Provided[Callable[..., PyTree]] = Provided("fgrad.ops.varying.bind_over_axes")


class Axis(NamedTuple):
    """An open axis: the trace of one example is that of `builder`."""

    name: str
    size: int
    builder: Builder


class open_axis:
    """Context in which a trace that is opened is that of one example along an axis, if that has a
    name."""

    __slots__ = ("axes", "saved")

    def __init__(self, name: str | None, size: int, builder: Builder) -> None:
        self.axes = () if name is None else (Axis(name, size, builder),)

    def __enter__(self) -> None:
        if self.axes:
            state = THREAD.state
            self.saved = state.axes
            state.axes = self.saved + self.axes

    def __exit__(self, *_error: object) -> None:
        if self.axes:
            THREAD.state.axes = self.saved


def within(context: Builder | None, call: Callable[..., PyTree]) -> Callable[..., PyTree]:
    """A function that is called in the context enclosing a trace, whose innermost trace is given:
    what it records over named axes stands there, though other traces may be open."""

    def called(*args: object, **params: object) -> PyTree:
        state = THREAD.state
        saved, state.within = state.within, (state.builder, context)
        try:
            return call(*args, **params)
        finally:
            state.within = saved

    return called


def open_axes() -> tuple[tuple[str, int], ...]:
    """The names and sizes of the axes that are open, on which what is traced may depend, and
    whether types are being found."""
    state = THREAD.state
    if not state.axes:
        return ()
    state.axes = tuple([axis for axis in state.axes if axis.builder.running.locked()])
    found = [(axis.name, axis.size) for axis in state.axes]  # of others an interrupt came first
    return tuple(found if state.unsettled is None else [*found, ("", 0)])


def settled(
    avals: Sequence[Aval],
    attempt: Callable[[Sequence[Aval]], T],
    results: Callable[[T], Sequence[Aval]],
) -> T:
    """A loop's body, traced for carries that vary over all axes over which they do after a step.

    The body is traced until that is so: first as if its carries were what they are before the loop.
    What it refuses then because a carry does not vary is only an error if that is still so in the
    end.

    Arguments:
        avals: the types of the carries before the loop.
        attempt: traces the body for carries of some types.
        results: the types of its results, the carries first.
    """
    state = THREAD.state
    if not state.axes:
        return attempt(avals)
    while True:
        saved, cards = state.unsettled, list[FgradError]()
        state.unsettled = cards
        try:
            found = attempt(avals)
        finally:
            state.unsettled = saved
        pairs = list(zip(avals, results(found), strict=False))
        if all([b.varies <= a.varies for a, b in pairs]):
            break
        avals = [varying(a, a.varies | b.varies) for a, b in pairs]
    if cards and saved is None:
        raise cards[0]
    if saved is not None:
        saved.extend(cards)
    return found


def axis_named(name: object, what: str) -> Axis:
    """The open axis of a name.

    Raises:
        AxisNameError: there is none.
    """
    axes = THREAD.state.axes
    for axis in axes:
        if axis.name == name:
            return axis
    rows: tuple[Row, ...] = (("open", ", ".join([repr(a.name) for a in axes]) or "none"),)
    if not isinstance(name, str):
        rows = (*rows, ("why", f"the name of an axis is a str, not {type(name).__name__}."))
    raise AxisNameError(
        f"lax.{what}: there is no axis named {name!r} here.",
        (*rows, ("write", f"fgrad.vmap(f, axis_name={str(name)!r})(...)    around the call")),
    )


def refuse_shadow(name: object, what: str) -> None:
    """Refuse the name of a new axis that is no name, or that of an open one.

    Raises:
        AxisNameError: it is not usable.
    """
    if not isinstance(name, str) or not name:
        raise AxisNameError(f"{what}: axis_name={name!r}; it must be a str that is not empty.")
    if any([axis == name for axis, _ in open_axes()]):
        raise AxisNameError(
            f"{what}: an axis named {name!r} is open already.",
            (
                ("why", "a collective over that name could mean either of the two."),
                ("write", "another name for the inner axis; collectives take the one they mean"),
            ),
        )


def used_axes(prim: Primitive, params: Mapping[str, object]) -> Axes:
    """The named axes on which the result of an equation depends by their names."""
    if prim.across is not None:
        return frozenset([str(params["axis"])])
    if prim.holds is None:
        return NO_AXES
    return NO_AXES.union(*[axes_of(held) for held in programs_in(params)])


def axes_of(program: Program) -> Axes:
    """The named axes over which the inputs of a program vary, or that its equations are over."""

    def found() -> Axes:
        varying = NO_AXES.union(*[x.aval.varies for x in program.inputs])
        return varying.union(*[used_axes(eqn.prim, eqn.params) for eqn in program.eqns])

    return program.derived("axes", found)


def joined_over(program: Program, axes: Axes) -> str | None:
    """The first primitive that communicates over one of some axes; None if there is none."""
    for eqn in program.eqns:
        across = eqn.prim.across
        if across is not None and across.communicates and eqn.params["axis"] in axes:
            return eqn.prim.name
        for held in programs_in(eqn.params):
            found = joined_over(held, axes) if axes & axes_of(held) else None
            if found is not None:
                return found
    return None


def home(builder: Builder | None, innermost: Builder | None, axes: Axes) -> Builder | None:
    """Where an equation over named axes is recorded: no trace outside of the axis can, else that of
    its operands."""
    target, level = None, -1 if builder is None else builder.level
    state = THREAD.state
    for axis in state.axes:
        if axis.name in axes and axis.builder.level > level:
            target, level = axis.builder, axis.builder.level
    if target is None:
        return builder
    outside = state.within
    inner = outside[1] if outside is not None and outside[0] is innermost else innermost
    while inner is not None and inner is not target and inner.eager:
        inner = inner.outer
    return target if inner is None else inner


def varies(x: object) -> Axes:
    """The named axes over which a value varies."""
    return x.aval.varies if is_traced(x) else NO_AXES


def without(aval: Aval, name: str | None) -> Axes:
    """Over which axes a value varies, but for one."""
    return aval.varies - {name} if name is not None else aval.varies
