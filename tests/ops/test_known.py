"""Rules that leave out cases which known numbers do not meet: the same gradients as compiled ones,
of which nothing is known, also where the numbers do meet them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fgrad
from fgrad.ops.indexed import LONG, add_rows, read, updated
from fgrad.ops.shape import pad

SPECIAL = (0.0, 1e-200, 1e200, np.inf, -1.0)
ROWS = np.array([[3.0, 4.0, 1.0], [0.0, 0.0, 0.0], [1.0, 0.0, 2.0], [0.5, -2.0, 1.0]])

FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    "arctan2": lambda x: np.arctan2(x, x[::-1] + 2.0),
    "x ** x": lambda x: np.abs(x) ** x,
    "2 ** x": lambda x: 2.0**x,
    "0 ** x": lambda x: 0.0 ** (x * x + 2.0),
    "logaddexp": lambda x: np.logaddexp(x, -x),
    "hypot": lambda x: np.hypot(x, x[::-1]),
    "complex size": lambda x: np.abs(x + 1j * x * x),
    "sinc": np.sinc,
}
OF_ROWS: dict[str, Callable[[Any], Any]] = {
    "norm": np.linalg.norm,
    "norms of rows": lambda x: np.linalg.norm(x, axis=1, keepdims=True) * x,
    "norms not taken": lambda x: np.where(x[:, 0] > 0, np.log(np.linalg.norm(x, axis=1)), 0.0),
    "variance": lambda x: np.var(x, axis=0, ddof=1),
    "deviation": np.std,
    "deviations not taken": lambda x: np.where(x[:, 0] > 0, 1 / np.std(x, axis=1), 0.0),
    "products of rows": lambda x: np.prod(x, axis=1),
    "products of columns": lambda x: np.prod(x, axis=0, keepdims=True) * x,
    "determinant": lambda x: np.linalg.det(x[:3]) + np.linalg.det(x[::2, :2]),
}


def _weighted(f: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def loss(x: Any) -> Any:
        y = f(x)
        return np.sum(np.cos(np.arange(float(np.size(y)))).reshape(np.shape(y)) * y)

    return loss


def _agree(f: Callable[[Any], Any], x: np.ndarray, orders: int, atol: float = 1e-12) -> None:
    """Gradients at the prompt and compiled, by reverse and forward derivatives."""
    with np.errstate(all="ignore"):
        for _ in range(orders):
            loss = _weighted(f)
            f = fgrad.grad(loss)
            found, compiled = f(x), fgrad.jit(f)(x)
            np.testing.assert_allclose(found, compiled, rtol=1e-10, atol=atol)
            if np.isfinite(x).all() and np.isfinite(found).all():
                along = fgrad.jvp(loss, (x,), (np.cos(x),))[1]
                np.testing.assert_allclose(along, np.sum(found * np.cos(x)), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("special", [None, *SPECIAL])
def test_of_numbers(name: str, special: float | None, rng: np.random.Generator) -> None:
    x = rng.uniform(0.3, 2.0, 5)
    if special is not None:
        x[1] = special
    exact = special is not None
    _agree(FUNCTIONS[name], x, 1 if exact else 3, 1e-300 if exact else 1e-12)


@pytest.mark.parametrize("name", OF_ROWS)
def test_of_rows(name: str, rng: np.random.Generator) -> None:
    _agree(OF_ROWS[name], ROWS, 1)
    _agree(OF_ROWS[name], rng.uniform(0.5, 1.5, (4, 3)), 3)
    _agree(OF_ROWS[name], np.asfortranarray(ROWS), 1)


@pytest.mark.parametrize("spread", [1.0, 1e-3, 1e-8, 0.0])
def test_gradients_of_determinants_near_singular_matrices(
    spread: float, rng: np.random.Generator
) -> None:
    a = np.ones((3, 3)) + spread * rng.normal(size=(3, 3))
    found = fgrad.grad(np.linalg.det)(a)
    minors = [
        [np.delete(np.delete(a, i, 0), j, 1) for j in range(3)] for i in range(3)
    ]  # fmt: skip
    exact = [[(-1) ** (i + j) * (m[0, 0] * m[1, 1] - m[0, 1] * m[1, 0]) for j, m in enumerate(row)]
             for i, row in enumerate(minors)]  # fmt: skip
    np.testing.assert_allclose(found, exact, rtol=1e-9, atol=1e-14)


SHAPES = [(7,), (5, 3), (4, LONG + 1), (3, 4, 2), (3, 2, LONG), (3, 50, 9)]


@pytest.mark.parametrize("dtype", ["i1", "i8", "u8", "u2"])
@pytest.mark.parametrize("mode", ["clip", "fill"])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_places(shape: tuple[int, ...], mode: str, dtype: str, rng: np.random.Generator) -> None:
    """Of all choices of axes and layouts: reads, sums and updates as a loop makes them."""
    for axes in [(a,) for a in range(len(shape))] + [(0, len(shape) - 1)] * (len(shape) > 1):
        for outside in (0, 2):
            x = rng.normal(size=shape)
            low = 0 if dtype[0] == "u" else -outside
            where = [rng.integers(low, shape[a] + outside, (2, 3)).astype(dtype) for a in axes]
            moved = np.moveaxis(x, axes, range(len(axes)))
            ct = rng.normal(size=(2, 3, *moved.shape[len(axes) :]))
            reads, total = np.zeros(ct.shape), np.zeros(moved.shape)
            written = moved.copy()
            for k in np.ndindex(2, 3):
                place = tuple([int(i[k]) for i in where])
                clipped = tuple(
                    [min(max(p, 0), n - 1) for p, n in zip(place, moved.shape, strict=False)]
                )
                if place == clipped:
                    written[place] = ct[k]
                if mode == "clip" or place == clipped:
                    reads[k] = moved[clipped]
                    total[clipped] += ct[k]
            back = np.moveaxis(total, range(len(axes)), axes)
            for array in (x, np.asfortranarray(x)):
                np.testing.assert_array_equal(read(array, where, axes, mode), reads)
                buffer = np.zeros_like(array)
                add_rows(buffer, ct, where, axes, mode)
                np.testing.assert_allclose(buffer, back, atol=1e-14)
                if mode == "fill":
                    added = updated(array, ct, where, axes, "add")
                    np.testing.assert_allclose(added, x + back, atol=1e-14)
                    kept = np.moveaxis(
                        updated(array, ct, where, axes, "set"), axes, range(len(axes))
                    )
                    np.testing.assert_array_equal(kept, written)


def test_pads_in_memory(rng: np.random.Generator) -> None:
    """Widths of both signs, against padding first and cropping then."""
    for _ in range(200):
        shape = tuple(rng.integers(0, 5, rng.integers(1, 4)).tolist())
        low, high = [tuple(rng.integers(-3, 4, len(shape)).tolist()) for _ in range(2)]
        if any(n + a + b < 0 for n, a, b in zip(shape, low, high, strict=True)):
            continue
        x, value = rng.normal(size=shape), float(rng.integers(0, 2))
        widths = [(max(a, 0), max(b, 0)) for a, b in zip(low, high, strict=True)]
        whole = np.pad(x, widths, constant_values=value)
        pairs = zip(whole.shape, low, high, strict=True)
        expected = whole[tuple([slice(max(-a, 0), n - max(-b, 0)) for n, a, b in pairs])]
        found = pad(x, low, high, value=value)
        np.testing.assert_array_equal(found, expected)
