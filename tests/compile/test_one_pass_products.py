"""Products of one large matrix with vectors from both sides as sums that share a kernel."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fgrad
from fgrad.compile.fuse import one_pass_products as module
from fgrad.compile.fuse.one_pass_products import one_pass_products
from fgrad.compile.passes.dce import dce
from fgrad.compile.pipeline import compile_program
from fgrad.compile.tasks.steps import LibraryStep
from fgrad.ir.aval import FLOAT64, Aval, aval_of
from fgrad.ir.program import Program
from fgrad.ops import primitives as prims
from fgrad.trace import run, trace

R, C = 520, 64
RNG = np.random.default_rng(0)


@pytest.fixture(autouse=True)
def small_matrices(monkeypatch: pytest.MonkeyPatch) -> None:
    """Matrices of these tests are large enough."""
    monkeypatch.setattr(module, "LEAST_BYTES", 1 << 12)


def arguments(dtype: Any = np.float64, rows: int = R, columns: int = C) -> tuple[np.ndarray, ...]:
    """A matrix, a vector for each side, and one more of rows."""
    shapes = ((rows, columns), (columns,), (rows,), (rows,))
    return tuple([RNG.normal(size=shape).astype(dtype) for shape in shapes])


def traced(fun: Callable[..., Any], *args: np.ndarray) -> Program:
    """The program of a function."""
    flat = lambda *xs: fgrad.tree.leaves(fun(*xs))  # noqa: E731
    return trace(flat, [aval_of(x) for x in args]).program


def library_calls(fun: Callable[..., Any], *args: np.ndarray) -> int:
    """How many products are left to a library, after comparing results with the interpreter."""
    program = traced(fun, *args)
    compiled = compile_program(program)
    expected = run(program, args)
    single = args[0].dtype == np.float32
    for a, e in zip(compiled.executable(args), expected, strict=True):
        assert (np.shape(a), np.asarray(a).dtype) == (np.shape(e), np.asarray(e).dtype)
        scale = float(np.max(np.abs(e), initial=1.0))
        np.testing.assert_allclose(
            a, e, rtol=1e-4 if single else 1e-11, atol=scale * (1e-5 if single else 1e-12)
        )
    steps = next(s.result for s in compiled.stages if s.name == "schedule")
    return sum([isinstance(step, LibraryStep) for step in steps])


def loss(w: Any, a: Any, y: Any) -> Any:
    """Of a logistic model."""
    z = a @ w
    return np.sum(np.log1p(np.exp(-z)) + y * z)


ONE_PASS: dict[str, Callable[..., Any]] = {
    "A.T A x": lambda a, x, r, s: a.T @ (a @ x),
    "x A.T A": lambda a, x, r, s: (x @ a.T) @ a,
    "both sides": lambda a, x, r, s: (a @ x, r @ a),
    "the other first": lambda a, x, r, s: (a.T @ r, s + a @ x),
    "weights": lambda a, x, r, s: (s * (a @ x - r)) @ a,
    "a column": lambda a, x, r, s: a.T @ (a @ x[:, None]),
    "a gradient": lambda a, x, r, s: fgrad.grad(loss)(x, a, r),
    "a product of the Hessian": lambda a, x, r, s: fgrad.jvp(
        lambda x: fgrad.grad(loss)(x, a, r), (x,), (x,)
    )[1],
    "a computed matrix": lambda a, x, r, s: (np.sin(a) @ x) @ np.sin(a),
}


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("name", ONE_PASS)
def test_pairs_need_no_library(name: str, dtype: Any) -> None:
    assert library_calls(ONE_PASS[name], *arguments(dtype)) == 0


TWO_PASSES: dict[str, Callable[..., Any]] = {
    "columns first": lambda a, x, r, s: a @ (r @ a),
    "one product": lambda a, x, r, s: a @ x,
    "the same side": lambda a, x, r, s: (a @ x, a @ (x + 1)),
    "rows at other places": lambda a, x, r, s: (a @ x)[::-1] @ a,
    "a sum over rows": lambda a, x, r, s: (lambda t: (t / np.sum(np.exp(t))) @ a)(a @ x),
    "running totals": lambda a, x, r, s: np.cumsum(a @ x) @ a,
    "half of it": lambda a, x, r, s: (a @ x)[:260] @ a[:260],
    "two matrices": lambda a, x, r, s: (a @ x) @ (a + 1),
}


@pytest.mark.parametrize("name", TWO_PASSES)
def test_others_are_left_alone(name: str) -> None:
    program = traced(TWO_PASSES[name], *arguments())
    assert one_pass_products(program) is program
    library_calls(TWO_PASSES[name], *arguments())


@pytest.mark.parametrize(
    "rows, columns", [(511, 64), (512, 63), (512, 64 * 513), (1025, (1 << 16) + 1)]
)
def test_shapes_that_do_not_pay(rows: int, columns: int) -> None:
    avals = [Aval(shape, FLOAT64) for shape in ((rows, columns), (columns,), (rows,), (rows,))]
    program = trace(ONE_PASS["A.T A x"], avals).program
    assert one_pass_products(program) is program


def test_three_products_make_one_pair() -> None:
    program = dce(one_pass_products(traced(lambda a, x, r, s: (a @ x, r @ a, s @ a), *arguments())))
    assert [e.prim for e in program.eqns].count(prims.dot_general) == 1


@pytest.mark.parametrize("seed", range(40))
def test_random_programs(seed: int) -> None:
    rng = np.random.default_rng(seed)
    steps = rng.integers(0, 9, size=6)

    def fun(a: Any, x: Any, r: Any, s: Any) -> Any:
        by_row, by_column = [r, s], [x]
        for k in steps:
            u, v = by_row[rng.integers(len(by_row))], by_column[rng.integers(len(by_column))]
            if k < 3:
                by_row.append(np.tanh(a @ v / C))
            elif k < 6:
                by_column.append(np.tanh(a.T @ u / R))
            else:
                by_row.append([u * s, u - np.mean(u), u[::-1] + r][k - 6])
        return by_row[2:] + by_column[1:]

    state = rng.bit_generator.state
    program_args = arguments(columns=C + int(steps[0]))

    def same(*args: Any) -> Any:
        rng.bit_generator.state = state
        return fun(*args)

    library_calls(same, *program_args)


def test_jit_of_a_large_matrix() -> None:
    a, x, r, _ = arguments(np.float32, 2100, 1024)
    x /= 16
    got = fgrad.jit(fgrad.grad(loss))(x, a, r)
    p = 1 / (1 + np.exp(a.astype(np.float64) @ x))
    np.testing.assert_allclose(got, (r - p) @ a, rtol=2e-4, atol=2e-3)
