"""Fusion: which equations share a kernel."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from pass_cases import body

import fgrad
from fgrad.compile.fuse.partition import fuse
from fgrad.compile.fuse.parts import common_domain
from fgrad.compile.pipeline import compile_program
from fgrad.ir.text import parse_program

X = np.ones((64, 32))


def groups(fun: Callable[..., Any], *args: Any) -> list[list[str]]:
    """The primitives of each group after all passes over programs."""
    stages = compile_program(fgrad.make_program(fun)(*args)).stages
    fusion = next(s.result for s in stages if s.name == "fuse")
    return [[e.prim.name for e in g.eqns] for g in fusion.groups]


def softmax(x: Any) -> Any:
    e = np.exp(x - np.max(x, axis=1, keepdims=True))
    return e / np.sum(e, axis=1, keepdims=True)


def layer_norm(x: Any) -> Any:
    centred = x - np.mean(x, axis=1, keepdims=True)
    return centred / np.sqrt(np.mean(centred**2, axis=1, keepdims=True) + 1e-5)


@pytest.mark.parametrize(
    "fun",
    [
        lambda x: np.tanh(x) * 2 + np.sin(x) * x.T.T,
        softmax,
        layer_norm,
        lambda x: np.log(np.sum(np.exp(x), axis=1)),
        lambda x: np.sum(x * x),
        lambda x: (np.sin(x), np.cos(x), np.sum(np.sin(x), axis=1)),
        lambda x: np.exp(x.T)[::-1, 1:],
        lambda x: np.sum(x, axis=0) * 2 + 1,
        lambda x: (x.reshape(8, 8, 32) + 1).reshape(64, 32) * 2,
        lambda x: x - x[0],
        lambda x: np.concatenate([x * 3 - np.sin(x), (np.exp(x) * x + 1)[::-1]]),
        lambda x: (np.sin(x) * 2 + np.cos(x) * 3).T,
    ],
)
def test_one_kernel(fun: Callable[..., Any]) -> None:
    assert len(groups(fun, X)) == 1


def test_products_take_views_and_fuse_with_their_epilogue() -> None:
    w = np.ones((32, 64))
    assert groups(lambda x, w: np.tanh(x @ w + 1), X, w) == [["dot_general"], ["add", "tanh"]]
    assert groups(lambda x, w: x @ w.T, X, w.T) == [["dot_general"]]
    assert groups(lambda x, w: (x @ w).T, X, w) == [["dot_general"]]
    assert groups(lambda x, w: x[:, :16] @ w[:16], X, w) == [["dot_general"]]


def test_outer_products_are_elementwise() -> None:
    assert groups(lambda x: np.outer(x[0], x[1]) * 2, X) == [["mul", "mul"]]


def test_a_dear_value_is_not_computed_twice() -> None:
    found = groups(lambda x: np.exp(x)[1:] - np.exp(x)[:-1], X)
    assert sum([group.count("exp") for group in found]) == 1


def test_a_cheap_value_is() -> None:
    assert len(groups(lambda x: (x * 2)[1:] - (x * 2)[:-1], X)) <= 2


def test_a_reshaped_buffer_is_free() -> None:
    program = parse_program(
        body("a: f64[6]", "f64[2,3]", "b: f64[2,3] = reshape[shape=(2, 3)] a", "b")
    )
    assert [group.kind for group in fuse(program).groups] == ["alias"]


def test_groups_follow_their_sources() -> None:
    program = fgrad.make_program(lambda x: np.sum(np.sin(x), axis=0) @ np.cos(x).T)(X)
    fusion = fuse(program)
    written = set(program.inputs) | {v for v, _ in program.consts}
    for group in fusion.groups:
        inside = {v for e in group.eqns for v in e.outputs}
        pending = [a for e in group.eqns for a in e.inputs]
        while pending:
            atom = pending.pop()
            if atom in fusion.virtual and atom not in inside:
                pending += fusion.virtual[atom].inputs
            elif type(atom).__name__ == "Var":
                assert atom in inside or atom in written
        written |= set(group.outputs)


@pytest.mark.parametrize(
    ("a", "b", "common"),
    [
        ((6, 4), (2, 3, 4), (2, 3, 4)),
        ((4, 6), (6, 4), None),
        ((24,), (2, 12), (2, 12)),
        ((2, 12), (8, 3), (2, 4, 3)),
        ((2, 6), (3, 4), None),
        ((5,), (6,), None),
    ],
)
def test_common_domain(a: Any, b: Any, common: Any) -> None:
    assert common_domain(a, b) == common


def test_a_long_chain_is_fused_in_pieces() -> None:
    def chain(x: Any) -> Any:
        for _ in fgrad.unroll(range(300)):
            x = np.sin(x) * 1.5
        return x

    near, far = groups(chain, np.ones(10)), groups(chain, np.ones(100_000))
    assert len(near) == 2 * len(far) == 150
    assert len(set(map(tuple, near))) == 1


# --- elements at computed places


def by_argmax(x: Any, k: Any) -> Any:
    return x[np.arange(len(x)), np.argmax(x, axis=1)] * 2.0


def of_itself(x: Any, k: Any) -> Any:
    return k[k] + k[::-1][k % len(k)]


def read_often(x: Any, k: Any) -> Any:
    v = x[:, 0][np.sort(k)[k] // 2]
    return v * np.mean(v) + v[::-1]


def in_tables(x: Any, k: Any) -> Any:
    at = np.reshape(k[: len(k) // 2 * 2], (2, -1))
    return np.sum(x[at % 7, at.T[0, 0] % 3], axis=0) - np.max(x[:, 1][at], axis=1)[:, None]


def of_rows(x: Any, k: Any) -> Any:
    return x[k] - x[(k + 1) % len(x)].mean(axis=1, keepdims=True)


def with_running_sums(x: Any, k: Any) -> Any:
    return np.cumsum(x[:, 2])[(np.cumsum(k) - 1) % len(k)]


def by_sums(x: Any, k: Any) -> Any:
    return np.exp(x)[np.sum(x > 0, axis=1), k % 3]


PLACES = [by_argmax, of_itself, read_often, in_tables, of_rows, with_running_sums, by_sums]


@pytest.mark.parametrize("fun", PLACES, ids=lambda f: f.__name__)
@pytest.mark.parametrize("n", [9, 130, 5000])
def test_elements_at_computed_places(fun: Any, n: int, rng: np.random.Generator) -> None:
    x, k = rng.normal(size=(n, 3)), rng.integers(-n, n, n)
    k = k if fun is not by_sums else np.abs(k)
    np.testing.assert_allclose(fgrad.jit(fun)(x, k), fun(x, k), rtol=1e-10, atol=1e-10)
    if fun is not of_itself:
        gradient = fgrad.grad(lambda x, k: np.sum(np.sin(fun(x, k))))
        np.testing.assert_allclose(fgrad.jit(gradient)(x, k), gradient(x, k), rtol=1e-8, atol=1e-9)


def test_places_are_computed_where_elements_are_read(rng: np.random.Generator) -> None:
    w, k, c = rng.normal(size=100), rng.integers(0, 100, 5000), rng.normal(size=5000)
    found = fgrad.inspect(lambda w, k, c: np.sum(c * w[k]))(w, k, c)
    assert found.memory.temporaries < k.nbytes
