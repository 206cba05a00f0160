"""Ten programs that are exported: a name, a function, and what makes its arguments."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import fgrad
from fgrad import lax

F = np.float32
Example = tuple[Callable[..., Any], Callable[[np.random.Generator], tuple[Any, ...]]]


def mlp_step(params: Any, x: Any, t: Any) -> Any:
    """A step of gradient descent of a network with one hidden layer."""

    def loss(params: Any) -> Any:
        hidden = np.tanh(x @ params["w"] + params["b"])
        return np.mean((hidden @ params["v"] - t) ** 2)

    value, grads = fgrad.value_and_grad(loss)(params)
    return value, fgrad.tree.map(lambda p, g: p - 0.1 * g, params, grads)


def mlp_args(rng: np.random.Generator) -> tuple[Any, ...]:
    params = {
        "w": rng.standard_normal((64, 32)).astype(F),
        "b": np.zeros(32, F),
        "v": rng.standard_normal((32, 4)).astype(F),
    }
    x, t = rng.standard_normal((48, 64)).astype(F), rng.standard_normal((48, 4)).astype(F)
    return params, x, t


def attention(q: Any, k: Any, v: Any) -> Any:
    s = q @ np.swapaxes(k, -1, -2) / np.sqrt(F(32))
    s = s - np.max(s, axis=-1, keepdims=True)
    p = np.exp(s)
    p = p / np.sum(p, axis=-1, keepdims=True)
    return np.sum((p @ v) ** 2)


def kalman(mean: Any, cov: Any, zs: Any, a: Any, q: Any, h: Any, r: Any) -> Any:
    """A Kalman filter of two measured numbers; the inverse of 2 x 2 is written out."""

    def step(carry: Any, z: Any) -> Any:
        m, p = carry
        m, p = a @ m, a @ p @ a.T + q
        s = h @ p @ h.T + r
        det = s[0, 0] * s[1, 1] - s[0, 1] * s[1, 0]
        inverse = np.stack([np.stack([s[1, 1], -s[0, 1]]), np.stack([-s[1, 0], s[0, 0]])]) / det
        gain = p @ h.T @ inverse
        m = m + gain @ (z - h @ m)
        p = p - gain @ h @ p
        return (m, p), m

    return lax.scan(step, (mean, cov), zs)


def kalman_args(rng: np.random.Generator) -> tuple[Any, ...]:
    a = np.eye(4) + 0.1 * np.eye(4, k=2)
    return (
        np.zeros(4), np.eye(4), rng.standard_normal((50, 2)), a, 0.01 * np.eye(4),
        np.eye(2, 4), 0.1 * np.eye(2),
    )  # fmt: skip


def price(s: Any, k: Any, t: Any, r: Any, sigma: Any) -> Any:
    """European calls by Black and Scholes."""
    d1 = (np.log(s / k) + (r + sigma**2 / 2) * t) / (sigma * np.sqrt(t))
    d2 = d1 - sigma * np.sqrt(t)

    def cdf(x: Any) -> Any:
        return 0.5 * (1.0 + np.tanh(0.7978845608 * (x + 0.044715 * x**3)))

    return s * cdf(d1) - k * np.exp(-r * t) * cdf(d2)


def greeks(s: Any, k: Any, t: Any, r: Any, sigma: Any) -> Any:
    """Prices, and their derivatives."""
    total = lambda *args: np.sum(price(*args))  # noqa: E731
    return price(s, k, t, r, sigma), fgrad.grad(total, argnums=(0, 2, 4))(s, k, t, r, sigma)


def greeks_args(rng: np.random.Generator) -> tuple[Any, ...]:
    n = 500
    return (
        rng.uniform(80, 120, n), rng.uniform(80, 120, n), rng.uniform(0.1, 2, n), 0.03,
        rng.uniform(0.1, 0.4, n),
    )  # fmt: skip


def three_stars(x: Any, v: Any, m: Any) -> Any:
    """Steps of three stars' orbits, in plain loops."""
    for _ in range(100):
        for i in range(3):
            a = np.zeros(2)
            for j in range(3):
                if i != j:
                    d = x[j] - x[i]
                    a = a + m[j] * d / (np.sum(d * d) + 0.01) ** 1.5
            v[i] = v[i] + 0.01 * a
        x = x + 0.01 * v
    return x


def stars(x: Any, v: Any, m: Any) -> Any:
    return three_stars(x, v.copy(), m)


def elimination(a: Any, b: Any) -> Any:
    """LU by plain loops, and the solution."""
    u, n = a.copy(), len(b)
    y = b.copy()
    for k in range(n):
        for i in range(k + 1, n):
            f = u[i, k] / u[k, k]
            for j in range(k, n):
                u[i, j] = u[i, j] - f * u[k, j]
            y[i] = y[i] - f * y[k]
    x = np.zeros(n)
    for k in range(n - 1, -1, -1):
        x[k] = (y[k] - np.sum(u[k, k + 1 :] * x[k + 1 :])) / u[k, k]
    return x


