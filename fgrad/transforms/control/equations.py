"""L4. `scan`, `while_loop` and `switch`, together with their derivatives and batching rules."""

from __future__ import annotations

from fgrad.ops.control import scan, switch, while_loop
from fgrad.transforms.control import jvp, vjp, vmap

__all__ = ["scan", "switch", "while_loop"]

RULES = (jvp, vjp, vmap)  # which each fill the tables of their transform
