"""L5. The native entry as LLVM text: memory for results.

    drop     releases the references in an array of pointers
    prepare  makes one result: an array, a NumPy scalar, or a byte that becomes a bool
    acquire  a small array that nobody else refers to any more, or a fresh one
    large    an array whose memory comes from the pool
    lent     a donated argument, if no other argument shares its memory
    own      an argument that is the result, or whose memory the result is written into

A new reference is kept in an array of pointers until it is handed to the caller; whatever fails,
`drop` releases the references in that array.
"""

from __future__ import annotations

from fgrad.compile.entry.fields import (
    NODE,
    RECORD,
    RESULT_ARRAY,
    RESULT_LARGE,
    RESULT_OWN,
    RESULT_SCALAR,
)
from fgrad.compile.llvm.abi import LENDABLE, Layout
from fgrad.compile.llvm.blocks import each_loop, member, put, word

DECLARATIONS = {
    "declare ptr @PyArray_NewFromDescr(ptr, ptr, i32, ptr, ptr, ptr, i32, ptr)",
    "declare ptr @PyDataMem_SetHandler(ptr)",
    "declare void @Py_DecRef(ptr)",
    "declare void @Py_IncRef(ptr)",
}


def results_text(at: Layout) -> str:
    """The LLVM functions listed above."""
    return "\n".join([_drop(), _usable(at), _acquire(), _large(), _lent(at), _prepare(at)])


def _drop() -> str:
    """Release the references in an array of pointers, skipping null."""
    body = word("object", "objects", "%drop_i", "ptr") + "  call void @Py_DecRef(ptr %object)\n"
    return (
        "define internal void @fgrad_drop(ptr %objects, i64 %count) #0 {\nentry:\n"
        "  br label %drop\n" + each_loop("drop", "%count", body, "end") + "end:\n  ret void\n}\n"
    )


# --- result arrays --------------------------------------------------------------------------------


def _usable(at: Layout) -> str:
    """Whether an array has no other reference and its header is unmodified."""
    same_dim = (
        word("extent", "dims", "%dim_i")
        + word("wanted_extent", "wanted_dims", "%dim_i")
        + "  %dim_same = icmp eq i64 %extent, %wanted_extent\n"
        + "  br i1 %dim_same, label %dim_next, label %no\ndim_never:\n"
    )
    return (
        """define internal i1 @fgrad_usable(ptr %record, ptr %array) #0 {
entry:
  %references = load i32, ptr %array, align 8
  %alone = icmp eq i32 %references, 1
  br i1 %alone, label %look, label %no
look:
"""
        + member("base", "array", at.base)
        + member("weakrefs", "array", at.weakrefs)
        + member("descr", "array", at.descr)
        + member("flags", "array", at.flags, "i32")
        + member("rank", "array", at.ndim, "i32")
        + member("dims", "array", at.dims)
        + word("wanted_descr", "record", RECORD["descr"], "ptr")
        + word("wanted_flags", "record", RECORD["flags"])
        + word("wanted_rank", "record", RECORD["rank"])
        + word("wanted_dims", "record", RECORD["dims"], "ptr")
        + """  %flags_wide = zext i32 %flags to i64
  %rank_wide = zext i32 %rank to i64
  %c_base = icmp eq ptr %base, null
  %c_weak = icmp eq ptr %weakrefs, null
  %c_descr = icmp eq ptr %descr, %wanted_descr
  %c_flags = icmp eq i64 %flags_wide, %wanted_flags
  %c_rank = icmp eq i64 %rank_wide, %wanted_rank
  %c_1 = and i1 %c_base, %c_weak
  %c_2 = and i1 %c_descr, %c_flags
  %c_3 = and i1 %c_1, %c_2
  %c_4 = and i1 %c_3, %c_rank
  br i1 %c_4, label %dim, label %no
"""
        + each_loop("dim", "%wanted_rank", same_dim, "yes")
        + "yes:\n  ret i1 true\nno:\n  ret i1 false\n}\n"
    )


