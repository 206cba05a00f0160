"""L5. The native host program: kernels called in order over a table of buffers, as data.

A program is a tuple of steps over numbered slots, each slot an address.  The first slots are given
by the caller (arguments, results, the arena, constants); `PointAt` steps derive others from them.
The steps are written into an int64 table that one small native function walks, so that a program
with loops and branches needs no compilation and never returns to Python.

    PointAt(3, base=2, offset=64)           slot 3 = slot 2 + 64 bytes
    Repeat(100, (Call(f, 0, 8, (0, 3)), Advance(0, 64)))
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np

from fgrad.base.named_tuple import NamedTuple
from fgrad.compile.host.threads import pool_address, share_address
from fgrad.compile.kernel.machine import CHUNK_CYCLES, SHARED_CYCLES, WALKED_CYCLES
from fgrad.compile.llvm.interrupts import CELLS, DECLARATIONS, POLL, is_stopped, keep
from fgrad.compile.llvm.runtime import Source, build, raise_kept
from fgrad.config import config


class Call(NamedTuple):
    """`address(bufs, lo, hi)` with the slots' addresses in `bufs`."""

    address: int
    lo: int
    hi: int
    slots: tuple[int, ...]


class Share(NamedTuple):
    """The same with the range shared among threads, in pieces of `chunk` iterations; all of it
    takes about `cost` cycles."""

    address: int
    lo: int
    hi: int
    chunk: int
    slots: tuple[int, ...]
    cost: float = 0.0


class PointAt(NamedTuple):
    """`slot = base + offset` bytes: where a slot points from now on."""

    slot: int
    base: int
    offset: int


class Advance(NamedTuple):
    """`slot += size` bytes."""

    slot: int
    size: int


class Swap(NamedTuple):
    """Exchange the addresses of two slots."""

    a: int
    b: int


class Copy(NamedTuple):
    """Copy `size` bytes; the memory may overlap."""

    target: int
    source: int
    size: int


class Fill(NamedTuple):
    """Set `size` bytes to `byte`."""

    target: int
    size: int
    byte: int = 0


class Repeat(NamedTuple):
    """The body, `count` times."""

    count: int
    body: tuple[Step, ...]


class While(NamedTuple):
    """Run `condition`; while the byte at slot `flag` is not 0 then, run `body` and start again."""

    condition: tuple[Step, ...]
    flag: int
    body: tuple[Step, ...]


class Branch(NamedTuple):
    """Run the branch whose number, clamped to the valid ones, is the int64 at slot `index`."""

    index: int
    branches: tuple[tuple[Step, ...], ...]


Step: TypeAlias = Call | Share | PointAt | Advance | Swap | Copy | Fill | Repeat | While | Branch

(_END, _CALL, _SHARE, _PLACE, _ADVANCE, _SWAP, _COPY) = range(7)
(_FILL, _SET, _COUNT, _JUMP, _UNLESS, _SWITCH) = range(7, 13)
WALKED_STEPS = 1_000  # of a first run that Python walks; more are left to the interpreter
TURNS = 8  # of loops between two looks for signals: 1 takes 30 ns
_LOOPS = (Repeat, While, Branch)
_HEADER = 4  # slots, given slots, counters, longest buffer list


