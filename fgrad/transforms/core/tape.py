"""L4. Linear maps along recorded equations: pushing tangents forward, pulling cotangents back.

A tape is what an eager builder recorded.  `push` applies each primitive's jvp in order; `pull`
applies the transposed derivatives in reverse.  Both bind in the enclosing context, so they nest.
The derivative of a primitive is written once: elementwise maps are their own transposes, linear
primitives have a transpose rule, and for all others the jvp is recorded as a small linear tape of
its own and pulled back.

What is zero because it was not selected, or not read, stays zero whatever it is multiplied by:
see `ops/selected.py`.
"""

from __future__ import annotations

import copyreg
import threading
from collections.abc import Callable, Iterable, Sequence
from itertools import compress
from operator import attrgetter

import numpy as np

from fgrad.base.source import resolve
from fgrad.errors import MissingRuleError
from fgrad.ir.aval import aval_of
from fgrad.ir.primitive import Primitive, Refusal
from fgrad.ops.elementwise import add as sum_of
from fgrad.ops.families import FLOATS, map_selected, push_maps
from fgrad.ops.moved import Reads, pull_moved, push_moved
from fgrad.ops.selected import ZERO, Selected, Tangent, either, join, plain
from fgrad.trace import Builder, Tracer, Value, passed_by
from fgrad.tracing.record import Record
from fgrad.tracing.thread_state import THREAD
from fgrad.transforms.core.reads import Read, pull_reads, read_of
from fgrad.typing import EqnParams, PyTree


def replayed_by(via: str, before: tuple[str, ...]) -> tuple[str, ...]:
    """The transforms that replay equations, where one more begins to."""
    return before if before and before[0] == via else (via, *before)


_INDEX = attrgetter("index")


class Tape:
    """Recorded equations with their active tracers: those that depend on the wanted inputs.

    Arguments:
        builder: it has recorded them.
        outputs: the results, of which each is one of its tracers, or a constant.
        wanted: which of its inputs are; all by default.
        exact: whether constants are told from results that depend on the inputs.
    """

    __slots__ = ("active", "inputs", "outputs", "records")

    def __init__(
        self,
        builder: Builder,
        outputs: Sequence[Value | None],
        wanted: Iterable[bool] | None = None,
        exact: bool = False,
    ) -> None:
        self.records = builder.records
        # Those of the builder: the handles that a function gets stand for what it writes into them.
        numbers = map(_INDEX, builder.inputs)
        self.inputs = list(numbers if wanted is None else compress(numbers, wanted))
        self.outputs: list[int | None] = []
        for x in outputs:
            self.outputs.append(x.index if type(x) is Tracer else None)
        if wanted is None and not exact and not builder.captures:
            # Nothing but the wanted inputs (and integers, which no cotangent reaches): all active,
            # apart from what passes by `stop_gradient` and the like, where cotangents end.
            self.active = bytearray(b"\1") * builder.count
            return
        self.active = active_values(builder.count, self.inputs, builder.records)

    @classmethod
    def of(
        cls,
        records: list[Record],
        active: bytearray,
        inputs: Sequence[int],
        outputs: Sequence[int | None],
    ) -> Tape:
        """The tape of some records, of which it is known which values are active."""
        tape = cls.__new__(cls)
        tape.records, tape.active = records, active
        tape.inputs, tape.outputs = list(inputs), list(outputs)
        return tape

    def __reduce__(self) -> tuple[object, ...]:
        records = [
            record._replace(loc=resolve(record.loc))
            for record in self.records
            if not record.prim.discrete and any([self.active[k] for k in record.outs])
        ]
        return _unpickled, (records, self.active, self.inputs, self.outputs)


def _unpickled(*parts: PyTree) -> Tape:
    return Tape.of(*parts)


def _builder(what: str, name: str) -> Builder:
    """A builder that has ended, which what was recorded in a rule refers to."""
    return Builder(what, name, eager=True)


copyreg.pickle(Builder, lambda builder: (_builder, (builder.what, builder.name)))


def active_values(
    count: int, inputs: Sequence[int], records: Sequence[tuple[PyTree, ...]]
) -> bytearray:
    """Which values depend on some inputs."""
    active = bytearray(count)
    for k in inputs:
        active[k] = 1
    for record in records:
        if not record[0].discrete and any([type(x) is int and active[x] for x in record[1]]):
            for k in record[4]:
                active[k] = 1
    return active


def push(tape: Tape, tangents: Sequence[Value | None]) -> list[Value | None]:
    """The tangents of the outputs, for tangents of the inputs; None is zero."""
    return [plain(t) for t in push_selected(tape, tangents)]


