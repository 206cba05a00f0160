"""A sample of the random programs of the whole op table: see `random_ops`.

`FGRAD_RANDOM_OPS=5000` tries that many.
"""

from __future__ import annotations

import os

import pytest
from random_ops import run_programs
from random_ops_draw import functions, ufuncs

COUNT = int(os.environ.get("FGRAD_RANDOM_OPS", "600"))
PARTS = 4


@pytest.mark.parametrize("part", range(PARTS))
def test_random_programs(part: int) -> None:
    """NumPy, evaluated with and without values, compiled, batched, and derivatives agree."""
    found = run_programs(0, range(part, COUNT, PARTS), jit_share=8)
    assert not found.wrong
    assert sum(found.refused.values()) < COUNT // 4


def test_the_whole_surface_is_drawn_from() -> None:
    assert len(functions()) > 150
    assert len(ufuncs()) > 60
