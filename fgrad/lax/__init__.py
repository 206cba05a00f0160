"""L7. Control flow and slices with traced positions, with the names and meaning of `jax.lax`.

fgrad.lax.scan(f, init, xs)                  carry, ys     a native loop under jit
fgrad.lax.fori_loop(0, n, body, init)        carry
fgrad.lax.while_loop(cond, body, init)       carry
fgrad.lax.cond(pred, f, g, *operands)        either result
"""

from __future__ import annotations

from fgrad.lax.branches import cond, select_n, switch
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
    "associative_scan",
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
    "scan",
    "select_n",
    "switch",
    "top_k",
    "while_loop",
]
