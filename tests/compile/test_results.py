"""What a jitted function may return: arrays and containers that trees know; the rest is a card."""

from __future__ import annotations

import collections
import types
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fgrad
from fgrad.errors import UnsupportedTypeError


class Rows(list[Any]):
    """A list of a user."""


class Table(dict[str, Any]):
    """A dictionary of a user."""


class Pair(tuple[Any, ...]):
    """A tuple of a user."""


KNOWN: dict[str, Callable[[Any], Any]] = {
    "ordered": lambda x: collections.OrderedDict(b=x, a=x * 2),
    "default": lambda x: collections.defaultdict(list, a=x),
    "deque": lambda x: collections.deque([x, x * 2], maxlen=3),
    "nothing": lambda x: (None, x),
}
UNKNOWN: dict[str, Callable[[Any], Any]] = {
    "list": lambda x: Rows([x]),
    "list of numbers": lambda x: Rows([1.0, 2.0]),
    "dictionary": lambda x: Table(a=x),
    "tuple": lambda x: Pair((x, x)),
    "user list": lambda x: collections.UserList([x]),
    "counter": lambda x: collections.Counter(a=x),
    "proxy": lambda x: types.MappingProxyType({"a": x}),
    "range": lambda x: (range(3), x),
    "text": lambda x: ("mean", x),
    "values": lambda x: {"a": x}.values(),
}


@pytest.mark.parametrize("name", KNOWN)
def test_containers_keep_their_class(name: str) -> None:
    found, wanted = fgrad.jit(KNOWN[name])(np.ones(2)), KNOWN[name](np.ones(2))
    assert type(found) is type(wanted)
    assert getattr(found, "default_factory", None) is getattr(wanted, "default_factory", None)
    assert getattr(found, "maxlen", None) == getattr(wanted, "maxlen", None)
    for a, b in zip(fgrad.tree.leaves(found), fgrad.tree.leaves(wanted), strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("transform", [fgrad.jit, fgrad.vmap])
@pytest.mark.parametrize("name", UNKNOWN)
def test_others_are_refused_by_name(name: str, transform: Callable[..., Any]) -> None:
    with pytest.raises(UnsupportedTypeError, match=r"(not an array|arrays) of numbers"):
        transform(UNKNOWN[name])(np.ones(2))
