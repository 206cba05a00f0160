"""A fixed set of kernels keeps to its budgets: registers, spills, wide accesses, no float64."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from emulator.driver import StubDriver
from gpu_kernels import CASES, Case, rows_of_case
from real_device import stub_device


@pytest.fixture(autouse=True)
def stub() -> Iterator[None]:
    with stub_device(StubDriver(execute=False)):
        yield


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_resources(case: Case) -> None:
    rows = rows_of_case(case)
    assert rows
    for row in rows:
        assert row.spills == 0
        assert row.registers <= case.registers
        assert row.shared <= 48 << 10
        assert row.doubles == 0 or "int64" in case.name
    if case.wide:
        assert rows[-1].wide > 0 or rows[0].wide > 0
