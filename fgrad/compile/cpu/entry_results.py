"""L5. The native entry of jitted functions as LLVM text, part two: running, and making results.

    run      holds the arguments if need be, makes the results, calls the host program
    acquire  a result array: one that nobody else refers to any more, or a fresh one
    build    puts result leaves together in containers, by a postfix program over a small stack

Whatever is owned stands in an array of pointers until it is given away, so that every failure ends in
dropping those arrays.
"""

from __future__ import annotations

from fgrad.compile.cpu.entry_abi import Layout
from fgrad.compile.cpu.entry_blocks import (
    CALL,
    LEAF,
    MAKE_DICT,
    MAKE_LIST,
    MAKE_NAMED,
    MAKE_TUPLE,
    NODE,
    PUSH,
    RECORD,
    RECORD_SIZE,
    RESULT_ARRAY,
    RESULT_SCALAR,
    each_loop,
    member,
    put,
    word,
)

HOT = 16  # calls after which result arrays are kept for use again
STACK_ARENA = 8192  # bytes of temporaries taken from the stack
SHARED_ARENA = 1 << 30  # bytes up to which the arena of the process is kept

DECLARATIONS = {
    "@fgrad_byte_0 = internal constant i8 0",
    "@fgrad_byte_1 = internal constant i8 1",
    "@fgrad_arena = internal global ptr null",
    "@fgrad_arena_size = internal global i64 0",
    "@fgrad_arena_busy = internal global i64 0",
    "@fgrad_numpy_true = external global i8",
    "@fgrad_numpy_false = external global i8",
    "declare ptr @PyArray_NewFromDescr(ptr, ptr, i32, ptr, ptr, ptr, i32, ptr)",
    "declare ptr @PyArray_NewCopy(ptr, i32)",
    "declare ptr @PyErr_NoMemory()",
    "declare ptr @PyDict_New()",
    "declare i32 @PyDict_SetItem(ptr, ptr, ptr)",
    "declare void @PyEval_RestoreThread(ptr)",
    "declare ptr @PyEval_SaveThread()",
    "declare ptr @PyList_New(i64)",
    "declare i32 @PyList_SetItem(ptr, i64, ptr)",
    "declare void @PyMem_RawFree(ptr)",
    "declare ptr @PyMem_RawMalloc(i64)",
    "declare ptr @PyObject_CallFunctionObjArgs(ptr, ...)",
    "declare ptr @PyTuple_New(i64)",
    "declare i32 @PyTuple_SetItem(ptr, i64, ptr)",
    "declare void @Py_DecRef(ptr)",
    "declare void @Py_IncRef(ptr)",
    "declare ptr @memcpy(ptr, ptr, i64)",
}


def results_text(at: Layout) -> tuple[str, set[str]]:
    """The functions of this part and the declarations that they need."""
    parts = [_drop(), _usable(at), _acquire(at), _arena(), _build(), _prepare(at), _run(at)]
    return "\n".join(parts), DECLARATIONS


def _drop() -> str:
    """Give up the references in an array of pointers; null ones are passed over."""
    body = word("object", "objects", "%drop_i", "ptr") + "  call void @Py_DecRef(ptr %object)\n"
    return (
        "define internal void @fgrad_drop(ptr %objects, i64 %count) #0 {\nentry:\n"
        "  br label %drop\n" + each_loop("drop", "%count", body, "end") + "end:\n  ret void\n}\n"
    )


# --- result arrays --------------------------------------------------------------------------------


def _usable(at: Layout) -> str:
    """Whether nobody else refers to an array, and it still is what it was when it was made."""
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


def _acquire(at: Layout) -> str:
    """A new reference to an array for a result, of a signature that is called often.

    Two arrays are remembered, as the result of the last call is still alive in `x = f(x)`.  An
    array that leaves its place goes to `drop`, to be given up after the compiled code has run: the
    end of an object can run Python code.
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
  %only = or i1 %failed, %unkept
  br i1 %only, label %give, label %remember
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


def _prepare(at: Layout) -> str:
    """Make one result and note where its data go; false with an error set."""
    return (
        """define internal i1 @fgrad_prepare(ptr %record, i1 %hot, ptr %out, ptr %drop, \
ptr %slots, ptr %cells) #0 {
entry:
  store ptr null, ptr %drop, align 8
