"""`scipy.sparse.linalg` with traced matrices: values against SciPy, derivatives against dense ones.

A program is a function of the entries `d` of a matrix and of a vector `b`; each is run on SciPy's
matrix, then traced by every transform.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.linalg
import scipy.sparse
import scipy.sparse.linalg as plain

import fgrad
import fgrad.scipy.sparse.linalg as ours
from fgrad.scipy import linalg as dense

N = 7
RNG = np.random.default_rng(5)
PLACES = scipy.sparse.csr_array(
    np.diag(np.arange(4.0, 4 + N))
    + np.diag(RNG.normal(size=N - 1), 1)
    + np.diag(RNG.normal(size=N - 1), -1)
    + np.diag(RNG.normal(size=N - 3), 3)
)
SYMMETRIC = scipy.sparse.csr_array(PLACES + PLACES.T)
TALL = scipy.sparse.csr_array(np.vstack([PLACES.toarray(), RNG.normal(size=(3, N))]))
WIDE = scipy.sparse.csr_array(TALL.T)
LOWER = scipy.sparse.csr_array(scipy.sparse.tril(PLACES))
SIGNED = scipy.sparse.csr_array(np.diag([1.0, -3.0, 2.0, 4.0, -6.0, 8.0, -9.0]) + 0.1 * SYMMETRIC)
TIGHT: dict[str, Any] = {"rtol": 1e-13, "atol": 0.0}
LEAST: dict[str, Any] = {"atol": 1e-14, "btol": 1e-14, "conlim": 0.0}
KINDS: dict[str, Callable[[Any, Any], Any]] = {
    "csr": lambda a, ssl: a,
    "operator": lambda a, ssl: ssl.LinearOperator(
        a.shape, lambda x: a @ x, rmatvec=lambda y: a.conj().T @ y, dtype=a.dtype
    ),
}
Program = Callable[[Any, Any, Any], Any]
SOLVERS: dict[str, tuple[Any, Program]] = {
    "minres": (SYMMETRIC, lambda s, a, b: s.minres(a, b, rtol=1e-13)[0]),
    "minres shift": (SIGNED, lambda s, a, b: s.minres(a, b, rtol=1e-13, shift=0.5)[0]),
    "bicg": (PLACES, lambda s, a, b: s.bicg(a, b, **TIGHT)[0]),
    "cgs": (PLACES, lambda s, a, b: s.cgs(a, b, **TIGHT)[0]),
    "qmr": (PLACES, lambda s, a, b: s.qmr(a, b, **TIGHT)[0]),
    "tfqmr": (PLACES, lambda s, a, b: s.tfqmr(a, b, **TIGHT)[0]),
    "lgmres": (PLACES, lambda s, a, b: s.lgmres(a, b, **TIGHT)[0]),
    "gcrotmk": (PLACES, lambda s, a, b: s.gcrotmk(a, b, x0=np.ones(N), **TIGHT)[0]),
    "gcrotmk M": (PLACES, lambda s, a, b: s.gcrotmk(a, b, M=np.eye(N) / 4, **TIGHT)[0]),
    "cg": (SYMMETRIC, lambda s, a, b: s.cg(a, b, **TIGHT)[0]),
    "gmres": (PLACES, lambda s, a, b: s.gmres(a, b, **TIGHT)[0]),
    "lsqr": (TALL, lambda s, a, b: s.lsqr(a, b, **LEAST)[0]),
    "lsqr damp": (TALL, lambda s, a, b: s.lsqr(a, b, damp=1e-3, x0=np.ones(N), **LEAST)[0]),
    "lsqr wide": (WIDE, lambda s, a, b: s.lsqr(a, b, x0=np.arange(10.0), **LEAST)[0]),
    "lsqr wide damp": (WIDE, lambda s, a, b: s.lsqr(a, b, damp=0.5, **LEAST)[0]),
    "lsqr norms": (TALL, lambda s, a, b: np.stack(s.lsqr(a, b, damp=0.5, **LEAST)[3:5])),
    "lsmr": (TALL, lambda s, a, b: s.lsmr(a, b, **LEAST)[0]),
    "lsmr wide": (WIDE, lambda s, a, b: s.lsmr(a, b, damp=0.5, **LEAST)[0]),
    "lsmr norm": (TALL, lambda s, a, b: np.stack([s.lsmr(a, b, 0.5, **LEAST)[k] for k in (3, 7)])),
    "onenormest": (PLACES, lambda s, a, b: s.onenormest(a)),
}
FUNCTIONS: dict[str, tuple[Any, Program]] = {
    "spsolve_triangular": (LOWER, lambda s, a, b: s.spsolve_triangular(a, b)),
    "upper": (LOWER.T.tocsr(), lambda s, a, b: s.spsolve_triangular(a, b, lower=False)),
    "unit": (LOWER, lambda s, a, b: s.spsolve_triangular(a, b, unit_diagonal=True)),
    "inv": (LOWER, lambda s, a, b: s.inv(a) @ b),
    "expm": (LOWER / 9, lambda s, a, b: s.expm(a) @ b),
    "expm_multiply": (PLACES / 3, lambda s, a, b: s.expm_multiply(a, b)),
    "expm_multiply times": (
        PLACES / 9,
        lambda s, a, b: s.expm_multiply(a, np.stack([b, -b], 1), 0.5, 2.0, 4).ravel(),
    ),
    "funm_multiply_krylov": (
        PLACES / 9,
        lambda s, a, b: s.funm_multiply_krylov(
            dense.expm if s is ours else scipy.linalg.expm, a, b, t=0.7, rtol=1e-13
        ),
    ),
    "matrix_power": (PLACES, lambda s, a, b: s.matrix_power(a, 5) @ b / 1e4),
    "matrix_power 0": (PLACES, lambda s, a, b: s.matrix_power(a, 0) @ b),
    "A @ A": (PLACES, lambda s, a, b: (a @ PLACES) @ b + (PLACES @ a) @ b),
    "eigs": (PLACES, lambda s, a, b: np.sort(s.eigs(a, 3, return_eigenvectors=False).real)),
    "eigs vectors": (PLACES, lambda s, a, b: np.sort(np.abs(s.eigs(a, 2)[1].T @ b))),  # any order
    "eigsh": (SYMMETRIC, lambda s, a, b: np.abs(s.eigsh(a, 2)[1].T @ b)),
    "lobpcg": (SYMMETRIC, lambda s, a, b: s.lobpcg(a, np.eye(N)[:, :1], tol=1e-11, maxiter=99)[0]),
    "svds": (TALL, lambda s, a, b: s.svds(a, 2)[1]),
    "svds vectors": (TALL, lambda s, a, b: np.abs(s.svds(a, 2)[0].T @ b)),
    "svds wide": (WIDE, lambda s, a, b: s.svds(a, 2, return_singular_vectors=False)),
}
CASES = [(name, kind) for name in SOLVERS for kind in KINDS] + [(n, "csr") for n in FUNCTIONS]


def _case(name: str, kind: str) -> tuple[Callable[..., Any], np.ndarray, np.ndarray, np.ndarray]:
    """The program of traced entries and vector, SciPy's value, and a place."""
    pattern, program = (SOLVERS | FUNCTIONS)[name]
    b = RNG.normal(size=pattern.shape[0])
    wanted = program(plain, KINDS[kind](pattern.tocsc(), plain), b)

    def traced(d: Any, b: Any) -> Any:
        a = fgrad.sparse.csr(d, pattern.indices, pattern.indptr, pattern.shape)
        return program(ours, KINDS[kind](a, ours), b)

    symmetric = pattern is SYMMETRIC or pattern is SIGNED
    direction = pattern.copy()
    direction.data = RNG.normal(size=pattern.nnz)
    if symmetric:
        direction = scipy.sparse.csr_array(direction + direction.T)
        direction.sort_indices()
    return traced, wanted, np.array(pattern.data), direction.data


