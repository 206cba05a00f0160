"""L5. The native entry as LLVM text: reusable memory for temporaries and large results.

The first touch of fresh memory costs more than most loops over it: 10 million elements take 10 ms
in new pages and 5 in old ones.  Blocks that are given back are therefore kept, up to a limit, and
given out again for requests of the same number of pages.  Large results get their memory here by
NumPy's interface for allocators (NEP 49), so that for Python they are arrays like any other.

A block is aligned to 64 bytes, or to huge pages; its size and its true address stand before it.
Whoever finds the pool locked does without it.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Sequence

from fgrad.compile.entry.fields import ALLOCATORS
from fgrad.compile.llvm.blocks import each_loop, put, word

POOLED_BYTES = 1 << 18  # from here on blocks are kept
POOL_LIMIT = 1 << 30
_BLOCKS = 64
_HUGE_BYTES, _HUGE_PAGE, _PAGE = 1 << 22, 1 << 21, 1 << 12
_MADV_HUGEPAGE = 14


DECLARATIONS = {
    f"@fgrad_pool = internal global [{_BLOCKS} x ptr] zeroinitializer",
    "@fgrad_pool_next = internal global i64 0",
    "@fgrad_pool_held = internal global i64 0",
    "@fgrad_pool_lock = internal global i64 0",
    "declare ptr @malloc(i64)",
    "declare void @free(ptr)",
    "declare ptr @memcpy(ptr, ptr, i64)",
    "declare ptr @memset(ptr, i32, i64)",
}
if sys.platform == "linux":
    DECLARATIONS |= {"declare i32 @madvise(ptr, i64, i32)"}


def pool_text() -> str:
    """The four functions of an allocator and what they need."""
    return "\n".join([_lock(), _block(), _malloc(), _free(), _others()])


def _lock() -> str:
    return """define internal i1 @fgrad_pool_try() #0 {
entry:
  %pair = cmpxchg ptr @fgrad_pool_lock, i64 0, i64 1 acquire monotonic
  %got = extractvalue { i64, i1 } %pair, 1
  ret i1 %got
}
define internal void @fgrad_pool_leave() #0 {
entry:
  store atomic i64 0, ptr @fgrad_pool_lock release, align 8
  ret void
}
define internal i64 @fgrad_capacity(ptr %block) #0 {
entry:
  %at = getelementptr i64, ptr %block, i64 -2
  %capacity = load i64, ptr %at, align 8
  ret i64 %capacity
}
define internal void @fgrad_let_block_go(ptr %block) #0 {
entry:
  %at = getelementptr ptr, ptr %block, i64 -1
  %raw = load ptr, ptr %at, align 8
  call void @free(ptr %raw)
  ret void
}
"""


def _block() -> str:
    """A new block of a whole number of pages; null if there is no memory."""
    advise = ""
    if sys.platform == "linux":
        advise = f"  %told = call i32 @madvise(ptr %block, i64 %capacity, i32 {_MADV_HUGEPAGE})\n"
    return f"""define internal ptr @fgrad_new_block(i64 %capacity) #0 {{
entry:
  %huge = icmp uge i64 %capacity, {_HUGE_BYTES}
  %align = select i1 %huge, i64 {_HUGE_PAGE}, i64 64
  %room = add i64 %align, 16
  %total = add i64 %capacity, %room
  %raw = call ptr @malloc(i64 %total)
  %none = icmp eq ptr %raw, null
  br i1 %none, label %fail, label %place
place:
  %number = ptrtoint ptr %raw to i64
  %above = add i64 %number, 15
  %up = add i64 %above, %align
  %mask = sub i64 0, %align
  %aligned = and i64 %up, %mask
  %block = inttoptr i64 %aligned to ptr
  %raw_at = getelementptr ptr, ptr %block, i64 -1
  store ptr %raw, ptr %raw_at, align 8
  %capacity_at = getelementptr i64, ptr %block, i64 -2
  store i64 %capacity, ptr %capacity_at, align 8
  br i1 %huge, label %advise, label %done
advise:
{advise}  br label %done
done:
  ret ptr %block
fail:
  ret ptr null
}}
"""


def _malloc() -> str:
    """A block from the pool, if it has one of this size, or a new one."""
    look = (
        word("kept", "pool", "%look_i", "ptr")
        + """  %empty = icmp eq ptr %kept, null
  br i1 %empty, label %look_next, label %compare
compare:
  %kept_capacity = call i64 @fgrad_capacity(ptr %kept)
  %fits = icmp eq i64 %kept_capacity, %capacity
  br i1 %fits, label %take, label %look_next
take:
  store ptr null, ptr %kept_at, align 8
  %held = load i64, ptr @fgrad_pool_held, align 8
  %less = sub i64 %held, %capacity
  store i64 %less, ptr @fgrad_pool_held, align 8
  call void @fgrad_pool_leave()
  ret ptr %kept
never:
"""
    )
    return (
        f"""define internal ptr @fgrad_malloc(ptr %context, i64 %size) #0 {{
entry:
  %pool = getelementptr i8, ptr @fgrad_pool, i64 0
  %up = add i64 %size, {_PAGE - 1}
  %capacity = and i64 %up, {-_PAGE}
  %sane = icmp uge i64 %capacity, %size
  br i1 %sane, label %begin, label %fail
begin:
  %big = icmp uge i64 %size, {POOLED_BYTES}
  br i1 %big, label %try, label %fresh
try:
  %got = call i1 @fgrad_pool_try()
  br i1 %got, label %look, label %fresh
"""
        + each_loop("look", str(_BLOCKS), look, "missing")
        + """missing:
  call void @fgrad_pool_leave()
  br label %fresh
