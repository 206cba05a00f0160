"""L5. The compiler as a list of passes.

Program -> Program   inline dce cse triangles collectives legalize_bfloat16 legalize_complex fold
                     simplify read_updates ranges factor_contractions canonical_conv canonical_dot
                     cse dce invariants one_pass_products ahead components regions; and three of
                     the backend, see `Backend`
Program -> groups    fuse, and the backend's join
groups -> steps      lower update_in_place parameterize_constants split_steps schedule loop_fission
                     control, and the backend's routines
steps -> native      plan and the backend's build
"""

from __future__ import annotations

import functools
import os
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import numpy as np

from fgrad.base.gc_policy import collector_paused
from fgrad.base.named_tuple import NamedTuple
from fgrad.base.waiting import Waiting
from fgrad.compile.backend import BACKENDS, Backend
from fgrad.compile.fuse.one_pass_products import one_pass_products
from fgrad.compile.fuse.partition import Fusion, fuse
from fgrad.compile.kernel.check import check_kernel
from fgrad.compile.kernel.ir import Kernel
from fgrad.compile.kernel.text import print_kernel
from fgrad.compile.llvm.runtime import spent
from fgrad.compile.loops.ahead import compute_ahead
from fgrad.compile.loops.bodies import compile_bodies
from fgrad.compile.loops.components import split_components
from fgrad.compile.loops.invariants import hoist_invariants
from fgrad.compile.loops.regions import gather_regions
from fgrad.compile.lower.groups import lower
from fgrad.compile.passes.canonical_conv import canonical_conv
from fgrad.compile.passes.canonical_dot import canonical_dot
from fgrad.compile.passes.collectives import collectives
from fgrad.compile.passes.cse import cse
from fgrad.compile.passes.dce import dce
from fgrad.compile.passes.factor_contractions import factor_contractions
from fgrad.compile.passes.fold import fold
from fgrad.compile.passes.inline import inline_calls
from fgrad.compile.passes.legalize_bfloat16 import has_bfloat, legalize_bfloat16
from fgrad.compile.passes.legalize_complex import legalize_complex
from fgrad.compile.passes.ranges import ranges
from fgrad.compile.passes.read_updates import read_updates
from fgrad.compile.passes.simplify import simplify
from fgrad.compile.passes.triangles import triangles
from fgrad.compile.schedule.loop_fission import loop_fission
from fgrad.compile.schedule.parameterize_constants import parameterize_constants
from fgrad.compile.schedule.split_steps import split_steps
from fgrad.compile.tasks.plan import Donation, Plan, plan
from fgrad.compile.tasks.runnable import Runnable
from fgrad.compile.tasks.steps import KernelStep, Step
from fgrad.compile.tasks.updates import update_in_place
from fgrad.config import config
from fgrad.errors import CheckError
from fgrad.ir.check import check_program
from fgrad.ir.program import Program
from fgrad.ir.text import print_program
from fgrad.trace import run
from fgrad.tracing.on_device import HOST
from fgrad.typing import PyTree

B = TypeVar("B")


class Stage(NamedTuple):
    """One pass: its time, its size before and after (equations or steps) and its result."""

    name: str
    ms: float
    before: int
    after: int
    result: Any


class Compiled(NamedTuple):
    """An executable and how it came about."""

    executable: Runnable
    stages: list[Stage]
    code: tuple[tuple[str, float], ...] = ()  # milliseconds of the parts of `build`, by name


def compile_program(
    program: Program,
    args: Sequence[Any] | None = None,
    device: str = HOST,
    donated: Sequence[Donation] = (),
) -> Compiled:
    """Compile a program for a device.

    Arguments:
        program: what to compile.
        args: real arguments, on which FGRAD_CHECK=3 compares before and after each pass.
        device: a key of `BACKENDS`.
        donated: inputs whose memory may be given to results.
    """
    before = spent()
    with collector_paused(), Waiting(program.name) as waiting:
        compiled = _compile(program, args, BACKENDS[device], donated, waiting)
        waiting.done([(stage.name, stage.ms) for stage in compiled.stages])
    code = [(name, 1e3 * (seconds - before[name])) for name, seconds in spent().items()]
    return compiled._replace(code=tuple(code))