@pytest.mark.parametrize("name, kind", CASES)
def test_values_and_derivatives(name: str, kind: str) -> None:
    f, wanted, d, e = _case(name, kind)
    rows = (SOLVERS | FUNCTIONS)[name][0].shape[0]
    b, c = RNG.normal(size=rows), RNG.normal(size=rows)
    assert np.shape(f(d, b)) == np.shape(wanted)
    value, tangent = fgrad.jvp(f, (d, b), (e, c))
    step = 1e-6
    difference = (f(d + step * e, b + step * c) - f(d - step * e, b - step * c)) / (2 * step)
    np.testing.assert_allclose(tangent, difference, rtol=1e-5, atol=1e-6)
    weights = RNG.normal(size=np.shape(value))
    down = fgrad.grad(lambda d, b: np.sum(weights * f(d, b)), argnums=(0, 1))(d, b)
    np.testing.assert_allclose(down[0] @ e + down[1] @ c, np.sum(weights * tangent), rtol=1e-6)
    np.testing.assert_allclose(fgrad.jit(f)(d, b), value, rtol=1e-7)
    two = fgrad.vmap(f)(np.stack([d, 1.5 * d]), np.stack([b, c]))
    np.testing.assert_allclose(two[1], f(1.5 * d, c), rtol=1e-7)


