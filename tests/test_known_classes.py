"""Dataclasses, classes of attrs and models of pydantic are containers without being registered."""

from __future__ import annotations

import dataclasses
import functools
import os
import pickle
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Generic, TypeVar

import attrs
import numpy as np
import pydantic
import pytest

import fgrad
from fgrad import lax, optim, tree
from fgrad.errors import ArgumentError, UnsupportedTypeError

T = TypeVar("T")
X = np.array([0.5, 1.0, 2.0])
STATIC = {"static": True}


@dataclasses.dataclass
class Plain:
    w: Any
    b: Any
    name: str = dataclasses.field(default="n", metadata=STATIC)


@dataclasses.dataclass(frozen=True)
class Frozen:
    w: Any
    b: Any
    name: str = dataclasses.field(default="n", metadata=STATIC)


@dataclasses.dataclass(slots=True)
class Slotted:
    w: Any
    b: Any
    name: str = dataclasses.field(default="n", metadata=STATIC)


@dataclasses.dataclass(kw_only=True)
class ByName:
    name: str = dataclasses.field(default="n", metadata={"pytree_node": False})
    b: Any
    w: Any


@dataclasses.dataclass
class Derived(Plain):
    more: Any = ()


@dataclasses.dataclass
class Checked(Generic[T]):
    """It refuses whatever is no vector of floats: tracers, numbers that stand for leaves, slopes
    of another kind."""

    w: T
    b: Any
    name: str = dataclasses.field(default="n", metadata=STATIC)

    def __post_init__(self) -> None:
        if type(self.w) is not np.ndarray or self.w.ndim != 1:
            raise TypeError("no vector")
        self.b = np.asarray(self.b, dtype=np.float64)[()]


@attrs.define
class Defined:
    w: Any = attrs.field(converter=np.asarray)
    b: Any = attrs.field(validator=attrs.validators.instance_of(float))
    name: str = attrs.field(default="n", metadata=STATIC)


@attrs.frozen(slots=False)
class FrozenAttrs:
    w: Any
    b: Any
    name: str = attrs.field(default="n", metadata=STATIC)


@attrs.define
class Private:
    _hidden: Any
    b: Any
    name: str = attrs.field(default="n", metadata=STATIC)

    @property
    def w(self) -> Any:
        return self._hidden


