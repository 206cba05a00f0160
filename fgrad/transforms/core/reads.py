"""L4. Accumulate the cotangents of many reads of one array by one scatter, not a sum of arrays.

y_j = x[r_j] for j = 1 .. m:   sum_j pad(ct_j)   becomes   scatter(zeros, all r_j, all ct_j, "add"),
which walks what was read instead of m times the whole array.  Few reads of large parts stay pads,
which fuse into one loop; reads by arrays of integers are scattered in any case.  What was not read
is zero whatever it is multiplied by.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from fgrad.base.named_tuple import NamedTuple
from fgrad.base.sizes import is_symbolic
from fgrad.ir.aval import INT64, Aval
from fgrad.ops.elementwise import convert
from fgrad.ops.families import zeros_like
from fgrad.ops.index import scatter
from fgrad.ops.moved import every
from fgrad.ops.places import count, is_places, is_whole
from fgrad.ops.selected import ZERO, Selected, Support, Tangent, plain
from fgrad.ops.shape import add_n, concatenate, inverse_permutation, permute, reshape
from fgrad.trace import Value
from fgrad.tracing.record import Record
from fgrad.typing import PyTree

SCATTER_COST = 8  # an element that is scattered costs as much as so many that are padded and added


class Read(NamedTuple):
    """A read, and its cotangent."""

    record: Record
    places: tuple[PyTree, ...]  # along each axis: a range, or an integer array
    ct: Value
    support: Support | None


def read_of(record: Record, ct: Tangent) -> Read | None:
    """A read of an operation that says its places; None for others."""
    rule = record.prim.places
    places = None if rule is None else rule(record.values, record.params)
    if places is None:
        return None
    support = ct.support if type(ct) is Selected else None
    return Read(record, places, plain(ct), support)


def pull_reads(reads: Sequence[Read]) -> Value | Selected:
    """The cotangent of the array that all of them read, and its support if that is not all."""
    value = _sum(reads)
    if _covers([read for read in reads if read.support is None], value.shape):
        return value
    known = [read.support for read in reads if read.support is not None]

    def support(*found: Value) -> Value:
        each = iter(found)
        return _sum(
            [
                read._replace(ct=every(read.ct.shape) if read.support is None else next(each))
                for read in reads
            ]
        )

    return Selected(value, Support(known, support), ZERO)


def _covers(reads: Sequence[Read], shape: tuple[int, ...]) -> bool:
    """Whether reads that choose places along one and the same axis read all there is."""
    if is_symbolic(shape):
        return any([all(map(is_whole, read.places, shape)) for read in reads])
    for a, n in enumerate(shape):
        covered = np.zeros(n, bool)
        for read in reads:
            others = [b for b in range(len(shape)) if b != a]
            if is_places(read.places[a]) and all(
                [is_whole(read.places[b], shape[b]) for b in others]
            ):
                covered[read.places[a].start : read.places[a].stop : read.places[a].step] = True
        if covered.all():
            return True
    return not shape


def _sum(reads: Sequence[Read]) -> Value:
    shape = reads[0].record.values[0].shape
    groups: dict[tuple[bool, tuple[int, ...]], list[Read]] = {}
    for read in reads:
        arrays = tuple([a for a, r in enumerate(read.places) if not is_places(r)])
        chosen = tuple([a for a, r in enumerate(read.places) if not is_whole(r, shape[a])])
        groups.setdefault((bool(arrays), arrays or chosen), []).append(read)
    return add_n(
        [
            _pull_arrays(shape, axes, group) if arrays else _pull_group(shape, axes, group)
            for (arrays, axes), group in groups.items()
        ]
    )


def _pull_group(shape: tuple[int, ...], axes: tuple[int, ...], reads: list[Read]) -> Value:
    """The cotangent for reads that choose places along the same axes."""
    padded = len(reads) * math.prod([shape[a] for a in axes])
    written = sum([math.prod([count(read.places[a]) for a in axes]) for read in reads])
    if len(reads) == 1 or padded < SCATTER_COST * written:
        return add_n([_padded(read) for read in reads])
    if is_symbolic(shape):  # in the order of a scatter, whose places would be numbers
        return add_n([_padded(read) for read in sorted(reads, key=_starts)])
    return _scattered(shape, axes, reads)


def _pull_arrays(shape: tuple[int, ...], axes: tuple[int, ...], reads: list[Read]) -> Value:
    """The cotangent for reads by arrays along the same axes: their places one after the other."""
    if len(reads) == 1:
        return _padded(reads[0])
    rest = tuple([n for a, n in enumerate(shape) if a not in axes])
    rows = concatenate([reshape(read.ct, (_count(read, axes), *rest)) for read in reads], 0)
    where = [concatenate([_flat(read, a) for read in reads], 0) for a in axes]
    return scatter(zeros_like(Aval(shape, reads[0].ct.dtype)), where, rows, axes, "add")


def _count(read: Read, axes: tuple[int, ...]) -> int:
    return math.prod(read.places[axes[0]].shape)


def _flat(read: Read, axis: int) -> Value:
    """The places along an axis as a vector of int64, which those of other reads are, too."""
    return reshape(convert(read.places[axis], INT64), (_count(read, (axis,)),))


def _padded(read: Read) -> Value:
    prim, _, (x, *others), params, *_ = read.record
    like = Aval(x.shape, read.ct.dtype)  # which is bool for a support
    return prim.rules["transpose"](read.ct, (True,), like, *others, **params)[0]  # type: ignore[operator]


def _starts(read: Read) -> list[int]:
    return [r.start for r in read.places]


def _scattered(shape: tuple[int, ...], axes: tuple[int, ...], reads: list[Read]) -> Value:
    """One scatter into an array whose first axis is all chosen axes in one."""
    rest = tuple([a for a in range(len(shape)) if a not in axes])
    lengths = tuple([shape[a] for a in axes])
    width = tuple([shape[a] for a in rest])
    places: list[np.ndarray] = []
    rows: list[Value] = []
    for read in sorted(reads, key=_starts):
        grid = np.ix_(*[np.asarray(read.places[a], np.int64) for a in axes])
        places.append(np.ravel(np.ravel_multi_index(grid, lengths)))
        whole = reshape(read.ct, tuple([len(r) for r in read.places]))
        rows.append(reshape(permute(whole, axes + rest), (places[-1].size, *width)))
    where, count = np.concatenate(places), math.prod(lengths)
    table = concatenate(rows, 0)
    if not np.array_equal(where, np.arange(count)):
        zeros = zeros_like(Aval((count, *width), reads[0].ct.dtype))
        table = scatter(zeros, (where,), table, (0,), "add")
    return permute(reshape(table, lengths + width), inverse_permutation(axes + rest))
