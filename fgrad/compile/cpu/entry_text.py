"""L5. The native entry of jitted functions as LLVM text: matching a call to a signature.

One function serves all jitted functions and signatures; tables of int64 words drive it
(`entry_table`):

    entry    walks the chain of signatures of the callee; none fits: the method `__call__`
    attempt  matches one signature, brings it to the front of the chain, and runs it
    match    compares the arguments with the signature's program, and collects addresses

No Python code can run while borrowed references are held: what may release the GIL or free an
object comes after the arguments are held, or after the compiled code has run.
"""

from __future__ import annotations

from fgrad.compile.cpu import entry_build, entry_pool, entry_results, entry_run
from fgrad.compile.cpu.entry_abi import DESCR_MASK, USABLE, WORD, Layout
from fgrad.compile.cpu.entry_blocks import (
    ARRAY,
    BOOL,
    DICT,
    END,
    FIELDS,
    INT,
    LIST,
    NODE,
    PLACE,
    SAME,
    TUPLE,
    copy_loop,
    each_loop,
    member,
    put,
    word,
)
from fgrad.compile.cpu.entry_build import build_text
from fgrad.compile.cpu.entry_pool import pool_text
from fgrad.compile.cpu.entry_results import results_text
from fgrad.compile.cpu.entry_run import run_text

EXPORTS = ("entry", "link", *entry_pool.NAMES)

DECLARATIONS = {
    "@fgrad_ndarray = external global i8",
    "@fgrad_int = external global i8",
    "@fgrad_bool = external global i8",
    "@fgrad_str = external global i8",
    "@fgrad_list = external global i8",
    "@fgrad_dict = external global i8",
    "@fgrad_true = external global i8",
    "@fgrad_call_name = external global i8",
    "@fgrad_epoch = external global i64",
    "declare void @PyErr_Clear()",
    "declare ptr @PyObject_GetAttr(ptr, ptr)",
    "declare i32 @PyDict_Next(ptr, ptr, ptr, ptr)",
    "declare i64 @PyDict_Size(ptr)",
    "declare i64 @PyLong_AsLongLongAndOverflow(ptr, ptr)",
    "declare i32 @PyObject_RichCompareBool(ptr, ptr, i32)",
    "declare ptr @PyObject_VectorcallMethod(ptr, ptr, i64, ptr)",
}


def emit_entry(symbol: str, at: Layout) -> tuple[str, set[str]]:
    """The text of `void symbol(ptr table)`, which writes the addresses of `EXPORTS` into a table,
    and of all that they need; and the declarations."""
    others = [pool_text(), results_text(at), build_text(), run_text(at)]
    parts = [*others, _match(at), _slow(at), _attempt(at), _entry(at), _link(at), _exports(symbol)]
    declarations = (DECLARATIONS, entry_pool.DECLARATIONS, entry_results.DECLARATIONS)
    return "\n".join(parts), set().union(
        *declarations, entry_build.DECLARATIONS, entry_run.DECLARATIONS
    )


def _exports(symbol: str) -> str:
    stores = [
        f"  %at{k} = getelementptr ptr, ptr %table, i64 {k}\n"
        f"  store ptr @fgrad_{name}, ptr %at{k}, align 8\n"
        for k, name in enumerate(EXPORTS)
    ]
    return f"define void @{symbol}(ptr %table) #0 {{\nentry:\n{''.join(stores)}  ret void\n}}"


def _link(at: Layout) -> str:
    """`void link(ptr callee, ptr node)`: put a signature in front of the chain."""
    return (
        "define internal void @fgrad_link(ptr %callee, ptr %node) #0 {\nentry:\n"
        + member("head", "callee", at.header + WORD)
        + "  store ptr %head, ptr %node, align 8\n"
        + "  store ptr %node, ptr %head_at, align 8\n  ret void\n}\n"
    )


# --- matching -------------------------------------------------------------------------------------


def _match(at: Layout) -> str:
    """Compare arguments with the program of a signature.

    Returns -1 if they differ, else the number of arrays that must be copied first because they are
    not contiguous or not aligned; `late` then holds their instructions.
    """
    return (
        """define internal i64 @fgrad_match(ptr %program, ptr %regs, ptr %slots, \
ptr %cells, ptr %late, i64 %own_from) #0 {
entry:
  %owning = icmp sge i64 %own_from, 0
  %filled = alloca i64, align 8
  store i64 %own_from, ptr %filled, align 8
  %position = alloca i64, align 8
  %key_cell = alloca ptr, align 8
  %value_cell = alloca ptr, align 8
  %overflow = alloca i32, align 4
  br label %step
step:
  %pc = phi ptr [ %program, %entry ], [ %following, %advance ]
  %copies = phi i64 [ 0, %entry ], [ %copies_now, %advance ]
"""
        + word("op", "pc", 0)
        + word("source", "pc", 1)
        + word("slot", "pc", 2)
        + f"  %ended = icmp eq i64 %op, {END}\n"
        + "  br i1 %ended, label %yes, label %look\nlook:\n"
        + word("object", "regs", "%source", "ptr")
        + member("type", "object", at.type)
        + "  switch i64 %op, label %no [\n"
        + f"    i64 {ARRAY}, label %array\n    i64 {PLACE}, label %place\n"
        + f"    i64 {INT}, label %int\n    i64 {BOOL}, label %bool\n"
        + f"    i64 {SAME}, label %same\n    i64 {LIST}, label %list\n"
        + f"    i64 {TUPLE}, label %tuple\n    i64 {DICT}, label %dict\n"
        + f"    i64 {FIELDS}, label %fields\n  ]\n"
        + _match_array(at)
        + _match_scalars(at)
        + _match_sequences(at)
        + _match_dict(at)
        + _match_fields()
        + _own_items()
        + _match_ends()
    )


def _match_ends() -> str:
    """Blocks that go on behind an instruction, and the two ends."""
    return """advance:
  %size = phi i64 [ %a_size, %array_done ], [ %a_size, %array_late ], [ 4, %place_done ], \
[ 4, %int_done ], [ 3, %bool_done ], [ 3, %same ], [ %c_size, %contained ], \
[ %c_size, %owned ], [ %f_size, %field_test ]
  %copies_now = phi i64 [ %copies, %array_done ], [ %copies_more, %array_late ], \
[ %copies, %place_done ], [ %copies, %int_done ], [ %copies, %bool_done ], [ %copies, %same ], \
[ %copies, %contained ], [ %copies, %owned ], [ %copies, %field_test ]
  %following = getelementptr i64, ptr %pc, i64 %size
  br label %step
yes:
  ret i64 %copies
no:
  br i1 %owning, label %disown, label %differ
disown:
  %own_to = load i64, ptr %filled, align 8
  %own_count = sub i64 %own_to, %own_from
  %own_first = getelementptr ptr, ptr %regs, i64 %own_from
  call void @fgrad_drop(ptr %own_first, i64 %own_count)
  br label %differ
differ:
  ret i64 -1
}
"""