def shared_call(
    address: int, extent: int, grain: int, cost: float, slots: tuple[int, ...], each: int = 4
) -> Call | Share:
    """A function's whole range as one step, by several threads if it costs enough cycles.

    `each` is the number of pieces for each thread: few where a piece repeats some work.
    """
    pieces = min(each * config.num_threads, int(cost / CHUNK_CYCLES), extent // grain)
    if config.num_threads < 2 or pieces < 2 or cost < SHARED_CYCLES:
        return Call(address, 0, extent, slots)
    chunk = -(-extent // (pieces * grain)) * grain
    return Share(address, 0, extent, chunk, slots, cost)


class HostProgram:
    """Steps in executable form.

    Arguments:
      steps: what to run.
      given: how many slots the caller's pointers fill (slots 0 .. given-1).
      keep: objects that must live as long as the program (callbacks, constants).

    A program that runs once needs neither the table nor the interpreter: where its steps are few
    and short, Python walks them at the first run.
    """

    def __init__(self, steps: Sequence[Step], given: int, keep: Sequence[object] = ()) -> None:
        self.steps = tuple(steps)
        self.given = given
        self.keep = tuple(keep)
        self._pointers = ctypes.c_void_p * given
        self._walked = not _is_short(self.steps)
        self._made: dict[str, Any] = {}  # `cached_property` has a lock until Python 3.12

    @property
    def table(self) -> np.ndarray:
        """The steps as the interpreter reads them."""
        found = self._made.get("table")
        if found is None:
            assembler = _Assembler(self.given)
            assembler.steps(self.steps)
            found = self._made.setdefault("table", assembler.finish())
        return found

    @property
    def address(self) -> int:
        """Where the table is."""
        return self.table.ctypes.data

    @property
    def interpreter(self) -> int:
        """The address of what runs the table."""
        found = self._made.get("interpreter")
        if found is None:
            found = self._made.setdefault("interpreter", interpreter_address())
        return found

    def run(self, pointers: Sequence[int]) -> None:
        """Run with the given slots' addresses; the GIL is released meanwhile.

        Raises:
          whatever a Python callback among the steps raised, after all steps have run; what a
          signal's handler raised, which ends them.
        """
        if self._walked:
            _Interpreter(self.interpreter)(self.address, self._pointers(*pointers))
        else:
            self._walked = True
            _walk(self.steps, pointers)
        raise_if_stopped()
        for kept in self.keep:
            if isinstance(kept, Callback):
                kept.reraise()


def _is_short(steps: Sequence[Step]) -> bool:
    """Whether Python runs the steps faster than the interpreter compiles."""
    if len(steps) > WALKED_STEPS:
        return False
    cost = 0.0
    for step in steps:
        if type(step) in _LOOPS:
            return False
        if type(step) is Share:
            cost += step.cost
    return cost <= WALKED_CYCLES


def _walk(steps: Sequence[Any], pointers: Sequence[int]) -> None:
    """Run steps without loops in Python, as the interpreter would, in this thread."""
    slots = dict(enumerate(pointers))
    for step in steps:
        kind = type(step)
        if kind is Call or kind is Share:
            buffers = [slots[k] for k in step.slots]
            _StepFunction(step.address)(
                (ctypes.c_void_p * len(buffers))(*buffers), step.lo, step.hi
            )
            if is_stopped():
                return
        elif kind is PointAt:
            slots[step.slot] = slots[step.base] + step.offset
        elif kind is Advance:
            slots[step.slot] += step.size
        elif kind is Swap:
            slots[step.a], slots[step.b] = slots[step.b], slots[step.a]
        elif kind is Copy:
            ctypes.memmove(slots[step.target], slots[step.source], step.size)
        else:
            ctypes.memset(slots[step.target], step.byte, step.size)


class Callback:
    """A Python function as a native step: `function(*addresses)` is called with the GIL held.

    Arguments:
      function: takes the addresses of the step's buffers.
      buffers: how many buffers the step has.

    An exception ends the callback, not the program, unless it is an interrupt or that of a check
    (`ops/checked.py`); `reraise` raises the thread's first one afterwards.
    """

    def __init__(self, function: Callable[..., None], buffers: int) -> None:
        def call(bufs: int, lo: int, hi: int) -> None:
            try:
                function(*(ctypes.c_void_p * buffers).from_address(bufs))
            except BaseException as error:
                ends = not isinstance(error, Exception) or hasattr(error, "used")
                if not (ends and keep(error)):
                    _RAISED.error = _RAISED.error or error

        self.function = function
        self._native = _StepFunction(call)
        self.address: int = ctypes.cast(self._native, ctypes.c_void_p).value or 0

    def reraise(self) -> None:
        """Raise the first exception of a callback in this thread since the last time, if any."""
        error, _RAISED.error = _RAISED.error, None
        if error is not None:
            raise error


def raise_if_stopped() -> None:
    """Raise what has ended native code in this thread, if something has."""
    if is_stopped():
        _RAISED.error = None  # what unfinished results have led to
        raise_kept()


class _Raised(threading.local):
    """What a callback raised in this thread."""

    error: BaseException | None = None


_RAISED = _Raised()
_StepFunction = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)
_Interpreter = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)


