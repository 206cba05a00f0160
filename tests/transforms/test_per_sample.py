"""Gradients of each example, their norms and clipped sums; batches in chunks."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import fgrad
from fgrad.errors import ArgumentError, BatchSizeError

PARAMS = {"w": np.linspace(-1.0, 1.0, 12).reshape(4, 3), "b": np.array([0.1, -0.2, 0.3])}


def loss(p: Any, x: Any, y: Any) -> Any:
    """The loss of one example."""
    return np.sum((np.tanh(x @ p["w"] + p["b"]) - y) ** 2)


def data(rng: np.random.Generator, size: int = 7) -> tuple[Any, Any]:
    """Examples."""
    return rng.normal(size=(size, 4)), rng.normal(size=(size, 3))


def loop(x: Any, y: Any) -> list[Any]:
    """The gradients, one after the other."""
    return [fgrad.grad(loss)(PARAMS, a, b) for a, b in zip(x, y, strict=True)]


def norms_of(gradients: list[Any]) -> np.ndarray:
    """Their norms."""
    return np.array([np.sqrt(sum(np.sum(v**2) for v in g.values())) for g in gradients])


CHUNKS = [None, 1, 3, 7, 100, "1 KB", "2 GB"]


@pytest.mark.parametrize("chunk", CHUNKS)
@pytest.mark.parametrize("compiled", [False, True])
def test_gradients(rng: np.random.Generator, chunk: Any, compiled: bool) -> None:
    f = fgrad.per_sample_grad(loss, chunk=chunk)
    x, y = data(rng)
    found = (fgrad.jit(f) if compiled else f)(PARAMS, x, y)
    for k, g in enumerate(loop(x, y)):
        assert np.allclose(found["w"][k], g["w"], rtol=1e-10)
        assert np.allclose(found["b"][k], g["b"], rtol=1e-10)


@pytest.mark.parametrize("chunk", CHUNKS)
@pytest.mark.parametrize("compiled", [False, True])
def test_norms(rng: np.random.Generator, chunk: Any, compiled: bool) -> None:
    f = fgrad.per_sample_grad(loss, chunk=chunk, norms_only=True)
    x, y = data(rng)
    found = (fgrad.jit(f) if compiled else f)(PARAMS, x, y)
    assert np.allclose(found, norms_of(loop(x, y)), rtol=1e-10)


@pytest.mark.parametrize("chunk", CHUNKS)
@pytest.mark.parametrize("compiled", [False, True])
def test_clipped_sum(rng: np.random.Generator, chunk: Any, compiled: bool) -> None:
    f = fgrad.per_sample_grad(loss, chunk=chunk, clip=2.0)
    x, y = data(rng)
    found = (fgrad.jit(f) if compiled else f)(PARAMS, x, y)
    gradients = loop(x, y)
    factors = np.minimum(1.0, 2.0 / norms_of(gradients))
    for name in PARAMS:
        expected = sum(c * g[name] for c, g in zip(factors, gradients, strict=True))
        assert np.allclose(found[name], expected, rtol=1e-10)


def test_axes_and_positions(rng: np.random.Generator) -> None:
    def f(x: Any, w: Any, scale: Any, v: Any) -> Any:
        return np.dot(w * v, x) * scale

    x, w, v = rng.normal(size=(3, 5)), rng.normal(size=3), rng.normal(size=3)
    gw, gv = fgrad.per_sample_grad(f, argnums=(1, 3), in_axes=(1, None, None, None))(x, w, 2.0, v)
    assert np.allclose(gw, 2.0 * (x.T * v)) and np.allclose(gv, 2.0 * (x.T * w))


def test_a_convolution_in_a_budget(rng: np.random.Generator) -> None:
    params = [rng.normal(size=(4, 1, 3, 3)) / 3, rng.normal(size=(4 * 6 * 6, 5)) / 10]

    def convnet(p: Any, image: Any, label: Any) -> Any:
        h = np.tanh(fgrad.nn.conv(image[None], p[0])[0])
        z = h.reshape(-1) @ p[1]
        return np.log(np.sum(np.exp(z))) - z[label]

    images, labels = rng.normal(size=(12, 1, 8, 8)), rng.integers(0, 5, size=12)
    expected = [
        np.sqrt(sum(np.sum(g**2) for g in fgrad.grad(convnet)(params, x, y)))
        for x, y in zip(images, labels, strict=True)
    ]
    f = fgrad.per_sample_grad(convnet, chunk="100 KB", norms_only=True)
    assert np.allclose(f(params, images, labels), expected, rtol=1e-10)
    assert np.allclose(fgrad.jit(f)(params, images, labels), expected, rtol=1e-10)


def test_cards(rng: np.random.Generator) -> None:
    x, y = data(rng)
    with pytest.raises(ArgumentError, match="not both"):
        fgrad.per_sample_grad(loss, norms_only=True, clip=1.0)
    with pytest.raises(ArgumentError, match="must be positive"):
        fgrad.per_sample_grad(loss, clip=0.0)
    with pytest.raises(ArgumentError, match=r"chunk='many' is not a size"):
        fgrad.per_sample_grad(loss, chunk="many")(PARAMS, x, y)
    with pytest.raises(BatchSizeError, match=r"(?s)different.* 7   args\[1\].* 6   args\[2\]"):
        fgrad.per_sample_grad(loss)(PARAMS, x, y[1:])


@pytest.mark.parametrize("size", [1, 2, 3, 7, 9])
@pytest.mark.parametrize("compiled", [False, True])
def test_vmap_in_chunks(rng: np.random.Generator, size: int, compiled: bool) -> None:
    def f(x: Any, w: Any, n: Any) -> Any:
        return {"a": x @ w, "b": (np.sum(x) * n, np.sum(w))}

    x, w = rng.normal(size=(4, 7)), rng.normal(size=4)
    axes = {"in_axes": (1, None, None), "out_axes": {"a": 0, "b": (-1, None)}}
    whole = fgrad.vmap(f, **axes)(x, w, 2.0)
    chunked: Any = fgrad.vmap(f, **axes, chunk_size=size)
    found = (fgrad.jit(chunked) if compiled else chunked)(x, w, 2.0)
    assert np.allclose(found["a"], whole["a"], rtol=1e-12)
    assert np.allclose(found["b"][0], whole["b"][0]) and np.allclose(found["b"][1], whole["b"][1])


def test_derivatives_of_chunks(rng: np.random.Generator) -> None:
    x = rng.normal(size=7)

    def total(x: Any) -> Any:
        return np.sum(fgrad.vmap(lambda v: np.sin(v) * v, chunk_size=3)(x))

    expected = np.cos(x) * x + np.sin(x)
    assert np.allclose(fgrad.grad(total)(x), expected)
    assert np.allclose(fgrad.jit(fgrad.grad(total))(x), expected)
    assert np.allclose(fgrad.vmap(fgrad.grad(total))(np.stack([x, x]))[1], expected)


@pytest.mark.parametrize("jacobian", [fgrad.jacfwd, fgrad.jacrev])
@pytest.mark.parametrize("size", [1, 2, 5])
def test_jacobians_in_chunks(rng: np.random.Generator, jacobian: Any, size: int) -> None:
    a, x = rng.normal(size=(4, 3)), rng.normal(size=3)

    def f(x: Any) -> Any:
        return np.tanh(a @ x)

    assert np.allclose(jacobian(f, chunk_size=size)(x), jacobian(f)(x), rtol=1e-12)
    assert np.allclose(fgrad.jit(jacobian(f, chunk_size=size))(x), jacobian(f)(x), rtol=1e-12)


def test_hessian_in_chunks(rng: np.random.Generator) -> None:
    x = rng.normal(size=5)
    f = lambda x: np.sum(x**4) + x[0] * x[1]  # noqa: E731
    assert np.allclose(fgrad.hessian(f, chunk_size=2)(x), fgrad.hessian(f)(x))


def test_chunks_bound_the_memory_of_compiled_code(rng: np.random.Generator) -> None:
    def one(x: Any) -> Any:
        return np.sum(np.sort(np.outer(x, x).ravel())[::2])

    x = rng.normal(size=(64, 32))
    whole = fgrad.inspect(fgrad.vmap(one))(x).memory.temporaries
    chunked = fgrad.inspect(fgrad.vmap(one, chunk_size=8))(x).memory.temporaries
    assert chunked < 0.3 * whole


@pytest.mark.parametrize("compiled", [False, True])
def test_odd_batches(compiled: bool) -> None:
    def loss(w: Any, x: Any) -> Any:
        return np.abs(np.sum(w * x)) ** 2

    def run(f: Any, *args: Any, **settings: Any) -> Any:
        g = fgrad.per_sample_grad(f, **settings)
        return (fgrad.jit(g) if compiled else g)(*args)

    w, nothing = np.array([1.0 + 1j, 2.0]), np.zeros((0, 2))
    x = np.array([[1.0, 0.0], [0.0, 0.0], [2.0, -1.0]])
    gradients = np.stack([fgrad.grad(loss)(w, row) for row in x])
    norms = np.sqrt(np.sum(np.abs(gradients) ** 2, axis=1))
    with np.errstate(all="raise"):
        found = run(loss, w, x, norms_only=True)
        assert found.dtype == np.float64
        np.testing.assert_allclose(found, norms)
        scale = np.minimum(1.0, 1.0 / np.maximum(norms, 1e-9))
        np.testing.assert_allclose(run(loss, w, x, clip=1.0), scale @ gradients)
        for chunk in (None, 2, "1MB"):
            assert run(loss, w, nothing, chunk=chunk).shape == (0, 2)
            assert run(loss, w, nothing, chunk=chunk, norms_only=True).shape == (0,)
            np.testing.assert_array_equal(run(loss, w, nothing, chunk=chunk, clip=1.0), [0, 0])
    assert run(lambda p, x: np.sum(x), {}, x, clip=1.0) == {}
    np.testing.assert_array_equal(run(lambda p, x: np.sum(x), {}, x, norms_only=True), np.zeros(3))
    for wrong in (np.array([1.0, 2.0]), "1", np.nan, 0):
        with pytest.raises(ArgumentError, match="must be positive"):
            run(loss, w, x, clip=wrong)
    with pytest.raises(BatchSizeError, match="no argument has a batched axis"):
        run(loss, w, x, in_axes=None)
