"""L5. The traced body of a loop -> one equation: `scan`, or `while` with a condition.

What a body returns as it is becomes a constant of the loop.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from fgrad.base.lazy_import import lazy_module
from fgrad.capture.equal_programs import shared
from fgrad.ir.program import Program
from fgrad.ir.traits import CONTROL
from fgrad.trace import Value
from fgrad.tracing.record import TracedProgram

if TYPE_CHECKING:
    from fgrad.transforms.control import equations
else:
    equations = lazy_module("fgrad.transforms.control.equations")


def operations(body: Program) -> int | None:
    """How many numbers a step computes, indices aside; None if it has arrays, loops or branches."""
    results = [v for eqn in body.eqns for v in eqn.outputs]
    nested = any([eqn.prim.holds in CONTROL for eqn in body.eqns])
    if nested or any([v.aval.size != 1 for v in results]):
        return None
    return sum([v.aval.dtype.kind in "fc" for v in results])


def scanned(traced: TracedProgram, count: int, start: Sequence[Value]) -> list[Value]:
    """The last values of what is carried, after a known number of steps."""
    program, kept, changed = _split(traced)
    first = len(traced.captured)
    consts = [*traced.captured, *[start[k] for k in kept]]
    body = shared(_reordered(program, first, kept, changed, True))
    outs = equations.scan(body, count, False, consts, [start[k] for k in changed], [])
    return _merged(outs, start, kept, changed)


def looped(
    test: TracedProgram, traced: TracedProgram, start: Sequence[Value], most: int | None = None,
    any_order: bool = False,
) -> list[Value]:  # fmt: skip
    """The last values of what is carried, for as long as a test holds, `most` steps if known."""
    program, kept, changed = _split(traced)
    constants = [start[k] for k in kept]
    outs = equations.while_loop(
        shared(_reordered(test.program, len(test.captured), kept, changed, False)),
        shared(_reordered(program, len(traced.captured), kept, changed, True)),
        [*test.captured, *constants],
        [*traced.captured, *constants],
        [start[k] for k in changed],
        max_steps=most,
        any_order=any_order,
    )
    return _merged(outs, start, kept, changed)


def _split(traced: TracedProgram) -> tuple[Program, list[int], list[int]]:
    """The carries that a body returns as they are, and the others."""
    program, first = traced.program, len(traced.captured)
    carried = program.inputs[first:]
    kept = [k for k, x in enumerate(carried) if program.outputs[k] is x]
    return program, kept, [k for k in range(len(carried)) if k not in kept]


def _reordered(
    program: Program, first: int, kept: Sequence[int], changed: Sequence[int], is_body: bool
) -> Program:
    """A program that takes what stays before what changes, and returns the latter."""
    carried = program.inputs[first:]
    order = [carried[k] for k in (*kept, *changed)]
    outputs = tuple([program.outputs[k] for k in changed]) if is_body else program.outputs
    return program.replace(inputs=(*program.inputs[:first], *order), outputs=outputs)


def _merged(
    outs: Sequence[Value], start: Sequence[Value], kept: Sequence[int], changed: Sequence[int]
) -> list[Value]:
    new = list(start)
    for k, x in zip(changed, outs, strict=True):
        new[k] = x
    return new
