"""What decides how a loop is written: on both sides of each threshold values and gradients are
those at the prompt, and no side does work that the other does not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fgrad
from fgrad import lax
from fgrad.compile.kernel.ir import Init, Kernel, Load, Loop, Store
from fgrad.compile.kernel.rewrite import walk
from tests.lax.test_loop_kernels import kernels
from tests.lax.test_loops_of_rows import compared

STEPS = 7


def rolled(a: Any) -> Any:
    return lax.fori_loop(0, STEPS, lambda i, y: 0.5 * np.roll(y, 1) + a[0], a[0])


def stencil(a: Any) -> Any:
    y = a[0] * 1.0
    for _ in range(STEPS):
        y[1:-1] = 0.3 * (y[:-2] + y[1:-1] + y[2:])
    return y


def functions(a: Any) -> Any:
    return lax.fori_loop(0, STEPS, lambda i, y: np.exp(y - np.max(y)) / 3.0 + a[0], a[0])


def sums(a: Any) -> Any:
    return lax.fori_loop(0, STEPS, lambda i, y: y - np.sum(y) / y.size + a[0], a[0])


def recurrent(a: Any) -> Any:
    return lax.fori_loop(0, STEPS, lambda i, y: np.tanh(a @ y + a[0]), a[0])


def products(a: Any) -> Any:
    return lax.fori_loop(0, STEPS, lambda i, y: 0.1 * a @ y + a, a)


def triangular(a: Any) -> Any:
    n = a.shape[0]
    x = np.zeros(n)
    for i in range(n):
        x[i] = (1.0 - a[i, :i] @ x[:i]) / (2.0 + a[i, i])
    return x


def recurrence(a: Any) -> Any:
    m, n = a.shape
    b = np.zeros_like(a)
    for i in range(1, m):
        for j in range(1, n):
            b[i, j] = 0.5 * b[i - 1, j] + 0.4 * b[i, j - 1] + a[i, j] * a[i, j]
    return b


def table(a: Any) -> Any:
    m, n = a.shape
    d = np.zeros((m + 1, n + 1))
    for i in range(m):
        for j in range(n):
            best = min(d[i, j + 1], d[i + 1, j]) + 1.0
            d[i + 1, j + 1] = min(best, d[i, j] + a[i, j])
    return d


def prefix(a: Any) -> Any:
    b = np.zeros_like(a)
    for i in range(a.shape[0]):
        s = 0.0
        for j in range(a.shape[1]):
            s += a[i, j]
            b[i, j] = s * s
    return b


ROWS = {"rolled": rolled, "stencil": stencil, "functions": functions, "sums": sums}
SQUARES = {"recurrent": recurrent, "products": products, "triangular": triangular}
NESTS = {"recurrence": recurrence, "table": table, "prefix": prefix}


@pytest.mark.parametrize("name", ROWS)
@pytest.mark.parametrize("n", (4, 12, 13, 32, 33, 64, 65))
def test_rows(name: str, n: int, rng: np.random.Generator) -> None:
    compared(ROWS[name], rng.normal(size=(3, n)))


@pytest.mark.parametrize("name", SQUARES)
@pytest.mark.parametrize("n", (4, 5, 6, 7, 8, 12, 13, 16, 17, 22, 23))
def test_squares(name: str, n: int, rng: np.random.Generator) -> None:
    compared(SQUARES[name], rng.normal(size=(n, n)) / n)


@pytest.mark.parametrize("name", NESTS)
@pytest.mark.parametrize("n", (2, 4, 5, 6, 9))
def test_nests(name: str, n: int, rng: np.random.Generator) -> None:
    compared(NESTS[name], rng.normal(size=(9, n)))


def scalars(found: list[Kernel]) -> int:
    """The elements that stay in registers from step to step."""
    return len([s for k in found for s in walk(k.body) if isinstance(s, Init) and s.op == "carry"])


@pytest.mark.parametrize(
    ("name", "few", "many"),
    [("rolled", 64, 65), ("functions", 12, 13), ("sums", 32, 33)],
)
def test_functions_and_sums_are_vectors_earlier(
    name: str, few: int, many: int, rng: np.random.Generator
) -> None:
    f = ROWS[name]
    found = [scalars(kernels(f, rng.normal(size=(3, n)))) for n in (few, many)]
    assert found == [few, 0]


def gradient_of(f: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return fgrad.grad(lambda x: np.sum(f(x) ** 2))


def sizes_of(found: list[Kernel]) -> list[int]:
    return [b.size for k in found for b in k.buffers]


def test_lanes_do_not_repeat_what_is_one_for_all(rng: np.random.Generator) -> None:
    found = kernels(gradient_of(recurrent), rng.normal(size=(16, 16)))
    lanes = [s for k in found for s in k.body if isinstance(s, Loop) and s.kind == "parallel"]
    inner = [s for lane in lanes for s in walk(lane.body) if isinstance(s, Loop)]
    assert "serial" not in [s.kind for s in inner]


@pytest.mark.parametrize("n", (5, 6, 7, 8, 9))
def test_small_masks_are_made_again(n: int, rng: np.random.Generator) -> None:
    found = kernels(gradient_of(triangular), rng.normal(size=(n, n)))
    assert max(sizes_of(found)) <= n * n  # no slots of a loop whose states are kept


@pytest.mark.parametrize("name", NESTS)
@pytest.mark.parametrize("n", (4, 5, 9))
def test_what_is_written_stays_in_memory(name: str, n: int, rng: np.random.Generator) -> None:
    found = kernels(gradient_of(NESTS[name]), rng.normal(size=(40, n)))
    moves = [s for k in found for s in walk(k.body) if isinstance(s, Load | Store)]
    assert len(moves) < 300  # of straight code: not each element of an array, in each step


@pytest.mark.parametrize("first", (0, 5, -1))
def test_constant_progressions_are_places(first: int, rng: np.random.Generator) -> None:
    n = 40
    numbers = np.arange(n) if not first else np.arange(first, first + n)
    numbers = numbers[::-1] if first < 0 else numbers

    def f(x: Any) -> Any:
        return lax.scan(lambda c, i: (c + x[i + 1] * c, i * c), 1.0, numbers)[1]

    x = rng.normal(size=n + 10)
    found = kernels(f, x)
    assert not [s for k in found for s in walk(k.body) if isinstance(s, Load) and s.gather]
    compared(lambda a: f(a[0]), x[None])
