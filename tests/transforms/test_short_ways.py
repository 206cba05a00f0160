"""The short ways of gradients at the prompt give what the long ones do."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

import fgrad
from fgrad.errors import ShapeError

DTYPES = (np.float64, np.float32)
# The product of x, which is differentiated, and a constant, or of x and a function of it.
PRODUCTS = {
    "matrix @ x": lambda x, m, v: m @ x,
    "x @ matrix": lambda x, m, v: x @ m.T,
    "turned @ x": lambda x, m, v: np.ascontiguousarray(m.T).T @ x,
    "every second row": lambda x, m, v: m[::2] @ x,
    "x @ vector": lambda x, m, v: x @ v,
    "vector @ x": lambda x, m, v: v @ x,
    "x @ x": lambda x, m, v: x @ np.sin(x),
    "outer": lambda x, m, v: np.outer(x, v) @ x,
    "dot": lambda x, m, v: np.dot(m, x),
    "tensordot": lambda x, m, v: np.tensordot(m, x, 1),
    "read twice": lambda x, m, v: m @ x + m @ np.cos(x),
}


def loss_of(name, n, dtype, rng):
    m, v = rng.standard_normal((n, n)).astype(dtype), rng.standard_normal(n).astype(dtype)
    return lambda x: np.mean(np.sin(PRODUCTS[name](x, m, v)) ** 2)


def differs(loss, x, step):
    """Central differences, in float64."""
    found = []
    for e in np.eye(len(x)):
        found.append((loss(x + step * e) - loss(x - step * e)) / (2 * step))
    return np.array(found)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n", [3, 40])  # the larger matrix is not copied
@pytest.mark.parametrize("name", PRODUCTS)
def test_gradients_of_products(name, n, dtype, rng):
    loss, x = loss_of(name, n, dtype, rng), (rng.standard_normal(n) / n).astype(dtype)
    found = fgrad.grad(loss)(x)
    assert found.dtype == dtype
    single = dtype is np.float32
    near = {"rtol": 2e-2, "atol": 2e-3} if single else {"rtol": 1e-5, "atol": 1e-8}
    np.testing.assert_allclose(found, differs(loss, x.astype(np.float64), 1e-6), **near)
    near = {"rtol": 1e-4, "atol": 1e-5} if single else {"rtol": 1e-11, "atol": 1e-13}
    np.testing.assert_allclose(found, fgrad.jit(fgrad.grad(loss))(x), **near)


@pytest.mark.parametrize("name", PRODUCTS)
def test_transforms_of_gradients_of_products(name, rng):
    loss, x, t = loss_of(name, 6, np.float64, rng), rng.standard_normal(6), rng.standard_normal(6)
    gradient = fgrad.grad(loss)
    second = differs(lambda x: gradient(x) @ t, x, 1e-6)
    for found in (
        fgrad.grad(lambda x: gradient(x) @ t)(x),
        fgrad.jvp(gradient, (x,), (t,))[1],
        fgrad.vmap(lambda s: fgrad.jvp(gradient, (x,), (s,))[1])(t[None])[0],
    ):
        np.testing.assert_allclose(found, second, rtol=1e-5, atol=1e-8)
    rows = fgrad.vmap(gradient)(np.stack([x, t]))
    np.testing.assert_allclose(rows, [gradient(x), gradient(t)], rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("of", ["an array", "a view", "a read-only array"])
def test_a_matrix_that_was_read_may_be_written_only_later(of, rng):
    m = rng.standard_normal((60, 60))
    held = m[:50] if of == "a view" else m
    m.flags.writeable = of != "a read-only array"

    def loss(x):
        y = held @ x
        m[0, 0] = 7.0
        return np.sum(y)

    with pytest.raises(ValueError, match="read-only"):
        fgrad.grad(loss)(np.ones(60))
    assert m.flags.writeable == (of != "a read-only array")


def test_a_code_that_is_exchanged_is_seen():
    def one(x):
        return np.sum(x**2)

    def other(x):
        return np.sum(np.array([x[0] ** 3, x[1]]))

    x = np.array([1.0, 2.0])
    assert fgrad.grad(one)(x).tolist() == [2.0, 4.0]
    one.__code__ = other.__code__
    assert fgrad.grad(one)(x).tolist() == [3.0, 1.0]


def test_defaults_that_are_exchanged_are_seen():
    def helper(x):
        return np.array([x[1], 2.0 * x[0]])

    def loss(x, of=np.sin):
        return np.sum(of(x) ** 2)

    x = np.array([1.0, 2.0])
    plain = fgrad.grad(loss)(x)
    np.testing.assert_allclose(plain, 2 * np.sin(x) * np.cos(x))
    loss.__defaults__ = (helper,)
    assert fgrad.grad(loss)(x).tolist() == [8.0, 4.0]


def test_what_a_function_closes_over_is_looked_at_each_time():
    def helper(x):
        return np.array([x[1], 2.0 * x[0]])

    def loss(x):
        return np.sum(of(x) * scale)

    x, scale = np.array([1.0, 2.0]), np.ones(2)
    of = np.sin
    np.testing.assert_allclose(fgrad.grad(loss)(x), np.cos(x))
    of = helper
    assert fgrad.grad(loss)(x).tolist() == [2.0, 1.0]
    scale = 3.0
    assert fgrad.grad(loss)(x).tolist() == [6.0, 3.0]


def test_a_variable_without_value_is_pythons_error():
    def loss(x):
        return np.sum(x) * later

    with pytest.raises(NameError, match="later"):
        fgrad.grad(loss)(np.ones(2))
    later = 2.0
    assert fgrad.grad(loss)(np.ones(2)).tolist() == [2.0, 2.0]


def cube_loss(x):
    return np.sum(x**3)


@pytest.mark.parametrize("called", [False, True])
def test_names_and_pickles_do_not_depend_on_calls(called):
    made = fgrad.grad(cube_loss)
    if called:
        made(np.ones(2))
    assert made.__name__ == "cube_loss"
    assert repr(made) == "<grad(cube_loss)>"
    again = pickle.loads(pickle.dumps(made))
    assert again(np.ones(2)).tolist() == [3.0, 3.0]


@pytest.mark.parametrize("axis", [None, 0, -1, (0, 1)])
@pytest.mark.parametrize("keepdims", [False, True])
@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.float16])
def test_gradients_of_means(axis, keepdims, dtype, rng):
    x = rng.standard_normal((3, 4)).astype(dtype)
    found = fgrad.grad(lambda x: np.sum(np.mean(x, axis, keepdims=keepdims)))(x)
    assert found.dtype == dtype
    count = {None: 12, 0: 3, -1: 4, (0, 1): 12}[axis]
    np.testing.assert_allclose(found, np.full((3, 4), 1 / count), rtol=1e-3)


def test_an_error_of_a_product_is_numpys_kind():
    with pytest.raises(ShapeError, match="do not fit together"):
        fgrad.grad(lambda x: np.sum(np.ones((3, 4)) @ x))(np.ones(3))
