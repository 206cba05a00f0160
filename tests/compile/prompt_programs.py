"""Programs at the prompt that change what their functions read between calls of gradients.

Each gives the outcomes of its calls, and its functions are compiled."""

from __future__ import annotations

import builtins
import math
import operator
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import fgrad

CALLS = 4
X = np.linspace(0.5, 1.5, 5)
RATE = 0.5
TABLE = [1.0, 2.0, np.arange(5.0)]


def helper(x: Any) -> Any:
    return RATE * np.sum(x**2)


Case = Callable[[], Iterator[Any]]
COMPILED: list[Case] = []


def compiles(case: Case) -> Case:
    COMPILED.append(case)
    return case


def calls(
    f: Callable[..., Any], *args: Any, transform: Any = fgrad.grad, **kw: Any
) -> Iterator[Any]:
    for _ in range(CALLS):
        yield transform(f, **kw)(*args)


@compiles
def closures_that_change() -> Iterator[Any]:
    scale, offset = 1.0, np.ones(5)

    def loss(x: Any) -> Any:
        return np.sum(scale * x**2 + offset * x)

    for k in range(6):
        scale, offset = float(k), np.full(5, k * 0.5)
        yield fgrad.grad(loss)(X)
    offset[2] = 100.0
    yield fgrad.grad(loss)(X)


@compiles
def lambdas_in_a_loop() -> Iterator[Any]:
    for k in range(6):
        yield fgrad.grad(lambda x, k=k * 0.25: np.sum(np.sin(k * x)))(X)


@compiles
def factories() -> Iterator[Any]:
    def make(inner: Any, factor: Any) -> Any:
        def loss(x: Any) -> Any:
            return factor * np.sum(inner(x))

        return loss

    for k, inner in enumerate([np.sin, np.cos, lambda x: x**2, np.sin, lambda x: x**3] * 3):
        yield fgrad.grad(make(inner, 1.0 + k))(X)


@compiles
def globals_rebound() -> Iterator[Any]:
    global RATE, helper
    before = RATE, helper

    def loss(x: Any) -> Any:
        return helper(x) * RATE

    try:
        for k in range(4):
            RATE = 0.5 + k
            yield fgrad.grad(loss)(X)

        def helper(x: Any) -> Any:
            return RATE * np.sum(x**3)

        yield from calls(loss, X)
        helper = np.sum
        yield from calls(loss, X)
        RATE = 3
        yield from calls(loss, X)
        RATE = np.float32(2.5)
        yield from calls(loss, X)
    finally:
        RATE, helper = before


@compiles
def default_arguments() -> Iterator[Any]:
    def loss(x: Any, w: Any = [1.0, 2.0], *, b: Any = 0.5) -> Any:  # noqa: B006
        return np.sum(x**2) * w[0] * w[1] + b * np.sum(x)

    yield from calls(loss, X)
    loss.__defaults__[0][1] = 5.0
    yield from calls(loss, X)
    loss.__kwdefaults__["b"] = 7.5
    yield from calls(loss, X)
    loss.__defaults__ = (np.ones(2),)
    yield from calls(loss, X)


@compiles
def code_exchanged() -> Iterator[Any]:
    def loss(x: Any) -> Any:
        return np.sum(x**2)

    def other(x: Any) -> Any:
        return np.sum(x**3)

    yield from calls(loss, X)
    loss.__code__ = other.__code__
    yield from calls(loss, X)


@compiles
def lists_that_change() -> Iterator[Any]:
    def loss(x: Any) -> Any:
        total = 0.0
        for part in TABLE:
            total = total + np.sum(part * x)
        return total * TABLE[0]

    yield from calls(loss, X)
    TABLE.append(3.0)
    yield from calls(loss, X)
    TABLE.pop()
    TABLE[0] = 10.0
    yield from calls(loss, X)
    TABLE[0] = 1.0
    yield from calls(loss, X)


@compiles
def dtypes() -> Iterator[Any]:
    def loss(x: Any) -> Any:
        return (np.abs(x) ** 2).sum() * 1.5

    for x in (X, X.astype(np.float32), X + 1j, X.astype(np.complex64), 2.0, np.float32(2.0)):
        yield from calls(loss, x)
    for x in (np.array(2.0), np.zeros(0), X[:, None], np.float64(3.0), 1 + 2j, [2.0, X], (2.0,)):
        yield from calls(lambda x: loss(x[0] if type(x) in (list, tuple) else x), x)


