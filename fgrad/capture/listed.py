"""L5. NumPy's functions that take lists, to which traced values may be given in one."""

from __future__ import annotations

LISTED = frozenset({
    "sum", "mean", "prod", "max", "min", "amax", "amin", "std", "var", "median", "any", "all",
    "argmax", "argmin", "cumsum", "cumprod", "sort", "diff", "dot", "outer", "cross", "norm", "det",
    "inv", "solve",
})  # fmt: skip
