"""Gradients of nests of loops: compiled and interpreted, and against tangents."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from loop_nests import (
    NESTS,
    band,
    exchanges,
    not_read_at_infinity,
    recurrence,
    rotations,
    two_buffers,
)

import fgrad
from fgrad.compile.tasks.steps import KernelStep
from fgrad.ir.walk import subprograms

SIZES = [1, 2, 5, 24]
Function = Callable[[Any], Any]


@pytest.mark.parametrize("dtype", ["f8", "f4"])
@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("fun", NESTS)
def test_gradients(fun: Function, n: int, dtype: str, rng: np.random.Generator) -> None:
    A = rng.random((n, n)).astype(dtype)
    tolerance = 1e-10 if dtype == "f8" else 2e-3
    with fgrad.config.override(disable_jit=True):
        right = fgrad.grad(fun)(A)
    given = fgrad.jit(fgrad.grad(fun))(A)
    scale = max(float(np.max(np.abs(right))), 1.0)
    np.testing.assert_allclose(given / scale, right / scale, atol=tolerance)
    assert given.dtype == A.dtype


@pytest.mark.parametrize("fun", [*NESTS, rotations])
def test_tangents_agree(fun: Function, rng: np.random.Generator) -> None:
    A, way = rng.random((7, 7)), rng.standard_normal((7, 7))
    pushed = fgrad.jit(lambda A, t: fgrad.jvp(fun, (A,), (t,))[1])(A, way)
    pulled = np.sum(fgrad.jit(fgrad.grad(fun))(A) * way)
    np.testing.assert_allclose(pushed, pulled, rtol=1e-8)


@pytest.mark.parametrize("fun", NESTS)
def test_second_derivatives(fun: Function, rng: np.random.Generator) -> None:
    A, way = rng.random((3, 3)), rng.standard_normal((3, 3))
    second = fgrad.grad(lambda A: np.sum(fgrad.grad(fun)(A) * way))
    scale = float(np.max(np.abs(second(A)))) + 1.0
    np.testing.assert_allclose(fgrad.jit(second)(A) / scale, second(A) / scale, atol=1e-10)


def test_what_no_step_reads_gives_no_nan() -> None:
    A = np.full((4, 4), 2.0)
    A[:, 0] = 0.0
    with np.errstate(divide="ignore"):
        found = fgrad.jit(fgrad.grad(not_read_at_infinity))(A)
    right = np.full((4, 4), 0.5)
    right[:, 0] = 0.0
    np.testing.assert_array_equal(found, right)


def test_residuals_of_a_nest_do_not_grow_by_a_dimension() -> None:
    program = fgrad.make_program(fgrad.jit(fgrad.grad(recurrence)))(np.ones((30, 30)))
    sizes = [v.aval.size for p in subprograms(program) for e in p.eqns for v in e.outputs]
    assert max(sizes) <= 30 * 30


def test_a_cotangent_is_carried_once() -> None:
    n = 30
    program = fgrad.make_program(fgrad.jit(fgrad.grad(rotations)))(np.ones((n, n)))
    loops = [
        eqn
        for p in subprograms(program)
        for eqn in p.eqns
        if eqn.prim.name in ("while", "scan") and any(["vjp" in via for via in eqn.via])
    ]
    carried = [sum([str(v.aval) == f"f64[{n},{n}]" for v in eqn.outputs]) for eqn in loops]
    assert loops
    assert max(carried) <= 2  # the array that is restored, and its cotangent


@pytest.mark.parametrize("fun", [band, exchanges])
def test_inner_loops_have_limits(fun: Function) -> None:
    n = 6
    program = fgrad.make_program(fgrad.jit(fun))(np.ones((n, n)))
    (inner,) = [
        eqn.params["max_steps"]
        for p in subprograms(program)
        if p is not program
        for eqn in p.eqns
        if eqn.prim.name == "while"
    ]
    assert inner == (n - 1)


@pytest.mark.parametrize("fun", [rotations, two_buffers])
def test_no_kernel_fills_or_copies_states(fun: Function, rng: np.random.Generator) -> None:
    A = rng.random((24, 24))
    steps = fgrad.inspect(fgrad.grad(fun))(A).passes["control"][1]
    kept = 100 * A.size
    for step in steps:
        if isinstance(step, KernelStep) and any([v.aval.size > kept for v in step.args]):
            assert len(step.args) > 2
