"""Random numbers of families with parameters: distributions, derivatives, transforms, refusals."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy import special, stats

import fgrad
from fgrad import random
from fgrad.errors import ArgumentError, DtypeError, ShapeError

KEY = random.key(3)
N = 20_000

CONTINUOUS: dict[str, tuple[Callable[..., Any], Any]] = {
    "gamma_small": (lambda k: random.gamma(k, 0.05, N), stats.gamma(0.05)),
    "gamma": (lambda k: random.gamma(k, 2.5, N), stats.gamma(2.5)),
    "gamma_large": (lambda k: random.gamma(k, 1e4, N), stats.gamma(1e4)),
    "loggamma": (lambda k: np.exp(random.loggamma(k, 0.5, N)), stats.gamma(0.5)),
    "beta": (lambda k: random.beta(k, 0.4, 2.0, N), stats.beta(0.4, 2.0)),
    "chisquare": (lambda k: random.chisquare(k, 3.0, N), stats.chi2(3.0)),
    "f": (lambda k: random.f(k, 3.0, 5.0, N), stats.f(3.0, 5.0)),
    "t": (lambda k: random.t(k, 3.0, N), stats.t(3.0)),
    "dirichlet": (
        lambda k: random.dirichlet(k, np.array([0.3, 1.0, 2.0]), N)[:, 0],
        stats.beta(0.3, 3.0),
    ),
    "lognormal": (lambda k: random.lognormal(k, 0.5, N), stats.lognorm(0.5)),
    "maxwell": (lambda k: random.maxwell(k, N), stats.maxwell()),
    "double_sided_maxwell": (
        lambda k: np.abs(random.double_sided_maxwell(k, 1.0, 2.0, N) - 1) / 2,
        stats.maxwell(),
    ),
    "pareto": (lambda k: random.pareto(k, 2.0, N), stats.pareto(2.0)),
    "rayleigh": (lambda k: random.rayleigh(k, 2.0, N), stats.rayleigh(scale=2.0)),
    "weibull_min": (lambda k: random.weibull_min(k, 2.0, 1.5, N), stats.weibull_min(1.5, scale=2)),
    "triangular": (lambda k: random.triangular(k, -1.0, 0.5, 3.0, N), stats.triang(0.375, -1, 4)),
    "wald": (lambda k: random.wald(k, 2.0, N), stats.invgauss(2.0)),
    "generalized_normal": (lambda k: random.generalized_normal(k, 1.5, N), stats.gennorm(1.5)),
    "ball": (
        lambda k: np.sum(np.abs(random.ball(k, 3, 1.0, N)), axis=1) ** 3,
        stats.uniform(),
    ),
    "multivariate_normal": (
        lambda k: random.multivariate_normal(k, [0.0, 1.0], [[2.0, 1.0], [1.0, 3.0]], N)[:, 1],
        stats.norm(1, np.sqrt(3)),
    ),
    "orthogonal": (  # one element of a rotation of space is uniform, by Archimedes
        lambda k: random.orthogonal(k, 3, (N,))[:, 0, 0],
        stats.uniform(-1, 2),
    ),
}
COUNTS: dict[str, tuple[Callable[..., Any], Any]] = {
    **{
        f"poisson_{m}": (lambda k, m=m: random.poisson(k, m, N), stats.poisson(m))
        for m in (0.1, 9.99, 10.0, 300.0)
    },
    **{
        f"binomial_{n}_{p}": (lambda k, n=n, p=p: random.binomial(k, n, p, N), stats.binom(n, p))
        for n, p in ((5, 0.3), (10, 0.9), (100, 0.3), (100, 0.7), (100_000, 0.01))
    },
    "geometric": (lambda k: random.geometric(k, 0.3, N), stats.geom(0.3)),
    "multinomial": (
        lambda k: random.multinomial(k, 20, np.array([2.0, 3.0, 5.0]), shape=(N, 3))[:, 1],
        stats.binom(20, 0.3),
    ),
}
DRAWS: dict[str, Callable[..., Any]] = {
    "gamma": lambda k: random.gamma(k, np.array([0.5, 2.0])),
    "f": lambda k: random.f(k, 3.0, 5.0, 4),
    "wald": lambda k: random.wald(k, 2.0, 4),
    "dirichlet": lambda k: random.dirichlet(k, np.ones(3)),
    "poisson": lambda k: random.poisson(k, np.array([3.0, 30.0])),
    "binomial": lambda k: random.binomial(k, 100, np.array([0.01, 0.4])),
    "multinomial": lambda k: random.multinomial(k, 9, np.ones(3)),
    "ball": lambda k: random.ball(k, 2),
    "orthogonal": lambda k: random.orthogonal(k, 3, m=2),
    "categorical": lambda k: random.categorical(k, np.zeros(5), shape=(3,), replace=False),
    "permutation": lambda k: random.permutation(k, np.arange(6).reshape(2, 3), 1, True),
}


@pytest.mark.parametrize("name", CONTINUOUS)
def test_continuous(name: str) -> None:
    draw, distribution = CONTINUOUS[name]
    assert stats.kstest(draw(KEY), distribution.cdf).pvalue > 1e-3


@pytest.mark.parametrize("name", COUNTS)
def test_counts(name: str) -> None:
    draw, distribution = COUNTS[name]
    x = np.asarray(draw(KEY))
    assert x.dtype == np.int64
    k = np.arange(int(distribution.ppf(1e-3)), int(distribution.ppf(0.999)) + 1)
    seen = np.array([np.count_nonzero(x == j) for j in k])
    expected = distribution.pmf(k) * N
    often = expected > 5
    seen = np.append(seen[often], N - seen[often].sum())
    expected = np.append(expected[often], N - expected[often].sum())
    assert stats.chisquare(seen, expected).pvalue > 1e-3


@pytest.mark.parametrize("name", DRAWS)
def test_compiled_and_mapped(name: str) -> None:
    draw, keys = DRAWS[name], random.split(KEY, 3)
    rows = np.stack([draw(k) for k in keys])
    np.testing.assert_allclose(np.stack([fgrad.jit(draw)(k) for k in keys]), rows, rtol=1e-12)
    np.testing.assert_allclose(fgrad.vmap(draw)(keys), rows, rtol=1e-12)


@pytest.mark.parametrize("a", [0.01, 0.3, 2.0, 30.0])
@pytest.mark.parametrize("compiled", [False, True])
def test_gamma_is_differentiable_in_its_parameter(a: float, compiled: bool) -> None:
    def draw(a: Any) -> Any:
        return random.loggamma(KEY, a)

    slope = fgrad.grad(draw)
    found = (fgrad.jit(slope) if compiled else slope)(a)
    level, h = special.gammainc(a, np.exp(draw(a))), 1e-4 * a
    ends = [np.log(special.gammaincinv(a + s * h, level)) for s in (-1, 1)]
    np.testing.assert_allclose(found, (ends[1] - ends[0]) / (2 * h), rtol=1e-5)


def test_derivatives_by_scales_and_means() -> None:
    for draw in (
        lambda s: random.rayleigh(KEY, s),
        lambda s: random.weibull_min(KEY, s, 1.5),
        lambda s: random.double_sided_maxwell(KEY, 0.0, s),
        lambda s: random.multivariate_normal(KEY, [0.0], np.ones((1, 1)) * s**2)[0],
    ):
        np.testing.assert_allclose(fgrad.grad(draw)(2.0), draw(1.0), rtol=1e-12)


EDGES: dict[str, tuple[Callable[[], Any], list[float]]] = {
    "gamma": (
        lambda: random.gamma(KEY, np.array([0.0, -1.0, np.inf, np.nan])),
        [0, np.nan, np.inf, np.nan],
    ),
    "poisson": (
        lambda: random.poisson(KEY, np.array([0.0, -1.0, np.nan, np.inf])),
        [0, -1, -1, -1],
    ),
    "poisson_float": (
        lambda: random.poisson(KEY, np.array([0.0, -1.0]), dtype=np.float32),
        [0, np.nan],
    ),
    "binomial": (
        lambda: random.binomial(
            KEY, np.array([0, -1, 10, 10, 10]), np.array([0.3, 0.3, 0, 1, 1.2])
        ),
        [0, -1, 0, 10, -1],
    ),
    "geometric": (lambda: random.geometric(KEY, np.array([0.0, 1.0, 2.0])), [-1, 1, -1]),
    "multinomial": (lambda: random.multinomial(KEY, 4, np.array([0.0, 1.0, 0.0])), [0, 4, 0]),
    "multinomial_none": (lambda: random.multinomial(KEY, -1, np.array([0.5, 0.5])), [-1, -1]),
    "empty": (lambda: random.gamma(KEY, np.ones(0)), []),
    "empty_counts": (lambda: random.poisson(KEY, np.ones(0)), []),
}


@pytest.mark.parametrize("name", EDGES)
def test_parameters_without_sense(name: str) -> None:
    draw, expected = EDGES[name]
    np.testing.assert_array_equal(draw(), expected)
    np.testing.assert_array_equal(fgrad.jit(draw)(), expected)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_dtypes(dtype: Any) -> None:
    for draw in (random.gamma, random.t, random.pareto, random.wald):
        assert draw(KEY, np.float32(2.0), 3, dtype).dtype == dtype
    assert random.orthogonal(KEY, 2, dtype=dtype).dtype == dtype


def test_unitary_matrices() -> None:
    q = random.orthogonal(KEY, 2, (3,), np.complex128, 4)
    np.testing.assert_allclose(
        q @ np.conj(np.swapaxes(q, 1, 2)), np.stack([np.eye(2)] * 3), atol=1e-12
    )


@pytest.mark.parametrize("method", ["cholesky", "eigh", "svd"])
def test_covariance(method: str) -> None:
    cov = np.array([[2.0, 1.0], [1.0, 3.0]])
    x = random.multivariate_normal(KEY, np.zeros(2), cov, N, method=method)
    np.testing.assert_allclose(np.cov(x.T), cov, atol=0.1)


def test_different_categories() -> None:
    logits = np.log([[0.7, 0.2, 0.1], [0.1, 0.1, 0.8]])
    x = random.categorical(KEY, logits, shape=(3, 2), replace=False)
    np.testing.assert_array_equal(np.sort(x, axis=0), [[0, 0], [1, 1], [2, 2]])
    keys = random.split(KEY, 5000)
    pairs = fgrad.vmap(lambda k: random.categorical(k, logits[0], shape=2, replace=False))(keys)
    seen = np.mean((pairs[:, 0] == 0) & (pairs[:, 1] == 1))
    assert abs(seen - 0.7 * 0.2 / 0.3) < 0.03


REFUSED: dict[str, tuple[Callable[[], Any], type[Exception]]] = {
    "dtype": (lambda: random.gamma(KEY, 1.0, dtype=np.int64), DtypeError),
    "dtype_of_counts": (lambda: random.poisson(KEY, 1.0, dtype=complex), DtypeError),
    "shape": (lambda: random.gamma(KEY, np.ones(3), (2,)), ShapeError),
    "shape_of_counts": (lambda: random.binomial(KEY, np.ones(3), 0.5, (2,)), ShapeError),
    "no_vector": (lambda: random.dirichlet(KEY, 1.0), ShapeError),
    "covariance": (lambda: random.multivariate_normal(KEY, np.ones(3), np.eye(2)), ShapeError),
    "method": (lambda: random.multivariate_normal(KEY, np.ones(2), np.eye(2), method="lu"),
               ArgumentError),
    "too_few": (lambda: random.categorical(KEY, np.ones(2), shape=3, replace=False),
                ArgumentError),
    "key": (lambda: random.gamma(0, 1.0), ArgumentError),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name: str) -> None:
    call, error = REFUSED[name]
    with pytest.raises(error):
        call()
