"""L5. `if` on a traced value: both branches are traced, and one of them runs.

Each branch becomes a program of its own, whose inputs are what it reads.  The branch that is not
taken is not computed, and neither are its derivatives.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from fgrad.base.frames import is_defect
from fgrad.base.lazy_import import lazy_module
from fgrad.base.named_tuple import NamedTuple
from fgrad.base.source import here, resolve
from fgrad.capture.aliases import array_of, is_either, is_plain, is_some, plain_behind, roots_of
from fgrad.capture.containers import containers_of, note_shared, shared_names
from fgrad.capture.equal_programs import shared
from fgrad.capture.notes import note
from fgrad.capture.raising import record_raised
from fgrad.capture.state import Cells, is_internal
from fgrad.capture.values import (
    UNDEFINED,
    Parts,
    aval_of_value,
    common_type,
    exactly,
    has_memory,
    is_number,
    is_unknown,
    parts_of,
    plain_of,
    result_of,
    scalar_truth,
)
from fgrad.config import config
from fgrad.errors import CaptureError, FgradError
from fgrad.ir.aval import BOOL, INT64, Aval, varying
from fgrad.ir.basic import BASIC
from fgrad.ir.primitive import Primitive
from fgrad.ir.program import Atom, Eqn, Lit, Params, Program, Var
from fgrad.numpy.promote import convert
from fgrad.numpy.python_numbers import exact_up_to, inexact
from fgrad.ops import elementwise as ew
from fgrad.ops.checked import checked_p, in_range_p, is_raised, located, overflow
from fgrad.ops.families import bound_by
from fgrad.trace import Tracer, Value, innermost, trace
from fgrad.tracing.assign import root_of
from fgrad.tracing.budget import spend
from fgrad.tracing.capturing import not_recorded
from fgrad.tracing.carried import Body, Written, body_of
from fgrad.tracing.checks import checks
from fgrad.tracing.record import TracedProgram
from fgrad.tracing.writing import write_all
from fgrad.transforms.core.closure_capture import closing

if TYPE_CHECKING:
    from fgrad.transforms.control import equations
else:
    equations = lazy_module("fgrad.transforms.control.equations")

MOST_ATTEMPTS = 60
NEVER = object()  # in place of a value after a branch that has no end
Block = Callable[[], object]


def if_(
    test: Any,
    then: Block,
    other: Block,
    merged: Sequence[str],
    restored: Sequence[str],
    written: Sequence[str],
    cells: Cells | None = None,
) -> None:
    """`if test: then() else: other()`.

    Arguments:
        merged: the variables that a branch binds and that are read after the `if`.
        restored: other variables that a branch binds and reads; they keep their values.
        written: arrays that a branch may write.
        cells: where the variables are; None for the closure cells of the two functions.
    """
    if not is_unknown(test):
        (then if test else other)()
        return
    test = scalar_truth(test)
    if cells is None:
        cells = Cells((*merged, *restored), then, other)  # type: ignore[arg-type]
        cells.adopt(cells.sole().keys() & written)
        guessed = Cells(written, then, other).get()  # type: ignore[arg-type]
    else:
        guessed = []
    count = len([name for name in cells.names if name in merged])
    _Branches(test, cells, count, guessed).run(then, other)


class _Branches:
    """A choice between two blocks.

    Arguments:
        test: a truth value.
        cells: the variables; the first `count` are wanted afterwards.
        guessed: arrays that may be written; others are found by tracing.
    """

    def __init__(self, test: Tracer, cells: Cells, count: int, guessed: Sequence[object]) -> None:
        self.test, self.cells, self.count = test, cells, count
        self.sole = cells.sole()
        self.start = cells.get()
        self.roots: list[Tracer] = []
        for x in guessed:
            if isinstance(x, Tracer) and has_memory(x):
                self._carry(root_of(x))

    def _carry(self, root: Tracer) -> None:
        if not any([root is r for r in self.roots]):
            self.roots.append(root)

    def run(self, then: Block, other: Block) -> None:
        """Record the choice, and bind the variables to its results."""
        for root in self.roots:
            if not _is_reachable(root):
                raise Written(root)
        try:
            for _ in range(MOST_ATTEMPTS):
                try:
                    self._attempt(then, other)
                    return
                except Written as error:
                    self.cells.set(self.start)
                    if any([error.root is r for r in self.roots]) or not _is_reachable(error.root):
                        raise
                    self._carry(error.root)
        except BaseException:
            self.cells.set(self.start)
            raise
        raise not_recorded("what the branches write is not found")

    def _attempt(self, then: Block, other: Block) -> None:
        yes = self._side(then)
        sides = [self._side(other), yes]  # by the number that the test gives
        if not any([side.ends for side in sides]):
            raise not_recorded("both branches raise")
        each = zip(self.cells.names, self.start, yes.values, sides[0].values, strict=False)
        outcomes = [_outcome(*found) for found in each]
        leaves = [side.leaves(outcomes) for side in sides]
        avals = [aval for out in outcomes for aval in out.avals]
        programs = [side.program(own, avals) for side, own in zip(sides, leaves, strict=True)]
        results = list(_chosen(self.test, programs, self.roots))
        note("branch")
        for root, new in zip(self.roots, results[len(avals) :], strict=True):
            if new is not root:
                write_all(root, new)
        names = [n for n, o in zip(self.cells.names, outcomes, strict=False) for _ in o.avals]
        olds = zip(
            *[side.olds_of(own) for side, own in zip(sides, leaves, strict=True)], strict=True
        )
        made = [result_of(x, aval) for x, aval in zip(results, avals, strict=False)]
        linked: list[Value] = []
        for out, old, name, twins in zip(made, olds, names, _twins(sides, leaves), strict=True):
            linked.append(self._aliased(out, old, name, twins, linked))
        for out, name, own in zip(linked, names, zip(*leaves, strict=True), strict=True):
            sources = zip(sides, own, strict=True)
            arrays = [x for side, leaf in sources for x in side.plain.get(id(leaf), ())]
            if arrays:
                is_plain(out, arrays, name)
        given = iter(linked)
        values: list[object] = []
        known: dict[tuple[int, int], object] = {}  # lists that are the same in both branches
        each = zip(
            self.cells.names, self.start, outcomes, yes.values, sides[0].values, strict=False
        )
        for name, before, out, one, two in each:
            taken = [next(given) for _ in out.avals]
            value = before if out.same else out.together(taken)
            if not out.same and containers_of(value):
                value = known.setdefault((id(one), id(two)), value)
                if any([name in side.shared for side in sides]):
                    note_shared([value, before, one, two])
            values.append(value)
        self.cells.set([*values, *self.start[self.count :]])

    def _aliased(
        self,
        out: Value,
        olds: tuple[_Old | None, ...],
        name: str,
        twins: _Twins,
        before: Sequence[Value],
    ) -> Value:
        """A result, which is an array from outside where a branch returns that, or the array of a
        result before it: later writes into one reach the other."""
        found = [old for old in olds if old is not None]
        same = twins.same
        if same is not None and before[same].dtype == out.dtype:
            return before[same]
        others = [x for k in twins.shared if isinstance(x := before[k], Tracer)]
        if not isinstance(out, Tracer) or not (found or others):
            return out
        if others:
            roots = [r for x in found for r in x.roots or roots_of(x.array)]
            is_some(out, [*roots, *others], name)
            return out
        old, whole = found[0].array, all([one.whole for one in found])
        if len(found) == 2 and whole and old is found[1].array:
            return old
        if len(found) == 1 and whole and old.builder.live and old.dtype == out.dtype:
            is_either(out, self.test, old, olds[1] is not None, name)
        else:
            is_some(out, [r for x in found for r in x.roots or roots_of(x.array)], name)
        return out

    def _side(self, block: Block) -> _Side:
        """A branch, whose program returns every traced value that a variable has after it."""
        values: list[object] = []
        places: dict[int, int] = {}
        olds: dict[int, _Old] = {}
        roots: dict[int, list[object]] = {}
        ended: list[bool] = []

        shared: set[str] = set()
        plain: dict[int, list[np.ndarray]] = {}

        def ending(inner: Body, ends: bool) -> list[Value]:
            sole = set(self.cells.sole())
            values.extend(self.cells.get()[: self.count] if ends else [NEVER] * self.count)
            named = list(zip(self.cells.names, values, strict=False))
            starts = list(zip(self.cells.names, self.start, strict=True))
            shared.update(shared_names(named, starts, self.sole, inner.made))
            for (name, value), (_, start) in zip(named, starts, strict=False):
                own = name in sole or (value is start and name in self.sole)
                plain.update({id(x): [x] for x in plain_of(value, own)})
            ended.append(ends)
            outs: list[Value] = []
            for leaf in [leaf for value in values for leaf in parts_of(value).leaves]:
                if isinstance(leaf, Tracer) and id(leaf) not in places:
                    places[id(leaf)] = len(outs)
                    outs.append(leaf.handle())
                    if has_memory(leaf) and (old := _outside(leaf, inner)):
                        olds[id(leaf)] = old
                if isinstance(leaf, Tracer) and (behind := plain_behind(leaf)):
                    plain[id(leaf)] = behind
                if has_memory(leaf):
                    roots[id(leaf)] = _made_inside(leaf, inner)
            return [*outs, *[root.handle() for root in self.roots]]

        traced = self._run(block, ending)
        return _Side(traced, ended[0], values, places, olds, roots, shared, plain)

    def _run(self, block: Block, ending: Callable[[Body, bool], list[Value]]) -> TracedProgram:
        """Trace a branch, with what it may write as inputs; `ending` makes its results, and is told
        whether it has an end."""

        def flat(*inputs: Tracer) -> list[Value]:
            builder = innermost()
            assert builder is not None
            with closing(builder), Body(builder, self.roots, inputs) as inner:
                ends = True
                try:
                    block()
                except Exception as error:
                    ends = False
                    record_error(error)
                return ending(inner, ends)

        name = getattr(getattr(block, "__code__", None), "co_name", "if")
        try:
            traced = trace(flat, [root.aval.strong() for root in self.roots], name, "if", True)
            spend(len(traced.program.eqns))
            return traced
        finally:
            self.cells.set(self.start)


class _Side(NamedTuple):
    """One of the branches."""

    traced: TracedProgram
    ends: bool  # not with an exception
    values: list[Any]  # of the variables after it
    places: dict[int, int]  # a traced value, by its identity -> which result it is
    olds: dict[int, _Old]  # arrays from outside, by their identity
    roots: dict[int, list[object]]  # of an array, by its identity: those of the branch it is in
    shared: set[str]  # the variables whose lists may have other names
    plain: dict[int, list[np.ndarray]]  # plain arrays with other names that a value may be

    def leaves(self, outcomes: Sequence[_Outcome]) -> list[Any]:
        """The values that become results of the choice."""
        found: list[Any] = []
        for out, value in zip(outcomes, self.values, strict=True):
            if value is UNDEFINED or value is NEVER:
                found += [UNDEFINED for _ in out.avals]
            elif out.avals:
                found += [leaf for leaf in parts_of(value).leaves if is_number(leaf)]
        return found

    def olds_of(self, leaves: Sequence[Any]) -> list[_Old | None]:
        """The arrays from outside that these values are."""
        return [self.olds.get(id(leaf)) for leaf in leaves]

    def program(self, leaves: Sequence[Any], avals: Sequence[Aval]) -> TracedProgram:
        """The program with these results, in these types, and the arrays that are carried."""
        made = _Results(self)
        outs = [made.typed(leaf, aval) for leaf, aval in zip(leaves, avals, strict=True)]
        return made.program((*outs, *self.traced.program.outputs[len(self.places) :]))


class _Results:
    """Gives the program of a branch other results."""

    def __init__(self, side: _Side) -> None:
        self.side = side
        self.eqns = list(side.traced.program.eqns)
        self.consts = list(side.traced.program.consts)

    def typed(self, leaf: Any, aval: Aval) -> Atom:
        """A value as one of some type; zeros for one that the branch does not have."""
        atom = self._atom(leaf, aval)
        if atom.aval.dtype == aval.dtype:
            return atom
        if isinstance(atom, Lit):
            return Lit(exactly(atom.value, aval.dtype))
        if not aval.shape and checks():
            atom = self._checked(atom, aval.dtype)
        return self._add(BASIC.convert, (atom,), {"dtype": aval.dtype}, aval)

    def _checked(self, x: Atom, dtype: np.dtype) -> Atom:
        """An integer that must be one of another dtype, or a float."""
        own = x.aval.dtype
        if own.kind == "i" and dtype.kind in "iu":
            limits = np.iinfo(dtype)
            params = {"low": int(limits.min), "high": int(limits.max)}
            error = {"error": located(overflow(dtype))}
            return self._add(in_range_p, (x,), params | error, x.aval)
        most = exact_up_to(own, dtype)
        if most is None:
            return x
        size = self._add(ew.abs_p, (x,), {}, x.aval) if own.kind == "i" else x
        passed = self._add(bound_by(ew.le), (size, Lit(own.type(most))), {}, Aval((), BOOL))
        return self._add(checked_p, (x, passed), {"error": located(inexact(most))}, x.aval)

    def _atom(self, leaf: Any, aval: Aval) -> Atom:
        if isinstance(leaf, Tracer):
            return self.side.traced.program.outputs[self.side.places[id(leaf)]]
        if leaf is not UNDEFINED and not np.shape(leaf):
            return Lit(np.asarray(leaf, aval_of_value(leaf).dtype)[()])
        if leaf is UNDEFINED:
            zero = Lit(aval.dtype.type(0))
            params = {"shape": aval.shape, "dims": ()}
            return self._add(BASIC.broadcast, (zero,), params, aval) if aval.shape else zero
        var = Var(aval_of_value(leaf))
        self.consts.append((var, leaf.copy()))
        return var

    def _add(
        self, prim: Primitive, xs: tuple[Atom, ...], params: dict[str, Any], aval: Aval
    ) -> Var:
        out = Var(varying(aval.strong(), xs[0].aval.varies))
        self.eqns.append(Eqn(prim, xs, Params(params), (out,), resolve(here())))
        return out

    def program(self, outs: tuple[Atom, ...]) -> TracedProgram:
        """The program, without what it captures for results that are not wanted."""
        traced = self.side.traced
        read = {id(x) for eqn in self.eqns for x in eqn.inputs} | {id(x) for x in outs}
        first = traced.program.inputs[: len(traced.captured)]
        kept = [k for k, x in enumerate(first) if id(x) in read]
        inputs = (*[first[k] for k in kept], *traced.program.inputs[len(first) :])
        program = traced.program.replace(
            inputs=inputs, eqns=tuple(self.eqns), consts=tuple(self.consts), outputs=outs
        )
        return TracedProgram(program, [traced.captured[k] for k in kept], {})


class _Old(NamedTuple):
    """An array from outside that a branch returns; or one of which it returns parts."""

    array: Tracer
    whole: bool
    roots: list[Tracer]


def record_error(error: Exception) -> None:
    """Record the user's exception where a branch ends with it; raise what else is wrong."""
    if is_raised(error) and config.checks:
        record_raised(error)
    elif isinstance(error, (FgradError, NameError)) or is_defect(error):
        raise error
    else:
        raise raised_here(error) from error


