"""Loops that work on rows: one kernel with vectors at every length, in both directions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fgrad
from fgrad import lax
from fgrad.compile.kernel.ir import Loop
from tests.lax.test_loop_kernels import kernels, loops

SIZES = (3, 9, 40, 65, 200, 511, 513, 600)


def recurrence(a: Any) -> Any:
    b = np.zeros_like(a)
    b[0] = a[0]
    for i in range(1, a.shape[0]):
        b[i] = a[i] - 0.5 * b[i - 1] * a[i]
    return b


def columns(a: Any) -> Any:
    return recurrence(a.T)


def three(a: Any) -> Any:
    b = np.zeros_like(a)
    for i in range(1, a.shape[0] - 1):
        b[i] = a[i - 1] + a[i] * a[i] + a[i + 1]
    return b


def constants(a: Any) -> Any:
    """Numbers that differ from place to place, and some that do not."""
    weights, bits = np.cos(np.arange(a.shape[1])), np.arange(a.shape[1]) % 3 == 1
    b = a * 1.0
    for i in range(1, a.shape[0]):
        b[i] = np.where(bits, weights * b[i - 1], a[i] * np.full(a.shape[1], 0.5)) + b[i - 1]
    return b


# --- bodies that mix the places of a row: inner loops of the kernel


def window(a: Any) -> Any:
    n = a.shape[1]
    buffer, out = a[0] * 0.0, np.zeros(30)
    for t in range(30):
        buffer[t % n] = a[t % 12, t % n]
        mean = np.sum(buffer) / n
        out[t] = np.sum((buffer - mean) ** 2) / n
    return out


def normed(a: Any) -> Any:
    q = a * 1.0
    for i in range(1, a.shape[0]):
        q[i] = q[i] - (q[i] @ q[i - 1]) * q[i - 1]
        q[i] = q[i] / np.sqrt(np.sum(q[i] ** 2) + 1.0)
    return q


def projected(a: Any) -> Any:
    q = a * 1.0
    for i in range(q.shape[0]):
        for j in range(i):
            q[i] = q[i] - 0.1 * (q[i] @ q[j]) * q[j]
        q[i] = q[i] / np.sqrt(q[i] @ q[i])
    return q


def rolled(x: Any) -> Any:
    x = x[0]
    for _ in range(6):
        x = x + 0.01 * ((np.roll(x, -1) - np.roll(x, 2)) * np.roll(x, 1) - x + 8.0)
    return x


def swapped(a: Any) -> Any:
    x, y = a[0] * 1.0, a[1] * 1.0
    for i in range(7):
        x, y = y + 0.1 * a[i] * np.sum(x), x * np.cos(y)
    return x - y


def shifted(a: Any) -> Any:
    """Rows that are written at other places than they are read."""
    b = a * 1.0
    for i in range(1, a.shape[0]):
        b[i] = b[i][::-1] + np.roll(b[i - 1], 1)
        b[i, 1:] = b[i, :-1] * 0.5 + np.mean(b[i])
        b[0] += b[i] * np.max(b[i - 1])
    return b


def stencil(a: Any) -> Any:
    u = a[0] * 1.0
    for i in range(10):
        u[1:-1] = u[1:-1] + 0.1 * (u[:-2] - 2.0 * u[1:-1] + u[2:]) + 0.01 * a[i, 1:-1]
    return u


def running(a: Any) -> Any:
    s = a[0] * 0.0
    for i in range(a.shape[0]):
        s = np.cumsum(a[i]) * 0.1 + s - np.cumsum((s * a[i])[::-1])[::-1] * 0.01
    return s


def branches(a: Any) -> Any:
    h, m = a[0] * 1.0, 0.0
    for i in range(a.shape[0]):
        if np.sum(a[i]) > 0.0:
            h = h * 0.5 + a[i]
            m = m + np.max(h)
        else:
            h = np.tanh(h) - np.min(a[i]) * h
    return h * m


def old_and_new(a: Any) -> Any:
    """A row that is read after it was overwritten, by another name."""
    b, s = a * 1.0, a[0] * 0.0
    for i in range(1, a.shape[0]):
        old = b[i] * 1.0
        b[i] = np.sin(b[i - 1]) + np.mean(old)
        s = s + old * b[i]
    return b[3] + s


def steps_until(a: Any) -> Any:
    x, k = a[0] * 1.0, 0
    while np.sum(x * x) > 0.5 and k < 40:
        x = 0.7 * x + 0.01 * a[1]
        k = k + 1
    return x


def twice(a: Any) -> Any:
    b = a * 1.0
    for i in range(2, a.shape[0]):
        b[np.array([i, i - 1])] += np.stack([b[i - 2], b[i] * np.mean(b[i])])
    return b


def products(a: Any) -> Any:
    w = a[:, :12] * 0.1 if a.shape[1] >= 12 else a @ a.T * 0.1
    h = a[0] * 1.0
    for _ in range(6):
        h = np.tanh(w @ (a @ h)) @ a * 0.01 + h
    return h


def picked(a: Any) -> Any:
    places = (np.arange(a.shape[1]) * 7 + 3) % a.shape[1]
    h = a[0] * 1.0
    for i in range(a.shape[0]):
        h = np.where(a[i] > 0, h[places], np.concatenate([h[1:], h[:1]])) + np.sum(h) * 0.01
    return h


INSIDE: dict[str, Callable[[Any], Any]] = {
    f.__name__: f
    for f in (
        window, normed, swapped, shifted, stencil, running, branches, old_and_new, steps_until,
        twice, products, picked, projected, rolled,
    )
}  # fmt: skip
IN_LANES: dict[str, Callable[[Any], Any]] = {
    f.__name__: f for f in (recurrence, columns, three, constants)
}


def compared(f: Callable[[Any], Any], x: np.ndarray) -> None:
    """Value and gradient are those at the prompt."""
    weights = np.random.default_rng(3).normal(size=np.shape(f(x)))
    gradient = fgrad.grad(lambda x: np.sum(weights * f(x)))
    np.testing.assert_allclose(fgrad.jit(f)(x), f(x), rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(fgrad.jit(gradient)(x), gradient(x), rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("name", IN_LANES)
@pytest.mark.parametrize("n", SIZES)
def test_rows_of_any_length(name: str, n: int, rng: np.random.Generator) -> None:
    shape = (n, 12) if name == "columns" else (12, n)
    compared(IN_LANES[name], rng.normal(size=shape))


@pytest.mark.parametrize("name", IN_LANES)
def test_gradients_are_lanes(name: str, rng: np.random.Generator) -> None:
    shape = (50, 12) if name == "columns" else (12, 50)
    found = kernels(fgrad.grad(lambda x: np.sum(IN_LANES[name](x) ** 2)), rng.normal(size=shape))
    (backward,) = [k for k in found if loops(k, "serial") and k.body][-1:]
    assert [loop.lanes > 1 for loop in loops(backward, "parallel")] == [True]


@pytest.mark.parametrize("name", INSIDE)
@pytest.mark.parametrize("n", (5, 25, 70, 200, 600))
def test_rows_whose_places_are_mixed(name: str, n: int, rng: np.random.Generator) -> None:
    compared(INSIDE[name], rng.normal(size=(12, n)))


@pytest.mark.parametrize("name", INSIDE)
def test_rows_whose_places_are_mixed_in_a_batch(name: str, rng: np.random.Generator) -> None:
    x, f = rng.normal(size=(9, 12, 30)), INSIDE[name]
    found = fgrad.jit(fgrad.vmap(f))(x)
    np.testing.assert_allclose(found, np.stack([f(row) for row in x]), rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("name", ("window", "normed", "swapped", "stencil", "old_and_new"))
def test_rows_are_loops_of_one_kernel(name: str, rng: np.random.Generator) -> None:
    for n in (70, 300):
        f = INSIDE[name]
        for g in (f, fgrad.grad(lambda x, f=f: np.sum(f(x) ** 2))):
            found = kernels(g, rng.normal(size=(12, n)))
            inner = [s for k in found for loop in loops(k, "serial") for s in loop.body]
            assert [s for s in inner if isinstance(s, Loop) and s.lanes > 1]


@pytest.mark.parametrize("dtype", (np.float32, np.int32))
def test_rows_of_other_numbers(dtype: type, rng: np.random.Generator) -> None:
    def f(x: Any) -> Any:
        def step(c: Any, row: Any) -> Any:
            h, hits = c
            more = row > h
            h = np.where(more, row, h - row) + np.max(row)
            return (h, hits ^ more), np.sum(h)

        return lax.scan(step, (x[0], x[0] > 0), x)

    x = (rng.normal(size=(12, 77)) * 9).astype(dtype)
    fgrad.tree.map(lambda p, q: np.testing.assert_allclose(p, q, rtol=1e-4), fgrad.jit(f)(x), f(x))
