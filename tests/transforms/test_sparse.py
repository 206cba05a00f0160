"""Sparse Jacobians and Hessians: patterns contain all entries, and the numbers are right."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.sparse

import fgrad
from fgrad.errors import ArgumentError, GradDtypeError
from fgrad.transforms.sparse.coloring import color_columns, color_star
from tests.transforms.functions import CASES

N = 12
W = np.array([[1.0, 0.0, 2.0], [0.0, 0.0, 1.0]])
PICK = np.array([3, 0, 3, 7])


def loop(x: Any) -> Any:
    """A recurrence by `scan`."""
    return fgrad.lax.scan(lambda c, v: (0.5 * c + v, np.sin(c) * v), x[0], x)[1]


@fgrad.custom_jvp
def rounded(x: Any) -> Any:
    """A straight-through estimator."""
    return np.round(x)


rounded.defjvps(lambda t, out, x: t)

FUNCTIONS: dict[str, tuple[Callable[[Any], Any], int | None]] = {
    "diagonal": (lambda x: np.sin(x) * x, N),
    "differences": (lambda x: x[2:] - 2 * x[1:-1] ** 2 + x[:-2], 3 * (N - 2)),
    "roll": (lambda x: np.roll(x, 1) * x, 2 * N),
    "pad": (lambda x: np.pad(x**2, 2), N),
    "flip and stack": (lambda x: np.stack([np.flip(x), x * x]), 2 * N),
    "rows": (lambda x: np.sum(x.reshape(4, 3) ** 2, axis=1), N),
    "columns": (lambda x: np.max(x.reshape(4, 3), axis=0), N),
    "outer": (lambda x: np.outer(x[:3], x[3:6]), 18),
    "product with a constant": (lambda x: x.reshape(4, 3) @ W.T, 12),
    "constant times": (lambda x: W @ x.reshape(3, 4), 12),
    "gather": (lambda x: x[PICK] * 2.0, 4),
    "gather in rows": (lambda x: x.reshape(3, 4)[:, [0, 2]], 6),
    "mask": (lambda x: x * (np.arange(N) % 2), N // 2),
    "where": (lambda x: np.where(np.arange(N) > 5, x, x[::-1]), None),
    "assignment": (lambda x: _assigned(x), None),
    "cumulative": (lambda x: np.cumsum(x), None),
    "sort": (lambda x: np.sort(x.reshape(3, 4)), None),
    "norm": (lambda x: x / np.linalg.norm(x), None),
    "scan": (loop, None),
    "map": (lambda x: fgrad.lax.map(lambda v: v * v, x), N),
    "cond": (lambda x: fgrad.lax.cond(x[0] > 0, np.sin, lambda v: v[::-1], x), None),
    "while": (lambda x: fgrad.lax.fori_loop(0, 3, lambda i, v: v * x, x), None),
    "jit": (lambda x: fgrad.jit(lambda v: v[1:] * v[:-1])(x), 2 * (N - 1)),
    "checkpoint": (fgrad.checkpoint(lambda x: np.exp(x)), N),
    "vmap": (lambda x: fgrad.vmap(lambda r: np.sum(r) * r)(x.reshape(4, 3)), 36),
    "straight through": (lambda x: rounded(x), N),
    "discrete": (lambda x: np.floor(x), 0),
    "convolution": (lambda x: fgrad.nn.conv(x.reshape(1, 1, 3, 4), np.ones((1, 1, 2, 2))), 24),
    "tree": (lambda x: {"a": x[:2], "b": (x[2] * x[3],)}, 4),
    "interp": (lambda x: np.interp(np.linspace(0, 1, 5), np.linspace(0, 1, N), x), None),
}


def _assigned(x: Any) -> Any:
    y = np.zeros_like(x)
    y[2:5] = x[:3]
    y[0] += x[7] * x[8]
    return y


def dense(f: Callable[[Any], Any], x: np.ndarray) -> np.ndarray:
    """The Jacobian with a row for each element of all results."""
    flat = lambda v: np.concatenate([np.ravel(y) for y in fgrad.tree.leaves(f(v))])  # noqa: E731
    return fgrad.jacfwd(flat)(x)


@pytest.mark.parametrize("name", list(FUNCTIONS))
@pytest.mark.parametrize("mode", ["auto", "forward", "reverse"])
def test_jacobian(name: str, mode: str, rng: np.random.Generator) -> None:
    f, entries = FUNCTIONS[name]
    derivative = fgrad.sparse.jacobian(f, mode=mode)
    for _ in range(2):
        x = rng.uniform(0.2, 1.5, size=N)
        found, expected = derivative(x), dense(f, x)
        assert isinstance(found, scipy.sparse.csr_array)
        assert found.shape == expected.shape
        assert np.allclose(found.toarray(), expected, rtol=1e-12, atol=1e-14)
    assert entries is None or found.nnz == entries


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.name)
def test_hessian_of_functions(case: Any) -> None:
    x = np.array([0.4, -0.3, 0.8])
    found = fgrad.sparse.hessian(case.fun)(x).toarray()
    assert np.allclose(found, fgrad.hessian(case.fun)(x), rtol=1e-9, atol=1e-12)


HESSIANS = {
    "diagonal": (lambda x: np.sum(x**4), 1),
    "rosenbrock": (lambda x: np.sum(100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2), 3),
    "arrowhead": (lambda x: np.sum(x**3) + x[0] * np.sum(x**2), 2),
    "constant": (lambda x: np.sum(x), 1),
    "two hubs": (lambda x: np.sum(x**3) + (x[3] + x[5]) * np.sum(x**2), 3),
}


@pytest.mark.parametrize("name", list(HESSIANS))
def test_hessian(name: str, rng: np.random.Generator) -> None:
    f, count = HESSIANS[name]
    derivative, x = fgrad.sparse.hessian(f), rng.normal(size=N)
    found = derivative(x)
    assert np.allclose(found.toarray(), fgrad.hessian(f)(x), rtol=1e-10)
    assert derivative.plan(x).count == count


def test_other_arguments_and_trees(rng: np.random.Generator) -> None:
    def f(c: Any, p: Any, n: Any) -> Any:
        return [c * p["u"] ** n, np.sum(p["v"] * c)]

    p = {"u": rng.normal(size=3), "v": rng.normal(size=(2, 3))}
    c = rng.normal(size=3)
    found = fgrad.sparse.jacobian(f, argnums=1)(c, p, 2)
    assert found.shape == (4, 9) and found.nnz == 9
    assert np.allclose(found.toarray()[:3, :3], np.diag(2 * c * p["u"]))
    assert np.allclose(found.toarray()[3, 3:], np.tile(c, 2))


def test_single_precision() -> None:
    found = fgrad.sparse.jacobian(lambda x: x * x)(np.ones(3, np.float32))
    assert found.dtype == np.float32


def test_given_pattern() -> None:
    f = lambda x: fgrad.nn.relu(x) * 2.0  # noqa: E731
    derivative = fgrad.sparse.jacobian(f, pattern=scipy.sparse.eye(N))
    assert np.allclose(derivative(np.ones(N)).toarray(), 2.0 * np.eye(N))
    with pytest.raises(ArgumentError, match=r"the pattern has shape \(5, 5\)"):
        fgrad.sparse.jacobian(f, pattern=scipy.sparse.eye(5))(np.ones(N))


def test_pattern_is_found_once(rng: np.random.Generator) -> None:
    calls = []

    def f(x: Any) -> Any:
        calls.append(1)
        return x[1:] * x[:-1]

    derivative = fgrad.sparse.jacobian(f)
    derivative(rng.normal(size=N))
    traced = len(calls)
    for _ in range(3):
        derivative(rng.normal(size=N))
    assert len(calls) == traced


def test_a_large_tridiagonal_system(rng: np.random.Generator) -> None:
    n = 100_000

    def f(x: Any) -> Any:
        y = np.pad(x, 1)
        return np.sin(y[:-2]) + 2.0 * x**2 - y[2:] * x

    derivative, x = fgrad.sparse.jacobian(f), rng.normal(size=n)
    found = derivative(x)
    assert derivative.plan(x).count == 3 and found.nnz == 3 * n - 2
    row = found[[7]].toarray()[0, 6:9]  # older SciPy has no slices of one dimension
    assert np.allclose(row, [np.cos(x[6]), 4 * x[7] - x[8], -x[7]])
    step = scipy.sparse.linalg.spsolve(found.tocsc(), f(x))
    assert np.allclose(found @ step, f(x))


def test_cards() -> None:
    f = lambda x: x * 2.0  # noqa: E731
    with pytest.raises(ArgumentError, match=r"the argument is traced"):
        fgrad.jit(lambda x: fgrad.sparse.jacobian(f)(x).nnz)(np.ones(3))
    with pytest.raises(GradDtypeError, match="floating-point arguments"):
        fgrad.sparse.jacobian(f)(np.arange(3))
    with pytest.raises(ArgumentError, match="mode='both'"):
        fgrad.sparse.jacobian(f, mode="both")
    with pytest.raises(ArgumentError, match=r"The Jacobian is not sparse.*\n\n.*test_sparse"):
        fgrad.sparse.jacobian(lambda x: np.cumsum(x))(np.ones(100_000))


@pytest.mark.parametrize("seed", range(8))
def test_colours(seed: int) -> None:
    found = scipy.sparse.csr_array(scipy.sparse.random(30, 30, 0.1, random_state=seed))
    colors = color_columns(found)
    for row in range(30):
        own = colors[found.indices[found.indptr[row] : found.indptr[row + 1]]]
        assert len(set(own)) == len(own)
    symmetric = scipy.sparse.csr_array(found + found.T + scipy.sparse.eye(30))
    star = color_star(symmetric)
    assert star is not None
    dense_pattern = symmetric.toarray() != 0
    for i, j in zip(*np.nonzero(dense_pattern), strict=True):
        alone_in_row = np.sum(dense_pattern[i] & (star == star[j])) == 1
        alone_in_column = np.sum(dense_pattern[j] & (star == star[i])) == 1
        assert alone_in_row or alone_in_column


def test_small_kinds_of_arguments() -> None:
    def pairs(x: Any) -> Any:
        return x[1:] * x[:-1]

    for dtype, expected in [(np.float16, np.float32), (np.float32, np.float32), (">f8", "f8")]:
        found = fgrad.sparse.jacobian(pairs)(np.arange(4).astype(dtype))
        assert found.dtype == expected
        np.testing.assert_array_equal(found.toarray(), [[1, 0, 0, 0], [0, 2, 1, 0], [0, 0, 3, 2]])
    constant = fgrad.sparse.jacobian(lambda x: np.ones(2, np.float32))(np.ones(3, np.float32))
    assert (constant.dtype, constant.shape, constant.nnz) == (np.float32, (2, 3), 0)
    assert fgrad.sparse.jacobian(lambda x: ())(np.ones(3)).shape == (0, 3)
    assert fgrad.sparse.jacobian(lambda x: x * 2)(np.zeros(0)).shape == (0, 0)


def test_what_cannot_be_is_said() -> None:
    x = np.ones(3)
    derivative = fgrad.sparse.jacobian
    with pytest.raises(ArgumentError, match="closes over a traced array"):
        fgrad.jit(lambda c: derivative(lambda x: x * c)(x))(2.0)
    with pytest.raises(ArgumentError, match="closes over a traced array"):
        fgrad.grad(lambda c: derivative(lambda x: x * c)(x).sum())(2.0)
    with pytest.raises(ArgumentError, match="one integer"):
        derivative(lambda x: x, argnums=(0,))(x)  # type: ignore[arg-type]
    with pytest.raises(ArgumentError, match=r"shape \(3, 3\), the matrix \(2, 3\)"):
        derivative(lambda x: x[:2], pattern=np.eye(3))(x)
