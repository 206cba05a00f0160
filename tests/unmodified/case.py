"""The arguments of a program, written above it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

F = TypeVar("F", bound=Callable[..., Any])


class Case(NamedTuple):
    """One call of a program."""

    args: tuple[Any, ...]
    smooth: bool  # whether its derivative may be compared with differences
    once: bool  # it changes what is outside: only the first call is compared, see the docs of jit
    prints: bool  # what it prints is compared too
    loose: bool  # an integer of Python's may come as a float of the same value


def case(
    *args: Any,
    smooth: bool = True,
    once: bool = False,
    prints: bool = False,
    loose: bool = False,
) -> Any:
    """A call that the decorated function is to be tried with; the uppermost comes first."""

    def decorated(function: F) -> F:
        cases = [Case(args, smooth, once, prints, loose), *getattr(function, "cases", ())]
        function.cases = cases  # type: ignore[attr-defined]
        return function

    return decorated
