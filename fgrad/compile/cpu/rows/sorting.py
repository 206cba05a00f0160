"""L5. Native library steps that sort rows: stably, in NumPy's order, NaN last.

Short rows are sorted by rank, all others by digits.  Rows are divided into pieces, which
threads may share.
"""

from __future__ import annotations

from fgrad.compile.cpu.rows.radix import emit_radix_sort
from fgrad.compile.cpu.rows.rank_sort import emit_rank_sort
from fgrad.compile.llvm.runtime import Source, build_counted
from fgrad.compile.tasks.routines import RowSort


def sort_rows(spec: RowSort) -> int:
    """The address of a step that sorts.

    Buffers: keys, payloads that are not positions, sorted keys if wanted, sorted payloads, work
    memory if any is needed; range: [0, pieces).  Inputs and outputs may not overlap.
    """
    emit = emit_rank_sort if spec.is_short else emit_radix_sort
    return build_counted([Source(f"sort {tuple(spec)}", lambda symbol: emit(symbol, spec))])[0]
