"""What a jitted function asked for and did not find, and what is there later, or no longer."""

from __future__ import annotations

import types
from collections.abc import Callable
from typing import Any

import pytest

import fgrad


class Settings:
    """An object that gets attributes, as classes do."""


class Slotted:
    """An object that may hold one value."""

    __slots__ = ("rate",)


def helper() -> None:
    """A function that gets attributes."""


held = Settings()
held.w = 2.0  # type: ignore[attr-defined]
slotted = Slotted()
module = types.ModuleType("settings_of_the_user")
table: dict[str, float] = {}
HOLDERS: dict[str, Any] = {
    "object": held, "class": Settings, "function": helper, "module": module, "slot": slotted
}  # fmt: skip


def _all_attributes(x: float) -> float:
    total = 0.0
    for v in vars(held).values():
        total += v * x
    return total


def _method_or_none(x: float) -> float:
    found = getattr(held, "rate", None)
    return x if found is None else found * x


def _by_name_error(x: float) -> float:
    try:
        return x * held.rate  # type: ignore[attr-defined]
    except AttributeError:
        return x * 3.0


def _of_those_that_have_it(x: float) -> float:
    return x * next((getattr(o, "rate") for o in (held, helper) if hasattr(o, "rate")), 3.0)  # noqa: B009


ASKED: dict[str, tuple[Callable[[float], float], tuple[str, ...]]] = {
    "getattr of an object": (lambda x: x * getattr(held, "rate", 4.0), ("object", "class")),
    "getattr of a class": (lambda x: x * getattr(Settings, "rate", 4.0), ("class",)),
    "getattr of a function": (lambda x: x * getattr(helper, "rate", 4.0), ("function",)),
    "getattr of a module": (lambda x: x * getattr(module, "rate", 4.0), ("module",)),
    "getattr of a slot": (lambda x: x * getattr(slotted, "rate", 4.0), ("slot",)),
    "hasattr": (lambda x: x * 2 if hasattr(held, "rate") else x * 7, ("object", "class")),
    "dictionary of an object": (lambda x: x * held.__dict__.get("rate", 6.0), ("object",)),
    "vars": (lambda x: x * vars(held).get("rate", 6.0), ("object",)),
    "vars of a class": (lambda x: x * len(vars(Settings)), ("class",)),
    "number of attributes": (lambda x: x * len(held.__dict__), ("object",)),
    "all attributes": (_all_attributes, ("object",)),
    "None for a method": (_method_or_none, ("object", "class")),
    "AttributeError": (_by_name_error, ("object", "class")),
    "the first that has it": (_of_those_that_have_it, ("object", "function")),
}


@pytest.mark.parametrize("asked", ASKED)
def test_what_comes_is_seen_and_what_goes(asked: str) -> None:
    function, places = ASKED[asked]
    jitted = fgrad.jit(function)
    for place in places:
        absent = function(1.5)
        assert jitted(1.5) == absent
        HOLDERS[place].rate = 11.0
        try:
            assert jitted(1.5) == function(1.5) != absent
        finally:
            del HOLDERS[place].rate
        assert jitted(1.5) == absent


def test_an_item_that_comes_is_seen() -> None:
    jitted = fgrad.jit(lambda x: x * table.get("rate", 2.0))
    assert jitted(1.0) == 2.0
    table["rate"] = 5.0
    try:
        assert jitted(1.0) == 5.0
    finally:
        table.clear()


def test_what_is_made_at_the_first_call_is_made_once() -> None:
    made: list[int] = []

    def kept(x: float) -> float:
        made.append(1)
        if not hasattr(helper, "cache"):
            helper.cache = 5.0  # type: ignore[attr-defined]
        return x * helper.cache  # type: ignore[attr-defined]

    jitted = fgrad.jit(kept)
    try:
        assert [float(jitted(1.0)) for _ in range(4)] == [5.0] * 4
    finally:
        del helper.cache  # type: ignore[attr-defined]
    assert len(made) <= 2
