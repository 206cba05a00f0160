"""Samples of unequal shapes, negative samples of means and weights: SciPy's values, or errors."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
import scipy.stats as plain

import fgrad
import fgrad.scipy.signal as sg
import fgrad.scipy.stats as st
from fgrad.errors import FgradError

PAIRS = ("ttest_ind", "ttest_rel", "f_oneway", "levene", "bartlett", "kruskal", "pearsonr",
         "linregress")  # fmt: skip
SHAPES = (((8, 4), (6,)), ((8, 4), (4,)), ((4, 4), (4,)), ((3, 4, 5), (4, 5)), ((6,), (8, 4)),
          ((4, 8), (6,)), ((5, 4), (5, 1)))  # fmt: skip


def _fields(found: Any) -> list[np.ndarray]:
    return [np.asarray(x) for x in list(found)[:2]]


@pytest.mark.parametrize("axis", [0, -1])
@pytest.mark.parametrize("name", PAIRS)
def test_ranks_of_two_samples(name: str, axis: int, rng: np.random.Generator) -> None:
    more = {} if name in ("linregress",) and axis == 0 else {"axis": axis}
    for shapes in SHAPES:
        given = [rng.normal(size=shape) for shape in shapes]
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            try:
                wanted = _fields(getattr(plain, name)(*given, **more))
            except Exception:
                with pytest.raises((FgradError, ValueError, TypeError)):
                    fgrad.jit(lambda x, y: _fields_of(name, x, y, more))(*given)
                continue
            try:
                found = fgrad.jit(lambda x, y: _fields_of(name, x, y, more))(*given)
            except FgradError:
                continue
        for a, b in zip(found, wanted, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-8, err_msg=str((name, shapes)))


def _fields_of(name: str, x: Any, y: Any, more: dict[str, int]) -> list[Any]:
    return list(getattr(st, name)(x, y, **more))[:2]


@pytest.mark.parametrize("name", ["hmean", "gmean", "pmean"])
def test_means_of_negative_samples(name: str, rng: np.random.Generator) -> None:
    x, w = rng.uniform(0.5, 2.0, size=(5, 4)), rng.uniform(0.5, 2.0, size=(5, 4))
    x[2, 1], x[0, 3], x[1, 2] = -1.0, np.nan, 0.0
    more = (2.0,) if name == "pmean" else ()
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        for weights in (None, w):
            wanted = getattr(plain, name)(x, *more, weights=weights)
            found = fgrad.jit(lambda x, v=weights: getattr(st, name)(x, *more, weights=v))(x)
            np.testing.assert_allclose(found, wanted, rtol=1e-12)


def test_refused(rng: np.random.Generator) -> None:
    x, w = rng.normal(size=9), rng.normal(size=9)
    with pytest.raises(ValueError, match="negative"):
        fgrad.jit(lambda x, w: st.gaussian_kde(x, weights=w)(x))(x, -np.abs(w))
    with pytest.raises(FgradError, match="gaussian_kde"):
        fgrad.jit(lambda x: st.gaussian_kde(x)(0.3))(x + 1j * w)
    for name in ("cspline2d", "qspline2d"):
        with pytest.raises(FgradError, match=name):
            fgrad.jit(getattr(sg, name))(x)
