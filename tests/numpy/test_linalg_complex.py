"""np.linalg and scipy.linalg on complex matrices and stacks of them: derivatives of both orders,
transposes, compiled values and gradients, batches.

Functions of factors do not depend on the phases of their vectors, which have no derivative.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
import pytest

import fgrad
import fgrad.scipy.linalg as sla
from fgrad.testing import check_grads, check_jit, check_transpose, check_vmap

L = np.linalg


class Case(NamedTuple):
    """A function of one matrix, or of a matrix and two columns."""

    fun: Callable[..., Any]
    shape: tuple[int, int] = (3, 3)
    definite: bool = False
    columns: bool = False
    stacks: bool = True


def adjoint(a: Any) -> Any:
    return np.conj(np.swapaxes(a, -1, -2))


def hermitian(a: Any) -> Any:
    return (a + adjoint(a)) / 2


def of_vectors(u: Any, s: Any, vh: Any) -> Any:
    """What does not depend on the phases of singular vectors."""
    return (u * np.sqrt(s)[..., None, :]) @ vh, np.abs(u) ** 2, np.abs(vh) ** 2


def of_eigenvectors(w: Any, v: Any) -> Any:
    return w, (v * np.exp(w / 9)[..., None, :]) @ adjoint(v)


def thin_svd(a: Any) -> Any:
    return of_vectors(*L.svd(a, full_matrices=False))


def full_svd(a: Any) -> Any:
    u, s, vh = L.svd(a)
    return np.sum(np.abs(u[..., 3:]) ** 2, -1), s, np.abs(vh) ** 2


def complete_qr(a: Any) -> Any:
    q, r = L.qr(a, "complete")
    rest = q[..., 3:]
    return q[..., :3], rest @ adjoint(rest), r


def spectrum(a: Any) -> Any:
    w, v = L.eig(a)
    return w, np.abs(v) ** 2


TALL, WIDE = (4, 3), (3, 4)

CASES: dict[str, Case] = {
    "solve": Case(L.solve, columns=True),
    "solve.vector": Case(lambda a, b: L.solve(a, b[:, 0]), columns=True, stacks=False),
    "inv": Case(L.inv),
    "det": Case(L.det),
    "slogdet": Case(lambda a: tuple(L.slogdet(a))),
    "cholesky": Case(lambda a: L.cholesky(hermitian(a)), definite=True),
    "cholesky.upper": Case(lambda a: L.cholesky(hermitian(a), upper=True), definite=True),
    "qr": Case(lambda a: tuple(L.qr(a))),
    "qr.tall": Case(lambda a: tuple(L.qr(a)), TALL),
    "qr.wide": Case(lambda a: tuple(L.qr(a)), WIDE),
    "qr.complete": Case(complete_qr, (5, 3)),
    "svdvals": Case(L.svdvals, TALL),
    "svd": Case(thin_svd, TALL),
    "svd.wide": Case(thin_svd, WIDE),
    "svd.full": Case(full_svd, (5, 3)),
    "eigh": Case(lambda a: of_eigenvectors(*L.eigh(hermitian(a))), definite=True),
    "eigvalsh": Case(lambda a: L.eigvalsh(hermitian(a), "U"), definite=True),
    "eigvals": Case(L.eigvals),
    "eig": Case(spectrum),
    "pinv": Case(L.pinv, TALL),
    "lstsq": Case(lambda a, b: L.lstsq(a, b)[:2], TALL, columns=True, stacks=False),
    "matrix_power": Case(lambda a: L.matrix_power(a, 3)),
    "matrix_power.-2": Case(lambda a: L.matrix_power(a, -2)),
    **{
        f"norm.{p}": Case(lambda a, p=p: L.norm(a, p, axis=(-2, -1)), TALL)
        for p in ("fro", "nuc", 1, -1, 2, -2, np.inf, -np.inf)
    },
    **{
        f"vector_norm.{p}": Case(lambda a, p=p: L.vector_norm(a, ord=p, axis=-1))
        for p in (1, 2, 2.5, np.inf, -np.inf, -1)
    },
    **{f"cond.{p}": Case(lambda a, p=p: L.cond(a, p)) for p in (None, -2, 1, np.inf, "nuc")},
    "multi_dot": Case(lambda a, b: L.multi_dot([a, b, b.T, a]), columns=True, stacks=False),
    "vecdot": Case(lambda a: L.vecdot(a, a * a)),
    "cross": Case(lambda a: L.cross(a, a * np.array([1, 2j, 3]))),
    "tensorinv": Case(lambda a: L.tensorinv(np.reshape(a, (3, 3, 1)), 1), stacks=False),
    "solve_triangular": Case(lambda a, b: sla.solve_triangular(a, b, lower=True), columns=True),
    "solve_triangular.C": Case(lambda a, b: sla.solve_triangular(a, b, trans="C"), columns=True),
    "cho_solve": Case(
        lambda a, b: sla.cho_solve(sla.cho_factor(hermitian(a)), b), definite=True, columns=True
    ),
    "lu": Case(lambda a: sla.lu(a)[1:]),
    "lu.wide": Case(lambda a: sla.lu(a)[1:], WIDE),
    "lu_solve": Case(lambda a, b: sla.lu_solve(sla.lu_factor(a), b), columns=True),
    "lu_solve.C": Case(lambda a, b: sla.lu_solve(sla.lu_factor(a), b, trans=2), columns=True),
    "solve.pos": Case(lambda a, b: sla.solve(a, b, assume_a="pos"), definite=True, columns=True),
    "expm": Case(lambda a: sla.expm(a / 4)),
    "sqrtm": Case(sla.sqrtm, definite=True),
    "logm": Case(sla.logm, definite=True),
    "solve_sylvester": Case(lambda a: sla.solve_sylvester(a, a * 1.5, a @ a)),
    "polar": Case(sla.polar),
    "toeplitz": Case(lambda a: sla.toeplitz(a[0], a[1]), stacks=False),
}


def arguments(case: Case, lead: tuple[int, ...]) -> list[np.ndarray]:
    """Matrices with eigenvalues and pivots that are well apart."""
    rng = np.random.default_rng(0)
    m, n = case.shape
    a = rng.normal(size=(*lead, m, n)) + 1j * rng.normal(size=(*lead, m, n))
    if m == n:
        a = a + 2 * np.diag([1, 1.7, 2.9])
    if case.definite:
        a = a @ adjoint(a) + np.diag(np.arange(1, n + 1))
    if not case.columns:
        return [a]
    return [a, rng.normal(size=(*lead, m, 2)) + 1j * rng.normal(size=(*lead, m, 2))]


def flat(case: Case) -> Callable[..., Any]:
    return lambda *xs: [y for y in fgrad.tree.leaves(case.fun(*xs)) if y.dtype.kind in "fc"]


@pytest.mark.parametrize("name", CASES)
def test_derivatives(name: str) -> None:
    case = CASES[name]
    args = arguments(case, ())
    check_grads(flat(case), args, order=2, rtol=2e-4, atol=2e-4)
    check_transpose(flat(case), args, rtol=1e-9)


@pytest.mark.parametrize("name", CASES)
def test_compiled(name: str) -> None:
    case = CASES[name]
    function, args = flat(case), arguments(case, (2,) if case.stacks else ())

    def pulled(*xs: Any) -> Any:
        outs, pull = fgrad.vjp(function, *xs)
        return pull([y * 0 + 1 for y in outs])

    check_jit(function, args, rtol=1e-9, atol=1e-10)
    check_jit(pulled, args, rtol=1e-8, atol=1e-8)
    narrow = [x.astype(np.complex64) for x in args]
    for got, expected in zip(fgrad.jit(function)(*narrow), function(*narrow), strict=True):
        assert got.dtype == expected.dtype or name == "logm"  # SciPy widens it
        np.testing.assert_allclose(got, expected, rtol=2e-3, atol=2e-3)


@pytest.mark.parametrize("name", [n for n, case in CASES.items() if case.stacks])
def test_batches(name: str) -> None:
    case = CASES[name]
    function = flat(case)
    check_vmap(function, arguments(case, (2,)), rtol=1e-9, atol=1e-10)
    stacked = fgrad.vmap(fgrad.grad(lambda *xs: sum(np.sum(np.abs(y)) for y in function(*xs))))
    for k in range(2):
        one = [x[k] for x in arguments(case, (2,))]
        alone = fgrad.grad(lambda *xs: sum(np.sum(np.abs(y)) for y in function(*xs)))(*one)
        np.testing.assert_allclose(stacked(*arguments(case, (2,)))[k], alone, rtol=1e-7, atol=1e-8)


@pytest.mark.parametrize("fun", [L.inv, L.cholesky, lambda a: L.solve(a, a)])
def test_singular_matrices(fun: Callable[..., Any]) -> None:
    """An error at the prompt, and one after the compiled program has run."""
    singular = np.zeros((2, 3, 3), complex)
    for way in (fun, fgrad.jit(fun)):
        with pytest.raises(np.linalg.LinAlgError):
            way(singular)


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    """NumPy's warnings are not what is tested."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        yield
