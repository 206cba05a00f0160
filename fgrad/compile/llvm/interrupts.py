"""L5. Signals while native code runs, so that Ctrl-C ends a loop: two native functions and cells.

Python notes a signal and runs its handler later, in the main thread, between two instructions of
its own: never while that thread is inside of a loop that we compiled.  So loops that may run long
call `poll` about every millisecond of work:

    main thread       each `PERIOD` it takes the GIL and lets Python run the handlers; where one
                      raises, the exception is kept in the cells, and every `poll` from then on is 1
    a pool's thread   1 if the thread that shares its work with it was stopped
    another thread    0: Python runs no handlers there, and the thread may not wait for the GIL,
                      which may be held by one that waits for it

Where `poll` is 1 a kernel and a host program return at once, with their results unfinished; who
called them asks for `stopped` then, and raises what was kept.
"""

from __future__ import annotations

import ctypes
import sys
import time

from fgrad.base.system import MACHINE, POSIX, c_library
from fgrad.compile.llvm.signals import CELLS, KEY, LAST, MAIN, SIGNALS, TRACE, TYPE, VALUE

PERIOD = 40_000_000  # nanoseconds from one look for signals to the next
POLL, RAISE = "fgrad_poll", "fgrad_raise"
KEEPING = f"{POLL}_keeping"  # the same, and no register is changed but rax
KEPT_FROM = "fgrad_looks"  # the name of `POLL` in that
DECLARATIONS = {
    f"declare i64 @{POLL}() cold",
    f"declare i64 @{KEEPING}() cold",
    f"declare void @{RAISE}() cold",
    f"@{CELLS} = external global i64",
}
_PYTHON = ("PyThread_get_thread_ident", "PyGILState_Ensure", "PyGILState_Release",
           "PyErr_CheckSignals", "PyErr_Fetch", "PyErr_Restore")  # fmt: skip
_TIME = "_timespec64_get"  # of Windows' C library


def imports() -> dict[str, int]:
    """The addresses behind the external names of the functions."""
    functions = {name: getattr(ctypes.pythonapi, name) for name in _PYTHON}
    if not POSIX:
        functions[_TIME] = getattr(c_library(), _TIME)
    found = {name: ctypes.cast(f, ctypes.c_void_p).value or 0 for name, f in functions.items()}
    return {**found, CELLS: SIGNALS.address}


def functions(posix: bool = POSIX) -> dict[str, tuple[str, set[str]]]:
    """The text and the declarations of each function, to be formatted with its `symbol`.

    Arguments:
        posix: whether for a system with POSIX threads and clocks; Windows has C's clock, and no
            threads of a pool, which would have to be told.
    """
    declarations = {
        f"@{CELLS} = external global i64",
        "declare i32 @PyGILState_Ensure()",
        "declare void @PyGILState_Release(i32)",
        "declare i32 @PyErr_CheckSignals()",
        "declare void @PyErr_Fetch(ptr, ptr, ptr)",
        "declare void @PyErr_Restore(ptr, ptr, ptr)",
    }
    if posix:
        asked = _POSIX_CLOCK, _POSIX_THREAD, _POSIX_OTHER
        needs = {
            "declare i32 @clock_gettime(i32, ptr)",
            "declare i64 @PyThread_get_thread_ident()",
            "declare ptr @pthread_getspecific(i64)",
        }
    else:
        asked = _C_CLOCK, _SHORT_THREAD, "  br label %go"
        needs = {
            f"declare i32 @{_TIME}(ptr, i32)",
            "declare i32 @PyThread_get_thread_ident()",
        }
    return {
        POLL: (_poll_text(*asked), declarations | needs),
        RAISE: (_raise_text(), declarations),
    }


# --- a call from within a loop --------------------------------------------------------------------

# What registers a call may change LLVM keeps in memory, around the loop or in each turn, though the
# call is rare.  Under Linux a kernel for x86 calls in assembly text, a function that keeps them
# all; Windows has another convention, and neither it nor macOS was tried.

HAS_KEEPING = sys.platform == "linux" and MACHINE == "x86_64"
_GENERAL = ["rcx", "rdx", "rsi", "rdi", "r8", "r9", "r10", "r11"]
_STATES = 0xE7  # x87, SSE, AVX, AVX-512
_AREA = 2752  # bytes that XSAVE writes for them, and a rest


def asked_in_a_loop() -> str:
    """The instruction by which a kernel asks; data may lie below its stack pointer."""
    if not HAS_KEEPING:
        return f"call i64 @{POLL}()"
    text = r"leaq -128(%rsp), %rsp\0Acallq *%rax\0Aleaq 128(%rsp), %rsp"
    changed = "={rax},{rax},~{dirflag},~{fpsr},~{flags}"
    return f'call i64 asm sideeffect "{text}", "{changed}"(ptr @{KEEPING})'


