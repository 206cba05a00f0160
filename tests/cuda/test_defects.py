"""Each defect planted into a kernel of any form is found, by the emulator or by the results.

Barriers left out, guards one off, strides one off, shuffles from other lanes: 270 in all.  Those
that change nothing are listed with their reasons.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator

import pytest
from defect_cases import FORMS, HARMLESS
from defects import mutants, uncaught
from emulator.driver import StubDriver
from real_device import real_device_or

BODY = """define void @fgrad_body(i32 %block, i32 %x, i32 %y, i8 addrspace(1)* %p0) {
  %i = mul i32 %block, 64
  %c = icmp ult i32 %i, 100
  call void @llvm.nvvm.barrier0()
  %r = call {i32, i1} @llvm.nvvm.shfl.sync.i32(i32 -1, i32 3, i32 %i, i32 16, i32 31)
  ret void
}"""


@pytest.fixture(scope="module", autouse=True)
def device() -> Iterator[None]:
    """A stub."""
    with real_device_or(StubDriver()):
        yield


@pytest.mark.parametrize("name", FORMS)
def test_planted_defects_are_found(name: str) -> None:
    kinds, calls = FORMS[name]
    count, left = uncaught(calls(), kinds)
    assert count > len(left)
    reasons: Counter[tuple[str, str, str]] = Counter()
    for mutant in left:
        known = [
            key
            for key in HARMLESS
            if key[:2] == (name, mutant.kind) and re.search(key[2], mutant.line)
        ]
        assert known, (mutant.kind, mutant.line)
        reasons[known[0]] += 1
    for key, found in reasons.items():
        assert found <= HARMLESS[key][1], HARMLESS[key][0]


def test_every_kind_is_planted() -> None:
    before = set(BODY.split("\n"))
    found = [(m.kind, sorted(set(m.text.split("\n")) - before)) for m in mutants(BODY)]
    shuffle = "  %r = call {i32, i1} @llvm.nvvm.shfl.sync.i32(i32 -1, i32 3, i32 %i, i32 8, i32 31)"
    assert found == [
        ("stride", ["  %i = mul i32 %block, 65"]),
        ("guard", ["  %c = icmp ule i32 %i, 100"]),
        ("barrier", []),
        ("lane", [shuffle]),
    ]
