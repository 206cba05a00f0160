"""L7. Collectives over named axes: what `vmap(f, axis_name=...)` maps is combined along its name.

    lax.psum(x, "data")            the sum along the axis, the same everywhere
    lax.ppermute(x, "data", ...)   what a neighbour has

They take a name, or several, one after the other, and trees of arrays.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np

from fgrad import tree
from fgrad.base.keywords import also_takes
from fgrad.base.kinds import is_list, is_tuple
from fgrad.errors import ShapeError
from fgrad.ir.aval import INT64
from fgrad.numpy.promote import as_array, convert, normalize_axis, strong
from fgrad.ops import collectives as _ops
from fgrad.ops.shape import move_axis, reshape
from fgrad.ops.varying import require_varying, spread
from fgrad.trace import Tracer, Value, bind
from fgrad.tracing.axes import axis_named
from fgrad.typing import ArrayLike, PyTree

AxisName: TypeAlias = "str | Sequence[str]"


def _names(axis_name: AxisName) -> list[Any]:
    """The names of the axes; what is no name raises its card where it is looked up."""
    return list(axis_name) if is_tuple(axis_name) or is_list(axis_name) else [axis_name]


def _value(x: ArrayLike) -> Value:
    value = as_array(x)
    return strong(value) if type(value) is Tracer else value


def _each(x: PyTree, axis_name: AxisName, what: str, one: Callable[[Value, str], Value]) -> PyTree:
    """Apply a collective to the leaves of a tree, along one axis after the other."""
    names = [axis_named(name, what).name for name in _names(axis_name)]

    def leaf(x: ArrayLike) -> Value:
        value = _value(x)
        for name in names:
            value = one(value, name)
        return value

    return tree.map(leaf, x)


@also_takes(axis_index_groups=None)
def psum(x: PyTree, axis_name: AxisName) -> PyTree:
    """The sum of the values along a named axis.

    Arguments:
        x: a tree of arrays; truth values are counted.
        axis_name: the name of the axis, or several.

    Raises:
        AxisNameError: there is no axis of that name.
        VaryingError: a leaf is the same everywhere along the axis; only Python numbers may be, as
            in `psum(1, "data")`, the size of the axis.

    Example:
        >>> import numpy as np, fgrad
        >>> share = lambda x: x / fgrad.lax.psum(x, "all")
        >>> fgrad.vmap(share, axis_name="all")(np.array([1.0, 2.0, 5.0]))
        array([0.125, 0.25 , 0.625])
    """

    def one(value: Value, name: str) -> Value:
        require_varying(value, name, "psum")
        counted = convert(value, INT64) if value.dtype.kind == "b" else value
        return _ops.psum(counted, name)

    return _each(x, axis_name, "psum", one)


@also_takes(axis_index_groups=None)
def pmean(x: PyTree, axis_name: AxisName) -> PyTree:
    """The mean of the values along a named axis; what is the same everywhere is its own mean.

    Example:
        >>> import numpy as np, fgrad
        >>> fgrad.vmap(lambda x: x - fgrad.lax.pmean(x, "all"), axis_name="all")(np.arange(3.0))
        array([-1.,  0.,  1.])
    """

    def one(value: Value, name: str) -> Value:
        total: Any = _ops.psum(convert(value, INT64) if value.dtype.kind == "b" else value, name)
        return total / axis_named(name, "pmean").size

    return _each(x, axis_name, "pmean", one)


@also_takes(axis_index_groups=None)
def pmax(x: PyTree, axis_name: AxisName) -> PyTree:
    """The largest of the values along a named axis, element by element; NaN if there is one.

    Where several are the largest, they share the derivative.

    Example:
        >>> import numpy as np, fgrad
        >>> fgrad.vmap(lambda x: fgrad.lax.pmax(x, "all"), axis_name="all")(np.array([1, 3, 2]))
        array([3, 3, 3])
    """
    return _each(x, axis_name, "pmax", lambda v, name: _bound(_ops.pmax_p, v, name, "pmax"))


@also_takes(axis_index_groups=None)
def pmin(x: PyTree, axis_name: AxisName) -> PyTree:
    """The smallest of the values along a named axis, element by element; NaN if there is one.

    Example:
        >>> import numpy as np, fgrad
        >>> fgrad.vmap(lambda x: fgrad.lax.pmin(x, "all"), axis_name="all")(np.array([2, 1, 3]))
        array([1, 1, 1])
    """
    return _each(x, axis_name, "pmin", lambda v, name: _bound(_ops.pmin_p, v, name, "pmin"))


def _bound(prim: Any, x: Value, name: str, what: str, **params: object) -> Value:
    return bind(prim, x, axis=name, places=axis_named(name, what).size, **params)


def pbroadcast(x: PyTree, axis_name: AxisName, source: int = 0) -> PyTree:
    """The value at one place of a named axis, everywhere along it.

    Arguments:
        source: the place.

    Example:
        >>> import numpy as np, fgrad
        >>> first = lambda x: fgrad.lax.pbroadcast(x, "all", 0)
        >>> fgrad.vmap(first, axis_name="all")(np.array([5.0, 1.0]))
        array([5., 5.])
    """

    def one(value: Value, name: str) -> Value:
        place = _place(source, axis_named(name, "pbroadcast").size, "pbroadcast")
        chosen = np.where(_ops.axis_index(name) == place, value, np.zeros((), value.dtype))
        total = _ops.psum(convert(chosen, INT64) if value.dtype.kind == "b" else chosen, name)
        return convert(total, value.dtype)

    return _each(x, axis_name, "pbroadcast", one)


def _place(k: int, size: int, what: str) -> int:
    if not -size <= k < size:
        raise ShapeError(f"lax.{what}: there is no place {k} along an axis of {size}.")
    return k % size


@also_takes(axis_index_groups=None, to="varying")
def all_gather(x: PyTree, axis_name: AxisName, *, axis: int = 0, tiled: bool = False) -> PyTree:
    """All values along a named axis as one array, the same everywhere.

    Arguments:
        axis: where they are stacked: the new axis of the result.
        tiled: whether they are joined along this axis of theirs instead.

    Example:
        >>> import numpy as np, fgrad
        >>> f = lambda x: x * fgrad.lax.all_gather(x, "all")
        >>> fgrad.vmap(f, axis_name="all")(np.array([1.0, 2.0]))
        array([[1., 2.],
               [2., 4.]])
    """

    def one(value: Value, name: str) -> Value:
        rank = len(value.shape)
        at = normalize_axis(axis, rank if tiled else rank + 1)
        items = _bound(_ops.all_gather_p, value, name, "all_gather")
        return _joined(items, at) if tiled else move_axis(items, 0, at)

    return _each(x, axis_name, "all_gather", one)


@also_takes(axis_index_groups=None)
def psum_scatter(
    x: PyTree, axis_name: AxisName, *, scatter_dimension: int = 0, tiled: bool = False
) -> PyTree:
    """The sum of the values along a named axis, of which each place has its item.

    Arguments:
        scatter_dimension: the axis of the items, as long as the named axis; it disappears.
        tiled: whether that axis is cut into equal blocks instead, one for each place.

    Raises:
        ShapeError: the axis has another length, or is no multiple of it.

    Example:
        >>> import numpy as np, fgrad
        >>> f = lambda x: fgrad.lax.psum_scatter(x, "all")
        >>> fgrad.vmap(f, axis_name="all")(np.array([[1.0, 2.0], [10.0, 20.0]]))
        array([11., 22.])
    """

    def one(value: Value, name: str) -> Value:
        at = normalize_axis(scatter_dimension, len(value.shape))
        counted = convert(value, INT64) if value.dtype.kind == "b" else value
        require_varying(counted, name, "psum_scatter")
        items = _items(counted, at, name, "psum_scatter", tiled)
        out = _bound(_ops.psum_scatter_p, items, name, "psum_scatter")
        return out

    return _each(x, axis_name, "psum_scatter", one)


@also_takes(axis_index_groups=None)
def all_to_all(
    x: PyTree, axis_name: AxisName, split_axis: int, concat_axis: int, *, tiled: bool = False
) -> PyTree:
    """Each place sends its k-th item to place k, and gets those sent to it, in order of the places.

    Arguments:
        split_axis: the axis of the items, as long as the named axis; it disappears.
        concat_axis: where what was received is stacked.
        tiled: whether the axis is cut into equal blocks, and these are joined along `concat_axis`.

    Raises:
        ShapeError: the axis has another length, or is no multiple of it.

    Example:
        >>> import numpy as np, fgrad
        >>> f = lambda x: fgrad.lax.all_to_all(x, "all", 0, 0)
        >>> fgrad.vmap(f, axis_name="all")(np.array([[1, 2], [3, 4]]))
        array([[1, 3],
               [2, 4]])
    """

    def one(value: Value, name: str) -> Value:
        at = normalize_axis(split_axis, len(value.shape))
        to = normalize_axis(concat_axis, len(value.shape))
        items = _items(value, at, name, "all_to_all", tiled)
        received = _bound(_ops.all_to_all_p, items, name, "all_to_all")
        return _joined(received, to) if tiled else move_axis(received, 0, to)

    return _each(x, axis_name, "all_to_all", one)


def _items(x: Value, at: int, name: str, what: str, tiled: bool) -> Value:
    """The items of an axis, or its blocks, as a new first axis."""
    size, length = axis_named(name, what).size, x.shape[at]
    if not tiled:
        if length != size:
            raise ShapeError(f"lax.{what}: axis {at} has length {length}, not {size}.")
        return move_axis(x, at, 0)
    if length % size:
        raise ShapeError(f"lax.{what}: axis {at} of length {length} has no {size} equal blocks.")
    shape = (*x.shape[:at], size, length // size, *x.shape[at + 1 :])
    return move_axis(reshape(x, shape), at, 0)


def _joined(items: Value, at: int) -> Value:
    """Items of the first axis joined along an axis of theirs."""
    moved = move_axis(items, 0, at)
    shape = moved.shape
    return reshape(moved, (*shape[:at], shape[at] * shape[at + 1], *shape[at + 2 :]))


def ppermute(x: PyTree, axis_name: AxisName, perm: Sequence[tuple[int, int]]) -> PyTree:
    """Each place gets the value of another one, or zeros.

    Arguments:
        perm: pairs (from, to); places to which nothing is sent get zeros.

    Raises:
        ShapeError: a place sends or receives twice, or does not exist.

    Example:
        >>> import numpy as np, fgrad
        >>> left = lambda x: fgrad.lax.ppermute(x, "all", [(0, 1), (1, 2)])
        >>> fgrad.vmap(left, axis_name="all")(np.array([1.0, 2.0, 3.0]))
        array([0., 1., 2.])
    """
    pairs = tuple([(int(start), int(to)) for start, to in perm])
    return _each(
        x, axis_name, "ppermute",
        lambda v, name: _bound(_ops.ppermute_p, v, name, "ppermute", perm=pairs),
    )  # fmt: skip


def pshuffle(x: PyTree, axis_name: AxisName, perm: Sequence[int]) -> PyTree:
    """Place k gets the value of place `perm[k]`.

    Raises:
        ShapeError: if `perm` is no permutation of the places.

    Example:
        >>> import numpy as np, fgrad
        >>> turned = lambda x: fgrad.lax.pshuffle(x, "all", [2, 1, 0])
        >>> fgrad.vmap(turned, axis_name="all")(np.array([1.0, 2.0, 3.0]))
        array([3., 2., 1.])
    """
    size = axis_size(axis_name)
    if sorted(perm) != list(range(size)):
        raise ShapeError(f"lax.pshuffle: {list(perm)} is no permutation of {size} places.")
    return ppermute(x, axis_name, [(start, k) for k, start in enumerate(perm)])


def axis_index(axis_name: AxisName) -> Value:
    """The place along a named axis, an int64; of several axes, counted with the last one fastest.

    Example:
        >>> import numpy as np, fgrad
        >>> fgrad.vmap(lambda x: x + fgrad.lax.axis_index("all"), axis_name="all")(np.zeros(3))
        array([0., 1., 2.])
    """
    place: Any = None
    for name in _names(axis_name):
        axis = axis_named(name, "axis_index")
        index = _ops.axis_index(axis.name)
        place = index if place is None else place * axis.size + index
    return place


def axis_size(axis_name: AxisName) -> int:
    """How many places a named axis has, or several together; a Python integer.

    Example:
        >>> import numpy as np, fgrad
        >>> fgrad.vmap(lambda x: x / fgrad.lax.axis_size("all"), axis_name="all")(np.ones(4))
        array([0.25, 0.25, 0.25, 0.25])
    """
    size = 1
    for name in _names(axis_name):
        size *= axis_named(name, "axis_size").size
    return size


def pvary(x: PyTree, axis_name: AxisName) -> PyTree:
    """The values, as ones that may differ along a named axis: a gradient by them is one for each
    place, not the sum over them.

    Example:
        >>> import numpy as np, fgrad
        >>> def gradient(w, x):
        ...     w = fgrad.lax.pvary(w, "all")
        ...     return fgrad.grad(lambda w: w * x)(w)
        >>> fgrad.vmap(gradient, (None, 0), axis_name="all")(1.0, np.array([2.0, 3.0]))
        array([2., 3.])
    """
    return _each(x, axis_name, "pvary", lambda v, name: spread(v, frozenset([name])))
