"""L5. Cumulative operations and searches along contiguous rows -> library steps.

cumsum[axis=1] x: (rows, columns)     each row is contiguous          a native walk by vectors
cumsum[axis=0] x                      neighbours are in other lanes   a nest (lower_nest)
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from fgrad.compile.lower.linalg import host_step
from fgrad.compile.tasks.routines import RowSearch, RowWalk, fits_search
from fgrad.compile.tasks.steps import LibraryStep
from fgrad.ir.program import Eqn, Var
from fgrad.ir.traits import Along


def is_row_walk(eqn: Eqn) -> bool:
    """Whether an equation goes along contiguous rows of numbers that vectors can hold."""
    fold = eqn.prim.fold
    if fold is None or fold.along is Along.AXES:
        return False
    shape, dtype = eqn.inputs[0].aval.shape, eqn.inputs[0].aval.dtype
    axis = eqn.params["axis"]
    fits = dtype.kind in "iuf" and (dtype.kind != "f" or dtype.itemsize > 2)
    return fits and shape[axis] > 1 and math.prod(shape[axis + 1 :]) == 1


def search_step(eqn: Eqn, defined: Mapping[Var, Eqn]) -> LibraryStep:
    """The call of a search, or NumPy's where there is no native one."""
    table, values = [atom.aval for atom in eqn.inputs]
    rows, columns = values.shape
    if not fits_search(table.dtype, table.shape[1], columns):
        return host_step(eqn, defined)
    spec = RowSearch(table.dtype, rows, table.shape[1], columns, eqn.params["right"])
    args: Any = (*eqn.inputs, *eqn.outputs)
    return LibraryStep(spec, args, ((0, 0, 0),))


def walk_step(eqn: Eqn) -> LibraryStep:
    """The call of a walk."""
    aval = eqn.inputs[0].aval
    columns = aval.shape[eqn.params["axis"]]
    fold = eqn.prim.fold
    assert fold is not None
    spec = RowWalk(
        f"arg{fold.op}" if fold.along is Along.PLACE else fold.op,
        aval.dtype,
        aval.size // columns,
        columns,
        eqn.params.get("reverse", False),
    )
    args: Any = (*eqn.inputs, *eqn.outputs)
    return LibraryStep(spec, args, ((0, 0),))
