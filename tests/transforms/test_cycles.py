"""No gradient at the prompt leaves cycles: its arrays go when it ends, without the collector."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from op_cases import OP_CASES, OpCase

import fgrad

CASES = [case for case in OP_CASES if case.differentiable and case.order]


@pytest.fixture(autouse=True)
def no_collector() -> Iterator[None]:
    gc.disable()
    yield
    gc.enable()


def left_by(call: Callable[[], Any]) -> int:
    """The objects that only the collector frees after a call, caches being filled.

    The least of three calls: one of them may push the entry of another function out of a full
    cache, and such an entry may be a cycle. What a call itself leaves, each call leaves.
    """
    call()
    return min(_after(call) for _ in range(3))


def _after(call: Callable[[], Any]) -> int:
    gc.collect()
    call()
    return gc.collect()


def _total(fun: Callable[..., Any], *args: Any) -> Any:
    return sum([np.sum(np.real(y)) for y in fgrad.tree.leaves(fun(*args))])


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_gradients_of_operations(case: OpCase) -> None:
    args = case.args(np.random.default_rng(0))
    floats = tuple([k for k, x in enumerate(args) if np.asarray(x).dtype.kind == "f"])
    gradient = fgrad.grad(lambda *args: _total(case.fun, *args), floats)
    assert left_by(lambda: gradient(*args)) == 0


def _writes(x: Any) -> Any:
    x = x.copy()
    row = x[1:]
    row[0] = 3.0
    x[0] = 2.0 * row[1]
    return np.sum(x * row[0])


def _branches(x: Any) -> Any:
    return np.sum(np.where(x > 0.5, x, np.sqrt(x)) * np.maximum(x, 0.3))


X, ONES = np.linspace(0.1, 0.9, 9).reshape(3, 3), np.ones((3, 3))
TRANSFORMS: dict[str, Callable[[], Any]] = {
    "writes": lambda: fgrad.grad(_writes)(X),
    "branches": lambda: fgrad.grad(_branches)(X),
    "a dictionary": lambda: fgrad.grad(lambda p: np.sum(p["a"] * p["b"]))({"a": X, "b": ONES}),
    "aux": lambda: fgrad.grad(lambda x: (np.sum(x), 2.0 * x), has_aux=True)(X),
    "value and gradient": lambda: fgrad.value_and_grad(_branches)(X),
    "jvp": lambda: fgrad.jvp(_branches, (X,), (ONES,)),
    "vjp": lambda: fgrad.vjp(np.sin, X)[1](ONES),
    "linearize": lambda: fgrad.linearize(np.sin, X)[1](ONES),
    "vmap": lambda: fgrad.vmap(lambda x: np.sum(x[1:] * x[0]))(X),
    "gradients of examples": lambda: fgrad.vmap(fgrad.grad(_branches))(X),
    "hessian": lambda: fgrad.hessian(lambda x: np.sum(x[1:] ** 2 * x[:-1]))(X[0]),
    "a gradient in a gradient": lambda: fgrad.grad(
        lambda y: np.sum(fgrad.grad(lambda x: np.sum(np.sin(x * y)))(y))
    )(X),
}


@pytest.mark.parametrize("name", TRANSFORMS)
def test_transforms(name: str) -> None:
    assert left_by(TRANSFORMS[name]) == 0
