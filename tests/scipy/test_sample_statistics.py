"""Further summaries of samples, powers, distances, robust lines, bins: a table of calls, each
against SciPy, with derivatives in both modes against differences, jit, vmap, float32, NaN."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import scipy
import scipy.stats as plain

import fgrad.scipy.stats as traced
from fgrad import grad, jit, jvp, vmap
from fgrad.base.installed import at_least
from fgrad.errors import UnsupportedNumpyError

RNG = np.random.default_rng(11)
X, Y = np.abs(RNG.normal(size=(4, 9))) + 0.3, RNG.normal(size=(4, 9))
W, V = RNG.uniform(0.5, 2.0, size=9), RNG.uniform(0.5, 2.0, size=9)
AT = np.sort(RNG.normal(size=9))
GROUP = np.arange(9) % 2
Call = Callable[[Any, Any], Any]

# What is called with a module and samples of shape (4, 9); a name twice has "name option".
CASES: dict[str, Call] = {
    "tmean": lambda m, x: m.tmean(x, (0.5, 1.8)),
    "tmean axis": lambda m, x: m.tmean(x, (0.5, None), (False, True), axis=1, keepdims=True),
    "tvar": lambda m, x: m.tvar(x, (0.4, None)),
    "tvar axis": lambda m, x: m.tvar(x, None, axis=-1, ddof=0, keepdims=True),
    "tstd": lambda m, x: m.tstd(x, (0.4, 1.9), axis=1),
    "tsem": lambda m, x: m.tsem(x, (0.4, 1.9), axis=1),
    "tmin": lambda m, x: m.tmin(x, 0.6, axis=1),
    "tmin inclusive": lambda m, x: m.tmin(x, 0.6, axis=None, inclusive=False, keepdims=True),
    "tmax": lambda m, x: m.tmax(x, 1.2, axis=1),
    "trim1": lambda m, x: np.sort(m.trim1(x, 0.3, axis=1), axis=1),
    "trim1 left": lambda m, x: np.sort(m.trim1(x, 0.3, "left", axis=None)),
    "trimboth": lambda m, x: np.sort(m.trimboth(x, 0.2, axis=1), axis=1),
    "scoreatpercentile": lambda m, x: m.scoreatpercentile(x, [10, 50, 72], axis=1),
    "scoreatpercentile lower": lambda m, x: m.scoreatpercentile(x, 33, (), "lower"),
    "quantile": lambda m, x: m.quantile(x, 0.3),
    "quantile none": lambda m, x: m.quantile(x, np.array([0.1, 0.8, 1.2]), axis=None),
    "quantile keep": lambda m, x: m.quantile(x, 0.3, axis=1, keepdims=True),
    "expectile": lambda m, x: m.expectile(x, 0.8),
    "expectile weights": lambda m, x: m.expectile(x[0], 0.2, weights=W),
    "kstat": lambda m, x: m.kstat(x, 3, axis=1),
    "kstat 4": lambda m, x: m.kstat(x, 4),
    "kstat 1": lambda m, x: m.kstat(x, 1, axis=0, keepdims=True),
    "kstatvar": lambda m, x: m.kstatvar(x, 2, axis=1),
    "kstatvar 1": lambda m, x: m.kstatvar(x, 1),
    "lmoment": lambda m, x: m.lmoment(x, axis=1),
    "lmoment order": lambda m, x: m.lmoment(x, 3, standardize=False, keepdims=True),
    "lmoment orders": lambda m, x: m.lmoment(x, [1, 5, 2], axis=1),
    "differential_entropy": lambda m, x: m.differential_entropy(x, axis=1),
    "differential_entropy correa": lambda m, x: m.differential_entropy(
        x, method="correa", axis=1, base=2, keepdims=True
    ),
    "differential_entropy vasicek": lambda m, x: m.differential_entropy(
        x[0], method="vasicek", window_length=2
    ),
    "differential_entropy ebrahimi": lambda m, x: m.differential_entropy(x[1], method="Ebrahimi"),
    "directional_stats": lambda m, x: _fields(m.directional_stats(x), _DIRECTION),
    "directional_stats axis": lambda m, x: _fields(
        m.directional_stats(x.T[:, None], axis=2, normalize=False), _DIRECTION
    ),
    "obrientransform": lambda m, x: m.obrientransform(x[0], x[1]),
    **({
        "expectile axis": lambda m, x: m.expectile(x, 0.8, axis=1, keepdims=True),
        "expectile of all": lambda m, x: m.expectile(x, 0.8, axis=None, weights=X**2),
        "obrientransform lengths": lambda m, x: m.obrientransform(x[0], x[1, :4], x),
    } if at_least(scipy, 1, 18) else {}),
    "pointbiserialr": lambda m, x: _fields(m.pointbiserialr(GROUP, x[0]), ("statistic", "pvalue")),
    "boxcox": lambda m, x: m.boxcox(x, 0.4),
    "boxcox alpha": lambda m, x: [*m.boxcox(x[0], alpha=0.1)[:2], *m.boxcox(x[0], alpha=0.1)[2]],
    "boxcox_normmax": lambda m, x: m.boxcox_normmax(x[0], method="all"),
    "boxcox_normmax pearsonr": lambda m, x: m.boxcox_normmax(x[0], brack=(-1.0, 1.0)),
    "yeojohnson": lambda m, x: m.yeojohnson(x - 1, 1.6),
    "yeojohnson 2": lambda m, x: m.yeojohnson(x - 1, 2.0),
    "yeojohnson best": lambda m, x: m.yeojohnson(x[0] - 1),
    "yeojohnson_llf": lambda m, x: m.yeojohnson_llf(1.3, x - 1, axis=1, keepdims=True),
    "yeojohnson_normmax": lambda m, x: m.yeojohnson_normmax(x[0]),
    "theilslopes": lambda m, x: [*m.theilslopes(x[0])],
    "theilslopes joint": lambda m, x: [*m.theilslopes(x[0], AT, 0.1, "joint")],
    "theilslopes axis": lambda m, x: [*m.theilslopes(x, Y, axis=1)],
    "siegelslopes": lambda m, x: [*m.siegelslopes(x[0])],
    "siegelslopes separate": lambda m, x: [*m.siegelslopes(x[0], AT, "separate")],
    "siegelslopes axis": lambda m, x: [*m.siegelslopes(x, Y, axis=1, keepdims=True)],
    "wasserstein_distance": lambda m, x: m.wasserstein_distance(x[0], Y[0]),
    "wasserstein_distance weights": lambda m, x: m.wasserstein_distance(x[0], Y[0], W, x[1]),
    "energy_distance": lambda m, x: m.energy_distance(x[0], Y[0, :5], x[1]),
    "wasserstein_distance_nd": lambda m, x: m.wasserstein_distance_nd(x.T, Y.T, W, V),
    "wasserstein_distance_nd line": lambda m, x: m.wasserstein_distance_nd(x[0], Y[0]),
    "binned_statistic": lambda m, x: m.binned_statistic(AT, x, bins=3).statistic,
    "binned_statistic edges": lambda m, x: [*m.binned_statistic(x[0], Y[0], "sum", 4)[:2]],
    "binned_statistic range": lambda m, x: m.binned_statistic(
        AT, x[0], "std", 4, (-1.0, 1.0)
    ).statistic,
    "binned_statistic given": lambda m, x: m.binned_statistic(
        AT, x[0], "median", np.array([-3.0, 0.0, 0.4, 3.0])
    ).statistic,
    "binned_statistic count": lambda m, x: m.binned_statistic(x[0], x[1], "count", 3).statistic,
    "binned_statistic_2d": lambda m, x: [*m.binned_statistic_2d(AT, Y[0], x[0], "max", [2, 3])[:3]],
    "binned_statistic_2d expand": lambda m, x: m.binned_statistic_2d(
        AT, Y[0], x[0], "min", 2, expand_binnumbers=True
    )[0],
    "binned_statistic_dd": lambda m, x: m.binned_statistic_dd(
        Y.T[:, :3], x, np.mean, 2
    ).statistic,
}  # fmt: skip
_DIRECTION = ("mean_direction", "mean_resultant_length")
METHODS = (
    "inverted_cdf", "averaged_inverted_cdf", "closest_observation", "interpolated_inverted_cdf",
    "hazen", "weibull", "linear", "median_unbiased", "normal_unbiased", "harrell-davis",
    "round_outward", "round_inward", "round_nearest",
)  # fmt: skip
for _method in METHODS:
    CASES[f"quantile {_method}"] = lambda m, x, method=_method: m.quantile(
        x, np.array([[0.13, 0.5, 0.84]]), method=method, axis=1
    )
LOOSE = ("boxcox", "yeojohnson", "binned_statistic edges")  # SciPy's powers have eight digits


def _fields(found: Any, names: tuple[str, ...]) -> list[Any]:
    return [getattr(found, n) for n in names]


def _parts(found: Any) -> list[Any]:
    return list(found) if isinstance(found, (list, tuple)) else [found]


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        yield


@pytest.mark.parametrize("name", CASES)
def test_values_and_derivatives(name: str) -> None:
    case, loose = CASES[name], name.startswith(LOOSE)
    wanted = _parts(case(plain, X))
    found = jit(lambda x: _parts(case(traced, x)))(X)
    for got, value in zip(found, wanted, strict=True):
        assert np.shape(got) == np.shape(value)
        np.testing.assert_allclose(got, value, rtol=1e-6 if loose else 1e-10, atol=1e-12)

    def loss(x: Any) -> Any:
        parts = [np.where(np.isnan(v), 0.0, v) for v in _parts(case(traced, x))]
        return sum([np.sum(np.sin(v) * (k + 1.0)) for k, v in enumerate(parts)])

    way, h = RNG.normal(size=X.shape), 1e-4 if loose else 1e-6
    expected = (loss(X + h * way) - loss(X - h * way)) / (2 * h)
    slope = np.sum(grad(loss)(X) * way)
    assert slope == pytest.approx(
        expected, rel=1e-3 if loose else 2e-5, abs=1e-4 if loose else 1e-6
    )
    assert jvp(loss, (X,), (way,))[1] == pytest.approx(slope, rel=1e-8, abs=1e-10)
    many = vmap(lambda x: _parts(case(traced, x)))(np.stack([X, X * 1.1]))
    for got, one in zip(many, found, strict=True):
        np.testing.assert_allclose(got[0], one, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("name", CASES)
def test_float32(name: str) -> None:
    x = X.astype(np.float32)
    found = jit(lambda x: _parts(CASES[name](traced, x)))(x)
    for got, value in zip(found, _parts(CASES[name](plain, X)), strict=True):
        loose = name.startswith(("boxcox", "yeojohnson"))
        np.testing.assert_allclose(got, value, rtol=5e-2 if loose else 2e-3, atol=2e-4)


NAN = ("tmean", "tvar", "tstd", "tsem", "tmin", "tmax", "kstat", "kstatvar", "lmoment", "quantile",
       "differential_entropy", "theilslopes", "siegelslopes")  # fmt: skip


@pytest.mark.parametrize("name", NAN)
def test_nan(name: str) -> None:
    bad = np.copy(X)
    bad[0, 1] = np.nan
    found = jit(lambda x: _parts(CASES[name](traced, x)))(bad)
    for got, value in zip(found, _parts(CASES[name](plain, bad)), strict=True):
        np.testing.assert_allclose(got, value, rtol=1e-9)


def test_no_samples_between_limits() -> None:
    for name in ("tmean", "tvar", "tstd", "tsem"):
        assert np.isnan(jit(lambda x, n=name: getattr(traced, n)(x, (50.0, None)))(X[0]))
    assert np.isnan(jit(lambda x: traced.tmin(x, 50.0))(X[0]))
    assert np.isnan(jit(lambda x: traced.tmax(x, -50.0))(X[0]))


def test_sigmaclip_where_values_are_known() -> None:
    x = np.concatenate([X[0], [40.0, -60.0]])
    wanted = plain.sigmaclip(x, 1.5, 2.0)
    found = grad(lambda x: np.sum(traced.sigmaclip(x, 1.5, 2.0).clipped))(x)
    np.testing.assert_array_equal(found, [v in wanted.clipped for v in x])
    bound = lambda x: traced.sigmaclip(x, 1.5, 2.0).lower  # noqa: E731
    np.testing.assert_allclose(bound(x), wanted.lower)
    h, way = 1e-6, RNG.normal(size=x.shape)
    difference = (bound(x + h * way) - bound(x - h * way)) / (2 * h)
    assert np.sum(grad(bound)(x) * way) == pytest.approx(difference, rel=1e-6)
    with pytest.raises(UnsupportedNumpyError, match="tmean"):
        jit(lambda x: traced.sigmaclip(x).lower)(x)


def test_derivatives_in_probabilities_levels_and_powers() -> None:
    calls: list[tuple[Callable[[Any], Any], float]] = [
        (lambda p: traced.quantile(X[0], p), 0.33),
        (lambda p: traced.quantile(X[0], p, method="harrell-davis"), 0.33),
        (lambda p: traced.expectile(X[0], p), 0.7),
        (lambda p: np.sum(traced.yeojohnson(Y[0], p)), 1.4),
        (lambda p: np.sum(traced.boxcox(X[0], p)), 0.4),
    ]
    for f, at in calls:
        difference = (f(at + 1e-6) - f(at - 1e-6)) / 2e-6
        assert grad(f)(at) == pytest.approx(difference, rel=1e-6)


REFUSED: dict[str, Callable[[Any], Any]] = {
    "tmean nan_policy": lambda x: traced.tmean(x, nan_policy="omit"),
    "quantile method": lambda x: traced.quantile(x, 0.5, method="middle"),
    "quantile weights": lambda x: traced.quantile(x, 0.5, weights=x),
    "quantile keepdims": lambda x: traced.quantile(x[0], np.array([0.1, 0.2]), keepdims=False),
    "scoreatpercentile limit": lambda x: traced.scoreatpercentile(x, 5, (0, 1)),
    "scoreatpercentile range": lambda x: traced.scoreatpercentile(x, 105),
    "trimboth": lambda x: traced.trimboth(x, 0.5),
    "trim1 tail": lambda x: traced.trim1(x, 0.1, "middle"),
    "kstat order": lambda x: traced.kstat(x, 5),
    "kstatvar order": lambda x: traced.kstatvar(x, 3),
    "lmoment order": lambda x: traced.lmoment(x, 0),
    "differential_entropy": lambda x: traced.differential_entropy(x, window_length=20),
    "differential_entropy method": lambda x: traced.differential_entropy(x, method="best"),
    "directional_stats": lambda x: traced.directional_stats(x[0]),
    **({} if at_least(scipy, 1, 18) else {
        "obrientransform": lambda x: traced.obrientransform(x[0], x[0, :4])}),
    "obrientransform nan_policy": lambda x: traced.obrientransform(x[0], nan_policy="omit"),
    "boxcox axes": lambda x: traced.boxcox(x),
    "boxcox_normmax": lambda x: traced.boxcox_normmax(x[0], method="best"),
    "theilslopes": lambda x: traced.theilslopes(x[0], x[0, :3]),
    "siegelslopes": lambda x: traced.siegelslopes(x[0], method="best"),
    "wasserstein": lambda x: traced.wasserstein_distance(x, x),
    "wasserstein weights": lambda x: traced.wasserstein_distance(x[0], x[0], x[0, :3]),
    "wasserstein nd weights": lambda x: traced.wasserstein_distance_nd(X.T, X.T, x[0]),
    "binned function": lambda x: traced.binned_statistic(AT, x[0], lambda v: 1.0),
    "binned name": lambda x: traced.binned_statistic(AT, x[0], "average"),
    "binned length": lambda x: traced.binned_statistic(AT[:3], x[0]),
    "no samples": lambda x: traced.expectile(x[:0]),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_not_there_is_refused(name: str) -> None:
    with pytest.raises((ValueError, TypeError)):
        jit(REFUSED[name])(X)
