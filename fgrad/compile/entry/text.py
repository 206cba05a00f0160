"""L5. The native entry of jitted functions as LLVM text: matching a call to a signature.

One function serves all jitted functions and signatures; tables of int64 words drive it
(`table.py`):

    entry    tries the signatures of equal hash, and all of the callee; none fits: `__call__`
    attempt  matches one signature, brings it to the front of the chain, and runs it
    match    compares the arguments with the signature's program, and collects addresses

A signature counts the calls that are at it, so that it is not freed under them when it is taken out
of the chain meanwhile.

No Python code can run while borrowed references are held: what may release the GIL or free an
object comes after the arguments are held, or after the compiled code has run.
"""

from __future__ import annotations

from fgrad.compile.entry import build as entry_build
from fgrad.compile.entry import pool as entry_pool
from fgrad.compile.entry import results as entry_results
from fgrad.compile.entry import run as entry_run
from fgrad.compile.entry.apart import beside_text, match_apart
from fgrad.compile.entry.build import build_text
from fgrad.compile.entry.chain import chain_text
from fgrad.compile.entry.fields import (
    APART,
    ARRAY,
    BOOL,
    DICT,
    END,
    EXPORTS,
    FIELDS,
    INT,
    LIST,
    NODE,
    PLACE,
    SAME,
    TUPLE,
)
from fgrad.compile.entry.find import find_text
from fgrad.compile.entry.outside import outside_text
from fgrad.compile.entry.pool import pool_text
from fgrad.compile.entry.results import results_text
from fgrad.compile.entry.run import run_text
from fgrad.compile.llvm.abi import DESCR_MASK, USABLE, Layout
from fgrad.compile.llvm.blocks import copy_loop, each_loop, member, put, word

DECLARATIONS = {
    "@fgrad_ndarray = external global i8",
    "@fgrad_int = external global i8",
    "@fgrad_bool = external global i8",
    "@fgrad_str = external global i8",
    "@fgrad_list = external global i8",
    "@fgrad_dict = external global i8",
    "@fgrad_tuple = external global i8",
    "@fgrad_true = external global i8",
    "@fgrad_call_name = external global i8",
    "@fgrad_epoch = external global i64",
    "declare void @PyErr_Clear()",
    "declare ptr @PyObject_GetAttr(ptr, ptr)",
    "declare i32 @PyDict_Next(ptr, ptr, ptr, ptr)",
    "declare i64 @PyDict_Size(ptr)",
    "declare ptr @PyDict_GetItemWithError(ptr, ptr)",
    "declare i32 @memcmp(ptr, ptr, i64)",
    "declare i64 @PyLong_AsLongLongAndOverflow(ptr, ptr)",
    "declare i32 @PyObject_RichCompareBool(ptr, ptr, i32)",
    "declare ptr @PyObject_VectorcallMethod(ptr, ptr, i64, ptr)",
}


def emit_entry(symbol: str, at: Layout) -> tuple[str, set[str]]:
    """The text of `void symbol(ptr table)`, which writes the addresses of `EXPORTS` into a table,
    and of all that they need; and the declarations."""
    others = [pool_text(), results_text(at), build_text(), run_text(at)]
    parts = [
        *others,
        beside_text(at),
        _match(at),
        _slow(at),
        _attempt(at),
        find_text(at),
        chain_text(at),
        _exports(symbol),
    ]
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
        + f"  %of_arguments = icmp slt i64 %op, {END}\n"
        + "  br i1 %of_arguments, label %look, label %outside\nlook:\n"
        + word("object", "regs", "%source", "ptr")
        + member("type", "object", at.type)
        + "  switch i64 %op, label %no [\n"
        + f"    i64 {ARRAY}, label %array\n    i64 {PLACE}, label %place\n"
        + f"    i64 {INT}, label %int\n    i64 {BOOL}, label %bool\n"
        + f"    i64 {SAME}, label %same\n    i64 {LIST}, label %list\n"
        + f"    i64 {TUPLE}, label %tuple\n    i64 {DICT}, label %dict\n"
        + f"    i64 {FIELDS}, label %fields\n    i64 {APART}, label %apart\n  ]\n"
        + _match_array(at)
        + _match_scalars(at)
        + _match_sequences(at)
        + _match_dict(at)
        + _match_fields()
        + match_apart(at)
        + _own_items()
        + outside_text(at)
        + _match_ends()
    )