"""
        + word("kind", "record", RECORD["kind"])
        + word("slot", "record", RECORD["slot"])
        + f"  switch i64 %kind, label %bool [\n    i64 {RESULT_ARRAY}, label %array\n"
        + f"    i64 {RESULT_SCALAR}, label %scalar\n  ]\narray:\n"
        + "  br i1 %hot, label %again, label %fresh\nagain:\n"
        + """  %old_array = call ptr @fgrad_acquire(ptr %record, ptr %drop)
  br label %array_made
fresh:
"""
        + _new_array()
        + """  br label %array_made
array_made:
  %an_array = phi ptr [ %old_array, %again ], [ %new_array, %fresh ]
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


# --- temporaries ----------------------------------------------------------------------------------


def _arena() -> str:
    """Memory for temporaries: the arena of the process, or one's own while that is in use."""
    return f"""define internal ptr @fgrad_arena_take(i64 %bytes) #0 {{
entry:
  %busy = load i64, ptr @fgrad_arena_busy, align 8
  %free = icmp eq i64 %busy, 0
  %modest = icmp sle i64 %bytes, {SHARED_ARENA}
  %sharing = and i1 %free, %modest
  br i1 %sharing, label %shared, label %own
own:
  %mine = call ptr @PyMem_RawMalloc(i64 %bytes)
  ret ptr %mine
shared:
  %size = load i64, ptr @fgrad_arena_size, align 8
  %old = load ptr, ptr @fgrad_arena, align 8
  %enough = icmp sge i64 %size, %bytes
  br i1 %enough, label %take, label %grow
grow:
  call void @PyMem_RawFree(ptr %old)
  %new = call ptr @PyMem_RawMalloc(i64 %bytes)
  store ptr %new, ptr @fgrad_arena, align 8
  %failed = icmp eq ptr %new, null
  %new_size = select i1 %failed, i64 0, i64 %bytes
  store i64 %new_size, ptr @fgrad_arena_size, align 8
  br i1 %failed, label %none, label %take
take:
  %given = phi ptr [ %old, %shared ], [ %new, %grow ]
  store i64 1, ptr @fgrad_arena_busy, align 8
  ret ptr %given
none:
  ret ptr null
}}
define internal void @fgrad_arena_give(ptr %given) #0 {{
entry:
  %shared = load ptr, ptr @fgrad_arena, align 8
  %same = icmp eq ptr %given, %shared
  br i1 %same, label %idle, label %own
idle:
  store i64 0, ptr @fgrad_arena_busy, align 8
  ret void
own:
  call void @PyMem_RawFree(ptr %given)
  ret void
}}
"""


# --- containers -----------------------------------------------------------------------------------


def _sequence(label: str, kind: str) -> str:
    """Blocks that pop `%count` objects into a new tuple or list, `%{label}_made`."""
    body = (
        word(f"{label}_item", "items", f"%{label}_fill_i", "ptr")
        + f"  %{label}_set = call i32 @Py{kind}_SetItem(ptr %{label}_made, "
        + f"i64 %{label}_fill_i, ptr %{label}_item)\n"
    )
    return (
        f"{label}:\n  %{label}_made = call ptr @Py{kind}_New(i64 %count)\n"
        f"  %{label}_none = icmp eq ptr %{label}_made, null\n"
        f"  br i1 %{label}_none, label %fail, label %{label}_fill\n"
        + each_loop(f"{label}_fill", "%count", body, f"{label}_full")
        + f"{label}_full:\n"
    )


