"""Trees: ways to leaves, classes that are containers, parts, vectors, types without numbers."""

from __future__ import annotations

import collections
import dataclasses
import pickle
from typing import Any, NamedTuple

import numpy as np
import pytest

import fgrad
from fgrad import tree
from fgrad.errors import ArgumentError, UnsupportedTypeError


class Point(NamedTuple):
    x: Any
    y: Any


@tree.dataclass
class Own:
    w: Any
    name: str = dataclasses.field(default="own", metadata={"pytree_node": False})


@tree.register_dataclass
@dataclasses.dataclass
class Plain:
    w: Any
    b: Any
    name: str = dataclasses.field(default="plain", metadata={"static": True})


class Numbered:
    def __init__(self, *items: Any) -> None:
        self.items = items


tree.register_node(Numbered, lambda n: (n.items, None), lambda _, items: Numbered(*items))

# The text of each way is what JAX's `keystr` gives.
WAYS = {
    "['a'][0]": {"a": [1.0]},
    "[1][0]": (None, (1.0,)),
    ".y['k']": Point((), {"k": 1.0}),
    ".w": Own(1.0),
    ".b[0]": Plain((), [1.0]),
    "[<flat index 1>]": Numbered((), 1.0),
    "['o']": collections.OrderedDict(o=1.0),
    "['d'][2]": collections.defaultdict(list, d=[None, (), 1.0]),
    "[3]": {3: 1.0},
    "": 1.0,
}


@pytest.mark.parametrize("text", WAYS)
def test_ways(text: str) -> None:
    [(path, leaf)] = tree.leaves_with_path(WAYS[text])
    assert (tree.keystr(path), leaf) == (text, 1.0)
    assert tree.map_with_path(lambda p, x, y: tree.keystr(p), WAYS[text], WAYS[text]) is not None


def test_leaves_that_the_caller_names_have_ways() -> None:
    pairs = tree.leaves_with_path({"a": [1.0, 2.0]}, is_leaf=lambda x: isinstance(x, list))
    assert [(tree.keystr(p, simple=True), x) for p, x in pairs] == [("a", [1.0, 2.0])]


def test_plain_dataclasses_are_differentiated_and_compiled() -> None:
    def loss(p: Plain) -> Any:
        return np.sum(p.w**2) * p.b

    g = fgrad.jit(fgrad.grad(loss))(Plain(np.array([1.0, 2.0]), 3.0))
    assert isinstance(g, Plain) and g.name == "plain"
    np.testing.assert_allclose(g.w, [6.0, 12.0])
    assert g.b == 5.0


@pytest.mark.parametrize(
    "fields",
    [{"data_fields": ["w"], "meta_fields": []}, {"data_fields": ["w", "b"], "meta_fields": ["b"]}],
)
def test_fields_are_those_of_the_dataclass(fields: dict[str, Any]) -> None:
    @dataclasses.dataclass
    class Wrong:
        w: float
        b: float

    with pytest.raises(ArgumentError, match="has the fields w, b"):
        tree.register_dataclass(Wrong, **fields)


def test_a_class_that_is_no_dataclass_needs_its_fields() -> None:
    class Bare:
        def __init__(self, x: Any) -> None:
            self.x, self.kind = x, "bare"

    with pytest.raises(ArgumentError, match="is no dataclass"):
        tree.register_dataclass(Bare)
    tree.register_dataclass(Bare, data_fields=["x"], meta_fields=["kind"])
    assert tree.map(lambda x: 2 * x, Bare(2.0)).x == 4.0


def _scaled(scale: Any, x: Any, *, shift: Any = 0.0) -> Any:
    return scale * x + shift


def test_partial_is_a_tree_of_its_arguments() -> None:
    p = tree.Partial(_scaled, 3.0, shift=1.0)
    assert tree.leaves(p) == [3.0, 1.0]
    g = fgrad.jit(fgrad.grad(lambda p: p(2.0)))(p)
    assert tree.leaves(g) == [2.0, 1.0]
    assert pickle.loads(pickle.dumps(p))(2.0) == 7.0


PARTS = [
    ({"a": 1.0, "b": [2, 3.0]}, lambda x: isinstance(x, float)),
    ({"a": 1.0, "b": [2, 3.0]}, {"a": True, "b": False}),
    ((None, 1.0), lambda x: False),
    (Plain(1.0, 2), lambda x: x == 2),
]


@pytest.mark.parametrize(("whole", "wanted"), PARTS)
def test_parts_make_the_whole(whole: Any, wanted: Any) -> None:
    parts = tree.partition(whole, wanted)
    assert tree.combine(*parts) == whole
    assert sum(len(tree.leaves(p)) for p in parts) == len(tree.leaves(whole))


