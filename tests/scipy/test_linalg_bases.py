"""Functions of scipy.linalg whose results are bases or factors: SciPy's values, derivatives against
differences where a result does not depend on signs and phases, under jit and vmap."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.linalg as plain

import fgrad
import fgrad.scipy.linalg as sla
from fgrad.errors import MissingRuleError, UnsupportedNumpyError

RNG = np.random.default_rng(5)
A, B = RNG.normal(size=(4, 4)), RNG.normal(size=(4, 4))
Z = A + 1j * B
TALL, WIDE = RNG.normal(size=(5, 3)), RNG.normal(size=(2, 5))
LOW = np.outer(A[0], B[0]) + np.outer(A[1], B[1])  # of rank 2
FULL, ECONOMIC = plain.qr(TALL), plain.qr(TALL, mode="economic")
SQUARE, ROW, ROWS = plain.qr(A), RNG.normal(size=4), RNG.normal(size=(2, 4))
SCALED = A * np.array([1.0, 9.0, 0.1, 2.0]) * np.array([[1.0], [0.1], [12.0], [1.0]])


def _space(q: Any) -> Any:
    """What does not depend on the basis of a space."""
    return q @ np.conj(q).T


def _unique(factors: Any) -> Any:
    """All of q and r but a basis of the complement of the columns."""
    return factors[0][:, : factors[1].shape[1]], factors[1]


def _sizes(found: Any) -> list[Any]:
    return [found[0], *[np.abs(x) for x in found[1:]]]


# name: the function of its argument by a module, the argument, what is compared of the result
Row = tuple[Callable[[Any, Any], Any], np.ndarray, Callable[[Any], Any]]
SAME: Callable[[Any], Any] = lambda x: x  # noqa: E731
CASES: dict[str, Row] = {
    "orth": (lambda m, x: m.orth(x), TALL, _space),
    "null_space": (lambda m, x: m.null_space(x), WIDE, _space),
    "null_space of one vector": (lambda m, x: m.null_space(x), RNG.normal(size=(3, 4)), np.abs),
    "eig": (lambda m, x: m.eig(x), A, _sizes),
    "eig left": (lambda m, x: m.eig(x, left=True), A, _sizes),
    "eig left alone": (lambda m, x: m.eig(x, left=True, right=False), A, _sizes),
    "eig alone": (lambda m, x: m.eig(x, right=False), A, SAME),
    "eig of a pencil": (lambda m, x: m.eig(x, B, left=True), A, _sizes),
    "eig by the other matrix": (lambda m, x: m.eig(A, x), B, _sizes),
    "eig of complex numbers": (lambda m, x: m.eig(x, left=True), Z, _sizes),
    "funm": (lambda m, x: m.funm(x, np.sin), A, SAME),
    "funm of complex numbers": (lambda m, x: m.funm(x, np.exp), Z, SAME),
    "expm_cond": (lambda m, x: m.expm_cond(x), A, SAME),
    "matrix_balance": (lambda m, x: m.matrix_balance(x), SCALED, SAME),
    "matrix_balance separate": (lambda m, x: m.matrix_balance(x, separate=True)[0], SCALED, SAME),
    "matrix_balance unscaled": (lambda m, x: m.matrix_balance(x, scale=False), SCALED, SAME),
    "fiedler_companion": (lambda m, x: m.fiedler_companion(x), RNG.normal(size=7), SAME),
    "fiedler_companion even": (lambda m, x: m.fiedler_companion(x), RNG.normal(size=6), SAME),
    "fiedler_companion of two": (lambda m, x: m.fiedler_companion(x), ROW[:2], SAME),
    "qr_delete": (lambda m, x: m.qr_delete(SQUARE[0], np.triu(x), 1), SQUARE[1], SAME),
    "qr_delete rows": (lambda m, x: m.qr_delete(SQUARE[0], np.triu(x), 1, 2), SQUARE[1], SAME),
    "qr_delete column": (lambda m, x: m.qr_delete(FULL[0], np.triu(x), 2, 1, "col"), FULL[1], SAME),
    "qr_delete economic": (lambda m, x: m.qr_delete(ECONOMIC[0], np.triu(x), 2), ECONOMIC[1], SAME),
    "qr_insert": (lambda m, x: m.qr_insert(*SQUARE, x, 2), ROW, SAME),
    "qr_insert rows": (lambda m, x: m.qr_insert(*SQUARE, x, -1), ROWS, _unique),
    "qr_insert column": (lambda m, x: m.qr_insert(*FULL, x, 1, which="col"), TALL[:, 0] ** 2, SAME),
    "qr_insert economic": (lambda m, x: m.qr_insert(*ECONOMIC, x, 5), ROW[:3], SAME),
    "qr_update": (lambda m, x: m.qr_update(*SQUARE, x, ROW), ROWS[0], SAME),
    "qr_update of rank 2": (lambda m, x: m.qr_update(*ECONOMIC, TALL[:, :2] ** 2, x),
                            RNG.normal(size=(3, 2)), SAME),
}  # fmt: skip
NEED_VALUES = ("orth", "null_space", "null_space of one vector")  # not under jit and vmap


def _parts(x: Any) -> list[Any]:
    return [p for y in x for p in _parts(y)] if isinstance(x, (tuple, list)) else [x]


def _same(found: Any, wanted: Any) -> None:
    for x, y in zip(_parts(found), _parts(wanted), strict=True):
        assert np.shape(x) == np.shape(y)
        np.testing.assert_allclose(x, y, rtol=1e-8, atol=1e-9)


def _loss(fun: Callable[..., Any], module: Any, seen: Callable[[Any], Any]) -> Callable[..., Any]:
    def loss(x: Any) -> Any:
        parts = _parts(seen(fun(module, x)))
        return sum([np.sum(np.real(p) * np.cos(np.arange(p.size)).reshape(p.shape)) for p in parts])

    return loss


@pytest.mark.parametrize("name", CASES)
def test_values(name: str) -> None:
    fun, x, seen = CASES[name]
    own = lambda x: seen(fun(sla, x))  # noqa: E731
    wanted = seen(fun(plain, x))
    if name in NEED_VALUES:
        _same(fgrad.vjp(own, x)[0], wanted)
        with pytest.raises(UnsupportedNumpyError, match="depends on values"):
            fgrad.jit(own)(x)
        return
    _same(fgrad.jit(own)(x), wanted)
    many = fgrad.vmap(lambda x: _parts(own(x)))(np.stack([x, 1.25 * x]))
    _same([p[1] for p in many], own(1.25 * x))


@pytest.mark.parametrize("name", CASES)
def test_derivatives(name: str) -> None:
    fun, x, seen = CASES[name]
    loss, way, h = _loss(fun, sla, seen), RNG.normal(size=x.shape).astype(x.dtype), 1e-6
    theirs = _loss(fun, plain, seen)
    expected = (theirs(x + h * way) - theirs(x - h * way)) / (2 * h)
    slope = fgrad.jvp(loss, (x,), (way,))[1]
    back = np.sum(np.real(fgrad.grad(loss)(x) * way))
    assert slope == pytest.approx(back, rel=1e-8, abs=1e-9)
    assert slope == pytest.approx(expected, rel=2e-5, abs=1e-6)


@pytest.mark.parametrize("name", ["orth", "null_space"])
def test_spaces_of_matrices_of_less_rank(name: str) -> None:
    found = fgrad.vjp(lambda x: _space(getattr(sla, name)(x)), LOW)[0]
    np.testing.assert_allclose(found, _space(getattr(plain, name)(LOW)), atol=1e-12)


def test_functions_of_equal_eigenvalues_are_refused() -> None:
    """The derivative of exp at 2 I is exp(2) in every direction, which eigenvectors lose."""
    fun = lambda x: sla.funm(x, np.exp)  # noqa: E731
    with pytest.raises(UnsupportedNumpyError, match="equal"):
        fgrad.jvp(fun, (2 * np.eye(2),), (A[:2, :2],))
    with pytest.raises(Exception, match="equal"):
        fgrad.jit(fun)(2 * np.eye(2))
    assert np.all(np.isnan(fgrad.jit(lambda x: sla.funm(x, np.sqrt))(np.diag([-1.0, 2.0]))))


def test_real_blocks() -> None:
    values, vectors = np.linalg.eig(A)
    fun = lambda m, w, v: m.cdf2rdf(w, v)  # noqa: E731
    found = fgrad.vjp(lambda w, v: fun(sla, w, v), values, vectors)[0]
    _same(found, fun(plain, values, vectors))
    _same(fgrad.vjp(lambda w: sla.cdf2rdf(w, vectors[None])[0], values[None])[0],
          plain.cdf2rdf(values[None], vectors[None])[0])  # fmt: skip
    with pytest.raises(UnsupportedNumpyError, match="depends on values"):
        fgrad.jit(sla.cdf2rdf)(values, vectors)
    with pytest.raises(ValueError, match="pairs"):
        fgrad.vjp(lambda w: sla.cdf2rdf(w, vectors), values * np.array([1, 1, 1, 1j]))


UNITARY = plain.qr(Z)[0]
HOST: dict[str, tuple[Callable[..., Any], tuple[np.ndarray, ...]]] = {
    "qz": (lambda m, a, b: m.qz(a, b), (A, B)),
    "qz complex": (lambda m, a, b: m.qz(a, b, "complex"), (A, B)),
    "ordqz": (lambda m, a, b: m.ordqz(a, b, "ouc", "complex"), (A, B)),
    "ordqz by a function": (lambda m, a, b: m.ordqz(a, b, lambda x, y: abs(x) < abs(y)), (A, B)),
    "rsf2csf": (lambda m, t, z: m.rsf2csf(t, z), plain.schur(A)),
    "cossin": (lambda m, x: m.cossin(x, 2, 1), (UNITARY,)),
    "cossin real": (lambda m, x: m.cossin(x, 2, 2, swap_sign=True), (SQUARE[0],)),
    "cossin separate": (lambda m, x: m.cossin(x, 1, 2, separate=True), (UNITARY,)),
}


@pytest.mark.parametrize("name", HOST)
def test_factors_without_derivative(name: str) -> None:
    fun, args = HOST[name]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        wanted = fun(plain, *args)
    found = fgrad.jit(lambda *xs: fun(sla, *xs))(*args)
    _same(found, wanted)
    for x, y in zip(_parts(found), _parts(wanted), strict=True):
        assert x.dtype == y.dtype
    with pytest.raises(MissingRuleError):
        fgrad.jvp(lambda *xs: fun(sla, *xs), args, args)


@pytest.mark.parametrize("sides", [(0, 0), (1, 1), (2, 1), (0, 3), (3, 0), (1, 2)])
@pytest.mark.parametrize("kind", [float, complex])
def test_banded_systems_are_those_of_the_matrix(sides: tuple[int, int], kind: type) -> None:
    """Values, both modes and second derivatives, by the diagonals and by the right-hand side."""
    lower, upper = sides
    bands = RNG.normal(size=(lower + upper + 1, 7)) * (1 + 0.3j if kind is complex else 1)
    bands[upper] += 4
    right = RNG.normal(size=(7, 2)).astype(kind)
    rows, columns = np.arange(7)[:, None], np.arange(7)
    inside = (upper + rows - columns >= 0) & (upper + rows - columns <= lower + upper)

    def dense(ab: Any, b: Any) -> Any:
        picked = ab[np.where(inside, upper + rows - columns, 0), columns + 0 * rows]
        return np.linalg.solve(np.where(inside, picked, 0.0), b)

    def found(fun: Callable[..., Any]) -> Any:
        def loss(ab: Any, b: Any) -> Any:
            return np.sum(np.abs(fun(ab, b)) ** 2 * np.cos(np.arange(14)).reshape(7, 2))

        def slope(ab: Any) -> Any:
            return np.sum(np.abs(fgrad.grad(loss)(ab, right)) ** 2)

        push = fgrad.jvp(fun, (bands, right), (bands[::-1] * 0.3, right * 0.1))
        return (*push, *fgrad.grad(loss, argnums=(0, 1))(bands, right), fgrad.grad(slope)(bands))

    _same(found(fgrad.jit(lambda ab, b: sla.solve_banded(sides, ab, b))), found(dense))
    with pytest.raises(np.linalg.LinAlgError):
        fgrad.jit(lambda ab: sla.solve_banded(sides, ab, right))(0 * bands)


@pytest.mark.parametrize(
    "call",
    [
        lambda x: sla.eig(x, homogeneous_eigvals=True),
        lambda x: sla.funm(x, np.exp, disp=False),
        lambda x: sla.qr_insert(*SQUARE, x[0], 0, rcond=1e-3),
        lambda x: sla.qz(x, x, sort=lambda a, b: True),
        lambda x: sla.cossin(x, 2, 2, compute_u=False),
        lambda x: sla.cossin((x, x, x, x)),
    ],
)
def test_keywords_without_a_traced_form_are_named(call: Callable[[Any], Any]) -> None:
    with pytest.raises(UnsupportedNumpyError):
        fgrad.jit(call)(A)
