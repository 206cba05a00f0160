"""L5. A compiled program: a native host program over a table of buffers.

The table's first slots are the inputs, the constants, the outputs and the arena; the rest are
places in the arena and views, derived from those by the host program itself.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from fgrad.compile.cpu.c_loops import c_loop
from fgrad.compile.cpu.complex_parts import complex_parts
from fgrad.compile.cpu.external import external
from fgrad.compile.cpu.kernels import HOST_MEMORY, kernel_call
from fgrad.compile.cpu.lapack_factors import LAPACK, cycles
from fgrad.compile.cpu.library import (
    pieces,
    product_code,
    product_sources,
)
from fgrad.compile.cpu.rows.search import row_search
from fgrad.compile.cpu.rows.sorting import sort_rows
from fgrad.compile.cpu.rows.top import row_top
from fgrad.compile.cpu.rows.walks import row_walk
from fgrad.compile.cpu.shared import shared_sources
from fgrad.compile.cpu.spare_memory import check
from fgrad.compile.cpu.ufunc_loops import UfuncLoop, ufunc_loop
from fgrad.compile.host.callback import evaluation
from fgrad.compile.host.control import control_steps
from fgrad.compile.host.program import Call, Callback, Copy, HostProgram, Share, Step, shared_call
from fgrad.compile.host.table import Table
from fgrad.compile.kernel.ir import Kernel
from fgrad.compile.kernel.machine import CALL_CYCLES, LINE_BYTES
from fgrad.compile.llvm.runtime import build_counted
from fgrad.compile.tasks.plan import Plan, Slot
from fgrad.compile.tasks.routines import (
    ComplexParts,
    Control,
    Evaluation,
    Gemm,
    MatrixRoutine,
    RowSearch,
    RowSort,
    RowTop,
    RowWalk,
    SpecialFunction,
)
from fgrad.compile.tasks.steps import KernelStep, LibraryStep
from fgrad.ir.aval import Aval
from fgrad.ir.program import Lit, Program

KEPT_BYTES = 64 << 20  # the largest arena that a thread keeps between calls


# What has native code: a routine of a step, or what stands for a call of the host.
NativeTask: TypeAlias = (
    Gemm
    | RowSort
    | RowTop
    | RowWalk
    | RowSearch
    | ComplexParts
    | MatrixRoutine
    | SpecialFunction
    | UfuncLoop
    | Evaluation
)


class Image(NamedTuple):
    """What an executable is made of.

    `origins` says of each address among the steps which kernel (by its symbol) or routine it is.
    """

    in_avals: tuple[Aval, ...]
    out_avals: tuple[Aval, ...]
    consts: list[np.ndarray]
    literals: list[tuple[int, Lit]]
    arena_bytes: int
    given: int
    steps: tuple[Step, ...]
    origins: dict[int, str | NativeTask]
    callbacks: tuple[Callback, ...]
    reuse: tuple[tuple[int, int], ...] = ()  # outputs that may take the memory of donated inputs


def link(program: Program, plan: Plan) -> Executable:
    """The native form of a planned program."""
    code = _native_code(plan)
    consts = [*[np.ascontiguousarray(array) for _, array in program.consts], *code.arrays()]
    table = _Linking(program, code)
    body = _native_steps(plan, table)
    body += [
        Copy(table.number(Slot("output", k)), table.number(plan.slots[v]), _bytes(v))
        for v, k in plan.copies
    ]
    return Executable(
        Image(
            program.in_avals,
            program.out_avals,
            consts,
            plan.literals,
            plan.arena_bytes,
            table.given,
            (*table.places, *body),
            table.origins,
            tuple(table.callbacks),
            plan.reuse,
        )
    )


class Executable:
    """Runs a planned program on C-contiguous native arrays."""

    def __init__(self, image: Image) -> None:
        self.image = image
        self.in_avals = image.in_avals
        self.out_avals = image.out_avals
        self.consts = image.consts
        self.literals = image.literals
        self.arena_bytes = image.arena_bytes
        self.const_pointers = [x.ctypes.data for x in image.consts]
        self.host = HostProgram(image.steps, image.given, image.callbacks)
        self.empty = not image.steps
        self.keeps_arena = True

    def runs_natively(self) -> None:
        """Calls are made by native code from now on, whose arenas come from a pool of its own."""
        self.keeps_arena = False
        _ARENAS.kept = None

    def seen_as(self, in_avals: Sequence[Aval], out_avals: Sequence[Aval]) -> Executable:
        """The same for arguments and results of other dtypes of the same sizes."""
        image = self.image._replace(in_avals=tuple(in_avals), out_avals=tuple(out_avals))
        return Executable(image)

    def __call__(self, args: Sequence[np.ndarray]) -> list[Any]:
        """The results: fresh arrays; rank-0 ones as NumPy scalars."""
        lent = self._lent(args) if self.image.reuse and not self.image.callbacks else {}
        outs = [
            np.empty(a.shape, a.dtype) if k not in lent else lent[k]
            for k, a in enumerate(self.out_avals)
        ]
        if not self.empty:
            arena = _ARENAS.take(self.arena_bytes + LINE_BYTES)
            self.host.run(_given(args, self.const_pointers, outs, arena))
            if self.keeps_arena:
                _ARENAS.give(arena)
        for k, literal in self.literals:
            outs[k][...] = literal.value
        return [x if x.ndim else x[()] for x in outs]

    def _lent(self, args: Sequence[np.ndarray]) -> dict[int, np.ndarray]:
        """The outputs that take the memory of an argument: one that owns it alone.

        Not where a step may fail: arguments are then as they were.
        """
        starts = [x.ctypes.data for x in args]
        shared: set[int] = set()
        reach, holder = -1, -1
        for i in sorted(range(len(args)), key=starts.__getitem__):
            if starts[i] < reach:
                shared |= {i, holder}
            if starts[i] + args[i].nbytes > reach:
                reach, holder = starts[i] + args[i].nbytes, i
        return {
            k: args[i]
            for k, i in self.image.reuse
            if i not in shared and args[i].base is None and args[i].flags.writeable
        }


def _given(
    args: Sequence[np.ndarray], consts: list[int], outs: Sequence[np.ndarray], arena: np.ndarray
) -> list[int]:
    """The first entries of the table: arguments, constants, results, the aligned arena."""
    pointers = [x.ctypes.data for x in args]
    pointers += consts
    pointers += [x.ctypes.data for x in outs]
    pointers.append(-(-arena.ctypes.data // LINE_BYTES) * LINE_BYTES)
    return pointers


class StepPrograms:
    """The steps of a plan as programs of their own, so that each can be timed."""

    def __init__(self, program: Program, plan: Plan) -> None:
        code = _native_code(plan)
        consts = [*[np.ascontiguousarray(array) for _, array in program.consts], *code.arrays()]
        table = _Linking(program, code)
        bodies = [_native_steps(plan._replace(steps=[step]), table) for step in plan.steps]
        self.consts, self.out_avals = consts, program.out_avals
        self.arena_bytes = plan.arena_bytes
        given, places = table.given, table.places
        self.programs = [HostProgram((*places, *body), given, table.callbacks) for body in bodies]
        self.empty = HostProgram(tuple(places), given, ())

    def bound(self, args: Sequence[np.ndarray]) -> Callable[[int], None]:
        """A function that runs step k on these arguments; steps must run in order."""
        outs = [np.empty(a.shape, a.dtype) for a in self.out_avals]
        arena = np.empty(self.arena_bytes + LINE_BYTES, np.uint8)
        pointers = _given(args, [x.ctypes.data for x in self.consts], outs, arena)
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


class _Arenas(threading.local):
    """The arena of this thread's last call, for its next one."""

    kept: np.ndarray | None = None

    def take(self, size: int) -> np.ndarray:
        """At least `size` bytes that nobody else uses until they are given back."""
        kept, self.kept = self.kept, None
        return kept if kept is not None and kept.size >= size else np.empty(size, np.uint8)

    def give(self, arena: np.ndarray) -> None:
        """Keep an arena, unless it is too large to hold on to."""
        if arena.size <= KEPT_BYTES:
            self.kept = arena


