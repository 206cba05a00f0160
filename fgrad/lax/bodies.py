"""L7. User functions as closed programs: what they capture becomes leading operands."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any

import numpy as np

from fgrad import tree
from fgrad.base.named_tuple import NamedTuple
from fgrad.base.source import here, resolve
from fgrad.config import config
from fgrad.errors import ArgumentError, DtypeError, FgradError, Row, ShapeError
from fgrad.ir.aval import Aval, aval_of
from fgrad.ir.program import Program
from fgrad.ir.traits import Host
from fgrad.ir.walk import subprograms
from fgrad.lax.contents import contents
from fgrad.numpy.promote import convert
from fgrad.trace import Tracer, Value, trace
from fgrad.tracing.axes import open_axes
from fgrad.tracing.capturing import user_form
from fgrad.tracing.outside.draws import undrawn
from fgrad.transforms.control import jvp, vjp, vmap  # noqa: F401 - the rules
from fgrad.transforms.core.arguments import Around, refuse_edits, refuse_writes, watched
from fgrad.transforms.core.wrap import as_value, function_name, ids_of, is_weak, own_each
from fgrad.transforms.hooks import collecting_tags
from fgrad.typing import ArrayLike, PyTree


class Body(NamedTuple):
    """A traced function: `program` takes the captured values, then the leaves of its arguments."""

    program: Program
    captured: list[Tracer]
    out_tree: tree.TreeDef
    weak: list[bool]  # of each result: whether it was a Python number


class Leaves(NamedTuple):
    """A tree of arguments as values, with its structure and which of them are Python numbers."""

    values: list[Value]
    treedef: tree.TreeDef
    weak: list[bool]

    @property
    def avals(self) -> list[Aval]:
        """What is known of the values without their numbers; Python's yield to other dtypes."""
        known = [aval_of(x).strong() for x in self.values]
        return [a.like((), True) if weak else a for a, weak in zip(known, self.weak, strict=True)]

    def strong(self) -> Leaves:
        """The same with NumPy's int64 for Python integers."""
        kinds = [x.dtype.kind for x in self.values]
        weak = [w and kind not in "iu" for w, kind in zip(self.weak, kinds, strict=True)]
        return self._replace(weak=weak)


def leaves_of(x: ArrayLike, what: str) -> Leaves:
    """The leaves of an argument as arrays, scalars or tracers; a truth value is NumPy's."""
    found, treedef = tree.flatten(x)
    values = [as_value(leaf, what) for leaf in found]
    values: list[Value] = [v[()] if isinstance(v, np.ndarray) and not v.ndim else v for v in values]
    weak = [is_weak(leaf) and v.dtype.kind != "b" for leaf, v in zip(found, values, strict=True)]
    return Leaves(values, treedef, weak)


def body_of(
    fun: Callable[..., PyTree],
    args: Sequence[tuple[Sequence[Aval], tree.TreeDef]],
    what: str,
    dtypes: Sequence[np.dtype | None] = (),
) -> Body:
    """Trace `fun`, whose arguments have the given leaves and structures.

    `dtypes` are those that results which are Python numbers take, where they can.
    """
    if not callable(fun):
        raise ArgumentError(f"lax.{what} takes a function, not {type(fun).__name__}.")
    key = _key(fun, args, what, dtypes)
    known = _BODIES.get(key) if key is not None else None
    if known is not None:
        return known
    found: dict[str, Any] = {}
    name = f"lax.{what}({function_name(fun)})"

    def flat(*values: Tracer) -> list[Value]:
        given, start = [], 0
        for avals, treedef in args:
            given.append(tree.unflatten(treedef, values[start : start + len(avals)]))
            start += len(avals)
        watch, around = watched(given), Around(fun)
        result = user_form(fun)(*given)
        refuse_edits(name, watch, result)
        around.check(name)
        out, found["tree"] = tree.flatten(result)
        refuse_writes(name, values, out)
        found["weak"] = [is_weak(x) for x in out]
        results = [as_value(x, f"a result of {function_name(fun)}") for x in out]
        wanted = [*dtypes, *[None] * (len(results) - len(dtypes))]
        return [
            _adapted(x, weak, dtype)
            for x, weak, dtype in zip(results, found["weak"], wanted, strict=False)
        ]

    all_avals = [a for avals, _ in args for a in avals]
    traced = undrawn(fun, name, lambda: trace(flat, all_avals, function_name(fun), what, True))
    body = Body(traced.program, traced.captured, found["tree"], found["weak"])
    if key is not None and not body.captured and not _calls_back(body.program):
        while len(_BODIES) >= MOST_BODIES:
            _BODIES.pop(next(iter(_BODIES)), None)
        _BODIES[key] = body
    return body


def _calls_back(program: Program) -> bool:
    """Whether it holds functions of the user, of which equal ones may write into other lists."""
    every = [eqn.prim for part in subprograms(program) for eqn in part.eqns]
    return any([prim.host is Host.CALLBACK for prim in every])


