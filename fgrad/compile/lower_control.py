"""L5. Pass `control`: loops and branches hold compiled bodies, whose steps run inside of ours.

    control scan (consts, carry, xs) -> (carry, ys)
      the body is compiled like any program; its table of slots becomes a part of ours, so that
      entering it is a few `Place` steps, and a step of the loop a few `Advance` and `Swap` steps

What a body needs besides (its constants, its arena, second buffers for a carry) becomes operands of
the step, so that the planner knows of it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from fgrad.compile.plan import ALIGNMENT
from fgrad.compile.steps import LibraryStep, Step
from fgrad.ir.aval import Aval
from fgrad.ir.program import Eqn, Lit, Program, Var

CONTROL = frozenset({"scan", "while", "switch"})


class Control(NamedTuple):
    """A control equation whose bodies are executables.

    The step's buffers are operands, results, constants of each body in turn, and scratch memory:
    `arena` bytes for the bodies, then one place for each result or the flag of a `while`.
    """

    eqn: Eqn
    bodies: tuple[Any, ...]
    places: tuple[int, ...]  # offsets in the scratch memory


def control_step(eqn: Eqn, _defined: Mapping[Var, Eqn]) -> LibraryStep:
    """The step of a control equation, until `compile_bodies` completes it."""
    args = (*[a for a in eqn.inputs if isinstance(a, Var)], *eqn.outputs)
    return LibraryStep("control", {"eqn": eqn}, args, ())


def bodies_of(eqn: Eqn) -> tuple[Program, ...]:
    """The programs that a control equation holds."""
    params = eqn.params
    if eqn.prim.name == "switch":
        return tuple(params["branches"])
    return (params["body"],) if eqn.prim.name == "scan" else (params["cond"], params["body"])


def compile_bodies(
    program: Program, steps: Sequence[Step], compile_body: Callable[[Program], Any]
) -> tuple[Program, list[Step]]:
    """The steps with compiled bodies, and the program with the constants that these need."""
    if not any([isinstance(s, LibraryStep) and s.name == "control" for s in steps]):
        return program, list(steps)
    consts = list(program.consts)

    def constant(array: np.ndarray) -> Var:
        array = np.ascontiguousarray(array).reshape(array.shape or (1,))
        var = Var(Aval(array.shape, array.dtype))
        consts.append((var, array))
        return var

    out: list[Step] = []
    for step in steps:
        if isinstance(step, LibraryStep) and step.name == "control":
            step = _completed(step.params["eqn"], compile_body, constant)
        out.append(step)
    return program.replace(consts=tuple(consts)), out


def _completed(
    eqn: Eqn, compile_body: Callable[[Program], Any], constant: Callable[[np.ndarray], Var]
) -> LibraryStep:
    bodies = []
    for body in bodies_of(eqn):
        found = body.cache.get("body")
        if found is None:
            found = body.cache["body"] = compile_body(body)
        bodies.append(found)
    operands = [constant(np.asarray(a.value)) if isinstance(a, Lit) else a for a in eqn.inputs]
    extra = [constant(x) for body in bodies for x in body.consts]
    extra += [constant(np.asarray(lit.value)) for body in bodies for _, lit in body.literals]
    offset = _aligned(max([body.arena_bytes for body in bodies]))
    sizes = [v.aval.size * v.aval.dtype.itemsize for v in eqn.outputs]
    places = []
    for size in [*sizes, 1]:
        places.append(offset)
        offset += _aligned(size)
    scratch = Var(Aval((offset,), np.dtype(np.uint8)))
    control = Control(eqn, tuple(bodies), tuple(places))
    args = (*operands, *eqn.outputs, *extra, scratch)
    return LibraryStep("control", {"control": control}, args, ())


def _aligned(size: int) -> int:
    return max(ALIGNMENT, -(-size // ALIGNMENT) * ALIGNMENT)
