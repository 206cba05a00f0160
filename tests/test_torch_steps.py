"""Optimisers take PyTorch's steps; of complex parameters those of their parts, as there."""

from __future__ import annotations

import json

import numpy as np
import pytest
from optax_cases import STEPS, gradient, params
from sources import ROOT
from torch_cases import CASES, DTYPES

import fgrad
from fgrad import optim, tree

GOLDEN = json.loads((ROOT / "tests" / "golden" / "torch_steps.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", CASES)
def test_steps(name: str, dtype: str) -> None:
    optimizer = CASES[name][1](optim)
    if dtype.startswith("complex"):
        optimizer = optim.split_real_and_imaginary(optimizer)
    p = tree.map(np.array, params(dtype))
    state, update = optimizer.init(p), fgrad.jit(optimizer.update)
    for step in range(STEPS):
        gradients = tree.map(lambda x, step=step: gradient(x, step), p)
        updates, state = update(gradients, state, p)
        p = optim.apply_updates(p, updates)
    flat = np.concatenate([np.ravel(x) for x in tree.leaves([p["b"], p["w"]])])
    # PyTorch's radam adds eps to another root
    rtol = 2e-4 if dtype == "float32" else 1e-7 if name == "radam" else 1e-9
    found = flat.view(flat.real.dtype)
    np.testing.assert_allclose(found, GOLDEN[f"{name} {dtype}"], rtol=rtol, atol=rtol)
