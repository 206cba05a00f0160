"""grad(f, memory=...): the same gradients in a given memory."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

import fgrad
from fgrad.errors import ArgumentError, MemoryBudgetWarning
from fgrad.transforms.checkpoint.memory_budget import Choice, apply, choose, held, predicted
from tests.transforms.functions import CASES, Smooth

X = np.array([0.4, -0.3, 0.8])


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.name)
@pytest.mark.parametrize("memory", [1, "200 B", "1 GB"])
def test_gradient_is_the_same(case: Smooth, memory: Any) -> None:
    expected = fgrad.grad(case.fun)(X)
    f = fgrad.grad(case.fun, memory=memory)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", MemoryBudgetWarning)
        assert np.allclose(f(X), expected, rtol=1e-10)
        assert np.allclose(fgrad.jit(f)(X), expected, rtol=1e-10)
        assert np.allclose(fgrad.jacfwd(f)(X), fgrad.hessian(case.fun)(X), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("parts", [1, 2, 3, 7])
@pytest.mark.parametrize("inner", [1, 2])
@pytest.mark.parametrize("products", [False, True])
def test_every_cut_gives_the_same(parts: int, inner: int, products: bool) -> None:
    program = fgrad.make_program(CASES[0].fun)(X)
    for saved in range(parts):
        (found,) = apply(program, [X], Choice(parts, saved, inner, False, products))
        assert np.isclose(found, CASES[0].fun(X), rtol=1e-12)


def chain(ws: Any, h: Any) -> Any:
    """A network of 24 layers."""
    for w in ws:
        h = np.tanh(h @ w)
    return np.sum(h * h)


def data(rng: np.random.Generator) -> tuple[Any, Any]:
    """Its weights and a batch."""
    return [rng.normal(size=(16, 16)) / 4 for _ in range(24)], rng.normal(size=(2048, 16))


@pytest.mark.parametrize("memory", ["6 MB", "4 MB", "3 MB"])
def test_compiled_code_keeps_the_budget(memory: str, rng: np.random.Generator) -> None:
    ws, h = data(rng)
    stages = fgrad.inspect(fgrad.grad(chain, memory=memory))(ws, h)
    assert stages.memory.temporaries <= float(memory.split()[0]) * 1e6
    found = fgrad.jit(fgrad.grad(chain, memory=memory))(ws, h)
    for a, b in zip(found, fgrad.grad(chain)(ws, h), strict=True):
        assert np.allclose(a, b, rtol=1e-8)


def test_less_memory_costs_more(rng: np.random.Generator) -> None:
    ws, h = data(rng)
    program = fgrad.make_program(chain)(ws, h)
    wanted = (True,) * len(ws) + (False,)
    plain = predicted(program, wanted, Choice())
    costs = []
    for fraction in (1.0, 0.7, 0.5, 0.4, 0.36):
        choice = choose(program, wanted, int(plain * fraction), "chain")
        assert predicted(program, wanted, choice) <= plain * fraction
        costs.append(choice.cost)
    assert costs == sorted(costs) and costs[0] == Choice().cost


def test_products_are_kept_where_the_rest_is_enough(rng: np.random.Generator) -> None:
    def f(ws: Any, h: Any) -> Any:
        for w in ws:
            z = h @ w
            h = z / (1.0 + np.exp(-1.7 * np.sin(z) - 0.1 * z**3))
        return np.sum(h)

    ws, h = data(rng)
    program = fgrad.make_program(f)(ws, h)
    wanted = (True,) * len(ws) + (False,)
    choice = choose(program, wanted, predicted(program, wanted, Choice()) // 2, "f")
    assert choice.products and choice.parts > 1
    found = fgrad.jit(fgrad.grad(f, memory="30 MB"))(ws, h)
    for a, b in zip(found, fgrad.grad(f)(ws, h), strict=True):
        assert np.allclose(a, b, rtol=1e-8)


def test_loops_keep_few_carries() -> None:
    def loss(x: Any) -> Any:
        step = lambda c, _: (np.sin(c) + 0.1 * c[::-1], None)  # noqa: E731
        return np.sum(fgrad.lax.scan(step, x, length=900)[0])

    x = np.linspace(0.0, 1.0, 100)
    f = fgrad.grad(loss, memory="200 KB")
    assert fgrad.inspect(f)(x).memory.temporaries < 200e3
    assert np.allclose(f(x), fgrad.grad(loss)(x), rtol=1e-10)


def test_auxiliary_results_and_settings(rng: np.random.Generator) -> None:
    def f(x: Any, n: int, how: str) -> Any:
        assert how == "so"
        for _ in range(n):
            x = np.sin(x)
        return np.sum(x), {"x": x}

    x = rng.normal(size=100)
    (value, aux), gradient = fgrad.value_and_grad(f, has_aux=True, memory="8 KB")(x, 9, "so")
    assert np.isclose(value, np.sum(aux["x"]))
    assert np.allclose(gradient, fgrad.grad(f, has_aux=True)(x, 9, "so")[0])


def test_an_impossible_budget_warns(rng: np.random.Generator) -> None:
    ws, h = data(rng)
    with pytest.warns(MemoryBudgetWarning, match=r"takes .* MB at least"):
        fgrad.grad(chain, memory="10 KB")(ws, h)
    with pytest.raises(ArgumentError, match="memory='much' is not a size"):
        fgrad.grad(chain, memory="much")


def test_eager_traces_hold_less(rng: np.random.Generator) -> None:
    ws, h = data(rng)
    program = fgrad.make_program(chain)(ws, h)
    wanted = (True,) * len(ws) + (False,)
    plain = held(program, wanted, Choice())
    choice = choose(program, wanted, plain // 2, "chain", eager=True)
    assert held(program, wanted, choice) <= plain // 2 < plain
    found = fgrad.grad(chain, memory=plain // 2)(ws, h)
    for a, b in zip(found, fgrad.grad(chain)(ws, h), strict=True):
        assert np.allclose(a, b, rtol=1e-10)
