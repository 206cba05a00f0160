"""L5. The native entry's tables by name, and the blocks of LLVM text that its functions share."""

from __future__ import annotations

# Words of a signature's table.
NODE_FIELDS = (
    "next", "epoch", "nargs", "keywords", "names", "registers", "slots", "cells", "program",
    "outputs", "records", "constants", "pairs", "fills", "sources", "arena_slot", "arena_bytes",
    "run", "table", "direct", "extent", "release", "after", "bools", "build", "depth", "recycle",
    "calls", "owns", "reads", "extents", "writes",
)  # fmt: skip
NODE = {name: k for k, name in enumerate(NODE_FIELDS)}

# Words of the record of one result; `first` and `second` hold arrays that may be used again,
# `donor` is 1 more than the register of the argument whose memory it may take, or 0.  `own` is the
# register of the argument that is the result, `written` 1 more than that of the argument over which
# the result is written.
RECORD_FIELDS = (
    "kind", "slot", "type", "descr", "rank", "dims", "flags", "alloc", "cell", "recycle",
    "pool", "first", "second", "donor", "donor_slot", "bytes", "own", "written",
)  # fmt: skip
RECORD = {name: k for k, name in enumerate(RECORD_FIELDS)}
RECORD_SIZE = len(RECORD_FIELDS)

# Instructions of a signature's program, and of the one that puts the results together.
ARRAY, PLACE, INT, BOOL, SAME, LIST, TUPLE, DICT, FIELDS, APART, END = range(11)
# What a call reads from outside.
WORD_IS, LOOKUP, KEYS, ITEMS, BYTES, SINCE, SEEN, FETCH, FETCH_WORD, NUMBER = range(11, 21)
LEAF, PUSH, MAKE_TUPLE, MAKE_LIST, MAKE_DICT, MAKE_NAMED, CALL, RETURN = range(8)
RESULT_ARRAY, RESULT_SCALAR, RESULT_BOOL, RESULT_LARGE, RESULT_OWN = range(5)


def word(name: str, base: str, index: int | str, kind: str = "i64") -> str:
    """The text that loads word `index` of a table."""
    return (
        f"  %{name}_at = getelementptr i64, ptr %{base}, i64 {index}\n"
        f"  %{name} = load {kind}, ptr %{name}_at, align 8\n"
    )


def member(name: str, base: str, offset: int, kind: str = "ptr") -> str:
    """The text that loads what stands `offset` bytes into an object."""
    align = 4 if kind == "i32" else 8
    return (
        f"  %{name}_at = getelementptr i8, ptr %{base}, i64 {offset}\n"
        f"  %{name} = load {kind}, ptr %{name}_at, align {align}\n"
    )


def put(name: str, base: str, index: str, value: str) -> str:
    """The text that stores a pointer in entry `index` of a table."""
    return (
        f"  %{name}_to = getelementptr ptr, ptr %{base}, i64 {index}\n"
        f"  store ptr {value}, ptr %{name}_to, align 8\n"
    )


def copy_loop(label: str, target: str, source: str, count: str, then: str) -> str:
    """Blocks that copy `count` pointers and go on at `then`."""
    return (
        f"{label}:\n"
        f"  br label %{label}_test\n"
        f"{label}_test:\n"
        f"  %{label}_i = phi i64 [ 0, %{label} ], [ %{label}_j, %{label}_one ]\n"
        f"  %{label}_more = icmp slt i64 %{label}_i, {count}\n"
        f"  br i1 %{label}_more, label %{label}_one, label %{then}\n"
        f"{label}_one:\n"
        f"  %{label}_from = getelementptr ptr, ptr {source}, i64 %{label}_i\n"
        f"  %{label}_item = load ptr, ptr %{label}_from, align 8\n"
        f"  %{label}_to = getelementptr ptr, ptr {target}, i64 %{label}_i\n"
        f"  store ptr %{label}_item, ptr %{label}_to, align 8\n"
        f"  %{label}_j = add i64 %{label}_i, 1\n"
        f"  br label %{label}_test\n"
    )


def each_loop(label: str, count: str, body: str, then: str) -> str:
    """Blocks that run `body` for %{label}_i in range(count) and go on at `then`."""
    return (
        f"{label}:\n"
        f"  br label %{label}_test\n"
        f"{label}_test:\n"
        f"  %{label}_i = phi i64 [ 0, %{label} ], [ %{label}_j, %{label}_next ]\n"
        f"  %{label}_more = icmp slt i64 %{label}_i, {count}\n"
        f"  br i1 %{label}_more, label %{label}_one, label %{then}\n"
        f"{label}_one:\n{body}"
        f"  br label %{label}_next\n"
        f"{label}_next:\n"
        f"  %{label}_j = add i64 %{label}_i, 1\n"
        f"  br label %{label}_test\n"
    )
