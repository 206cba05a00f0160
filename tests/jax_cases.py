"""Programs in the names of `jax.lax` and their operands; values and gradients are JAX's.

Each is a function of the module that stands for `jax.lax`, and of arrays.
`python benchmarks/jax_values.py` runs them by JAX and writes tests/golden/jax_lax.json.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np


def _numbers(*shape: int) -> np.ndarray:
    """The same numbers everywhere: a sequence without short periods."""
    count = int(np.prod(shape))
    return (np.arange(1, count + 1) * 0.6180339887498949 % 1.0 * 4 - 2).reshape(shape)


X = _numbers(6)
M, N = _numbers(4, 5), _numbers(5, 3)
IMAGES, FILTERS = _numbers(2, 4, 7, 6), _numbers(4, 2, 3, 2)
LAST, LAST_FILTERS = _numbers(2, 5, 4, 3), _numbers(3, 2, 3, 4)
PLACES = np.array([[0, 1], [2, 2], [4, 0], [-1, 1]])
IDS = np.array([0, 2, 1, 0, -1, 5])

Case = tuple[Callable[..., Any], tuple[np.ndarray, ...]]
CASES: dict[str, Case] = {
    "rsqrt": (lambda L, x: L.rsqrt(x * x + 1), (X,)),
    "integer_pow": (lambda L, x: L.integer_pow(x, -3), (X,)),
    "clamp": (lambda L, x: L.clamp(-1.0, x, 1.0), (X,)),
    "rem": (lambda L, x: L.rem(x, L.full_like(x, 0.7)), (X,)),
    "round": (lambda L, x: L.round(x * 2.5), (X,)),
    "logistic": (lambda L, x: L.logistic(x), (X,)),
    "lgamma": (lambda L, x: L.lgamma(x + 3), (X,)),
    "erf_inv": (lambda L, x: L.erf_inv(x / 3), (X,)),
    "igamma": (lambda L, x: L.igamma(L.full_like(x, 1.5), x + 3), (X,)),
    "select": (lambda L, x: L.select(x > 0, L.sin(x), L.neg(x)), (X,)),
    "broadcast_in_dim": (lambda L, x: L.broadcast_in_dim(x, (2, 6, 3), (1,)), (X,)),
    "collapse": (lambda L, m: L.collapse(m, 0, 2), (M,)),
    "reshape": (lambda L, m: L.reshape(m, (10, 2), (1, 0)), (M,)),
    "rev": (lambda L, m: L.rev(m, (0, 1)), (M,)),
    "slice": (lambda L, m: L.slice(m, (1, 0), (4, 5), (2, 3)), (M,)),
    "slice_in_dim": (lambda L, m: L.slice_in_dim(m, 1, -1, 2, 1), (M,)),
    "pad": (lambda L, m, v: L.pad(m, v[0], [(1, -1, 1), (-1, 2, 2)]), (M, X)),
    "split": (lambda L, m: L.split(m, [1, 3, 1], 1)[1], (M,)),
    "index_take": (lambda L, m: L.index_take(m, [IDS[:3], IDS[1:4]], (0, 1)), (M,)),
    "reduce_sum": (lambda L, m: L.reduce_sum(m, (1,)), (M,)),
    "reduce_max": (lambda L, m: L.reduce_max(m, (0,)), (M,)),
    "reduce_prod": (lambda L, m: L.reduce_prod(m, (0, 1)), (M,)),
    "cumsum": (lambda L, m: L.cumsum(m, 1, True), (M,)),
    "cumprod": (lambda L, m: L.cumprod(m, 0), (M,)),
    "cummax": (lambda L, m: L.cummax(m, 1), (M,)),
    "cumlogsumexp": (lambda L, m: L.cumlogsumexp(m, 1), (M,)),
    "cumlogsumexp_reverse": (lambda L, m: L.cumlogsumexp(m, 0, True), (M,)),
    "reduce": (lambda L, m: L.reduce(m, 0.0, lambda a, b: a + b, (0,)), (M,)),
    "reduce_max_by": (lambda L, m: L.reduce(m, -np.inf, L.max, (1,)), (M,)),
    "reduce_window_sum": (
        lambda L, m: L.reduce_window(m, 0.0, L.add, (2, 3), (1, 2), "SAME"), (M,)),
    "reduce_window_max": (
        lambda L, m: L.reduce_window(m, -np.inf, L.max, (2, 2), (2, 1), [(1, 0), (0, 2)]), (M,)),
    "reduce_window_dilated": (
        lambda L, m: L.reduce_window(m, 0.0, L.add, (2, 2), (1, 1), "VALID", (2, 1), (1, 2)), (M,)),
    "sort": (lambda L, m: L.sort(m, 0), (M,)),
    "sort_two": (lambda L, m: L.sort((L.round(m), L.sin(m)), 1, num_keys=1)[1], (M,)),
    "sort_keys": (lambda L, m: L.sort((L.round(m), L.neg(m)), 1, num_keys=2)[1], (M,)),
    "sort_key_val": (lambda L, m: L.sort_key_val(m, L.exp(m))[1], (M,)),
    "dot": (lambda L, a, b: L.dot(a, b), (M, N)),
    "dot_general": (
        lambda L, a, b: L.dot_general(a, b, (((1,), (1,)), ((0,), (0,)))),
        (_numbers(2, 3, 4), _numbers(2, 3, 5))),
    "batch_matmul": (lambda L, a, b: L.batch_matmul(a, b), (_numbers(2, 3, 4), _numbers(2, 4, 2))),
    "ragged_dot": (
        lambda L, a, b: L.ragged_dot(a, b, np.array([1, 0, 4], np.int32)),
        (_numbers(6, 2), _numbers(3, 2, 4))),
    "conv": (
        lambda L, x, w: L.conv_general_dilated(x, w, (2, 1), "SAME", feature_group_count=2),
        (IMAGES, FILTERS)),
    "conv_dilated": (
        lambda L, x, w: L.conv_general_dilated(
            x, w, (1, 2), [(2, 1), (0, 3)], (2, 1), (1, 2), ("NHWC", "HWIO", "NCHW")),
        (LAST, LAST_FILTERS)),
    "conv_same_lower": (
        lambda L, x, w: L.conv_general_dilated(
            x, w, (1, 1), "SAME_LOWER", dimension_numbers=("NHWC", "HWIO", "NHWC")),
        (LAST, LAST_FILTERS)),
    "conv_batch_groups": (
        lambda L, x, w: L.conv_general_dilated(x, w, (1, 1), "VALID", batch_group_count=2),
        (IMAGES, _numbers(4, 4, 2, 2))),
    "conv_transpose_same": (
        lambda L, x, w: L.conv_transpose(x, w, (2, 3), "SAME"), (LAST, LAST_FILTERS)),
    "conv_transpose_valid": (
        lambda L, x, w: L.conv_transpose(x, w, (3, 1), "VALID", (1, 2)), (LAST, LAST_FILTERS)),
    "conv_transpose_kernel": (
        lambda L, x, w: L.conv_transpose(x, w, (2, 2), "SAME", transpose_kernel=True),
        (LAST, _numbers(3, 2, 4, 3))),
    "patches": (
        lambda L, x: L.conv_general_dilated_patches(x, (2, 3), (2, 1), "SAME", rhs_dilation=(1, 2)),
        (IMAGES,)),
    "patches_last": (
        lambda L, x: L.conv_general_dilated_patches(
            x, (2, 2), (1, 1), [(0, 1), (1, 0)], (2, 1),
            dimension_numbers=("NHWC", "HWIO", "NHWC")),
        (LAST,)),
    **{
        f"gather_{mode}": (
            lambda L, m, mode=mode: L.gather(
                m, PLACES, L.GatherDimensionNumbers((1, 2), (), (0, 1)), (2, 3), mode=mode),
            (M,))
        for mode in ("fill", "clip")
    },
    "gather_rows": (
        lambda L, m: L.gather(
            m, PLACES[:, :1], L.GatherDimensionNumbers((0,), (0,), (0,)), (1, 5), mode="clip"),
        (M,)),
    "gather_value": (
        lambda L, m: L.gather(
            m, PLACES, L.GatherDimensionNumbers((), (0, 1), (1, 0)), (1, 1), mode="fill",
            fill_value=7.0),
        (M,)),
    "gather_batch": (
        lambda L, m: L.gather(
            m, np.array([[[1], [2]], [[0], [3]], [[2], [2]], [[4], [1]]]),
            L.GatherDimensionNumbers((2,), (), (1,), (0,), (0,)), (1, 2), mode="clip"),
        (M,)),
    **{
        f"{name}_{mode}": (
            lambda L, m, u, name=name, mode=mode: getattr(L, name)(
                m, PLACES, u, L.ScatterDimensionNumbers((1, 2), (), (0, 1)), mode=mode),
            (M, _numbers(4, 2, 2)))
        for name in ("scatter_add", "scatter_sub", "scatter_mul")
        for mode in ("drop", "clip")
        if (name, mode) != ("scatter_mul", "clip")
    },
    "scatter": (
        lambda L, m, u: L.scatter(
            m, PLACES[:3, :1], u, L.ScatterDimensionNumbers((1,), (0,), (0,))),
        (M, _numbers(3, 5))),
    "scatter_max": (
        lambda L, m, u: L.scatter_max(
            m, PLACES[:, :1], u, L.ScatterDimensionNumbers((1,), (0,), (0,))),
        (M, _numbers(4, 5))),
    "scatter_min_batch": (
        lambda L, m, u: L.scatter_min(
            m, np.array([[[1]], [[0]], [[2]], [[4]]]), u,
            L.ScatterDimensionNumbers((2,), (), (1,), (0,), (0,))),
        (M, _numbers(4, 1, 2))),
    **{
        f"segment_{name}": (
            lambda L, x, name=name: getattr(L, f"segment_{name}")(x, IDS, 4), (X,))
        for name in ("sum", "prod", "max", "min")
    },
}  # fmt: skip


def weights(shape: tuple[int, ...]) -> np.ndarray:
    """What results are multiplied by before they are summed: a cotangent."""
    return np.cos(np.arange(1, int(np.prod(shape)) + 1)).reshape(shape)
