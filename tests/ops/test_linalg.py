"""Linear algebra: values, types, derivatives of both orders, batching, compiled code."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.linalg
from rule_checks import as_tuple, check_batch, check_derivatives, rng_of

import fgrad
import fgrad.numpy
from fgrad.errors import DtypeError, ShapeError
from fgrad.ir.aval import Aval, aval_of
from fgrad.ops import decompositions as dc
from fgrad.ops import determinants as dt
from fgrad.ops import linalg as la
from fgrad.ops import matrix_functions as mf
from fgrad.ops.complex import complex_, conj, imag, real
from fgrad.ops.diagonals import diagonal
from fgrad.ops.elementwise import mul
from fgrad.ops.matrices import adjoint, lower_triangle, matmul, scale_columns
from fgrad.trace import run, trace

N = 4


def _general(rng: np.random.Generator, *shape: int) -> np.ndarray:
    return rng.standard_normal(shape)


def _definite(rng: np.random.Generator, *shape: int) -> np.ndarray:
    a = rng.standard_normal(shape)
    return a @ np.swapaxes(a, -1, -2) + np.eye(shape[-1])


def _far_apart(rng: np.random.Generator, *shape: int) -> np.ndarray:
    """Matrices whose eigenvalues are real and far apart."""
    v = np.eye(shape[-1]) + 0.2 * rng.standard_normal(shape)
    w = np.arange(1.0, shape[-1] + 1)
    return np.linalg.inv(v) @ (w[:, None] * v)


def _spectrum(a: Any) -> tuple[Any, ...]:
    """Functions of the eigenvalues and eigenvectors that do not depend on phases."""
    w, v = dc.eig(a)
    x = matmul(scale_columns(v, w), la.inv(v))
    size = real(mul(conj(v), v))
    return real(w), imag(x), size


class Case:
    """A function of matrices with its arguments, and NumPy's or SciPy's form of it."""

    def __init__(
        self,
        fun: Callable[..., Any],
        reference: Callable[..., Any] | None,
        *args: tuple[Callable[..., np.ndarray], int, int],
    ) -> None:
        self.fun, self.reference, self.args = fun, reference, args

    def arguments(self, name: str, *lead: int) -> list[np.ndarray]:
        rng = rng_of(name)
        return [make(rng, *lead, m, n) for make, m, n in self.args]


SQUARE, TALL, WIDE = (_general, N, N), (_general, 5, 3), (_general, 3, 5)
POSITIVE, RIGHT = (_definite, N, N), (_general, N, 2)


def _function(name: str) -> Callable[..., Any]:
    return lambda a: mf.matrix_function(name, a)


CASES: dict[str, Case] = {
    "cholesky": Case(la.cholesky, np.linalg.cholesky, POSITIVE),
    "solve": Case(la.solve, np.linalg.solve, SQUARE, RIGHT),
    "inv": Case(la.inv, np.linalg.inv, SQUARE),
    "det": Case(dt.det, np.linalg.det, SQUARE),
    "cofactor": Case(dt.cofactor, lambda a: _det(a) * _inverse_t(a), SQUARE),
    "slogdet": Case(lambda a: dt.slogdet(a)[1], lambda a: np.linalg.slogdet(a)[1], SQUARE),
    "lu": Case(lambda a: la.lu(a)[0], None, SQUARE),
    "lu.tall": Case(lambda a: la.lu(a)[0], None, TALL),
    "lu.wide": Case(lambda a: la.lu(a)[0], None, WIDE),
    "triangular": Case(la.triangular_solve, None, POSITIVE, RIGHT),
    "triangular.upper": Case(lambda a, b: la.triangular_solve(a, b, False), None, POSITIVE, RIGHT),
    "triangular.trans": Case(
        lambda a, b: la.triangular_solve(a, b, True, True), None, POSITIVE, RIGHT
    ),
    "triangular.unit": Case(
        lambda a, b: la.triangular_solve(a, b, False, True, unit=True), None, SQUARE, RIGHT
    ),
    "qr": Case(dc.qr, np.linalg.qr, SQUARE),
    "qr.tall": Case(dc.qr, np.linalg.qr, TALL),
    "qr.wide": Case(dc.qr, np.linalg.qr, WIDE),
    "qr.complete": Case(
        lambda a: dc.qr(a, True)[1], lambda a: np.linalg.qr(a, "complete")[1], TALL
    ),
    "svd": Case(dc.svd, np.linalg.svd, SQUARE),
    "svd.tall": Case(dc.svd, lambda a: np.linalg.svd(a, full_matrices=False), TALL),
    "svd.wide": Case(dc.svd, lambda a: np.linalg.svd(a, full_matrices=False), WIDE),
    "svd.full": Case(lambda a: _complement(dc.svd(a, True)[0]), None, TALL),
    "svdvals": Case(dc.svdvals, lambda a: np.linalg.svd(a, compute_uv=False), TALL),
    "eigh": Case(dc.eigh, np.linalg.eigh, POSITIVE),
    "eigh.upper": Case(
        lambda a: dc.eigh(a, False), lambda a: np.linalg.eigh(a, "U"), (_general, N, N)
    ),
    "eigvalsh": Case(dc.eigvalsh, np.linalg.eigvalsh, POSITIVE),
    "eig": Case(_spectrum, None, (_far_apart, N, N)),
    "eigvals": Case(lambda a: real(dc.eigvals(a)), None, (_far_apart, N, N)),
    "pinv": Case(lambda a: dc.pinv(a, 1e-15), np.linalg.pinv, TALL),
    "pinv.wide": Case(lambda a: dc.pinv(a, 1e-15), np.linalg.pinv, WIDE),
    "expm": Case(_function("expm"), scipy.linalg.expm, SQUARE),
    "logm": Case(_function("logm"), None, POSITIVE),
    "sinm": Case(_function("sinm"), None, SQUARE),
    "frechet": Case(lambda a, e: mf.frechet("expm", a, e), None, SQUARE, SQUARE),
    "sqrtm": Case(mf.sqrtm, None, POSITIVE),
    "solve_sylvester": Case(mf.solve_sylvester, None, POSITIVE, (_definite, 2, 2), RIGHT),
}


def _det(a: Any) -> Any:
    return np.linalg.det(a)[..., None, None]


def _inverse_t(a: Any) -> Any:
    return np.swapaxes(np.linalg.inv(a), -1, -2)


def _complement(u: Any) -> Any:
    """The projector on the last two columns, which does not depend on their choice."""
    rest = u[..., 3:]
    return matmul(rest, adjoint(rest))


def _check_types(f: Callable[..., Any], *args: np.ndarray) -> None:
    """The type rules agree with the evaluation, and the traced program gives the same numbers."""
    program = trace(lambda *xs: as_tuple(f(*xs)), [aval_of(x) for x in args]).program
    tolerance = 1e-9 if args[0].dtype.char in "dD" else 2e-2
    for aval, got, expected in zip(
        program.out_avals, run(program, args), as_tuple(f(*args)), strict=True
    ):
        assert (aval.shape, aval.dtype) == (expected.shape, expected.dtype)
        np.testing.assert_allclose(got, expected, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("name", CASES)
def test_values_and_types(name: str) -> None:
    case = CASES[name]
    for lead in ((), (2, 3), (0,)):
        args = case.arguments(name, *lead)
        _check_types(case.fun, *args)
        if case.reference is not None:
            for got, expected in zip(
                as_tuple(case.fun(*args)), as_tuple(case.reference(*args)), strict=True
            ):
                np.testing.assert_allclose(got, expected, rtol=1e-10, atol=1e-12)
        single = [x.astype(np.float32) for x in args]
        _check_types(case.fun, *single)
        for got, expected in zip(
            as_tuple(case.fun(*single)), as_tuple(case.fun(*args)), strict=True
        ):
            assert got.dtype == np.float32 and got.shape == expected.shape
            if name not in ("lu.tall", "cofactor"):
                np.testing.assert_allclose(got, expected, rtol=2e-2, atol=2e-2)


@pytest.mark.parametrize("name", CASES)
def test_derivatives(name: str) -> None:
    case = CASES[name]
    check_derivatives(case.fun, *case.arguments(name), seed=name, tol=5e-4)


@pytest.mark.parametrize("name", ["solve", "cholesky", "qr", "svd", "eigh", "pinv", "expm"])
def test_derivatives_of_stacks(name: str) -> None:
    case = CASES[name]
    check_derivatives(case.fun, *case.arguments(name, 2), order=1, seed=name, tol=5e-4)


@pytest.mark.parametrize("name", CASES)
def test_batching(name: str) -> None:
    case = CASES[name]
    lanes = [case.arguments(f"{name}{k}") for k in range(3)]
    check_batch(case.fun, *zip(*lanes, strict=True), seed=name, tol=1e-9)


@pytest.mark.parametrize("name", CASES)
def test_compiled(name: str) -> None:
    case = CASES[name]
    args = case.arguments(name)
    for got, expected in zip(
        as_tuple(fgrad.jit(case.fun)(*args)), as_tuple(case.fun(*args)), strict=True
    ):
        assert got.dtype == expected.dtype
        np.testing.assert_allclose(got, expected, rtol=1e-9, atol=1e-11)


def test_one_by_one() -> None:
    a, b = np.array([[4.0]]), np.array([[2.0]])
    assert la.solve(a, b) == 0.5 and dt.det(a) == 4 and la.cholesky(a) == 2
    assert dt.cofactor(a) == 1 and dc.eigvals(a) == 4
    check_derivatives(lambda a, b: (la.solve(a, b), la.cholesky(a), dt.det(a)), a, b)


def test_no_rows() -> None:
    a = np.zeros((2, 0, 0))
    assert dt.det(a).tolist() == [1, 1]
    assert la.inv(a).shape == (2, 0, 0)
    packed, pivots, order = la.lu(np.zeros((0, 3)))
    assert packed.shape == (0, 3) and pivots.shape == order.shape == (0,)


# --- complex matrices


def _complex(rng: np.random.Generator, *shape: int) -> np.ndarray:
    return rng.standard_normal(shape) + 1j * rng.standard_normal(shape)


def _complex_definite(rng: np.random.Generator, *shape: int) -> np.ndarray:
    a = _complex(rng, *shape)
    return a @ np.conj(np.swapaxes(a, -1, -2)) + np.eye(shape[-1])


COMPLEX: dict[str, tuple[Callable[..., Any], Any]] = {
    "cholesky": (la.cholesky, (_complex_definite, N, N)),
    "inv": (la.inv, (_complex, N, N)),
    "det": (dt.det, (_complex, N, N)),
    "slogdet": (dt.slogdet, (_complex, N, N)),
    "lu": (lambda a: la.lu(a)[0], (_complex, 5, 3)),
    "triangular": (
        lambda a: la.triangular_solve(a, conj(a), trans=True),
        (_complex_definite, 3, 3),
    ),
    "qr": (dc.qr, (_complex, 5, 3)),
    "qr.wide": (dc.qr, (_complex, 3, 5)),
    "svd": (lambda a: _weighted(*dc.svd(a)), (_complex, 5, 3)),
    "svd.wide": (lambda a: _weighted(*dc.svd(a)), (_complex, 3, 5)),
    "svdvals": (dc.svdvals, (_complex, 3, 5)),
    "eigh": (lambda a: _powers(*dc.eigh(a)), (_complex_definite, N, N)),
    "eigvals": (dc.eigvals, (_complex, 3, 3)),
    "pinv": (lambda a: dc.pinv(a, 1e-15), (_complex, 3, 5)),
    "expm": (_function("expm"), (_complex, 3, 3)),
}


def _weighted(u: Any, s: Any, vh: Any) -> tuple[Any, Any]:
    """(1 + i) u diag(s) v^H, and s: phases of the vectors cancel."""
    return matmul(scale_columns(u, complex_(s, s)), vh), s


def _powers(w: Any, v: Any) -> tuple[Any, Any]:
    return matmul(scale_columns(v, complex_(w, w)), adjoint(v)), w


def _pairing(xs: Any, ys: Any) -> float:
    return sum(float(np.sum(np.real(x * y))) for x, y in zip(xs, ys, strict=True))


def _random_like(rng: np.random.Generator, x: np.ndarray) -> Any:
    out = rng.standard_normal(x.shape)
    return np.asarray(out + 1j * rng.standard_normal(x.shape) if x.dtype.kind == "c" else out)[()]


@pytest.mark.parametrize("name", COMPLEX)
def test_complex_derivatives(name: str) -> None:
    fun, (make, m, n) = COMPLEX[name]
    rng = rng_of(f"complex{name}")
    a = make(rng, m, n)
    t = _random_like(rng, a)
    _check_types(fun, a)
    out, out_t = fgrad.jvp(fun, (a,), (t,))
    outs, outs_t = as_tuple(out), as_tuple(out_t)
    h = 1e-6
    plus, minus = (as_tuple(fun(a + s * t)) for s in (h, -h))
    for got, p, q in zip(outs_t, plus, minus, strict=True):
        np.testing.assert_allclose(got, (p - q) / (2 * h), rtol=1e-5, atol=1e-5)
    cts = tuple([_random_like(rng, x) for x in outs])
    _, pull = fgrad.vjp(fun, a)
    (back,) = pull(cts if isinstance(out, tuple) else cts[0])
    assert back.dtype == a.dtype
    assert abs(_pairing(cts, outs_t) - _pairing([back], [t])) < 1e-8


@pytest.mark.parametrize("name", COMPLEX)
def test_complex_compiled(name: str) -> None:
    fun, (make, m, n) = COMPLEX[name]
    a = make(rng_of(name), m, n)
    for got, expected in zip(as_tuple(fgrad.jit(fun)(a)), as_tuple(fun(a)), strict=True):
        assert got.dtype == expected.dtype
        np.testing.assert_allclose(got, expected, rtol=1e-10, atol=1e-12)
    narrow = a.astype(np.complex64)
    for got, expected in zip(as_tuple(fun(narrow)), as_tuple(fun(a)), strict=True):
        assert got.dtype.itemsize * 2 == expected.dtype.itemsize


def test_eig_is_complex_for_real_eigenvalues() -> None:
    w, v = dc.eig(np.diag([1.0, 2.0]))
    assert w.dtype == v.dtype == np.complex128
    np.testing.assert_array_equal(w, [1, 2])


# --- gauge, degeneracy, singular matrices


def test_only_the_triangle_that_is_read_has_a_derivative() -> None:
    a = _definite(rng_of("triangle"), N, N)
    for f in (la.cholesky, dc.eigvalsh):
        slope = fgrad.grad(lambda a, f=f: np.sum(f(a)))(a)
        assert not np.triu(slope, 1).any()
    slope = fgrad.grad(lambda a: np.sum(la.triangular_solve(a, np.eye(N))))(a)
    assert not np.triu(slope, 1).any()


def test_equal_eigenvalues() -> None:
    """f = sum of v diag(w) v^T = a has a derivative where eigenvalues coincide."""

    def f(a: Any) -> Any:
        w, v = dc.eigh(a)
        return matmul(scale_columns(v, w), adjoint(v))

    ct = rng_of("equal").standard_normal((3, 3))
    _, pull = fgrad.vjp(f, np.eye(3))
    (slope,) = pull(ct)
    assert np.isfinite(slope).all()
    np.testing.assert_allclose(np.diag(slope), np.diag(ct), atol=1e-12)
    _, pull = fgrad.vjp(lambda a: dc.svd(a)[1].sum(), np.eye(3))
    np.testing.assert_allclose(pull(1.0)[0], np.eye(3), atol=1e-12)


def test_zero_singular_values() -> None:
    """The nuclear norm and pinv of matrices of lower rank have finite derivatives."""
    u = rng_of("rank").standard_normal((4, 1))
    slope = fgrad.grad(lambda u: np.sum(dc.pinv(matmul(u, adjoint(u)), 1e-9)))(u)
    assert np.isfinite(slope).all()
    _, pull = fgrad.vjp(dc.svd, np.zeros((3, 2)))
    (slope,) = pull((np.ones((3, 2)), np.ones(2), np.ones((2, 2))))
    assert np.isfinite(slope).all()


def test_det_of_singular_matrices() -> None:
    a = np.arange(9.0).reshape(3, 3)
    slope = fgrad.grad(dt.det)(a)
    expected = [[-3, 6, -3], [6, -12, 6], [-3, 6, -3]]
    np.testing.assert_allclose(slope, expected, atol=1e-12)
    np.testing.assert_allclose(fgrad.grad(dt.det)(np.zeros((3, 3))), 0)
    np.testing.assert_allclose(fgrad.grad(dt.det)(np.zeros((1, 1))), 1)


@pytest.mark.parametrize("n", [1, 2, 5, 20])
@pytest.mark.parametrize("kind", ["regular", "singular", "nearly", "zero", "complex"])
def test_compiled_slopes_of_det(n: int, kind: str) -> None:
    """By factors of regular matrices, by singular values of others, also among those of a stack."""
    a = rng_of(f"{n} {kind}").standard_normal((n, n))
    lower = a.copy()
    lower[-1] = 2 * lower[0] if n > 1 else 0
    a = {"regular": a, "singular": lower, "nearly": lower + 1e-9 * a, "zero": 0 * a,
         "complex": a + 1j * a.T}[kind]  # fmt: skip
    slope = fgrad.grad(lambda a: np.real(dt.det(a)))
    wanted = slope(a)
    np.testing.assert_allclose(fgrad.jit(slope)(a), wanted, rtol=1e-6, atol=1e-12)
    stack = np.stack([a, np.eye(n) + a])
    found = fgrad.jit(fgrad.vmap(slope))(stack)
    np.testing.assert_allclose(found[0], wanted, rtol=1e-6, atol=1e-12)


def test_singular_systems_raise() -> None:
    singular, b = np.ones((2, 2)), np.ones((2, 1))
    for f in (la.solve, la.triangular_solve):
        a = singular * 0 if f is la.triangular_solve else singular
        with pytest.raises(np.linalg.LinAlgError, match="Singular"):
            f(a, b)
        compiled = fgrad.jit(f)
        with pytest.raises(np.linalg.LinAlgError, match="Singular"):
            compiled(a, b)
        np.testing.assert_allclose(compiled(np.eye(2), b), b)
    with pytest.raises(np.linalg.LinAlgError, match="positive definite"):
        fgrad.jit(la.cholesky)(-np.eye(2))
    sign, logs = dt.slogdet(singular)
    assert sign == 0 and logs == -np.inf


def test_solve_keeps_its_factors() -> None:
    """One factorisation serves the value and the derivatives."""
    program = fgrad.make_program(fgrad.grad(lambda a, b: np.sum(la.solve(a, b))))(
        np.eye(3), np.ones((3, 1))
    )
    names = [eqn.prim.name for eqn in program.eqns]
    assert names.count("factor") == 1 and names.count("lu_solve") == 2


def test_type_errors() -> None:
    square, right = aval_of(np.eye(3)), aval_of(np.ones((3, 2)))
    with pytest.raises(ShapeError, match="square"):
        la.cholesky_p.type_of(right)
    with pytest.raises(DtypeError, match="float16"):
        dt.det_p.type_of(Aval((2, 2), np.dtype("e")))
    with pytest.raises(ShapeError, match="fit"):
        la.triangular_solve_p.type_of(
            square, aval_of(np.ones((2, 2))), lower=True, trans=False, unit=False
        )
    with pytest.raises(ShapeError, match="matrix"):
        dc.qr_p.type_of(aval_of(np.ones(3)), complete=False)


def test_helpers() -> None:
    a = np.arange(6.0).reshape(2, 3)
    np.testing.assert_array_equal(diagonal(a), [0, 4])
    np.testing.assert_array_equal(lower_triangle(a, 1), np.tril(a, 1))
    packed, pivots, order = la.lu(a.T)
    np.testing.assert_array_equal(la.permute_rows(a.T, order), a.T[order])
    assert pivots.dtype == np.int32 and packed.shape == (3, 2)
