"""The table of tests/scipy_special_cases.py: values, derivatives of two orders, vmap, edges."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.special as plain
from scipy_special_cases import COUNT, FIXED, OPERANDS, operands

import fgrad
import fgrad.scipy.special as traced
from fgrad.errors import MissingRuleError

# SciPy's own values have fewer digits than a difference of step 1e-5 needs.
ROUGH = {"itairy": 1e-2, "nbdtrik": 1e-4, "bdtrik": 1e-4, "bdtrin": 1e-4, "nbdtrin": 1e-4,
         "ncfdtridfd": 2e-3, "ncfdtridfn": 2e-3, "ncfdtrinc": 2e-3, "nctdtrit": 2e-3,
         "nctdtridf": 2e-3, "nctdtrinc": 2e-3, "chndtridf": 2e-3, "chndtrinc": 2e-3}  # fmt: skip
STEP = 1e-5
# SciPy (1.17) crashes for NaN, or raises for inf; in float32 it gives NaN or does not return.
SLOW = ("obl", "pro", "mat", "pbd", "pbv")


def _parts(out: Any) -> tuple[Any, ...]:
    return out if isinstance(out, tuple) else (out,)


def _pairs(name: str, given: list[Any]) -> list[tuple[Any, Any]]:
    """The results compiled, each with SciPy's."""
    expected = _parts(getattr(plain, name)(*given))
    found = _parts(fgrad.jit(getattr(traced, name))(*given))
    return list(zip(found, expected, strict=True))


@pytest.mark.filterwarnings("ignore:floating point number truncated")
@pytest.mark.parametrize("name", sorted(OPERANDS))
def test_values(name: str) -> None:
    """Compiled, a function gives SciPy's numbers in SciPy's dtypes, of both float dtypes."""
    for dtype, tolerance in ((np.float64, 1e-12), (np.float32, 3e-5)):
        if dtype == np.float32 and name[:3] in SLOW:
            continue
        if dtype == np.float32 and name.startswith(("chndtr", "ncfdtr", "nctdtr")):
            tolerance = 2e-4  # SciPy's search stops there
        given = [x.astype(dtype) if x.dtype.kind == "f" else x for x in operands(name)]
        expected = _parts(getattr(plain, name)(*given))
        for got, want in zip(
            _parts(fgrad.jit(getattr(traced, name))(*given)), expected, strict=True
        ):
            np.testing.assert_allclose(got, want, rtol=tolerance, atol=tolerance * 1e-3)
            assert got.shape == (COUNT,)
            assert got.dtype == want.dtype


FREE = [
    (n, k) for n, kinds in sorted(OPERANDS.items()) for k, c in enumerate(kinds) if c not in FIXED
]


def _total(name: str, k: int, x: Any) -> Any:
    xs = operands(name)
    outs = _parts(getattr(traced, name)(*xs[:k], x, *xs[k + 1 :]))
    parts = [(j + 1) * (np.real(y) + 0.5 * np.imag(y)) for j, y in enumerate(outs)]
    return sum(parts)


@pytest.mark.parametrize(("name", "k"), FREE)
def test_derivatives(name: str, k: int) -> None:
    x, h = operands(name)[k], STEP
    f = lambda x: _total(name, k, x)  # noqa: E731
    gradient = fgrad.grad(lambda x: np.sum(f(x)))
    difference = (f(x + h) - f(x - h)) / (2 * h)
    found = gradient(x)
    tolerance = ROUGH.get(name, 2e-6)
    np.testing.assert_allclose(found, difference, rtol=tolerance, atol=tolerance)
    np.testing.assert_allclose(fgrad.jit(gradient)(x), found, rtol=1e-10, atol=1e-13)
    _, tangent = fgrad.jvp(f, (x,), (np.ones(COUNT),))
    np.testing.assert_allclose(tangent, found, rtol=1e-10, atol=1e-13)


@pytest.mark.parametrize(("name", "k"), FREE)
def test_second_derivatives(name: str, k: int) -> None:
    x, h = operands(name)[k], STEP
    slope = fgrad.grad(lambda x: np.sum(_total(name, k, x)))
    try:
        _, found = fgrad.jvp(slope, (x,), (np.ones(COUNT),))
    except MissingRuleError as error:
        assert "derivative of" in str(error)
        return
    difference = (slope(x + h) - slope(x - h)) / (2 * h)
    tolerance = ROUGH.get(name, 3e-6)
    np.testing.assert_allclose(found, difference, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("name", sorted(OPERANDS))
def test_mapped(name: str) -> None:
    xs = operands(name)
    mapped = fgrad.jit(fgrad.vmap(getattr(traced, name)))(*xs)
    expected = getattr(plain, name)(*xs)
    for got, want in zip(_parts(mapped), _parts(expected), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-12)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", [n for n in sorted(OPERANDS) if n[:3] not in SLOW])
def test_edges(name: str) -> None:
    """NaN, infinities, 0, negative numbers, an empty array, a number alone."""
    xs = operands(name)
    for value in (np.nan, np.inf, -np.inf, 0.0, -1.0, -0.5):
        for k, kind in enumerate(OPERANDS[name]):
            if kind in "iI0":
                continue
            given = [*xs[:k], np.where(np.arange(COUNT) % 2, value, xs[k]), *xs[k + 1 :]]
            expected = _parts(getattr(plain, name)(*given))
            found = _parts(fgrad.jit(getattr(traced, name))(*given))
            for got, want in zip(found, expected, strict=True):
                np.testing.assert_allclose(
                    got, want, rtol=1e-11, atol=1e-300, err_msg=f"{value} {k}"
                )
    for part in (slice(0, 0), 1):
        given = [x[part] for x in xs]
        expected = _parts(getattr(plain, name)(*given))
        for got, want in zip(
            _parts(fgrad.jit(getattr(traced, name))(*given)), expected, strict=True
        ):
            np.testing.assert_allclose(got, want, rtol=1e-11)
            assert np.shape(got) == np.shape(want)


@pytest.mark.parametrize("name", [n for n in sorted(OPERANDS) if n[:3] in SLOW[:3]])
def test_numbers_that_are_not_finite(name: str) -> None:
    """NaN for NaN and infinities in any operand, where SciPy crashes."""
    xs = [x.astype(float) for x in operands(name)]
    for k in range(len(xs)):
        for value in (np.nan, np.inf):
            given = [*xs[:k], np.where(np.arange(COUNT) % 2, value, xs[k]), *xs[k + 1 :]]
            for y in _parts(fgrad.jit(getattr(traced, name))(*given)):
                np.testing.assert_array_equal(np.isnan(y), np.arange(COUNT) % 2 == 1)
