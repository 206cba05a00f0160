"""L6. Steps over slots -> the calls of a host program.

    KernelStep    launches(kernel)          a launch for each piece, with scratch behind the arena
    LibraryStep   library.calls_of          launches, functions of libraries, copies
    control       control_steps             the same steps as on the CPU, on memory of the device
    copies of results, and results that are literals, which are constants here

Equal kernels are compiled and loaded once.
"""

from __future__ import annotations

import ctypes
import itertools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from fgrad.base.named_tuple import NamedTuple
from fgrad.compile.host import program as native
from fgrad.compile.host.callback import evaluation
from fgrad.compile.host.control import Memory, control_steps
from fgrad.compile.host.program import Callback, Step
from fgrad.compile.host.table import Table
from fgrad.compile.kernel.ir import Kernel
from fgrad.compile.kernel.machine import LINE_BYTES
from fgrad.compile.tasks.plan import Plan, Slot
from fgrad.compile.tasks.routines import Control
from fgrad.compile.tasks.steps import KernelStep, LibraryStep
from fgrad.ir.aval import Aval
from fgrad.ir.program import Eqn, Program, Var
from fgrad.ir.traits import Holds
from fgrad.ir.walk import definitions
from fgrad.lower_cuda.device.array import ALIGNMENT as VECTOR_BYTES
from fgrad.lower_cuda.device.driver import Driver
from fgrad.lower_cuda.emit.calls import (
    Address,
    Call,
    Calls,
    Check,
    CopyCall,
    FillCall,
    FunctionCall,
    KernelCall,
)
from fgrad.lower_cuda.host import (
    CELL,
    ERROR,
    WORD,
    LaunchRecord,
    function_caller,
    function_record,
    functions,
    launch_record,
    signature,
)
from fgrad.lower_cuda.library.steps import calls_of
from fgrad.lower_cuda.schedule import launches

CAPTURED = ("cublas", "cufft", "cudnn")  # libraries whose functions may be part of a graph

_NUMBERS = itertools.count(1)  # of steps, so that those of bodies are different from ours


class Origin(NamedTuple):
    """What a step is of, for reports: a kernel or a function, with its grid, block and the bytes
    of its buffers; `loc` is the user's line."""

    name: str
    loc: Any = None
    grid: int = 0
    block: tuple[int, int] = (0, 0)
    nbytes: int = 0


_COPY = Origin("copy")


class Image(NamedTuple):
    """What an executable is made of.

    `origins` says of each number of a step what it is; `listing` has the numbers in order, with the
    loops and branches that they are in.  `graphable` are the addresses of functions, or of the
    records of libraries' functions, that may be part of a graph; `kept` is what native code reads.
    """

    in_avals: tuple[Aval, ...]
    out_avals: tuple[Aval, ...]
    consts: list[np.ndarray]
    arena_bytes: int
    given: int
    steps: tuple[Step, ...]
    callbacks: tuple[Callback, ...]
    reuse: tuple[tuple[int, int], ...]
    origins: dict[int, Origin]
    listing: tuple[tuple[tuple[str, ...], int], ...]
    graphable: frozenset[int]
    kept: tuple[object, ...]


def linked(program: Program, plan: Plan, driver: Driver) -> Image:
    """The steps of a planned program as calls of the driver's functions."""
    consts = [np.ascontiguousarray(array) for _, array in program.consts]
    literals = [np.asarray(literal.value).reshape(1) for _, literal in plan.literals]
    table = Table(len(program.inputs), len(consts) + len(literals), len(program.outputs), 1)
    linker = _Linker(program, plan, driver, table)
    for step in plan.steps:
        linker.step(step)
    copies = [(plan.slots[v], k, v.aval) for v, k in plan.copies]
    for n, (k, literal) in enumerate(plan.literals):
        copies.append((Slot("const", len(consts) + n), k, literal.aval))
    for source, k, aval in copies:
        numbers = table.number(Slot("output", k)), table.number(source)
        linker.steps.append(linker.copy(numbers[0], numbers[1], _bytes(aval)))
    return Image(
        in_avals=program.in_avals,
        out_avals=program.out_avals,
        consts=[*consts, *literals],
        arena_bytes=linker.arena_bytes,
        given=table.given,
        steps=(*table.places, *linker.steps),
        callbacks=tuple(table.callbacks),
        reuse=plan.reuse,
        origins=linker.origins,
        listing=tuple(linker.listing),
        graphable=frozenset(linker.graphable),
        kept=tuple(linker.kept),
    )


def _bytes(aval: Aval) -> int:
    return aval.size * aval.dtype.itemsize


