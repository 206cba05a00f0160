"""scan, loops and conditions, and what is done with them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from jax_programs.data import SPD, B, K, M, P, S, X, Y


def rnn(J: Any, w: Any) -> Any:
    def cell(h: Any, x: Any) -> Any:
        h = J.np.tanh(S @ h + x * w)
        return h, h.sum()

    return J.lax.scan(cell, np.zeros(4), X)


def collatz(J: Any, n: int) -> Any:
    def step(c: Any) -> Any:
        n, k = c
        return J.np.where(n % 2 == 0, n // 2, 3 * n + 1), k + 1

    return J.lax.while_loop(lambda c: c[0] != 1, step, (n, 0))[1]


def kalman(J: Any, noise: Any) -> Any:
    def step(c: Any, y: Any) -> Any:
        mean, var = c
        var = var + 0.1
        gain = var / (var + noise)
        mean = mean + gain * (y - mean)
        return (mean, (1 - gain) * var), mean

    return J.lax.scan(step, (0.0, 1.0), X)[1]


def euler(J: Any, rate: Any) -> Any:
    return J.lax.fori_loop(0, 50, lambda i, y: y + 0.02 * rate * J.np.sin(y), np.ones(3))


def power_method(J: Any) -> Any:
    def step(v: Any, _: Any) -> Any:
        v = SPD @ v
        return v / J.np.linalg.norm(v), v @ SPD @ v / (v @ v)

    return J.lax.scan(step, np.ones(4), None, length=12)[1]


def fixed_point(J: Any) -> Any:
    return J.lax.while_loop(
        lambda c: J.np.abs(c[0] - c[1]) > 1e-9, lambda c: (c[1], J.np.cos(c[1])), (1.0, 0.5)
    )[1]


PROGRAMS: dict[str, Callable[[Any], Any]] = {
    "scan": lambda J: J.lax.scan(lambda c, x: (c + x, c * x), 0.0, X),
    "scan no ys": lambda J: J.lax.scan(lambda c, x: (c * 0.5 + x, None), 0.0, X),
    "scan no xs": lambda J: J.lax.scan(lambda c, _: (c * 2, c), 1.0, None, length=5),
    "scan reverse": lambda J: J.lax.scan(lambda c, x: (c + x, c), 0.0, X, reverse=True),
    "scan of trees": lambda J: J.lax.scan(
        lambda c, x: ({"a": c["a"] + x["u"], "n": c["n"] + 1}, x["v"] * c["a"]),
        {"a": 0.0, "n": 0}, {"u": X, "v": Y}),
    "scan unroll": lambda J: J.lax.scan(lambda c, x: (c + x, c), 0.0, X, unroll=2),
    "scan of rows": lambda J: J.lax.scan(lambda c, r: (c + r, r.max()), np.zeros(5), M),
    "scan of scan": lambda J: J.lax.scan(
        lambda c, r: J.lax.scan(lambda d, v: (d + v, d), c, r), 0.0, M),
    "weak carry": lambda J: J.lax.scan(
        lambda c, x: (c + x, None), 0.0, X.astype(np.float32))[0],
    "rnn": lambda J: rnn(J, 0.5),
    "rnn gradient": lambda J: J.grad(lambda w: rnn(J, w)[1].sum())(0.5),
    "rnn batch": lambda J: J.vmap(lambda w: rnn(J, w)[0])(Y),
    "kalman": lambda J: kalman(J, 0.5),
    "kalman slope": lambda J: J.jacfwd(lambda n: kalman(J, n))(0.5),
    "fori_loop": lambda J: J.lax.fori_loop(0, 5, lambda i, c: c + i, 0),
    "fori_loop traced": lambda J: J.jit(
        lambda n: J.lax.fori_loop(0, n, lambda i, c: c * 1.5 + i, 1.0))(6),
    "fori_loop array": lambda J: J.lax.fori_loop(
        0, 6, lambda i, a: J.at(a)[i].set(a[i - 1] + i), J.np.zeros(6)),
    "euler": lambda J: euler(J, 0.7),
    "euler slope": lambda J: J.jacrev(lambda r: euler(J, r))(0.7),
    "while_loop": lambda J: J.lax.while_loop(lambda x: x < 100, lambda x: x * 3, 1),
    "while batch": lambda J: J.vmap(
        lambda x: J.lax.while_loop(lambda c: c < 10.0, lambda c: c * 2 + 1, x))(P),
    "collatz": lambda J: collatz(J, 27),
    "collatz batch": lambda J: J.vmap(lambda n: collatz(J, n))(np.array([1, 2, 3, 7])),
    "fixed point": fixed_point,
    "while forward": lambda J: J.jvp(
        lambda x: J.lax.while_loop(lambda c: c[1] < 4, lambda c: (c[0] * x, c[1] + 1), (x, 0))[0],
        (1.3,), (1.0,)),
    "cond": lambda J: J.lax.cond(X[0] > 0, lambda x: x + 1, lambda x: x * 2, X),
    "cond jit": lambda J: J.jit(
        lambda p, x: J.lax.cond(p, J.np.sin, J.np.cos, x))(True, X),
    "cond no operand": lambda J: J.jit(
        lambda p: J.lax.cond(p, lambda: 1.0, lambda: 2.0))(False),
    "cond gradient": lambda J: J.grad(
        lambda x: J.lax.cond(x > 0, lambda v: v**3, lambda v: -v, x))(1.5),
    "cond batch": lambda J: J.vmap(
        lambda x: J.lax.cond(x > 0, lambda v: v**3, lambda v: -v, x))(X),
    "cond of trees": lambda J: J.lax.cond(
        True, lambda d: {"k": d["k"] * 2}, lambda d: {"k": d["k"]}, {"k": X}),
    "switch": lambda J: J.lax.switch(2, [lambda x: x, lambda x: x + 1, lambda x: x * 3], X),
    "switch clamped": lambda J: J.lax.switch(9, [lambda x: x, lambda x: x + 1], X),
    "switch batch": lambda J: J.vmap(
        lambda k, x: J.lax.switch(k, [J.np.sin, J.np.cos, J.np.exp, J.np.tanh], x))(K, X[:4]),
    "select": lambda J: J.lax.select(B, X, Y),
    "select_n": lambda J: J.lax.select_n(np.array([0, 2, 1, 0, 1, 2]), X, Y, P),
    "map": lambda J: J.lax.map(lambda r: J.np.sort(r)[:2], M),
    "associative_scan": lambda J: J.lax.associative_scan(J.np.maximum, X),
    "associative_scan of pairs": lambda J: J.lax.associative_scan(
        lambda a, b: (a[0] * b[0], a[1] * b[0] + b[1]), (X, Y)),
    "associative reverse": lambda J: J.lax.associative_scan(J.np.add, X, reverse=True),
    "custom_root": lambda J: J.grad(lambda p: J.lax.custom_root(
        lambda y: y * y - p, 1.0, lambda f, y: p**0.5, lambda g, b: b / g(1.0)))(4.0),
    "custom_linear_solve": lambda J: J.grad(lambda b: J.lax.custom_linear_solve(
        lambda x: SPD @ x, b, lambda mv, v: J.np.linalg.solve(SPD, v), symmetric=True).sum())(
        np.ones(4)),
    "power method": power_method,
    "cumsum": lambda J: J.lax.cumsum(M, 1),
    "cumlogsumexp": lambda J: J.lax.cumlogsumexp(X),
    "scan checkpoint": lambda J: J.grad(lambda w: J.lax.scan(
        J.checkpoint(lambda c, x: (J.np.sin(c * w + x), None)), 0.0, X)[0])(0.7),
    "scan second": lambda J: J.grad(J.grad(lambda w: J.lax.scan(
        lambda c, x: (J.np.sin(c * w + x), None), 0.0, X)[0]))(0.7),
    "loop in a batch": lambda J: J.vmap(lambda n: J.lax.fori_loop(
        0, n, lambda i, c: c + 1.5, 0.0))(K),
}  # fmt: skip
