"""L5. A compiled program: native steps over a table of buffers."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from fgrad.compile.cpu.emit_llvm import outer_range
from fgrad.compile.cpu.runtime import build_kernels
from fgrad.compile.plan import Plan
from fgrad.compile.steps import KernelStep
from fgrad.ir.program import Program

_NATIVE = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)


class Executable:
    """Runs a planned program on C-contiguous native arrays.

    Arguments:
        program: for the avals of inputs and outputs.
        plan: its steps and the places of their buffers.
    """

    def __init__(self, program: Program, plan: Plan) -> None:
        self.plan = plan
        self.in_avals = program.in_avals
        self.out_avals = program.out_avals
        self.consts = [np.ascontiguousarray(array) for _, array in program.consts]
        kernels = list(dict.fromkeys(s.kernel for s in plan.steps if isinstance(s, KernelStep)))
        addresses = dict(zip(kernels, build_kernels(kernels), strict=True))
        self.steps: list[Any] = []
        for step in plan.steps:
            assert isinstance(step, KernelStep)
            extent = outer_range(step.kernel).extent
            slots = [plan.slots[v] for v in step.args]
            self.steps.append((_NATIVE(addresses[step.kernel]), slots, extent))
        self.copies: list[tuple[Any, int]] = [(plan.slots[v], k) for v, k in plan.copies]

    def __call__(self, args: Sequence[np.ndarray]) -> list[Any]:
        """The results: fresh arrays; rank-0 ones as NumPy scalars."""
        outs = [np.empty(a.shape, a.dtype) for a in self.out_avals]
        arena = np.empty(self.plan.arena_bytes + 64, np.uint8)
        base = -(-arena.ctypes.data // 64) * 64
        tables = {"input": args, "const": self.consts, "output": outs}
        for function, slots, extent in self.steps:
            pointers = [
                base + s.index if s.kind == "arena" else tables[s.kind][s.index].ctypes.data
                for s in slots
            ]
            function((ctypes.c_void_p * len(pointers))(*pointers), 0, extent)
        for slot, k in self.copies:
            outs[k][...] = tables[slot.kind][slot.index].reshape(outs[k].shape)
        for k, literal in self.plan.literals:
            outs[k][...] = literal.value
        return [x if x.ndim else x[()] for x in outs]