def raised_here(error: Exception) -> CaptureError:
    """The error for an exception in a branch that may not be taken, or a loop that may not run."""
    name = type(error).__name__
    return not_recorded(f"it raises {name} where a traced value decides: {error}")


class _Outcome(NamedTuple):
    """What a variable is after the branches: the types of its leaves."""

    same: bool  # it is what it was before
    undefined: bool  # in some branch
    avals: list[Aval]
    parts: Parts | None

    def together(self, leaves: Sequence[Value]) -> object:
        """Its value, of the results of the choice."""
        if self.undefined or self.parts is None:
            return UNDEFINED
        each = iter(leaves)
        return self.parts.together(
            [next(each) if is_number(leaf) else leaf for leaf in self.parts.leaves]
        )


def _outcome(name: str, before: object, one: object, two: object) -> _Outcome:
    """What a variable is after two branches, which leave it with the values `one` and `two`."""
    if one is NEVER or two is NEVER:
        return _alone(name, before, two if one is NEVER else one)
    if one is two:
        return _Outcome(True, False, [], None) if one is before else _constant(one)
    defined = [x for x in (one, two) if x is not UNDEFINED]
    if len(defined) == 1:
        if not is_internal(name):
            return _Outcome(False, True, [], None)
        return _from(parts_of(defined[0]), None, name)
    a, b = parts_of(one), parts_of(two)
    if a.shape != b.shape:
        raise not_recorded(f"{name} has another structure in each branch")
    return _from(a, b, name)


