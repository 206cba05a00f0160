"""Optimisers over random trees, real and complex, take optax's and PyTorch's steps to rounding.

`python benchmarks/optimizer_trees.py --golden` writes what those give; without `--golden` it
compares each step of more trees.
"""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from random_trees import (
    DTYPES,
    IN_SINGLE,
    RULES,
    TORCH,
    by_fgrad,
    by_fgrad_as_torch,
    compared,
    distance,
    drawn,
    few,
    scales,
    seed_of,
    unit,
)
from sources import ROOT

from fgrad import tree

PATH = ROOT / "tests" / "golden" / "optimizer_trees.json"
GOLDEN = json.loads(PATH.read_text(encoding="utf-8"))
ROUNDINGS = 64.0  # of the largest update so far; the largest found is 10
RUNS = [(name, kind) for name in RULES for kind in DTYPES]


def last_step(library: str, name: str, kind: str) -> float:
    """How far the first numbers of each leaf are from the other library's, in roundings."""
    p, gradients = drawn(seed_of(name, kind), kind, name in IN_SINGLE)
    mine = (by_fgrad if library == "optax" else by_fgrad_as_torch)(name, p, gradients)
    theirs: Any = GOLDEN[f"{library}: {name}: {kind}"]
    worst = 0.0
    for k, leaf in enumerate(tree.leaves(p)):
        steps = [step[k] for step in mine]
        assert all(x.shape == leaf.shape and x.dtype == leaf.dtype for x in steps)
        if isinstance(theirs, str):  # optax raised an error: of empty and 0-d arrays
            continue
        first = np.array(few(np.full(leaf.shape, scales(name, leaf, steps), leaf.dtype)))
        scale = np.repeat(np.abs(first[::2]), 2) if leaf.dtype.kind == "c" else np.abs(first)
        eps = unit(name, leaf.dtype, kind)
        found, wanted = np.array(few(steps[-1])), np.array(theirs[k], float)
        worst = max(worst, distance(found, wanted, scale, eps))
    return worst


@pytest.mark.parametrize(("name", "kind"), RUNS)
def test_steps_of_optax(name: str, kind: str) -> None:
    assert last_step("optax", name, kind) < ROUNDINGS


@pytest.mark.parametrize("kind", DTYPES)
@pytest.mark.parametrize("name", TORCH)
def test_steps_of_pytorch(name: str, kind: str) -> None:
    assert last_step("torch", name, kind) < ROUNDINGS


@pytest.mark.parametrize("name", RULES)
def test_compiled_steps_are_those_of_the_prompt(name: str) -> None:
    p, gradients = drawn(seed_of(name, "mixed"), "mixed", name in IN_SINGLE)
    plain, compiled = [by_fgrad(name, p, gradients, c) for c in (False, True)]
    assert compared("optax", name, "mixed", p, compiled, plain) < ROUNDINGS
