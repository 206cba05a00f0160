"""Further functions of scipy.linalg: values against SciPy, derivatives against differences."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.linalg as plain

import fgrad
import fgrad.scipy.linalg as sla
from fgrad import grad, jit, vmap
from fgrad.errors import FgradError

RNG = np.random.default_rng(2)
A, B, Q = RNG.normal(size=(4, 4)), RNG.normal(size=(4, 2)), RNG.normal(size=(4, 4))
TALL, VECTOR = RNG.normal(size=(6, 3)), RNG.normal(size=4)
SPD = A @ A.T + 4 * np.eye(4)
BANDS = np.array([[0.0, 0.3, 0.1, 0.2], [3.0, 2.0, 4.0, 5.0], [0.5, 0.2, 0.6, 0.0]])
UPPER, LOWER = BANDS[:2], BANDS[1:]

# name: arguments, of which the first is differentiated, and keywords
CASES: list[tuple[str, tuple[Any, ...], dict[str, Any]]] = [
    ("solve_banded", (BANDS, VECTOR), {}), ("solve_banded", (BANDS, B), {}),
    ("solveh_banded", (UPPER, VECTOR), {}), ("solveh_banded", (LOWER, B), {"lower": True}),
    ("eig_banded", (LOWER,), {"lower": True, "eigvals_only": True}),
    ("eigvals_banded", (UPPER,), {}),
    ("eigh_tridiagonal", (VECTOR, VECTOR[1:]), {"eigvals_only": True}),
    ("eigvalsh_tridiagonal", (VECTOR, VECTOR[1:]), {}), ("cholesky_banded", (UPPER,), {}),
    ("cholesky_banded", (LOWER,), {"lower": True}), ("rq", (A,), {"mode": "r"}),
    ("pinvh", (SPD,), {}), ("subspace_angles", (TALL, TALL[::-1, :2] + 1.0), {}),
    ("orthogonal_procrustes", (A, Q), {}), ("fractional_matrix_power", (SPD, 0.3), {}),
    ("signm", (SPD - 6 * np.eye(4),), {}), ("solve_continuous_are", (A, B, SPD, np.eye(2)), {}),
    ("solve_discrete_are", (A, B, SPD, np.eye(2)), {}),
    ("khatri_rao", (A, TALL[:, :1] * VECTOR), {}),
    ("solve_circulant", (VECTOR, Q[0]), {}), ("solve_circulant", (VECTOR, B), {}),
    ("matmul_toeplitz", (VECTOR, Q[0]), {}), ("convolution_matrix", (VECTOR, 3), {}),
    ("convolution_matrix", (VECTOR, 6), {"mode": "same"}),
    ("convolution_matrix", (VECTOR, 3), {"mode": "valid"}), ("leslie", (VECTOR, VECTOR[1:]), {}),
    ("fiedler", (VECTOR,), {}), ("diagsvd", (VECTOR,), {"M": 4, "N": 6}),
    ("diagsvd", (VECTOR,), {"M": 5, "N": 4}), ("qr_multiply", (TALL, RNG.normal(size=(2, 6))), {}),
    ("qr_multiply", (TALL, RNG.normal(size=(3, 2))), {"mode": "left"}),
]  # fmt: skip
SYMMETRIC = ("pinvh",)


def _call(module: Any, name: str, args: tuple[Any, ...], given: dict[str, Any]) -> Any:
    f = getattr(module, name)
    if name == "solve_banded":
        return f((1, 1), *args, **given)
    return f(*args, **given)


def _parts(x: Any) -> list[Any]:
    return list(x) if isinstance(x, tuple) else [x]


@pytest.mark.parametrize("case", CASES, ids=lambda c: c[0])
def test_values_and_derivatives(case: Any) -> None:
    name, args, given = case
    wanted = _parts(_call(plain, name, args, given))
    found = _parts(jit(lambda x: _call(sla, name, (x, *args[1:]), given))(args[0]))
    for x, y in zip(found, wanted, strict=True):
        assert np.shape(x) == np.shape(y)
        np.testing.assert_allclose(np.abs(x), np.abs(y), rtol=1e-8, atol=1e-10)

    def loss(x: Any) -> Any:
        out = _parts(_call(sla, name, (x, *args[1:]), given))
        return sum(
            [np.sum(np.abs(o) ** 2 * np.cos(np.arange(o.size)).reshape(o.shape)) for o in out]
        )

    way, h = RNG.normal(size=args[0].shape), 1e-6
    way = way + way.T if name in SYMMETRIC else way
    expected = (loss(args[0] + h * way) - loss(args[0] - h * way)) / (2 * h)
    assert np.sum(grad(loss)(args[0]) * way) == pytest.approx(expected, rel=1e-4, abs=1e-6)
    many = vmap(lambda x: _parts(_call(sla, name, (x, *args[1:]), given))[0])(
        np.stack([args[0], 1.1 * args[0]])
    )
    np.testing.assert_allclose(many[0], found[0], rtol=1e-8, atol=1e-10)


def test_factors_without_derivatives() -> None:
    for name, given in (
        ("schur", {}), ("schur", {"output": "complex"}), ("hessenberg", {}),
        ("hessenberg", {"calc_q": True}), ("ldl", {}), ("ldl", {"lower": False}),
    ):  # fmt: skip
        a = SPD if name == "ldl" else A
        for x, y in zip(
            _parts(jit(lambda a, n=name, g=given: getattr(sla, n)(a, **g))(a)),
            _parts(getattr(plain, name)(a, **given)),
            strict=True,
        ):
            np.testing.assert_allclose(x, y, atol=1e-12)
    with pytest.raises(FgradError):
        grad(lambda a: np.sum(sla.schur(a)[0]))(A)
    bands = jit(lambda u: sla.cho_solve_banded((sla.cholesky_banded(u), False), VECTOR))(UPPER)
    np.testing.assert_allclose(bands, plain.solveh_banded(UPPER, VECTOR))


@pytest.mark.parametrize(
    "program",
    [
        lambda a: sla.schur(a, sort="lhp"),
        lambda a: sla.eigvals_banded(a, select="i", select_range=(0, 1)),
        lambda a: sla.solve_banded((1, 1), a, VECTOR),
        lambda a: sla.solve_continuous_are(a, B, SPD, np.eye(2), e=SPD),
        lambda a: sla.pinvh(a, return_rank=True),
        lambda a: sla.solve_circulant(a[0], VECTOR, singular="lstsq"),
        lambda a: sla.khatri_rao(a, TALL),
    ],
)
def test_what_is_not_there_is_refused(program: Callable[..., Any]) -> None:
    with pytest.raises((ValueError, TypeError)):
        fgrad.jit(program)(A)


def test_toeplitz_systems_are_scipys() -> None:
    rng = np.random.default_rng(3)
    c, r, b = 5.0 + rng.normal(size=6), rng.normal(size=6), rng.normal(size=(6, 2))
    for given in ((c, r), c, (c + 1j * r, r)):
        wanted = plain.solve_toeplitz(given, b)
        found = fgrad.jit(lambda b, given=given: sla.solve_toeplitz(given, b))(b)
        np.testing.assert_allclose(found, wanted, rtol=1e-9)
    fgrad.testing.check_grads(lambda c, r, b: sla.solve_toeplitz((c, r), b), (c, r, b[:, 0]))
    both = fgrad.vmap(lambda b: sla.solve_toeplitz((c, r), b))(b.T)
    np.testing.assert_allclose(both.T, plain.solve_toeplitz((c, r), b), rtol=1e-9)
    zero = np.array([0.0, 1.0])  # as its first leading minor
    np.testing.assert_allclose(fgrad.jit(lambda b: sla.solve_toeplitz(zero, b))(zero), [1.0, 0.0])
    single = fgrad.jit(lambda b: sla.solve_toeplitz(c.astype(np.float32), b))(b.astype(np.float32))
    assert single.dtype == np.float32
    with pytest.raises(FgradError, match="solve_toeplitz"):
        fgrad.jit(lambda b: sla.solve_toeplitz(c, b))(b[:3])
