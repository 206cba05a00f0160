"""L6. A program's calls -> native functions: kernel launches, copies, library calls.

A host program is a table run by the interpreter in `compile/host/program.py`.  It calls the
functions of this file as `f(bufs, lo, hi)`, like CPU kernels: the first buffer is
the call's state, the others are device addresses.

    launch   lo is a record of the kernel                    parameters point into the buffers
    copy     lo bytes from the second address to the first
    fill     lo bytes
    fetch    lo bytes from the second address to the first, in host memory; synchronises
    a library function has one for its signature, and a record of numbers that are no addresses

After the first failure, recorded in the state, all calls are no-ops.  A program is compiled
without LLVM: only these functions need it, once per machine.
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache

import numpy as np

from fgrad.base.named_tuple import NamedTuple
from fgrad.compile.host.program import interpreter_address
from fgrad.compile.llvm.abi import function_address
from fgrad.compile.llvm.blocks import each_loop, put, word
from fgrad.compile.llvm.runtime import Source, build
from fgrad.lower_cuda.emit.calls import Address, FunctionCall, Number
from fgrad.typing import PyTree

# The words of a call's state: the stream, the first failure and its step, a number that was
# fetched, and the functions of the driver.
STREAM, ERROR, STEP, CELL = range(4)
ENTRY_POINTS = (
    "cuLaunchKernel",
    "cuMemcpyDtoDAsync_v2",
    "cuMemsetD8Async",
    "cuMemcpyDtoHAsync_v2",
    "cuStreamSynchronize",
    "cuGraphLaunch",
    "cuGraphExecKernelNodeSetParams_v2",
    "cuStreamBeginCapture_v2",
    "cuStreamEndCapture",
    "cuGraphExecChildGraphNodeSetParams",
    "cuGraphDestroy",
)
FUNCTION = {name: CELL + 1 + k for k, name in enumerate(ENTRY_POINTS)}
STATE_WORDS = CELL + 1 + len(ENTRY_POINTS)
WORD = 8


def state(addresses: Mapping[str, int], stream: int) -> list[int]:
    """The initial words of a call's state."""
    return [stream, 0, 0, 0, *[addresses[name] for name in ENTRY_POINTS]]


# Records.


class LaunchRecord(NamedTuple):
    """A launch without its addresses; the kernel has `parameters` pointers, of which the first
    `count` are used."""

    function: int
    grid: int
    x: int
    y: int
    shared_bytes: int
    count: int
    parameters: int
    step: int


_FUNCTION, _GRID, _X, _Y, _SHARED, _COUNT, _PARAMETERS, _STEP = range(8)


def launch_record(record: LaunchRecord) -> np.ndarray:
    """A launch record as bytes for native code."""
    return np.array(record, np.int64)


def function_record(call: FunctionCall, buffers: Sequence[int], step: int) -> np.ndarray:
    """The record of a library's function; `buffers[k]` is the place of the k-th address of the
    call among its buffers."""
    words = [call.address, step, call.count]
    if call.setter:
        words += [call.setter, _MUTEX.ctypes.data]
    at = iter(buffers)
    for argument in call.arguments:
        if isinstance(argument, Address):
            words += [next(at), argument.step]
        elif isinstance(argument, Number):
            words.append(_bits(argument))
    return np.array(words, np.int64)


# Guards library handles, which are not thread-safe.  Zeros are an unlocked mutex.
_MUTEX = np.zeros(8, np.int64)


def _bits(number: Number) -> int:
    """The bits of a number as an integer word."""
    if number.kind == "double":
        return struct.unpack("<q", struct.pack("<d", number.value))[0]
    if number.kind == "float":
        return struct.unpack("<i", struct.pack("<f", number.value))[0]
    value = int(number.value) & (1 << 64) - 1
    return value - (1 << 64) if value >> 63 else value


# Functions.


def keep(name: str, base: str, index: int, value: str) -> str:
    """The text that stores an integer in word `index` of a table."""
    return (
        f"  %{name}_place = getelementptr i64, ptr {base}, i64 {index}\n"
        f"  store i64 {value}, ptr %{name}_place, align 8\n"
    )