class Model(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(arbitrary_types_allowed=True, frozen=True)

    w: np.ndarray
    b: float
    name: str = pydantic.Field(default="n", json_schema_extra={"static": True})

    @pydantic.field_validator("w")
    @classmethod
    def vector(cls, w: np.ndarray) -> np.ndarray:
        if w.ndim != 1:
            raise ValueError("no vector")
        return w


class OpenModel(Model):
    """Another class of the family, which allows other fields."""

    model_config = pydantic.ConfigDict(extra="allow")


@pydantic.dataclasses.dataclass(config={"arbitrary_types_allowed": True})
class Validated:
    w: np.ndarray
    b: float
    name: str = dataclasses.field(default="n", metadata=STATIC)


CLASSES: list[Callable[..., Any]] = [
    Plain, Frozen, Slotted, ByName, Derived, Checked, Defined, FrozenAttrs, Private, Model,
    OpenModel, Validated,
]  # fmt: skip


def made(kind: Callable[..., Any], w: Any = X, b: float = 2.0) -> Any:
    """An object of one of the classes."""
    if kind is Private:
        return kind(hidden=w, b=b, name="own")
    return kind(w=w, b=b, name="own")


def value(p: Any) -> Any:
    assert p.name == "own"
    return np.sum(p.w**2) * p.b


def same(p: Any, w: Any, b: Any) -> None:
    """Whether an object has these fields, and its static one."""
    np.testing.assert_allclose(p.w, w)
    np.testing.assert_allclose(p.b, b)
    assert p.name == "own"


@pytest.mark.parametrize("kind", CLASSES, ids=lambda kind: kind.__name__)
class TestEachClass:
    def test_gradient(self, kind: Callable[..., Any]) -> None:
        p = made(kind)
        for f in (fgrad.grad(value), fgrad.jit(fgrad.grad(value)), fgrad.grad(fgrad.jit(value))):
            slope = f(p)
            assert type(slope) is type(p)
            same(slope, 4 * X, np.sum(X**2))
        same(p, X, 2.0)

    def test_second_derivative(self, kind: Callable[..., Any]) -> None:
        def slope(p: Any) -> Any:
            return np.sum(fgrad.grad(value)(p).w ** 2)

        same(fgrad.grad(slope)(made(kind)), 8 * 4 * X, 4 * 2 * 2 * np.sum(X**2))

    def test_results(self, kind: Callable[..., Any]) -> None:
        def doubled(p: Any) -> Any:
            return tree.map(lambda x: 2 * x, p)

        for f in (doubled, fgrad.jit(doubled)):
            for _ in range(3):
                same(f(made(kind)), 2 * X, 4.0)

    def test_batches(self, kind: Callable[..., Any]) -> None:
        many = tree.map(lambda x: np.stack([x, 2 * x]), made(kind))
        np.testing.assert_allclose(fgrad.vmap(value)(many), [value(made(kind)), 8 * 10.5])
        one_axis = tree.map(lambda _: 0, many)
        slopes = fgrad.vmap(fgrad.grad(value), in_axes=(one_axis,))(many)
        same(slopes, [4 * X, 16 * X], [5.25, 21.0])

    def test_loops(self, kind: Callable[..., Any]) -> None:
        def step(p: Any, x: Any) -> Any:
            return tree.map(lambda leaf: leaf * x, p), p.b

        last, seen = lax.scan(step, made(kind), np.array([2.0, 3.0]))
        same(last, 6 * X, 12.0)
        np.testing.assert_allclose(seen, [2.0, 4.0])
        grown = lax.while_loop(lambda p: p.b < 10, lambda p: step(p, 2.0)[0], made(kind))
        same(grown, 8 * X, 16.0)
        chosen = fgrad.jit(lambda c, p: lax.cond(c, lambda p: step(p, 2.0)[0], lambda p: p, p))
        same(chosen(True, made(kind)), 2 * X, 4.0)

    def test_optimizer(self, kind: Callable[..., Any]) -> None:
        rule, p = optim.adam(0.1), made(kind)
        state = rule.init(p)
        updates, state = rule.update(fgrad.grad(value)(p), state, p)
        same(optim.apply_updates(p, updates), X - 0.1, 1.9)

    def test_parts(self, kind: Callable[..., Any]) -> None:
        p = made(kind)
        assert len(tree.leaves(p)) == 2 and not tree.is_leaf(p)
        assert ".b" in tree.paths(p)
        same(tree.combine(*tree.partition(p, lambda x: np.ndim(x) == 1)), X, 2.0)
        vector, back = tree.ravel(p)
        same(back(vector), X, 2.0)
        pairs, treedef = tree.flatten_with_path([p])
        assert "[0].b" in {tree.keystr(path) for path, _ in pairs}
        same(tree.unflatten(treedef, [x for _, x in pairs])[0], X, 2.0)
        same(tree.reduce(lambda _, p: p, [p, p], is_leaf=lambda x: x is p), X, 2.0)
        shapes = fgrad.eval_shape(lambda p: p, p)
        assert shapes.w.shape == (3,) and shapes.name == "own"

    def test_another_static_field_is_another_structure(self, kind: Callable[..., Any]) -> None:
        f = fgrad.jit(lambda p: p.b * len(p.name))
        p = made(kind)
        other = tree.structure(p).unflatten(tree.leaves(p))
        vars(other).update(name="longer") if hasattr(other, "__dict__") else _set(other, "longer")
        assert f(p) == 6.0
        assert f(other) == 12.0

    def test_pickle(self, kind: Callable[..., Any]) -> None:
        _, pullback = fgrad.vjp(value, made(kind))
        same(pickle.loads(pickle.dumps(pullback))(1.0)[0], 4 * X, 5.25)
        treedef = tree.structure([made(kind)])
        assert pickle.loads(pickle.dumps(treedef)) == treedef


def _set(p: Any, name: str) -> None:
    object.__setattr__(p, "name", name)


def test_pickle_for_a_process_that_has_not_met_the_class() -> None:
    """The other process sees the class first in the structure that it reads."""
    _, pullback = fgrad.vjp(value, made(Plain))
    program = "import pickle, sys; print(pickle.load(sys.stdin.buffer)(1.0)[0].b)"
    folder = str(Path(__file__).parent)
    found = subprocess.run(
        [sys.executable, "-c", program],
        input=pickle.dumps(pullback),
        env={**os.environ, "PYTHONPATH": os.pathsep.join([*sys.path, folder])},
        capture_output=True,
        check=True,
    )
    assert found.stdout.strip() == b"5.25"


@dataclasses.dataclass
class Node:
    value: Any
    next: Any = None


def test_nested() -> None:
    def product(n: Any) -> Any:
        return n.value if n.next is None else n.value * product(n.next)

    chain = Node(2.0, Node(3.0, Node(5.0)))
    slope = fgrad.grad(product)(chain)
    assert (slope.value, slope.next.value, slope.next.next.value) == (15.0, 10.0, 6.0)
    assert fgrad.jit(product)(chain) == 30.0


def test_writes_reach_the_object() -> None:
    @fgrad.jit
    def grow(n: Any) -> None:
        n.value = 2 * n.value

    n = Node(3.0)
    grow(n)
    grow(n)
    assert n.value == 12.0


def test_cached_property_is_computed_again() -> None:
    @dataclasses.dataclass
    class Circle:
        r: Any

        @functools.cached_property
        def area(self) -> Any:
            return 3 * self.r**2

    c = Circle(2.0)
    assert c.area == 12.0
    assert fgrad.grad(lambda c: c.area)(c).r == 12.0
    assert fgrad.jit(lambda c: c.area)(c) == 12.0


def test_registered_after_it_was_met() -> None:
    @dataclasses.dataclass
    class Late:
        w: Any
        kind: Any = 3.0

    assert len(tree.leaves(Late(1.0))) == 2
    tree.register_dataclass(Late, ["w"], ["kind"])
    assert tree.leaves(Late(1.0)) == [1.0]
    assert fgrad.grad(lambda p: p.w**p.kind)(Late(2.0)).w == 12.0


# ----------------------------------------------------------------------- what is refused


@dataclasses.dataclass
class Computed:
    r: Any
    area: Any = dataclasses.field(init=False, default=None)


@attrs.define
class ComputedAttrs:
    r: Any
    area: Any = attrs.field(init=False, default=None)


@dataclasses.dataclass
class More:
    r: Any

    def __post_init__(self) -> None:
        self.area = self.r**2


class Hidden(pydantic.BaseModel):
    r: float
    _area: float = pydantic.PrivateAttr(3.0)


class Open(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(extra="allow")
    r: float


@dataclasses.dataclass
class Named:
    r: Any
    name: Any = "n"


@dataclasses.dataclass
class StaticArray:
    r: Any
    mask: Any = dataclasses.field(default_factory=lambda: X, metadata=STATIC)


@dataclasses.dataclass
class Numbers(list[Any]):
    r: Any = 0.0


REFUSED: dict[str, tuple[Any, type[Exception], str]] = {
    "computed": (Computed(2.0), UnsupportedTypeError, "register_dataclass above class Computed"),
    "computed of attrs": (ComputedAttrs(2.0), UnsupportedTypeError, "register_dataclass above"),
    "attribute": (More(2.0), ArgumentError, "an attribute area"),
    "private": (Hidden(r=2.0), ArgumentError, "an attribute _area"),
    "other fields": (Open.model_validate({"r": 2.0, "k": 1.0}), ArgumentError, "an attribute k"),
    "text": (Named(2.0), UnsupportedTypeError, "metadata={'static': True}"),
    "static array": (StaticArray(2.0), ArgumentError, "static field mask"),
    "static list": (StaticArray(2.0, [1]), ArgumentError, "static field mask"),
    "list": (Numbers(2.0), UnsupportedTypeError, "register_node(Numbers"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name: str) -> None:
    """With a card, by every transform, again at the second call, and as a result."""
    p, error, text = REFUSED[name]
    for f in (fgrad.grad(_radius), fgrad.jit(_radius), fgrad.jit(fgrad.grad(_radius))):
        for _ in range(2):
            with pytest.raises(error) as found:
                f(p)
            assert text in str(found.value)
    if not isinstance(p, list):  # that is an array of its items
        with pytest.raises((UnsupportedTypeError, ArgumentError)):
            fgrad.jit(lambda x: (x, p))(1.0)


def _radius(p: Any) -> Any:
    return p.r**2


def test_what_is_an_array_stays_a_leaf() -> None:
    @dataclasses.dataclass
    class Wrapped:
        w: Any

        def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray:
            return np.asarray(self.w, dtype)

    p = Wrapped(X)
    assert tree.leaves(p) == [p]
    np.testing.assert_allclose(fgrad.grad(lambda x: np.sum(x**2))(p), 2 * X)


def test_classes_and_settings_are_no_containers() -> None:
    assert tree.leaves([Plain, 1.0]) == [Plain, 1.0]
    f = fgrad.jit(lambda x, p: x * p.b, static_argnums=1)
    assert f(2.0, Frozen(None, 3.0)) == 6.0


def test_class_of_a_program_without_a_name() -> None:
    """Python gives it the module builtins, as in doctests."""
    scope: dict[str, Any] = {}
    exec("import dataclasses\n@dataclasses.dataclass\nclass P:\n    w: float", scope)
    assert scope["P"].__module__ == "builtins"
    assert fgrad.grad(lambda p: p.w**2)(scope["P"](3.0)).w == 6.0
