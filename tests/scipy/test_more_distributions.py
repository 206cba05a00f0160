"""Further distributions of scipy.stats: values against SciPy in and out of the support, derivatives
against differences, quantiles as inverses, random numbers by keys."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
import scipy.stats as plain
from scipy_distributions import SHAPES

import fgrad
import fgrad.scipy.stats as traced
from fgrad import grad, jit, jvp, vmap
from fgrad.errors import MissingRuleError, UnsupportedNumpyError
from fgrad.scipy.stats.further_continuous import FURTHER_CONTINUOUS
from fgrad.scipy.stats.moments import MOMENTS
from fgrad.scipy.stats.more_continuous import MORE_CONTINUOUS

WIDE = np.array([-3.0, -0.7, -0.2, 0.1, 0.45, 0.8, 1.3, 1.9, 3.2, 9.0, np.nan])
COUNTS = np.array([-2.0, 0, 1, 2, 3, 5, 7, 9, 0.5, np.nan])
FAMILIES = {**MORE_CONTINUOUS, **FURTHER_CONTINUOUS}
CONTINUOUS = sorted(FAMILIES)
INTEGERS = ("erlang", "irwinhall", "ksone", "kstwo")  # have an integer as parameter
BY_SCIPY_ALONE = ("ksone", "kstwo", "studentized_range")  # the density too
ROUGH = {"kstwobign": 1e-7}  # SciPy's density has nine digits
DISCRETE = (
    "betanbinom", "boltzmann", "dlaplace", "hypergeom", "logser", "nhypergeom", "planck",
    "yulesimon", "randint", "skellam", "zipf", "zipfian", "nchypergeom_fisher",
    "nchypergeom_wallenius",
)  # fmt: skip
# A count, and the places of parameters that are no counts.
SLOPES: dict[str, tuple[float, tuple[int, ...]]] = {
    "boltzmann": (2.0, (1,)), "dlaplace": (-1.0, (1,)), "logser": (2.0, (1,)),
    "planck": (1.0, (1,)),
    "yulesimon": (2.0, (1,)), "skellam": (-1.0, (1, 2)), "zipf": (3.0, (1,)),
    "zipfian": (33.0, (1,)),
    "nchypergeom_fisher": (3.0, (4,)), "nchypergeom_wallenius": (3.0, (4,)),
}  # fmt: skip
WHOLE = {
    "erlang": (0,), "irwinhall": (0,), "binom": (0,), "betabinom": (0,), "hypergeom": (0, 1, 2),
    "randint": (0, 1),
}  # fmt: skip
BY_SCIPY = [n for n in CONTINUOUS if FAMILIES[n].rules["cdf"] is None]
TAILS = ("cdf", "sf", "logcdf", "logsf")


@pytest.fixture(autouse=True)
def _quiet() -> Any:
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        yield


def _compare(name: str, methods: tuple[str, ...], *args: Any, rtol: float = 1e-10) -> None:
    family, reference = getattr(traced, name), getattr(plain, name)
    found = jit(lambda *a: [getattr(family, m)(*a) for m in methods])(*args)
    for method, got in zip(methods, found, strict=True):
        wide = [np.broadcast_to(a, np.shape(args[0])) for a in args]  # norminvgauss.sf needs it
        expected = getattr(reference, method)(*wide)
        if method.startswith("log"):
            got = np.where(np.isneginf(expected) & (got < -700), expected, got)  # log(0.0)
        np.testing.assert_allclose(got, expected, rtol=rtol, atol=1e-14, err_msg=f"{name} {method}")


@pytest.mark.parametrize("name", CONTINUOUS)
def test_continuous(name: str) -> None:
    shapes = SHAPES.get(name, ())
    _compare(name, ("logpdf", "pdf"), WIDE, *shapes, 0.1, 1.3, rtol=ROUGH.get(name, 1e-9))
    _compare(name, TAILS, WIDE, *shapes, 0.1, 1.3, rtol=1e-7)
    q = np.array([-0.1, 0.0, 0.2, 0.5, 0.77, 1.0, 1.1])
    _compare(name, ("ppf", "isf"), q, *shapes, 0.1, 1.3, rtol=1e-7)
    x = WIDE.astype(np.float32)
    found = jit(getattr(traced, name).logpdf)(x, *[np.float32(s) for s in shapes])
    assert found.dtype == np.float32


@pytest.mark.parametrize("name", DISCRETE)
def test_discrete(name: str) -> None:
    _compare(name, ("logpmf", "pmf", "cdf", "sf"), COUNTS, *SHAPES[name], 1, rtol=1e-8)


@pytest.mark.parametrize("name", SLOPES)
@pytest.mark.parametrize("method", ["logpmf", "cdf"])
def test_slopes_of_discrete(name: str, method: str) -> None:
    family = getattr(traced, name)
    if method == "cdf" and family.cumulated["cdf"] is None:
        return
    f = getattr(family, method)
    count, places = SLOPES[name]
    args = (count, *SHAPES[name])
    for k in places:
        one = lambda x, k=k: f(*args[:k], x, *args[k + 1 :])  # noqa: E731
        difference = (one(args[k] + 1e-5) - one(args[k] - 1e-5)) / 2e-5
        found = grad(one)(args[k])
        np.testing.assert_allclose(found, difference, rtol=1e-6)
        np.testing.assert_allclose(jvp(one, (args[k],), (1.0,))[1], found, rtol=1e-9)
        many = vmap(one)(np.array([args[k], args[k] * 1.1]))
        np.testing.assert_allclose(many[0], one(args[k]), rtol=1e-9)


def _points(name: str) -> float:
    return float(getattr(plain, name).ppf(0.37, *SHAPES.get(name, ()), 0.1, 1.3))


@pytest.mark.parametrize("name", CONTINUOUS)
@pytest.mark.parametrize("method", ["logpdf", "cdf", "ppf"])
def test_derivatives(name: str, method: str) -> None:
    f = getattr(getattr(traced, name), method)
    args = (0.37 if method == "ppf" else _points(name), *SHAPES.get(name, ()), 0.1, 1.3)
    wanted = range(len(args))
    if method == "logpdf" and name in BY_SCIPY_ALONE:
        with pytest.raises(MissingRuleError, match="derivative of"):
            grad(f)(*args)
        return
    if name == "studentized_range":
        wanted = [0, 3, 4]
        with pytest.raises(MissingRuleError, match="in k"):
            grad(f, argnums=1)(*args)
    if method != "logpdf" and name in BY_SCIPY:
        wanted = [0, len(args) - 2, len(args) - 1]
        if len(args) > 3:
            with pytest.raises(UnsupportedNumpyError, match="in its parameters"):
                grad(f, argnums=1)(*args)
    for k in wanted:
        if name in INTEGERS and k == 1:
            continue
        h = 1e-5
        ends = [f(*args[:k], args[k] + s, *args[k + 1 :]) for s in (h, -h)]
        expected = (ends[0] - ends[1]) / (2 * h)
        found = grad(f, argnums=k)(*args)
        np.testing.assert_allclose(found, expected, rtol=2e-4, atol=1e-6)
        one = lambda x, k=k: f(*args[:k], x, *args[k + 1 :])  # noqa: E731
        np.testing.assert_allclose(jvp(one, (args[k],), (1.0,))[1], found, rtol=1e-9, atol=1e-12)


def test_batches_and_infinite_quantiles() -> None:
    many = vmap(lambda s: traced.rice.cdf(1.0, s))(np.array([0.5, 1.0]))
    np.testing.assert_allclose(many, plain.rice.cdf(1.0, np.array([0.5, 1.0])))
    at = np.array([0.3, 0.9, 1.4])
    lanes = vmap(lambda s: traced.pearson3.cdf(at, 0.7, s))(np.array([0.5, 1.0]))
    np.testing.assert_allclose(lanes[1], plain.pearson3.cdf(at, 0.7, 1.0))
    assert jit(lambda s: traced.moyal.ppf(1.0, s))(0.0) == np.inf
    slope = grad(lambda s: traced.betaprime.ppf(0.3, 2.0, s))(3.0)
    assert np.isfinite(slope)


def test_random_numbers_by_keys() -> None:
    key = fgrad.random.key(3)

    def draw(a: Any) -> Any:
        return traced.gamma.rvs(a, scale=2.0, size=(2000,), random_state=key)

    x = jit(draw)(1.7)
    assert plain.kstest(x, plain.gamma(1.7, scale=2.0).cdf).pvalue > 1e-3
    slope = grad(lambda a: np.mean(draw(a)))(1.7)
    np.testing.assert_allclose(slope, 2.0, rtol=0.1)  # the mean is 2 a
    np.testing.assert_array_equal(
        draw(1.7), traced.gamma.rvs(1.7, scale=2.0, size=2000, random_state=key)
    )
    np.testing.assert_array_equal(
        traced.norm.rvs(size=3, random_state=1), plain.norm.rvs(size=3, random_state=1)
    )
    with pytest.raises(UnsupportedNumpyError, match="random_state=fgrad"):
        jit(lambda a: traced.gamma.rvs(a, size=3))(1.0)


LOW = {"t": (0.8, 1.5), "f": (3.0, 1.5), "invgamma": (0.8,), "pareto": (1.5,), "lomax": (0.9,)}


@pytest.mark.parametrize("name", sorted(MOMENTS))
def test_moments(name: str) -> None:
    family, reference = getattr(traced, name), getattr(plain, name)
    shapes = SHAPES.get(name, ())
    located = (0.4, 1.7) if "pdf" in family.methods else (2.0,)
    for method in ("mean", "var", "std", "median"):
        wanted = getattr(reference, method)(*shapes, *located)
        found = jit(getattr(family, method))(*shapes, *located)
        np.testing.assert_allclose(found, wanted, rtol=1e-9, atol=1e-12, err_msg=method)
    for value in (0.6, np.array([0.2, 0.9])):
        ends = jit(lambda c: family.interval(c, *shapes, *located))(value)
        for got, want in zip(ends, reference.interval(value, *shapes, *located), strict=True):
            np.testing.assert_allclose(got, want, rtol=1e-7)
    for low in LOW.get(name, ())[:1]:
        edge = [low if k == len(shapes) - 1 else s for k, s in enumerate(shapes)]
        for method in ("mean", "var"):
            got = jit(getattr(family, method))(*edge)
            np.testing.assert_allclose(got, getattr(reference, method)(*edge))
    args = (*shapes, *located)
    free = [k for k in range(len(args)) if name not in WHOLE or k not in WHOLE[name]]
    for k in free:

        def one(x: Any, k: int = k) -> Any:
            given = (*args[:k], x, *args[k + 1 :])
            return family.var(*given) + family.mean(*given)

        if not np.isfinite(one(args[k])):
            continue
        difference = (one(args[k] + 1e-5) - one(args[k] - 1e-5)) / 2e-5
        found = grad(one)(args[k])
        np.testing.assert_allclose(found, difference, rtol=1e-6, atol=1e-8)
        np.testing.assert_allclose(jvp(one, (args[k],), (1.0,))[1], found, rtol=1e-9, atol=1e-12)
    many = vmap(lambda x: family.mean(*shapes, x))(np.array([0.0, 1.0]))
    np.testing.assert_allclose(many[0], reference.mean(*shapes))
