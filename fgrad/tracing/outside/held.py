"""L2. What values of the standard library hold that are neither lists, dictionaries nor tuples:
sets, deques, read-only and chained dictionaries, the environment, memory, values of contexts and
threads, what weak references refer to."""

from __future__ import annotations

import array
import ctypes
import functools
import gc
import os
import threading
import types
import weakref
from collections import ChainMap, UserDict, UserList
from collections.abc import Callable, Collection, Iterator
from contextvars import ContextVar
from typing import TypeAlias

import numpy as np

from fgrad.base.kinds import is_bag, is_dict
from fgrad.base.named_tuple import NamedTuple
from fgrad.errors import UnsupportedTypeError
from fgrad.trace import Tracer
from fgrad.tracing.on_device import OnDevice
from fgrad.tracing.outside.watches import MISSING, MOST_ITEMS
from fgrad.typing import PyTree

Reader: TypeAlias = "Callable[[PyTree], Collection[object]]"

_NUMBER = ctypes.c_double.__base__  # of all numbers of ctypes
_MEMORY = (bytearray, memoryview, array.array, _NUMBER, ctypes.Array, ctypes.Structure)


class Held(NamedTuple):
    """What a value holds.

    Arguments:
        read: how to read it, if it can hold something else later.
        inside: the objects in it.
    """

    read: Reader | None
    inside: Collection[object]


def held_by(x: PyTree) -> Held | None:
    """What a value of these kinds holds; None for other kinds."""
    for kinds, read, inside in _KINDS:
        if isinstance(x, kinds):
            return Held(read, inside(x))
    if is_bag(x):
        return Held(tuple, tuple(x)) if len(x) <= MOST_ITEMS else Held(None, ())
    return None


def check_size(held: list[object], path: str) -> None:
    """A card if there is too much to watch in the lists and dictionaries of a sparse matrix."""
    most = max([len(part) for part in held if is_dict(part)], default=len(held))
    if most > MOST_ITEMS:
        why = "it is held by Python's lists, and jit could not see that it changes."
        raise UnsupportedTypeError(
            f"{path} is a large sparse matrix in the format lil or dok.",
            (("why", why), ("write", f"{path}.tocsr()    before the function")),
        )


def _bytes_of(x: PyTree) -> tuple[bytes]:
    """A copy of memory."""
    return (bytes(x) if isinstance(x, bytearray) else memoryview(x).tobytes(),)


def _in_context(x: ContextVar[PyTree]) -> tuple[object]:
    return (x.get(MISSING),)


def _of_thread(x: threading.local) -> tuple[object, ...]:
    """The names and values of the thread that asks."""
    held = vars(x)
    return (*held.keys(), *held.values())


def _nothing(_: object) -> tuple[object, ...]:
    return ()


def _behind(x: types.MappingProxyType[PyTree, PyTree]) -> list[object]:
    return [held for held in gc.get_referents(x) if is_dict(held)]


_KINDS: tuple[tuple[PyTree, Reader | None, Callable[[PyTree], Collection[object]]], ...] = (
    (types.MappingProxyType, None, _behind),
    ((UserDict, UserList), None, lambda x: (x.data,)),
    (ChainMap, None, lambda x: (x.maps,)),
    (type(os.environ), None, lambda x: (x._data,)),
    (_MEMORY, _bytes_of, _nothing),
    (ContextVar, _in_context, _in_context),
    (threading.local, _of_thread, _of_thread),
    (weakref.ref, None, lambda x: (x(),)),
)

# What gives objects that it does not show.
LEAVES = (Tracer, OnDevice, np.generic, np.ufunc, np.dtype)
WRITTEN = (list, dict, set)
NAMING = (types.ModuleType, types.FunctionType)
GIVERS = (Iterator, weakref.ref, ContextVar, threading.local)
FUNCTIONS = (types.FunctionType, types.MethodType, functools.partial, np.ndarray)
PLAIN = frozenset(
    {int, float, complex, bool, str, bytes, type(None), type(Ellipsis), slice, range}
    | {types.BuiltinFunctionType, types.CodeType}
)
# What modules of Python's library hold that changes, and a function that reads it.
OF_MODULES = frozenset({("sys", "modules"), ("os", "environ"), ("os", "getenv")})
