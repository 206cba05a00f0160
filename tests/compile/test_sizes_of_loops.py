"""Sizes as symbols in plain loops and new arrays: each length has the bits of its own trace."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from resized import compared

import fgrad
from fgrad import lax


def _counted(x: Any) -> Any:
    total = 0
    for i in range(x.shape[0]):
        total += i
    return x * total


def _down(x: Any) -> Any:
    total = 0.0
    for i in range(x.shape[0] - 1, -1, -2):
        total = total * 0.5 + x[i]
    return total


def _between(x: Any) -> Any:
    y = x.copy()
    for i in range(1, len(x) - 1):
        y[i] = 0.5 * (y[i - 1] + x[i + 1])
    return y


def _filled(x: Any) -> Any:
    y = np.zeros(len(x))
    for i in range(len(x)):
        y[i] = x[i] * i
    return y


def _listed(x: Any) -> Any:
    parts = []
    for v in x:
        parts.append(v * 2)
    return np.stack(parts)


def _numbered(x: Any) -> Any:
    total = 0.0
    for k, (a, b) in enumerate(zip(x, x[::-1])):  # noqa: B905
        total = total + a * b * k
    return total


def _ended(x: Any) -> Any:
    total = 0.0
    for v in x:
        if v > 1.5:
            break
        total = total + v
    return total


def _nested(x: Any) -> Any:
    total = 0.0
    for i in range(len(x)):
        for j in range(i):
            total = total + x[i] * x[j]
    return total


def _by_name(x: Any) -> Any:
    names = {}
    for i in range(len(x)):
        names[f"x{i}"] = x[i]
    return names["x0"] + names["x1"]


def _dtype(x: Any) -> Any:
    return x.astype(np.float32) * np.ones(len(x), np.float32) + np.full(len(x), 0.1, np.float32)


LOOPS: dict[str, Callable[[Any], Any]] = {
    "counted": _counted, "down": _down, "between": _between, "filled": _filled, "listed": _listed,
    "numbered": _numbered, "ended": _ended, "nested": _nested, "by name": _by_name,
    "counted in float32": lambda x: _counted(x.astype(np.float32)),
    "dtypes": _dtype,
    "full": lambda x: np.full(x.shape[0], 3.5) + x,
    "rows and columns": lambda x: np.zeros((x.shape[0], 2)) + x[:, None],
    "arange": lambda x: x * np.arange(1, x.shape[0] + 1) + np.arange(0, 2 * x.shape[0], 2),
    "arange of floats": lambda x: x * np.arange(x.shape[0], dtype=np.float32),
    "arange down": lambda x: x * np.arange(x.shape[0], 0, -1),
    "arange of halves": lambda x: x * np.arange(0, x.shape[0] / 2, 0.5),
    "linspace": lambda x: x * np.linspace(0.5, 2, x.shape[0]),
    "linspace without end": lambda x: x * np.linspace(0.5, 2, x.shape[0], endpoint=False),
    "linspace of integers": lambda x: x * np.linspace(0, 9, x.shape[0], dtype=int),
    "eye": lambda x: np.eye(x.shape[0], k=1) @ x,
    "eye that is not square": lambda x: x @ np.eye(x.shape[0], 3),
    "tril": lambda x: np.tril(np.outer(x, x), -1),
    "triu": lambda x: np.triu(np.outer(x, x), 1),
    "variance": lambda x: np.var(x), "deviation": lambda x: np.std(x, ddof=1),
    "covariance": lambda x: np.cov(np.stack([x, x * x])), "compared": lambda x: x * 9 < x.shape[0],
    "argmax": lambda x: np.argmax(np.stack([x, -x], 1), 1),
    "running product": lambda x: np.cumprod(x * 0.5),
}  # fmt: skip
GRADIENTS = ("down", "between", "filled", "numbered", "nested", "variance", "deviation", "eye")


@pytest.mark.parametrize("name", LOOPS)
def test_each_length_has_its_own_bits(name: str, rng: np.random.Generator) -> None:
    outcome = compared(LOOPS[name], ([rng.normal(size=n)] for n in (9, 12, 33, 2, 3, 5, 64, 40, 1)))
    assert not outcome.wrong


@pytest.mark.parametrize("name", GRADIENTS)
def test_gradients_are_those_of_the_length(name: str, rng: np.random.Generator) -> None:
    function = fgrad.grad(lambda x: np.sum(LOOPS[name](x) ** 2))
    shared = fgrad.jit(function, dynamic="auto")
    for n in (9, 12, 33, 64, 40):
        x = rng.normal(size=n)
        np.testing.assert_allclose(shared(x), fgrad.jit(function)(x), rtol=1e-10, atol=1e-10)


# Where the first length is a long one, bodies are compiled apart, with tables of their own.
BODIES: dict[str, Callable[[Any], Any]] = {
    "until settled": lambda a: lax.while_loop(
        lambda c: np.max(np.abs(c[0] - c[1])) > 1e-12,
        lambda c: (0.5 * (c[0] + a / c[0]), c[0]),
        (a, a + 1.0),
    )[0],
    "while a sum is small": lambda a: lax.while_loop(
        lambda c: np.sum(c) < 1e6, lambda c: c * 1.5 + np.mean(c), a
    ),
    "repeated": lambda a: lax.fori_loop(0, 5, lambda _, c: c * 0.5 + np.cumsum(c) / np.max(c), a),
    "scan": lambda a: lax.scan(
        lambda c, k: (c * 0.9 + np.roll(c, 1) * k, np.sum(c)), a, np.arange(3.0)
    ),
    "scan in a scan": lambda a: lax.scan(
        lambda c, _: (lax.scan(lambda d, k: (d + a / np.max(d) * k, None), c, np.ones(2))[0], None),
        a, None, length=3,
    )[0],
    "branch": lambda a: lax.cond(
        np.sum(a) > 0, lambda x: x / np.max(x), lambda x: np.cumsum(x) - x[::-1], a
    ),
    "branches of a loop": lambda a: lax.fori_loop(
        0, 4, lambda i, c: lax.switch(i % 2, [lambda x: x / np.max(x), np.cumsum], c), a
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", [*BODIES, *LOOPS])
def test_shorter_lengths_after_long_ones(name: str, rng: np.random.Generator) -> None:
    function = BODIES.get(name) or LOOPS[name]
    lengths = (1601, 700, 1000, 2000, 40) if name in BODIES else (150, 131, 101, 140)
    for n, *others in (lengths, lengths[::-1]):
        shared, plain = fgrad.jit(function, dynamic=True), fgrad.jit(function)
        for m in (n, *others):
            x = rng.uniform(1, 2, m)
            for found, expected in zip(
                fgrad.tree.leaves(shared(x)), fgrad.tree.leaves(plain(x)), strict=True
            ):
                np.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-10)


SERVED = [n for n in LOOPS if n not in ("listed", "by name", "arange of halves", "covariance")]


@pytest.mark.parametrize("name", SERVED)
def test_long_lengths_need_no_trace(name: str, rng: np.random.Generator) -> None:
    each = ([rng.normal(size=n)] for n in (101, 103, 117, 131, 109))
    outcome = compared(LOOPS[name], each)
    assert outcome.untraced and not outcome.wrong, outcome.reasons
