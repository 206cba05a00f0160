"""L7. Control flow, slices with traced positions, collectives: names and meaning of `jax.lax`.

fgrad.lax.scan(f, init, xs)                  carry, ys     a native loop under jit
fgrad.lax.fori_loop(0, n, body, init)        carry
fgrad.lax.while_loop(cond, body, init)       carry
fgrad.lax.cond(pred, f, g, *operands)        either result
fgrad.lax.psum(x, "axis")                    the sum along the axis that vmap maps by that name
"""

from __future__ import annotations

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

__all__ = [
    "all_gather",
    "all_to_all",
    "associative_scan",
    "axis_index",
    "axis_size",
    "cond",
    "custom_linear_solve",
    "custom_root",
    "dynamic_index_in_dim",
    "dynamic_slice",
    "dynamic_slice_in_dim",
    "dynamic_update_index_in_dim",
    "dynamic_update_slice",
    "fori_loop",
    "map",
    "optimization_barrier",
    "pbroadcast",
    "pmax",
    "pmean",
    "pmin",
    "ppermute",
    "pshuffle",
    "psum",
    "psum_scatter",
    "pvary",
    "scan",
    "select_n",
    "switch",
    "top_k",
    "while_loop",
]
