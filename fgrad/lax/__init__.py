"""L7. Control flow, slices with traced positions, collectives: names and meaning of `jax.lax`.

fgrad.lax.scan(f, init, xs)                  carry, ys     a native loop under jit
fgrad.lax.fori_loop(0, n, body, init)        carry
fgrad.lax.while_loop(cond, body, init)       carry
fgrad.lax.cond(pred, f, g, *operands)        either result
fgrad.lax.psum(x, "axis")                    the sum along the axis that vmap maps by that name

Operations of arrays have their names of `jax.lax` too, `conv_general_dilated`, `reduce_window`,
`gather`; they are loaded when they are first used.

Arguments:
    x, xs, operand, operands, y, lhs, rhs, array, arr: arrays, or trees of them where the text says
        so; plain, or traced.
    axis_name: the name that `vmap` or a mesh gave to an axis.
    axis, axes, dimension, dimensions: axes by number; negative ones count from the end.
    shape, sizes, new_sizes: lengths of axes, known when the function is traced.
    dtype, index_dtype: a dtype of NumPy.
    index, start_index, limit_index, slice_size, start_indices, limit_indices, strides, stride:
        places along an axis, and the distance of those that are taken; 1 without it.
    keepdims: whether the axis stays, with length 1.
    reverse: whether elements are taken from the end.
    precision, preferred_element_type: accepted for JAX's sake; an element type is the result's.
    window_strides, padding, lhs_dilation, rhs_dilation, dimension_numbers: as in
        `conv_general_dilated`.
    indices_are_sorted, unique_indices: accepted for JAX's sake; what they promise is not relied on.
"""

# ruff: noqa: F405  (the names of lists are those of the modules that are loaded later)

from __future__ import annotations

from typing import TYPE_CHECKING

from fgrad.base.lazy_import import lazy_names, load
from fgrad.lax.branches import cond, select_n, switch
from fgrad.lax.collectives import (
    all_gather,
    all_to_all,
    axis_index,
    axis_size,
    pbroadcast,
    pmax,
    pmean,
    pmin,
    ppermute,
    pshuffle,
    psum,
    psum_scatter,
    pvary,
)
from fgrad.lax.loops import associative_scan, fori_loop, map, scan, while_loop
from fgrad.lax.slices import (
    dynamic_index_in_dim,
    dynamic_slice,
    dynamic_slice_in_dim,
    dynamic_update_index_in_dim,
    dynamic_update_slice,
)
from fgrad.lax.sorting import top_k
from fgrad.transforms.checkpoint.checkpoint import optimization_barrier
from fgrad.transforms.custom.implicit import custom_linear_solve, custom_root

if TYPE_CHECKING:  # else loaded when first used
    from fgrad.lax import linalg as linalg
    from fgrad.lax.arrays import *  # noqa: F403
    from fgrad.lax.convolutions import *  # noqa: F403
    from fgrad.lax.elementwise import *  # noqa: F403
    from fgrad.lax.indexed import *  # noqa: F403
    from fgrad.lax.paddings import *  # noqa: F403
    from fgrad.lax.products import *  # noqa: F403
    from fgrad.lax.reductions import *  # noqa: F403
    from fgrad.lax.special import *  # noqa: F403

