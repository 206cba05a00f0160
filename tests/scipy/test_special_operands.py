"""Complex operands of functions of scipy.special by place, and the keywords of ufuncs: SciPy's
values or an error, never an imaginary part that is lost."""

from __future__ import annotations

import functools
import warnings

import numpy as np
import pytest
import scipy.special as plain

import fgrad
import fgrad.scipy.special as traced
from fgrad.errors import FgradError
from fgrad.scipy.special.common import PUBLISHED

X = np.array([0.3, 0.6])
UFUNCS = sorted(n for n in PUBLISHED if isinstance(getattr(plain, n, None), np.ufunc))


def _arrays(found: object) -> list[np.ndarray]:
    return [np.asarray(x) for x in (found if isinstance(found, tuple) else (found,))]


@pytest.mark.parametrize("name", UFUNCS)
def test_complex_operands(name: str) -> None:
    function = getattr(plain, name)
    for k in range(function.nin):
        xs = [X + 0.1 * j + (0.2j if j == k else 0) for j in range(function.nin)]
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            try:
                wanted = _arrays(function(*xs))
            except TypeError:
                with pytest.raises(TypeError):
                    fgrad.jit(getattr(traced, name))(*xs)
                continue
            try:
                found = _arrays(fgrad.jit(getattr(traced, name))(*xs))
            except FgradError:
                continue
        for a, b in zip(found, wanted, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-9)


@pytest.mark.parametrize(
    "name", ["expit", "jv", "hankel1", "betainc", "logit", "ellipj", "gammaln"]
)
def test_keywords_of_ufuncs(name: str) -> None:
    count = getattr(plain, name).nin
    xs, f = [X] * count, getattr(traced, name)
    usual = {"casting": "same_kind", "dtype": None, "order": "K", "where": True, "subok": True}
    found, wanted = fgrad.jit(lambda *xs: f(*xs, **usual))(*xs), getattr(plain, name)(*xs)
    for a, b in zip(_arrays(found), _arrays(wanted), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12)
    others = {"where": X > 0.4, "dtype": np.float32, "casting": "unsafe", "out": np.zeros(2)}
    for keyword, value in others.items():
        with pytest.raises(FgradError, match=f"{name} with {keyword}"):
            fgrad.jit(lambda *xs, k=keyword, v=value: f(*xs, **{k: v}))(*xs)
    with pytest.raises(TypeError):
        fgrad.jit(lambda *xs: f(*xs, nowhere=1))(*xs)


@pytest.mark.parametrize("number", [0.4, 2, True, np.float32(0.4)])
def test_plain_numbers_beside_traced_arrays(number: object) -> None:
    for name in ("stdtrit", "betainc", "jv", "xlogy", "gammainc"):
        rest = [X] * (getattr(plain, name).nin - 1)
        function = functools.partial(getattr(traced, name), number)
        found = fgrad.jit(function)(*rest)
        np.testing.assert_allclose(found, getattr(plain, name)(number, *rest), rtol=1e-6)
    with pytest.raises(TypeError):
        fgrad.jit(lambda x: traced.jv(1j, x))(X)