def _build() -> str:
    """The containers of the results: [LEAF, number] [PUSH, object] [MAKE_..., count, ...] [RETURN]."""
    set_item = (
        word("value", "items", "%dict_fill_i", "ptr")
        + word("key", "keys", "%dict_fill_i", "ptr")
        + "  %set = call i32 @PyDict_SetItem(ptr %made_dict, ptr %key, ptr %value)\n"
        + "  %unset = icmp slt i32 %set, 0\n"
        + "  br i1 %unset, label %dict_fail, label %dict_fill_next\ndict_never:\n"
    )
    return (
        """define internal ptr @fgrad_build(ptr %program, i64 %depth, ptr %outs, i64 %total) #0 {
entry:
  %stack = alloca ptr, i64 %depth, align 8
  br label %step
step:
  %pc = phi ptr [ %program, %entry ], [ %following, %push ]
  %height = phi i64 [ 0, %entry ], [ %higher, %push ]
"""
        + word("op", "pc", 0)
        + word("count", "pc", 1)
        + """  %left = sub i64 %height, %count
  %items = getelementptr ptr, ptr %stack, i64 %left
  switch i64 %op, label %return [
"""
        + f"    i64 {LEAF}, label %leaf\n    i64 {PUSH}, label %constant\n"
        + f"    i64 {MAKE_TUPLE}, label %tuple\n    i64 {MAKE_LIST}, label %list\n"
        + f"    i64 {MAKE_DICT}, label %dict\n    i64 {MAKE_NAMED}, label %named\n"
        + f"    i64 {CALL}, label %called\n  ]\nleaf:\n"
        + word("leaf_object", "outs", "%count", "ptr")
        + "  store ptr null, ptr %leaf_object_at, align 8\n  br label %push\nconstant:\n"
        + """  %fixed = inttoptr i64 %count to ptr
  call void @Py_IncRef(ptr %fixed)
  br label %push
"""
        + _sequence("tuple", "Tuple")
        + "  br label %push\n"
        + _sequence("list", "List")
        + "  br label %push\n"
        + """dict:
  %made_dict = call ptr @PyDict_New()
  %no_dict = icmp eq ptr %made_dict, null
  %keys = getelementptr i64, ptr %pc, i64 2
  br i1 %no_dict, label %fail, label %dict_fill
"""
        + each_loop("dict_fill", "%count", set_item, "dict_full")
        + """dict_full:
  call void @fgrad_drop(ptr %items, i64 %count)
  %dict_size = add i64 %count, 2
  br label %push
dict_fail:
  call void @Py_DecRef(ptr %made_dict)
  br label %fail
"""
        + _sequence("named", "Tuple")
        + word("class", "pc", 2, "ptr")
        + word("new", "pc", 3, "ptr")
        + """  %packed = call ptr @PyTuple_New(i64 1)
  %no_packed = icmp eq ptr %packed, null
  br i1 %no_packed, label %named_fail, label %named_call
named_call:
  %packed_set = call i32 @PyTuple_SetItem(ptr %packed, i64 0, ptr %named_made)
  %instance = call ptr %new(ptr %class, ptr %packed, ptr null)
  call void @Py_DecRef(ptr %packed)
  %no_named = icmp eq ptr %instance, null
  br i1 %no_named, label %fail_left, label %push
named_fail:
  call void @Py_DecRef(ptr %named_made)
  br label %fail_left
"""
        + _sequence("called", "Tuple")
        + word("function", "pc", 2, "ptr")
        + """  %answer = call ptr (ptr, ...) @PyObject_CallFunctionObjArgs(ptr %function, \
ptr %called_made, ptr null)
  call void @Py_DecRef(ptr %called_made)
  %no_answer = icmp eq ptr %answer, null
  br i1 %no_answer, label %fail_left, label %push
push:
  %object = phi ptr [ %leaf_object, %leaf ], [ %fixed, %constant ], [ %tuple_made, %tuple_full ], \
[ %list_made, %list_full ], [ %made_dict, %dict_full ], [ %instance, %named_call ], [ %answer, %called_full ]
  %under = phi i64 [ %height, %leaf ], [ %height, %constant ], [ %left, %tuple_full ], \
[ %left, %list_full ], [ %left, %dict_full ], [ %left, %named_call ], [ %left, %called_full ]
  %size = phi i64 [ 2, %leaf ], [ 2, %constant ], [ 2, %tuple_full ], [ 2, %list_full ], \
[ %dict_size, %dict_full ], [ 4, %named_call ], [ 3, %called_full ]
"""
        + put("top", "stack", "%under", "%object")
        + """  %higher = add i64 %under, 1
  %following = getelementptr i64, ptr %pc, i64 %size
  br label %step
return:
  %result = load ptr, ptr %stack, align 8
  ret ptr %result
fail_left:
  br label %fail
fail:
  %owned = phi i64 [ %height, %tuple ], [ %height, %list ], [ %height, %dict ], \
[ %height, %dict_fail ], [ %height, %named ], [ %height, %called ], [ %left, %fail_left ]
  call void @fgrad_drop(ptr %stack, i64 %owned)
  call void @fgrad_drop(ptr %outs, i64 %total)
  ret ptr null
}
"""
    )