def _acquire() -> str:
    """A new reference to an array for a result: one of the last two results if nobody else refers
    to it any more, else a new array.

    Two are remembered, as in `x = f(x)` the last result is still alive.  The older one goes to
    `drop` when another takes its place, and is released after the compiled code has run, because
    deallocation can run Python code.
    """
    return (
        """define internal ptr @fgrad_acquire(ptr %record, ptr %drop) #0 {
entry:
"""
        + word("recycle", "record", RECORD["recycle"])
        + word("first", "record", RECORD["first"], "ptr")
        + word("second", "record", RECORD["second"], "ptr")
        + """  %wanted = icmp ne i64 %recycle, 0
  br i1 %wanted, label %look, label %fresh
look:
  %no_first = icmp eq ptr %first, null
  br i1 %no_first, label %fresh, label %try_first
try_first:
  %first_usable = call i1 @fgrad_usable(ptr %record, ptr %first)
  br i1 %first_usable, label %use, label %look_second
look_second:
  %no_second = icmp eq ptr %second, null
  br i1 %no_second, label %fresh, label %try_second
try_second:
  %second_usable = call i1 @fgrad_usable(ptr %record, ptr %second)
  br i1 %second_usable, label %use, label %replace
replace:
  store ptr %first, ptr %drop, align 8
  store ptr %second, ptr %first_at, align 8
  store ptr null, ptr %second_at, align 8
  br label %fresh
use:
  %used = phi ptr [ %first, %try_first ], [ %second, %try_second ]
  call void @Py_IncRef(ptr %used)
  ret ptr %used
fresh:
  %place = phi ptr [ null, %entry ], [ %first_at, %look ], [ %second_at, %look_second ], \
[ %second_at, %replace ]
"""
        + _new_array()
        + """  %failed = icmp eq ptr %new_array, null
  %unkept = icmp eq ptr %place, null
  %not_remembered = or i1 %failed, %unkept
  br i1 %not_remembered, label %give, label %remember
remember:
  call void @Py_IncRef(ptr %new_array)
  store ptr %new_array, ptr %place, align 8
  br label %give
give:
  ret ptr %new_array
}
"""
    )


def _new_array() -> str:
    """The text that makes `%new_array` for a record."""
    return (
        word("descr", "record", RECORD["descr"], "ptr")
        + word("type", "record", RECORD["type"], "ptr")
        + word("rank", "record", RECORD["rank"])
        + word("dims", "record", RECORD["dims"], "ptr")
        + """  %rank_narrow = trunc i64 %rank to i32
  call void @Py_IncRef(ptr %descr)
  %new_array = call ptr @PyArray_NewFromDescr(ptr %type, ptr %descr, i32 %rank_narrow, ptr %dims, \
ptr null, ptr null, i32 0, ptr null)
"""
    )


def _large() -> str:
    """A new array whose memory comes from the pool, set as NumPy's memory handler meanwhile."""
    return (
        "define internal ptr @fgrad_large(ptr %record) #0 {\nentry:\n"
        + word("pool", "record", RECORD["pool"], "ptr")
        + """  %previous = call ptr @PyDataMem_SetHandler(ptr %pool)
  %unset = icmp eq ptr %previous, null
  br i1 %unset, label %fail, label %make
make:
"""
        + _new_array()
        + """  %replaced = call ptr @PyDataMem_SetHandler(ptr %previous)
  %unrestored = icmp eq ptr %replaced, null
  call void @Py_DecRef(ptr %replaced)
  call void @Py_DecRef(ptr %previous)
  br i1 %unrestored, label %undo, label %done
done:
  ret ptr %new_array
undo:
  call void @Py_DecRef(ptr %new_array)
  ret ptr null
fail:
  ret ptr null
}
"""
    )


