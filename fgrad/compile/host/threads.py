"""L5. A pool of threads for kernels: one native function shares a kernel's outer range.

`share(fn, bufs, lo, hi, chunk)` runs `fn(bufs, i, i + chunk)` for all chunks of [lo, hi); the
caller and whichever threads wake in time take chunks from a common counter, so that a late thread
delays nobody.  The threads sleep on a condition variable between jobs (spinning was found to cost
whole time slices on busy machines).  They are Python daemon threads parked in a native call, so
that the pool needs no thread start-up of its own.  While one job is shared, others run where they
are called; where there are no POSIX threads, all do.

Before they are woken they are kept off the processor of the caller, where the system has a call for
that: in virtual machines Linux takes a processor that has slept some milliseconds for one that its
host has taken away, and would queue a woken thread behind the caller: 1 to 5 ms, else 0.05 to 0.12.

Who shares a job looks for signals while it waits for the others, and tells them where it was
stopped (see `interrupts`): they leave the loops that they are in.
"""

from __future__ import annotations

import ctypes
import os
import threading
import time
from collections.abc import Sequence

import numpy as np

from fgrad.base.system import POSIX, at_fork
from fgrad.compile.llvm.interrupts import DECLARATIONS, POLL
from fgrad.compile.llvm.runtime import Source, build
from fgrad.compile.llvm.signals import CELLS, KEY
from fgrad.config import config

# Offsets in the pool's memory, each on a cache line of its own where threads meet.
_MUTEX, _WAKE, _DONE, _JOB, _NEXT, _BUSY, _STOP, _BYTES = 0, 128, 256, 384, 512, 576, 640, 1280
_FUNCTION, _BUFS, _HI, _CHUNK, _OPEN, _ACTIVE = (_JOB + 8 * k for k in range(6))
_AVOIDED, _WORKERS, _HANDLES = 704, 712, 768  # the caller's processor, the threads and their number
_MOST_PLACED = (_BYTES - _HANDLES) // 8
_PLACES = hasattr(os, "sched_setaffinity")
_MASK_WORDS = 16  # of a set of processors
_ANY_WORD = f"llvm.vector.reduce.or.v{_MASK_WORDS}i64"


