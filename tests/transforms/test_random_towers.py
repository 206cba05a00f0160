"""A sample of random towers of transforms; `random_towers.py SEED COUNT` runs more."""

from __future__ import annotations

import math
from typing import Any

import pytest
from random_towers import BASES, LEVELS, POINTS, difference, sin, slope, value

COUNT = 12
MENDED = (
    ("jit", "grad", "root", "buffer"),  # a loop's places were no values in the transposed solve
    ("scan", "jacrev", "root", "buffer", "vmap_closing"),
)


@pytest.mark.parametrize("seed", range(COUNT))
def test_towers_are_what_they_stand_for(seed: int) -> None:
    assert difference(seed) == ""


@pytest.mark.parametrize("names", MENDED, ids=" of ".join)
def test_towers_that_were_mended(names: tuple[str, ...]) -> None:
    made, right = BASES[0]
    for name in reversed(names):
        made, right = LEVELS[name][0](made), LEVELS[name][1](right)
    assert float(made(POINTS[0])) == pytest.approx(value(right(POINTS[0])), rel=1e-9)


def test_dual_numbers_nest() -> None:
    x = 0.7
    second, third = 2 * math.cos(x) - x * math.sin(x), -3 * math.sin(x) - x * math.cos(x)

    def scaled(y: Any) -> Any:
        return y * slope(lambda z: slope(lambda w: sin(w) * w, z), y)

    assert value(slope(scaled, x)) == pytest.approx(second + x * third)