# --- running --------------------------------------------------------------------------------------


def _copy_late(at: Layout) -> str:
    """Blocks that replace arrays which are not contiguous by copies, from block `copy` on."""
    body = (
        word("op", "late", "%copy_i", "ptr")
        + word("source", "op", 1)
        + word("slot", "op", 2)
        + word("original", "regs", "%source", "ptr")
        + """  %copied = call ptr @PyArray_NewCopy(ptr %original, i32 0)
  store ptr %copied, ptr %op_at, align 8
  %no_copy = icmp eq ptr %copied, null
  br i1 %no_copy, label %copy_fail, label %copy_data
copy_data:
"""
        + member("copied_data", "copied", at.data)
        + put("copied_data", "slots", "%slot", "%copied_data")
    )
    return each_loop("copy", "%copies", body, "prepared") + (
        "copy_fail:\n  call void @fgrad_drop(ptr %late, i64 %copy_i)\n  br label %fail_regs\n"
    )


def _bools() -> str:
    """Blocks that turn the bytes of bool results into NumPy's two constants, from `bool` on."""
    body = (
        f"  %b_step = mul i64 %bool_i, {RECORD_SIZE}\n"
        + "  %b_record = getelementptr i64, ptr %records, i64 %b_step\n"
        + word("b_out", "outs", "%bool_i", "ptr")
        + """  %b_wanted = icmp eq ptr %b_out, null
  br i1 %b_wanted, label %bool_read, label %bool_next
bool_read:
"""
        + word("b_cell", "b_record", RECORD["cell"])
        + """  %b_place = getelementptr i64, ptr %cells, i64 %b_cell
  %b_byte = load i8, ptr %b_place, align 8
  %b_false = icmp eq i8 %b_byte, 0
  %b_object = select i1 %b_false, ptr @fgrad_numpy_false, ptr @fgrad_numpy_true
  call void @Py_IncRef(ptr %b_object)
  store ptr %b_object, ptr %b_out_at, align 8
"""
    )
    return each_loop("bool", "%count", body, "together")