def _match_ends() -> str:
    """Blocks that go on behind an instruction, and the two ends."""
    return """advance:
  %size = phi i64 [ %a_size, %array_done ], [ %a_size, %array_late ], [ 4, %place_done ], \
[ 4, %int_done ], [ 3, %bool_done ], [ 3, %same ], [ %c_size, %contained ], \
[ %c_size, %owned ], [ %f_size, %field_test ], [ %w_size, %other_test ], [ %o_size, %outside_done ]
  %copies_now = phi i64 [ %copies, %array_done ], [ %copies_more, %array_late ], \
[ %copies, %place_done ], [ %copies, %int_done ], [ %copies, %bool_done ], [ %copies, %same ], \
[ %copies, %contained ], [ %copies, %owned ], [ %copies, %field_test ], \
[ %copies, %other_test ], [ %copies, %outside_done ]
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


def _match_array(at: Layout) -> str:
    """[ARRAY, source, slot, dtype word, ndim, dims...]"""
    return (
        "array:\n  %a_is = icmp eq ptr %type, @fgrad_ndarray\n"
        + "  br i1 %a_is, label %array_kind, label %no\narray_kind:\n"
        + member("a_descr", "object", at.descr)
        + member("a_word", "a_descr", at.descr_word, "i64")
        + f"  %a_kind = and i64 %a_word, {DESCR_MASK}\n"
        + word("a_want", "pc", 3)
        + word("a_rank", "pc", 4)
        + member("a_ndim", "object", at.ndim, "i32")
        + """  %a_found = zext i32 %a_ndim to i64
  %a_same_kind = icmp eq i64 %a_kind, %a_want
  %a_same_rank = icmp eq i64 %a_found, %a_rank
  %a_same = and i1 %a_same_kind, %a_same_rank
  br i1 %a_same, label %array_dims, label %no
array_dims:
"""
        + member("a_dims", "object", at.dims)
        + """  %a_wanted = getelementptr i64, ptr %pc, i64 5
  br label %dim
dim:
  %a_i = phi i64 [ 0, %array_dims ], [ %a_j, %dim_same ]
  %a_more = icmp slt i64 %a_i, %a_rank
  br i1 %a_more, label %dim_one, label %array_data
dim_one:
"""
        + word("a_dim", "a_dims", "%a_i")
        + word("a_dim_wanted", "a_wanted", "%a_i")
        + """  %a_dim_same = icmp eq i64 %a_dim, %a_dim_wanted
  br i1 %a_dim_same, label %dim_same, label %no
dim_same:
  %a_j = add i64 %a_i, 1
  br label %dim
array_data:
"""
        + member("a_flags", "object", at.flags, "i32")
        + member("a_data", "object", at.data)
        + put("a_data", "slots", "%slot", "%a_data")
        + f"""  %a_size = add i64 %a_rank, 5
  %a_usable = and i32 %a_flags, {USABLE}
  %a_ready = icmp eq i32 %a_usable, {USABLE}
  br i1 %a_ready, label %array_done, label %array_late
array_done:
  br label %advance
array_late:
"""
        + put("a_late", "late", "%copies", "%pc")
        + "  %copies_more = add i64 %copies, 1\n  br label %advance\n"
    )


def _match_scalars(at: Layout) -> str:
    """[PLACE, source, slot, type]  [INT, source, slot, cell]  [BOOL, source, slot]
    [SAME, source, object]"""
    return (
        "place:\n"
        + word("p_type", "pc", 3, "ptr")
        + "  %p_is = icmp eq ptr %type, %p_type\n"
        + "  br i1 %p_is, label %place_done, label %no\nplace_done:\n"
        + f"  %p_value = getelementptr i8, ptr %object, i64 {at.header}\n"
        + put("p_value", "slots", "%slot", "%p_value")
        + "  br label %advance\nint:\n  %i_is = icmp eq ptr %type, @fgrad_int\n"
        + "  br i1 %i_is, label %int_value, label %no\nint_value:\n"
        + "  %i_value = call i64 @PyLong_AsLongLongAndOverflow(ptr %object, ptr %overflow)\n"
        + "  %i_over = load i32, ptr %overflow, align 4\n  %i_fits = icmp eq i32 %i_over, 0\n"
        + "  br i1 %i_fits, label %int_done, label %no\nint_done:\n"
        + word("i_cell", "pc", 3)
        + """  %i_place = getelementptr i64, ptr %cells, i64 %i_cell
  store i64 %i_value, ptr %i_place, align 8
