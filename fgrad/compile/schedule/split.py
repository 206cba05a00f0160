"""L5. Pass `split`: long reductions to few numbers become two kernels, so that threads share them.

    acc s = add f32 0.0               parallel b in 64:                  acc s = add f64 0.0
    reduce i in 6400000:                acc s = add f32 0.0              reduce b in 64:
      update s (load x[i])      ->      reduce i in 100000:                update s (load part[b])
    store y[0] (read s)                   update s (load x[100000*b+i])  store y[0] (read s)
                                        store part[b] (read s)

What does not fill a block is left to the second kernel.  The blocks depend on the kernel alone, so
that results do not depend on the number of threads.  Requires kernels that are not scheduled yet.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from fgrad.compile.kernel.cost import weight
from fgrad.compile.kernel.ir import (
    Affine,
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
from fgrad.compile.kernel.rewrite import Body, Names, map_indices, part_of, substitute, walk
from fgrad.compile.steps import KernelStep, Step
from fgrad.ir.aval import Aval
from fgrad.ir.program import Var

LEAST_COST = 1 << 20  # statements that a reduction runs, from which two kernels are better
BLOCK = 1 << 15  # the least terms of a block
MOST_BLOCKS = 64
_DOUBLE = np.dtype(np.float64)


class _Parts(NamedTuple):
    """A kernel taken apart: what stands before, the reduction, what comes after."""

    before: Body
    inits: tuple[Init, ...]
    loop: Loop
    after: Body


def split(steps: Sequence[Step]) -> list[Step]:
    """The steps with long reductions in two kernels."""
    done: dict[int, tuple[Kernel, Kernel] | None] = {}  # by object: comparing them takes longer
    out: list[Step] = []
    for step in steps:
        if not isinstance(step, KernelStep):
            out.append(step)
            continue
        if id(step.kernel) not in done:
            done[id(step.kernel)] = _split(step.kernel)
        kernels = done[id(step.kernel)]
        out += [step] if kernels is None else _steps(step, *kernels)
    return out


def _steps(step: KernelStep, first: Kernel, second: Kernel) -> list[Step]:
    """Both kernels with their arguments; partial results are new variables."""
    own = {b.name: v for b, v in zip(step.kernel.buffers, step.args, strict=False)}
    for b in first.buffers:
        own.setdefault(b.name, Var(Aval((b.size,), b.dtype)))
    return [KernelStep(k, tuple([own[b.name] for b in k.buffers])) for k in (first, second)]


def _split(kernel: Kernel) -> tuple[Kernel, Kernel] | None:
    """The two kernels; None if the kernel is not a long reduction."""
    parts = _match(kernel)
    if parts is None:
        return None
    long = max(_nest(parts.loop), key=lambda loop: loop.extent)
    work = _cost(parts.loop)
    blocks = min(MOST_BLOCKS, _terms(parts.loop) // BLOCK, long.extent)
    if work < LEAST_COST or blocks < 2:
        return None
    return _Splitter(kernel, parts, long, blocks).kernels()


def _match(kernel: Kernel) -> _Parts | None:
    loops = [s for s in kernel.body if isinstance(s, Loop)]
    if len(loops) != 1 or loops[0].kind != "reduce":
        return None
    at = kernel.body.index(loops[0])
    before, after = kernel.body[:at], kernel.body[at + 1 :]
    inits = tuple([s for s in before if isinstance(s, Init)])
    scalars = tuple([s for s in before if not isinstance(s, Init)])
    plain = (
        all([isinstance(s, (Const, Index, Load, Op)) for s in scalars])
        and all([isinstance(s, (Const, Index, Load, Op, Read, Store)) for s in after])
        and all([_divides(s, {init.acc for init in inits}) for s in walk((loops[0],))])
        and all([_joins(init) for init in inits])
        and all([b.role in ("in", "out") for b in kernel.buffers])
    )
    return _Parts(scalars, inits, loops[0], after) if plain and inits else None


def _divides(s: Statement, accs: set[str]) -> bool:
    """Whether blocks may run this statement of a loop apart from each other."""
    if isinstance(s, Loop):
        return s.kind == "reduce" and s.extent > 1
    if isinstance(s, Store):
        return s.mode == "set" and not s.scatter
    return isinstance(s, (Const, Index, Load, Op)) or (isinstance(s, Update) and s.acc in accs)


def _joins(s: Init) -> bool:
    """Whether partial results can be joined without a loss."""
    return s.op != "carry" and not isinstance(s.start, Ref) and s.dtype.str[1:] != "f2"


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


class _Splitter:
    """Writes both kernels."""

    def __init__(self, kernel: Kernel, parts: _Parts, long: Loop, blocks: int) -> None:
        self.kernel, self.parts, self.long = kernel, parts, long
        self.names = Names(kernel)
        self.blocks, self.size = blocks, long.extent // blocks
        self.rest = long.extent % blocks
        self.block = self.names.name("block")
        self.partial = {
            init.acc: Buffer(self.names.name("part"), init.dtype, blocks, "out")
            for init in parts.inits
        }

    def kernels(self) -> tuple[Kernel, Kernel]:
        """The kernel of blocks, and the one that joins them."""
        first, second = self._blocks(), self._join()
        parts = self.partial.values()
        return part_of(self.kernel, first, parts), part_of(self.kernel, second, parts)

    def _part(self, extent: int, const: int, terms: tuple[tuple[str, int], ...]) -> Loop:
        """The reduction over a part of its long axis."""
        axis = self.long.axis
        (loop,) = map_indices(
            (_resized(self.parts.loop, axis, extent),),
            lambda index: substitute(index, axis, const, (*terms, (axis, 1))),
        )
        assert isinstance(loop, Loop)
        return loop

    def _blocks(self) -> Body:
        """parallel block: reduce its part, store part[block]."""
        body: list[Statement] = [*self.parts.inits]
        body.append(self._part(self.size, 0, ((self.block, self.size),)))
        for init in self.parts.inits:
            read = Read(self.names.id(), init.acc)
            place = Affine(0, ((self.block, 1),))
            body += [read, Store(self.partial[init.acc].name, place, read.id)]
        return (*self.parts.before, Loop(self.block, self.blocks, "parallel", tuple(body)))

    def _join(self) -> Body:
        """Reduce what the blocks left over, then the blocks; go on as before."""
        wide = {i.acc for i in self.parts.inits if i.op == "add" and i.dtype == np.float32}
        out: list[Statement] = [*self.parts.before, *self.parts.inits]
        if self.rest:
            out.append(self._part(self.rest, self.size * self.blocks, ()))
        body: list[Statement] = []
        joined: dict[str, str] = {}
        for init in self.parts.inits:
            acc, dtype = self.names.name(init.acc), init.dtype
            dtype = _DOUBLE if init.acc in wide else dtype
            joined[init.acc] = acc
            rest = Read(self.names.id(), init.acc)
            start = self._widened(out, rest, init.acc in wide)
            out.append(Init(acc, init.op, dtype, Ref(start)))
            load = Load(self.names.id(), self.partial[init.acc].name, Affine(0, ((self.block, 1),)))
            body.append(Update(acc, self._widened(body, load, init.acc in wide)))
        out.append(Loop(self.block, self.blocks, "reduce", tuple(body)))
        for s in self.parts.after:
            if isinstance(s, Read):
                read = s._replace(acc=joined[s.acc])
                if s.acc in wide:
                    read = read._replace(id=self.names.id())
                    out += [read, Op(s.id, "convert", (read.id,), np.dtype(np.float32))]
                    continue
                s = read
            out.append(s)
        return tuple(out)

    def _widened(self, out: list[Statement], s: Read | Load, wide: bool) -> int:
        """Append a value, in float64 if its sum is `wide`; returns its id."""
        out.append(s)
        if not wide:
            return s.id
        out.append(Op(self.names.id(), "convert", (s.id,), _DOUBLE))
        return out[-1].id  # type: ignore[union-attr]


def _resized(loop: Loop, axis: str, extent: int) -> Loop:
    """The nest with another extent of one axis."""
    if loop.axis == axis:
        return loop._replace(extent=extent)
    body = tuple([_resized(s, axis, extent) if isinstance(s, Loop) else s for s in loop.body])
    return loop._replace(body=body)
