"""Native calls with dataclasses, whose attributes might run Python code."""

from __future__ import annotations

import gc
import sys
from dataclasses import field
from typing import Any

import numpy as np
import optree
import pytest
from native_calls import NEEDS_NATIVE, X, assert_same, counted, learnt

from fgrad import jit, tree
from fgrad.config import config

pytestmark = NEEDS_NATIVE


@tree.dataclass
class Layer:
    w: Any
    b: Any = 0.5


@tree.dataclass
class Model:
    layers: list[Layer]
    scale: float


class Slotted:
    """A registered class that is no dataclass."""

    def __init__(self, w: Any) -> None:
        self.w = w


tree.register_node(Slotted, lambda s: ((s.w,), None), lambda _, children: Slotted(*children))


def model(k: float = 1.0) -> Model:
    return Model([Layer(X * k, X + k), Layer(X - k)], 2.0)


def step(m: Model, d: Any) -> Any:
    layers = [Layer(one.w * m.scale, one.b + d["x"]) for one in m.layers]
    return Model(layers, m.scale), {"s": layers[0].w.sum()}


def test_same_as_python() -> None:
    f = learnt(step, model(), {"x": X})
    result, calls = counted(f, model(3.0), {"x": X * 2})
    assert calls == 0
    with config.override(native_calls=False):
        assert_same(result, jit(step)(model(3.0), {"x": X * 2}))
    assert type(result[0]) is Model and type(result[0].layers[1]) is Layer


def test_references() -> None:
    f = learnt(step, model(), {"x": X})
    m, d, big = model(), {"x": X}, np.ones((4, 8), np.float32)
    fresh, wrong = {"x": np.repeat(X, 2)[::2]}, {"x": big}
    objects = [m, m.layers, m.layers[0], m.layers[0].w, m.layers[1].b, d, X, big, Layer, Model]

    def calls() -> None:
        f(m, d), f(m, fresh)
        counted(f, m, wrong)

    for _ in range(20):
        calls()
    before = [sys.getrefcount(x) for x in objects]
    for _ in range(200):
        calls()
    assert max([abs(sys.getrefcount(x) - n) for x, n in zip(objects, before, strict=True)]) <= 1


def test_a_missing_attribute() -> None:
    f = learnt(lambda one: one.w + 1, Layer(X))
    broken = Layer(X)
    del broken.w
    for _ in range(3):
        with pytest.raises(AttributeError):
            f(broken)
    by_default = Layer(X, 2.0)
    del by_default.b
    np.testing.assert_array_equal(f(by_default), X + 1)


def test_another_class_of_equal_fields() -> None:
    @tree.dataclass
    class Other:
        w: Any
        b: Any = 0.5

    f = learnt(lambda one: one.w + 1, Layer(X))
    assert counted(f, Other(X))[1] == 1
    np.testing.assert_array_equal(f(Other(X)), X + 1)


def test_a_class_that_is_changed_afterwards() -> None:
    """Its new property drops the arguments while the call looks at them."""

    @tree.dataclass
    class Fickle:
        w: Any
        b: Any

    box: list[Any] = [{"x": np.array(X)}, Fickle(np.array(X), np.array(X))]
    f = learnt(lambda args: args[0]["x"] + args[1].w + args[1].b, box)
    seen = []

    def get(self: Any) -> Any:
        seen.append(1)
        kept = box[:]
        box[0].clear() if len(seen) < 2 else None
        box.clear()
        gc.collect()
        box.extend(kept)
        box[0]["x"] = np.array(X)
        return np.array(X)

    Fickle.b = property(get)
    for _ in range(20):
        np.testing.assert_array_equal(f(box), X * 3)
    assert seen


def test_classes_that_stay_with_python() -> None:
    @tree.dataclass
    class Checked:
        w: Any

        def __post_init__(self) -> None:
            self.checked = True

    @optree.dataclasses.dataclass(namespace=tree.NAMESPACE)
    class Tagged:
        w: Any
        tag: str = optree.dataclasses.field(pytree_node=False, default="t")

    @optree.dataclasses.dataclass(namespace=tree.NAMESPACE, frozen=True, slots=True)
    class Frozen:
        w: Any
        b: Any = field(default=1.0)

    for value, native in ((Checked(X), False), (Tagged(X, "u"), False), (Frozen(X), True)):
        f = jit(lambda v: tree.map(lambda x: x + 1, v))
        for _ in range(4):
            result, calls = counted(f, value)
            np.testing.assert_array_equal(result.w, X + 1)
            assert type(result) is type(value)
        assert (calls == 0) == native
    g = jit(lambda s: Slotted(s.w + 1))
    for _ in range(4):
        np.testing.assert_array_equal(g(Slotted(X)).w, X + 1)
