"""scipy.stats: values against SciPy in and out of the support, derivatives against differences."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.stats as plain
from scipy_distributions import SHAPES

import fgrad
import fgrad.scipy.stats as traced
from fgrad.errors import UnsupportedNumpyError

WIDE = np.array([-3.0, -0.7, 0.0, 0.1, 0.45, 0.8, 1.0, 1.9, 3.2, 30.0, np.nan])
COUNTS = np.array([-2.0, 0, 1, 2, 3, 5, 7, 9, 0.5, np.nan])
CONTINUOUS = sorted(traced.CONTINUOUS)
DISCRETE = ["bernoulli", "betabinom", "binom", "geom", "nbinom", "poisson"]


def _compare(name: str, methods: tuple[str, ...], *args: Any) -> None:
    family, reference = getattr(traced, name), getattr(plain, name)
    results = fgrad.jit(lambda *a: [getattr(family, m)(*a) for m in methods])(*args)
    for method, got in zip(methods, results, strict=True):
        loose = name == "skewnorm" and "pdf" not in method  # differences of two tails
        rtol = 3e-7 if loose else 2e-12
        expected = getattr(reference, method)(*args)
        np.testing.assert_allclose(got, expected, rtol=rtol, atol=1e-14, err_msg=method)


DENSITIES = ("logpdf", "pdf")
TAILS = ("cdf", "sf", "logcdf", "logsf")


@pytest.mark.parametrize("name", CONTINUOUS)
def test_continuous(name: str) -> None:
    methods = DENSITIES if name == "vonmises" else DENSITIES + TAILS
    shapes = SHAPES.get(name, ())
    x = WIDE if name != "skewnorm" else WIDE[np.abs(WIDE) < 3]
    _compare(name, methods, x, *shapes, 0.3, 1.7)
    _compare(name, methods, x, *shapes, 0.0, np.where(x > 0, 1.0, -1.0))
    if shapes:
        _compare(name, methods, x, *[-s for s in shapes])


def test_what_has_no_formula_is_refused() -> None:
    for method in TAILS:
        f = getattr(traced.vonmises, method)
        np.testing.assert_allclose(fgrad.jit(f)(0.5, 2.0), f(0.5, 2.0))
        with pytest.raises(UnsupportedNumpyError, match="vonmises"):
            fgrad.grad(f, argnums=1)(0.5, 2.0)


@pytest.mark.parametrize("name", [n for n in CONTINUOUS if traced.CONTINUOUS[n].quantiles["ppf"]])
def test_quantiles(name: str) -> None:
    q = np.array([-0.1, 0.0, 0.2, 0.5, 0.77, 1.0, 1.1])
    _compare(name, ("ppf", "isf"), q, *SHAPES.get(name, ()), 0.3, 1.7)


@pytest.mark.parametrize("name", DISCRETE)
def test_discrete(name: str) -> None:
    methods = ("logpmf", "pmf") if name == "betabinom" else ("logpmf", "pmf", "cdf", "sf")
    _compare(name, methods, COUNTS, *SHAPES[name], 1)
    _compare(name, methods, COUNTS, *[-s for s in SHAPES[name]])


def _check_gradient(f: Any, args: tuple[float, ...], wanted: tuple[int, ...]) -> None:
    gradient = fgrad.grad(f, argnums=wanted)(*args)
    for k, g in zip(wanted, gradient, strict=True):
        h = 1e-6 * max(1.0, abs(args[k]))
        ends = [f(*args[:k], args[k] + s, *args[k + 1 :]) for s in (h, -h)]
        np.testing.assert_allclose(g, (ends[0] - ends[1]) / (2 * h), rtol=1e-6, atol=1e-8)
    compiled = fgrad.jit(fgrad.grad(f, argnums=wanted))(*args)
    np.testing.assert_allclose(compiled, gradient, rtol=1e-10)


@pytest.mark.parametrize("method", ["logpdf", "cdf"])
@pytest.mark.parametrize("name", CONTINUOUS)
def test_continuous_gradients(name: str, method: str) -> None:
    if name == "vonmises" and method == "cdf":
        return
    family = getattr(traced, name)
    x = 0.9 if name != "pareto" else 2.1
    args = (x, *SHAPES.get(name, ()), 0.1, 1.3)
    _check_gradient(getattr(family, method), args, tuple(range(len(args))))


@pytest.mark.parametrize("name", DISCRETE)
def test_discrete_gradients(name: str) -> None:
    family = getattr(traced, name)
    args = (1.0, *SHAPES[name])
    # Counts of trials are integers: no derivative is asked for.
    wanted = tuple([k for k in range(1, len(args)) if name not in ("binom", "betabinom") or k > 1])
    _check_gradient(family.logpmf, args, wanted)


def test_outside_of_the_support_the_derivative_is_zero() -> None:
    assert fgrad.grad(traced.gamma.logpdf, argnums=1)(-1.0, 2.0) == 0
    assert fgrad.grad(traced.beta.logpdf)(1.5, 2.0, 2.0) == 0


def test_multivariate_normal() -> None:
    rng = np.random.default_rng(0)
    a = rng.standard_normal((3, 3))
    cov, mean, x = a @ a.T + np.eye(3), rng.standard_normal(3), rng.standard_normal((4, 3))
    logpdf = traced.multivariate_normal.logpdf
    for args in [
        (x, mean, cov),
        (x[0], mean, cov),
        (x, mean, np.array([1.0, 2.0, 3.0])),
        (x, mean),
    ]:
        expected = plain.multivariate_normal.logpdf(*args)
        np.testing.assert_allclose(fgrad.jit(logpdf)(*args), expected, rtol=1e-12)
    slope = fgrad.grad(lambda m: np.sum(logpdf(x, m, cov)))(mean)
    np.testing.assert_allclose(slope, np.linalg.solve(cov, (x - mean).sum(0)), rtol=1e-10)


def test_dirichlet_and_multinomial() -> None:
    p, alpha = np.array([0.2, 0.3, 0.5]), np.array([1.5, 2.0, 0.7])
    np.testing.assert_allclose(
        fgrad.jit(traced.dirichlet.logpdf)(p, alpha), plain.dirichlet.logpdf(p, alpha), rtol=1e-12
    )
    counts = np.array([[1, 2, 3], [2, 2, 2], [1, 1, 1]])
    np.testing.assert_allclose(
        fgrad.jit(traced.multinomial.logpmf)(counts, 6, p),
        plain.multinomial.logpmf(counts, 6, p),
        rtol=1e-12,
    )


def test_other_methods_are_scipys() -> None:
    assert traced.norm.mean(2.0) == 2.0
    with pytest.raises(UnsupportedNumpyError, match=r"norm\.entropy"):
        fgrad.grad(lambda s: traced.norm.entropy(0.0, s))(1.0)
    with pytest.raises(TypeError, match="gamma"):
        fgrad.grad(lambda x: traced.gamma.logpdf(x))(1.0)
