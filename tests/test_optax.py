"""Optimisers and schedules of optax's list: their steps are those of optax; wrappers of them."""

from __future__ import annotations

import json
import pickle
from typing import Any

import numpy as np
import pytest
from optax_cases import CASES, SCHEDULES, SINGLE, STEPS, gradient, params
from sources import ROOT

import fgrad
from fgrad import optim, random, tree
from fgrad.errors import ArgumentError

GOLDEN = json.loads((ROOT / "tests" / "golden" / "optax.json").read_text(encoding="utf-8"))
RUNS = [
    (name, dtype)
    for name, (_, has_complex) in CASES.items()
    for dtype in ("float64", "float32", *(["complex128"] if has_complex else []))
]


def trained(optimizer: Any, dtype: str, compiled: bool = False) -> Any:
    """The parameters after some steps."""
    p = tree.map(np.array, params(dtype))
    state = optimizer.init(p)

    def update(p: Any, state: Any, step: int) -> Any:
        gradients = tree.map(lambda x: gradient(x, step), p)
        updates, state = optimizer.update(gradients, state, p)
        return optim.apply_updates(p, updates), state

    for step in range(STEPS):
        f = fgrad.jit(update, static_argnums=2) if compiled else update
        p, state = f(p, state, step)
    return p


@pytest.mark.parametrize(("name", "dtype"), RUNS)
def test_steps(name: str, dtype: str) -> None:
    found = trained(CASES[name][0](optim), dtype)
    for x, y in zip(tree.leaves(found), tree.leaves(params(dtype)), strict=True):
        assert x.dtype == y.dtype
    flat = np.concatenate([np.ravel(x) for x in tree.leaves([found["b"], found["w"]])])
    flat = flat.view(flat.real.dtype)
    rtol = 2e-4 if dtype == "float32" else 1e-6 if name in SINGLE else 1e-9
    np.testing.assert_allclose(flat, GOLDEN[f"{name} {dtype}"], rtol=rtol, atol=rtol)


@pytest.mark.parametrize("name", ["adabelief", "adan", "lamb", "radam", "novograd", "masked"])
def test_steps_under_jit(name: str) -> None:
    optimizer = CASES[name][0](optim)
    plain, compiled = [trained(optimizer, "float64", c) for c in (False, True)]
    for x, y in zip(tree.leaves(plain), tree.leaves(compiled), strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-12)


@pytest.mark.parametrize("name", SCHEDULES)
def test_schedules(name: str) -> None:
    schedule = SCHEDULES[name](optim)
    np.testing.assert_allclose([schedule(t) for t in range(12)], GOLDEN[name], rtol=1e-12)


def test_transformations_are_pickled() -> None:
    for make in (optim.yogi, optim.lion, optim.fromage):
        again = pickle.loads(pickle.dumps(make(0.1)))
        np.testing.assert_array_equal(
            trained(again, "float64")["w"], trained(make(0.1), "float64")["w"]
        )


def test_arguments_of_update_reach_the_part_that_takes_them() -> None:
    w, g = np.array([3.0, 4.0]), np.array([3.0, 4.0])
    inner = optim.chain(optim.sgd(1.0), optim.masked(optim.polyak_sgd(), True))
    optimizer = optim.apply_if_finite(optim.named_chain(("a", inner), ("b", optim.scale(1.0))), 3)
    step = fgrad.jit(lambda g, s, v: optimizer.update(g, s, w, value=v))
    np.testing.assert_allclose(step(g, optimizer.init(w), 5.0)[0], [0.6, 0.8])
    with pytest.raises(ArgumentError, match="'valeu'"):
        inner.update(g, inner.init(w), w, valeu=5.0)
    with pytest.raises(TypeError, match="value"):
        inner.update(g, inner.init(w), w)


@pytest.mark.parametrize("variant, value, rate", [("sps", -5.0, -0.2), ("sps+", -5.0, 0.0)])
def test_polyak_rates(variant: str, value: float, rate: float) -> None:
    t = optim.scale_by_polyak(variant=variant)
    found = t.update(np.array([3.0, 4.0]), t.init(0.0), value=value)[0]
    np.testing.assert_allclose(found, rate * np.array([3.0, 4.0]))
    assert not np.any(t.update(np.zeros(2), t.init(0.0), value=value)[0])
    with pytest.raises(ArgumentError, match="variant"):
        optim.scale_by_polyak(variant="sps++")


def test_sums_of_squares_of_complex_numbers_have_no_largest() -> None:
    with pytest.raises(TypeError, match="split_real_and_imaginary"):
        optim.sm3(0.1).init(np.ones(2, complex))
    both = optim.split_real_and_imaginary(optim.sm3(0.1))
    assert both.update(np.ones(2, complex), both.init(np.ones(2, complex)))[0].dtype == complex


# --- wrappers -------------------------------------------------------------------------------------


def test_accumulated_steps_are_those_of_a_larger_batch() -> None:
    gradients = [np.array([k, 2.0 * k]) for k in range(1, 7)]
    p, q = np.ones(2), np.ones(2)
    many, one = optim.multi_steps(optim.adam(0.1), 3), optim.adam(0.1)
    state, other = many.init(p), one.init(q)
    step = fgrad.jit(many.update)
    for g in gradients:
        updates, state = step(g, state, p)
        p = optim.apply_updates(p, updates)
    for k in (0, 3):
        updates, other = one.update(np.mean(gradients[k : k + 3], axis=0), other, q)
        q = optim.apply_updates(q, updates)
    np.testing.assert_allclose(p, q, rtol=1e-12)


