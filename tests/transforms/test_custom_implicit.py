"""Implicit functions: roots and solutions, whose derivatives do not go through the solver."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.optimize

import fgrad
from fgrad.errors import CustomRuleError, MissingRuleError

A = np.array([[3.0, 1.0, 0.5], [0.2, 2.0, -0.3], [0.1, 0.4, 4.0]])
B = np.array([1.0, -2.0, 0.5])


def by_jacobian(matvec: Callable[[Any], Any], b: Any) -> Any:
    """A dense solver."""
    return np.linalg.solve(fgrad.jacfwd(matvec)(np.zeros_like(b)), b)


def by_steps(matvec: Callable[[Any], Any], b: Any) -> Any:
    """Richardson's iteration, as a loop that compiled code can run."""

    def step(state: Any) -> Any:
        x, k = state
        return x + 0.25 * (b - matvec(x)), k + 1

    return fgrad.lax.while_loop(lambda s: s[1] < 200, step, (0.0 * b, 0))[0]


def solution(solver: Any) -> Callable[[Any, Any], Any]:
    """x of A x = b, with a scale that the solver reads."""

    def x(a: Any, b: Any) -> Any:
        return fgrad.custom_linear_solve(lambda v: a @ v, b, solver, solver)

    return x


SOLVERS = pytest.mark.parametrize("solver", [by_jacobian, by_steps])


def ways(f: Callable[[Any, Any], Any]) -> dict[str, Callable[[Any, Any], Any]]:
    """A scalar function's gradients in many ways."""

    def total(a: Any, b: Any) -> Any:
        return np.sum(np.sin(f(a, b)))

    both = (0, 1)
    return {
        "grad": fgrad.grad(total, both),
        "jit of grad": fgrad.jit(fgrad.grad(total, both)),
        "grad of jit": fgrad.grad(fgrad.jit(total), both),
        "jacfwd": fgrad.jacfwd(total, both),
        "vmap of grad": lambda a, b: [
            g[0]
            for g in fgrad.vmap(fgrad.grad(total, both))(np.stack([a, 2 * a]), np.stack([b, b]))
        ],
        "grad of vmap": lambda a, b: fgrad.grad(
            lambda a, b: np.sum(np.sin(fgrad.vmap(f, in_axes=(None, 0))(a, b[None]))), both
        )(a, b),
        "grad of grad": lambda a, b: fgrad.grad(
            lambda a, b: np.sum(fgrad.grad(total)(a, b) * A), both
        )(a, b),
    }


@SOLVERS
@pytest.mark.parametrize("way", list(ways(np.matmul)))
def test_linear_solve(solver: Any, way: str) -> None:
    found = ways(solution(solver))[way](A, B)
    expected = ways(lambda a, b: np.linalg.solve(a, b))[way](A, B)
    for x, y in zip(found, expected, strict=True):
        assert np.allclose(x, y, rtol=1e-8, atol=1e-10)


def test_symmetric_and_trees() -> None:
    s = A + A.T

    def solve(matvec: Any, b: Any) -> Any:
        assert set(b) == {"x", "y"}
        return {"x": by_jacobian(lambda v: matvec({"x": v, "y": b["y"]})["x"], b["x"]), "y": b["y"]}

    def total(b: Any) -> Any:
        x = fgrad.custom_linear_solve(
            lambda v: {"x": s @ v["x"], "y": v["y"]}, b, solve, symmetric=True
        )
        return np.sum(x["x"]) + np.sum(x["y"])

    found = fgrad.grad(total)({"x": B, "y": B[:2]})
    assert np.allclose(found["x"], np.linalg.solve(s, np.ones(3)))
    assert np.array_equal(found["y"], [1.0, 1.0])


def test_auxiliary_results() -> None:
    def solve(matvec: Any, b: Any) -> Any:
        return by_jacobian(matvec, b), {"steps": np.int64(3)}

    def f(b: Any) -> Any:
        x, aux = fgrad.custom_linear_solve(lambda v: A @ v, b, solve, solve, has_aux=True)
        return np.sum(x), aux

    gradient, aux = fgrad.grad(f, has_aux=True)(B)
    assert np.allclose(gradient, np.linalg.solve(A.T, np.ones(3))) and aux == {"steps": 3}


def square_root(p: Any) -> Any:
    """By Newton's method, until it stops moving: a Python loop."""

    def newton(f: Any, x: Any) -> Any:
        for _ in range(100):
            step = f(x) / fgrad.grad(f)(x)
            x = x - step
            if abs(step) < 1e-14:
                return x
        raise ArithmeticError("no root")

    return fgrad.custom_root(lambda x: x * x - p, 1.0, newton, lambda g, y: y / g(1.0))


