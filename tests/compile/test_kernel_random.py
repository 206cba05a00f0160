"""Random kernels: what the scheduler and the emitter make of them equals the oracle, for all
layouts."""

from __future__ import annotations

import numpy as np
import pytest
from kernel_oracle import compare
from random_kernels import KINDS, Maker

from fgrad.compile.kernel.text import parse_kernel, print_kernel

COUNTS = {"elementwise": 60, "reduction": 60, "small_state": 40}  # else 30


@pytest.mark.parametrize(
    "kind, seed", [(kind, seed) for kind in KINDS for seed in range(COUNTS.get(kind, 30))]
)
def test_random_kernels(kind: str, seed: int) -> None:
    maker = Maker(seed)
    kernel = KINDS[kind](maker)
    pieces = maker.rng.choice([1, 1, 3]) if kind == "elementwise" else 1
    assert parse_kernel(print_kernel(kernel)) == kernel
    halves = any(b.dtype == np.float16 for b in kernel.buffers)
    compare(kernel, maker.arrays, 2e-2 if halves else 2e-5, pieces)