"""
        + put("i_value", "slots", "%slot", "%i_place")
        + """  br label %advance
bool:
  %b_is = icmp eq ptr %type, @fgrad_bool
  br i1 %b_is, label %bool_done, label %no
bool_done:
  %b_true = icmp eq ptr %object, @fgrad_true
  %b_place = select i1 %b_true, ptr @fgrad_byte_1, ptr @fgrad_byte_0
"""
        + put("b_value", "slots", "%slot", "%b_place")
        + """  br label %advance
same:
  %s_wanted = inttoptr i64 %slot to ptr
  %s_is = icmp eq ptr %object, %s_wanted
  br i1 %s_is, label %advance, label %no
"""
    )


def _match_sequences(at: Layout) -> str:
    """[LIST, source, count, first register]  [TUPLE, source, count, first register, type]"""
    return (
        "list:\n  %l_is = icmp eq ptr %type, @fgrad_list\n"
        + "  br i1 %l_is, label %list_size, label %no\nlist_size:\n"
        + member("l_count", "object", at.size, "i64")
        + "  %l_fits = icmp eq i64 %l_count, %slot\n"
        + "  br i1 %l_fits, label %list_items, label %no\nlist_items:\n"
        + member("l_items", "object", at.list_items)
        + word("l_first", "pc", 3)
        + "  %l_target = getelementptr ptr, ptr %regs, i64 %l_first\n"
        + "  br label %list_spread\n"
        + copy_loop("list_spread", "%l_target", "%l_items", "%slot", "contained")
        + "tuple:\n"
        + word("t_type", "pc", 4, "ptr")
        + "  %t_is = icmp eq ptr %type, %t_type\n"
        + "  br i1 %t_is, label %tuple_size, label %no\ntuple_size:\n"
        + member("t_count", "object", at.size, "i64")
        + "  %t_fits = icmp eq i64 %t_count, %slot\n"
        + "  br i1 %t_fits, label %tuple_items, label %no\ntuple_items:\n"
        + f"  %t_items = getelementptr i8, ptr %object, i64 {at.tuple_items}\n"
        + word("t_first", "pc", 3)
        + "  %t_target = getelementptr ptr, ptr %regs, i64 %t_first\n"
        + "  br label %tuple_spread\n"
        + copy_loop("tuple_spread", "%t_target", "%t_items", "%slot", "contained")
    )


def _match_dict(at: Layout) -> str:
    """[DICT, source, count, first register, keys...]

    Keys that are other objects than those of the signature are compared by value if both are
    strings or both are integers, whose comparison runs no Python code.
    """
    body = (
        "  %d_got = call i32 @PyDict_Next(ptr %object, ptr %position, ptr %key_cell, "
        "ptr %value_cell)\n"
        "  %d_ended = icmp eq i32 %d_got, 0\n"
        "  br i1 %d_ended, label %no, label %dict_key\ndict_key:\n"
        "  %d_key = load ptr, ptr %key_cell, align 8\n"
        + word("d_wanted", "d_keys", "%dict_items_i", "ptr")
        + "  %d_identical = icmp eq ptr %d_key, %d_wanted\n"
        "  br i1 %d_identical, label %dict_value, label %dict_compare\ndict_compare:\n"
        + member("d_key_type", "d_key", at.type)
        + member("d_wanted_type", "d_wanted", at.type)
        + """  %d_like = icmp eq ptr %d_key_type, %d_wanted_type
  %d_str = icmp eq ptr %d_key_type, @fgrad_str
  %d_int = icmp eq ptr %d_key_type, @fgrad_int
  %d_plain = or i1 %d_str, %d_int
  %d_comparable = and i1 %d_like, %d_plain
  br i1 %d_comparable, label %dict_equal, label %no
