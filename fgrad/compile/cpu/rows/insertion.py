"""L5. The step of an insertion into sorted records in memory."""

from __future__ import annotations

from collections.abc import Callable

from fgrad.compile.llvm.structured import Routine


def make_room(
    code: Routine, kind: str, base: str, hole: str, align: int, goes_up: Callable[[str], str]
) -> None:
    """Move records before a hole one place up, from the last one on, as long as they go up.

    Arguments:
        kind: the type of a record.
        hole: the variable of the hole's place; it is where a new record belongs afterwards.
        goes_up: the text of a truth value, for that of a record.
    """
    test, compare, move, end = code.labels("test", "compare", "move", "end")
    code.line(f"br label %{test}")
    code.label(test)
    place = code.get(hole)
    code.branch(code.compare("sgt", "i64", place, 0), compare, end)
    code.label(compare)
    before = code.op("sub", "i64", place, 1)
    record = code.load(kind, base, before, align)
    code.branch(goes_up(record), move, end)
    code.label(move)
    code.store(kind, record, base, place, align)
    code.put(hole, before)
    code.line(f"br label %{test}")
    code.label(end)
