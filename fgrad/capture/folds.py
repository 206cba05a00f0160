"""L5. Reductions of ragged slices as loops."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fgrad.capture.iteration import range_
from fgrad.capture.loops import for_
from fgrad.capture.ragged import fold as declared


def fold(
    count: Any, at: Callable[[Any], Any], start: Any, combine: Callable[[Any, Any], Any]
) -> Any:
    """`start` combined with each of `count` elements, in any order."""
    total = start

    def step(k: Any) -> None:
        nonlocal total
        total = combine(total, at(k))

    steps = range_(count)
    steps.any_order = True
    for_(steps, None, step, ("total",), ())
    return total


declared.provide(fold)
