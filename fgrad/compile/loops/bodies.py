"""L5. Pass `control`: loops and branches hold compiled bodies, whose steps run inside of ours.

    control scan (consts, carry, xs) -> (carry, ys)
      the body is compiled like any program; its table of slots becomes a part of ours, so that
      entering it is a few `PointAt` steps, and a step of the loop a few `Advance` and `Swap` steps

What a body needs besides (its constants, its arena, second buffers for a carry) becomes operands of
the step, so that the planner knows of it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from fgrad.compile.kernel.ir import Kernel
from fgrad.compile.kernel.machine import LINE_BYTES
from fgrad.compile.loops.kernel import loop_steps
from fgrad.compile.lower.writes import Split, split_writes
from fgrad.compile.tasks.routines import Control, Unbuilt
from fgrad.compile.tasks.runnable import Runnable
from fgrad.compile.tasks.steps import AliasStep, KernelStep, LibraryStep, Step
from fgrad.compile.tasks.updates import update_in_place
from fgrad.ir.aval import Aval
from fgrad.ir.program import Eqn, Lit, Program, Var
from fgrad.ir.walk import definitions, use_counts
from fgrad.ops import primitives as prims


def bodies_of(eqn: Eqn) -> tuple[Program, ...]:
    """The programs that a control equation holds."""
    params = eqn.params
    if eqn.prim is prims.switch:
        return tuple(params["branches"])
    return (params["body"],) if eqn.prim is prims.scan else (params["cond"], params["body"])


def compile_bodies(
    program: Program,
    steps: Sequence[Step],
    compile_body: Callable[[Program], Runnable],
    schedule: Callable[[Kernel], Kernel],
    in_kernel: Callable[[Kernel], bool],
) -> tuple[Program, list[Step]]:
    """The steps with compiled bodies, and the program with the constants that these need.

    `in_kernel` says whether a loop should be the kernel that it can be, or have a compiled body.
    """
    if not any([isinstance(s, LibraryStep) and isinstance(s.routine, Unbuilt) for s in steps]):
        return program, list(steps)
    consts = list(program.consts)

    def constant(array: np.ndarray) -> Var:
        array = np.ascontiguousarray(array).reshape(array.shape or (1,))
        var = Var(Aval(array.shape, array.dtype))
        consts.append((var, array))
        return var

    out: list[Step] = []
    defined, used = definitions(program.eqns), use_counts(program)
    known = dict(program.consts)
    for step in steps:
        if isinstance(step, LibraryStep) and isinstance(step.routine, Unbuilt):
            eqn, before = step.routine.eqn, len(consts)
            made = loop_steps(eqn, defined, used, constant, schedule, known)
            kernels = [s.kernel for s in made or () if isinstance(s, KernelStep)]
            if made is not None and all([in_kernel(kernel) for kernel in kernels]):
                out += made
                continue
            del consts[before:]
            step = _completed(eqn, compile_body, schedule, constant)
        out.append(step)
    program = program.replace(consts=tuple(consts))
    return program, update_in_place(program, _live(program, out))


def _live(program: Program, steps: Sequence[Step]) -> list[Step]:
    """The steps without those kernels whose results are unread."""
    needed = {a for a in program.outputs if isinstance(a, Var)}
    out: list[Step] = []
    for step in reversed(steps):
        if isinstance(step, AliasStep):
            if step.output in needed:
                needed.add(step.source)
        elif isinstance(step, KernelStep):
            roles = [b.role for b in step.kernel.buffers if b.role != "scratch"]
            made = [v for v, role in zip(step.args, roles, strict=True) if role != "in"]
            if needed.isdisjoint(made):
                continue
            needed.update(step.args)
        else:
            needed.update(step.args)
        out.append(step)
    return out[::-1]


def _completed(
    eqn: Eqn,
    compile_body: Callable[[Program], Runnable],
    schedule: Callable[[Kernel], Kernel],
    constant: Callable[[np.ndarray], Var],
) -> LibraryStep:
    split = _split(eqn)
    programs = bodies_of(eqn)
    if split is not None:
        programs = (*programs[:-1], split.program)
    bodies = [compile_body(body) for body in programs]
    operands = [constant(np.asarray(a.value)) if isinstance(a, Lit) else a for a in eqn.inputs]
    extra = [constant(x) for body in bodies for x in body.consts]
    extra += [constant(np.asarray(lit.value)) for body in bodies for _, lit in body.literals]
    offset = _aligned(max([body.arena_bytes for body in bodies]))
    given = [v.aval for v in eqn.outputs] if split is None else bodies[-1].out_avals
    sizes = [a.size * a.dtype.itemsize for a in given]
    places = []
    for size in [*sizes, 1]:
        places.append(offset)
        offset += _aligned(size)
    scratch = Var(Aval((offset,), np.dtype(np.uint8)))
    control = Control(eqn, tuple(bodies), tuple(places))
    if split is not None:
        writes = {
            k: tuple([w._replace(kernel=schedule(w.kernel)) for w in each])
            for k, each in split.writes.items()
        }
        control = control._replace(outputs=split.outputs, writes=writes)
    args = (*operands, *eqn.outputs, *extra, scratch)
    return LibraryStep(control, args, ())


def _split(eqn: Eqn) -> Split | None:
    """The body of a loop with what it writes in place; None for branches."""
    params = eqn.params
    if eqn.prim is prims.switch:
        return None
    body, n_consts = params["body"], params["n_consts" if eqn.prim is prims.scan else "n_body"]
    n_carry = params.get("n_carry", len(body.outputs))
    return body.derived(("split", n_consts, n_carry), lambda: split_writes(body, n_consts, n_carry))


def _aligned(size: int) -> int:
    return max(LINE_BYTES, -(-size // LINE_BYTES) * LINE_BYTES)