@compiles
def integers_and_containers() -> Iterator[Any]:
    def loss(p: Any, n: Any, kind: Any = "a") -> Any:
        return np.sum(p["w"] ** n) + (p["b"] if kind == "a" else 0.0)

    for n in (2, 3, 2, 3, True, 2.0, np.int64(3), np.float32(2.0)):
        yield from calls(loss, {"w": X, "b": 2.0}, n)
    for kind in ("a", "b", "a"):
        yield fgrad.grad(loss)({"b": 2.0, "w": X}, 2, kind=kind)


@compiles
def several_arguments() -> Iterator[Any]:
    def loss(w: Any, b: Any) -> Any:
        return np.sum(np.tanh(w * X + b))

    yield from calls(loss, X, 0.5, argnums=(0, 1))
    yield from calls(loss, X, 0.5, argnums=1)
    yield from calls(loss, X, X, transform=fgrad.value_and_grad, argnums=[0, 1])
    yield from calls(loss, X, X)  # one array twice


@compiles
def other_transforms() -> Iterator[Any]:
    def loss(x: Any) -> Any:
        return np.sum(np.sin(x) * x[0])

    for transform in (fgrad.value_and_grad, fgrad.jacfwd, fgrad.jacrev, fgrad.hessian):
        yield from calls(loss, X, transform=transform)
    yield from calls(fgrad.grad(loss), X, transform=fgrad.jacfwd)
    yield from calls(np.sin, X, transform=fgrad.jacrev)


@compiles
def branches_and_loops() -> Iterator[Any]:
    def loss(x: Any) -> Any:
        y = np.zeros(len(x))
        for i in range(len(x)):
            y[i] = x[i] ** 2 if x[i] > 1.0 else x[i]
        s = 0.0
        while s < 10.0:
            s += np.sum(y)
        return s

    for k in range(6):
        yield fgrad.grad(loss)(X * (0.5 + 0.25 * k))


@compiles
def auxiliary() -> Iterator[Any]:
    def loss(x: Any) -> Any:
        y = x**2
        return np.sum(y), {"y": y, "n": 3, "name": "a", "none": None, "pair": (y[0], [1.5])}

    yield from calls(loss, X, has_aux=True)
    yield from calls(loss, X, has_aux=True, transform=fgrad.value_and_grad)


@compiles
def not_a_number() -> Iterator[Any]:
    def loss(x: Any) -> Any:
        return np.sum(np.log(x) * np.sqrt(x))

    yield from calls(loss, X)
    for value in (0.0, -1.0, np.inf, np.nan, 1.0):
        x = X.copy()
        x[1] = value
        yield fgrad.grad(loss)(x)


@compiles
def overflows_that_the_gradient_hides() -> Iterator[Any]:
    def loss(x: Any) -> Any:
        return np.sum(x**2)

    yield from calls(loss, X)
    yield from calls(loss, X * 1e200)


@compiles
def results_that_are_changed() -> Iterator[Any]:
    def loss(x: Any) -> Any:
        return np.sum(x**2)

    for _ in range(CALLS):
        found = fgrad.grad(loss)(X)
        yield found.copy()
        found[:] = 0.0


@compiles
def errors_that_come_later() -> Iterator[Any]:
    def loss(x: Any, i: Any, n: Any) -> Any:
        assert n > 0.0, "n is not positive"
        total = 0.0
        for k in range(10):
            total = total + x[i[0] % 7] / n * k
        if total > 100.0:
            raise ValueError(f"total is {total}")
        return total

    i = np.array([0])
    yield from calls(loss, X, i, 1.0)
    yield lambda: fgrad.grad(loss)(X, i, -1.0)
    yield lambda: fgrad.grad(loss)(X, np.array([6]), 1.0)
    yield lambda: fgrad.grad(loss)(X * 1000, i, 1.0)
    yield lambda: fgrad.grad(loss)(X, i)
    yield lambda: fgrad.grad(loss)(X.astype(int), i, 1.0)
    yield from calls(loss, X, i, 1.0)


