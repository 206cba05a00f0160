"""Programs whose gradients once took far more memory than they need; see eager_table.py."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

import fgrad

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


# --- loops ----------------------------------------------------------------------------------------


def _rows(rng: np.random.Generator) -> np.ndarray:
    return rng.normal(size=20_000)


def _images(rng: np.random.Generator) -> np.ndarray:
    return rng.normal(size=(64, 64, 32))


def _tokens(rng: np.random.Generator) -> np.ndarray:
    return rng.normal(size=(128, 64))


FILTERS = np.random.default_rng(3).normal(size=(4, 3, 3)) / 9
HEADS = [np.random.default_rng(4).normal(size=(64, 64)) / 8 for _ in range(4)]
WIDE, NARROW = (np.random.default_rng(5).normal(size=s) / 8 for s in ((64, 256), (256, 64)))
ORDER = np.random.default_rng(6).permutation(20_000)


def convolutions(xp: Any, x: Any) -> Any:
    """Four layers of 3 x 3 windows written out, with relu and means of 2 x 2 at the end."""
    for w in FILTERS:
        n, m = x.shape[0] - 2, x.shape[1] - 2
        y = 0.0
        for i in range(3):
            for j in range(3):
                y = y + w[i, j] * x[i : i + n, j : j + m]
        x = xp.maximum(y + 0.1, 0.0)
    pooled = (x[::2, ::2] + x[1::2, ::2] + x[::2, 1::2] + x[1::2, 1::2]) / 4
    return xp.sum(pooled**2)


def recurrent(xp: Any, x: Any) -> Any:
    """A recurrent network in a Python loop."""
    h = xp.zeros((2000, 64))
    for w in LAYERS:
        h = xp.tanh(xp.dot(x, w) + xp.dot(h, LAYERS[0]) + 0.1)
    return xp.sum(h**2)


def transformer(xp: Any, x: Any) -> Any:
    """Two blocks of attention and a network, with norms."""
    for _ in range(2):
        y = _normal(xp, x)
        q, k, v = (xp.dot(y, w) for w in HEADS[:3])
        s = xp.dot(q, xp.transpose(k)) / 8.0
        e = xp.exp(s - xp.max(s, axis=1, keepdims=True))
        x = x + xp.dot(xp.dot(e / xp.sum(e, axis=1, keepdims=True), v), HEADS[3])
        x = x + xp.dot(xp.maximum(xp.dot(_normal(xp, x), WIDE), 0.0), NARROW)
    return xp.sum(x**2)


def _normal(xp: Any, x: Any) -> Any:
    z = x - xp.mean(x, axis=1, keepdims=True)
    return z / xp.sqrt(xp.mean(z**2, axis=1, keepdims=True) + 1e-5)


def ode(xp: Any, x: Any) -> Any:
    """A thousand Euler steps of a nonlinear equation."""
    for _ in range(1000):
        x = x + 0.001 * (x - x**3)
    return xp.sum(x)


def _step(xp: Any, x: Any) -> Any:
    return xp.sin(x) * 1.1


def _mean(x: Any) -> Any:
    return (x + x[::-1]) * 0.5 + 1.0


JIT_MEAN, JIT_STEP = fgrad.jit(_mean), fgrad.jit(lambda x: _step(np, x))


def jit_linear(xp: Any, x: Any) -> Any:
    """A jitted linear function in a Python loop; without jit elsewhere."""
    for _ in range(40):
        x = JIT_MEAN(x) if xp is np else _mean(x)
    return xp.sum(x)


def jit_steps(xp: Any, x: Any) -> Any:
    """A jitted function in a Python loop; without jit elsewhere."""
    for _ in range(20):
        x = JIT_STEP(x) if xp is np else _step(xp, x)
    return xp.sum(x)


def scans(xp: Any, x: Any) -> Any:
    """Five scans of four steps; Python loops elsewhere."""
    for _ in range(5):
        if xp is np:
            x, _ = fgrad.lax.scan(lambda c, _: (_step(np, c), None), x, length=4)
        else:
            for _ in range(4):
                x = _step(xp, x)
    return xp.sum(x)


def conds(xp: Any, x: Any) -> Any:
    """A branch in a Python loop."""
    for k in range(20):
        if xp is np:
            x = fgrad.lax.cond(k % 2 == 0, lambda x: np.sin(x), lambda x: x * 1.1, x)
        else:
            x = xp.sin(x) if k % 2 == 0 else x * 1.1
    return xp.sum(x)


@fgrad.custom_vjp
def clipped(x: Any) -> Any:
    """The identity, whose cotangents are clipped."""
    return x * 1.0


clipped.defvjp(lambda x: (x * 1.0, None), lambda _, ct: (np.clip(ct, -1.0, 1.0),))


def custom_rules(xp: Any, x: Any) -> Any:
    """A custom rule in a Python loop; the identity elsewhere."""
    for _ in range(20):
        x = clipped(x) if xp is np else x * 1.0
    return xp.sum(x)


def transforms(xp: Any, x: Any) -> Any:
    """Filters by Fourier transforms."""
    response = 1.0 / (1.0 + np.arange(x.shape[0]) / 1000.0)
    for _ in range(10):
        x = xp.real(xp.fft.ifft(xp.fft.fft(x) * response))
    return xp.sum(x**2)


def buffers(xp: Any, x: Any) -> Any:
    """Writes into one array; sums of padded ones elsewhere."""
    if xp is not np:
        for k in range(20):
            x = xp.concatenate(
                [x[: 1000 * k], x[1000 * k : 1000 * k + 1000] * 0.5, x[1000 * k + 1000 :]]
            )
        return xp.sum(x**2)
    y = x.copy()
    for k in range(20):
        y[1000 * k : 1000 * k + 1000] *= 0.5
    return np.sum(y**2)


def sorts(xp: Any, x: Any) -> Any:
    """Sorts and reads at computed places."""
    for _ in range(10):
        x = xp.sort(x)[ORDER] * 1.1
    return xp.sum(x**2)


def noise(xp: Any, x: Any) -> Any:
    """Sums with constants that are made in the function."""
    rng = np.random.default_rng(0)
    for _ in range(20):
        x = x + rng.normal(size=x.shape)
    return xp.sum(x**2)


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
    MemoryProgram("4 layers of windows", convolutions, _images),
    MemoryProgram("recurrent network, 10 steps", recurrent, _batch),
    MemoryProgram("2 blocks of a transformer", transformer, _tokens),
    MemoryProgram("1000 steps of an equation", ode, _rows),
    MemoryProgram("40 times a jitted linear function", jit_linear, _rows),
    MemoryProgram("20 times a jitted function", jit_steps, _vector),
    MemoryProgram("5 scans of 4 steps", scans, _vector),
    MemoryProgram("20 branches by cond", conds, _vector),
    MemoryProgram("20 times a custom_vjp", custom_rules, _vector),
    MemoryProgram("10 Fourier filters", transforms, _rows),
    MemoryProgram("20 writes into one array", buffers, _rows),
    MemoryProgram("10 sorts and reads", sorts, _rows),
    MemoryProgram("20 sums with random numbers", noise, _vector),
)
