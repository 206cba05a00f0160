"""Which everyday functions keep a length that changes as a symbol; all have the bits of a trace."""

from __future__ import annotations

import pytest
from everyday_functions import EVERYDAY
from resized import compared

# Routines whose code has their sizes; code that looks at classes or strides; NumPy's own functions
# of a length; last bits that would be others.
TRACED_FOR_EACH = (
    "sort", "argsort", "median", "quantile", "searchsorted", "solve", "cholesky", "rfft", "interp",
    "meshgrid", "broadcast_to", "root of the length", "cov",
)  # fmt: skip


@pytest.mark.parametrize("name", EVERYDAY)
def test_an_everyday_function_over_lengths(name: str) -> None:
    function, data = EVERYDAY[name]
    outcome = compared(function, (data(n) for n in (101, 103, 117, 99)))
    assert not outcome.wrong
    assert (outcome.untraced > 0) == (name not in TRACED_FOR_EACH), outcome.reasons
