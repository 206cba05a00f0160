"""Random numbers: distributions by fixed keys, independence, transforms, refusals."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

import fgrad
from fgrad import random
from fgrad.errors import ArgumentError, DtypeError, InPlaceError, ShapeError

KEY = random.key(1234)
N = 20_000

DISTRIBUTIONS = {
    "uniform": (lambda k: random.uniform(k, N), stats.uniform()),
    "uniform_range": (lambda k: random.uniform(k, N, minval=-2, maxval=3), stats.uniform(-2, 5)),
    "normal": (lambda k: random.normal(k, N), stats.norm()),
    "truncated": (lambda k: random.truncated_normal(k, -1, 2.5, N), stats.truncnorm(-1, 2.5)),
    "exponential": (lambda k: random.exponential(k, N), stats.expon()),
    "gumbel": (lambda k: random.gumbel(k, N), stats.gumbel_r()),
    "logistic": (lambda k: random.logistic(k, N), stats.logistic()),
    "laplace": (lambda k: random.laplace(k, N), stats.laplace()),
    "cauchy": (lambda k: random.cauchy(k, N), stats.cauchy()),
}
DRAWS = {
    "bits": lambda k: random.bits(k, (3, 2), np.uint64),
    "uniform": lambda k: random.uniform(k, (3, 2), np.float32),
    "normal": lambda k: random.normal(k, 5),
    "randint": lambda k: random.randint(k, 4, -3, 9, np.int16),
    "randint_wide": lambda k: random.randint(k, 4, -(2**62), 2**62),
    "bernoulli": lambda k: random.bernoulli(k, 0.3, 6),
    "permutation": lambda k: random.permutation(k, 6),
    "choice": lambda k: random.choice(k, 5, 3, p=np.array([0.1, 0, 0.4, 0.3, 0.2])),
    "choice_once": lambda k: random.choice(k, 5, 3, replace=False),
    "categorical": lambda k: random.categorical(k, np.array([0.0, 1.0, -1.0]), shape=4),
    "split": lambda k: random.split(k, 3),
    "fold_in": lambda k: random.fold_in(k, 5),
}


@pytest.mark.parametrize("name", DISTRIBUTIONS)
def test_distribution(name):
    draw, distribution = DISTRIBUTIONS[name]
    assert stats.kstest(draw(KEY), distribution.cdf).pvalue > 1e-3


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_dtype_and_moments(dtype):
    x = random.normal(KEY, N, dtype)
    assert x.dtype == dtype
    x = x.astype(np.float64)
    assert abs(x.mean()) < 4 / np.sqrt(N)
    assert abs(x.var() - 1) < 4 * np.sqrt(2 / N)
    u = random.uniform(KEY, N, dtype)
    assert u.dtype == dtype and u.min() >= 0 and u.max() < 1


def test_normal_pairs_are_independent():
    x = random.normal(KEY, 2 * N)
    assert abs(np.corrcoef(x[:N], x[N:])[0, 1]) < 4 / np.sqrt(N)
    assert abs(np.corrcoef(x[:N] ** 2, x[N:] ** 2)[0, 1]) < 4 / np.sqrt(N)


def test_split_keys_are_independent():
    a, b = random.split(KEY)
    x, y, z = (random.normal(k, N) for k in (a, b, KEY))
    for u, v in ((x, y), (x, z), (y, z)):
        assert abs(np.corrcoef(u, v)[0, 1]) < 4 / np.sqrt(N)


def test_derived_keys_differ():
    keys = [*random.split(KEY, 50), *[random.fold_in(KEY, i) for i in range(50)], KEY]
    keys += [random.fold_in(random.key(0), 5), random.fold_in(random.key(5), 0)]
    keys += [random.bits(KEY, 2)]
    assert len({tuple(k.tolist()) for k in keys}) == len(keys)


def test_neighbouring_seeds():
    means = np.array([random.uniform(random.key(s), 100).mean() for s in range(300)])
    assert stats.kstest(means, stats.norm(0.5, np.sqrt(1 / 1200)).cdf).pvalue > 1e-3


@pytest.mark.parametrize("limits", [(0, 7), (-5, 3), (0, 2**33 + 1), (-(2**62), 2**62)])
def test_randint_is_uniform(limits):
    low, high = limits
    x = random.randint(KEY, N, low, high)
    assert x.dtype == np.int64 and x.min() >= low and x.max() < high
    cells = min(8, high - low)
    counts = np.bincount(((x - low) / (high - low) * cells).astype(int), minlength=cells)
    assert stats.chisquare(counts).pvalue > 1e-3


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int16, np.uint32, np.int64, np.uint64])
def test_randint_full_range(dtype):
    info = np.iinfo(dtype)
    x = random.randint(KEY, 4000, int(info.min), int(info.max) + 1, dtype)
    assert x.dtype == dtype
    scaled = (x.astype(np.float64) - float(info.min)) / (float(info.max) - float(info.min))
    assert abs(scaled.mean() - 0.5) < 4 / np.sqrt(12 * 4000)


def test_randint_of_arrays():
    low, high = np.array([0, 5, -10]), np.array([1, 8, 2**40])
    x = random.randint(KEY, (500, 3), low, high)
    assert np.all(x >= low) and np.all(x < high)
    assert set(x[:, 0]) == {0} and set(x[:, 1]) == {5, 6, 7}


def test_wide_product_is_exact():
    keys = random.split(KEY, 20)
    for k, span in zip(keys, [3**i for i in range(21, 41)], strict=True):
        a, b, c, d = (int(w) for w in random.bits(k, 4))
        u = (a << 96) | (b << 64) | (c << 32) | d
        assert random.randint(k, (), 0, span, np.uint64) == (u * span) >> 128


def test_bernoulli_frequency():
    p = np.array([0.0, 0.1, 0.9, 1.0])
    x = random.bernoulli(KEY, p, (N, 4))
    assert x.dtype == bool
    np.testing.assert_allclose(x.mean(0), p, atol=4 * 0.5 / np.sqrt(N))
    assert not x[:, 0].any() and x[:, 3].all()


def test_categorical_frequency():
    p = np.array([[0.5, 0.3, 0.2], [0.0, 0.25, 0.75]])
    with np.errstate(divide="ignore"):
        x = random.categorical(KEY, np.log(p), shape=(N, 2))
    for j in range(2):
        frequency = np.bincount(x[:, j], minlength=3) / N
        np.testing.assert_allclose(frequency, p[j], atol=4 * 0.5 / np.sqrt(N))
    assert random.categorical(KEY, np.zeros((4, 2, 3)), axis=0).shape == (2, 3)


def test_permutation():
    orders = np.array([random.permutation(k, 3) for k in random.split(KEY, 600)])
    _, counts = np.unique(orders, axis=0, return_counts=True)
    assert len(counts) == 6 and stats.chisquare(counts).pvalue > 1e-3
    x = np.arange(12.0).reshape(3, 4)
    y = random.permutation(KEY, x, axis=1)
    np.testing.assert_array_equal(np.sort(y, axis=1), x)
    np.testing.assert_array_equal(y[1] - y[0], np.full(4, 4.0))


def test_choice():
    p = np.array([0.0, 0.2, 0.5, 0.3, 0.0])
    x = random.choice(KEY, 5, N, p=p)
    np.testing.assert_allclose(np.bincount(x, minlength=5) / N, p, atol=2 / np.sqrt(N))
    assert random.choice(KEY, np.ones((2, 3, 4)), (5, 6), axis=1).shape == (2, 5, 6, 4)
    assert len(set(random.choice(KEY, 50, 50, replace=False).tolist())) == 50


def test_choice_without_replacement_by_weight():
    p = np.array([0.5, 0.25, 0.25])
    draws = np.array([random.choice(k, 3, 2, replace=False, p=p) for k in random.split(KEY, 2000)])
    first = np.bincount(draws[:, 0], minlength=3) / 2000
    np.testing.assert_allclose(first, p, atol=0.05)
    second_given_0 = draws[draws[:, 0] == 1, 1]
    assert abs(np.mean(second_given_0 == 0) - 2 / 3) < 0.09


@pytest.mark.parametrize("name", DRAWS)
def test_vmap_over_keys(name):
    keys = random.split(KEY, 3)
    batched = fgrad.vmap(DRAWS[name])(keys)
    np.testing.assert_array_equal(batched, np.stack([DRAWS[name](k) for k in keys]))


@pytest.mark.parametrize("name", DRAWS)
def test_jit_gives_the_same(name):
    compiled = fgrad.jit(DRAWS[name])(KEY)
    if name == "normal":
        np.testing.assert_allclose(compiled, DRAWS[name](KEY), rtol=1e-14)
    else:
        np.testing.assert_array_equal(compiled, DRAWS[name](KEY))
    assert compiled.dtype == DRAWS[name](KEY).dtype


def test_gradient_through_location_and_scale():
    noise = random.normal(KEY, 4)

    def loss(mean, std):
        return np.sum((mean + std * random.normal(KEY, 4)) ** 2)

    by_mean, by_std = fgrad.grad(loss, (0, 1))(0.5, 2.0)
    np.testing.assert_allclose(by_mean, np.sum(2 * (0.5 + 2 * noise)))
    np.testing.assert_allclose(by_std, np.sum(2 * (0.5 + 2 * noise) * noise))
    slope = fgrad.grad(lambda high: np.sum(random.uniform(KEY, 3, maxval=high)))(2.0)
    np.testing.assert_allclose(slope, np.sum(random.uniform(KEY, 3)))


def test_traced_seed():
    seeds = np.array([-1, 0, 3])
    expected = np.stack([random.key(int(s)) for s in seeds])
    np.testing.assert_array_equal(fgrad.vmap(random.key)(seeds), expected)


def test_empty_shapes():
    assert random.normal(KEY, (0, 3)).shape == (0, 3)
    assert random.permutation(KEY, 0).shape == (0,)
    assert random.randint(KEY, 0, 0, 5).shape == (0,)


@pytest.mark.parametrize("key", [np.random.default_rng(0), np.random.RandomState(0), 3, None])
def test_not_a_key(key):
    with pytest.raises(ArgumentError, match="takes a key"):
        random.normal(key)


def test_refusals():
    with pytest.raises(ArgumentError, match="vmap"):
        random.normal(random.split(KEY))
    with pytest.raises(InPlaceError, match="permutation"):
        random.shuffle(KEY, np.ones(3))
    with pytest.raises(DtypeError):
        random.normal(KEY, 3, np.int64)
    with pytest.raises(ArgumentError, match="below"):
        random.randint(KEY, 3, 5, 5)
    with pytest.raises(ArgumentError, match="fit"):
        random.randint(KEY, 3, 0, 300, np.int8)
    with pytest.raises(ArgumentError, match="integer"):
        random.randint(KEY, 3, 0.0, 2.0)
    with pytest.raises(ArgumentError, match="cannot be drawn"):
        random.choice(KEY, 3, 4, replace=False)
    with pytest.raises(ArgumentError, match="negative"):
        random.choice(KEY, 2, p=[-0.5, 1.5])
    with pytest.raises(ShapeError):
        random.choice(KEY, 2, p=[1.0])
    with pytest.raises(ArgumentError, match="64 bits"):
        random.key(0.5)
