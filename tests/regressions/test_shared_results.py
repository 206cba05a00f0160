"""Results share no memory with arguments, with constants, with each other, or with earlier results.

What is excepted: an argument of `jit` that is returned is that object, as in NumPy.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fgrad
from fgrad import lax

CONSTANT = np.arange(8.0) + 1.0
Function = Callable[[Any], Any]


def twice_named(x: Any) -> Any:
    y = np.sin(x)
    return y, y


def in_containers(x: Any) -> Any:
    y = np.exp(x)
    return {"a": y, "b": [y, y[1:]]}


def views_of_one(x: Any) -> Any:
    y = np.sin(x)
    return y, y[::-1], np.reshape(y, -1), np.split(y, 2), y.real


def changed_and_not(x: Any) -> Any:
    return x * 1, x + 0.0, x.astype(float), x.copy(), np.where(True, x, 0.0)


# What fgrad's results are of, whoever asks: the value, a batch, a tangent.
FUNCTIONS: dict[str, Function] = {
    f.__name__: f for f in (twice_named, in_containers, views_of_one, changed_and_not)
} | {
    "equal expressions": lambda x: (x * 2, x * 2),
    "a view": lambda x: x[2:5],
    "backwards": lambda x: x[::-1],
    "spread": lambda x: np.broadcast_to(x[:1], (8,)),
    "a sum, spread": lambda x: np.broadcast_to(np.sum(x), (8,)),
    "a constant": lambda x: CONSTANT,
    "a constant, twice": lambda x: (CONSTANT, x + CONSTANT, CONSTANT[1:4]),
    "zeros": lambda x: (np.zeros(8), np.zeros(8)),
    "a loop": lambda x: lax.fori_loop(0, 3, lambda i, c: (c[1], c[0]), (x, x)),
    "a scan": lambda x: lax.scan(lambda c, _: (c, c), x, None, 3),
    "a branch": lambda x: lax.cond(np.sum(x) >= 0, lambda y: (y, y), lambda y: (y, y * 2), x),
    "a sort": lambda x: lax.sort_key_val(x, x),
}
RETURNED: dict[str, Function] = {
    "the argument": lambda x: x,
    "the argument, twice": lambda x: (x, x),
    "parts of it": lambda x: (x.real, np.ravel(x), x[...]),
}


def pulled(f: Function) -> Function:
    def run(x: Any) -> Any:
        value, pullback = fgrad.vjp(f, x)
        return value, pullback(value)

    return run


def beside_a_gradient(f: Function) -> Function:
    return fgrad.value_and_grad(lambda x: (np.sum(x * CONSTANT), f(x)), has_aux=True)


TRANSFORMS: dict[str, Callable[[Function], Function]] = {
    "vmap": lambda f: lambda x: fgrad.vmap(f)(np.stack([x, x])),
    "vjp": pulled,
    "jvp": lambda f: lambda x: fgrad.jvp(f, (x,), (x + 1,)),
    "linearize": lambda f: lambda x: (lambda y, push: (y, push(x)))(*fgrad.linearize(f, x)),
    "aux": beside_a_gradient,
}
GRADIENTS: dict[str, Function] = {
    "a sum": lambda x: fgrad.grad(lambda a, b: np.sum(a + b), argnums=(0, 1))(x, x),
    "of a tree": lambda x: fgrad.grad(lambda d: np.sum(d["a"] + d["b"]))({"a": x, "b": x}),
    "a cotangent": lambda x: fgrad.vjp(lambda a, b: (a + b, a - b), x, x)[1]((x, x)),
    "a constant": lambda x: fgrad.grad(lambda a: np.sum(a * CONSTANT))(x),
    "a Jacobian": lambda x: fgrad.jacfwd(lambda a: (lambda y: (y, y))(a * 2))(x),
}


def arrays(out: Any) -> list[np.ndarray]:
    return [y for y in fgrad.tree.leaves(out) if isinstance(y, np.ndarray)]


def check(run: Function, allowed: bool = False) -> None:
    """Five calls with arrays of their own: by Python, compiled, and by a native entry."""
    calls = []
    for _ in range(5):
        x = np.arange(8.0)
        found = arrays(run(x))
        calls.append((x, found, [y.copy() for y in found]))
    others: list[np.ndarray] = [CONSTANT]
    for x, found, values in calls:
        assert np.array_equal(x, np.arange(8.0))
        for y, value in zip(found, values, strict=True):
            assert y.flags.writeable
            np.testing.assert_array_equal(y, value)  # no later call has written there
            if allowed and y is x:
                continue
            assert not any([np.shares_memory(y, z) for z in (x, *others)])
            others.append(y)


@pytest.mark.parametrize("transform", TRANSFORMS)
@pytest.mark.parametrize("name", FUNCTIONS | RETURNED)
def test_results_of_a_transform(name: str, transform: str) -> None:
    run = TRANSFORMS[transform]((FUNCTIONS | RETURNED)[name])
    check(run)
    check(fgrad.jit(run))


@pytest.mark.parametrize("name", FUNCTIONS | RETURNED)
def test_results_of_jit(name: str) -> None:
    f = (FUNCTIONS | RETURNED)[name]
    for options in ({}, {"donate_argnums": 0}, {"dynamic": "auto"}):
        if name not in RETURNED and not options.get("donate_argnums", 1):
            g = fgrad.jit(f, **options)
            check(lambda x, g=g: g(x.copy()))
        else:
            check(fgrad.jit(f, **options), allowed=True)


@pytest.mark.parametrize("name", GRADIENTS)
def test_gradients(name: str) -> None:
    check(GRADIENTS[name])
    check(fgrad.jit(GRADIENTS[name]))
