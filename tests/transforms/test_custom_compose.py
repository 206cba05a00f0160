"""Custom rules and checkpoints in every pair of transforms: rules that say what is true anyway."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fgrad
from tests.transforms.functions import CASES, Smooth
from tests.transforms.test_compose import DERIVATIVES, V, X


def by_custom_jvp(f: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """A rule that pushes tangents through the function."""
    g = fgrad.custom_jvp(f)

    @g.defjvp
    def _(primals: Any, tangents: Any) -> Any:
        return fgrad.jvp(f, primals, tangents)

    return g


def by_custom_vjp(f: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """A rule that pulls cotangents back through the function."""
    g = fgrad.custom_vjp(f)
    g.defvjp(lambda x: (g(x), x), lambda x, ct: fgrad.vjp(f, x)[1](ct))
    return g


def by_custom_vmap(f: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """A batching rule that maps the function."""
    g = fgrad.custom_vmap(f)
    g.def_vmap(lambda size, batched, x: (fgrad.vmap(f)(x), True))
    return g


def by_sequential_vmap(f: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """One example after the other."""
    return fgrad.sequential_vmap(f)


def by_checkpoint(f: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Residuals are computed again."""
    return fgrad.checkpoint(f)


def by_both(f: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Rules within rules."""
    return fgrad.checkpoint(by_custom_jvp(by_custom_vjp(f)))


WRAPPERS = [
    by_custom_jvp, by_custom_vjp, by_custom_vmap, by_sequential_vmap, by_checkpoint, by_both,
]  # fmt: skip
CHOSEN = [c for c in CASES if c.name in ("mlp", "closure", "nested_jit", "scalars")]


@pytest.mark.parametrize("case", CHOSEN, ids=lambda c: c.name)
@pytest.mark.parametrize("wrap", WRAPPERS, ids=lambda w: w.__name__)
@pytest.mark.parametrize("way", DERIVATIVES, ids=lambda w: w.__name__)
def test_derivative(case: Smooth, wrap: Any, way: Any) -> None:
    expected = np.sum(fgrad.grad(case.fun)(X) * V)
    assert np.isclose(way(wrap(case.fun))(X), expected, rtol=1e-9)


@pytest.mark.parametrize("wrap", WRAPPERS, ids=lambda w: w.__name__)
@pytest.mark.parametrize("outer", DERIVATIVES, ids=lambda w: w.__name__)
@pytest.mark.parametrize("inner", DERIVATIVES, ids=lambda w: w.__name__)
def test_second_derivative(wrap: Any, outer: Any, inner: Any) -> None:
    def f(x: Any) -> Any:
        return np.sum(np.tanh(x * x[0])) * np.log(np.sum(np.exp(x)))

    expected = V @ fgrad.hessian(f)(X) @ V
    assert np.isclose(outer(inner(wrap(f)))(X), expected, rtol=1e-8)
