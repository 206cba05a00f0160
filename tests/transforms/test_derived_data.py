"""What is derived from programs is made again when it is dropped, and no result changes."""

from __future__ import annotations

import gc
import threading
from collections.abc import Callable, Hashable, Iterator
from typing import Any

import numpy as np
import pytest

import fgrad
from fgrad import lax
from fgrad.config import config
from fgrad.ir.aval import FLOAT64, Aval
from fgrad.ir.program import Program
from fgrad.ops.control import scan, while_loop
from fgrad.trace import trace

Function = Callable[[Any], Any]
X = np.array([0.3, 0.7, 1.1])


def with_while(x: Any) -> Any:
    more = lambda s: s[0] < np.max(x)  # noqa: E731
    return np.sum(lax.while_loop(more, lambda s: (s[0] + 0.25, np.sin(s[1]) * x), (0.0, x))[1])


def with_scan(x: Any) -> Any:
    last, ys = lax.scan(lambda c, a: (np.cos(c) * a, c * a), x[0], x)
    return last + np.sum(ys)


def with_branches(x: Any) -> Any:
    return lax.cond(np.sum(x) > 1.0, lambda x: np.sum(x**3), lambda x: np.sum(np.sin(x)), x)


def with_checkpoint(x: Any) -> Any:
    policy = fgrad.checkpoint_policies.dots_saveable
    inner = fgrad.checkpoint(lambda x: np.sin(np.outer(x, x) @ x), policy=policy)
    return np.sum(fgrad.checkpoint(lambda x: np.exp(np.sin(x)) * inner(x))(x))


@fgrad.custom_vjp
def cube(x: Any) -> Any:
    return x**3


cube.defvjp(lambda x: (x**3, x), lambda x, ct: (3 * x * x * ct,))


@fgrad.custom_jvp
def square(x: Any) -> Any:
    return x * x


@square.defjvp
def _(primals: Any, tangents: Any) -> Any:
    return square(primals[0]), 2 * primals[0] * tangents[0]


@fgrad.custom_vmap
def tripled(x: Any) -> Any:
    return 3 * np.sin(x)


@tripled.def_vmap
def _(_size: int, _batched: Any, x: Any) -> Any:
    return 3 * np.sin(x), True


def with_rules(x: Any) -> Any:
    c = x[1] * 2
    return np.sum(cube(x) + square(np.cos(x)) + tripled(x * c))


def with_all(x: Any) -> Any:
    body = lambda c, a: (cube(c) * 0.1 + fgrad.jit(np.sin)(a), square(a))  # noqa: E731
    f = fgrad.checkpoint(lambda x: lax.scan(body, x[0], x))
    return f(x)[0] + np.sum(f(x)[1]) + with_branches(x)


FUNCTIONS = [with_while, with_scan, with_branches, with_checkpoint, with_rules, with_all]
BATCH = np.stack([X, X[::-1] * 0.9])
WAYS: dict[str, Callable[[Function], Any]] = {
    "grad": lambda f: fgrad.grad(f)(X),
    "jit": lambda f: fgrad.jit(f)(X),
    "jit grad": lambda f: fgrad.jit(fgrad.grad(f))(X),
    "grad jit": lambda f: fgrad.grad(fgrad.jit(f))(X),
    "jvp jit": lambda f: fgrad.jvp(fgrad.jit(f), (X,), (np.cos(X),)),
    "vmap grad": lambda f: fgrad.vmap(fgrad.grad(f))(BATCH),
    "jit vmap grad": lambda f: fgrad.jit(fgrad.vmap(fgrad.grad(f)))(BATCH),
    "grad grad": lambda f: fgrad.jit(fgrad.grad(lambda x: np.sum(fgrad.grad(f)(x) ** 2)))(X),
}


@pytest.fixture(params=["never kept", "often dropped"])
def forgetful(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """What is derived is never kept, or dropped at random moments."""
    rng = np.random.default_rng(5)
    real = Program.derived

    def never(_self: Program, _key: Hashable, make: Callable[[], Any]) -> Any:
        return make()

    def often(self: Program, key: Hashable, make: Callable[[], Any]) -> Any:
        if rng.random() < 0.4:
            self._derived.clear()
        return real(self, key, make)

    monkeypatch.setattr(config, "cache", False)  # else compiled code is found by its text
    monkeypatch.setattr(Program, "derived", never if request.param == "never kept" else often)
    yield


EXPECTED: dict[tuple[str, str], Any] = {}


@pytest.fixture(scope="module", autouse=True)
def _expected() -> None:
    for f in FUNCTIONS:
        for way, apply in WAYS.items():
            EXPECTED[f.__name__, way] = apply(f)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("f", FUNCTIONS, ids=lambda f: f.__name__)
@pytest.mark.usefixtures("forgetful")
def test_no_result_changes(f: Function, way: str) -> None:
    found, expected = WAYS[way](f), EXPECTED[f.__name__, way]
    fgrad.tree.map(np.testing.assert_array_equal, found, expected)


def test_a_function_is_called_again_after_its_programs_forgot() -> None:
    f = fgrad.jit(fgrad.grad(with_all))
    first = f(X)
    for program in [x for x in gc.get_objects() if type(x) is Program]:
        program._derived.clear()
    np.testing.assert_array_equal(f(X), first)


def test_one_body_in_loops_of_several_kinds() -> None:
    scalar, n = Aval((), FLOAT64), 2000
    body = trace(lambda a, b: [a * 0.5 + b], [scalar, scalar]).program
    cond = trace(lambda a, b: [b < 1.9], [scalar, scalar]).program
    one, items = np.float64(1.0), np.linspace(0.0, 1.0, n)
    carried = np.float64(0.0)
    for item in items:
        carried = carried * 0.5 + item
    (found,) = scan(body, n, False, [], [np.float64(0.0)], [items])
    assert found == carried
    (found,) = scan(body, n, False, [one], [np.float64(0.0)], [])
    assert found == 0.5 * n
    (found,) = while_loop(cond, body, [one], [np.float64(0.002)], [np.float64(0.0)])
    assert 1.9 <= found < 1.902
    (found,) = scan(body, n, False, [], [np.float64(0.0)], [items])
    assert found == carried


def test_threads_get_what_one_of_them_made() -> None:
    program = trace(lambda x: [x], [Aval((), FLOAT64)]).program
    barrier = threading.Barrier(4)
    found: list[Any] = []

    def ask() -> None:
        found.append(program.derived("a key", lambda: (barrier.wait(), object())[1]))

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert len(found) == 4 and len({id(x) for x in found}) == 1
