"""L4. Memory budget -> which residuals of a gradient are saved and which are recomputed.

    grad(f, memory="500MB")

The function is traced and cut into segments where few values are alive.  Some segments, the first
ones, become checkpoints; long loops keep few carries.  The memory of each choice is counted: under
`jit` by tracing the gradient, equation by equation; for known values by what the trace holds.  The
choice that computes least again and fits is taken.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Hashable, Iterator, Sequence

import numpy as np

from fgrad import tree
from fgrad.base.named_tuple import NamedTuple
from fgrad.base.pickling import Transformed
from fgrad.base.source import warn_user
from fgrad.errors import MemoryBudgetWarning
from fgrad.ir.aval import aval_of
from fgrad.ir.memory import bytes_of, is_view, live_bytes, peak_bytes
from fgrad.ir.program import Atom, Eqn, Lit, Program, Var
from fgrad.ops.control import scan_p
from fgrad.trace import Builder, Tracer, Value, bind, concrete, innermost, run, trace
from fgrad.tracing.capturing import user_form
from fgrad.tracing.device_tracing import lower
from fgrad.tracing.thread_state import THREAD
from fgrad.transforms.checkpoint.checkpoint import Saving, bind_checkpoint
from fgrad.transforms.checkpoint.scan import lengths_of, saving_scan
from fgrad.transforms.control.chunks import byte_count
from fgrad.transforms.control.common import some, split_list
from fgrad.transforms.core.arguments import refuse_edits, watched
from fgrad.transforms.core.derived_programs import zeros_of
from fgrad.transforms.core.outer_context import trace_beneath
from fgrad.transforms.core.tape import Tape, pull
from fgrad.transforms.core.wrap import as_value, function_name, is_weak
from fgrad.typing import PyTree

Values = Sequence[Value]

PARTS = (2, 3, 4, 6, 8, 12, 16, 24, 32)
FINER = (6, 12, 24)  # tried after the first that fits: fewer of more segments
ELEMENTWISE = 0.25  # of the time of a function, as a guess: what is not matrix products
LONG = 8  # steps of a loop that may keep fewer carries


class Choice(NamedTuple):
    """How a program is cut: into `parts` segments, of which the first `saved` are checkpoints, each
    cut into `inner` such; how its loops keep carries; whether checkpoints keep matrix products."""

    parts: int = 1
    saved: int = 0
    inner: int = 1
    loops: str | bool = False
    products: bool = False

    @property
    def cost(self) -> float:
        """How much of the function is computed again."""
        again = self.saved / self.parts * (ELEMENTWISE if self.products else 1.0)
        again += (self.inner > 1) + {False: 0.0, "sqrt": 0.9}.get(self.loops, 2.5)
        return again + 0.001 * self.parts


class Segment(NamedTuple):
    """Consecutive equations as a program, and the variables that it takes and gives."""

    program: Program
    inputs: tuple[Var, ...]
    outputs: tuple[Var, ...]


def budgeted(fun: Callable[..., PyTree], memory: str | int) -> Callable[..., PyTree]:
    """`fun`, which derivatives in reverse can differentiate in so much memory beyond the arguments.

    It is traced like a jitted function: Python does not see the values of arrays.
    """
    limit = byte_count(memory, "memory")
    chosen: dict[Hashable, Choice] = {}

    def in_budget(*args: PyTree, **kwargs: PyTree) -> PyTree:
        if innermost() is None:
            return user_form(fun)(*args, **kwargs)
        leaves, in_tree = tree.flatten((args, kwargs))
        where = [k for k, x in enumerate(leaves) if isinstance(x, (Tracer, np.ndarray, np.generic))]
        values = [as_value(leaves[k]) for k in where]
        name = function_name(fun)

        def flat(*inputs: Value) -> PyTree:
            whole = list(leaves)
            for k, x in zip(where, inputs, strict=True):
                whole[k] = x
            call_args, call_kwargs = tree.unflatten(in_tree, whole)
            watch = watched([*call_args, call_kwargs])
            out = user_form(fun)(*call_args, **call_kwargs)
            refuse_edits(f"grad({name})", watch, out)
            return out

        weak = [is_weak(x) for x in values]
        traced = trace_beneath(flat, values, name, "grad", weak, known=False)
        operands = [*traced.captured, *values]
        wanted = tuple([isinstance(x, Tracer) and x.dtype.kind in "fc" for x in operands])
        eager = all([concrete(x) is not None for x in operands])
        avals = tuple([aval_of(x) for x in operands])
        key = (in_tree, avals, wanted, len(traced.program.eqns), eager)
        if key not in chosen:
            chosen[key] = choose(traced.program, wanted, limit, name, eager)
        outs = apply(traced.program, operands, chosen[key])
        return tree.unflatten(traced.treedef, map(lower, outs))

    return Transformed(in_budget, fun, function_name(fun))


# --- choosing


def choose(
    program: Program, wanted: tuple[bool, ...], limit: int, name: str, eager: bool = False
) -> Choice:
    """The choice that computes least again and fits; else the one that needs least memory."""
    predict = held if eager else predicted
    best, least = Choice(), -1
    for choice in _candidates(program):
        need = predict(program, wanted, choice)
        if need <= limit:
            most = len(program.eqns)
            finer = [choice._replace(parts=k, saved=k - 1) for k in FINER if k <= most]
            found = [choice, *[c for c in finer if choice.saved and c.parts > choice.parts]]
            cheaper = [_cheaper(lambda c: predict(program, wanted, c) <= limit, c) for c in found]
            return min([c for c in cheaper if c is not None], key=lambda c: c.cost)
        if least < 0 or need < least:
            best, least = choice, need
    warn_user(
        f"the gradient of {name} takes {_shown(least)} at least, by the choices that were tried, "
        f"but memory={_shown(limit)}.",
        MemoryBudgetWarning,
    )
    return best


def _shown(size: int) -> str:
    for unit, scale in (("GB", 1e9), ("MB", 1e6), ("KB", 1e3)):
        if size >= scale:
            return f"{size / scale:,.1f} {unit}"
    return f"{size} bytes"


def _candidates(program: Program) -> Iterator[Choice]:
    """Choices in the order of their cost, each with as many checkpoints as possible."""
    loops: list[str | bool] = [False]
    if any([e.prim is scan_p and e.params["length"] > LONG for e in program.eqns]):
        loops += ["sqrt", "log"]
    found = [Choice(loops=how) for how in loops]
    parts = [k for k in PARTS if k <= len(program.eqns)]
    found += [Choice(k, k - 1, 1, how) for k in parts for how in loops]
    if any([e.prim.contracts for e in program.eqns]):
        found += [Choice(k, k - 1, 1, how, True) for k in parts for how in loops]
    found += [Choice(k, k - 1, j, how) for k in parts for j in parts if j <= k for how in loops]
    return iter(sorted(found, key=lambda c: c.cost))


def _cheaper(fits: Callable[[Choice], bool], choice: Choice) -> Choice | None:
    """The same with the fewest checkpoints that fit, by bisection; None if none does."""
    if not fits(choice):
        return None
    low, high = 0, choice.saved
    while high - low > 1:
        middle = (low + high) // 2
        if fits(choice._replace(saved=middle)):
            high = middle
        else:
            low = middle
    return choice._replace(saved=high)


def predicted(program: Program, wanted: tuple[bool, ...], choice: Choice) -> int:
    """The bytes that the gradient needs beyond its arguments, if no equations are fused."""
    avals = [a.strong() for a in program.in_avals]

    def gradient(*values: Value) -> list[Value]:
        builder = Builder("vjp", program.name, eager=True, saves=True)
        with builder.running, builder:
            inputs = [builder.input(v, None) for v in values]
            outs = [builder.lift(y) for y in apply(program, inputs, choice)]
            tape = Tape(builder, outs, wanted)
        cts = [y.dtype.type(1) if not y.shape and y.dtype.kind in "fc" else None for y in outs]
        builder.release()
        targets = some(avals, wanted)
        pulled = pull(tape, cts)
        return [zeros_of(a) if ct is None else ct for ct, a in zip(pulled, targets, strict=True)]

    return peak_bytes(trace(gradient, avals, program.name, "budget").program)


def held(program: Program, wanted: tuple[bool, ...], choice: Choice) -> int:
    """The same where the trace holds all values until they have been used."""
    kept, again = _kept(program, choice)
    return kept + again + sum([bytes_of(a) for a in some(program.in_avals, wanted)])


def _kept(program: Program, choice: Choice) -> tuple[int, int]:
    """The bytes that are held to the end of the forward pass, and what running again adds."""
    segments = segments_of(program, choice.parts)
    kept = again = 0
    for k, segment in enumerate(segments):
        inside = (_made(segment.program, choice.loops), 0)
        if choice.inner > 1:
            inside = _kept(segment.program, _nested(choice))
        if k < choice.saved and len(segments) > 1:
            kept += sum([bytes_of(v.aval) for v in segment.outputs])
            kept += sum([bytes_of(v.aval) for v in _products(segment.program, choice)])
            again = max(again, sum(inside))
        else:
            kept += inside[0]
            again = max(again, inside[1])
    return kept, again


def _made(program: Program, loops: str | bool) -> int:
    """The bytes of all results, and of what loops keep of their steps."""
    total = 0
    for eqn in program.eqns:
        if not is_view(eqn):
            total += sum([bytes_of(v.aval) for v in eqn.outputs])
        if eqn.prim is scan_p:
            length = eqn.params["length"]
            lengths = (length, *(lengths_of(loops, length) if loops and length > LONG else ()), 1)
            steps = sum([-(-a // b) for a, b in itertools.pairwise(lengths)])
            total += steps * _made(eqn.params["body"], False)
    return total


# --- applying a choice


def apply(program: Program, operands: Values, choice: Choice) -> list[Value]:
    """The results of a program, cut as was chosen."""
    segments = segments_of(program, choice.parts)
    env: dict[Atom, Value] = dict(zip(program.inputs, operands, strict=True))
    for k, segment in enumerate(segments):
        given = [env[v] for v in segment.inputs]
        if k < choice.saved and len(segments) > 1:
            outs = _saved(segment.program, given, choice)
        elif choice.inner > 1:
            outs = apply(segment.program, given, _nested(choice))
        else:
            outs = _plain(segment.program, given, choice.loops)
        env.update(zip(segment.outputs, outs, strict=True))
    consts = dict(program.consts)
    return [
        a.value if isinstance(a, Lit) else env[a] if a in env else consts[a]
        for a in program.outputs
    ]


def _saved(program: Program, operands: Values, choice: Choice) -> Sequence[Value]:
    """A segment as a checkpoint, whose own segments may be checkpoints too."""
    key = ("budget", choice.inner, choice.loops, choice.products)

    def checkpointed() -> Program:
        nested = _nested(choice)
        avals = [a.strong() for a in program.in_avals]
        traced = trace(lambda *xs: apply(program, xs, nested), avals, program.name, "checkpoint")
        outputs = traced.program.outputs
        extra = tuple(_products(traced.program, choice))
        return traced.program.replace(outputs=(*outputs, *extra))

    inner = program.derived(key, checkpointed)
    count = len(program.outputs)
    return bind_checkpoint(inner, operands, Saving(None, count, True))[:count]


def _products(program: Program, choice: Choice) -> list[Var]:
    """The results that a checkpoint keeps besides its arguments."""
    if not choice.products:
        return []
    return [v for e in program.eqns if e.prim.contracts for v in e.outputs]


def _nested(choice: Choice) -> Choice:
    """How a segment is cut."""
    return Choice(choice.inner, choice.inner - 1, 1, choice.loops)


def _plain(program: Program, operands: Values, loops: str | bool) -> Sequence[Value]:
    """A program with loops that keep few carries."""
    if not loops or not any([e.prim is scan_p for e in program.eqns]):
        return run(program, operands)
    env: dict[Atom, Value] = dict(zip(program.inputs, operands, strict=True))
    env.update(program.consts)
    saved = THREAD.state.loc
    for eqn in program.eqns:
        THREAD.state.loc = eqn.loc
        ins = [a.value if isinstance(a, Lit) else env[a] for a in eqn.inputs]
        env.update(zip(eqn.outputs, _equation(eqn, ins, loops), strict=True))
    THREAD.state.loc = saved
    return [a.value if isinstance(a, Lit) else env[a] for a in program.outputs]


def _equation(eqn: Eqn, ins: Values, loops: str | bool) -> Sequence[Value]:
    p = eqn.params
    if eqn.prim is scan_p and p["length"] > LONG:
        c, k, x = split_list(ins, p["n_consts"], p["n_carry"])
        lengths = lengths_of(loops, p["length"])
        return saving_scan(p["body"], p["length"], p["reverse"], c, k, x, lengths)
    out = bind(eqn.prim, *ins, **p)
    return out if eqn.prim.multiple else (out,)


def segments_of(program: Program, parts: int) -> list[Segment]:
    """The program in consecutive parts that make about as much each, cut where little is alive."""

    def cut() -> list[Segment]:
        return [_segment(program, a, b) for a, b in itertools.pairwise(_edges(program, parts))]

    return program.derived(("segments", parts), cut)


def _edges(program: Program, parts: int) -> list[int]:
    count = len(program.eqns)
    made = [sum([bytes_of(v.aval) for v in e.outputs]) + 1 for e in program.eqns]
    before: list[int] = [0, *np.cumsum(made).tolist()]
    alive = live_bytes(program)
    edges = [0]
    reach = math.ceil(before[-1] / parts / 3)
    for k in range(1, parts):
        ideal = before[-1] * k / parts
        low = int(np.searchsorted(before, ideal - reach))
        high = int(np.searchsorted(before, ideal + reach, side="right"))
        window = range(max(low, edges[-1] + 1), min(max(high, low + 1), count))
        if window:
            edges.append(min(window, key=lambda i: (alive[i], abs(before[i] - ideal))))
    return [*edges, count]


def _segment(program: Program, start: int, stop: int) -> Segment:
    eqns = program.eqns[start:stop]
    consts = dict(program.consts)
    made = {v for e in eqns for v in e.outputs}
    read = dict.fromkeys([a for e in eqns for a in e.inputs if isinstance(a, Var)])
    inputs = tuple([v for v in read if v not in made and v not in consts])
    later = {a for e in program.eqns[stop:] for a in e.inputs} | set(program.outputs)
    outputs = tuple([v for e in eqns for v in e.outputs if v in later])
    own = tuple([(v, x) for v, x in program.consts if v in read])
    cut = program.replace(inputs=inputs, consts=own, eqns=eqns, outputs=outputs)
    return Segment(cut, inputs, outputs)
