"""Random programs with nested loops and branches: compiled against evaluated, derivatives against
differences.

`FGRAD_LOOP_PROGRAMS=2000` tries that many, from `FGRAD_LOOP_SEED` on.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fgrad
from fgrad import lax

COUNT = int(os.environ.get("FGRAD_LOOP_PROGRAMS", "16"))
FIRST = int(os.environ.get("FGRAD_LOOP_SEED", "0"))
State = dict[str, Any]


class Writer:
    """Draws functions of a state: numbers, small arrays, an array that is written in place."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.w = self.rng.normal(size=(3, 3)) / 3
        self.table = self.rng.normal(size=40)

    def pick(self, *choices: Any) -> Any:
        return choices[self.rng.integers(len(choices))]

    def statement(self, depth: int) -> Callable[[State, Any], State]:
        kinds = [self.scalar, self.vector, self.matrix, self.write, self.read, self.counter]
        if depth:
            kinds += [self.loop, self.loop, self.branch, self.until, self.stacked]
        return self.pick(*kinds)(depth)

    def block(self, depth: int, count: int) -> Callable[[State, Any], State]:
        statements = [self.statement(depth) for _ in range(count)]

        def run(s: State, i: Any) -> State:
            for statement in statements:
                s = statement(s, i)
            return s

        return run

    def scalar(self, _depth: int) -> Callable[[State, Any], State]:
        c = float(self.rng.normal())
        f = self.pick(
            lambda s, i: np.sin(s["a"] + c),
            lambda s, i: 0.5 * s["a"] * s["v"][1] + c,
            lambda s, i: np.tanh(np.sum(s["v"]) - s["a"]),
            lambda s, i: np.where(s["a"] > c, 0.3 * s["a"], s["v"][0] - s["a"]),
            lambda s, i: s["a"] / (1.0 + s["a"] ** 2) + i * 0.1,
            lambda s, i: np.max(s["m"]) * 0.5 + c,
        )
        return lambda s, i: {**s, "a": f(s, i)}

    def vector(self, _depth: int) -> Callable[[State, Any], State]:
        w = self.w
        f = self.pick(
            lambda s, i: np.tanh(w @ s["v"] + s["a"]),
            lambda s, i: np.cos(s["v"][::-1]) * s["a"] * 0.3,
            lambda s, i: np.stack([s["v"][2], np.tanh(s["a"]), s["v"][0]]),
            lambda s, i: np.concatenate([s["v"][1:], np.sin(s["v"][:1])]),
            lambda s, i: np.cumsum(s["v"]) * 0.3,
            lambda s, i: np.maximum(s["v"], 0.1 * s["a"]),
        )
        return lambda s, i: {**s, "v": f(s, i)}

    def matrix(self, _depth: int) -> Callable[[State, Any], State]:
        f = self.pick(
            lambda s, i: np.tanh(s["m"] @ s["m"].T),
            lambda s, i: np.outer(s["v"][:2], s["v"][1:]) * 0.4 + 0.1 * s["m"],
            lambda s, i: s["m"] * 0.5 + np.reshape(np.pad(s["v"], (0, 1)), (2, 2)),
            lambda s, i: s["m"] / (1.0 + np.sum(s["m"] ** 2)),
            lambda s, i: np.linalg.solve(s["m"] @ s["m"].T + np.eye(2), s["m"] * 0.5),
            lambda s, i: np.linalg.cholesky(s["m"] @ s["m"].T + np.eye(2)),
        )
        return lambda s, i: {**s, "m": f(s, i)}

    def counter(self, _depth: int) -> Callable[[State, Any], State]:
        k = int(self.rng.integers(-3, 4))
        f = self.pick(
            lambda s, i: s["n"] + k,
            lambda s, i: (s["n"] * 3 + i) % 17,
            lambda s, i: np.where(s["n"] > 8, s["n"] - 5, s["n"] + 1),
        )
        return lambda s, i: {**s, "n": f(s, i)}

    def write(self, _depth: int) -> Callable[[State, Any], State]:
        k = int(self.rng.integers(0, 6))
        mode = self.pick("set", "add", "max")

        def run(s: State, i: Any) -> State:
            at = s["y"].at[(i + k) % 20] if k % 2 else s["y"].at[s["n"] % 20]
            return {**s, "y": getattr(at, mode)(np.tanh(s["a"]))}

        return run

    def read(self, _depth: int) -> Callable[[State, Any], State]:
        k, table = int(self.rng.integers(0, 6)), self.table
        f = self.pick(
            lambda s, i: s["y"][i + k] * 0.7,
            lambda s, i: s["y"][s["n"] % 20] + 0.1 * s["a"],
            lambda s, i: 0.1 * s["a"] + fgrad.numpy.take(table, (s["n"] + i) % 40),
            lambda s, i: s["v"][i % 3] - s["m"][i % 2, 1],
        )
        return lambda s, i: {**s, "a": f(s, i)}

    def loop(self, depth: int) -> Callable[[State, Any], State]:
        length, body = int(self.rng.integers(0, 7)), self.block(depth - 1, 2)
        return lambda s, i: lax.fori_loop(0, length, lambda j, s: body(s, j), s)

    def branch(self, depth: int) -> Callable[[State, Any], State]:
        one, two = self.block(depth - 1, 1), self.block(depth - 1, 2)
        test = self.pick(
            lambda s, i: s["a"] > 0.1, lambda s, i: i % 2 == 0, lambda s, i: s["n"] < 5
        )
        return lambda s, i: lax.cond(test(s, i), lambda s: one(s, i), lambda s: two(s, i), s)

    def until(self, depth: int) -> Callable[[State, Any], State]:
        body = self.block(depth - 1, 1)
        limit = float(abs(self.rng.normal())) + 0.1
        most = self.pick(6, None)  # without a bound, its derivative keeps some of the steps

        def run(s: State, i: Any) -> State:
            test = lambda c: np.logical_and(c[0] < 5, np.abs(c[1]["a"]) < limit)  # noqa: E731
            return lax.while_loop(test, lambda c: (c[0] + 1, body(c[1], c[0])), (0, s), most)[1]

        return run

    def stacked(self, depth: int) -> Callable[[State, Any], State]:
        body, reverse = self.block(depth - 1, 1), bool(self.rng.integers(2))

        def run(s: State, i: Any) -> State:
            def step(s: State, x: Any) -> Any:
                s = body({**s, "a": s["a"] + 0.1 * x}, i)
                return s, np.sin(s["a"]) * s["v"]

            s, ys = lax.scan(step, s, s["v"], reverse=reverse)
            return {**s, "v": np.tanh(ys[0] + ys[:, 1])}

        return run

    def function(self) -> Callable[[Any, Any, Any, Any], Any]:
        body, length = self.block(2, 3), int(self.rng.integers(1, 9))
        reverse = bool(self.rng.integers(2))

        def f(a: Any, v: Any, m: Any, y: Any) -> Any:
            def step(s: State, x: Any) -> Any:
                s = body({**s, "a": s["a"] + x[0]}, x[1])
                return s, (s["a"] * s["v"], s["n"])

            s = {"a": a, "v": v, "m": m, "y": y, "n": 2}
            items = (self.table[:length], np.arange(length))
            s, (ys, n) = lax.scan(step, s, items, reverse=reverse)
            weights = np.linspace(0.5, 1.0, 20)
            out = np.sum(ys) + np.sum(s["m"]) + np.sum(s["y"] * weights) + s["a"]
            return out, (s, ys, n)

        return f


