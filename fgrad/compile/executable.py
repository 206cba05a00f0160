"""L5. A compiled program: a native host program over a table of buffers.

The table's first slots are the inputs, the constants, the outputs and the arena; the rest are
places in the arena and views, derived from those by the host program itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from fgrad.compile.cpu.callback import evaluation
from fgrad.compile.cpu.host import (
    Callback,
    Copy,
    HostProgram,
    Place,
    Step,
    kernel_call,
    shared_call,
)
from fgrad.compile.cpu.lapack_factors import LAPACK
from fgrad.compile.cpu.library import gemm, gemm_spec, pieces
from fgrad.compile.cpu.runtime import build_kernels
from fgrad.compile.cpu.sorting import sort_rows
from fgrad.compile.plan import ALIGNMENT, Plan, Slot
from fgrad.compile.steps import KernelStep, LibraryStep
from fgrad.ir.program import Program


class Executable:
    """Runs a planned program on C-contiguous native arrays.

    Arguments:
        program: for the avals of inputs and outputs.
        plan: its steps and the places of their buffers.
    """

    def __init__(self, program: Program, plan: Plan) -> None:
        self.in_avals = program.in_avals
        self.out_avals = program.out_avals
        self.consts = [np.ascontiguousarray(array) for _, array in program.consts]
        self.literals = plan.literals
        self.arena_bytes = plan.arena_bytes
        table = _Table(len(program.inputs), len(self.consts), len(program.outputs))
        keep: list[Callback] = []
        body = _native_steps(plan, table, keep)
        body += [
            Copy(table.number(Slot("output", k)), table.number(plan.slots[v]), _bytes(v))
            for v, k in plan.copies
        ]
        self.const_pointers = [x.ctypes.data for x in self.consts]
        self.host = HostProgram([*table.places, *body], table.given, keep)
        self.empty = not body

    def __call__(self, args: Sequence[np.ndarray]) -> list[Any]:
        """The results: fresh arrays; rank-0 ones as NumPy scalars."""
        outs = [np.empty(a.shape, a.dtype) for a in self.out_avals]
        if not self.empty:
            arena = np.empty(self.arena_bytes + ALIGNMENT, np.uint8)
            base = -(-arena.ctypes.data // ALIGNMENT) * ALIGNMENT
            pointers = [x.ctypes.data for x in args]
            pointers += self.const_pointers
            pointers += [x.ctypes.data for x in outs]
            pointers.append(base)
            self.host.run(pointers)
        for k, literal in self.literals:
            outs[k][...] = literal.value
        return [x if x.ndim else x[()] for x in outs]


def _bytes(var: Any) -> int:
    return var.aval.size * var.aval.dtype.itemsize


class _Table:
    """Numbers of slots; places in the arena get one each."""

    def __init__(self, inputs: int, consts: int, outputs: int) -> None:
        self.first = {"input": 0, "const": inputs, "output": inputs + consts}
        self.arena = inputs + consts + outputs
        self.given = self.arena + 1
        self.places: list[Step] = []
        self.derived: dict[tuple[int, int], int] = {}

    def number(self, slot: Slot, offset: int = 0) -> int:
        """The table's entry for a buffer, `offset` bytes in."""
        if slot.kind == "arena":
            return self._place(self.arena, slot.index + offset)
        number = self.first[slot.kind] + slot.index
        return self._place(number, offset) if offset else number

    def _place(self, base: int, offset: int) -> int:
        found = self.derived.get((base, offset))
        if found is None:
            found = self.derived[base, offset] = self.given + len(self.places)
            self.places.append(Place(found, base, offset))
        return found


def _native_steps(plan: Plan, table: _Table, keep: list[Callback]) -> list[Step]:
    kernels = list(dict.fromkeys([s.kernel for s in plan.steps if isinstance(s, KernelStep)]))
    addresses = dict(zip(kernels, build_kernels(kernels), strict=True))
    steps: list[Step] = []
    for step in plan.steps:
        if isinstance(step, KernelStep):
            numbers = tuple([table.number(plan.slots[v]) for v in step.args])
            steps.append(kernel_call(step.kernel, addresses[step.kernel], numbers))
        else:
            steps += _library_calls(step, plan, table, keep)
    return steps


def _library_calls(
    step: LibraryStep, plan: Plan, table: _Table, keep: list[Callback]
) -> list[Step]:
    cost, each = 0.0, 4
    if step.name == "host":
        callback = evaluation(step.params["eqn"])
        keep.append(callback)
        address, extent = callback.address, 1
    elif step.name == "gemm":
        cut = pieces(gemm_spec(**step.params))
        address, extent, cost = gemm(**step.params), cut.count, cut.count * cut.cycles
        each = 4 if cut.axis == "batch" else 2  # each call of BLAS packs the other operand anew
    elif step.name in LAPACK:
        native = LAPACK[step.name](**step.params)
        keep.append(native.failure)
        address, extent = native.address, step.params["batch"]
    else:
        address = _LIBRARY[step.name](**step.params)
        extent = step.params[_EXTENT[step.name]]
    slots = [plan.slots[v] for v in step.args]
    return [
        shared_call(
            address,
            extent,
            1,
            cost,
            tuple([table.number(s, o) for s, o in zip(slots, at, strict=True)]),
            each,
        )
        for at in step.offsets
    ]


_LIBRARY = {"sort": sort_rows}
_EXTENT = {"sort": "rows"}  # the parameter that is the step's range
