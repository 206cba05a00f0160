"""gaussian_kde and poisson_binom: values against SciPy, derivatives in both modes against
differences, jit, vmap, draws by keys."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.stats as plain

import fgrad
import fgrad.scipy.stats as traced
from fgrad import grad, jit, jvp, vmap
from fgrad.errors import UnsupportedNumpyError

RNG = np.random.default_rng(2)
X, Y = RNG.normal(size=(2, 15)), RNG.normal(size=(2, 15))
W = RNG.uniform(0.5, 1.5, 15)
AT = RNG.normal(size=(2, 4))
P = RNG.uniform(0.1, 0.9, 7)
COUNTS = np.array([-1.0, 0, 2, 3, 7, 8, 2.5])


def _kde(m: Any, x: Any, *args: Any) -> Any:
    return m.gaussian_kde(x, *args)


# Of a module, samples, weights and a bandwidth.
CASES: dict[str, Callable[[Any, Any, Any, Any], Any]] = {
    "evaluate": lambda m, x, w, h: _kde(m, x, h, w)(AT),
    "logpdf": lambda m, x, w, h: _kde(m, x, h, w).logpdf(AT),
    "logpdf of one": lambda m, x, w, h: _kde(m, x, h, w).logpdf(AT[:, 0]),
    "line": lambda m, x, w, h: _kde(m, x[0], h, w).pdf(AT[0]),
    "scott": lambda m, x, w, h: _kde(m, x, None, w)(AT),
    "silverman": lambda m, x, w, h: _kde(m, x, "silverman", w)(AT),
    "of a function": lambda m, x, w, h: _kde(m, x, lambda k: k.scotts_factor() * h)(AT),
    "integrate_gaussian": lambda m, x, w, h: _kde(m, x, h, w).integrate_gaussian(
        AT[:, 0], np.array([[1.3, 0.2], [0.2, 0.8]])
    ),
    "integrate_kde": lambda m, x, w, h: _kde(m, x, h, w).integrate_kde(_kde(m, Y[:, :6], h)),
    "integrate_box_1d": lambda m, x, w, h: _kde(m, x[1], h, w).integrate_box_1d(-0.4, 1.1),
    "marginal": lambda m, x, w, h: _kde(m, x, h, w).marginal(-1)(AT[0]),
    "covariance": lambda m, x, w, h: _kde(m, x, h, w).covariance,
    "inv_cov": lambda m, x, w, h: _kde(m, x, h, w).inv_cov,
    "neff": lambda m, x, w, h: _kde(m, x, h, w).neff,
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_densities(name: str) -> None:
    case = CASES[name]
    wanted = case(plain, X, W, 0.6)
    np.testing.assert_allclose(jit(lambda *a: case(traced, *a))(X, W, 0.6), wanted, rtol=1e-9)
    many = vmap(lambda x: case(traced, x, W, 0.6))(np.stack([X, X + 1]))
    np.testing.assert_allclose(many[0], wanted, rtol=1e-9)
    way = (RNG.normal(size=X.shape), RNG.normal(size=W.shape), 0.7)
    loss = lambda x, w, h: np.sum(np.sin(case(traced, x, w, h)))  # noqa: E731
    ends = [
        loss(*[a + s * 1e-6 * d for a, d in zip((X, W, 0.6), way, strict=True)]) for s in (1, -1)
    ]
    slopes = grad(loss, argnums=(0, 1, 2))(X, W, 0.6)
    found = sum([np.sum(g * d) for g, d in zip(slopes, way, strict=True)])
    assert found == pytest.approx((ends[0] - ends[1]) / 2e-6, rel=1e-6, abs=1e-8)
    assert jvp(loss, (X, W, 0.6), way)[1] == pytest.approx(found, rel=1e-9)


def test_points_may_be_traced_alone() -> None:
    kde = traced.gaussian_kde(X[0])
    np.testing.assert_array_equal(kde(AT[0]), plain.gaussian_kde(X[0])(AT[0]))
    slope = grad(lambda x: kde(x)[0])(0.3)
    ends = [plain.gaussian_kde(X[0])(0.3 + h)[0] for h in (1e-6, -1e-6)]
    assert slope == pytest.approx((ends[0] - ends[1]) / 2e-6, rel=1e-6)
    np.testing.assert_allclose(
        kde.integrate_box(-1, 1), plain.gaussian_kde(X[0]).integrate_box(-1, 1)
    )
    found = jit(lambda x: traced.gaussian_kde(x).integrate_box([-1], [1]))(X[0])
    np.testing.assert_allclose(found, kde.integrate_box_1d(-1, 1))
    single = jit(lambda x: traced.gaussian_kde(x)(AT))(X.astype(np.float32))
    np.testing.assert_allclose(single, plain.gaussian_kde(X)(AT), rtol=1e-4)


def test_random_points() -> None:
    key = fgrad.random.key(4)
    kde = traced.gaussian_kde(X, 0.5, W)
    drawn = kde.resample(8000, key)
    assert drawn.shape == (2, 8000)
    np.testing.assert_allclose(np.mean(drawn, axis=1), X @ W / W.sum(), atol=0.06)
    slope = grad(lambda x: np.mean(traced.gaussian_kde(x, 0.5).resample(50, key)))(X)
    assert np.sum(slope) == pytest.approx(1.0)
    with pytest.raises(UnsupportedNumpyError, match=r"fgrad\.random\.key"):
        jit(lambda x: traced.gaussian_kde(x).resample(5))(X)
    np.testing.assert_array_equal(
        traced.gaussian_kde(X).resample(3, 1), plain.gaussian_kde(X).resample(3, 1)
    )


REFUSED: dict[str, Callable[[Any], Any]] = {
    "one": lambda x: traced.gaussian_kde(x[0, :1]),
    "rows": lambda x: traced.gaussian_kde(x.T),
    "weights": lambda x: traced.gaussian_kde(x, weights=W[:3]),
    "bandwidth": lambda x: traced.gaussian_kde(x, "best"),
    "points": lambda x: traced.gaussian_kde(x)(np.zeros((3, 4))),
    "box": lambda x: traced.gaussian_kde(x).integrate_box([0, 0], [1, 1]),
    "box of two": lambda x: traced.gaussian_kde(x).integrate_box_1d(0, 1),
    "marginal": lambda x: traced.gaussian_kde(x).marginal([0, 0]),
    "gaussian": lambda x: traced.gaussian_kde(x).integrate_gaussian([0.0], [[1.0]]),
    "kde": lambda x: traced.gaussian_kde(x).integrate_kde(traced.gaussian_kde(x[0])),
    "p": lambda x: traced.poisson_binom.pmf(x, 0.4),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_not_there_is_refused(name: str) -> None:
    with pytest.raises((ValueError, TypeError)):
        jit(REFUSED[name])(X)


@pytest.mark.parametrize("method", ["pmf", "logpmf", "cdf", "sf", "logcdf", "logsf"])
def test_unequal_trials(method: str) -> None:
    f, reference = getattr(traced.poisson_binom, method), getattr(plain.poisson_binom, method)
    with np.errstate(all="ignore"):
        wanted = reference(COUNTS, P, 1)
        found = jit(f)(COUNTS, P, 1)
        np.testing.assert_allclose(found, wanted, rtol=1e-9, atol=1e-13)
    many = vmap(f, in_axes=(None, 0))(3.0, np.stack([P, P / 2]))
    np.testing.assert_allclose(many, [reference(3, P), reference(3, P / 2)], rtol=1e-9)
    way = RNG.normal(size=P.shape)
    difference = (f(3.0, P + 1e-6 * way) - f(3.0, P - 1e-6 * way)) / 2e-6
    slope = np.sum(grad(f, argnums=1)(3.0, P) * way)
    assert slope == pytest.approx(difference, rel=1e-6)
    assert jvp(lambda p: f(3.0, p), (P,), (way,))[1] == pytest.approx(slope, rel=1e-9)


def test_drawn_integers() -> None:
    key = fgrad.random.key(2)
    drawn = jit(lambda p: traced.poisson_binom.rvs(p, size=4000, random_state=key))(P)
    assert np.mean(drawn) == pytest.approx(P.sum(), abs=0.1)
    counts = jit(lambda mu: traced.poisson.rvs(mu, size=4000, random_state=key))(2.5)
    assert np.mean(counts) == pytest.approx(2.5, abs=0.15)
    q = np.array([0.0, 0.2, 0.7, 1.0])
    np.testing.assert_array_equal(
        jit(lambda p: traced.binom.ppf(q, 9, p, 2))(0.4), plain.binom.ppf(q, 9, 0.4, 2)
    )
    np.testing.assert_array_equal(
        jit(lambda p: traced.binom.isf(q, 9, p))(0.4), plain.binom.isf(q, 9, 0.4)
    )
    assert grad(lambda p: traced.binom.ppf(0.3, 9, p))(0.4) == 0.0