def _lent(at: Layout) -> str:
    """A new reference to the donor of a result, or null if its memory may not be written."""
    apart = (
        "  %extent_step = mul i64 %other_i, 2\n"
        "  %extent = getelementptr i64, ptr %extents, i64 %extent_step\n"
        + word("slot", "extent", 0)
        + word("size", "extent", 1)
        + word("place", "slots", "%slot", "ptr")
        + """  %from = ptrtoint ptr %place to i64
  %to = add i64 %from, %size
  %is_own = icmp eq i64 %slot, %own_slot
  %is_before = icmp ule i64 %to, %start
  %is_after = icmp uge i64 %from, %end
  %is_beside = or i1 %is_before, %is_after
  %is_apart = or i1 %is_own, %is_beside
  br i1 %is_apart, label %other_next, label %no
other_never:
"""
    )
    return (
        "define internal ptr @fgrad_lent(ptr %record, ptr %node, ptr %regs, ptr %slots) #0 {\n"
        "entry:\n"
        + word("donor", "record", RECORD["donor"])
        + word("own_slot", "record", RECORD["donor_slot"])
        + word("bytes", "record", RECORD["bytes"])
        + word("count", "node", NODE["reads"])
        + word("extents", "node", NODE["extents"], "ptr")
        + "  %register = sub i64 %donor, 1\n"
        + word("array", "regs", "%register", "ptr")
        + member("flags", "array", at.flags, "i32")
        + member("base", "array", at.base)
        + member("data", "array", at.data)
        + f"""  %needed = and i32 %flags, {LENDABLE}
  %is_owner = icmp eq i32 %needed, {LENDABLE}
  %is_root = icmp eq ptr %base, null
  %is_free = and i1 %is_owner, %is_root
  %start = ptrtoint ptr %data to i64
  %end = add i64 %start, %bytes
  br i1 %is_free, label %other, label %no
"""
        + each_loop("other", "%count", apart, "yes")
        + "yes:\n  call void @Py_IncRef(ptr %array)\n  ret ptr %array\nno:\n  ret ptr null\n}\n"
    )


def _prepare(at: Layout) -> str:
    """Make one result and store the address of its data in its slot; false after an error."""
    return (
        """define internal i1 @fgrad_prepare(ptr %record, i1 %hot, ptr %out, ptr %drop, \
ptr %slots, ptr %cells, ptr %node, ptr %regs) #0 {
entry:
  store ptr null, ptr %drop, align 8
"""
        + word("slot", "record", RECORD["slot"])
        + word("donor", "record", RECORD["donor"])
        + """  %has_donor = icmp ne i64 %donor, 0
  br i1 %has_donor, label %borrow, label %fresh_memory
borrow:
  %lent = call ptr @fgrad_lent(ptr %record, ptr %node, ptr %regs, ptr %slots)
  %is_lent = icmp ne ptr %lent, null
  br i1 %is_lent, label %array_made, label %fresh_memory
fresh_memory:
"""
        + word("kind", "record", RECORD["kind"])
        + f"  switch i64 %kind, label %bool [\n    i64 {RESULT_ARRAY}, label %array\n"
        + f"    i64 {RESULT_SCALAR}, label %scalar\n"
        + f"    i64 {RESULT_LARGE}, label %large\n    i64 {RESULT_OWN}, label %own\n  ]\nown:\n"
        + word("own_register", "record", RECORD["own"])
        + word("argument", "regs", "%own_register", "ptr")
        + "  call void @Py_IncRef(ptr %argument)\n  br label %array_made\nlarge:\n"
        + "  %large_array = call ptr @fgrad_large(ptr %record)\n  br label %array_made\narray:\n"
        + "  br i1 %hot, label %again, label %fresh\nagain:\n"
        + """  %old_array = call ptr @fgrad_acquire(ptr %record, ptr %drop)
  br label %array_made
fresh:
"""
        + _new_array()
        + """  br label %array_made
array_made:
  %an_array = phi ptr [ %old_array, %again ], [ %new_array, %fresh ], [ %large_array, %large ], \
[ %lent, %borrow ], [ %argument, %own ]
  %no_array = icmp eq ptr %an_array, null
  br i1 %no_array, label %fail, label %array_data
array_data:
"""
        + member("data", "an_array", at.data)
        + "  br label %done\nscalar:\n"
        + word("alloc", "record", RECORD["alloc"], "ptr")
        + word("class", "record", RECORD["type"], "ptr")
        + """  %new_scalar = call ptr %alloc(ptr %class, i64 0)
  %no_scalar = icmp eq ptr %new_scalar, null
  br i1 %no_scalar, label %fail, label %scalar_data
scalar_data:
"""
        + f"  %value = getelementptr i8, ptr %new_scalar, i64 {at.header}\n"
        + "  br label %done\nbool:\n"
        + word("cell", "record", RECORD["cell"])
        + """  %place = getelementptr i64, ptr %cells, i64 %cell
  br label %done
done:
  %made = phi ptr [ %an_array, %array_data ], [ %new_scalar, %scalar_data ], [ null, %bool ]
  %target = phi ptr [ %data, %array_data ], [ %value, %scalar_data ], [ %place, %bool ]
  store ptr %made, ptr %out, align 8
"""
        + put("target", "slots", "%slot", "%target")
        + "  ret i1 true\nfail:\n  ret i1 false\n}\n"
    )