def _run(at: Layout) -> str:
    """Run a matched signature: hold, make results, call the host program, put results together."""
    hold = word("held", "regs", "%hold_i", "ptr") + "  call void @Py_IncRef(ptr %held)\n"
    record = (
        f"  %record_step = mul i64 %record_i, {RECORD_SIZE}\n"
        "  %this_record = getelementptr i64, ptr %records, i64 %record_step\n"
        "  %out = getelementptr ptr, ptr %outs, i64 %record_i\n"
        "  %drop = getelementptr ptr, ptr %drops, i64 %record_i\n"
        "  %made = call i1 @fgrad_prepare(ptr %this_record, i1 %hot, ptr %out, ptr %drop, ptr %slots, "
        "ptr %cells)\n"
        "  %record_tried = add i64 %record_i, 1\n"
        "  br i1 %made, label %record_next, label %fail_records\nrecord_never:\n"
    )
    pair = (
        "  %pair_step = mul i64 %pair_i, 2\n  %this_pair = getelementptr i64, ptr %pairs, i64 %pair_step\n"
        + word("pair_slot", "this_pair", 0)
        + word("pair_address", "this_pair", 1, "ptr")
        + put("pair_address", "slots", "%pair_slot", "%pair_address")
    )
    fill = (
        "  %fill_step = mul i64 %fill_i, 3\n"
        "  %filling = getelementptr i64, ptr %sources, i64 %fill_step\n"
        + word("fill_slot", "filling", 0)
        + word("fill_source", "filling", 1, "ptr")
        + word("fill_bytes", "filling", 2)
        + word("fill_target", "slots", "%fill_slot", "ptr")
        + "  %filled = call ptr @memcpy(ptr %fill_target, ptr %fill_source, i64 %fill_bytes)\n"
    )
    return (
        "define internal ptr @fgrad_run(ptr %node, ptr %regs, ptr %slots, ptr %cells, ptr %late, "
        "i64 %copies) #0 {\nentry:\n"
        + word("count", "node", NODE["outputs"])
        + word("records", "node", NODE["records"], "ptr")
        + word("register_count", "node", NODE["registers"])
        + word("release", "node", NODE["release"])
        + word("recycling", "node", NODE["recycle"])
        + f"""  %outs = alloca ptr, i64 %count, align 8
  %drops = alloca ptr, i64 %count, align 8
  %own_arena = alloca ptr, align 8
  store ptr null, ptr %own_arena, align 8
  %cold = icmp eq i64 %recycling, 0
  br i1 %cold, label %start, label %warm
warm:
"""
        + word("calls", "node", NODE["calls"])
        + f"""  %enough_calls = icmp sge i64 %calls, {HOT}
  %more_calls = add i64 %calls, 1
  %calls_now = select i1 %enough_calls, i64 %calls, i64 %more_calls
  store i64 %calls_now, ptr %calls_at, align 8
  br label %start
start:
  %hot = phi i1 [ false, %entry ], [ %enough_calls, %warm ]
  %releasing = icmp ne i64 %release, 0
  %copying = icmp ne i64 %copies, 0
  %holding = or i1 %releasing, %copying
  %held_count = select i1 %holding, i64 %register_count, i64 0
  br i1 %holding, label %hold, label %record
"""
        + each_loop("hold", "%held_count", hold, "copy")
        + _copy_late(at)
        + "prepared:\n  br label %record\n"
        + each_loop("record", "%count", record, "arena")
        + "arena:\n"
        + word("arena_bytes", "node", NODE["arena_bytes"])
        + word("arena_slot", "node", NODE["arena_slot"])
        + f"""  %no_arena = icmp eq i64 %arena_bytes, 0
  %small_arena = icmp sle i64 %arena_bytes, {STACK_ARENA}
  br i1 %no_arena, label %constants, label %some_arena
some_arena:
  br i1 %small_arena, label %stack_arena, label %big_arena
stack_arena:
  %on_stack = alloca i8, i64 %arena_bytes, align 64
  br label %place_arena
big_arena:
  %padded = add i64 %arena_bytes, 64
  %raw = call ptr @fgrad_arena_take(i64 %padded)
  %no_raw = icmp eq ptr %raw, null
  br i1 %no_raw, label %fail_arena, label %align_arena
align_arena:
  store ptr %raw, ptr %own_arena, align 8
  %raw_number = ptrtoint ptr %raw to i64
  %raw_up = add i64 %raw_number, 63
  %aligned = and i64 %raw_up, -64
  %on_heap = inttoptr i64 %aligned to ptr
  br label %place_arena
place_arena:
  %place = phi ptr [ %on_stack, %stack_arena ], [ %on_heap, %align_arena ]
"""
        + put("place", "slots", "%arena_slot", "%place")
        + "  br label %constants\nconstants:\n"
        + word("pair_count", "node", NODE["constants"])
        + word("pairs", "node", NODE["pairs"], "ptr")
        + word("fill_count", "node", NODE["fills"])
        + word("sources", "node", NODE["sources"], "ptr")
        + "  br label %pair\n"
        + each_loop("pair", "%pair_count", pair, "fill")
        + each_loop("fill", "%fill_count", fill, "work")
        + "work:\n"
        + word("function", "node", NODE["run"], "ptr")
        + word("table", "node", NODE["table"], "ptr")
        + word("direct", "node", NODE["direct"])
        + word("extent", "node", NODE["extent"])
        + """  %is_direct = icmp ne i64 %direct, 0
  br i1 %releasing, label %work_free, label %work_held
work_held:
  br i1 %is_direct, label %kernel_held, label %steps_held
kernel_held:
  call void %function(ptr %slots, i64 0, i64 %extent)
  br label %worked
steps_held:
  call void %function(ptr %table, ptr %slots)
  br label %worked
work_free:
  %thread = call ptr @PyEval_SaveThread()
  br i1 %is_direct, label %kernel_free, label %steps_free
kernel_free:
  call void %function(ptr %slots, i64 0, i64 %extent)
  br label %resume
steps_free:
  call void %function(ptr %table, ptr %slots)
  br label %resume
resume:
  call void @PyEval_RestoreThread(ptr %thread)
  br label %worked
worked:
  %given_arena = load ptr, ptr %own_arena, align 8
  %had_none = icmp eq ptr %given_arena, null
  br i1 %had_none, label %let_go, label %give_arena
give_arena:
  call void @fgrad_arena_give(ptr %given_arena)
  br label %let_go
let_go:
  br i1 %holding, label %let_go_held, label %let_go_more
let_go_held:
  call void @fgrad_drop(ptr %late, i64 %copies)
  call void @fgrad_drop(ptr %regs, i64 %held_count)
  br label %let_go_more
let_go_more:
  br i1 %hot, label %let_go_old, label %check
let_go_old:
  call void @fgrad_drop(ptr %drops, i64 %count)
  br label %check
check:
"""
        + word("after", "node", NODE["after"], "ptr")
        + """  %unchecked = icmp eq ptr %after, null
  br i1 %unchecked, label %finish, label %ask
ask:
  %asked = call ptr (ptr, ...) @PyObject_CallFunctionObjArgs(ptr %after, ptr null)
  %refused = icmp eq ptr %asked, null
  call void @Py_DecRef(ptr %asked)
  br i1 %refused, label %fail_after, label %finish
finish:
"""
        + word("bools", "node", NODE["bools"])
        + """  %no_bools = icmp eq i64 %bools, 0
  br i1 %no_bools, label %together, label %bool
"""
        + _bools()
        + "together:\n"
        + word("program", "node", NODE["build"], "ptr")
        + word("depth", "node", NODE["depth"])
        + """  %single = icmp eq ptr %program, null
  br i1 %single, label %one, label %many
one:
  %only = load ptr, ptr %outs, align 8
  ret ptr %only
many:
  %result = call ptr @fgrad_build(ptr %program, i64 %depth, ptr %outs, i64 %count)
  ret ptr %result
fail_after:
  call void @fgrad_drop(ptr %outs, i64 %count)
  ret ptr null
fail_arena:
  %no_memory = call ptr @PyErr_NoMemory()
  br label %fail_records
fail_records:
  %made_count = phi i64 [ %count, %fail_arena ], [ %record_i, %record_one ]
  %left_count = phi i64 [ %count, %fail_arena ], [ %record_tried, %record_one ]
  call void @fgrad_drop(ptr %outs, i64 %made_count)
  call void @fgrad_drop(ptr %drops, i64 %left_count)
  call void @fgrad_drop(ptr %late, i64 %copies)
  br label %fail_regs
fail_regs:
  call void @fgrad_drop(ptr %regs, i64 %held_count)
  ret ptr null
}
"""
    )
