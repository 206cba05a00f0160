"""Tails of continuous distributions against mpmath: logarithms of probabilities down to 1e-300, and
quantiles of such; `tests/distributions_by_mpmath.py` has the formulas."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

import mpmath
import numpy as np
import pytest
import scipy.stats
from distributions_by_mpmath import CDF, tails
from scipy_distributions import SHAPES

import fgrad
import fgrad.scipy.stats as traced

PROBABILITIES = (1e-5, 1e-100, 1e-300)
TOLERANCE = {"geninvgauss": 1e-4, "ncx2": 1e-11}  # of sums; else 1e-12
SLOW = ("geninvgauss", "norminvgauss", "skewnorm", "ncx2")  # mpmath takes minutes: one tail
ENDS = ("anglit", "cosine", "wrapcauchy", "pearson3", "arcsine", "genhalflogistic")


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        yield


def _at_an_end(name: str, x: float) -> bool:
    """Whether a point is an end of the support, or next to one that is no float."""
    ends = getattr(scipy.stats, name).support(*SHAPES.get(name, ()))
    near = 1e-6 if name in ENDS else 1e-15
    return not abs(x) < 1e307 or any([abs(x - end) <= near * abs(end) for end in ends])


def _checked(name: str, side: int, p: float) -> None:
    family, shapes = getattr(traced, name), SHAPES.get(name, ())
    inverse, logarithm = (("ppf", "logcdf"), ("isf", "logsf"))[side]
    x = float(fgrad.jit(getattr(family, inverse))(p, *shapes))
    if _at_an_end(name, x):
        return
    exact = mpmath.log(tails(name, x, shapes)[side])
    found = float(fgrad.jit(getattr(family, logarithm))(x, *shapes))
    tolerance = TOLERANCE.get(name, 1e-12)
    assert abs(found - float(exact)) <= tolerance * max(1e-3, abs(float(exact))), (x, found, exact)
    next_x = float(np.nextafter(x, np.inf if side == 0 else -np.inf))
    step = abs(mpmath.log(tails(name, next_x, shapes)[side]) - exact)
    away = abs(float(exact) - np.log(p))
    assert away <= 100 * float(step) + 10 * tolerance * abs(np.log(p)), (x, np.exp(float(exact)))


@pytest.mark.parametrize("side", [0, 1], ids=["below", "above"])
@pytest.mark.parametrize("name", sorted({*CDF} - {*SLOW}))
def test_tails_and_quantiles(name: str, side: int) -> None:
    for p in PROBABILITIES:
        _checked(name, side, p)


@pytest.mark.parametrize("name", ["ncx2", "rice"])
def test_tails_of_densities(name: str) -> None:
    _checked(name, 1, 1e-20)


NEAR: dict[str, Any] = {  # where a formula changes for another
    "alpha": 2.0, "argus": 0.5, "foldnorm": 0.5, "mielke": 1.0, "skewcauchy": 0.0, "skewnorm": -2.0,
    "jf_skew_t": 0.0, "truncnorm": -0.4, "pearson3": 0.3, "truncweibull_min": 0.4,
}  # fmt: skip


@pytest.mark.parametrize("name", NEAR)
@pytest.mark.parametrize("method", ["logcdf", "logsf", "cdf", "sf"])
def test_slopes_on_both_sides_of_a_change(name: str, method: str) -> None:
    family, shapes = getattr(traced, name), SHAPES[name]
    for x in (NEAR[name] - 1e-3, NEAR[name] + 1e-3):
        places = tuple(range(len(shapes) + 1))
        found = fgrad.grad(getattr(family, method), argnums=places)(x, *shapes)
        for k in places:
            way = 1e-5 * (np.arange(len(places)) == k)
            given = [np.array([x, *shapes]) + sign * way for sign in (1, -1)]
            ends = [fgrad.jit(getattr(family, method))(*g) for g in given]
            assert found[k] == pytest.approx((ends[0] - ends[1]) / 2e-5, rel=1e-5, abs=1e-9)