def push_selected(tape: Tape, tangents: Sequence[Tangent]) -> list[Tangent]:
    """As `push`; tangents may be selected, and stay so."""
    known: dict[int, Tangent] = {
        k: t for k, t in zip(tape.inputs, tangents, strict=True) if t is not None
    }
    get = known.get
    state = THREAD.state
    saved = state.loc, state.via
    try:
        outer = state.via = replayed_by("jvp", state.via)
        for record in tape.records:
            prim, operands, values, params, outs, results, loc, via = record
            if prim.discrete:
                continue
            ts = [get(x) if type(x) is int else None for x in operands]
            if all(t is None for t in ts):
                continue
            state.loc, state.via = loc, passed_by(via, outer)
            if prim.maps:
                t = push_maps(prim, values, ts, results[0], params)
            elif prim.moves is not None and prim.moves.holds_for(**params):
                t = push_moved(record, ts)
            else:
                rule = _jvp_rule(prim, record)
                if not prim.selects:
                    ts = [plain(t) for t in ts]
                t = rule(values, ts, results if prim.multiple else results[0], **params)
                if prim.multiple:
                    known.update((k, t) for k, t in zip(outs, t, strict=True) if t is not None)
                    continue
            if t is not None:
                known[outs[0]] = t
    finally:
        state.loc, state.via = saved
    return [None if k is None else get(k) for k in tape.outputs]


def _jvp_rule(prim: Primitive, record: Record) -> Callable[..., PyTree]:
    rule = prim.rules.get("jvp")
    if rule is None or isinstance(rule, Refusal):
        raise missing_rule(prim, "derivative", rule, record)
    return rule


def missing_rule(prim: Primitive, what: str, refusal: object, record: Record) -> MissingRuleError:
    """The card for a rule that does not exist, or that was refused."""
    loc = resolve(record.loc)
    why = refusal.why if isinstance(refusal, Refusal) else f"has no {what} rule"
    return MissingRuleError(
        f"There is no {what} of the primitive {prim.name!r}.",
        (("where", f"{loc}:  {loc.text()}"), ("why", f"{prim.name} {why}.")),
    )


_WANTED = (True,)
_VJP = ("vjp",)


class _Cotangents:
    """Sums of cotangents by number; buffers that this walk made are added to in place."""

    __slots__ = ("owned", "reads", "sums", "tape")

    def __init__(self, tape: Tape) -> None:
        self.tape = tape
        self.sums: list[PyTree] = [None] * len(tape.active)
        self.owned: dict[int, Reads | None] = {}  # the buffers, and where they were added to
        self.reads: dict[int, list[Read]] = {}  # what is still to be added to the sums

    def begin(self, cotangents: Sequence[Tangent]) -> None:
        """Add the cotangents of the results."""
        active = self.tape.active
        sums = self.sums
        for out, ct in zip(self.tape.outputs, cotangents, strict=True):
            if ct is not None and out is not None and active[out]:
                if sums[out] is None:
                    sums[out] = ct
                else:
                    self.add(out, ct)

    def reaches(self, record: Record) -> bool:
        """Whether operands of an equation depend on the inputs; `active` may say so of too many."""
        tape = self.tape
        active = active_values(len(tape.active), tape.inputs, tape.records)
        return any([type(k) is int and active[k] for k in record.operands])

    def add(self, k: int, ct: PyTree) -> None:
        total = self.sums[k]
        if total is None:
            self.sums[k] = ct
            return
        plainly = type(total) is np.ndarray and type(ct) is np.ndarray
        self.sums[k] = sum_of(total, ct) if plainly else join(total, ct)
        self.owned.pop(k, None)

    def accumulate(self, record: Record, ct: Value | Selected, active: bytearray) -> bool:
        """Add the transpose of an indexing operation into a buffer, or note it among the reads of
        its array; False where neither can be."""
        k, values = record.operands[0], record.values
        if type(k) is not int or not active[k]:
            return True
        value: PyTree = plain(ct) if type(ct) is Selected else ct
        start = None if k in self.owned else plain(self.sums[k])
        traced = type(value) is Tracer or type(start) is Tracer
        if traced or (len(values) > 1 and any([type(v) is Tracer for v in values])):
            read = read_of(record, ct)
            if read is not None:
                self.reads.setdefault(k, []).append(read)
            return read is not None
        if k not in self.owned:
            self.owned[k] = self._own(k, start, record, value.dtype)
        reads = self.owned[k]
        if reads is not None:
            reads.add(record, ct)
        total = self.sums[k]
        array = total.value if type(total) is Selected else total
        record.prim.accumulate(array, value, values, record.params)  # type: ignore[misc]
        return True

    def _own(self, k: int, start: Value | None, record: Record, dtype: np.dtype) -> Reads | None:
        """Put a sum into a buffer; where it is selected, give what will be known of its support."""
        total = self.sums[k]
        if total is not None and type(total) is not Selected:
            self.sums[k] = np.array(start)
            return None
        shape = record.values[0].shape
        reads = Reads(shape)
        if total is None:
            self.sums[k] = Selected(np.zeros(shape, dtype), reads, ZERO)
        else:
            self.sums[k] = Selected(np.array(start), either(total.support, reads), ZERO)
        return reads

    def take_reads(self, outs: Sequence[int]) -> None:
        """Add what was read of some values to their sums."""
        for k in outs if self.reads else ():
            if k in self.reads:
                self.add(k, pull_reads(self.reads.pop(k)))