class _Linker:
    """Collects the steps of a host program, and what they need."""

    def __init__(self, program: Program, plan: Plan, driver: Driver, table: Table) -> None:
        self.plan, self.driver, self.table = plan, driver, table
        self.defined = definitions(program.eqns)
        self.state = table.given - 1
        self.first_scratch = -(-plan.arena_bytes // LINE_BYTES) * LINE_BYTES
        self.arena_bytes = plan.arena_bytes
        self.native = functions()
        self.graphable = {self.native.launch, self.native.copy, self.native.fill}
        self.steps: list[Step] = []
        self.origins: dict[int, Origin] = {}
        self.listing: list[tuple[tuple[str, ...], int]] = []
        self.inside: tuple[str, ...] = ()
        self.kept: list[object] = []

    def step(self, step: KernelStep | LibraryStep) -> None:
        """Add the calls of a step of the plan."""
        slots = [self.plan.slots[v] for v in step.args]
        numbers = [self.table.number(slot) for slot in slots]
        made = [self.defined[v] for v in step.args if v in self.defined]
        loc = made[-1].loc if made else None  # of what the step computes last
        if isinstance(step, KernelStep):
            name = made[-1].prim.name if made else step.kernel.name
            self.steps += self.kernel(step.kernel, numbers, name, loc)
        elif isinstance(step.routine, Control):
            self.steps += self.control(step.routine, numbers, loc)
        else:
            sizes = [_bytes(v.aval) for v in step.args]
            eqn = made[-1] if made else None
            self.steps += self.calls(calls_of(step, eqn), numbers, step.name, loc, sum(sizes))

    def kernel(self, kernel: Kernel, numbers: Sequence[int], name: str, loc: object) -> list[Step]:
        """The launches of a kernel on the buffers of these slots."""
        sizes = [b.size * b.dtype.itemsize for b in kernel.buffers if b.role != "scratch"]
        return self.calls(launches(kernel), numbers, name, loc, sum(sizes))

    def calls(
        self, calls: Calls, numbers: Sequence[int], name: str, loc: object, nbytes: int = 0
    ) -> list[Step]:
        """The steps of calls whose first places are the buffers of these slots."""
        areas, end = [], self.first_scratch
        for size in calls.scratch:
            areas.append(end)
            end += -(-size // LINE_BYTES) * LINE_BYTES
        self.arena_bytes = max(self.arena_bytes, end if areas else 0)

        def slot(place: Address) -> int:
            if place.number >= len(numbers):
                at = areas[place.number - len(numbers)]
                return self.table.place(self.table.arena, at + place.offset)
            number = numbers[place.number]
            return self.table.place(number, place.offset) if place.offset else number

        made = [self.call(call, slot, Origin(name, loc, nbytes=nbytes)) for call in calls.calls]
        return [step for step in made if step is not None]

    def call(self, call: Call, slot: Callable[[Address], int], origin: Origin) -> Step | None:
        """The step of one call; None if there is nothing to do."""
        if isinstance(call, KernelCall):
            return self.launch(call, slot, origin) if call.grid else None
        if isinstance(call, FunctionCall):
            return self.function(call, slot, origin)
        if isinstance(call, CopyCall):
            return self.copy(slot(call.target), slot(call.source), call.nbytes, origin)
        if isinstance(call, FillCall):
            number = self.number(origin._replace(name=f"fill in {origin.name}")) << 8 | call.value
            return self.made(self.native.fill, call.nbytes, number, [slot(call.target)])
        if isinstance(call, Check):
            return self.callback(_check(self.driver, call), [slot(call.flags)], origin)
        evaluate = _evaluated(self.driver, call.eqn)
        origin = origin._replace(name=call.eqn.prim.name)
        return self.callback(evaluate, [slot(place) for place in call.places], origin)

    def number(self, origin: Origin) -> int:
        """A number for a new step."""
        number = next(_NUMBERS)
        self.origins[number] = origin
        self.listing.append((self.inside, number))
        return number

    def made(self, address: int, lo: int, hi: int, slots: Sequence[int]) -> Step:
        """A call of a native function, which has the state before its other buffers."""
        return native.Call(address, lo, hi, (self.state, *slots))

    def record(self, words: np.ndarray) -> int:
        """The address of a record."""
        self.kept.append(words)
        return words.ctypes.data

    def launch(self, call: KernelCall, slot: Callable[[Address], int], origin: Origin) -> Step:
        """A launch of a kernel."""
        x, y = call.block
        function = self.driver.build(call.body, call.arity, x * y)
        number = self.number(origin._replace(grid=call.grid, block=call.block))
        words = launch_record(
            LaunchRecord(
                function.handle, call.grid, x, y, 0, call.arity, function.parameters, number
            )
        )
        slots = [slot(place) for place in call.places]
        return self.made(self.native.launch, self.record(words), 0, slots)

    def function(self, call: FunctionCall, slot: Callable[[Address], int], origin: Origin) -> Step:
        """A call of a library's function."""
        address = function_caller(signature(call))
        slots = [slot(place) for place in call.arguments if isinstance(place, Address)]
        number = self.number(origin._replace(name=call.name))
        self.kept.append(call.kept)
        at = self.record(function_record(call, range(1, 1 + len(slots)), number))
        if call.name.startswith(CAPTURED):
            self.graphable.add(at)
        return self.made(address, at, 0, slots)

    def copy(self, target: int, source: int, size: int, origin: Origin = _COPY) -> Step:
        """A copy on the device."""
        if not size:
            return native.Advance(target, 0)
        number = self.number(origin._replace(name="copy", nbytes=size))
        return self.made(self.native.copy, size, number, [target, source])

    def callback(self, function: Callable[..., None], slots: Sequence[int], origin: Origin) -> Step:
        """A call of Python, which waits for the device."""
        callback = Callback(_unless_failed(function), 1 + len(slots))
        self.table.callbacks.append(callback)
        self.number(origin._replace(name=f"{origin.name} on the host"))
        return self.made(callback.address, 0, 1, slots)

    # Loops and branches.

    def control(self, control: Control, numbers: Sequence[int], loc: object) -> list[Step]:
        """The steps of a loop or of branches, whose bodies are linked already."""
        name, length = control.eqn.prim.name, control.eqn.params.get("length")
        label = name if length is None else f"{name} of {length}"
        for k, body in enumerate(control.bodies):
            image = body.image
            assert isinstance(image, Image)
            self.origins.update(image.origins)
            self.graphable |= image.graphable
            self.table.callbacks += image.callbacks
            self.kept.append(body)
            at = f"{label} {k}" if control.eqn.prim.holds is Holds.BRANCHES else label
            self.listing += [((at, *inside), number) for inside, number in image.listing]
        self.inside = (label,)
        memory = Memory(
            self.copy,
            lambda kernels: [self.kernel(k, slots, "write", loc) for k, slots in kernels],
            lambda slot, size: self.fetched(slot, size, loc),
            (self.state,),
            fixed=self.driver.conditional,
            rooms=self.rooms,
        )
        steps = control_steps(control, numbers, self.table.reserve, memory)
        self.inside = ()
        return steps

    def rooms(self, rows: Sequence[Aval]) -> list[int | None]:
        """Places for rows that do not begin where vectors may: kernels take it that arrays do."""
        found: list[int | None] = []
        end = self.first_scratch
        for row in rows:
            if row.size < 2 or _bytes(row) % VECTOR_BYTES == 0:
                found.append(None)
                continue
            found.append(self.table.place(self.table.arena, end))
            end += -(-_bytes(row) // LINE_BYTES) * LINE_BYTES
            self.arena_bytes = max(self.arena_bytes, end)
        return found

    def fetched(self, slot: int, size: int, loc: object) -> tuple[int, list[Step]]:
        """A number on the device, read by the host program: a copy, for which it waits.

        In a graph a conditional node takes the place of this.
        """
        cell = self.table.place(self.state, WORD * CELL)
        number = self.number(Origin("predicate", loc, nbytes=size))
        return cell, [self.made(self.native.fetch, size, number, [cell, slot])]


# Steps of Python.


def _unless_failed(function: Callable[..., None]) -> Callable[..., None]:
    """A function of a state and addresses that does nothing after a failure."""

    def run(state: int, *pointers: int | None) -> None:
        if not ctypes.c_int64.from_address(state + WORD * ERROR).value:
            function(*[pointer or 0 for pointer in pointers])

    return run


def _check(driver: Driver, check: Check) -> Callable[[int], None]:
    """Raise a LinAlgError if a flag is set; waits for the device."""

    def run(pointer: int) -> None:
        flags = np.empty(check.count, np.int32)
        driver.to_host(flags, pointer)
        if flags.any():
            raise np.linalg.LinAlgError(check.message)

    return run


def _evaluated(driver: Driver, eqn: Eqn) -> Callable[..., None]:
    """An equation on copies of its operands; waits for the device."""
    callback = evaluation(eqn)
    avals = [a.aval for a in eqn.inputs if isinstance(a, Var)]
    count = len(avals)
    avals += [v.aval for v in eqn.outputs]

    def run(*pointers: int) -> None:
        arrays = [np.empty(aval.shape, aval.dtype) for aval in avals]
        for array, pointer in zip(arrays[:count], pointers, strict=False):
            driver.to_host(array, pointer)
        try:
            callback.function(*[array.ctypes.data for array in arrays])
        finally:
            for array, pointer in zip(arrays[count:], pointers[count:], strict=True):
                driver.to_device(pointer, array)

    return run
