"""L6. Calls of a program with arrays of the device that run no Python code.

    arguments   a tuple of `DeviceArray`s of the known shapes and dtypes
    outputs     blocks from the free lists, each as a new `DeviceArray`
    arena       a block, which goes back to its list after the work was enqueued

Where anything is not as at the last call (another thread, other settings, an empty list, an array
whose memory was given away) nothing is done, and the call is made by Python.
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable, Sequence
from functools import lru_cache
from heapq import heappop, heappush
from typing import Any

import numpy as np

from fgrad.base.system import at_fork
from fgrad.compile.llvm.abi import LAYOUT, WORD, function_address, word_at
from fgrad.compile.llvm.blocks import each_loop, member, put, word
from fgrad.compile.llvm.runtime import Source, build
from fgrad.config import config
from fgrad.ir.aval import Aval
from fgrad.lower_cuda.device.array import DeviceArray
from fgrad.lower_cuda.device.driver import Driver
from fgrad.lower_cuda.device.memory import HELD, IN_USE, PEAK, REUSED
from fgrad.lower_cuda.host import (
    MISSED,
    WORK_DECLARATIONS,
    Caller,
    Method,
    builtin,
    table_of_slots,
    work_text,
)

# The words of a call's record; of an argument's: dtype, shape; of an output's: free blocks, their
# size, then what the array is made of.
_PROGRAM, _EPOCH_AT, _EPOCH, _THREAD, _ALIVE, _COUNT, _TYPE = range(7)
_OUTPUTS, _ARENA, _ARENA_SIZE, _COUNTS, _ARGUMENTS, _MADE, _DEVICE, _HOOK = range(7, 15)
_ARGUMENT_WORDS, _OUTPUT_WORDS = 2, 6
_LIST, _SIZE, _ZERO, _SHAPE, _DTYPE, _NBYTES = range(6)
_METH_O = 0x8

_FUNCTIONS = (
    "PyEval_RestoreThread",
    "PyEval_SaveThread",
    "PyList_Size",
    "PyLong_AsVoidPtr",
    "PyLong_FromLongLong",
    "PyLong_FromVoidPtr",
    "PyObject_CallFunctionObjArgs",
    "PyObject_RichCompareBool",
    "PyThread_get_thread_ident",
    "PyTuple_GetItem",
    "PyTuple_New",
    "PyTuple_SetItem",
    "PyTuple_Size",
    "PyType_GenericAlloc",
    "Py_DecRef",
    "Py_IncRef",
)
_DECLARATIONS = {
    "declare i64 @PyList_Size(ptr)",
    "declare ptr @PyLong_AsVoidPtr(ptr)",
    "declare ptr @PyLong_FromLongLong(i64)",
    "declare ptr @PyLong_FromVoidPtr(ptr)",
    "declare ptr @PyObject_CallFunctionObjArgs(ptr, ...)",
    "declare i32 @PyObject_RichCompareBool(ptr, ptr, i32)",
    "declare i64 @PyThread_get_thread_ident()",
    "declare ptr @PyTuple_GetItem(ptr, i64)",
    "declare ptr @PyTuple_New(i64)",
    "declare i32 @PyTuple_SetItem(ptr, i64, ptr)",
    "declare i64 @PyTuple_Size(ptr)",
    "declare ptr @PyType_GenericAlloc(ptr, i64)",
    "declare void @Py_DecRef(ptr)",
    "declare void @Py_IncRef(ptr)",
    "@fgrad_none = external global i8",
    "@fgrad_false = external global i8",
    "@fgrad_heappop = external global i8",
    "@fgrad_heappush = external global i8",
    *WORK_DECLARATIONS,
}

_alive = np.ones(1, np.int64)  # 0 in a process that was forked
at_fork(in_child=lambda: _alive.fill(0))


class NativeCall:
    """A program for arguments of its avals: `call(arguments)` is a tuple of results, the answer of
    a call that failed, or None where Python has to make the call.

    Arguments:
        caller: the program.
        device: where it runs.
        in_avals: of the arguments.
        out_avals: of the results.
        arena_bytes: of temporaries.
        far: takes the address of the addresses of a call for which no graph was near.
    """

    def __init__(
        self,
        caller: Caller,
        device: Driver,
        in_avals: Sequence[Aval],
        out_avals: Sequence[Aval],
        arena_bytes: int,
        far: Callable[[int], None],
    ) -> None:
        self.kept: list[Any] = [caller, device]
        arguments = [w for a in in_avals for w in (self.place(a.dtype), self.place(a.shape))]
        outputs: list[int] = []
        for a in out_avals:
            nbytes = a.size * a.dtype.itemsize
            blocks, size = device.memory.blocks(nbytes) if nbytes else (None, 0)
            home = 0 if blocks is None else self.place(blocks)
            outputs += [home, size, *map(self.place, (0, a.shape, a.dtype, nbytes))]
        arena, arena_size = device.memory.blocks(arena_bytes) if arena_bytes else (None, 0)
        words = {
            _PROGRAM: caller.record,
            _EPOCH_AT: ctypes.addressof(config.epoch_cell),
            _EPOCH: config.epoch,
            _THREAD: threading.get_ident(),
            _ALIVE: _alive.ctypes.data,
            _COUNT: len(in_avals),
            _TYPE: id(DeviceArray),
            _OUTPUTS: len(out_avals),
            _ARENA: 0 if arena is None else self.place(arena),
            _ARENA_SIZE: arena_size,
            _COUNTS: device.memory.counts_address,
            _ARGUMENTS: self.words(arguments),
            _MADE: self.words(outputs),
            _DEVICE: id(device),
            _HOOK: self.place(far),
        }
        record = self.words([words.get(k, 0) for k in range(_HOOK + 1)])
        self.call: Callable[[tuple[object, ...]], list[object] | int | None] = builtin(
            _method(), record
        )

    def place(self, x: object) -> int:
        """The address of an object, which stays."""
        self.kept.append(x)
        return id(x)

    def words(self, words: Sequence[int]) -> int:
        """The address of words, which stays."""
        self.kept.append(np.array(words, np.int64))
        return self.kept[-1].ctypes.data


def offsets() -> dict[str, int] | None:
    """Where the attributes of a `DeviceArray` are in it; None where that cannot be known."""
    if LAYOUT is None:
        return None
    names = ("shape", "dtype", "pointer", "nbytes", "device_of", "owner", "lifted", "given_away")
    found: dict[str, int] = {}
    for name in names:
        probe: object = DeviceArray((), np.dtype(bool), 0, 0, None)  # type: ignore[arg-type]
        mark = object()
        setattr(probe, name, mark)
        words = range(LAYOUT.header, DeviceArray.__basicsize__, WORD)
        at = [k for k in words if word_at(id(probe) + k) == id(mark)]
        setattr(probe, name, None)
        probe.pointer = 0
        if len(at) != 1:
            return None
        found[name] = at[0]
    return found


@lru_cache
def _method() -> Method:
    """The native function, for arrays as they are in this interpreter."""
    imports = {name: function_address(name) for name in _FUNCTIONS}
    imports |= {"fgrad_none": id(None), "fgrad_false": id(False)}
    imports |= {"fgrad_heappop": id(heappop), "fgrad_heappush": id(heappush)}
    (address,) = build([Source(f"cuda arrays {_entry('f')[0]}", _entry)], imports)
    return Method(b"call", address, _METH_O, None)


@lru_cache
def is_possible() -> bool:
    """Whether arrays are laid out as native code needs it."""
    return offsets() is not None


def _set(name: str, base: str, offset: int, value: str) -> str:
    """The text that sets an attribute of a new object."""
    return (
        f"  %{name}_to = getelementptr i8, ptr %{base}, i64 {offset}\n"
        f"  store ptr {value}, ptr %{name}_to, align 8\n"
        f"  call void @Py_IncRef(ptr {value})\n"
    )


def _entry(symbol: str) -> tuple[str, set[str]]:
    """`f(record, arguments)`, in the convention of METH_O."""
    at = offsets()
    assert at is not None and LAYOUT is not None
    text = (
        f"define ptr @{symbol}(ptr %self, ptr %args) #0 {{\nentry:\n"
        + "  %call = call ptr @PyLong_AsVoidPtr(ptr %self)\n"
        + _same()
        + word("record", "call", _PROGRAM, "ptr")
        + word("type", "call", _TYPE, "ptr")
        + word("count", "call", _COUNT)
        + word("expected_arguments", "call", _ARGUMENTS, "ptr")
        + table_of_slots("take")
        + each_loop("take", "%count", _argument(at, LAYOUT.type), "taken")
        + "taken:\n"
        + word("counts", "call", _COUNTS, "ptr")
        + word("outputs", "call", _OUTPUTS)
        + word("made", "call", _MADE, "ptr")
        + word("device", "call", _DEVICE, "ptr")
        + "  %first_output = add i64 %inputs, %consts\n"
        + "  %results = call ptr @PyTuple_New(i64 %outputs)\n"
        + "  %no_results = icmp eq ptr %results, null\n"
        + "  br i1 %no_results, label %raise, label %make\n"
        + each_loop("make", "%outputs", _output(symbol, at), "arena")
        + _arena(symbol)
        + _run(symbol)
        + "drop:\n  call void @Py_DecRef(ptr %results)\n  br label %other\n"
        + "other:\n  call void @Py_IncRef(ptr @fgrad_none)\n  ret ptr @fgrad_none\n"
        + "raise:\n  ret ptr null\n}\n"
    )
    return text + _block(symbol) + _back(symbol) + work_text(symbol), _DECLARATIONS


def _same() -> str:
    """Blocks that go to `other` unless the settings, the thread and the count are as before."""
    return (
        word("cell", "call", _EPOCH_AT, "ptr")
        + word("epoch", "call", _EPOCH)
        + "  %epoch_now = load i64, ptr %cell, align 8\n"
        + "  %same_epoch = icmp eq i64 %epoch, %epoch_now\n"
        + word("thread", "call", _THREAD)
        + "  %thread_now = call i64 @PyThread_get_thread_ident()\n"
        + "  %same_thread = icmp eq i64 %thread, %thread_now\n"
        + word("flag", "call", _ALIVE, "ptr")
        + "  %alive = load i64, ptr %flag, align 8\n  %lives = icmp ne i64 %alive, 0\n"
        + word("wanted", "call", _COUNT)
        + "  %there = call i64 @PyTuple_Size(ptr %args)\n"
        + "  %same_count = icmp eq i64 %wanted, %there\n"
        + "  %both = and i1 %same_epoch, %same_thread\n  %all = and i1 %both, %lives\n"
        + "  %fits = and i1 %all, %same_count\n"
        + "  br i1 %fits, label %known, label %other\nknown:\n"
    )


def _equal(name: str, x: str, y: str) -> str:
    """Blocks that go to `other` unless two objects are one, or equal."""
    return (
        f"  %same_{name} = call i32 @PyObject_RichCompareBool(ptr {x}, ptr {y}, i32 2)\n"
        + f"  %fits_{name} = icmp eq i32 %same_{name}, 1\n"
        + f"  br i1 %fits_{name}, label %known_{name}, label %other\nknown_{name}:\n"
    )


def _argument(at: dict[str, int], type_at: int) -> str:
    """The address of an argument, if it is what is expected."""
    return (
        "  %arg = call ptr @PyTuple_GetItem(ptr %args, i64 %take_i)\n"
        + member("arg_type", "arg", type_at)
        + "  %is_array = icmp eq ptr %arg_type, %type\n"
        + "  br i1 %is_array, label %array, label %other\narray:\n"
        + f"  %words = mul i64 %take_i, {_ARGUMENT_WORDS}\n"
        + "  %expects = getelementptr i64, ptr %expected_arguments, i64 %words\n"
        + word("want_dtype", "expects", 0, "ptr")
        + word("want_shape", "expects", 1, "ptr")
        + member("dtype", "arg", at["dtype"])
        + member("shape", "arg", at["shape"])
        + member("gone", "arg", at["given_away"])
        + "  %is_there = icmp eq ptr %gone, @fgrad_false\n"
        + "  br i1 %is_there, label %present, label %other\npresent:\n"
        + _equal("dtype", "%dtype", "%want_dtype")
        + _equal("shape", "%shape", "%want_shape")
        + member("pointer", "arg", at["pointer"])
        + "  %address = call ptr @PyLong_AsVoidPtr(ptr %pointer)\n"
        + put("input_slot", "given", "%take_i", "%address")
    )


def _output(symbol: str, at: dict[str, int]) -> str:
    """A new array as the next result."""
    return (
        f"  %out_words = mul i64 %make_i, {_OUTPUT_WORDS}\n"
        + "  %out = getelementptr i64, ptr %made, i64 %out_words\n"
        + word("blocks", "out", _LIST, "ptr")
        + word("size", "out", _SIZE)
        + word("zero", "out", _ZERO, "ptr")
        + f"  %block = call ptr @{symbol}_block(ptr %blocks, i64 %size, ptr %zero, ptr %counts)\n"
        + "  %no_block = icmp eq ptr %block, null\n"
        + "  br i1 %no_block, label %drop, label %allocate\nallocate:\n"
        + "  %new = call ptr @PyType_GenericAlloc(ptr %type, i64 0)\n"
        + "  %no_array = icmp eq ptr %new, null\n"
        + "  br i1 %no_array, label %unmade, label %set\n"
        + f"unmade:\n  call void @{symbol}_back(ptr %blocks, i64 %size, ptr %block, ptr %counts)\n"
        + "  call void @Py_DecRef(ptr %results)\n  br label %raise\nset:\n"
        + word("out_shape", "out", _SHAPE, "ptr")
        + word("out_dtype", "out", _DTYPE, "ptr")
        + word("out_nbytes", "out", _NBYTES, "ptr")
        + _set("pointer", "new", at["pointer"], "%block")
        + _set("shape", "new", at["shape"], "%out_shape")
        + _set("dtype", "new", at["dtype"], "%out_dtype")
        + _set("nbytes", "new", at["nbytes"], "%out_nbytes")
        + _set("device_of", "new", at["device_of"], "%device")
        + _set("owner", "new", at["owner"], "@fgrad_none")
        + _set("lifted", "new", at["lifted"], "@fgrad_none")
        + _set("given_away", "new", at["given_away"], "@fgrad_false")
        + "  call void @Py_DecRef(ptr %block)\n"
        + "  %out_address = call ptr @PyLong_AsVoidPtr(ptr %block)\n"
        + "  %out_slot = add i64 %first_output, %make_i\n"
        + put("output_slot", "given", "%out_slot", "%out_address")
        + "  %put_in = call i32 @PyTuple_SetItem(ptr %results, i64 %make_i, ptr %new)\n"
    )


def _arena(symbol: str) -> str:
    """The address of a block for temporaries, if there are any."""
    return (
        "arena:\n"
        + word("arena_blocks", "call", _ARENA, "ptr")
        + word("arena_size", "call", _ARENA_SIZE)
        + "  %arena_slot = add i64 %first_output, %outputs\n"
        + put("no_arena", "given", "%arena_slot", "null")
        + "  %needs_none = icmp eq ptr %arena_blocks, null\n"
        + "  br i1 %needs_none, label %work, label %get_arena\nget_arena:\n"
        + f"  %arena_block = call ptr @{symbol}_block("
        + "ptr %arena_blocks, i64 %arena_size, ptr null, ptr %counts)\n"
        + "  %arena_missing = icmp eq ptr %arena_block, null\n"
        + "  br i1 %arena_missing, label %drop, label %place_arena\nplace_arena:\n"
        + "  %arena_address = call ptr @PyLong_AsVoidPtr(ptr %arena_block)\n"
        + put("own_arena", "given", "%arena_slot", "%arena_address")
        + "  br label %work\n"
    )


def _run(symbol: str) -> str:
    """Run, give the arena back, and return the results or what failed.

    Where no graph was near, the hook is told the addresses.
    """
    return (
        "work:\n  %arena_item = phi ptr [ null, %arena ], [ %arena_block, %place_arena ]\n"
        + f"  %code = call i64 @{symbol}_work(ptr %record, ptr %given)\n"
        + "  %had_arena = icmp ne ptr %arena_item, null\n"
        + "  br i1 %had_arena, label %give_arena, label %answer\ngive_arena:\n"
        + f"  call void @{symbol}_back("
        + "ptr %arena_blocks, i64 %arena_size, ptr %arena_item, ptr %counts)\n"
        + "  br label %answer\nanswer:\n"
        + "  %well = icmp eq i64 %code, 0\n  br i1 %well, label %finished, label %not_well\n"
        + f"not_well:\n  %far = icmp eq i64 %code, {MISSED}\n"
        + "  br i1 %far, label %ask, label %failed\n"
        + "ask:\n"
        + word("hook", "call", _HOOK, "ptr")
        + "  %where = call ptr @PyLong_FromVoidPtr(ptr %given)\n"
        + "  %told = call ptr (ptr, ...) @PyObject_CallFunctionObjArgs("
        + "ptr %hook, ptr %where, ptr null)\n"
        + "  call void @Py_DecRef(ptr %where)\n  %untold = icmp eq ptr %told, null\n"
        + "  br i1 %untold, label %throw, label %forget\n"
        + "throw:\n  call void @Py_DecRef(ptr %results)\n  br label %raise\n"
        + "forget:\n  call void @Py_DecRef(ptr %told)\n  br label %finished\n"
        + "finished:\n  ret ptr %results\n"
        + "failed:\n  call void @Py_DecRef(ptr %results)\n"
        + "  %failure = call ptr @PyLong_FromLongLong(i64 %code)\n  ret ptr %failure\n"
    )


def _added(name: str, index: int, change: str) -> str:
    """The text that adds to a count."""
    return (
        word(name, "counts", index)
        + f"  %{name}_now = add i64 %{name}, {change}\n"
        + f"  store i64 %{name}_now, ptr %{name}_at, align 8\n"
    )


def _block(symbol: str) -> str:
    """A block's address as an object, taken from its list; null if there is none.

    What has no list is empty: its address is `zero`.
    """
    return (
        f"define internal ptr @{symbol}_block(ptr %blocks, i64 %size, ptr %zero, ptr %counts) #0 "
        + "{\nentry:\n  %empty = icmp eq ptr %blocks, null\n"
        + "  br i1 %empty, label %nothing, label %some\n"
        + "nothing:\n  call void @Py_IncRef(ptr %zero)\n  ret ptr %zero\nsome:\n"
        + "  %count = call i64 @PyList_Size(ptr %blocks)\n  %any = icmp sgt i64 %count, 0\n"
        + "  br i1 %any, label %take, label %none\nnone:\n  ret ptr null\ntake:\n"
        + "  %block = call ptr (ptr, ...) @PyObject_CallFunctionObjArgs("
        + "ptr @fgrad_heappop, ptr %blocks, ptr null)\n"
        + "  %lost = icmp eq ptr %block, null\n  br i1 %lost, label %none, label %taken\ntaken:\n"
        + "  %less = sub i64 0, %size\n"
        + _added("in_use", IN_USE, "%size")
        + _added("held", HELD, "%less")
        + _added("reused", REUSED, "1")
        + word("peak", "counts", PEAK)
        + "  %higher = icmp sgt i64 %in_use_now, %peak\n"
        + "  %peak_now = select i1 %higher, i64 %in_use_now, i64 %peak\n"
        + "  store i64 %peak_now, ptr %peak_at, align 8\n  ret ptr %block\n}\n"
    )


def _back(symbol: str) -> str:
    """Put a block back into its list."""
    return (
        f"define internal void @{symbol}_back(ptr %blocks, i64 %size, ptr %block, ptr %counts) #0 "
        + "{\nentry:\n  %empty = icmp eq ptr %blocks, null\n"
        + "  br i1 %empty, label %done, label %some\nsome:\n"
        + "  %kept = call ptr (ptr, ...) @PyObject_CallFunctionObjArgs("
        + "ptr @fgrad_heappush, ptr %blocks, ptr %block, ptr null)\n"
        + "  call void @Py_DecRef(ptr %kept)\n"
        + "  %less = sub i64 0, %size\n"
        + _added("in_use", IN_USE, "%less")
        + _added("held", HELD, "%size")
        + "  br label %done\ndone:\n  call void @Py_DecRef(ptr %block)\n  ret void\n}\n"
    )
