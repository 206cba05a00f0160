"""L5. The CPU's `build`: the steps of a planned program -> an executable.

Machine code of its kernels and routines comes from the store or from LLVM; this is loaded when a
program is compiled, not when one is found in the cache.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable, Sequence

import numpy as np

from fgrad.base.named_tuple import NamedTuple
from fgrad.base.size_functions import symbolic_array
from fgrad.compile.cpu.c_loops import c_loop
from fgrad.compile.cpu.executable import Executable, Image, given_pointers
from fgrad.compile.cpu.kernels import HOST_MEMORY, kernel_call
from fgrad.compile.cpu.library import product_sources
from fgrad.compile.cpu.native_routines import NativeTask, native_routine
from fgrad.compile.cpu.shared import shared_sources
from fgrad.compile.cpu.spare_memory import check
from fgrad.compile.cpu.ufunc_loops import UfuncLoop
from fgrad.compile.host.control import control_steps
from fgrad.compile.host.program import Call, Copy, HostProgram, Share, Step
from fgrad.compile.host.sharing import shared_call
from fgrad.compile.host.table import Table
from fgrad.compile.kernel.ir import Kernel
from fgrad.compile.kernel.machine import LINE_BYTES
from fgrad.compile.llvm.runtime import build_counted
from fgrad.compile.tasks.plan import Plan, Slot
from fgrad.compile.tasks.routines import (
    Control,
    Evaluation,
    FusedProduct,
    Gemm,
    Routine,
    RowWalk,
    Unbuilt,
    label_of,
)
from fgrad.compile.tasks.steps import KernelStep, LibraryStep
from fgrad.errors import CheckError
from fgrad.ir.program import Program, Var


def link(program: Program, plan: Plan) -> Executable:
    """The native form of a planned program."""
    table = _Linking(program, plan)
    body = _native_steps(plan, table)
    body += [
        Copy(table.number(Slot("output", k)), table.number(plan.slots[v]), _bytes(v))
        for v, k in plan.copies
    ]
    return Executable(
        Image(
            program.in_avals,
            program.out_avals,
            table.consts,
            plan.literals,
            plan.arena_bytes,
            table.given,
            (*table.places, *body),
            table.origins,
            tuple(table.callbacks),
            plan.reuse,
        )
    )


class StepPrograms:
    """The steps of a plan as programs of their own, so that each can be timed."""

    def __init__(self, program: Program, plan: Plan) -> None:
        table = _Linking(program, plan)
        bodies = [_native_steps(plan._replace(steps=[step]), table) for step in plan.steps]
        self.consts, self.out_avals = table.consts, program.out_avals
        self.arena_bytes = plan.arena_bytes
        given, places = table.given, table.places
        self.programs = [HostProgram((*places, *body), given, table.callbacks) for body in bodies]
        self.empty = HostProgram(tuple(places), given, ())

    def bound(self, args: Sequence[np.ndarray]) -> Callable[[int], None]:
        """A function that runs step k on these arguments; steps must run in order."""
        outs = [np.empty(a.shape, a.dtype) for a in self.out_avals]
        arena = np.empty(self.arena_bytes + LINE_BYTES, np.uint8)
        pointers = given_pointers(args, [x.ctypes.data for x in self.consts], outs, arena)
        self.pointers, self.kept = pointers, (*args, *outs, arena)
        return lambda k: self.programs[k].run(pointers)

    def overhead(self) -> float:
        """The seconds that a program without steps takes."""
        samples = []
        for _ in range(20):
            start = time.perf_counter()
            self.empty.run(self.pointers)
            samples.append(time.perf_counter() - start)
        return min(samples)


def _bytes(var: Var) -> int:
    return var.aval.size * var.aval.dtype.itemsize


class _Code(NamedTuple):
    """The machine code of a plan; tables of numbers are the last constants of the program."""

    kernels: dict[int, Call | Share]  # by identity; the last slot is the number of the table
    symbols: dict[int, str]
    tables: dict[tuple[int, ...], int]

    def arrays(self) -> list[np.ndarray]:
        """The tables."""
        return [symbolic_array(table) for table in self.tables]


def skeleton(program: Program) -> Hashable:
    """What is the same in a program for any sizes: its operations, the types of its results."""
    return tuple(
        [(e.prim, *[(v.aval.dtype, v.aval.ndim) for v in e.outputs]) for e in program.eqns]
    )


def _native_code(plan: Plan, program: Hashable) -> _Code:
    """Machine code for the kernels of a plan, and for what its products call."""
    distinct = {id(s.kernel): s.kernel for s in plan.steps if isinstance(s, KernelStep)}
    kernels = list(dict.fromkeys(distinct.values()))
    sources = shared_sources(kernels, program)
    codes = [source for source, _ in sources]
    routines = _tabled(plan)
    products = product_sources([r for r in routines if isinstance(r, Gemm)])
    addresses = build_counted([*codes, *products])[: len(codes)]
    tables: dict[tuple[int, ...], int] = {}
    calls: dict[Kernel, Call | Share] = {}
    for kernel, address, (_, table) in zip(kernels, addresses, sources, strict=True):
        last = (tables.setdefault(table, len(tables)),) if table else ()
        calls[kernel] = kernel_call(kernel, address, last)
    for routine in routines:
        tables.setdefault(native_routine(routine).table, len(tables))
    calls_by_place = {place: calls[kernel] for place, kernel in distinct.items()}
    return _Code(calls_by_place, {a: a.symbol for a in addresses}, tables)


def _tabled(plan: Plan) -> list[Gemm | RowWalk]:
    """The distinct routines whose last buffer is a table."""
    routines = [s.routine for s in plan.steps if isinstance(s, LibraryStep)]
    return list(dict.fromkeys([r for r in routines if isinstance(r, (Gemm, RowWalk))]))


def native_task(routine: Routine) -> NativeTask:
    """What computes a routine here: for an equation a loop in C, or Python's evaluation.

    Raises:
        CheckError: it is for another device, or its bodies are not compiled.
    """
    if isinstance(routine, Evaluation):
        return c_loop(routine.eqn) or routine
    if isinstance(routine, (FusedProduct, Unbuilt, Control)):
        raise CheckError(f"{label_of(routine)} is no single call on the CPU.")
    return routine


class _Linking(Table):
    """The slots of a plan, its code and constants, and what each address among the steps is."""

    def __init__(self, program: Program, plan: Plan) -> None:
        code = _native_code(plan, skeleton(program))
        given = [np.ascontiguousarray(array) for _, array in program.consts]
        self.consts = [*given, *code.arrays()]
        super().__init__(len(program.inputs), len(self.consts), len(program.outputs))
        self.origins: dict[int, str | NativeTask] = {}
        self.kernels, self.symbols = code.kernels, code.symbols
        first = self.first["const"] + len(given)
        self.tables = {table: first + k for table, k in code.tables.items()}
        self.first_table = first


def _native_steps(plan: Plan, table: _Linking) -> list[Step]:
    steps: list[Step] = []
    for step in plan.steps:
        if isinstance(step, KernelStep):
            call = table.kernels[id(step.kernel)]
            table.origins[call.address] = table.symbols[call.address]
            numbers = [table.number(plan.slots[v]) for v in step.args]
            numbers += [table.first_table + number for number in call.slots]
            steps.append(call._replace(slots=tuple(numbers)))
        elif isinstance(step.routine, Control):
            control = step.routine
            for body in control.bodies:
                image = body.image
                assert isinstance(image, Image)
                table.origins.update(image.origins)
                table.callbacks += image.callbacks
            numbers = tuple([table.number(plan.slots[v]) for v in step.args])
            steps += control_steps(control, numbers, table.reserve, HOST_MEMORY)
        else:
            steps += _library_calls(step, plan, table)
    return steps


def _library_calls(step: LibraryStep, plan: Plan, table: _Linking) -> list[Step]:
    routine = native_task(step.routine)
    address, extent, cost, callback, words, grain = native_routine(routine)
    last = [table.tables[words]] if words else []
    table.origins[address] = routine
    table.callbacks += [callback] if callback is not None else []
    slots = [plan.slots[v] for v in step.args]
    steps: list[Step] = []
    for offsets in step.offsets:
        numbers = [table.number(s, at) for s, at in zip(slots, offsets, strict=True)] + last
        # Each piece of a product copies the other operand anew: few pieces.
        each = 2 if isinstance(routine, Gemm) else 4
        steps.append(shared_call(address, extent, grain, cost, tuple(numbers), each))
        if isinstance(routine, UfuncLoop) and callback is not None:
            steps.append(Call(check(routine.buffers)[0], 0, 1, tuple(numbers)))
    return steps