dict_equal:
  %d_result = call i32 @PyObject_RichCompareBool(ptr %d_key, ptr %d_wanted, i32 2)
  %d_equal = icmp eq i32 %d_result, 1
  br i1 %d_equal, label %dict_value, label %no
dict_value:
  %d_value = load ptr, ptr %value_cell, align 8
"""
        + put("d_value", "d_target", "%dict_items_i", "%d_value")
    )
    return (
        "dict:\n  %d_is = icmp eq ptr %type, @fgrad_dict\n"
        + "  br i1 %d_is, label %dict_size, label %no\ndict_size:\n"
        + "  %d_count = call i64 @PyDict_Size(ptr %object)\n"
        + "  %d_fits = icmp eq i64 %d_count, %slot\n"
        + "  br i1 %d_fits, label %dict_begin, label %no\ndict_begin:\n"
        + "  store i64 0, ptr %position, align 8\n"
        + word("d_first", "pc", 3)
        + "  %d_target = getelementptr ptr, ptr %regs, i64 %d_first\n"
        + "  %d_keys = getelementptr i64, ptr %pc, i64 4\n"
        + "  %d_size = add i64 %slot, 4\n  br label %dict_items\n"
        + each_loop("dict_items", "%slot", body, "contained")
    )


def _match_fields() -> str:
    """[FIELDS, source, count, first register, class, names...]

    The attributes of a dataclass.  A class that was changed meanwhile may run Python code here, so
    that programs with this instruction own what stands in their registers.
    """
    body = (
        word("f_name", "f_names", "%field_i", "ptr")
        + """  %f_value = call ptr @PyObject_GetAttr(ptr %object, ptr %f_name)
  %f_none = icmp eq ptr %f_value, null
  br i1 %f_none, label %field_none, label %field_some
field_none:
  call void @PyErr_Clear()
  br label %no
field_some:
"""
        + put("f_value", "f_target", "%field_i", "%f_value")
        + "  %f_reached = add i64 %f_first, %field_i\n  %f_filled = add i64 %f_reached, 1\n"
        + "  store i64 %f_filled, ptr %filled, align 8\n"
    )
    return (
        "fields:\n"
        + word("f_type", "pc", 4, "ptr")
        + "  %f_is = icmp eq ptr %type, %f_type\n"
        + "  br i1 %f_is, label %fields_begin, label %no\nfields_begin:\n"
        + word("f_first", "pc", 3)
        + "  %f_target = getelementptr ptr, ptr %regs, i64 %f_first\n"
        + "  %f_names = getelementptr i64, ptr %pc, i64 5\n"
        + "  %f_size = add i64 %slot, 5\n  br label %field\n"
        + each_loop("field", "%slot", body, "advance")
    )


def _own_items() -> str:
    """Blocks that hold the items of a container, in programs that own their registers."""
    body = word("c_item", "c_items", "%own_i", "ptr") + "  call void @Py_IncRef(ptr %c_item)\n"
    return (
        """contained:
  %c_size = phi i64 [ 4, %list_spread_test ], [ 5, %tuple_spread_test ], \
[ %d_size, %dict_items_test ]
  %c_first = phi i64 [ %l_first, %list_spread_test ], [ %t_first, %tuple_spread_test ], \
[ %d_first, %dict_items_test ]
  %c_items = getelementptr ptr, ptr %regs, i64 %c_first
  br i1 %owning, label %own, label %advance
"""
        + each_loop("own", "%slot", body, "owned")
        + """owned:
  %c_filled = add i64 %c_first, %slot
  store i64 %c_filled, ptr %filled, align 8
  br label %advance
"""
    )


# --- calling --------------------------------------------------------------------------------------


def _slow(at: Layout) -> str:
    """Call the method `__call__` of the callee's class with the same arguments."""
    return (
        """define internal ptr @fgrad_slow(ptr %callee, ptr %args, i64 %nargs, ptr %kwnames) #0 {
entry:
  %has = icmp ne ptr %kwnames, null
  br i1 %has, label %some, label %room
some:
"""
        + member("count", "kwnames", at.size, "i64")
        + """  br label %room
room:
  %keywords = phi i64 [ 0, %entry ], [ %count, %some ]
  %total = add i64 %nargs, %keywords
  %length = add i64 %total, 2
  %vector = alloca ptr, i64 %length, align 8
  %first = getelementptr ptr, ptr %vector, i64 1
  store ptr %callee, ptr %first, align 8
  %target = getelementptr ptr, ptr %vector, i64 2
  br label %move
"""
        + copy_loop("move", "%target", "%args", "%total", "call")
        + """call:
  %positional = add i64 %nargs, 1
  %flagged = or i64 %positional, -9223372036854775808
  %result = call ptr @PyObject_VectorcallMethod(ptr @fgrad_call_name, ptr %first, i64 %flagged, \
ptr %kwnames)
  ret ptr %result
}
"""
    )


