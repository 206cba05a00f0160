"""Confidence intervals, results that compiled functions return, and older names of fields."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.stats

import fgrad
import fgrad.scipy.stats as st

SIDES = ("two-sided", "less", "greater")
TESTS: dict[str, Callable[[Any, Any, Any, str], Any]] = {
    "ttest_1samp": lambda m, x, y, side: m.ttest_1samp(x, 0.3, alternative=side),
    "ttest_1samp along": lambda m, x, y, side: m.ttest_1samp(x, 0.3, axis=-1, alternative=side),
    "ttest_rel": lambda m, x, y, side: m.ttest_rel(x, y, alternative=side),
    "ttest_ind": lambda m, x, y, side: m.ttest_ind(x, y[:5], alternative=side),
    "welch": lambda m, x, y, side: m.ttest_ind(x, y[:5], equal_var=False, alternative=side),
    "pearsonr": lambda m, x, y, side: m.pearsonr(x, y, alternative=side),
    "pearsonr of three": lambda m, x, y, side: m.pearsonr(x[:3], y[:3], alternative=side),
}  # fmt: skip


@pytest.mark.parametrize("side", SIDES)
@pytest.mark.parametrize("name", TESTS)
def test_intervals(name: str, side: str, rng: np.random.Generator) -> None:
    x, y = rng.normal(size=(2, 7, 3))

    def ends(x: Any, y: Any, m: Any = st) -> Any:
        found = TESTS[name](m, x, y, side)
        return [*found.confidence_interval(), *found.confidence_interval(confidence_level=0.8)]

    wanted = ends(x, y, scipy.stats)
    for found in (fgrad.jit(ends)(x, y), fgrad.vmap(ends)(x[None], y[None])):
        for a, b in zip(found, wanted, strict=True):
            np.testing.assert_allclose(np.reshape(a, np.shape(b)), b, rtol=1e-10)


def test_ends_have_slopes(rng: np.random.Generator) -> None:
    x, y, step = rng.normal(size=6), rng.normal(size=6), 1e-6

    def width(x: Any) -> Any:
        found = st.ttest_rel(x, y).confidence_interval()
        return np.sum(found.high - found.low + st.pearsonr(x, y).confidence_interval(0.9).high)

    def plain(x: Any) -> Any:
        low, high = scipy.stats.ttest_rel(x, y).confidence_interval()
        return high - low + scipy.stats.pearsonr(x, y).confidence_interval(0.9).high

    slope = [(plain(x + step * e) - plain(x - step * e)) / (2 * step) for e in np.eye(6)]
    np.testing.assert_allclose(fgrad.jit(fgrad.grad(width))(x), slope, rtol=1e-5, atol=1e-8)


@pytest.mark.parametrize("name", [*TESTS, "linregress"])
def test_results_are_returned(name: str, rng: np.random.Generator) -> None:
    """A compiled function may return what the test gave, and ask it later."""
    x, y = rng.normal(size=(2, 7))
    if name == "linregress":
        found, wanted = fgrad.jit(st.linregress)(x, y), scipy.stats.linregress(x, y)
        np.testing.assert_allclose(tuple(found), tuple(wanted))
        return
    wanted = TESTS[name](scipy.stats, x, y, "two-sided")
    found = fgrad.jit(lambda x, y: TESTS[name](st, x, y, "two-sided"))(x, y)
    np.testing.assert_allclose(tuple(found), tuple(wanted))
    np.testing.assert_allclose(found.confidence_interval(), wanted.confidence_interval())


def test_correlation_is_the_older_name(rng: np.random.Generator) -> None:
    x, y = rng.normal(size=(2, 7))
    found = fgrad.jit(lambda x, y: st.pearsonr(x, y).correlation)(x, y)
    np.testing.assert_allclose(found, scipy.stats.pearsonr(x, y).statistic)
