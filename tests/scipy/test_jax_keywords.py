"""Keywords that functions of `jax.scipy` have and SciPy's have not: taken where they change no
result, under SciPy's name, or refused by a card that names them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fgrad
from fgrad import scipy as sc
from fgrad.errors import ArgumentError

S = np.array([[4.0, 1.0, 0.5], [1.0, 3.0, 0.2], [0.5, 0.2, 2.0]])
V = np.array([1.0, 2.0, 3.0])

Row = tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]]
TAKEN: dict[str, Row] = {
    "solve": (sc.linalg.solve, (S, V), {"debug": False}),
    "solve_triangular": (sc.linalg.solve_triangular, (S, V), {"debug": None}),
    "eigh": (sc.linalg.eigh, (S,), {"turbo": True, "eigvals": None, "eigvals_only": True}),
    "expm": (sc.linalg.expm, (S,), {"upper_triangular": False, "max_squarings": 16}),
    "polar": (sc.linalg.polar, (S,), {"method": "svd", "eps": None, "max_iterations": None}),
    "solve_sylvester": (sc.linalg.solve_sylvester, (S, S, S), {"method": "schur", "tol": 1e-8}),
    "convolve": (sc.signal.convolve, (V, V), {"precision": "highest"}),
    "correlate": (sc.signal.correlate, (V, V), {"precision": None}),
    "convolve2d": (sc.signal.convolve2d, (S, S), {"precision": None}),
    "correlate2d": (sc.signal.correlate2d, (S, S), {"precision": None}),
    "cg": (sc.sparse.linalg.cg, (S, V), {"tol": 1e-5}),
    "bicgstab": (sc.sparse.linalg.bicgstab, (S, V), {"tol": 1e-5}),
    "gmres": (sc.sparse.linalg.gmres, (S, V), {"tol": 1e-5, "solve_method": "batched"}),
    "logsumexp": (sc.special.logsumexp, (V,), {"where": None}),
    "log_ndtr": (sc.special.log_ndtr, (V,), {"series_order": 3}),
    "sph_harm_y": (sc.special.sph_harm_y, (1, 1, V, V), {"n_max": 3}),
}


@pytest.mark.parametrize("name", TAKEN)
def test_taken(name: str) -> None:
    f, args, keywords = TAKEN[name]
    wanted = f(*args, **{k: v for k, v in keywords.items() if k == "eigvals_only"})
    for g in (f, lambda *xs: fgrad.jit(lambda *ys: f(*ys, **keywords))(*xs)):
        found = g(*args, **keywords) if g is f else g(*args)
        for x, y in zip(fgrad.tree.leaves(found), fgrad.tree.leaves(wanted), strict=True):
            np.testing.assert_allclose(x, y, rtol=1e-6, atol=1e-10)


def test_a_tolerance_is_not_ignored() -> None:
    loose = sc.sparse.linalg.cg(S, V, tol=0.5)[0]
    np.testing.assert_array_equal(loose, sc.sparse.linalg.cg(S, V, rtol=0.5)[0])
    assert abs(S @ loose - V).max() > 1e-3
    x = sc.linalg.solve_sylvester(A=S, B=S.T, C=np.eye(3))
    np.testing.assert_allclose(S @ x + x @ S.T, np.eye(3), atol=1e-12)


REFUSED: dict[str, tuple[Callable[..., Any], tuple[Any, ...], str, Any]] = {
    "upper": (sc.linalg.expm, (S,), "upper_triangular", True),
    "squarings": (sc.linalg.expm, (S,), "max_squarings", 3),
    "some": (sc.linalg.eigh, (S,), "eigvals", (0, 1)),
    "mask": (sc.special.logsumexp, (V,), "where", V > 1),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name: str) -> None:
    f, args, keyword, value = REFUSED[name]
    for g in (f, lambda *xs, **kw: fgrad.jit(lambda *ys: f(*ys, **kw))(*xs)):
        with pytest.raises(ArgumentError, match=f"does not take {keyword}"):
            g(*args, **{keyword: value})


def test_scipys_own_are_still_its_own() -> None:
    np.testing.assert_allclose(
        sc.linalg.solve(S, V, overwrite_a=False, assume_a="pos"), np.linalg.solve(S, V)
    )
    with pytest.raises(TypeError, match="nothing_like_it"):
        sc.linalg.solve(S, V, nothing_like_it=1)
