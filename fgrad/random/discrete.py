"""L7. Random choices: categories, permutations, samples with and without replacement."""

from __future__ import annotations

import math

import numpy as np

from fgrad.base.keywords import also_takes
from fgrad.errors import ArgumentError, InPlaceError, ShapeError
from fgrad.ir.aval import INT64
from fgrad.numpy.promote import (
    as_array,
    broadcast_to,
    inexact,
    normalize_axis,
    user_line,
)
from fgrad.ops.elementwise import add, and_, gt, le, lit, log, lt, mul, neg, select, sub
from fgrad.ops.index import gather
from fgrad.ops.reduce import argmax, cumsum
from fgrad.ops.shape import index, iota, move_axis, reshape, slice_
from fgrad.ops.sort import sort
from fgrad.random.distributions import gumbel
from fgrad.random.keys import Key, Shape, as_shape, check_key
from fgrad.random.uniform import randint, unit, words
from fgrad.trace import Tracer, Value
from fgrad.typing import ArrayLike, PyTree


@also_takes("mode", out_sharding=None)
def categorical(
    key: Key,
    logits: ArrayLike,
    axis: int = -1,
    shape: Shape | None = None,
    replace: bool = True,
) -> Value:
    """Categories drawn with probabilities softmax(logits), by the largest of Gumbel numbers.

    Arguments:
        key: a key.
        logits: log-probabilities, up to a constant; -inf excludes a category.
        axis: the axis of the categories.
        shape: the shape of the result, which must end in that of `logits` without `axis`.
        replace: whether a category can be drawn again; without, the axes in front of those of
            `logits` hold different ones, in the order of the draws.

    Returns:
        int64 indices.

    Raises:
        ShapeError: if `shape` does not fit.
        ArgumentError: if there are fewer categories than draws without replacement.

    Example:
        >>> from fgrad import random
        >>> random.categorical(random.key(0), np.log([0.5, 0.4, 0.1]), shape=4)
        array([1, 1, 1, 1])
    """
    key, logits = check_key(key, "categorical"), inexact(logits)
    logits = move_axis(logits, normalize_axis(axis, logits.ndim), logits.ndim - 1)
    *lead, count = logits.shape
    shape = tuple(lead) if shape is None else as_shape(shape, "categorical")
    if shape[len(shape) - len(lead) :] != tuple(lead):
        raise ShapeError(
            f"random.categorical: shape {shape} does not end in {tuple(lead)}.", user_line()
        )
    if not replace:
        return _different(key, logits, shape[: len(shape) - len(lead)])
    noise = gumbel(key, (*shape, count), logits.dtype)
    return argmax(add(noise, broadcast_to(logits, noise.shape)), len(shape))


def _different(key: Key, logits: Value, front: tuple[int, ...]) -> Value:
    """Different categories: those of the largest sums with Gumbel numbers (Yellott 1977)."""
    *lead, count = logits.shape
    drawn = math.prod(front)
    _check_count(count, drawn, False)
    level = neg(add(logits, gumbel(key, logits.shape, logits.dtype)))
    order = sort((level, iota(logits.shape, INT64, len(lead))), len(lead))[-1]
    first = slice_(order, (0,) * len(order.shape), (*lead, drawn))
    return reshape(move_axis(first, len(lead), 0), (*front, *lead))


# --- permutations -------------------------------------------------------------------------------


@also_takes(out_sharding=None)
def permutation(key: Key, x: ArrayLike, axis: int = 0, independent: bool = False) -> Value:
    """The integers below `x`, or the slices of an array along an axis, in random order.

    Arguments:
        key: a key.
        x: an integer, or an array; differentiable.
        axis: the axis whose slices are reordered, all alike.
        independent: whether the elements along the axis have an order of their own in each place
            of the others.

    Raises:
        ArgumentError: if `x` is neither.

    Example:
        >>> from fgrad import random
        >>> sorted(random.permutation(random.key(0), 5).tolist())
        [0, 1, 2, 3, 4]
    """
    key = check_key(key, "permutation")
    if isinstance(x, (int, np.integer)):
        return _order(key, int(x))
    x = as_array(x)
    if not x.shape:
        raise ArgumentError("random.permutation takes an integer or an array.", user_line())
    axis = normalize_axis(axis, len(x.shape))
    if independent:
        shape = tuple(x.shape)
        keyed = (*words(key, 2, shape), iota(shape, INT64, axis))
        order: PyTree = sort(keyed, axis, num_keys=2)[-1]
        items: PyTree = x
        return np.take_along_axis(items, order, axis)
    return take(x, _order(key, x.shape[axis]), axis)


def _order(key: Key, count: int) -> Value:
    """A random order of `count` indices: sorted by 64 random bits each."""
    if count < 0:
        raise ArgumentError("random.permutation: the integer is negative.", user_line())
    return sort((*words(key, 2, (count,)), iota((count,), INT64)), 0, num_keys=2)[-1]