@pytest.mark.parametrize("name, kind", CASES)
def test_as_scipy(name: str, kind: str) -> None:
    pattern, program = (SOLVERS | FUNCTIONS)[name]
    b = RNG.normal(size=pattern.shape[0])
    own = fgrad.sparse.csr(pattern.data, pattern.indices, pattern.indptr, pattern.shape)
    wanted = program(plain, KINDS[kind](pattern.tocsc(), plain), b)
    found = program(ours, KINDS[kind](own, ours), b)
    np.testing.assert_allclose(found, wanted, rtol=1e-6, atol=1e-9)


OPERATIONS: dict[str, Callable[[Any], Any]] = {
    "@": lambda a: a @ np.arange(7.0),
    "columns": lambda a: a @ np.arange(14.0).reshape(7, 2),
    "column": lambda a: a.matvec(np.arange(7.0)[:, None]),
    "rmatvec": lambda a: a.rmatvec(np.arange(7.0)),
    "rmatmat": lambda a: a.rmatmat(np.arange(14.0).reshape(7, 2)),
    "T": lambda a: a.T @ np.arange(7.0),
    "H": lambda a: a.H @ (1j * np.arange(7.0)),
    "sum": lambda a: (2.0 * a + a * 3.0 - a.T) @ np.arange(7.0),
    "power": lambda a: a**3 @ np.arange(7.0),
    "product": lambda a: (a @ a.T).T @ np.arange(7.0),
    "negative": lambda a: -a @ np.arange(7.0),
    "call": lambda a: a(np.arange(7.0)),
}


@pytest.mark.filterwarnings("ignore:Calling `matvec`")  # since SciPy 1.18
@pytest.mark.parametrize("kind", ["function", "matrix", "sparse", "scipy", "class"])
@pytest.mark.parametrize("name", OPERATIONS)
def test_operators(name: str, kind: str) -> None:
    dense = PLACES.toarray() * (1 + 0.5j)

    class Own(ours.LinearOperator):
        def __init__(self) -> None:
            super().__init__(complex, (N, N))

        def _matvec(self, x: Any) -> Any:
            return dense @ x

    scipys: Any = plain.LinearOperator  # `dtype` is not among its types

    operators = {
        "function": lambda: ours.LinearOperator((N, N), lambda x: dense @ x),
        "matrix": lambda: ours.aslinearoperator(dense),
        "sparse": lambda: ours.aslinearoperator(scipy.sparse.csc_array(dense)),
        "scipy": lambda: ours.aslinearoperator(scipys((N, N), lambda x: dense @ x, dtype=complex)),
        "class": Own,
    }
    wanted = OPERATIONS[name](plain.aslinearoperator(dense))
    np.testing.assert_allclose(OPERATIONS[name](operators[kind]()), wanted)


def test_a_complex_system() -> None:
    a, b = PLACES.toarray() * (1 + 0.2j), RNG.normal(size=N) * (1 - 1j)

    def loss(solve: Callable[..., Any], a: Any) -> Any:
        return np.sum(np.abs(solve(a, b)) ** 2)

    wanted = fgrad.grad(lambda a: loss(np.linalg.solve, a))(a)
    solvers: dict[str, Callable[..., Any]] = {
        "bicg": lambda a, b: ours.bicg(a, b, **TIGHT)[0],
        "qmr": lambda a, b: ours.qmr(a, b, **TIGHT)[0],
        "lgmres": lambda a, b: ours.lgmres(a, b, **TIGHT)[0],
        "lsqr": lambda a, b: ours.lsqr(a, b, **LEAST)[0],
    }
    for name, solve in solvers.items():
        found = fgrad.grad(lambda a, solve=solve: loss(solve, a))(a)
        np.testing.assert_allclose(found, wanted, rtol=1e-6, atol=1e-8, err_msg=name)


