"""Tests of hypotheses: statistics and probabilities against SciPy, derivatives in both modes
against differences, jit, vmap, float32."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.stats as plain

import fgrad.scipy.stats as traced
from fgrad import grad, jit, jvp, vmap

RNG = np.random.default_rng(8)
X, Y = RNG.normal(size=(4, 11)) + 0.2, RNG.normal(size=(4, 11))
POSITIVE = np.abs(X) + 0.4
P = RNG.uniform(0.05, 0.9, size=(4, 11))
Call = Callable[[Any, Any], Any]
CASES: dict[str, Call] = {
    "ttest_1samp": lambda m, x: m.ttest_1samp(x, 0.1, axis=1),
    "ttest_1samp less": lambda m, x: m.ttest_1samp(x, 0.1, axis=None, alternative="less"),
    "ttest_1samp means": lambda m, x: m.ttest_1samp(x, Y[:1], keepdims=True),
    "ttest_rel": lambda m, x: m.ttest_rel(x, Y, axis=1, alternative="greater"),
    "ttest_ind": lambda m, x: m.ttest_ind(x, Y[:, :7], axis=1),
    "ttest_ind welch": lambda m, x: m.ttest_ind(x, Y[:, :7], axis=1, equal_var=False),
    "ttest_ind keep": lambda m, x: m.ttest_ind(x, Y, keepdims=True, alternative="less"),
    "ttest_ind_from_stats": lambda m, x: m.ttest_ind_from_stats(
        x[0, 0], x[1] ** 2 + 1, 7, 0.3, 1.2, 5
    ),
    "ttest_ind_from_stats welch": lambda m, x: m.ttest_ind_from_stats(
        x[0, 0], 1.1, 7, x[1, 1], 1.2, 5, False, "greater"
    ),
    "f_oneway": lambda m, x: m.f_oneway(x[0], x[1, :6], Y[0]),
    "f_oneway axis": lambda m, x: m.f_oneway(x, Y, axis=1, keepdims=True),
    "levene": lambda m, x: m.levene(x[0], x[1, :6], Y[0]),
    "levene mean": lambda m, x: m.levene(x, Y, axis=1, center="mean"),
    "bartlett": lambda m, x: m.bartlett(x[0], x[1, :6], Y[0]),
    "bartlett axis": lambda m, x: m.bartlett(x, Y, axis=1),
    "kruskal": lambda m, x: m.kruskal(x[0], x[1, :6], Y[0]),
    "kruskal ties": lambda m, x: m.kruskal(np.round(2 * x), np.round(2 * Y), axis=1),
    "power_divergence": lambda m, x: m.power_divergence(x * x + 1, axis=1),
    "chisquare": lambda m, x: m.chisquare(x * x + 1, np.mean(x * x + 1, 0, keepdims=True) + 0 * x),
    "jarque_bera": lambda m, x: m.jarque_bera(x),
    "jarque_bera axis": lambda m, x: m.jarque_bera(x, axis=1, keepdims=True),
    "skewtest": lambda m, x: m.skewtest(x, axis=1, alternative="less"),
    "kurtosistest": lambda m, x: m.kurtosistest(x, axis=1),
    "normaltest": lambda m, x: m.normaltest(x, axis=1),
    "combine_pvalues weights": lambda m, x: m.combine_pvalues(
        1 / (2 + x[0] ** 2), "stouffer", np.arange(1.0, 12.0)
    ),
}  # fmt: skip
for _method in ("fisher", "pearson", "tippett", "stouffer", "mudholkar_george"):
    CASES[f"combine_pvalues {_method}"] = lambda m, x, way=_method: m.combine_pvalues(
        1 / (2 + x * x), way, axis=1
    )
for _power in ("log-likelihood", "freeman-tukey", "mod-log-likelihood", "neyman", 0.3):
    CASES[f"power_divergence {_power}"] = lambda m, x, way=_power: m.power_divergence(
        x[0] * x[0] + 1, lambda_=way, ddof=1
    )


def _parts(found: Any) -> list[Any]:
    parts = [found.statistic, found.pvalue]
    return [*parts, found.df] if hasattr(found, "df") else parts


@pytest.mark.parametrize("name", CASES)
def test_values_and_derivatives(name: str) -> None:
    case = CASES[name]
    wanted = _parts(case(plain, X))
    for found in (jit(lambda x: _parts(case(traced, x)))(X), grad_free(case)):
        for got, value in zip(found, wanted, strict=False):
            assert np.shape(got) == np.shape(value)
            np.testing.assert_allclose(got, value, rtol=1e-9, atol=1e-13)

    def loss(x: Any) -> Any:
        found = case(traced, x)
        return np.sum(np.sin(found.statistic)) + 3 * np.sum(found.pvalue)

    way, h = RNG.normal(size=X.shape), 1e-6
    expected = (loss(X + h * way) - loss(X - h * way)) / (2 * h)
    slope = np.sum(grad(loss)(X) * way)
    assert slope == pytest.approx(expected, rel=1e-5, abs=1e-7)
    assert jvp(loss, (X,), (way,))[1] == pytest.approx(slope, rel=1e-8, abs=1e-11)
    many = vmap(lambda x: _parts(case(traced, x)))(np.stack([X, X * 1.1]))
    for got, value in zip(many, wanted, strict=False):
        np.testing.assert_allclose(got[0], value, rtol=1e-9, atol=1e-13)
    single = jit(lambda x: _parts(case(traced, x)))(X.astype(np.float32))
    for got, value in zip(single, wanted, strict=False):
        np.testing.assert_allclose(got, value, rtol=2e-3, atol=1e-4)


def grad_free(case: Call) -> list[Any]:
    """Values that come with a derivative."""
    return jvp(lambda x: _parts(case(traced, x)), (X,), (X,))[0]


REFUSED: dict[str, Callable[[Any], Any]] = {
    "alternative": lambda x: traced.ttest_1samp(x, 0.0, alternative="both"),
    "nan_policy": lambda x: traced.ttest_1samp(x, 0.0, nan_policy="omit"),
    "pairs": lambda x: traced.ttest_rel(x, x[:2]),
    "trim": lambda x: traced.ttest_ind(x, x, trim=0.1),
    "one group": lambda x: traced.f_oneway(x),
    "unequal": lambda x: traced.f_oneway(x, x, equal_var=False),
    "trimmed": lambda x: traced.levene(x, x, center="trimmed"),
    "lambda": lambda x: traced.power_divergence(x, lambda_="best"),
    "few": lambda x: traced.skewtest(x[0, :5]),
    "fewer": lambda x: traced.kurtosistest(x[0, :3]),
    "method": lambda x: traced.combine_pvalues(x, "best"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_not_there_is_refused(name: str) -> None:
    with pytest.raises((ValueError, TypeError)):
        jit(REFUSED[name])(X)
