"""L0. A cell of a closure -> its contents, or a stand-in for those of an unassigned variable."""

from __future__ import annotations

from types import CellType


def contents(cell: CellType, unset: object = None) -> object:
    """What a closed-over variable is bound to; `unset` if it has no value yet.

    >>> def closing():
    ...     held = 2.5
    ...     return lambda: held
    >>> contents(closing().__closure__[0])
    2.5
    >>> contents(CellType(), unset="none yet")
    'none yet'
    """
    try:
        return cell.cell_contents
    except ValueError:
        return unset
