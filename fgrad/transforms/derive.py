"""L4. Derived programs: the derivative, the pullback and the batched form of a closed program.

They serve primitives that hold a program (a nested `jit`, a loop body).  Each is traced once and
kept in `program.cache`.

    jvp_program       p(x) -> y   becomes   (x, t) -> (y, s)
    vjp_programs      p(x) -> y   becomes   x -> (y, residuals)   and   (residuals, ct) -> ct_x
    batched_program   p(x) -> y   becomes   [x] -> [y]
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from fgrad.ir.aval import Aval
from fgrad.ir.program import Program
from fgrad.ops.families import FLOATS
from fgrad.ops.shape import full
from fgrad.trace import Builder, Tracer, Value, run, trace
from fgrad.transforms.tape import Tape, pull, push
from fgrad.transforms.vmap import run_batched
from fgrad.transforms.wrap import outside

Mask = tuple[bool, ...]


class JvpProgram(NamedTuple):
    """`program(*primals, *tangents)` for the active inputs gives the outputs, then the tangents of
    those outputs where `has_tangent`."""

    program: Program
    has_tangent: Mask


class VjpPrograms(NamedTuple):
    """`forward(*inputs)` gives `count` outputs, then residuals; `backward(*residuals, *cts)` takes
    cotangents of the outputs where `takes` and gives one for each wanted input."""

    forward: Program
    backward: Program
    count: int
    takes: Mask


class BatchedProgram(NamedTuple):
    """`program` on whole batches; `dims` says where each output has its batched axis."""

    program: Program
    dims: tuple[int | None, ...]


def covers(mask: Sequence[bool], wanted: Sequence[bool]) -> bool:
    """Whether what was prepared for some operands serves the wanted ones."""
    return not any([w and not m for w, m in zip(wanted, mask, strict=True)])


def zeros_of(aval: Aval) -> Value:
    """Zeros of a shape and dtype."""
    return full(aval.shape, 0, aval.dtype)


class _Replayed(NamedTuple):
    """A program run inside an eager builder; the inputs that are differentiated are its own."""

    builder: Builder
    inputs: list[Tracer]
    outs: list[Value]


def _replay(program: Program, what: str, values: Sequence[Value], active: Mask) -> _Replayed:
    builder = Builder(what, program.name, eager=True, saves=what == "vjp")
    with builder.running, builder:
        given = [builder.input(v, None) if a else v for v, a in zip(values, active, strict=True)]
        outs = [builder.lift(y) for y in run(program, given)]
    return _Replayed(builder, [x for x, a in zip(given, active, strict=True) if a], outs)


def jvp_program(program: Program, active: Mask) -> JvpProgram:
    """The derivative of a program with respect to the inputs where `active`."""
    key = ("jvp", active)
    found = program.cache.get(key)
    if found is None:
        found = program.cache[key] = _jvp_program(program, active)
    return found


def _jvp_program(program: Program, active: Mask) -> JvpProgram:
    avals = [a.strong() for a in program.in_avals]
    count = len(avals)
    has: list[bool] = []

    def both(*values: Value) -> list[Value]:
        primals, tangents = values[:count], values[count:]
        builder, inputs, outs = _replay(program, "jvp", primals, active)
        pushed = push(Tape(builder, inputs, outs), list(tangents))
        results = [outside(builder, y) for y in outs]
        builder.release()
        has.extend(t is not None for t in pushed)
        return results + [t for t in pushed if t is not None]

    extra = [a for a, want in zip(avals, active, strict=True) if want]
    traced = trace(both, [*avals, *extra], program.name, f"jvp({program.made_by})")
    return JvpProgram(traced.program, tuple(has))


def vjp_programs(program: Program, wanted: Mask) -> VjpPrograms:
    """The forward program with residuals, and the pullback to the inputs where `wanted`."""
    key = ("vjp", wanted)
    found = program.cache.get(key)
    if found is None:
        found = program.cache[key] = _vjp_programs(program, wanted)
    return found


def _vjp_programs(program: Program, wanted: Mask) -> VjpPrograms:
    takes: list[bool] = []
    backward: list[Program] = []

    def forward(*values: Value) -> list[Value]:
        builder, targets, outs = _replay(program, "vjp", values, wanted)
        # Whoever runs the pullback gives zeros where it takes cotangents, so it must not take those
        # that end at a `stop_gradient`: primitives before it need not have a derivative.
        tape = Tape(builder, targets, outs, exact=True)
        takes.extend(
            isinstance(y, Tracer) and bool(tape.active[y.index]) and y.dtype.kind in FLOATS
            for y in outs
        )
        results = [outside(builder, y) for y in outs]
        builder.release()

        def pullback(*cts: Value) -> list[Value]:
            given = iter(cts)
            pulled = pull(tape, [next(given) if t else None for t in takes])
            return [
                zeros_of(x.aval) if ct is None else ct
                for ct, x in zip(pulled, targets, strict=True)
            ]

        ct_avals = [y.aval.strong() for y, t in zip(outs, takes, strict=True) if t]
        traced = trace(pullback, ct_avals, program.name, f"vjp({program.made_by})")
        backward.append(traced.program)
        return results + traced.captured

    avals = [a.strong() for a in program.in_avals]
    traced = trace(forward, avals, program.name, f"vjp({program.made_by})")
    return VjpPrograms(traced.program, backward[0], len(program.outputs), tuple(takes))


def batched_program(program: Program, size: int, dims: tuple[int | None, ...]) -> BatchedProgram:
    """The program on batches of `size`, with batched axes of the inputs at `dims`."""
    key = ("vmap", size, dims)
    found = program.cache.get(key)
    if found is None:
        found = program.cache[key] = _batched_program(program, size, dims)
    return found


def _batched_program(program: Program, size: int, dims: tuple[int | None, ...]) -> BatchedProgram:
    avals = [
        a.strong() if d is None else Aval((*a.shape[:d], size, *a.shape[d:]), a.dtype)
        for a, d in zip(program.in_avals, dims, strict=True)
    ]
    out_dims: list[int | None] = []

    def batched(*values: Value) -> list[Value]:
        builder = Builder("vmap", program.name, eager=True)
        with builder.running, builder:
            inputs = [
                builder.input(v, None) if d is None else builder.input(None, a.strong())
                for v, a, d in zip(values, program.in_avals, dims, strict=True)
            ]
            outs = [builder.lift(y) for y in run(program, inputs)]
        env: dict[int, Any] = {
            x.index: (v, d) for x, v, d in zip(inputs, values, dims, strict=True) if d is not None
        }
        pairs = run_batched(builder.records, env, outs, size)
        builder.release()
        out_dims.extend(d for _, d in pairs)
        return [y for y, _ in pairs]

    traced = trace(batched, avals, program.name, f"vmap({program.made_by})")
    return BatchedProgram(traced.program, tuple(out_dims))
