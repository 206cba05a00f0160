"""examples/mixed_precision.py: 16 bits train to the loss of 32; steps that overflow are skipped."""

from __future__ import annotations

import importlib.util
from typing import Any

import numpy as np
import pytest
from sources import ROOT

import fgrad


def _example() -> Any:
    path = ROOT / "examples" / "mixed_precision.py"
    spec = importlib.util.spec_from_file_location("mixed_precision", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


EXAMPLE = _example()


@pytest.fixture(scope="module")
def trained() -> dict[str, Any]:
    return {name: EXAMPLE.train(dtype, 150) for name, dtype in EXAMPLE.PRECISIONS.items()}


@pytest.mark.parametrize("name", ["bfloat16", "float16"])
def test_16_bits_train_to_the_loss_of_32(trained: dict[str, Any], name: str) -> None:
    params, losses, _ = trained[name]
    expected = np.mean(trained["float32"][1][-10:])
    assert expected < 0.25 * losses[0]
    assert abs(np.mean(losses[-10:]) / expected - 1) < EXAMPLE.MARGIN
    assert {leaf.dtype for leaf in fgrad.tree.leaves(params)} == {np.dtype(np.float32)}
    assert np.all(np.isfinite(losses))


def test_only_what_overflows_is_skipped(trained: dict[str, Any]) -> None:
    assert trained["float32"][2] == trained["bfloat16"][2] == 0
    assert 0 < trained["float16"][2] < 20


def test_a_step_with_an_overflow_changes_the_scale_alone() -> None:
    optimizer, step = EXAMPLE.trainer(np.float16)
    before = EXAMPLE.first_params(0)
    state = optimizer.init(before)
    after, changed, _ = step(before, state, EXAMPLE.sentences(0))
    assert changed.factor == state.factor / 2
    for name, leaf in before.items():
        np.testing.assert_array_equal(after[name], leaf)
    for old, new in zip(
        fgrad.tree.leaves(state.inner), fgrad.tree.leaves(changed.inner), strict=True
    ):
        np.testing.assert_array_equal(old, new)
