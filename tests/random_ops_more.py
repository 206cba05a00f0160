"""Calls of functions whose arguments belong together: covariances, convolutions, polynomials, sets,
windows, bins.  `random_call` draws from these and from those of `random_ops_draw`."""

from __future__ import annotations

from typing import Any

import numpy as np
from random_ops_draw import (
    Call,
    Draw,
    Ref,
    chain_call,
    clip_call,
    einsum_call,
    index_call,
    linear_call,
    method_call,
    numpy_call,
    operator_call,
    ufunc_call,
)


def _vector(draw: Draw, most: int = 5) -> Ref:
    return draw.array((int(draw.rng.integers(1, most)),))


def _some(draw: Draw, choices: dict[str, list[Any]], p: float = 0.4) -> dict[str, Any]:
    """Some keywords."""
    return {name: draw.pick(values) for name, values in choices.items() if draw.chance(p)}


def covariance_call(draw: Draw) -> Call:
    """Rows or columns of observations, with a second set of them, and weights."""
    shape = draw.pick([(3, 4), (2, 5), (4,), (1, 3)])
    args = [draw.array(shape)]
    kwargs = _some(draw, {"rowvar": [True, False], "dtype": [None, "f8", "f4"]})
    if draw.chance(0.3):
        args.append(draw.array(shape))
    if draw.chance(0.4):
        return Call("corrcoef", np.corrcoef, tuple(args), kwargs)
    kwargs |= _some(draw, {"bias": [True, False], "ddof": [None, 0, 1]})
    count = shape[-1] if kwargs.get("rowvar", True) or len(shape) == 1 else shape[0]
    if draw.chance(0.3):
        kwargs["fweights"] = np.arange(1, count + 1)
    if draw.chance(0.3):
        kwargs["aweights"] = np.linspace(0.5, 2.0, count)
    return Call("cov", np.cov, tuple(args), kwargs)


def convolution_call(draw: Draw) -> Call:
    """Sequences of any two lengths."""
    name = draw.pick(["convolve", "correlate"])
    kwargs = _some(draw, {"mode": ["full", "same", "valid"]}, 0.7)
    return Call(name, getattr(np, name), (_vector(draw), _vector(draw)), kwargs)


def polynomial_call(draw: Draw) -> Call:
    """Coefficients whose first is not zero: others are dropped by value."""
    p = np.concatenate([[2.0], draw.rng.integers(-3, 4, int(draw.rng.integers(0, 4)))])
    q = np.concatenate([[1.0], draw.rng.integers(-3, 4, int(draw.rng.integers(0, 3)))])
    name = draw.pick(
        ["polyadd", "polysub", "polymul", "polydiv", "polyder", "polyint", "polyval", "poly"]
    )
    # Complex roots in pairs have real polynomials, which is known by value.
    dtypes = ["f8", "f4", "i8", "i4"] + ["c16"] * (name != "poly")
    dtype = "f8" if draw.smooth else draw.pick(dtypes)
    refs = []
    for coefficients in (p, q):
        draw.inputs.append(coefficients.astype(dtype))
        draw.pool.append(draw.inputs[-1])
        refs.append(Ref(len(draw.pool) - 1))
    function = getattr(np, name)
    if name == "polyder":
        return Call(name, function, (refs[0],), _some(draw, {"m": [0, 1, 2]}))
    if name == "polyint":
        return Call(name, function, (refs[0],), _some(draw, {"m": [1, 2], "k": [0, 1.5]}))
    if name == "poly":
        return Call(name, function, (refs[1],), {})
    if name == "polyval" and draw.chance(0.6):
        return Call(name, function, (refs[0], draw.operand()), {})
    return Call(name, function, tuple(refs), {})


def set_call(draw: Draw) -> Call:
    """Few different values, so that sets meet; how many there are is known by value alone."""
    name = draw.pick(
        ["unique", "union1d", "intersect1d", "setdiff1d", "setxor1d", "isin",
         "unique_counts", "unique_inverse", "unique_all"]
    )  # fmt: skip
    dtype = "f8" if draw.smooth else draw.pick(["i8", "f8", "i4", "b", "u1", "f4"])
    refs = []
    apart = 1 + draw.rng.permutation(12)  # equal values would part when moved, zeros would hold
    for k in range(2):
        count = int(draw.rng.integers(0, 6))
        values = apart[6 * k :][:count] if draw.smooth else draw.rng.integers(0, 4, count)
        values = values.astype(dtype)
        draw.inputs.append(values)
        draw.pool.append(values)
        refs.append(Ref(len(draw.pool) - 1))
    function = getattr(np, name)
    if name == "unique":
        flags = {f"return_{what}": [True, False] for what in ("index", "inverse", "counts")}
        return Call(name, function, (refs[0],), _some(draw, flags))
    if name.startswith("unique_"):
        return Call(name, function, (refs[0],), {})
    kwargs = _some(draw, {"invert": [True, False]} if name == "isin" else {})
    return Call(name, function, tuple(refs), kwargs)


def window_call(draw: Draw) -> Call:
    """Windows of some axes."""
    shape = draw.pick([(5,), (3, 4), (2, 3, 4)])
    x = draw.array(shape)
    function = np.lib.stride_tricks.sliding_window_view
    if draw.chance(0.4):
        sizes = tuple([int(draw.rng.integers(1, n + 1)) for n in shape])
        return Call("sliding_window_view", function, (x, sizes), {})
    axis = int(draw.rng.integers(-len(shape), len(shape)))
    size = int(draw.rng.integers(1, shape[axis] + 1))
    return Call("sliding_window_view", function, (x, size), {"axis": axis})


def bin_call(draw: Draw) -> Call:
    """Ascending or descending bins; in a batch, those that are drawn turn round."""
    bins: Any = np.array([-1.0, 0.5, 0.5, 2.0]) if draw.smooth else draw.ascending(4)
    if draw.chance(0.3):
        bins = np.array([2.0, 0.5, -1.0])
    kwargs = _some(draw, {"right": [True, False]})
    return Call("digitize", np.digitize, (draw.operand(), bins), kwargs)


WAYS = [
    (numpy_call, 12), (ufunc_call, 6), (operator_call, 4), (method_call, 3), (index_call, 3),
    (einsum_call, 1), (linear_call, 1), (clip_call, 1), (chain_call, 1), (covariance_call, 1),
    (convolution_call, 1), (polynomial_call, 1), (set_call, 1), (window_call, 1), (bin_call, 1),
]  # fmt: skip
_CHOICES = [way for way, weight in WAYS for _ in range(weight)]


def random_call(draw: Draw) -> Call:
    """Any call."""
    return draw.pick(_CHOICES)(draw)