def test_root_by_a_python_loop() -> None:
    assert np.isclose(square_root(2.0), np.sqrt(2.0))
    assert np.isclose(fgrad.grad(square_root)(2.0), 0.5 / np.sqrt(2.0))
    assert np.isclose(fgrad.jvp(square_root, (2.0,), (1.0,))[1], 0.5 / np.sqrt(2.0))
    assert np.isclose(fgrad.grad(fgrad.grad(square_root))(2.0), -0.25 * 2.0**-1.5)


def equilibrium(w: Any, x: Any) -> Any:
    """An implicit layer: the z with z = tanh(w z + x)."""

    def solve(f: Any, z: Any) -> Any:
        def step(state: Any) -> Any:
            return state[0] - f(state[0]), state[1] + 1

        return fgrad.lax.while_loop(lambda s: s[1] < 80, step, (z, 0))[0]

    f = lambda z: z - np.tanh(w @ z + x)  # noqa: E731
    return fgrad.custom_root(f, np.zeros_like(x), solve, by_jacobian)


def test_implicit_layer(rng: np.random.Generator) -> None:
    w, x = 0.2 * rng.normal(size=(3, 3)), rng.normal(size=3)

    def unrolled(w: Any, x: Any) -> Any:
        z = np.zeros(3)
        for _ in range(80):
            z = np.tanh(w @ z + x)
        return z

    for name in ("grad", "jit of grad", "grad of jit", "jacfwd"):
        found, expected = ways(equilibrium)[name](w, x), ways(unrolled)[name](w, x)
        assert np.allclose(found[0], expected[0], rtol=1e-8)
        assert np.allclose(found[1], expected[1], rtol=1e-8)
    batched = fgrad.vmap(fgrad.grad(lambda x: np.sum(equilibrium(w, x))))(np.stack([x, 2 * x]))
    assert np.allclose(batched[0], fgrad.grad(lambda x: np.sum(unrolled(w, x)))(x), rtol=1e-8)


def test_root_by_scipy() -> None:
    def solve(f: Any, x: Any) -> Any:
        return scipy.optimize.brentq(lambda v: float(f(v)), 0.0, 10.0, xtol=1e-14)

    def root(p: Any) -> Any:
        return fgrad.custom_root(lambda x: x**3 - p, 1.0, solve, lambda g, y: y / g(1.0))

    assert np.isclose(fgrad.grad(root)(8.0), 1.0 / 12.0)


def test_roots_with_auxiliary_results() -> None:
    def root(p: Any) -> Any:
        solve = lambda f, x: (np.sqrt(f(x * 0.0) * -1.0), np.int64(1))  # noqa: E731
        x, aux = fgrad.custom_root(
            lambda x: x * x - p, 1.0, solve, lambda g, y: y / g(1.0), has_aux=True
        )
        return x, aux

    assert fgrad.grad(root, has_aux=True)(4.0) == (0.25, 1)


def test_closure_convert() -> None:
    def f(c: Any, d: Any) -> Any:
        converted, consts = fgrad.closure_convert(lambda x: {"y": c * x + np.sum(d)}, 1.0)
        return converted(2.0, *consts)["y"]

    assert fgrad.grad(f, argnums=(0,))(3.0, B) == (2.0,)
    assert np.array_equal(fgrad.jit(fgrad.grad(f, argnums=1))(3.0, B), np.ones(3))


def test_linear_transpose(rng: np.random.Generator) -> None:
    def f(x: Any, y: Any) -> Any:
        return {"a": A @ x + 2.0 * y[:3], "b": np.flip(np.cumsum(y))}

    x, y = rng.normal(size=3), rng.normal(size=5)
    transpose = fgrad.linear_transpose(f, x, y)
    ct = {"a": rng.normal(size=3), "b": rng.normal(size=5)}
    tx, ty = transpose(ct)
    out = f(x, y)
    assert np.isclose(np.dot(tx, x) + np.dot(ty, y), sum(np.dot(out[k], ct[k]) for k in ct))
    assert np.allclose(fgrad.jit(transpose)(ct)[0], tx)
    with pytest.raises(MissingRuleError, match=r"f is not linear.*: sin at test_custom_implicit"):

        def f(x: Any) -> Any:
            return np.sin(x)

        fgrad.linear_transpose(f, 1.0)(1.0)


def test_cards() -> None:
    with pytest.raises(MissingRuleError, match="reverse without transpose_solve"):
        fgrad.grad(lambda b: np.sum(fgrad.custom_linear_solve(lambda v: A @ v, b, by_jacobian)))(B)
    with pytest.raises(
        CustomRuleError, match=r"matvec must return something like b(.|\n)*f64\[2\]"
    ):
        fgrad.custom_linear_solve(lambda v: v[:2], B, by_jacobian)
    with pytest.raises(CustomRuleError, match=r"solve must return something like b"):
        fgrad.custom_linear_solve(lambda v: A @ v, B, lambda mv, b: b[:2])
    with pytest.raises(CustomRuleError, match=r"is not linear"):
        fgrad.custom_linear_solve(lambda v: np.tanh(v), B, by_jacobian, by_jacobian)
