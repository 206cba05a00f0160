"""Native calls give what calls through Python give, for ordinary and for strange arguments."""

from __future__ import annotations

import copy
import functools
import gc
import inspect
import os
import pickle
import subprocess
import sys
import weakref
from collections import OrderedDict, defaultdict, namedtuple
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest
from native_calls import NEEDS_NATIVE, X, assert_same, counted, learnt, outcome

import fgrad
from fgrad import jit, tree
from fgrad.compile.entry.native import is_native
from fgrad.compile.jit.call import FlatCall
from fgrad.config import config
from fgrad.errors import UnsupportedTypeError

pytestmark = NEEDS_NATIVE

Pair = namedtuple("Pair", "left right")


class Named(NamedTuple):
    w: Any
    b: Any


class Derived(Pair):
    __slots__ = ()


@tree.dataclass
class Params:
    w: Any
    b: Any


# --- signatures -----------------------------------------------------------------------------------

ARGUMENTS = {
    "one array": (X,),
    "three arrays": (X, X * 2, X.astype("f8")),
    "no leaves": ((), {}, None),
    "rank 3": (np.arange(24.0).reshape(2, 3, 4),),
    "empty": (np.zeros((0, 3)),),
    "rank 0 array": (np.array(2.5),),
    "python scalars": (1.5, 7, True, 2 - 3j),
    "numpy scalars": (np.float32(1.5), np.int8(-3), np.uint64(2**63), np.bool_(True)),
    "half and complex": (np.float16(1.5), X.astype("f2"), np.complex64(1 + 2j)),
    "bools": (X > 0, False),
    "dict": ({"b": X, "a": X * 2},),
    "integer keys": ({2: X, 1: X * 2},),
    "nested": ([{"w": X, "b": (X, [X])}, None, (X,)],),
    "named tuples": (Pair(X, 1.0), Named(w=X, b={"k": Pair(X, X)})),
    "large int": (2**62 - 1, -(2**62)),
}


def double(*args: Any, **kwargs: Any) -> Any:
    return tree.map(lambda x: x + x, (args, kwargs))


@pytest.mark.parametrize("args", ARGUMENTS.values(), ids=ARGUMENTS)
def test_same_as_python(args: Any) -> None:
    f = learnt(double, *args)
    native, calls = counted(f, *args)
    assert calls == 0
    with config.override(native_calls=False):
        through_python, calls = counted(jit(double), *args)
    assert calls == 1
    assert_same(native, through_python)


@pytest.mark.parametrize("args", ARGUMENTS.values(), ids=ARGUMENTS)
def test_keywords(args: Any) -> None:
    keywords = {f"k{i}": x for i, x in enumerate(args)}
    f = learnt(double, **keywords)
    result, calls = counted(f, **keywords)
    assert calls == 0
    with config.override(native_calls=False):
        assert_same(result, jit(double)(**keywords))


@pytest.mark.parametrize("number", [2**63 - 1, -(2**63)])
def test_largest_integers(number: int) -> None:
    f = learnt(lambda n: ~n, number)
    assert counted(f, number) == (~number, 0)


def test_keyword_order_and_names() -> None:
    f = learnt(lambda a, b, c=1.0: a - b * c, X, b=X * 2)
    assert counted(f, X, b=X * 2)[1] == 0
    assert counted(f, X, X * 2)[1] == 1
    assert counted(f, a=X, b=X * 2)[1] == 1
    result, _ = counted(f, b=X * 2, a=X)
    np.testing.assert_array_equal(result, -X)
    with pytest.raises(TypeError, match="unexpected keyword"):
        f(X, d=X)
    with pytest.raises(TypeError, match="missing"):
        f(X)
    np.testing.assert_array_equal(f(X, **{"".join(["b"]): X * 2}), -X)


OTHERS = {
    "integer": (1,),
    "nothing": (),
    "too many": (X, X),
    "none": (None,),
    "string": ("x",),
    "list": (list(X),),
    "object array": (X.astype(object),),
    "unicode array": (np.array(["a"]),),
    "other shape": (X[:4],),
    "other rank": (X.reshape(2, 4),),
    "other dtype": (X.astype("f8"),),
    "int of equal size": (X.view("i4"),),
    "byte-swapped": (X.astype(">f4"),),
    "strided": (np.repeat(X, 2)[::2],),
    "reversed": (X[::-1][::-1],),
    "backwards": (X[::-1],),
    "read-only": (np.frombuffer(X.tobytes(), "f4"),),
    "misaligned": (np.frombuffer(b"." + X.tobytes(), "f4", offset=1),),
    "broadcast": (np.broadcast_to(np.float32(2), 8),),
    "many axes": (X.reshape((1,) * 31 + (8,)),),
    "subclass": (X.view(type("Sub", (np.ndarray,), {})),),
    "matrix": (X.reshape(1, 8).view(np.matrix),),
    "record": (np.zeros(8, [("a", "f4")]),),
    "dates": (np.zeros(8, "M8[s]"),),
    "memory map": (np.frombuffer(memoryview(X), "f4"),),
    "float": (2.0,),
    "huge int": (2**80,),
    "nan": (float("nan"),),
}


