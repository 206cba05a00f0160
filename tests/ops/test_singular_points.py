"""Derivatives at points where a formula of the derivative is singular and the derivative is not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.special as sc

from fgrad import grad, jit, jvp

PI = np.pi
# function, arguments, the argument in which it is differentiated, its slope
POINTS: list[tuple[Callable[..., Any], tuple[float, ...], int, float]] = [
    (np.angle, (0.0,), 0, 0.0), (np.angle, (-3.0,), 0, 0.0), (np.angle, (1e-310,), 0, 0.0),
    (sc.ellipk, (0.0,), 0, PI / 8), (sc.ellipk, (1e-20,), 0, PI / 8),
    (sc.ellipk, (-1e-14,), 0, PI / 8), (sc.ellipk, (1e-310,), 0, PI / 8),
    (sc.ellipe, (0.0,), 0, -PI / 8), (sc.ellipe, (1e-16,), 0, -PI / 8),
    (sc.ellipkm1, (1.0,), 0, -PI / 8), (sc.ellipkm1, (1 - 1e-15,), 0, -PI / 8),
    (sc.i1, (1e-310,), 0, 0.5), (sc.i1e, (1e-310,), 0, 0.5), (sc.j1, (1e-310,), 0, 0.5),
    (sc.poch, (0.0, 1.0), 0, 1.0), (sc.poch, (0.0, 2.0), 0, 1.0), (sc.poch, (-1.0, 2.0), 0, -1.0),
    (sc.poch, (-2.0, 1.0), 0, 1.0), (sc.poch, (-3.0, 2.0), 0, -5.0), (sc.poch, (0.0, 0.0), 0, 0.0),
    (sc.binom, (0.0, 1.0), 0, 1.0), (sc.binom, (0.0, 2.0), 0, -0.5), (sc.binom, (1.0, 2.0), 0, 0.5),
    (sc.binom, (0.0, 1.0), 1, -1.0), (sc.binom, (0.0, -1.0), 1, 1.0),
    (sc.binom, (2.0, -1.0), 1, 1 / 3), (sc.binom, (2.0, 3.0), 1, -1 / 3),
    (sc.rel_entr, (0.0, 0.0), 0, 0.0), (sc.rel_entr, (0.0, 0.0), 1, 0.0),
    (sc.rel_entr, (0.0, 2.0), 1, 0.0), (sc.rel_entr, (3.0, 2.0), 1, -1.5),
    (sc.kl_div, (0.0, 0.0), 0, -1.0), (sc.kl_div, (0.0, 0.0), 1, 1.0),
    (sc.kl_div, (3.0, 2.0), 0, np.log(1.5)),
    (sc.pseudo_huber, (0.0, 0.0), 0, 0.0), (sc.pseudo_huber, (0.0, 0.0), 1, 0.0),
    (sc.pseudo_huber, (0.0, -2.0), 0, 2.0), (sc.pseudo_huber, (0.0, 2.0), 1, 0.0),
    (sc.boxcox, (0.0, 2.0), 1, 0.25), (sc.boxcox, (1e-200, 0.5), 1, 4.0),
    (sc.boxcox1p, (-1.0, 2.0), 1, 0.25), (sc.boxcox, (np.inf, -2.0), 1, 0.25),
    (np.hypot, (0.0, 0.0), 0, 0.0), (np.sinc, (0.0,), 0, 0.0), (sc.exprel, (0.0,), 0, 0.5),
    (sc.spence, (1.0,), 0, -1.0), (sc.rgamma, (-2.0,), 0, 2.0), (sc.xlogy, (0.0, 0.0), 1, 0.0),
    (np.arctan2, (1e-200, 1e-200), 0, 5e199), (np.arctan2, (0.0, np.inf), 0, 0.0),
    (np.power, (0.0, 0.0), 0, 0.0), (np.power, (0.0, 1.0), 0, 1.0),
]  # fmt: skip


@pytest.mark.parametrize("k", range(len(POINTS)))
@np.errstate(all="ignore")
def test_slopes_at_singular_points(k: int) -> None:
    f, args, which, slope = POINTS[k]
    one = tuple([float(j == which) for j in range(len(args))])
    found = [
        grad(f, argnums=which)(*args),
        jvp(f, args, one)[1],
        jit(grad(f, argnums=which))(*args),
    ]
    np.testing.assert_allclose(found, slope, 1e-10, 1e-12)


@pytest.mark.parametrize("f", [sc.ellipk, sc.ellipe, lambda m: sc.ellipkm1(1 - m)])
def test_slopes_of_elliptic_integrals(f: Callable[[Any], Any]) -> None:
    """By Carlson's integral: (K - E) / m = R_D(0, 1 - m, 1) / 3."""
    m = np.array([-3.0, -0.0501, -0.0499, -1e-5, 1e-9, 1e-5, 0.0499, 0.0501, 0.5, 0.9])
    third = sc.elliprd(0.0, 1 - m, 1.0) / 3
    slope = -third / 2 if f is sc.ellipe else (sc.ellipk(m) - third) / (2 * (1 - m))
    found = grad(lambda m: np.sum(f(m)))(m)
    np.testing.assert_allclose(found, slope, 1e-12)
    step = 1e-5
    curved = grad(lambda m: np.sum(grad(lambda m: np.sum(f(m)))(m)))(m[:-1])
    ends = [grad(lambda m: np.sum(f(m)))(m[:-1] + h) for h in (step, -step)]
    np.testing.assert_allclose(curved, (ends[0] - ends[1]) / (2 * step), 1e-6)


@pytest.mark.parametrize("z", [np.inf + 0j, complex(0, np.inf), complex(-np.inf, 1), 2 + 1j])
@np.errstate(all="ignore")
def test_reciprocals_of_complex_numbers(z: complex) -> None:
    x = np.array([z])
    for f in (np.reciprocal, lambda z: z**-1):
        expected = 1 / x if np.isfinite(z) else np.zeros(1, complex)
        for found in (f(x), jit(f)(x), jvp(f, (x,), (x * 0,))[0]):
            np.testing.assert_allclose(found, expected, 1e-15)
