"""Minimisers and fixed points in fgrad's loops: SciPy's minima, derivatives, vmap, bad input."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.optimize

import fgrad
from fgrad import lax, optim, tree
from fgrad.errors import ArgumentError, MissingRuleError, UnsupportedNumpyError

METHODS = ("l-bfgs", "newton-cg", "trust-ncg", "nelder-mead")
WITH_GRADIENTS = METHODS[:3]
RNG = np.random.default_rng(3)
INPUTS = RNG.normal(size=(30, 3))
LABELS = (INPUTS @ np.array([1.0, -2.0, 0.5]) + RNG.normal(size=30) > 0).astype(float)
FAR = 5 * RNG.normal(size=30)


def rosenbrock(x: Any) -> Any:
    return np.sum(100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2)


def logistic(w: Any) -> Any:
    margins = INPUTS @ w
    return np.mean(np.logaddexp(0, margins) - LABELS * margins) + 0.01 * w @ w


def quartic(x: Any) -> Any:
    return np.sum((x - np.arange(3.0)) ** 4 + (x - 1) ** 2)


def squares(x: Any) -> Any:
    return np.sum((INPUTS @ x - FAR) ** 2)


def shifted(x: Any) -> Any:
    """Its least value is large: the tolerance is relative to it."""
    return squares(x) * 1e6 + 1e9


def saddle(x: Any) -> Any:
    return x[0] ** 2 + (x[1] ** 2 - 1) ** 2 + 0.1 * x[1]


PROBLEMS: dict[str, tuple[Callable[[Any], Any], np.ndarray, float]] = {
    "rosenbrock 2": (rosenbrock, np.array([-1.2, 1.0]), 1e-5),
    "rosenbrock 5": (rosenbrock, np.full(5, 0.5), 1e-5),
    "rosenbrock 10": (rosenbrock, np.zeros(10), 1e-5),
    "logistic": (logistic, np.zeros(3), 1e-4),
    "quartic": (quartic, np.full(3, 9.0), 1e-5),
    "squares": (squares, np.ones(3), 1e-5),
    "shifted": (shifted, np.ones(3), 1e-3),
    "saddle": (saddle, np.array([1.0, -0.3]), 1e-5),
    "one number": (lambda x: np.sum(np.cosh(x - 2)), np.array([0.0]), 1e-5),
}


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("name", PROBLEMS)
def test_the_minimum_that_scipy_finds(name: str, method: str) -> None:
    f, x0, atol = PROBLEMS[name]
    wanted = scipy.optimize.minimize(f, x0, jac=fgrad.grad(f), tol=1e-10)
    found = fgrad.jit(lambda x0: optim.minimize(f, x0, method=method))(x0)
    assert found.success
    np.testing.assert_allclose(found.x, wanted.x, atol=atol)
    np.testing.assert_allclose(found.fun, wanted.fun, rtol=1e-6, atol=1e-9)
    assert 0 < found.steps <= 400 * len(x0)
    assert (found.grad_norm is None) == (method == "nelder-mead")


def of_tree(p: Any, a: Any) -> Any:
    return np.sum((p["w"] - a) ** 2) + (p["b"] - np.sum(p["w"])) ** 2 + np.cosh(p["c"][0] - 1)


@pytest.mark.parametrize("method", METHODS)
def test_trees_numbers_and_float32(method: str) -> None:
    start: Any = {"w": np.zeros((2, 1)), "b": 0, "c": [np.float64(3.0)]}
    found = optim.minimize(of_tree, start, (2.0,), method)
    assert tree.structure(found.x) == tree.structure(start)
    np.testing.assert_allclose(found.x["w"], np.full((2, 1), 2.0), atol=1e-4)
    np.testing.assert_allclose([found.x["b"], found.x["c"][0]], [4.0, 1.0], atol=1e-4)
    single = optim.minimize(lambda x: np.sum((x - 3) ** 2), np.zeros(2, np.float32), method=method)
    assert single.x.dtype == single.fun.dtype == np.float32
    assert single.success
    np.testing.assert_allclose(single.x, [3, 3], atol=5e-2)
    number = optim.minimize(lambda x: (x - 3) ** 2, 0.0, method=method.upper())
    assert np.shape(number.x) == () and abs(number.x - 3) < 1e-5


@pytest.mark.parametrize("method", METHODS)
def test_vmap_is_a_loop(method: str) -> None:
    """Examples of easy and hard starts: each ends on its own, with the steps it needs alone."""
    starts = np.array([[1.0, 1.0], [-1.2, 1.0], [0.9, 0.8], [np.nan, 1.0]])
    one = fgrad.jit(lambda x0: optim.minimize(rosenbrock, x0, method=method))
    many = fgrad.jit(fgrad.vmap(one))(starts)
    each = [one(x0) for x0 in starts]
    np.testing.assert_allclose(many.x, [r.x for r in each], atol=1e-5)
    np.testing.assert_array_equal(many.success, [True, True, True, False])
    assert len(set(many.steps.tolist())) > 2
    for got, alone in zip(many.steps, each, strict=True):
        assert abs(int(got) - int(alone.steps)) <= 0.2 * alone.steps + 3


def implicit(x: Any, a: Any) -> Any:
    return np.sum((x - a) ** 4) + np.sum((x - a**2) ** 2) + x[0] * x[1] * a[1] / 4


A = np.array([0.5, 1.5])


@pytest.mark.parametrize("method", METHODS)
def test_derivatives_by_arguments(method: str) -> None:
    tight = 1e-9 if method != "nelder-mead" else 1e-14

    def place(a: Any) -> Any:
        return optim.minimize(implicit, np.ones(2), (a,), method, tol=tight, max_steps=2000).x

    def of_closure(a: Any) -> Any:
        return optim.minimize(lambda x: implicit(x, a), np.ones(2), method=method, tol=tight).x

    run = fgrad.jit(place)
    differences = np.stack(
        [(run(A + 1e-4 * e) - run(A - 1e-4 * e)) / 2e-4 for e in np.eye(2)], axis=1
    )
    for f, jac in itertools.product((place, of_closure), (fgrad.jacfwd, fgrad.jacrev)):
        np.testing.assert_allclose(jac(f)(A), differences, atol=1e-4)
    np.testing.assert_allclose(fgrad.jit(fgrad.jacrev(place))(A), differences, atol=1e-4)
    batch = fgrad.vmap(fgrad.jacrev(place))(np.stack([A, A + 0.1]))
    np.testing.assert_allclose(batch[0], differences, atol=1e-4)


def test_second_derivatives_and_the_envelope() -> None:
    """x = a^3 at the minimum; f is there a."""

    def found(a: Any) -> Any:
        return optim.minimize(lambda x: np.cosh(x - a**3) - 1 + a, 0.0, tol=1e-12)

    assert fgrad.hessian(lambda a: found(a).x)(1.2) == pytest.approx(7.2, rel=1e-6)
    assert fgrad.jit(fgrad.hessian(lambda a: found(a).x))(1.2) == pytest.approx(7.2, rel=1e-6)
    assert fgrad.grad(lambda a: found(a).fun)(1.2) == pytest.approx(1.0)
    assert fgrad.grad(lambda x0: optim.minimize(np.cosh, x0).x)(1.0) == 0


def test_ridge_regression_in_closed_form() -> None:
    def weights(penalty: Any) -> Any:
        return optim.minimize(
            lambda w: squares(w) + penalty * w @ w, np.zeros(3), method="trust-ncg"
        ).x

    gram = INPUTS.T @ INPUTS + 2.0 * np.eye(3)
    w = np.linalg.solve(gram, INPUTS.T @ FAR)
    np.testing.assert_allclose(weights(2.0), w, atol=1e-6)
    np.testing.assert_allclose(fgrad.jacfwd(weights)(2.0), -np.linalg.solve(gram, w), atol=1e-6)


def test_many_unknowns_need_no_matrix() -> None:
    target, n = np.linspace(0, 1, 3000), 3000

    def total(a: Any) -> Any:
        f = lambda x: np.sum((x - a * target) ** 2) + 0.1 * np.sum((x[1:] - x[:-1]) ** 2)  # noqa: E731
        return np.sum(optim.minimize(f, np.zeros(n), tol=1e-8).x)

    value, slope = fgrad.value_and_grad(total)(2.0)
    assert slope == pytest.approx(value / 2, rel=1e-6)

    def level(a: Any) -> Any:
        return np.sum(optim.fixed_point(lambda x: 0.5 * np.tanh(x) + a * target, np.zeros(n)).x)

    ends = [level(1 + h) for h in (1e-4, -1e-4)]
    assert fgrad.grad(level)(1.0) == pytest.approx((ends[0] - ends[1]) / 2e-4, rel=1e-6)


UNSOLVED: dict[str, Callable[[Any], Any]] = {
    **{
        method: lambda a, method=method: optim.minimize(
            lambda x: np.sum((x - 50 * a) ** 4), np.zeros(2), method=method, max_steps=2
        )
        for method in METHODS
    },
    "no minimum": lambda a: optim.minimize(lambda x: np.sum(a * x - 1e-3 * x**2), np.ones(2)),
    "a fixed point": lambda a: optim.fixed_point(
        lambda x: a + 0.99 * np.sin(x), np.zeros(2), memory=0, max_steps=2
    ),
    "no fixed point": lambda a: optim.fixed_point(lambda x: x + a, np.zeros(2), max_steps=9),
}  # fmt: skip


@pytest.mark.parametrize("name", UNSOLVED)
@pytest.mark.filterwarnings("ignore")
def test_no_derivative_of_what_is_no_solution(name: str) -> None:
    f = UNSOLVED[name]
    with np.errstate(all="ignore"):
        found = fgrad.jit(f)(1.0)
        assert not found.success
        for slope in (fgrad.grad, fgrad.jacfwd, lambda g: fgrad.jit(fgrad.grad(g))):
            with pytest.raises(MissingRuleError, match=r"did not find one|not determined"):
                slope(lambda a: f(a).x[0])(1.0)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.filterwarnings("ignore")
def test_nan_ends(method: str) -> None:
    x0 = np.array([np.nan, 1.0])
    for run in (lambda f: f, fgrad.jit):
        found = run(lambda x0: optim.minimize(rosenbrock, x0, method=method))(x0)
        assert not found.success and found.steps == 0 and np.isnan(found.fun)
    walled = lambda x: np.sum(x - np.log(x))  # noqa: E731  NaN below 0, a minimum at 1
    with np.errstate(invalid="ignore"):
        found = optim.minimize(walled, np.array([8.0, 0.1]), method=method)
    assert found.success
    np.testing.assert_allclose(found.x, [1, 1], atol=1e-4)


def test_at_the_minimum_no_step_is_made() -> None:
    for method in WITH_GRADIENTS:
        found = optim.minimize(lambda x: x @ x, np.zeros(2), method=method)
        assert found.success and found.steps == 0
    assert not optim.minimize(rosenbrock, np.zeros(2), max_steps=0).success


ZERO = np.zeros(2)
REFUSED: dict[str, tuple[Callable[[], Any], type[Exception], str]] = {
    "method": (lambda: optim.minimize(rosenbrock, ZERO, method="bfgs"), ArgumentError, "l-bfgs"),
    "complex x0": (lambda: optim.minimize(np.sum, ZERO + 1j), ArgumentError, "complex"),
    "complex f": (
        lambda: optim.minimize(lambda x: x @ x * 1j, ZERO),
        UnsupportedNumpyError,
        "comp",
    ),
    "vector": (lambda: optim.minimize(lambda x: x**2, ZERO), ArgumentError, r"shape \(2,\)"),
    "empty": (lambda: optim.minimize(np.sum, np.zeros(0)), ArgumentError, "no numbers"),
    "tol": (lambda: optim.minimize(rosenbrock, ZERO, tol=-1.0), ArgumentError, "tol=-1"),
    "nan tol": (lambda: optim.minimize(rosenbrock, ZERO, tol=np.nan), ArgumentError, "tol=nan"),
    "steps": (lambda: optim.minimize(rosenbrock, ZERO, max_steps=-1), ArgumentError, "max_steps"),
    "memory": (lambda: optim.fixed_point(np.cos, ZERO, memory=-1), ArgumentError, "memory"),
    "shape": (lambda: optim.fixed_point(np.sum, ZERO), ArgumentError, "something like x0"),
    "tree": (lambda: optim.fixed_point(lambda x: [x], ZERO), ArgumentError, "something like x0"),
    "complex g": (lambda: optim.fixed_point(lambda x: x * 1j, ZERO), ArgumentError, "complex"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_refused(name: str) -> None:
    call, kind, words = REFUSED[name]
    with pytest.raises(kind, match=words):
        call()


# --- fixed points -------------------------------------------------------------------------------

TURN = 0.95 * np.linalg.qr(RNG.normal(size=(20, 20)))[0]
SLOW = np.diag(np.linspace(-0.98, 0.98, 20))


def test_the_cosine_and_trees() -> None:
    assert optim.fixed_point(np.cos, 1.0).x == pytest.approx(0.7390851332151607, abs=1e-10)
    swap = lambda p, c: {"a": np.cos(p["b"]), "b": c * np.sin(p["a"])}  # noqa: E731
    start = {"a": np.zeros(2), "b": np.zeros(2)}
    found = fgrad.jit(lambda c: optim.fixed_point(swap, start, c))(0.5)
    again = swap(found.x, 0.5)
    np.testing.assert_allclose(found.x["a"], again["a"], atol=1e-9)
    np.testing.assert_allclose(found.x["b"], again["b"], atol=1e-9)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("name", ["slow", "turn"])
def test_fewer_steps_than_plain_iteration(name: str, dtype: Any) -> None:
    matrix, b = (SLOW if name == "slow" else TURN).astype(dtype), np.ones(20, dtype)
    wanted = np.linalg.solve(np.eye(20) - matrix, b)
    steps = []
    for memory in (0, 5, 25):
        found = optim.fixed_point(lambda x: matrix @ x + b, 0 * b, memory=memory, max_steps=3000)
        assert found.success and found.x.dtype == dtype
        np.testing.assert_allclose(found.x, wanted, rtol=1e-2 if dtype == np.float32 else 1e-6)
        steps.append(int(found.steps))
    if name == "slow" or dtype == np.float64:
        assert steps[2] < steps[0] / 2
    assert name == "turn" or steps[1] < steps[0] / 2


def layer(x: Any, p: Any) -> Any:
    return np.tanh(p["w"] @ x + p["u"])


def test_the_gradient_of_an_equilibrium_layer() -> None:
    """Against the derivative through many steps of plain iteration."""
    p = {"w": 0.3 * RNG.normal(size=(6, 6)), "u": RNG.normal(size=6)}

    def equilibrium(p: Any) -> Any:
        return np.sum(optim.fixed_point(layer, np.zeros(6), (p,)).x ** 2)

    def unrolled(p: Any) -> Any:
        return np.sum(lax.fori_loop(0, 400, lambda _, x: layer(x, p), np.zeros(6)) ** 2)

    wanted = fgrad.grad(unrolled)(p)
    for slope in (fgrad.grad(equilibrium), fgrad.jit(fgrad.grad(equilibrium))):
        got = slope(p)
        np.testing.assert_allclose(got["w"], wanted["w"], atol=1e-8)
        np.testing.assert_allclose(got["u"], wanted["u"], atol=1e-8)
    many = fgrad.vmap(lambda u: fgrad.grad(equilibrium)({**p, "u": u})["u"])(np.stack([p["u"]] * 2))
    np.testing.assert_allclose(many[1], wanted["u"], atol=1e-8)


def test_second_derivatives_of_a_root() -> None:
    root = lambda p: optim.fixed_point(lambda x, p: (x + p / x) / 2, 1.0, (p,)).x  # noqa: E731
    assert fgrad.hessian(root)(4.0) == pytest.approx(-1 / 32)
    assert fgrad.jacfwd(root)(4.0) == pytest.approx(1 / 4)


def test_vmap_of_fixed_points_is_a_loop() -> None:
    rates = np.array([0.1, 0.5, 0.9])
    one = lambda r: optim.fixed_point(lambda x: r * np.cos(x), np.ones(2), memory=2)  # noqa: E731
    many = fgrad.vmap(one)(rates)
    np.testing.assert_allclose(many.x, [one(r).x for r in rates], atol=1e-9)
    assert len(set(many.steps.tolist())) > 1
