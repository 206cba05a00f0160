"""All ufuncs, called and by their methods: slopes against differences, forward against reverse.

The operands are numbers where something happens: zeros of both signs, ties, infinities, NaN.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import fgrad

VALUES = (-1.3, -1.0, -0.0, 0.0, 0.4, 1.0, 3.0, np.inf, np.nan)
STEP = 1e-6
STEEP = 1e3  # differences beyond are those of a jump, or of a singular point
UFUNCS = {
    function: name
    for name in reversed(dir(np))
    if isinstance(function := getattr(np, name), np.ufunc) and function.signature is None
}
NAMES = sorted(UFUNCS.values())
NAMES.remove("ldexp")  # of a number and an integer
BINARY = [n for n in NAMES if getattr(np, n).nin == 2 and getattr(np, n).nout == 1]
LINES = {
    "generic": [0.3, 1.2, 0.7, 2.1, 1.6],
    "some equal": [2.0, 2.0, 1.0, 2.0, 2.0],
    "all equal": [1.0, 1.0, 1.0, 1.0, 1.0],
    "negative": [-1.0, -2.5, 0.5, 3.0, -2.5],
}
EXTREMA = ("maximum", "minimum", "fmax", "fmin")


def floats(out: Any) -> list[np.ndarray]:
    """The results that have derivatives."""
    outs = out if isinstance(out, tuple) else (out,)
    return [y for y in outs if y.dtype.kind == "f"]


def slopes(f: Callable[[Any], Any], x: Any) -> Iterator[tuple[Any, Any, Any]]:
    """For each result: the derivative, the differences to the left and to the right."""
    y = np.array(floats(f(x)))
    left = (y - np.array(floats(f(x - STEP)))) / STEP
    right = (np.array(floats(f(x + STEP))) - y) / STEP
    return zip(fgrad.jacfwd(lambda v: floats(f(v)))(x), left, right, strict=True)


def fits(slope: Any, left: Any, right: Any) -> bool:
    """Whether a derivative lies between the slopes on both sides, where there are such."""
    low, high = np.minimum(left, right), np.maximum(left, right)
    known = np.isfinite(low) & np.isfinite(high) & (np.maximum(abs(low), abs(high)) < STEEP)
    room = 1e-3 * (1 + abs(low) + abs(high))
    return bool(np.all(~known | ((slope >= low - room) & (slope <= high + room))))


@pytest.mark.parametrize("name", NAMES)
def test_slopes_of_numbers(name: str) -> None:
    ufunc = getattr(np, name)
    if "d" not in "".join(ufunc.types):
        return
    for xs in itertools.product(map(np.float64, VALUES), repeat=ufunc.nin):
        for k, x in enumerate(xs):
            if name in ("pow", "power", "float_power") and np.any(np.isinf(xs)):
                continue  # powers of and by infinity are constant in pieces, no limits

            def f(v: Any, xs: Any = xs, k: int = k) -> Any:
                return ufunc(*xs[:k], v, *xs[k + 1 :])

            with np.errstate(all="ignore"):
                if np.isfinite(x) and floats(f(x)):
                    for found in slopes(f, x):
                        assert fits(*found), (xs, k, found)


@pytest.mark.parametrize("name", NAMES)
def test_modes_agree(name: str) -> None:
    ufunc = getattr(np, name)
    values = [v for v in VALUES if np.isfinite(v)]  # else a zero cotangent is not zero
    for xs in itertools.product(map(np.float64, values), repeat=ufunc.nin):
        with np.errstate(all="ignore"):
            if "d" not in "".join(ufunc.types) or not floats(ufunc(*xs)):
                return
            every = tuple(range(ufunc.nin))
            for part in range(ufunc.nout):

                def f(*vs: Any, part: int = part) -> Any:
                    out = ufunc(*vs)
                    return out[part] if isinstance(out, tuple) else out

                if f(*xs).dtype.kind != "f":
                    continue
                forward = [fgrad.jacfwd(f, k)(*xs) for k in every]
                np.testing.assert_allclose(fgrad.grad(f, every)(*xs), forward, rtol=1e-9)


def forms(ufunc: Any) -> dict[str, Callable[[Any], Any]]:
    """The methods of a binary ufunc as functions of an array; reductions fold their slices."""

    def at(x: Any) -> Any:
        y = x.copy()
        ufunc.at(y, [0, 0, 2, 1], x[:4])
        return y

    def fold(x: Any) -> Any:  # NumPy's own power.reduce and arctan2.reduce are wrong with AVX-512
        return ufunc.reduce(x) if not isinstance(x, np.ndarray) else functools.reduce(ufunc, x)

    return {
        "reduce": fold,
        "accumulate": lambda x: ufunc.accumulate(x),
        "reduceat": lambda x: ufunc.reduceat(x, [0, 2, 1, 4]),
        "outer": lambda x: ufunc.outer(x, x[1:3]),
        "at": at,
    }


@pytest.mark.parametrize("method", ["reduce", "accumulate", "reduceat", "outer", "at"])
@pytest.mark.parametrize("name", BINARY)
def test_slopes_of_methods(name: str, method: str) -> None:
    if name in ("pow", "power", "float_power", "arctan2") and method == "reduceat":
        return  # as NumPy's reduce
    f = forms(getattr(np, name))[method]
    for line in LINES.values():
        x = np.array(line)
        with np.errstate(all="ignore"):
            try:
                y = f(x)
            except TypeError:
                return
            if y.dtype.kind != "f":
                return
            forward = fgrad.jacfwd(f)(x)
            if np.all(np.isfinite(y)):
                np.testing.assert_allclose(fgrad.jacrev(f)(x), forward, rtol=1e-9, atol=1e-15)
            for k, unit in enumerate(STEP * np.eye(len(x))):
                left, right = (y - f(x - unit)) / STEP, (f(x + unit) - y) / STEP
                assert fits(forward[..., k], left, right), (line, k)


@pytest.mark.parametrize("name", EXTREMA)
def test_equal_elements_share_the_derivative(name: str) -> None:
    """1.11: also in `accumulate`, where each extremum so far is that of all its places."""
    ufunc = getattr(np, name)
    best = 3.0 if name in ("maximum", "fmax") else -3.0
    x = np.array([best, 0.0, best, best])
    np.testing.assert_allclose(fgrad.grad(ufunc.reduce)(x), [1 / 3, 0, 1 / 3, 1 / 3])
    expected = [[1, 0, 0, 0], [1, 0, 0, 0], [1 / 2, 0, 1 / 2, 0], [1 / 3, 0, 1 / 3, 1 / 3]]
    for derivative in (fgrad.jacfwd, fgrad.jacrev):
        np.testing.assert_allclose(derivative(ufunc.accumulate)(x), expected)
        np.testing.assert_allclose(fgrad.jit(derivative(ufunc.accumulate))(x), expected)
    rows = np.stack([x, -x], axis=1)
    np.testing.assert_allclose(
        fgrad.grad(lambda a: ufunc.accumulate(a)[-1, 0])(rows)[:, 0], [1 / 3, 0, 1 / 3, 1 / 3]
    )


@pytest.mark.parametrize("name", ["fmax", "fmin"])
@pytest.mark.parametrize(
    "x",
    [
        [np.nan, 1.0, np.nan, 2.0],
        [np.nan] * 3,
        [1.0, -np.inf, np.nan],
        [1, 3, 2],
        [True, False],
    ],
    ids=str,
)
def test_extrema_without_nan(name: str, x: list[Any]) -> None:
    ufunc, a = getattr(np, name), np.array(x)
    for f in (
        ufunc.reduce,
        ufunc.accumulate,
        lambda v: ufunc.reduce(v, keepdims=True),
        lambda v: ufunc.reduce(np.stack([v, v]), axis=None),
        lambda v: ufunc.reduce(v, initial=1, where=v == v),
    ):
        found, expected = fgrad.jit(f)(a), f(a)
        assert found.dtype == expected.dtype
        np.testing.assert_array_equal(found, expected)


def test_the_angle_of_large_and_small_points() -> None:
    for size in (1e-200, 1.0, 1e200):
        y, x = 0.6 * size, 0.8 * size
        slope = fgrad.grad(np.arctan2, (0, 1))(y, x)
        np.testing.assert_allclose(slope, (0.8 / size, -0.6 / size))


def test_the_remainder_has_the_slope_of_its_piece() -> None:
    """1 / 0.1 rounds to 10, while the remainder is that of 9."""
    for f in (np.remainder, np.fmod):
        assert fgrad.grad(f, 1)(1.0, 0.1) == -9.0
    assert fgrad.grad(lambda x: np.modf(x)[0])(-2.0) == 1.0
