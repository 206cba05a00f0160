"""L4. Loops in reverse that restore the arrays they write, instead of keeping one for each step.

    forward    y' = y.at[i].set(u)      also keeps what was overwritten, the element y[i]
    backward   y = y'.at[i].set(kept)   from the last array of the loop back to its first

What a derivative reads of an array at some step is then read of the array as it was at that step,
whose memory is updated in place in both directions.  Each update from the array that a body is
given to the one that it returns must be an element or block that is written, or a loop that
restores its own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from fgrad.base.gc_policy import collector_relaxed
from fgrad.base.named_tuple import NamedTuple
from fgrad.ir.aval import Aval
from fgrad.ir.program import Atom, Eqn, Params, Program, Var
from fgrad.ir.walk import definitions
from fgrad.ops.control import scan_p, while_p
from fgrad.ops.index import (
    dynamic_slice_p,
    dynamic_update,
    dynamic_update_p,
    gather_p,
    scatter,
    scatter_p,
)
from fgrad.trace import Builder, Tracer, Value, innermost
from fgrad.tracing.axes import open_axes
from fgrad.tracing.record import TracedProgram
from fgrad.transforms.control.branch_writes import FEW, writes_after_branches
from fgrad.transforms.core.derived_programs import (
    Mask,
    Restores,
    VjpPrograms,
    restoring_programs,
    within_loop,
)

# --- which arrays can be restored


class Update(NamedTuple):
    """An equation that makes an array of the one before, in place."""

    eqn: Eqn
    before: Atom
    after: Var


def updates_of(program: Program, given: Var, result: Atom) -> list[Update] | None:
    """The updates that make a result of an input, in order; None if anything else does."""
    defined = definitions(program.eqns)
    found: list[Update] = []
    while result is not given:
        eqn = defined.get(result) if isinstance(result, Var) else None
        if eqn is None or not isinstance(result, Var):
            return None
        before = _updated(eqn, eqn.outputs.index(result))
        if before is None:
            return None
        found.append(Update(eqn, before, result))
        result = before
    return found[::-1]


def _updated(eqn: Eqn, k: int) -> Atom | None:
    """The array of which the k-th result is an updated version that can be undone."""
    p = eqn.params
    if _is_write(eqn):
        return eqn.inputs[0]
    first: int
    if eqn.prim is scan_p and k < p["n_carry"]:
        first = p["n_consts"]
        return eqn.inputs[first + k] if k in restorable(p["body"], first, p["n_carry"]) else None
    if eqn.prim is while_p and p["max_steps"] is not None and p["role"] is None:
        first = p["n_body"]
        place: int = p["n_cond"] + first + k
        return eqn.inputs[place] if k in restorable(p["body"], first, len(eqn.outputs)) else None
    return None


def _is_write(eqn: Eqn) -> bool:
    return eqn.prim is scatter_p or eqn.prim is dynamic_update_p


def restorable(body: Program, n_consts: int, n_carry: int) -> tuple[int, ...]:
    """The numbers of the carries of a loop that can be restored."""

    def find() -> tuple[int, ...]:
        plain = writes_after_branches(body)
        carries = zip(plain.inputs[n_consts:], plain.outputs[:n_carry], strict=False)
        return tuple(
            [k for k, (v, out) in enumerate(carries) if is_large(v) and updates_of(plain, v, out)]
        )

    return body.derived(("restorable", n_consts, n_carry), find)


def is_large(var: Var) -> bool:
    """Whether an array is in memory, not in registers."""
    return var.aval.size > FEW


# --- the step of a loop, with what it overwrites


class Keeping(NamedTuple):
    """A step that also gives, for each update of some carries, the arrays before and after it, and
    what a write overwrites and where; the updates of each carry."""

    program: Program
    chains: list[list[Eqn]]

    def undone(self, kept: Sequence[Value], arrays: Sequence[Value]) -> Callable[[], list[Value]]:
        """Undo the updates in the trace of the step in reverse, when what was before is read.

        Arguments:
            kept: what the step gives besides its results.
            arrays: the carries after the step.

        Returns:
            What finds the carries before it.
        """
        builder = innermost()
        assert isinstance(builder, Restoring)
        each, first = iter(kept), list[Tracer]()
        for chain, array in zip(self.chains, arrays, strict=True):
            versions: list[Tracer] = []
            for eqn in chain:
                before, after = _tracer(next(each)), _tracer(next(each))
                versions += [before, after]
                if _is_write(eqn):
                    builder.later(before, eqn, after, [next(each) for _ in eqn.inputs[1:]])
            builder.settle(versions[-1], array)
            first.append(versions[0])
        return lambda: [builder.capture(x) for x in first]


def _tracer(x: Value) -> Tracer:
    assert type(x) is Tracer
    return x


def _keeping(body: Program, first: int, carries: Sequence[int]) -> Keeping:
    """The step of a loop with `first` constants that keeps what it overwrites of some carries."""
    plain = writes_after_branches(body)
    chains = [updates_of(plain, plain.inputs[first + k], plain.outputs[k]) or [] for k in carries]
    updates = [u for chain in chains for u in chain]
    reads = {u.after: _read_before(u.eqn) for u in updates if _is_write(u.eqn)}
    eqns: list[Eqn] = []
    for eqn in plain.eqns:
        read = reads.get(eqn.outputs[0]) if eqn.outputs else None
        eqns += [eqn] if read is None else [read, eqn]
    more: list[Atom] = []
    for u in updates:
        more += [u.before, u.after]
        more += [reads[u.after].outputs[0], *u.eqn.inputs[2:]] if u.after in reads else []
    program = plain.replace(eqns=tuple(eqns), outputs=(*plain.outputs, *more))
    return Keeping(program, [[u.eqn for u in chain] for chain in chains])


def _undone(eqn: Eqn, after: Value, old: Value, places: Sequence[Value]) -> Value:
    """The array before a write."""
    if eqn.prim is dynamic_update_p:
        return dynamic_update(after, old, places)
    return scatter(after, places, old, eqn.params["axes"])


def _read_before(eqn: Eqn) -> Eqn:
    """What a write overwrites."""
    x, written, *places = eqn.inputs
    out = Var(written.aval.strong())
    if eqn.prim is dynamic_update_p:
        params = Params(sizes=written.aval.shape)
        return Eqn(dynamic_slice_p, (x, *places), params, (out,), eqn.loc, eqn.via)
    params = Params(axes=eqn.params["axes"], mode="clip")
    return Eqn(gather_p, (x, *places), params, (out,), eqn.loc, eqn.via)


# --- the trace of a pullback


class Restoring(Builder):
    """The trace of a step in reverse: arrays of the forward step that were updated there are what
    the updates are undone to."""

    __slots__ = ("known", "pending")

    def __init__(self, what: str, name: str) -> None:
        super().__init__(what, name, eager=False)
        self.known: dict[tuple[int, int], Tracer] = {}  # by builder and number
        self.pending: dict[tuple[int, int], Callable[[], Value]] = {}

    def capture(self, outer: Tracer) -> Tracer:
        """The inner stand-in of a tracer of an enclosing builder."""
        key = id(outer.builder), outer.index
        undo = self.pending.pop(key, None)
        if undo is not None:
            self.settle(outer, undo())
        found = self.known.get(key)
        return super().capture(outer) if found is None else found

    def later(self, before: Tracer, eqn: Eqn, after: Tracer, kept: Sequence[Value]) -> None:
        """Undo a write when the array before it is read."""

        def undo() -> Value:
            old, *places = [self.capture(x) if type(x) is Tracer else x for x in kept]
            return _undone(eqn, self.capture(after), old, places)

        self.pending[id(before.builder), before.index] = undo

    def settle(self, outer: Tracer, value: Value) -> None:
        """Say what an array of the forward step is in the trace."""
        assert type(value) is Tracer
        key = id(outer.builder), outer.index
        self.pending.pop(key, None)
        self.known[key] = value if value.builder is self else self.capture(value)


def settle(before: Sequence[Value], values: Sequence[Value]) -> None:
    """Say what the arrays that a loop was given are, once it has been pulled back."""
    builder = innermost()
    if isinstance(builder, Restoring):
        for outer, value in zip(before, values, strict=True):
            if type(outer) is Tracer and outer.builder is not builder:
                builder.settle(outer, value)


def _trace(
    fun: Callable[..., Sequence[Value]], avals: Sequence[Aval], name: str, what: str
) -> TracedProgram:
    """As `trace.trace`, by a `Restoring` builder."""
    builder = Restoring(what, name)
    try:
        with collector_relaxed(), builder.running, builder:
            inputs = [builder.input(None, aval, aval.weak) for aval in avals]
            return builder.close([builder.lift(out) for out in fun(*inputs)])
    finally:
        builder.release()


def restored_programs(
    body: Program, wanted: Mask, first: int, carries: tuple[int, ...]
) -> VjpPrograms:
    """The derivative of a step that restores some carries: `backward(*residuals, *arrays, *cts)`
    takes those after the step, and gives those before it after the cotangents."""

    def make() -> VjpPrograms:
        keeping = _keeping(body, first, carries)
        arrays = [body.in_avals[first + k].strong() for k in carries]
        extra = len(keeping.program.outputs) - len(body.outputs)
        with within_loop(True):
            restores = Restores(extra, arrays, keeping.undone, _trace)
            return restoring_programs(keeping.program, wanted, restores)

    return body.derived(("restoring", wanted, first, carries, open_axes()), make)
