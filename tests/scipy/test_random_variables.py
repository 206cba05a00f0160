"""Normal, Logistic, Uniform, Binomial: every method against SciPy's, slopes in parameters."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.stats as plain

import fgrad
import fgrad.scipy.stats as traced
from fgrad import grad, jit, jvp, vmap
from fgrad.errors import UnsupportedNumpyError

X = np.array([-1.5, 0.2, 0.5, 1.7, 3.0])
Q = np.array([0.1, 0.5, 0.83])
FAMILIES: dict[str, dict[str, Any]] = {
    "Normal": {"mu": 0.3, "sigma": 1.4}, "Uniform": {"a": -0.4, "b": 2.2}, "Logistic": {},
    "Binomial": {"n": 6, "p": 0.37},
}  # fmt: skip
POINTS = ("cdf", "ccdf", "logcdf", "logccdf")
MOMENTS = ("mean", "variance", "standard_deviation", "skewness", "kurtosis", "entropy", "median")


def _methods(name: str) -> list[tuple[str, tuple[Any, ...]]]:
    at = np.arange(-1.0, 8.0) if name == "Binomial" else X
    own = ("pmf", "logpmf") if name == "Binomial" else ("pdf", "logpdf")
    found = [(m, (at,)) for m in (*own, *POINTS)]
    found += [(m, (Q,)) for m in ("icdf", "iccdf")] + [
        (m, (np.log(Q),)) for m in ("ilogcdf", "ilogccdf")
    ]
    if name != "Binomial":
        known = [m for m in POINTS if (name, m) != ("Uniform", "logcdf")]  # complex in SciPy
        found += [(m, (at, at + 0.4)) for m in known]
    return found + [(m, ()) for m in MOMENTS if (name, m) != ("Binomial", "entropy")]


CASES = [(name, m, points) for name in FAMILIES for m, points in _methods(name)]


@pytest.mark.filterwarnings("ignore:divide by zero")
@pytest.mark.parametrize("case", CASES, ids=lambda c: f"{c[0]}.{c[1]} {len(c[2])}")
def test_values_and_slopes(case: tuple[str, str, tuple[Any, ...]]) -> None:
    name, method, points = case
    given = FAMILIES[name]
    call = lambda p, *x: getattr(getattr(traced, name)(**p), method)(*x)  # noqa: E731
    with np.errstate(all="ignore"):
        wanted = getattr(getattr(plain, name)(**given), method)(*points)
        for found in (call(given, *points), jit(call)(given, *points)):
            assert np.shape(found) == np.shape(wanted)
            np.testing.assert_allclose(found, wanted, rtol=1e-9, atol=1e-13)
    for key, value in given.items():
        if key == "n":
            continue
        one = lambda v, key=key: np.sum(np.arctan(call({**given, key: v}, *points)))  # noqa: E731
        slope = grad(one)(value)
        difference = (one(value + 1e-6) - one(value - 1e-6)) / 2e-6
        assert slope == pytest.approx(difference, rel=1e-5, abs=1e-8)
        assert jvp(one, (value,), (1.0,))[1] == pytest.approx(slope, rel=1e-9, abs=1e-12)
        many = vmap(lambda v, key=key: call({**given, key: v}, *points))(np.array([value, value]))
        np.testing.assert_allclose(many[1], wanted, rtol=1e-9, atol=1e-13)


def test_samples_parameters_and_what_is_refused() -> None:
    key = fgrad.random.key(1)
    drawn = jit(lambda m: traced.Normal(mu=m, sigma=2.0).sample((4000,), rng=key))(1.0)
    assert np.mean(drawn) == pytest.approx(1.0, abs=0.15)
    assert np.std(drawn) == pytest.approx(2.0, rel=0.05)
    assert traced.Normal(mu=np.zeros(3)).sample(2, rng=key).shape == (2, 3)
    np.testing.assert_array_equal(
        traced.Uniform(a=0, b=2).sample(3, rng=5), plain.Uniform(a=0, b=2).sample(3, rng=5)
    )
    assert traced.Normal(mu=1.5).mu == 1.5
    assert traced.Normal(mu=1.5).support() == (-np.inf, np.inf)
    assert grad(lambda x: traced.Normal().logpdf(x))(0.5) == -0.5
    for program in (
        lambda m: traced.Normal(mu=m).sample(3),
        lambda m: traced.Normal(mu=m).moment(3),
        lambda m: traced.Normal(mu=m, tol=1e-3).cdf(0.2),
        lambda m: traced.Normal(mu=m).cdf(0.2, method="quadrature"),
        lambda m: traced.Binomial(n=4, p=m).entropy(),
    ):
        with pytest.raises(UnsupportedNumpyError):
            jit(program)(0.3)
    with pytest.raises(TypeError, match="missing"):
        traced.Uniform(a=0.0)
    with pytest.raises(ValueError, match="convention"):
        traced.Normal().kurtosis(convention="other")