def _guarded(symbol: str, body: str, step: str) -> tuple[str, set[str]]:
    """A function whose `body` sets %result at its end, and is left out after a failure."""
    text = (
        f"define void @{symbol}(ptr %bufs, i64 %lo, i64 %hi) #0 {{\nentry:\n"
        + "  %state = load ptr, ptr %bufs, align 8\n"
        + word("error", "state", ERROR)
        + "  %sound = icmp eq i64 %error, 0\n  br i1 %sound, label %go, label %done\ngo:\n"
        + body
        + "  %good = icmp eq i32 %result, 0\n  br i1 %good, label %done, label %note\nnote:\n"
        + "  %code = zext i32 %result to i64\n"
        + keep("noted", "%state", ERROR, "%code")
        + keep("where", "%state", STEP, step)
        + "  br label %done\ndone:\n  ret void\n}"
    )
    return text, set()


def _launch(symbol: str) -> tuple[str, set[str]]:
    """Parameters point to the buffers; unused parameters point to the state's
    address."""
    point = (
        "  %used = icmp slt i64 %point_i, %count\n  %after = add i64 %point_i, 1\n"
        "  %which = select i1 %used, i64 %after, i64 0\n"
        "  %value = getelementptr ptr, ptr %bufs, i64 %which\n"
        + put("target", "parameters", "%point_i", "%value")
    )
    body = (
        "  %record = inttoptr i64 %lo to ptr\n"
        + word("function", "record", _FUNCTION, "ptr")
        + word("grid", "record", _GRID, "i32")
        + word("x", "record", _X, "i32")
        + word("y", "record", _Y, "i32")
        + word("shared", "record", _SHARED, "i32")
        + word("count", "record", _COUNT)
        + word("total", "record", _PARAMETERS)
        + word("step", "record", _STEP)
        + word("stream", "state", STREAM, "ptr")
        + word("call", "state", FUNCTION["cuLaunchKernel"], "ptr")
        + "  %parameters = alloca ptr, i64 %total, align 8\n  br label %point\n"
        + each_loop("point", "%total", point, "ready")
        + "ready:\n  %result = call i32 %call(ptr %function, i32 %grid, i32 1, i32 1, i32 %x, "
        + "i32 %y, i32 1, i32 %shared, ptr %stream, ptr %parameters, ptr null)\n"
    )
    return _guarded(symbol, body, "%step")


def _copy(symbol: str) -> tuple[str, set[str]]:
    body = (
        word("target", "bufs", 1)
        + word("source", "bufs", 2)
        + word("stream", "state", STREAM, "ptr")
        + word("call", "state", FUNCTION["cuMemcpyDtoDAsync_v2"], "ptr")
        + "  %result = call i32 %call(i64 %target, i64 %source, i64 %lo, ptr %stream)\n"
    )
    return _guarded(symbol, body, "%hi")


def _fill(symbol: str) -> tuple[str, set[str]]:
    """The fill byte is the lowest byte of `hi`; the step number is above it."""
    body = (
        word("target", "bufs", 1)
        + word("stream", "state", STREAM, "ptr")
        + word("call", "state", FUNCTION["cuMemsetD8Async"], "ptr")
        + "  %byte = trunc i64 %hi to i8\n  %step = lshr i64 %hi, 8\n"
        + "  %result = call i32 %call(i64 %target, i8 zeroext %byte, i64 %lo, ptr %stream)\n"
    )
    return _guarded(symbol, body, "%step")


