"""Loops that count, and whose steps need none of the others: bits, errors, derivatives."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fgrad
from fgrad.compile.kernel.ir import Loop
from fgrad.compile.kernel.rewrite import walk

SIZES = (3, 7, 9, 17, 33, 41, 80)


def row(a: Any, n: int) -> Any:
    out = np.zeros((n, n))
    for i in range(n):
        for k in range(i):
            out[i, k] = a[i, k] * 2.0 + k
    return out


def column(a: Any, n: int) -> Any:
    out = a * 1.0
    for i in range(n):
        for k in range(i, n):
            out[k, i] += a[i, k] * a[k, i]
    return out


def downwards(a: Any, n: int) -> Any:
    out = a * 1.0
    for i in range(n):
        for k in range(i, -1, -1):
            out[i, k] = out[i, k] - 0.5 * a[0, k]
    return out


def by_twos(a: Any, n: int) -> Any:
    out = a * 1.0
    for i in range(n):
        for k in range(0, i, 2):
            out[i, k] *= a[k, i]
    return out


def two_rows(a: Any, n: int) -> Any:
    out = a * 1.0
    for i in range(n):
        for j in range(i + 1):
            for k in range(j):
                out[i, k] += 0.5 * a[j, k]
                out[j, k] -= 0.25 * a[i, k]
    return out


def row_below(a: Any, n: int) -> Any:
    out = a * 1.0
    for i in range(1, n):
        for k in range(i):
            out[i, k] = 0.5 * out[i - 1, k] + a[i, k]
    return out


def neighbour(a: Any, n: int) -> Any:
    out = a * 1.0
    for i in range(n):
        for k in range(1, i):
            out[i, k] = 0.5 * out[i, k - 1] + a[i, k]
    return out


def distant(a: Any, n: int) -> Any:
    out = a * 1.0
    for i in range(n):
        for k in range(9, i):
            out[i, k] = 0.5 * out[i, k - 9] + out[i, k - 5]
    return out


def ahead(a: Any, n: int) -> Any:
    out = a * 1.0
    for i in range(n):
        for k in range(i - 1):
            out[i, k] = 0.5 * out[i, k + 1]
    return out


def same_place(a: Any, n: int) -> Any:
    out = np.zeros(n)
    for i in range(n):
        for k in range(i):
            out[i] += a[i, k]
    return out


def summed(a: Any, n: int) -> Any:
    out, s = np.zeros((n, n)), 0.0
    for i in range(n):
        for k in range(i):
            s += a[i, k]
            out[i, k] = s
    return out


def wrapped(a: Any, n: int) -> Any:
    out = np.zeros((n, n))
    for i in range(n):
        for k in range(i):
            out[i, k - 3] = a[k - i, k]
    return out


def chosen(a: Any, n: int) -> Any:
    out = np.zeros((n, n))
    for i in range(n):
        for k in range(i):
            if a[i, k] > 0.0:
                out[i, k] = a[k, i] + i
    return out


def functions(a: Any, n: int) -> Any:
    out = np.zeros((n, n))
    for i in range(n):
        for k in range(i):
            out[i, k] = np.exp(-(a[i, k] * a[i, k])) + min(k, 5)
    return out


PROGRAMS = (
    row, column, downwards, by_twos, two_rows, row_below, neighbour, distant, ahead, same_place,
    summed, wrapped, chosen, functions,
)  # fmt: skip


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("f", PROGRAMS, ids=lambda f: f.__name__)
def test_values_are_those_of_python(
    f: Callable[..., Any], n: int, rng: np.random.Generator
) -> None:
    a = rng.normal(size=(n, n))
    got, expected = fgrad.jit(f, static_argnums=1)(a, n), f(a, n)
    np.testing.assert_allclose(got, expected, rtol=1e-13, atol=1e-13)


@pytest.mark.parametrize("dtype", ["f4", "i8", "i4", "i2"])
@pytest.mark.parametrize("f", [row, column, two_rows, downwards], ids=lambda f: f.__name__)
def test_other_numbers(f: Callable[..., Any], dtype: str, rng: np.random.Generator) -> None:
    a = rng.integers(-9, 9, (50, 50)).astype(dtype)
    got, expected = fgrad.jit(f, static_argnums=1)(a, 50), f(a, 50)
    assert got.dtype == expected.dtype
    np.testing.assert_allclose(got, expected, rtol=1e-6)


@pytest.mark.parametrize("n", [7, 20, 41])
@pytest.mark.parametrize("f", PROGRAMS, ids=lambda f: f.__name__)
def test_derivatives(f: Callable[..., Any], n: int, rng: np.random.Generator) -> None:
    a, d = rng.normal(size=(n, n)), rng.normal(size=(n, n))
    w = rng.normal(size=np.shape(f(a, n)))

    def value(a: Any) -> Any:
        return np.sum(w * f(a, n))

    got = np.sum(fgrad.jit(fgrad.grad(value))(a) * d)
    expected = (value(a + 1e-6 * d) - value(a - 1e-6 * d)) / 2e-6
    np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-5)
    second = fgrad.jit(fgrad.grad(lambda a: np.sum(fgrad.grad(value)(a) ** 2)))(a)
    plain = fgrad.grad(lambda a: np.sum(fgrad.grad(value)(a) ** 2))(a) if n == 7 else second
    np.testing.assert_allclose(second, plain, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("at", [0, 20, 37, 38])
def test_indices_out_of_bounds(at: int, rng: np.random.Generator) -> None:
    def f(a: Any, start: Any) -> Any:
        out = np.zeros((40, 40))
        for i in range(40):
            for k in range(i):
                out[i, k + start] = a[i, k]
        return out

    a = rng.normal(size=(40, 40))
    with pytest.raises(IndexError, match=re.escape("out of bounds for axis 1 with size 40")):
        fgrad.jit(f)(a, 40 - at)
    np.testing.assert_array_equal(fgrad.jit(f)(a, 1), f(a, 1))


@pytest.mark.parametrize(
    ("f", "has_vectors"),
    [(row, True), (column, True), (downwards, True), (two_rows, True), (row_below, True),
     (neighbour, False), (same_place, False), (summed, False), (ahead, False), (distant, False)],
    ids=lambda x: getattr(x, "__name__", ""),
)  # fmt: skip
def test_which_loops_are_vectors(
    f: Callable[..., Any], has_vectors: bool, rng: np.random.Generator
) -> None:
    a = rng.normal(size=(40, 40))
    steps = fgrad.inspect(lambda a: f(a, 40))(a).passes["control"][1]
    bodies = [step.kernel.body for step in steps if hasattr(step, "kernel")]
    loops = [s for body in bodies for s in walk(body) if isinstance(s, Loop)]
    nests = [s for s in loops if s.kind == "while" and any([isinstance(t, Loop) for t in s.body])]
    vectors = [t for s in nests for t in s.body if isinstance(t, Loop) and t.lanes > 1]
    assert bool(vectors) is has_vectors
