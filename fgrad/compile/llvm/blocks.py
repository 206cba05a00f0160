"""L5. Blocks of LLVM text for tables of words and objects: load, store, loop."""

from __future__ import annotations


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
    """Blocks that copy `count` pointers, then jump to `then`."""
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