def test_gradient_of_the_trained_part() -> None:
    params = {"w": np.array([1.0, 2.0]), "steps": 3}
    trained, fixed = tree.partition(params, lambda x: isinstance(x, np.ndarray))

    def loss(part: Any) -> Any:
        whole = tree.combine(part, fixed)
        return np.sum(whole["w"] ** whole["steps"])

    np.testing.assert_allclose(fgrad.grad(loss)(trained)["w"], [3.0, 12.0])


def test_vector_of_a_tree_and_back(rng: np.random.Generator) -> None:
    whole = {
        "a": rng.normal(size=(2, 3)).astype(np.float32),
        "b": (2.0, rng.normal(size=0)),
        "c": 1j,
    }
    vector, unravel = tree.ravel(whole)
    assert vector.shape == (8,) and vector.dtype == np.complex128
    again = unravel(vector)
    for x, y in zip(tree.leaves(whole), tree.leaves(again), strict=True):
        assert np.asarray(x).dtype == np.asarray(y).dtype
        np.testing.assert_array_equal(x, y)
    with pytest.raises(ArgumentError, match="takes shape"):
        unravel(vector[1:])


def test_vector_in_transforms() -> None:
    x = {"a": np.array([1.0, 2.0]), "b": 3.0}
    vector, unravel = tree.ravel(x)

    def f(v: Any) -> Any:
        p = unravel(v)
        return np.sum(p["a"]) * p["b"]

    np.testing.assert_allclose(
        fgrad.jit(fgrad.hessian(f))(vector), [[0, 0, 1], [0, 0, 1], [1, 1, 0]]
    )
    flat = fgrad.jit(lambda t: tree.ravel(t)[0])(x)
    np.testing.assert_array_equal(flat, vector)
    assert tree.ravel(())[0].shape == (0,)


def test_reduce_and_broadcast() -> None:
    assert tree.reduce(lambda a, b: a + b, [1.0, 2.0], 10.0) == 13.0
    with pytest.raises(ArgumentError, match="initial value"):
        tree.reduce(lambda a, b: a + b, [])
    assert tree.broadcast((0, 1), ([1.0, 2.0], {"a": 3.0})) == ([0, 0], {"a": 1})


# --- types -------------------------------------------------------------------------------------

TYPES = {
    "f64[]~": 1.0,
    "i64[]~": 1,
    "f32[2]": np.zeros(2, np.float32),
    "c128[1,2]": fgrad.ShapeDtype((1, 2), complex),
    "bool[]": np.bool_(True),
}


@pytest.mark.parametrize("text", TYPES)
def test_typeof(text: str) -> None:
    assert repr(fgrad.typeof(TYPES[text])) == text
    if not isinstance(TYPES[text], fgrad.ShapeDtype):
        seen = []
        fgrad.jit(lambda x: seen.append(repr(fgrad.typeof(x))) or x)(TYPES[text])
        assert seen == [text]


def test_typeof_refuses_what_is_no_array() -> None:
    with pytest.raises(UnsupportedTypeError):
        fgrad.typeof("a")


def test_eval_shape_computes_nothing() -> None:
    big = fgrad.ShapeDtype((10**5, 10**5), np.float32)

    def f(a: Any, b: Any, *, k: Any) -> Any:
        assert a.shape == big.shape
        return {"p": a @ b, "k": k + 1}, (a.sum(),)

    found = fgrad.eval_shape(f, big, big, k=2)
    assert found == (
        {"p": big, "k": fgrad.ShapeDtype((), int)},
        (fgrad.ShapeDtype((), np.float32),),
    )


def test_eval_shape_inside_of_transforms() -> None:
    def f(x: Any) -> Any:
        kind = fgrad.eval_shape(lambda y: np.outer(x, y), x)
        return np.sum(x) * kind.size

    assert fgrad.jit(fgrad.grad(f))(np.ones(3)).tolist() == [9.0] * 3
    assert fgrad.vmap(f)(np.ones((2, 3))).tolist() == [27.0] * 2


def test_shape_dtype_is_a_value() -> None:
    a, b = fgrad.ShapeDtype([2, 3], "float32"), fgrad.ShapeDtype((2, 3), np.float32)
    assert a == b and hash(a) == hash(b) and a != fgrad.ShapeDtype((2, 3), float)
    assert (a.ndim, a.size, a.nbytes, len(a)) == (2, 6, 24, 2)
    with pytest.raises(TypeError):
        len(fgrad.ShapeDtype((), float))
    assert fgrad.numpy.zeros(a.shape, a.dtype).shape == a.shape
