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
from fgrad.base.sizes import value_of
from fgrad.compile.host import interpreter as op
from fgrad.compile.host.interpreter import interpreter_address
from fgrad.compile.host.threads import pool_address, share_address
from fgrad.compile.kernel.machine import WALKED_CYCLES
from fgrad.compile.llvm.runtime import raise_kept
from fgrad.compile.llvm.signals import is_stopped, keep


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

WALKED_STEPS = 1_000  # of a first run that Python walks; more are left to the interpreter
_LOOPS = (Repeat, While, Branch)


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
            found = self._made.setdefault("table", np.array(self.words, np.int64))
        return found

    @property
    def slots(self) -> int:
        """How many slots the steps name."""
        return int(self.words[0])

    @property
    def words(self) -> Sequence[int]:
        """The words of the table; some are Nums where sizes are symbols."""
        found = self._made.get("table")
        if found is None:
            assembler = _Assembler(self.given)
            assembler.steps(self.steps)
            return assembler.finish()
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
            cost += value_of(step.cost)
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
        given = ctypes.c_void_p * buffers

        def call(bufs: int, lo: int, hi: int) -> None:
            try:
                function(*given.from_address(bufs))
            except BaseException as error:
                ends = not isinstance(error, Exception) or hasattr(error, "used")
                if not (ends and keep(error)):
                    _RAISED.error = _RAISED.error or error

        self.function, self.buffers = function, buffers
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


class Assembled(NamedTuple):
    """A table whose addresses are not filled in: `functions` says at which places which stand,
    `pools` where the pool of threads and the function that shares work do."""

    words: list[int]
    functions: dict[int, int]
    pools: list[int]


def assembled(steps: Sequence[Step], given: int) -> Assembled:
    """The table of steps, to be used in another process."""
    assembler = _Assembler(given)
    assembler.steps(steps)
    assembler.words.append(op.END)
    return Assembled(assembler.words, assembler.functions, assembler.pools)


class _Assembler:
    """Writes steps into the int64 table; jumps are absolute positions in it."""

    def __init__(self, given: int) -> None:
        self.words: list[int] = [given, given, 1, 1]
        self.depth = 0
        self.functions: dict[int, int] = {}
        self.pools: list[int] = []

    def finish(self) -> list[int]:
        self.words.append(op.END)
        for at, address in self.functions.items():
            self.words[at] = address
        for at in self.pools:
            self.words[at : at + 2] = pool_address(), share_address()
        return self.words

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
        self.functions[len(self.words) + 1] = s.address
        self.emit(op.CALL, 0, s.lo, s.hi, len(s.slots), *s.slots)

    def share(self, s: Share) -> None:
        self.touch(*s.slots)
        self.words[3] = max(self.words[3], len(s.slots))
        self.functions[len(self.words) + 1] = s.address
        self.pools.append(len(self.words) + 5)
        self.emit(op.SHARE, 0, s.lo, s.hi, len(s.slots), 0, 0, s.chunk, *s.slots)

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
        start = self.emit(op.SET, counter, s.count)
        self.steps(s.body)
        self.emit(op.COUNT, counter, start)
        self.depth -= 1

    def loop(self, s: While) -> None:
        start = len(self.words)
        self.steps(s.condition)
        self.touch(s.flag)
        hole = self.emit(op.UNLESS, s.flag, 0) - 1
        self.steps(s.body)
        self.words[hole] = self.emit(op.JUMP, start)

    def branch(self, s: Branch) -> None:
        count = len(s.branches)
        self.touch(s.index)
        table = self.emit(op.SWITCH, s.index, count, *[0] * count) - count
        ends = []
        for k, steps in enumerate(s.branches):
            self.words[table + k] = len(self.words)
            self.steps(steps)
            ends.append(self.emit(op.JUMP, 0) - 1)
        for end in ends:
            self.words[end] = len(self.words)


_SIMPLE = {
    PointAt: (op.PLACE, 2),
    Advance: (op.ADVANCE, 1),
    Swap: (op.SWAP, 2),
    Copy: (op.COPY, 2),
    Fill: (op.FILL, 1),
}
_ASSEMBLE = {
    Call: _Assembler.call,
    Share: _Assembler.share,
    Repeat: _Assembler.repeat,
    While: _Assembler.loop,
    Branch: _Assembler.branch,
    **dict.fromkeys(_SIMPLE, _Assembler.simple),
}