MOST_BODIES = 512
_BODIES: dict[Hashable, Body] = {}  # traced functions, by what they are made of


def _key(
    fun: Callable[..., PyTree],
    args: Sequence[tuple[Sequence[Aval], tree.TreeDef]],
    what: str,
    dtypes: Sequence[np.dtype | None],
) -> Hashable | None:
    """What the trace of a function depends on; None if that cannot be known."""
    made_of = None if collecting_tags() or open_axes() else contents(fun)
    if made_of is None:
        return None
    given = tuple([(tuple(avals), tree.exact(treedef)) for avals, treedef in args])
    return made_of, given, what, tuple(dtypes), config.epoch


_KINDS = "biufc"


def _adapted(x: Value, weak: bool, dtype: np.dtype | None) -> Value:
    """A Python number in the dtype that it stands for."""
    if weak and dtype is not None and x.dtype != dtype and fits(x.dtype, dtype):
        return convert(x, dtype)
    return x


def yielded(x: Value, weak: bool, after: Aval, after_weak: bool) -> tuple[Value, bool]:
    """A carry before the first step, and whether it is a Python number, in view of what a step
    makes of it."""
    if not weak or after.shape:
        return x, weak
    wide = after.dtype if fits(x.dtype, after.dtype) else np.result_type(x.dtype, after.dtype)
    if isinstance(x, Tracer) or x.dtype == wide or wide.kind not in "iu":
        return convert(x, wide), after_weak
    return convert(int(x), wide), after_weak  # OverflowError where the number does not fit


def fits(weak: np.dtype, dtype: np.dtype) -> bool:
    """Whether a Python number of a dtype is promoted to another dtype."""
    return _KINDS.index(weak.kind) <= _KINDS.index(dtype.kind)


def common_inputs(bodies: Sequence[Body]) -> tuple[list[Program], list[Tracer]]:
    """Programs that all take the values that any of them captures, and these values."""
    every: dict[int, Tracer] = {}
    for body in bodies:
        every.update({id(x): x for x in body.captured})
    avals = [x.aval.strong() for x in every.values()]
    programs = []
    for body in bodies:
        place = {id(x): k for k, x in enumerate(body.captured)}
        programs.append(_taking(body.program, [place.get(key) for key in every], avals))
    return programs, list(every.values())


def _taking(program: Program, places: Sequence[int | None], avals: Sequence[Aval]) -> Program:
    """A program with other first inputs: its own by their places, and unused ones."""
    count = len(places) - places.count(None)
    if list(places) == list(range(count)):
        return program
    key = ("taking", tuple(places), tuple(avals))

    def taking() -> Program:
        given = program.inputs
        first = [_unused(a) if k is None else given[k] for k, a in zip(places, avals, strict=True)]
        return program.replace(inputs=(*first, *given[count:]))

    return program.derived(key, taking)


def _unused(aval: Aval) -> PyTree:
    return trace(lambda x: [x], [aval]).program.inputs[0]


def own_results(results: Sequence[Value], given: Sequence[Value]) -> list[Value]:
    """Results that share no memory with the operands."""
    return own_each(results, ids_of(given))


def check_structure(what: str, name: str, before: tree.TreeDef, after: tree.TreeDef) -> None:
    """Refuse a function whose results have another structure than they must."""
    if before != after:
        rows: tuple[Row, ...] = (
            ("before", str(before)),
            ("after", str(after)),
            _used(),
        )
        raise ArgumentError(f"lax.{what}: the {name} changes its structure.", rows)


def check_leaves(
    what: str, name: str, treedef: tree.TreeDef, before: Sequence[Aval], after: Sequence[Aval]
) -> None:
    """Refuse a carry whose shape or dtype changes; the card names the leaf."""
    for k, (a, b) in enumerate(zip(before, after, strict=True)):
        if a.shape == b.shape and a.dtype == b.dtype:
            continue
        path = tree.paths(tree.unflatten(treedef, range(len(before))))[k]
        error: type[FgradError] = ShapeError if a.shape != b.shape else DtypeError
        first = f"np.{b.dtype.name}(init)" if a.weak else f"init.astype(np.{b.dtype.name})"
        advice = (
            f"{first}, or result.astype(np.{a.dtype.name})"
            if a.shape == b.shape
            else "a result of the shape that it had before the step"
        )
        rows = (
            ("leaf", f"{name}{path}"),
            ("before", str(a.strong())),
            ("after", str(b.strong())),
            _used(),
            ("why", "a loop runs one program for all of its steps."),
            ("write", advice),
        )
        raise error(f"lax.{what}: the {name} changes its type.", rows)


def _used() -> Row:
    loc = resolve(here())
    return "used", f"{loc}:  {loc.text()}"
