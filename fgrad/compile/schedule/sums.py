"""L5. Long floating-point sums in blocks, so that they are as accurate as NumPy's pairwise sums.

A sum of more than BLOCK terms is taken block by block in its own dtype, which is fast, and the
blocks are added in float64; blocks of a float64 sum are added with a correction term (Kahan), in
serial loops.  float16 is summed in float32, as NumPy does.

    acc s = add f32 0.0                       acc s = add f64 0.0
    reduce i in 1000000:                      reduce o in 250:
      %0 = load x[i]                            acc t = add f32 0.0
      update s %0                    ->         reduce i in 4000:
    %1 = read s                                   %0 = load x[4000*o + i]
                                                  update t %0
                                                update s (convert f64 (read t))
                                              %1 = convert f32 (read s)
"""

from __future__ import annotations

import numpy as np

from fgrad.compile.kernel.ir import Const, Init, Loop, Op, Read, Ref, Statement, Update
from fgrad.compile.kernel.rewrite import Body, Names, map_indices, only_loop, substitute, walk

BLOCK = 4096
WHOLE = 64  # terms that are whole vectors of any type
_BOOL, _HALF, _SINGLE, _DOUBLE = (np.dtype(c) for c in ("bool", "f2", "f4", "f8"))


def block_sums(body: Body, names: Names) -> Body:
    """The body with long float sums blocked and half-precision sums widened."""
    out: list[Statement] = []
    wide: dict[str, Init] = {}  # accumulators that are kept in a wider dtype from here on
    corrections: dict[str, str] = {}  # for each of them, the name of the correction term
    for k, s in enumerate(body):
        if isinstance(s, Init) and _is_sum(s) and _needs_width(s, body[k + 1 :]):
            wide[s.acc] = s
            out += _wide_init(s, names)
            corrections[s.acc] = names.name(s.acc)
            if s.dtype == _DOUBLE:
                out.append(Init(corrections[s.acc], "carry", _DOUBLE, 0.0))
        elif isinstance(s, Read) and s.acc in wide:
            out += _wide_read(s, wide[s.acc], names)
        elif isinstance(s, Update) and s.acc in wide:
            out += _Blocks(wide, corrections, names).join(s)
        elif isinstance(s, Loop):
            mine = {a: wide[a] for a in _updated(s) if a in wide}
            s = s._replace(body=block_sums(s.body, names))
            out += _Blocks(mine, corrections, names).loop(s) if mine else [s]
        else:
            out.append(s)
    return tuple(out)


def _is_sum(s: Init) -> bool:
    return s.op == "add" and s.dtype.kind == "f"


def _updated(loop: Loop) -> list[str]:
    return list(dict.fromkeys([s.acc for s in walk(loop.body) if isinstance(s, Update)]))


def _wide_dtype(dtype: np.dtype) -> np.dtype:
    return _SINGLE if dtype == _HALF else _DOUBLE


def _needs_width(init: Init, rest: Body) -> bool:
    """Whether the sum is long (or half precision), and only reduce loops stand around its
    updates."""
    terms = 0
    for s in rest:
        if isinstance(s, Loop) and init.acc in _updated(s):
            reads = any([isinstance(r, Read) and r.acc == init.acc for r in walk(s.body)])
            loops = [s, *[r for r in walk(s.body) if isinstance(r, Loop)]]
            if reads or any([loop.kind != "reduce" for loop in loops]):
                return False
            terms += s.extent * _terms(s.body, {init.acc})
    return terms > BLOCK or (init.dtype == _HALF and terms > 1)


def _terms(body: Body, accs: set[str]) -> int:
    """How many values one run of the body adds to any of `accs`, at most."""
    total = 0
    for s in body:
        if isinstance(s, Update) and s.acc in accs:
            total += 1
        elif isinstance(s, Loop):
            total += s.extent * _terms(s.body, accs)
    return total


def _wide_init(s: Init, names: Names) -> list[Statement]:
    dtype = _wide_dtype(s.dtype)
    if s.dtype == _DOUBLE:
        return [s._replace(op="carry")]
    if isinstance(s.start, Ref):
        start = Op(names.id(), "convert", (s.start.id,), dtype)
        return [start, Init(s.acc, s.op, dtype, Ref(start.id))]
    return [Init(s.acc, s.op, dtype, float(np.asarray(s.start).astype(s.dtype)))]


def _wide_read(s: Read, init: Init, names: Names) -> list[Statement]:
    if init.dtype == _DOUBLE:
        return [s]
    raw = Read(names.id(), s.acc)
    return [raw, Op(s.id, "convert", (raw.id,), init.dtype)]


