"""L0. Values of any type -> whether they are containers, so that type checkers know what is inside:
objects.  For paths where a call costs nothing; others write `type(x) is tuple`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from functools import partial
from types import MappingProxyType
from typing import Any, TypeGuard

import numpy as np


def is_tuple(x: object) -> TypeGuard[tuple[object, ...]]:
    """Whether a value is a plain tuple."""
    return type(x) is tuple


def is_tuple_like(x: object) -> TypeGuard[tuple[object, ...]]:
    """Whether a value is a tuple, or of a class derived from it."""
    return isinstance(x, tuple)


def is_dict(x: object) -> TypeGuard[dict[object, object]]:
    """Whether a value is a dictionary, or of a class derived from it."""
    return isinstance(x, dict)


def is_list(x: object) -> TypeGuard[list[object]]:
    """Whether a value is a list, or of a class derived from it."""
    return isinstance(x, list)


def is_plain_dict(x: object) -> TypeGuard[dict[Any, object]]:
    """Whether a value is a dictionary, of no other class."""
    return type(x) is dict


def is_plain_series(x: object) -> TypeGuard[tuple[object, ...] | list[object]]:
    """Whether a value is a tuple or a list, of no other class."""
    return type(x) in (tuple, list)


def is_attributes(x: object) -> TypeGuard[Mapping[str, object]]:
    """Whether a value is what holds the attributes of an object or class."""
    return isinstance(x, (dict, MappingProxyType))


def is_bag(x: object) -> TypeGuard[set[object] | deque[object]]:
    """Whether a value is a set or a deque."""
    return isinstance(x, (set, deque))


def is_series(x: object) -> TypeGuard[list[object] | deque[object]]:
    """Whether a value is a list or a deque."""
    return isinstance(x, (list, deque))


def is_array(x: object) -> TypeGuard[np.ndarray]:
    """Whether a value is a NumPy array, or of a class derived from it."""
    return isinstance(x, np.ndarray)


def is_scalar(x: object) -> TypeGuard[np.generic]:
    """Whether a value is a NumPy scalar."""
    return isinstance(x, np.generic)


def is_frozenset(x: object) -> TypeGuard[frozenset[object]]:
    """Whether a value is a frozen set, or of a class derived from it."""
    return isinstance(x, frozenset)


def is_partial(x: object) -> TypeGuard[partial[object]]:
    """Whether a value is a function some of whose arguments are given."""
    return isinstance(x, partial)


def is_static(x: object) -> TypeGuard[staticmethod[..., object]]:
    """Whether a value is a static method, as it stands in its class."""
    return isinstance(x, staticmethod)


def is_of_class(x: object) -> TypeGuard[classmethod[object, ..., object]]:
    """Whether a value is a class method, as it stands in its class."""
    return isinstance(x, classmethod)


def is_any(x: object, kinds: tuple[type, ...]) -> bool:
    """Whether a value is of one of some classes, of which type checkers shall conclude nothing."""
    return isinstance(x, kinds)


def own_dict(x: object) -> object:
    """`x.__dict__` or None, not by a `__getattr__`, which may make it up, or raise anything."""
    try:
        return object.__getattribute__(x, "__dict__")
    except AttributeError:
        return None
