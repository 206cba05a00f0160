"""L5. Register tiles: sums of products keep many results in registers and use each operand often.

A tile is one or more vectors along a lane axis times some places along one or two other axes.  The
loops over the tile stand innermost, written out, inside the loop of the sum:

    parallel i in 64:                          parallel i' in 16:
      parallel j in 64:                          parallel l in 16 lanes 16:
        acc s = add f32 0.0                        acc s0..s15 = add f32 0.0
        reduce k in 64:                            serial k in 64:
          %0 = load a[64*i + k]            ->        four a[64*(4*i' + u) + k], four b[64*k + ...]
          %1 = load b[64*k + j]                      sixteen products, sixteen updates
          update s (mul %0 %1)                     sixteen stores
        store c[64*i + j] (read s)

What is left of an axis of many tiles is covered by a last tile that overlaps its neighbour: stores
of the same number twice do no harm, and sizes share their code.  What is left of a short axis gets
smaller tiles.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence

from fgrad.base.named_tuple import NamedTuple
from fgrad.compile.kernel.ir import (
    Affine,
    Buffer,
    Const,
    Index,
    Init,
    Load,
    Loop,
    Op,
    Read,
    Ref,
    Statement,
    Store,
    Update,
)
from fgrad.compile.kernel.machine import LATENCY_CYCLES, NEAR_BYTES, SHARED_CYCLES, VECTOR_BYTES
from fgrad.compile.kernel.rewrite import Body, Names, stride_of, substitute, walk

LEAST_WORK = 1 << 12  # products from which a tile is worth its compile time
LEAST_TERMS = 4
BLOCK = 4096  # terms added one by one at most; longer sums are sums of such sums
_FACTORS = (1, 2, 3, 4, 5, 6, 7, 8, 12)
LARGE = 0.6  # tiles of this share of the largest one are compared
UNSHARED = 1.4  # what is lost if they cannot
VARIANT = 0.06  # what each further piece of code must gain
SHORT = (5, 16)  # iterations of an axis along which tiles are small, and the last one overlaps
MANY_TILES = 4  # along an axis, from which the last one may overlap its neighbour


class Tile(NamedTuple):
    """A lane axis with its lanes and vectors, and the places of other axes."""

    axis: str
    lanes: int
    vectors: int
    others: tuple[tuple[str, int], ...]

    @property
    def results(self) -> int:
        """The vectors of results."""
        return self.vectors * math.prod([n for _, n in self.others])


def tile_registers(
    body: Body, names: Names, buffers: dict[str, Buffer], registers: int = 32
) -> Body:
    """The body with sums of products in parallel loops tiled, for a machine with that many vectors.

    Requires nests sorted and merged.  Ensures the same stores, up to the order of additions.
    """
    out: list[Statement] = []
    for s in body:
        found = None
        if isinstance(s, Loop) and s.kind == "parallel":
            found = _tiled(s, names, buffers, registers)
        out += [s] if found is None else found
    return tuple(out)


def _tiled(
    loop: Loop, names: Names, buffers: dict[str, Buffer], registers: int
) -> list[Statement] | None:
    loops, body = _parallel_nest(loop)
    nest = _Nest.of(loops, body, buffers)
    if nest is None:
        return None
    tile = nest.best(registers)
    if tile is None:
        return None
    return _Tiler(nest, tile, names).run()


def _parallel_nest(loop: Loop) -> tuple[list[Loop], Body]:
    loops, body = [loop], loop.body
    while len(body) == 1 and isinstance(body[0], Loop) and body[0].kind == "parallel":
        loops.append(body[0])
        body = body[0].body
    return loops, body


# --- what to tile


class _Nest(NamedTuple):
    """Parallel loops around sums, and the statements of the innermost loop of the main sum."""

    loops: list[Loop]
    body: Body
    leaf: Body
    chain: list[Loop]  # the loops of the main sum, outermost first
    depends: dict[int, frozenset[str]]  # value -> the parallel axes that it depends on
    width: int  # bytes of a term
    far: bool  # operands are too large to be read by many tiles

    @classmethod
    def of(cls, loops: list[Loop], body: Body, buffers: dict[str, Buffer]) -> _Nest | None:
        """The nest, if it is a sum of products over enough terms."""
        chain = _main_chain(body)
        if chain is None or not _is_plain(loops, body, buffers):
            return None
        leaf = chain[-1].body
        axes = {x.axis for x in loops}
        depends = _dependences(body, axes)
        products = {s.id: s for s in leaf if isinstance(s, Op) and s.op == "mul"}
        updates = [s for s in leaf if isinstance(s, Update)]
        loads = {s.id: s for s in leaf if isinstance(s, Load)}
        if not updates or any([s.value not in products for s in updates]) or len(loads) < 2:
            return None
        inits = {s.acc: s for s in body if isinstance(s, Init)}
        if any([s.acc not in inits for s in updates]):
            return None
        kinds = {inits[s.acc].dtype for s in updates}
        dtype = next(iter(kinds))
        terms = math.prod([x.extent for x in chain])
        work = terms * math.prod([x.extent for x in loops])
        single = terms > BLOCK and len(chain) == 1
        if len(kinds) > 1 or dtype.kind != "f" or dtype.itemsize < 4 or single:
            return None
        if terms < LEAST_TERMS or work < LEAST_WORK:
            return None
        read = {s.buffer for s in loads.values()}
        far = sum([buffers[name].size for name in read]) * dtype.itemsize > NEAR_BYTES
        return cls(loops, body, leaf, chain, depends, dtype.itemsize, far)

    def best(self, registers: int) -> Tile | None:
        """The tile with the least estimated time among the large ones."""
        tiles = list(self.tiles(registers * 25 // 32))
        least = LARGE * max([t.results for t in tiles], default=0)
        large = [tile for tile in tiles if tile.results >= least]
        return min(large, key=lambda tile: self.cost(tile, registers - 2), default=None)

    def tiles(self, accumulators: int) -> Iterator[Tile]:
        """The tiles with few enough vectors of results."""
        used = frozenset().union(*[self.depends[s.id] for s in self.leaf if isinstance(s, Load)])
        updates = sum([isinstance(s, Update) for s in self.leaf])
        extents = {x.axis: x.extent for x in self.loops if x.axis in used and x.extent > 1}
        for axis, extent in extents.items():
            if not self.unit(axis):
                continue
            lanes = VECTOR_BYTES // self.width
            while lanes >= 2 * extent:
                lanes //= 2
            most = max(1, extent // lanes)
            others = [a for a in extents if a != axis]
            pairs = list(itertools.combinations(others, 2)) or [tuple(others)]
            for vectors, pair in itertools.product(range(1, min(6, most) + 1), pairs):
                choices = [self.factors(extents[a]) for a in pair]
                for factors in itertools.product(*choices):
                    if updates * vectors * math.prod(factors) <= accumulators:
                        yield Tile(axis, lanes, vectors, tuple(zip(pair, factors, strict=True)))

    def factors(self, extent: int) -> list[int]:
        """The places of a tile along an axis."""
        most = 2 if self.is_short(extent) else extent
        return [f for f in _FACTORS if f <= most]

    def is_short(self, extent: int) -> bool:
        """Whether an axis is so short that sizes would not share larger tiles; operands that are
        far should be read by few tiles."""
        return SHORT[0] <= extent < SHORT[1] and not self.far

    def overlaps(self, extent: int, size: int) -> bool:
        """Whether the last tile of a ragged axis overlaps its neighbour."""
        return extent >= MANY_TILES * size or self.is_short(extent)

    def spans(self, extent: int, size: int, grain: int) -> list[tuple[float, int]]:
        """(how many, how long) of the full parts of an axis and of the last one; of many the mean
        number, so that the choice of a tile does not depend on divisors."""
        if self.overlaps(extent, size):
            return [(extent / size + 0.5, size)]
        full, rest = divmod(extent, size)
        found: list[tuple[float, int]] = [(full, size)] if full else []
        return found + ([(1, -(-rest // grain) * grain)] if rest else [])

    def unit(self, axis: str) -> bool:
        """Whether every access in the sum is one vector, or one number, along an axis."""
        loads = [s for s in self.leaf if isinstance(s, Load) and axis in self.depends[s.id]]
        plain = all([s.predicate is None and not s.gather for s in loads])
        return plain and all([stride_of(s.index, axis) == 1 for s in loads]) and bool(loads)

    def cost(self, tile: Tile, registers: int) -> float:
        """Cycles: what the sum costs, and a little for each tile."""
        factors = {tile.axis: tile.vectors, **dict(tile.others)}
        terms = math.prod([x.extent for x in self.chain])
        extents = {x.axis: x.extent for x in self.loops}
        spread = math.prod([n for a, n in extents.items() if a not in factors])
        spans = [self.spans(extents[tile.axis], tile.lanes * tile.vectors, tile.lanes)]
        spans += [self.spans(extents[a], f, 1) for a, f in tile.others]
        total = 0.0
        for parts in itertools.product(*spans):
            count = math.prod([c for c, _ in parts])
            sizes = dict(zip(factors, [n for _, n in parts], strict=True))
            sizes[tile.axis] = -(-sizes[tile.axis] // tile.lanes)
            cycles, held = self.step(sizes)
            if held > registers:
                cycles *= 2
            results = math.prod(sizes.values())
            total += count * (terms * cycles + 10 + self.ending(tile) * results)
        variants = math.prod([len(parts) for parts in spans])
        total *= spread * (1 + VARIANT * variants)
        split = spread == 1 and tile.others and len(spans[1]) > 1  # loops at the top
        return total * UNSHARED if split and total > SHARED_CYCLES else total

    def ending(self, tile: Tile) -> float:
        """Cycles of what follows the sum, for one vector."""
        strides = [stride_of(s.index, tile.axis) for s in self.body if isinstance(s, Store)]
        scattered = sum([s not in (0, 1) for s in strides])
        return 3.0 + 1.5 * tile.lanes * scattered

    def step(self, sizes: dict[str, int]) -> tuple[float, int]:
        """Cycles of one term of a tile, and the registers that it holds."""
        work, held = 0.0, 1
        for s in self.leaf:
            if isinstance(s, (Load, Op, Update)):
                axes = self.depends[s.id] if not isinstance(s, Update) else sizes.keys()
                copies = math.prod([n for a, n in sizes.items() if a in axes])
                fused = isinstance(s, Op) and s.op == "mul"
                work += 0 if fused else 0.5 * copies
                if isinstance(s, Update) or (isinstance(s, Load) and len(axes & sizes.keys()) < 2):
                    held += copies if isinstance(s, Update) or copies < 7 else 2
        return max(work, LATENCY_CYCLES) + 0.5, held


def _main_chain(body: Body) -> list[Loop] | None:
    """The reduce loops, one inside the other, of the largest sum of a body."""
    chains = [c for s in body if isinstance(s, Loop) for c in [_chain(s)]]
    if not chains or any([c is None for c in chains]):
        return None
    return max([c for c in chains if c], key=lambda c: math.prod([x.extent for x in c]))


def _chain(loop: Loop) -> list[Loop] | None:
    if loop.kind != "reduce":
        return None
    inner = [s for s in loop.body if isinstance(s, Loop)]
    if not inner:
        return [loop]
    rest = _chain(inner[0]) if len(inner) == 1 else None
    return None if rest is None else [loop, *rest]


def _is_plain(loops: Sequence[Loop], body: Body, buffers: dict[str, Buffer]) -> bool:
    """Whether iterations can be interleaved: nothing is written that is read, or written twice."""
    written = [s for s in walk(body) if isinstance(s, Store)]
    if any([s.mode != "set" or s.scatter or s.predicate is not None for s in written]):
        return False
    loaded = {s.buffer for s in walk(body) if isinstance(s, Load)}
    touched = loaded | {s.buffer for s in written}
    if any([buffers[name].role not in ("in", "out") for name in touched]):
        return False
    inside = any([isinstance(s, (Store, Init)) for x in body if isinstance(x, Loop)
                  for s in walk(x.body)])  # fmt: skip
    carries = any([isinstance(s, Init) and s.op == "carry" for s in walk(body)])
    return not inside and not carries and not loaded & {s.buffer for s in written}


def _dependences(body: Body, axes: set[str]) -> dict[int, frozenset[str]]:
    """For each value, the parallel axes that it depends on; a sum depends on all of them."""
    found: dict[int, frozenset[str]] = {}
    every, none = frozenset(axes), frozenset[str]()
    for s in walk(body):
        if isinstance(s, Read):
            found[s.id] = every
        elif isinstance(s, (Const, Index, Load, Op)):
            own = none
            if isinstance(s, (Index, Load)):
                own |= frozenset([a for a, _ in s.index.terms if a in axes])
            uses = s.args if isinstance(s, Op) else ()
            if isinstance(s, Load):
                uses = (*[v for v, _ in s.gather], *([] if s.predicate is None else [s.predicate]))
            found[s.id] = own.union(*[found.get(v, none) for v in uses])
    return found


# --- tiling


class _Tiler:
    """Writes the nest with one tile."""

    def __init__(self, nest: _Nest, tile: Tile, names: Names) -> None:
        self.nest, self.tile, self.names = nest, tile, names
        self.tiled = {tile.axis, *[a for a, _ in tile.others]}
        self.extents = {x.axis: x.extent for x in nest.loops}

    def run(self) -> list[Statement]:
        """Full tiles and those for what is left, inside the other loops."""
        outer = [x for x in self.nest.loops if x.axis not in self.tiled]
        body: list[Statement] = self.others(list(self.tile.others), {}, {})
        for loop in reversed(outer):
            body = [loop._replace(body=tuple(body))]
        return body

    def others(
        self, left: list[tuple[str, int]], moves: dict[str, _Move], sizes: dict[str, int]
    ) -> list[Statement]:
        """Loops over the tiles along the other axes, then along the lane axis."""
        if not left:
            return self.along(moves, sizes)
        (axis, factor), *rest = left
        full, extra = divmod(self.extents[axis], factor)
        if not extra and factor > 1 and self.nest.is_short(self.extents[axis]):
            full, extra = full - 1, factor  # the same loops for the sizes beside it
        out: list[Statement] = []
        if full:
            name = self.names.name(axis)
            move = _Move(0, ((name, factor),))
            inner = self.others(rest, {**moves, axis: move}, {**sizes, axis: factor})
            out.append(Loop(name, full, "parallel", tuple(inner)))
        if extra:
            if self.nest.overlaps(self.extents[axis], factor):
                extra = factor
            move = _Move(self.extents[axis] - extra, ())
            out += self.others(rest, {**moves, axis: move}, {**sizes, axis: extra})
        return out

    def along(self, moves: dict[str, _Move], sizes: dict[str, int]) -> list[Statement]:
        """Tiles along the lane axis; the last one may overlap its neighbour."""
        axis, lanes, vectors, _ = self.tile
        extent = self.extents[axis]
        full, rest = divmod(extent, lanes * vectors)
        out: list[Statement] = []
        if extent < lanes:
            return [self.lanes(moves, {**sizes, axis: 1}, 0, (), extent)]
        if full:
            name = self.names.name(axis)
            terms = ((name, lanes * vectors),)
            body = self.lanes(moves, {**sizes, axis: vectors}, 0, terms, lanes)
            out.append(Loop(name, full, "parallel", (body,)))
        if rest:
            count = vectors if self.nest.overlaps(extent, lanes * vectors) else -(-rest // lanes)
            start = extent - count * lanes
            out.append(self.lanes(moves, {**sizes, axis: count}, start, (), lanes))
        return out

    def lanes(
        self,
        moves: dict[str, _Move],
        sizes: dict[str, int],
        start: int,
        terms: tuple[tuple[str, int], ...],
        count: int,
    ) -> Loop:
        """The vector loop, which is one pass, with everything written out inside."""
        name = self.names.name(self.tile.axis)
        moves = {**moves, self.tile.axis: _Move(start, (*terms, (name, 1)))}
        writer = _Writer(self.nest, moves, sizes, self.tile, self.names)
        return Loop(name, count, "parallel", writer.run(), self.tile.lanes)


class _Move(NamedTuple):
    """`axis := const + sum(stride * new axis)`."""

    const: int
    terms: tuple[tuple[str, int], ...]


Offsets = tuple[tuple[str, int], ...]


class _Writer:
    """Writes the body once for each place of a tile; what several places share is written once.

    A value that depends on some of the tiled axes alone is identified by its place along these.
    """

    def __init__(
        self, nest: _Nest, moves: dict[str, _Move], sizes: dict[str, int], tile: Tile, names: Names
    ) -> None:
        self.nest, self.moves, self.sizes = nest, moves, sizes
        self.tile, self.names = tile, names
        self.order = [a for a, _ in tile.others] + [tile.axis]
        self.known: dict[tuple[int, Offsets], int] = {}
        self.accs: dict[tuple[str, Offsets], str] = {}
        self.defined = {s.id: s for s in walk(nest.body) if isinstance(s, (Const, Index, Load, Op))}
        self.axes: dict[str, str] = {}
        self.out: list[Statement] = []

    def run(self) -> Body:
        """The statements inside the vector loop."""
        self.body(self.nest.body)
        return tuple(self.out)

    def places(self) -> Iterator[Offsets]:
        """The places of the tile."""
        ranges = [range(self.sizes[a]) for a in self.order]
        for offsets in itertools.product(*ranges):
            yield tuple(zip(self.order, offsets, strict=True))

    def body(self, body: Body) -> None:
        """Roots in order: all places of one run of statements before the next loop."""
        run: list[Statement] = []
        for k, s in enumerate(body):
            if isinstance(s, Loop):
                self.roots(run)
                run = []
                self.loop(s)
            elif isinstance(s, (Const, Index, Load, Op)):
                if any([isinstance(x, Loop) for x in body[k:]]):
                    self.roots(run)  # sums of an earlier loop that this may be made of
                    run = []
                    for place in self.places():
                        self.value(s.id, place)
            else:
                run.append(s)
        self.roots(run)

    def roots(self, run: Sequence[Statement]) -> None:
        for place in self.places() if run else ():
            for s in run:
                _ROOTS[type(s)](self, s, place)

    def loop(self, loop: Loop) -> None:
        """A loop of a sum, in order; a long sum gets sums of its own for each pass of it."""
        name = self.names.name(loop.axis)
        self.axes[loop.axis] = name
        aside, self.out = self.out, []
        known, self.known = self.known, dict(self.known)
        blocks = self.blocks(loop)
        outer = dict(self.accs)
        for acc in blocks:
            init = next(s for s in self.nest.body if isinstance(s, Init) and s.acc == acc)
            for place in self.places():
                self.init(init._replace(start=0.0), place)
        self.body(loop.body)
        for acc in blocks:
            for place in self.places():
                id = self.names.id()
                self.out.append(Read(id, self.accs[acc, place]))
                self.accs[acc, place] = outer[acc, place]
                self.out.append(Update(self.accs[acc, place], id))
        inner, self.out, self.known = self.out, aside, known
        self.out.append(Loop(name, loop.extent, "serial", tuple(inner)))

    def blocks(self, loop: Loop) -> list[str]:
        """The sums that one pass of a loop of a long sum adds up by itself."""
        chain = self.nest.chain
        terms = math.prod([x.extent for x in chain])
        if terms <= BLOCK:
            return []
        inside = [math.prod([x.extent for x in chain[k + 1 :]]) for k in range(len(chain))]
        at = next((k for k, n in enumerate(inside) if n <= BLOCK), len(chain) - 2)
        at = min(at, len(chain) - 2)
        if loop.axis != chain[at].axis:
            return []
        found = [s.acc for s in self.nest.leaf if isinstance(s, Update)]
        sums = [s.acc for s in self.nest.body if isinstance(s, Init) and s.op == "add"]
        return [acc for acc in dict.fromkeys(found) if acc in sums]

    # Values.

    def local(self, id: int, place: Offsets) -> Offsets:
        """The part of a place that a value depends on."""
        depends = self.nest.depends.get(id, frozenset())
        return tuple([(a, n) for a, n in place if a in depends])

    def value(self, id: int, place: Offsets) -> int:
        """The id of a value at a place, written here unless it is known."""
        key = id, self.local(id, place)
        found = self.known.get(key)
        if found is None:
            s = self.defined.get(id)
            if s is None:
                return id  # from outside of the nest
            found = self.known[key] = self.names.id()
            statement = self.pure(s, found, place)
            self.out.append(statement)
        return found

    def pure(self, s: Statement, id: int, place: Offsets) -> Statement:
        """A statement that defines a value, at a place."""
        if isinstance(s, Op):
            return Op(id, s.op, tuple([self.value(a, place) for a in s.args]), s.dtype)
        if isinstance(s, Load):
            gather = tuple([(self.value(v, place), step) for v, step in s.gather])
            predicate = None if s.predicate is None else self.value(s.predicate, place)
            return Load(id, s.buffer, self.index(s.index, place), gather, predicate, s.other)
        if isinstance(s, Index):
            return Index(id, self.index(s.index, place), s.dtype)
        assert isinstance(s, Const)
        return s._replace(id=id)

    def index(self, index: Affine, place: Offsets) -> Affine:
        """An index at a place of this tile."""
        offsets = dict(place)
        for axis, move in self.moves.items():
            step = self.tile.lanes if axis == self.tile.axis else 1
            const = move.const + step * offsets[axis]
            index = substitute(index, axis, const, move.terms)
        terms = sorted([(self.axes.get(a, a), step) for a, step in index.terms])
        return Affine(index.const, tuple(terms))

    # Roots.

    def init(self, s: Init, place: Offsets) -> None:
        acc = self.accs[s.acc, place] = self.names.name(s.acc)
        start = Ref(self.value(s.start.id, place)) if isinstance(s.start, Ref) else s.start
        self.out.append(s._replace(acc=acc, start=start))

    def update(self, s: Update, place: Offsets) -> None:
        id = self.value(s.value, place)
        self.out.append(Update(self.accs[s.acc, place], id))

    def read(self, s: Read, place: Offsets) -> None:
        id = self.known[s.id, place] = self.names.id()
        self.out.append(Read(id, self.accs[s.acc, place]))

    def store(self, s: Store, place: Offsets) -> None:
        id = self.value(s.value, place)
        self.out.append(Store(s.buffer, self.index(s.index, place), id))


_ROOTS: dict[type, Callable[..., None]] = {
    Init: _Writer.init,
    Update: _Writer.update,
    Read: _Writer.read,
    Store: _Writer.store,
}
