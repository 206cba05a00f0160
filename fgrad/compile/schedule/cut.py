"""L5. Steps whose kernels a pass cuts into several: split, apart."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from fgrad.compile.kernel.ir import Kernel
from fgrad.compile.tasks.steps import KernelStep, Step
from fgrad.ir.aval import Aval
from fgrad.ir.program import Var


def cut_kernels(steps: Sequence[Step], cut: Callable[[Kernel], Sequence[Kernel]]) -> list[Step]:
    """The steps with each kernel as those that it is cut into: itself alone if it stays."""
    done: dict[int, Sequence[Kernel]] = {}  # by object: comparing them takes longer
    out: list[Step] = []
    for step in steps:
        if not isinstance(step, KernelStep):
            out.append(step)
            continue
        kernels = done.get(id(step.kernel))
        if kernels is None:
            kernels = done[id(step.kernel)] = cut(step.kernel)
        out += [step] if kernels[0] is step.kernel else _steps(step, kernels)
    return out


def _steps(step: KernelStep, kernels: Sequence[Kernel]) -> list[Step]:
    """All kernels with their arguments; what one writes for another is a new variable."""
    own = {b.name: v for b, v in zip(step.kernel.buffers, step.args, strict=False)}
    found: list[Step] = []
    for kernel in kernels:
        given = [b for b in kernel.buffers if b.role != "scratch"]
        for b in given:
            if b.name not in own:
                own[b.name] = Var(Aval((b.size,), b.dtype))
        found.append(KernelStep(kernel, tuple([own[b.name] for b in given])))
    return found
