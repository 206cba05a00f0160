"""Checkpoints: the same derivatives, less memory."""

from __future__ import annotations

import gc
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fgrad
from fgrad import checkpoint_policies as policies
from fgrad.compile.jit.call import executable_of
from fgrad.errors import ArgumentError, MissingRuleError
from fgrad.tracing.record import Record
from tests.transforms.functions import CASES, Smooth
from tests.transforms.test_compose import DERIVATIVES, X

POLICIES = {
    "none": None,
    "nothing": policies.nothing_saveable,
    "everything": policies.everything_saveable,
    "dots": policies.dots_saveable,
    "dots without batch": policies.dots_with_no_batch_dims_saveable,
    "sines": lambda prim, *avals, **params: prim.name in ("sin", "exp"),
    "both": policies.save_from_both_policies(
        policies.dots_saveable, policies.save_only_these_names("a")
    ),
}


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.name)
@pytest.mark.parametrize("policy", list(POLICIES))
def test_gradient_is_the_same(case: Smooth, policy: str) -> None:
    f = fgrad.checkpoint(case.fun, policy=POLICIES[policy])
    expected = fgrad.grad(case.fun)(X)
    assert np.allclose(f(X), case.fun(X), rtol=1e-12)
    assert np.allclose(fgrad.grad(f)(X), expected, rtol=1e-10)
    assert np.allclose(fgrad.jit(fgrad.grad(f))(X), expected, rtol=1e-10)


@pytest.mark.parametrize("case", CASES[:3], ids=lambda c: c.name)
@pytest.mark.parametrize("way", DERIVATIVES, ids=lambda w: w.__name__)
def test_second_order(case: Smooth, way: Any) -> None:
    f = fgrad.checkpoint(case.fun, policy=POLICIES["sines"])
    expected = fgrad.grad(way(case.fun))(X)
    assert np.allclose(fgrad.grad(way(f))(X), expected, rtol=1e-9)
    assert np.allclose(fgrad.grad(fgrad.checkpoint(way(f)))(X), expected, rtol=1e-9)


def test_closures_trees_and_static_arguments() -> None:
    def total(w: Any, x: Any) -> Any:
        f = fgrad.checkpoint(
            lambda p, power: {"y": np.sum(np.sin(w * p["x"]) ** power)}, static_argnums=1
        )
        return f({"x": x}, 2)["y"]

    def plain(w: Any, x: Any) -> Any:
        return np.sum(np.sin(w * x) ** 2)

    for argnums in (0, 1, (0, 1)):
        expected = fgrad.grad(plain, argnums)(X, X)
        assert np.allclose(fgrad.grad(total, argnums)(X, X), expected, rtol=1e-12)
        assert np.allclose(fgrad.jit(fgrad.grad(total, argnums))(X, X), expected, rtol=1e-12)


def test_values_are_known_inside() -> None:
    f = fgrad.checkpoint(lambda x: x**2 if x > 0 else -x)
    assert fgrad.grad(f)(3.0) == 6.0
    assert fgrad.grad(f)(-3.0) == -1.0


def test_in_a_scan() -> None:
    @fgrad.checkpoint
    def step(c: Any, x: Any) -> Any:
        return np.sin(c) * x, c

    def total(xs: Any, wrap: Callable[..., Any]) -> Any:
        c, ys = fgrad.lax.scan(wrap, 1.0, xs)
        return c + np.sum(ys)

    expected = fgrad.grad(lambda xs: total(xs, lambda c, x: (np.sin(c) * x, c)))(X)
    assert np.allclose(fgrad.grad(lambda xs: total(xs, step))(X), expected, rtol=1e-12)
    assert np.allclose(fgrad.jit(fgrad.grad(lambda xs: total(xs, step)))(X), expected, rtol=1e-12)


def test_complex_values_pass_the_barrier() -> None:
    def f(x: Any) -> Any:
        z = np.exp(1j * x)
        return np.sum(fgrad.checkpoint(lambda z: np.abs(z * z + 1.0))(z))

    assert np.allclose(fgrad.jit(fgrad.grad(f))(X), fgrad.grad(f)(X), rtol=1e-10)


def test_each_sine_runs_again_in_eager_mode() -> None:
    calls: list[int] = []

    def observed(prim: Any, *_avals: Any, **_params: Any) -> bool:
        calls.append(prim.name == "sin")
        return prim.name == "sin"

    f = fgrad.checkpoint(lambda x: np.sum(np.exp(np.sin(x))), policy=observed)
    fgrad.grad(f)(X)
    assert sum(calls) == 1


def layer(w: Any, h: Any) -> Any:
    """One layer of a network."""
    return np.tanh(np.tanh(h @ w) + h)


def network(wrap: Callable[[Any], Any], each: int) -> Callable[[Any, Any], Any]:
    """Sixteen layers, `each` of which share a checkpoint."""

    def segment(ws: Any, h: Any) -> Any:
        for w in ws:
            h = layer(w, h)
        return h

    def loss(ws: Any, x: Any) -> Any:
        for i in range(0, 16, each):
            x = wrap(segment)(ws[i : i + each], x)
        return np.sum(x * x)

    return loss


