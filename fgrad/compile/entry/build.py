"""L5. The native entry as LLVM text: leaves of a result -> containers.

    [LEAF, number]  [PUSH, object]  [MAKE_TUPLE, n]  [MAKE_LIST, n]  [MAKE_DICT, n, keys...]
    [MAKE_NAMED, n, class, its tp_new]  [CALL, n, function of a tuple]  [RETURN, 0]

A postfix program over a small stack: each instruction replaces the last n objects by one.
"""

from __future__ import annotations

from fgrad.compile.entry.fields import (
    CALL,
    LEAF,
    MAKE_DICT,
    MAKE_LIST,
    MAKE_NAMED,
    MAKE_TUPLE,
    PUSH,
)
from fgrad.compile.llvm.blocks import each_loop, put, word

DECLARATIONS = {
    "declare ptr @PyDict_New()",
    "declare i32 @PyDict_SetItem(ptr, ptr, ptr)",
    "declare ptr @PyList_New(i64)",
    "declare i32 @PyList_SetItem(ptr, i64, ptr)",
    "declare ptr @PyObject_CallFunctionObjArgs(ptr, ...)",
    "declare ptr @PyTuple_New(i64)",
    "declare i32 @PyTuple_SetItem(ptr, i64, ptr)",
}


def build_text() -> str:
    """`build(program, depth, leaves, count)`: the result, or null with an error set.

    It takes the leaves over: those that are not in the result are given up.
    """
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
        + "  %fixed = inttoptr i64 %count to ptr\n"
        + "  call void @Py_IncRef(ptr %fixed)\n  br label %push\n"
        + _sequence("tuple", "Tuple")
        + "  br label %push\n"
        + _sequence("list", "List")
        + "  br label %push\n"
        + _dict()
        + _named()
        + _called()
        + _push()
        + _ends()
    )


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


def _dict() -> str:
    set_item = (
        word("value", "items", "%dict_fill_i", "ptr")
        + word("key", "keys", "%dict_fill_i", "ptr")
        + "  %set = call i32 @PyDict_SetItem(ptr %made_dict, ptr %key, ptr %value)\n"
        + "  %unset = icmp slt i32 %set, 0\n"
        + "  br i1 %unset, label %dict_fail, label %dict_fill_next\ndict_never:\n"
    )
    return (
        """dict:
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
    )


def _named() -> str:
    """`tuple.__new__(class, items)`, as named tuples make themselves."""
    return (
        _sequence("named", "Tuple")
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
    )


def _called() -> str:
    return (
        _sequence("called", "Tuple")
        + word("function", "pc", 2, "ptr")
        + """  %answer = call ptr (ptr, ...) @PyObject_CallFunctionObjArgs(ptr %function, \
ptr %called_made, ptr null)
  call void @Py_DecRef(ptr %called_made)
  %no_answer = icmp eq ptr %answer, null
  br i1 %no_answer, label %fail_left, label %push
"""
    )


def _push() -> str:
    """Block `push`: what was made goes on the stack in the place of its parts."""
    made = {
        "leaf": ("%leaf_object", "%height", "2"),
        "constant": ("%fixed", "%height", "2"),
        "tuple_full": ("%tuple_made", "%left", "2"),
        "list_full": ("%list_made", "%left", "2"),
        "dict_full": ("%made_dict", "%left", "%dict_size"),
        "named_call": ("%instance", "%left", "4"),
        "called_full": ("%answer", "%left", "3"),
    }
    columns = [
        ", ".join([f"[ {row[k]}, %{block} ]" for block, row in made.items()]) for k in range(3)
    ]
    return (
        f"push:\n  %object = phi ptr {columns[0]}\n  %under = phi i64 {columns[1]}\n"
        + f"  %size = phi i64 {columns[2]}\n"
        + put("top", "stack", "%under", "%object")
        + "  %higher = add i64 %under, 1\n"
        + "  %following = getelementptr i64, ptr %pc, i64 %size\n  br label %step\n"
    )


def _ends() -> str:
    owning = ("tuple", "list", "dict", "dict_fail", "named", "called")
    owned = ", ".join([f"[ %height, %{block} ]" for block in owning])
    return f"""return:
  %result = load ptr, ptr %stack, align 8
  ret ptr %result
fail_left:
  br label %fail
fail:
  %owned = phi i64 {owned}, [ %left, %fail_left ]
  call void @fgrad_drop(ptr %stack, i64 %owned)
  call void @fgrad_drop(ptr %outs, i64 %total)
  ret ptr null
}}
"""
