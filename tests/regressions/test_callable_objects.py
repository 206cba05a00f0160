"""An object that can be called is jitted, whatever its attributes are named."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import fgrad
from fgrad.compile.jit.jitted import Jitted

NAMES = [n for n in {**vars(Jitted), **vars(fgrad.jit(np.sin))} if not n.startswith("__")]


class Scaled:
    """A function with state."""

    def __call__(self, x: Any) -> Any:
        return np.sin(x) * 2


@pytest.mark.parametrize("name", sorted(NAMES))
def test_attributes_are_the_objects_own(name: str) -> None:
    function = Scaled()
    setattr(function, name, None)
    x = np.ones(3)
    for jitted in (fgrad.jit(function), fgrad.jit(function, dynamic=True)):
        for _ in range(3):
            np.testing.assert_array_equal(jitted(x), fgrad.jit(Scaled())(x))