def test_steps_that_are_not_finite_are_left_out() -> None:
    optimizer = optim.apply_if_finite(optim.sgd(0.1, momentum=0.9), 2)
    state = optimizer.init(np.ones(2))
    step = fgrad.jit(optimizer.update)
    seen = []
    for g in (1.0, np.nan, 1.0, np.inf, np.inf, np.inf):
        updates, state = step(np.array([g, 1.0]), state)
        seen.append(updates[1])
    np.testing.assert_allclose(seen[:5], [-0.1, 0, -0.19, 0, 0])
    assert int(state.total_notfinite) == 4 and not np.isfinite(updates[0])  # the third in a row


def test_loss_scale_finds_a_factor_and_skips_overflows() -> None:
    optimizer = optim.dynamic_loss_scale(optim.sgd(0.1), initial=2.0**17, growth_interval=3)
    w = np.array([1.0, -2.0], np.float32)
    state = optimizer.init(w)

    def scaled_loss(w: Any, factor: Any) -> Any:
        half = w.astype(np.float16)
        return np.sum(half * half).astype(np.float32) * factor

    @fgrad.jit
    def step(w: Any, state: Any) -> Any:
        g = fgrad.grad(scaled_loss)(w, state.factor)
        updates, state = optimizer.update(g, state, w)
        return optim.apply_updates(w, updates), state

    with np.errstate(all="ignore"):
        first, state = step(w, state)
        np.testing.assert_array_equal(first, w)  # 2^17 overflows: skipped, halved
        assert float(state.factor) == 2.0**16
        factors = []
        for _ in range(30):
            w, state = step(w, state)
            factors.append(float(state.factor))
    assert w.dtype == np.float32 and np.max(np.abs(w)) < 0.02
    assert len(set(factors)) > 2  # it grew again


def test_half_gradients_are_unscaled_in_float32() -> None:
    optimizer = optim.dynamic_loss_scale(optim.sgd(1.0), initial=2.0**15)
    w = np.zeros(1, np.float32)
    updates, _ = optimizer.update(np.array([1e-3], np.float16), optimizer.init(w), w)
    np.testing.assert_allclose(updates, [-float(np.float16(1e-3)) / 2**15], rtol=1e-6)


def test_lookahead_follows() -> None:
    optimizer = optim.lookahead(optim.sgd(0.1), 2, 0.5)
    pair = optim.LookaheadParams(np.ones(1), np.ones(1))
    state = optimizer.init(pair)
    seen = []
    for _ in range(4):
        updates, state = optimizer.update(np.ones(1), state, pair)
        pair = optim.apply_updates(pair, updates)
        seen.append((float(pair.fast[0]), float(pair.slow[0])))
    np.testing.assert_allclose(seen, [(0.9, 1), (0.9, 0.9), (0.8, 0.9), (0.8, 0.8)])


def test_rprop_steps_by_signs() -> None:
    """As in the paper, and in PyTorch; optax makes each step one later."""
    optimizer = optim.rprop(0.1)
    state, seen = optimizer.init(np.zeros(1)), []
    for g in (3.0, 2.0, -1.0, -1.0, -1.0):
        updates, state = optimizer.update(np.array([g]), state)
        seen.append(float(updates[0]))
    np.testing.assert_allclose(seen, [-0.1, -0.12, 0, 0.06, 0.072])


def test_average_of_parameters() -> None:
    average = {"w": np.zeros(2)}
    for _ in range(200):
        average = optim.incremental_update({"w": np.ones(2)}, average, 0.1)
    np.testing.assert_allclose(average["w"], 1, rtol=1e-6)


def test_noise_shrinks_and_depends_on_the_key() -> None:
    t = optim.add_noise(1.0, 0.55, random.key(0))
    state, sizes = t.init(np.zeros(2000)), []
    for _ in range(3):
        noise, state = t.update(np.zeros(2000), state)
        sizes.append(np.std(noise))
    expected = [np.sqrt(1 / k**0.55) for k in (1, 2, 3)]
    np.testing.assert_allclose(sizes, expected, rtol=0.06)


def test_masks_keep_decay_away_from_frozen_parameters() -> None:
    p = {"w": np.ones(2), "frozen": np.ones(2)}
    optimizer = optim.masked(optim.adamw(0.1, weight_decay=0.5), {"w": True, "frozen": False})
    g = {"w": np.ones(2), "frozen": np.zeros(2)}
    updates, _ = optimizer.update(g, optimizer.init(p), p)
    assert np.all(updates["frozen"] == 0) and np.all(updates["w"] < -0.1)
    named = optim.named_chain(("clip", optim.clip_by_global_norm(1.0)), ("step", optim.sgd(0.1)))
    assert set(named.init(p)) == {"clip", "step"}


REFUSED: dict[str, Any] = {
    "label": lambda: optim.multi_transform({"a": optim.sgd(0.1)}, "b").init(np.ones(2)),
    "every": lambda: optim.multi_steps(optim.sgd(0.1), 0),
    "lookahead": lambda: optim.lookahead(optim.sgd(0.1), 2, 0.5).update(1.0, None, 1.0),
    "params": lambda: optim.lamb(0.1).update(1.0, optim.lamb(0.1).init(1.0)),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name: str) -> None:
    with pytest.raises(ArgumentError):
        REFUSED[name]()
