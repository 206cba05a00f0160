"""L5. A compiled program -> its work: the native function and slots that an entry calls."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from fgrad.base.sizes import value_of
from fgrad.compile.entry.table import Work
from fgrad.compile.host.program import Call, Callback, Step
from fgrad.compile.kernel.machine import (
    FLOPS_PER_CYCLE,
    FUSED_CYCLES,
    RELEASE_CYCLES,
    UNKNOWN_CYCLES,
)
from fgrad.ir.program import Eqn, Program
from fgrad.ir.traits import Holds
from fgrad.ir.walk import communicates
from fgrad.ops.dot import dot_general_p

if TYPE_CHECKING:
    from fgrad.compile.cpu.executable import Executable


def work_of(program: Program, executable: Executable) -> Work:
    """The native form of a compiled program.

    The slots of a host program are inputs, constants, outputs, arena.  A program that is one kernel
    on some of these needs no host program: the slots are given in the kernel's order.
    """
    host = executable.host
    inputs, outputs = len(executable.in_avals), len(executable.out_avals)
    place = list(range(host.given))
    run, table, extent = host.interpreter, host.address, 0
    step = whole(host.steps, host.given)
    if step is not None:
        run, table, extent = step.address, 0, step.hi
        order = [*step.slots, *(k for k in range(host.given) if k not in step.slots)]
        for position, slot in enumerate(order):
            place[slot] = position
    first_out = inputs + len(executable.consts)
    known = [(k, np.array(literal.value)) for k, literal in executable.literals]
    callbacks = [kept for kept in host.keep if isinstance(kept, Callback)]
    return Work(
        run=run,
        table=table,
        extent=extent,
        slots=host.given,
        inputs=place[:inputs],
        outputs=place[first_out : first_out + outputs],
        arena=(place[-1], executable.arena_bytes),
        constants=list(zip(place[inputs:first_out], executable.const_pointers, strict=True)),
        fills=[(place[first_out + k], x.ctypes.data, x.nbytes) for k, x in known],
        lends=executable.image.reuse,
        release=bool(callbacks) or _meets(program) or runs_long(program),  # arguments are then held
        after=callbacks[0].reraise if callbacks else None,  # what any of them has raised
        keep=(executable, known),
    )


def _meets(program: Program) -> bool:
    return any([communicates(eqn) for eqn in program.eqns])


def whole(steps: Sequence[Step], given: int) -> Call | None:
    """The only step, if it is a kernel on different given slots that starts its range at 0."""
    step = steps[0] if len(steps) == 1 else None
    if type(step) is not Call or step.lo != 0:
        return None
    slots = step.slots
    return step if len(set(slots)) == len(slots) and all([slot < given for slot in slots]) else None


def runs_long(program: Program) -> bool:
    """Whether a program is likely to run longer than it takes to let another thread go on."""
    return cycles_of(program) > RELEASE_CYCLES


def cycles_of(program: Program) -> float:
    """A rough guess, which knows the size of arrays and little else."""
    cycles = 0.0
    for eqn in program.eqns:
        cycles += _cycles(eqn)
        if type(cycles) is float and cycles > RELEASE_CYCLES:
            break
    return cycles


def _cycles(eqn: Eqn) -> float:
    prim = eqn.prim
    if prim.holds is Holds.CALL:
        return cycles_of(eqn.params["program"])
    if prim.holds is not None:
        return RELEASE_CYCLES + 1
    sizes = [atom.aval.size for atom in (*eqn.inputs, *eqn.outputs)]
    if prim is dot_general_p:
        a, b, out = sizes
        return 2.0 * (1.0 * a * b * out) ** 0.5 / FLOPS_PER_CYCLE
    if prim.contracts:  # a convolution
        return 2.0 * sizes[-1] * sizes[1] / FLOPS_PER_CYCLE
    largest = max(sizes, key=value_of, default=1)
    return largest * (FUSED_CYCLES if eqn.prim.scalar or eqn.prim.linear_in else UNKNOWN_CYCLES)
