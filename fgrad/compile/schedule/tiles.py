"""L5. Loops that read along one axis and write along another (transposes) -> register tiles.

Two nested parallel loops that both have `lanes` are a tile: the emitter takes `lanes` rows of
`lanes` elements at a time and transposes in registers those accessed along the outer axis.  What
does not fill a tile becomes ordinary loops.

    parallel j in 100:                       parallel j in 96 lanes 16:
      parallel i in 100:                       parallel i in 96 lanes 16:
        store y[100*j + i] (load x[100*i+j])     store y[100*j + i] (load x[100*i + j])
                                           + the last 4 columns and rows
"""

from __future__ import annotations

from fgrad.compile.kernel.ir import Buffer, Const, Index, Load, Loop, Op, Statement, Store
from fgrad.compile.kernel.machine import ELEMENTS_WORTH_WIDE_CODE, VECTOR_BYTES
from fgrad.compile.kernel.rewrite import Body, Names, map_indices, only_loop, stride_of, substitute

BLOCK_TILES = 4


def tile_transposes(body: Body, names: Names, buffers: dict[str, Buffer]) -> Body:
    """The body with transposing nests of parallel loops tiled."""
    out: list[Statement] = []
    for s in body:
        if isinstance(s, Loop):
            tiled = _tiled(s, names, buffers)
            if tiled is not None:
                out += tiled
                continue
            s = s._replace(body=tile_transposes(s.body, names, buffers))
        out.append(s)
    return tuple(out)


def _tiled(loop: Loop, names: Names, buffers: dict[str, Buffer]) -> list[Statement] | None:
    """The nest at `loop` with its two transposed axes tiled; None if it has none."""
    loops, body = [loop], loop.body
    while len(body) == 1 and type(body[0]) is Loop:
        loops.append(body[0])
        body = body[0].body
    plain = all([isinstance(s, (Const, Index, Load, Op, Store)) for s in body])
    read, written = ({s.buffer for s in body if isinstance(s, kind)} for kind in (Load, Store))
    plain = plain and read.isdisjoint(written)  # tiles may overlap
    if len(loops) < 2 or not plain or any([x.kind != "parallel" or x.lanes for x in loops]):
        return None
    found = _transposed(loops, body)
    if found is None:
        return None
    rows, columns = found
    width = max([buffers[s.buffer].dtype.itemsize for s in body if isinstance(s, (Load, Store))])
    large = rows.extent * columns.extent >= ELEMENTS_WORTH_WIDE_CODE
    lanes = min(VECTOR_BYTES // width, 16 if large else 8)
    while lanes > min(rows.extent, columns.extent):
        lanes //= 2
    if lanes < 4:
        return None
    inner: list[Statement] = _split(rows, columns, body, lanes, names)
    for outer in reversed([x for x in loops if x not in (rows, columns)]):
        inner = [outer._replace(body=tuple(inner))]
    return inner


def _transposed(loops: list[Loop], body: Body) -> tuple[Loop, Loop] | None:
    """Two loops (rows, columns) such that some accesses are contiguous along each.

    Values constant along a row or a column need no transposition.
    """
    votes: dict[str, int] = {}
    turned: set[tuple[str, str]] = set()  # (contiguous axis of an access, another of its axes)
    for s in body:
        if isinstance(s, (Load, Store)):
            indirect = s.gather if isinstance(s, Load) else s.scatter
            units = [x for x in loops if stride_of(s.index, x.axis) == 1]
            others = [x.axis for x in loops if abs(stride_of(s.index, x.axis)) > 1]
            if units and others and not indirect and s.predicate is None:
                votes[units[-1].axis] = votes.get(units[-1].axis, 0) + 1
                turned |= {(units[-1].axis, axis) for axis in others}
    ranked = sorted([x for x in loops if x.axis in votes], key=lambda x: votes[x.axis])
    if len(ranked) < 2 or (ranked[-2].axis, ranked[-1].axis) not in turned:
        return None
    if any([not _fits(s, *ranked[-2:]) for s in body]):
        return None
    return ranked[-2], ranked[-1]


def _fits(s: Statement, rows: Loop, columns: Loop) -> bool:
    """Whether a tile can do this statement: a store has a stride along both axes."""
    if isinstance(s, Store):
        strides = [stride_of(s.index, x.axis) for x in (rows, columns)]
        return 1 in strides and all(strides) and not s.scatter and s.mode == "set"
    return True


def _split(rows: Loop, columns: Loop, body: Body, lanes: int, names: Names) -> list[Statement]:
    """Full tiles, and those at the ends of ragged axes."""
    out: list[Statement] = []
    for first, height in _ranges(rows.extent, lanes):
        for second, width in _ranges(columns.extent, lanes):
            inner = columns._replace(extent=width, lanes=lanes, body=body)
            tile = rows._replace(extent=height, lanes=lanes, body=(inner,))
            if not first and not second:
                out.append(_blocked(tile, lanes, names))
                continue
            nest = only_loop(names.copy((tile,)))
            out.append(_shifted(nest, only_loop(nest.body), first, second))
    return out


def _ranges(extent: int, lanes: int) -> list[tuple[int, int]]:
    """Where the tiles of an axis begin and how many elements they hold: the full ones, and one that
    overlaps the last of them."""
    rest = extent % lanes
    return [(0, extent - rest), *([(extent - lanes, lanes)] if rest else [])]


def _shifted(outer: Loop, inner: Loop, first: int, second: int) -> Loop:
    """The nest with its axes starting at `first` and `second`."""
    body = inner.body
    for axis, const in ((outer.axis, first), (inner.axis, second)):
        terms = ((axis, 1),)
        body = map_indices(
            body, lambda i, axis=axis, const=const, terms=terms: substitute(i, axis, const, terms)
        )
    return outer._replace(body=(inner._replace(body=body),))


def _blocked(tile: Loop, lanes: int, names: Names) -> Loop:
    """The tiled nest inside loops over blocks of tiles that fit a near cache."""
    size = lanes * BLOCK_TILES
    rows, columns = tile, only_loop(tile.body)
    if rows.extent % size or columns.extent % size or rows.extent * columns.extent < 4 * size**2:
        return tile
    outer = [names.name(rows.axis), names.name(columns.axis)]
    body = columns.body
    for axis, block in zip((rows.axis, columns.axis), outer, strict=True):
        terms = ((block, size), (axis, 1))
        body = map_indices(body, lambda i, axis=axis, terms=terms: substitute(i, axis, 0, terms))
    inner = rows._replace(extent=size, body=(columns._replace(extent=size, body=body),))
    over = Loop(outer[1], columns.extent // size, "parallel", (inner,))
    return Loop(outer[0], rows.extent // size, "parallel", (over,))
