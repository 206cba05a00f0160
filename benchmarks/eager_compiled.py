"""Gradients at the prompt that compile themselves, beside jit, autograd, torch, JAX and Numba.

python benchmarks/eager_compiled.py [--only kalman] [--write page.md]

`grad(f)(x)` is made anew at each call, as one types it.  The libraries take turns (A B A B ...) in
one process; a time is the least of the turns, as what a busy machine takes away is in the others.
The gradients for Numba are written by hand.
"""

from __future__ import annotations

import argparse
import importlib
import math
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from eager import Peer, peers
from harness import machine, same_numbers
from libraries import has

import fgrad
from fgrad.compile.prompt import calls

TURNS, TURN_SECONDS = 200, 0.002
STEPS = 60  # of the Kalman filter


class Program(NamedTuple):
    """A loss for a library, its argument, and its gradient as Numba compiles it."""

    name: str
    loss: Callable[[Any], Callable[[Any], Any]]
    argument: Any
    by_hand: Callable[[], Callable[[Any], Any]]


def rosenbrock(_xp: Any) -> Callable[[Any], Any]:
    """A banana valley in ten dimensions."""

    def f(x: Any) -> Any:
        total = 0.0
        for i in range(9):
            total = total + 100.0 * (x[i + 1] - x[i] ** 2) ** 2 + (1.0 - x[i]) ** 2
        return total

    return f


def rosenbrock_by_hand() -> Callable[[Any], Any]:
    def gradient(x: Any) -> Any:
        g = np.zeros(10)
        for i in range(9):
            a, b = x[i + 1] - x[i] ** 2, 1.0 - x[i]
            g[i + 1] += 200.0 * a
            g[i] += -400.0 * a * x[i] - 2.0 * b
        return g

    return gradient


def sines(xp: Any) -> Callable[[Any], Any]:
    """Scalar operations one after the other."""

    def f(y: Any) -> Any:
        for _ in range(25):
            y = xp.sin(y) * 1.1
        return y

    return f


def sines_by_hand() -> Callable[[Any], Any]:
    def gradient(y: Any) -> Any:
        slope = 1.0
        for _ in range(25):
            slope *= math.cos(y) * 1.1
            y = math.sin(y) * 1.1
        return slope

    return gradient


def examples() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    return rng.normal(size=(500, 20)), np.sign(rng.normal(size=500))


def logistic(xp: Any) -> Callable[[Any], Any]:
    """A step of a logistic regression: 500 examples of 20 numbers."""
    x, y = map(xp.asarray, examples())

    def f(w: Any) -> Any:
        return xp.mean(xp.log1p(xp.exp(-y * (x @ w))))

    return f


def logistic_by_hand() -> Callable[[Any], Any]:
    x, y = examples()

    def gradient(w: Any) -> Any:
        e = np.exp(-y * (x @ w))
        return (-y * e / (1.0 + e)) @ x / len(y)

    return gradient


def observations() -> np.ndarray:
    return np.cumsum(np.random.default_rng(0).normal(size=STEPS))


def kalman(xp: Any) -> Callable[[Any], Any]:
    """The likelihood of the two variances of a local level, by a Kalman filter."""
    seen = observations()

    def f(p: Any) -> Any:
        q, r = xp.exp(p[0]), xp.exp(p[1])
        mean, variance, total = 0.0, 1.0, 0.0
        for z in seen:
            variance = variance + q
            s = variance + r
            error = z - mean
            total = total + 0.5 * (xp.log(2.0 * math.pi * s) + error * error / s)
            gain = variance / s
            mean = mean + gain * error
            variance = (1.0 - gain) * variance
        return total

    return f


def kalman_by_hand() -> Callable[[Any], Any]:
    seen = observations()

    def gradient(p: Any) -> Any:
        g = np.zeros(2)
        for k in range(2):  # forward mode, along each argument
            q, r = math.exp(p[0]), math.exp(p[1])
            dq, dr = (q, 0.0) if k == 0 else (0.0, r)
            m = dm = dv = 0.0
            v = 1.0
            for z in seen:
                v, dv = v + q, dv + dq
                s, ds = v + r, dv + dr
                e, de = z - m, -dm
                g[k] += 0.5 * (ds / s + 2.0 * e * de / s - e * e * ds / (s * s))
                gain, dgain = v / s, (dv - v / s * ds) / s
                m, dm = m + gain * e, dm + dgain * e + gain * de
                v, dv = (1.0 - gain) * v, (1.0 - gain) * dv - dgain * v
        return g

    return gradient