@pytest.mark.parametrize("args", OTHERS.values(), ids=OTHERS)
def test_other_arguments(args: Any) -> None:
    """Calls that do not fit end as if there were no native calls, again and again."""

    def fun(x: Any) -> Any:
        return x * 2

    with config.override(native_calls=False):
        expected = outcome(jit(fun), args, {})
    f = learnt(fun, X)
    for _ in range(12):
        found = outcome(f, args, {})
        if isinstance(expected, type):
            assert found is expected
        else:
            assert_same(found, expected)
        np.testing.assert_array_equal(f(X), X * 2)


def test_masked_arrays_are_refused() -> None:
    f = learnt(lambda x: x.sum(), X)
    for _ in range(3):
        with pytest.raises(UnsupportedTypeError, match="plain arrays"):
            f(np.ma.masked_array(X, X > 0))


def test_strided_arrays_stay_native() -> None:
    f = learnt(lambda x, y: x @ y, X.reshape(2, 4), X.reshape(4, 2))
    y = np.asfortranarray(X.reshape(4, 2))
    result, calls = counted(f, X.reshape(4, 2).T, y)
    assert calls == 0
    np.testing.assert_allclose(result, X.reshape(4, 2).T @ y, rtol=1e-6)
    misaligned = np.frombuffer(b"." + X.tobytes(), "f4", offset=1).reshape(2, 4)
    result, calls = counted(f, misaligned, y)
    assert calls == 0
    np.testing.assert_allclose(result, misaligned @ y, rtol=1e-6)


def test_unpickled_dtype() -> None:
    f = learnt(lambda x: x + 1, X)
    assert counted(f, pickle.loads(pickle.dumps(X)))[1] == 0


def test_dict_keys() -> None:
    f = learnt(lambda d: d["alpha"] - d["beta"], {"alpha": X, "beta": 2 * X})
    foreign = {"".join(["al", "pha"]): X, "".join(["be", "ta"]): 2 * X}
    result, calls = counted(f, foreign)
    assert calls == 0
    np.testing.assert_array_equal(result, -X)
    swapped = {"beta": 2 * X, "alpha": X}
    np.testing.assert_array_equal(f(swapped), -X)
    for other in ({"alpha": X, "gamma": X}, {"alpha": X}, {}, OrderedDict(alpha=X)):
        with pytest.raises((KeyError, TypeError)):
            f(other)
    np.testing.assert_array_equal(f(defaultdict(list, alpha=X, beta=2 * X)), -X)


def test_keys_with_code_of_their_own() -> None:
    class Key(str):
        def __eq__(self, other: object) -> bool:
            raise RuntimeError("compared")

        __hash__ = str.__hash__

    f = learnt(lambda d: d["a"] * 2, {"a": X})
    with pytest.raises(RuntimeError, match="compared"):
        f({Key("a"): X})
    np.testing.assert_array_equal(f({"a": X}), X * 2)


def test_polymorphic() -> None:
    f = jit(lambda x: x + 1, max_traces=100)
    arrays = [np.arange(n, dtype=float) for n in range(1, 100)]
    for _ in range(3):
        for x in arrays:
            np.testing.assert_array_equal(f(x), x + 1)
    assert len(f.native.signatures) == 99
    assert counted(f, arrays[3])[1] == 0
    assert counted(f, arrays[0])[1] == 0


# --- results --------------------------------------------------------------------------------------

RESULTS: dict[str, Callable[[Any], Any]] = {
    "array": lambda x: x * 2,
    "scalar": lambda x: x.sum(),
    "bool": lambda x: (x > 0).any(),
    "scalars": lambda x: (x.sum(), x.max() > 9, x.astype("i4").sum(), (x + 1j).sum()),
    "tuple": lambda x: (x, x * 2, x.sum()),
    "single": lambda x: (x * 2,),
    "list": lambda x: [x, [x, []], ()],
    "dict": lambda x: {"z": x, "a": {"m": x.sum(), "k": None}},
    "named": lambda x: Named(w=Pair(x, x + 1), b=x.sum()),
    "derived": lambda x: Derived(x, [x]),
    "none": lambda x: None,
    "literal": lambda x: 2.5,
    "literals": lambda x: (1.0, True, x, 3),
    "constant": lambda x: np.arange(5.0),
    "argument": lambda x: x,
    "ordered": lambda x: OrderedDict(b=x, a=x.sum()),
    "dataclass": lambda x: Params(w=x * 2, b=[x]),
    "empty": lambda x: x[:0],
}


