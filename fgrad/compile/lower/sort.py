"""L5. Sorting: rows by the native sorter, other operands carried along as payloads; selection.

    _, order = sort[axis=1] x, iota        only order is read:  sort x -> positions

Positions are not read from memory, and results that nobody reads are not written.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from fgrad.compile.lower.linalg import host_step
from fgrad.compile.tasks.routines import RowTop, row_sort
from fgrad.compile.tasks.steps import LibraryStep
from fgrad.ir.aval import INT64, Aval
from fgrad.ir.program import Atom, Eqn, Var
from fgrad.ops import primitives as prims
from fgrad.ops.sort import is_selected


def sort_step(eqn: Eqn, virtual: Mapping[Var, Eqn], outputs: Sequence[Var]) -> LibraryStep:
    """The call of the sorter; pass `inline` has brought the axis last and left one key."""
    keys, *payloads = eqn.inputs
    sorted_keys, *sorted_payloads = eqn.outputs
    columns = keys.aval.shape[-1]
    reads: list[Atom] = [keys]
    writes = [sorted_keys] if sorted_keys in outputs else []
    carried: list[np.dtype | None] = []
    for atom, out in zip(payloads, sorted_payloads, strict=True):
        if out not in outputs:
            continue
        is_read = not is_position(atom, virtual)
        carried.append(atom.aval.dtype if is_read else None)
        reads += [atom] if is_read else []
        writes.append(out)
    rows = keys.aval.size // max(columns, 1)
    spec = row_sort(keys.aval.dtype, rows, columns, carried, sorted_keys in outputs)
    size = spec.work_bytes
    work = [Var(Aval((size,), np.dtype(np.uint8)))] if size else []
    args: Any = (*reads, *writes, *work)
    return LibraryStep(spec, args, ((0,) * len(args),))


def top_step(eqn: Eqn, defined: Mapping[Var, Eqn]) -> LibraryStep:
    """The call of a selection, or NumPy's where there is no native one."""
    aval, k = eqn.inputs[0].aval, eqn.params["k"]
    if not is_selected(aval, k):
        return host_step(eqn, defined)
    columns = aval.shape[-1]
    spec = RowTop(aval.dtype, aval.size // columns, columns, k)
    args: Any = (*eqn.inputs, *eqn.outputs)
    return LibraryStep(spec, args, ((0, 0, 0),))


def is_position(atom: Atom, definitions: Mapping[Var, Eqn]) -> bool:
    """Whether an operand of a sort along the last axis is the number of the element in its row."""
    if type(atom) is not Var or atom.aval.dtype != INT64:
        return False
    axis, eqn = atom.aval.ndim - 1, definitions.get(atom)
    while eqn is not None and eqn.prim is prims.permute and type(eqn.inputs[0]) is Var:
        axis = eqn.params["axes"][axis]
        eqn = definitions.get(eqn.inputs[0])
    return eqn is not None and eqn.prim is prims.iota and eqn.params["axis"] == axis
