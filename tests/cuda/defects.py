"""Defects planted into the text of bodies: each barrier left out, each guard one off, and so on.

    barrier   call void @llvm.nvvm.barrier0()      ->  (nothing)
    guard     icmp slt i64 %i, 1000                ->  icmp sle i64 %i, 1000
    stride    mul i64 %block, 256                  ->  mul i64 %block, 257
    lane      ...sync.i32(i32 -1, i32 3, ..., i32 16, i32 31)  ->  with lane 15

Not every mutant is wrong: the last barrier of a body may have nothing to wait for.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import NamedTuple

_BARRIER = re.compile(r"^ *call void @llvm\.nvvm\.(?:barrier0|bar\.warp\.sync)\(.*\)$")
_GUARD = re.compile(r"\bicmp ([su])(lt|ge) ")
_STRIDE = re.compile(r"= (?:mul|add|shl|and) i(?:32|64) %[\w.]+, (\d+)$")
_LANE = re.compile(r"(shfl\.sync\.i32\(i32 -1, i32 \d, i32 %[\w.]+, i32 )(\d+)(, i32 \d+\))")
_LOOSER = {"lt": "le", "ge": "gt"}


class Mutant(NamedTuple):
    """A body with one defect: its kind, the line that was changed, the text."""

    kind: str
    line: str
    body: str


def mutants(body: str) -> Iterator[Mutant]:
    """All bodies with one defect."""
    lines = body.split("\n")
    for k, line in enumerate(lines):
        for kind, changed in _changes(line):
            text = "\n".join([*lines[:k], *changed, *lines[k + 1 :]])
            yield Mutant(kind, line.strip(), text)


def _changes(line: str) -> Iterator[tuple[str, list[str]]]:
    if _BARRIER.match(line):
        yield "barrier", []
    guard = _GUARD.search(line)
    if guard:
        looser = f"icmp {guard[1]}{_LOOSER[guard[2]]} "
        yield "guard", [line.replace(guard[0], looser)]
    stride = _STRIDE.search(line)
    if stride and int(stride[1]) > 1:
        yield "stride", [line[: stride.start(1)] + str(int(stride[1]) + 1)]
    lane = _LANE.search(line)
    if lane:
        yield "lane", [_LANE.sub(rf"\g<1>{int(lane[2]) - 1}\g<3>", line)]


def uncaught(body: str, holds: Callable[[str], bool]) -> tuple[int, list[Mutant]]:
    """How many mutants there are, and those with which `holds(text)` is true all the same.

    It runs a text and compares the result; that it raises counts as caught.
    """
    found = list(mutants(body))
    return len(found), [mutant for mutant in found if not _is_caught(mutant.body, holds)]


def _is_caught(text: str, holds: Callable[[str], bool]) -> bool:
    try:
        return not holds(text)
    except Exception:
        return True