def _alone(name: str, before: object, x: object) -> _Outcome:
    """What a variable is if one branch has no end, and the other leaves it with the value `x`."""
    if x is before:
        return _Outcome(True, False, [], None)
    if x is UNDEFINED:
        return _Outcome(False, True, [], None)
    parts = parts_of(x)
    if any([isinstance(leaf, (Tracer, np.ndarray)) for leaf in parts.leaves]):
        return _from(parts, None, name)
    return _constant(x)


def _constant(x: object) -> _Outcome:
    """The same object in both branches."""
    parts = Parts([_Fixed(x)], lambda leaves: leaves[0].x, "leaf")
    return _Outcome(False, False, [], parts)


class _Fixed(NamedTuple):
    x: object


def _from(a: Parts, b: Parts | None, name: str) -> _Outcome:
    avals = []
    for k, leaf in enumerate(a.leaves):
        other = leaf if b is None else b.leaves[k]
        if is_number(leaf) != is_number(other):
            raise not_recorded(f"{name} is {leaf!r} in one branch, and {other!r} in the other")
        if is_number(leaf):
            avals.append(common_type(aval_of_value(leaf), aval_of_value(other), name))
        elif leaf is not other and leaf != other:
            raise not_recorded(f"{name} is {leaf!r} in one branch, and {other!r} in the other")
    return _Outcome(False, False, avals, a)


