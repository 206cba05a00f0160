"""What a jitted function reads of another function's attributes is as it is at each call."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import fgrad


def _holder() -> None:
    """A function that holds numbers for others, as its attributes."""


HOLDER: Any = _holder


def reads_attributes(x: Any) -> Any:
    return x * HOLDER.rate + HOLDER.table[0]


def test_attributes_of_functions_are_read_at_each_call() -> None:
    HOLDER.rate, HOLDER.table = 2.0, [1.0]
    jitted, x = fgrad.jit(reads_attributes), np.ones(2)
    np.testing.assert_array_equal(jitted(x), x * 3.0)
    HOLDER.rate = 3.0
    np.testing.assert_array_equal(jitted(x), x * 4.0)
    HOLDER.table[0] = 5.0
    np.testing.assert_array_equal(jitted(x), x * 8.0)
    del HOLDER.rate
    with pytest.raises(AttributeError):
        jitted(x)
