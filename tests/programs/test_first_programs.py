"""Programs of beginners under all transforms: each is right, or has a card that says what to write.

What looks at values works at the prompt, and gets a card where these are not known.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from first_programs import PROGRAMS

import fgrad
from fgrad.errors import FgradError

X = np.array([1.3, 2.7, 3.1, 4.6])
BATCH = np.stack([X, X * 1.01])
A = np.arange(1.0, 10).reshape(3, 3) + np.eye(3)
Function = Callable[[Any], Any]


def _gradient(f: Function, x: np.ndarray) -> np.ndarray:
    steps = 1e-6 * np.eye(len(x))
    return np.array([(f(x + e) - f(x - e)) / 2e-6 for e in steps])


WAYS: dict[str, tuple[Callable[[Function], Any], Callable[[Function], Any]]] = {
    "grad": (lambda f: fgrad.grad(f)(X), lambda f: _gradient(f, X)),
    "jvp": (lambda f: fgrad.jvp(f, (X,), (X,))[1], lambda f: _gradient(f, X) @ X),
    "jit": (lambda f: fgrad.jit(f)(X), lambda f: f(X)),
    "jit grad": (lambda f: fgrad.jit(fgrad.grad(f))(X), lambda f: _gradient(f, X)),
    "vmap": (lambda f: fgrad.vmap(f)(BATCH), lambda f: [f(x) for x in BATCH]),
    "vmap grad": (
        lambda f: fgrad.vmap(fgrad.grad(f))(BATCH), lambda f: [_gradient(f, x) for x in BATCH]
    ),
}  # fmt: skip
AT_THE_PROMPT = ("grad", "jvp")


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("text", PROGRAMS)
def test_right_or_a_card(text: str, way: str) -> None:
    names: dict[str, Any] = {"np": np, "fgrad": fgrad, "grad": fgrad.grad, "A": A}
    exec(text, names)
    found, expected = WAYS[way]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            result = found(names["f"])
        except FgradError as error:
            assert way not in AT_THE_PROMPT
            assert "  write   " in str(error)
            return
        np.testing.assert_allclose(result, expected(names["f"]), rtol=1e-4, atol=1e-4)
