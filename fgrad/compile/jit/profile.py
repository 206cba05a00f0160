"""L5. `profile`: a compiled program -> the time of each step, with your source lines.

print(profile(loss)(w, x))                  a table, the slowest step first
profile(loss)(w, x).chrome_trace("t.json")  for chrome://tracing and Perfetto
"""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Callable, Sequence

import numpy as np

from fgrad.base.keywords import also_takes
from fgrad.base.named_tuple import NamedTuple
from fgrad.base.pickling import pickles_as_call
from fgrad.base.source import Loc
from fgrad.compile.backend import BACKENDS, TimedSteps
from fgrad.compile.jit.call import contiguous
from fgrad.compile.jit.inspect import jitted
from fgrad.compile.pipeline import compile_program
from fgrad.compile.tasks.plan import Plan
from fgrad.compile.tasks.steps import Group, KernelStep, LibraryStep
from fgrad.errors import ArgumentError
from fgrad.ir.program import Eqn, Var
from fgrad.ir.walk import communicates
from fgrad.tracing.on_device import HOST
from fgrad.tracing.ranks import LIBRARY
from fgrad.transforms.core.wrap import named_like

OPERATIONS = 6  # that a row of the table names


class StepTime(NamedTuple):
    """One step: median time, kind, operations, and their source lines."""

    seconds: float
    kind: str
    operations: tuple[str, ...]
    lines: tuple[Loc, ...]
    bytes: int

    @property
    def label(self) -> str:
        """A short list of the operations."""
        names = list(dict.fromkeys(self.operations))
        more = f" +{len(names) - OPERATIONS}" if len(names) > OPERATIONS else ""
        return " ".join(names[:OPERATIONS]) + more


class Profile(NamedTuple):
    """The steps of one call in order."""

    name: str
    steps: list[StepTime]

    @property
    def seconds(self) -> float:
        """The sum of all steps."""
        return sum([s.seconds for s in self.steps])

    def by_line(self) -> dict[Loc, float]:
        """Seconds for each line; the time of a step is shared among its lines equally."""
        found: dict[Loc, float] = {}
        for step in self.steps:
            for line in step.lines:
                found[line] = found.get(line, 0.0) + step.seconds / len(step.lines)
        return dict(sorted(found.items(), key=lambda item: -item[1]))

    def __repr__(self) -> str:
        return str(self)

    def __str__(self) -> str:
        total = self.seconds or 1.0
        rows = [f"{self.name}: {1e6 * self.seconds:,.1f} us in {len(self.steps)} steps", ""]
        rows.append(f"{'us':>10} {'share':>6} {'GB/s':>6}  {'step':<8} operations; lines")
        for step in sorted(self.steps, key=lambda s: -s.seconds):
            rate = step.bytes / step.seconds / 1e9 if step.seconds else 0.0
            rows.append(
                f"{1e6 * step.seconds:>10,.1f} {step.seconds / total:>6.1%} {rate:>6.1f}"
                f"  {step.kind:<8} {step.label}"
            )
            rows += [f"{'':<34}{line}:  {line.text()}" for line in step.lines[:3]]
        rows += ["", f"{'us':>10} {'share':>6}  by line"]
        for line, seconds in self.by_line().items():
            rows.append(f"{1e6 * seconds:>10,.1f} {seconds / total:>6.1%}  {line}:  {line.text()}")
        return "\n".join(rows)

    def chrome_trace(self, path: str) -> None:
        """Write the steps as a trace of events, one after the other."""
        at, events = 0.0, []
        for step in self.steps:
            lines = [f"{line}: {line.text()}" for line in step.lines]
            events.append(
                {"name": step.label or step.kind, "ph": "X", "pid": 0, "tid": 0, "ts": at,
                 "dur": 1e6 * step.seconds, "args": {"lines": lines, "kind": step.kind}}
            )  # fmt: skip
            at += 1e6 * step.seconds
        with open(path, "w", encoding="utf-8") as file:
            json.dump({"traceEvents": events, "displayTimeUnit": "ns"}, file)


