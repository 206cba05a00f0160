"""L2. Arrays and numbers from outside that a trace takes as inputs: `X` in `X @ w`, read at each
call.

A trace runs with tracers in the places of these values (`stand_ins`), so what it does with them is
recorded, as it is for arguments.  Where it needs a value, as in `if X[0] > 0` or `range(n)`, or
writes into an array, the value that is to blame is a constant, and the function is traced again.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Iterator
from typing import TypeAlias

import numpy as np

from fgrad.ir.aval import aval_of
from fgrad.ir.program import Var
from fgrad.trace import Builder, Tracer
from fgrad.tracing.assign import writes_of
from fgrad.tracing.constants import SMALL
from fgrad.tracing.outside.stand_ins import StandIns, carriers
from fgrad.tracing.outside.watches import Key, Number
from fgrad.tracing.outside.world import World
from fgrad.tracing.record import TracedProgram
from fgrad.tracing.trace_errors import ASKED

Outside: TypeAlias = "np.ndarray | Number"
_OWN_REFERENCES = 3  # to the builder: of what is open here, and of the question itself

Inputs: TypeAlias = "dict[Key, Outside]"


class Hidden:
    """The values that one trace may take as inputs; open it around the trace."""

    def __init__(self, inputs: Inputs, world: World | None) -> None:
        self.inputs = inputs
        self.builder: Builder | None = None  # of the trace
        self.tracers: dict[Key, tuple[Tracer, Tracer]] = {}  # in the program, in the function
        self.refused: set[Key] = set()
        on_the_way = carriers(inputs, world.links) if world is not None else ()
        self.stand_ins = StandIns(inputs, on_the_way, self._stand_in)

    def __enter__(self) -> Hidden:
        self.before = ASKED.note
        ASKED.note = self._asked
        return self

    def __exit__(self, *_exc: object) -> None:
        ASKED.note = self.before

    def _stand_in(self, key: Key) -> Tracer:
        """The tracer that replaces one of these values."""
        found = self.tracers.get(key)
        if found is None:
            builder, value = self.builder, self.inputs[key]
            assert builder is not None
            aval = aval_of(value.now() if isinstance(value, Number) else value)
            inner = builder.new(None, aval, aval.weak)
            given = Tracer(builder, inner.index, None, aval, aval.weak)  # may be written
            builder.captures[id(value)] = (value, value, inner, None)  # type: ignore[assignment]
            found = self.tracers[key] = inner, given
        return found[1]

    def _asked(self, x: Tracer) -> None:
        """Called when Python or NumPy needs the numbers of a tracer."""
        if self.before is not None:
            self.before(x)
        wanted = set(_origins(x))
        for key in self.tracers:
            if id(self.inputs[key]) in wanted:
                self.refused.add(key)

    def ended(self) -> None:
        """Refuse what the trace wrote into, or must look at in each call; and all if a tracer was
        stored somewhere, where there should be a number."""
        builder = self.builder
        if builder is None or not self.tracers:
            return
        for key, (_, given) in self.tracers.items():
            if writes_of(given):
                self.refused.add(key)
        own = 2 * len(self.tracers) + _OWN_REFERENCES
        if sys.getrefcount(builder) > own:
            self.refused |= set(self.tracers)

    def forget(self) -> None:
        """Break reference cycles that would keep arguments alive."""
        self.builder = None
        self.tracers = {}
        self.stand_ins.made.clear()

    def refuse_costly(self, traced: TracedProgram, moved: Collection[object]) -> None:
        """Refuse arrays that have not changed yet, where products and the like of them alone would
        be computed at each call."""
        keys = {id(value): key for key, value in self.inputs.items()}
        of: dict[Var, frozenset[Key]] = {}
        for var, outer in zip(traced.program.inputs, traced.captured, strict=False):
            if id(outer) in keys:
                of[var] = frozenset([keys[id(outer)]])
        for eqn in traced.program.eqns:
            read = [of.get(a) for a in eqn.inputs if isinstance(a, Var)]
            if not read or None in read:
                continue
            from_outside = frozenset[Key]().union(*[keys for keys in read if keys])
            of.update(dict.fromkeys(eqn.outputs, from_outside))
            if not (eqn.prim.scalar or eqn.prim.linear_in == "all"):
                self.refused |= from_outside - set(moved)


def _origins(x: Tracer) -> Iterator[int]:
    """The identities of what a value is computed from outside of all traces."""
    while isinstance(x.value, Tracer):
        x = x.value
    builder, wanted = x.builder, {x.index}
    for record in reversed(builder.records):
        if not wanted.isdisjoint(record.outs):
            wanted.update([k for k in record.operands if type(k) is int])
    for _, outer, inner, _ in builder.captures.values():
        if inner.index in wanted:
            if isinstance(outer, Tracer):
                yield from _origins(outer)
            else:
                yield id(outer)


def candidates(world: World, moved: Collection[object], refused: Collection[object]) -> Inputs:
    """What a trace may take as inputs: large arrays, and arrays and numbers that were seen to
    change, if each way to them is known."""
    found: Inputs = {}
    if world.looks:
        return found
    for x in world.watches.written():
        if id(x) not in world.exposed and _is_plain(x) and (x.nbytes > SMALL or id(x) in moved):
            found[id(x)] = x
    for key, place in world.watches.numbers_read():
        if key in moved and key in world.links and key not in world.exposed:
            found[key] = Number(place, key)
    return {key: value for key, value in found.items() if key not in refused}


def is_other(
    before: World, after: World, moved: Collection[object], fixed: Collection[object]
) -> bool:
    """Whether a second look finds generators that a first one did not, or values that a trace may
    take as inputs: there may be other ways to them."""
    drawn = [{id(x) for _, x in world.found} for world in (before, after)]
    return drawn[0] != drawn[1] or any([candidates(w, moved, fixed) for w in (before, after)])


def _is_plain(x: np.ndarray) -> bool:
    usable = type(x) is np.ndarray and x.flags.c_contiguous and x.flags.aligned and x.ndim > 0
    return usable and x.dtype.isnative and x.dtype.kind in "fc"


def trace_with_inputs(
    trace: Callable[[Hidden], TracedProgram],
    world: World | None,
    inputs: Inputs,
    moved: Collection[object],
) -> tuple[TracedProgram, Inputs, set[Key]]:
    """A trace that takes as many of these as inputs as it may, these, and the others."""
    refused: set[Key] = set()
    while True:
        hidden = Hidden(inputs, world)
        try:
            with hidden:
                traced = trace(hidden)
            hidden.ended()
            hidden.refuse_costly(traced, moved)
            if not hidden.refused:
                return traced, inputs, refused
            refused |= hidden.refused
        except Exception:
            if not inputs:
                raise
            refused |= hidden.refused or set(inputs)
        finally:
            hidden.forget()
        inputs = {key: value for key, value in inputs.items() if key not in refused}
