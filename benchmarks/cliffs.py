"""Programs that once took far more time than they need, beside JAX, autograd, PyTorch or NumPy.

python benchmarks/cliffs.py [--only checkpoint] [--write results/cliffs.md]

The libraries take turns in one process (A B A B ...); a time is the tenth percentile of all calls.
"""

from __future__ import annotations

import argparse
import importlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from eager_table import Row, alternate, show
from harness import machine
from libraries import has

import fgrad

Call = Callable[[], Any]


# --- cliffs ---------------------------------------------------------------------------------------


class Cliff(NamedTuple):
    """A program, and what makes a call of it for each library that has it."""

    name: str
    calls: Callable[[], dict[str, Call]]
    before: str = ""  # what it took on commit 78119a5


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


def _remat(side: int) -> dict[str, Call]:
    """The gradient of twenty rematerialised layers at the prompt, beside the same without."""
    w, x = np.eye(side), np.ones((side, side))

    def loss(xp: Any, wrap: Callable[[Any], Any]) -> Callable[[Any], Any]:
        step = wrap(lambda x: xp.tanh(xp.dot(x, w)) + x)

        def f(x: Any) -> Any:
            for _ in range(20):
                x = step(x)
            return xp.sum(x)

        return f

    kept, plain = fgrad.grad(loss(np, _same)), loss(np, _same)
    remade = fgrad.grad(loss(np, fgrad.checkpoint))
    found: dict[str, Call] = {
        "fgrad": lambda: remade(x),
        "plain gradient and a forward pass": lambda: (kept(x), plain(x)),
    }
    if has("autograd"):
        xp, a = (importlib.import_module(f"autograd{part}") for part in (".numpy", ""))
        g = a.grad(loss(xp, a.checkpoint))
        found["autograd"] = lambda: g(x)
    if has("torch"):
        found["torch"] = _torch_remat(w, x)
    if has("jax"):
        jax = _jax()
        j = jax.grad(loss(jax.numpy, jax.checkpoint))
        found["jax"] = lambda: j(x).block_until_ready()
    return found


def _same(f: Any) -> Any:
    return f


def _torch_remat(w: np.ndarray, x: np.ndarray) -> Call:
    torch = importlib.import_module("torch")
    again = importlib.import_module("torch.utils.checkpoint").checkpoint
    weights = torch.tensor(w)

    def gradient() -> Any:
        start = torch.tensor(x, requires_grad=True)
        y = start
        for _ in range(20):
            y = again(lambda y: torch.tanh(y @ weights) + y, y, use_reentrant=False)
        y.sum().backward()
        return start.grad

    return gradient


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


def _lengths(carried: bool, branch: bool) -> dict[str, Call]:
    """Loops of 32 lengths in a batch, with a matrix that they carry or close over."""
    rng = np.random.default_rng(0)
    w, xs, ns = rng.normal(size=(300, 300)) / 20, rng.normal(size=(32, 300)), np.arange(1, 33)

    def loop(xp: Any, lax: Any) -> Callable[..., Any]:
        def turned(c: Any) -> Any:
            return xp.tanh(c[1] @ c[0]), c[1]

        def step(i: Any, c: Any) -> Any:
            return (
                lax.cond(i % 2 == 0, turned, lambda c: (c[0] * 0.5, c[1]), c)
                if branch
                else turned(c)
            )

        def f(n: Any, x: Any, w: Any) -> Any:
            if carried:
                return lax.fori_loop(0, n, step, (x, w))[0]
            return lax.fori_loop(0, n, lambda i, x: step(i, (x, w))[0], x)

        return f

    f = fgrad.jit(fgrad.vmap(loop(np, fgrad.lax), (0, 0, None)))
    found: dict[str, Call] = {"fgrad": lambda: f(ns, xs, w)}
    if has("jax"):
        jax = _jax()
        g = jax.jit(jax.vmap(loop(jax.numpy, jax.lax), (0, 0, None)))
        found["jax"] = lambda: g(ns, xs, w).block_until_ready()
    return found


