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
C = T + 1j * S
IMAGES = np.linspace(-1.0, 1.0, 2 * 4 * 6 * 5).reshape(2, 4, 6, 5)
FILTERS = np.linspace(1.0, -0.5, 4 * 2 * 3 * 3).reshape(4, 2, 3, 3)
WHOLE = np.linspace(1.0, -0.5, 3 * 4 * 3 * 3).reshape(3, 4, 3, 3)
HEADS = np.linspace(-1.0, 1.0, 2 * 4 * 2 * 3).reshape(2, 4, 2, 3)
GRID = np.linspace(0.0, 1.0, 3)
PLACES = np.array([[0, 1], [1, 0]])
KEY = "KEY"  # replaced by a key of the library's
SUM = "SUM"  # replaced by the library's addition

Args = tuple[Any, ...]
CANDIDATES: tuple[Args, ...] = (
    (S,), (V,), (K,), (S, T), (V, W), (K, K), (S, V[:3]), (V, 2), (K, 2), (V, K[:2]),
    (V, W, V), (K, K, K), (V > 0.5, V, W), (S, 0), (S, (0,)), (V, 0, 2), (S, 0, 1), ((2, 3),),
    ((2, 3), 0.5), (3,), (0.0, 1.0), (2, 3), ("ij,jk->ik", S, T), ([S, T],), ([V, W],), (K, (2, 3)),
    (V, 0.1, 0.9), (KEY,), (KEY, (3,)), (KEY, 3), (KEY, 0.5), (KEY, V), (KEY, V, W),
    (KEY, V, S[:, 0]), (KEY, V[:3], S), (KEY, 0, 5), (KEY, K, V), (KEY, 2.0, 3.0), (0.1,),
    (0.1, 0.9), (0.1, 10), (0.1, 10, 0.5), (0.0, 0.1, 4, 9), (0.1, 0.9, 0.5), (), (S, 0, 0, 1),
    (V[::-1].copy(), W, V),
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
    "jax.numpy.apply_along_axis": [(np.sort, 0, S)],
    "jax.numpy.piecewise": [(V, [V < 0.5], [0.0, 1.0])],
    "jax.numpy.interp": [(W, np.sort(V), V)],
    "jax.numpy.insert": [(V, 1, 5.0)],
    "jax.numpy.pad": [(S, 1)],
    "jax.numpy.full": [((2, 3), 0.5)],
    "jax.numpy.linspace": [(0.0, 1.0)],
    "jax.numpy.geomspace": [(0.5, 2.0)],
    "jax.numpy.logspace": [(0.0, 1.0)],
    "jax.numpy.meshgrid": [(V, W)],
    "jax.numpy.select": [([V > 0.5, W > 0.5], [V, W])],
    "jax.numpy.block": [([[S, T]],)],
    "jax.numpy.choose": [(np.array([0, 1, 0]), [GRID, -GRID])],
    "jax.numpy.take_along_axis": [(S, np.array([[0, 2], [1, 1], [2, 0]]), 1)],
    "jax.numpy.unravel_index": [(K, (2, 3))],
    "jax.numpy.ravel_multi_index": [((K[:3], K[2:]), (4, 4))],
    "jax.numpy.put_along_axis": [(S, np.array([[0], [1], [2]]), 9.0, 1)],
    "jax.numpy.einsum": [("ij,jk->ik", S, T)],
    "jax.numpy.nan_to_num": [(np.array([np.nan, np.inf, -np.inf, 1.0]),)],
    "jax.numpy.polyfit": [(GRID, GRID**2, 1)],
    "jax.numpy.cov": [(T,)],
    "jax.numpy.average": [(T,)],
    "jax.numpy.arange": [(1,), (1, 4)],
    "jax.numpy.searchsorted": [(np.sort(V), W)],
    "jax.numpy.clip": [(V,)],
    "jax.random.categorical": [(KEY, T)],
    "jax.random.multivariate_normal": [(KEY, V[:3], S)],
    "jax.random.randint": [(KEY, (3,), 0, 9)],
    "jax.random.permutation": [(KEY, S)],
    "jax.random.choice": [(KEY, V)],
    "jax.random.generalized_normal": [(KEY, 2.0)],
    "jax.random.ball": [(KEY, 3)],
    **{f"jax.ops.segment_{name}": [(V, np.array([0, 2, 1, 0, 2]))]
       for name in ("sum", "prod", "max", "min")},
}  # fmt: skip