class _Assembler:
    """Writes steps into the int64 table; jumps are absolute positions in it."""

    def __init__(self, given: int) -> None:
        self.words: list[int] = [given, given, 1, 1]
        self.depth = 0

    def finish(self) -> np.ndarray:
        self.words.append(_END)
        return np.array(self.words, np.int64)

    def steps(self, steps: Sequence[Step]) -> None:
        for step in steps:
            _ASSEMBLE[type(step)](self, step)

    def emit(self, *words: int) -> int:
        self.words.extend(words)
        return len(self.words)

    def touch(self, *slots: int) -> None:
        self.words[0] = max(self.words[0], *[slot + 1 for slot in slots], 0)

    def call(self, s: Call) -> None:
        self.touch(*s.slots)
        self.words[3] = max(self.words[3], len(s.slots))
        self.emit(_CALL, s.address, s.lo, s.hi, len(s.slots), *s.slots)

    def share(self, s: Share) -> None:
        self.touch(*s.slots)
        self.words[3] = max(self.words[3], len(s.slots))
        shared = (pool_address(), share_address(), s.chunk)
        self.emit(_SHARE, s.address, s.lo, s.hi, len(s.slots), *shared, *s.slots)

    def simple(self, s: PointAt | Advance | Swap | Copy | Fill) -> None:
        opcode, addressed = _SIMPLE[type(s)]
        self.touch(*s[:addressed])
        self.emit(opcode, *s)

    def repeat(self, s: Repeat) -> None:
        if s.count <= 0:
            return
        counter = self.depth
        self.depth += 1
        self.words[2] = max(self.words[2], self.depth)
        start = self.emit(_SET, counter, s.count)
        self.steps(s.body)
        self.emit(_COUNT, counter, start)
        self.depth -= 1

    def loop(self, s: While) -> None:
        start = len(self.words)
        self.steps(s.condition)
        self.touch(s.flag)
        hole = self.emit(_UNLESS, s.flag, 0) - 1
        self.steps(s.body)
        self.words[hole] = self.emit(_JUMP, start)

    def branch(self, s: Branch) -> None:
        count = len(s.branches)
        self.touch(s.index)
        table = self.emit(_SWITCH, s.index, count, *[0] * count) - count
        ends = []
        for k, steps in enumerate(s.branches):
            self.words[table + k] = len(self.words)
            self.steps(steps)
            ends.append(self.emit(_JUMP, 0) - 1)
        for end in ends:
            self.words[end] = len(self.words)


_SIMPLE = {
    PointAt: (_PLACE, 2),
    Advance: (_ADVANCE, 1),
    Swap: (_SWAP, 2),
    Copy: (_COPY, 2),
    Fill: (_FILL, 1),
}
_ASSEMBLE = {
    Call: _Assembler.call,
    Share: _Assembler.share,
    Repeat: _Assembler.repeat,
    While: _Assembler.loop,
    Branch: _Assembler.branch,
    **dict.fromkeys(_SIMPLE, _Assembler.simple),
}


def interpreter_address() -> int:
    """The address of `void run(ptr table, ptr given)`, built once."""
    return build([Source(_INTERPRETER, _emit_interpreter)])[0]


def _emit_interpreter(symbol: str) -> tuple[str, set[str]]:
    declarations = {
        "declare ptr @memmove(ptr, ptr, i64)",
        "declare ptr @memset(ptr, i32, i64)",
        *DECLARATIONS,
    }
    return _INTERPRETER.replace("@run", f"@{symbol}"), declarations


def _word(name: str, position: int) -> str:
    """The text that loads the word `position` places after the opcode."""
    return (
        f"  %{name}_at = getelementptr i64, ptr %op, i64 {position}\n"
        f"  %{name} = load i64, ptr %{name}_at, align 8\n"
    )


def _slot(name: str, index: str) -> str:
    """The text that addresses slot `index` and loads it."""
    return (
        f"  %{name}_slot = getelementptr ptr, ptr %slots, i64 {index}\n"
        f"  %{name} = load ptr, ptr %{name}_slot, align 8\n"
    )


def _next(label: str, size: int | str) -> str:
    """The text that goes on with the step `size` words further."""
    return (
        f"  %{label}_next = getelementptr i64, ptr %op, i64 {size}\n"
        f"  store ptr %{label}_next, ptr %pc, align 8\n  br label %step\n"
    )


