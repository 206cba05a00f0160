"""L5. Native library steps that sort rows: stably, in NumPy's order, NaN last.

Short rows are sorted by rank, all others by digits.  Rows are divided into pieces, which
threads may share.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fgrad.compile.cpu.rows.keys import RowSort
from fgrad.compile.cpu.rows.radix import emit_radix_sort, work_bytes
from fgrad.compile.cpu.rows.rank_sort import emit_rank_sort, is_short
from fgrad.compile.cpu.runtime import Source, build
from fgrad.compile.kernel.machine import MOST_PIECES, SORT_CHUNK_CYCLES, SORT_CYCLES


def row_sort(
    dtype: np.dtype,
    rows: int,
    columns: int,
    payloads: Sequence[np.dtype | None] = (),
    keys_out: bool = True,
) -> RowSort:
    """The task of sorting the rows of a matrix, and payloads of its shape alike.

    A payload of None is the position, as an int64, which is not read; the sorted keys are written
    unless `keys_out` is false.
    """
    pieces = int(rows * columns * SORT_CYCLES / SORT_CHUNK_CYCLES)
    pieces = max(1, min(pieces, rows, MOST_PIECES))
    return RowSort(np.dtype(dtype), rows, columns, tuple(payloads), keys_out, pieces)


def sort_work(spec: RowSort) -> int:
    """The bytes of work memory that a sort needs."""
    return 0 if is_short(spec) else spec.pieces * work_bytes(spec)


def sort_cycles(spec: RowSort) -> float:
    """The cycles that it takes."""
    return float(spec.rows * spec.columns * SORT_CYCLES)


def sort_rows(spec: RowSort) -> int:
    """The address of a step that sorts.

    Buffers: keys, payloads that are not positions, sorted keys if wanted, sorted payloads, work
    memory if any is needed; range: [0, pieces).  Inputs and outputs may not overlap.
    """
    emit = emit_rank_sort if is_short(spec) else emit_radix_sort
    return build([Source(f"sort {tuple(spec)}", lambda symbol: emit(symbol, spec))])[0]
