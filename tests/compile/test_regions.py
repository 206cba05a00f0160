"""Equations on a few numbers for each place of a long axis: one kernel, and the same numbers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, note, settings
from random_programs import programs

import fgrad
from fgrad.compile.loops.regions import all_regions, with_regions
from fgrad.compile.pipeline import compile_program
from fgrad.ir.check import check_program
from fgrad.ir.program import Program
from fgrad.ir.text import print_program
from fgrad.trace import run

N = 70
SHAPES = [(N,), (N, 3), (3, N), (N, 2, 3), (2, N, 3), (N, 1), (N, N), (3,), ()]


@settings(
    max_examples=150, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck)
)
@given(programs(shapes=SHAPES))
def test_regions_keep_results(case: tuple[Program, list[Any]]) -> None:
    program, args = case
    note(print_program(program))
    rewritten = with_regions(program, all_regions(program))
    note(print_program(rewritten))
    check_program(rewritten)
    with np.errstate(all="ignore"):
        expected = run(program, args)
        executed = run(rewritten, args)
        compiled = compile_program(rewritten).executable([np.asarray(a) for a in args])
    for right, *found in zip(expected, executed, compiled, strict=True):
        right = np.asarray(right)
        rtol = 1e-5 if right.dtype == np.float32 else 1e-11
        scale = np.max(np.abs(right[np.isfinite(right)]), initial=1.0) if right.size else 1.0
        for one in found:
            np.testing.assert_allclose(one, right, rtol=rtol, atol=rtol * scale)


def reprojection(camera: Any, point: Any, weight: Any, seen: Any) -> Any:
    """The error of a point seen by a camera with a rotation vector and radial distortion."""
    turn, offset = camera[0:3], point - camera[3:6]
    angle = np.sqrt(np.sum(turn**2))
    axis, c = turn / angle, np.cos(angle)
    turned = offset * c + np.cross(axis, offset) * np.sin(angle)
    turned = turned + axis * (np.dot(axis, offset) * (1.0 - c))
    flat = turned[0:2] / turned[2]
    square = np.sum(flat * flat)
    bent = flat * (1.0 + camera[9] * square + camera[10] * square * square)
    return weight * (bent * camera[6] + camera[7:9] - seen)


def observations(n: int, rng: np.random.Generator) -> tuple[np.ndarray, ...]:
    """Cameras, points, weights and places of observations."""
    return (
        rng.normal(size=(n, 11)) + 0.5, rng.normal(size=(n, 3)), rng.normal(size=n),
        rng.normal(size=(n, 2)),
    )  # fmt: skip


def kernels_of(fun: Callable[..., Any], *args: Any) -> int:
    """How many kernels a compiled call runs."""
    return fgrad.inspect(fun)(*args).calls[0]


@pytest.mark.parametrize("jacobian", [fgrad.jacrev, fgrad.jacfwd])
@pytest.mark.parametrize("batch", ["vmap", "map"])
@pytest.mark.parametrize("n", [64, 203])
def test_the_jacobian_of_a_small_function_for_many_points_is_one_kernel(
    jacobian: Any, batch: str, n: int, rng: np.random.Generator
) -> None:
    args = observations(n, rng)
    one = jacobian(reprojection, argnums=(0, 1, 2))
    many = fgrad.vmap(one) if batch == "vmap" else lambda *a: fgrad.lax.map(lambda a: one(*a), a)
    assert kernels_of(many, *args) == 1
    for k in (0, n - 1):
        right = one(*[a[k] for a in args])
        for x, y in zip(fgrad.jit(many)(*args), right, strict=True):
            np.testing.assert_allclose(x[k], y, rtol=1e-10, atol=1e-12)


def test_a_sum_over_the_points_ends_a_region(rng: np.random.Generator) -> None:
    def loss(camera: Any, *rest: Any) -> Any:
        return np.sum(fgrad.vmap(reprojection)(camera, *rest) ** 2)

    args = observations(100, rng)
    found, right = fgrad.jit(fgrad.grad(loss))(*args), fgrad.grad(loss)(*args)
    np.testing.assert_allclose(found, right, rtol=1e-10)
    assert kernels_of(fgrad.grad(loss), *args) <= 2


def test_one_array_is_read_along_two_axes_of_a_batch(rng: np.random.Generator) -> None:
    def pairs(x: Any) -> Any:
        d = x[:, None, :] - x[None, :, :]
        return np.cross(d, np.cross(d, np.roll(d, 1, axis=-1)))

    x = rng.normal(size=(66, 3))
    np.testing.assert_allclose(fgrad.jit(pairs)(x), pairs(x), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("reverse", [False, True])
def test_steps_of_a_map_are_lanes(reverse: bool, rng: np.random.Generator) -> None:
    def f(x: Any, w: Any) -> Any:
        def step(_: None, item: Any) -> Any:
            k, row = item
            return None, (np.sin(row @ w) * k, np.max(row), row[::-1])

        return fgrad.lax.scan(step, None, (np.arange(len(x)), x), reverse=reverse)[1]

    x, w = rng.normal(size=(37, 3)), rng.normal(size=(3, 2))
    right = np.sin(x @ w) * np.arange(37.0)[:, None], np.max(x, axis=1), x[:, ::-1]
    for found, expected in zip(fgrad.jit(f)(x, w), right, strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-14)


def test_effects_keep_their_order_around_regions(rng: np.random.Generator) -> None:
    seen: list[str] = []

    def told(name: str, x: Any) -> Any:
        return fgrad.io_callback(lambda x: seen.append(name) or x, x, x)

    def f(*args: Any) -> Any:
        errors = fgrad.vmap(fgrad.jacrev(reprojection))(*args)
        first = told("first", np.sum(errors))
        second = told("second", np.sum(args[1]))
        return first * fgrad.vmap(reprojection)(args[0] * second, *args[1:])

    args = observations(80, rng)
    compiled = fgrad.jit(f)
    found = compiled(*args)
    assert seen == ["first", "second"]
    np.testing.assert_allclose(found, f(*args), rtol=1e-9)


def test_batches_that_meet_outside_have_lanes_of_their_own(rng: np.random.Generator) -> None:
    def f(a: Any, b: Any) -> Any:
        x, y = [np.cross(v, np.roll(np.sin(v), 1, axis=1)) for v in (a, b)]
        x, y = [np.cross(v, v[:, ::-1]) + np.sum(v, axis=1, keepdims=True) for v in (x, y)]
        return x, y.T, np.sort(x + y, axis=0)

    a, b = rng.normal(size=(2, 130, 3))
    for found, right in zip(fgrad.jit(f)(a, b), f(a, b), strict=True):
        np.testing.assert_allclose(found, right, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("n", [9, 14])
def test_unrolled_scalars_are_few_kernels(n: int, rng: np.random.Generator) -> None:
    def cholesky(a: Any) -> Any:
        rows: list[list[Any]] = []
        for i in range(n):
            rows.append([])
            for j in range(i + 1):
                s = a[i, j]
                for k in range(j):
                    s = s - rows[i][k] * rows[j][k]
                rows[i].append(np.sqrt(s) if i == j else s / rows[j][j])
        return np.stack([x for row in rows for x in row])

    a = rng.normal(size=(n, n))
    a = a @ a.T + n * np.eye(n)
    factor = np.linalg.cholesky(a)[np.tril_indices(n)]
    np.testing.assert_allclose(fgrad.jit(cholesky, capture=False)(a), factor, rtol=1e-10)
    weights = rng.normal(size=factor.shape)

    def loss(a: Any) -> Any:
        return np.sum(weights * cholesky(a))

    found = fgrad.jit(fgrad.grad(loss), capture=False)(a)
    np.testing.assert_allclose(found, fgrad.grad(loss)(a), rtol=1e-8, atol=1e-12)
    assert kernels_of(cholesky, a) <= 10
