"""L5. Loops with small bodies as one kernel: the carry in registers, no call for a step.

    scan (consts, carry, xs)        acc c = carry %first
                                    serial t in length:
                                      %c = read c;  %x = load xs[t];  ...
                                      store ys[t] %y;  update c %new
                                    %last = read c;  store carry %last

A loop whose body is too large is left to the host program (`control_host`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import numpy as np

from fgrad.base.sizes import is_symbolic
from fgrad.compile.kernel.affine import AffineIndex, row_major, total
from fgrad.compile.kernel.builder import KernelBuilder
from fgrad.compile.kernel.check import check_kernel
from fgrad.compile.kernel.cost import kernel_cost
from fgrad.compile.kernel.fuse_multiply_add import fuse_multiply_add
from fgrad.compile.kernel.ir import Kernel, Load, Loop
from fgrad.compile.kernel.machine import VECTOR_BYTES
from fgrad.compile.kernel.predicates import split_rows
from fgrad.compile.kernel.rewrite import Body, walk
from fgrad.compile.kernel.unread import drop_unread
from fgrad.compile.loops.blocks import in_blocks
from fgrad.compile.loops.branches import LOOP_RULES
from fgrad.compile.loops.control import (
    Scan,
    has_loops,
    item_of,
    scan_of,
    stays_in_memory,
    while_of,
    write_scan,
    write_while,
)
from fgrad.compile.loops.find_batch_axes import NO_LANES, Lanes, body_lanes, find_lanes
from fgrad.compile.loops.independent import independent_steps
from fgrad.compile.loops.prepare import prepared
from fgrad.compile.loops.rows import RowWriter, is_long_product
from fgrad.compile.loops.strips import in_strips
from fgrad.compile.loops.values import Counting, Stored, TooLarge, Value, stored_at
from fgrad.compile.loops.writer import FEW_CELLS, FEW_COSTLY, FEW_SUMMED, LoopBuilder
from fgrad.compile.tasks.routines import MatrixRoutine
from fgrad.compile.tasks.steps import KernelStep, LibraryStep, Step
from fgrad.config import config
from fgrad.ir.program import Atom, Eqn, Lit, Program, Var
from fgrad.ir.traits import Cost, Holds
from fgrad.ir.walk import calls_back, communicates, cost_of, programs_in, subprograms
from fgrad.ops import primitives as prims

FEWEST_LANES = 8  # loops beside each other that are worth a vector


def loop_steps(
    eqn: Eqn,
    defined: Mapping[Var, Eqn],
    used: Collection[Var],
    constant: Callable[[np.ndarray], Var],
    schedule: Callable[[Kernel], Kernel],
    consts: Mapping[Var, np.ndarray],
) -> list[Step] | None:
    """The kernels that are a loop, or None if it is not one.

    Arguments:
        eqn: a scan or while equation.
        defined: the equations around it.
        used: the variables that somebody reads.
        constant: makes a constant array a variable.
        schedule: orders the loops of other kernels.
        consts: the constants of the program around it.
    """
    wanted = [v for v in eqn.outputs if v in used and v.aval.size]
    if is_region(eqn):
        return _kernels(
            eqn,
            defined,
            [(body_lanes(eqn.params["branches"][0]), wanted)],
            constant,
            schedule,
            consts,
        )
    if eqn.prim.holds is not Holds.LOOP or calls_back(eqn) or communicates(eqn):
        return None
    lanes = find_lanes(eqn, prepared, wanted)
    if lanes is not None and math.prod(lanes.extents) >= FEWEST_LANES:
        full = [v for v in wanted if len(lanes.axes.get(v, {})) == len(lanes.extents)]
        both = [full, [v for v in wanted if v not in full]]
        parts = [(lanes, both[0]), (NO_LANES, both[1])] if both[1] else [(lanes, both[0])]
        steps = _kernels(eqn, defined, parts, constant, schedule, consts)
        if steps is not None and both[1]:  # each lane computes what has none
            whole = _kernels(eqn, defined, [(NO_LANES, wanted)], constant, schedule, consts)
            return steps if whole is None else min(steps, whole, key=_cycles)
        if steps is not None:
            return steps
    steps_are_lanes = _lanes_of_steps(eqn)
    if steps_are_lanes is not None:
        steps = _kernels(eqn, defined, [(steps_are_lanes, wanted)], constant, schedule, consts)
        if steps is not None:
            return steps
    return _kernels(eqn, defined, [(NO_LANES, wanted)], constant, schedule, consts)


def _cycles(steps: Sequence[Step]) -> float:
    """The cost of some steps."""
    return sum([kernel_cost(s.kernel) for s in steps if isinstance(s, KernelStep)])


def _lanes_of_steps(eqn: Eqn) -> Lanes | None:
    """The steps of a loop as lanes, if none needs another and each is a straight line."""
    p = eqn.params
    if not is_map(eqn) or p["length"] < FEWEST_LANES or has_loops(prepared(p["body"])):
        return None
    items = [a for a in eqn.inputs[p["n_consts"] :] if isinstance(a, Var)]
    if not set(items).isdisjoint(eqn.inputs[: p["n_consts"]]):
        return None  # what is read as items and as a whole has no one place
    return Lanes({v: {0: 0} for v in (*items, *eqn.outputs)}, (p["length"],), {})


def few_cells(eqn: Eqn) -> int:
    """Elements of an array that a loop writes out: scalars stay in registers from step to step,
    however they move, but functions and sums take as long for one number as for a vector, and what
    only passes through larger arrays in memory stays in no register."""
    programs = [p for held in programs_in(eqn.params) for p in subprograms(held)]
    equations = [e for p in programs for e in p.eqns]
    kept = any([_keeps_cells(e) for e in (eqn, *equations)])
    costly = any([_is_costly(e) for e in equations])
    return FEW_CELLS if kept and not costly else FEW_COSTLY


def _keeps_cells(eqn: Eqn) -> bool:
    """Whether a loop carries an array that is written out, but not always."""
    sizes = [v.aval.size for v in eqn.outputs] if eqn.prim.holds is Holds.LOOP else []
    return any([FEW_COSTLY < size <= FEW_CELLS for size in sizes])


def _is_costly(eqn: Eqn) -> bool:
    """Whether vectors make an equation faster, even if its operands have to be stored first."""
    size = max([v.aval.size for v in eqn.outputs], default=0)
    if eqn.prim is prims.dot_general:
        axes, _ = eqn.params["contract"]
        return is_long_product(math.prod([eqn.inputs[0].aval.shape[a] for a in axes]), size)
    if eqn.prim.fold is not None:
        return eqn.inputs[0].aval.size > FEW_SUMMED * max(size, 1)
    return bool(eqn.prim.elementwise) and cost_of(eqn) >= Cost.FUNCTION and size > FEW_COSTLY


def is_map(eqn: Eqn) -> bool:
    """Whether a loop carries nothing."""
    return eqn.prim is prims.scan and not eqn.params["n_carry"]


def is_region(eqn: Eqn) -> bool:
    """Whether an equation is a program that runs once for each place of its lanes: a branch that is
    the only one."""
    return eqn.prim is prims.switch and len(eqn.params["branches"]) == 1


def _kernels(
    eqn: Eqn,
    defined: Mapping[Var, Eqn],
    parts: Sequence[tuple[Lanes, list[Var]]],
    constant: Callable[[np.ndarray], Var],
    schedule: Callable[[Kernel], Kernel],
    consts: Mapping[Var, np.ndarray],
) -> list[Step] | None:
    """One kernel for each part of the results."""
    steps: list[Step] = []
    try:
        for lanes, wanted in parts:
            steps += _Loop(eqn, defined, wanted, constant, lanes, consts).steps(schedule)
    except TooLarge:
        return None
    return steps


def _with_read_arguments(kernel: Kernel, args: Sequence[Var]) -> KernelStep:
    """The step without arguments that are not read: arrays that live on as their copies."""
    read = {s.buffer for s in walk(kernel.body) if isinstance(s, Load)}
    own = [b for b in kernel.buffers if b.role != "scratch"]
    unread = {b.name for b in own if b.role == "in" and b.name not in read}
    given = [v for v, b in zip(args, own, strict=True) if b.name not in unread]
    buffers = tuple([b for b in kernel.buffers if b.name not in unread])
    return KernelStep(kernel._replace(buffers=buffers), tuple(given))


class _Loop:
    """One loop on its way into a kernel."""

    def __init__(
        self,
        eqn: Eqn,
        defined: Mapping[Var, Eqn],
        used: Collection[Var],
        constant: Callable[[np.ndarray], Var],
        lanes: Lanes,
        consts: Mapping[Var, np.ndarray],
    ) -> None:
        self.consts = consts
        self.eqn, self.defined, self.used, self.lanes = eqn, defined, used, lanes
        self.constants: dict[int, Var] = {}
        self.constant = constant
        self.builder = LoopBuilder()
        lanes_at = self.builder.open_all(lanes.extents, "parallel")
        places = {v: {k: lanes_at[n] for k, n in own.items()} for v, own in lanes.axes.items()}
        self.writer = RowWriter(
            self.builder, LOOP_RULES, prepared, places, self._constant, lanes.loops
        )
        self.writer.extents = lanes.extents
        self.writer.few = few_cells(eqn)
        self.writer.lane = total(lanes_at, row_major(lanes.extents))
        self.copies: list[KernelStep] = []
        self.homes: set[str] = set()  # buffers of results

    def _constant(self, array: np.ndarray) -> Var:
        found = self.constants.get(id(array))
        if found is None:
            found = self.constants[id(array)] = self.constant(array)
        return found

    def steps(self, schedule: Callable[[Kernel], Kernel]) -> list[Step]:
        """Copies of what is updated in place, and the loop."""
        operands = [self.operand(a) for a in self.eqn.inputs]
        if is_region(self.eqn):
            self._region()
        elif is_map(self.eqn) and self.lanes.axes.get(self.eqn.outputs[0]) == {0: 0}:
            self._map(operands)
        elif self.eqn.prim is prims.scan:
            self._scan(scan_of(self.writer, self.eqn, operands))
        else:
            self._while(operands)
        self.builder.close_to(self.writer.around)
        flags = self.writer.flags()
        self.builder.close_to(0)
        kernel = fuse_multiply_add(drop_unread(self.builder.kernel()))
        kernel = in_blocks(independent_steps(self.vectorised(kernel)))
        kernel = split_rows(in_strips(kernel))
        copies = [step._replace(kernel=schedule(step.kernel)) for step in self.copies]
        if not kernel.body:
            return [*copies]
        if config.check >= 1:
            check_kernel(kernel)
        notes = [
            LibraryStep(
                MatrixRoutine("noted", (("message", message), ("size", flag.aval.size))),
                (flag,),
                ((0,),),
            )
            for message, flag in flags
        ]
        return [*copies, _with_read_arguments(kernel, self.builder.args), *notes]

    def vectorised(self, kernel: Kernel) -> Kernel:
        """The kernel with vectors along the longest lane axis, the last of equal ones."""
        if not self.lanes.extents:
            return kernel
        inner = len(self.lanes.extents) - 1
        if self.lanes.extents[inner] < FEWEST_LANES:
            inner = max(range(inner + 1), key=lambda k: self.lanes.extents[k])
        lanes = self.width(self.lanes.extents[inner])

        def at(body: Body, depth: int) -> Body:
            return tuple(
                [
                    s._replace(
                        body=at(s.body, depth + 1) if depth < inner else s.body,
                        lanes=lanes if depth == inner else 0,
                    )
                    if isinstance(s, Loop)
                    else s
                    for s in body
                ]
            )

        return kernel._replace(body=at(kernel.body, 0))

    def width(self, extent: int) -> int:
        """Several vectors at a time, to hide latencies, where there are registers for the carry."""
        floats = [v.aval.dtype for v in self.eqn.outputs if v in self.used]
        lanes = VECTOR_BYTES // max([d.itemsize for d in floats])
        carried = len(self.builder.acc_dtypes)
        most = 4 if carried <= 4 else 2 if carried <= 8 else 1
        most = 1 if is_region(self.eqn) or is_map(self.eqn) else most
        while most > 1 and lanes * most > extent:
            most //= 2
        return lanes * most

    def operand(self, atom: Atom) -> Value:
        """An operand of the loop; arrays that need no memory have none."""
        if isinstance(atom, Lit):
            return self.writer.value(atom)
        eqn = self.defined.get(atom)
        if eqn is not None and eqn.prim is prims.iota and atom.aval.ndim == 1:
            return Counting(atom.aval.size, atom.aval.dtype)
        if eqn is not None and eqn.prim is prims.unset and not is_symbolic(atom.aval.shape):
            return self.writer.zeros(self.writer.shape(atom), atom.aval.dtype)
        repeated = (
            eqn is not None and eqn.prim is prims.broadcast and not is_symbolic(atom.aval.shape)
        )
        if eqn is not None and repeated and isinstance(eqn.inputs[0], Lit):
            number = self.writer.number(eqn.inputs[0].value, atom.aval.dtype)
            return np.broadcast_to(np.int64(number), self.writer.shape(atom))
        stored, array = self.writer.stored(atom), self.consts.get(atom)
        return stored if array is None else self.writer.known_memory(stored, array)

    def _memory(
        self, body: Program, carried: Sequence[Var], operands: Sequence[Value], first: int
    ) -> list[Stored | None]:
        """The results in which carries are updated in place; memory of each lane for others."""
        found: list[Stored | None] = []
        for k, var in enumerate(carried):
            if not stays_in_memory(self.writer, body, var):
                found.append(None)
                continue
            out = self.eqn.outputs[k]
            if len(self.lanes.axes.get(out, {})) < len(self.lanes.extents):
                shape, dtype = self.writer.shape(out), out.aval.dtype
                found.append(self.writer.memory(operands[first + k], shape, dtype))
                continue
            self._copy(self.eqn.inputs[first + k], out)
            found.append(self.home(out, "inout"))
        return found

    def _copy(self, source: Atom, out: Var) -> None:
        """out[...] = source[...]."""
        made = None if isinstance(source, Lit) else self.defined.get(source)
        if made is not None and made.prim is prims.unset:
            return
        b = KernelBuilder({}, {}, {})
        places = b.open_all(out.aval.shape, "parallel")
        at = total(places, row_major(out.aval.shape))
        if made is not None and made.prim is prims.broadcast and isinstance(made.inputs[0], Lit):
            source = made.inputs[0]  # one number everywhere needs no array to be copied
        id = (
            b.const(source.value, out.aval.dtype)
            if isinstance(source, Lit)
            else b.load(b.buffer(source), at)
        )
        b.store(b.buffer(out, "out"), at, id)
        b.close_to(0)
        self.copies.append(KernelStep(b.kernel(), tuple(b.args)))

    def home(self, var: Var, role: str = "out") -> Stored:
        """The memory of a result."""
        stored = self.writer.stored(var, role)
        self.homes.add(stored.buffer)
        self.writer.versions[stored.buffer] = 0
        return stored._replace(version=0)

    def _region(self) -> None:
        """Each equation once; results lie where the body's do."""
        (body,) = self.eqn.params["branches"]
        given = [
            self.writer.stored(a, known_as=v) if isinstance(a, Var) else self.writer.value(a)
            for a, v in zip(self.eqn.inputs[1:], body.inputs, strict=True)
        ]
        results = self.writer.program(body, given)
        for var, atom, x in zip(self.eqn.outputs, body.outputs, results, strict=True):
            self.writer.write(self.writer.stored(var, "out", known_as=atom), x)

    def _map(self, operands: Sequence[Value]) -> None:
        """The one step of each lane."""
        s, w = scan_of(self.writer, self.eqn, operands), self.writer
        number = w.b.index(w.lane)
        items = [
            np.array(w.b.op("convert", x.dtype, number), np.int64)
            if isinstance(x, Counting)
            else item_of(w, x, AffineIndex(0))
            for x in s.xs
        ]
        results = w.program(s.body, [*s.consts, *items])
        for var, x in zip(self.eqn.outputs, results, strict=True):
            if var in self.used:
                w.write(stored_at(self.home(var), 0, AffineIndex(0)), x)

    def _scan(self, s: Scan) -> None:
        n = len(s.carry)
        operands = [*s.consts, *s.carry]
        memory = self._memory(s.body, s.carried, operands, len(s.consts))
        homes = [self.home(v) if v in self.used else None for v in self.eqn.outputs[n:]]
        results, _ = write_scan(self.writer, s, memory, homes)
        self._store(results, memory)

    def _while(self, operands: list[Any]) -> None:
        s = while_of(self.writer, self.eqn, operands)
        first = len(operands) - len(s.carry)
        memory = self._memory(s.body, s.carried, operands, first)
        self._store(write_while(self.writer, s, memory), memory)

    def _store(self, results: Sequence[Value], memory: Sequence[Stored | None]) -> None:
        """Store the final carry if it is read and not stored yet."""
        for var, x, place in zip(self.eqn.outputs, results, memory, strict=False):
            if var in self.used and (place is None or place.buffer not in self.homes):
                self.writer.write(self.home(var), x)
