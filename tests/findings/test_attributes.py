"""What a jitted function reads of attributes is as it is at each call, in whatever way."""

from __future__ import annotations

import dataclasses
import functools
import operator
import sys
import types
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import fgrad

scale = 3.0


class Holder:
    """Holds a number, and methods that hold one."""

    a = 3.0

    def method(self) -> None: ...
    @staticmethod
    def static() -> None: ...
    @classmethod
    def of_class(cls) -> None: ...


class Child(Holder):
    def above(self) -> float:
        return super().a


@dataclasses.dataclass
class Record:
    a: float = 3.0


class Slots:
    __slots__ = ("a",)


class Named:
    """Finds its attributes under other names."""

    def __getattr__(self, name: str) -> float:
        if name != "a":
            raise AttributeError(name)
        return self.__dict__["of_" + name]


class Meta(type):
    @property
    def twice(cls) -> float:
        return 2 * cls.a / 2  # type: ignore[attr-defined]


class WithMeta(metaclass=Meta):
    a = 3.0


def helper() -> None: ...


part: Any = functools.partial(helper)
module = types.ModuleType("module_of_a_test")
space = types.SimpleNamespace()
holder, child, record, slots, named = Holder(), Child(), Record(), Slots(), Named()
kept: Any = types.SimpleNamespace(helper=helper, bound=holder.method, all=[helper])

FORMS: dict[str, Callable[[Any], Any]] = {
    # Attributes of functions and partials.
    "function": lambda x: x * helper.a,
    "method": lambda x: x * Holder.method.a,
    "static method": lambda x: x * Holder.static.a,
    "method of the class": lambda x: x * Holder.of_class.a,  # type: ignore[attr-defined]
    "bound method": lambda x: x * holder.method.a,  # type: ignore[attr-defined]
    "static by the instance": lambda x: x * holder.static.a,
    "function of the bound": lambda x: x * holder.method.__func__.a,
    "method by the type": lambda x: x * type(holder).method.a,
    "method in the dictionary": lambda x: x * Holder.__dict__["method"].a,
    "partial": lambda x: x * part.a,
    "function of the partial": lambda x: x * part.func.a,
    "function in a namespace": lambda x: x * kept.helper.a,
    "bound in a namespace": lambda x: x * kept.bound.a,
    "function in a list": lambda x: x * kept.all[0].a,
    "getattr of a method": lambda x: x * getattr(Holder.method, "a"),  # noqa: B009
    "dictionary of a function": lambda x: x * helper.__dict__["a"],
    "vars of a function": lambda x: x * vars(helper)["a"],
    # Attributes of objects, classes and modules.
    "dictionary of a class": lambda x: x * Holder.__dict__["a"],
    "vars of a class": lambda x: x * vars(Holder)["a"],
    "dictionary of an object": lambda x: x * holder.__dict__["a"],
    "vars of an object": lambda x: x * vars(holder)["a"],
    "values of an object": lambda x: x * sum(vars(holder).values()),
    "items of an object": lambda x: x * dict(holder.__dict__.items())["a"],
    "dictionary of a module": lambda x: x * module.__dict__["a"],
    "modules": lambda x: x * sys.modules["module_of_a_test"].a,
    "namespace": lambda x: x * vars(space)["a"],
    "slot": lambda x: x * getattr(slots, "a"),  # noqa: B009
    "asdict": lambda x: x * dataclasses.asdict(record)["a"],
    "astuple": lambda x: x * dataclasses.astuple(record)[0],
    "replace": lambda x: x * dataclasses.replace(record).a,
    "attrgetter": lambda x: x * operator.attrgetter("a")(holder),
    "getattribute": lambda x: x * object.__getattribute__(holder, "a"),
    "another name": lambda x: x * named.a,
    "property of a metaclass": lambda x: x * WithMeta.twice,
    "class of an object": lambda x: x * child.__class__.a,
    "base": lambda x: x * Child.__base__.a,  # type: ignore[union-attr]
    "method resolution order": lambda x: x * Child.__mro__[1].a,
    "super": lambda x: x * child.above(),
    # Globals.
    "globals": lambda x: x * globals()["scale"],
    "eval of a global": lambda x: x * eval("scale"),
    "eval of an attribute": lambda x: x * eval("holder.a"),
}


def put(value: float) -> None:
    """Give all of them a value."""
    methods = (Holder.method, Holder.static, Holder.__dict__["of_class"].__func__, helper, part)
    for x in (*methods, Holder, holder, record, slots, module, space, WithMeta):
        setattr(x, "a", value)  # noqa: B010
    setattr(named, "of_a", value)  # noqa: B010
    globals()["scale"] = value


@pytest.fixture(autouse=True)
def as_before(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, module.__name__, module)
    put(3.0)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("transform", [fgrad.jit, lambda f: fgrad.jit(fgrad.grad(f))])
def test_attributes_are_as_they_are_at_each_call(form: str, transform: Any) -> None:
    function = transform(FORMS[form])
    assert function(1.0) == 3.0
    put(4.0)
    assert function(1.0) == 4.0


def test_a_function_that_counts_its_calls_is_traced_once() -> None:
    traces = 0

    def counted(x: Any) -> Any:
        counted.calls += 1  # type: ignore[attr-defined]
        return 2 * x

    counted.calls = 0  # type: ignore[attr-defined]

    @fgrad.jit
    def f(x: Any) -> Any:
        nonlocal traces
        traces += 1
        return counted(x)

    for _ in range(4):
        np.testing.assert_array_equal(f(np.ones(2)), 2 * np.ones(2))
    assert traces == 1
