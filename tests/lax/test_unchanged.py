"""What a loop carries and does not change is a constant of it, whoever runs or derives the loop."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fgrad
from fgrad import lax
from fgrad.ir.aval import aval_of
from fgrad.trace import trace

A = np.linspace(0.1, 0.9, 9).reshape(3, 3)
X = np.array([1.0, -2.0, 0.5])


def by_scan(a: Any, x: Any) -> Any:
    def step(carry: Any, item: Any) -> Any:
        kept, x, also = carry
        return (kept, np.tanh(kept @ x) + item * also[0], also), x.sum()

    last, ys = lax.scan(step, (a, x, x * 2.0), np.arange(4.0))
    return last, ys


def by_fori(a: Any, x: Any) -> Any:
    return lax.fori_loop(0, 4, lambda i, c: (c[0], np.tanh(c[0] @ c[1]) + i), (a, x))


def by_fori_with_unknown_ends(a: Any, x: Any) -> Any:
    stop = (x * 0 + 4.0)[0].astype(int)
    return lax.fori_loop(0, stop, lambda i, c: (c[0], np.tanh(c[0] @ c[1]) + i), (a, x))


def by_while(a: Any, x: Any) -> Any:
    return lax.while_loop(
        lambda c: np.sum(c[0]) + c[2] < 9.0,
        lambda c: (c[0], np.tanh(c[0] @ c[1]), c[2] + 1.0),
        (a, x, 0.0),
    )


def by_branches(a: Any, x: Any) -> Any:
    def step(i: Any, c: Any) -> Any:
        turned = lambda c: (c[0], np.tanh(c[0] @ c[1]) + i)  # noqa: E731
        return lax.cond(i >= 0, turned, lambda c: (c[0], c[1] * 0.5), c)

    return lax.fori_loop(0, 4, step, (a, x))


def by_jitted_steps(a: Any, x: Any) -> Any:
    step = fgrad.jit(lambda i, a, x: (np.tanh(a @ x) + i, a))

    def body(i: Any, c: Any) -> Any:
        x, a = step(i, *c)
        return a, x

    return lax.fori_loop(0, 4, body, (a, x))


def plain_scan(a: Any, x: Any) -> Any:
    also, ys = x * 2.0, []
    for item in np.arange(4.0):
        ys.append(x.sum())
        x = np.tanh(a @ x) + item * also[0]
    return (a, x, also), np.stack(ys)


def plain_fori(a: Any, x: Any) -> Any:
    for i in range(4):
        x = np.tanh(a @ x) + i
    return a, x


def plain_while(a: Any, x: Any) -> Any:
    count = 0.0
    while np.sum(a) + count < 9.0:
        x, count = np.tanh(a @ x), count + 1.0
    return a, x, x[0] * 0 + count


LOOPS = [
    (by_scan, plain_scan),
    (by_fori, plain_fori),
    (by_fori_with_unknown_ends, plain_fori),
    (by_while, plain_while),
    (by_branches, plain_fori),
    (by_jitted_steps, plain_fori),
]


@pytest.mark.parametrize(("loop", "plain"), LOOPS, ids=lambda f: f.__name__)
def test_loops_with_constants(loop: Callable[..., Any], plain: Callable[..., Any]) -> None:
    def total(f: Callable[..., Any]) -> Callable[..., Any]:
        return lambda a, x: sum([np.sum(np.sin(y)) for y in fgrad.tree.leaves(f(a, x))])

    def close(a: Any, b: Any) -> None:
        for x, y in zip(fgrad.tree.leaves(a), fgrad.tree.leaves(b), strict=True):
            np.testing.assert_allclose(x, y, rtol=1e-12)

    expected = fgrad.grad(total(plain), argnums=(0, 1))(A, X)
    for run in (lambda f: f, fgrad.jit):
        close(run(loop)(A, X), plain(A, X))
        close(run(fgrad.grad(total(loop), argnums=(0, 1)))(A, X), expected)
        batch = run(fgrad.vmap(loop, in_axes=(None, 0)))(A, np.stack([X, X + 1]))
        close([y[1] for y in fgrad.tree.leaves(batch)], fgrad.tree.leaves(plain(A, X + 1)))
    close(
        fgrad.jvp(total(loop), (A, X), (A, X))[1],
        fgrad.jvp(total(plain), (A, X), (A, X))[1],
    )


@pytest.mark.parametrize("loop", [loop for loop, _ in LOOPS], ids=lambda f: f.__name__)
def test_constants_are_not_carried(loop: Callable[..., Any]) -> None:
    program = trace(lambda a, x: fgrad.tree.leaves(loop(a, x)), [aval_of(A), aval_of(X)]).program
    (eqn,) = [eqn for eqn in program.eqns if eqn.prim.name in ("scan", "while")]
    assert A.shape not in [y.aval.shape for y in eqn.outputs]


def test_a_result_is_its_own() -> None:
    a = A.copy()
    kept, _ = lax.fori_loop(0, 2, lambda i, c: (c[0], c[1] + 1.0), (a, 0.0))
    kept[0, 0] = 7.0
    assert a[0, 0] == A[0, 0]

    def f(a: Any) -> Any:
        kept, _ = lax.fori_loop(0, 2, lambda i, c: (c[0], c[1] + 1.0), (a, 0.0))
        kept[0] = 0.0
        return np.sum(a) + 0 * np.sum(kept)

    np.testing.assert_array_equal(fgrad.grad(f)(a), np.ones_like(a))


def test_examples_of_unequal_lengths_share_what_does_not_change() -> None:
    """Neither batched nor selected, where each example of a batch ends at a step of its own."""

    def powers(n: Any, a: Any, x: Any) -> Any:
        return lax.while_loop(
            lambda s: s[0] < n, lambda s: (s[0] + 1, s[1], np.tanh(s[1] @ s[2])), (0, a, x)
        )

    ns, xs = np.arange(5), np.stack([X] * 5)
    batched = fgrad.vmap(powers, in_axes=(0, None, 0))
    program = trace(lambda *xs: list(batched(*xs)), [aval_of(v) for v in (ns, A, xs)]).program
    (loop,) = [eqn for eqn in program.eqns if eqn.prim.name == "while"]
    assert A.shape in [v.aval.shape for v in loop.inputs]
    assert all(v.aval.shape != A.shape for v in loop.outputs)
    inside = [v.aval.shape for eqn in loop.params["body"].eqns for v in eqn.outputs]
    assert (5, *A.shape) not in inside
    for f in (batched, fgrad.jit(batched)):
        counts, kept, last = f(ns, A, xs)
        np.testing.assert_array_equal(counts, ns)
        np.testing.assert_array_equal(kept, np.stack([A] * 5))
        for n, y in zip(ns, last, strict=True):
            np.testing.assert_allclose(y, powers(n, A, X)[2])


def test_what_all_branches_pass_on_is_no_result_of_the_branch() -> None:
    def f(p: Any, a: Any, x: Any) -> Any:
        return lax.cond(p > 0, lambda a, x: (a, x * 2.0), lambda a, x: (a, x * 3.0), a, x)

    program = trace(lambda *xs: list(f(*xs)), [aval_of(v) for v in (1.0, A, X)]).program
    (eqn,) = [eqn for eqn in program.eqns if eqn.prim.name == "switch"]
    assert [v.aval.shape for v in eqn.outputs] == [X.shape]
    kept, y = f(1.0, A, X)
    np.testing.assert_array_equal(kept, A)
    assert kept is not A and not np.may_share_memory(kept, A)
    np.testing.assert_array_equal(y, X * 2.0)

    seen: list[int] = []
    noted = lambda a: (fgrad.debug.callback(lambda: seen.append(1)), a)[1]  # noqa: E731
    fgrad.jit(lambda p, a: lax.cond(p > 0, noted, lambda a: a, a))(1.0, A)
    assert seen == [1]


@pytest.mark.parametrize("run", [lambda f: f, fgrad.grad, fgrad.jit], ids=["plain", "grad", "jit"])
def test_branches_without_results_act(run: Callable[..., Any]) -> None:
    seen: list[int] = []

    def note() -> None:
        fgrad.debug.callback(lambda: seen.append(1))

    def step(i: Any, x: Any) -> Any:
        lax.cond(i % 2 == 0, note, lambda: None)
        return x + 1.0

    run(lambda x: lax.fori_loop(0, 40, step, x))(1.0)
    assert len(seen) == 20