def pull(tape: Tape, cotangents: Sequence[Tangent], release: bool = False) -> list[Value | None]:
    """The cotangents of the inputs, for cotangents of the outputs; None is zero.

    With `release`, records are dropped as soon as they have been used, to free their arrays.
    """
    return [plain(ct) for ct in pull_selected(tape, cotangents, release)]


def pull_selected(
    tape: Tape, cotangents: Sequence[Tangent], release: bool = False
) -> list[Tangent]:
    """As `pull`; cotangents may be selected, and stay so."""
    active = tape.active
    store = _Cotangents(tape)
    sums, reads, add = store.sums, store.reads, store.add
    store.begin(cotangents)
    ahead = tape.records if release else tape.records.copy()
    state = THREAD.state
    saved = state.loc, state.via
    try:
        before: tuple[str, ...] = ()
        outer = state.via = replayed_by("vjp", state.via) if state.via else _VJP
        while ahead:
            record = ahead.pop()
            prim, operands, values, params, outs, results, state.loc, via = record
            if via is not before:
                state.via, before = passed_by(via, outer), via
            if reads:
                store.take_reads(outs)
            if prim.multiple:
                _pull_multiple(record, store, active)
                continue
            ct = sums[outs[0]]
            if ct is None:
                continue
            sums[outs[0]] = None
            maps = prim.maps
            if maps:
                if type(ct) is Selected:
                    _pull_selected_maps(record, ct, store, active)
                    continue
                arity, result = 0 if params else len(values), results[0]
                for k, rule in zip(operands, maps):  # noqa: B905 - hot; lengths agree by arity
                    if rule is None or type(k) is not int or not active[k]:
                        continue
                    if arity == 1:
                        part = rule(ct, values[0], result)
                    elif arity == 2:
                        part = rule(ct, values[0], values[1], result)
                    else:
                        part = rule(ct, *values, result, **params)
                    if sums[k] is None:
                        sums[k] = part
                    elif part is not None:
                        add(k, part)
            elif prim.moved_back is not None and len(values) == 1 and type(ct) is not Selected:
                _pull_moved_back(prim, operands[0], ct, values, params, store)
            else:
                _pull_one(record, ct, store, active)
        store.take_reads(tape.inputs)
    finally:
        state.loc, state.via = saved
    return list(map(sums.__getitem__, tape.inputs))


def _pull_multiple(record: Record, store: _Cotangents, active: bytearray) -> None:
    """Pull the cotangents of several results back."""
    sums, outs = store.sums, record.outs
    cts = [sums[k] for k in outs]
    for k in outs:
        sums[k] = None
    if any([ct is not None for ct in cts]) and not record.prim.discrete:
        _pull_general(record, cts, store, active)


def _pull_moved_back(
    prim: Primitive,
    k: object,
    ct: Value,
    values: Sequence[PyTree],
    params: EqnParams,
    store: _Cotangents,
) -> None:
    """Pull back through an equation that is linear in its one operand."""
    if type(k) is int and store.tape.active[k]:
        (part,) = prim.moved_back(ct, _WANTED, values[0], **params)  # type: ignore[misc]
        if store.sums[k] is None:
            store.sums[k] = part
        else:
            store.add(k, part)


def _pull_one(record: Record, ct: Value | Selected, store: _Cotangents, active: bytearray) -> None:
    """Pull the cotangent of one result back through an equation that is not elementwise."""
    prim = record.prim
    if prim.discrete or (prim.accumulate is not None and store.accumulate(record, ct, active)):
        return
    _pull_general(record, [ct], store, active)


def _pull_selected_maps(
    record: Record, ct: Selected, store: _Cotangents, active: bytearray
) -> None:
    """Pull a selected cotangent back through an elementwise equation."""
    prim, operands, values, params, _, results, _, _ = record
    for i, k in enumerate(operands):
        if prim.maps[i] is not None and type(k) is int and active[k]:
            part = map_selected(prim, i, ct, values, results[0], params)
            if part is not None:
                store.add(k, part)


