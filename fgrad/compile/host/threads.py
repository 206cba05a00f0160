"""L5. A pool of threads for kernels: one native function shares a kernel's outer range.

`share(fn, bufs, lo, hi, chunk)` runs `fn(bufs, i, i + chunk)` for all chunks of [lo, hi); the
caller and whichever threads wake in time take chunks from a common counter, so that a late thread
delays nobody.  The threads sleep on a condition variable between jobs (spinning was found to cost
whole time slices on busy machines).  They are Python daemon threads parked in a native call, so
that the pool needs no thread start-up of its own.  While one job is shared, others run where they
are called; where there are no POSIX threads, all do.

Who shares a job looks for signals while it waits for the others, and tells them where it was
stopped (see `interrupts`): they leave the loops that they are in.
"""

from __future__ import annotations

import ctypes
import threading
import time
from collections.abc import Sequence

import numpy as np

from fgrad.base.system import POSIX, at_fork
from fgrad.compile.llvm.interrupts import CELLS, DECLARATIONS, KEY, POLL
from fgrad.compile.llvm.runtime import Source, build
from fgrad.config import config

# Offsets in the pool's memory, each on a cache line of its own where threads meet.
_MUTEX, _WAKE, _DONE, _JOB, _NEXT, _BUSY, _STOP, _BYTES = 0, 128, 256, 384, 512, 576, 640, 704
_FUNCTION, _BUFS, _HI, _CHUNK, _OPEN, _ACTIVE = (_JOB + 8 * k for k in range(6))


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


_WORK = (
    "define void @self(ptr %pool) #0 {\nentry:\n"
    + _JOB_FIELDS
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