def _fetch(symbol: str) -> tuple[str, set[str]]:
    """After a failure the number is 0, so that loops terminate."""
    body = (
        word("target", "bufs", 1, "ptr")
        + word("source", "bufs", 2)
        + word("stream", "state", STREAM, "ptr")
        + word("call", "state", FUNCTION["cuMemcpyDtoHAsync_v2"], "ptr")
        + word("wait", "state", FUNCTION["cuStreamSynchronize"], "ptr")
        + "  %copied = call i32 %call(ptr %target, i64 %source, i64 %lo, ptr %stream)\n"
        + "  %waited = call i32 %wait(ptr %stream)\n"
        + "  %known = icmp ne i32 %copied, 0\n"
        + "  %result = select i1 %known, i32 %copied, i32 %waited\n"
    )
    text, declared = _guarded(symbol, body, "%hi")
    zero = "  %cell = load ptr, ptr %bufs_1, align 8\n  store i64 0, ptr %cell, align 8\n"
    zero = "  %bufs_1 = getelementptr ptr, ptr %bufs, i64 1\n" + zero
    return text.replace("entry:\n", "entry:\n" + zero), declared


def _function(symbol: str, kinds: str) -> tuple[str, set[str]]:
    """A C function of arguments: p an address, s the stream, i l f d numbers.

    After h, the first argument is a library handle, bound to the stream that was set last.
    """
    handled = kinds.startswith("h")
    at, loads, arguments = 5 if handled else 3, "", []
    for k, kind in enumerate(kinds.removeprefix("h")):
        if kind == "p":
            loads += (
                word(f"from{k}", "record", at)
                + word(f"step{k}", "record", at + 1)
                + word(f"base{k}", "bufs", f"%from{k}")
                + f"  %moved{k} = mul i64 %repeat_i, %step{k}\n"
                + f"  %a{k} = add i64 %base{k}, %moved{k}\n"
            )
        elif kind == "s":
            loads += word(f"a{k}", "state", STREAM)
        else:
            loads += word(f"a{k}", "record", at, _KINDS[kind])
        arguments.append(f"{_KINDS[kind]} %a{k}")
        at += {"p": 2, "s": 0}.get(kind, 1)
    repeat = (
        loads
        + f"  %answer = call i32 %function({', '.join(arguments)})\n"
        + "  %before = load i32, ptr %first, align 4\n  %well = icmp eq i32 %before, 0\n"
        + "  %kept = select i1 %well, i32 %answer, i32 %before\n"
        + "  store i32 %kept, ptr %first, align 4\n"
    )
    body = (
        "  %record = inttoptr i64 %lo to ptr\n"
        + word("function", "record", 0, "ptr")
        + word("step", "record", 1)
        + word("count", "record", 2)
        + "  %first = alloca i32, align 4\n  store i32 0, ptr %first, align 4\n"
        + (_with_handle(_KINDS[kinds[1]]) if handled else "  br label %repeat\n")
        + each_loop("repeat", "%count", repeat, "repeated")
        + "repeated:\n  %result = load i32, ptr %first, align 4\n"
        + ("  call i32 @pthread_mutex_unlock(ptr %mutex)\n" if handled else "")
    )
    text, declared = _guarded(symbol, body, "%step")
    return text, declared | (_MUTEX_DECLARATIONS if handled else set())


def _with_handle(kind: str) -> str:
    """Lock the mutex and set the handle's stream; after a failure nothing is called."""
    return (
        word("setter", "record", 3, "ptr")
        + word("mutex", "record", 4, "ptr")
        + word("own_stream", "state", STREAM)
        + word("handle", "record", 5, kind)
        + "  call i32 @pthread_mutex_lock(ptr %mutex)\n"
        + f"  %set = call i32 %setter({kind} %handle, i64 %own_stream)\n"
        + "  store i32 %set, ptr %first, align 4\n"
        + "  %ready = icmp eq i32 %set, 0\n  br i1 %ready, label %repeat, label %repeated\n"
    )


_MUTEX_DECLARATIONS = {
    "declare i32 @pthread_mutex_lock(ptr)",
    "declare i32 @pthread_mutex_unlock(ptr)",
}


_KINDS = {"p": "i64", "s": "i64", "i": "i32", "l": "i64", "f": "float", "d": "double"}
_LETTERS = {"i32": "i", "i64": "l", "float": "f", "double": "d"}


def signature(call: FunctionCall) -> str:
    """The kinds of a function's arguments: a letter each, after h where the first is a handle."""
    return ("h" if call.setter else "") + "".join(
        [
            "p" if isinstance(a, Address) else _LETTERS[a.kind] if isinstance(a, Number) else "s"
            for a in call.arguments
        ]
    )


