"""L4. Sparsity pattern -> colours of columns; one derivative computes all columns of a colour.

columns   two columns of one colour have no row in common
star      of a symmetric matrix: each entry can be read from its column or from its row
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np

Pattern: TypeAlias = Any  # scipy.sparse.csr_array of int8; SciPy has no types

MOST_WORK = 20_000_000  # steps of the star colouring; beyond, columns are coloured


def color_columns(pattern: Pattern) -> np.ndarray:
    """A colour for each column of a sparse matrix, so that columns of one colour have no row in
    common; greedily, in their order.

    Example:
        >>> import scipy.sparse
        >>> ones = [1.0, 1.0, 1.0]
        >>> color_columns(scipy.sparse.diags_array(ones, offsets=[-1, 0, 1], shape=(6, 6)))
        array([0, 1, 2, 0, 1, 2])
    """
    by_column = pattern.tocsc()
    starts, rows = by_column.indptr.tolist(), by_column.indices.tolist()
    taken = [0] * pattern.shape[0]  # the colours of a row, as bits
    colors = np.zeros(pattern.shape[1], np.int64)
    for column in range(pattern.shape[1]):
        own = rows[starts[column] : starts[column + 1]]
        mask = 0
        for row in own:
            mask |= taken[row]
        bit = ~mask & (mask + 1)
        colors[column] = bit.bit_length() - 1
        for row in own:
            taken[row] |= bit
    return colors


def color_star(pattern: Pattern) -> np.ndarray | None:
    """A star colouring of a symmetric pattern; None if that takes too long.

    Neighbours differ, and every path of four vertices has three colours at least (Gebremedhin,
    Manne and Pothen: What color is your Jacobian?, 2005, algorithm 4.1); vertices with many
    neighbours come first.
    """
    degrees = np.diff(pattern.indptr)
    if float(np.sum(degrees[pattern.indices])) > MOST_WORK:
        return None
    starts: list[int] = pattern.indptr.tolist()
    indices: list[int] = pattern.indices.tolist()
    near: list[list[int]] = [
        [w for w in indices[starts[v] : starts[v + 1]] if w != v] for v in range(len(degrees))
    ]
    colors = [-1] * len(near)
    order: list[int] = np.argsort(-degrees, kind="stable").tolist()
    for v in order:
        forbidden: set[int] = set()
        for w in near[v]:
            if colors[w] < 0:
                forbidden.update([colors[x] for x in near[w] if x != v])
                continue
            forbidden.add(colors[w])
            for x in near[w]:
                if x == v or colors[x] < 0 or colors[x] in forbidden:
                    continue
                if any([y != w and colors[y] == colors[w] for y in near[x]]):
                    forbidden.add(colors[x])
        color = 0
        while color in forbidden:
            color += 1
        colors[v] = color
    return np.array(colors, np.int64)