def _outside(x: Tracer, inner: Body) -> _Old | None:
    """The arrays from outside of a branch that an array is, or is a part of; None for a new one."""
    own = array_of(x)
    if own.builder is not inner.builder or inner.knew(own):
        return _Old(own, True, [])
    roots = [r for r in roots_of(x) if r.builder is not inner.builder or inner.carries(r)]
    return _Old(x, False, roots) if roots else None


def _made_inside(x: Tracer | np.ndarray, inner: Body) -> list[object]:
    """The arrays of a branch that an array is, or may be a part of."""
    if isinstance(x, Tracer):
        return [r for r in roots_of(x) if r.builder is inner.builder and not inner.carries(r)]
    while isinstance(x.base, np.ndarray):
        x = x.base
    return [x]


class _Twins(NamedTuple):
    """Which results before it a result shares memory with."""

    same: int | None  # one that is the same array in both branches
    shared: list[int]  # those that are, or may be, in one array with it in a branch


def _twins(sides: Sequence[_Side], leaves: Sequence[Sequence[Any]]) -> list[_Twins]:
    """Of each result, those before it that a write into it reaches."""
    found: list[_Twins] = []
    of_root: dict[tuple[int, int], list[int]] = {}
    each = list(zip(*leaves, strict=True))
    for k, own in enumerate(each):
        shared: list[int] = []
        for number, (side, leaf) in enumerate(zip(sides, own, strict=True)):
            for root in side.roots.get(id(leaf), ()):
                before = of_root.setdefault((number, id(root)), [])
                shared += before
                before.append(k)
        same = [j for j in shared if all([a is b for a, b in zip(own, each[j], strict=True)])]
        found.append(_Twins(same[0] if same else None, shared))
    return found


