"""L5. The native entry as LLVM text: running a matched signature.

hold       own references to the arguments, if the GIL may be released before the work is done
record     make the results
arena      memory for temporaries, constants, results known beforehand
work       call the kernel or the host program
write      what was computed over arguments that are written, if nothing went wrong
let_go     give up what was held
finish     raise what went wrong; bools; containers
"""

from __future__ import annotations

from fgrad.compile.entry.fields import NODE, RECORD, RECORD_SIZE
from fgrad.compile.llvm import interrupts
from fgrad.compile.llvm.abi import Layout
from fgrad.compile.llvm.blocks import each_loop, member, put, word
from fgrad.compile.llvm.signals import CELLS

HOT = 16  # calls after which result arrays are kept for use again
ASKED, REFUSED = 1, 2  # what `after` has said before arguments are written
STACK_ARENA = 8192  # bytes of temporaries taken from the stack

DECLARATIONS = {
    "@fgrad_byte_0 = internal constant i8 0",
    "@fgrad_byte_1 = internal constant i8 1",
    "@fgrad_numpy_true = external global i8",
    "@fgrad_numpy_false = external global i8",
    "declare ptr @PyArray_NewCopy(ptr, i32)",
    "declare ptr @PyErr_NoMemory()",
    "declare void @PyEval_RestoreThread(ptr)",
    "declare ptr @PyEval_SaveThread()",
    "declare void @PyErr_Clear()",
    *interrupts.DECLARATIONS,
}


def run_text(at: Layout) -> str:
    """`run(node, regs, slots, cells, late, copies)`: the result, or null with an error set."""
    return (
        "define internal ptr @fgrad_run(ptr %node, ptr %regs, ptr %slots, ptr %cells, ptr %late, "
        "i64 %copies) #0 {\nentry:\n"
        + _start()
        + _hold(at)
        + _records()
        + _arena()
        + _known()
        + _work()
        + _write(at)
        + _let_go()
        + _finish()
        + _fail()
    )


def _start() -> str:
    return (
        word("count", "node", NODE["outputs"])
        + word("records", "node", NODE["records"], "ptr")
        + word("register_count", "node", NODE["registers"])
        + word("release", "node", NODE["release"])
        + word("recycling", "node", NODE["recycle"])
        + """  %outs = alloca ptr, i64 %count, align 8
  %drops = alloca ptr, i64 %count, align 8
  %own_arena = alloca ptr, align 8
  %asked_before = alloca i64, align 8
  store i64 0, ptr %asked_before, align 8
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
"""
        + word("owns", "node", NODE["owns"])
        + word("nargs", "node", NODE["nargs"])
        + word("keywords", "node", NODE["keywords"])
        + """  %owning = icmp ne i64 %owns, 0
  %arguments = add i64 %nargs, %keywords
  %borrowed = select i1 %owning, i64 %arguments, i64 %register_count
  %delayed = or i1 %releasing, %copying
  %holding = or i1 %delayed, %owning
  %held_count = select i1 %holding, i64 %register_count, i64 0
  br i1 %holding, label %hold, label %record
"""
    )


def _hold(at: Layout) -> str:
    """Blocks that hold the arguments, and replace those that are not contiguous by copies."""
    hold = word("held", "regs", "%hold_i", "ptr") + "  call void @Py_IncRef(ptr %held)\n"
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
    return (
        each_loop("hold", "%borrowed", hold, "copy")
        + each_loop("copy", "%copies", body, "prepared")
        + "copy_fail:\n  call void @fgrad_drop(ptr %late, i64 %copy_i)\n  br label %fail_regs\n"
        + "prepared:\n  br label %record\n"
    )


def _records() -> str:
    record = (
        f"  %record_step = mul i64 %record_i, {RECORD_SIZE}\n"
        "  %this_record = getelementptr i64, ptr %records, i64 %record_step\n"
        "  %out = getelementptr ptr, ptr %outs, i64 %record_i\n"
        "  %drop = getelementptr ptr, ptr %drops, i64 %record_i\n"
        "  %made = call i1 @fgrad_prepare(ptr %this_record, i1 %hot, ptr %out, ptr %drop, "
        "ptr %slots, ptr %cells, ptr %node, ptr %regs)\n"
        "  %record_tried = add i64 %record_i, 1\n"
        "  br i1 %made, label %record_next, label %fail_records\nrecord_never:\n"
    )
    return each_loop("record", "%count", record, "arena")


def _arena() -> str:
    return (
        "arena:\n"
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
  %pooled = call ptr @fgrad_malloc(ptr null, i64 %arena_bytes)
  %no_memory_left = icmp eq ptr %pooled, null
  br i1 %no_memory_left, label %fail_arena, label %keep_arena
keep_arena:
  store ptr %pooled, ptr %own_arena, align 8
  br label %place_arena
place_arena:
  %place = phi ptr [ %on_stack, %stack_arena ], [ %pooled, %keep_arena ]
"""
        + put("place", "slots", "%arena_slot", "%place")
        + "  br label %constants\n"
    )


def _known() -> str:
    """Blocks for constants and for results that are known beforehand."""
    pair = (
        "  %pair_step = mul i64 %pair_i, 2\n"
        "  %this_pair = getelementptr i64, ptr %pairs, i64 %pair_step\n"
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
        "constants:\n"
        + word("pair_count", "node", NODE["constants"])
        + word("pairs", "node", NODE["pairs"], "ptr")
        + word("fill_count", "node", NODE["fills"])
        + word("sources", "node", NODE["sources"], "ptr")
        + "  br label %pair\n"
        + each_loop("pair", "%pair_count", pair, "fill")
        + each_loop("fill", "%fill_count", fill, "work")
    )


def _work() -> str:
    return (
        "work:\n"
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
"""
    )