_PARTS = {
    "fgrad.lax.arrays": (
        "broadcast", "broadcast_in_dim", "broadcast_like", "broadcast_shapes", "broadcast_to_rank",
        "broadcasted_iota", "collapse", "concatenate", "dynamic_update_slice_in_dim", "empty",
        "expand_dims", "full", "full_like", "index_in_dim", "index_take", "iota", "pad", "reshape",
        "rev", "slice", "slice_in_dim", "split", "squeeze", "stack", "tile", "transpose", "unstack",
    ),
    "fgrad.lax.convolutions": (
        "ConvDimensionNumbers", "conv", "conv_dimension_numbers", "conv_general_dilated",
        "conv_general_dilated_patches", "conv_transpose", "conv_with_general_padding",
    ),
    "fgrad.lax.elementwise": (
        "RoundingMethod", "abs", "acos", "acosh", "add", "asin", "asinh", "atan", "atan2", "atanh",
        "bitcast_convert_type", "bitwise_and", "bitwise_not", "bitwise_or", "bitwise_xor", "cbrt",
        "ceil", "clamp", "clz", "complex", "conj", "convert_element_type", "cos", "cosh", "div",
        "eq", "exp", "exp2", "expm1", "floor", "ge", "gt", "imag", "integer_pow", "is_finite", "le",
        "log", "log1p", "lt", "max", "min", "mul", "ne", "neg", "nextafter", "population_count",
        "pow", "real", "reciprocal", "reduce_precision", "rem", "round", "rsqrt", "select",
        "shift_left", "shift_right_arithmetic", "shift_right_logical", "sign", "sin", "sinh",
        "sqrt", "square", "sub", "tan", "tanh",
    ),
    "fgrad.lax.indexed": (
        "GatherDimensionNumbers", "GatherScatterMode", "ScatterDimensionNumbers", "gather",
        "scatter", "scatter_add", "scatter_apply", "scatter_max", "scatter_min", "scatter_mul",
        "scatter_sub", "segment_max", "segment_min", "segment_prod", "segment_sum",
    ),
    "fgrad.lax.paddings": (
        "padtype_to_pads",
    ),
    "fgrad.lax.products": (
        "batch_matmul", "dot", "dot_general", "ragged_dot",
    ),
    "fgrad.lax.reductions": (
        "approx_max_k", "approx_min_k", "argmax", "argmin", "cumlogsumexp", "cummax", "cummin",
        "cumprod", "cumsum", "reduce", "reduce_and", "reduce_max", "reduce_min", "reduce_or",
        "reduce_prod", "reduce_sum", "reduce_window", "reduce_xor", "sort", "sort_key_val",
    ),
    "fgrad.lax.special": (
        "bessel_i0e", "bessel_i1e", "betainc", "digamma", "erf", "erf_inv", "erfc", "igamma",
        "igammac", "lgamma", "logistic", "zeta",
    ),
}  # fmt: skip
_lazy, __dir__ = lazy_names(__name__, _PARTS)


def __getattr__(name: str) -> object:
    return load(f"{__name__}.linalg") if name == "linalg" else _lazy(name)


__all__ = [
    "ConvDimensionNumbers", "GatherDimensionNumbers", "GatherScatterMode", "RoundingMethod",
    "ScatterDimensionNumbers", "abs", "acos", "acosh", "add", "all_gather", "all_to_all",
    "approx_max_k", "approx_min_k", "argmax", "argmin", "asin", "asinh", "associative_scan", "atan",
    "atan2", "atanh", "axis_index", "axis_size", "batch_matmul", "bessel_i0e", "bessel_i1e",
    "betainc", "bitcast_convert_type", "bitwise_and", "bitwise_not", "bitwise_or", "bitwise_xor",
    "broadcast", "broadcast_in_dim", "broadcast_like", "broadcast_shapes", "broadcast_to_rank",
    "broadcasted_iota", "cbrt", "ceil", "clamp", "clz", "collapse", "complex", "concatenate",
    "cond", "conj", "conv", "conv_dimension_numbers", "conv_general_dilated",
    "conv_general_dilated_patches", "conv_transpose", "conv_with_general_padding",
    "convert_element_type", "cos", "cosh", "cumlogsumexp", "cummax", "cummin", "cumprod", "cumsum",
    "custom_linear_solve", "custom_root", "digamma", "div", "dot", "dot_general",
    "dynamic_index_in_dim", "dynamic_slice", "dynamic_slice_in_dim", "dynamic_update_index_in_dim",
    "dynamic_update_slice", "dynamic_update_slice_in_dim", "empty", "eq", "erf", "erf_inv", "erfc",
    "exp", "exp2", "expand_dims", "expm1", "floor", "fori_loop", "full", "full_like", "gather",
    "ge", "gt", "igamma", "igammac", "imag", "index_in_dim", "index_take", "integer_pow", "iota",
    "is_finite", "le", "lgamma", "log", "log1p", "logistic", "lt", "map", "max", "min", "mul", "ne",
    "neg", "nextafter", "optimization_barrier", "pad", "padtype_to_pads", "pbroadcast", "pmax",
    "pmean", "pmin", "population_count", "pow", "ppermute", "pshuffle", "psum",
    "psum_scatter", "pvary", "ragged_dot", "real", "reciprocal", "reduce", "reduce_and",
    "reduce_max", "reduce_min", "reduce_or", "reduce_precision", "reduce_prod", "reduce_sum",
    "reduce_window", "reduce_xor", "rem", "reshape", "rev", "round", "rsqrt", "scan", "scatter",
    "scatter_add", "scatter_apply", "scatter_max", "scatter_min", "scatter_mul", "scatter_sub",
    "segment_max", "segment_min", "segment_prod", "segment_sum", "select", "select_n", "shift_left",
    "shift_right_arithmetic", "shift_right_logical", "sign", "sin", "sinh", "slice", "slice_in_dim",
    "sort", "sort_key_val", "split", "sqrt", "square", "squeeze", "stack", "sub", "switch", "tan",
    "tanh", "tile", "top_k", "transpose", "unstack", "while_loop", "zeta",
]  # fmt: skip
