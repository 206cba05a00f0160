"""Conditions of compiled `while` loops, over the elementwise functions, reductions and small linear
algebra, for sizes on both sides of what is written out, in registers or in memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fgrad
from fgrad import lax

SIZES = (0, 1, 5, 7, 64, 200, 600)
ELEMENTWISE = (
    "sin cos tan arctan sinh cosh tanh arcsinh exp exp2 expm1 cbrt square sinc absolute negative "
    "floor ceil trunc rint sign log log2 log10 log1p sqrt reciprocal isfinite signbit"
)
REDUCTIONS = (
    "sum prod max min mean std var ptp median argmax argmin any all count_nonzero nansum nanmax "
    "linalg.norm"
)


def _ends_itself(x: Any) -> Any:
    if not x.size:
        return x
    return lax.while_loop(lambda s: np.sum(np.exp(s)) < 9.0, lambda s: s * 1.5, x[:8] + 1)


ARRAYS: dict[str, Callable[[Any], Any]] = {
    "cumsum": np.cumsum,
    "sort": np.sort,
    "diff": np.diff,
    "roll": lambda x: np.roll(x, 1),
    "outer": lambda x: np.outer(x[:5], x[:5]),
    "solve": lambda x: np.linalg.solve(np.eye(len(x[:3])) + np.outer(x[:3], x[:3]), x[:3]),
    "hypot": lambda x: np.hypot(x, np.exp(-x)),
    "select": lambda x: np.where(x > 1.0, np.exp(-x), x),
    "write": lambda x: np.exp(x * 0.1 if not x.size else x.at[x.size // 2].set(0.5)),
    "scan": lambda x: lax.scan(lambda c, v: (c + np.exp(-v), c * v), 0.0, x)[1],
    "while": _ends_itself,
    "softmax": lambda x: fgrad.nn.softmax(x) if x.size else x,
}  # fmt: skip


def _function(name: str) -> Callable[[Any], Any]:
    if name in ARRAYS:
        return ARRAYS[name]
    out: Any = np
    for part in name.split("."):
        out = getattr(out, part)
    return out


def _programs(name: str, size: int, dtype: str) -> tuple[Callable[[Any], Any], Any]:
    f = _function(name)
    x = np.linspace(0.2, 1.3, size).astype(dtype)

    def going(s: Any) -> Any:
        k, x = s
        return (k < 5) & (np.sum(np.abs(f(x) * 1.0)) < 20.0 + size)

    def step(s: Any) -> Any:
        return s[0] + 1, s[1] * np.float32(1.25) + np.exp(-s[1]).astype(dtype)

    return lambda x: lax.while_loop(going, step, (0, x)), x


NAMES = [*ELEMENTWISE.split(), *REDUCTIONS.split(), *ARRAYS]
NEEDS_ELEMENTS = {"max", "min", "ptp", "argmax", "argmin", "nanmax", "mean", "std", "var", "median"}


@pytest.mark.parametrize("name", NAMES)
def test_condition(name: str) -> None:
    """The compiled loop takes as many steps as the evaluated one, to the same numbers."""
    k = NAMES.index(name)
    for size in {SIZES[k % 7], SIZES[(k + 3) % 7], SIZES[(k + 5) % 7]}:
        if size == 0 and name in NEEDS_ELEMENTS:
            continue
        for dtype in ("float32", "float64"):
            f, x = _programs(name, size, dtype)
            got, expected = fgrad.jit(f)(x), f(x)
            assert got[0] == expected[0], (size, dtype)
            rtol = 1e-4 if dtype == "float32" else 1e-10
            np.testing.assert_allclose(got[1], expected[1], rtol, err_msg=f"{size} {dtype}")
