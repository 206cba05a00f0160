"""Convolution against its defining sum, transposes by dot products, batching; windows and fold."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from rule_checks import check_batch, check_derivatives, check_types, rng_of

from fgrad.errors import DtypeError, ShapeError
from fgrad.ir.aval import aval_of
from fgrad.ops.window import conv, conv_p, fold, fold_p, spread_length, window_count, windows

NAMES = ("strides", "padding", "x_dilation", "w_dilation", "feature_groups", "batch_groups")


def draw_params(rng, rank):
    """Shapes of x and w, and parameters, that fit together."""
    groups, batches = (int(v) for v in rng.integers(1, 4, 2))
    if rng.random() < 0.4:
        batches = 1
    n, c, o = (int(v) for v in rng.integers(1, 3, 3))
    top = {1: 9, 2: 7, 3: 5}[rank]
    spatial = tuple(int(v) for v in rng.integers(2, top, rank))
    window = tuple(int(v) for v in rng.integers(1, 4 if rank < 3 else 3, rank))
    params = {
        "strides": tuple(int(v) for v in rng.integers(1, 4, rank)),
        "padding": tuple((int(a), int(b)) for a, b in rng.integers(-1, 4, (rank, 2))),
        "x_dilation": tuple(int(v) for v in rng.integers(1, 3, rank)),
        "w_dilation": tuple(int(v) for v in rng.integers(1, 4, rank)),
        "feature_groups": groups,
        "batch_groups": batches,
    }
    return (batches * n, groups * c, *spatial), (batches * groups * o, c, *window), params


def loop_conv(x, w, strides, padding, x_dilation, w_dilation, feature_groups, batch_groups):
    """The sum that defines conv, term by term."""
    groups, batches, rank = feature_groups, batch_groups, x.ndim - 2
    n, c, o = x.shape[0] // batches, w.shape[1], w.shape[0] // (groups * batches)
    places = [
        window_count(spread_length(m, xd) + lo + hi, k, s, wd)
        for m, k, s, (lo, hi), xd, wd in zip(
            x.shape[2:], w.shape[2:], strides, padding, x_dilation, w_dilation, strict=True
        )
    ]
    out = np.zeros((n, w.shape[0], *places), x.dtype)
    for p, k in itertools.product(np.ndindex(*places), np.ndindex(*w.shape[2:])):
        at = [p[a] * strides[a] - padding[a][0] + k[a] * w_dilation[a] for a in range(rank)]
        source = tuple(q // d for q, d in zip(at, x_dilation, strict=True))
        if any(
            q % d or not 0 <= i < m
            for q, d, i, m in zip(at, x_dilation, source, x.shape[2:], strict=True)
        ):
            continue
        block = x[(..., *source)].reshape(batches, n, groups, c)
        filters = w[(..., *k)].reshape(batches, groups, o, c)
        out[(..., *p)] += np.einsum("bngc,bgoc->nbgo", block, filters).reshape(n, -1)
    return out


@pytest.mark.parametrize("seed", range(60))
def test_conv(seed):
    rng = rng_of(f"conv{seed}")
    x_shape, w_shape, params = draw_params(rng, seed % 3 + 1)
    x, w = rng.standard_normal(x_shape), rng.standard_normal(w_shape)
    f = lambda x, w: conv(x, w, **params)  # noqa: E731
    np.testing.assert_allclose(f(x, w), loop_conv(x, w, **params), rtol=1e-12, atol=1e-12)
    check_types(f, x, w)
    check_derivatives(f, x, w, seed=str(seed))
    check_derivatives(lambda x: f(x, w), x, order=1, seed=str(seed))
    check_derivatives(lambda w: f(x, w), w, order=1, seed=str(seed))


@pytest.mark.parametrize("seed", range(12))
def test_conv_batched(seed):
    rng = rng_of(f"conv batched{seed}")
    x_shape, w_shape, params = draw_params(rng, seed % 3 + 1)
    xs = [rng.standard_normal(x_shape) for _ in range(3)]
    ws = [rng.standard_normal(w_shape) for _ in range(3)]
    check_batch(lambda x, w: conv(x, w, **params), xs, ws, seed=str(seed), tol=1e-11)


@pytest.mark.parametrize("dtype", ["i1", "u4", "i8", "f2", "f4", "c8"])
def test_conv_dtypes(dtype):
    x = np.arange(12).reshape(2, 2, 3).astype(dtype)
    w = np.arange(8).reshape(2, 2, 2).astype(dtype)
    out = conv(x, w, (1,), ((1, 0),), (1,), (1,))
    assert out.dtype == x.dtype
    np.testing.assert_array_equal(out, loop_conv(x, w, (1,), ((1, 0),), (1,), (1,), 1, 1))


@pytest.mark.parametrize(
    ("x_shape", "w_shape"),
    [
        ((0, 2, 4), (3, 2, 2)),
        ((2, 0, 4), (3, 0, 2)),
        ((2, 2, 0), (3, 2, 2)),
        ((1, 1, 1), (1, 1, 3)),
    ],
)
def test_conv_without_elements(x_shape, w_shape):
    x, w = np.ones(x_shape), np.ones(w_shape)
    f = lambda x, w: conv(x, w, (1,), ((0, 0),), (1,), (1,))  # noqa: E731
    check_types(f, x, w)
    check_derivatives(f, x, w)
    assert not f(x, w).any()


def test_conv_without_spatial_axes_is_a_product():
    rng = rng_of("conv rank 0")
    x, w = rng.standard_normal((3, 4)), rng.standard_normal((5, 4))
    f = lambda x, w: conv(x, w, (), (), (), ())  # noqa: E731
    np.testing.assert_allclose(f(x, w), x @ w.T, rtol=1e-12)
    check_derivatives(f, x, w)


def test_conv_errors():
    def type_of(x, w, *values):
        params = dict(zip(NAMES, values, strict=True))
        return conv_p.type_of(aval_of(x), aval_of(w), **params)

    good = ((1,), ((0, 0),), (1,), (1,), 1, 1)
    x, w = np.ones((2, 3, 5)), np.ones((4, 3, 2))
    assert type_of(x, w, *good).shape == (2, 4, 4)
    with pytest.raises(DtypeError, match="float64 and float32"):
        type_of(x, w.astype("f4"), *good)
    with pytest.raises(ShapeError, match="channels"):
        type_of(x, w[:, :2], *good)
    with pytest.raises(ShapeError, match="strides"):
        type_of(x, w, (0,), *good[1:])
    with pytest.raises(ShapeError, match="do not divide"):
        type_of(x, w, *good[:-1], 3)
    with pytest.raises(ShapeError, match="empty"):
        type_of(x, w[..., :0], *good)


WINDOWS = [
    ((7,), (0,), (3,), (2,), (1,)),
    ((4, 6), (1,), (2,), (1,), (3,)),
    ((5, 2, 6), (2, 0), (3, 2), (1, 3), (2, 1)),
    ((2, 3), (0,), (4,), (1,), (1,)),
    ((5, 5), (0, 1), (5, 1), (1, 1), (1, 1)),
]


@pytest.mark.parametrize(("shape", "axes", "sizes", "strides", "dilations"), WINDOWS)
def test_windows(shape, axes, sizes, strides, dilations):
    rng = rng_of(f"windows{shape}{sizes}")
    params = (axes, sizes, strides, dilations)
    x = rng.standard_normal(shape)
    out = windows(x, *params)
    for at in np.ndindex(out.shape):
        place = list(at[: x.ndim])
        for a, k, s, d in zip(axes, at[x.ndim :], strides, dilations, strict=True):
            place[a] = place[a] * s + k * d
        assert out[at] == x[tuple(place)]
    y = rng.standard_normal(out.shape)
    back = fold(y, shape, *params)
    assert abs(np.sum(out * y) - np.sum(x * back)) < 1e-12
    for f, arg in ((lambda x: windows(x, *params), x), (lambda y: fold(y, shape, *params), y)):
        check_types(f, arg)
        check_derivatives(f, arg)
        for seed in range(6):
            check_batch(f, [arg, 2 * arg, arg + 1], seed=str(seed))


def test_windows_of_integers_and_errors():
    x = np.arange(5, dtype="i1")
    y = windows(x, (0,), (2,), (1,), (1,))
    np.testing.assert_array_equal(y, [[0, 1], [1, 2], [2, 3], [3, 4]])
    np.testing.assert_array_equal(fold(y, (5,), (0,), (2,), (1,), (1,)), [0, 2, 4, 6, 4])
    assert fold(y, (5,), (0,), (2,), (1,), (1,)).dtype == np.int8
    params = {"axes": (0,), "sizes": (2,), "strides": (1,), "dilations": (1,)}
    with pytest.raises(ShapeError, match="have shape"):
        fold_p.type_of(aval_of(y), shape=(7,), **params)
    with pytest.raises(DtypeError, match="bool"):
        fold_p.type_of(aval_of(y > 1), shape=(5,), **params)