def chain(steps: int) -> Callable[[Any, Any], Any]:
    """A long loop."""

    def f(xp: Any, x: Any) -> Any:
        for _ in range(steps):
            x = xp.sin(x) * 0.999
        return xp.sum(x)

    return f


def elements(xp: Any, x: Any) -> Any:
    """Elements of a vector one by one."""
    total = 0.0
    for i in range(x.shape[0]):
        total = total + x[i] ** 2
    return total


def arrays_of_places(xp: Any, x: Any) -> Any:
    """Reads at computed places."""
    total, places = 0.0, np.array([0, 3, 5])
    for i in range(x.shape[0] - 5):
        total = total + xp.sum(x[places + i] ** 2)
    return total


def grown(xp: Any, x: Any) -> Any:
    """An array that grows."""
    y = x[:1]
    for i in range(1, x.shape[0]):
        y = xp.concatenate([y, x[i : i + 1] * y[-1:]])
    return xp.sum(y)


def recursion(xp: Any, x: Any, depth: int = 200) -> Any:
    """A recursive function."""
    return recursion(xp, xp.sin(x) * 0.999, depth - 1) if depth else xp.sum(x)


def _writes(n: int) -> dict[str, Call]:
    """A recurrence that is written into one array."""
    x = _line(n)

    def f(x: Any) -> Any:
        y = fgrad.numpy.zeros(n)
        y[0] = x[0]
        for i in range(1, n):
            y[i] = y[i - 1] * 0.99 + x[i]
        return np.sum(y)

    g = fgrad.grad(f)
    return {"fgrad": lambda: g(x)}


def _views(n: int) -> dict[str, Call]:
    """A view of a view, and so on."""

    def f(x: Any) -> Any:
        for _ in range(n):
            x = x[::-1]
        return np.sum(x)

    g, x = fgrad.grad(f), _line(3)
    found: dict[str, Call] = {"fgrad": lambda: g(x)}
    if has("autograd"):
        xp, a = (importlib.import_module(f"autograd{part}") for part in (".numpy", ""))

        def same(x: Any) -> Any:
            for _ in range(n):
                x = x[::-1]
            return xp.sum(x)

        h = a.grad(same)
        found["autograd"] = lambda: h(x)
    return found


def _one(name: str, apply: Callable[[Any, Any], Any], x: np.ndarray, before: str) -> Cliff:
    def loss(xp: Any, x: Any) -> Any:
        return xp.sum(apply(xp, x))

    return Cliff(name, lambda: _gradients(loss, x, False), before)


def _matrix(n: int) -> np.ndarray:
    return np.random.default_rng(0).normal(size=(n, n))


def _line(n: int) -> np.ndarray:
    return np.random.default_rng(0).normal(size=n)


_MANY = _line(1_000_000)