def _compile(
    program: Program,
    args: Sequence[Any] | None,
    backend: Backend,
    donated: Sequence[Donation],
    waiting: Waiting | None = None,
) -> Compiled:
    log = _Log(program, args, backend, waiting)
    # Calls first, so that every later pass sees the whole program.
    program = log.checked("inline", inline_calls, program)
    # What nobody reads costs nothing from here on.
    program = log.checked("dce", dce, program)
    # Equal equations become one before rules look for patterns in their uses.
    program = log.checked("cse", cse, program)
    # Factors of triangles are not made, before complex matrices are taken apart.
    program = log.checked("triangles", triangles, program)
    # Ranks meet in one order, before passes look at constants, which may differ between them.
    program = log.checked("collectives", collectives, program)
    # Words of bfloat16 become float32 where they are computed with.
    given = program
    if has_bfloat(program):
        log.expected = None  # words are not compared as numbers
    program = log.checked("legalize_bfloat16", legalize_bfloat16, program)
    # Complex arrays become pairs of real ones, for all passes that know arithmetic.
    program = log.checked("legalize_complex", legalize_complex, program)
    fused = functools.cache(fuse)  # for this compilation alone: regions ask too
    program = _simplified(program, log, backend, fused)
    if config.check >= 1:
        check_program(program, "dce again")
    fusion = log.timed("fuse", fused, program, size=lambda f: len(f.groups))
    # What a function for products does too needs no kernel.
    fusion = log.timed(
        "join", lambda f: backend.join(f, program), fusion, size=lambda f: len(f.groups)
    )
    steps = log.timed("lower", lambda f: lower(f.groups, f.virtual), fusion, size=len)
    # Arrays that are updated where nobody reads them any more are not copied.
    steps = log.timed("update_in_place", lambda s: update_in_place(program, s), steps, size=len)
    # Steps of an unrolled loop that differ in numbers alone compile once.
    program, steps = log.timed(
        "parameterize_constants",
        lambda s: parameterize_constants(program, s),
        steps,
        size=lambda shared: len(shared[1]),
    )
    if backend.threads:
        # After `parameterize_constants`, which knows kernels by their numbers, and before loops
        # change their kinds.
        steps = log.timed("split_steps", split_steps, steps, size=len)
    steps = log.timed("schedule", lambda s: _schedule_steps(s, backend), steps, size=len)
    if backend.threads:
        # After `schedule`, which makes a loop for each kind of edge.
        steps = log.timed("loop_fission", loop_fission, steps, size=len)
    # Bodies of loops and branches are compiled by all of these passes too.
    body = functools.partial(_compile_body, backend=backend)
    program, steps = log.timed(
        "control",
        lambda s: compile_bodies(program, s, body, backend.schedule, backend.in_kernel),
        steps,
        size=lambda compiled: len(compiled[1]),
    )
    # Before memory is planned, which asks nothing of how an array lies in its own.
    steps = log.timed("routines", lambda s: backend.routines(program, s), steps, size=len)
    planned = log.timed(
        "plan", lambda s: plan(program, s, donated), steps, size=lambda p: len(p.steps)
    )
    executable = log.timed("build", lambda p: backend.build(program, p), planned, size=lambda e: 1)
    if program.out_avals != given.out_avals or program.in_avals != given.in_avals:
        executable = executable.seen_as(given.in_avals, given.out_avals)
    return Compiled(executable, log.stages)


def _simplified(
    program: Program, log: _Log, backend: Backend, fused: Callable[[Program], Fusion]
) -> Program:
    """The program of real arrays that groups are made of."""
    # Numbers known now become literals, which the laws of `simplify` match.
    program = log.checked("fold", fold, program)
    program = log.checked("simplify", simplify, program)
    # Slices of arrays that were written at known places are known after simplify.
    program = log.checked("read_updates", read_updates, program)
    # Checks that always pass go before loops are written, which they would slow down.
    program = log.checked("ranges", ranges, program)
    # Sums of products of small arrays become products of sums, before anything is formed.
    program = log.checked("factor_contractions", factor_contractions, program)
    # Convolutions that no library of the device takes become products of windows, which are
    # scheduled like any other product.
    program = log.checked("library_conv", backend.convs, program)
    program = log.checked("canonical_conv", canonical_conv, program)
    program = log.checked("prepare", backend.prepare, program)
    # Transposes vanish into flags of products, after simplify has composed them.
    program = log.checked("canonical_dot", canonical_dot, program)
    # Those of 16-bit numbers read these, where the device can.
    program = log.checked("products", backend.products, program)
    # The passes above leave dead and equal equations behind.
    program = log.checked("cse again", cse, program)
    program = log.checked("dce again", dce, program)
    # What loops need in every step is computed by the kernels before them.
    program = log.checked("invariants", hoist_invariants, program)
    if backend.threads:
        # Two products that read one large matrix become sums, which share a kernel.
        program = log.checked("one_pass_products", one_pass_products, program)
        # Powers and logarithms of what loops walk along are computed by lanes.
        program = log.checked("ahead", compute_ahead, program)
        # Sums over pairs of short vectors run along rows, for `fuse` to join them.
        program = log.checked("components", split_components, program)
        # Small bodies of long batches are kernels as they stand.
        program = log.checked("regions", lambda p: gather_regions(p, fused), program)
    return program


def _compile_body(program: Program, backend: Backend) -> Runnable:
    """The executable of a loop's body or of a branch, made once for each backend."""
    key = ("body", backend)
    return program.derived(key, lambda: _compile(program, None, backend, ()).executable)


