"""A sample of `argument_writes.py`: random functions leave their arguments as NumPy does."""

from __future__ import annotations

import pytest
from argument_writes import Report

WAYS = ("jit", "jit in jit", "jit beside grad", "jit in grad", "grad in jit", "vmap")


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.filterwarnings("ignore::numpy.exceptions.ComplexWarning")
def test_arrays_end_as_numpy_leaves_them(way: str) -> None:
    report = Report(way)
    for number in range(12):
        report.one(1, number, threads=2 if number % 6 == 0 else 1)
    assert not report.mistakes, "\n\n".join(report.mistakes)
    assert report.counts["refused"] < report.counts["calls"] / 3
