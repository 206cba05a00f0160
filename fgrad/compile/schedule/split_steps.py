"""L5. Pass `split_steps`: split long reductions with few results into two kernels.

    acc s = add f32 0.0               parallel b in 64:                  acc s = add f64 0.0
    reduce i in 6400000:                acc s = add f32 0.0              reduce b in 64:
      update s (load x[i])      ->      reduce i in 100000:                update s (load part[b])
    store y[0] (read s)                   update s (load x[100000*b+i])  store y[0] (read s)
                                        store part[b] (read s)

What does not fill a block is left to the second kernel.  The blocks depend on the kernel alone, so
that results do not depend on the number of threads.  Requires kernels that are not scheduled yet.
The GPU cuts its pieces in the same way (lower_cuda/emit/two_passes.py).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from fgrad.base.named_tuple import NamedTuple
from fgrad.compile.kernel.cost import weight
from fgrad.compile.kernel.ir import (
    Buffer,
    Const,
    Index,
    Init,
    Kernel,
    Load,
    Loop,
    Op,
    Read,
    Ref,
    Statement,
    Store,
    Update,
)
from fgrad.compile.kernel.rewrite import (
    Body,
    Lines,
    Names,
    identity,
    map_indices,
    only_loop,
    part_of,
    row_major,
    substitute,
    walk,
)
from fgrad.compile.tasks.steps import KernelStep, Step
from fgrad.ir.aval import Aval
from fgrad.ir.program import Var

LEAST_COST = 1 << 20  # statements that a reduction runs, from which two kernels are better
BLOCK = 1 << 15  # the least terms of a block
MOST_BLOCKS = 64
_DOUBLE = np.dtype(np.float64)


class Reduction(NamedTuple):
    """A body taken apart: what stands before, the reduction, what comes after."""

    before: Body
    inits: tuple[Init, ...]
    loop: Loop
    after: Body


def split_steps(steps: Sequence[Step]) -> list[Step]:
    """The steps with long reductions in two kernels."""
    return cut_kernels(steps, _kernels)


def _kernels(kernel: Kernel) -> list[Kernel]:
    """The two kernels; the kernel itself if it is not a long reduction."""
    found = reduction_of(kernel.body, kernel.buffers)
    if found is None or any([init.dtype == np.float16 for init in found.inits]):
        return [kernel]  # partial sums of float16 would be rounded
    long = max(_nest(found.loop), key=lambda loop: loop.extent)
    count = min(MOST_BLOCKS, _terms(found.loop) // BLOCK, long.extent)
    if _cost(found.loop) < LEAST_COST or count < 2:
        return [kernel]
    parts = Parts(kernel, found, long, long.extent // count, count)
    first = (*found.before, Loop(parts.axis, count, "parallel", parts.partial()))
    return [part_of(kernel, x, parts.buffers.values()) for x in (first, _joined(parts))]


def reduction_of(body: Body, buffers: Sequence[Buffer]) -> Reduction | None:
    """The reduction that a body is, if parts of it may run apart from each other."""
    loops = [s for s in body if isinstance(s, Loop)]
    if len(loops) != 1 or loops[0].kind != "reduce":
        return None
    at = body.index(loops[0])
    before, after = body[:at], body[at + 1 :]
    inits = tuple([s for s in before if isinstance(s, Init)])
    scalars = tuple([s for s in before if not isinstance(s, Init)])
    plain = (
        all([isinstance(s, (Const, Index, Load, Op)) for s in scalars])
        and all([isinstance(s, (Const, Index, Load, Op, Read, Store)) for s in after])
        and all([_divides(s, {init.acc for init in inits}) for s in walk((loops[0],))])
        and all([s.op != "carry" and not isinstance(s.start, Ref) for s in inits])
        and all([b.role in ("in", "out") for b in buffers])
    )
    return Reduction(scalars, inits, loops[0], after) if plain and inits else None


def _divides(s: Statement, accs: set[str]) -> bool:
    """Whether blocks may run this statement of a loop apart from each other."""
    if isinstance(s, Loop):
        return s.kind == "reduce" and s.extent > 1
    if isinstance(s, Store):
        return s.mode == "set" and not s.scatter
    return isinstance(s, (Const, Index, Load, Op)) or (isinstance(s, Update) and s.acc in accs)


def _nest(loop: Loop) -> list[Loop]:
    """The loop and those inside it that stand alone."""
    found = [loop]
    while len(found[-1].body) == 1 and isinstance(found[-1].body[0], Loop):
        found.append(found[-1].body[0])
    return found


def _terms(loop: Loop) -> int:
    inner = [_terms(s) for s in loop.body if isinstance(s, Loop)]
    return loop.extent * max(inner, default=1)


def _cost(loop: Loop) -> float:
    return loop.extent * sum([_cost(s) if isinstance(s, Loop) else weight(s) for s in loop.body])


class Parts:
    """A reduction in `count` parts, each of `size` iterations of its long axis, and a rest; for
    every iteration of some axes around it, a partial result of each part and accumulator."""

    def __init__(
        self,
        kernel: Kernel,
        found: Reduction,
        long: Loop,
        size: int,
        count: int,
        around: Sequence[tuple[str, int]] = (),
    ) -> None:
        self.found, self.long, self.size, self.count = found, long, size, count
        self.names = Names(kernel)
        self.axis = self.names.name("part")
        self.place = row_major([(self.axis, count), *around])
        results = count * math.prod([extent for _, extent in around])
        self.buffers = {
            init.acc: Buffer(self.names.name("part"), init.dtype, results, "out")
            for init in found.inits
        }

    def _range(self, extent: int, const: int, terms: tuple[tuple[str, int], ...]) -> Loop:
        """The reduction over a range of its long axis."""
        axis = self.long.axis
        loop = _resized(self.found.loop, axis, extent)
        return only_loop(
            map_indices((loop,), lambda i: substitute(i, axis, const, (*terms, (axis, 1))))
        )

    def partial(self) -> Body:
        """Reduce one part, store what it comes to; whatever the accumulators begin with counts once
        in all, and not here."""
        inits = self.found.inits
        starts = tuple([s._replace(start=identity(s.op, s.dtype)) for s in inits])
        lines = Lines(self.names, starts)
        lines.body.append(self._range(self.size, 0, ((self.axis, self.size),)))
        for init in inits:
            read = lines.read(init.acc)
            lines.body.append(Store(self.buffers[init.acc].name, self.place, read))
        return tuple(lines.body)

    def rest(self) -> Body:
        """Begin, and reduce what the parts leave over."""
        done = self.size * self.count
        if done == self.long.extent:
            return self.found.inits
        return (*self.found.inits, self._range(self.long.extent - done, done, ()))

    def load(self, lines: Lines, acc: str) -> int:
        """Append a partial result."""
        return lines.load(self.buffers[acc].name, self.place)


def _joined(parts: Parts) -> Body:
    """Reduce what the blocks left over, then the blocks; float32 sums in float64."""
    found, names = parts.found, parts.names
    wide = {s.acc for s in found.inits if s.op == "add" and s.dtype == np.float32}
    out, each = Lines(names, (*found.before, *parts.rest())), Lines(names)
    joined: dict[str, str] = {}
    for init in found.inits:
        acc = joined[init.acc] = names.name(init.acc)
        start, value = out.read(init.acc), parts.load(each, init.acc)
        if init.acc in wide:
            start = out.op("convert", (start,), _DOUBLE)
            value = each.op("convert", (value,), _DOUBLE)
        out.body.append(Init(acc, init.op, _DOUBLE if init.acc in wide else init.dtype, Ref(start)))
        each.body.append(Update(acc, value))
    out.body.append(Loop(parts.axis, parts.count, "reduce", tuple(each.body)))
    for s in found.after:
        if isinstance(s, Read) and s.acc in wide:
            s = Op(s.id, "convert", (out.read(joined[s.acc]),), np.dtype(np.float32))
        elif isinstance(s, Read):
            s = s._replace(acc=joined[s.acc])
        out.body.append(s)
    return tuple(out.body)


def _resized(loop: Loop, axis: str, extent: int) -> Loop:
    """The nest with another extent of one axis."""
    if loop.axis == axis:
        return loop._replace(extent=extent)
    body = tuple([_resized(s, axis, extent) if isinstance(s, Loop) else s for s in loop.body])
    return loop._replace(body=body)


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