class Functions(NamedTuple):
    """The addresses of the functions that all programs use."""

    launch: int
    copy: int
    fill: int
    fetch: int


@lru_cache
def functions() -> Functions:
    """The functions' addresses; compiled once per machine, loaded once per process."""
    emit = (_launch, _copy, _fill, _fetch)
    return Functions(*build([Source(f"cuda {f.__name__} {f('f')[0]}", f) for f in emit]))


@lru_cache
def function_caller(kinds: str) -> int:
    """The native function that calls library functions with this signature."""
    text = _function("f", kinds)[0]
    return build([Source(f"cuda function {text}", lambda symbol: _function(symbol, kinds))])[0]


# Calls from Python.

# The words of a program's record, before those of the state.
_RUN, _TABLE, _INPUTS, _CONSTS, _OTHERS, _POINTERS, _GRAPHS, _ATTEMPT = range(8)
_STATE = 8
MISSED = 1 << 31  # flag in a call's result: no recorded graph was close enough

_IMPORTS = (
    "PyLong_AsVoidPtr",
    "PyLong_FromLongLong",
    "PyEval_SaveThread",
    "PyEval_RestoreThread",
)


class Caller:
    """A host program as a Python function of addresses: inputs, outputs, the arena.

    Returns 0, or the first failure: its code in the lower 31 bits, its step in the upper 32.

    Arguments:
        table: where the steps are, as the interpreter reads them.
        inputs: how many addresses are of inputs.
        consts: the addresses of constants.
        others: how many addresses follow.
        words: the state before a call.
    """

    def __init__(
        self, table: int, inputs: int, consts: Sequence[int], others: int, words: Sequence[int]
    ) -> None:
        self._consts = np.array(consts, np.int64)
        at = self._consts.ctypes.data
        run = interpreter_address()
        head = [run, table, inputs, len(consts), others, at, 0, 0]
        self._record = np.array([*head, *words], np.int64)
        self.record: int = self._record.ctypes.data
        self.call: Callable[..., int] = builtin(_method(), self.record)

    def offer(self, graphs: np.ndarray, attempt: int) -> None:
        """Let calls use one of these graphs where that is faster: see `graph.attempt_address`."""
        self._graphs = graphs
        self._record[_ATTEMPT] = attempt
        self._record[_GRAPHS] = graphs.ctypes.data

    def withdraw(self) -> None:
        """Stop calls from using graphs."""
        self._record[_GRAPHS] = 0


class Method(ctypes.Structure):
    """PyMethodDef."""

    _fields_ = (
        ("name", ctypes.c_char_p),
        ("function", ctypes.c_void_p),
        ("flags", ctypes.c_int),
        ("doc", ctypes.c_char_p),
    )


_METH_FASTCALL = 0x80


@lru_cache
def _method() -> Method:
    imports = {name: function_address(name) for name in _IMPORTS}
    text = _entry("f")[0]
    (address,) = build([Source(f"cuda entry {text}", _entry)], imports)
    return Method(b"run", address, _METH_FASTCALL, None)


def builtin(method: Method, record: int) -> Callable[..., PyTree]:
    """A Python builtin function from a native function and its record."""
    kind = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.py_object, ctypes.c_void_p)
    make = kind(("PyCFunction_NewEx", ctypes.pythonapi))
    return make(ctypes.addressof(method), record, None)


