"""Calls of functions of JAX's names with one argument altered: empty, 0-d, NaN, of another dtype,
an axis counted from the end or out of range, another shape.

A function is called with the first arguments of `CANDIDATES` (or of its row in `SPECIAL`) that JAX
takes, and with each of them altered in each way of its kind.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from keyword_cases import CANDIDATES, SPECIAL, Args

# Functions that NumPy has are NumPy's own here.
GROUPS = ("jax.lax", "jax.lax.linalg", "jax.nn", "jax.ops")


def _bools(x: np.ndarray) -> np.ndarray:
    return x > 0.5


def _with_nan(x: np.ndarray) -> np.ndarray | None:
    if x.dtype.kind not in "fc" or not x.size:
        return None
    x = x.copy()
    x.flat[x.size // 2] = np.nan
    return x


def _with_infinity(x: np.ndarray) -> np.ndarray | None:
    if x.dtype.kind not in "fc" or x.size < 2:
        return None
    x = x.copy()
    x.flat[0], x.flat[x.size - 1] = np.inf, -np.inf
    return x


OF_ARRAYS: dict[str, Callable[[np.ndarray], Any]] = {
    "empty": lambda x: x[:0],
    "empty last": lambda x: x[..., :0] if x.ndim > 1 else None,
    "0-d": lambda x: x.reshape(-1)[0],
    "one": lambda x: x.reshape(-1)[:1],
    "nan": _with_nan,
    "inf": _with_infinity,
    "int": lambda x: (x * 4).astype(np.int32) if x.dtype.kind == "f" else None,
    "float": lambda x: x + 0.25 if x.dtype.kind == "i" else None,
    "uint8": lambda x: (abs(x) * 4).astype(np.uint8),
    "bool": _bools,
    "complex": lambda x: x + 0.5j if x.dtype.kind == "f" else None,
    "float16": lambda x: x.astype(np.float16),
    "short": lambda x: x[:-1] if x.ndim else None,
    "narrow": lambda x: x[..., :-1] if x.ndim > 1 else None,
    "axis more": lambda x: x[None],
    "negative": lambda x: -x,
    "list": lambda x: x.tolist(),
}  # fmt: skip
OF_INTEGERS: dict[str, Any] = {"-1": -1, "-2": -2, "0": 0, "2": 2, "9": 9, "-9": -9, "0.5": 0.5}
OF_FLOATS: dict[str, Any] = {
    "0.0": 0.0, "-1.5": -1.5, "nan": np.nan, "inf": np.inf, "int": 2, "1j": 1j, "bool": True,
}  # fmt: skip
OF_TUPLES: dict[str, Callable[[tuple[Any, ...]], Any]] = {
    "empty": lambda t: (),
    "negated": lambda t: tuple(-x - 1 for x in t),
    "large": lambda t: tuple(x + 7 for x in t),
    "twice": lambda t: t + t,
    "list": list,
    "first": lambda t: t[0],
}


def altered(x: Any) -> Iterator[tuple[str, Any]]:
    """An argument in other ways, with their names."""
    if isinstance(x, np.ndarray):
        for name, f in OF_ARRAYS.items():
            if (y := f(x)) is not None:
                yield name, y
    elif isinstance(x, bool):
        yield "not", not x
    elif isinstance(x, int):
        yield from OF_INTEGERS.items()
    elif isinstance(x, float):
        yield from OF_FLOATS.items()
    elif isinstance(x, tuple) and x and all([isinstance(y, int) for y in x]):
        for name, of in OF_TUPLES.items():
            yield name, of(x)


def calls(args: Args) -> Iterator[tuple[int, str, Args]]:
    """The place and the name of an alteration, and the arguments with it."""
    yield -1, "", args
    for place, x in enumerate(args):
        for name, y in altered(x):
            yield place, name, (*args[:place], y, *args[place + 1 :])


def candidates(name: str) -> list[Args]:
    return list(SPECIAL.get(name) or CANDIDATES)


def summary(result: Any, leaves: Callable[[Any], list[Any]]) -> list[Any]:
    """Of each array of a result: kind, shape, how many are NaN and infinite, two weighted sums."""
    rows: list[Any] = []
    for leaf in leaves(result):
        x = np.asarray(leaf)
        y = x.astype(complex if x.dtype.kind == "c" else float).ravel()
        good = np.isfinite(y)
        by = np.cos(np.arange(1, y.size + 1))
        z = np.where(good, y, 0.0)
        sums = [float(f"{v:.6g}") for v in (z @ by, abs(z) @ abs(by)) for v in (v.real, v.imag)]
        rows.append([x.dtype.kind, list(x.shape), int(np.isnan(y).sum()), int((~good).sum()), sums])
    return rows
