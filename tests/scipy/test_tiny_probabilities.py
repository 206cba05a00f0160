"""Inverses of incomplete beta functions at tiny probabilities by mpmath, where SciPy's have NaN or
the least normal float; and slopes of inverses where nothing solves the equation."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import mpmath as mp
import numpy as np
import pytest
import scipy.special
import scipy.stats

import fgrad
import fgrad.scipy.special as special
import fgrad.scipy.stats as stats

TINY = (5e-324, 1e-310, 1e-300, 1e-100, 1e-50, 1e-16)


def _beta(a: Any, b: Any, x: Any) -> Any:
    return mp.betainc(a, b, 0, x, regularized=True)


def _student(df: Any, t: Any) -> Any:
    return _beta(df / 2, mp.mpf(0.5), df / (df + t * t)) / 2


def _snedecor(m: Any, n: Any, x: Any) -> Any:
    return _beta(m / 2, n / 2, m * x / (n + m * x))


Row = tuple[Callable[..., Any], Callable[..., Any], tuple[float, ...]]
ROWS: list[Row] = [
    *[(special.betaincinv, _beta, s) for s in ((2.0, 3.5), (0.1, 0.5), (3.5, 0.02))],
    *[(special.stdtrit, _student, (s,)) for s in (0.4, 2.0, 30.0)],
    *[(special.fdtri, _snedecor, s) for s in ((2.0, 3.5), (0.3, 4.0), (4.0, 7.0))],
    (lambda a, b, q: stats.beta.ppf(q, a, b), _beta, (2.0, 3.5)),
    (lambda m, n, q: stats.f.ppf(q, m, n), _snedecor, (4.0, 7.0)),
    (lambda df, q: stats.t.ppf(q, df), _student, (4.0,)),
]


@pytest.mark.parametrize("row", range(len(ROWS)))
def test_roots_by_mpmath(row: int) -> None:
    """Within what the next floats give, or none is near enough."""
    inverse, exact, shapes = ROWS[row]
    for p in TINY if row < len(ROWS) - 3 else TINY[2:]:  # distributions: of normal floats
        x = float(fgrad.jit(inverse)(*shapes, p))
        assert not np.isnan(x)
        with mp.workdps(40):
            given = [mp.mpf(s) for s in shapes]
            if abs(x) < 1e-307 or np.isinf(x):
                assert exact(*given, mp.mpf(1e307 if np.isinf(x) else 1e-307)) > p
                continue
            ratio = exact(*given, mp.mpf(x)) / mp.mpf(p)
        assert abs(float(ratio) - 1) < 1e-11


@pytest.mark.parametrize(
    ("name", "at"),
    [
        ("bdtrik", (0.001, 6.5, 0.3)), ("nbdtrik", (0.2, 0.7, 0.9)), ("pdtrik", (0.5, 0.01)),
        ("fdtridfd", (3.0, 0.79, 0.9)),
    ],
)  # fmt: skip
def test_slopes_at_the_end_of_a_search(name: str, at: tuple[float, ...]) -> None:
    """SciPy's search ends where no number solves: there the result is constant."""
    with np.errstate(all="ignore"):
        end = getattr(scipy.special, name)(*at)
        moved = [
            getattr(scipy.special, name)(*np.array(at) * (1 + 1e-6 * np.eye(len(at))[k]))
            for k in range(len(at))
        ]
    assert moved == [end] * len(at)
    slopes = fgrad.grad(getattr(special, name), argnums=tuple(range(len(at))))(*at)
    assert [float(s) for s in slopes] == [0.0] * len(at)


@pytest.mark.parametrize(
    ("name", "shapes"), [("dgamma", (1.6,)), ("gennorm", (1.3,)), ("chi", (3.0,))]
)
def test_a_tail_less_than_any_float_leaves_scipys_quantile(
    name: str, shapes: tuple[float, ...]
) -> None:
    with np.errstate(all="ignore"):
        found = fgrad.jit(getattr(stats, name).isf)(5e-324, *shapes)
        assert found == pytest.approx(getattr(scipy.stats, name).isf(5e-324, *shapes))


@pytest.mark.parametrize("c", [0.05, 0.4, 3.0])
def test_log_gamma_where_its_exponential_is_no_float(c: float) -> None:
    ps, h = np.array([1e-3, 1e-13, 1e-40, 1e-200, 1e-300]), 1e-4
    found = fgrad.jit(stats.loggamma.ppf)(ps, c)
    np.testing.assert_allclose(found, scipy.stats.loggamma.ppf(ps, c), rtol=1e-12)
    np.testing.assert_allclose(fgrad.jit(stats.loggamma.cdf)(found, c), ps, rtol=1e-11)
    slope = fgrad.jit(fgrad.grad(lambda p: np.sum(stats.loggamma.ppf(p, c))))(ps) * ps
    ends = [scipy.stats.loggamma.ppf(ps * (1 + s * h), c) for s in (1, -1)]
    np.testing.assert_allclose(slope, (ends[0] - ends[1]) / (2 * h), rtol=1e-5)