def _schedule_steps(steps: Sequence[Step], backend: Backend) -> list[Step]:
    """Each kernel in an order that is fast on the device; equal kernels once."""
    done: dict[Kernel, Kernel] = {}
    places: dict[int, Kernel] = {}  # of kernels that are one object: not compared at length
    out: list[Step] = []
    for step in steps:
        if isinstance(step, KernelStep):
            kernel = places.get(id(step.kernel)) or done.get(step.kernel)
            if kernel is None:
                if config.check >= 2:
                    check_kernel(step.kernel)
                kernel = done[step.kernel] = backend.schedule(step.kernel)
                if config.check >= 1:
                    check_kernel(kernel)
            places[id(step.kernel)] = kernel
            step = step._replace(kernel=kernel)
        out.append(step)
    return out


class _Log:
    """Runs passes: measures, prints, dumps and checks each."""

    def __init__(
        self,
        program: Program,
        args: Sequence[Any] | None,
        backend: Backend,
        waiting: Waiting | None,
    ) -> None:
        self.stages: list[Stage] = []
        self.backend = backend
        self.waiting = waiting
        self.args = args
        self.expected: Sequence[object] | None = None
        if config.check >= 2:
            check_program(program)
        if config.check >= 3 and args is not None:
            self.expected = run(program, args)
        self.show("trace", program, "program")

    def checked(
        self, name: str, rewrite: Callable[[Program], Program], program: Program
    ) -> Program:
        """Run a pass over programs, check its result, and compare results at FGRAD_CHECK=3."""
        result = self.timed(name, rewrite, program, size=lambda p: len(p.eqns))
        if config.check >= 2:
            check_program(result, name)
        if self.expected is not None:
            self.compare(name, result)
        return result

    def timed(self, name: str, rewrite: Callable[[Any], B], x: Any, size: Callable[[B], int]) -> B:
        """Run a pass and record a stage."""
        if self.waiting is not None:
            self.waiting.stage = name
        start = time.perf_counter()
        result = rewrite(x)
        ms = 1e3 * (time.perf_counter() - start)
        before = self.stages[-1].after if self.stages else len(x.eqns)
        self.stages.append(Stage(name, ms, before, size(result), result))
        self.show(name, result, "passes")
        return result

    def compare(self, name: str, program: Program) -> None:
        """Name the pass after which the program has other results."""
        assert self.args is not None and self.expected is not None
        for k, (a, b) in enumerate(zip(self.expected, run(program, self.args), strict=True)):
            a, b = np.asarray(a), np.asarray(b)
            good = a.shape == b.shape and a.dtype == b.dtype and _close(a, b)
            if not good:
                raise CheckError(
                    f"pass {name!r} changed result {k} of program {program.name}.",
                    (("write", "FGRAD_DUMP=dir shows the program before and after"),),
                )

    def show(self, name: str, result: PyTree, topic: str) -> None:
        """Print or dump a stage, as FGRAD_SHOW and FGRAD_DUMP ask."""
        if not config.show and not config.dump:
            return
        parts = {topic: stage_text(result)}
        if name == "schedule":
            kernels = distinct_kernels(result)
            parts["kernel"] = parts[topic]
            topics = [topic for topic in self.backend.topics if topic in config.show]
            for topic in dict.fromkeys([*topics, "llvm"] if config.dump else topics):
                parts[topic] = self.backend.texts(topic, kernels)
        for part, text in parts.items():
            if part in config.show and text and (part != "kernel" or "passes" not in config.show):
                print(f"--- {name}\n{text}", file=sys.stderr)
        if "time" in config.show and self.stages:
            stage = self.stages[-1]
            print(f"{name:>22} {stage.ms:9.3f} ms {stage.before} -> {stage.after}", file=sys.stderr)
        if config.dump:
            self.dump(name, parts)

    def dump(self, name: str, parts: dict[str, str]) -> None:
        """Write a stage into FGRAD_DUMP: `03_cse.txt`, `12_schedule.ll`."""
        os.makedirs(config.dump, exist_ok=True)
        for part, text in parts.items():
            ending = {"llvm": "ll", "asm": "s"}.get(part, "txt")
            file = f"{len(self.stages):02}_{name.replace(' ', '_')}.{ending}"
            if text:
                with open(os.path.join(config.dump, file), "w", encoding="utf-8") as out:
                    out.write(text)


def _close(a: np.ndarray, b: np.ndarray) -> bool:
    if a.dtype.kind == "V":
        a, b = a.astype(np.float32), b.astype(np.float32)
    if a.dtype.kind not in "fc":
        return bool(np.array_equal(a, b))
    tolerance = 1e3 * float(np.finfo(a.dtype).eps)
    return bool(np.allclose(a, b, rtol=tolerance, atol=tolerance, equal_nan=True))


def stage_text(result: PyTree) -> str:
    """The result of a pass as text."""
    if isinstance(result, Program):
        return print_program(result)
    return "\n".join(print_kernel(kernel) for kernel in distinct_kernels(result))


def distinct_kernels(result: PyTree) -> list[Kernel]:
    """The kernels among steps, each once, in order."""
    steps = result.steps if isinstance(result, Plan) else result
    if not isinstance(steps, list):
        return []
    return list(dict.fromkeys(s.kernel for s in steps if isinstance(s, KernelStep)))
