"""Every transform composed with every other, on the functions of `functions.py`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fgrad
from tests.transforms.functions import CASES, Smooth

X = np.array([0.4, -0.3, 0.8])
V = np.array([0.5, -1.0, 0.25])


def by_jvp(f: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """The directional derivative along V."""
    return lambda x: fgrad.jvp(f, (x,), (V,))[1]


def by_grad(f: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """The same by reverse mode."""
    return lambda x: np.sum(fgrad.grad(f)(x) * V)


def by_vjp(f: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """The same by an explicit pullback."""
    return lambda x: np.sum(fgrad.vjp(f, x)[1](1.0)[0] * V)


def by_linearize(f: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """The same by a linearisation."""
    return lambda x: fgrad.linearize(f, x)[1](V)


def by_jacfwd(f: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """The same by a forward Jacobian."""
    return lambda x: np.sum(fgrad.jacfwd(f)(x) * V)


def by_jacrev(f: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """The same by a reverse Jacobian."""
    return lambda x: np.sum(fgrad.jacrev(f)(x) * V)


def by_vmap_grad(f: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """The same from a batch of gradients, of which one is used."""
    return lambda x: np.sum(fgrad.vmap(fgrad.grad(f))(np.stack([x, x + 1.0]))[0] * V)


def by_jit_grad(f: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """The same, compiled."""
    return fgrad.jit(by_grad(f))


def by_grad_jit(f: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """The gradient of the compiled function."""
    return by_grad(fgrad.jit(f))


def by_vmap_jit_grad(f: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """A batch of compiled gradients."""
    compiled = fgrad.jit(fgrad.grad(f))
    return lambda x: np.sum(fgrad.vmap(compiled)(np.stack([x, x + 1.0]))[0] * V)


def by_jit_vmap_grad_jit(f: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """jit of vmap of grad of jit."""
    whole = fgrad.jit(fgrad.vmap(fgrad.grad(fgrad.jit(f))))
    return lambda x: np.sum(whole(np.stack([x, x + 1.0]))[0] * V)


DERIVATIVES = [
    by_jvp,
    by_grad,
    by_vjp,
    by_linearize,
    by_jacfwd,
    by_jacrev,
    by_vmap_grad,
    by_jit_grad,
    by_grad_jit,
    by_vmap_jit_grad,
    by_jit_vmap_grad_jit,
]


def finite_difference(f: Callable[[Any], Any], x: Any, eps: float = 1e-5) -> float:
    """The directional derivative along V, of fourth order in eps."""
    near = f(x + eps * V) - f(x - eps * V)
    far = f(x + 2 * eps * V) - f(x - 2 * eps * V)
    return float((8 * near - far) / (12 * eps))


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.name)
@pytest.mark.parametrize("mode", DERIVATIVES, ids=lambda d: d.__name__)
def test_first_order(case: Smooth, mode: Callable[..., Any]) -> None:
    expected = finite_difference(case.fun, X)
    assert float(mode(case.fun)(X)) == pytest.approx(expected, rel=1e-7, abs=1e-8)


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.name)
@pytest.mark.parametrize("outer", DERIVATIVES, ids=lambda d: d.__name__)
@pytest.mark.parametrize("inner", DERIVATIVES, ids=lambda d: d.__name__)
def test_second_order(case: Smooth, outer: Callable[..., Any], inner: Callable[..., Any]) -> None:
    expected = finite_difference(by_grad(case.fun), X)
    found = float(outer(inner(case.fun))(X))
    assert found == pytest.approx(expected, rel=1e-6, abs=1e-7)


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.name)
@pytest.mark.parametrize("outer", (by_jvp, by_grad, by_jit_grad), ids=lambda d: d.__name__)
def test_third_order(case: Smooth, outer: Callable[..., Any]) -> None:
    second = by_jvp(by_grad(case.fun))
    expected = finite_difference(second, X)
    assert float(outer(second)(X)) == pytest.approx(expected, rel=1e-5, abs=1e-6)


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.name)
@pytest.mark.parametrize(
    "hessian",
    (
        fgrad.hessian,
        lambda f: fgrad.jacfwd(fgrad.jacfwd(f)),
        lambda f: fgrad.jacrev(fgrad.jacrev(f)),
        lambda f: fgrad.jacrev(fgrad.jacfwd(f)),
        lambda f: fgrad.jit(fgrad.hessian(f)),
        lambda f: fgrad.hessian(fgrad.jit(f)),
    ),
    ids=("hessian", "fwdfwd", "revrev", "revfwd", "jit-hessian", "hessian-jit"),
)
def test_hessians_agree(case: Smooth, hessian: Callable[..., Any]) -> None:
    rows = [
        (fgrad.grad(case.fun)(X + h) - fgrad.grad(case.fun)(X - h)) / 2e-5 for h in 1e-5 * np.eye(3)
    ]
    found = hessian(case.fun)(X)
    np.testing.assert_allclose(found, np.stack(rows), rtol=1e-5, atol=1e-7)
    np.testing.assert_allclose(found, found.T, rtol=1e-9, atol=1e-10)


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.name)
@pytest.mark.parametrize("jit", (False, True))
def test_vmap_equals_a_loop(case: Smooth, jit: bool) -> None:
    xs = np.stack([X, -X, 2 * X, X[::-1]])
    mapped = fgrad.vmap(case.fun)
    found = (fgrad.jit(mapped) if jit else mapped)(xs)
    np.testing.assert_allclose(found, [case.fun(x) for x in xs], rtol=1e-12)
    found = fgrad.vmap(fgrad.vmap(case.fun))(xs.reshape(2, 2, 3))
    np.testing.assert_allclose(found.ravel(), [case.fun(x) for x in xs], rtol=1e-12)


def test_perturbation_confusion() -> None:
    """d/dx [x * d/dy (x + y)] = 1: the two derivatives must not see each other's perturbation."""
    for outer in (fgrad.grad, lambda f: lambda x: fgrad.jvp(f, (x,), (1.0,))[1]):
        for inner in (fgrad.grad, lambda f: lambda x: fgrad.jvp(f, (x,), (1.0,))[1]):
            f = lambda x, inner=inner: x * inner(lambda y: x + y)(1.0)  # noqa: E731
            assert outer(f)(1.0) == 1.0
            assert outer(fgrad.jit(f))(1.0) == 1.0


def test_gradient_of_a_mapped_gradient() -> None:
    def loss(w: Any) -> Any:
        per_example = fgrad.vmap(fgrad.grad(lambda v, x: np.sum(np.tanh(v * x))), in_axes=(None, 0))
        return np.sum(per_example(w, np.arange(6.0).reshape(2, 3)) ** 2)

    w = np.array([0.1, 0.2, 0.3])
    expected = [(loss(w + h) - loss(w - h)) / 2e-6 for h in 1e-6 * np.eye(3)]
    np.testing.assert_allclose(fgrad.grad(loss)(w), expected, rtol=1e-7, atol=1e-8)


def test_long_chains_do_not_recurse() -> None:
    def chain(x: Any) -> Any:
        for _ in range(100_000):
            x = x * 0.99999 + 1e-6
        return x

    assert fgrad.grad(chain)(1.0) == pytest.approx(0.99999**100_000, rel=1e-6)


def test_a_jitted_long_chain() -> None:
    def chain(x: Any) -> Any:
        for _ in range(3_000):
            x = np.sin(x) * 1.001
        return x

    assert fgrad.jit(fgrad.grad(chain))(0.5) == pytest.approx(fgrad.grad(chain)(0.5), rel=1e-9)
