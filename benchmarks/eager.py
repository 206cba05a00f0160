"""Gradients at the prompt: no jit, as one types them; fgrad, HIPS autograd, torch and JAX in turns.

python benchmarks/eager.py [--only rosenbrock] [--json results.json]
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from harness import (
    Result,
    geometric_mean,
    parser,
    ratio,
    show_header,
    show_row,
    take_turns,
    write_json,
    wrong_ones,
)
from libraries import has

import fgrad


class Peer(NamedTuple):
    """A library that differentiates at once: its array functions, arrays and gradient."""

    name: str
    np: Any
    array: Callable[[np.ndarray], Any]
    grad: Callable[[Callable[..., Any]], Callable[..., Any]]


def peers() -> list[Peer]:
    """fgrad, and those of the others that are installed."""
    found = [Peer("fgrad", np, lambda x: x, fgrad.grad)]
    if has("autograd"):
        autograd = importlib.import_module("autograd")
        anp = importlib.import_module("autograd.numpy")
        found.append(Peer("autograd", anp, lambda x: x, autograd.grad))
    if has("torch"):
        torch = importlib.import_module("torch")

        def torch_grad(fun: Callable[..., Any]) -> Callable[..., Any]:
            def gradient(x: Any, *rest: Any) -> Any:
                leaf = x.detach().requires_grad_()
                return torch.autograd.grad(fun(leaf, *rest), leaf)[0]

            return gradient

        found.append(Peer("torch", torch, torch.as_tensor, torch_grad))
    if has("jax"):
        jax = importlib.import_module("jax")
        jax.config.update("jax_enable_x64", True)
        jax.config.update("jax_cpu_enable_async_dispatch", False)
        found.append(Peer("jax", jax.numpy, jax.numpy.asarray, jax.grad))
    return found


def rosenbrock(peer: Peer) -> Callable[[], Any]:
    """A banana valley in ten dimensions, written with a Python loop and indexing."""

    def f(x: Any) -> Any:
        total = 0.0
        for i in range(9):
            total = total + 100.0 * (x[i + 1] - x[i] ** 2) ** 2 + (1.0 - x[i]) ** 2
        return total

    x, g = peer.array(np.linspace(-1.0, 1.0, 10)), peer.grad(f)
    return lambda: g(x)


def sines(peer: Peer) -> Callable[[], Any]:
    """Fifty scalar operations one after the other."""
    xp = peer.np

    def f(y: Any) -> Any:
        for _ in range(25):
            y = xp.sin(y) * 1.1
        return y

    x, g = peer.array(np.float64(0.7)), peer.grad(f)
    return lambda: g(x)


def logistic(peer: Peer) -> Callable[[], Any]:
    """Two hundred steps of gradient descent on logistic regression, 500 examples of 20 numbers."""
    xp = peer.np
    rng = np.random.default_rng(0)
    x = peer.array(rng.normal(size=(500, 20)))
    y = peer.array(np.sign(rng.normal(size=500)))

    def loss(w: Any) -> Any:
        return xp.mean(xp.log1p(xp.exp(-y * (x @ w))))

    g, start = peer.grad(loss), peer.array(np.zeros(20))

    def descend() -> Any:
        w = start
        for _ in range(200):
            w = w - 0.1 * g(w)
        return w

    return descend


def network(peer: Peer) -> Callable[[], Any]:
    """A small network with matrix parameters: where NumPy's own time begins to count."""
    xp = peer.np
    rng = np.random.default_rng(0)
    x, y = peer.array(rng.normal(size=(64, 32))), peer.array(rng.normal(size=(64, 1)))
    v = peer.array(rng.normal(size=(32, 1)) / 6.0)

    def loss(w: Any) -> Any:
        return xp.mean((xp.tanh(x @ w) @ v - y) ** 2)

    w, g = peer.array(rng.normal(size=(32, 32)) / 6.0), peer.grad(loss)
    return lambda: g(w)


WORKLOADS = (
    ("rosenbrock, 10-d, indexed in a loop", 0.6, rosenbrock),
    ("25 times y = sin(y) * 1.1", 0.6, sines),
    ("logistic regression 500x20, 200 gradients", 0.5, logistic),
    ("network 32-32-1, batch 64", None, network),
)


def measure(chosen: str = "", turns: int = 7) -> list[Result]:
    """A row for each workload, checked against the compiled gradient."""
    libraries = peers()
    plain = Peer("compiled", np, lambda x: x, lambda f: fgrad.jit(fgrad.grad(f)))
    results = []
    for name, goal, make in WORKLOADS:
        if chosen not in name:
            continue
        calls = {peer.name: make(peer) for peer in libraries}
        wrong = wrong_ones({n: np.asarray(call()) for n, call in calls.items()}, make(plain)())
        note = f"NUMBERS DIFFER: {', '.join(wrong)}" if wrong else ""
        results.append(Result(name, take_turns(calls, turns), goal, note))
        show_row(results[-1], "autograd" if "autograd" in calls else "")
    return results


def main() -> None:
    """Print the table; the ratio is fgrad's time to autograd's."""
    options = parser("Eager gradients, in turns").parse_args()
    show_header("eager gradients", ["fgrad", "autograd", "ratio", "goal"])
    results = measure(options.only)
    ratios = [q for r in results if (q := ratio(r, "autograd")) is not None]
    print(f"\ngeometric mean of the ratios: {geometric_mean(ratios):.3f}")
    write_json(options.json, results)


if __name__ == "__main__":
    main()