def close(a: Any, b: Any, rtol: float = 1e-9) -> None:
    fgrad.tree.map(lambda p, q: np.testing.assert_allclose(p, q, rtol=rtol, atol=rtol), a, b)


def arguments(seed: int) -> tuple[Any, ...]:
    rng = np.random.default_rng([seed, 1])
    return rng.normal(), rng.normal(size=3), rng.normal(size=(2, 2)), rng.normal(size=20)


def check_differences(f: Any, args: Any, way: Any, along: float, seed: int) -> None:
    """The derivative along a direction, where the differences of two steps agree: elsewhere a
    branch or the end of a loop lies between the points."""

    def difference(h: float) -> float:
        ends = [f(*[x + s * t for x, t in zip(args, way, strict=True)]) for s in (h, -h)]
        return float(ends[0] - ends[1]) / (2 * h)

    wide, narrow = difference(1e-5), difference(1e-6)
    if abs(wide - narrow) < 1e-5 * (1 + abs(narrow)):
        np.testing.assert_allclose(along, narrow, rtol=1e-4, atol=1e-5, err_msg=str(seed))
        CHECKED.append(seed)


CHECKED: list[int] = []  # the programs whose derivatives were compared with differences


@pytest.mark.parametrize("part", range(4))
def test_programs(part: int) -> None:
    share = -(-COUNT // 4)
    for seed in range(FIRST + part * share, FIRST + (part + 1) * share):
        f, args = Writer(seed).function(), arguments(seed)
        close(fgrad.jit(f)(*args), f(*args))
        slope = fgrad.grad(lambda *args, f=f: f(*args)[0], argnums=(0, 1, 2, 3))
        pulled = fgrad.jit(slope)(*args)
        way = arguments(seed + 1000)
        pushed = fgrad.jit(lambda *args, f=f, way=way: fgrad.jvp(lambda *a: f(*a)[0], args, way)[1])
        along = sum([np.vdot(p, t) for p, t in zip(pulled, way, strict=True)])
        np.testing.assert_allclose(along, pushed(*args), rtol=1e-7, atol=1e-8, err_msg=str(seed))
        check_differences(fgrad.jit(lambda *args, f=f: f(*args)[0]), args, way, along, seed)
        if seed % 4 == 1:
            many = [np.stack(column) for column in zip(*map(arguments, range(9)), strict=True)]
            expected = [slope(*[x[k] for x in many]) for k in range(9)]
            stacked = [np.stack(column) for column in zip(*expected, strict=True)]
            close(fgrad.jit(fgrad.vmap(slope))(*many), tuple(stacked), 1e-8)
        if seed % 4 == 0:
            close(slope(*args), pulled, 1e-8)


def test_most_programs_are_smooth_where_they_are_tried() -> None:
    assert len(CHECKED) > COUNT // 2
