"""L5. Compiled loops and branches as steps of the host program.

    scan     PointAt ..., Copy (first carry), Repeat(length, body, Advance xs ys, Swap carry)
    while    PointAt ..., Copy, While(condition, flag, body, Swap carry), Copy
             or, where addresses are fixed, While(condition, flag, body, Copy carry)
    switch   Branch(index, (PointAt ..., branch), ...)

A body's slots are its inputs, constants, results and arena, then what it derives from them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from fgrad.base.named_tuple import NamedTuple
from fgrad.compile.host.program import (
    Advance,
    Branch,
    Call,
    Fill,
    HostProgram,
    PointAt,
    Repeat,
    Share,
    Step,
    Swap,
    While,
)
from fgrad.compile.kernel.ir import Kernel
from fgrad.compile.tasks.routines import Control
from fgrad.compile.tasks.runnable import Runnable
from fgrad.ir.aval import Aval
from fgrad.ops import primitives as prims


class Memory(NamedTuple):
    """How the host program works on the memory that the slots point to.

    `copy(target, source, size)` copies bytes; `kernels` gives the steps of each kernel on its
    slots; `number(slot, size)` is where the host program finds a number, and the steps that bring
    it there; `common` are slots of ours that stand after the arena in every body; `fixed` is
    whether the carry of a while loop stays where it is, so that all turns have the same addresses;
    `rooms(rows)` are slots for the rows that a body cannot work on where they stand.
    """

    copy: Callable[[int, int, int], Step]
    kernels: Callable[[Sequence[tuple[Kernel, tuple[int, ...]]]], list[list[Step]]]
    number: Callable[[int, int], tuple[int, list[Step]]]
    common: tuple[int, ...] = ()
    fixed: bool = False
    rooms: Callable[[Sequence[Aval]], Sequence[int | None]] = lambda rows: [None] * len(rows)


def moved(step: Step, base: int) -> Step:
    """A step with its slots counted from `base`."""
    if isinstance(step, Call | Share):
        return step._replace(slots=tuple([base + k for k in step.slots]))
    if isinstance(step, Repeat):
        return Repeat(step.count, _moved(step.body, base))
    if isinstance(step, While):
        return While(_moved(step.condition, base), base + step.flag, _moved(step.body, base))
    if isinstance(step, Branch):
        return Branch(base + step.index, tuple([_moved(b, base) for b in step.branches]))
    if isinstance(step, Advance):
        return Advance(base + step.slot, step.size)
    if isinstance(step, Fill):
        return step._replace(target=base + step.target)
    if isinstance(step, Swap):
        return Swap(base + step.a, base + step.b)
    return type(step)(base + step[0], base + step[1], step[2])  # PointAt, Copy


def _moved(steps: Sequence[Step], base: int) -> tuple[Step, ...]:
    return tuple([moved(s, base) for s in steps])


def _bytes(aval: Aval) -> int:
    return aval.size * aval.dtype.itemsize


class _Body:
    """A compiled body at a place in our table of slots."""

    def __init__(
        self,
        executable: Runnable,
        base: int,
        consts: Sequence[int],
        lits: Sequence[int],
        memory: Memory,
    ) -> None:
        count, kept = len(executable.in_avals), len(executable.consts)
        self.inputs = [base + k for k in range(count)]
        self.outputs = [base + count + kept + k for k in range(len(executable.out_avals))]
        self.arena = base + count + kept + len(executable.out_avals)
        self.entry: list[Step] = [
            PointAt(base + count + k, number, 0) for k, number in enumerate(consts)
        ]
        self.entry += [PointAt(self.arena + 1 + k, n, 0) for k, n in enumerate(memory.common)]
        self.steps = list(_moved(_hosted(executable).steps, base))
        for (k, _), number in zip(executable.literals, lits, strict=True):
            size = _bytes(executable.out_avals[k])
            self.steps.append(memory.copy(self.outputs[k], number, size))


def _hosted(executable: Runnable) -> HostProgram:
    host = executable.host
    assert isinstance(host, HostProgram)
    return host


class _Numbers:
    """The slots of a control step's buffers, and of its bodies."""

    def __init__(
        self,
        control: Control,
        numbers: Sequence[int],
        reserve: Callable[[int], int],
        memory: Memory,
    ) -> None:
        eqn, executables, self.places = control[:3]
        self.memory, self.reserve = memory, reserve
        count, stop = len(eqn.inputs), len(eqn.inputs) + len(eqn.outputs)
        self.operands, self.results = numbers[:count], numbers[count:stop]
        self.scratch = numbers[-1]
        at = stop
        consts = []
        for e in executables:
            consts.append(numbers[at : at + len(e.consts)])
            at += len(e.consts)
        self.bodies: list[_Body] = []
        for e, own in zip(executables, consts, strict=True):
            lits = numbers[at : at + len(e.literals)]
            at += len(e.literals)
            body = _Body(e, reserve(_hosted(e).slots), own, lits, memory)
            body.entry.append(PointAt(body.arena, self.scratch, 0))
            self.bodies.append(body)


def control_steps(
    control: Control,
    numbers: Sequence[int],
    reserve: Callable[[int], int],
    memory: Memory,
) -> list[Step]:
    """The steps of a control equation.

    Arguments:
        control: the equation with its compiled bodies.
        numbers: the slots of its buffers.
        reserve: gives the first of as many fresh slots.
        memory: what the slots point to.
    """
    found = _Numbers(control, numbers, reserve, memory)
    return _STEPS[control.eqn.prim](control, found)