_INTERPRETER = (
    """define void @run(ptr %table, ptr %given) #0 {
entry:
  %slot_count = load i64, ptr %table, align 8
  %given_count_at = getelementptr i64, ptr %table, i64 1
  %given_count = load i64, ptr %given_count_at, align 8
  %counters_at = getelementptr i64, ptr %table, i64 2
  %counter_count = load i64, ptr %counters_at, align 8
  %bufs_at = getelementptr i64, ptr %table, i64 3
  %buf_count = load i64, ptr %bufs_at, align 8
  %slots = alloca ptr, i64 %slot_count, align 16
  %counters = alloca i64, i64 %counter_count, align 16
  %bufs = alloca ptr, i64 %buf_count, align 16
  %pc = alloca ptr, align 8
  %turns = alloca i64, align 8
  store i64 0, ptr %turns, align 8
  %given_bytes = mul i64 %given_count, 8
  %copied = call ptr @memmove(ptr %slots, ptr %given, i64 %given_bytes)
"""
    + f"  %first = getelementptr i64, ptr %table, i64 {_HEADER}\n"
    + """  store ptr %first, ptr %pc, align 8
  br label %step
step:
  %op = load ptr, ptr %pc, align 8
  %opcode = load i64, ptr %op, align 8
  switch i64 %opcode, label %end [
"""
    + f"    i64 {_CALL}, label %call\n    i64 {_PLACE}, label %place\n"
    + f"    i64 {_ADVANCE}, label %advance\n    i64 {_SWAP}, label %swap\n"
    + f"    i64 {_COPY}, label %copy\n    i64 {_FILL}, label %fill\n"
    + f"    i64 {_SET}, label %set\n    i64 {_COUNT}, label %count\n"
    + f"    i64 {_JUMP}, label %jump\n    i64 {_UNLESS}, label %unless\n"
    + f"    i64 {_SWITCH}, label %switch\n"
    + f"    i64 {_SHARE}, label %call\n  ]\nend:\n  ret void\ncall:\n"
    + _word("c_function", 1)
    + _word("c_lo", 2)
    + _word("c_hi", 3)
    + _word("c_count", 4)
    + """  %c_address = inttoptr i64 %c_function to ptr
"""
    + f"  %c_shared = icmp eq i64 %opcode, {_SHARE}\n"
    + """  %c_head = select i1 %c_shared, i64 8, i64 5
  %c_numbers = getelementptr i64, ptr %op, i64 %c_head
  br label %fetch
fetch:
  %k = phi i64 [ 0, %call ], [ %k_next, %fetch_one ]
  %c_more = icmp slt i64 %k, %c_count
  br i1 %c_more, label %fetch_one, label %fetched
fetch_one:
  %c_number_at = getelementptr i64, ptr %c_numbers, i64 %k
  %c_number = load i64, ptr %c_number_at, align 8
"""
    + _slot("c_buffer", "%c_number")
    + """  %c_target = getelementptr ptr, ptr %bufs, i64 %k
  store ptr %c_buffer, ptr %c_target, align 8
  %k_next = add i64 %k, 1
  br label %fetch
fetched:
  %c_size = add i64 %c_count, %c_head
  br i1 %c_shared, label %share, label %direct
direct:
  call void %c_address(ptr %bufs, i64 %c_lo, i64 %c_hi)
  br label %called
share:
"""
    + _word("h_pool", 5)
    + _word("h_function", 6)
    + _word("h_chunk", 7)
    + f"""  %h_address = inttoptr i64 %h_function to ptr
  %h_where = inttoptr i64 %h_pool to ptr
  call void %h_address(ptr %h_where, ptr %c_address, ptr %bufs, i64 %c_lo, i64 %c_hi, i64 %h_chunk)
  br label %called
called:
  %c_stop = load volatile i64, ptr @{CELLS}, align 8
  %c_none = icmp eq i64 %c_stop, 0
  br i1 %c_none, label %returned, label %asked
asked:
  %c_told = call i64 @{POLL}()
  %c_on = icmp eq i64 %c_told, 0
  br i1 %c_on, label %returned, label %end
returned:
"""
    + _next("call", "%c_size")
    + "place:\n"
    + _word("p_to", 1)
    + _word("p_base", 2)
    + _word("p_offset", 3)
    + _slot("p_from", "%p_base")
    + """  %p_target = getelementptr ptr, ptr %slots, i64 %p_to
  %p_value = getelementptr i8, ptr %p_from, i64 %p_offset
  store ptr %p_value, ptr %p_target, align 8
"""
    + _next("place", 4)
    + "advance:\n"
    + _word("a_number", 1)
    + _word("a_size", 2)
    + _slot("a_old", "%a_number")
    + """  %a_new = getelementptr i8, ptr %a_old, i64 %a_size
  store ptr %a_new, ptr %a_old_slot, align 8
"""
    + _next("advance", 3)
    + "swap:\n"
    + _word("s_first", 1)
    + _word("s_second", 2)
    + _slot("s_a", "%s_first")
    + _slot("s_b", "%s_second")
    + "  store ptr %s_b, ptr %s_a_slot, align 8\n  store ptr %s_a, ptr %s_b_slot, align 8\n"
    + _next("swap", 3)
    + "copy:\n"
    + _word("m_to", 1)
    + _word("m_from", 2)
    + _word("m_size", 3)
    + _slot("m_target", "%m_to")
    + _slot("m_source", "%m_from")
    + "  %m_done = call ptr @memmove(ptr %m_target, ptr %m_source, i64 %m_size)\n"
    + _next("copy", 4)
    + "fill:\n"
    + _word("f_to", 1)
    + _word("f_size", 2)
    + _word("f_byte", 3)
    + _slot("f_target", "%f_to")
    + """  %f_value = trunc i64 %f_byte to i32
  %f_done = call ptr @memset(ptr %f_target, i32 %f_value, i64 %f_size)
"""
    + _next("fill", 4)
    + "set:\n"
    + _word("t_counter", 1)
    + _word("t_count", 2)
    + """  %t_at = getelementptr i64, ptr %counters, i64 %t_counter
  store i64 %t_count, ptr %t_at, align 8
"""
    + _next("set", 3)
    + "count:\n"
    + _word("n_counter", 1)
    + _word("n_back", 2)
    + """  %n_at = getelementptr i64, ptr %counters, i64 %n_counter
  %n_old = load i64, ptr %n_at, align 8
  %n_new = sub i64 %n_old, 1
  store i64 %n_new, ptr %n_at, align 8
  %n_again = icmp sgt i64 %n_new, 0
  %n_start = getelementptr i64, ptr %table, i64 %n_back
  %n_after = getelementptr i64, ptr %op, i64 3
  %n_next = select i1 %n_again, ptr %n_start, ptr %n_after
  store ptr %n_next, ptr %pc, align 8
  br label %turned
jump:
"""
    + _word("j_to", 1)
    + f"""  %j_next = getelementptr i64, ptr %table, i64 %j_to
  store ptr %j_next, ptr %pc, align 8
  br label %turned
turned:
  %t_old = load i64, ptr %turns, align 8
  %t_new = add i64 %t_old, 1
  store i64 %t_new, ptr %turns, align 8
  %t_rest = and i64 %t_new, {TURNS - 1}
  %t_due = icmp eq i64 %t_rest, 0
  br i1 %t_due, label %look, label %step
look:
  %t_told = call i64 @{POLL}()
  %t_on = icmp eq i64 %t_told, 0
  br i1 %t_on, label %step, label %end
unless:
"""
    + _word("u_flag", 1)
    + _word("u_to", 2)
    + _slot("u_byte_at", "%u_flag")
    + """  %u_byte = load i8, ptr %u_byte_at, align 1
  %u_false = icmp eq i8 %u_byte, 0
  %u_jump = getelementptr i64, ptr %table, i64 %u_to
  %u_after = getelementptr i64, ptr %op, i64 3
  %u_next = select i1 %u_false, ptr %u_jump, ptr %u_after
  store ptr %u_next, ptr %pc, align 8
  br label %step
switch:
"""
    + _word("w_index", 1)
    + _word("w_count", 2)
    + _slot("w_value_at", "%w_index")
    + """  %w_value = load i64, ptr %w_value_at, align 8
  %w_last = sub i64 %w_count, 1
  %w_low = call i64 @llvm.smax.i64(i64 %w_value, i64 0)
  %w_taken = call i64 @llvm.smin.i64(i64 %w_low, i64 %w_last)
  %w_targets = getelementptr i64, ptr %op, i64 3
  %w_at = getelementptr i64, ptr %w_targets, i64 %w_taken
  %w_to = load i64, ptr %w_at, align 8
  %w_next = getelementptr i64, ptr %table, i64 %w_to
  store ptr %w_next, ptr %pc, align 8
  br label %step
}"""
)
