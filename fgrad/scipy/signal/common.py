"""L7. What the functions of `scipy.signal` share: dispatch, cards, precision, ends of signals."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np

from fgrad.base.lazy_import import lazy_module
from fgrad.errors import ArgumentError
from fgrad.numpy.arrange import moveaxis
from fgrad.numpy.promote import as_operand, convert, inexact, normalize_axis, promote, user_line
from fgrad.scipy._either import Either, refusal
from fgrad.trace import Value
from fgrad.typing import ArrayLike

plain = lazy_module("scipy.signal")

Window: TypeAlias = "str | tuple[object, ...] | ArrayLike"

of_signals = Either(plain)


def wrong(name: str, what: str, *writes: str) -> ArgumentError:
    """The error for an argument that SciPy refuses too."""
    rows = (*user_line(), *[("write", text) for text in writes])
    return ArgumentError(f"scipy.signal.{name}: {what}.", rows)


def chosen(name: str, what: str, given: object, known: Sequence[object]) -> None:
    """Raise unless an argument is one of the known ones."""
    if given not in known:
        writes = " or ".join([f"{what}={k!r}" for k in known])
        raise wrong(name, f"{what}={given!r}", writes)


def refused(name: str, what: str, why: str, write: str) -> None:
    """Raise the card for a way to call a function that has no traced form."""
    raise refusal(f"scipy.signal.{name} with {what}", why, write)


def in_precision(*given: ArrayLike) -> list[Value]:
    """Signals of one dtype, in single or double precision."""
    arrays = promote([inexact(as_operand(x)) for x in given])
    small = arrays[0].dtype == np.float16
    return [convert(x, np.dtype(np.float32)) if small else x for x in arrays]


def lines(x: Value, axis: int) -> tuple[Value, int]:
    """A signal with its axis last, and where that axis was."""
    place = normalize_axis(axis, len(x.shape))
    return moveaxis(x, place, -1), place


def extended(name: str, x: Value, n: int, padtype: str | None) -> Value:
    """The last axis continued by n values at both ends: odd, even, or constant."""
    chosen(name, "padtype", padtype, ("odd", "even", "constant", None))
    if padtype is None or not n:
        return x
    if padtype == "constant":
        return np.pad(x, [(0, 0)] * (len(x.shape) - 1) + [(n, n)], mode="edge")
    left, right = x[..., n:0:-1], x[..., -2 : -n - 2 : -1]
    if padtype == "odd":
        left, right = 2 * x[..., :1] - left, 2 * x[..., -1:] - right
    return np.concatenate([left, x, right], axis=-1)
