"""Functions of fgrad's in JAX: values, derivatives and batches under JAX's transforms."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fgrad
from fgrad.errors import UnsupportedTypeError

jax = pytest.importorskip("jax")
from fgrad.interop.jax import as_jax  # noqa: E402

jnp = jax.numpy
X = np.array([0.5, -1.0, 2.0])
M = np.arange(9.0).reshape(3, 3) / 9 + np.eye(3)
K = np.array([0, 2, 2])

Function = Callable[..., Any]


@pytest.fixture(autouse=True)
def _wide() -> Any:
    with jax.enable_x64(True):
        yield


# fgrad's function, JAX's, arguments.
SAME: dict[str, tuple[Function, Function, tuple[Any, ...]]] = {
    "elementwise": (lambda x: np.sin(x) * x, lambda x: jnp.sin(x) * x, (X,)),
    "to a number": (lambda x: np.sum(x**3), lambda x: jnp.sum(x**3), (X,)),
    "two": (lambda a, x: np.tanh(a @ x), lambda a, x: jnp.tanh(a @ x), (M, X)),
    "several": (lambda x, y: (x * y, np.sum(x)), lambda x, y: (x * y, jnp.sum(x)), (X, X + 1)),
    "integers beside": (lambda x, k: x[k] ** 2, lambda x, k: x[k] ** 2, (X, K)),
    "integers returned": (
        lambda x: (np.argmax(x), np.max(x)), lambda x: (jnp.argmax(x), jnp.max(x)), (X,)),
    "complex": (lambda z: np.exp(z) * z.conj(), lambda z: jnp.exp(z) * z.conj(), (X + 2j,)),
    "complex from real": (
        lambda x: np.exp(1j * x) * x, lambda x: jnp.exp(1j * x) * x, (X,)),
    "solve": (np.linalg.solve, jnp.linalg.solve, (M, X)),
    "a number": (lambda x: np.sin(x) * x, lambda x: jnp.sin(x) * x, (0.5,)),
}  # fmt: skip


def loss(f: Function) -> Function:
    """A real number of which each element of the results has its own share."""

    def weighted(*args: Any) -> Any:
        outs = [y.ravel() for y in jax.tree.leaves(f(*args)) if y.dtype.kind in "fc"]
        parts = [p for y in outs for p in (y.real, y.imag)]
        return sum([jnp.sum(p * jnp.linspace(1.0, 2.0, p.size)) for p in parts])

    return weighted


def floats(args: tuple[Any, ...]) -> tuple[int, ...]:
    return tuple([k for k, x in enumerate(args) if jnp.result_type(x).kind in "fc"])


def rows(args: tuple[Any, ...]) -> tuple[Any, ...]:
    """A batch of two of each operand that is a float."""
    return tuple([
        np.stack([x, x * 1.5]) if k in floats(args) else x for k, x in enumerate(args)
    ])  # fmt: skip


def axes(args: tuple[Any, ...]) -> tuple[int | None, ...]:
    return tuple([0 if k in floats(args) else None for k in range(len(args))])


TRANSFORMS: dict[str, Callable[[Function, tuple[Any, ...]], Any]] = {
    "value": lambda f, args: f(*args),
    "jit": lambda f, args: jax.jit(f)(*args),
    "grad": lambda f, args: jax.grad(loss(f), floats(args))(*args),
    "jit of grad": lambda f, args: jax.jit(jax.grad(loss(f), floats(args)))(*args),
    "vmap": lambda f, args: jax.vmap(f, axes(args))(*rows(args)),
    "vmap of grad": lambda f, args: jax.vmap(jax.grad(loss(f), floats(args)), axes(args))(
        *rows(args)),
    "grad of vmap": lambda f, args: jax.grad(loss(jax.vmap(f, axes(args))), floats(args))(
        *rows(args)),
    "vmap of vmap": lambda f, args: jax.vmap(jax.vmap(f, axes(args)), axes(args))(
        *rows(rows(args))),
    "vmap beside": lambda f, args: jax.vmap(lambda x: f(x, *args[1:]))(rows(args)[0]),
    "batch of one": lambda f, args: jax.vmap(f, axes(args))(
        *[x[:1] if a == 0 else x for x, a in zip(rows(args), axes(args), strict=True)]),
    "grad of grad": lambda f, args: jax.grad(
        lambda *args: loss(lambda *a: jax.grad(loss(f), floats(a))(*a))(*args), floats(args))(
        *args),
    "in a loop": lambda f, args: jax.lax.fori_loop(
        0, 3, lambda i, c: c + loss(f)(*args), 0.0),
}  # fmt: skip


@pytest.mark.parametrize("transform", TRANSFORMS)
@pytest.mark.parametrize("name", SAME)
def test_results_are_jaxs(name: str, transform: str) -> None:
    f, g, args = SAME[name]
    ours, theirs = (TRANSFORMS[transform](h, args) for h in (as_jax(f), g))
    for a, b in zip(jax.tree.leaves(ours), jax.tree.leaves(theirs), strict=True):
        assert a.dtype == b.dtype
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-12)


def test_an_empty_batch() -> None:
    found = jax.vmap(as_jax(lambda x, y: x * y), (0, None))(np.zeros((0, 3)), X)
    assert found.shape == (0, 3)


def test_trees_and_settings() -> None:
    f = as_jax(lambda p, x, *, power, mode: {"y": p["w"] * x**power, "mode": mode == "plain"})
    g = jax.grad(lambda p: f(p, X, power=2, mode="plain")["y"].sum())({"w": X})
    np.testing.assert_allclose(g["w"], X**2)
    assert f({"w": X}, X, power=2, mode="plain")["mode"]


def test_narrow_arrays_without_the_flag() -> None:
    with jax.enable_x64(False):
        y = as_jax(lambda x: np.cumsum(x) + np.arange(3))(jnp.ones(3))
        assert y.dtype == np.float32
        assert jax.grad(as_jax(lambda x: np.sum(x * X)))(jnp.ones(3)).dtype == np.float32


def test_errors_of_the_function_are_raised() -> None:
    with pytest.raises(Exception, match="Singular"):
        as_jax(np.linalg.inv)(np.zeros((2, 2))).block_until_ready()


# --- JAX's arrays as arguments --------------------------------------------------------------------

TAKEN: dict[str, Function] = {
    "jit": lambda x: fgrad.jit(lambda x: x * 2)(x),
    "grad": lambda x: fgrad.grad(lambda x: np.sum(x * x))(x),
    "vmap": lambda x: fgrad.vmap(lambda x: x * 2)(x),
    "operand": lambda x: fgrad.grad(lambda y: np.sum(y * x))(X) * 2,
    "left operand": lambda x: fgrad.grad(lambda y: np.sum(x * y))(X) * 2,
    "closed over": lambda x: fgrad.jit(lambda y: y * x)(np.full(3, 2.0)),
}


@pytest.mark.parametrize("name", TAKEN)
def test_jaxs_arrays_are_arrays(name: str) -> None:
    found = TAKEN[name](jnp.asarray(X))
    assert type(found) is np.ndarray
    np.testing.assert_array_equal(found, 2 * X)


def test_values_that_jax_traces_are_refused() -> None:
    with pytest.raises(UnsupportedTypeError, match="as_jax"):
        jax.jit(lambda x: fgrad.jit(lambda y: y * 2)(x))(X)
    with pytest.raises(UnsupportedTypeError, match="as_jax"):
        jax.grad(lambda x: fgrad.grad(lambda y: np.sum(y * y))(x).sum())(X)
