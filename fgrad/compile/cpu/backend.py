"""L5. The backend of the CPU: kernels become LLVM functions, programs are run by a host program."""

from __future__ import annotations

from collections.abc import Sequence

from fgrad.compile.backend import Backend
from fgrad.compile.cpu.kernels import asm_text, kernel_source, vector_registers
from fgrad.compile.cpu.link import link
from fgrad.compile.kernel.ir import Kernel
from fgrad.compile.schedule.order import schedule

_REGISTERS = vector_registers()


def _texts(topic: str, kernels: Sequence[Kernel]) -> str:
    """The LLVM functions of kernels, or their machine code."""
    if topic == "llvm":
        return "\n".join(kernel_source(k).emit(f"kernel_{n}")[0] for n, k in enumerate(kernels))
    return "\n".join(map(asm_text, kernels)) if topic == "asm" else ""


BACKEND = Backend(
    schedule=lambda kernel: schedule(kernel, _REGISTERS),
    build=link,
    in_kernel=lambda _kernel: True,
    threads=True,
    convs=lambda program: program,
    prepare=lambda program: program,
    products=lambda program: program,
    join=lambda fusion, _program: fusion,
    texts=_texts,
)