def test_the_result_of_an_iteration_that_fails_is_scipys() -> None:
    b = np.ones(N)
    for name in ("minres", "bicg", "cgs", "qmr", "tfqmr", "lgmres", "gcrotmk"):
        wanted = getattr(plain, name)(SYMMETRIC, b, maxiter=1)
        seen: list[Any] = []
        found = getattr(ours, name)(lambda x: SYMMETRIC @ x, b, maxiter=1, callback=seen.append)
        np.testing.assert_allclose(found[0], wanted[0], rtol=1e-12, err_msg=name)
        assert int(found[1]) == wanted[1] and seen


@pytest.mark.parametrize(
    "call, words",
    [
        (lambda s, p: s.lsqr(lambda x: p * x, np.ones(3)), r"LinearOperator\(\(m, n\), f\)"),
        (lambda s, p: s.minres(p * np.ones((2, 3)), np.ones(2)), r"shape \(2, 3\)"),
        (lambda s, p: s.bicg(p * np.eye(2), np.ones(2), x0=np.ones(3)), "x0 of 3 numbers"),
        (lambda s, p: s.lgmres(p * np.eye(2), np.ones(2), outer_v=[1]), "outer_v"),
        (lambda s, p: s.lsmr(p * np.eye(2), np.ones(3)), r"b of shape \(3,\)"),
        (lambda s, p: s.inv(p * np.eye(2)), "fgrad.scipy.linalg.inv"),
        (lambda s, p: s.eigs(p * np.eye(2)), "np.linalg.eig"),
        (lambda s, p: s.svds(p * np.eye(2)), "np.linalg.svd"),
        (lambda s, p: s.LinearOperator((2, 3), lambda x: p * x).matvec(np.ones(2)), r"\(2, 3\)"),
        (lambda s, p: s.LinearOperator((2, 3), lambda x: x) @ s.aslinearoperator(np.eye(2)), "@"),
        (lambda s, p: s.expm_multiply(p * np.eye(2), np.ones(3)), "expm_multiply"),
        (lambda s, p: s.matrix_power(fgrad.sparse.csr(p * np.ones(1), [0], [0, 1], (1, 1)), -1),
         "power=-1"),
        (lambda s, p: s.spsolve_triangular(PLACES, p * np.ones(N)), "lower=True"),
    ],
)  # fmt: skip
def test_cards(call: Callable[..., Any], words: str) -> None:
    with pytest.raises(fgrad.errors.FgradError, match=words):
        fgrad.jvp(lambda p: call(ours, p), (1.0,), (1.0,))


def test_unknown_options_raise_as_in_python() -> None:
    with pytest.raises(TypeError):
        fgrad.jit(lambda b: ours.minres(np.eye(2), b, tolerance=1.0)[0])(np.ones(2))


def test_exponentials_of_operators_and_by_time() -> None:
    a, b = PLACES.toarray() / 4, RNG.normal(size=N)

    def found(t: Any, s: Any) -> Any:
        return s.expm_multiply(a, b, 0.2, t, 3, False)[-1]

    wanted, h = found(1.0, plain), 1e-6
    np.testing.assert_allclose(fgrad.jit(lambda t: found(t, ours))(1.0), wanted, rtol=1e-10)
    slope = (found(1.0 + h, plain) - found(1.0 - h, plain)) / (2 * h)
    np.testing.assert_allclose(fgrad.jacrev(lambda t: found(t, ours))(1.0), slope, rtol=1e-6)

    def by_operator(p: Any) -> Any:
        return ours.expm_multiply(ours.LinearOperator((N, N), lambda x: p * (a @ x)), b)

    np.testing.assert_allclose(fgrad.jit(by_operator)(1.0), plain.expm_multiply(a, b), rtol=1e-10)
    np.testing.assert_allclose(
        fgrad.jacfwd(by_operator)(1.0), a @ plain.expm_multiply(a, b), rtol=1e-9
    )
    assert np.isnan(fgrad.jit(lambda p: ours.expm_multiply(p * a, b))(1e5)).all()
    single = fgrad.jit(lambda x: ours.expm_multiply(a.astype(np.float32), x))(b.astype(np.float32))
    assert single.dtype == np.float32
    np.testing.assert_allclose(single, plain.expm_multiply(a, b), rtol=1e-4)


