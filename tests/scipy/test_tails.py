"""Every distribution of scipy.stats far out: tails that are almost 0 or 1, ends of supports,
infinities, NaN as a parameter, quantiles of tiny probabilities; derivatives there."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import scipy.stats as plain
from scipy_distributions import SHAPES

import fgrad
import fgrad.scipy.stats as traced
from fgrad.scipy.stats.families import Continuous

FAMILIES: dict[str, Any] = {
    name: family
    for table in (
        traced.CONTINUOUS, traced.MORE_CONTINUOUS, traced.FURTHER_CONTINUOUS, traced.DISCRETE,
        traced.FURTHER_DISCRETE,
    )
    for name, family in table.items()
    if name not in ("kstwo", "studentized_range")  # SciPy takes minutes
}  # fmt: skip
# Where SciPy has 1 minus a number that is almost 1, or no result.
LOST = frozenset({
    ("burr", "logsf"), ("burr", "sf"), ("fisk", "logsf"), ("fisk", "sf"), ("argus", "logcdf"),
    ("foldnorm", "logsf"), ("foldnorm", "logcdf"), ("foldcauchy", "logcdf"),
    ("kappa3", "logcdf"), ("genexpon", "logsf"), ("burr12", "logcdf"), ("loggamma", "ppf"),
})  # fmt: skip


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        yield


def _scipys(name: str) -> Any:
    return getattr(plain, name)


def _far(name: str) -> np.ndarray:
    """Points of both tails, as far as SciPy's quantiles of continuous distributions go."""
    shapes, reference = SHAPES.get(name, ()), _scipys(name)
    if not isinstance(FAMILIES[name], Continuous):
        return np.array([-20.0, -4, 0, 1, 2, 3, 5, 9, 15])
    low, high = reference.ppf([1e-9, 1e-4, 0.3], *shapes), [1e-4, 1e-9, 1e-13, 1e-17, 1e-25]
    return np.concatenate([low, reference.isf(high, *shapes)])


@pytest.mark.parametrize("name", sorted(FAMILIES))
def test_logarithms_of_tails(name: str) -> None:
    """None is log(0), or log(1) of what is less, where SciPy's is not."""
    x, shapes = _far(name), SHAPES.get(name, ())
    family, reference = FAMILIES[name], _scipys(name)
    found = fgrad.jit(lambda *a: [family.logcdf(*a), family.logsf(*a)])(x, *shapes)
    for method, got in zip(("logcdf", "logsf"), found, strict=True):
        wanted = getattr(reference, method)(x, *[np.broadcast_to(s, x.shape) for s in shapes])
        if isinstance(family, Continuous):
            keep = np.isfinite(wanted) & (np.abs(wanted) > 1e-13)
        else:
            keep = np.isfinite(wanted) & (wanted < -1e-9)  # SciPy's are 1 - cdf beyond
        if (name, method) not in LOST:
            np.testing.assert_allclose(got[keep], wanted[keep], rtol=1e-2, err_msg=method)
        assert not np.isnan(got).any()


QUANTILES = [n for n in sorted(FAMILIES) if isinstance(FAMILIES[n], Continuous)]


@pytest.mark.parametrize("name", QUANTILES)
def test_quantiles_of_tiny_probabilities(name: str) -> None:
    q, shapes = (
        np.array([1e-25, 1e-14, 1e-9, 0.2, 0.8, 0.0, 1.0, -0.1, np.nan]),
        SHAPES.get(name, ()),
    )
    family, reference = FAMILIES[name], _scipys(name)
    found = fgrad.jit(lambda *a: [family.ppf(*a), family.isf(*a)])(q, *shapes)
    for method, got in zip(("ppf", "isf"), found, strict=True):
        wide = [np.broadcast_to(s, q.shape) for s in shapes]  # norminvgauss needs it
        wanted = getattr(reference, method)(q, *wide)
        tail = fgrad.jit(getattr(family, "logcdf" if method == "ppf" else "logsf"))(got, *shapes)
        exact = (q < 1e-9) & (np.abs(tail - np.log(q)) < 1e-6)  # where SciPy's is another
        keep = ~exact & (LOST.isdisjoint({(name, method)}))
        np.testing.assert_allclose(got[keep], wanted[keep], rtol=2e-4, atol=1e-15, err_msg=method)
    low, high = reference.isf([0.3 + 1e-5, 0.3 - 1e-5], *shapes)
    slope = fgrad.grad(lambda p: family.isf(p, *shapes))(0.3)
    np.testing.assert_allclose(slope, (low - high) / 2e-5, rtol=1e-3)


@pytest.mark.parametrize("name", sorted(FAMILIES))
def test_infinities_ends_and_nan(name: str) -> None:
    family, reference, shapes = FAMILIES[name], _scipys(name), SHAPES.get(name, ())
    continuous = isinstance(family, Continuous)
    ends = [float(e) for e in reference.support(*shapes)]
    x = np.array([*ends, -np.inf, np.inf, np.nan])
    methods = ("logpdf" if continuous else "logpmf", "cdf", "sf")
    found = fgrad.jit(lambda *a: [getattr(family, m)(*a) for m in methods])(x, *shapes)
    for method, got in zip(methods, found, strict=True):
        wanted = getattr(reference, method)(x, *[np.broadcast_to(s, x.shape) for s in shapes])
        keep = np.isfinite(x) | (np.isnan(x) | ~np.isnan(wanted))  # inf - inf in SciPy
        np.testing.assert_allclose(got[keep], wanted[keep], rtol=1e-9, atol=1e-14, err_msg=method)
    for k in range(len(shapes)):
        broken = [np.nan if k == j else s for j, s in enumerate(shapes)]
        for method in methods:
            assert np.isnan(fgrad.jit(getattr(family, method))(1.0, *broken))


@pytest.mark.parametrize("name", "binom nbinom poisson geom planck dlaplace boltzmann".split())  # noqa: SIM905
def test_derivatives_of_sf(name: str) -> None:
    family, shapes = FAMILIES[name], [float(s) for s in SHAPES.get(name, ())]
    k = float(getattr(plain, name).median(*shapes))
    which = len(shapes) - 1 if name != "boltzmann" else 0
    more, less = [[s + h * (j == which) for j, s in enumerate(shapes)] for h in (1e-6, -1e-6)]
    wanted = (getattr(plain, name).sf(k, *more) - getattr(plain, name).sf(k, *less)) / 2e-6
    found: Any = fgrad.grad(lambda s: family.sf(k, *shapes[:which], s, *shapes[which + 1 :]))
    np.testing.assert_allclose(found(shapes[which]), wanted, rtol=1e-5)


def test_a_parameter_given_twice() -> None:
    with pytest.raises(TypeError, match="got 1"):
        fgrad.jit(lambda x: traced.norm.logpdf(x, 0.0, loc=1.0))(0.5)