class _Blocks:
    """Rewrites the loops that update some widened accumulators."""

    def __init__(self, wide: dict[str, Init], corrections: dict[str, str], names: Names) -> None:
        self.wide = wide
        self.corrections = corrections
        doubles = any([init.dtype == _DOUBLE for init in wide.values()])
        self.kind = "serial" if doubles else "reduce"  # of the loops around the blocks
        self.names = names

    def loop(self, loop: Loop) -> list[Statement]:
        """The loop as blocks of at most BLOCK terms, each summed in the narrow dtype."""
        inner = _terms(loop.body, set(self.wide))
        if any([init.dtype == _HALF for init in self.wide.values()]):
            return [loop._replace(body=self.direct(loop.body))]
        if loop.extent * inner <= BLOCK:
            return self.block(loop)
        if inner > BLOCK // 2:
            return [loop._replace(kind=self.kind, body=self.descend(loop.body))]
        size = _block_size(loop.extent, BLOCK // inner)
        count, rest = divmod(loop.extent, size)
        outer = self.names.name(loop.axis)
        body = self._moved(loop.body, loop.axis, 0, ((outer, size), (loop.axis, 1)))
        out: list[Statement] = []
        tail = only_loop(self.names.copy((loop._replace(extent=rest),))) if rest else None
        blocks = self.block(loop._replace(extent=size, body=body))
        out.append(Loop(outer, count, self.kind, tuple(blocks)))
        if tail is not None:
            body = self._moved(tail.body, tail.axis, count * size, ((tail.axis, 1),))
            out += self.block(tail._replace(body=body))
        return out

    @staticmethod
    def _moved(body: Body, axis: str, const: int, terms: tuple[tuple[str, int], ...]) -> Body:
        return map_indices(body, lambda index: substitute(index, axis, const, terms))

    def direct(self, body: Body) -> Body:
        """The body with every term converted before it is added."""
        out: list[Statement] = []
        for s in body:
            if isinstance(s, Loop):
                s = s._replace(body=self.direct(s.body))
            if isinstance(s, Update) and s.acc in self.wide:
                out += self.join(s)
            else:
                out.append(s)
        return tuple(out)

    def descend(self, body: Body) -> Body:
        """The body with the loops inside it made into blocks."""
        out: list[Statement] = []
        for s in body:
            if isinstance(s, Loop) and not set(_updated(s)).isdisjoint(self.wide):
                out += self.loop(s)
            elif isinstance(s, Update) and s.acc in self.wide:
                out += self.join(s)
            else:
                out.append(s)
        return tuple(out)

    def block(self, loop: Loop) -> list[Statement]:
        """The loop with narrow accumulators of its own, which then join the wide ones."""
        copier = self.names.copier()
        copier.new_id = lambda id: id
        copier.new_axis = lambda axis: axis
        before: list[Statement] = []
        after: list[Statement] = []
        for acc in [a for a in _updated(loop) if a in self.wide]:
            init = self.wide[acc]
            narrow = copier.accs[acc] = self.names.name(acc)
            before.append(Init(narrow, "add", init.dtype, 0.0))
            read = Read(self.names.id(), narrow)
            after += [read, *self.join(Update(acc, read.id))]
        return [*before, *copier.body((loop,)), *after]

    def join(self, s: Update) -> list[Statement]:
        """Add a narrow value to the wide accumulator."""
        init, fresh = self.wide[s.acc], self.names.id
        if init.dtype != _DOUBLE:
            value = Op(fresh(), "convert", (s.value,), _wide_dtype(init.dtype))
            return [value, Update(s.acc, value.id)]
        total, lost = Read(fresh(), s.acc), Read(fresh(), self.corrections[s.acc])
        term = Op(fresh(), "sub", (s.value, lost.id), _DOUBLE)
        new = Op(fresh(), "add", (total.id, term.id), _DOUBLE)
        gained = Op(fresh(), "sub", (new.id, total.id), _DOUBLE)
        error = Op(fresh(), "sub", (gained.id, term.id), _DOUBLE)
        infinite, zero = Op(fresh(), "isnan", (error.id,), _BOOL), Const(fresh(), 0.0, _DOUBLE)
        kept = Op(fresh(), "select", (infinite.id, zero.id, error.id), _DOUBLE)
        updates = [Update(s.acc, new.id), Update(self.corrections[s.acc], kept.id)]
        return [total, lost, term, new, gained, error, infinite, zero, kept, *updates]


def _block_size(extent: int, limit: int) -> int:
    """The size of blocks: about the same for all of them, and whole vectors where they are long.

    It has no use for divisors, which every extent has others of.

    >>> _block_size(100_000, 4096), _block_size(1001, 3)
    (4032, 3)
    """
    if limit < 2 * WHOLE:
        return limit
    count = -(-extent // limit)
    size = -(-extent // count)
    return min(limit // WHOLE * WHOLE, -(-size // WHOLE) * WHOLE)