def _scan(control: Control, n: _Numbers) -> list[Step]:
    eqn, (body,) = control.eqn, n.bodies
    params = eqn.params
    length, n_consts, n_carry = params["length"], params["n_consts"], params["n_carry"]
    stop = n_consts + n_carry
    steps = list(body.entry)
    steps += [PointAt(body.inputs[k], n.operands[k], 0) for k in range(n_consts)]
    after: list[Step] = []
    steps += _extra_places(control, n, body)
    writes = _write_steps(control, body, n_consts, n.memory)
    for k in range(n_carry):
        given, number = body.inputs[n_consts + k], control.outputs[k]
        size = _bytes(eqn.outputs[k].aval)
        if number is None:
            steps.append(PointAt(given, n.results[k], 0))
            steps.append(n.memory.copy(given, n.operands[n_consts + k], size))
            continue
        taken = body.outputs[number]
        # After the last swap the result is where the first carry was if the length is even.
        home, other = (given, taken) if length % 2 == 0 else (taken, given)
        steps.append(PointAt(home, n.results[k], 0))
        steps.append(PointAt(other, n.scratch, n.places[number]))
        steps.append(n.memory.copy(given, n.operands[n_consts + k], size))
        after.append(Swap(given, taken))
    items = [
        (body.inputs[k], n.operands[k], eqn.inputs[k].aval) for k in range(stop, len(eqn.inputs))
    ]
    taken_in = len(items)
    for k in range(n_carry, len(eqn.outputs)):
        number = control.outputs[k]
        assert number is not None  # a carry alone is in place
        items.append((body.outputs[number], n.results[k], eqn.outputs[k].aval))
    copies: tuple[list[Step], list[Step]] = [], []
    rooms = n.memory.rooms([Aval(aval.shape[1:], aval.dtype) for *_, aval in items])
    for k, ((slot, whole, aval), room) in enumerate(zip(items, rooms, strict=True)):
        stride = _bytes(aval) // max(length, 1)
        first = stride * (length - 1) if params["reverse"] and length else 0
        row = slot
        if room is not None:
            row = n.reserve(1)
            steps.append(PointAt(slot, room, 0))
            given = k < taken_in
            ends = (slot, row) if given else (row, slot)
            copies[0 if given else 1].append(n.memory.copy(*ends, stride))
        steps.append(PointAt(row, whole, first))
        after.append(Advance(row, -stride if params["reverse"] else stride))
    return [*steps, Repeat(length, (*copies[0], *body.steps, *copies[1], *writes, *after))]


def _extra_places(control: Control, n: _Numbers, body: _Body) -> list[Step]:
    """Room for the operands of writes, which come after the other results."""
    first = len([k for k in control.outputs if k is not None])
    return [
        PointAt(body.outputs[k], n.scratch, n.places[k]) for k in range(first, len(body.outputs))
    ]


def _write_steps(control: Control, body: _Body, n_consts: int, memory: Memory) -> list[Step]:
    """The in-place updates of carries after the body has run."""
    calls: list[tuple[Kernel, tuple[int, ...]]] = []
    for k, each in control.writes.items():
        for write in each:
            slots = [
                body.inputs[n_consts + k] if a is None else body.outputs[a] for a in write.args
            ]
            calls.append((write.kernel, tuple(slots)))
    return [step for steps in memory.kernels(calls) for step in steps]


def _while(control: Control, n: _Numbers) -> list[Step]:
    eqn, (test, body) = control.eqn, n.bodies
    n_cond, n_body = eqn.params["n_cond"], eqn.params["n_body"]
    first = n_cond + n_body
    (flag,) = test.outputs
    steps = [*test.entry, *body.entry, PointAt(flag, n.scratch, n.places[-1])]
    steps += [PointAt(test.inputs[k], n.operands[k], 0) for k in range(n_cond)]
    steps += [PointAt(body.inputs[k], n.operands[n_cond + k], 0) for k in range(n_body)]
    before: list[Step] = []
    after: list[Step] = []
    last: list[Step] = []
    steps += _extra_places(control, n, body)
    writes = _write_steps(control, body, n_body, n.memory)
    for k, out in enumerate(eqn.outputs):
        given, number, size = body.inputs[n_body + k], control.outputs[k], _bytes(out.aval)
        steps.append(PointAt(given, n.results[k], 0))
        steps.append(n.memory.copy(given, n.operands[first + k], size))
        before.append(PointAt(test.inputs[n_cond + k], given, 0))
        if number is None:
            continue
        taken = body.outputs[number]
        steps.append(PointAt(taken, n.scratch, n.places[number]))
        if n.memory.fixed:
            after.append(n.memory.copy(given, taken, size))
        else:
            after.append(Swap(given, taken))
            last.append(n.memory.copy(n.results[k], given, size))
    known, fetched = n.memory.number(flag, 1)
    loop = While((*before, *test.steps, *fetched), known, (*body.steps, *writes, *after))
    return [*steps, loop, *last]


def _switch(_control: Control, n: _Numbers) -> list[Step]:
    index, *operands = n.operands
    branches = []
    for body in n.bodies:
        steps = list(body.entry)
        steps += [PointAt(a, b, 0) for a, b in zip(body.inputs, operands, strict=True)]
        steps += [PointAt(a, b, 0) for a, b in zip(body.outputs, n.results, strict=True)]
        branches.append((*steps, *body.steps))
    known, fetched = n.memory.number(index, 8)
    return [*fetched, Branch(known, tuple(branches))]


_STEPS = {prims.scan: _scan, prims.while_: _while, prims.switch: _switch}
