"""L5. Static arguments of `jit`: their positions and names, and the equality of their values."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Hashable, Mapping, Sequence
from enum import Enum
from types import MethodType
from typing import TYPE_CHECKING, Any

import numpy as np

from fgrad.base.lazy_import import lazy_module
from fgrad.base.named_tuple import NamedTuple
from fgrad.base.pickling import label_of
from fgrad.errors import (
    CaptureError,
    StaticArgumentError,
    TracedArrayError,
    TracedBoolError,
    TracedIndexError,
)
from fgrad.ops.checked import in_range_of
from fgrad.trace import Tracer
from fgrad.typing import PyTree

if TYPE_CHECKING:
    import dataclasses
else:
    dataclasses = lazy_module("dataclasses")

# Python needed the number behind a traced value: perhaps that of an integer among the arguments.
ASKED_FOR_VALUES = (TracedIndexError, TracedArrayError, TracedBoolError, CaptureError)


def as_tuple(x: Any, kind: Any) -> tuple[Any, ...]:
    """A tuple of what may be one of a kind."""
    return (x,) if isinstance(x, kind) else tuple(x)


def completed(
    fun: Callable[..., object], nums: tuple[int, ...], names: tuple[str, ...]
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
                f"static_argnums={k}, but {label_of(fun)} takes {len(positional)} positional ones."
            )
    for name in names:
        if name not in parameters and inspect.Parameter.VAR_KEYWORD not in kinds:
            raise StaticArgumentError(
                f"static_argnames={name!r}, but {label_of(fun)} has arguments {', '.join(listed)}."
            )
    by_num = [positional[k] for k in nums if -len(positional) <= k < len(positional)]
    by_name = [positional.index(n) for n in names if n in positional]
    return tuple(dict.fromkeys([*nums, *by_name])), tuple(dict.fromkeys([*names, *by_num]))


def with_integers(
    fun: Callable[..., Any],
    nums: tuple[int, ...],
    names: tuple[str, ...],
    args: Sequence[object],
    kwargs: Mapping[str, object],
) -> tuple[tuple[int, ...], tuple[str, ...]]:
    """The static arguments, and those that are integers, where these decide shapes."""

    def is_integer(x: object) -> bool:
        return isinstance(x, (int, np.integer)) and not isinstance(x, bool)

    more = tuple([k for k, x in enumerate(args) if is_integer(x) and k not in nums])
    named = tuple([name for name, x in kwargs.items() if is_integer(x) and name not in names])
    return completed(fun, (*nums, *more), (*names, *named))


def checked_integers(fits: dict[int, set[np.dtype]], leaves: Sequence[object]) -> list[object]:
    """Python integers must fit the dtypes that they meet: NumPy's OverflowError, in its words."""
    checked = list(leaves)
    for leaf, dtypes in fits.items():
        for dtype in dtypes:
            x: Any = checked[leaf]
            if isinstance(x, Tracer):
                checked[leaf] = in_range_of(x, dtype)
            else:
                dtype.type(int(x))
    return checked


def known_by_name(fun: object, statics: Sequence[tuple[Hashable, Static]]) -> dict[str, object]:
    """Static arguments by the names of the parameters."""
    code = getattr(getattr(fun, "__func__", fun), "__code__", None)
    names = code.co_varnames[isinstance(fun, MethodType) :] if code is not None else ()
    known: dict[str, object] = {}
    for where, (_, value) in statics:
        if isinstance(where, str):
            known[where] = value
        elif isinstance(where, int) and where < len(names):
            known[names[where]] = value
    return known


class Static(NamedTuple):
    """A static argument; two are equal if their keys are, whatever Python says of the values."""

    key: Hashable
    value: object

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Static) and self.key == other.key

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return hash(self.key)


def typed(x: object) -> Static:
    """A static value by type and bits: 1, 1.0 and True stay apart, and so do 0.0 and -0.0, also
    inside tuples, frozen sets and frozen dataclasses."""
    return Static(_key(x), x)


def _key(x: object) -> object:
    kind = type(x)
    if kind in (float, complex) or isinstance(x, np.generic):
        return kind, np.asarray(x).tobytes()
    if isinstance(x, tuple):
        return kind, *[_key(part) for part in x]
    if isinstance(x, frozenset):
        return kind, frozenset([_key(part) for part in x])
    if isinstance(x, slice):
        return kind, _key((x.start, x.stop, x.step))
    if isinstance(x, Enum) or kind.__hash__ is None:
        return kind, x
    if dataclasses.is_dataclass(x) and kind.__dataclass_params__.eq:  # type: ignore[attr-defined]
        return kind, *[_key(getattr(x, f.name)) for f in dataclasses.fields(x) if f.compare]
    return kind, x


def without_static(
    args: tuple[object, ...],
    kwargs: dict[str, object],
    argnums: Sequence[int],
    argnames: Sequence[str],
) -> tuple[PyTree, list[tuple[Hashable, Static]]]:
    """The arguments that are traced, and the static ones."""
    statics: list[tuple[Hashable, Static]] = []
    dynamic = list(args)
    for k in argnums:
        at = k if k >= 0 else k + len(args)
        if 0 <= at < len(args):
            statics.append((at, typed(args[at])))
            dynamic[at] = None
    keywords = dict(kwargs)
    for name in argnames:
        if name in keywords:
            statics.append((name, typed(keywords.pop(name))))
    return (tuple(dynamic), keywords), statics
