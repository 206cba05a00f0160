"""Slices whose bounds come out of the data: equal to NumPy, or a card."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fgrad
from fgrad.errors import FgradError

ROWS = 7
START = np.array([0, 3, 3, 7, 8, 12, 15, 15], np.uint32)
COLUMN = np.random.default_rng(1).integers(0, 9, 15).astype(np.uint32)
X = np.random.default_rng(2).standard_normal(15)
W = np.random.default_rng(3).standard_normal(9)


def product(start: Any, column: Any, x: Any, w: Any) -> Any:
    y = np.empty(len(start) - 1, x.dtype)
    for i in range(len(start) - 1):
        y[i] = x[start[i] : start[i + 1]] @ w[column[start[i] : start[i + 1]]]
    return y


def formulas(start: Any, column: Any, x: Any, w: Any) -> Any:
    y = np.zeros(ROWS)
    for i in range(ROWS):
        a, b = start[i], start[i + 1]
        v = x[a:b]
        u = np.where(v > 0, np.sin(v) * w[i], 2 * v) + w[column[a:b]] ** 2
        y[i] = np.sum(u) + (v * u).sum() + v.size
    return y


def reductions(start: Any, column: Any, x: Any, w: Any) -> Any:
    y = np.zeros(ROWS)
    for i in range(ROWS):
        v = x[start[i] : start[i + 1]]
        y[i] = np.prod(v) + np.any(v > 1) + np.all(v < 1) + np.count_nonzero(v > 0)
        if len(v) > 0:
            y[i] += v.mean() * v.max() - np.min(v) + v.std() + np.linalg.norm(v)
    return y


def walked(start: Any, column: Any, x: Any, w: Any) -> Any:
    y = np.zeros(9)
    for i in range(ROWS):
        for k in column[start[i] : start[i + 1]]:
            y[k] += w[k] * x[i]
    return y


def ends(start: Any, column: Any, x: Any, w: Any) -> Any:
    y = np.zeros(ROWS)
    for i in range(ROWS):
        n = int(column[i])
        y[i] = np.sum(x[n:]) + x[:n].sum() * np.sum(x[-n - 1 :]) + np.sum(x[n : n - 3])
    return y


def in_rows(start: Any, column: Any, x: Any, w: Any) -> Any:
    m = np.outer(w, w)
    y = np.zeros(ROWS)
    for i in range(ROWS):
        n = column[i]
        y[i] = m[i, n:] @ m[n:, i] + np.sum(m[n, : column[i + 1]])
    return y


def masks(start: Any, column: Any, x: Any, w: Any) -> Any:
    y = np.zeros(ROWS)
    for i in range(ROWS):
        v = x[start[i] : start[i + 1]]
        y[i] = np.sum(v[v > 0] ** 2) + v[v > 0].size
    return y


def written_later(start: Any, column: Any, x: Any, w: Any) -> Any:
    z = x * 1
    y = np.zeros(ROWS)
    for i in range(ROWS):
        v = z[start[i] : start[i + 1]]
        u = 2 * v
        c = v.copy()
        z[start[i] % 15] = 1.0
        y[i] = np.sum(v) + 3 * np.sum(u) + 7 * np.sum(c)
    return y


def without_a_loop(start: Any, column: Any, x: Any, w: Any) -> Any:
    if x[0] > 100:
        return w[: column[0]].sum()
    return w[column[1] :].sum() + np.sum(x[column[0] :])


def stored(start: Any, column: Any, x: Any, w: Any) -> Any:
    y = np.zeros(15)
    for i in range(ROWS):
        y[start[i] : start[i + 1]] = w[i]
    return y


PROGRAMS = (
    product, formulas, reductions, walked, ends, in_rows, masks, written_later, stored,
    without_a_loop,
)  # fmt: skip


@pytest.mark.parametrize("f", PROGRAMS)
def test_programs_have_the_values_and_gradients_of_numpy(f: Callable[..., Any]) -> None:
    args = (START, COLUMN, X, W)
    np.testing.assert_allclose(fgrad.jit(f)(*args), f(*args), rtol=1e-12)

    def loss(x: Any, w: Any) -> Any:
        return np.sum(np.sin(f(START, COLUMN, x, w)))

    def traced(start: Any, column: Any, x: Any, w: Any) -> Any:
        return np.sum(np.sin(f(start, column, x, w)))

    expected = fgrad.grad(loss, (0, 1))(X, W)
    found = fgrad.jit(fgrad.grad(traced, (2, 3)))(*args)
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_allclose(a, b, 1e-9, 1e-12)


def test_programs_are_batched() -> None:
    xs = np.stack([X, 2 * X])
    found = fgrad.jit(fgrad.vmap(product, (None, None, 0, None)))(START, COLUMN, xs, W)
    expected = product(START, COLUMN, X, W)
    np.testing.assert_allclose(found, [expected, 2 * expected], rtol=1e-12)


def refused(start: Any, column: Any, x: Any, w: Any) -> Any:
    y = np.zeros(ROWS)
    for i in range(ROWS):
        y[i] = np.sort(x[start[i] : start[i + 1]])[0]
    return y


def unlike(start: Any, column: Any, x: Any, w: Any) -> Any:
    y = np.zeros(ROWS)
    for i in range(ROWS):
        y[i] = np.sum(x[start[i] : start[i + 1]] * x[start[i] : start[i + 1] + 1])
    return y


def outside(start: Any, column: Any, x: Any, w: Any) -> Any:
    y = np.zeros(ROWS)
    for i in range(ROWS):
        y[i] = np.sum(w[column[start[i] : start[i + 1]]])
    return y


def largest(start: Any, column: Any, x: Any, w: Any) -> Any:
    y = np.zeros(ROWS)
    for i in range(ROWS):
        y[i] = np.max(x[start[i] : start[i + 1]])
    return y


def test_what_is_no_formula_or_reduction_is_a_card() -> None:
    with pytest.raises(FgradError):
        fgrad.jit(refused)(START, COLUMN, X, W)


def test_errors_are_numpys() -> None:
    with pytest.raises(ValueError, match="broadcast"):
        fgrad.jit(unlike)(START, COLUMN, X, W)
    with pytest.raises(IndexError):
        fgrad.jit(outside)(START, np.full(15, 9, np.uint32), X, W)
    with pytest.raises(ValueError, match="no identity"):
        fgrad.jit(largest)(START, COLUMN, X, W)


def counted(x: Any) -> Any:
    y = x * 1
    for i in range(1, 9):
        y[i] = y[:i] @ x[:i] + np.sum(np.sort(x[i:]))
    return y


def test_a_loop_whose_slices_are_no_formulas_runs_step_by_step() -> None:
    np.testing.assert_allclose(fgrad.jit(counted)(X), counted(X.copy()), rtol=1e-12)
