"""Optimisers against torch.optim and formulas; schedules; dtypes, pytrees, jit, meta-gradients."""

from __future__ import annotations

import math

import numpy as np
import pytest

import fgrad
from fgrad import optim, tree
from fgrad.errors import ArgumentError, GradDtypeError

STEPS = 20
MATRIX = np.array([[3.0, 0.5], [0.5, 1.0]])
START = {"w": np.array([1.0, -2.0]), "b": np.array(0.5)}


def loss(params):
    w = params["w"]
    return np.dot(w, np.dot(MATRIX, w)) + np.sin(params["b"]) + params["b"] ** 2


def run(optimizer, params=START, steps=STEPS):
    state = optimizer.init(params)
    for _ in range(steps):
        gradients = fgrad.grad(loss)(params)
        updates, state = optimizer.update(gradients, state, params)
        params = optim.apply_updates(params, updates)
    return params


def run_torch(make, clip=None):
    torch = pytest.importorskip("torch")
    w = torch.tensor(START["w"], requires_grad=True)
    b = torch.tensor(START["b"], requires_grad=True)
    optimizer, matrix = make(torch, [w, b]), torch.tensor(MATRIX)
    for _ in range(STEPS):
        optimizer.zero_grad()
        (w @ matrix @ w + torch.sin(b) + b**2).backward()
        optimizer.step()
    return {"w": w.detach().numpy(), "b": b.detach().numpy()}


