"""The bootstrap by keys against SciPy's, its derivatives against differences; random rotations."""

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

RNG = np.random.default_rng(3)
X, Y = RNG.gamma(2.0, size=25), RNG.gamma(2.0, size=25)
KEY = fgrad.random.key(5)


def _ratio(x: Any, y: Any, axis: int) -> Any:
    return np.mean(x, axis=axis) / np.mean(y, axis=axis)


def _skewed(x: Any) -> Any:
    return np.mean((x - np.mean(x)) ** 3)


CASES: dict[str, tuple[Callable[[Any], Any], Any, dict[str, Any]]] = {
    "mean": (lambda x: (x,), np.mean, {}),
    "percentile": (lambda x: (x,), np.mean, {"method": "percentile"}),
    "basic": (lambda x: (x,), np.std, {"method": "basic", "confidence_level": 0.8}),
    "less": (lambda x: (x,), np.mean, {"alternative": "less"}),
    "two": (lambda x: (x, Y), _ratio, {}),
    "paired": (lambda x: (x, Y), _ratio, {"paired": True}),
    "of vectors": (lambda x: (x,), _skewed, {"vectorized": False}),
    "axes": (lambda x: (np.stack([x, 2 * x]),), np.mean, {"axis": 1}),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_intervals(name: str) -> None:
    data, statistic, given = CASES[name]

    def of(x: Any, count: int = 400) -> Any:
        return traced.bootstrap(data(x), statistic, n_resamples=count, rng=KEY, **given)

    found = jit(lambda x: of(x, 20000))(X)
    wanted = plain.bootstrap(data(X), statistic, n_resamples=20000, rng=1, **given)
    error = np.max(wanted.standard_error)
    for got, want in zip(found.confidence_interval, wanted.confidence_interval, strict=True):
        np.testing.assert_allclose(got, want, atol=0.3 * error)
    np.testing.assert_allclose(found.standard_error, wanted.standard_error, rtol=0.1)
    assert np.shape(found.bootstrap_distribution) == wanted.bootstrap_distribution.shape

    def loss(x: Any) -> Any:
        out = of(x)
        ends = [np.where(np.isfinite(end), end, 0.0) for end in out.confidence_interval]
        return np.sum(ends[0]) + 2 * np.sum(ends[1]) + np.sum(out.standard_error)

    way = RNG.normal(size=X.shape)
    difference = (loss(X + 1e-7 * way) - loss(X - 1e-7 * way)) / 2e-7
    slope = np.sum(grad(loss)(X) * way)
    assert slope == pytest.approx(difference, rel=1e-4, abs=1e-6)
    assert jvp(loss, (X,), (way,))[1] == pytest.approx(slope, rel=1e-8)
    many = vmap(loss)(np.stack([X, X + 1]))
    assert many[0] == pytest.approx(loss(X), rel=1e-9)


def test_what_is_refused() -> None:
    programs: list[Callable[[Any], Any]] = [
        lambda x: traced.bootstrap((x,), np.mean),
        lambda x: traced.bootstrap((x,), np.mean, batch=5, rng=KEY),
        lambda x: traced.bootstrap((np.stack([x, x]),), _skewed, axis=1, rng=KEY),
    ]
    for program in programs:
        with pytest.raises(UnsupportedNumpyError):
            jit(program)(X)
    for given in ({"method": "best"}, {"alternative": "both"}):
        with pytest.raises(ValueError, match=r"best|both"):
            traced.bootstrap((X,), np.mean, rng=KEY, **given)
    with pytest.raises(ValueError, match="two numbers"):
        traced.bootstrap((X[:1],), np.mean, rng=KEY)
    with pytest.raises(ValueError, match="equal lengths"):
        traced.bootstrap((X, Y[:5]), _ratio, paired=True, rng=KEY)
    a, b = [m.bootstrap((X,), np.mean, n_resamples=50, rng=2) for m in (traced, plain)]
    assert a.standard_error == b.standard_error


@pytest.mark.parametrize("name", ["ortho_group", "special_ortho_group", "unitary_group"])
def test_random_rotations(name: str) -> None:
    family = getattr(traced, name)
    q = jit(lambda k: family.rvs(3, size=50, random_state=k))(KEY)
    assert q.shape == plain.ortho_group.rvs(3, size=50).shape
    unit = q @ np.conj(np.swapaxes(q, 1, 2))
    np.testing.assert_allclose(unit, np.tile(np.eye(3), (50, 1, 1)), atol=1e-12)
    assert family.rvs(4, random_state=KEY).shape == (4, 4)
    if name == "special_ortho_group":
        np.testing.assert_allclose(np.linalg.det(q), 1.0)
    np.testing.assert_array_equal(
        family.rvs(3, random_state=1), getattr(plain, name).rvs(3, random_state=1)
    )


def test_random_directions() -> None:
    x = traced.uniform_direction.rvs(3, 4000, random_state=KEY)
    np.testing.assert_allclose(np.sum(x * x, axis=1), 1.0)
    assert np.max(np.abs(np.mean(x, axis=0))) < 0.05
    assert traced.uniform_direction.rvs(3, random_state=KEY).shape == (3,)
