"""Conditions of `while_loop` that apply functions to many elements: tests of convergence."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fgrad
from fgrad import lax

FUNCTIONS = (
    "exp", "log", "sin", "tanh", "arcsin", "arctanh", "sqrt", "cbrt", "expm1", "log1p", "absolute",
    "sign", "floor", "square", "reciprocal", "isfinite",
)  # fmt: skip
REDUCTIONS: dict[str, Callable[[Any], Any]] = {
    "sum": np.sum, "max": np.max, "mean": np.mean, "prod": np.prod, "norm": np.linalg.norm,
    "any": lambda v: np.any(v > 2), "argmax": np.argmax, "last sum": lambda v: np.cumsum(v)[-1],
    "least": lambda v: np.sort(v)[0], "dot": lambda v: v @ v, "std": np.std,
}  # fmt: skip


@pytest.mark.parametrize("function", FUNCTIONS)
def test_conditions(function: str) -> None:
    for length in (1, 7, 200, 600):
        x = np.linspace(0.1, 0.9, length)
        for name, reduce in REDUCTIONS.items():
            if length != 7 and name not in ("sum", "any"):
                continue

            def goes_on(s: Any, reduce: Callable[[Any], Any] = reduce) -> Any:
                return (reduce(getattr(np, function)(s[0])) < 1e9) & (s[1] < 3)

            def step(s: Any) -> Any:
                return s[0] * 1.01, s[1] + 1

            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                found = fgrad.jit(lambda x, p=goes_on, f=step: lax.while_loop(p, f, (x, 0)))(x)
                expected: Any = x, 0
                while goes_on(expected):
                    expected = step(expected)
            assert found[1] == expected[1]
            np.testing.assert_allclose(found[0], expected[0], rtol=1e-12)