PAIRS = {
    "sgd": (lambda: optim.sgd(0.05), lambda t, p: t.optim.SGD(p, 0.05)),
    "momentum": (
        lambda: optim.sgd(0.05, momentum=0.9),
        lambda t, p: t.optim.SGD(p, 0.05, momentum=0.9),
    ),
    "nesterov": (
        lambda: optim.sgd(0.05, momentum=0.8, nesterov=True),
        lambda t, p: t.optim.SGD(p, 0.05, momentum=0.8, nesterov=True),
    ),
    "adam": (
        lambda: optim.adam(0.1, b1=0.8, b2=0.95),
        lambda t, p: t.optim.Adam(p, 0.1, betas=(0.8, 0.95)),
    ),
    "adamw": (
        lambda: optim.adamw(0.1, weight_decay=0.3),
        lambda t, p: t.optim.AdamW(p, 0.1, weight_decay=0.3),
    ),
    "rmsprop": (
        lambda: optim.rmsprop(0.05, decay=0.8),
        lambda t, p: t.optim.RMSprop(p, 0.05, alpha=0.8),
    ),
    "rmsprop_centered": (
        lambda: optim.rmsprop(0.05, decay=0.8, centered=True, eps=1e-3),
        lambda t, p: t.optim.RMSprop(p, 0.05, alpha=0.8, centered=True, eps=1e-3),
    ),
    "adagrad": (lambda: optim.adagrad(0.3), lambda t, p: t.optim.Adagrad(p, 0.3)),
    "weight_decay": (
        lambda: optim.chain(optim.add_decayed_weights(0.1), optim.sgd(0.05)),
        lambda t, p: t.optim.SGD(p, 0.05, weight_decay=0.1),
    ),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", PAIRS)
def test_against_torch(name):
    ours, theirs = PAIRS[name]
    result, expected = run(ours()), run_torch(theirs)
    for leaf in ("w", "b"):
        np.testing.assert_allclose(result[leaf], expected[leaf], rtol=1e-12, atol=1e-13)


def test_nadam_formula():
    g, m, v, p = 2.0, 0.0, 0.0, 1.0
    optimizer = optim.adam(0.1, nesterov=True)
    params, state = 1.0, optimizer.init(1.0)
    for t in range(1, 6):
        m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g * g
        mean = 0.9 * m / (1 - 0.9 ** (t + 1)) + 0.1 * g / (1 - 0.9**t)
        p -= 0.1 * mean / (math.sqrt(v / (1 - 0.999**t)) + 1e-8)
        updates, state = optimizer.update(g, state)
        params = optim.apply_updates(params, updates)
    np.testing.assert_allclose(params, p, rtol=1e-14)


OPTIMIZERS = [name for name in PAIRS]


@pytest.mark.parametrize("name", OPTIMIZERS)
@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_dtype_is_kept(name, dtype):
    params = [np.ones(3, dtype), {"b": dtype(2)}]
    optimizer = PAIRS[name][0]()
    state = optimizer.init(params)
    for _ in range(2):
        updates, state = optimizer.update(params, state, params)
        params = optim.apply_updates(params, updates)
    assert all(x.dtype == dtype for x in tree.leaves((params, updates)))
    assert all(x.dtype in (dtype, np.int64) for x in tree.leaves(state))


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_under_jit(name):
    optimizer = PAIRS[name][0]()

    @fgrad.jit
    def step(params, state):
        updates, state = optimizer.update(fgrad.grad(loss)(params), state, params)
        return optim.apply_updates(params, updates), state

    params, state = START, optimizer.init(START)
    for _ in range(5):
        params, state = step(params, state)
    expected = run(optimizer, steps=5)
    for leaf in ("w", "b"):
        np.testing.assert_allclose(params[leaf], expected[leaf], rtol=1e-12)
    assert tree.structure(state) == tree.structure(optimizer.init(START))


def test_gradient_through_optimiser():
    def final(rate):
        return loss(run(optim.adam(rate), steps=3))

    slope = fgrad.grad(final)(0.1)
    eps = 1e-6
    np.testing.assert_allclose(slope, (final(0.1 + eps) - final(0.1 - eps)) / (2 * eps), rtol=1e-6)


def test_schedule_in_optimiser():
    schedule = optim.piecewise_constant(0.1, {2: 0.5})
    optimizer = optim.sgd(schedule)
    state, rates = optimizer.init(1.0), []
    for _ in range(4):
        updates, state = optimizer.update(1.0, state)
        rates.append(-updates)
    np.testing.assert_allclose(rates, [0.1, 0.1, 0.05, 0.05])


SCHEDULES = {
    "constant": (optim.constant_schedule(0.3), lambda t: 0.3),
    "linear": (optim.linear_schedule(1.0, 0.2, 8), lambda t: 1 - 0.8 * min(t / 8, 1)),
    "exponential": (optim.exponential_decay(2.0, 5, 0.5), lambda t: 2 * 0.5 ** (t / 5)),
    "staircase": (
        optim.exponential_decay(2.0, 5, 0.5, staircase=True),
        lambda t: 2 * 0.5 ** (t // 5),
    ),
    "cosine": (
        optim.cosine_decay(1.0, 10, 0.1),
        lambda t: 0.9 * 0.5 * (1 + math.cos(math.pi * min(t / 10, 1))) + 0.1,
    ),
    "warmup": (
        optim.warmup_cosine_decay(0.1, 1.0, 4, 12, 0.2),
        lambda t: (
            0.1 + 0.9 * t / 4
            if t < 4
            else 0.2 + 0.8 * 0.5 * (1 + math.cos(math.pi * min((t - 4) / 8, 1)))
        ),
    ),
}


@pytest.mark.parametrize("name", SCHEDULES)
def test_schedule(name):
    schedule, formula = SCHEDULES[name]
    steps = np.arange(16)
    expected = [formula(int(t)) for t in steps]
    np.testing.assert_allclose([schedule(t) for t in steps], expected, rtol=1e-13)
    np.testing.assert_allclose(fgrad.vmap(schedule)(steps), expected, rtol=1e-13)
    np.testing.assert_allclose(fgrad.jit(schedule)(5), formula(5), rtol=1e-13)


def test_clip_by_global_norm():
    clip = optim.clip_by_global_norm(2.0)
    big = {"a": np.array([3.0, 0.0], np.float32), "b": np.array([[4.0]])}
    updates, _ = clip.update(big, clip.init(big))
    np.testing.assert_allclose(optim.global_norm(updates), 2.0, rtol=1e-6)
    assert updates["a"].dtype == np.float32
    small = {"a": np.array([0.1])}
    np.testing.assert_array_equal(clip.update(small, clip.init(small))[0]["a"], small["a"])
    zero = np.zeros(3)
    np.testing.assert_array_equal(clip.update(zero, clip.init(zero))[0], zero)
    assert np.all(fgrad.grad(lambda x: optim.global_norm([x]))(zero) == 0)


def test_mask_of_weight_decay():
    decay = optim.add_decayed_weights(0.5, mask={"w": True, "b": False})
    zeros = tree.map(np.zeros_like, START)
    updates, _ = decay.update(zeros, decay.init(START), START)
    np.testing.assert_array_equal(updates["w"], 0.5 * START["w"])
    assert updates["b"] == 0


def test_refusals():
    with pytest.raises(ArgumentError, match="needs the parameters"):
        optim.adamw(0.1).update(START, optim.adamw(0.1).init(START))
    with pytest.raises(ArgumentError, match="structure"):
        optim.apply_updates(START, {"w": np.ones(2)})
    with pytest.raises(ArgumentError, match="positive"):
        optim.cosine_decay(1.0, 0)


# --- complex parameters ---------------------------------------------------------------------------

GOAL = np.array([2 + 2j, -1j])
COMPLEX_START = np.array([0.3 - 1j, 1.5])


def sgd_reference(z, gradient, steps, rate=0.05, momentum=0.0, nesterov=False, decay=0.0):
    m = 0.0
    for _ in range(steps):
        g = gradient(z) + decay * z
        m = momentum * m + g
        z = z - rate * (g + momentum * m if nesterov else m)
    return z


def adam_reference(z, gradient, steps, rate=0.1, b1=0.9, b2=0.999, eps=1e-8, decay=0.0):
    m, v = 0.0, np.zeros(z.shape)
    for t in range(1, steps + 1):
        g = gradient(z)
        m, v = b1 * m + (1 - b1) * g, b2 * v + (1 - b2) * (g.real**2 + g.imag**2)
        step = m / (1 - b1**t) / (np.sqrt(v / (1 - b2**t)) + eps)
        z = z - rate * (step + decay * z)
    return z


def rms_reference(z, gradient, steps, rate=0.05, decay=0.9, eps=1e-8, centered=False, momentum=0.0):
    mean, v, m = 0.0, np.zeros(z.shape), 0.0
    for _ in range(steps):
        g = gradient(z)
        v = decay * v + (1 - decay) * np.abs(g) ** 2
        mean = decay * mean + (1 - decay) * g
        spread = v - np.abs(mean) ** 2 if centered else v
        m = momentum * m + g / (np.sqrt(spread) + eps)
        z = z - rate * m
    return z


def adagrad_reference(z, gradient, steps, rate=0.3, eps=1e-10):
    total = np.zeros(z.shape)
    for _ in range(steps):
        g = gradient(z)
        total = total + np.abs(g) ** 2
        z = z - rate * g / (np.sqrt(total) + eps)
    return z


def clipped_reference(z, gradient, steps, rate=0.1, most=1.5):
    for _ in range(steps):
        g = gradient(z)
        norm = np.sqrt(np.sum(np.abs(g) ** 2))
        z = z - rate * g * min(1.0, most / norm)
    return z


COMPLEX = {
    "sgd": (lambda: optim.sgd(0.05), sgd_reference, {}),
    "momentum": (lambda: optim.sgd(0.05, 0.9), sgd_reference, {"momentum": 0.9}),
    "nesterov": (
        lambda: optim.sgd(0.05, 0.8, True),
        sgd_reference,
        {"momentum": 0.8, "nesterov": True},
    ),
    "weight_decay": (
        lambda: optim.chain(optim.add_decayed_weights(0.1), optim.sgd(0.05)),
        sgd_reference,
        {"decay": 0.1},
    ),
    "adam": (lambda: optim.adam(0.1, 0.8, 0.95), adam_reference, {"b1": 0.8, "b2": 0.95}),
    "adamw": (lambda: optim.adamw(0.1, weight_decay=0.3), adam_reference, {"decay": 0.3}),
    "rmsprop": (lambda: optim.rmsprop(0.05), rms_reference, {}),
    "centered": (
        lambda: optim.rmsprop(0.05, eps=1e-3, centered=True),
        rms_reference,
        {"eps": 1e-3, "centered": True},
    ),
    "rms_momentum": (
        lambda: optim.rmsprop(0.05, momentum=0.5),
        rms_reference,
        {"momentum": 0.5},
    ),
    "adagrad": (lambda: optim.adagrad(0.3), adagrad_reference, {}),
    "clipped": (
        lambda: optim.chain(optim.clip_by_global_norm(1.5), optim.sgd(0.1)),
        clipped_reference,
        {},
    ),
}


def complex_loss(z):
    return np.sum(np.abs(z - GOAL.astype(z.dtype)) ** 2 + z.real**4)


def complex_steps(optimizer, dtype):
    @fgrad.jit
    def step(z, state):
        updates, state = optimizer.update(fgrad.grad(complex_loss)(z), state, z)
        return optim.apply_updates(z, updates), state

    z = COMPLEX_START.astype(dtype)
    state = optimizer.init(z)
    for _ in range(STEPS):
        z, state = step(z, state)
    return z


@pytest.mark.parametrize("dtype", [np.complex128, np.complex64])
@pytest.mark.parametrize("name", COMPLEX)
def test_complex_parameters_take_the_steps_of_the_formulas(name, dtype):
    make, reference, settings = COMPLEX[name]
    z = complex_steps(make(), dtype)
    assert z.dtype == dtype

    def gradient(z):
        return 2 * (z - GOAL) + 4 * z.real**3

    expected = reference(COMPLEX_START, gradient, STEPS, **settings)
    tolerance = 1e-10 if dtype == np.complex128 else 1e-4
    np.testing.assert_allclose(z, expected, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("name", COMPLEX)
def test_split_numbers_are_pairs_of_real_ones(name):
    optimizer = COMPLEX[name][0]()
    z = complex_steps(optim.split_real_and_imaginary(optimizer), np.complex128)
    pair = COMPLEX_START.real, COMPLEX_START.imag
    state = optimizer.init(pair)
    for _ in range(STEPS):
        gradients = fgrad.grad(lambda p: complex_loss(p[0] + 1j * p[1]))(pair)
        updates, state = optimizer.update(gradients, state, pair)
        pair = optim.apply_updates(pair, updates)
    np.testing.assert_allclose(z, pair[0] + 1j * pair[1], rtol=1e-10)


@pytest.mark.parametrize(
    "run",
    [
        lambda: optim.clip_by_value(1.0).update(np.array([3 + 4j]), optim.EmptyState()),
        lambda: optim.apply_updates(np.ones(1), np.array([1j])),
        lambda: optim.scale(1j).update(np.ones(1), optim.EmptyState()),
        lambda: optim.add_decayed_weights(0.1).update(
            np.ones(1), optim.EmptyState(), np.array([1j])
        ),
    ],
    ids=["clip_by_value", "apply_updates", "scale", "add_decayed_weights"],
)
def test_imaginary_parts_are_not_dropped(run):
    with pytest.raises(GradDtypeError):
        run()
