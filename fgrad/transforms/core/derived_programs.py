"""L4. Closed program -> its jvp, vjp and batched programs.

They serve primitives that hold a program (a nested `jit`, a loop body).  Each is traced once and
made once, see `Program.derived`.

    jvp_program       p(x) -> y   becomes   (x, t) -> (y, s)
    push_program      the same at once, for tangents that are selected
    vjp_programs      p(x) -> y   becomes   x -> (y, residuals)   and   (residuals, ct) -> ct_x
    batched_program   p(x) -> y   becomes   [x] -> [y]
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator, Hashable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial

from fgrad.base.named_tuple import NamedTuple
from fgrad.ir.aval import BOOL, Aval
from fgrad.ir.program import Program
from fgrad.ir.walk import calls_back, has_effect
from fgrad.ops.families import FLOATS
from fgrad.ops.selected import ZERO, Selected, Support, Tangent, known_support, plain
from fgrad.ops.shape import full
from fgrad.trace import Builder, Tracer, Value, run, trace
from fgrad.tracing.axes import open_axes, open_axis
from fgrad.tracing.layouts import orders_known
from fgrad.tracing.record import TracedProgram
from fgrad.tracing.thread_state import THREAD
from fgrad.transforms.core.batching import Batched, batch_aval, run_batched
from fgrad.transforms.core.equal_values import places_of
from fgrad.transforms.core.merged_loops import merged_loops
from fgrad.transforms.core.tape import Tape, pull_selected, push_selected
from fgrad.transforms.core.wrap import outside
from fgrad.typing import PyTree

Mask = tuple[bool, ...]
Kinds = tuple["int | None", ...]  # of tangents: DENSE, SELECTED, LOOSE, None for zero


class _Around(threading.local):
    """What the pullback of the loop around a program does with the arrays that the loop writes."""

    restored: bool | None = None  # None: there is no loop; False: each step's are kept


AROUND = _Around()


@contextmanager
def within_loop(restored: bool | None) -> Generator[None]:
    """Derive programs in a loop whose arrays are `restored`, or not."""
    before, AROUND.restored = AROUND.restored, restored
    try:
        yield
    finally:
        AROUND.restored = before


class JvpProgram(NamedTuple):
    """`program(*primals, *tangents)` for the active inputs gives the outputs, then the tangents of
    those outputs where `has_tangent`.

    The supports of selected tangents follow them; `supports` gives those of the results.
    """

    program: Program
    has_tangent: Mask
    supports: Program
    kinds: tuple[int, ...]  # of the tangents that there are


class VjpPrograms(NamedTuple):
    """`forward(*inputs)` gives `results` outputs, then residuals; `backward(*residuals, *cts)`
    takes cotangents of the outputs where `takes` and gives one for each wanted input, of the
    `kinds`, where None is always zero; `supports` gives those of selected ones.  Arrays that are
    `restored` are taken before the cotangents, and given after them."""

    forward: Program
    backward: Program
    results: int
    takes: Mask
    supports: Program
    kinds: tuple[int | None, ...]
    restored: int = 0
    along: Callable[[Kinds], Along | None] = lambda _: None

    def __reduce__(self) -> tuple[type[VjpPrograms], tuple[object, ...]]:
        """Without `along`, which is a function of what was traced: the pullback is pushed then."""
        return VjpPrograms, tuple(self)[:-1]


class Along(NamedTuple):
    """A pullback along cotangents of some kinds: `program(*residuals, *arrays, *cts, *bits)` gives
    cotangents of the `kinds`, arrays, and the bits of those that are selected."""

    program: Program
    kinds: Kinds


class Restores(NamedTuple):
    """How the pullback of a program finds arrays that its forward program has overwritten.

    The program has `extra` results that `begin` gets, with the arrays after the program, in the
    trace of the pullback; what it returns finds the arrays before the program, at the end.
    """

    extra: int
    arrays: Sequence[Aval]
    begin: Callable[[Sequence[Value], Sequence[Value]], Callable[[], list[Value]]]
    trace: Callable[..., TracedProgram]


def _nothing(_kept: Sequence[Value], _arrays: Sequence[Value]) -> Callable[[], list[Value]]:
    return list


NOTHING_RESTORED = Restores(0, (), _nothing, trace)


class BatchedProgram(NamedTuple):
    """`program` on whole batches; `dims` says where each output has its batched axis."""

    program: Program
    dims: tuple[int | None, ...]


def derived_program(
    of: Program, key: Hashable, fun: Callable[..., Sequence[Value]], avals: Sequence[Aval], by: str
) -> Program:
    """A program derived from another one, traced once."""

    def derive() -> Program:
        made_by = f"{by}({of.made_by})"
        return trace(fun, [a.strong() for a in avals], of.name, made_by).program

    return of.derived((key, THREAD.state.mapped, open_axes(), AROUND.restored), derive)


def covers(mask: Sequence[bool], wanted: Sequence[bool]) -> bool:
    """Whether what was prepared for some operands serves the wanted ones."""
    return not any([w and not m for w, m in zip(wanted, mask, strict=True)])


def zeros_of(aval: Aval) -> Value:
    """Zeros of a shape and dtype."""
    return full(aval.shape, 0, aval.dtype)


class _Replayed(NamedTuple):
    """A program run inside an eager builder; the inputs that are differentiated are its own."""

    builder: Builder
    inputs: list[PyTree]
    outs: list[PyTree]


def _replay(program: Program, what: str, values: Sequence[Value], active: Mask) -> _Replayed:
    builder = Builder(what, program.name, eager=True, saves=what == "vjp")
    with builder.running, builder:
        given = [builder.input(v, None) if a else v for v, a in zip(values, active, strict=True)]
        outs = [builder.lift(y) for y in run(program, given)]
    return _Replayed(builder, [x for x, a in zip(given, active, strict=True) if a], outs)


DENSE, SELECTED, LOOSE = 0, 1, 2  # kinds of tangents, see `Support`


def _kind(t: Tangent) -> int:
    if type(t) is not Selected:
        return DENSE
    return LOOSE if t.support.loose else SELECTED


def _of_kind(kind: int, t: Value, bits: Iterator[Value]) -> Value | Selected:
    """A tangent of a kind; its support, if it has one, comes from `bits`."""
    return t if kind == DENSE else Selected(t, known_support(next(bits), kind == LOOSE), ZERO)


def jvp_program(program: Program, active: Mask, kinds: tuple[int, ...] | None = None) -> JvpProgram:
    """The derivative of a program with respect to the inputs where `active`.

    Arguments:
        kinds: of the tangents of these inputs; dense if it is not given.
    """
    if kinds is None:
        kinds = (DENSE,) * sum(active)
    given = kinds
    key = ("jvp", active, kinds, open_axes())
    return program.derived(key, lambda: _jvp_program(program, active, given))


def _jvp_program(program: Program, active: Mask, kinds: tuple[int, ...]) -> JvpProgram:
    avals = [a.strong() for a in program.in_avals]
    count = len(avals)
    has: list[bool] = []
    out_kinds: list[int] = []

    def both(*values: Value) -> list[Value]:
        primals, tangents = values[:count], values[count : count + len(kinds)]
        bits = iter(values[count + len(kinds) :])
        builder, _, outs = _replay(program, "jvp", primals, active)
        ts = [_of_kind(kind, t, bits) for kind, t in zip(kinds, tangents, strict=True)]
        pushed = push_selected(Tape(builder, outs), ts)
        results = [outside(builder, y) for y in outs]
        builder.release()
        has.extend(t is not None for t in pushed)
        there = [t for t in pushed if t is not None]
        out_kinds.extend(_kind(t) for t in there)
        return [*results, *[plain(t) for t in there], *_supports(there, out_kinds)]

    extra = [a for a, want in zip(avals, active, strict=True) if want]
    supports = [Aval(a.shape, BOOL) for a, kind in zip(extra, kinds, strict=True) if kind]
    ins = [*avals, *extra, *supports]
    traced = merged_loops(trace(both, ins, program.name, f"jvp({program.made_by})").program)
    derived, supports = split_supports(traced, out_kinds)
    return JvpProgram(derived, tuple(has), supports, tuple(out_kinds))


def _supports(ts: Sequence[PyTree], kinds: Sequence[int | None]) -> list[Value]:
    return [t.bits() for t, kind in zip(ts, kinds, strict=True) if kind]


def split_supports(program: Program, kinds: Sequence[int | None]) -> tuple[Program, Program]:
    """A program without the supports that it ends with, and the one that computes these alone."""
    first = len(program.outputs) - sum([bool(kind) for kind in kinds])
    outputs = program.outputs
    return program.replace(outputs=outputs[:first]), program.replace(outputs=outputs[first:])


def join_supports(program: Program, supports: Program) -> Program:
    """A program that gives the supports of its results after these, see `split_supports`."""
    return program.replace(outputs=(*program.outputs, *supports.outputs))


def push_program(
    program: Program,
    primals: Sequence[Value],
    tangents: Sequence[Tangent],
    apply: Callable[[Program, list[Value]], Sequence[Value]],
) -> tuple[Tangent, ...]:
    """The tangents of the outputs of a program; `apply` runs the program that computes them."""
    active = tuple([t is not None for t in tangents])
    there = [t for t in tangents if t is not None]
    kinds = tuple([_kind(t) for t in there])
    derived = jvp_program(program, active, kinds)
    tangent_outs = derived.program.outputs[len(program.outputs) :]
    pushing = derived.program.derived(
        "tangents", lambda: derived.program.replace(outputs=tangent_outs)
    )
    operands = [*primals, *[plain(t) for t in there], *_supports(there, kinds)]
    pushed = apply(pushing, operands)
    each = iter(with_supports(pushed, derived.kinds, lambda: apply(derived.supports, operands)))
    return tuple([next(each) if h else None for h in derived.has_tangent])


def with_supports(
    values: Sequence[Value], kinds: Sequence[int | None], supports: Callable[[], Sequence[Value]]
) -> list[Value]:
    """Tangents or cotangents that a program gave, with the supports that another one gives."""
    found: list[Value] = []

    def nth(k: int) -> Value:
        if not found:
            found.extend(supports())
        return found[k]

    results: list[PyTree] = []
    count = 0
    for kind, value in zip(kinds, values, strict=True):
        if not kind:
            results.append(None if kind is None else value)
            continue
        support = Support((), partial(nth, count), kind == LOOSE)
        results.append(Selected(value, support, ZERO))
        count += 1
    return results


def vjp_programs(program: Program, wanted: Mask) -> VjpPrograms:
    """The forward program with residuals, and the pullback to the inputs where `wanted`."""
    key = ("vjp", wanted, open_axes(), AROUND.restored)
    return program.derived(key, lambda: restoring_programs(program, wanted, NOTHING_RESTORED))


def _inside(builder: Builder, x: Value) -> Value:
    """What a result is in the enclosing trace, as that has recorded it."""
    x = builder.lift(x)
    if not isinstance(x, Tracer):
        return x
    assert x.value is not None
    return x.value


def restoring_programs(program: Program, wanted: Mask, restores: Restores) -> VjpPrograms:
    """As `vjp_programs`, with arrays that the pullback restores."""
    programs = _restoring_programs(program, wanted, restores, None)
    around, axes = AROUND.restored, open_axes()
    acts = any([has_effect(eqn) or calls_back(eqn) for eqn in program.eqns])

    def along(given: Kinds) -> Along | None:
        if acts or open_axes() != axes:
            return None
        with within_loop(around):
            own = _restoring_programs(program, wanted, restores, given)
        kept = own.forward.outputs[own.results :]
        places = places_of(kept, own.forward, programs.forward, programs.results)
        if places is None:
            return None
        count = len(programs.forward.outputs) - programs.results
        whole = join_supports(own.backward, own.supports)

        def backward(*values: Value) -> Sequence[Value]:
            return run(whole, [*[values[k] for k in places], *values[count:]])

        avals = [a.aval for a in programs.forward.outputs[programs.results :]]
        avals += own.backward.in_avals[len(kept) :]
        made = derived_program(own.backward, "along", backward, avals, "vjp")
        return Along(made, own.kinds)

    return programs._replace(along=along)


def _restoring_programs(
    program: Program, wanted: Mask, restores: Restores, given: Kinds | None
) -> VjpPrograms:
    """The programs whose pullback takes cotangents of the `given` kinds, dense if that is None."""
    count = len(program.outputs) - restores.extra
    n_arrays = len(restores.arrays)
    takes: list[bool] = []
    kinds: list[int | None] = []
    backward: list[Program] = []

    def forward(*values: Value) -> list[Value]:
        builder, targets, outs = _replay(program, "vjp", values, wanted)
        outs, more = outs[:count], outs[count:]
        # Whoever runs the pullback gives zeros where it takes cotangents, so it must not take those
        # that end at a `stop_gradient`: primitives before it need not have a derivative.
        tape = Tape(builder, outs, exact=True)
        takes.extend(
            isinstance(y, Tracer) and bool(tape.active[y.index]) and y.dtype.kind in FLOATS
            for y in outs
        )
        results = [outside(builder, y) for y in outs]
        kept = [_inside(builder, y) for y in more]
        builder.release()
        of_cts = (DENSE,) * sum(takes) if given is None else given
        there = [kind for kind in of_cts if kind is not None]

        def pullback(*values: Value) -> list[Value]:
            before = restores.begin(kept, values[:n_arrays])
            cts, bits = iter(values[n_arrays:]), iter(values[n_arrays + len(there) :])
            own = iter([
                None if kind is None else _of_kind(kind, next(cts), bits) for kind in of_cts
            ])  # fmt: skip
            pulled = pull_selected(tape, [next(own) if t else None for t in takes])
            kinds.extend(None if ct is None else _kind(ct) for ct in pulled)
            found = [
                zeros_of(x.aval) if ct is None else plain(ct)
                for ct, x in zip(pulled, targets, strict=True)
            ]
            return [*found, *before(), *_supports(pulled, kinds)]

        ct_avals = [y.aval.strong() for y, t in zip(outs, takes, strict=True) if t]
        pairs = list(zip(ct_avals, of_cts, strict=True))
        ins = [*restores.arrays, *[a for a, kind in pairs if kind is not None]]
        ins += [Aval(a.shape, BOOL) for a, kind in pairs if kind]
        traced = restores.trace(pullback, ins, program.name, f"vjp({program.made_by})")
        backward.extend(split_supports(traced.program, kinds))
        return results + traced.captured

    avals = [a.strong() for a in program.in_avals]
    traced = trace(forward, avals, program.name, f"vjp({program.made_by})")
    pulling, supports = backward
    return VjpPrograms(
        traced.program, pulling, count, tuple(takes), supports, tuple(kinds), n_arrays
    )


def batched_program(program: Program, size: int, dims: tuple[int | None, ...]) -> BatchedProgram:
    """The program on batches of `size`, with batched axes of the inputs at `dims`; the batch is
    along the axis whose batching rules run."""
    key = ("vmap", size, dims, THREAD.state.mapped, open_axes())
    return program.derived(key, lambda: _batched_program(program, size, dims))


def _batched_program(program: Program, size: int, dims: tuple[int | None, ...]) -> BatchedProgram:
    name = THREAD.state.mapped
    pairs = zip(program.in_avals, dims, strict=True)
    avals = [batch_aval(a, d, size, name) for a, d in pairs]
    out_dims: list[int | None] = []

    def batched(*values: Value) -> list[Value]:
        builder = Builder("vmap", program.name, eager=True)
        with open_axis(name, size, builder), builder.running, builder:
            differ = [
                d is not None or name in a.varies
                for a, d in zip(program.in_avals, dims, strict=True)
            ]
            inputs = [
                builder.input(None, a.strong()) if w else builder.input(v, None)
                for v, a, w in zip(values, program.in_avals, differ, strict=True)
            ]
            outs = [builder.lift(y) for y in run(program, inputs)]
        env: dict[int, Batched] = {
            x.index: (v, d) for x, v, d, w in zip(inputs, values, dims, differ, strict=True) if w
        }
        pairs = run_batched(builder.records, env, outs, orders_known(outs), size, name)
        builder.release()
        out_dims.extend(d for _, d in pairs)
        return [y for y, _ in pairs]

    traced = trace(batched, avals, program.name, f"vmap({program.made_by})")
    return BatchedProgram(traced.program, tuple(out_dims))
