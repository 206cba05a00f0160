"""Functions of arrays whose sizes decide how a device runs them: rows of a table."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

import fgrad
import fgrad.numpy as fnp

INTEGERS = "bhilBHIL"
REALS = "efd"
EVERY = "?" + INTEGERS + REALS + "FD"


class SizeCase(NamedTuple):
    """A function, the shapes of its arguments for a size, and the dtypes that it is tried in."""

    name: str
    fun: Callable[..., Any]
    shapes: Callable[[int], tuple[tuple[int, ...], ...]]
    dtypes: str = "f"
    least: int = 0  # the smallest size


def softmax(x: Any) -> Any:
    """Of rows."""
    e = np.exp(x - np.max(x, axis=-1, keepdims=True))
    return e / np.sum(e, axis=-1, keepdims=True)


def layer_norm(x: Any) -> Any:
    """Of rows."""
    centred = x - np.mean(x, axis=-1, keepdims=True)
    return centred / np.sqrt(np.mean(centred * centred, axis=-1, keepdims=True) + x.dtype.type(0.1))


def gradient_of(fun: Callable[..., Any]) -> Callable[..., Any]:
    """The gradient of a sum of squares."""
    return fgrad.grad(lambda x: np.sum(fun(x) ** 2 * x))


def places(x: Any) -> Any:
    """Some places of the first axis, with repetitions."""
    n = x.shape[0]
    return (np.arange(2 * n + 3) * 7 + 3) % n


def many(*xs: Any) -> Any:
    """More buffers than a small skeleton takes."""
    total = sum(xs[1:], start=xs[0])
    return total, *[x * total for x in xs[:9]]


def flat(n: int) -> tuple[tuple[int, ...], ...]:
    return ((n,),)


def rows(n: int) -> tuple[tuple[int, ...], ...]:
    return ((3, n),)


def columns(n: int) -> tuple[tuple[int, ...], ...]:
    return ((n, 3),)


def between(n: int) -> tuple[tuple[int, ...], ...]:
    return ((2, n, 3),)


def square(n: int) -> tuple[tuple[int, ...], ...]:
    return ((n, 37),)


SIZE_CASES = [
    SizeCase("affine", lambda x: x * x + x, flat, EVERY),
    SizeCase("compare", lambda x: x > x[::-1], flat, "bBlefd"),
    SizeCase("mixed", lambda x: (x + 1.5, x.astype("b"), x > 2), flat, "fdl"),
    SizeCase("halves", lambda x: np.exp(np.tanh(x)) * x.astype(np.float32), flat, "e"),
    SizeCase("odd_rows", lambda x, y: x * y + 1, lambda n: ((5, n), (n,)), "efdb"),
    SizeCase("sum", lambda x: (np.sum(x), np.max(x), np.min(x)), flat, "?" + INTEGERS + REALS, 1),
    SizeCase("moments", lambda x: (np.mean(x), np.var(x), np.any(x > 1), np.all(x < 9)), flat,
             "efdFb", 1),
    SizeCase("sums.complex", lambda x: (np.sum(x, 1), np.cumsum(x, 1)), rows, "FD", 1),
    SizeCase("argmax", lambda x: (np.argmax(x), np.argmin(x)), flat, EVERY[:-2], 1),
    SizeCase("argmax.rows", lambda x: (np.argmax(x, 1), np.argmin(x, 0)), rows, "fdlb", 1),
    SizeCase("argmax.columns", lambda x: (np.argmax(x, 1), np.argmin(x, 0)), columns, "fb", 1),
    SizeCase("sums.rows", lambda x: (np.sum(x, 1), np.max(x, 1)), rows, "efdlb", 1),
    SizeCase("sums.columns", lambda x: (np.sum(x, 0), np.max(x, 0)), columns, "efdlb", 1),
    SizeCase("sums.several", lambda x: (np.sum(x, (0, 2)), np.sum(x, 1), np.max(x, (0, 1))),
             between, "fdl", 1),
    SizeCase("softmax", softmax, rows, "efd", 1),
    SizeCase("softmax.columns", lambda x: softmax(x.T).T, columns, "f", 1),
    SizeCase("softmax.gradient", gradient_of(softmax), rows, "fd", 1),
    SizeCase("layer_norm", layer_norm, rows, "efd", 1),
    SizeCase("layer_norm.gradient", gradient_of(layer_norm), rows, "fd", 1),
    SizeCase("logsumexp", lambda x: np.log(np.sum(np.exp(x))), flat, "fd", 1),
    SizeCase("max.gradient", gradient_of(lambda x: np.max(x, 1, keepdims=True) - x), rows, "f", 1),
    SizeCase("transpose", lambda x: x.T + 1, square, "?bhfdF"),
    SizeCase("transpose.two", lambda x, y: x.T * y + 1, lambda n: ((n, 40), (40, n)), "efd"),
    SizeCase("permute", lambda x: np.transpose(x, (2, 0, 1)) * 2, lambda n: ((n, 5, 33),), "fb"),
    SizeCase("join", lambda x: np.concatenate([x, x[::-1] * 2, x[1:]]), flat, "bfd"),
    SizeCase("pad", lambda x: np.pad(x * 2, (3, 2)) + 1, flat, "bfd"),
    SizeCase("steps", lambda x: (x[::2] * 2, x[::-3] + x[::-3]), flat, "bfd"),
    SizeCase("roll", lambda x: np.roll(x, 5) - x, flat, "f", 1),
    SizeCase("take", lambda x: x[places(x)] * 2, columns, "bfdF", 1),
    SizeCase("add_at", lambda x: fnp.asarray(x).at[places(x)].add(x[places(x)] * 2), columns,
             "bhlfd", 1),
    SizeCase("set_at", lambda x: fnp.asarray(x).at[places(x)].set(x[places(x)[::-1]]), flat,
             "bfd", 1),
    SizeCase("max_at", lambda x: fnp.asarray(x).at[places(x)].max(x[places(x)[::-1]]), flat,
             "hLfd", 1),
    SizeCase("take.gradient", gradient_of(lambda x: np.sum(x[places(x)] ** 2)), columns, "fd", 1),
    SizeCase("cumulative", lambda x: (np.cumsum(x), np.cumprod(x)), flat, "bhlefd"),
    SizeCase("cumulative.columns", lambda x: np.cumsum(x, 0), columns, "fl"),
    SizeCase("cumulative.rows", lambda x: np.cumsum(x, 1), rows, "fl"),
    SizeCase("sort", lambda x: (np.sort(x), np.argsort(x, stable=True)), flat, EVERY[:-2]),
    SizeCase("sort.columns", lambda x: np.sort(x, 0), columns, "fb"),
    SizeCase("small_products", lambda x, y: x @ y, lambda n: ((n, 3, 4), (n, 4, 2)), "fdl"),
    SizeCase("product", lambda x, y: x @ y, lambda n: ((5, n), (n, 7)), "fd"),
    SizeCase("product.wide", lambda x, y: np.tanh(x @ y), lambda n: ((n, 5), (5, 7)), "efd"),
    SizeCase("convolve", lambda x, y: np.convolve(x, y), lambda n: ((n,), (5,)), "fd", 1),
    SizeCase("many", many, lambda n: ((n,),) * 20, "fb"),
    SizeCase("clip_where", lambda x: np.where(x > 0, x, np.clip(x, -1, 0)) + (x == x), flat, "bfd"),
]  # fmt: skip
