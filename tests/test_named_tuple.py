"""Named tuples do what those of `typing` do, and fgrad has no others."""

from __future__ import annotations

import ast
import copy
import inspect
import pickle
import typing
from collections.abc import Callable
from typing import Any

import pytest
from sources import MODULES, syntax_tree

from fgrad import tree
from fgrad.base import named_tuple


class Ours(named_tuple.NamedTuple):
    """A point."""

    x: float
    y: list[int]
    z: str = "z"

    @property
    def double(self) -> float:
        return 2 * self.x

    @classmethod
    def origin(cls) -> Ours:
        return cls(0.0, [])


class Usual(typing.NamedTuple):
    """A point."""

    x: float
    y: list[int]
    z: str = "z"

    @property
    def double(self) -> float:
        return 2 * self.x

    @classmethod
    def origin(cls) -> Usual:
        return cls(0.0, [])


class Empty(named_tuple.NamedTuple):
    """Without fields."""


def matched(made: Any) -> Any:
    match made:
        case Ours(x, z="z") | Usual(x, z="z"):
            return x
    return None


USES: dict[str, Callable[[Any], Any]] = {
    "positions": lambda kind: tuple(kind(1.0, [2])),
    "names": lambda kind: tuple(kind(y=[2], x=1.0, z="t")),
    "fields": lambda kind: (kind._fields, kind._field_defaults, kind.__match_args__),
    "read": lambda kind: (kind(1.0, [2]).x, kind(1.0, [2]).z, kind(3.0, []).double),
    "repr": lambda kind: repr(kind(1.0, [2])).removeprefix(kind.__name__),
    "replace": lambda kind: tuple(kind(1.0, [2])._replace(z="t")),
    "asdict": lambda kind: kind(1.0, [2])._asdict(),
    "make": lambda kind: tuple(kind._make((1.0, [2], "t"))),
    "equal": lambda kind: kind(1.0, [2]) == (1.0, [2], "z"),
    "copies": lambda kind: type(copy.deepcopy(kind(1.0, [2]))) is kind,
    "pickles": lambda kind: pickle.loads(pickle.dumps(kind(1.0, [2]))) == kind(1.0, [2]),
    "class method": lambda kind: tuple(kind.origin()),
    "match": lambda kind: matched(kind(1.0, [2])),
    "tree": lambda kind: tree.leaves(kind(1.0, [2])),
    "document": lambda kind: (kind.__doc__, kind.__module__, kind.x.__doc__),
    "signature": lambda kind: [
        (p.name, p.kind, p.default) for p in inspect.signature(kind).parameters.values()
    ],
    "annotations": lambda kind: typing.get_type_hints(kind),
    "no dictionary": lambda kind: hasattr(kind(1.0, [2]), "__dict__"),
    "too few": lambda kind: kind(1.0),
    "too many": lambda kind: kind(1.0, [2], "t", 4),
    "another name": lambda kind: kind(1.0, [2], t=4),
    "replace another": lambda kind: kind(1.0, [2])._replace(t=4),
    "make of too few": lambda kind: kind._make((1.0,)),
    "set": lambda kind: setattr(kind(1.0, [2]), "x", 3.0),
}


@pytest.mark.parametrize("name", USES)
def test_uses(name: str) -> None:
    def outcome(kind: type) -> Any:
        try:
            return USES[name](kind)
        except (TypeError, ValueError, AttributeError) as error:
            return TypeError if isinstance(error, ValueError) else type(error)

    assert outcome(Ours) == outcome(Usual)


def test_without_fields() -> None:
    assert Empty() == ()
    assert repr(Empty()) == "Empty()"


def test_a_field_without_a_default_comes_first() -> None:
    with pytest.raises(TypeError, match="without a default"):

        class Wrong(named_tuple.NamedTuple):
            x: int = 0
            y: int  # type: ignore[misc]

        assert not Wrong


@pytest.mark.parametrize("module", [m for m in MODULES if m != named_tuple.__name__])
def test_fgrad_has_no_others(module: str) -> None:
    names = [
        alias.name
        for node in syntax_tree(MODULES[module]).body
        if isinstance(node, ast.ImportFrom) and node.module in ("typing", "collections")
        for alias in node.names
    ]
    assert not {"NamedTuple", "namedtuple"} & set(names)