PROGRAMS = (
    Program("Rosenbrock, 10 dimensions", rosenbrock, np.linspace(-1, 1, 10), rosenbrock_by_hand),
    Program("25 sines of a scalar", sines, np.float64(0.7), sines_by_hand),
    Program("logistic regression, 500 x 20", logistic, np.zeros(20), logistic_by_hand),
    Program(f"Kalman filter, {STEPS} steps", kalman, np.array([0.1, 0.2]), kalman_by_hand),
)


class Runner(NamedTuple):
    """How one library takes a gradient, and the setting under which it does."""

    call: Callable[[], Any]
    setting: int = 0


def runners(program: Program) -> Iterator[tuple[str, Runner]]:
    """The gradient of a program by each library that is installed."""
    loss, x = program.loss(np), program.argument
    jitted = fgrad.jit(fgrad.grad(loss))
    yield "interpreted", Runner(lambda: fgrad.grad(loss)(x))
    yield "compiled", Runner(lambda: fgrad.grad(loss)(x), 1)
    yield "jit", Runner(lambda: jitted(x))
    for peer in peers()[1:]:
        yield peer.name, Runner(_at_prompt(peer, program))
    if has("jax"):
        jax = importlib.import_module("jax")
        compiled = jax.jit(jax.grad(program.loss(jax.numpy)))
        given = jax.numpy.asarray(x)
        yield "jax.jit", Runner(lambda: compiled(given).block_until_ready())
    if has("numba"):
        by_hand = importlib.import_module("numba").njit(program.by_hand())
        yield "numba", Runner(lambda: by_hand(x))


def _at_prompt(peer: Peer, program: Program) -> Callable[[], Any]:
    loss, x = program.loss(peer.np), peer.array(program.argument)
    return lambda: peer.grad(loss)(x)


def calls_until_compiled(program: Program) -> int:
    """How many calls are interpreted."""
    loss, x, count = program.loss(np), program.argument, 0
    with fgrad.config.override(eager_compile=1):
        while not is_compiled(loss):
            fgrad.grad(loss)(x)
            count += 1
    return count


def is_compiled(loss: Any) -> bool:
    """Whether calls of a function's gradient are compiled."""
    kinds = calls.history_of(loss.__code__).kinds.values()
    return any([kind.compiled is not None for kind in kinds])


def times(program: Program) -> dict[str, float]:
    """Microseconds a call, for each library."""
    found = dict(runners(program))
    wanted = np.asarray(found["jit"].call())
    counts: dict[str, int] = {}
    for name, runner in found.items():
        fgrad.config.eager_compile = 2 if runner.setting else 0
        for _ in range(12 if name != "jax" else 1):
            result = runner.call()
        assert same_numbers(np.asarray(result), wanted), name
        start = time.perf_counter()
        runner.call()
        counts[name] = max(1, int(TURN_SECONDS / (time.perf_counter() - start)))
    kept: dict[str, list[float]] = {name: [] for name in found}
    for turn in range(TURNS):
        for name, runner in found.items():
            if counts[name] == 1 and turn >= 20:
                continue
            fgrad.config.eager_compile = 2 if runner.setting else 0
            start = time.perf_counter()
            for _ in range(counts[name]):
                runner.call()
            kept[name].append((time.perf_counter() - start) / counts[name] * 1e6)
    fgrad.config.eager_compile = 0
    return {name: min(all_) for name, all_ in kept.items()}


def table(rows: dict[str, dict[str, float]]) -> str:
    """The rows in Markdown."""
    names = list(dict.fromkeys([name for row in rows.values() for name in row]))
    lines = [
        "| | " + " | ".join([*names, "compiled / jit"]) + " |",
        "|---" * (len(names) + 2) + "|",
    ]
    for title, row in rows.items():
        cells = [f"{row[name]:.3g}" if name in row else "" for name in names]
        lines.append(f"| {title} | {' | '.join(cells)} | {row['compiled'] / row['jit']:.1f} |")
    return "\n".join(lines)


def main() -> None:
    """Measure, and write a page."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--only", default="", help="a part of the names of programs")
    options.add_argument("--write", type=Path, help="a file for the table, in Markdown")
    given = options.parse_args()
    rows: dict[str, dict[str, float]] = {}
    for program in PROGRAMS:
        if given.only in program.name:
            waits = calls_until_compiled(program)
            rows[program.name] = {**times(program), "calls before": waits}
            print(program.name, rows[program.name], flush=True)
    print(table(rows))
    if given.write:
        about = ", ".join([f"{key} {value}" for key, value in machine().items()])
        head = (
            "# Gradients at the prompt that compile themselves\n\n"
            f"Made by `benchmarks/eager_compiled.py`: {about}.\n\nMicroseconds a call; "
            "`calls before`: how many are interpreted with `fgrad.config.eager_compile = 1`."
        )
        given.write.write_text(f"{head}\n\n{table(rows)}\n", encoding="utf-8")


if __name__ == "__main__":
    main()