class _Pool:
    """The pool's memory and the number of threads that were started."""

    def __init__(self) -> None:
        self.memory = np.zeros(_BYTES // 8 + 8, np.int64)
        self.address: int = -(-self.memory.ctypes.data // 64) * 64
        self.lock = threading.Lock()
        self.started = 0
        at_fork(in_child=self.forget)

    def forget(self) -> None:
        """After a fork: the threads are gone; begin again."""
        self.memory[:] = 0
        self.lock = threading.Lock()
        self.started = 0

    def start(self) -> None:
        """Start the threads that the settings ask for, beside the calling one."""
        if not POSIX:
            return
        with self.lock:
            if self.started == 0 and config.num_threads > 1:
                _call(_addresses()[0], self.address)
            while self.started < config.num_threads - 1:
                self.started += 1
                name = f"fgrad-{self.started}"
                work = (_addresses()[1], self.address)
                threading.Thread(target=_call, args=work, daemon=True, name=name).start()


def _call(function: int, pool: int) -> None:
    ctypes.CFUNCTYPE(None, ctypes.c_void_p)(function)(pool)


_POOL = _Pool()


def pool_address() -> int:
    """The pool's memory, with its threads running; it never moves."""
    _POOL.start()
    return _POOL.address


def share_address() -> int:
    """The address of `void share(pool, fn, bufs, lo, hi, chunk)`."""
    return _addresses()[-1]


def _addresses() -> Sequence[int]:
    parts = (_INITIALISE, _WORK, _SHARE) if POSIX else (_ALONE,)
    return build([Source(text, lambda symbol, text=text: _define(symbol, text)) for text in parts])


def _define(symbol: str, text: str) -> tuple[str, set[str]]:
    declarations = {f"declare i32 @pthread_{name}(ptr)" for name in _UNARY}
    declarations |= {f"declare i32 @pthread_{name}(ptr, ptr)" for name in _BINARY}
    declarations |= {
        "declare i32 @pthread_cond_timedwait(ptr, ptr, ptr)",
        "declare i32 @pthread_setspecific(i64, ptr)",
        "declare i32 @clock_gettime(i32, ptr)",
        "declare i64 @pthread_self()",
        "declare i32 @sched_getcpu()",
        "declare i32 @sched_getaffinity(i32, i64, ptr)",
        "declare i32 @pthread_setaffinity_np(i64, i64, ptr)",
        "declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)",
        f"declare i64 @{_ANY_WORD}(<{_MASK_WORDS} x i64>)",
    }
    used = {d for d in declarations if f"@{d.split('@')[1].split('(')[0]}(" in text}
    return text.replace("@self", f"@{symbol}"), used | DECLARATIONS


_UNARY = ("mutex_lock", "mutex_unlock", "cond_broadcast")
_BINARY = ("mutex_init", "cond_init", "cond_wait")
_REALTIME: int = getattr(time, "CLOCK_REALTIME", 0)
_PATIENCE = 30_000_000  # nanoseconds of waiting between two looks for signals


def _fields(*fields: tuple[str, int]) -> str:
    return "".join(
        [f"  %{name} = getelementptr i8, ptr %pool, i64 {offset}\n" for name, offset in fields]
    )


_JOB_FIELDS = _fields(
    ("mutex", _MUTEX),
    ("wake", _WAKE),
    ("done", _DONE),
    ("function", _FUNCTION),
    ("bufs_at", _BUFS),
    ("hi_at", _HI),
    ("chunk_at", _CHUNK),
    ("open", _OPEN),
    ("active", _ACTIVE),
    ("next", _NEXT),
    ("busy", _BUSY),
    ("stopped", _STOP),
    ("avoided", _AVOIDED),
    ("workers", _WORKERS),
    ("handles", _HANDLES),
)
_LOCK = "  call i32 @pthread_mutex_lock(ptr %mutex)\n"
_UNLOCK = "  call i32 @pthread_mutex_unlock(ptr %mutex)\n"

_INITIALISE = (
    "define void @self(ptr %pool) #0 {\n"
    + _JOB_FIELDS
    + """  call i32 @pthread_mutex_init(ptr %mutex, ptr null)
  call i32 @pthread_cond_init(ptr %wake, ptr null)
  call i32 @pthread_cond_init(ptr %done, ptr null)
  ret void
}"""
)


def _take_chunks(after: str) -> str:
    """Run chunks until the counter has passed the end; expects %fn, %bufs, %hi, %chunk."""
    return f"""  br label %take
take:
  %lo.taken = atomicrmw add ptr %next, i64 %chunk acq_rel
  %more = icmp slt i64 %lo.taken, %hi
  br i1 %more, label %run, label %{after}
run:
  %end = add i64 %lo.taken, %chunk
  %over = icmp sgt i64 %end, %hi
  %stop = select i1 %over, i64 %hi, i64 %end
  call void %fn(ptr %bufs, i64 %lo.taken, i64 %stop)
  br label %take
"""


_ENTERED = f"""  %me = call i64 @pthread_self()
  %number = atomicrmw add ptr %workers, i64 1 acq_rel
  %placed = icmp slt i64 %number, {_MOST_PLACED}
  br i1 %placed, label %note, label %begin
note:
  %handle_at = getelementptr i64, ptr %handles, i64 %number
  store atomic i64 %me, ptr %handle_at seq_cst, align 8
  store atomic i64 -1, ptr %avoided seq_cst, align 8
  br label %begin
begin:
"""

# The threads may use what the caller may, without the processor that it is on, if that leaves any.
_PLACED = f"""  %cpu = call i32 @sched_getcpu()
  %here = sext i32 %cpu to i64
  %before = load atomic i64, ptr %avoided seq_cst, align 8
  %apart = icmp eq i64 %here, %before
  %unknown = icmp uge i64 %here, {64 * _MASK_WORDS}
  %as_is = or i1 %apart, %unknown
  br i1 %as_is, label %open_job, label %ask
ask:
  call void @llvm.memset.p0.i64(ptr %mask, i8 0, i64 {8 * _MASK_WORDS}, i1 false)
  store atomic i64 %here, ptr %avoided seq_cst, align 8
  %failed = call i32 @sched_getaffinity(i32 0, i64 {8 * _MASK_WORDS}, ptr %mask)
  %word = lshr i64 %here, 6
  %bit = and i64 %here, 63
  %word_at = getelementptr i64, ptr %mask, i64 %word
  %set = load i64, ptr %word_at, align 8
  %flag = shl i64 1, %bit
  %others = xor i64 %flag, -1
  %cleared = and i64 %set, %others
  store i64 %cleared, ptr %word_at, align 8
  %all = load <{_MASK_WORDS} x i64>, ptr %mask, align 8
  %any = call i64 @{_ANY_WORD}(<{_MASK_WORDS} x i64> %all)
  %none = icmp eq i64 %any, 0
  %bad = icmp ne i32 %failed, 0
  %leave_it = or i1 %none, %bad
  %there = load atomic i64, ptr %workers seq_cst, align 8
  br i1 %leave_it, label %open_job, label %place
place:
  %k = phi i64 [0, %ask], [%next_k, %placed]
  %in_list = icmp slt i64 %k, {_MOST_PLACED}
  %started = icmp slt i64 %k, %there
  %is_one = and i1 %in_list, %started
  br i1 %is_one, label %one, label %open_job
one:
  %handle_at = getelementptr i64, ptr %handles, i64 %k
  %handle = load atomic i64, ptr %handle_at seq_cst, align 8
  %is_noted = icmp ne i64 %handle, 0
  br i1 %is_noted, label %move, label %placed
move:
  call i32 @pthread_setaffinity_np(i64 %handle, i64 {8 * _MASK_WORDS}, ptr %mask)
  br label %placed
placed:
  %next_k = add i64 %k, 1
  br label %place
open_job:
"""

_WORK = (
    "define void @self(ptr %pool) #0 {\nentry:\n"
    + _JOB_FIELDS
    + (_ENTERED if _PLACES else "")
    + f"  %key_at = getelementptr i64, ptr @{CELLS}, i64 {KEY}\n"
    + """  %key = load i64, ptr %key_at, align 8
  call i32 @pthread_setspecific(i64 %key, ptr %stopped)
  br label %sleep
sleep:
"""
    + _LOCK
    + """  br label %look
look:
  %is_open = load i64, ptr %open, align 8
  %waiting = icmp eq i64 %is_open, 0
  br i1 %waiting, label %wait, label %join
wait:
  call i32 @pthread_cond_wait(ptr %wake, ptr %mutex)
  br label %look
join:
  %members = load i64, ptr %active, align 8
  %joined = add i64 %members, 1
  store i64 %joined, ptr %active, align 8
  %fn = load ptr, ptr %function, align 8
  %bufs = load ptr, ptr %bufs_at, align 8
  %hi = load i64, ptr %hi_at, align 8
  %chunk = load i64, ptr %chunk_at, align 8
"""
    + _UNLOCK
    + _take_chunks("leave")
    + "leave:\n"
    + _LOCK
    + """  %others = load i64, ptr %active, align 8
  %left = sub i64 %others, 1
  store i64 %left, ptr %active, align 8
  store i64 0, ptr %open, align 8
  %last = icmp eq i64 %left, 0
  br i1 %last, label %signal, label %rest
signal:
  call i32 @pthread_cond_broadcast(ptr %done)
  br label %rest
rest:
"""
    + _UNLOCK
    + "  br label %sleep\n}"
)

_ALONE = """define void @self(ptr %pool, ptr %fn, ptr %bufs, i64 %lo, i64 %hi, i64 %chunk) #0 {
  call void %fn(ptr %bufs, i64 %lo, i64 %hi)
  ret void
}"""

_SHARE = (
    "define void @self(ptr %pool, ptr %fn, ptr %bufs, i64 %lo, i64 %hi, i64 %chunk) #0 {\n"
    + "entry:\n  %until = alloca [2 x i64], align 8\n"
    + f"  %mask = alloca [{_MASK_WORDS} x i64], align 8\n"
    + _JOB_FIELDS
    + """  %count = sub i64 %hi, %lo
  %small = icmp sle i64 %count, %chunk
  br i1 %small, label %alone, label %claim
claim:
  %taken = atomicrmw xchg ptr %busy, i64 1 acq_rel
  %free = icmp eq i64 %taken, 0
  br i1 %free, label %begin, label %alone
alone:
  call void %fn(ptr %bufs, i64 %lo, i64 %hi)
  ret void
begin:
"""
    + (_PLACED if _PLACES else "")
    + _LOCK
    + """  store ptr %fn, ptr %function, align 8
  store ptr %bufs, ptr %bufs_at, align 8
  store i64 %hi, ptr %hi_at, align 8
  store i64 %chunk, ptr %chunk_at, align 8
  store atomic i64 %lo, ptr %next seq_cst, align 8
  store volatile i64 0, ptr %stopped, align 8
  store i64 1, ptr %open, align 8
  call i32 @pthread_cond_broadcast(ptr %wake)
"""
    + _UNLOCK
    + _take_chunks("finish")
    + "finish:\n"
    + _LOCK
    + """  store i64 0, ptr %open, align 8
  br label %check
check:
  %members = load i64, ptr %active, align 8
  %working = icmp sgt i64 %members, 0
  br i1 %working, label %wait, label %end_job
wait:
"""
    + _UNLOCK
    + f"  %told = call i64 @{POLL}()\n"
    + """  store volatile i64 %told, ptr %stopped, align 8
"""
    + _LOCK
    + """  %members_now = load i64, ptr %active, align 8
  %working_now = icmp sgt i64 %members_now, 0
  br i1 %working_now, label %sleep, label %end_job
sleep:
"""
    + f"  call i32 @clock_gettime(i32 {_REALTIME}, ptr %until)\n"
    + """  %part_at = getelementptr i64, ptr %until, i64 1
  %second = load i64, ptr %until, align 8
  %part = load i64, ptr %part_at, align 8
"""
    + f"  %later = add i64 %part, {_PATIENCE}\n"
    + """  %wraps = icmp sge i64 %later, 1000000000
  %carried = sub i64 %later, 1000000000
  %rest = select i1 %wraps, i64 %carried, i64 %later
  %more_seconds = zext i1 %wraps to i64
  %seconds = add i64 %second, %more_seconds
  store i64 %seconds, ptr %until, align 8
  store i64 %rest, ptr %part_at, align 8
  call i32 @pthread_cond_timedwait(ptr %done, ptr %mutex, ptr %until)
  br label %check
end_job:
"""
    + _UNLOCK
    + "  store atomic i64 0, ptr %busy release, align 8\n  ret void\n}"
)
