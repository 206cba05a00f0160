"""A sample of the random modules of outside_programs.py: the world changes between calls."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from outside_programs import check

from fgrad.errors import RetraceWarning


@pytest.mark.parametrize("seed", range(40))
def test_calls_see_the_world_as_it_is(seed: int) -> None:
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore", RetraceWarning)
        warnings.simplefilter("ignore", RuntimeWarning)
        warnings.simplefilter("ignore", DeprecationWarning)
        assert check(seed) is None


@pytest.mark.parametrize("seed", range(100, 106))
def test_calls_of_several_threads_see_it_too(seed: int) -> None:
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        assert check(seed, steps=6, threads=3) is None
