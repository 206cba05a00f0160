"""L5. The table of devices: what is left to do for a program of kernels on each.

A backend reads scheduled kernels and never an array program.  Higher layers add theirs:

    BACKENDS["cuda"] = Backend(schedule_for_cuda, link_for_cuda)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeAlias

from fgrad.compile.cpu.runtime import vector_registers
from fgrad.compile.executable import link
from fgrad.compile.kernel.ir import Kernel
from fgrad.compile.plan import Plan
from fgrad.compile.schedule import schedule
from fgrad.ir.program import Program

Runnable: TypeAlias = Callable[[Sequence[Any]], "list[Any]"]


class Backend(NamedTuple):
    """`schedule` orders the loops of a kernel; `build` makes a planned program callable; `splits`
    says whether threads share kernels by their outermost loop, so that long reductions want two."""

    schedule: Callable[[Kernel], Kernel]
    build: Callable[[Program, Plan], Runnable]
    splits: bool = False


REGISTERS = vector_registers()
BACKENDS: dict[str, Backend] = {
    "cpu": Backend(lambda kernel: schedule(kernel, REGISTERS), link, True)
}
