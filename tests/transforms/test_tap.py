"""Hooks on gradients, gradients of named intermediates, and why a gradient is zero."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import fgrad
from fgrad.errors import ArgumentError, CustomRuleError

X = np.array([0.5, -2.0, 3.0])


def _clipped(x: Any) -> Any:
    return np.sum(fgrad.tap(x, on_cotangent=lambda ct: np.clip(ct, -1.0, 1.0)) ** 2)


@pytest.mark.parametrize(
    "wrap",
    [
        lambda f: fgrad.grad(f),
        lambda f: fgrad.jit(fgrad.grad(f)),
        lambda f: fgrad.grad(fgrad.jit(f)),
        lambda f: lambda x: fgrad.vjp(f, x)[1](1.0)[0],
        lambda f: lambda x: fgrad.vmap(fgrad.grad(f))(x[None])[0],
        lambda f: lambda x: fgrad.grad(lambda x: np.sum(fgrad.vmap(f)(x)))(x[None])[0],
        lambda f: fgrad.grad(fgrad.checkpoint(f)),
    ],
)
def test_cotangents_are_changed(wrap: Any) -> None:
    np.testing.assert_array_equal(wrap(_clipped)(X), np.clip(2 * X, -1, 1))


def test_forward_mode_passes_by() -> None:
    _, tangent = fgrad.jvp(_clipped, (X,), (X,))
    assert tangent == np.sum(2 * X * X)


def test_hooks_see_values_and_cotangents() -> None:
    seen: dict[str, Any] = {}

    def f(x: Any) -> Any:
        y = fgrad.tap(
            np.sin(x),
            on_value=lambda v: fgrad.debug.callback(lambda v: seen.update(value=v), v),
            on_cotangent=lambda ct: fgrad.debug.callback(lambda v: seen.update(ct=v), ct),
        )
        return np.sum(y * y)

    for transform in (fgrad.grad, lambda f: fgrad.jit(fgrad.grad(f))):
        seen.clear()
        np.testing.assert_allclose(transform(f)(X), np.sin(2 * X))
        np.testing.assert_allclose(seen["value"], np.sin(X))
        np.testing.assert_allclose(seen["ct"], 2 * np.sin(X))


def test_a_hook_that_changes_the_type_is_an_error() -> None:
    with pytest.raises(CustomRuleError, match="on_cotangent"):
        fgrad.grad(lambda x: np.sum(fgrad.tap(x, on_cotangent=lambda ct: ct[:1])))(X)


def _layers(x: Any) -> Any:
    a = fgrad.tag(x * 3.0, "a")
    b = fgrad.tag(a + 1.0, "b")
    return np.sum(b * b) + np.sum(fgrad.tag(a * 2.0, "c"))


@pytest.mark.parametrize("wrap", [lambda f: f, fgrad.jit])
def test_gradients_of_tags(wrap: Any) -> None:
    found = wrap(fgrad.grad_wrt_tags(_layers))(X)
    b = 3 * X + 1
    np.testing.assert_allclose(found["b"], 2 * b)
    np.testing.assert_allclose(found["c"], np.ones(3))
    np.testing.assert_allclose(found["a"], 2 * b + 2)
    assert fgrad.grad_wrt_tags(np.sum)(X) == {}
    with pytest.raises(ArgumentError, match="types"):
        fgrad.grad_wrt_tags(lambda x: fgrad.tag(x, "n")[0] + fgrad.tag(x[0], "n"))(X)


REASONS = {
    "stop_gradient": (lambda x: np.sum(fgrad.stop_gradient(x) * 2.0), "asked for"),
    "floor": (lambda x: np.sum(np.floor(x)), "discrete"),
    "convert": (lambda x: np.sum(x.astype(int)) * 1.0, "int64"),
    "gt": (lambda x: np.sum(np.where(x > 0, 1.0, 2.0)), "discrete"),
    "select": (lambda x: np.sum(np.where(x > 10, x, 2.0)), "branch"),
    "mul": (lambda x: np.sum(x * np.zeros(3)), "operands are"),
    "clip": (lambda x: np.sum(np.clip(x, 10.0, 11.0)), "operands are"),
    "call": (lambda x: fgrad.jit(lambda y: np.sum(np.floor(y)))(x), ""),
}


@pytest.mark.parametrize("name", REASONS)
def test_reasons_of_zero(name: str) -> None:
    f, why = REASONS[name]
    text = str(fgrad.explain_zero(f, X))
    assert text.startswith("argument: zero")
    assert name in text
    assert why in text
    assert not fgrad.grad(f)(X).any()


def test_other_reasons() -> None:
    p = {"used": X, "unused": X, "count": np.array(3)}
    text = str(fgrad.explain_zero(lambda p: np.sum(p["used"] ** 2) * p["count"], p))
    assert "used']: not zero" in text
    assert "does not use it" in text
    assert "int64" in text


@pytest.mark.parametrize(
    "wrap",
    [
        fgrad.grad,
        lambda f: fgrad.jit(fgrad.grad(f)),
        lambda f: fgrad.grad(fgrad.jit(f)),
        lambda f: lambda x, k: fgrad.vmap(fgrad.grad(f), (0, None))(x[None], k)[0],
        lambda f: lambda x, k: fgrad.vmap(fgrad.grad(fgrad.jit(f)))(x[None], k[None])[0],
    ],
)
def test_hooks_close_over_traced_values(wrap: Any) -> None:
    def f(x: Any, k: Any) -> Any:
        y = x * k
        return np.sum(fgrad.tap(y, on_cotangent=lambda ct: ct * k + np.sin(y)) ** 2)

    k = np.array([2.0, 0.5, -1.0])
    expected = (2 * X * k * k + np.sin(X * k)) * k
    for _ in range(2):
        np.testing.assert_allclose(wrap(f)(X, k), expected)


def test_tags_in_functions_that_were_traced_before() -> None:
    @fgrad.jit
    def compiled(x: Any) -> Any:
        return np.sum(fgrad.tag(x * 2.0, "a") ** 2)

    def looped(x: Any) -> Any:
        return fgrad.lax.scan(lambda c, _: (fgrad.tag(c * 2.0, "h"), None), x, None, length=3)[0]

    for _ in range(3):
        assert compiled(X) == np.sum((2 * X) ** 2) and looped(1.0) == 8.0
        for wrap in (lambda f: f, fgrad.jit):
            found = wrap(fgrad.grad_wrt_tags(compiled))(X)
            np.testing.assert_array_equal(found["a"], 4 * X)
            assert wrap(fgrad.grad_wrt_tags(looped))(1.0) == {"h": 7.0}
    assert not fgrad.config.disable_jit


def test_zeros_of_complex_numbers_and_of_compiled_and_custom_functions() -> None:
    explain = fgrad.explain_zero

    @fgrad.custom_vjp
    def square(x: Any) -> Any:
        return x * x

    square.defvjp(lambda x: (x * x, x), lambda x, ct: (2 * x * ct,))
    assert not explain(lambda z: np.imag(z * 1.0), 1.0 + 0j).leaves[""][0]
    assert not explain(square, 2.0).leaves[""][0]
    assert not explain(fgrad.jit(square), 2.0).leaves[""][0]
    text = str(explain(fgrad.jit(lambda x: np.sum(np.floor(x) * x[0] * 0.0)), X))
    assert "floor" in text and "mul" in text
    stopped = explain(lambda x: fgrad.stop_gradient(x) * 2.0, 2.0).leaves[""][1]
    assert "test_tap.py" in stopped[0].where
    with pytest.raises(ArgumentError, match="no argument"):
        explain(lambda: 1.0)
    with pytest.raises(ArgumentError, match="repeat=0"):
        fgrad.profile(np.sin, repeat=0)
