"""A sample of the random nests; `python tests/capture/random_nests.py 0 500` runs more."""

from __future__ import annotations

import numpy as np
import pytest
from loop_nests import NESTS
from random_nests import difference

import fgrad
from fgrad.ir.walk import subprograms


@pytest.mark.parametrize("seed", [*range(200, 210), 416])
def test_gradients(seed: int) -> None:
    assert difference(seed) < 1e-9


@pytest.mark.parametrize("fun", NESTS)
def test_no_array_is_kept_for_each_step(fun: object) -> None:
    n = 300  # more than the states that a `while` loop keeps
    program = fgrad.make_program(fgrad.jit(fgrad.grad(fun)))(np.full((n, n), 0.6))  # type: ignore[arg-type]
    made = [v.aval for p in subprograms(program) for e in p.eqns for v in e.outputs]
    assert max([a.size for a in made if a.dtype.kind == "f"]) < n**3
