"""Programs whose gradients once took far more time than they need; see eager_table.py."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from libraries import has

import fgrad

Call = Callable[[], Any]


# --- cliffs ---------------------------------------------------------------------------------------


class Cliff(NamedTuple):
    """A program, and what makes a call of it for each library that has it."""

    name: str
    calls: Callable[[], dict[str, Call]]


def _gradients(loss: Callable[[Any, Any], Any], x: Any, compiled: bool) -> dict[str, Call]:
    """The gradient at the prompt beside autograd's, or compiled beside JAX's."""
    if not compiled:
        g = fgrad.grad(lambda x: loss(np, x))
        found: dict[str, Call] = {"fgrad": lambda: g(x)}
        if has("autograd"):
            xp = importlib.import_module("autograd.numpy")
            a = importlib.import_module("autograd").grad(lambda x: loss(xp, x))
            found["autograd"] = lambda: a(x)
        return found
    f = fgrad.jit(fgrad.grad(lambda x: loss(np, x)))
    found = {"fgrad": lambda: f(x)}
    if has("jax"):
        jax = _jax()
        g = jax.jit(jax.grad(lambda x: loss(jax.numpy, x)))
        y = jax.numpy.asarray(x)
        found["jax"] = lambda: g(y).block_until_ready()
    return found


def _jax() -> Any:
    jax = importlib.import_module("jax")
    jax.config.update("jax_enable_x64", True)
    jax.config.update("jax_cpu_enable_async_dispatch", False)
    return jax


def many_rolls(xp: Any, x: Any) -> Any:
    """Two hundred linear operations on a million numbers."""
    for _ in range(200):
        x = xp.roll(x, 1) + 1.0
    return xp.sum(x)


def diagonal(xp: Any, a: Any) -> Any:
    """Elements read one by one."""
    total = 0.0
    for i in range(a.shape[0]):
        total = total + xp.sin(a[i, i])
    return total


def windows(xp: Any, x: Any) -> Any:
    """Short slices read one by one."""
    total = 0.0
    for i in range(x.shape[0] - 8):
        total = total + xp.sum(x[i : i + 8] ** 2)
    return total


def _second(loss: Callable[[Any, Any], Any], x: Any) -> dict[str, Call]:
    h = fgrad.grad(lambda v: np.sum(fgrad.grad(lambda x: loss(np, x))(v) ** 2))
    found: dict[str, Call] = {"fgrad": lambda: h(x)}
    if has("autograd"):
        xp, a = (importlib.import_module(f"autograd{part}") for part in (".numpy", ""))
        g = a.grad(lambda v: xp.sum(a.grad(lambda x: loss(xp, x))(v) ** 2))
        found["autograd"] = lambda: g(x)
    return found


def _vander() -> dict[str, Call]:
    """The gradient of a fit of degree 20 in the places, beside the powers written out."""
    t, c = np.linspace(-1.0, 1.0, 2000), np.ones(21)
    k = np.arange(20, -1, -1)
    by_vander = fgrad.grad(lambda t: np.sum(np.sin(np.vander(t, 21) @ c)))
    by_powers = fgrad.grad(lambda t: np.sum(np.sin(t[:, None] ** k @ c)))
    by_polyval = fgrad.grad(lambda t: np.sum(np.sin(np.polyval(c, t))))
    return {
        "fgrad": lambda: by_vander(t),
        "powers": lambda: by_powers(t),
        "polyval": lambda: by_polyval(t),
    }


def _remat() -> dict[str, Call]:
    """The gradient of twenty rematerialised layers at the prompt, beside the same without."""

    def layer(x: Any, w: Any) -> Any:
        return np.tanh(x @ w) + x

    again, w = fgrad.checkpoint(layer), np.eye(8)

    def loss(step: Callable[..., Any]) -> Callable[[Any], Any]:
        def f(x: Any) -> Any:
            for _ in range(20):
                x = step(x, w)
            return np.sum(x)

        return f

    x = np.ones((4, 8))
    kept, remade = fgrad.grad(loss(layer)), fgrad.grad(loss(again))
    return {"fgrad": lambda: remade(x), "without": lambda: kept(x)}


def _unchanged() -> dict[str, Call]:
    """A loop that carries a large matrix and never changes it."""
    a = np.ones((2000, 2000))

    def loop(lax: Any) -> Callable[[Any], Any]:
        def step(i: Any, carry: Any) -> Any:
            a, x = carry
            return a, x * 0.5 + a[0, 0]

        return lambda a: lax.fori_loop(0, 10, step, (a, 1.0))[1]

    f = fgrad.jit(loop(fgrad.lax))
    found: dict[str, Call] = {"fgrad": lambda: f(a)}
    if has("jax"):
        jax = _jax()
        g, b = jax.jit(loop(jax.lax)), jax.numpy.asarray(a)
        found["jax"] = lambda: g(b).block_until_ready()
    return found


def _matrix(n: int) -> np.ndarray:
    return np.random.default_rng(0).normal(size=(n, n))


def _line(n: int) -> np.ndarray:
    return np.random.default_rng(0).normal(size=n)


CLIFFS = (
    Cliff("200 rolls of 1e6, prompt", lambda: _gradients(many_rolls, _line(1_000_000), False)),
    Cliff("200 rolls of 1e5, jit", lambda: _gradients(many_rolls, _line(100_000), True)),
    *[
        Cliff(
            f"{n} reads a[i, i], {'jit' if compiled else 'prompt'}",
            lambda n=n, compiled=compiled: _gradients(diagonal, _matrix(n), compiled),
        )
        for compiled in (False, True)
        for n in (100, 200, 400, 800)
    ],
    Cliff("400 windows x[i:i+8], prompt", lambda: _gradients(windows, _line(408), False)),
    Cliff("400 windows x[i:i+8], jit", lambda: _gradients(windows, _line(408), True)),
    Cliff("100 reads a[i, i], second order", lambda: _second(diagonal, _matrix(100))),
    Cliff("np.vander in a gradient", _vander),
    Cliff("checkpoint at the prompt", _remat),
    Cliff("a carry that never changes, 2000 x 2000", _unchanged),
)