@compiles
def python_numbers() -> Iterator[Any]:
    def loss(x: float, y: float) -> Any:
        return x / y + math.sqrt(x) + math.sin(y) + x**0.5

    yield from calls(loss, 2.0, 3.0)
    yield lambda: fgrad.grad(loss)(2.0, 0.0)
    yield lambda: fgrad.grad(loss)(-2.0, 1.0)
    yield from calls(loss, 2.0, np.float64(3.0))


@compiles
def strided_and_read_only() -> Iterator[Any]:
    def loss(x: Any) -> Any:
        return np.sum(x * x.T @ np.ones(3))

    a = np.arange(9.0).reshape(3, 3)
    yield from calls(loss, a)
    yield from calls(loss, a.T)
    yield from calls(loss, np.asfortranarray(a))
    a.flags.writeable = False
    yield from calls(loss, a)
    yield from calls(loss, np.arange(18.0).reshape(3, 6)[:, ::2])
    yield from calls(loss, a.astype(">f8"))


@compiles
def recursion() -> Iterator[Any]:
    def power(x: Any, n: int) -> Any:
        return x if n == 1 else x * power(x, n - 1)

    yield from calls(power, 2.0, 3)
    yield from calls(power, 2.0, 5)


@compiles
def inner_functions_and_lists() -> Iterator[Any]:
    def loss(x: Any) -> Any:
        def square(y: Any) -> Any:
            return y * y

        found = []
        for k in range(3):
            found.append(square(x[k]))
        cube = lambda y: y**3  # noqa: E731
        return sum(found) + sum([cube(v) for v in x]) + operator.add(x[0], x[1])

    yield from calls(loss, X)


@compiles
def integers_beyond_64_bits() -> Iterator[Any]:
    def loss(x: Any) -> Any:
        factorial, total = 1, 0.0
        for k in range(1, 30):
            factorial = factorial * k
            total = total + x**2 / factorial
        return total

    yield from calls(loss, 2.0)

    def fibonacci(x: Any) -> Any:
        a, b, total = 0, 1, 0.0
        for _ in range(100):
            a, b = b, a + b
            total = total + x / b
        return total

    yield from calls(fibonacci, 2.0)


@compiles
def warnings_that_the_result_hides() -> Iterator[Any]:
    def sigmoid(x: Any) -> Any:
        return np.sum(1.0 / (1.0 + np.exp(-x)))

    def where(x: Any) -> Any:
        return np.sum(np.where(x > 0.0, np.log(x), x))

    def relu(x: Any) -> Any:
        return np.sum(np.maximum(x * x * x, -1.0))

    def inverse(x: Any) -> Any:
        return np.tanh(x[0] / x[1]) + np.exp(-1.0 / x[2])

    def unread(x: Any) -> Any:
        y = np.exp(x)
        return np.sum(y[:2] * x[0])

    for loss in (sigmoid, where, relu, inverse, unread):
        yield from calls(loss, X)
        for k, value in enumerate((0.0, -1000.0, -1e200, 1e200, 710.0)):
            x = X.copy()
            x[-1 if loss is unread else k % 3] = value
            yield fgrad.grad(loss)(x)
        yield from calls(loss, X)


@compiles
def warnings_in_loops() -> Iterator[Any]:
    def seen(x: Any) -> Any:
        total = 0.0
        for k in range(20):
            total = total + np.exp(x[k % 5] * k) / (k + 1.0)
        return total

    def unseen(x: Any) -> Any:
        total = 0.0
        for k in range(20):
            total = total + np.minimum(np.exp(x[k % 5] * k), 50.0)
        return total

    for loss in (seen, unseen):
        yield from calls(loss, X)
        yield fgrad.grad(loss)(X * 1000.0)


@compiles
def functions_of_modules_exchanged() -> Iterator[Any]:
    def loss(x: Any) -> Any:
        return np.sum(np.sin(x)) * max(2.0, 1.0)

    yield from calls(loss, X)
    before = np.sin, builtins.max
    np.sin, builtins.max = np.cos, lambda a, b: 10.0 * a
    try:
        yield from calls(loss, X)
    finally:
        np.sin, builtins.max = before
    yield from calls(loss, X)


@compiles
def returns_what_it_reads() -> Iterator[Any]:
    """As a copy: results share no memory with what a function reads."""
    kept = np.ones(3)

    def loss(x: Any) -> Any:
        return np.sum(x**2), kept

    for _, aux in calls(loss, X, has_aux=True):
        yield aux
