"""The checkers accept what is right and reject what is wrong."""

from __future__ import annotations

import numpy as np
import pytest

import fgrad
from fgrad import testing
from fgrad.errors import ArgumentError
from fgrad.ops import complex as cx
from fgrad.ops import elementwise as ew
from fgrad.ops.reduce import cumsum_p

X = np.array([0.3, -0.7, 1.4])


def wrong_first(x):
    """sin with derivative 0."""
    return ew.stop_gradient(np.sin(x))


def test_right_derivatives():
    testing.check_grads(lambda x, y: np.tanh(x * y) / (1 + y**2), (X, X + 1), order=3)
    testing.check_grads(lambda p: {"s": np.sum(p["a"]) * p["b"]}, ({"a": X, "b": 2.0},))
    testing.check_grads(lambda x: np.exp(x), (X.astype(np.float32),))
    testing.check_jvp(np.sin, (X,))
    testing.check_vjp(np.sin, (X,))
    testing.check_transpose(lambda x: np.sin(x) * np.sum(x), (X,))


def test_complex_arguments():
    z = X + 1j * X[::-1]
    testing.check_grads(lambda z: z * z, (z,))
    testing.check_grads(lambda z: cx.real(cx.conj(z) * z * z), (z,))
    testing.check_transpose(lambda z: cx.conj(z) * 2j, (z,))


def test_integers_are_constants():
    testing.check_grads(lambda n, x: x**n, (np.array([1, 2, 3]), X))
    with pytest.raises(ArgumentError, match="no argument has"):
        testing.check_grads(lambda n: n, (3,))


@pytest.mark.parametrize("modes", [("fwd",), ("rev",)])
def test_wrong_first_derivative(modes):
    with pytest.raises(AssertionError, match="finite differences"):
        testing.check_grads(wrong_first, (X,), order=1, modes=modes)


def test_wrong_second_derivative():
    f = fgrad.grad(lambda x: np.sum(x * ew.stop_gradient(x) * x))
    with pytest.raises(AssertionError, match="jvp of"):
        testing.check_grads(f, (X,), order=2)


def test_zero_derivative_is_checked():
    testing.check_grads(np.floor, (X,))
    testing.check_grads(lambda x: 3.0 + 0 * x, (X,))


def test_modes():
    with pytest.raises(ArgumentError, match="modes"):
        testing.check_grads(np.sin, (X,), modes=("reverse",))


def test_check_vmap():
    testing.check_vmap(np.dot, (np.ones((4, 3)), np.ones((3, 4))), in_axes=(0, 1))
    testing.check_vmap(lambda x: {"s": np.sum(x), "n": 3.0}, (np.ones((2, 3)),))
    calls = []

    def unsteady(x):
        calls.append(x)
        return x + len(calls)

    with pytest.raises(AssertionError, match="vmap of unsteady"):
        testing.check_vmap(unsteady, (np.ones((3, 2)),))


def test_check_jit():
    testing.check_jit(lambda x: (np.cos(x), x.sum()), (X,))
    calls = []

    def unsteady(x):
        calls.append(x)
        return x + len(calls)

    with pytest.raises(AssertionError, match="jit of unsteady"):
        testing.check_jit(unsteady, (X,))


def test_check_transpose_finds_a_wrong_rule(monkeypatch):
    def wrong(ct, wanted, x, **params):
        return (ct,)

    testing.check_transpose(np.cumsum, (X,))
    monkeypatch.setattr(cumsum_p, "moved_back", wrong)
    with pytest.raises(AssertionError, match="transpose of"):
        testing.check_transpose(np.cumsum, (X,))
