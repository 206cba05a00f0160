"""Programs at the prompt whose functions do more than compute, or read what cannot be compared.

They stay interpreted, and each gives the outcomes of its calls."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
from prompt_programs import Case, X, calls, compiles

import fgrad

SEEN: list[float] = []
COUNT = 0
KEPT: list[Case] = []


def keeps(case: Case) -> Case:
    KEPT.append(case)
    return case


class Model:
    def __init__(self) -> None:
        self.w = np.arange(5.0)
        self.scale = 2.0

    def loss(self, x: Any) -> Any:
        return np.sum(self.w * x**2) * self.scale

    def __call__(self, x: Any) -> Any:
        return self.loss(x)


@keeps
def prints() -> Iterator[Any]:
    def loss(x: Any) -> Any:
        print("called")
        return np.sum(x**2)

    yield from calls(loss, X)


@keeps
def prints_by_another_name() -> Iterator[Any]:
    show = print

    def loss(x: Any) -> Any:
        list(map(show, ["called"]))
        return np.sum(x**2)

    yield from calls(loss, X)


@keeps
def counts() -> Iterator[Any]:
    calls_made = 0

    def loss(x: Any) -> Any:
        nonlocal calls_made
        calls_made += 1
        return calls_made * np.sum(x**2)

    yield from calls(loss, X)
    yield calls_made


@keeps
def counts_in_globals() -> Iterator[Any]:
    global COUNT
    COUNT = 0

    def loss(x: Any) -> Any:
        global COUNT
        COUNT += 1
        return COUNT * np.sum(x**2)

    yield from calls(loss, X)
    yield COUNT


@keeps
def appends() -> Iterator[Any]:
    SEEN.clear()

    def loss(x: Any) -> Any:
        value = np.sum(x**2)
        SEEN.append(float(fgrad.stop_gradient(value)))
        return value

    yield from calls(loss, X)
    yield list(SEEN)


@keeps
def stores_in_dictionaries() -> Iterator[Any]:
    kept: dict[str, Any] = {"n": 0.0}

    def loss(x: Any) -> Any:
        kept["n"] = kept["n"] + 1.0
        return np.sum(x**2)

    yield from calls(loss, X)
    yield dict(kept)


@keeps
def writes_into_arrays_outside() -> Iterator[Any]:
    buffer = np.zeros(5)

    def loss(x: Any) -> Any:
        buffer[1] = 7.0 + buffer[1]
        return np.sum(x**2)

    yield from calls(loss, X)
    yield buffer


@keeps
def writes_into_another_argument() -> Iterator[Any]:
    def loss(x: Any, y: Any) -> Any:
        y[0] += 1.0
        y *= 2.0
        return np.sum(x**2 * y)

    y = np.ones(5)
    yield from calls(loss, X, y)
    yield y


@keeps
def changes_containers_that_it_is_given() -> Iterator[Any]:
    def loss(x: Any, p: Any) -> Any:
        p["n"] = 2.0
        return np.sum(x**2)

    p: dict[str, Any] = {}
    yield from calls(loss, X, p)
    yield p


@keeps
def changes_defaults() -> Iterator[Any]:
    def loss(x: Any, kept: Any = []) -> Any:  # noqa: B006
        kept.append(1.0)
        return np.sum(x**2) * len(kept)

    yield from calls(loss, X)


@keeps
def random_numbers() -> Iterator[Any]:
    rng = np.random.default_rng(0)
    random.seed(0)
    np.random.seed(0)

    for draw in (rng.normal, random.random, np.random.rand):

        def loss(x: Any, draw: Any = draw) -> Any:
            return np.sum(x * draw())

        yield from calls(loss, X)
    yield from calls(lambda x: np.sum(x * np.random.rand()), X)
    yield from calls(lambda x: np.sum(x * rng.normal()), X)


@keeps
def clocks_and_iterators() -> Iterator[Any]:
    steps = iter(range(100))
    yield from calls(lambda x: np.sum(x * next(steps)), X)
    yield from calls(lambda x: np.sum(x * (time.time() > 0)), X)
    numbers = (float(k) for k in range(100))
    yield from calls(lambda x: np.sum(x) * sum(k for k, _ in zip(numbers, range(3))), X)  # noqa: B905


@keeps
def methods_and_objects() -> Iterator[Any]:
    model = Model()
    yield from calls(model.loss, X)
    model.w = model.w + 1.0
    yield from calls(model.loss, X)
    yield from calls(model, X)
    yield from calls(lambda x: model.loss(x) + model.scale * np.sum(x), X)
    model.scale = 5.0
    yield from calls(lambda x: np.sum(x) * model.scale, X)


@keeps
def handlers() -> Iterator[Any]:
    def loss(x: Any) -> Any:
        try:
            return 1.0 / x
        except ZeroDivisionError:
            return x * 2.0

    yield from calls(loss, 2.0)
    yield from calls(loss, 0.0)


@compiles
def errors_of_what_is_not_read() -> Iterator[Any]:
    def unused(x: Any, y: Any) -> Any:
        z = 1.0 / y  # noqa: F841
        return x**2

    yield from calls(unused, 2.0, 3.0)
    yield lambda: fgrad.grad(unused)(2.0, 0.0)

    def in_a_loop(x: Any, i: Any) -> Any:
        total = 0.0
        for k in range(40):
            y = x[i[0] % 5 + k // 40] if k else x[0]
            z = x[i[0] + k % 2]  # noqa: F841
            y = x[1]
            total = total + y
        return total

    yield from calls(in_a_loop, X, np.array([2]))
    yield lambda: fgrad.grad(in_a_loop)(X, np.array([7]))

    def statement(x: Any, i: Any) -> Any:
        x[i[0]]
        return np.sum(x**2)

    yield from calls(statement, X, np.array([2]))
    yield lambda: fgrad.grad(statement)(X, np.array([7]))


@keeps
def quiet_blocks() -> Iterator[Any]:
    def loss(x: Any) -> Any:
        with np.errstate(all="ignore"):
            return np.sum(np.log(x - 1.0))

    yield from calls(loss, X)


@keeps
def objects_in_auxiliary_data() -> Iterator[Any]:
    def loss(x: Any) -> Any:
        return np.sum(x**2), Model

    yield from calls(loss, X, has_aux=True)


@keeps
def identities() -> Iterator[Any]:
    def loss(x: Any, y: Any) -> Any:
        return np.sum(x) if x is y else np.sum(y * x)

    yield from calls(loss, X, X)
    yield from calls(loss, X, X.copy())


@keeps
def integers_of_unknown_loops() -> Iterator[Any]:
    def loss(x: Any) -> Any:
        a, b, total = 0, 1, 0.0
        while total < 1.0:
            a, b = b, a + b
            total = total + abs(x)
        return total * (x + b)

    yield from calls(loss, 0.5)
    yield from calls(loss, 0.01)

    def truncated(x: Any) -> Any:
        return x * (int(x) * 10**18)

    yield from calls(truncated, 3.5)
    yield from calls(truncated, 35.5)


@keeps
def custom_rules() -> Iterator[Any]:
    @fgrad.custom_jvp
    def own(x: Any) -> Any:
        return x**2

    own.defjvp(lambda p, t: (p[0] ** 2, 100.0 * t[0]))
    yield from calls(lambda x: np.sum(own(x)), X)
    yield from calls(fgrad.jit(lambda x: np.sum(x**2)), X)


@keeps
def results_that_are_no_numbers() -> Iterator[Any]:
    yield lambda: next(calls(lambda x: x, X))
    yield lambda: next(calls(lambda x: "text", X))
    yield lambda: next(calls(lambda x: np.sum(x), "text"))
    yield lambda: next(calls(lambda x: np.sum(x), 3))
