"""L5. Static arguments of `jit`: which ones they are, and what tells two values apart."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np

from fgrad.errors import StaticArgumentError


def as_tuple(x: Any, kind: Any) -> tuple[Any, ...]:
    """A tuple of what may be one of a kind."""
    return (x,) if isinstance(x, kind) else tuple(x)


def completed(
    fun: Callable[..., Any], nums: tuple[int, ...], names: tuple[str, ...]
) -> tuple[tuple[int, ...], tuple[str, ...]]:
    """Positions and names of the same static arguments, checked against the signature."""
    if not nums and not names:
        return nums, names
    try:
        parameters = inspect.signature(fun).parameters
    except (TypeError, ValueError):
        return nums, names
    kinds = [p.kind for p in parameters.values()]
    listed = list(parameters)
    positional = [n for n, k in zip(listed, kinds, strict=True) if k in (0, 1)]
    variadic = inspect.Parameter.VAR_POSITIONAL in kinds
    for k in nums:
        if not variadic and not -len(positional) <= k < len(positional):
            raise StaticArgumentError(
                f"static_argnums={k}, but {fun.__name__} takes {len(positional)} positional ones."
            )
    for name in names:
        if name not in parameters and inspect.Parameter.VAR_KEYWORD not in kinds:
            raise StaticArgumentError(
                f"static_argnames={name!r}, but {fun.__name__} has arguments {', '.join(listed)}."
            )
    by_num = [positional[k] for k in nums if -len(positional) <= k < len(positional)]
    by_name = [positional.index(n) for n in names if n in positional]
    return tuple(dict.fromkeys([*nums, *by_name])), tuple(dict.fromkeys([*names, *by_num]))


def typed(x: Any) -> tuple[Any, Any]:
    """A static value with its type, so that 1, 1.0 and True stay apart."""
    return _kind(x), x


def _kind(x: Any) -> Any:
    """What tells apart values that Python calls equal: types, also inside tuples, and -0.0."""
    if isinstance(x, float | complex | np.inexact):
        return type(x), repr(x)
    if isinstance(x, tuple):
        return type(x), *[_kind(part) for part in x]
    return type(x)