def take(x: Value, indices: Value, axis: int) -> Value:
    """The slices of `x` at `indices` along an axis."""
    taken = gather(x, (indices,), (axis,))
    rank = len(indices.shape)
    for _ in range(rank):  # the index axes stand first: to their place
        taken = move_axis(taken, 0, axis + rank - 1)
    return taken


def shuffle(key: Key, x: ArrayLike, axis: int = 0) -> None:
    """Refused: fgrad's random functions return new arrays.

    Arguments:
        x: an array.

    Raises:
        InPlaceError: always.

    Example:
        >>> import fgrad, numpy as np
        >>> try:
        ...     shuffle(fgrad.random.key(0), np.arange(3))
        ... except fgrad.errors.InPlaceError as error:
        ...     print(type(error).__name__)
        InPlaceError
    """
    raise InPlaceError(
        "random.shuffle would change its argument.",
        (*user_line(), ("write", "x = fgrad.random.permutation(key, x)")),
    )


# --- choice -------------------------------------------------------------------------------------


@also_takes("mode")
def choice(
    key: Key,
    a: ArrayLike,
    shape: Shape = (),
    replace: bool = True,
    p: ArrayLike | None = None,
    axis: int = 0,
) -> Value:
    """Random items of an array.

    Arguments:
        key: a key.
        a: an integer n, which stands for the array of 0 ... n - 1, or an array.
        shape: the shape of the draw.
        replace: whether an item can be drawn again.
        p: probabilities of the items, which need not be normalised; uniform if None.
        axis: the axis of `a` that holds the items.

    Returns:
        An array with `axis` of `a` replaced by the axes of `shape`.

    Raises:
        ArgumentError: if there are too few items, or known probabilities that are negative, not
            finite or all zero.

    Example:
        >>> from fgrad import random
        >>> random.choice(random.key(0), np.array([1.0, 2.0]), 5).shape
        (5,)
    """
    key, shape = check_key(key, "choice"), as_shape(shape, "choice")
    if isinstance(a, (int, np.integer)):
        x, axis, count = None, 0, int(a)
    else:
        x = as_array(a)
        if not x.shape:
            raise ArgumentError("random.choice takes an integer or an array.", user_line())
        axis = normalize_axis(axis, len(x.shape))
        count = x.shape[axis]
    _check_count(count, math.prod(shape), replace)
    weights = None if p is None else _weights(p, count, 1 if replace else math.prod(shape))
    chosen = _indices(key, count, shape, replace, weights)
    return chosen if x is None else take(x, chosen, axis)


def _check_count(count: int, drawn: int, replace: bool) -> None:
    if count < 1 and drawn:
        raise ArgumentError("random.choice: there is no item to choose.", user_line())
    if not replace and drawn > count:
        raise ArgumentError(
            f"random.choice: {drawn} different items cannot be drawn from {count}.", user_line()
        )


def _weights(p: ArrayLike, count: int, needed: int) -> Value:
    """Checked probabilities."""
    p = inexact(p)
    if p.shape != (count,):
        raise ShapeError(
            f"random.choice: p has shape {p.shape}, but there are {count} items.", user_line()
        )
    if not isinstance(p, Tracer):
        if not np.all(np.isfinite(p)) or np.any(p < 0):
            raise ArgumentError(
                "random.choice: p has negative or infinite elements, or NaN.", user_line()
            )
        if np.count_nonzero(p) < needed:
            raise ArgumentError(
                f"random.choice: p has fewer than {needed} items that are not zero.", user_line()
            )
    return p


def _indices(
    key: Key, count: int, shape: tuple[int, ...], replace: bool, weights: Value | None
) -> Value:
    if weights is None:
        if replace:
            return randint(key, shape, 0, max(count, 1))
        return _first(_order(key, count), shape)
    if replace:
        return _invert(key, cumsum(weights, 0), shape)
    # the largest of log p + Gumbel: the order of successive draws (Yellott 1977)
    positive = gt(weights, lit(weights, 0))
    safe = select(positive, weights, lit(weights, 1))
    level = select(positive, log(safe), lit(weights, -math.inf))
    rank = neg(add(level, gumbel(key, (count,), weights.dtype)))
    return _first(sort((rank, iota((count,), INT64)), 0)[-1], shape)


def _first(order: Value, shape: tuple[int, ...]) -> Value:
    """The first items of an order, in a shape."""
    return reshape(slice_(order, (0,), (math.prod(shape),)), shape)


def _invert(key: Key, total: Value, shape: tuple[int, ...]) -> Value:
    """How many cumulated weights are at most u, by bisection with gathers."""
    count = total.shape[0]
    u = unit(key, shape, total.dtype)
    level = mul(u, broadcast_to(index(total, (count - 1,)), shape))
    found = broadcast_to(np.zeros((1,) * len(shape), INT64), shape)
    step = 1 << (max(count - 1, 1).bit_length() - 1)
    while step:
        probe = add(found, np.int64(step))
        inside = lt(probe, np.int64(count))
        value = gather(total, (sub(probe, np.int64(1)),), (0,))
        found = select(and_(inside, le(value, level)), probe, found)
        step //= 2
    return found
