"""Linear systems by products: SciPy's codes, solutions to the tolerance, derivatives."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.sparse
import scipy.sparse.linalg as plain

import fgrad
import fgrad.scipy.sparse.linalg as ours

N = 12
RNG = np.random.default_rng(5)
RIGHT = RNG.normal(size=N) + 1j * RNG.normal(size=N)
ANY = RNG.normal(size=(N, N)) + 1j * RNG.normal(size=(N, N))


def _system(name: str, complex_numbers: bool) -> tuple[np.ndarray, np.ndarray]:
    base = ANY if complex_numbers else ANY.real
    a = base @ base.conj().T + N * np.eye(N) if name == "cg" else base + 10 * np.eye(N)
    return a, RIGHT if complex_numbers else RIGHT.real


KINDS: dict[str, Callable[..., Any]] = {
    "traced": lambda f, a, b, s: fgrad.jit(lambda a, b: f(a, b, **s))(a, b),
    "function": lambda f, a, b, s: f(lambda x: a @ x, b, **s),
    "sparse": lambda f, a, b, s: fgrad.jit(lambda b: f(scipy.sparse.csr_array(a), b, **s))(b),
}
SETTINGS: list[dict[str, Any]] = [{}, {"rtol": 1e-10}, {"x0": RIGHT.real}, {"atol": 1.0}]
NAMES = ("cg", "bicgstab", "gmres")


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name, wide", [*itertools.product(NAMES, (False, True))])
def test_solutions(name: str, wide: bool, kind: str, settings: dict[str, Any]) -> None:
    a, b = _system(name, wide)
    x, info = KINDS[kind](getattr(ours, name), a, b, settings)
    limit = max(settings.get("rtol", 1e-5) * np.linalg.norm(b), settings.get("atol", 0.0))
    assert info == 0 and np.linalg.norm(a @ x - b) <= 1.001 * limit
    guarded = KINDS[kind](getattr(ours, name), a, b, {**settings, "M": np.diag(1 / np.diag(a))})
    assert guarded[1] == 0 and np.linalg.norm(a @ guarded[0] - b) <= 1.001 * limit


@pytest.mark.parametrize("name", ["cg", "bicgstab"])
def test_too_few_iterations_are_told(name: str) -> None:
    a, b = _system(name, False)
    found = KINDS["traced"](getattr(ours, name), a, b, {"maxiter": 2})
    wanted = getattr(plain, name)(a, b, maxiter=2)
    np.testing.assert_allclose(found[0], wanted[0], rtol=1e-9)
    assert found[1] == wanted[1] == 2


@pytest.mark.parametrize("name, wide", [*itertools.product(NAMES, (False, True))])
def test_derivatives(name: str, wide: bool) -> None:
    a, b = _system(name, wide)

    def loss(solve: Callable[..., Any]) -> Callable[..., Any]:
        return lambda a, b: np.sum(np.abs(solve(a, b)) ** 2 * np.arange(N))

    by_products = loss(lambda a, b: getattr(ours, name)(a, b, rtol=1e-12)[0])
    wanted = fgrad.grad(loss(np.linalg.solve), argnums=(0, 1))(a, b)
    for way in (lambda f: f, fgrad.jit):
        found = way(fgrad.grad(by_products, argnums=(0, 1)))(a, b)
        for x, y in zip(found, wanted, strict=True):
            np.testing.assert_allclose(x, y, rtol=1e-6, atol=1e-8)
    many = np.stack([b, 2 * b, 0 * b])
    found = fgrad.vmap(lambda b: getattr(ours, name)(a, b, rtol=1e-10)[0])(many)
    np.testing.assert_allclose(found, np.linalg.solve(a, many.T).T, rtol=1e-7, atol=1e-12)


def test_unknowns_may_be_a_tree() -> None:
    right = {"a": np.ones(3), "b": (np.ones((2, 2)),)}
    x, info = ours.cg(lambda t: {"a": t["a"] * 2, "b": (t["b"][0] * 4,)}, right)
    assert info == 0 and x["b"][0].shape == (2, 2)
    np.testing.assert_allclose(x["a"], 0.5)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    "arguments",
    [
        {"A": ANY[:3]}, {"b": np.ones((3, 4))}, {"x0": np.ones(3)}, {"rtol": -1.0},
        {"maxiter": -1}, {"callback": print}, {"M": ANY[:3]},
    ],
    ids=lambda d: next(iter(d)),
)  # fmt: skip
def test_refused(name: str, arguments: dict[str, Any]) -> None:
    given = {"A": np.eye(N), "b": np.ones(N), **arguments}
    matrix, right = given.pop("A"), given.pop("b")
    with pytest.raises((ValueError, TypeError)):
        fgrad.jit(lambda b: getattr(ours, name)(matrix, b, **given))(right)


@pytest.mark.parametrize("name", NAMES)
def test_operators_of_scipys_are_right_or_refused(name: str) -> None:
    """Since SciPy 1.18 theirs hand on what they are given."""
    a, b = _system(name, False)
    operator = plain.aslinearoperator(a)
    try:
        found = fgrad.jit(lambda b: getattr(ours, name)(operator, b, rtol=1e-10)[0])(b)
    except (ValueError, TypeError):
        return
    np.testing.assert_allclose(found, np.linalg.solve(a, b), rtol=1e-7)
