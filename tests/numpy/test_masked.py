"""`x[mask]` for masks with unknown values, and `x.shape = ...`: equal to NumPy, or a card."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fgrad
from fgrad.errors import ArgumentWriteError, FgradError, InPlaceError, TracedIndexError

Function = Callable[..., Any]
PLACES = np.random.default_rng(3).integers(-12, 12, 12)
TABLE = np.linspace(0.5, 2.0, 12)


def sums(x: Any) -> Any:
    v, w = x[x > 0], np.sin(x)[x > 0]
    return np.sum(v) + w.sum() * v.mean() + np.prod(w) + np.average(v, weights=w)


def moments(x: Any) -> Any:
    v = x[x < 0.4]
    return v.var() + np.std(v) + np.ptp(v) + np.linalg.norm(v) + np.var(v, ddof=1)


def extrema(x: Any) -> Any:
    return x[x > 0].min() + np.max(x[x < 0]) + np.maximum.reduce(x[x > 0.1])


def numbers(x: Any) -> Any:
    v = x[np.logical_and(x > -0.2, x < 0.5)]
    return v.size * np.sum(v) + len(v) + v.shape[0] + np.count_nonzero(v > 0.1) + v.ndim


def meets_scalars(x: Any) -> Any:
    v = x[x > 0]
    return np.sum(np.maximum(x[0], v) * np.where(v > 0.3, v, 0.1) + np.clip(v, 0.1, x[1]))


def products(x: Any) -> Any:
    m = x > 0
    return x[m] @ np.cos(x)[m] + np.dot(x[m], x[m])


def undefined_elsewhere(x: Any) -> Any:
    v = x[x > 0]
    p = v / v.sum()
    return -np.sum(p * np.log(p)) + np.sum(np.sqrt(v))


def masks_of_masks(x: Any) -> Any:
    v = x[x > 0]
    w = v[v < 0.5]
    return np.sum(w) + w[w > 0.1].size * np.sum(v[v > 0.2])


def two_names(x: Any) -> Any:
    v = x[x > 0]
    u = v
    v += 1
    np.multiply(v, v, v)
    return np.sum(u) + x.sum()


def copies_stay(x: Any) -> Any:
    v = x[x > 0]
    w = v.copy()
    v[:] = 0
    x = x * 2
    return w.sum() + v.sum() + x.sum()


def written(x: Any) -> Any:
    v = x[x > 0]
    v[v > 0.5] = 0.25
    v[v < 0.1] *= 3
    v[:] = v * 2
    return np.sum(v * v)


def written_in_a_loop(x: Any) -> Any:
    v = x[x > 0]
    u = v
    for _ in range(7):
        v *= 0.9
        u -= 0.01
        np.add(v, 0.1, out=v)
    return u.sum() + v.max()


def bound_in_a_loop(x: Any) -> Any:
    v, n = x[x > 0], 0
    for i in range(7):
        w = v[v > 0.1 * i]
        if w.size == 0:
            break
        n += len(w)
        v = w
    return np.sum(v) * n


def written_in_a_branch(x: Any) -> Any:
    v = x[x > 0]
    if np.sum(v) > 1:
        v[:] = 1.5 * v
    else:
        v *= x[0]
    return v.sum()


def chosen_by_a_branch(x: Any) -> Any:
    y = x
    if np.sum(x[x > 0]) > 1:
        v = x[x > 0.3]
    else:
        v = x[x > 0.1]
        y = 2 * x
    return v.sum() + v.size + y.sum()


def means_of_bins(x: Any) -> Any:
    r = np.zeros(8)
    for i in range(8):
        m = np.logical_and(x >= i * 0.1 - 0.4, x < 0.5 + i * 0.1)
        r[i] = x[m].mean()
    return np.sum(r * r)


def counts_into(x: Any) -> Any:
    y = np.zeros(12)
    for i in range(8):
        y[x > 0.1 * i] += x[x > 0.1 * i]
        y[x < 0] -= 0.1
    return np.sum(y * y)


def rows(x: Any) -> Any:
    a, m = np.outer(x, x), x > 0
    row_sums = np.sum(a[m].sum(axis=1) ** 2) + a[m].sum(axis=0)[1]
    return row_sums + a[m].max(axis=0).sum() + (a[m] @ x).sum() + a[m][:, 1].sum()


def planes(x: Any) -> Any:
    a = np.outer(x, x)
    return np.sum(a[a > 0.1] ** 2) + a[a > 0.1].size


def beside_numbers(x: Any) -> Any:
    a, m = np.outer(x, x), x > 0
    a[m, 0] = 3 * x[m]
    a[1, m] += 1
    return np.sum(a[2, m]) + np.sum(a[m, 1:3] ** 2) + np.sum(a[m, 0] ** 2) + a.sum()


def places(x: Any) -> Any:
    y, m = x * 1, x > 0
    for _ in range(1):  # so that it is rewritten: PLACES and TABLE are plain arrays
        j = PLACES[m]
        y[j] = 0.5
        y[j] += 0.25
        s = np.sum(x[j] * TABLE[m])
    return np.sum(y * TABLE) + s


def empty(x: Any) -> Any:
    v = x[x > 100]
    return np.sum(v) + v.size + np.prod(v) + np.sum(v > 0)


def emptied(x: Any) -> Any:
    total = 0.0
    for i in range(9):
        v = x[x > 0.3 * i]
        if len(v) > 0:
            total += v.mean() * v.max()
    return total


def of_shape(x: Any) -> Any:
    y = x * 2
    y.shape = (4, -1)
    y[0] = 1
    return np.sum(y * y[1])


def of_shape_in_a_loop(x: Any) -> Any:
    y = np.zeros(12)
    for i in range(12):
        y[i] = x[i] ** 2
    y.shape = 3, 4
    for i in range(6):
        z = y * i
        z.shape = (12,)
        y[1] += z[:4]
    return y[1].sum()


def of_shape_by_steps(x: Any) -> Any:
    y = x * 1
    for i in range(6):
        y.shape = (3, 4) if i % 2 else (4, 3)
        y[0] += x[i]
    return np.sum(y * y)


PROGRAMS = (
    sums, moments, extrema, numbers, meets_scalars, products, undefined_elsewhere, masks_of_masks,
    two_names, copies_stay, written, written_in_a_loop, bound_in_a_loop, written_in_a_branch,
    chosen_by_a_branch, means_of_bins, counts_into, rows, planes, beside_numbers, places, empty,
    emptied, of_shape, of_shape_in_a_loop, of_shape_by_steps,
)  # fmt: skip


def made(seed: int) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(12) * 0.6


@pytest.mark.filterwarnings("ignore:Setting the shape")  # since NumPy 2.5
@pytest.mark.parametrize("f", PROGRAMS)
def test_programs_have_the_values_and_gradients_of_numpy(f: Function) -> None:
    compiled, gradient = fgrad.jit(f), fgrad.jit(fgrad.grad(f))
    for seed in (0, 1, 4):
        x = made(seed)
        np.testing.assert_allclose(compiled(x.copy()), f(x.copy()), rtol=1e-12)
        np.testing.assert_allclose(gradient(x.copy()), fgrad.grad(f)(x.copy()), 1e-9, 1e-12)


@pytest.mark.filterwarnings("ignore:Setting the shape")  # since NumPy 2.5
@pytest.mark.parametrize("f", PROGRAMS)
def test_programs_are_batched(f: Function) -> None:
    xs = np.stack([made(0), made(1), made(4)])
    expected = [f(x.copy()) for x in xs]
    np.testing.assert_allclose(fgrad.jit(fgrad.vmap(f))(xs.copy()), expected, rtol=1e-12)


def returned(x: Any) -> Any:
    return x[x > 0]


def shown(x: Any) -> Any:
    print(x[x > 0])
    return x.sum()


REFUSED: tuple[Function, ...] = (
    returned,
    shown,
    lambda x: np.cumsum(x[x > 0]),
    lambda x: np.sort(x[x > 0]),
    lambda x: x[x > 0][0],
    lambda x: x[x > 0] + x[x > 0.1],
    lambda x: x[x > 0] + np.ones(3),
    lambda x: [v for v in x[x > 0]],
    lambda x: np.concatenate([x[x > 0], x]),
    lambda x: np.outer(x, x)[:, x > 0],
    lambda x: np.add(1.0, x[x > 0], out=x),
    lambda x: np.median(x[x > 0]),
    lambda x: np.add.reduce(x[x > 0], where=x > 1),
    lambda x: x[x > 0] @ x,
    lambda x: x[x > 0].reshape(2, -1),
)


@pytest.mark.parametrize("f", REFUSED)
def test_what_needs_the_elements_one_by_one_is_a_card(f: Function) -> None:
    with pytest.raises(FgradError, match="boolean mask"):
        fgrad.jit(f)(made(0))


def test_the_largest_of_no_elements_is_an_error() -> None:
    for f in (lambda x: np.max(x[x > 100]), lambda x: x[x > 100].min()):
        with pytest.raises(ValueError, match="no identity"):
            fgrad.jit(f)(made(0))


def test_an_index_out_of_bounds_counts_only_where_it_is_selected() -> None:
    def f(x: Any, i: Any) -> Any:
        for _ in range(1):  # code without loops and branches clips
            s = np.sum(x[i[x > 0]])
        return s

    x = np.array([1.0, -1.0, 2.0])
    assert fgrad.jit(f)(x, np.array([1, 99, 0])) == 0.0
    with pytest.raises(IndexError):
        fgrad.jit(f)(x, np.array([99, 1, 0]))


def view_is_seen(x: Any) -> Any:
    y = x * 1
    z = y[1:]
    y.shape = (3, 4)
    return np.sum(y) + np.sum(z)


def argument(x: Any) -> Any:
    x.shape = (3, 4)
    return np.sum(x)


def argument_of_all(p: Any, x: Any) -> Any:
    return p * argument(x)


@pytest.mark.filterwarnings("ignore:Setting the shape")  # since NumPy 2.5
def test_shapes_that_others_see_are_cards() -> None:
    for transformed in (fgrad.jit(view_is_seen), fgrad.grad(view_is_seen)):
        with pytest.raises(InPlaceError, match="shape"):
            transformed(made(0))
    with pytest.raises(ArgumentWriteError, match="shape"):
        fgrad.jit(argument)(made(0))
    with pytest.raises(ArgumentWriteError, match="shape"):
        fgrad.vmap(argument_of_all, (0, None))(np.ones(2), made(0))


@pytest.mark.filterwarnings("ignore:Setting the shape")  # since NumPy 2.5
def test_a_shape_that_does_not_fit_is_numpys_error() -> None:
    def f(x: Any) -> Any:
        y = x * 1
        y.shape = (5, 5)
        return y

    with pytest.raises(ValueError, match="reshape"):
        fgrad.jit(f)(made(0))


def test_masks_at_the_prompt_are_numpys() -> None:
    x = made(0)
    np.testing.assert_allclose(fgrad.grad(lambda x: np.sum(x[x > 0] ** 2))(x), 2 * x * (x > 0))
    with pytest.raises(TracedIndexError):
        fgrad.jit(lambda x: x[x > 0])(x)


@pytest.mark.parametrize("keepdims", [True, False, 1, 0, np._NoValue])
@pytest.mark.parametrize("name", ["sum", "mean", "max", "min", "prod", "any"])
def test_flags_are_read_as_numpy_reads_them(name: str, keepdims: Any) -> None:
    """`np._NoValue`, the default of NumPy's methods, is true as an object."""
    x, function = np.array([1.0, -2.0, 3.0]), getattr(np, name)
    found = fgrad.jit(lambda x: function(x[x > 0], keepdims=keepdims))(x)
    expected = function(x[x > 0], keepdims=keepdims)
    assert np.shape(found) == np.shape(expected)
    np.testing.assert_array_equal(found, expected)