FORMATS: dict[str, Any] = {"float32": np.float32, "int32": np.int32, "complex64": np.complex64}
VALUES: dict[str, list[Any]] = {
    "axis": [0, 1, -1, (0, 1), None], "axes": [(0,), (1, 0), (0, 1)], "axis1": [1], "axis2": [0],
    "dtype": ["float32", "int32"], "out_sharding": [None], "sharding": [None], "out": [None],
    "shape": [(3,), (2, 3), None], "keepdims": [True, False], "where": ["MASK", None],
    "eps": [1e-3], "mode": ["clip", "wrap", "fill", "same", "valid", "full", "reduced", "reflect",
                            "edge", "constant", "promise_in_bounds", "nearest"],
    "b1": [0.5], "b2": [0.5], "precision": [None, "highest"], "device": [None],
    "preferred_element_type": ["float32", "float64", None], "fill_value": [7, None],
    "eps_root": [1e-3], "size": [2, 4, None], "norm": ["ortho", "forward", "backward"],
    "k": [1, -1, 2], "unique_indices": [False], "indices_are_sorted": [False], "accuracy": [None],
    "nesterov": [True, False], "mu_dtype": ["float32"], "has_aux": [False], "initial": [0.5],
    "weights": ["LIKE"], "weight_decay": [0.1], "method": ["linear", "lower", "nearest", "scan",
                                                          "sort", "svd", "eigh", "midpoint"],
    "order": ["C", "F", "A", "K"], "s": [(2, 2), None], "copy": [True, False], "n": [1, 2, 4],
    "reverse": [True], "mask": ["MASK"], "allow_negative_indices": [True, False],
    "rtol": [0.1], "atol": [0.1], "ddof": [1], "offset": [1], "mean": [0.5, None], "m": [2],
    "symmetrize_input": [True, False], "alpha": [0.5], "equal_nan": [True], "num": [4],
    "bins": [3], "range": [(0.0, 1.0)], "unroll": [2, True], "p": [0.5], "scale": [2.0],
    "num_segments": [2, 4], "bucket_size": [2], "momentum": [0.5], "density": [True],
    "endpoint": [False], "rcond": [0.2], "ord": [1, 2, "fro", "nuc"], "hermitian": [True],
    "full_matrices": [False, True], "tiled": [True], "lower": [True, False], "beta": [2.0],
    "kind": [None], "stable": [True, False], "descending": [True], "decimals": [1], "length": [6],
    "rowvar": [False], "bias": [True], "include_initial": [True], "right": [True],
    "optimize": ["optimal", False], "period": [1.0], "bitorder": ["little"], "correction": [1],
    "upper": [True, False], "UPLO": ["U", "L"], "tol": [0.1], "compute_uv": [False],
    "operand": [S], "dimension": [0, 1], "is_stable": [True, False], "b": [W, S],
    "replace": [False],
    "epsilon": [0.1], "stddev": [0.5], "deg": [True], "stop": [3], "step": [2], "ndmin": [3],
    "returned": [True], "minlength": [6], "casting": ["same_kind"], "min": [0.4], "max": [0.6],
    "fweights": [[1, 2, 1]], "aweights": [[0.5, 1.0, 2.0]], "axisa": [0], "axisb": [0],
    "axisc": [0], "prepend": [0.0], "append": [1.0], "to_end": [9.0], "to_begin": [9.0],
    "wrap": [True], "edge_order": [1, 2], "left": [0.0], "return_indices": [True],
    "invert": [True], "retstep": [True], "base": [2.0], "indexing": ["ij", "xy"], "nan": [5.0],
    "posinf": [6.0], "neginf": [7.0], "full": [False], "w": ["LIKE"], "cov": [False],
    "total_repeat_length": [6, 12], "side": ["right", "left"], "default": [5.0], "dx": [0.5],
    "return_index": [True], "return_inverse": [True], "return_counts": [True], "discont": [0.5],
    "increasing": [True], "N": [2], "feature_group_count": [1, 2], "batch_group_count": [1],
    "lhs_dilation": [(2, 1)], "rhs_dilation": [(1, 2)], "transpose_kernel": [True],
    "use_consistent_padding": [True], "batch_size": [2], "window_strides": [(2, 2)],
    "padding": ["SAME", "VALID"], "base_dilation": [(2, 1)], "window_dilation": [(1, 2)],
    "dimensions": [(1, 0)], "rounding_method": [0, 1], "stride": [2], "strides": [(1, 2)],
    "num_keys": [1], "left_side": [True, False], "transpose_a": [True], "conjugate_a": [True],
    "unit_diagonal": [True], "is_causal": [True], "query_seq_lengths": [[2, 3]],
    "key_value_seq_lengths": [[2, 3]], "local_window_size": [1, (1, 0)], "return_residual": [False],
    "approximate": [True, False], "negative_slope": [0.2], "return_sign": [True],
    "variance": [1.0], "sigma": [0.5], "minval": [0.2], "maxval": [2.0], "independent": [True],
    "increase_factor": [1.5], "decrease_factor": [0.3], "debias": [False], "initial_scale": [0.5],
    "staircase": [True], "transition_begin": [2], "end_value": [0.01], "rho": [0.5],
    "decay": [0.5], "bias_correction": [False], "initial_accumulator_value": [0.5],
    "f_min": [0.1], "eta": [0.5], "gamma": [0.5], "min_scale": [1e-3], "decay_rate": [0.7],
    "eta_minus": [0.4], "eta_plus": [1.1], "min_step_size": [1e-3], "max_step_size": [0.01],
    "max_learning_rate": [0.5], "learning_rate": [0.2], "d": [2.0], "x": [0.5, GRID],
    "ndim": [2], "sorter": [None], "assume_unique": [True], "trim_leading_zeros": [True, False],
    "promote_integers": [False, True], "numpy_resid": [True, False], "sparse": [True],
    "symmetric": [True], "b3": [0.5], "power": [2.0], "smooth_beta": [0.5],
}  # fmt: skip


