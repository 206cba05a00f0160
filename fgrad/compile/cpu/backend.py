"""L5. The backend of the CPU: kernels become LLVM functions, programs are run by a host program.

The compiler's modules are imported when something is compiled: a cached program needs none.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from fgrad.base.lazy_import import lazy_module
from fgrad.compile.backend import Backend
from fgrad.compile.cpu.program_cache import stored

if TYPE_CHECKING:
    from fgrad.compile.cpu import kernels, lane_factors, link, templates
    from fgrad.compile.kernel.ir import Kernel
    from fgrad.compile.passes import spread_checks
    from fgrad.compile.schedule import order
else:
    kernels = lazy_module("fgrad.compile.cpu.kernels")
    lane_factors = lazy_module("fgrad.compile.cpu.lane_factors")
    link = lazy_module("fgrad.compile.cpu.link")
    templates = lazy_module("fgrad.compile.cpu.templates")
    order = lazy_module("fgrad.compile.schedule.order")
    spread_checks = lazy_module("fgrad.compile.passes.spread_checks")


def _schedule(kernel: Kernel) -> Kernel:
    return order.schedule(kernel, kernels.vector_registers())


def _texts(topic: str, given: Sequence[Kernel]) -> str:
    """What `FGRAD_SHOW` prints of kernels: their LLVM text or their assembly."""
    if topic == "llvm":
        sources = map(kernels.kernel_source, given)
        return "\n".join(source.emit(f"kernel_{n}")[0] for n, source in enumerate(sources))
    return "\n".join(map(kernels.asm_text, given)) if topic == "asm" else ""


BACKEND = Backend(
    schedule=_schedule,
    build=lambda program, plan: link.link(program, plan),
    in_kernel=lambda _kernel: True,
    threads=True,
    convs=lambda program: program,
    prepare=lambda program: spread_checks.spread_checks(program),
    products=lambda program: program,
    join=lambda fusion, _program: fusion,
    texts=_texts,
    topics=("llvm", "asm"),
    on_host=True,
    stored=stored,
    routines=lambda program, steps: lane_factors.factors_in_lanes(program, steps),
    steps=lambda program, plan: link.StepPrograms(program, plan),
    template=lambda program, executable, sizes: templates.template(program, executable, sizes),
)
