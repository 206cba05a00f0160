"""L5. The table of a product of matrices: what its function is told when it runs.

A process that finds the function in the cache loads nothing of what writes it.
"""

from __future__ import annotations

from fgrad.base.named_tuple import NamedTuple
from fgrad.compile.cpu.gemm.micro import Tiling


class Layout(NamedTuple):
    """The words of the table, in order; strides in bytes.

    The range counts cells, which are parts of C: `cells` in each product of a batch, `cells_down`
    in each strip of columns.
    """

    m: int
    n: int
    k: int
    depth: int  # steps of k at a time
    cells: int
    cells_down: int
    cell_rows: int
    cell_columns: int
    a_row: int
    a_step: int
    b_step: int
    b_column: int
    c_row: int
    a_next: int
    b_next: int
    c_next: int
    ahead: int  # whether rows of A are asked of memory in advance
    block: int  # columns of B that are worked on at once
    copy_a: int
    copy_b: int


def product_content(tiles: Tiling) -> str:
    """What the text of the function for a type of numbers is made from."""
    return f"product {tiles}"
