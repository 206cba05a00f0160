"""L5. `x[a:b]` where a and b come out of the data: as many elements as there are when it runs.

    for i in range(rows):                          a loop of loops, as one would write it for Numba:
        part = x[start[i] : start[i + 1]]              for k in range(start[i + 1] - start[i]):
        y[i] = part @ w[column[start[i] : ...]]            y[i] += x[start[i] + k] * ...

A ragged slice is a number of elements, and how each is found.  Elementwise functions and places
(`w[columns]`) compose that, reductions are loops over it; all else sees the whole under a mask
(`numpy/masked.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any

import numpy as np

from fgrad.base.provided import Provided
from fgrad.capture.values import as_tracer, is_unknown
from fgrad.ir.aval import INT64, Aval
from fgrad.numpy.bounds import traced_indices
from fgrad.numpy.masked import REDUCTIONS, Masked, UnknownSize, unknown_size
from fgrad.numpy.promote import stored, strong, weakened
from fgrad.numpy.reductions import sum_dtype
from fgrad.ops.checked import checked, empty_extremum, located
from fgrad.ops.size import number
from fgrad.trace import Tracer, trace
from fgrad.tracing.checks import checking
from fgrad.tracing.on_device import leaders

At = Callable[[Any], Any]
# (count, element, start, combine) -> start combined with all elements
fold: Provided[Callable[[Any, At, Any, Callable[[Any, Any], Any]], Any]] = Provided(
    "fgrad.capture.folds.fold"
)
INDEX = Aval((), INT64)
MOST_STEPS = 10_000  # of a formula that is looked through
LENGTHS = "operands could not be broadcast together: slices of unlike lengths"


class Ragged(UnknownSize):
    """Elements of a number that is traced.

    Arguments:
        at: the element at a place, or the elements at an array of places.
        count: how many there are.
        limit: how many there can be.
        settled: the same elements as they are now, where a later write into an array changes them.
        store: writes into the array of which they are a part.
    """

    __slots__ = ("at", "count", "dtype", "limit", "settled", "store")

    def __init__(
        self,
        at: At,
        count: Any,
        limit: int,
        settled: Callable[[], Ragged] | None = None,
        store: Callable[[Any], None] | None = None,
    ) -> None:
        leaders.add(Ragged)
        self.at, self.count, self.limit, self.store = at, count, limit, store
        self.settled = settled or (lambda: self)
        (out,) = trace(lambda k: [at(k)], [INDEX], "ragged", "for").program.out_avals
        if out.shape:
            raise unknown_size()
        self.dtype = out.dtype

    @property
    def ndim(self) -> int:
        """One axis."""
        return 1

    @property
    def size(self) -> Any:
        """The number of elements."""
        return self.count

    @property
    def shape(self) -> tuple[Any]:
        """The number of elements, which is traced."""
        return (self.count,)

    def masked(self) -> Masked:
        """The elements as a whole under a mask."""
        places = np.arange(self.limit)
        mask: Any = np.less(as_tracer(places), self.count)
        return Masked(self.at(as_tracer(places)), mask)

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **kwargs: Any) -> Any:
        if method == "reduce" and ufunc in REDUCTIONS and not kwargs:
            return REDUCTIONS[ufunc](*inputs)
        out = kwargs.pop("out", None)
        if method != "__call__" or kwargs or ufunc.nout > 1:
            raise unknown_size()
        if out is not None:
            return self._changed(ufunc, inputs, out[0])
        if ufunc is np.matmul:
            return _product(*inputs)
        return _together(ufunc, inputs) if ufunc.signature is None else self._refuse()

    def _changed(self, ufunc: np.ufunc, inputs: Sequence[Any], out: Any) -> Ragged:
        """`x[a:b] += v`: the slice, whose elements are others now."""
        if not isinstance(out, Ragged) or out.store is None or ufunc.signature is not None:
            raise unknown_size()
        new = _together(ufunc, inputs)
        if not np.can_cast(new.dtype, out.dtype, "same_kind"):
            raise unknown_size()
        out.store(new)
        return out

    def __array_function__(
        self, func: Callable[..., Any], types: Collection[type], args: Any, kwargs: Any
    ) -> Any:
        handler = FUNCTIONS.get(func)
        if handler is not None and len(args) == 1 and not kwargs:
            return handler(*args)
        if func in (np.dot, np.inner) and len(args) == 2:
            return _product(*args)
        if func is np.where and len(args) == 3:
            return _together(func, args)
        shared = {id(x): x.masked() for x in (*args, *kwargs.values()) if isinstance(x, Ragged)}
        named = {name: shared.get(id(x), x) for name, x in kwargs.items()}
        return func(*[shared.get(id(x), x) for x in args], **named)

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, Ragged) and index.dtype == np.bool_:
            both = _of_one_length((self, index))
            whole = both[0].masked()
            return whole[Masked(both[1].masked().whole, whole.mask)]
        if isinstance(index, slice):
            return _part(self, index)
        if isinstance(index, (int, np.integer)) or (isinstance(index, Tracer) and not index.shape):
            return _element(self, index)
        raise unknown_size()

    def __setitem__(self, index: Any, value: Any) -> None:
        if self.store is None or not (index is Ellipsis or index == slice(None)):
            raise unknown_size()
        self.store(value)

    def astype(self, dtype: Any) -> Ragged:
        """The elements with another dtype."""
        own = self.settled()
        return Ragged(lambda k: own.at(k).astype(dtype), self.count, self.limit)

    def copy(self) -> Ragged:
        """The elements as they are now."""
        return self.settled()


# --- slices and places ----------------------------------------------------------------------------


def ragged(x: Any, index: Any) -> Ragged | None:
    """`x[index]` if it is a ragged slice, or has ragged places; else None."""
    parts = list(index) if isinstance(index, tuple) else [index]
    cut = [k for k, part in enumerate(parts) if isinstance(part, slice)]
    uneven = [k for k, part in enumerate(parts) if isinstance(part, Ragged)]
    if len(parts) != np.ndim(x) or len(cut) + len(uneven) != 1:
        return None
    (axis,) = cut or uneven
    if any([np.ndim(part) for k, part in enumerate(parts) if k != axis]):
        return None
    base = x if isinstance(x, Tracer) else as_tracer(x)
    for k, part in enumerate(parts):
        if k != axis and is_unknown(part):
            parts[k] = traced_indices(part, k, base.shape[k])
    if uneven:
        return _at_places(base, parts, axis)
    part: slice = parts[axis]
    bounds = [b for b in (part.start, part.stop) if is_unknown(b)]
    if part.step not in (None, 1) or not bounds:
        return None
    length = base.shape[axis]
    start, stop = _bound(part.start, 0, length), _bound(part.stop, length, length)
    count = weakened(np.maximum(stop - start, 0))

    def reader(base: Tracer) -> At:
        def at(k: Any) -> Any:
            with checking(False):  # it is there, or behind the end, where nobody looks
                return base[(*parts[:axis], start + k, *parts[axis + 1 :])]

        return at

    def store(value: Any) -> None:
        row = (*parts[:axis], slice(None), *parts[axis + 1 :])
        base[row] = _written(base[row], value, start, count)

    def settled() -> Ragged:
        return Ragged(reader(base.twin()), count, length)

    return Ragged(reader(base), count, length, settled, store)


def _written(row: Any, value: Any, start: Any, count: Any) -> Any:
    """A row with `count` other elements, from a place on."""
    places = as_tracer(np.arange(row.size))
    if isinstance(value, Ragged):
        own = _of_one_length((value, Ragged(lambda k: k, count, row.size)))[0]
        count, value = own.count, own.at(np.maximum(places - start, 0))
    elif np.ndim(value):
        raise unknown_size()
    inside = np.logical_and(places >= start, places < start + count)
    return np.where(inside, stored(value, row.dtype), row)


def _part(x: Ragged, index: slice) -> Ragged:
    """`x[a:b]` and `x[::-1]` of a slice; a view of it, which cannot be written."""
    if index.step == -1 and index.start is index.stop is None:
        start, count = x.count - 1, x.count
    elif index.step in (None, 1):
        start, stop = _bound(index.start, 0, x.count), _bound(index.stop, x.count, x.count)
        count = weakened(np.maximum(stop - start, 0))
    else:
        raise unknown_size()
    sign = index.step or 1

    def of(own: Ragged) -> Ragged:
        return Ragged(lambda k: own.at(start + sign * k), count, x.limit)

    return Ragged(of(x).at, count, x.limit, lambda: of(x.settled()))


def _element(x: Ragged, index: Any) -> Any:
    """`x[i]` of a slice."""
    index = strong(index) if isinstance(index, Tracer) else index
    place = np.where(np.less(index, 0), index + x.count, index)
    inside = np.logical_and(place >= 0, place < x.count)
    error = located(IndexError("index out of bounds of a slice"))
    return x.at(checked(place, inside, error))


def _bound(b: Any, default: Any, length: Any) -> Any:
    """A bound of a slice, from 0 to the length."""
    if b is None:
        return strong(default) if isinstance(default, Tracer) else number(default, INT64)
    b = b.astype(INT64) if isinstance(b, Tracer) else np.int64(b)
    return np.clip(np.where(b < 0, b + length, b), 0, length)


def _at_places(base: Tracer, parts: Sequence[Any], axis: int) -> Ragged:
    """The elements at ragged places."""
    base, places = base.twin(), parts[axis].settled()
    if places.dtype.kind not in "iu":
        raise unknown_size()

    def at(k: Any) -> Any:
        place = places.at(k)
        if place.ndim:  # of the whole: what is behind the end is no place
            place = np.where(np.less(k, places.count), place, place.dtype.type(0))
        place = traced_indices(place, axis, base.shape[axis])
        with checking(False):
            return base[(*parts[:axis], place, *parts[axis + 1 :])]

    return Ragged(at, places.count, places.limit)


# --- formulas and reductions ----------------------------------------------------------------------


def _of_one_length(items: Sequence[Any]) -> list[Any]:
    """The items as they are now; those that are ragged have one number of elements, or it is an
    error when it runs."""
    first = next(x for x in items if isinstance(x, Ragged))
    count = first.count
    for x in items:
        if isinstance(x, Ragged) and not _same(x.count, first.count):
            equal = np.equal(count, x.count)
            count = weakened(checked(count, equal, located(ValueError(LENGTHS))))
        elif not isinstance(x, Ragged) and np.ndim(x):
            raise unknown_size()
    limit = min([x.limit for x in items if isinstance(x, Ragged)])
    found: list[Any] = []
    for x in items:
        if isinstance(x, Ragged):
            found.append(Ragged(x.settled().at, count, limit))
        else:
            found.append(x.twin() if isinstance(x, Tracer) else x)
    return found


def _same(a: Any, b: Any) -> bool:
    """Whether two numbers are the same one, or made by the same equations."""
    if a.builder is not b.builder:
        return False
    made = {k: record for record in a.builder.records for k in record.outs}
    pending, seen = [(a.index, b.index)], 0
    while pending and seen < MOST_STEPS:
        j, k = pending.pop()
        seen += 1
        if j == k:
            continue
        if j not in made or k not in made:
            return False
        one, other = made[j], made[k]
        if one.prim is not other.prim or one.params != other.params or one.prim.effect:
            return False
        for p, q in zip(one.operands, other.operands, strict=True):
            if type(p) is int and type(q) is int:
                pending.append((p, q))
            elif type(p) is not type(q) or np.shape(p) or np.shape(q) or p != q:
                return False
    return not pending


def _together(function: Callable[..., Any], items: Sequence[Any]) -> Ragged:
    """An elementwise function."""
    own = _of_one_length(items)

    def at(k: Any) -> Any:
        return function(*[x.at(k) if isinstance(x, Ragged) else x for x in own])

    like = next(x for x in own if isinstance(x, Ragged))
    return Ragged(at, like.count, like.limit)


def _folded(x: Ragged, start: Any, combine: Callable[[Any, Any], Any]) -> Any:
    own, dtype = x.settled(), start.dtype
    return fold.call(x.count, lambda k: own.at(k).astype(dtype), start, combine)


def _sum(x: Ragged) -> Any:
    return _folded(x, sum_dtype(x.dtype).type(0), np.add)


def _mean(x: Ragged) -> Any:
    return _sum(x if x.dtype.kind in "fc" else x.astype(np.float64)) / x.count


def _product(a: Any, b: Any) -> Any:
    if not isinstance(a, Ragged) or not isinstance(b, Ragged):
        raise unknown_size()
    return _sum(_together(np.multiply, (a, b)))


def _extremum(name: str, combine: Callable[[Any, Any], Any], sign: int) -> Callable[[Ragged], Any]:
    def of(x: Ragged) -> Any:
        if x.dtype.kind not in "iuf":
            raise unknown_size()
        limits: Any = np.iinfo(x.dtype) if x.dtype.kind in "iu" else None
        worst = sign * np.inf if limits is None else limits.max if sign > 0 else limits.min
        found = _folded(x, x.dtype.type(worst), combine)
        return checked(found, x.count > 0, located(empty_extremum(name)))

    return of


FUNCTIONS: dict[object, Callable[[Any], Any]] = {
    np.shape: lambda x: x.shape,
    np.size: lambda x: x.size,
    np.ndim: lambda x: 1,
    np.copy: lambda x: x.copy(),
    np.flip: lambda x: x[::-1],
    np.flipud: lambda x: x[::-1],
    np.sum: _sum,
    np.mean: _mean,
    np.prod: lambda x: _folded(x, sum_dtype(x.dtype).type(1), np.multiply),
    np.any: lambda x: _folded(x, np.bool_(False), np.logical_or),
    np.all: lambda x: _folded(x, np.bool_(True), np.logical_and),
    np.count_nonzero: lambda x: _sum(x != 0),
    np.max: _extremum("maximum", np.maximum, -1),
    np.amax: _extremum("maximum", np.maximum, -1),
    np.min: _extremum("minimum", np.minimum, 1),
    np.amin: _extremum("minimum", np.minimum, 1),
}