fresh:
  %block = call ptr @fgrad_new_block(i64 %capacity)
  ret ptr %block
fail:
  ret ptr null
}
"""
    )


def _free() -> str:
    """Keep a block; the oldest ones make room for it."""
    slot = (
        f"  %turn = add i64 %next, %evict_i\n  %place = urem i64 %turn, {_BLOCKS}\n"
        + word("old", "pool", "%place", "ptr")
        + f"""  %held = load i64, ptr @fgrad_pool_held, align 8
  %then_held = add i64 %held, %capacity
  %enough = icmp ule i64 %then_held, {POOL_LIMIT}
  %is_first = icmp eq i64 %evict_i, 0
  %nothing = icmp eq ptr %old, null
  %others = xor i1 %is_first, true
  %spare_it = and i1 %enough, %others
  %stays = or i1 %nothing, %spare_it
  br i1 %stays, label %evict_next, label %evict_it
evict_it:
  %old_capacity = call i64 @fgrad_capacity(ptr %old)
  %less = sub i64 %held, %old_capacity
  store i64 %less, ptr @fgrad_pool_held, align 8
  store ptr null, ptr %old_at, align 8
  call void @fgrad_let_block_go(ptr %old)
"""
    )
    return (
        f"""define internal void @fgrad_free(ptr %context, ptr %block, i64 %size) #0 {{
entry:
  %none = icmp eq ptr %block, null
  br i1 %none, label %end, label %measure
measure:
  %pool = getelementptr i8, ptr @fgrad_pool, i64 0
  %capacity = call i64 @fgrad_capacity(ptr %block)
  %big = icmp uge i64 %capacity, {POOLED_BYTES}
  %modest = icmp ule i64 %capacity, {POOL_LIMIT}
  %keep = and i1 %big, %modest
  br i1 %keep, label %try, label %release
try:
  %got = call i1 @fgrad_pool_try()
  br i1 %got, label %room, label %release
room:
  %next = load i64, ptr @fgrad_pool_next, align 8
  br label %evict
"""
        + each_loop("evict", str(_BLOCKS), slot, "store")
        + put("block", "pool", "%next", "%block").replace("  %block_to", "store:\n  %block_to", 1)
        + f"""  %held_now = load i64, ptr @fgrad_pool_held, align 8
  %more = add i64 %held_now, %capacity
  store i64 %more, ptr @fgrad_pool_held, align 8
  %following = add i64 %next, 1
  %wrapped = urem i64 %following, {_BLOCKS}
  store i64 %wrapped, ptr @fgrad_pool_next, align 8
  call void @fgrad_pool_leave()
  br label %end
release:
  call void @fgrad_let_block_go(ptr %block)
  br label %end
end:
  ret void
}}
"""
    )


def _others() -> str:
    return """define internal ptr @fgrad_calloc(ptr %context, i64 %count, i64 %size) #0 {
entry:
  %pair = call { i64, i1 } @llvm.umul.with.overflow.i64(i64 %count, i64 %size)
  %bytes = extractvalue { i64, i1 } %pair, 0
  %over = extractvalue { i64, i1 } %pair, 1
  br i1 %over, label %fail, label %make
make:
  %block = call ptr @fgrad_malloc(ptr %context, i64 %bytes)
  %none = icmp eq ptr %block, null
  br i1 %none, label %fail, label %clear
clear:
  %cleared = call ptr @memset(ptr %block, i32 0, i64 %bytes)
  ret ptr %block
fail:
  ret ptr null
}
define internal ptr @fgrad_realloc(ptr %context, ptr %block, i64 %size) #0 {
entry:
  %none = icmp eq ptr %block, null
  br i1 %none, label %fresh, label %measure
fresh:
  %first = call ptr @fgrad_malloc(ptr %context, i64 %size)
  ret ptr %first
measure:
  %capacity = call i64 @fgrad_capacity(ptr %block)
  %enough = icmp uge i64 %capacity, %size
  br i1 %enough, label %same, label %move
same:
  ret ptr %block
move:
  %new = call ptr @fgrad_malloc(ptr %context, i64 %size)
  %failed = icmp eq ptr %new, null
  br i1 %failed, label %fail, label %copy
copy:
  %copied = call ptr @memcpy(ptr %new, ptr %block, i64 %capacity)
  call void @fgrad_free(ptr %context, ptr %block, i64 %capacity)
  ret ptr %new
fail:
  ret ptr null
}
declare { i64, i1 } @llvm.umul.with.overflow.i64(i64, i64)
"""


class _Allocator(ctypes.Structure):
    _fields_ = (
        ("context", ctypes.c_void_p),
        ("functions", ctypes.c_void_p * len(ALLOCATORS)),
    )


class _Handler(ctypes.Structure):
    _fields_ = (
        ("name", ctypes.c_char * 127),
        ("version", ctypes.c_uint8),
        ("allocator", _Allocator),
    )


_CAPSULE_NAME = b"mem_handler"


class Pool:
    """The pool as NumPy's memory handler.

    Arguments:
        functions: the addresses of the functions `ALLOCATORS`.
    """

    def __init__(self, functions: Sequence[int]) -> None:
        table = (ctypes.c_void_p * len(ALLOCATORS))(*functions)
        self.handler = _Handler(b"fgrad", 1, _Allocator(None, table))
        make = ctypes.PYFUNCTYPE(
            ctypes.py_object, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p
        )(("PyCapsule_New", ctypes.pythonapi))
        self.capsule = make(ctypes.addressof(self.handler), _CAPSULE_NAME, None)
        # Arrays may outlive all modules.
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(self))
