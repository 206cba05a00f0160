"""L5. Loops with small bodies as one kernel: the carry in registers, no call for a step.

    scan (consts, carry, xs)        acc c = carry %first
                                    serial t in length:
                                      %c = read c;  %x = load xs[t];  ...
                                      store ys[t] %y;  update c %new
                                    %last = read c;  store carry %last

A loop whose body is too large is left to the host program (`control_host`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import numpy as np

from fgrad.compile.cse import cse
from fgrad.compile.dce import dce
from fgrad.compile.fold import fold
from fgrad.compile.inline import inline_calls
from fgrad.compile.kernel.check import check_kernel
from fgrad.compile.kernel.contracted import contracted
from fgrad.compile.kernel.ir import Kernel
from fgrad.compile.loop_control import (
    LOOP_RULES,
    Scan,
    scan_of,
    stays_in_memory,
    while_of,
    write_scan,
    write_while,
)
from fgrad.compile.loop_values import Counting, Stored, TooLarge, Value
from fgrad.compile.loop_writer import LoopBuilder, LoopWriter
from fgrad.compile.lower_build import KernelBuilder
from fgrad.compile.lower_index import Place, row_major, total
from fgrad.compile.real_parts import real_parts
from fgrad.compile.simplify import simplify
from fgrad.compile.steps import KernelStep
from fgrad.config import config
from fgrad.ir.program import Atom, Eqn, Lit, Program, Var

KERNEL_LOOPS = frozenset({"scan", "while"})


def prepared(program: Program) -> Program:
    """The body of a loop as it is written into a kernel."""
    found = program.cache.get("prepared")
    if found is None:
        found = program
        for rewrite in (inline_calls, dce, cse, real_parts, fold, simplify, cse, dce):
            found = rewrite(found)
        program.cache["prepared"] = found
        found.cache["prepared"] = found
    return found


def loop_steps(
    eqn: Eqn,
    defined: Mapping[Var, Eqn],
    used: Collection[Var],
    constant: Callable[[np.ndarray], Var],
    schedule: Callable[[Kernel], Kernel],
) -> list[KernelStep] | None:
    """The kernels that are a loop, or None if it is not one.

    Arguments:
        eqn: a scan or while equation.
        defined: the equations around it.
        used: the variables that somebody reads.
        constant: makes a constant array a variable.
        schedule: orders the loops of other kernels.
    """
    if eqn.prim.name not in KERNEL_LOOPS:
        return None
    try:
        return _Loop(eqn, defined, used, constant).steps(schedule)
    except TooLarge:
        return None


class _Loop:
    """One loop on its way into a kernel."""

    def __init__(
        self,
        eqn: Eqn,
        defined: Mapping[Var, Eqn],
        used: Collection[Var],
        constant: Callable[[np.ndarray], Var],
    ) -> None:
        self.eqn, self.defined, self.used = eqn, defined, used
        self.constants: dict[int, Var] = {}
        self.constant = constant
        self.builder = LoopBuilder()
        self.writer = LoopWriter(self.builder, LOOP_RULES, prepared, {}, self._constant)
        self.copies: list[KernelStep] = []

    def _constant(self, array: np.ndarray) -> Var:
        found = self.constants.get(id(array))
        if found is None:
            found = self.constants[id(array)] = self.constant(array)
        return found

    def steps(self, schedule: Callable[[Kernel], Kernel]) -> list[KernelStep]:
        """Copies of what is updated in place, and the loop."""
        operands = [self.operand(a) for a in self.eqn.inputs]
        if self.eqn.prim.name == "scan":
            self._scan(scan_of(self.writer, self.eqn, operands))
        else:
            self._while(operands)
        kernel = contracted(self.builder.kernel())
        if not kernel.body:
            return []
        if config.check >= 1:
            check_kernel(kernel)
        copies = [step._replace(kernel=schedule(step.kernel)) for step in self.copies]
        return [*copies, KernelStep(kernel, tuple(self.builder.args))]

    def operand(self, atom: Atom) -> Value:
        """An operand of the loop; arrays that need no memory have none."""
        if isinstance(atom, Lit):
            return self.writer.value(atom)
        eqn = self.defined.get(atom)
        if eqn is not None and eqn.prim.name == "iota" and atom.aval.ndim == 1:
            return Counting(atom.aval.size, atom.aval.dtype)
        if eqn is not None and eqn.prim.name == "broadcast" and isinstance(eqn.inputs[0], Lit):
            number = self.writer.number(eqn.inputs[0].value, atom.aval.dtype)
            return np.broadcast_to(np.int64(number), self.writer.shape(atom))
        return self.writer.stored(atom)

    def _memory(self, body: Program, carried: Sequence[Var], first: int) -> list[Stored | None]:
        """The results in which carries are updated in place."""
        found: list[Stored | None] = []
        for k, var in enumerate(carried):
            if not stays_in_memory(body, var, var.aval.size):
                found.append(None)
                continue
            out = self.eqn.outputs[k]
            self._copy(self.eqn.inputs[first + k], out)
            found.append(self.home(out, "inout"))
        return found

    def _copy(self, source: Atom, out: Var) -> None:
        """out[...] = source[...]."""
        b = KernelBuilder({}, {}, {})
        places = b.open_all(out.aval.shape, "parallel")
        at = total(places, row_major(out.aval.shape))
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
        if var.aval.dtype.kind == "c":
            raise TooLarge
        buffer = self.builder.buffer(var, role)
        self.writer.versions[buffer] = 0
        shape = var.aval.shape
        return Stored(buffer, var.aval.dtype, Place(), shape, row_major(shape), 0)

    def _scan(self, s: Scan) -> None:
        n = len(s.carry)
        memory = self._memory(s.body, s.carried, len(s.consts))
        homes = [self.home(v) if v in self.used else None for v in self.eqn.outputs[n:]]
        results, _ = write_scan(self.writer, s, memory, homes)
        self._store(results, memory)

    def _while(self, operands: list[Any]) -> None:
        s = while_of(self.writer, self.eqn, operands)
        memory = self._memory(s.body, s.carried, len(s.cond_consts) + len(s.body_consts))
        self._store(write_while(self.writer, s, memory), memory)

    def _store(self, results: Sequence[Value], memory: Sequence[Stored | None]) -> None:
        """The last carry, where somebody reads it and it does not stand there yet."""
        for var, x, place in zip(self.eqn.outputs, results, memory, strict=False):
            if place is None and var in self.used:
                self.writer.write(self.home(var), x)