BANDED = np.diag(np.arange(4.0, 10)) + np.diag(np.ones(5), 1) + np.diag(np.ones(5), -1)
ITERATIVE = ("cg", "gmres", "bicgstab", "bicg", "cgs", "qmr", "tfqmr", "lgmres", "gcrotmk", "lsmr")
INPUTS: dict[str, tuple[np.ndarray, Program]] = {
    **{
        name: (BANDED, lambda s, a, b, name=name: getattr(s, name)(a, b, maxiter=50)[0])
        for name in ITERATIVE
    },
    "minres": (BANDED, lambda s, a, b: s.minres(a, b, maxiter=50)[0].astype(b.dtype)),
    "lsqr": (BANDED, lambda s, a, b: s.lsqr(a, b, iter_lim=50)[0]),
    "spsolve": (BANDED, lambda s, a, b: s.spsolve(a, b)),
    "splu": (BANDED, lambda s, a, b: s.splu(a.tocsc() if s is plain else a).solve(b)),
    "spsolve_triangular": (np.tril(BANDED), lambda s, a, b: s.spsolve_triangular(a, b)),
    "inv": (np.tril(BANDED), lambda s, a, b: s.inv(a.tocsc() if s is plain else a) @ b),
    "expm": (BANDED / 9, lambda s, a, b: s.expm(a.tocsc() if s is plain else a) @ b),
    "expm_multiply": (BANDED / 9, lambda s, a, b: s.expm_multiply(a, b)),
    "matrix_power": (BANDED, lambda s, a, b: s.matrix_power(a, 3) @ b),
    "norm": (BANDED, lambda s, a, b: s.norm(a) + 0 * b),
}
EMPTY = ("spsolve", "splu", "spsolve_triangular", "matrix_power", "cg", "gmres", "bicgstab", "lsqr")


def _of_entries(program: Program, matrix: np.ndarray, b: np.ndarray) -> np.ndarray:
    a = scipy.sparse.csr_array(matrix)

    def traced(d: Any, b: Any) -> Any:
        return program(ours, fgrad.sparse.csr(d, a.indices, a.indptr, a.shape), b)

    return fgrad.jit(traced)(a.data, b)


DOUBLE = ("lsqr", "lsmr", "minres")  # whose results are those in SciPy


@pytest.mark.parametrize("name", [n for n in INPUTS if n not in DOUBLE])
@pytest.mark.parametrize("dtype", [np.float32, np.complex64])
def test_single_precision_is_kept(name: str, dtype: type) -> None:
    matrix, program = INPUTS[name]
    given = matrix.astype(dtype), np.arange(1, 7).astype(dtype)
    found = _of_entries(program, *given)
    assert found.dtype == dtype
    wanted = program(plain, scipy.sparse.csr_array(given[0]), given[1])
    np.testing.assert_allclose(found, wanted, rtol=2e-3, atol=1e-4)


@pytest.mark.parametrize("name", [n for n in INPUTS if n not in ("norm", "lgmres", "gcrotmk")])
def test_nan_is_not_lost(name: str) -> None:
    matrix, program = INPUTS[name]
    b = np.arange(1.0, 7)
    b[0] = np.nan
    assert np.isnan(_of_entries(program, matrix, b)).any()
    if name in ("cg", "gmres", "bicgstab"):
        a = scipy.sparse.csr_array(matrix)
        _, info = fgrad.jit(lambda b: getattr(ours, name)(a, b, maxiter=50))(b)
        assert info == 50


@pytest.mark.parametrize("name", EMPTY)
def test_nothing_to_solve(name: str) -> None:
    assert _of_entries(INPUTS[name][1], np.zeros((0, 0)), np.zeros(0)).shape == (0,)
