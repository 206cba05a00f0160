"""L5. Loops inside of a whole-loop kernel.

carry        accumulators, one for each element; `i + 1` is affine in the loop; arrays that are
             updated at computed places stay in memory and are written in place
items        read at an affine place of their array
results      written at an affine place of theirs
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from fgrad.base.named_tuple import NamedTuple
from fgrad.compile.kernel.affine import AffineIndex, shifted, total, value
from fgrad.compile.kernel.ir import Break, Update
from fgrad.compile.kernel.rewrite import walk
from fgrad.compile.loops.rows import as_row, is_long, overlaps
from fgrad.compile.loops.sums import summing, sums_by_blocks
from fgrad.compile.loops.values import Counting, Sparse, Stored, TooLarge, Value, stored_at
from fgrad.compile.loops.writer import FEW, LoopWriter, is_mutable
from fgrad.compile.passes.dce import dce
from fgrad.ir.aval import BOOL, INT64
from fgrad.ir.program import Atom, Eqn, Lit, Program, Var
from fgrad.ir.traits import CONTROL
from fgrad.ir.walk import cost_of, definitions
from fgrad.ops import primitives as prims
from fgrad.ops.counters import conjuncts, counter_step

UNROLLED = 128  # scalar operations of an inner loop that is written out
FEW_OF_LANES = 16  # the same of each lane, which would have memory of its own


class Carry(NamedTuple):
    """How one carry of a loop is kept.

    `step` is what a counter grows by; `memory` is where an array is updated in place; a carry that
    is the same in every step has neither; else there is an accumulator for each element.
    """

    same: bool
    step: int | None
    memory: Stored | None
    first: Value
    accs: list[str]
    shape: tuple[int, ...]


def weight_of(program: Program) -> int:
    """Rough cost of a program in scalar operations."""
    return sum([max(cost_of(e), 1) * max(v.aval.size for v in e.outputs) for e in program.eqns])


def has_loops(program: Program) -> bool:
    """Whether a program holds loops or branches."""
    return any([eqn.prim.holds in CONTROL for eqn in program.eqns])


def stays_in_memory(w: LoopWriter, program: Program, given: Var) -> bool:
    """Whether a carry is addressed by computed places, or too large for registers."""
    size, most = math.prod(w.shape(given)), w.most_cells
    if size > most or size <= (FEW_OF_LANES if w.lanes else FEW):
        return size > most
    return _addressed(program, given)


def _addressed(program: Program, var: Var) -> bool:
    for eqn in program.eqns:
        places = [k for k, a in enumerate(eqn.inputs) if a is var]
        if places and eqn.prim.addresses and places[0] == 0:
            return True
        for held, first in _held(eqn) if places else ():
            inner = [k - first for k in places if 0 <= k - first < len(held.inputs)]
            if any([_addressed(held, held.inputs[k]) for k in inner]):
                return True
    return False


def _held(eqn: Eqn) -> list[tuple[Program, int]]:
    """The programs of an equation, and which operand is their first input."""
    p = eqn.params
    if eqn.prim is prims.scan:
        return [(p["body"], 0)]
    if eqn.prim is prims.while_:
        return [(p["body"], p["n_cond"])]
    return [(branch, 1) for branch in p["branches"]] if eqn.prim is prims.switch else []


# --- scan


class Scan(NamedTuple):
    """A scan with its body prepared and its operands as values."""

    body: Program
    length: int
    reverse: bool
    consts: Sequence[Value]
    carry: Sequence[Value]
    xs: Sequence[Value]

    @property
    def carried(self) -> Sequence[Var]:
        """The inputs of the body that are the carry."""
        first = len(self.consts)
        return self.body.inputs[first : first + len(self.carry)]


def scan_of(w: LoopWriter, eqn: Eqn, operands: Sequence[Value]) -> Scan:
    """A scan equation on given values."""
    p = eqn.params
    stop = p["n_consts"] + p["n_carry"]
    return Scan(
        w.prepare(p["body"]), p["length"], p["reverse"],
        operands[: p["n_consts"]], operands[p["n_consts"] : stop], operands[stop:],
    )  # fmt: skip


def scan(w: LoopWriter, eqn: Eqn) -> Sequence[Value]:
    """A loop inside of a kernel, written out if it is short."""
    s = scan_of(w, eqn, [w.value(a) for a in eqn.inputs])
    outs = eqn.outputs[len(s.carry) :]
    if s.length * weight_of(s.body) <= UNROLLED and not has_loops(s.body):
        return _written_out(w, s)
    homes = []
    for var in outs:
        home = w.homes.get(var)
        homes.append(home or w.scratch(w.shape(var), var.aval.dtype))
    memory = _memory_of(w, s.body, s.carried, s.carry, [*s.consts, *s.xs])
    results, ys = write_scan(w, s, memory, homes)
    return [*results, *ys]  # type: ignore[list-item]


def _memory_of(
    w: LoopWriter, body: Program, carried: Sequence[Var], carry: Sequence[Value],
    fixed: Sequence[Value],
) -> list[Stored | None]:  # fmt: skip
    """The memory that each carry of an inner loop is updated in: its own, or a copy where the loop
    reads the same memory as one of its `fixed` operands."""
    found: list[Stored | None] = []
    taken = {x.buffer for x in fixed if is_mutable(x)}  # type: ignore[union-attr]
    for k, (var, x) in enumerate(zip(carried, carry, strict=True)):
        own = isinstance(x, Stored) and is_mutable(x) and x.is_contiguous()
        if own and x.version != w.versions[x.buffer]:  # type: ignore[union-attr]
            raise TooLarge  # it was overwritten
        stays = own or stays_in_memory(w, body, var)
        if body.outputs[k] is var or not stays:
            found.append(None)
        elif own and x.buffer not in taken:  # type: ignore[union-attr]
            taken.add(x.buffer)  # type: ignore[union-attr]
            found.append(x)  # type: ignore[arg-type]
        else:
            found.append(w.memory(x, w.shape(var), var.aval.dtype))
    return found


def _written_out(w: LoopWriter, s: Scan) -> Sequence[Value]:
    carry = list(s.carry)
    stacks: list[list[np.ndarray]] = [[] for _ in s.body.outputs[len(carry) :]]
    for k in range(s.length)[:: -1 if s.reverse else 1]:
        items = [item_of(w, x, AffineIndex(k)) for x in s.xs]
        outs = w.program(s.body, [*s.consts, *carry, *items])
        carry = outs[: len(carry)]
        for stack, y in zip(stacks, outs[len(carry) :], strict=True):
            stack.append(w.cells(y))
    ys: list[Value] = []
    for stack, atom in zip(stacks, s.body.outputs[len(carry) :], strict=True):
        empty = np.zeros((0, *w.shape(atom)), np.int64)
        ys.append(np.stack(stack[:: -1 if s.reverse else 1]) if stack else empty)
    return [*carry, *ys]


def item_of(w: LoopWriter, x: Value, place: AffineIndex) -> Value:
    """An item of an array of items."""
    if isinstance(x, Stored):
        return stored_at(x, 0, place)
    if isinstance(x, Counting):
        return np.array(w.index(place, x.dtype), np.int64)
    if isinstance(x, Sparse) or not isinstance(x, np.ndarray):
        raise TooLarge
    if place == AffineIndex(place.const):
        return np.asarray(x[place.const])
    if not x.strides[0] and x.shape[0]:
        return np.asarray(x[0])
    raise TooLarge


def _spilled(w: LoopWriter, x: Value) -> Value:
    """Items that a loop can address."""
    if isinstance(x, np.ndarray) and x.size and x.strides[0]:
        return w.memory(x, x.shape, w.b.dtype_of(int(x.flat[0])))
    return w.memory(x, x.shape, x.dtype) if isinstance(x, Sparse) else x


def write_scan(
    w: LoopWriter, s: Scan, memory: Sequence[Stored | None], homes: Sequence[Stored | None]
) -> tuple[list[Value], list[Value | None]]:
    """The loop itself; `memory` of each carry, `homes` of what is stacked and read."""
    xs = [_spilled(w, x) for x in s.xs]
    if not s.length:
        return list(s.carry), list(homes)
    carries = [
        _begun(w, s.body, var, x, place, s.body.outputs[k], True)
        for k, (var, x, place) in enumerate(zip(s.carried, s.carry, memory, strict=True))
    ]
    step = w.b.open(s.length, "serial")
    at = shifted(step, -1, s.length - 1) if s.reverse else step
    given = [_present(w, c, step) for c in carries]
    items = [item_of(w, x, at) for x in xs]
    places = [None if home is None else stored_at(home, 0, at) for home in homes]
    y_atoms = s.body.outputs[len(carries) :]
    homed = _give_homes(w, s.body, y_atoms, places)
    outs = w.program(s.body, [*s.consts, *given, *items])
    for y, place, atom in zip(outs[len(carries) :], places, y_atoms, strict=True):
        done = place is None or (isinstance(atom, Var) and atom in homed and is_at(y, place))
        if not done:
            w.write(place, y)  # type: ignore[arg-type]
    ended = _updated(w, carries, outs)
    w.b.close()
    results = [_result(w, c, y, s.length) for c, y in zip(carries, ended, strict=True)]
    return results, [None if home is None else newest(w, home) for home in homes]


def _give_homes(
    w: LoopWriter, body: Program, atoms: Sequence[Atom], places: Sequence[Stored | None]
) -> set[Var]:
    """Results of inner loops that are stacked again are written where they will stand."""
    stacked: dict[Var, Eqn] = {}
    for eqn in body.eqns:
        if eqn.prim is prims.scan:
            stacked.update({v: eqn for v in eqn.outputs[eqn.params["n_carry"] :]})
    found: set[Var] = set()
    for atom, place in zip(atoms, places, strict=True):
        if isinstance(atom, Var) and place is not None and atom in stacked and atom not in found:
            w.homes[atom] = place
            found.add(atom)
    return found


def is_at(x: Value, place: Stored) -> bool:
    """Whether each element of a value stands where the same element of a place does."""
    if not isinstance(x, Stored) or (x.buffer, x.base, x.shape) != (
        place.buffer, place.base, place.shape,
    ):  # fmt: skip
        return False
    return all([
        p == q for p, q, n in zip(x.strides, place.strides, x.shape, strict=True) if n > 1
    ])  # fmt: skip


def newest(w: LoopWriter, home: Stored) -> Stored:
    return home if home.version is None else home._replace(version=w.versions[home.buffer])


def _begun(
    w: LoopWriter, body: Program, var: Var, x: Value, memory: Stored | None, result: Atom,
    counts: bool,
) -> Carry:  # fmt: skip
    """A carry before the first step."""
    if result is var:
        return Carry(True, None, None, x, [], w.shape(var))
    step = counter_step(body, var, result) if counts else None
    if step is not None or memory is not None:
        return Carry(False, step, memory, x, [], w.shape(var))
    if isinstance(x, Counting):
        raise TooLarge
    return Carry(False, None, None, x, w.carried(w.cells(x), var.aval.dtype), w.shape(var))


def _present(w: LoopWriter, c: Carry, step: AffineIndex) -> Value:
    """A carry in a step."""
    if c.same:
        return c.first
    if c.step is not None:
        first = w.place(int(w.cells(c.first).flat[0]))
        return np.array(w.index(total((first, step), (1, c.step))), np.int64)
    if c.memory is not None:
        return c.memory._replace(version=w.versions[c.memory.buffer])
    return w.reads(c.accs, c.shape)


def _updated(w: LoopWriter, carries: Sequence[Carry], outs: Sequence[Value]) -> list[Value]:
    """What a step does to the carries."""
    ended: list[Value] = []
    places = {c.memory.buffer for c in carries if c.memory is not None}
    for c, y in zip(carries, outs, strict=False):
        in_place = c.memory is not None and is_mutable(y) and is_at(y, c.memory)
        if in_place and y.version != w.versions[y.buffer]:  # type: ignore[union-attr]
            raise TooLarge
        # All is read before any of it is written.
        if c.same or c.step is not None:
            ended.append(c.first)
        else:
            ended.append(y if in_place else _staged(w, c, y, places))
    for k, (c, y) in enumerate(zip(carries, ended, strict=True)):
        if c.memory is not None and y is not c.first and not (is_mutable(y) and is_at(y, c.memory)):
            ended[k] = w.write(c.memory, y)
        for acc, id in zip(c.accs, y.flat if c.accs else (), strict=True):  # type: ignore[union-attr]
            w.b.update(acc, int(id))
    return ended


def _staged(w: LoopWriter, c: Carry, y: Value, places: set[str]) -> Value:
    """The new value of a carry; one in memory as a row that reads nothing that is written with it,
    but itself at the place that is written."""
    if c.memory is None or w.lanes or not (is_long(w, y) or isinstance(y, Sparse)):
        return w.cells(y)
    row = as_row(w, y)
    others = {x.buffer for x in row.reads} & (places - {c.memory.buffer})
    if others or overlaps(row, c.memory):
        return w.staged(row)
    return row


def _result(w: LoopWriter, c: Carry, y: Value, length: int) -> Value:
    """A carry after the last step."""
    if c.same:
        return c.first
    if c.step is not None:
        first = w.place(int(w.cells(c.first).flat[0]))
        return np.array(w.index(shifted(first, 1, c.step * length)), np.int64)
    if c.memory is not None:
        return newest(w, y)  # type: ignore[arg-type]
    return w.reads(c.accs, c.shape)


# --- while


class While(NamedTuple):
    """A while loop with its programs prepared and its operands as values."""

    cond: Program
    body: Program
    cond_consts: Sequence[Value]
    body_consts: Sequence[Value]
    carry: Sequence[Value]
    unchosen: Program | None = None  # of a loop that ends lane by lane
    any_order: bool = False  # whether what steps add up may be added in any order

    @property
    def carried(self) -> Sequence[Var]:
        """The inputs of the body that are the carry."""
        return self.body.inputs[len(self.body_consts) :]

    def written(self, carries: Sequence[Carry]) -> Program:
        """The body, where what is in memory is not chosen by lane, but written with a predicate."""
        if self.unchosen is None or not any([c.memory is not None for c in carries]):
            return self.body
        outs = self.unchosen.outputs
        pairs = zip(carries, outs[: len(carries)], outs[len(carries) :], strict=True)
        chosen = tuple([bare if c.memory is not None else atom for c, atom, bare in pairs])
        return dce(self.unchosen.replace(outputs=chosen))


def while_of(w: LoopWriter, eqn: Eqn, operands: Sequence[Value]) -> While:
    """A while equation on given values."""
    p = eqn.params
    n, stop = p["n_cond"], p["n_cond"] + p["n_body"]
    by_lane = w.ends.get(id(p["body"]))
    if by_lane is not None:
        consts = operands[n:stop]
        return While(by_lane.go, by_lane.body, consts, consts, operands[stop:], by_lane.unchosen)
    return While(
        w.prepare(p["cond"]), w.prepare(p["body"]), operands[:n], operands[n:stop],
        operands[stop:], any_order=p["any_order"],
    )  # fmt: skip


def while_(w: LoopWriter, eqn: Eqn) -> Sequence[Value]:
    """A loop inside of a kernel."""
    s = while_of(w, eqn, [w.value(a) for a in eqn.inputs])
    memory = _memory_of(w, s.body, s.carried, s.carry, [*s.cond_consts, *s.body_consts])
    return write_while(w, s, memory)


def write_while(w: LoopWriter, s: While, memory: Sequence[Stored | None]) -> list[Value]:
    """The loop itself; `memory` of each carry."""
    if s.any_order and not w.lanes and s.unchosen is None:
        found = summing(s.cond, s.body, len(s.cond_consts), len(s.body_consts))
        if found is not None:
            after = sums_by_blocks(w, found, s.cond_consts, s.body_consts, s.carry)
            s = s._replace(carry=after)
    carries = [
        _begun(w, s.body, var, x, place, s.body.outputs[k], False)
        for k, (var, x, place) in enumerate(zip(s.carried, s.carry, memory, strict=True))
    ]
    w.b.open(1, "while")
    given = [_present(w, c, AffineIndex()) for c in carries]
    versions = dict(w.versions)
    (go,) = w.program(s.cond, [*s.cond_consts, *given])
    if any([w.versions[buffer] != version for buffer, version in versions.items()]):
        raise TooLarge  # the condition would write into what the body reads
    goes, predicate = int(w.cells(go).flat[0]), w.predicate
    break_if(w, w.b.op("not", BOOL, goes))
    position = len(w.b.frames[-1].body) - 1
    if s.unchosen is None:
        _ranges_of_counters(w, s, given)
    else:
        w.predicate = w.b.both(predicate, goes)
    outs = w.program(s.written(carries), [*s.body_consts, *given])
    w.predicate = predicate
    if not _counts(s):
        _break_if_failed(w, position)
    ended = _updated(w, carries, outs)
    w.b.close()
    return [_result(w, c, y, 0) for c, y in zip(carries, ended, strict=True)]


def break_if(w: LoopWriter, stop: int) -> None:
    """End the innermost loop if `stop` holds."""
    w.b.frames[-1].body.append(Break(stop))


class _Limit(NamedTuple):
    """What a condition says of the k-th carry, a counter that grows by `step`: it is below what
    stays if the step is positive, else not below it."""

    k: int
    step: int
    stays: Atom


def _limits_of(s: While) -> list[_Limit]:
    """The counters that a loop compares with what stays, in the direction in which they go."""
    first = len(s.cond_consts)
    carried, made = list(s.cond.inputs[first:]), definitions(s.cond.eqns)
    found: list[_Limit] = []
    for part in conjuncts(s.cond.outputs[0], made):
        eqn = made.get(part) if isinstance(part, Var) else None
        if eqn is None or eqn.prim not in (prims.lt, prims.ge) or eqn.inputs[0] not in carried:
            continue
        k = carried.index(eqn.inputs[0])  # type: ignore[arg-type]
        step = counter_step(s.body, s.carried[k], s.body.outputs[k]) or 0
        stays = isinstance(eqn.inputs[1], Lit) or eqn.inputs[1] in s.cond.inputs[:first]
        if stays and step * (1 if eqn.prim is prims.lt else -1) > 0:
            found.append(_Limit(k, step, eqn.inputs[1]))
    return found


def _counts(s: While) -> bool:
    """Whether a loop ends whatever it computes: it counts up, or down, to a number that stays."""
    return bool(_limits_of(s))


def _ranges_of_counters(w: LoopWriter, s: While, given: Sequence[Value]) -> None:
    """Tell between what its counters are in a step of a loop, so that places need no checks."""
    stays = dict(zip(s.cond.inputs, s.cond_consts, strict=False))
    for k, step, atom in _limits_of(s):
        (id,) = map(int, w.cells(given[k]).flat)
        end = w.value(atom) if isinstance(atom, Lit) else stays[atom]
        begin, last = [w.limits(w.place(int(w.cells(x).flat[0]))) for x in (s.carry[k], end)]
        if begin is None or last is None or w.b.dtype_of(id) != INT64:
            continue
        w.affine[id] = value(id)
        w.between[id] = (begin[0], last[1] - 1) if step > 0 else (last[0], begin[1])


def _break_if_failed(w: LoopWriter, position: int) -> None:
    """Let a loop end where a check in it has failed too: its condition might hold for ever."""
    body = w.b.frames[-1].body
    updated = {s.acc for s in walk(tuple(body)) if isinstance(s, Update)}
    first, leaves = len(body), body[position]
    assert isinstance(leaves, Break)
    stop = leaves.value
    for failed in w.failed(updated):
        stop = w.b.op("or", BOOL, stop, failed)
    moved = body[first:]
    del body[first:]
    body[position : position + 1] = [*moved, Break(stop)]
