"""L5. From a jitted call to a native signature: what the native entry needs of a program."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from fgrad import tree
from fgrad.compile.cpu.entry.native import NativeCalls
from fgrad.compile.cpu.entry.outside import address
from fgrad.compile.cpu.entry.table import Parameters, Results, Signature, Work
from fgrad.compile.cpu.executable import Executable
from fgrad.compile.host.program import Call, Callback
from fgrad.compile.kernel.machine import (
    FLOPS_PER_CYCLE,
    FUSED_CYCLES,
    RELEASE_CYCLES,
    UNKNOWN_CYCLES,
)
from fgrad.config import config
from fgrad.ir.program import Eqn, Program
from fgrad.ir.traits import Holds
from fgrad.ops import primitives as prims
from fgrad.tracing.outside.watches import Number


def learn(
    calls: NativeCalls,
    callee: Any,
    parameters: Parameters,
    program: Program,
    executable: Executable,
    out_tree: tree.TreeDef,
    leaves: Sequence[int] | None = None,
    writes: Sequence[int] = (),
) -> Signature | None:
    """Make calls like this one native from now on; None if that is not possible.

    Arguments:
        calls: the callee's signatures.
        callee: the jitted function.
        parameters: the call's arguments.
        program: what computes the results' leaves from the arguments' leaves.
        executable: its compiled form.
        out_tree: the structure of the result.
        leaves, writes: see `Results`; None if the results are the outputs.
    """
    avals = executable.out_avals
    leaves = range(len(avals)) if leaves is None else leaves
    results = Results(avals, out_tree, config.recycle, list(leaves), writes)
    work = taking(work_of(program, executable), parameters)
    learned = calls.learn(callee, parameters, results, work)
    if learned is not None:
        executable.runs_natively()
    return learned


def taking(work: Work, parameters: Parameters) -> Work:
    """The work with the arrays and numbers from outside, its first inputs, in their places."""
    given = parameters.watches.given
    count = len(given)
    if not count:
        return work
    both = list(zip(work.inputs, given, strict=False))
    arrays = [(slot, address(x)) for slot, x in both if not isinstance(x, Number)]
    return work._replace(
        inputs=work.inputs[count:],
        constants=[*arrays, *work.constants],
        lends=[(out, k - count) for out, k in work.lends],
        numbers=[(slot, x) for slot, x in both if isinstance(x, Number)],
    )


def work_of(program: Program, executable: Executable) -> Work:
    """The native form of a compiled program.

    The slots of a host program are inputs, constants, outputs, arena.  A program that is one kernel
    on some of these needs no host program: the slots are given in the kernel's order.
    """
    host = executable.host
    inputs, outputs = len(executable.in_avals), len(executable.out_avals)
    place = list(range(host.given))
    run, table, extent = host.interpreter, host.address, 0
    if len(host.steps) == 1 and _is_whole(host.steps[0], host.given):
        step: Any = host.steps[0]
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
        release=bool(callbacks) or runs_long(program),  # arguments are then held
        after=(lambda: _reraise(callbacks)) if callbacks else None,
        keep=(executable, known),
    )


def _is_whole(step: object, given: int) -> bool:
    """Whether a step is a kernel on different given slots, from the beginning of its range."""
    return (
        type(step) is Call
        and step.lo == 0
        and len(set(step.slots)) == len(step.slots)
        and all([slot < given for slot in step.slots])
    )


def _reraise(callbacks: Sequence[Callback]) -> None:
    for callback in callbacks:
        callback.reraise()


def runs_long(program: Program) -> bool:
    """Whether a program is likely to run longer than it takes to let another thread go on."""
    cycles = 0.0
    for eqn in program.eqns:
        cycles += _cycles(eqn)
        if cycles > RELEASE_CYCLES:
            return True
    return False


def _cycles(eqn: Eqn) -> float:
    """A rough guess, which knows the size of arrays and little else."""
    prim = eqn.prim
    if prim.holds is Holds.CALL:
        return RELEASE_CYCLES + 1 if runs_long(eqn.params["program"]) else 0.0
    if prim.holds is not None:
        return RELEASE_CYCLES + 1
    sizes = [atom.aval.size for atom in (*eqn.inputs, *eqn.outputs)]
    largest = max(sizes, default=1)
    if prim is prims.dot_general:
        a, b, out = sizes
        return 2.0 * math.sqrt(float(a) * b * out) / FLOPS_PER_CYCLE
    if prim is prims.conv:
        return 2.0 * sizes[-1] * sizes[1] / FLOPS_PER_CYCLE
    return largest * (FUSED_CYCLES if eqn.prim.scalar or eqn.prim.linear_in else UNKNOWN_CYCLES)
