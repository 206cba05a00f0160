"""Reads of arrays that were written at known places: the newest write counts, in any order of
overlapping, touching and separate regions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from pass_cases import assert_becomes, body

import fgrad
from fgrad import numpy as fnp
from fgrad.compile.passes.read_updates import read_updates
from fgrad.compile.passes.simplify import simplify

SHAPES = ((7,), (5, 6), (3, 4, 5))


def _region(rng: np.random.Generator, shape: tuple[int, ...]) -> tuple[Any, ...]:
    """A random place: numbers and slices, some empty, some with steps, for some leading axes."""
    place: list[Any] = []
    for n in shape[: rng.integers(1, len(shape) + 1)]:
        kind = rng.integers(4)
        first = int(rng.integers(n))
        last = int(rng.integers(first, n + 1))
        step = int(rng.integers(1, 4)) if kind == 3 else 1
        place.append(int(rng.integers(-n, n)) if kind == 0 else slice(first, last, step))
    return tuple(place)


def _steps(seed: int) -> tuple[tuple[int, ...], list[tuple[Any, Any, float]]]:
    """What a program writes: to where, what it has read from where, times a number."""
    rng = np.random.default_rng(seed)
    shape = SHAPES[seed % len(SHAPES)]
    steps = []
    while len(steps) < 12:
        to, at = _region(rng, shape), _region(rng, shape)
        probe = np.zeros(shape)
        try:
            probe[to] = probe[at]
        except ValueError:
            at = to
        steps.append((to, at, float(rng.normal())))
    return shape, steps


def _program(steps: list[tuple[Any, Any, float]]) -> Any:
    def program(x: Any, y: Any) -> Any:
        y = fnp.array(y)
        for to, at, factor in steps:
            y[to] = np.sin(y[at]) * factor + np.sum(x[to])
        return y

    return program


@pytest.mark.parametrize("seed", range(30))
def test_values_and_gradients_are_those_of_the_prompt(seed: int) -> None:
    shape, steps = _steps(seed)
    rng = np.random.default_rng(seed)
    x, y, weights = rng.normal(size=(3, *shape))
    program = _program(steps)
    np.testing.assert_allclose(fgrad.jit(program)(x, y), program(x, y), rtol=1e-12, atol=1e-12)

    def loss(x: Any, y: Any) -> Any:
        return np.sum(weights * program(x, y))

    compiled = fgrad.jit(fgrad.grad(loss, argnums=(0, 1)))(x, y)
    for found, expected in zip(compiled, fgrad.grad(loss, argnums=(0, 1))(x, y), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12)


CHAIN = ["d: f64[9] = dynamic_update a b 1", "e: f64[9] = dynamic_update d c 9"]
READS = {
    "of one update": (
        "f: f64[2] = slice[start=(1,) stop=(3,) step=(1,)] e",
        [],
        "b",
    ),
    "of an element": (
        "f: f64[] = index[ints=(7,)] e",
        ["f: f64[] = index[ints=(1,)] c"],
        "f",
    ),
    "of what was there before": (
        "f: f64[2] = slice[start=(3,) stop=(6,) step=(2,)] e",
        ["f: f64[2] = slice[start=(3,) stop=(6,) step=(2,)] a"],
        "f",
    ),
    "of parts": (
        "f: f64[4] = slice[start=(2,) stop=(6,) step=(1,)] e",
        [
            "f: f64[4] = slice[start=(2,) stop=(6,) step=(1,)] a",
            "g: f64[1] = slice[start=(1,) stop=(2,) step=(1,)] b",
            "h: f64[4] = dynamic_update f g 0",
        ],
        "h",
    ),
}


@pytest.mark.parametrize("name", READS)
def test_reads(name: str) -> None:
    read, after, result = READS[name]
    shape = read.split()[1]
    arguments = "a: f64[9], b: f64[2], c: f64[3]"
    before = body(arguments, shape, *CHAIN, read, "f")
    assert_becomes(read_updates, before, body(arguments, shape, *after, result))


def test_an_array_that_is_wanted_is_read_as_it_is() -> None:
    read = "f: f64[2] = slice[start=(3,) stop=(5,) step=(1,)] e"
    text = body("a: f64[9], b: f64[2], c: f64[3]", "f64[9], f64[2]", *CHAIN, read, "e f")
    assert_becomes(read_updates, text, text)


def _reads(seed: int) -> Any:
    """A function of a matrix that reads many of its regions, with steps of its own between."""
    rng = np.random.default_rng(seed)
    regions = []
    for _ in range(30):
        first = rng.integers(0, 60, 2)
        last = [int(rng.integers(a, min(a + 40, 60) + 1)) for a in first]
        regions.append((slice(int(first[0]), last[0]), slice(int(first[1]), last[1])))

    def program(x: Any) -> Any:
        total = 0.0
        for k, region in enumerate(regions):
            if seed % 3 and k == 15:
                x = x * np.cos(x)
            total = total + np.sum(np.sin(x[region]) * abs(x.T[region])) / (k + 1)
        return total

    return program


@pytest.mark.parametrize("dtype", ["float64", "float32", "complex128"])
@pytest.mark.parametrize("seed", range(4))
def test_cotangents_of_many_regions_are_added_region_by_region(seed: int, dtype: str) -> None:
    program = _reads(seed)
    x = np.random.default_rng(seed).normal(size=(60, 60)).astype(dtype)
    loss = (lambda x: program(x).real) if dtype == "complex128" else program
    expected = fgrad.grad(loss)(x)
    tolerance = 2e-4 if dtype == "float32" else 1e-11
    for found in (fgrad.jit(fgrad.grad(loss))(x), fgrad.vmap(fgrad.jit(fgrad.grad(loss)))(x[None])):
        np.testing.assert_allclose(found.reshape(x.shape), expected, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("count", [15, 17])
def test_a_long_sum_of_padded_arrays_is_a_chain_of_updates(count: int) -> None:
    """Only from a number of them on."""

    def loss(x: Any) -> Any:
        return sum([np.sum(np.sin(x[k:, k + 1 :])) for k in range(count)])

    x = np.linspace(0.0, 1.0, 1600).reshape(40, 40)
    program = fgrad.jit(fgrad.grad(loss)).lower(x).program
    updates = [e for e in read_updates(simplify(program)).eqns if e.prim.name == "dynamic_update"]
    assert len(updates) == (count - 1 if count == 17 else 0)


def _stencil(seed: int) -> tuple[Any, int]:
    """A loop over updates of parts of an array by their neighbours and by numbers, and how long
    the array is."""
    rng = np.random.default_rng(seed)
    length, kinds = int(rng.integers(6, 150)), rng.integers(0, 5, 3)
    first, last = int(rng.integers(1, 3)), int(rng.integers(1, 3))
    a, b = rng.normal(size=2) * 0.3
    steps = int(rng.integers(2, 9))

    def program(u: Any) -> Any:
        u = u.copy()
        for _ in range(steps):
            for kind in kinds:
                if kind == 0:
                    u[1:-1] = u[1:-1] + 0.2 * a * (u[2:] - 2.0 * u[1:-1] + u[:-2])
                elif kind == 1:
                    u[first:] = u[first:] * b + u[:-first]
                elif kind == 2:
                    u[:-last] = np.sin(u[:-last]) + a * u[last:]
                elif kind == 3:
                    u[0], u[-1] = 0.5, u[-2]
                else:
                    v = u.copy()
                    v[first:-last] = u[first:-last] * np.cos(u[: -first - last])
                    u = 0.5 * (v + b * u)
        return np.sum(u**2)

    return program, length


@pytest.mark.parametrize("seed", range(40))
def test_gradients_of_stencils_in_loops_are_those_of_the_prompt(seed: int) -> None:
    program, length = _stencil(seed)
    u = np.random.default_rng(seed).normal(size=length) * 0.5
    expected = fgrad.grad(program)(u)
    scale = max(1.0, float(np.max(np.abs(expected))))
    np.testing.assert_allclose(fgrad.jit(fgrad.grad(program))(u), expected, atol=1e-12 * scale)
    batch = np.stack([u, 0.5 * u])
    several = fgrad.jit(fgrad.vmap(fgrad.grad(program)))(batch)
    np.testing.assert_allclose(several[0], expected, atol=1e-12 * scale)
    np.testing.assert_allclose(several[1], fgrad.grad(program)(0.5 * u), atol=1e-12 * scale)


def cheapest(cost: Any) -> Any:
    n, m = cost.shape
    total = np.empty_like(cost)
    total[0, 0] = cost[0, 0]
    for j in fgrad.unroll(range(1, m)):
        total[0, j] = total[0, j - 1] + cost[0, j]
    for i in fgrad.unroll(range(1, n)):
        total[i, 0] = total[i - 1, 0] + cost[i, 0]
        for j in fgrad.unroll(range(1, m)):
            total[i, j] = cost[i, j] + min(total[i - 1, j], total[i, j - 1])
    return total[-1, -1]


def table_of_products(x: Any) -> Any:
    y = x * 1.0
    for i in fgrad.unroll(range(1, x.shape[0])):
        for j in fgrad.unroll(range(1, x.shape[1])):
            y[i, j] = y[i - 1, j] * y[i, j - 1] + y[i - 1, j - 1]
    return np.sum(y)


def rows_of_rows(x: Any) -> Any:
    y = x * 1.0
    for i in fgrad.unroll(range(2, x.shape[0])):
        y[i] = np.sin(y[i - 1]) * y[i - 2]
    return np.sum(y)


@pytest.mark.parametrize("shape", [(2, 3), (4, 4), (5, 3)])
@pytest.mark.parametrize("fun", [cheapest, table_of_products, rows_of_rows])
def test_cotangents_of_elements_are_no_arrays(
    fun: Callable[[Any], Any], shape: tuple[int, ...], rng: np.random.Generator
) -> None:
    x = rng.uniform(0.5, 2.0, shape)
    with fgrad.config.override(disable_jit=True):
        right = fgrad.grad(fun)(x)
    np.testing.assert_allclose(fgrad.jit(fgrad.grad(fun))(x), right, rtol=1e-12)
    program = fgrad.inspect(fgrad.grad(fun))(x).passes["dce again"]
    assert len([eqn for eqn in program.eqns if eqn.prim.name == "scatter"]) <= 1  # that of `x`
