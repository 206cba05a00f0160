"""Splines of one kind as those of another, derivatives as splines, and what SciPy's classes have as
functions of their own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.interpolate

import fgrad
import fgrad.scipy.interpolate as ip
from fgrad.errors import FgradError

X = np.array([0.0, 0.7, 1.5, 2.0, 3.1, 4.0, 4.2])
PLACES = np.array([0.1, 0.7, 1.9, 4.2, 3.3, -0.4, 4.9])
CALLS: dict[str, Callable[[Any, Any, Any], Any]] = {
    "from_spline": lambda m, y, x: m.PPoly.from_spline(m.make_interp_spline(X, y))(x),
    "from_spline, quadratic": lambda m, y, x: m.PPoly.from_spline(
        m.make_interp_spline(X, y, k=2).tck
    )(x),
    "without extrapolation": lambda m, y, x: np.nan_to_num(
        m.PPoly.from_spline(m.make_interp_spline(X, y), extrapolate=False)(x)
    ),
    "from_bernstein_basis": lambda m, y, x: m.PPoly.from_bernstein_basis(
        m.BPoly.from_power_basis(m.CubicSpline(X, y))
    )(x),
    "through derivatives": lambda m, y, x: m.PPoly.from_bernstein_basis(
        m.BPoly.from_derivatives(X, np.stack([y, np.cos(y)], axis=-1))
    )(x),
    **{
        f"{name} of order {n}, ext={ext}": lambda m, y, x, name=name, n=n, ext=ext: getattr(
            m.UnivariateSpline(X, y, s=0, ext=ext), name
        )(n)(x)
        for name in ("derivative", "antiderivative")
        for n in (1, 2)
        for ext in (0, 1, 3)
    },
}


@pytest.mark.parametrize("name", CALLS)
def test_values_and_slopes(name: str, rng: np.random.Generator) -> None:
    y, step, f = rng.normal(size=7), 1e-6, CALLS[name]
    wanted = f(scipy.interpolate, y, PLACES)
    for found in (
        fgrad.jit(lambda y, x: f(ip, y, x))(y, PLACES),
        fgrad.jit(lambda x: f(ip, y, x))(PLACES),
        f(ip, y, PLACES),
    ):
        np.testing.assert_allclose(found, wanted, rtol=1e-9, atol=1e-10)
    slope = fgrad.jacfwd(lambda y: f(ip, y, PLACES))(y)
    for k, e in enumerate(np.eye(7)):
        ends = [f(scipy.interpolate, y + s * step * e, PLACES) for s in (1, -1)]
        np.testing.assert_allclose(
            slope[..., k], (ends[0] - ends[1]) / (2 * step), rtol=1e-5, atol=1e-7
        )


CLASSES = [
    name
    for name in sorted(scipy.interpolate.__all__)
    if isinstance(getattr(scipy.interpolate, name), type)
    and getattr(ip, name).__module__.startswith("fgrad.")
]


@pytest.mark.parametrize("name", CLASSES)
def test_functions_of_classes_are_there(name: str) -> None:
    theirs, mine = getattr(scipy.interpolate, name), getattr(ip, name)
    for each in vars(theirs):
        if not each.startswith("_") and isinstance(vars(theirs)[each], (classmethod, staticmethod)):
            assert callable(getattr(mine, each))


def test_design_matrix_of_plain_places() -> None:
    t = np.r_[[0.0] * 4, 1.0, 2.0, [3.0] * 4]
    args = np.linspace(0, 3, 5), t, 3
    wanted = scipy.interpolate.BSpline.design_matrix(*args)
    np.testing.assert_array_equal(ip.BSpline.design_matrix(*args).toarray(), wanted.toarray())
    made = ip.BSpline.from_power_basis(ip.CubicSpline(X, np.sin(X)))
    np.testing.assert_allclose(made(PLACES[:5]), ip.CubicSpline(X, np.sin(X))(PLACES[:5]))
    for call in (
        lambda x: ip.BSpline.design_matrix(x, t, 3),
        lambda y: ip.BSpline.from_power_basis(ip.CubicSpline(X[:5], y)),
    ):
        with pytest.raises(FgradError, match="BSpline"):
            fgrad.jit(call)(args[0])
