"""Arguments and keywords with which functions of JAX's names are called, by JAX and by fgrad.

A function is called with the first of `CANDIDATES` that JAX takes, or with those of `SPECIAL`, and
with each keyword of its signature in each of `VALUES`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

V = np.array([0.3, 0.9, 0.1, 0.6, 0.7])
W = np.array([0.2, 0.5, 0.8, 0.4, 0.1])
K = np.array([3, 1, 2, 0, 1])
S = np.array([[4.0, 1.0, 0.5], [1.0, 3.0, 0.2], [0.5, 0.2, 2.0]])
T = np.array([[0.2, 0.7, 0.4], [0.9, 0.1, 0.3], [0.6, 0.8, 0.5]])
IMAGES = np.linspace(-1.0, 1.0, 2 * 4 * 6 * 5).reshape(2, 4, 6, 5)
FILTERS = np.linspace(1.0, -0.5, 4 * 2 * 3 * 3).reshape(4, 2, 3, 3)
WHOLE = np.linspace(1.0, -0.5, 3 * 4 * 3 * 3).reshape(3, 4, 3, 3)
HEADS = np.linspace(-1.0, 1.0, 2 * 4 * 2 * 3).reshape(2, 4, 2, 3)
SUM = "SUM"  # replaced by the library's addition

Args = tuple[Any, ...]
CANDIDATES: tuple[Args, ...] = (
    (S,), (V,), (K,), (S, T), (V, W), (K, K), (S, V[:3]), (V, 2), (K, 2), (V, K[:2]),
    (V, W, V), (K, K, K), (V > 0.5, V, W), (S, 0), (S, (0,)), (V, 0, 2), (S, 0, 1), ((2, 3),),
    ((2, 3), 0.5), (3,), (0.0, 1.0), (2, 3), ("ij,jk->ik", S, T), ([S, T],), ([V, W],), (K, (2, 3)),
    (V, 0.1, 0.9), (0.1,), (0.1, 0.9), (0.1, 10), (0.1, 10, 0.5), (0.0, 0.1, 4, 9), (0.1, 0.9, 0.5),
    (), (S, 0, 0, 1), (V[::-1].copy(), W, V),
)  # fmt: skip
SPECIAL: dict[str, list[Args]] = {
    "jax.lax.conv": [(IMAGES, WHOLE, (1, 1), "SAME")],
    "jax.lax.conv_general_dilated": [(IMAGES, WHOLE, (1, 1), "SAME")],
    "jax.lax.conv_with_general_padding": [
        (IMAGES, WHOLE, (1, 1), [(1, 1), (1, 1)], (1, 1), (1, 1))],
    "jax.lax.conv_transpose": [(IMAGES, FILTERS.transpose(2, 3, 1, 0), (2, 2), "SAME")],
    "jax.lax.conv_general_dilated_patches": [(IMAGES, (2, 2), (1, 1), "VALID")],
    "jax.lax.dot_general": [(S, T, (((1,), (0,)), ((), ())))],
    "jax.lax.ragged_dot": [(S, np.stack([T, S]), np.array([1, 2], np.int32))],
    "jax.lax.reduce_window": [(S, 0.0, SUM, (2, 2), (1, 1), "VALID")],
    "jax.lax.reduce_precision": [(V, 5, 4)],
    "jax.lax.top_k": [(V, 2)],
    "jax.lax.cumsum": [(S,)],
    "jax.lax.slice": [(S, (0, 1), (3, 3))],
    "jax.lax.slice_in_dim": [(S, 0, 2)],
    "jax.lax.dynamic_slice_in_dim": [(S, 1, 2)],
    "jax.lax.dynamic_index_in_dim": [(S, 1)],
    "jax.lax.dynamic_slice": [(S, (1, 0), (2, 2))],
    "jax.lax.dynamic_update_slice": [(S, T[:2], (1, 0))],
    "jax.lax.dynamic_update_slice_in_dim": [(S, T[:2], 1, 0)],
    "jax.lax.dynamic_update_index_in_dim": [(S, T[0], 1, 0)],
    "jax.lax.expand_dims": [(S, (0,))],
    "jax.lax.map": [(np.sin, S)],
    "jax.lax.scan": [(lambda c, x: (c + x, c * x), 0.5, V)],
    "jax.lax.fori_loop": [(0, 3, lambda i, c: c * 0.5, 1.0)],
    "jax.lax.associative_scan": [(SUM, S)],
    "jax.lax.linalg.triangular_solve": [(np.tril(S), T)],
    "jax.nn.dot_product_attention": [(HEADS, HEADS + 0.1, HEADS * 0.5)],
    "jax.nn.one_hot": [(K, 4)],
    "jax.nn.standardize": [(S,)],
    **{f"jax.ops.segment_{name}": [(V, np.array([0, 2, 1, 0, 2]))]
       for name in ("sum", "prod", "max", "min")},
}  # fmt: skip

FORMATS: dict[str, Any] = {"float32": np.float32, "int32": np.int32}
VALUES: dict[str, list[Any]] = {
    "axis": [0, 1, -1, (0, 1), None], "dtype": ["float32", "int32"], "out_sharding": [None],
    "sharding": [None], "shape": [(3,), (2, 3), None], "keepdims": [True, False],
    "where": ["MASK", None],
    "mode": ["clip", "wrap", "fill", "same", "valid", "full", "reduced", "reflect",
             "edge", "constant", "promise_in_bounds", "nearest"],
    "precision": [None, "highest"], "preferred_element_type": ["float32", "float64", None],
    "fill_value": [7, None], "unique_indices": [False], "indices_are_sorted": [False],
    "accuracy": [None], "has_aux": [False], "reverse": [True], "mask": ["MASK"],
    "allow_negative_indices": [True, False], "mean": [0.5, None],
    "symmetrize_input": [True, False], "alpha": [0.5], "unroll": [2, True], "scale": [2.0],
    "num_segments": [2, 4], "bucket_size": [2], "full_matrices": [False, True], "tiled": [True],
    "lower": [True, False], "length": [6], "bias": [True], "compute_uv": [False], "operand": [S],
    "dimension": [0, 1], "is_stable": [True, False], "b": [W, S], "epsilon": [0.1],
    "feature_group_count": [1, 2], "batch_group_count": [1], "lhs_dilation": [(2, 1)],
    "rhs_dilation": [(1, 2)], "transpose_kernel": [True], "use_consistent_padding": [True],
    "batch_size": [2], "window_strides": [(2, 2)], "padding": ["SAME", "VALID"],
    "base_dilation": [(2, 1)], "window_dilation": [(1, 2)], "dimensions": [(1, 0)],
    "rounding_method": [0, 1], "stride": [2], "strides": [(1, 2)], "num_keys": [1],
    "left_side": [True, False], "transpose_a": [True], "conjugate_a": [True],
    "unit_diagonal": [True], "is_causal": [True], "query_seq_lengths": [[2, 3]],
    "key_value_seq_lengths": [[2, 3]], "local_window_size": [1, (1, 0)],
    "return_residual": [False], "approximate": [True, False], "negative_slope": [0.2],
    "return_sign": [True], "variance": [1.0], "symmetric": [True],
}  # fmt: skip


def given(x: Any, add: Callable[..., Any]) -> Any:
    """An argument as the library takes it."""
    if isinstance(x, str) and x == SUM:
        return add
    return x.copy() if isinstance(x, np.ndarray) else x


def value_of(value: Any, args: Args) -> Any:
    """The value of a keyword: a dtype by its name, a mask of the shape of the first argument."""
    if isinstance(value, str) and value in FORMATS:
        return FORMATS[value]
    if isinstance(value, list):
        return np.array(value)
    if isinstance(value, str) and value == "MASK":
        first = args[0] if args else None
        shape = first.shape if isinstance(first, np.ndarray) else (3,)
        return np.arange(int(np.prod(shape))).reshape(shape) % 2 == 0
    return value


def measured(result: Any, leaves: Callable[[Any], list[Any]]) -> list[Any]:
    """What of a result is compared: dtypes, shapes, and numbers."""
    rows = []
    for leaf in leaves(result):
        x = np.asarray(leaf)
        parts = [x.real, x.imag] if x.dtype.kind == "c" else [x]
        shown = [float(f"{v:.6g}") for p in parts for v in p.ravel()[:40].tolist()]
        rows.append([str(x.dtype), list(x.shape), shown])
    return rows