def keeping_text(features: str) -> str:
    """The function that keeps all registers but rax, of a processor with these features."""
    kind = "x" if "+xsave" in features.split(",") else "fx"
    masks = [f"movl $${_STATES}, %eax", "xorl %edx, %edx"]
    lines = [
        "pushq %rbp",
        "movq %rsp, %rbp",
        *[f"pushq %{name}" for name in _GENERAL],
        f"subq $${_AREA}, %rsp",
        "andq $$-64, %rsp",
        *[f"movq $$0, {512 + 8 * k}(%rsp)" for k in range(8)],  # the header
        *masks,
        f"{kind}save64 (%rsp)",
        "movabsq $0, %rax",
        "callq *%rax",
        "movq %rax, %rcx",
        *masks,
        f"{kind}rstor64 (%rsp)",
        "movq %rcx, %rax",
        f"leaq -{8 * len(_GENERAL)}(%rbp), %rsp",
        *[f"popq %{name}" for name in reversed(_GENERAL)],
        "popq %rbp",
        "retq",
    ]
    text = "\\0A".join(lines)
    return (
        "define i64 @{symbol}() naked {{\n"
        f'  call void asm sideeffect "{text}", "i"(ptr @{KEPT_FROM})\n  unreachable\n}}}}'
    )


# --- texts ----------------------------------------------------------------------------------------


def _cell(name: str, number: int) -> str:
    return f"  %{name} = getelementptr i64, ptr @{CELLS}, i64 {number}\n"


_MONOTONIC: int = getattr(time, "CLOCK_MONOTONIC", 1)
_POSIX_CLOCK = f"""  %clock = call i32 @clock_gettime(i32 {_MONOTONIC}, ptr %time)
  %rest = load i64, ptr %rest_at, align 8"""
_C_CLOCK = f"""  %clock = call i32 @{_TIME}(ptr %time, i32 1)
  %short_rest = load i32, ptr %rest_at, align 8
  %rest = zext i32 %short_rest to i64"""
_POSIX_THREAD = "  %me = call i64 @PyThread_get_thread_ident()"
_SHORT_THREAD = """  %short_me = call i32 @PyThread_get_thread_ident()
  %me = zext i32 %short_me to i64"""
_POSIX_OTHER = """  %key = load i64, ptr %key_at, align 8
  %shared = call ptr @pthread_getspecific(i64 %key)
  %alone = icmp eq ptr %shared, null
  br i1 %alone, label %go, label %ask
ask:
  %told = load volatile i64, ptr %shared, align 8
  ret i64 %told"""


def _poll_text(clock: str, thread: str, other: str) -> str:
    return (
        "define i64 @{symbol}() #0 {{\nentry:\n  %time = alloca [2 x i64], align 8\n"
        + _cell("main_at", MAIN)
        + _cell("key_at", KEY)
        + _cell("last_at", LAST)
        + _cell("type", TYPE)
        + _cell("value", VALUE)
        + _cell("trace", TRACE)
        + f"""  %main = load i64, ptr %main_at, align 8
{thread}
  %is_main = icmp eq i64 %main, %me
  br i1 %is_main, label %ours, label %other
other:
{other}
ours:
  %before = load i64, ptr @{CELLS}, align 8
  %stopped = icmp ne i64 %before, 0
  br i1 %stopped, label %stop, label %look
look:
  %rest_at = getelementptr i64, ptr %time, i64 1
{clock}
  %seconds = load i64, ptr %time, align 8
  %whole = mul i64 %seconds, 1000000000
  %now = add i64 %whole, %rest
  %last = load i64, ptr %last_at, align 8
  %passed = sub i64 %now, %last
  %early = icmp slt i64 %passed, {PERIOD}
  br i1 %early, label %go, label %check
check:
  store i64 %now, ptr %last_at, align 8
  %held = call i32 @PyGILState_Ensure()
  %raised = call i32 @PyErr_CheckSignals()
  %fine = icmp eq i32 %raised, 0
  br i1 %fine, label %release, label %keep
keep:
  call void @PyErr_Fetch(ptr %type, ptr %value, ptr %trace)
  store i64 1, ptr @{CELLS}, align 8
  br label %release
release:
  call void @PyGILState_Release(i32 %held)
  br i1 %fine, label %go, label %stop
stop:
  ret i64 1
go:
  ret i64 0
}}}}"""
    )


def _raise_text() -> str:
    return (
        "define void @{symbol}() #0 {{\n"
        + _cell("type_at", TYPE)
        + _cell("value_at", VALUE)
        + _cell("trace_at", TRACE)
        + f"""  %type = load ptr, ptr %type_at, align 8
  %value = load ptr, ptr %value_at, align 8
  %trace = load ptr, ptr %trace_at, align 8
  store ptr null, ptr %type_at, align 8
  store ptr null, ptr %value_at, align 8
  store ptr null, ptr %trace_at, align 8
  store i64 0, ptr @{CELLS}, align 8
  call void @PyErr_Restore(ptr %type, ptr %value, ptr %trace)
  ret void
}}}}"""
    )
