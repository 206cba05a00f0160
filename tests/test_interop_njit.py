"""Numba's functions in fgrad, and fgrad's in Numba's: same numbers, derivatives, errors."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numba
import numpy as np
import pytest

import fgrad
from fgrad.errors import ArgumentError, CustomRuleError, MissingRuleError
from fgrad.interop.njit import as_njit, from_njit

X = np.array([0.5, -1.0, 2.0])
M = np.arange(9.0).reshape(3, 3) + 5 * np.eye(3)

CALLED: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "array and number": (lambda x, a: np.sin(x) * a, (X, 2.0)),
    "tuple": (lambda x: (np.sum(x), x * 2, x > 0), (X,)),
    "gradient": (fgrad.grad(lambda x: np.sum(x**3)), (X,)),
    "jitted": (fgrad.jit(lambda x: x + 1), (X,)),
    "integers": (lambda k, x: (k + 1, x * k), (np.int64(3), np.arange(4, dtype=np.int32))),
    "truth values": (lambda b, x: np.where(b, x, -x), (np.array([True, False, True]), X)),
    "complex": (lambda z: z * z.conj(), (np.array([1 + 2j, 3 - 1j]),)),
    "single precision": (lambda x: np.exp(x), (X.astype(np.float32),)),
    "constant": (lambda x: (x.sum(), 3.0), (X,)),
    "itself": (lambda x: x, (X,)),
    "no elements": (lambda x: np.sum(x), (np.zeros(0),)),
    "products and factors": (lambda a, x: np.linalg.solve(a, x) @ a, (M, X)),
    "loop": (
        lambda x: fgrad.lax.fori_loop(0, 9, lambda i, y: y * 0.5 + i, x),
        (X,),
    ),
    "large": (lambda x: np.sort(np.cumsum(x)), (np.linspace(1, -1, 20_000),)),
}


@pytest.mark.parametrize("name", CALLED)
def test_numba_calls_what_fgrad_compiles(name: str) -> None:
    f, args = CALLED[name]
    g = as_njit(f, *args)

    @numba.njit
    def outer(*args: Any) -> Any:
        return g(*args)

    found, expected = outer(*args), f(*args)
    pairs = (
        zip(found, expected, strict=True) if isinstance(expected, tuple) else [(found, expected)]
    )
    for a, b in pairs:
        assert np.shape(a) == np.shape(b)
        assert np.asarray(a).dtype == np.asarray(b).dtype
        np.testing.assert_allclose(a, b, rtol=1e-6, atol=1e-9)


def test_arrays_of_any_layout() -> None:
    g = as_njit(lambda a: a.T @ a, M)
    big = np.arange(36.0).reshape(6, 6)
    np.testing.assert_allclose(g(big[::2, ::2].T), big[::2, ::2] @ big[::2, ::2].T)


def test_results_are_new_arrays() -> None:
    g = as_njit(lambda x: x, X)
    y = g(X)
    y[0] = 9.0
    assert X[0] == 0.5


def test_threads_of_numba() -> None:
    g = as_njit(lambda x: np.sum(np.sin(x) ** 2), X)

    @numba.njit(parallel=True)
    def outer(x: Any, n: int) -> Any:
        y = np.zeros(n)
        for i in numba.prange(n):
            y[i] = g(x * i)
        return y

    expected = [np.sum(np.sin(X * i) ** 2) for i in range(200)]
    np.testing.assert_allclose(outer(X, 200), expected)


def test_errors_reach_the_caller() -> None:
    g = as_njit(np.linalg.solve, M, X)

    @numba.njit
    def outer(a: Any, x: Any) -> Any:
        return g(a, x)

    with pytest.raises(np.linalg.LinAlgError, match="Singular"):
        outer(np.zeros((3, 3)), X)
    np.testing.assert_allclose(M @ outer(M, X), X)
    with pytest.raises(ValueError, match=r"argument 1 .* than \[3\]"):
        outer(M, np.ones(4))
    with pytest.raises(TypeError):
        g(M, np.ones(3, np.float32))


def adds(x: Any) -> Any:
    x += 1
    return x


@pytest.mark.parametrize("f", [adds, lambda x: {"a": x}, lambda x: (x, (x, x))])
def test_what_needs_python_is_refused(f: Callable[..., Any]) -> None:
    with pytest.raises(ArgumentError, match="which a function for Numba cannot do"):
        as_njit(f, X.copy())


def test_a_cache_of_numba_keeps_no_address(tmp_path: Path) -> None:
    (tmp_path / "cached.py").write_text(
        "import numba, numpy as np\n"
        "from fgrad.interop.njit import as_njit\n"
        "pad = [bytearray(k * 4096) for k in range(__import__('os').getpid() % 50)]\n"
        "g = as_njit(lambda x: np.sin(x).sum(), np.ones(3))\n"
        "@numba.njit(cache=True)\n"
        "def outer(x):\n    return g(x)\n"
        "print(outer(np.zeros(3)))\n"
    )
    for _ in range(2):
        done = subprocess.run(
            [sys.executable, "-W", "ignore", "cached.py"],
            cwd=tmp_path, capture_output=True, text=True, timeout=300, check=True,
        )  # fmt: skip
        assert done.stdout == "0.0\n"


# --- the other way --------------------------------------------------------------------------------


@numba.njit
def recurrence(x: Any, a: float) -> Any:
    y = np.empty_like(x)
    s = 0.0
    for i in range(len(x)):
        s = a * s + x[i]
        y[i] = s
    return y


@numba.njit
def recurrence_vjp(x: Any, a: float, y: Any, ct: Any) -> Any:
    dx = np.empty_like(x)
    s, da = 0.0, 0.0
    for i in range(len(x) - 1, -1, -1):
        s = a * s + ct[i]
        dx[i] = s
        da += s * y[i - 1] if i > 0 else 0.0
    return dx, da


ruled = from_njit(recurrence, lambda x, a: x, vjp=recurrence_vjp)


def loss(x: Any, a: Any) -> Any:
    return np.sum(ruled(x, a) ** 2)


TRANSFORMS: dict[str, Callable[[Any], Any]] = {
    "grad": lambda f: fgrad.grad(f, (0, 1)),
    "jit of grad": lambda f: fgrad.jit(fgrad.grad(f, (0, 1))),
    "grad of jit": lambda f: fgrad.grad(fgrad.jit(f), (0, 1)),
    "vmap": lambda f: (
        lambda x, a: tuple(
            [
                g[1]
                for g in fgrad.vmap(fgrad.grad(f, (0, 1)))(np.stack([x * 2, x]), np.stack([a, a]))
            ]
        )
    ),
}


@pytest.mark.parametrize("name", TRANSFORMS)
def test_gradients_by_a_rule_of_numba(name: str) -> None:
    found = TRANSFORMS[name](loss)(X, 0.7)
    h = 1e-6
    for k in range(3):
        e = np.eye(3)[k] * h
        slope = (np.sum(recurrence(X + e, 0.7) ** 2) - np.sum(recurrence(X - e, 0.7) ** 2)) / 2 / h
        assert abs(found[0][k] - slope) < 1e-6
    slope = (np.sum(recurrence(X, 0.7 + h) ** 2) - np.sum(recurrence(X, 0.7 - h) ** 2)) / 2 / h
    assert abs(found[1] - slope) < 1e-6


def test_values_are_numbas() -> None:
    np.testing.assert_array_equal(ruled(X, 0.7), recurrence(X, 0.7))
    np.testing.assert_array_equal(fgrad.jit(ruled)(X, 0.7), recurrence(X, 0.7))


def test_integers_have_no_cotangent() -> None:
    scaled = from_njit(
        numba.njit(lambda x, k: x * k),
        lambda x, k: x,
        vjp=numba.njit(lambda x, k, y, ct: (ct * k, 0)),
    )
    assert fgrad.grad(lambda x: np.sum(scaled(x, 3)))(X).tolist() == [3.0] * 3


def test_what_is_wrong_is_said() -> None:
    bare = from_njit(numba.njit(lambda x: x * 2), lambda x: x)
    with pytest.raises(MissingRuleError):
        fgrad.grad(lambda x: np.sum(bare(x)))(X)
    short = from_njit(numba.njit(lambda x: x[:2]), lambda x: x)
    with pytest.raises(CustomRuleError, match="another type than was promised"):
        short(X)