_ARENAS = _Arenas()


def _bytes(var: Any) -> int:
    return var.aval.size * var.aval.dtype.itemsize


class _Code(NamedTuple):
    """The machine code of a plan; tables of numbers are the last constants of the program."""

    kernels: dict[int, Call | Share]  # by identity; the last slot is the number of the table
    symbols: dict[int, str]
    tables: dict[tuple[int, ...], int]

    def arrays(self) -> list[np.ndarray]:
        """The tables."""
        return [np.array(table, np.int64) for table in self.tables]


def _native_code(plan: Plan) -> _Code:
    """Machine code for the kernels of a plan, and for what its products call."""
    distinct = {id(s.kernel): s.kernel for s in plan.steps if isinstance(s, KernelStep)}
    kernels = list(dict.fromkeys(distinct.values()))
    sources = shared_sources(kernels)
    codes = [source for source, _ in sources]
    addresses = build_counted([*codes, *product_sources(_products(plan))])[: len(codes)]
    tables: dict[tuple[int, ...], int] = {}
    calls: dict[Kernel, Call | Share] = {}
    for kernel, address, (_, table) in zip(kernels, addresses, sources, strict=True):
        last = (tables.setdefault(table, len(tables)),) if table else ()
        calls[kernel] = kernel_call(kernel, address, last)
    for product in _products(plan):
        tables.setdefault(product_code(product).table, len(tables))
    calls_by_place = {place: calls[kernel] for place, kernel in distinct.items()}
    return _Code(calls_by_place, {a: a.symbol for a in addresses}, tables)