def given(x: Any, key: Any, add: Callable[..., Any]) -> Any:
    """An argument as the library takes it."""
    if isinstance(x, str) and x in (KEY, SUM):
        return key if x == KEY else add
    return x.copy() if isinstance(x, np.ndarray) else x


def value_of(keyword: str, value: Any, args: Args) -> Any:
    """The value of a keyword: a dtype by its name, a mask or weights like the first argument."""
    if isinstance(value, str) and value in FORMATS and keyword != "method":
        return FORMATS[value]
    if isinstance(value, list):
        return np.array(value)
    first = args[0] if args else None
    shape = first.shape if isinstance(first, np.ndarray) else (3,)
    if isinstance(value, str) and value in ("MASK", "LIKE"):
        like = np.arange(int(np.prod(shape))).reshape(shape)
        return like % 2 == 0 if value == "MASK" else like + 1.0
    return value


def measured(result: Any, leaves: Callable[[Any], list[Any]], random: bool) -> list[Any]:
    """What of a result is compared: dtypes, shapes, and numbers unless they are drawn."""
    rows = []
    for leaf in leaves(result):
        x = np.asarray(leaf)
        parts = [x.real, x.imag] if x.dtype.kind == "c" else [x]
        shown = (
            [] if random else [float(f"{v:.6g}") for p in parts for v in p.ravel()[:40].tolist()]
        )
        rows.append([str(x.dtype), list(x.shape), shown])
    return rows


def unfolded(
    name: str, result: Any, key: Any, tree_map: Callable[..., Any], steps: Callable[..., Any]
) -> Any:
    """The numbers behind a result that is a function or an optimiser."""
    if hasattr(result, "update") and hasattr(result, "init"):
        return steps(result)
    if callable(result) and name.startswith("jax.nn.initializers"):
        return result(key, (4, 6))
    if callable(result):
        return [result(t) for t in (0, 1, 3, 7, 12)]
    return result


def is_random(name: str) -> bool:
    """Whether the numbers of a result are drawn."""
    return name.startswith(("jax.random", "jax.nn.initializers"))


def params() -> dict[str, np.ndarray]:
    """What optimisers train."""
    return {"w": T.copy(), "b": V.copy()}