def _entry(symbol: str) -> tuple[str, set[str]]:
    """`f(record, addresses, their count)`, in the convention of METH_FASTCALL."""
    take = (
        word("object", "args", "%take_i", "ptr")
        + "  %pointer = call ptr @PyLong_AsVoidPtr(ptr %object)\n"
        + "  %input = icmp slt i64 %take_i, %inputs\n  %later = add i64 %take_i, %consts\n"
        + "  %where = select i1 %input, i64 %take_i, i64 %later\n"
        + put("given_one", "given", "%where", "%pointer")
    )
    text = (
        f"define ptr @{symbol}(ptr %self, ptr %args, i64 %count) #0 {{\nentry:\n"
        + "  %record = call ptr @PyLong_AsVoidPtr(ptr %self)\n"
        + table_of_slots("take")
        + each_loop("take", "%expected", take, "taken")
        + f"taken:\n  %code = call i64 @{symbol}_work(ptr %record, ptr %given)\n"
        + "  %result = call ptr @PyLong_FromLongLong(i64 %code)\n  ret ptr %result\n}\n"
    )
    return text + work_text(symbol), {
        "declare ptr @PyLong_AsVoidPtr(ptr)",
        "declare ptr @PyLong_FromLongLong(i64)",
        *WORK_DECLARATIONS,
    }


def table_of_slots(then: str) -> str:
    """The table %given for the program of %record; `expected` addresses are to be filled in."""
    return (
        word("inputs", "record", _INPUTS)
        + word("consts", "record", _CONSTS)
        + word("others", "record", _OTHERS)
        + "  %expected = add i64 %inputs, %others\n  %last = add i64 %expected, %consts\n"
        + "  %slots = add i64 %last, 1\n  %given = alloca ptr, i64 %slots, align 16\n"
        + f"  br label %{then}\n"
    )


def work_text(symbol: str) -> str:
    """`{symbol}_work(record, given)`: fill in the constants and run; returns the call's status."""
    return (
        f"define internal i64 @{symbol}_work(ptr %record, ptr %given) #0 {{\nentry:\n"
        + word("run", "record", _RUN, "ptr")
        + word("table", "record", _TABLE, "ptr")
        + word("inputs", "record", _INPUTS)
        + word("consts", "record", _CONSTS)
        + word("others", "record", _OTHERS)
        + word("pointers", "record", _POINTERS, "ptr")
        + word("graphs", "record", _GRAPHS, "ptr")
        + word("attempt", "record", _ATTEMPT, "ptr")
        + f"  %state = alloca i64, i64 {STATE_WORDS}, align 16\n"
        + f"  %fresh = getelementptr i64, ptr %record, i64 {_STATE}\n"
        + f"  %filled = call ptr @memcpy(ptr %state, ptr %fresh, i64 {WORD * STATE_WORDS})\n"
        + "  %first_const = getelementptr ptr, ptr %given, i64 %inputs\n"
        + f"  %const_bytes = mul i64 %consts, {WORD}\n"
        + "  %known = call ptr @memcpy(ptr %first_const, ptr %pointers, i64 %const_bytes)\n"
        + "  %before = add i64 %inputs, %others\n  %last = add i64 %before, %consts\n"
        + put("own_state", "given", "%last", "%state")
        + "  %thread = call ptr @PyEval_SaveThread()\n"
        + "  %plain = icmp eq ptr %graphs, null\n  br i1 %plain, label %steps, label %graph\n"
        + "graph:\n  %left = call i64 %attempt(ptr %graphs, ptr %given, ptr %state)\n"
        + "  %launched = icmp eq i64 %left, 0\n  br i1 %launched, label %after, label %steps\n"
        + "steps:\n  %missed = phi i64 [ 0, %entry ], [ %left, %graph ]\n"
        + "  call void %run(ptr %table, ptr %given)\n  br label %after\nafter:\n"
        + "  %answer = phi i64 [ %missed, %steps ], [ 0, %graph ]\n"
        + "  call void @PyEval_RestoreThread(ptr %thread)\n"
        + word("error", "state", ERROR)
        + word("step", "state", STEP)
        + f"  %missing = and i64 %answer, {MISSED}\n  %upper = shl i64 %step, 32\n"
        + "  %lower = or i64 %error, %missing\n  %code = or i64 %upper, %lower\n"
        + "  ret i64 %code\n}\n"
    )


WORK_DECLARATIONS = {
    "declare ptr @PyEval_SaveThread()",
    "declare void @PyEval_RestoreThread(ptr)",
    "declare ptr @memcpy(ptr, ptr, i64)",
}
