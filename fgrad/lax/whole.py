"""L7. Integers that say sizes, axes and places: what is none is refused, never cut off."""

from __future__ import annotations

from collections.abc import Iterable
from operator import index

import numpy as np

from fgrad.errors import ArgumentError, DtypeError
from fgrad.numpy.promote import as_array, user_line
from fgrad.trace import Value
from fgrad.typing import ArrayLike


def integers(values: object, name: str) -> tuple[int, ...]:
    """Known sizes, axes or bounds of the function `name`."""
    if not isinstance(values, Iterable):
        raise ArgumentError(
            f"lax.{name} takes a sequence of integers, not {values!r}.",
            (*user_line(), ("write", f"({values!r},)")),
        )
    return tuple([integer(v, name) for v in values])


def integer(value: object, name: str) -> int:
    """A known size, axis or bound."""
    if isinstance(value, (float, np.floating, str)):
        raise ArgumentError(
            f"lax.{name} takes an integer where it was given {value!r}.",
            (*user_line(), ("write", "int(x)")),
        )
    return index(value)  # type: ignore[arg-type]


def places(x: ArrayLike, name: str) -> Value:
    """An array of integers, which may be traced."""
    x = as_array(x)
    if np.dtype(x.dtype).kind not in "iub":
        raise DtypeError(
            f"lax.{name} takes integers where it was given {x.dtype}.",
            (*user_line(), ("write", "x.astype(np.int64)")),
        )
    return x
