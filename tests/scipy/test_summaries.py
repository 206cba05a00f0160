"""Moments, means and correlations of scipy.stats: values against SciPy, derivatives against
differences, jit and vmap."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.stats as plain

import fgrad.scipy.stats as traced
from fgrad import grad, jit, vmap

RNG = np.random.default_rng(4)
X, Y = np.abs(RNG.normal(size=(5, 7))) + 0.2, RNG.normal(size=(5, 7))
W = RNG.uniform(0.5, 2.0, size=7)
AXES = ("moment", "skew", "kurtosis", "variation", "gstd", "gmean", "hmean", "iqr", "trim_mean",
        "median_abs_deviation", "entropy", "circmean", "circvar", "circstd")  # fmt: skip
MORE: dict[str, tuple[Any, ...]] = {"trim_mean": (0.2,)}
OPTIONS: dict[str, list[dict[str, Any]]] = {
    "moment": [{"order": 3}, {"order": 2, "center": 0.3}], "skew": [{"bias": False}],
    "kurtosis": [{"bias": False}, {"fisher": False}], "variation": [{"ddof": 1}],
    "gstd": [{"ddof": 0}], "gmean": [{"weights": W, "axis": 1}],
    "hmean": [{"weights": W, "axis": 1}], "iqr": [{"rng": (10, 80), "scale": 2.0, "axis": 0}],
    "median_abs_deviation": [{"scale": "normal"}], "entropy": [{"base": 2.0}, {"qk": X[::-1]}],
    "circstd": [{"normalize": True}], "circmean": [{"high": 3.0, "low": -1.0}],
    "zscore": [{}, {"axis": None}, {"ddof": 1, "axis": -1}], "gzscore": [{}, {"axis": 1}],
    "zmap": [{}, {"axis": 1}], "pmean": [{}, {"axis": 1, "weights": W}],
    "describe": [{}, {"axis": 1, "ddof": 0, "bias": False}], "pearsonr": [{}, {"axis": 1},
    {"alternative": "less"}], "linregress": [{}, {"alternative": "greater"}],
    "boxcox_llf": [{}],
}  # fmt: skip


def _cases() -> list[tuple[str, dict[str, Any]]]:
    shared = [{}, {"axis": None}, {"axis": -1, "keepdims": True}]
    found = [(name, given) for name in AXES for given in shared]
    return found + [(name, given) for name, all_ in OPTIONS.items() for given in all_]


def _call(module: Any, name: str, given: dict[str, Any], x: Any) -> list[Any]:
    f = getattr(module, name)
    args: tuple[Any, ...] = (x, *MORE.get(name, ()))
    if name == "zmap":
        args = (Y, x)
    elif name == "pmean":
        args = (x, 1.7)
    elif name == "boxcox_llf":
        args = (0.7, x[0])
    elif name in ("pearsonr", "linregress"):
        args = (x[0], Y[0] + x[0]) if "axis" not in given else (x, Y)
    out = f(*args, **given)
    if name == "describe":
        return [np.asarray(out[1][0]) if module is plain else out[1][0], *out[2:]]
    if name == "pearsonr":
        return [out.statistic, out.pvalue]
    return [*out[:5], out.intercept_stderr] if name == "linregress" else [out]


@pytest.mark.parametrize("case", _cases(), ids=lambda c: f"{c[0]} {sorted(c[1])}")
def test_values_and_derivatives(case: tuple[str, dict[str, Any]]) -> None:
    name, given = case
    wanted = _call(plain, name, given, X)
    found = jit(lambda x: _call(traced, name, given, x))(X)
    for got, value in zip(found, wanted, strict=False):
        assert np.shape(got) == np.shape(value)
        np.testing.assert_allclose(got, value, rtol=1e-9, atol=1e-12)

    def loss(x: Any) -> Any:
        return sum([np.sum(v**2 * (k + 1)) for k, v in enumerate(_call(traced, name, given, x))])

    way, h = RNG.normal(size=X.shape), 1e-6
    expected = (loss(X + h * way) - loss(X - h * way)) / (2 * h)
    assert np.sum(grad(loss)(X) * way) == pytest.approx(expected, rel=1e-5, abs=1e-6)
    many = vmap(lambda x: _call(traced, name, given, x)[0])(np.stack([X, X * 1.1]))
    np.testing.assert_allclose(many[0], found[0], rtol=1e-9, atol=1e-12)


def test_float32_nan_and_equal_samples() -> None:
    for name in AXES:
        x = X.astype(np.float32)
        args = MORE.get(name, ())
        found, wanted = jit(lambda x, n=name, a=args: getattr(traced, n)(x, *a))(x), None
        wanted = getattr(plain, name)(x, *args)
        np.testing.assert_allclose(found, wanted, rtol=2e-4, atol=1e-5, err_msg=name)
    bad = X.copy()
    bad[0, 0] = np.nan
    for name in ("skew", "kurtosis", "gmean", "zscore"):
        found = jit(getattr(traced, name))(bad)
        np.testing.assert_allclose(found, getattr(plain, name)(bad), rtol=1e-9)
    with np.errstate(all="ignore"):
        assert np.isnan(jit(traced.skew)(np.ones(5)))


@pytest.mark.parametrize(
    "program",
    [
        lambda x: traced.skew(x, nan_policy="omit"),
        lambda x: traced.zscore(x * 1j),
        lambda x: traced.trim_mean(x, 0.6),
        lambda x: traced.moment(x, -1),
        lambda x: traced.pearsonr(x[0], x[0, :3]),
        lambda x: traced.gmean(x, wieghts=1),
        lambda x: traced.pearsonr(x, x, alternative="both"),
        lambda x: traced.skew(x, axis=4),
    ],
)
def test_what_is_not_there_is_refused(program: Callable[..., Any]) -> None:
    with pytest.raises((ValueError, TypeError, IndexError)):
        jit(program)(X)


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_range_between_quartiles_has_the_dtype_of_the_samples(dtype: str) -> None:
    x = X.astype(dtype)
    assert jit(traced.iqr)(x).dtype == plain.iqr(x, axis=0).dtype == x.dtype
