"""L5. `for` and `while` loops, rolled into one equation; or run as Python does.

A loop is rolled where a trace has no values.  Its body is traced, again and again until it is known
what is carried (`state.py`).  Loops of few steps run step by step; so do those whose bodies cannot
be recorded once, as they change lists or need the number of the step, and those that meet nothing
that is traced.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from itertools import islice, takewhile
from types import FunctionType
from typing import Any

import numpy as np

from fgrad.base.frames import is_defect
from fgrad.base.sizes import is_symbolic
from fgrad.capture.aliases import is_plain, is_some
from fgrad.capture.branches import if_, raised_here
from fgrad.capture.containers import containers_of, note_shared
from fgrad.capture.iteration import Steps, steps_of
from fgrad.capture.limits import Range, counting, kept_ranges, knowing, most_of
from fgrad.capture.loop_equations import looped, operations, scanned
from fgrad.capture.notes import note, reason_of
from fgrad.capture.state import (
    VALUE,
    Again,
    Cells,
    Outcome,
    Peel,
    Place,
    PlainWritten,
    Plan,
    is_internal,
)
from fgrad.capture.values import (
    UNDEFINED,
    aval_of_value,
    has_memory,
    is_number,
    is_unknown,
    operands_of,
    parts_of,
    plain_of,
    result_of,
    truth_value,
)
from fgrad.errors import CaptureError, FgradError, TooManyStepsError, TracedTextError
from fgrad.ir.aval import INT64, Aval, varying
from fgrad.ir.program import Program
from fgrad.numpy.promote import strong
from fgrad.trace import Tracer, Value, innermost, trace
from fgrad.tracing.axes import settled, varies
from fgrad.tracing.budget import check_size, spend
from fgrad.tracing.capturing import not_recorded, rolls
from fgrad.tracing.carried import Body, Written
from fgrad.tracing.record import TracedProgram
from fgrad.tracing.texts import textless
from fgrad.tracing.thread_state import THREAD
from fgrad.tracing.writing import write_all
from fgrad.transforms.core.closure_capture import closing

FEWEST = 5  # steps that are rolled
SHORT = 128  # operations on numbers that are written out: 9 of Rosenbrock's steps 300 -> 180 ns
MOST_IN_PYTHON = 2000  # of loops that meet nothing traced
MOST_ATTEMPTS = 60
MOST_PEELED = 2
INDEX = Aval((), INT64, True)

Step = Callable[..., None]


def for_(
    items: Iterable[object],
    stop: Callable[[], object] | None,
    body: FunctionType,
    names: Sequence[str],
    written: Sequence[str],
) -> None:
    """`for item in items: body(item)`, until `stop()`."""
    steps = steps_of(items) if rolls() else None
    if steps is None:
        _run_each(items, stop, body, names, "it walks what is not an array or a range.")
        return
    known = steps.known_count()
    if known is not None and not is_symbolic(known) and known < FEWEST:
        _run_each(steps, stop, body, names, f"it has less than {FEWEST} steps.")
        return
    cells = Cells(names, body)
    sole = cells.sole()
    rolled = _Rolled(cells, sole, written, body, steps, stop)
    plain, why = nullcontext, ""
    try:
        done = rolled.run()
    except TooManyStepsError:
        raise
    except Exception as error:
        if known is None or is_defect(error):
            raise
        why = reason_of(error)
        note("unrolled", why)
        done, plain = False, _written_out(error)
    if not done:
        with plain():
            _run_each(islice(steps, rolled.first, None), stop, body, names, why)


def _written_out(error: Exception) -> Callable[[], AbstractContextManager[None]]:
    """The context of a loop that is written out: what has no text has none there either."""
    return textless if isinstance(error, TracedTextError) else nullcontext


def _run_each(
    items: Iterable[object],
    stop: Callable[[], object] | None,
    body: FunctionType,
    names: Sequence[str],
    why: str = "",
) -> None:
    """Step by step, as Python does; `why` says why in a trace without values."""
    rest = iter(items)
    while True:
        if why:
            check_size(why)
        ended = False if stop is None else stop()
        unknown = is_unknown(ended)
        if not unknown and ended:
            return
        try:
            item = next(rest)
        except StopIteration:
            return
        if unknown:
            _run_unless(ended, body, item, names)
        else:
            body(item)


def _run_unless(ended: object, body: FunctionType, item: object, names: Sequence[str]) -> None:
    cells = Cells(names, body)
    if_(ended, lambda: None, lambda: body(item), cells.names, (), (), cells)


def while_(
    test: Callable[[], object], body: FunctionType, names: Sequence[str], written: Sequence[str]
) -> None:
    """`while test(): body()`."""
    plain, why = nullcontext, ""
    if rolls():
        first = test()
        known = not is_unknown(first)
        if known and not first:
            return
        cells = Cells(names, body)
        sole = cells.sole()
        try:
            if _RolledWhile(cells, sole, written, body, test, known).run():
                return
        except TooManyStepsError:
            raise
        except Exception as error:
            if not known or is_defect(error):
                raise
            why = reason_of(error)
            note("unrolled", why)
            plain = _written_out(error)
    with plain():
        _run_while(test, body, why)


def _run_while(test: Callable[[], object], body: FunctionType, why: str) -> None:
    """Step by step, as Python does."""
    while test():
        if why:
            check_size(why)
        body()


class _Rolled:
    """A `for` loop as one equation."""

    what = "for"

    def __init__(
        self,
        cells: Cells,
        sole: Mapping[str, bool],
        written: Sequence[str],
        body: FunctionType,
        steps: Steps | None,
        stop: Callable[[], object] | None,
    ) -> None:
        self.cells, self.sole, self.body, self.steps, self.stop = cells, sole, body, steps, stop
        self.guessed = Cells(written, body).get()
        self.first = 0
        self.start = cells.get()
        self.name = body.__code__.co_name
        self.count = None if steps is None else steps.known_count()
        self.most = None if steps is None else most_of(steps.count)
        self.surely = self.count is not None
        self.peels = self.count is not None and stop is None
        self.ended = False  # whether the steps that were taken alone were all

    def run(self) -> bool:
        """Whether it was done; False where nothing in it is traced."""
        try:
            return self._attempts()
        except BaseException:
            self.cells.set(self.start)
            raise

    def _attempts(self) -> bool:
        plan = Plan(self.cells, self.guessed, self.sole)
        for root in plan.roots:
            if not _is_own(root):
                raise Written(root)
        for _ in range(MOST_ATTEMPTS):
            try:
                done = self._attempt(plan)
            except Again:
                plan.restore()
                plan.learn()
            except Written as written:
                plan.restore()
                plan.learnt = []
                if not _is_own(written.root) or any([written.root is r for r in plan.live_roots()]):
                    raise
                if plan.add_root(written.root):
                    continue
                plan = self._peeled_for(
                    Peel("an array that is written has a name that is bound anew"), plan
                )
                if self.ended:
                    return True
            except PlainWritten:
                plan.restore()
                if not self.cells.adopt(self.sole):
                    raise
                self.start = self.cells.get()
                plan = Plan(self.cells, plan.roots, self.cells.sole())
            except (Peel, NameError) as reason:
                plan.restore()
                plan = self._peeled_for(reason, plan)
                if self.ended:
                    return True
            else:
                if not done:
                    self.cells.set(self.start)
                return done
        raise not_recorded("the types of what is carried change from step to step")

    def _peeled_for(self, reason: Exception, plan: Plan) -> Plan:
        """What is carried after the first step, which was taken alone; or a card."""
        if not self.peels or self.first >= MOST_PEELED or not _may_peel(reason, plan):
            raise not_recorded(str(reason)) from None
        return self._peeled(plan)

    def _peeled(self, plan: Plan) -> Plan:
        """Take the first step alone."""
        assert self.steps is not None
        roots = plan.roots
        self.body(self.steps.item(self.first))
        self.first += 1
        self.start, self.sole = self.cells.get(), self.cells.sole()
        return Plan(self.cells, roots, self.sole)

    def _attempt(self, plan: Plan) -> bool:
        roots = plan.live_roots()
        found: dict[str, Outcome] = {}

        def step(index: Tracer, inner: Body, entered: list[object]) -> list[Value]:
            assert self.steps is not None
            self.body(self.steps.item(index))
            outcome = found["outcome"] = plan.outcome(inner, entered)
            return [strong(index) + 1, *outcome.numbers]

        steps, counted = self.count or 0, counting(self.first, self.most)
        traced = _traced(
            plan, roots, step, self.name, self.what, not self.surely, steps=steps, counted=counted
        )
        outcome: Outcome = found["outcome"]
        plan.restore()
        count = None if self.count is None else self.count - self.first
        if self._meets_nothing(plan, traced) or self._is_short(plan, traced.program):
            return False
        start = [INT64.type(self.first), *operands_of(plan.numbers()), *roots]
        if self.stop is None and count is not None:
            outs = scanned(traced, count, start)
        else:
            most = None if self.most is None else max(self.most - self.first, 0)
            test = self._test(plan, roots, traced)
            outs = looped(
                test, traced, start, most, self.steps is not None and self.steps.any_order
            )
        note("rolled", _carried(plan, roots))
        finish(plan, outcome, outs[1:], roots, self.surely)
        return True

    def _meets_nothing(self, plan: Plan, traced: TracedProgram) -> bool:
        """Whether a loop computes what Python can compute: nothing in it is traced."""
        if self.count is None or is_symbolic(self.count) or self.first:
            return False
        if self.count > MOST_IN_PYTHON:
            return False
        plain = not any([isinstance(x, Tracer) for x in plan.numbers()])
        return plain and not traced.captured and not plan.live_roots()

    def _is_short(self, plan: Plan, body: Program) -> bool:
        """Whether a few steps on few numbers are written out: they then are one expression."""
        if self.count is None or self.stop is not None or plan.live_roots():
            return False
        if is_symbolic(self.count):
            return False
        each, steps = operations(body), self.count - self.first
        if each is None or steps * each > SHORT:
            return False
        note("unrolled", f"{steps} steps of {each} operations, at most {SHORT} in all")
        return True

    def _test(self, plan: Plan, roots: Sequence[Tracer], traced: TracedProgram) -> TracedProgram:
        """Whether there is another step."""
        count: Any = None if self.steps is None else self.steps.count

        def test(index: Tracer, _inner: Body, _entered: list[object]) -> list[Value]:
            more: Any = index < count
            if self.stop is not None:
                more = np.logical_and(more, np.logical_not(truth_value(self.stop())))
            return [more]

        found = _traced(plan, roots, test, self.name, self.what, True, False, like=traced)
        plan.restore()
        return found


def _may_peel(reason: BaseException, plan: Plan) -> bool:
    return isinstance(reason, Peel) or any([x is UNDEFINED for x in plan.starts()])


class _RolledWhile(_Rolled):
    """A `while` loop as one equation."""

    what = "while"

    def __init__(
        self,
        cells: Cells,
        sole: Mapping[str, bool],
        written: Sequence[str],
        body: FunctionType,
        test: Callable[[], object],
        surely: bool,
    ) -> None:
        super().__init__(cells, sole, written, body, None, None)
        self.test, self.surely, self.peels = test, surely, surely

    def _peeled(self, plan: Plan) -> Plan:
        roots = plan.roots
        self.body()
        self.first += 1
        self.start, self.sole = self.cells.get(), self.cells.sole()
        again = self.test()
        self.surely = self.peels = not is_unknown(again)
        self.ended = self.surely and not again
        return Plan(self.cells, roots, self.sole)

    def _attempt(self, plan: Plan) -> bool:
        roots = plan.live_roots()
        found: dict[str, Outcome] = {}

        def step(_index: object, inner: Body, entered: list[object]) -> list[Value]:
            self.body()
            outcome = found["outcome"] = plan.outcome(inner, entered)
            return outcome.numbers

        traced = _traced(plan, roots, step, self.name, self.what, True, True, False)
        plan.restore()
        outcome: Outcome = found["outcome"]
        if self._is_plain(plan, traced):
            return False
        start = [*operands_of(plan.numbers()), *roots]
        outs = looped(self._test(plan, roots, traced), traced, start)
        note("rolled", _carried(plan, roots))
        finish(plan, outcome, outs, roots, self.surely)
        return True

    def _is_plain(self, plan: Plan, traced: TracedProgram) -> bool:
        plain = not any([isinstance(x, Tracer) for x in plan.numbers()])
        return self.surely and plain and not traced.captured and not plan.live_roots()

    def _test(self, plan: Plan, roots: Sequence[Tracer], traced: TracedProgram) -> TracedProgram:
        def test(_index: object, _inner: Body, _entered: list[object]) -> list[Value]:
            return [truth_value(self.test())]

        found = _traced(plan, roots, test, self.name, self.what, True, False, False, like=traced)
        plan.restore()
        return found


def _is_own(root: Tracer) -> bool:
    """Whether the innermost trace, or one that runs its function once, may write an array: else an
    enclosing body must carry it first."""
    builder = innermost()
    bodies = {id(body.builder) for body in THREAD.state.bodies}
    while builder is not None and builder is not root.builder:
        if id(builder) in bodies:
            return False
        builder = builder.outer
    return True


def _traced(
    plan: Plan,
    roots: Sequence[Tracer],
    step: Callable[[Any, Body, list[object]], list[Value]],
    name: str,
    what: str,
    catches: bool,
    writes: bool = True,
    indexed: bool = True,
    steps: int = 0,
    like: TracedProgram | None = None,
    counted: Range | None = None,
) -> TracedProgram:
    """A step as a program of the number of the step, what is carried by value, and the arrays.

    Arguments:
        catches: whether all that it computes belongs to it: it may not run at all.
        writes: whether the new arrays are results.
        steps: how many steps there are, if that is known.
        like: the body, if this is the condition of its loop.
        counted: between what the numbers of its steps are.
    """
    ranges: dict[int, Range] = {} if counted is None else {0: counted}
    more: dict[int, Range] = {}
    avals = [varying(aval_of_value(x), varies(x)) for x in plan.numbers()]
    written = [root.aval.strong() for root in roots]

    def flat(*inputs: Tracer) -> list[Value]:
        builder = innermost()
        assert builder is not None
        index, rest = (inputs[0], inputs[1:]) if indexed else (None, inputs)
        given = [x.handle() for x in rest[: len(avals)]]
        with (
            closing(builder) if catches else nullcontext(),
            knowing(builder, ranges) as known,
            Body(builder, roots, rest[len(avals) :]) as inner,
        ):
            inner.entered, inner.decides = plan.unshared(given), not writes
            values = plan.bind(given)
            inner.given = {id(x) for x in (*given, *[c for v in values for c in containers_of(v)])}
            outs = _stepped(step, index, inner, values, catches)
            if writes:
                more.clear()
                more.update(kept_ranges(known, starts, dict(enumerate(outs))))
                outs = [*outs, *[root.handle() for root in roots]]
            elif any([r.index != x.index for r, x in zip(roots, rest[len(avals) :], strict=True)]):
                raise not_recorded("the condition of a loop writes into an array")
            return [x.handle() if isinstance(x, Tracer) else _plain(x) for x in outs]

    given = [*([INDEX] if indexed else []), *avals, *written]
    starts = {
        k: x
        for k, x in enumerate(plan.numbers(), int(indexed))
        if given[k].dtype == INT64 and not given[k].shape
    }
    if like is not None:
        body = like.program.in_avals[len(like.captured) :]
        given = [varying(a, b.varies) for a, b in zip(given, body, strict=True)]

    def attempt(carried: Sequence[Aval]) -> TracedProgram:
        plan.restore()
        return trace(flat, carried, name, what, True)

    def settle() -> TracedProgram:
        return settled(given, attempt, lambda found: found.program.out_avals if writes else ())

    traced = settle()
    if more:  # with these limits for loops in it
        ranges.update(more)
        traced = settle()
    spend(len(traced.program.eqns), steps if writes else 0)
    return traced


def _stepped(
    step: Callable[[Any, Body, list[object]], list[Value]],
    index: Any,
    inner: Body,
    entered: list[object],
    conditional: bool,
) -> list[Value]:
    """A step; an error in one that may not run at all is none yet."""
    try:
        return step(index, inner, entered)
    except (CaptureError, Again, Peel, FgradError, NameError):
        raise
    except Exception as error:
        if conditional and not is_defect(error):
            raise raised_here(error) from error
        raise


def _plain(x: Any) -> Value:
    return x if isinstance(x, np.ndarray) else np.asarray(x)[()]


def finish(
    plan: Plan,
    outcome: Outcome,
    results: Sequence[Value],
    roots: Sequence[Tracer],
    surely: bool,
) -> None:
    """Give variables and arrays the values that they have after the loop.

    Arguments:
        surely: whether there is a first step.
    """
    count = len(results) - len(roots)
    each = iter(results[:count])
    same: dict[tuple[int, int], Value] = {}  # after a turn, and before it where there may be none
    twins: dict[int, list[Value]] = {}  # of one array after a turn, and of several before
    values = []
    for slot, after in zip(plan.slots, outcome.values, strict=True):
        if slot.parts is None:
            values.append(slot.start)
            continue
        undefined = not surely and slot.name in outcome.fresh and not is_internal(slot.name)
        leaves = []
        for first, last in zip(slot.parts.leaves, parts_of(after).leaves, strict=True):
            if not is_number(first):
                leaves.append(last)
                continue
            out = next(each)
            if surely and not isinstance(last, (Tracer, np.ndarray)):
                leaves.append(last)
                continue
            key = id(last), 0 if surely else id(first)
            if key not in same or not has_memory(last):
                same[key] = result_of(out, aval_of_value(first))
                twins.setdefault(id(last), []).extend([] if undefined else [same[key]])
            leaves.append(same[key])
        values.append(UNDEFINED if undefined else slot.parts.together(leaves))
    plan.cells.set(values)
    _link(plan, outcome, values, list(twins.values()), surely)
    for root, out in zip(roots, results[count:], strict=True):
        if out is not root:
            write_all(root, out)


def _link(
    plan: Plan,
    outcome: Outcome,
    values: Sequence[object],
    own: Sequence[Sequence[Value]],
    surely: bool,
) -> None:
    """Let the values of variables after a loop know what other names their arrays may have."""
    for slot, after, value in zip(plan.slots, outcome.values, values, strict=True):
        started = not surely and slot.name not in plan.sole
        if slot.name in outcome.shared or (started and slot.parts is not None):
            note_shared([value, after, slot.start])
    placed: dict[Place, object] = {}
    for slot, value in zip(plan.slots, values, strict=True):
        olds = [*outcome.outside.get(slot.name, ()), *([] if surely else plan.others(slot))]
        plain = list(outcome.plain.get(slot.name, ()))
        if not surely and slot.kind == VALUE:
            plain += plain_of(slot.start, slot.name in plan.sole)
        for k, leaf in enumerate(parts_of(value).leaves):
            placed[slot.name, k] = leaf
            if has_memory(leaf):
                before = [placed.get(place) for place in outcome.twins.get((slot.name, k), ())]
                shared = [x for x in before if isinstance(x, Tracer) and x is not leaf]
                is_some(leaf, [*olds, *_twins_before(leaf, own), *shared], slot.name)
                if plain:
                    is_plain(leaf, plain, slot.name)


def _twins_before(x: object, twins: Iterable[Sequence[Value]]) -> list[Tracer]:
    """The arrays that are the same one as `x` if a step was taken, and came before it."""
    found = next((own for own in twins if any([x is y for y in own])), [])
    before = takewhile(lambda y: y is not x, found)
    return [y for y in before if isinstance(y, Tracer) and has_memory(y)]


def _carried(plan: Plan, roots: Sequence[Tracer]) -> str:
    """What is carried, in words."""
    names = [
        slot.name for slot in plan.slots if slot.parts is not None and not is_internal(slot.name)
    ]
    arrays = [f"{len(roots)} array{'s' * (len(roots) > 1)}"] if roots else []
    carried = ", ".join([*names, *arrays])
    return f"carries {carried}" * bool(carried)
