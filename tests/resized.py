"""Arguments of an operation's case at other sizes, and both ways to compute it there."""

from __future__ import annotations

import warnings
import zlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from fgrad import grad, jit, tree

SIZES = (7, 9, 16, 21, 40, 64, 90, 131)


class Outcome(NamedTuple):
    """How often sizes were symbols, how often no trace was needed for a new one, and where results
    were other ones."""

    sizes: int
    templates: int
    untraced: int
    wrong: list[str]
    reasons: list[str]


def arguments(case: Any) -> tuple[Any, ...]:
    """The arguments of a case as it stands."""
    return case.args(np.random.default_rng(zlib.adler32(case.name.encode())))


def lengths(args: Sequence[Any]) -> list[int]:
    """The lengths of axes that a case can have changed."""
    arrays = [x for x in tree.leaves(list(args)) if isinstance(x, np.ndarray)]
    return sorted({n for x in arrays for n in x.shape if n > 1})


def resized(args: Sequence[Any], length: int, size: int) -> list[Any]:
    """The arguments with each axis of one length of another."""

    def leaf(x: Any) -> Any:
        if not isinstance(x, np.ndarray):
            return x
        for axis, n in enumerate(x.shape):
            if n == length:
                x = np.take(x, np.arange(size) % length, axis)
        return np.ascontiguousarray(x)

    return tree.map(leaf, list(args))


def gradient(case: Any) -> Callable[..., Any] | None:
    """The gradient of a second gradient's sum, of a case that has derivatives."""
    if not case.differentiable:
        return None

    def total(x: Any, *rest: Any) -> Any:
        leaves = tree.leaves(case.fun(x, *rest))
        return sum([np.sum(np.real(y)) for y in leaves if y.dtype.kind in "fc"])

    def second(x: Any, *rest: Any) -> Any:
        return np.sum(grad(total)(x, *rest) ** 2)

    return grad(second) if case.order > 1 else grad(total)


def same(a: Any, b: Any) -> bool:
    """Whether results are equal, to the bit."""
    xs, ys = tree.leaves(a), tree.leaves(b)
    return len(xs) == len(ys) and all(map(_equal, xs, ys))


def _equal(a: Any, b: Any) -> bool:
    a, b = np.asarray(a), np.asarray(b)
    plain = a.dtype == b.dtype and a.shape == b.shape and a.dtype.kind != "O"
    return plain and a.tobytes() == b.tobytes()


def _result(function: Callable[..., Any], args: Sequence[Any]) -> Any:
    try:
        return function(*args)
    except Exception as error:
        return error


def compared(function: Callable[..., Any], each: Iterator[list[Any]]) -> Outcome:
    """A function with sizes as symbols by the same one traced for every size."""
    fast, slow = jit(function, dynamic="auto"), jit(function)
    count = templates = untraced = 0
    wrong: list[str] = []
    for args in each:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            expected, found = _result(slow, args), _result(fast, args)
        shapes = [np.shape(x) for x in tree.leaves(args)]
        if isinstance(expected, Exception) or isinstance(found, Exception):
            if type(expected) is not type(found):
                wrong.append(f"{shapes}: {expected!r} became {found!r}")
            continue
        count += 1
        entry = list(fast.entries.values())[-1]  # type: ignore[attr-defined]
        templates += entry.is_instance
        untraced += not entry.is_traced
        if not same(expected, found):
            wrong.append(f"{shapes}: {expected!r} became {found!r}")
    reasons = [x for f in fast.sizes.known.values() for x in f.reasons]  # type: ignore[attr-defined]
    return Outcome(count, templates, untraced, wrong, reasons)


def over_sizes(case: Any, function: Callable[..., Any]) -> Iterator[Outcome]:
    """The outcomes for each length of the arguments."""
    given = arguments(case)
    for length in lengths(given):
        yield compared(function, (resized(given, length, n) for n in SIZES))