@pytest.mark.parametrize("fun", RESULTS.values(), ids=RESULTS)
def test_results(fun: Callable[[Any], Any]) -> None:
    f = learnt(fun, X)
    (native, calls) = counted(f, X)
    assert calls == 0
    with config.override(native_calls=False):
        expected = jit(fun)(X)
    assert_same(native, expected)
    assert type(native) is type(expected)
    if isinstance(native, dict):
        assert list(native) == list(expected)
    for leaf in tree.leaves(native):
        if isinstance(leaf, np.ndarray) and leaf is not X:
            assert leaf.flags.owndata and leaf.flags.writeable and leaf.base is None
    again = f(X)
    for a, b in zip(tree.leaves(native), tree.leaves(again), strict=True):
        assert a is not b or a is X or not isinstance(a, np.ndarray)


def test_bools_are_the_constants() -> None:
    f = learnt(lambda x: (x > 0).all(), X)
    assert f(X) is np.False_
    assert f(np.abs(X) + 1) is np.True_


def test_failing_container() -> None:
    class Picky(dict):
        pass

    made = []

    def unflatten(_static: Any, children: Any) -> Any:
        if len(made) >= 3:
            raise LookupError("no more")
        made.append(1)
        return Picky(x=next(iter(children)))

    tree.register_node(Picky, lambda d: ((d["x"],), None), unflatten)
    f = jit(lambda x: (x, Picky(x=x + 1)))
    for _ in range(3):
        assert f(X)[1]["x"][0] == 0.0
    for _ in range(5):
        with pytest.raises(LookupError, match="no more"):
            f(X)


# --- a function like others -----------------------------------------------------------------------


@jit
def scaled(x: Any, factor: Any = 2.0) -> Any:
    """Multiply."""
    return x * factor


class Model:
    """Methods of all kinds."""

    k = 3.0

    @fgrad.jit(static_argnums=0)
    def apply(self, x: Any) -> Any:
        return x * self.k

    @staticmethod
    @jit
    def twice(x: Any) -> Any:
        return x * 2


def test_attributes() -> None:
    assert scaled.__name__ == "scaled" and scaled.__doc__ == "Multiply."
    assert scaled.__wrapped__(X) is not None
    assert list(inspect.signature(scaled).parameters) == ["x", "factor"]
    assert callable(scaled)
    assert weakref.ref(scaled)() is scaled


def test_copies() -> None:
    learnt(scaled, X)
    assert pickle.loads(pickle.dumps(scaled)) is scaled
    assert copy.copy(scaled) is scaled and copy.deepcopy(scaled) is scaled
    other = jit(np_mean, max_traces=5)
    for made in (pickle.loads(pickle.dumps(other)), copy.copy(other), copy.deepcopy(other)):
        assert made is not other and made.max_traces == 5
        np.testing.assert_array_equal(made(X), other(X))
        assert not is_native(made)


def test_copies_of_other_callables() -> None:
    f = jit(functools.partial(np_mean))
    for made in (pickle.loads(pickle.dumps(f)), copy.deepcopy(f), jit(f), jit(jit(f))):
        for _ in range(3):
            assert made(X) == f(X)


def np_mean(x: Any) -> Any:
    return np.mean(x)


def test_methods() -> None:
    model = Model()
    for _ in range(4):
        np.testing.assert_array_equal(model.apply(X), X * 3)
        np.testing.assert_array_equal(Model.apply(model, X), X * 3)
        np.testing.assert_array_equal(model.twice(X), X * 2)
    bound = model.apply
    assert bound.__self__ is model
    assert counted(Model.__dict__["apply"], model, X)[1] == 0
    np.testing.assert_array_equal(bound(X), X * 3)
    other = Model()
    other.k = 5.0
    np.testing.assert_array_equal(other.apply(X), X * 5)
    np.testing.assert_array_equal(model.apply(X), X * 3)


def test_static_arguments() -> None:
    f = fgrad.jit(lambda x, mode, n=1: x * n if mode == "up" else -x * n, static_argnums=(1, 2))
    for _ in range(3):
        np.testing.assert_array_equal(f(X, "up"), X)
        np.testing.assert_array_equal(f(X, "down", n=2), -2 * X)
        np.testing.assert_array_equal(f(X, "".join(["u", "p"]), 3), X * 3)
        np.testing.assert_array_equal(f(X, "up", True), X)
    assert counted(f, X, "up")[1] == 0