CLIFFS = (
    Cliff(
        "200 rolls of 1e6, prompt",
        lambda: _gradients(many_rolls, _MANY, False),
        "14 s, 3,093 MB (autograd 0.6 s, 64 MB)",
    ),
    *[
        Cliff(
            f"{n} reads a[i, i], {'jit' if compiled else 'prompt'}",
            lambda n=n, compiled=compiled: _gradients(diagonal, _matrix(n), compiled),
            {400: "49 ms", 800: "164 ms"}.get(n, "") if compiled else "24 ms" * (n == 800),
        )
        for compiled in (False, True)
        for n in (400, 800)
    ],
    Cliff("400 windows x[i:i+8], prompt", lambda: _gradients(windows, _line(408), False)),
    Cliff("400 windows x[i:i+8], jit", lambda: _gradients(windows, _line(408), True)),
    Cliff("100 reads a[i, i], second order", lambda: _second(diagonal, _matrix(100))),
    Cliff("a carry that never changes, 2000 x 2000", _unchanged, "2.0 ms (JAX 0.03)"),
    _one("prod of 1e6", lambda xp, x: xp.prod(x), np.full(1_000_000, 1.0), "13 of autograd's"),
    _one(
        "einsum ij,ij-> of 1e6",
        lambda xp, x: xp.einsum("ij,ij->", x, x),
        _MANY.reshape(1000, 1000),
        "8.7 of autograd's",
    ),
    _one("logaddexp of 1e6", lambda xp, x: xp.logaddexp(x, x * 2.0), _MANY, "2-3.5 of autograd's"),
    _one("sort of 1e6", lambda xp, x: xp.sort(x), _MANY, "2.8 of autograd's"),
    _one("division of 1e6", lambda xp, x: x / (x + 9.0), _MANY, "2.2 of autograd's"),
    _one("fft of 1e6", lambda xp, x: xp.abs(xp.fft.fft(x)), _MANY, "2.1 of autograd's"),
    Cliff("np.vander in a gradient", _vander, "10.4 ms (powers 3.8, polyval 0.72)"),
    Cliff(
        "a batch of loops of 32 lengths, carried",
        lambda: _lengths(True, False),
        "0.83 s, larger (JAX 0.30)",
    ),
    Cliff(
        "a batch of loops of 32 lengths, closed over",
        lambda: _lengths(False, False),
        "0.036 s, larger",
    ),
    Cliff("the same through cond, carried", lambda: _lengths(True, True), "84 ms"),
    Cliff(
        "20 checkpoints at the prompt, 8 x 8",
        lambda: _remat(8),
        "0.69 ms to 0.26 (2.7 times the plain gradient)",
    ),
    Cliff("20 checkpoints at the prompt, 200 x 200", lambda: _remat(200)),
    *[
        Cliff(f"{n} steps, {what}", lambda n=n, x=x: _gradients(chain(n), x, False))
        for what, x in (("a number", np.float64(0.5)), ("1,000 numbers", _line(1000)))
        for n in (5_000, 10_000)
    ],
    *[
        Cliff(f"{n} reads {what}", lambda n=n, f=f: _gradients(f, _line(n), False))
        for what, f in (("x[i]", elements), ("x[array]", arrays_of_places))
        for n in (500, 1000)
    ],
    *[Cliff(f"{n} writes into one array", lambda n=n: _writes(n)) for n in (1000, 2000)],
    *[
        Cliff(f"{n} times concatenate", lambda n=n: _gradients(grown, _line(n), False))
        for n in (500, 1000)
    ],
    Cliff("200 recursive calls", lambda: _gradients(recursion, _line(10), False)),
    *[
        Cliff(f"{n} views of views", lambda n=n: _views(n), "38 s" * (n == 20_000))
        for n in (10_000, 20_000)
    ],
)


def rows(chosen: str = "", seconds: float = 1.5) -> list[tuple[Cliff, Row]]:
    """The time of each cliff for all libraries that have it, in milliseconds."""
    found = []
    for cliff in CLIFFS:
        if chosen in cliff.name:
            times = alternate(cliff.calls(), seconds)
            found.append((cliff, Row(cliff.name, {name: t * 1e3 for name, t in times.items()})))
            show(found[-1][1], "ms")
    return found


def page(found: Sequence[tuple[Cliff, Row]]) -> str:
    """The times as a table in Markdown."""
    lines = ["| | fgrad, ms | others, ms: ratio | before |", "|---|---|---|---|"]
    for cliff, row in found:
        own = row.figures["fgrad"]
        others = [f"{k} {t:.4g}: {own / t:.2f}" for k, t in row.figures.items() if k != "fgrad"]
        lines.append(f"| {row.name} | {own:.4g} | {', '.join(others)} | {cliff.before} |")
    return "\n".join(lines)


def main() -> None:
    """Measure what is asked for, all of it by default, and write a page of it."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--only", default="", help="a part of the names of rows")
    options.add_argument("--seconds", type=float, default=1.5, help="for each row")
    options.add_argument("--write", type=Path, help="a file for the table, in Markdown")
    given = options.parse_args()
    found = rows(given.only, given.seconds)
    if given.write:
        about = ", ".join([f"{key} {value}" for key, value in machine().items()])
        head = f"# Cliffs\n\nMade by `benchmarks/cliffs.py`: {about}."
        told = "Gradients at the prompt unless a row says jit; ratios are fgrad's time to theirs."
        given.write.write_text("\n\n".join([head, told, page(found)]) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