def test_compiled_code_needs_less_memory(rng: np.random.Generator) -> None:
    ws = [rng.normal(size=(64, 64)) / 8 for _ in range(16)]
    x = rng.normal(size=(1024, 64))
    plain = fgrad.inspect(fgrad.grad(network(lambda f: f, 4)))(ws, x)
    saved = fgrad.inspect(fgrad.grad(network(fgrad.checkpoint, 4)))(ws, x)
    assert saved.memory.temporaries < 0.5 * plain.memory.temporaries
    found = fgrad.jit(fgrad.grad(network(fgrad.checkpoint, 4)))(ws, x)
    expected = fgrad.jit(fgrad.grad(network(lambda f: f, 4)))(ws, x)
    assert all(np.allclose(a, b, rtol=1e-9) for a, b in zip(found, expected, strict=True))


def test_the_reported_memory_is_what_is_allocated(rng: np.random.Generator) -> None:
    ws = [rng.normal(size=(64, 64)) / 8 for _ in range(16)]
    x = rng.normal(size=(256, 64))
    f = fgrad.grad(network(fgrad.checkpoint, 4))
    memory = fgrad.inspect(f)(ws, x).memory
    program = fgrad.make_program(f)(ws, x)
    assert executable_of(program).arena_bytes == memory.temporaries
    assert memory.arguments == sum(w.nbytes for w in ws) + x.nbytes
    assert memory.results == sum(w.nbytes for w in ws)


def test_eager_derivatives_drop_residuals(rng: np.random.Generator) -> None:
    """What is alive between the forward and the backward pass."""
    ws = [rng.normal(size=(8, 8)) for _ in range(16)]
    x = rng.normal(size=(512, 8))

    def alive(loss: Callable[[Any, Any], Any]) -> int:
        gc.collect()
        _, pullback = fgrad.vjp(lambda ws: loss(ws, x), ws)
        records = [r for r in gc.get_objects() if type(r) is Record]
        sizes = {id(y): y.nbytes for r in records for y in r.results if isinstance(y, np.ndarray)}
        del pullback
        return sum(sizes.values())

    assert alive(network(fgrad.checkpoint, 4)) < 0.3 * alive(network(lambda f: f, 4))


def test_names_choose() -> None:
    def f(x: Any) -> Any:
        y = fgrad.checkpoint_name(np.exp(x), "y")
        return np.sum(np.sin(y) * np.cos(fgrad.checkpoint_name(y * x, "z")))

    for policy in (
        policies.save_only_these_names("y"),
        policies.save_any_names_but_these("y"),
        policies.save_anything_except_these_names("y", "z"),
    ):
        found = fgrad.grad(fgrad.checkpoint(f, policy=policy))(X)
        assert np.allclose(found, fgrad.grad(f)(X), rtol=1e-12)
        found = fgrad.jit(fgrad.grad(fgrad.checkpoint(f, policy=policy)))(X)
        assert np.allclose(found, fgrad.grad(f)(X), rtol=1e-12)
    assert np.allclose(fgrad.vmap(fgrad.grad(f))(X), fgrad.grad(f)(X))


def test_refusals() -> None:
    with pytest.raises(MissingRuleError, match=r"save_only_these_names"):
        policies.save_and_offload_only_these_names(names_which_can_be_saved=())
    with pytest.raises(ArgumentError, match="a policy is a function, not str"):
        fgrad.checkpoint(np.sin, policy="dots")


def test_without_a_barrier_the_compiler_may_undo_it() -> None:
    f = fgrad.checkpoint(lambda x: np.sum(np.sin(np.sin(x))), prevent_cse=False)
    program = fgrad.make_program(fgrad.grad(f))(X)
    assert "barrier" not in [eqn.prim.name for eqn in program.eqns]
    assert np.allclose(fgrad.jit(fgrad.grad(f))(X), fgrad.grad(f)(X))


def test_barriers_pass_values_and_derivatives() -> None:
    def f(x: Any) -> Any:
        y = fgrad.lax.optimization_barrier({"a": np.sin(x), "b": (x, np.arange(3), 2.0)})
        return np.sum(y["a"] * y["b"][0] * y["b"][1]) * y["b"][2]

    def g(x: Any) -> Any:
        return np.sum(np.sin(x) * x * np.arange(3)) * 2.0

    assert np.isclose(f(X), g(X)) and np.isclose(fgrad.jit(f)(X), g(X))
    assert np.allclose(fgrad.grad(f)(X), fgrad.grad(g)(X))
    assert np.allclose(fgrad.jit(fgrad.hessian(f))(X), fgrad.hessian(g)(X))
    batched = fgrad.jit(fgrad.vmap(fgrad.grad(f)))(np.stack([X, 2 * X]))
    assert np.allclose(batched[1], fgrad.grad(g)(2 * X))