def _products(plan: Plan) -> list[Gemm]:
    routines = [s.routine for s in plan.steps if isinstance(s, LibraryStep)]
    return list(dict.fromkeys([r for r in routines if isinstance(r, Gemm)]))


class _Linking(Table):
    """A table of slots, and what each address among the steps is."""

    def __init__(self, program: Program, code: _Code) -> None:
        consts = len(program.consts) + len(code.tables)
        super().__init__(len(program.inputs), consts, len(program.outputs))
        self.origins: dict[int, str | NativeTask] = {}
        self.kernels, self.symbols = code.kernels, code.symbols
        first = self.first["const"] + len(program.consts)
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
                table.origins.update(body.image.origins)
                table.callbacks += body.image.callbacks
            numbers = tuple([table.number(plan.slots[v]) for v in step.args])
            steps += control_steps(control, numbers, table.reserve, HOST_MEMORY)
        else:
            steps += _library_calls(step, plan, table)
    return steps


class NativeRoutine(NamedTuple):
    """A routine in memory: its address, its range, the cycles of all of it if it may be shared
    among threads, and what notes its failures."""

    address: int
    extent: int
    cost: float
    callback: Callback | None
    table: tuple[int, ...] = ()  # the last buffer


def native_routine(routine: NativeTask) -> NativeRoutine:
    """The code of a routine."""
    return _NATIVE[type(routine)](routine)


def _host_call(call: Evaluation) -> NativeRoutine:
    callback = evaluation(call.eqn)
    return NativeRoutine(callback.address, 1, 0.0, callback)


def _product(gemm: Gemm) -> NativeRoutine:
    cut = pieces(gemm)
    address, table = product_code(gemm)
    return NativeRoutine(address, cut.count, cut.count * cut.cycles, None, table)


def _matrix_routine(routine: MatrixRoutine) -> NativeRoutine:
    params = dict(routine.params)
    native = LAPACK[routine.name](**params)
    cost = cycles(routine.name, **params)
    return NativeRoutine(native.address, routine.batch, cost, native.failure)


def _special(f: SpecialFunction) -> NativeRoutine:
    return NativeRoutine(external(f), f.size, CALL_CYCLES * f.size, None)


def _ufunc(loop: UfuncLoop) -> NativeRoutine:
    failure = check(loop.buffers)[1] if loop.bytes_needed else None
    return NativeRoutine(ufunc_loop(loop), loop.size, loop.cycles, failure)


_NATIVE: dict[type, Callable[[Any], NativeRoutine]] = {
    Evaluation: _host_call,
    Gemm: _product,
    ComplexParts: lambda parts: NativeRoutine(complex_parts(parts), parts.size, 0.0, None),
    UfuncLoop: _ufunc,
    SpecialFunction: _special,
    MatrixRoutine: _matrix_routine,
    RowSearch: lambda r: NativeRoutine(row_search(r), r.pieces, r.cycles, None),
    RowTop: lambda r: NativeRoutine(row_top(r), r.pieces, r.cycles, None),
    RowWalk: lambda r: NativeRoutine(row_walk(r), r.pieces, r.cycles, None),
    RowSort: lambda r: NativeRoutine(sort_rows(r), r.pieces, r.cycles, None),
}
NATIVE_TASKS = {task.__name__: task for task in _NATIVE}


def _library_calls(step: LibraryStep, plan: Plan, table: _Linking) -> list[Step]:
    routine: Any = step.routine
    if isinstance(routine, Evaluation):
        routine = c_loop(routine.eqn) or routine
    address, extent, cost, callback, words = native_routine(routine)
    last = [table.tables[words]] if words else []
    table.origins[address] = routine
    table.callbacks += [callback] if callback is not None else []
    slots = [plan.slots[v] for v in step.args]
    steps: list[Step] = []
    for offsets in step.offsets:
        numbers = [table.number(s, at) for s, at in zip(slots, offsets, strict=True)] + last
        # Each piece of a product copies the other operand anew: few pieces.
        each = 2 if isinstance(routine, Gemm) else 4
        steps.append(shared_call(address, extent, 1, cost, tuple(numbers), each))
        if isinstance(routine, UfuncLoop) and callback is not None:
            steps.append(Call(check(routine.buffers)[0], 0, 1, tuple(numbers)))
    return steps