def _attempt(at: Layout) -> str:
    """Match one signature and run it; the address 1 if it does not fit, null with an error set."""
    same_name = (
        word("name_given", "given_names", "%name_i", "ptr")
        + word("name_wanted", "names", "%name_i", "ptr")
        + "  %name_same = icmp eq ptr %name_given, %name_wanted\n"
        + "  br i1 %name_same, label %name_next, label %no\n"
        + "name_never:\n"
    )
    return (
        """define internal ptr @fgrad_attempt(ptr %callee, ptr %node, ptr %args, i64 %nargs, \
ptr %kwnames, i64 %hash) #0 {
entry:
"""
        + word("epoch", "node", NODE["epoch"])
        + word("wanted", "node", NODE["nargs"])
        + word("keywords", "node", NODE["keywords"])
        + """  %epoch_now = load i64, ptr @fgrad_epoch, align 8
  %epoch_same = icmp eq i64 %epoch, %epoch_now
  %nargs_same = icmp eq i64 %nargs, %wanted
  %plausible = and i1 %epoch_same, %nargs_same
  br i1 %plausible, label %named, label %no
named:
  %has_names = icmp ne ptr %kwnames, null
  br i1 %has_names, label %count_names, label %no_names
no_names:
  %none_wanted = icmp eq i64 %keywords, 0
  br i1 %none_wanted, label %ready, label %no
count_names:
"""
        + member("names_given", "kwnames", at.size, "i64")
        + word("names", "node", NODE["names"], "ptr")
        + f"""  %names_fit = icmp eq i64 %names_given, %keywords
  %given_names = getelementptr i8, ptr %kwnames, i64 {at.tuple_items}
  br i1 %names_fit, label %name, label %no
"""
        + each_loop("name", "%keywords", same_name, "ready")
        + "ready:\n"
        + word("register_count", "node", NODE["registers"])
        + word("slot_count", "node", NODE["slots"])
        + word("cell_count", "node", NODE["cells"])
        + word("program", "node", NODE["program"], "ptr")
        + """  %regs = alloca ptr, i64 %register_count, align 8
  %slots = alloca ptr, i64 %slot_count, align 8
  %cells = alloca i64, i64 %cell_count, align 8
  %late = alloca ptr, i64 %slot_count, align 8
  %total = add i64 %nargs, %keywords
"""
        + word("owns", "node", NODE["owns"])
        + """  %borrowing = icmp eq i64 %owns, 0
  %own_from = select i1 %borrowing, i64 -1, i64 %total
  br label %spread
"""
        + copy_loop("spread", "%regs", "%args", "%total", "compare")
        + _matched(at)
    )


def _matched(at: Layout) -> str:
    """Blocks that match, bring the signature to the front, and run it."""
    return (
        """compare:
  %copies = call i64 @fgrad_match(ptr %program, ptr %regs, ptr %slots, ptr %cells, ptr %late, \
i64 %own_from)
  %fits = icmp sge i64 %copies, 0
  br i1 %fits, label %matched, label %no
matched:
"""
        + f"  %used_at = getelementptr i64, ptr %node, i64 {NODE['used']}\n"
        + "  store i64 1, ptr %used_at, align 8\n"
        + """  call void @fgrad_insert(ptr %callee, ptr %node, i64 %hash)
  call void @fgrad_front(ptr %callee, ptr %node)
  br label %run
run:
  %result = call ptr @fgrad_run(ptr %node, ptr %regs, ptr %slots, ptr %cells, ptr %late, \
i64 %copies)
  ret ptr %result
no:
  ret ptr inttoptr (i64 1 to ptr)
}
"""
    )
