"""Loops at the prompt: as Python text they compute what their equations do, to the last bit."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fgrad
import fgrad.numpy as fnp
from fgrad import lax, tree
from fgrad.ops import control, loop_to_python

N = 20
RNG = np.random.default_rng(3)


def _scalars(dtype: Any) -> Callable[[], Any]:
    def run() -> Any:
        def body(c: Any, x: Any) -> Any:
            a, b, hits = c
            a, b = a * x - b / (abs(x) + dtype(1)), -a + b * dtype(0.5)
            a = np.where(a > b, a, dtype(0.25) - a)
            flag = (a < b) & ~(x == b) | (a != a)
            return (a, b, hits + flag), (flag, a >= b, np.maximum(a, b), np.sin(b))

        xs = RNG.normal(size=N).astype(dtype)
        xs[[3, 7, 11]] = 0.0, -0.0, np.inf
        return lax.scan(body, (dtype(1), dtype(-0.0), 0), xs)

    return run


def _integers() -> Any:
    def body(c: Any, x: Any) -> Any:
        i, u, b = c
        return (i * 3 - x // 2 + x % 5, u * np.uint32(2654435761) + np.uint32(7), b ^ (x > 3)), (
            i * 0.5, np.float32(1) + x.astype(np.float32), abs(i), i & 6 | x,
        )  # fmt: skip

    return lax.scan(body, (1, np.uint32(5), False), np.arange(N))


def _arrays() -> Any:
    w = RNG.normal(size=(3, 3))

    def body(h: Any, x: Any) -> Any:
        k, v = x
        h = np.tanh(w @ h + k) * 0.5 + h.T @ w - v @ w.T
        return h, (np.sum(h), np.stack([h, h * k]), np.where(k > 0, h, k), np.clip(h, -k * k, k))

    return lax.scan(body, np.zeros(3), (RNG.normal(size=N), RNG.normal(size=(N, 3))), reverse=True)


def _complex() -> Any:
    return lax.scan(lambda z, c: (z * z / (1 + c) + c, abs(z)), 0j, RNG.normal(size=N) * 0.1j)


def _places() -> Any:
    x = RNG.normal(size=5)
    table = RNG.normal(size=(5, 2))

    def body(i: Any, s: Any) -> Any:
        y, t = s
        y = y.at[i % 7].set(fnp.take(x, i - 3, axis=0, mode="clip") + y[i % 5], mode="drop")
        return y.at[i % 3].add(0.5), t.at[i % 5].add(fnp.take(table, i % 5, axis=0))

    return lax.fori_loop(0, N, body, (np.zeros(6), np.zeros((5, 2), np.float32)))


def _nested() -> Any:
    def inner(x: Any) -> Any:
        return lax.while_loop(lambda s: s[1] < 20.0, lambda s: (s[0] + 1, s[1] * x + 1.0), (0, x))

    def body(c: Any, x: Any) -> Any:
        steps, value = inner(x)
        last = lax.fori_loop(0, 3, lambda i, v: v * 0.5 + i, value + c)
        return lax.cond(last > 3.0, lambda v: v - 3.0, lambda v: v * 2.0, last), steps

    return lax.scan(body, 0.0, RNG.uniform(1.5, 3.0, size=N))


def _gradient() -> Any:
    def loss(p: Any) -> Any:
        def body(c: Any, x: Any) -> Any:
            c = np.sqrt(c * p["a"] + 1.0) / (p["b"] * p["b"]) + np.where(x > 0, x**3, np.sin(x * c))
            return c, c * np.sum(p["w"] * x)

        last, ys = lax.scan(body, 0.5, xs)
        return last + np.sum(ys)

    xs = np.linspace(-1.0, 1.0, N)
    p = {"a": 0.7, "b": -1.3, "w": np.array([1.0, 0.0, -2.0])}
    return (
        fgrad.grad(loss)(p),
        fgrad.jvp(loss, (p,), (p,)),
        fgrad.hessian(lambda a: loss({**p, "a": a}))(0.3),
    )


def _empty() -> Any:
    nothing = lax.scan(lambda c, x: (c + np.sum(x), x * c), 1.0, np.zeros((0, 2)))
    return nothing, lax.scan(lambda c, x: (c, x + 1.0), np.zeros((0, 3)), np.zeros((N, 0)))


CASES = {
    "float16": _scalars(np.float16), "float32": _scalars(np.float32),
    "float64": _scalars(np.float64), "integers": _integers, "arrays": _arrays,
    "complex": _complex, "places": _places, "nested": _nested,
    "gradient": _gradient, "empty": _empty,
}  # fmt: skip


def _evaluated(monkeypatch: pytest.MonkeyPatch, case: Callable[[], Any], worth: int) -> list[Any]:
    global RNG
    RNG = np.random.default_rng(3)
    with monkeypatch.context() as patch, np.errstate(all="ignore"):
        patch.setattr(loop_to_python, "WORTH", worth)
        patch.setattr(control, "WORTH", worth)
        return tree.leaves(case())


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_text_computes_what_equations_compute(
    case: Callable[[], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = _evaluated(monkeypatch, case, 10**9)
    for _ in range(2):
        found = _evaluated(monkeypatch, case, 1)
        for x, y in zip(found, expected, strict=True):
            assert (type(x), x.dtype, x.shape) == (type(y), y.dtype, y.shape)
            assert x.tobytes() == y.tobytes(), (x, y)


def test_results_share_no_memory_with_arguments() -> None:
    xs, start = np.ones((N, 3)), np.ones(3)
    for _ in range(2):
        last, _ = lax.scan(lambda c, x: (x, None), np.zeros(3), xs)
        (_, kept), ys = lax.scan(lambda c, x: ((x, c[1]), c[1]), (np.zeros(3), start), xs)
        turned, _ = lax.while_loop(lambda s: s[1] < N, lambda s: (s[0][::-1], s[1] + 1), (start, 0))
        for out in (last, kept, ys, turned):
            out[...] = 5.0
        assert np.all(xs == 1.0) and np.all(start == 1.0)


def test_callbacks_run_in_order_and_errors_arrive() -> None:
    seen: list[float] = []

    def body(c: Any, x: Any) -> Any:
        fgrad.debug.callback(lambda c: seen.append(float(c)), c)
        fgrad.debug.callback(lambda: seen.append(-1.0))
        return c + x, None

    lax.scan(body, 0.0, np.ones(N))
    assert seen == [v for k in range(N) for v in (float(k), -1.0)]

    def failing(c: Any, x: Any) -> Any:
        return np.linalg.inv(c), None

    with pytest.raises(np.linalg.LinAlgError):
        lax.scan(failing, np.zeros((2, 2)), np.ones(N))


def test_nan_is_found_in_loops_that_ran_before() -> None:
    def f(x: Any) -> Any:
        return lax.scan(lambda c, k: (np.log(c - k), None), x, np.ones(N))[0]

    with np.errstate(all="ignore"):
        f(3.0)
        with pytest.raises(FloatingPointError, match="log produced a NaN"), fgrad.debug.nans():
            f(3.0)