def elimination_args(rng: np.random.Generator) -> tuple[Any, ...]:
    n = 12
    return rng.standard_normal((n, n)) + n * np.eye(n), rng.standard_normal(n)


def soft_dtw(x: Any, y: Any) -> Any:
    """The soft distance of two series in time."""
    d = (x[:, None] - y[None, :]) ** 2
    n, m = d.shape

    def row(above: Any, costs: Any) -> Any:
        def cell(left: Any, item: Any) -> Any:
            cost, up, corner = item
            low = np.minimum(np.minimum(left, up), corner)
            total = np.exp(low - left) + np.exp(low - up) + np.exp(low - corner)
            found = cost + low - np.log(total)
            return found, found

        _, found = lax.scan(cell, np.float64(1e10), (costs, above[1:], above[:-1]))
        full = np.concatenate([np.full(1, 1e10), found])
        return full, found[-1]

    start = np.concatenate([np.zeros(1), np.full(m, 1e10)])
    return lax.scan(row, start, d)[1][n - 1]


def rnn_loss(w: Any, u: Any, xs: Any) -> Any:
    def step(h: Any, x: Any) -> Any:
        h = np.tanh(w @ h + u @ x)
        return h, np.sum(h)

    return np.sum(lax.scan(step, np.zeros(8), xs)[1])


def newton(a: Any) -> Any:
    """Square roots by Newton's iteration, until they no longer change."""

    def unsettled(carry: Any) -> Any:
        x, before = carry
        return np.max(np.abs(x - before)) > 1e-12

    def step(carry: Any) -> Any:
        x, _ = carry
        return 0.5 * (x + a / x), x

    return lax.while_loop(unsettled, step, (a, a + 1.0))[0]


def softmax_loss(w: Any, x: Any, t: Any) -> Any:
    z = x @ w
    z = z - np.max(z)
    return np.log(np.sum(np.exp(z))) - np.sum(np.where(np.arange(5) == t, z, 0.0))


def per_sample(w: Any, x: Any, t: Any) -> Any:
    return fgrad.vmap(fgrad.value_and_grad(softmax_loss), in_axes=(None, 0, 0))(w, x, t)


def normal(*shape: int, dtype: Any = np.float64) -> Callable[[np.random.Generator], Any]:
    return lambda rng: rng.standard_normal(shape).astype(dtype)


def arguments(*makers: Any) -> Callable[[np.random.Generator], tuple[Any, ...]]:
    return lambda rng: tuple([make(rng) for make in makers])


PROGRAMS: dict[str, Example] = {
    "mlp_step": (mlp_step, mlp_args),
    "attention_grad": (
        fgrad.value_and_grad(attention, argnums=(0, 1, 2)),
        arguments(*[normal(2, 33, 32, dtype=F)] * 3),
    ),
    "kalman": (kalman, kalman_args),
    "black_scholes_greeks": (greeks, greeks_args),
    "three_stars": (stars, arguments(normal(3, 2), normal(3, 2), lambda rng: np.ones(3))),
    "lu_by_loops": (elimination, elimination_args),
    "soft_dtw_grad": (fgrad.value_and_grad(soft_dtw), arguments(normal(20), normal(24))),
    "rnn_grad": (
        fgrad.value_and_grad(rnn_loss, argnums=(0, 1)),
        arguments(normal(8, 8), normal(8, 4), normal(30, 4)),
    ),
    "newton": (newton, arguments(lambda rng: rng.uniform(1, 9, 100))),
    "per_sample_softmax": (
        per_sample,
        arguments(normal(6, 5), normal(40, 6), lambda rng: rng.integers(0, 5, 40)),
    ),
}

# The axes of each program that may change, and their length in the example.
DYNAMIC: dict[str, tuple[Any, tuple[int, ...]]] = {
    "mlp_step": ({"x": 0, "t": 0}, (48,)),
    "attention_grad": ({"q": 1, "k": 1, "v": 1}, (33,)),
    "kalman": ({"zs": 0}, (50,)),
    "black_scholes_greeks": ({"s": 0, "k": 0, "t": 0, "sigma": 0}, (500,)),
    "lu_by_loops": ({"a": (0, 1), "b": 0}, (12,)),
    "soft_dtw_grad": ({"x": 0, "y": 0}, (20, 24)),
    "rnn_grad": ({"xs": 0}, (30,)),
    "newton": ({"a": 0}, (100,)),
    "per_sample_softmax": ({"x": 0, "t": 0}, (40,)),
}
