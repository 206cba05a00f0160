"""L4. The tables of the NumPy surface: which traced function stands for which NumPy function.

`@implements("sum")` puts a function into `tables.numpy_functions`, so that `np.sum(tracer)` reaches
it, and into `TRACED`, from which `fgrad.numpy` makes its own names.  Names that the installed NumPy
does not have are skipped.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeVar

import numpy as np

from fgrad.trace import Tracer
from fgrad.tracing.tables import numpy_functions

F = TypeVar("F", bound=Callable[..., object])

TRACED: dict[str, tuple[object, Callable[..., object]]] = {}
OWN: dict[str, object] = {}  # what `fgrad.numpy` has in place of an object of NumPy
EXTRA: dict[str, frozenset[str]] = {}  # name -> keywords of `fgrad.numpy` that NumPy does not have


def lookup(name: str) -> Any:
    """The NumPy function with a dotted name, or None if this NumPy has none."""
    found: Any = np
    for part in name.split("."):
        found = getattr(found, part, None)
    return found


NO_VALUE: Any = lookup("_NoValue")  # NumPy's mark for an argument that was not given


def implements(*names: str, extra: Iterable[str] = ()) -> Callable[[F], F]:
    """Decorator: the function is what these NumPy functions do to tracers.

    `extra` are keywords that only `fgrad.numpy` has; with one of them it is called on plain arrays
    too.
    """

    def register(function: F) -> F:
        for name in names:
            add(name, function)
            if extra:
                EXTRA[name] = frozenset(extra)
        return function

    return register


def add(name: str, function: Callable[..., object]) -> None:
    """Register the traced form of one NumPy function."""
    target = lookup(name)
    if target is not None:
        numpy_functions[target] = function
        TRACED[name] = (target, function)


def has_tracer(values: Iterable[Any]) -> bool:
    """Whether a tracer is among the values, or in lists and tuples in them."""
    for x in values:
        if isinstance(x, Tracer):
            return True
        if type(x) in (list, tuple) and has_tracer(x):
            return True
    return False
