"""Optimisers inside of others: what `update` is told reaches them; complex parameters; Sophia."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import fgrad
from fgrad import optim, tree
from fgrad.errors import ArgumentError

LookaheadParams = optim.LookaheadParams
WRAPPERS: dict[str, Callable[[Any], Any]] = {
    "chain": lambda inner: optim.chain(optim.scale(1.0), inner),
    "named_chain": lambda inner: optim.named_chain(("a", inner)),
    "masked": lambda inner: optim.masked(inner, {"z": True, "x": True}),
    "multi_transform": lambda inner: optim.multi_transform({"a": inner}, {"z": "a", "x": "a"}),
    "multi_steps": lambda inner: optim.multi_steps(inner, 1),
    "apply_if_finite": lambda inner: optim.apply_if_finite(inner, 3),
    "dynamic_loss_scale": lambda inner: optim.dynamic_loss_scale(inner, initial=1.0),
    "lookahead": lambda inner: optim.lookahead(inner, 6, 0.5),
}
PARAMS = {"z": np.array([1.0 + 2.0j, -0.5j]), "x": np.array([2.0, -1.0, 0.5])}


def loss(p: Any) -> Any:
    return np.sum(np.abs(p["z"] - 1j) ** 2 * np.array([1.0, 3.0])) + np.sum(p["x"] ** 4)


def path(optimizer: Any, steps: int, pair: bool = False, **scaled: Any) -> Any:
    """Parameters after some jitted steps; `update` is given the value and the function."""

    @fgrad.jit
    def step(p: Any, state: Any) -> Any:
        fast = p.fast if pair else p
        value, slope = fgrad.value_and_grad(loss)(fast)
        slope = fgrad.tree.map(lambda g: g * scaled.get("by", 1.0), slope)
        updates, state = optimizer.update(slope, state, p, value=value, obj_fn=loss)
        return optim.apply_updates(p, updates), state

    p: Any = LookaheadParams(PARAMS, PARAMS) if pair else PARAMS
    state = optimizer.init(p)
    for _ in range(steps):
        p, state = step(p, state)
    return p.fast if pair else p


INNER = optim.chain(
    optim.scale_by_sophia(update_interval=2, gamma=0.5), optim.scale_by_polyak(), optim.scale(-0.05)
)


@pytest.mark.parametrize("name", WRAPPERS)
def test_keywords_reach_what_is_inside(name: str) -> None:
    """Wrappers that change nothing here give the steps of the optimizer itself."""
    expected = path(INNER, 4)
    found = path(WRAPPERS[name](INNER), 4, pair=name == "lookahead")
    for key, x in expected.items():
        np.testing.assert_allclose(found[key], x, rtol=1e-12, err_msg=key)
    assert loss(expected) < loss(PARAMS)


@pytest.mark.parametrize("name", WRAPPERS)
def test_keywords_that_nobody_takes_are_refused(name: str) -> None:
    optimizer = WRAPPERS[name](optim.sgd(0.1))
    p = LookaheadParams(PARAMS, PARAMS) if name == "lookahead" else PARAMS
    with pytest.raises((ArgumentError, TypeError), match="obj_fn"):
        optimizer.update(PARAMS, optimizer.init(p), p, obj_fn=loss)


# ------------------------------------------------------------------ complex parameters


@pytest.mark.parametrize("dtype", [np.complex64, np.complex128])
def test_mean_of_gradients_of_complex_parameters(dtype: type) -> None:
    rng = np.random.default_rng(0)
    grads = [(rng.normal(size=3) + 1j * rng.normal(size=3)).astype(dtype) for _ in range(6)]
    w = np.zeros(3, dtype)
    optimizer = optim.multi_steps(optim.adam(0.1), 3)
    state, plain, inner = optimizer.init(w), w, optim.adam(0.1).init(w)
    update = fgrad.jit(optimizer.update)
    for k, g in enumerate(grads):
        updates, state = update(g, state, w)
        assert updates.dtype == dtype and (np.any(updates != 0) == (k % 3 == 2))
        w = w + updates
    for k in (0, 3):
        mean = np.mean(grads[k : k + 3], axis=0).astype(dtype)
        updates, inner = optim.adam(0.1).update(mean, inner, plain)
        plain = plain + updates
    np.testing.assert_allclose(w, plain, rtol=1e-5 if dtype is np.complex64 else 1e-12)


@pytest.mark.parametrize("bad", [np.inf, np.nan, 1j * np.inf, complex(0, np.nan)])
def test_loss_scale_with_complex_parameters(bad: complex) -> None:
    """Steps are those of the true gradient; what overflows in one part is left out."""
    w = np.array([1 + 2j, 3.0], np.complex64)
    optimizer = optim.dynamic_loss_scale(optim.sgd(0.5), initial=2.0**10, growth_interval=2)
    update = fgrad.jit(optimizer.update)
    state = optimizer.init(w)
    updates, state = update(w * state.factor, state, w)
    np.testing.assert_allclose(updates, -0.5 * w, rtol=1e-6)
    updates, state = update(np.array([1.0, bad], np.complex64), state, w)
    assert updates.dtype == np.complex64 and np.all(updates == 0) and state.factor == 2.0**9
    for _ in range(2):
        updates, state = update(w * state.factor, state, w)
    assert state.factor == 2.0**10


# ----------------------------------------------------------------------------- Sophia


def test_sophia_by_its_formulas() -> None:
    """Of a loss whose Hessian is diagonal, whatever the signs."""
    curves = np.array([1.0, 10.0, -3.0, 0.0])
    w = np.array([1.0, -2.0, 0.5, 4.0])

    def bowl(w: Any) -> Any:
        return np.sum(curves * w**2) / 2 + w[3]

    optimizer = optim.sophia(0.1, 0.9, 0.5, weight_decay=0.01, gamma=0.5, update_interval=2)
    step = fgrad.jit(lambda w, s: optimizer.update(fgrad.grad(bowl)(w), s, w, obj_fn=bowl))
    state, mine = optimizer.init(w), w
    m, h = np.zeros(4), np.zeros(4)
    for k in range(6):
        updates, state = step(mine, state)
        g = curves * mine + np.array([0, 0, 0, 1.0])
        m = 0.9 * m + 0.1 * g
        long = np.clip(m / (1 - 0.9 ** (k + 1)) / np.maximum(0.5 * h, 1e-8), -1, 1)
        if k % 2 == 0:
            h = 0.5 * h + 0.5 * curves
        expected = -0.1 * (long + 0.01 * mine)
        np.testing.assert_allclose(updates, expected, rtol=1e-10)
        mine = mine + updates


def test_diagonal_has_no_bias() -> None:
    """The mean over keys of the estimate, of real and imaginary parts."""
    rng = np.random.default_rng(3)
    a = rng.normal(size=(3, 3)) + 1j * rng.normal(size=(3, 3))

    def bowl(p: Any) -> Any:
        return np.sum(np.abs(a @ p["z"]) ** 2) + np.sum(p["x"][:, None] * p["x"]) ** 2 / 4

    p = {"z": np.array([1.0, 1j, 0.5]), "x": np.array([0.5, 1.0])}
    rule = optim.scale_by_sophia(b2=0.0)

    def estimate(key: Any) -> Any:
        state = rule.init(p)._replace(key=key)
        return rule.update(p, state, p, obj_fn=bowl)[1].nu

    found = fgrad.vmap(estimate)(fgrad.random.split(fgrad.random.key(1), 4000))
    exact = 2 * np.sum(np.abs(a) ** 2, axis=0) * (1 + 1j)
    np.testing.assert_allclose(found["z"].mean(0), exact, rtol=0.1)
    s = np.sum(p["x"])
    np.testing.assert_allclose(found["x"].mean(0), [3 * s**2, 3 * s**2], rtol=0.1)


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16, np.float32, np.complex64])
def test_sophia_keeps_dtypes_and_goes_down(dtype: Any) -> None:
    def bowl(w: Any) -> Any:
        return np.sum(np.real((w - 1) * np.conj(w - 1)))

    w = np.array([0.0, 3.0, -2.0, 1.0]).astype(dtype)  # the last one has no slope
    optimizer = optim.sophia(0.1, weight_decay=0.0)
    state, before = optimizer.init(w), bowl(w)
    types = [x.dtype for x in fgrad.tree.leaves(state)]
    for _ in range(25):
        updates, state = optimizer.update(fgrad.grad(bowl)(w), state, w, obj_fn=bowl)
        assert updates.dtype == w.dtype
        w = optim.apply_updates(w, updates)
    assert [x.dtype for x in fgrad.tree.leaves(state)] == types
    assert bowl(w) < 0.2 * before


def test_sophia_refuses() -> None:
    optimizer, w = optim.sophia(0.1), np.ones(2)
    state = optimizer.init(w)
    with pytest.raises(ArgumentError, match="update_interval"):
        optim.sophia(0.1, update_interval=0)
    with pytest.raises((ArgumentError, TypeError), match="obj_fn"):
        optimizer.update(w, state, w)
    with pytest.raises(ArgumentError):
        optimizer.update(w, state, None, obj_fn=np.sum)
    with pytest.raises(ArgumentError):
        optimizer.update({"w": w}, state, w, obj_fn=np.sum)
    with pytest.raises(ValueError, match="shape"):
        optimizer.update(np.ones(3), state, w, obj_fn=np.sum)
    again = pickle.loads(pickle.dumps(optimizer))
    assert np.all(again.update(w, state, w, obj_fn=np.sum)[0] < 0)


# --- masks of all kinds --------------------------------------------------------------------------

TREE = {"w": np.ones(2), "b": {"c": np.ones(2), "d": np.ones(2)}}
WITHOUT = {"w": np.ones(2), "b": None}
MASKS: dict[str, tuple[Any, Any, list[float]]] = {  # the updates of ones by sgd(0.5), by leaf
    "all leaves": ({"w": True, "b": {"c": False, "d": True}}, TREE, [1.0, -0.5, -0.5]),
    "a prefix": ({"w": True, "b": False}, TREE, [1.0, 1.0, -0.5]),
    "one for all": (True, TREE, [-0.5] * 3),
    "none": (False, TREE, [1.0] * 3),
    "a function": (lambda p: tree.map(lambda x: x.ndim == 1, p), TREE, [-0.5] * 3),
    "NumPy's": ({"w": np.True_, "b": np.False_}, TREE, [1.0, 1.0, -0.5]),
    "parts that are not there": ({"w": True, "b": False}, WITHOUT, [-0.5]),
    "empty parts": ({"w": True, "b": {}}, {"w": np.ones(2), "b": {}}, [-0.5]),
    "nothing": ({}, {}, []),
}


@pytest.mark.parametrize("name", MASKS)
def test_masks(name: str) -> None:
    mask, params, expected = MASKS[name]
    optimizer = optim.masked(optim.sgd(0.5), mask)
    updates, _ = optimizer.update(params, optimizer.init(params), params)
    assert tree.structure(updates) == tree.structure(params)
    assert [float(x[0]) for x in tree.leaves(updates)] == expected
    compiled, _ = fgrad.jit(optimizer.update)(params, optimizer.init(params), params)
    assert [float(x[0]) for x in tree.leaves(compiled)] == expected


@pytest.mark.parametrize(
    "mask", [{"w": True}, {"w": True, "b": False, "z": True}, {"w": True, "b": None}, [True, False]]
)
def test_masks_of_other_trees_are_refused(mask: Any) -> None:
    with pytest.raises(ArgumentError, match="the mask does not fit"):
        optim.masked(optim.adam(0.1), mask).init(TREE)


def test_keywords_reach_what_is_given_pairs() -> None:
    """L-BFGS with a line search of complex parameters: the value function takes the whole ones."""
    goal = np.array([1.0 + 2.0j, -0.5j])

    def loss(z: Any) -> Any:
        return np.sum(np.abs(z - goal) ** 2) + np.sum(np.real(z) ** 4)

    optimizer = optim.split_real_and_imaginary(optim.lbfgs())
    z = np.zeros(2, complex)
    state = optimizer.init(z)
    for _ in range(15):
        value, g = fgrad.value_and_grad(loss)(z)
        if np.max(np.abs(g)) < 1e-7:
            break
        updates, state = optimizer.update(g, state, z, value=value, grad=g, value_fn=loss)
        z = optim.apply_updates(z, updates)
    assert z.dtype == complex and np.max(np.abs(fgrad.grad(loss)(z))) < 1e-6
    with pytest.raises(ArgumentError, match="'valeu'"):
        optim.chain(optimizer).update(z, (state,), z, valeu=1.0)
