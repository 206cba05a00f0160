"""What a function reads by name, found in its bytecode, whose instructions change with Python."""

from __future__ import annotations

import dis
from collections.abc import Callable
from typing import Any

import pytest

from fgrad.tracing.outside import reads
from fgrad.tracing.outside.reads import ATTRIBUTE, FREE, GLOBAL, ITEM, LOCAL, reads_of

TABLE: dict[str, Any] = {}
LIST: list[Any] = []
OWN: Any = None


def _closes_over(outer: Any) -> Callable[..., Any]:
    return lambda: outer.w + outer[1]


READS: dict[str, tuple[Callable[..., Any], set[tuple[Any, ...]]]] = {
    "item": (lambda: TABLE["lr"], {(GLOBAL, "TABLE", (ITEM, "lr"))}),
    "small number": (lambda: LIST[1], {(GLOBAL, "LIST", (ITEM, 1))}),
    "large number": (lambda: LIST[1000], {(GLOBAL, "LIST", (ITEM, 1000))}),
    "negative number": (lambda: LIST[-1], {(GLOBAL, "LIST", (ITEM, -1))}),
    "attribute": (lambda: OWN.a.b, {(GLOBAL, "OWN", (ATTRIBUTE, "a"), (ATTRIBUTE, "b"))}),
    "method": (lambda: OWN.a(), {(GLOBAL, "OWN", (ATTRIBUTE, "a"))}),
    "mixed": (lambda: OWN.a[2].b, {(GLOBAL, "OWN", (ATTRIBUTE, "a"), (ITEM, 2), (ATTRIBUTE, "b"))}),
    "slice": (lambda: LIST[1:2], {(GLOBAL, "LIST")}),
    "slice with step": (lambda: LIST[1:9:2], {(GLOBAL, "LIST")}),
    "local": (lambda x: x.w, {(LOCAL, "x", (ATTRIBUTE, "w"))}),
    "two locals": (lambda x, y: x + y.w, {(LOCAL, "x"), (LOCAL, "y", (ATTRIBUTE, "w"))}),
    "local twice": (lambda x: (x, x.w), {(LOCAL, "x"), (LOCAL, "x", (ATTRIBUTE, "w"))}),
    "cell": (_closes_over(0), {(FREE, "outer", (ATTRIBUTE, "w")), (FREE, "outer", (ITEM, 1))}),
    "place in an array": (lambda x: x[0] + x.b, {(LOCAL, "x", (ITEM, 0)),
                                                 (LOCAL, "x", (ATTRIBUTE, "b"))}),
    "computed place": (lambda x, i: x[i].w, {(LOCAL, "x"), (LOCAL, "i")}),
}  # fmt: skip


@pytest.mark.parametrize("name", READS)
def test_paths_are_found(name: str) -> None:
    function, expected = READS[name]
    assert {(p.source, p.name, *p.steps) for p in reads_of(function.__code__).paths} == expected


# Instructions that put something on the stack, and read no name of the user's.
NAMELESS = {
    "LOAD_CONST", "LOAD_COMMON_CONSTANT", "LOAD_ASSERTION_ERROR", "LOAD_BUILD_CLASS",
    "LOAD_CLOSURE", "LOAD_LOCALS", "LOAD_SPECIAL",
    "LOAD_SUPER_ATTR", "LOAD_SUPER_METHOD", "LOAD_ZERO_SUPER_ATTR", "LOAD_ZERO_SUPER_METHOD",
}  # fmt: skip


def test_each_instruction_of_this_python_that_loads_is_known() -> None:
    """One that is not is a read that is not seen: what a function reads would be kept as it was."""
    known = {*reads._LOADS, *reads._PAIRS, *reads._ATTRIBUTES, *reads._EARLIER, *NAMELESS}
    assert {name for name in dis.opmap if name.startswith("LOAD_")} - known == set()
