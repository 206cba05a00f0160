"""Short vectors between long axes, component by component: the same numbers, and nothing large."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, note, settings
from hypothesis import strategies as st
from pass_cases import assert_becomes, body

import fgrad
from fgrad.compile.loops import components
from fgrad.compile.loops.components import split_components
from fgrad.ir.aval import Aval
from fgrad.ir.check import check_program
from fgrad.ir.program import Program
from fgrad.ir.text import print_program
from fgrad.trace import run, trace

M, N = 5, 6
UNARY = (np.sin, np.negative, np.square, lambda d: d.astype(np.float32), lambda d: d > 0.2)
BINARY = (np.add, np.multiply, np.maximum, lambda a, b: np.where(a > b, a, b))
ALONG = (np.sum, np.max, np.min, np.prod)


def repeated(draw: Any, d: Any) -> Any:
    """A sum along some axes beside itself, at all places again."""
    axes = draw(st.sampled_from([(2,), (0,), (1,), (0, 1), (1, 2)]))
    return np.broadcast_to(draw(st.sampled_from(ALONG))(d, axis=axes, keepdims=True), d.shape)


def moved(_draw: Any, d: Any) -> Any:
    """The same by other names of axes, and back."""
    return np.moveaxis(np.reshape(np.moveaxis(d, 2, 0), (3, 1, M, N)), (0, 1), (3, 0))[0]


def contracted(draw: Any, d: Any) -> Any:
    """Products of components summed at each place."""
    subscripts = draw(st.sampled_from(["ijk,ijk->ij", "ijk,ijk->ji"]))
    found = np.einsum(subscripts, d, np.cos(d))
    return d * (found if found.shape == (M, N) else found.T)[:, :, None]


STEPS = (
    lambda draw, pool: draw(st.sampled_from(UNARY))(draw(st.sampled_from(pool))),
    lambda draw, pool: draw(st.sampled_from(BINARY))(*[draw(st.sampled_from(pool)) for _ in "ab"]),
    lambda draw, pool: draw(st.sampled_from(BINARY))(draw(st.sampled_from(pool)), 0.5),
    *[lambda draw, pool, f=f: f(draw, draw(st.sampled_from(pool)))
      for f in (repeated, moved, contracted)],
)  # fmt: skip


@st.composite
def programs_of_pairs(draw: Any) -> tuple[Program, list[Any]]:
    """Arithmetic on the differences of all pairs of vectors, and sums of it."""

    def sums(x: Any, y: Any, w: Any) -> list[Any]:
        pool = [x[:, None, :] - y[None, :, :], x[:, None, :] * w[:, :, None]]
        for _ in range(draw(st.integers(1, 8))):
            d = draw(st.sampled_from(STEPS))(draw, pool)
            pool.append(d * 1.0 if d.dtype == np.bool_ else d)
        results = []
        for _ in range(draw(st.integers(1, 3))):
            axes = draw(st.sampled_from([0, 1, 2, (0, 1), (1, 2)]))
            results.append(draw(st.sampled_from(ALONG))(draw(st.sampled_from(pool)), axis=axes))
        return results

    rng = np.random.default_rng(draw(st.integers(0, 1000)))
    args = [rng.normal(size=shape) for shape in ((M, 3), (N, 3), (M, N))]
    program = trace(sums, [Aval(a.shape, a.dtype) for a in args], "pairs").program
    return program, args


@pytest.fixture
def everything(monkeypatch: pytest.MonkeyPatch) -> None:
    """Arrays of all sizes are taken apart."""
    for name, value in (("LEAST_APART", 90), ("LONG_AXIS", 2), ("SMALL", 1)):
        monkeypatch.setattr(components, name, value)


TAKEN_APART: list[bool] = []


@settings(
    max_examples=150, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck)
)
@given(programs_of_pairs())
def test_components_keep_results(everything: None, case: tuple[Program, list[Any]]) -> None:
    program, args = case
    note(print_program(program))
    rewritten = split_components(program)
    TAKEN_APART.append(rewritten is not program)
    note(print_program(rewritten))
    check_program(rewritten)
    with np.errstate(all="ignore"):
        expected, found = run(program, args), run(rewritten, args)
    for one, right in zip(found, expected, strict=True):
        right = np.asarray(right)
        rtol = 1e-5 if right.dtype == np.float32 else 1e-11
        scale = np.max(np.abs(right[np.isfinite(right)]), initial=1.0) if right.size else 1.0
        np.testing.assert_allclose(one, right, rtol=rtol, atol=rtol * scale)


def test_most_of_the_random_programs_were_taken_apart() -> None:
    assert sum(TAKEN_APART) >= len(TAKEN_APART) / 3


def potential(x: Any, y: Any) -> Any:
    d = x[:, None, :] - y[None, :, :]
    return np.sum(1.0 / np.sqrt(np.sum(d * d, -1) + 0.01))


def of_columns(x: Any, y: Any) -> Any:
    return potential(x.T, y.T)


def by_einsum(x: Any, y: Any) -> Any:
    d = x[:, None, :] - y[None, :, :]
    return np.sum(np.exp(-np.einsum("ijk,jik->ij", d, np.swapaxes(d, 0, 1))))


def nearest(x: Any, y: Any) -> Any:
    d = np.abs(x[:, None, :] - y[None, :, :])
    return np.sum(np.min(np.max(d, axis=-1), axis=1))


def with_mask(x: Any, y: Any) -> Any:
    d = x[:, None, :] - y[None, :, :]
    far = np.arange(len(x))[:, None] < np.arange(len(y))
    r = np.linalg.norm(np.where(far[..., None], d, 1.0), axis=-1)
    return np.sum(np.where(far, r**-6 - r**-3, 0.0))


def self_potential(x: Any, _y: Any) -> Any:
    return potential(x, x)


def in_batches(x: Any, y: Any) -> Any:
    return np.sum(fgrad.vmap(potential)(np.stack([x, x * 2.0]), np.stack([y, y + 1.0])))


LOSSES = [potential, of_columns, by_einsum, nearest, with_mask, self_potential, in_batches]


@pytest.mark.parametrize("loss", LOSSES, ids=lambda f: f.__name__)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("count", [2, 3, 4])
def test_gradients_of_sums_over_pairs(
    loss: Any, dtype: Any, count: int, rng: np.random.Generator
) -> None:
    shape = (count, 70) if loss is of_columns else (70, count)
    x, y = rng.normal(size=(2, *shape)).astype(dtype)
    gradient = fgrad.grad(loss, argnums=(0, 1))
    expected = gradient(x, y)
    tolerance = 2e-3 if dtype is np.float32 else 1e-9
    for a, b in zip(fgrad.jit(gradient)(x, y), expected, strict=True):
        assert a.dtype == b.dtype
        np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance * np.max(np.abs(b)))


@pytest.mark.parametrize("loss", [potential, by_einsum, self_potential])
def test_the_gradient_of_a_sum_over_pairs_keeps_no_array_of_all_pairs(
    loss: Any, rng: np.random.Generator
) -> None:
    x, y = rng.normal(size=(2, 300, 3))
    found = fgrad.inspect(fgrad.grad(loss, argnums=(0, 1)))(x, y)
    assert found.memory.temporaries < x.shape[0] * y.shape[0] * 8


@pytest.mark.parametrize(
    "fun",
    [
        lambda x: np.sum(x, axis=0),  # all of x would be read component by component
        lambda x: np.sum(x[:, None, :] * np.ones((1, 40, 1)), axis=1) + np.sum(x[:, None, :] * 2.0),
        lambda x: x[:, None, :] - x[None, :, :],  # the pairs are what is wanted
    ],
)
def test_large_arrays_that_enter_or_leave_stay_whole(fun: Any, rng: np.random.Generator) -> None:
    program = fgrad.make_program(fun)(rng.normal(size=(3000, 3)))
    assert split_components(program) is program


def test_components_are_arrays_of_their_own(everything: None) -> None:
    assert_becomes(
        split_components,
        body(
            "a: f64[5,2], w: f64[5,9]", "f64[5], f64[5,2]",
            "x: f64[5,9,2] = broadcast[shape=(5, 9, 2) dims=(0, 2)] a",
            "y: f64[5,9,2] = broadcast[shape=(5, 9, 2) dims=(0, 1)] w",
            "d: f64[5,9,2] = mul x y",
            "r: f64[5] = reduce_sum[axes=(1, 2)] d",
            "s: f64[5,2] = reduce_sum[axes=(1,)] d",
            "r s",
        ),
        body(
            "a: f64[5,2], w: f64[5,9]", "f64[5], f64[5,2]",
            "g: f64[5,1] = slice[start=(0, 0) stop=(5, 1) step=(1, 1)] a",
            "i: f64[5] = reshape[shape=(5,)] g",
            "h: f64[5,1] = slice[start=(0, 1) stop=(5, 2) step=(1, 1)] a",
            "j: f64[5] = reshape[shape=(5,)] h",
            "k: f64[5,9] = broadcast[shape=(5, 9) dims=(0,)] i",
            "l: f64[5,9] = broadcast[shape=(5, 9) dims=(0,)] j",
            "y: f64[5,9] = broadcast[shape=(5, 9) dims=(0, 1)] w",
            "m: f64[5,9] = mul k y",
            "n: f64[5,9] = mul l y",
            "e: f64[5,9] = add m n",
            "r: f64[5] = reduce_sum[axes=(1,)] e",
            "o: f64[5] = reduce_sum[axes=(1,)] m",
            "p: f64[5] = reduce_sum[axes=(1,)] n",
            "q: f64[5,1] = reshape[shape=(5, 1)] o",
            "t: f64[5,1] = reshape[shape=(5, 1)] p",
            "s: f64[5,2] = concatenate[axis=1] q t",
            "r s",
        ),
    )  # fmt: skip


def test_a_short_axis_that_a_reshape_makes_stays() -> None:
    def f(x: np.ndarray) -> np.ndarray:
        return np.sum(np.max(np.abs(np.reshape(x, (2, -1))), axis=-1))

    x = np.random.default_rng(0).normal(size=16384)
    np.testing.assert_allclose(fgrad.jit(f)(x), f(x))
