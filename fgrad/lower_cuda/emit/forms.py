"""L6. Kernel -> pieces, each with a form that maps its iterations to threads.

threads  each thread runs one iteration of the outer parallel nest, or `vector` neighbours of it
teams    the threads of a warp or a block share the loops inside of one iteration

tiles    blocks of 32 x 8 threads run squares of 32 x 32 iterations; what lies across in memory
         passes through shared memory, so that all accesses are along it

    parallel i in 4096: acc s; reduce j in 1024: ...     teams of 32 threads, 4096 of them
    parallel i in 1000000: store ...                     250000 threads, 4 elements each
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence

from fgrad.base.named_tuple import NamedTuple
from fgrad.compile.kernel.ir import (
    Affine,
    Const,
    Init,
    Kernel,
    Load,
    Loop,
    Read,
    Statement,
    Store,
)
from fgrad.compile.kernel.rewrite import (
    Body,
    added_in_order,
    has_sums,
    indices,
    map_indices,
    part_of,
    stride_of,
    substitute,
    walk,
)
from fgrad.compile.schedule.loop_fission import bodies_apart
from fgrad.compile.schedule.order import (
    collapse,
    perfect_nest,
    rebuild,
    simplify_loops,
    sink,
    sort_nests,
)
from fgrad.lower_cuda.emit.machine import ACCESS_BYTES, MANY_ITEMS, MOST_THREADS, THREADS, WARP

TILE = 32  # edge of a tile
TILE_ROWS = 8  # rows of it that a block's threads run at a time
LEAST_TILE = 16  # extents from which a tile pays
MOST_CROSSED = 4  # loads that pass through shared memory
MOST_COPIES = 200  # statements of a body written once for each element of a vector
LEAST_SHARED = 16  # iterations of an inner loop from which threads share it
PER_LANE = 8  # elements that a thread of a team should have before the team grows
MOST_TRIPS = 16  # groups of a lane that are written out one after the other
MOST_WRITTEN = 512  # statements of these
PRODUCT_TILE = 4  # neighbours of each of two axes that share their loads

Axes = tuple[tuple[str, int], ...]


class Form(NamedTuple):
    """Who runs a piece: `items` iterations of `axes`, by teams of `team` threads (1: threads).

    In the form of threads a thread has `vector` neighbours of the last axis, for each of `rows`
    neighbours of another one; in that of teams each thread takes `vector` neighbours of a shared
    loop at a time.  In that of tiles a block has a
    square of the last axis and the one before it, along which the loads `crossed` run in memory.
    """

    axes: Axes
    items: int
    team: int
    vector: int
    per_block: int  # items of a block
    crossed: frozenset[int] = frozenset()
    rows: tuple[str, int] = ("", 1)

    @property
    def tile(self) -> dict[str, int]:
        """The iterations that a thread runs side by side."""
        sizes = {self.rows[0]: self.rows[1], self.axes[-1][0]: self.vector} if self.axes else {}
        return {axis: size for axis, size in sizes.items() if size > 1}

    @property
    def block(self) -> tuple[int, int]:
        """Threads of a block in x and y."""
        if self.crossed:
            return (TILE, TILE_ROWS)
        return (self.per_block, 1) if self.team == 1 else (self.team, self.per_block)

    @property
    def grid(self) -> int:
        """The number of blocks."""
        if self.crossed:
            *others, a, b = [extent for _, extent in self.axes]
            return math.prod(others) * -(-a // TILE) * -(-b // TILE)
        return max(1, -(-self.groups // self.per_block))

    @property
    def groups(self) -> int:
        """Threads or teams that have work."""
        if self.team > 1 or not self.axes:
            return self.items
        last = self.axes[-1][1]
        return self.items // last * -(-last // self.vector) // self.rows[1]


class Piece(NamedTuple):
    """A part of a kernel that is launched alone: `body` runs for each iteration of `axes`."""

    kernel: Kernel
    axes: Axes
    before: Body  # what every iteration computes first, from outside of the nest
    body: Body
    atomic: bool = False  # whether iterations may meet in elements that they change


def ordered(kernel: Kernel) -> Kernel:
    """The kernel with the fastest axes innermost, and loops merged where memory runs on."""
    return kernel._replace(body=merged(collapse(sort_nests(sink(simplify_loops(kernel.body))))))


def merged(body: Body) -> Body:
    """The body with any two loops of a nest that run over memory as one made one."""
    out: list[Statement] = []
    for s in body:
        if isinstance(s, Loop):
            loops, inner = perfect_nest(s)
            if s.kind in ("parallel", "reduce"):
                loops, inner = _merge(loops, inner)
            s = rebuild(loops, merged(inner))
        out.append(s)
    return tuple(out)


def _merge(loops: list[Loop], body: Body) -> tuple[list[Loop], Body]:
    """Loop p goes away where p = extent(q) q in every index of the body."""
    for p, q in itertools.permutations(loops, 2):
        maps = indices(body)
        if all([stride_of(i, p.axis) == q.extent * stride_of(i, q.axis) for i in maps]):
            rest = [x._replace(extent=p.extent * q.extent) if x is q else x for x in loops]
            body = map_indices(body, lambda index, axis=p.axis: substitute(index, axis, 0, ()))
            return _merge([x for x in rest if x is not p], body)
    return loops, body


def _in_order(body: Body) -> Body:
    """The body in which a loop whose steps add to one element in any order runs in order: its lanes
    are threads here, which would meet there."""
    found = [
        s._replace(kind="serial", lanes=0, unroll=1, body=_in_order(s.body))
        if isinstance(s, Loop) and has_sums(s.body)
        else s
        for s in body
    ]
    return added_in_order(tuple(found))


def pieces(kernel: Kernel) -> tuple[Piece, ...]:
    """The launches of a kernel: one for each loop at its top, if these need not be together."""
    kernel = kernel._replace(body=_in_order(kernel.body))
    bodies = bodies_apart(kernel)
    if not bodies:
        return (Piece(kernel, (), (), kernel.body),)
    return tuple([_piece(part_of(kernel, body)) for body in bodies])


def _piece(kernel: Kernel) -> Piece:
    """The piece of a kernel that ends with a loop: over its items, if it is the only one."""
    *before, loop = kernel.body
    assert isinstance(loop, Loop)
    if loop.kind != "parallel" or any([isinstance(s, Loop) for s in before]):
        return Piece(kernel, (), (), kernel.body)
    nest, inner = perfect_nest(loop)
    return Piece(kernel, tuple([(x.axis, x.extent) for x in nest]), tuple(before), inner)


def form_of(piece: Piece) -> Form:
    """The form of a piece."""
    items = math.prod([extent for _, extent in piece.axes])
    shared = shared_loops(piece.body)
    longest = max([extent_of(loop) for loop in shared], default=0)
    if not piece.axes and longest < LEAST_SHARED:
        return Form((), 1, 1, 1, 1)
    if not piece.axes:
        vector = _team_vector(piece, shared)
        return Form((), 1, _team_size(longest, vector, 1), vector, 1)
    side = _side_by_side(piece, items)
    few = longest < LEAST_SHARED or (items >= MANY_ITEMS and not runs_inside(piece, shared))
    if few or side.rows[1] * side.vector > 1:
        straight = not any([isinstance(s, (Loop, Init)) for s in piece.body])
        return (_tiles(piece, items) if straight else None) or side
    if not runs_inside(piece, shared) and items > WARP and longest < 4 * items:
        return Form(piece.axes, items, 1, 1, WARP)
    vector = _team_vector(piece, shared)
    team = _team_size(longest, vector, items)
    return Form(piece.axes, items, team, vector, 4 if team == WARP else 1)


def _tiles(piece: Piece, items: int) -> Form | None:
    """The form of tiles, if a store and some loads run along different axes."""
    stores = [_run_of(s, piece) for s in piece.body if isinstance(s, Store)]
    along = next((axis for axis in stores if axis), None)
    if along is None:
        return None
    loads = [s for s in piece.body if isinstance(s, Load) and stride_of(s.index, along)]
    runs = {s.id: _run_of(s, piece) for s in loads}
    across = [axis for axis in runs.values() if axis and axis != along]
    if not across:
        return None
    other = max(across, key=across.count)
    extents = dict(piece.axes)
    crossed = [id for id, axis in runs.items() if axis == other][:MOST_CROSSED]
    if min(extents[along], extents[other]) < LEAST_TILE:
        return None
    rest = [axis for axis in extents if axis not in (along, other)]
    axes = tuple([(axis, extents[axis]) for axis in (*rest, other, along)])
    return Form(axes, items, 1, 1, 1, frozenset(crossed))


def _run_of(s: Load | Store, piece: Piece) -> str | None:
    """The axis of the piece along which an access runs in memory."""
    return next((axis for axis, _ in piece.axes if is_run(s, axis)), None)


# --- loops that a team shares


def is_shared(loop: Loop) -> bool:
    """Whether the threads of a team may share the iterations of a loop."""
    return loop.kind in ("parallel", "reduce")


def shared_loops(body: Body) -> list[Loop]:
    """The outermost loops of a body that a team shares, with those it finds in loops that all its
    threads run."""
    found: list[Loop] = []
    for s in body:
        if not isinstance(s, Loop):
            continue
        inner = shared_loops(s.body)
        longest = max([extent_of(x) for x in inner], default=0)
        if is_shared(s) and extent_of(s) >= min(longest, WARP):
            found.append(s)
        else:
            found += inner
    return found


def extent_of(loop: Loop) -> int:
    """The iterations of the perfect nest that begins with a loop."""
    return math.prod([x.extent for x in perfect_nest(loop)[0]])


def trips_of(loop: Loop, form: Form) -> int:
    """The groups of a shared loop that a thread takes."""
    return -(-extent_of(loop) // (form.team * form.vector))


def is_written_out(loop: Loop, form: Form) -> bool:
    """Whether these groups are written one after the other, without a loop."""
    trips = trips_of(loop, form)
    size = trips * form.vector * _size(perfect_nest(loop)[1])
    return trips <= 2 or (trips <= MOST_TRIPS and size <= MOST_WRITTEN)


def runs_inside(piece: Piece, shared: Sequence[Loop]) -> bool:
    """Whether memory runs along the shared loops rather than along the items."""
    last = piece.axes[-1][0] if piece.axes else ""
    along = across = 0
    for loop in shared:
        nest, body = perfect_nest(loop)
        for s in walk(body):
            if isinstance(s, (Load, Store)):
                along += abs(stride_of(s.index, nest[-1].axis)) == 1
                across += abs(stride_of(s.index, last)) == 1
    return along >= across


def _team_size(longest: int, vector: int, items: int) -> int:
    """Threads of a team for loops of so many iterations: a power of two."""
    wanted = -(-longest // (PER_LANE * vector)) if items >= MOST_THREADS else -(-longest // vector)
    size = WARP
    while size < wanted and size < (THREADS if items >= MOST_THREADS else MOST_THREADS):
        size *= 2
    return size


# --- vectors


def _side_by_side(piece: Piece, items: int) -> Form:
    """The form of threads: with as many iterations in each as make the widest access whole, or, in
    products, as share what they load."""
    if any([isinstance(s, (Loop, Init)) for s in piece.body]):
        rows, vector = _product_tile(piece, items)
    else:
        rows, vector = ("", 1), _thread_vector(piece)
    form = Form(piece.axes, items, 1, vector, 1, rows=rows)
    return form._replace(per_block=THREADS if form.groups > WARP * THREADS else WARP * 2)


def _thread_vector(piece: Piece) -> int:
    """Neighbours of the last axis for each thread."""
    axis, extent = piece.axes[-1]
    size, alone = _size(piece.body), len(piece.axes) == 1
    vector = halved(
        widest(piece, [(axis, piece.body)]),
        lambda n: (alone or extent % n == 0) and n * size <= MOST_COPIES,
    )
    return 1 if extent < vector or _predicated(piece.body, axis) else vector


def _product_tile(piece: Piece, items: int) -> tuple[tuple[str, int], int]:
    """Neighbours of another axis and of the last one for each thread, around loops.

    Where a load does not depend on an axis, neighbours along it share what they load.
    """
    axis, extent = piece.axes[-1]
    every = tuple(walk(piece.body))
    if any([isinstance(s, Loop) and s.kind == "while" for s in every]):
        return ("", 1), 1
    loads = [s for loop in piece.body if isinstance(loop, Loop) for s in walk((loop,))]
    loads = [s for s in loads if isinstance(s, Load) and not s.gather and s.predicate is None]
    maps = [frozenset([name for name, _ in s.index.terms]) for s in loads]
    shared = {a: sum([a not in names for names in maps]) for a, _ in piece.axes}
    vector = PRODUCT_TILE if 0 < shared[axis] < len(maps) else widest(piece, [(axis, every)])
    other = max(
        [a for a in piece.axes[:-1] if 0 < shared[a[0]] < len(maps) and _differ(maps, axis, a[0])],
        key=lambda a: a[1],
        default=("", 1),
    )
    rows = halved(PRODUCT_TILE, lambda n: other[1] % n == 0)
    vector = halved(vector, lambda n: extent % n == 0)
    while max(rows, vector) > 1 and (
        items // (rows * vector) < MANY_ITEMS or rows * vector * _size(piece.body) > MOST_COPIES
    ):
        rows, vector = (rows // 2, vector) if rows >= vector else (rows, vector // 2)
    return (other[0] if rows > 1 else "", rows), vector


def _differ(maps: Sequence[frozenset[str]], a: str, b: str) -> bool:
    """Whether some load depends on one of two axes and another one on the other."""
    return any([a in m and b not in m for m in maps]) and any([b in m and a not in m for m in maps])


def _team_vector(piece: Piece, shared: Sequence[Loop]) -> int:
    """Neighbours that a thread of a team takes from each shared loop at a time."""
    bodies = []
    for loop in shared:
        nest, body = perfect_nest(loop)
        if any([isinstance(s, (Loop, Init)) for s in body]):
            return 1
        bodies.append((nest[-1].axis, body))
    extents = [perfect_nest(loop)[0][-1].extent for loop in shared]
    size = sum([_size(body) for _, body in bodies])
    return halved(
        widest(piece, bodies),
        lambda n: not any([extent % n for extent in extents]) and n * size <= MOST_COPIES,
    )


def halved(vector: int, fits: Callable[[int], bool]) -> int:
    """The vector, halved until it fits or is one element."""
    while vector > 1 and not fits(vector):
        vector //= 2
    return vector


def widest(piece: Piece, bodies: Sequence[tuple[str, Body]]) -> int:
    """Elements of the widest accesses along some axes, limited by the largest element."""
    dtypes = {b.name: b.dtype for b in piece.kernel.buffers}
    runs = [
        (s, axis)
        for axis, body in bodies
        for s in body
        if isinstance(s, (Load, Store)) and is_run(s, axis)
    ]
    if not runs:
        return 1
    vector = min(8, ACCESS_BYTES // max([dtypes[s.buffer].itemsize for s, _ in runs]))
    return halved(vector, lambda n: any([is_aligned(s.index, axis, n) for s, axis in runs]))


def is_run(s: Load | Store, axis: str) -> bool:
    """Whether neighbours of an axis are neighbours in memory."""
    indirect = s.gather if isinstance(s, Load) else s.scatter
    return stride_of(s.index, axis) == 1 and not indirect and s.predicate is None


def is_aligned(index: Affine, axis: str, vector: int) -> bool:
    """Whether a vector along an axis begins at a multiple of its size."""
    others = [stride for name, stride in index.terms if name != axis]
    return index.const % vector == 0 and all([stride % vector == 0 for stride in others])


def _predicated(body: Body, axis: str) -> bool:
    """Whether most accesses along the axis are predicated, so that vectors bring nothing."""
    memory = [s for s in body if isinstance(s, (Load, Store))]
    return bool(memory) and 2 * sum([is_run(s, axis) for s in memory]) < len(memory)


def _size(body: Body) -> int:
    """Statements that become instructions."""
    plain: tuple[type[Statement], ...] = (Const, Read, Init)  # type: ignore[assignment]
    return sum([not isinstance(s, plain) for s in walk(body)])
