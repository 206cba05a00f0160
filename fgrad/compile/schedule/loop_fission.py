"""L5. Pass `loop_fission`: a long kernel of several loops becomes a kernel for each, so that
threads share every one of them.

    parallel i in 96 tiles: ...            kernel: parallel i in 96 tiles: ...
    parallel i in 3: ...             ->    kernel: parallel i in 3: ...

Ragged transposes and concatenations are such kernels, and blocks of rows with a rest.  Loops that
hand each other scratch memory stay together.  What stands between the loops may only compute
numbers; each kernel computes those that it needs.  Short loops stay with their neighbours.
Requires scheduled kernels.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from fgrad.compile.kernel.cost import body_cost, kernel_cost
from fgrad.compile.kernel.ir import Const, Index, Kernel, Load, Loop, Op, Statement, Store
from fgrad.compile.kernel.machine import FISSION_CYCLES
from fgrad.compile.kernel.rewrite import Body, part_of, walk
from fgrad.compile.kernel.unread import used_by
from fgrad.compile.schedule.split_steps import cut_kernels
from fgrad.compile.tasks.steps import Step


def loop_fission(steps: Sequence[Step]) -> list[Step]:
    """The steps with long kernels of several loops taken apart."""
    return cut_kernels(steps, _parts)


def _parts(kernel: Kernel) -> list[Kernel]:
    """A kernel for each loop at the top; the kernel itself if that is impossible or no use."""
    kinds = [s.kind for s in kernel.body if isinstance(s, Loop)]
    if len(kinds) < 2 or "parallel" not in kinds or kernel_cost(kernel) < FISSION_CYCLES:
        return [kernel]
    bodies = bodies_apart(kernel, FISSION_CYCLES)
    return [part_of(kernel, body) for body in bodies] if len(bodies) > 1 else [kernel]


def bodies_apart(kernel: Kernel, least: float = 0.0) -> list[Body]:
    """The loops at the top, each behind the numbers that it needs, those together that use the
    same memory of the kernel's own or take `least` cycles at most; none if the loops need more than
    numbers."""
    loops = [s for s in kernel.body if isinstance(s, Loop)]
    others = [s for s in kernel.body if not isinstance(s, Loop)]
    written = {s.buffer for s in walk(kernel.body) if isinstance(s, Store)}
    numbers = {s.id: s for s in others if isinstance(s, (Const, Index, Load, Op))}
    if len(numbers) < len(others):
        return []
    if any([isinstance(s, Load) and s.buffer in written for s in others]):
        return []
    order = {id: k for k, id in enumerate(numbers)}
    bodies: list[Body] = []
    for run in _joined(_runs(kernel, loops), least):
        needed = _needed(run, numbers)
        bodies.append((*[numbers[id] for id in sorted(needed, key=order.__getitem__)], *run))
    return bodies


def _needed(run: Sequence[Loop], numbers: Mapping[int, Statement]) -> set[int]:
    """The numbers that some loops read, and those that these are computed from."""
    found = set[int]()
    left = [id for s in walk(tuple(run)) for id in used_by(s)]
    while left:
        id = left.pop()
        if id in numbers and id not in found:
            found.add(id)
            left += used_by(numbers[id])
    return found


def _joined(runs: Sequence[Sequence[Loop]], least: float) -> list[Sequence[Loop]]:
    """The runs, neighbours in one if it takes `least` cycles at most: many small pieces are not
    worth a kernel each."""
    found: list[tuple[float, Sequence[Loop]]] = []
    for run in runs:
        cost = body_cost(tuple(run))
        if found and found[-1][0] + cost <= least:
            before, joined = found[-1]
            found[-1] = (before + cost, (*joined, *run))
        else:
            found.append((cost, run))
    return [run for _, run in found]


def _runs(kernel: Kernel, loops: Sequence[Loop]) -> list[Sequence[Loop]]:
    """The loops in runs, so that no scratch memory is used in two of them."""
    own = {b.name for b in kernel.buffers if b.role == "scratch"}
    last: dict[str, int] = {}
    used = [{s.buffer for s in walk((loop,)) if isinstance(s, (Load, Store))} for loop in loops]
    for k, names in enumerate(used):
        last |= dict.fromkeys(own & names, k)
    runs: list[Sequence[Loop]] = []
    start = end = 0
    for k, names in enumerate(used):
        end = max([end, *[last[name] for name in own & names]])
        if k == end:
            runs.append(loops[start : k + 1])
            start = end = k + 1
    return runs
