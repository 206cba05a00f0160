"""Complex numbers where NumPy wants real ones raise: no imaginary part is dropped in silence."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fgrad
from fgrad.errors import FgradError

X = np.array([1.0, 2.0, 3.0])
Z = X + 1j

CALLS: dict[str, Callable[[Any], Any]] = {
    "interp": lambda z: np.interp(z, X, X),
    "interp.xp": lambda z: np.interp(X, z, X),
    "interp.left": lambda z: np.interp(X, X, X, left=z[0]),
    "interp.right": lambda z: np.interp(X, X, X, right=z[0]),
    "interp.period": lambda z: np.interp(X, X, X, period=z[0]),
    "bincount": lambda z: np.bincount([0, 1, 1], weights=z),
    "cov": lambda z: np.cov(X[None], aweights=z),
    "digitize": lambda z: np.digitize(z, X),
    "digitize.bins": lambda z: np.digitize(X, z),
    "histogram": lambda z: np.histogram(z, 3)[0],
    "histogram.bins": lambda z: np.histogram(X, z)[0],
    "percentile": lambda z: np.percentile(X, z),
    "polyfit": lambda z: np.polyfit(X, X, 1, w=z),
    "quantile": lambda z: np.quantile(X, z),
    "quantile.weights": lambda z: np.quantile(X, 0.3, weights=z, method="inverted_cdf"),
}


@pytest.mark.parametrize("name", CALLS)
def test_complex_arguments_of_real_functions(name: str) -> None:
    with pytest.raises((FgradError, TypeError)):
        fgrad.jit(CALLS[name])(Z)
    with pytest.raises((FgradError, TypeError)):
        fgrad.jvp(CALLS[name], (Z,), (Z,))


def test_periods_and_ends_of_interp_are_numbers() -> None:
    with pytest.raises(ValueError, match="non-zero"):
        fgrad.jvp(lambda x: np.interp(x, X, X, period=0), (X,), (X,))
    with pytest.raises(TypeError, match="numbers, not arrays"):
        fgrad.jit(lambda x: np.interp(x, X, X, left=X[:1]))(X)


LENGTHS: dict[str, Callable[[Any, Any], Any]] = {
    "fft": np.fft.fft,
    "fftn": lambda x, n: np.fft.fftn(x, (n,), (0,)),
    "linspace": lambda x, n: np.linspace(x, 2.0, n),
    "reshape": lambda x, n: np.reshape(x, (n, 3)),
    "diagonal": lambda x, n: np.diagonal(x[None], n),
    "diag": np.diag,
    "bincount": lambda x, n: np.bincount([1, 2, 3], x, n),
}


@pytest.mark.parametrize("n", [1.0, np.float64(1)])
@pytest.mark.parametrize("name", LENGTHS)
def test_lengths_that_are_no_integers(name: str, n: Any) -> None:
    function = LENGTHS[name]
    with pytest.raises(TypeError):
        function(X, n)
    for transform in (fgrad.jit, fgrad.vmap):
        with pytest.raises(TypeError):
            transform(lambda x: function(x + X, n))(X)
