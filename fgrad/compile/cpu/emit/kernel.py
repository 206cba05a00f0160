"""L5. Scheduled kernels as LLVM text: `void @name(ptr bufs, i64 lo, i64 hi)`.

`bufs` points to the addresses of the kernel's buffers (scratch excluded) in order.  Where the
outermost loop is parallel, `[lo, hi)` is its range, so that threads can share it: `lo` is a
multiple of `outer_range(kernel).grain`, and so is `hi` unless it is the extent.  Other kernels
ignore the range.

A loop of L lanes unrolled U times becomes a main loop of step L*U, and a remainder of step L whose
last pass is masked.  The text needs no LLVM passes: invariant code is already outside of loops (see
`frame`), values are in SSA form, and vectors are explicit.

An `in` buffer may share memory with an `out` buffer only if each element is read by the same
iteration that writes it, at the same index, without a predicate.

Numbers of a kernel may be words of a table, whose address follows the buffers' (`numbers`).  The
code differs in nothing else: a pass that is known to be the only one of a loop is a loop all the
same, or LLVM would see more of what is computed in one block, and fuse more of it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from fgrad.base.named_tuple import NamedTuple
from fgrad.compile.cpu.emit.facts import LoopFacts, Span, lane_copies
from fgrad.compile.cpu.emit.frame import Axis, Emit, Frame, Value
from fgrad.compile.cpu.emit.index import emit_index
from fgrad.compile.cpu.emit.masks import leading, live_lanes
from fgrad.compile.cpu.emit.memory import SPARE, SPARE_BYTES, emit_load, emit_store
from fgrad.compile.cpu.emit.numbers import (
    Pattern,
    Register,
    capacity,
    form,
    is_written_out,
    known,
)
from fgrad.compile.cpu.emit.reduction import (
    Accumulator,
    emit_init,
    emit_read,
    emit_update,
    partial_shapes,
)
from fgrad.compile.cpu.emit.tile import Tile
from fgrad.compile.kernel.cost import weight
from fgrad.compile.kernel.ir import (
    Break,
    Buffer,
    Const,
    Index,
    Init,
    Kernel,
    Load,
    Loop,
    Op,
    Read,
    Statement,
    Store,
    Update,
)
from fgrad.compile.kernel.machine import (
    LONG_OPERATION,
    SHORT_BODY,
    SIGNAL_CYCLES,
    STACK_BYTES,
    VECTOR_BYTES,
)
from fgrad.compile.kernel.rewrite import is_tile, walk
from fgrad.compile.llvm.interrupts import DECLARATIONS, asked_in_a_loop
from fgrad.compile.llvm.text import constant, element_type, lane_type, literal, memory_type

FILLED = 1 << 11  # bytes of scratch memory that has numbers from the start


class Range(NamedTuple):
    """The iterations of the outermost parallel loop, and the unit in which they may be split."""

    extent: int
    grain: int


class _Extent(NamedTuple):
    """How a loop is cut: its extent may be any, a vector may be left that is not full, and all
    passes are masked, so that a long body is written once."""

    varies: bool
    ragged: bool
    masked: bool


def outer_loop(kernel: Kernel) -> Loop | None:
    """The loop that `[lo, hi)` applies to: the only loop at the top, if it is parallel."""
    loops = [s for s in kernel.body if isinstance(s, Loop)]
    others = [s for s in kernel.body if not isinstance(s, (Loop, Const, Index, Load, Op))]
    if len(loops) != 1 or others or loops[0].kind != "parallel" or loops[0].extent == 0:
        return None
    return loops[0]


def outer_range(kernel: Kernel) -> Range:
    """The range to pass for a whole run of a scheduled kernel, `[0, extent)`, and its grain."""
    loop = outer_loop(kernel)
    if loop is None:
        return Range(1, 1)
    return Range(loop.extent, max(loop.lanes, 1) * max(loop.unroll, 1))


def emit_function(
    symbol: str, kernel: Kernel, ops: dict[str, Emit], pattern: Pattern | None = None
) -> tuple[str, set[str]]:
    """The text of one function and the declarations that it needs.

    With a pattern it reads the numbers that this makes data from a table.

    Raises:
      NotShared: the code would depend on such a number.
    """
    emitter = KernelEmitter(kernel, ops, pattern)
    lines = emitter.emit()
    aligned = " alignstack(64)" if _spills(kernel.body) else ""
    head = f"define void @{symbol}(ptr %bufs, i64 %lo, i64 %hi){aligned} #0 {{\nentry:\n"
    return head + "\n".join(lines) + "\n}", emitter.frame.function.declarations


def _spills(body: tuple[Statement, ...]) -> bool:
    """Whether constants of long formulas go to the stack, where whole vectors are to be aligned:
    reading one that lies across two cache lines takes twice as long."""
    loops = [s for s in walk(body) if isinstance(s, Loop) and s.lanes > 1]
    return any([sum([weight(s) for s in loop.body]) > LONG_OPERATION for loop in loops])


class KernelEmitter:
    """Walks one scheduled kernel and writes its function."""

    def __init__(
        self, kernel: Kernel, ops: dict[str, Emit], pattern: Pattern | None = None
    ) -> None:
        self.registers = None if pattern is None else pattern.registers()
        self.kernel, self.turns = form(kernel, self.registers)
        self.frame = Frame(ops)
        self.accumulators: dict[str, Accumulator] = {}
        self.shapes = partial_shapes(self.kernel.body)
        self.outer = outer_loop(self.kernel)
        self.facts: dict[int, LoopFacts] = {}
        self.copy = 0
        self.tile: Tile | None = None
        self.epilogue: list[str] = []
        self.stack = 0  # bytes of scratch memory
        self.work = ""  # where stands how much may be done until the next look for signals

    def emit(self) -> list[str]:
        """The lines of the function's body."""
        self._buffers()
        self.body(self.kernel.body)
        frame = self.frame
        function = frame.enter(frame.root)
        if self.work:
            function.line("br label %stopped")
            function.label("stopped")
        for line in self.epilogue:
            function.line(line)
        function.line("ret void")
        return frame.root.lines

    def _buffers(self) -> None:
        frame = self.frame
        function = frame.function
        function.lines.append(f"  {SPARE} = alloca <{SPARE_BYTES} x i8>, align 8")
        if self.turns:
            self.work = function.emit("alloca [1 x i64], align 8")
            function.line(f"store i64 {SIGNAL_CYCLES}, ptr {self.work}, align 8")
        frame.expanded = lane_copies(self.kernel)
        slot = 0
        for buffer in self.kernel.buffers:
            frame.buffers[buffer.name] = buffer
            if buffer.role == "scratch":
                continue
            where = function.emit(f"getelementptr ptr, ptr %bufs, i64 {slot}")
            frame.bases[buffer.name] = function.emit(f"load ptr, ptr {where}, align 8")
            slot += 1
        self._numbers(slot)
        for buffer in self.kernel.buffers:
            if buffer.role == "scratch":
                frame.bases[buffer.name] = self._scratch(buffer)

    def _numbers(self, slot: int) -> None:
        """The registers of numbers, from the table in a slot."""
        function = self.frame.function
        distinct = {r.text: r for r in self.registers or () if r is not None}
        if not distinct:
            return
        where = function.emit(f"getelementptr ptr, ptr %bufs, i64 {slot}")
        table = function.emit(f"load ptr, ptr {where}, align 8")
        for word, register in enumerate(distinct.values()):
            kind = "double" if isinstance(register.value, float) else "i64"
            at = function.emit(f"getelementptr i64, ptr {table}, i64 {word}")
            function.line(f"{register.text} = load {kind}, ptr {at}, align 8")

    def _scratch(self, buffer: Buffer) -> str:
        """Memory for a scratch buffer, padded so that whole vectors can be read at its end."""
        function, dtype = self.frame.function, buffer.dtype
        count = capacity(buffer.size) * self.frame.expanded.get(buffer.name, 1)
        size = (count + VECTOR_BYTES) * dtype.itemsize
        self.stack += size
        if self.stack <= STACK_BYTES:
            kind = f"[{count + VECTOR_BYTES} x {memory_type(dtype)}]"
            pointer = function.emit(f"alloca {kind}, align 64")
            self._fill(pointer, buffer, count * dtype.itemsize)
            return pointer
        function.declare("declare ptr @malloc(i64)")
        function.declare("declare void @free(ptr)")
        pointer = function.emit(f"call ptr @malloc(i64 {size})")
        self.epilogue.append(f"call void @free(ptr {pointer})")
        return pointer

    def _fill(self, pointer: str, buffer: Buffer, size: int) -> None:
        """Numbers for the lanes of whole vectors that read more than was written.

        What was never written is undefined for LLVM in every use, also as the condition of a
        branch, once the memory lives in registers.  Ones take no rare path of any function.
        """
        lanes = max([1, *[s.lanes for s in walk(self.kernel.body) if isinstance(s, Loop)]])
        if lanes == 1:
            return
        function, dtype = self.frame.function, buffer.dtype
        stored = np.dtype(np.int8) if dtype.kind == "b" else dtype
        if size <= FILLED:
            function.declare("declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)")
            function.line(f"call void @llvm.memset.p0.i64(ptr {pointer}, i8 0, i64 {size}, i1 0)")
        copies, count = self.frame.expanded.get(buffer.name, 1), buffer.size
        if copies > 1 and isinstance(count, Register):
            end = function.emit(f"mul i64 {count}, {copies}")
        else:
            end = str(count) if copies == 1 else str(count * copies)
        behind = function.emit(f"getelementptr {memory_type(dtype)}, ptr {pointer}, i64 {end}")
        ones = f"{lane_type(stored, lanes)} {constant(1, stored, lanes)}"
        function.line(f"store {ones}, ptr {behind}, align {dtype.itemsize}")

    # --- statements

    def body(self, body: tuple[Statement, ...]) -> None:
        """Emit statements in order; those already emitted and still valid are kept."""
        values = self.frame.values
        for s in body:
            kind = type(s)
            if isinstance(s, Load):
                if s.id not in values:
                    values[s.id] = emit_load(self.frame, s)
            elif isinstance(s, Op):
                if s.id not in values:
                    args = [values[a] for a in s.args]
                    scope = self.frame.deepest(*[a.scope for a in args])
                    values[s.id] = self.frame.apply(s.op, args, s.dtype, scope)
            else:
                _EMIT[kind](self, s)

    def const(self, s: Const) -> None:
        """A literal; no instruction, unless it is in a register."""
        root = self.frame.root
        if isinstance(s.value, Register):
            self.frame.values[s.id] = self._converted(s.value, s.dtype)
            return
        self.frame.values[s.id] = Value(literal(s.value, s.dtype), 1, s.dtype, root, True)

    def _converted(self, number: Register, dtype: np.dtype) -> Value:
        """A number of the table as a value of a type that holds it exactly."""
        function = self.frame.enter(self.frame.root)
        text, element = number.text, element_type(dtype)
        if dtype.kind == "f" and dtype.itemsize < 8:
            text = function.emit(f"fptrunc double {text} to {element}")
        elif dtype.kind != "f" and dtype.itemsize < 8:
            text = function.emit(f"trunc i64 {text} to {element}")
        return Value(text, 1, dtype, self.frame.root)

    def index(self, s: Index) -> None:
        """The integer value of an affine map."""
        if s.id not in self.frame.values:
            self.frame.values[s.id] = emit_index(self.frame, s.index, s.dtype)

    def read(self, s: Read) -> None:
        """The accumulator's value now."""
        self.frame.values[s.id] = emit_read(self.frame, s, self.accumulators[s.acc])

    def init(self, s: Init) -> None:
        """A new accumulator."""
        self.accumulators[s.acc] = emit_init(self.frame, s, self.shapes[s.acc])

    def update(self, s: Update) -> None:
        """One contribution to an accumulator."""
        emit_update(self.frame, self.accumulators[s.acc], self.frame.values[s.value], self.copy)

    def store(self, s: Store) -> None:
        """Memory written."""
        emit_store(self.frame, s)

    # --- loops

    def loop(self, loop: Loop) -> None:
        """A whole loop: main part and remainder."""
        if loop.extent == 0:
            return
        facts = self.facts.get(id(loop)) or self.facts.setdefault(id(loop), LoopFacts(loop))
        lanes, unroll = max(loop.lanes, 1), max(loop.unroll, 1)
        saved = self.frame.lanes, self.copy, self.frame.mask
        if lanes > 1:
            self.frame.lanes = lanes
        if is_tile(loop):
            self.tile = Tile(self.frame, loop, lambda s: self.body((s,)))
        if loop.kind == "while":
            self._while(loop, facts)
        elif loop is self.outer:
            self._outer(loop, facts, lanes, unroll)
        else:
            self._static(loop, facts, lanes, unroll)
        self.frame.lanes, self.copy, self.frame.mask = saved
        if is_tile(loop):
            self.tile = None
        del self.frame.axes[loop.axis]

    def _extent(self, loop: Loop, facts: LoopFacts) -> _Extent:
        extent, step = loop.extent, max(loop.lanes, 1) * max(loop.unroll, 1)
        varies = isinstance(extent, Register) and step > 1 and self.tile is None
        size = known(extent)
        ragged = loop.lanes > 1 and (varies or size % loop.lanes > 0)
        long = facts.weight > SHORT_BODY and loop.unroll <= 1
        return _Extent(varies, ragged, ragged and long and (varies or size > loop.lanes))

    def _static(self, loop: Loop, facts: LoopFacts, lanes: int, unroll: int) -> None:
        extent, size = loop.extent, known(loop.extent)
        varies, ragged, masked = self._extent(loop, facts)
        if masked:
            self._span(loop, facts, Span("0", str(extent), lanes, 1, True))
            return
        if size < lanes * unroll and not varies:
            only = Span("0", str(extent), lanes, 1, ragged, False, size < lanes, 0, extent)
            self._span(loop, facts, only)
            return
        main = self._multiple(extent, lanes * unroll)
        self._span(loop, facts, Span("0", str(main), lanes, unroll, False, varies, last=main))
        if ragged or (unroll > 1 and main != extent):
            bounds = str(main), str(extent)
            rest = Span(*bounds, lanes, 1, ragged, varies, unroll == 1, main, extent)
            self._span(loop, facts, rest)

    def _multiple(self, extent: int | Register, step: int) -> int | Register:
        """The largest multiple of `step` that is not beyond an extent."""
        if not isinstance(extent, Register):
            return extent - extent % step
        if step == 1:
            return extent
        key = ("multiple", extent.text, step)
        cache = self.frame.root.cache
        if key not in cache:
            function = self.frame.enter(self.frame.root)
            rest = function.emit(f"urem i64 {extent}, {step}")
            cache[key] = function.emit(f"sub i64 {extent}, {rest}")
        return Register(cache[key])

    def _outer(self, loop: Loop, facts: LoopFacts, lanes: int, unroll: int) -> None:
        """The loop over `[lo, hi)`: only the part of `hi == extent` has a remainder."""
        extent, size = loop.extent, known(loop.extent)
        varies, ragged, masked = self._extent(loop, facts)
        main = self._multiple(extent, lanes * unroll)
        if masked or main == extent or (unroll == 1 and not ragged):
            self._span(loop, facts, Span("%lo", "%hi", lanes, unroll, masked, True))
            return
        if varies or size >= lanes * unroll:
            function = self.frame.enter(self.frame.root)
            short = function.emit(f"icmp slt i64 %hi, {main}")
            stop = function.emit(f"select i1 {short}, i64 %hi, i64 {main}")
            self._span(loop, facts, Span("%lo", stop, lanes, unroll, False, True))
        function = self.frame.enter(self.frame.root)
        early = function.emit(f"icmp sgt i64 %lo, {main}")
        start = function.emit(f"select i1 {early}, i64 %lo, i64 {main}")
        self._span(loop, facts, Span(start, "%hi", lanes, 1, ragged, True))

    def _span(self, loop: Loop, facts: LoopFacts, span: Span) -> None:
        """The iterations of one span, as a loop or, where all passes are written out, as straight
        code."""
        live = span.only_pass()
        if live is None or not is_written_out(loop):
            self._looped(loop, facts, span, span.lanes * span.unroll)
            return
        frame, saved = self.frame, self.frame.mask
        if span.masked:
            frame.mask = leading(frame, live, span.lanes)
        self._copies(loop, facts, None, known(span.first), span)
        frame.mask = saved

    def _looped(self, loop: Loop, facts: LoopFacts, span: Span, step: int) -> None:
        frame = self.frame
        counter, head = frame.function.fresh("i"), frame.function.fresh("loop")[1:]
        after, saved = frame.function.fresh("end")[1:], (frame.mask, frame.tail)
        carried = self._open_phis(facts)
        scope = frame.open(head, facts.stored)
        for accumulator, _, _ in carried:
            accumulator.scope = scope
        if span.masked:
            frame.mask = live_lanes(frame, counter, span)
        self._copies(loop, facts, counter, 0, span)
        frame.mask, frame.tail = saved
        function = frame.enter(frame.inner)
        following = function.emit(f"add nsw i64 {counter}, {step}")
        again = function.emit(f"icmp slt i64 {following}, {span.stop}")
        self._look_for_signals(loop, span.unroll)
        function.line(f"br i1 {again}, label %{head}, label %{after}")
        lines, latch = frame.close()
        parent = frame.function
        before = parent.block
        if span.maybe_empty:
            some = parent.emit(f"icmp slt i64 {span.start}, {span.stop}")
            parent.line(f"br i1 {some}, label %{head}, label %{after}")
        else:
            parent.line(f"br label %{head}")
        parent.label(head)
        parent.line(f"{counter} = phi i64 [ {span.start}, %{before} ], [ {following}, %{latch} ]")
        self._close_phis(carried, before, latch)
        parent.lines += lines
        parent.label(after)
        if span.maybe_empty:
            self._leave_phis(carried, before, latch)

    def _while(self, loop: Loop, facts: LoopFacts) -> None:
        """A loop that tests at its head; what it updates leaves with the values of the test."""
        frame = self.frame
        head, inside = frame.function.fresh("while")[1:], frame.function.fresh("do")[1:]
        after = frame.function.fresh("end")[1:]
        carried = self._open_phis(facts)
        scope = frame.open(head, facts.stored)
        for accumulator, _, _ in carried:
            accumulator.scope = scope
        for id in facts.varying:
            frame.values.pop(id, None)
        frame.axes[loop.axis] = Axis(None, 0, 1, scope)
        position = next(k for k, s in enumerate(loop.body) if isinstance(s, Break))
        stop = loop.body[position]
        assert isinstance(stop, Break)
        self.body(loop.body[:position])
        heads = [list(accumulator.parts) for accumulator, _, _ in carried]
        done = self._all_lanes(frame.values[stop.value])
        function = frame.enter(scope)
        function.line(f"br i1 {done}, label %{after}, label %{inside}")
        function.label(inside)
        self.body(loop.body[position + 1 :])
        self._look_for_signals(loop, 1)
        frame.enter(scope).line(f"br label %{head}")
        lines, latch = frame.close()
        parent = frame.function
        before = parent.block
        parent.line(f"br label %{head}")
        parent.label(head)
        self._close_phis(carried, before, latch)
        for (accumulator, _, _), parts in zip(carried, heads, strict=True):
            accumulator.parts = parts
        parent.lines += lines
        parent.label(after)

    def _look_for_signals(self, loop: Loop, copies: int) -> None:
        """At the end of a turn: leave the kernel if a signal's handler has raised."""
        if loop.axis not in self.turns:
            return
        function = self.frame.enter(self.frame.inner)
        look, on = function.fresh("look")[1:], function.fresh("on")[1:]
        for text in DECLARATIONS:
            function.declare(text)
        function.declare('!0 = !{!"branch_weights", i32 1, i32 1048576}')
        left = function.emit(f"load i64, ptr {self.work}, align 8")
        cycles = function.emit(f"mul i64 {self.turns[loop.axis]}, {copies}")
        less = function.emit(f"sub i64 {left}, {cycles}")
        function.line(f"store i64 {less}, ptr {self.work}, align 8")
        spent = function.emit(f"icmp slt i64 {less}, 0")
        function.line(f"br i1 {spent}, label %{look}, label %{on}, !prof !0")
        function.label(look)
        told = function.emit(asked_in_a_loop())
        function.line(f"store i64 {SIGNAL_CYCLES}, ptr {self.work}, align 8")
        stop = function.emit(f"icmp ne i64 {told}, 0")
        function.line(f"br i1 {stop}, label %stopped, label %{on}")
        function.label(on)

    def _all_lanes(self, value: Value) -> str:
        """Whether a condition holds in every lane that is alive."""
        frame = self.frame
        if value.lanes == 1:
            return frame.spread(value, 1)
        lanes, mask = value.lanes, frame.mask
        live = None if mask is None else frame.spread(mask, lanes)
        function = frame.enter(frame.inner)
        text = value.text
        if live is not None:
            text = function.emit(f"xor <{lanes} x i1> {text}, splat (i1 true)")
            text = function.emit(f"and <{lanes} x i1> {text}, {live}")
            text = function.emit(f"xor <{lanes} x i1> {text}, splat (i1 true)")
        bits = function.emit(f"bitcast <{lanes} x i1> {text} to i{lanes}")
        return function.emit(f"icmp eq i{lanes} {bits}, -1")

    def _open_phis(self, facts: LoopFacts) -> list[tuple[Accumulator, list[str], list[str]]]:
        """Give the accumulators that a loop updates names for their values at its head."""
        carried = []
        for name in facts.updates:
            accumulator = self.accumulators[name]
            heads = [self.frame.function.fresh("acc") for _ in accumulator.parts]
            carried.append((accumulator, list(accumulator.parts), heads))
            accumulator.parts = list(heads)
        return carried

    def _close_phis(
        self,
        carried: list[tuple[Accumulator, list[str], list[str]]],
        before: str,
        latch: str,
    ) -> None:
        parent = self.frame.function
        for accumulator, starts, heads in carried:
            kind = lane_type(accumulator.dtype, accumulator.lanes)
            for start, head, final in zip(starts, heads, accumulator.parts, strict=True):
                parent.line(f"{head} = phi {kind} [ {start}, %{before} ], [ {final}, %{latch} ]")
            accumulator.scope = self.frame.inner

    def _leave_phis(
        self,
        carried: list[tuple[Accumulator, list[str], list[str]]],
        before: str,
        latch: str,
    ) -> None:
        """What a loop that may be empty leaves in its accumulators."""
        parent = self.frame.function
        for accumulator, starts, _ in carried:
            kind = lane_type(accumulator.dtype, accumulator.lanes)
            accumulator.parts = [
                parent.emit(f"phi {kind} [ {start}, %{before} ], [ {final}, %{latch} ]")
                for start, final in zip(starts, accumulator.parts, strict=True)
            ]

    def _copies(
        self, loop: Loop, facts: LoopFacts, counter: str | None, first: int, span: Span
    ) -> None:
        """The body, once for each unrolled copy."""
        frame, scope = self.frame, self.frame.inner if counter else self.frame.root
        for copy in range(span.unroll):
            for id in facts.varying:
                frame.values.pop(id, None)
            offset = first + copy * span.lanes
            axis = Axis(counter, offset, span.lanes, scope)
            if self.tile is not None:
                self._tile_step(self.tile, loop, axis)
                continue
            frame.axes[loop.axis] = axis
            self.copy = copy if loop.kind == "reduce" else 0
            self.body(loop.body)

    def _tile_step(self, tile: Tile, loop: Loop, axis: Axis) -> None:
        """One pass of a tile's outer loop is the inner loop; one pass of that is the tile."""
        if loop is tile.rows:
            self.frame.axes[loop.axis] = axis._replace(lanes=1)
            self.loop(tile.columns)
            return
        rows = self.frame.axes[tile.rows.axis]
        tile.emit(rows._replace(lanes=1), axis._replace(lanes=1))


_EMIT: dict[type, Callable[[KernelEmitter, Any], None]] = {
    Const: KernelEmitter.const,
    Index: KernelEmitter.index,
    Read: KernelEmitter.read,
    Init: KernelEmitter.init,
    Update: KernelEmitter.update,
    Store: KernelEmitter.store,
    Loop: KernelEmitter.loop,
}
__all__ = ["Range", "constant", "emit_function", "outer_loop", "outer_range"]
