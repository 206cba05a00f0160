"""A sample of the random calls of `torture`, which is a program of its own."""

from __future__ import annotations

import pytest
from torture import Report, growth, play


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("seed", range(5))
def test_random_calls(seed: int, threads: int) -> None:
    report = Report()
    play(report, seed, 700, threads)
    assert report.counts["calls"] >= 699
    assert not report.mistakes, "\n".join(report.mistakes)


def test_no_leak() -> None:
    blocks, kilobytes = growth(2000)
    assert blocks < 100 and kilobytes < 500  # a lost reference a call would be 1000