def _write(at: Layout) -> str:
    """Blocks that copy what could not be computed in the memory of an argument into it."""
    copy = (
        _record_of("write")
        + """  %write_nothing = icmp eq i64 %write_target, 0
  br i1 %write_nothing, label %write_next, label %write_some
write_some:
"""
        + word("new", "outs", "%write_i", "ptr")
        + member("new_data", "new", at.data)
        + """  %write_register = sub i64 %write_target, 1
"""
        + word("old", "regs", "%write_register", "ptr")
        + member("old_data", "old", at.data)
        + """  %write_there = icmp eq ptr %old_data, %new_data
  br i1 %write_there, label %write_next, label %write_copy
write_copy:
"""
        + word("write_bytes", "write_record", RECORD["bytes"])
        + "  %written = call ptr @memcpy(ptr %old_data, ptr %new_data, i64 %write_bytes)\n"
    )
    return (
        f"""worked:
  %maybe_stopped = load volatile i64, ptr @{CELLS}, align 8
  %surely_on = icmp eq i64 %maybe_stopped, 0
  br i1 %surely_on, label %settled, label %doubt
doubt:
  %told = call i64 @{interrupts.POLL}()
  br label %settled
settled:
  %stopped = phi i64 [ 0, %worked ], [ %told, %doubt ]
  %is_on = icmp eq i64 %stopped, 0
  %given_arena = load ptr, ptr %own_arena, align 8
  %had_none = icmp eq ptr %given_arena, null
  br i1 %had_none, label %arena_given, label %give_arena
give_arena:
  call void @fgrad_free(ptr null, ptr %given_arena, i64 %arena_bytes)
  br label %arena_given
arena_given:
"""
        + word("writes", "node", NODE["writes"])
        + """  %writing = icmp ne i64 %writes, 0
  %writing_now = and i1 %writing, %is_on
  br i1 %writing_now, label %may_write, label %let_go
may_write:
"""
        + word("first", "node", NODE["after"], "ptr")
        + f"""  %trusted = icmp eq ptr %first, null
  br i1 %trusted, label %write, label %ask_first
ask_first:
  %answer = call ptr (ptr, ...) @PyObject_CallFunctionObjArgs(ptr %first, ptr null)
  %wrong = icmp eq ptr %answer, null
  call void @Py_DecRef(ptr %answer)
  %outcome = select i1 %wrong, i64 {REFUSED}, i64 {ASKED}
  store i64 %outcome, ptr %asked_before, align 8
  br i1 %wrong, label %let_go, label %write
"""
        + each_loop("write", "%count", copy, "let_go")
    )


def _record_of(label: str) -> str:
    """The text that finds the record of a result, and the argument over which it is written."""
    return (
        f"  %{label}_step = mul i64 %{label}_i, {RECORD_SIZE}\n"
        f"  %{label}_record = getelementptr i64, ptr %records, i64 %{label}_step\n"
        + word(f"{label}_target", f"{label}_record", RECORD["written"])
    )


def _unreturned() -> str:
    """Blocks that give up what was computed for arguments."""
    drop = (
        _record_of("unreturned")
        + """  %kept = icmp eq i64 %unreturned_target, 0
  br i1 %kept, label %unreturned_next, label %unreturned_some
unreturned_some:
"""
        + word("stored", "outs", "%unreturned_i", "ptr")
        + "  store ptr null, ptr %stored_at, align 8\n  call void @Py_DecRef(ptr %stored)\n"
    )
    return each_loop("unreturned", "%count", drop, "contain")


def _let_go() -> str:
    return """let_go:
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
"""


def _finish() -> str:
    return (
        f"""check:
  %known = load i64, ptr %asked_before, align 8
  switch i64 %known, label %check_now [
    i64 {ASKED}, label %finish
    i64 {REFUSED}, label %fail_after
  ]
check_now:
"""
        + word("after", "node", NODE["after"], "ptr")
        + """  br i1 %is_on, label %noted, label %stop
noted:
  %unchecked = icmp eq ptr %after, null
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
        + "together:\n  br i1 %writing, label %unreturned, label %contain\n"
        + _unreturned()
        + "contain:\n"
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
"""
    )


def _fail() -> str:
    return f"""stop:
  %none_noted = icmp eq ptr %after, null
  br i1 %none_noted, label %raise, label %forget
forget:
  %noted_one = call ptr (ptr, ...) @PyObject_CallFunctionObjArgs(ptr %after, ptr null)
  call void @Py_DecRef(ptr %noted_one)
  call void @PyErr_Clear()
  br label %raise
raise:
  call void @{interrupts.RAISE}()
  br label %fail_after
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
}}
"""


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