def _pull_general(
    record: Record, cts: list[Tangent], store: _Cotangents, active: bytearray
) -> None:
    """Pull back through one equation by its pullback, its transpose, or its jvp transposed."""
    prim, operands, values, _, _, _, _, _ = record
    each: list[bool] = []
    for k, x in zip(operands, values, strict=True):
        each.append(type(k) is int and active[k] == 1 and x.dtype.kind in FLOATS)
    if True not in each:
        return
    wanted = tuple(each)
    try:
        parts = _pulled(record, cts, wanted)
    except MissingRuleError:
        if store.reaches(record):
            raise
        return  # it stands behind a `stop_gradient`
    if prim.supports is not None and any([type(ct) is Selected for ct in cts]):
        parts = prim.supports(record, cts, parts)
    sums = store.sums
    for k, want, part in zip(operands, wanted, parts, strict=True):
        if want and part is not None:
            if sums[k] is None:
                sums[k] = part
            else:
                store.add(k, part)


def _pulled(record: Record, cts: list[Tangent], wanted: tuple[bool, ...]) -> Sequence[Tangent]:
    """The cotangents of an equation's operands."""
    prim, _, values, params, _, results, _, _ = record
    if prim.each_back is not None and prim.pullback is None and type(cts[0]) is not Selected:
        return prim.each_back(cts[0], wanted, *values, **params)
    moves = prim.moves
    if moves is not None and moves.holds_for(**params):
        if type(cts[0]) is Selected or moves.transpose_gaps:
            return pull_moved(record, cts[0], wanted)
    elif prim.pullback is not None:
        known = cts if prim.selects else [plain(ct) for ct in cts]
        parts = prim.pullback(known, wanted, values, results, params)
        if parts is not NotImplemented:
            return parts
    if prim.linear_in != "each" and not _is_linear_in(prim, wanted, params):
        return _transposed_jvp(record, cts, wanted)
    transpose = prim.rules.get("transpose")
    if transpose is None or isinstance(transpose, Refusal):
        raise missing_rule(prim, "transpose", transpose, record)
    if prim.multiple:
        return transpose(tuple([plain(ct) for ct in cts]), wanted, *values, **params)
    return transpose(plain(cts[0]), wanted, *values, **params)


def _is_linear_in(prim: Primitive, wanted: tuple[bool, ...], params: EqnParams) -> bool:
    """Whether the transpose rule serves all wanted operands."""
    which = prim.linear_in
    if callable(which):
        which = which(params)
    if isinstance(which, tuple):
        return all(i in which for i, want in enumerate(wanted) if want)
    return which is not None


class _Pending(threading.local):
    """The primitives along whose derivatives this thread is pulling back, the innermost last."""

    rules: tuple[Primitive, ...] = ()


_PENDING = _Pending()
MOST_WITHIN = 50  # times that a primitive may stand in its own derivative


def _endless(prim: Primitive, record: Record) -> MissingRuleError:
    """The card for a derivative that is an application of the primitive itself."""
    loc = resolve(record.loc)
    return MissingRuleError(
        f"The derivative of the primitive {prim.name!r} needs its own transpose.",
        (
            ("where", f"{loc}:  {loc.text()}"),
            ("why", f"its derivative applies {prim.name} to the tangents again, and so on: it is"),
            ("why", "linear, but defines no transpose."),
            ("write", f"@{prim.name}.def_transpose    in place of def_jvp"),
        ),
    )


def _transposed_jvp(record: Record, cts: list[Tangent], wanted: tuple[bool, ...]) -> list[Tangent]:
    """Record the jvp as a function of the tangents alone, and pull back through that."""
    prim, _, values, params, _, outs, _, _ = record
    rule = _jvp_rule(prim, record)
    state = THREAD.state
    loc, via = state.loc, state.via
    builder = Builder("transpose", prim.name, eager=True)
    with builder.running, builder:
        state.loc, state.via = loc, via
        tangents = [
            builder.input(None, aval_of(x).strong()) if want else None
            for x, want in zip(values, wanted, strict=True)
        ]
        result = rule(values, tangents, outs if prim.multiple else outs[0], **params)
        results = result if prim.multiple else (result,)
        tape = Tape(builder, [None if t is None else builder.lift(t) for t in results])
        builder.release()
    given = [ct if t is not None else None for ct, t in zip(cts, tape.outputs, strict=True)]
    within = _PENDING.rules
    if within.count(prim) >= MOST_WITHIN:
        raise _endless(prim, record)
    _PENDING.rules = (*within, prim)
    try:
        pulled = iter(pull_selected(tape, given))
    finally:
        _PENDING.rules = within
    return [next(pulled) if want else None for want in wanted]
