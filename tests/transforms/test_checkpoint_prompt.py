"""Checkpoints at the prompt: Python runs the function once, and its values are computed again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fgrad
from fgrad.errors import ArgumentWriteError, LostDerivativeError
from fgrad.transforms.checkpoint.body import Body

X = np.linspace(0.3, 1.2, 5)
Wrap = Callable[[Callable[..., Any]], Callable[..., Any]]

twice = fgrad.jit(lambda x: np.sin(x) * x)


@fgrad.custom_vjp
def sevenfold(x: Any) -> Any:
    """A sine whose pullback is seven times too large."""
    return np.sin(x)


sevenfold.defvjp(lambda x: (np.sin(x), x), lambda r, ct: (7 * ct * np.cos(r),))


@fgrad.custom_jvp
def fivefold(x: Any) -> Any:
    """A sine whose tangent is five times too large."""
    return np.sin(x)


fivefold.defjvp(lambda p, t: (np.sin(p[0]), 5 * np.cos(p[0]) * t[0]))


def same(f: Callable[..., Any]) -> Callable[..., Any]:
    """No checkpoint."""
    return f


def late_cells(w: Wrap, x: Any) -> Any:
    for t in range(1, 4):
        x = w(lambda x: x * t + np.sin(x))(x)  # noqa: B023 - read when it runs, not later
    return x


def a_changing_buffer(w: Wrap, x: Any) -> Any:
    small, large = np.zeros(5), np.zeros((2000, 5))
    for t in range(3):
        small[:] = t + 1.0
        x = w(lambda x: np.sin(x) * small + large[0])(x)
    return x


def random_draws(w: Wrap, x: Any) -> Any:
    rng = np.random.default_rng(0)
    for _ in range(3):
        x = w(lambda x: np.sin(x) * rng.normal(size=5))(x)
    return x


def writes_of_its_own(w: Wrap, x: Any) -> Any:
    def body(y: Any) -> Any:
        z = y.copy()
        z[1:] *= 2
        z[0] = np.sum(y)
        return z * y

    return w(body)(np.sin(x))


def a_written_result(w: Wrap, x: Any) -> Any:
    def body(y: Any) -> Any:
        y[1] = 3.0
        return y

    return np.sin(w(body)(np.sin(x)))


def passed_and_constant_results(w: Wrap, x: Any) -> Any:
    a, b, c, d = w(lambda y, z: (y, z, 3.0, np.sin(y)))(x, np.ones(5))
    return a * b + c * d


def closures_of_two_levels(w: Wrap, x: Any) -> Any:
    inner = lambda z: w(lambda y: np.sin(y) * x * z)(np.cos(z)) * x  # noqa: E731
    return w(inner)(x * 2)


def selected_zeros(w: Wrap, x: Any) -> Any:
    return w(lambda y: np.where(y > 0.5, y * np.log(np.abs(y - 0.4)), 0.0))(x)


PROGRAMS: dict[str, Callable[[Wrap, Any], Any]] = {
    "late cells": late_cells,
    "a changing buffer": a_changing_buffer,
    "random draws": random_draws,
    "a branch": lambda w, x: w(lambda x: np.sin(x) * x if x[0] > 0 else x)(x),
    "writes of its own": writes_of_its_own,
    "a written result": a_written_result,
    "passed and constant results": passed_and_constant_results,
    "one in another": lambda w, x: w(lambda x: w(lambda y: np.sin(y) * y)(x) * x)(x),
    "closures of two levels": closures_of_two_levels,
    "no argument": lambda w, x: w(lambda: np.sin(x))(),
    "jit": lambda w, x: w(lambda y: twice(y) * np.cos(y))(x),
    "scan": lambda w, x: (
        x * w(lambda y: fgrad.lax.scan(lambda c, v: (np.sin(c) * v, c), 1.0, y)[0])(x)
    ),
    "while": lambda w, x: w(
        lambda y: fgrad.lax.while_loop(lambda c: np.sum(c) < 50, lambda c: c * 1.5 + np.sin(c), y)
    )(x),
    "cond": lambda w, x: w(lambda y: fgrad.lax.cond(np.sum(y) > 0, np.sin, lambda v: v * 2, y))(x),
    "custom rules": lambda w, x: w(lambda y: sevenfold(y * x) * fivefold(y))(x),
    "a gradient": lambda w, x: w(lambda y: fgrad.grad(lambda z: np.sum(np.sin(z * y)))(x) * y)(x),
    "vmap around": lambda w, x: fgrad.vmap(lambda t: w(lambda u: np.sin(u) * t * x)(t))(x)[1],
    "jit around": lambda w, x: fgrad.jit(lambda t: w(lambda u: np.sin(u) * t * x)(t))(x),
    "grad around": lambda w, x: fgrad.grad(lambda b: np.sum(w(lambda y: np.sin(y) * x)(b)))(x * 2),
    "selected zeros": selected_zeros,
    "a constant read out": lambda w, x: w(lambda y: y * float(fgrad.stop_gradient(y[0])))(x),
    "complex": lambda w, x: np.abs(w(lambda z: z * z + 1)(np.exp(1j * x))),
    "keywords and trees": lambda w, x: w(lambda p, *, k: {"a": p["u"] ** k})({"u": x}, k=3)["a"],
    "unused": lambda w, x: w(lambda y: (np.sin(y), np.exp(y)))(x)[0],
    "linear": lambda w, x: w(lambda y: np.roll(y, 1) + 1.0)(x),
    "discrete": lambda w, x: w(lambda y: y[np.argsort(-y)] * np.floor(y * 3))(x),
}


def close(a: Any, b: Any) -> None:
    for p, q in zip(fgrad.tree.leaves(a), fgrad.tree.leaves(b), strict=True):
        np.testing.assert_allclose(p, q, rtol=1e-10, atol=1e-12)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("name", list(PROGRAMS))
def test_all_derivatives_are_those_without(name: str) -> None:
    def with_it(x: Any) -> Any:
        return PROGRAMS[name](fgrad.checkpoint, x)

    def without(x: Any) -> Any:
        return PROGRAMS[name](same, x)

    close(with_it(X), without(X))
    v = np.cos(np.arange(5.0))
    close(fgrad.grad(lambda x: np.sum(with_it(x) * v))(X), fgrad.vjp(without, X)[1](v)[0])
    _, pull = fgrad.vjp(with_it, X)
    expected = fgrad.vjp(without, X)[1](v)
    close(pull(v), expected)
    close(pull(v), expected)
    close(fgrad.jit(pull)(v), expected)
    close(fgrad.jacrev(with_it)(X), fgrad.jacrev(without)(X))


def test_second_derivatives() -> None:
    def f(w: Wrap) -> Callable[[Any], Any]:
        return lambda x: np.sum(late_cells(w, x))

    for way in (fgrad.hessian, lambda f: fgrad.jacrev(fgrad.grad(f))):
        close(way(f(fgrad.checkpoint))(X), way(f(same))(X))


def test_derivatives_by_some_arguments() -> None:
    def f(w: Wrap) -> Callable[..., Any]:
        places = np.array([0, 1, 2, 2, 1])
        return lambda a, b: np.sum(w(lambda p, q, i: np.sin(p) * q[i] * twice(q))(a, b, places))

    for argnums in (0, 1, (0, 1)):
        found = fgrad.grad(f(fgrad.checkpoint), argnums)(X, X + 1)
        close(found, fgrad.grad(f(same), argnums)(X, X + 1))


def test_constants_stay_what_they_were() -> None:
    w = np.random.default_rng(0).normal(size=(50, 50))
    x = np.ones((4, 50))
    _, pull = fgrad.vjp(lambda x: np.sum(fgrad.checkpoint(lambda x: np.tanh(x @ w))(x)), x)
    before = pull(1.0)
    w[:] = 0
    close(pull(1.0), before)


def test_refusals_and_errors_come_from_the_forward_pass() -> None:
    def writes(y: Any) -> Any:
        y[1] = 3.0
        return y * y

    with pytest.raises(ArgumentWriteError):
        fgrad.grad(lambda x: np.sum(fgrad.checkpoint(writes)(np.sin(x))))(X)
    with pytest.raises(LostDerivativeError):
        fgrad.vjp(fgrad.checkpoint(lambda y: y * y[0].item()), X)
    with pytest.raises(ZeroDivisionError):
        fgrad.vjp(fgrad.checkpoint(lambda y: y * (1 // 0)), X)
    close(fgrad.grad(lambda x: np.sum(x**2))(X), 2 * X)


def test_python_runs_once_and_no_program_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    def closed(_: Any) -> Any:
        raise AssertionError("a program was made")

    monkeypatch.setattr(Body, "closed", closed)
    calls: list[int] = []

    def f(x: Any) -> Any:
        calls.append(1)
        return np.sin(x) * x

    found = fgrad.grad(lambda x: np.sum(fgrad.checkpoint(f)(x)))(X)
    close(found, fgrad.grad(lambda x: np.sum(np.sin(x) * x))(X))
    assert len(calls) == 1


def test_what_no_derivative_reads_is_not_computed_again() -> None:
    def f(y: Any) -> Any:
        return np.exp(np.tanh(y * 2.0) + 1.0) + np.sum(y)

    body = _body_of(f)
    assert [step.prim.name for step in body.steps if step.computed] == ["mul", "tanh", "add", "exp"]


def _body_of(f: Callable[[Any], Any]) -> Body:
    made: list[Body] = []
    init = Body.__init__

    def note(self: Body, *args: Any) -> None:
        init(self, *args)
        made.append(self)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Body, "__init__", note)
        fgrad.vjp(fgrad.checkpoint(f), X)
    return made[0]
