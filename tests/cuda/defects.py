"""Defects planted into the text of bodies: each barrier left out, each guard one off, and so on.

    barrier   call void @llvm.nvvm.barrier0()      ->  (nothing)
    guard     icmp slt i64 %i, 1000                ->  icmp sle i64 %i, 1000
    stride    mul i64 %block, 256                  ->  mul i64 %block, 257
    lane      ...sync.i32(i32 -1, i32 3, ..., i32 16, i32 31)  ->  with lane 8

Not every mutant is wrong: the last barrier of a body may have nothing to wait for.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import pytest
from emulator.run import Emulated

STEPS = 1 << 20  # that a thread with a defect makes at most

_BARRIER = re.compile(r"^ *call void @llvm\.nvvm\.(?:barrier0|bar\.warp\.sync)\(.*\)$")
_GUARD = re.compile(r"\bicmp ([su])(lt|ge) ")
_STRIDE = re.compile(r"= (?:mul|add|shl|and) i(?:32|64) %[\w.]+, (\d+)$")
_LANE = re.compile(r"(shfl\.sync\.i32\(i32 -1, i32 \d, i32 %[\w.]+, i32 )(\d+)(, i32 \d+\))")
_LOOSER = {"lt": "le", "ge": "gt"}

Call = Callable[[], Sequence[np.ndarray]]


class Mutant(NamedTuple):
    """A body with one defect: its kind, the line that was changed, the text before and now."""

    kind: str
    line: str
    body: str
    text: str


def mutants(body: str) -> Iterator[Mutant]:
    """All bodies with one defect."""
    lines = body.split("\n")
    for k, line in enumerate(lines):
        for kind, changed in _changes(line):
            text = "\n".join([*lines[:k], *changed, *lines[k + 1 :]])
            yield Mutant(kind, re.sub(r"%[\w.]+", "%", line.strip()), body, text)


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
    if lane and int(lane[2]):
        yield "lane", [_LANE.sub(rf"\g<1>{int(lane[2]) // 2}\g<3>", line)]


class Field:
    """The bodies that ran, and a mutant of one that runs in its place."""

    def __init__(self) -> None:
        self.bodies: dict[str, None] = {}
        self.planted: Mutant | None = None

    def run(self, run: Callable[..., None], emulated: Emulated, *args: Any, **options: Any) -> None:
        """Run a body as it is, or its mutant."""
        self.bodies[emulated.body] = None
        if self.planted is not None and self.planted.body == emulated.body:
            emulated = Emulated(self.planted.text, emulated.arity)
        run(emulated, *args, **options, steps=STEPS)

    def is_caught(self, mutant: Mutant, call: Call, expected: list[bytes]) -> bool:
        """Whether a call with this defect raises or gives other numbers."""
        self.planted = mutant
        try:
            return [x.tobytes() for x in call()] != expected
        except Exception:
            return True
        finally:
            self.planted = None


def uncaught(calls: Sequence[Call], kinds: str) -> tuple[int, list[Mutant]]:
    """How many defects of these kinds there are in what calls run, and those that none finds.

    The calls run one form in several sizes: their bodies have the same lines but for numbers.
    """
    field, run = Field(), Emulated.run
    first: list[Mutant] = []
    left: list[int] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Emulated, "run", lambda *args, **options: field.run(run, *args, **options))
        for call in calls:
            field.bodies.clear()
            expected = [x.tobytes() for x in call()]
            found = [m for body in field.bodies for m in mutants(body) if m.kind in kinds]
            if not first:
                first, left = found, list(range(len(found)))
            assert [m.kind for m in found] == [m.kind for m in first], "bodies of other forms"
            left = [n for n in left if not field.is_caught(found[n], call, expected)]
    return len(first), [first[n] for n in left]
