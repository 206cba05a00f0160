"""L5. Sorting: rows by the native sorter, other operands carried along as payloads."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fgrad.compile.steps import LibraryStep
from fgrad.ir.program import Eqn, Var


def sort_step(eqn: Eqn, _virtual: Mapping[Var, Eqn]) -> LibraryStep:
    """The call of the sorter; pass `inline` has brought the axis last and left one key."""
    keys = eqn.inputs[0]
    columns = keys.aval.shape[-1]
    rows = keys.aval.size // max(columns, 1)
    args: Any = (*eqn.inputs, *eqn.outputs)
    params = {
        "dtype": keys.aval.dtype,
        "rows": rows,
        "columns": columns,
        "payloads": tuple([x.aval.dtype for x in eqn.inputs[1:]]),
    }
    return LibraryStep("sort", params, args, ((0,) * len(args),))