@pickles_as_call
@also_takes()
def profile(fun: Callable[..., object], repeat: int = 20) -> Callable[..., Profile]:
    """A function that compiles `fun`, runs it, and returns the time of each of its steps.

    Arguments:
        fun: a function of arrays, or what `jit` returned for one.
        repeat: how often it runs; times are medians.

    Returns:
        A function of the same arguments that returns a `Profile`, which prints as a table.  Steps
        run one by one, so that what overlaps in a real call does not overlap here.  A program of
        ranks is profiled by all of them together.

    Raises:
        ArgumentError: if `repeat` is not positive.

    Example:
        >>> import numpy as np, fgrad
        >>> found = fgrad.profile(lambda x: np.sum(np.sin(x) @ x))(np.ones((8, 8)))
        >>> sorted({name for step in found.steps for name in step.operations})
        ['dot_general', 'reduce_sum', 'sin']
    """

    if repeat < 1:
        raise ArgumentError(f"profile: repeat={repeat}; it must be positive.")

    def profiled(*args: object, **kwargs: object) -> Profile:
        entry = jitted(fun).entry_of(args, kwargs)
        if LIBRARY.agreed is not None and any([communicates(eqn) for eqn in entry.program.eqns]):
            LIBRARY.agreed(f"profile({entry.program.name}, repeat={repeat})")
        device = entry.device or HOST
        device = HOST if BACKENDS[device].steps is None else device
        steps = BACKENDS[device].steps
        assert steps is not None
        stages = {s.name: s.result for s in compile_program(entry.program, None, device).stages}
        planned: Plan = stages["plan"]
        program, _ = stages["control"]
        leaves = [*entry.captured, *jitted(fun).arrays_of(args, kwargs)]
        arrays = [
            contiguous(np.asarray(x), v.aval.dtype)
            for x, v in zip(leaves, program.inputs, strict=True)
        ]
        times = _timed(steps(program, planned), arrays, repeat)
        groups = _groups_of(planned.steps, stages["fuse"].groups)
        rows = [
            _row(seconds, step, group)
            for seconds, step, group in zip(times, planned.steps, groups, strict=True)
        ]
        return Profile(entry.program.name, rows)

    return named_like(profiled, fun, "profile")


def _timed(steps: TimedSteps, arrays: list[np.ndarray], repeat: int) -> list[float]:
    """The median seconds of each step."""
    run = steps.bound(arrays)
    samples: list[list[float]] = [[] for _ in steps.programs]
    for turn in range(repeat + 1):
        for k in range(len(steps.programs)):
            start = time.perf_counter()
            run(k)
            if turn:
                samples[k].append(time.perf_counter() - start)
    nothing = min([min(s) for s in samples], default=0.0)
    empty = min(nothing, steps.overhead())
    return [max(statistics.median(s) - empty, 0.0) for s in samples]


def _groups_of(
    steps: Sequence[KernelStep | LibraryStep], groups: Sequence[Group]
) -> list[list[Group]]:
    """The equation groups of each step: those whose results appear first in its arguments.

    A step that only writes internal results (partial sums) counts towards their reader.
    """
    made_by = {v: g for g in groups for v in g.outputs}
    seen: set[Var] = set()
    fresh: list[list[Var]] = []
    for step in steps:
        new = [v for v in dict.fromkeys(step.args) if v not in seen]
        seen.update(new)
        fresh.append(new)
    found: list[list[Group]] = []
    for k, new in enumerate(fresh):
        own = [made_by[v] for v in new if v in made_by]
        for later in range(k + 1, len(steps)):
            if own:
                break
            if not set(new).isdisjoint(steps[later].args):
                own = [made_by[v] for v in fresh[later] if v in made_by]
        found.append(list({id(g): g for g in own}.values()))
    return found


def _row(seconds: float, step: KernelStep | LibraryStep, groups: list[Group]) -> StepTime:
    eqns: list[Eqn] = [eqn for group in groups for eqn in group.eqns]
    lines = dict.fromkeys([e.loc for e in eqns if e.loc is not None])
    moved = sum([v.aval.size * v.aval.dtype.itemsize for v in dict.fromkeys(step.args)])
    kind = "kernel" if isinstance(step, KernelStep) else step.name
    return StepTime(seconds, kind, tuple([e.prim.name for e in eqns]), tuple(lines), moved)