def test_tracers_go_to_python() -> None:
    f = learnt(lambda x: (x * x).sum(), X)
    np.testing.assert_allclose(fgrad.grad(f)(X), 2 * X)
    np.testing.assert_allclose(fgrad.vmap(f)(np.stack([X, X])), [f(X)] * 2)
    np.testing.assert_allclose(jit(lambda x: f(x) + 1)(X), f(X) + 1)


def test_settings_change() -> None:
    runs = []

    def fun(x: Any) -> Any:
        runs.append(1)
        return x + 1

    f = learnt(fun, X)
    traced = len(runs)
    with config.override(disable_jit=True):
        f(X)
        assert len(runs) == traced + 1
    assert counted(f, X)[1] == 0
    assert len(runs) == traced + 1
    with config.override(native_calls=False):
        assert counted(f, X)[1] == 1
    assert counted(f, X)[1] == 0


def test_scalar_kinds_are_kept_apart() -> None:
    f = jit(lambda x, s: x * s)
    x = np.arange(4, dtype=np.int8)
    for _ in range(3):
        for s in (2, 2.0, True, np.int64(2), np.float32(2), np.array(2.0), np.array([2])):
            assert_same(f(x, s), x * s)


def test_huge_integers() -> None:
    f = learnt(lambda x, n: x + n, X.astype("i8"), 5)
    for _ in range(3):
        for n in (2**63, -(2**63) - 1, 10**40):
            with pytest.raises(UnsupportedTypeError, match="more than 64 bits"):
                f(X.astype("i8"), n)
        assert f(np.zeros(1, "i8"), 2**63 - 1)[0] == 2**63 - 1


FRESH = """
import copy, pickle
import numpy as np
import fgrad
from fgrad.compile.jit.call import FlatCall
from fgrad.compile.entry.native import is_native

class Model:
    @fgrad.jit(static_argnums=0)
    def apply(self, x):
        return x * 2

f = fgrad.jit(lambda d, s: {"y": d["x"] * s})
x = np.arange(3.0)
for _ in range(20):
    assert (f({"x": x}, 2)["y"] == x * 2).all()
    assert (f({"x": x}, s=2)["y"] == x * 2).all()
    assert (Model().apply(x) == x * 2).all()
assert not is_native(f) and not f.native.signatures
assert copy.copy(f)({"x": x}, 3)["y"][1] == 3.0
"""


@pytest.mark.parametrize("how", ["setting", "other interpreter"])
def test_through_python(how: str) -> None:
    """Without native calls all works as before."""
    environment = dict(os.environ)
    code = FRESH
    if how == "setting":
        environment["FGRAD_NATIVE_CALLS"] = "0"
    else:
        code = "from fgrad.compile.llvm import abi\nabi.LAYOUT = None\n" + FRESH
    subprocess.run([sys.executable, "-c", code], env=environment, check=True, timeout=300)


def test_layout_is_found_when_memory_is_filled() -> None:
    """The probes do not look at objects that are gone."""
    code = "from fgrad.compile.llvm.abi import LAYOUT\nassert LAYOUT is not None"
    environment = {**os.environ, "PYTHONMALLOC": "debug"}
    subprocess.run([sys.executable, "-c", code], env=environment, check=True, timeout=300)


def test_nested_calls_are_native() -> None:
    """What an eager transform calls of a jitted function runs natively too."""
    f = jit(lambda x: (np.tanh(x) * x).sum())
    gradient = fgrad.grad(f)
    expected = fgrad.grad(f.__wrapped__)(X)
    for _ in range(4):
        np.testing.assert_allclose(gradient(X), expected, rtol=1e-5)
        np.testing.assert_allclose(gradient(X[::-1]), expected[::-1], rtol=1e-5)
        np.testing.assert_allclose(fgrad.vmap(f)(np.stack([X, X * 2])), [f(X), f(X * 2)], rtol=1e-5)
    flats = [x for x in gc.get_objects() if type(x) is FlatCall and is_native(x)]
    assert len(flats) >= 2


@pytest.mark.parametrize(("leaves", "native"), [(1000, True), (3000, False)])
def test_many_leaves(leaves: int, native: bool) -> None:
    f = jit(lambda d: (d["k0"] + 1, {k: d[k] for k in list(d)[:20]}))
    d = {f"k{i}": X[: 1 + i % 2] * i for i in range(leaves)}
    for _ in range(3):
        result, calls = counted(f, d)
        np.testing.assert_array_equal(result[0], 1.0)
        np.testing.assert_array_equal(result[1]["k19"], X[:2] * 19)
    assert (calls == 0) == native
