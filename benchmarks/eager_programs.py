"""Programs whose gradients once took far more memory or time than they need; see eager_table.py."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from libraries import has

import fgrad

Call = Callable[[], Any]
ROWS = 200_000


class MemoryProgram(NamedTuple):
    """A scalar function of NumPy's module and an argument, and what makes the argument."""

    name: str
    loss: Callable[[Any, Any], Any]
    argument: Callable[[np.random.Generator], Any]


def _vector(rng: np.random.Generator) -> np.ndarray:
    return rng.normal(size=ROWS)


def _batch(rng: np.random.Generator) -> np.ndarray:
    return rng.normal(size=(2000, 64))


def _layers(rng: np.random.Generator) -> list[np.ndarray]:
    return [rng.normal(size=(64, 64)) / 8 for _ in range(10)]


BATCH = _batch(np.random.default_rng(1))
LAYERS = _layers(np.random.default_rng(2))


def rolls(xp: Any, x: Any) -> Any:
    """Linear operations alone."""
    for _ in range(50):
        x = xp.roll(x, 1) + 1.0
    return xp.sum(x)


def additions(xp: Any, x: Any) -> Any:
    """Twenty sums with a constant."""
    for _ in range(20):
        x = x + 1
    return xp.sum(x)


def sines(xp: Any, x: Any) -> Any:
    """Functions that read their operand."""
    for _ in range(20):
        x = xp.sin(x) * 1.1
    return xp.sum(x)


def exponentials(xp: Any, x: Any) -> Any:
    """Functions that read their result."""
    for _ in range(10):
        x = xp.tanh(x) / 2.0 + xp.exp(-x)
    return xp.mean(x)


def network_of_input(xp: Any, x: Any) -> Any:
    """A relu network, differentiated in its input."""
    for w in LAYERS:
        x = xp.maximum(xp.dot(x, w) + 0.1, 0.0)
    return xp.sum(x**2)


def network_of_weights(xp: Any, weights: Any) -> Any:
    """The same, in its weights."""
    x = BATCH
    for w in weights:
        x = xp.maximum(xp.dot(x, w) + 0.1, 0.0)
    return xp.sum(x**2)


def softmaxes(xp: Any, x: Any) -> Any:
    """Rows, four times."""
    z = xp.reshape(x, (-1, 100))
    for _ in range(4):
        e = xp.exp(z - xp.max(z, axis=1, keepdims=True))
        z = e / xp.sum(e, axis=1, keepdims=True)
    return xp.sum(z**2)


def norms(xp: Any, x: Any) -> Any:
    """Rows of mean 0 and variance 1, four times."""
    z = xp.reshape(x, (-1, 100))
    for _ in range(4):
        z = z - xp.mean(z, axis=1, keepdims=True)
        z = z / xp.sqrt(xp.mean(z**2, axis=1, keepdims=True) + 1e-5)
    return xp.sum(z * z * z)


def diffusion(xp: Any, x: Any) -> Any:
    """A stencil with fixed ends."""
    for _ in range(20):
        x = xp.concatenate([x[:1], 0.5 * (x[:-2] + x[2:]), x[-1:]])
    return xp.sum(x**2)


def rosenbrock(xp: Any, x: Any) -> Any:
    """Neighbours."""
    return xp.sum(100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2)


def branches(xp: Any, x: Any) -> Any:
    """Selections."""
    for _ in range(10):
        x = xp.where(x > 0, x * 0.9, x * 1.1)
    return xp.sum(x)


PROGRAMS = (
    MemoryProgram("50 times roll(x, 1) + 1.0", rolls, _vector),
    MemoryProgram("20 times x + 1", additions, _vector),
    MemoryProgram("20 times sin(x) * 1.1", sines, _vector),
    MemoryProgram("10 times tanh(x) / 2 + exp(-x)", exponentials, _vector),
    MemoryProgram("relu network of 10 layers, its input", network_of_input, _batch),
    MemoryProgram("relu network of 10 layers, its weights", network_of_weights, _layers),
    MemoryProgram("4 softmaxes of rows", softmaxes, _vector),
    MemoryProgram("4 normalisations of rows", norms, _vector),
    MemoryProgram("20 steps of diffusion", diffusion, _vector),
    MemoryProgram("rosenbrock", rosenbrock, _vector),
    MemoryProgram("10 times where(x > 0, ...)", branches, _vector),
)


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
