"""L5. What a jitted function returns in a trace -> values; a call of it -> one equation."""

from __future__ import annotations

from collections.abc import Sequence

from fgrad.compile.jit.call import call
from fgrad.compile.jit.effects import split_writes
from fgrad.compile.jit.entries import Entry
from fgrad.compile.jit.texts import result_array
from fgrad.ir.program import Program
from fgrad.trace import Tracer, Value
from fgrad.tracing.device_tracing import lift
from fgrad.tracing.on_device import OnDevice
from fgrad.typing import PyTree


def recorded(entry: Entry, inputs: list[PyTree], count: int) -> Sequence[object]:
    """The results as those of an equation of the enclosing trace; the last `count` inputs are the
    leaves of the arguments."""
    program, effects = entry.program, entry.effects
    values: list[PyTree] = [
        x if isinstance(x, (Tracer, OnDevice)) or v.aval.shape else v.aval.dtype.type(x)
        for x, v in zip(inputs, program.inputs, strict=True)
    ]
    if effects is None:
        return _weak_as(program, call(program, values, entry.device))
    for k in effects.writes:
        at = len(values) - count + k
        values[at] = values[at].copy()  # what the trace records does not see the write
    return _weak_as(program, split_writes(program, effects, values, entry.device))


def _weak_as(program: Program, outs: Sequence[object]) -> Sequence[object]:
    """The results of a call in a trace, Python numbers where the function gives these."""
    for out, atom in zip(outs, program.outputs, strict=True):
        if isinstance(out, Tracer):
            out.weak = atom.aval.weak
    return outs


def result_of(x: object, fun: str) -> Value | OnDevice:
    """A leaf of a result as a value of the trace."""
    if isinstance(x, (Tracer, OnDevice)):
        return lift(x)
    array = result_array(fun, x)
    return array if array.ndim else array[()]
