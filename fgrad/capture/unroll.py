"""L5. `fgrad.unroll(items)`: a loop over these runs step by step while it is traced."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Generic, TypeVar

Item = TypeVar("Item")


class unroll(Generic[Item]):
    """Items that a `for` loop walks one by one, also under `jit`.

    Each step becomes equations of its own.  Compiling takes longer, and what differs from step to
    step is known: shapes, indices, layers.

    Arguments:
        items: what is walked: `range(n)`, a list, the rows of an array.

    Example:
        >>> import numpy as np, fgrad
        >>> @fgrad.jit
        ... def halves(x):
        ...     for k in fgrad.unroll(range(6)):
        ...         x = x + np.sum(x[: 2**k])
        ...     return x
        >>> halves(np.ones(2))
        array([486., 486.])
    """

    def __init__(self, items: Iterable[Item]) -> None:
        self.items = items

    def __iter__(self) -> Iterator[Item]:
        return iter(self.items)