def _is_reachable(root: Tracer) -> bool:
    """Whether no loop or branch between here and the trace of an array has to carry it first."""
    builder = innermost()
    while builder is not None and builder is not root.builder:
        if body_of(builder) is not None:
            return False
        builder = builder.outer
    return True


def _chosen(
    test: Tracer, branches: Sequence[TracedProgram], roots: Sequence[Tracer]
) -> Sequence[Value]:
    """The results of the branch that is taken; `branches` are those for False and True."""
    every: dict[object, Value] = {}
    for branch in branches:
        for key, x in zip(_keys(branch.captured), branch.captured, strict=True):
            every.setdefault(key, x)
    programs = [_with_inputs(branch, every) for branch in branches]
    index = convert(test, INT64)
    return _switch(index, programs, [*every.values(), *roots])


def _keys(captured: Sequence[object]) -> list[object]:
    """A key for each captured value: its identity, and how many handles of it came before."""
    found: list[Any] = []
    for x in captured:
        key = (id(x.builder), x.index) if isinstance(x, Tracer) else id(x)
        found.append((key, len([k for k, _ in found if k == key])))
    return found


def _with_inputs(branch: TracedProgram, every: dict[object, Value]) -> Program:
    """The program of a branch with `every` value that some branch captures as an input."""
    program, count = branch.program, len(branch.captured)
    own = dict(zip(_keys(branch.captured), program.inputs[:count], strict=True))
    first = [own.get(key) or Var(_aval(x)) for key, x in every.items()]
    return program.replace(inputs=(*first, *program.inputs[count:]))


def _aval(x: object) -> Aval:
    return x.aval.strong() if isinstance(x, Tracer) else aval_of_value(x)


def _switch(index: Value, programs: Sequence[Program], operands: Sequence[Value]) -> list[Value]:
    """The results of a switch; one that is the same operand in all branches is that operand."""
    passed = []
    for k in range(len(programs[0].outputs)):
        places = {_place(program, k) for program in programs}
        passed.append(places.pop() if len(places) == 1 else None)
    kept = [k for k, place in enumerate(passed) if place is None]
    only = [shared(p.replace(outputs=tuple([p.outputs[k] for k in kept]))) for p in programs]
    outs = iter(equations.switch(index, only, operands))
    return [next(outs) if place is None else operands[place] for place in passed]


def _place(program: Program, k: int) -> int | None:
    """The input that result `k` is; None if it is computed."""
    return next((j for j, x in enumerate(program.inputs) if x is program.outputs[k]), None)
