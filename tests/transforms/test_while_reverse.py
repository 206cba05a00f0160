"""Compiled while loops in reverse without a bound on their steps, against eager derivatives (whose
steps are counted), differences and forward mode."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fgrad
from fgrad import errors, lax
from fgrad.transforms.control import while_loop as control_while

RNG = np.random.default_rng(11)
W = RNG.normal(size=(3, 3)) / 3
X = np.array([0.3, -0.2, 0.5])
V = np.array([1.0, 2.0, -1.0])
Loop = Callable[[Any, Any], Any]


def same(a: Any, b: Any, tol: float = 1e-9) -> None:
    fgrad.tree.map(lambda p, q: np.testing.assert_allclose(p, q, rtol=tol, atol=tol), a, b)


def steps(n: Any, step: Callable[[Any], Any], *init: Any) -> Any:
    """`step` n times; the number of steps is known when the loop ends."""
    more = lambda s: s[0] < n  # noqa: E731
    return lax.while_loop(more, lambda s: (s[0] + 1, *step(s[1:])), (0, *init))[1:]


def vectors(x: Any, n: Any) -> Any:
    """A carry that the cotangent needs, one that it does not, one that never changes."""

    def step(s: Any) -> Any:
        y, total, w = s
        return np.tanh(w @ y) + 0.1 * x, total + np.sum(np.sin(y)), w

    y, total, w = steps(n, step, x, x[1], W * x[2])
    return np.sum(y * y) + total + w[0, 0]


def branches(x: Any, n: Any) -> Any:
    """Branches that close over what is differentiated; integers and booleans that decide."""

    def step(s: Any) -> Any:
        y, k, up = s
        y = lax.cond(up, lambda y: y * 1.1 * x[0], lambda y: np.sin(y) - x[1], y)
        return y, (k * 5 + 3) % 7, k > 2

    y, _, _ = steps(n, step, x[2], 1, True)
    return y * y


def nested(x: Any, n: Any) -> Any:
    """A while loop and a scan in a while loop."""

    def items(y: Any, a: Any) -> Any:
        y = lax.while_loop(lambda t: t[0] > 0.3, lambda t: (t[0] * 0.7, np.cos(t[1]) * a), (a, y))
        return y[1], y[1] * x[1]

    def step(s: Any) -> Any:
        y, k = s
        (inner,) = steps(k % 3, lambda t: (np.sin(t[0]) + 0.1 * x[0],), y)
        last, ys = lax.scan(items, inner, x + 1.0)
        return 0.9 * last + 0.1 * np.sum(ys), k + 1

    return steps(n, step, x[2], 0)[0]


def complexes(x: Any, n: Any) -> Any:
    def step(s: Any) -> Any:
        (z,) = s
        return (0.3 * z * z + x[0] * np.exp(1j * z.real) + x[1] * np.conj(z),)

    (z,) = steps(n, step, x[2] + 0.2j)
    return np.abs(z) ** 2


def custom(x: Any, n: Any) -> Any:
    @fgrad.custom_jvp
    def cube(y: Any) -> Any:
        return y**3

    cube.defjvp(lambda primals, tangents: (cube(*primals), 3 * primals[0] ** 2 * tangents[0]))
    return steps(n, lambda s: (np.cos(cube(s[0])) * x[0] + x[1],), x[2])[0]


def writes(x: Any, n: Any) -> Any:
    """An array of which one element changes in each step."""

    def step(s: Any) -> Any:
        y, k = s
        return fgrad.at(y)[k % 20].set(np.sin(y[(k * 7) % 20]) * x[0] + x[1]), k + 1

    y, _ = steps(n, step, np.concatenate([x, np.ones(17)]), 0)
    return np.sum(y * np.arange(20.0))


LOOPS: dict[str, Loop] = {
    f.__name__: f for f in (vectors, branches, nested, complexes, custom, writes)
}


@pytest.mark.parametrize("n", [0, 1, 7, 200])
@pytest.mark.parametrize("name", LOOPS)
def test_gradient(name: str, n: int) -> None:
    f = LOOPS[name]
    found = fgrad.jit(fgrad.grad(f))(X, n)
    same(found, fgrad.grad(lambda x: f(x, n))(X), 1e-8)
    same(
        np.dot(found, V),
        fgrad.jit(lambda x, n: fgrad.jvp(lambda x: f(x, n), (x,), (V,))[1])(X, n),
        1e-8,
    )
    if n < 10:
        difference = (f(X + 1e-6 * V, n) - f(X - 1e-6 * V, n)) / 2e-6
        same(np.dot(found, V), difference, 1e-7)


def second(f: Loop) -> Loop:
    return fgrad.grad(lambda x, n: np.dot(fgrad.grad(f)(x, n), V))


@pytest.mark.parametrize("name", LOOPS)
def test_second_derivatives(name: str) -> None:
    f = LOOPS[name]
    whole, product = fgrad.jit(fgrad.hessian(f)), fgrad.jit(second(f))
    for n in (0, 5):
        expected = fgrad.hessian(lambda x, n=n: f(x, n))(X)
        same(product(X, n), expected @ V, 1e-8)
        if name != "nested":  # which takes long to compile
            same(whole(X, n), expected, 1e-8)


@pytest.mark.parametrize("name", LOOPS)
def test_batches_whose_lanes_end_at_different_times(name: str) -> None:
    f, xs, ns = LOOPS[name], np.stack([X, 2 * X, -X, 0.5 * X]), np.array([0, 3, 140, 2])
    expected = [fgrad.grad(lambda x, n=n: f(x, n))(x) for x, n in zip(xs, ns, strict=True)]
    same(fgrad.jit(fgrad.vmap(fgrad.grad(f)))(xs, ns), np.stack(expected), 1e-8)
    total = lambda xs, ns: np.sum(fgrad.vmap(f)(xs, ns))  # noqa: E731
    same(fgrad.jit(fgrad.grad(total))(xs, ns), np.stack(expected), 1e-8)


@pytest.mark.parametrize("slots", [8, 10, 128])
@pytest.mark.parametrize("n", [6, 7, 8, 9, 15, 50, 63, 64, 127, 128, 129, 1000, 20_000])
def test_any_number_of_steps(slots: int, n: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(control_while, "SLOTS", slots)

    def f(x: Any, n: Any) -> Any:
        return steps(n, lambda s: (np.sin(s[0]) * x + 0.1 * s[1], s[0]), x, 1.0)[0]

    y, before, dy, dbefore = 0.9, 1.0, 1.0, 0.0
    for _ in range(n):
        dy, dbefore = np.cos(y) * dy * 0.9 + np.sin(y) + 0.1 * dbefore, dy
        y, before = np.sin(y) * 0.9 + 0.1 * before, y
    same(fgrad.jit(fgrad.value_and_grad(f))(0.9, n), (y, dy))
    if n < 200:
        twice = fgrad.grad(fgrad.grad(lambda x: f(x, n)))(0.9)
        same(fgrad.jit(fgrad.grad(fgrad.grad(f)))(0.9, n), twice, 1e-8)


def test_higher_derivatives() -> None:
    def third(f: Loop) -> Loop:
        return fgrad.grad(lambda x, n: np.dot(second(f)(x, n), V))

    def norms(f: Loop) -> Loop:
        return fgrad.grad(lambda x, n: np.sum(fgrad.vmap(fgrad.grad(f), (0, None))(x, n) ** 2))

    xs = np.stack([X, -X])
    for how, x in ((third, X), (norms, xs)):
        known = lambda x, _=None: vectors(x, 4)  # noqa: E731
        same(fgrad.jit(how(vectors))(x, 4), how(known)(x, 4), 1e-8)
    pushed = lambda f: lambda x, n: fgrad.jvp(lambda x: fgrad.grad(f)(x, n), (x,), (V,))[1]  # noqa: E731
    same(fgrad.jit(pushed(vectors))(X, 4), fgrad.jit(second(vectors))(X, 4))


def test_two_conditions_of_one_body() -> None:
    def body(x: Any) -> Any:
        return np.sin(x) * 1.9

    class Limit:
        def __init__(self, value: float) -> None:
            self.value = value

    for k in range(8):
        limit = Limit(0.1 * k)

        def f(x: Any, limit: Limit = limit, most: int | None = None) -> Any:
            return lax.while_loop(lambda y: y < limit.value, body, x, most)

        for g in (f, lambda x, f=f: f(x, most=50)):
            for twice in (fgrad.grad, lambda g: fgrad.grad(fgrad.grad(g))):
                same(fgrad.jit(twice(g))(0.05), twice(f)(0.05))
        same(fgrad.jit(fgrad.vmap(f))(np.array([0.05])), [f(0.05)])


def test_types_of_carries() -> None:
    def f(x: Any, n: Any) -> Any:
        def step(s: Any) -> Any:
            y, empty, k, flag = s
            return np.sin(y) * np.float32(0.9), empty * 2, k + np.int32(1), ~flag

        y, empty, _, _ = steps(n, step, x, np.zeros((0, 3)), np.int32(0), False)
        return np.sum(y) + np.sum(empty)

    x = np.linspace(0.1, 0.9, 4, dtype=np.float32)
    found = fgrad.jit(fgrad.grad(f))(x, 9)
    assert found.dtype == np.float32
    same(found, fgrad.grad(lambda x: f(x, 9))(x), 1e-6)
    assert (
        fgrad.jit(fgrad.grad(lambda x: x + len(lax.while_loop(lambda s: False, lambda s: s, ()))))(
            1.0
        )
        == 1.0
    )


def test_large_states() -> None:
    x = RNG.normal(size=100) / 10

    def f(x: Any, n: Any) -> Any:
        w = np.outer(x, x)
        return np.sum(steps(n, lambda s: (np.tanh(w @ s[0] + s[0]),), w)[0])

    same(fgrad.jit(fgrad.grad(f))(x, 30), fgrad.grad(lambda x: f(x, 30))(x))


def test_nan_ends_where_it_should() -> None:
    def f(x: Any) -> Any:
        return lax.while_loop(lambda y: y < 10.0, lambda y: y * np.sqrt(y), x)

    for x in (2.0, np.nan, 11.0):
        same(fgrad.jit(fgrad.grad(f))(x), fgrad.grad(f)(x))


def test_effects_happen_once() -> None:
    seen: list[int] = []

    def f(x: Any, n: Any) -> Any:
        def step(s: Any) -> Any:
            y, k = s
            fgrad.debug.callback(lambda k: seen.append(int(k)), k)
            note = lambda y: (fgrad.debug.callback(lambda _: seen.append(-1), y), np.sin(y))[1]  # noqa: E731
            return lax.cond(k > 1, note, lambda y: y * 0.5, y), k + 1

        return steps(n, step, x, 0)[0]

    for wrap in (fgrad.jit, lambda f: f):
        seen.clear()
        wrap(fgrad.grad(f))(0.5, 3)
        assert seen == [0, 1, 2, -1]


def test_effects_with_results() -> None:
    def f(x: Any, n: Any, most: int | None = None) -> Any:
        def step(s: Any) -> Any:
            seen = fgrad.io_callback(
                np.float64, fgrad.ShapeDtype((), float), fgrad.stop_gradient(s[1])
            )
            return s[0] + 1, np.sin(s[1]) * seen

        return lax.while_loop(lambda s: s[0] < n, step, (0, x), most)[1]

    with pytest.raises(errors.MissingRuleError, match="computes its steps again") as found:
        fgrad.jit(fgrad.grad(f))(0.5, 3)
    assert "max_steps" in str(found.value) and "test_while_reverse.py" in str(found.value)
    same(fgrad.jit(fgrad.grad(lambda x: f(x, 3, 5)))(0.5), fgrad.grad(lambda x: f(x, 3, 5))(0.5))


def test_loops_in_a_checkpoint_and_in_a_scan() -> None:
    def f(x: Any, n: Any) -> Any:
        def step(c: Any, k: Any) -> Any:
            c = fgrad.checkpoint(lambda c: steps(k % n, lambda s: (np.sin(s[0]) + x[0],), c)[0])(c)
            return c, c

        return np.sum(lax.scan(step, x[1], np.arange(6))[1])

    same(fgrad.jit(fgrad.grad(f))(X, 3), fgrad.grad(lambda x: f(x, 3))(X))
    g = fgrad.checkpoint(lambda x, n: vectors(x, n))
    same(fgrad.jit(fgrad.grad(g))(X, 3), fgrad.grad(lambda x: vectors(x, 3))(X))


def test_linearize_and_vjp() -> None:
    def both(x: Any, n: Any) -> Any:
        push = fgrad.linearize(lambda x: vectors(x, n), x)[1]
        pull = fgrad.vjp(lambda x: vectors(x, n), x)[1]
        return push(V), pull(1.0)

    slope = fgrad.grad(lambda x: vectors(x, 5))(X)
    pushed, pulled = fgrad.jit(both)(X, 5)
    same(pushed, slope @ V)
    same(fgrad.tree.leaves(pulled)[0], slope)
