"""Every keyword of JAX's and optax's functions is taken, or refused by a card; none is ignored.

`python benchmarks/jax_keywords.py` writes the keywords that the installed JAX and optax have.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import json
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from sources import ROOT

import fgrad
import fgrad.numpy as fnp
from fgrad.base.keywords import also_takes
from fgrad.base.lazy_import import load
from fgrad.errors import ArgumentError
from fgrad.numpy.jax_keywords import KEYWORDS

sys.path.insert(0, str(ROOT / "docs"))
MODULES = importlib.import_module("jax_names_tables").MODULES
GOLDEN = json.loads((ROOT / "tests" / "golden" / "jax_keywords.json").read_text())
X = np.array([3.0, 1.0, 2.0])
A = np.array([[2.0, 1.0], [3.0, 4.0]])
K = np.array([3, 1, 2], np.int32)
# NumPy's own: it refuses them in its words, which name the keyword.
NUMPYS = {
    "jax.numpy.promote_types": ("a", "b"),
    "jax.numpy.fromstring": ("count", "sep", "dtype"),
    "jax.numpy.mask_indices": ("size",),
}


def here(name: str) -> Any:
    """The function of fgrad that stands for one of JAX."""
    module, _, last = name.rpartition(".")
    return getattr(load(MODULES[module]), last)


def parameters(function: Any) -> Any:
    try:
        return inspect.signature(function).parameters.values()
    except ValueError:  # a builtin of NumPy's
        return ()


@pytest.mark.parametrize("name", GOLDEN)
def test_a_keyword_is_known(name: str) -> None:
    function = here(name)
    own = {p.name for p in parameters(function)} | set(getattr(function, "other_keywords", ()))
    rest = any([p.kind is p.VAR_KEYWORD for p in parameters(function)])
    missing = [k for k in GOLDEN[name][1] if k not in own and k not in NUMPYS.get(name, ())]
    assert not missing or rest or isinstance(function, np.ufunc) or name.endswith(".logistic")


# The modules of which places are JAX's: what it has no place for is given by name.
PLACED = ("jax.nn", "jax.random", "optax")
BEYOND = {"jax.nn.one_hot"}  # more may be given by place than in JAX


@pytest.mark.parametrize("name", [n for n in GOLDEN if n.rpartition(".")[0] in PLACED])
def test_arguments_have_the_places_that_they_have_there(name: str) -> None:
    theirs = GOLDEN[name][0]
    mine = [p for p in parameters(here(name)) if p.kind is p.POSITIONAL_OR_KEYWORD]
    required = [p.name for p in mine if p.default is p.empty]
    for k, p in enumerate(mine):
        if p.name not in required and name not in BEYOND:
            assert k < len(theirs) and theirs[k] == p.name, (p.name, theirs)


DECORATED: dict[str, Callable[..., Any]] = {
    name: here(name) for name in GOLDEN if hasattr(here(name), "refused_keywords")
}
REFUSED = [(name, k) for name, f in DECORATED.items() for k in f.refused_keywords]


@pytest.mark.parametrize(("name", "keyword"), REFUSED)
def test_what_cannot_be_done_is_refused(name: str, keyword: str) -> None:
    with pytest.raises(ArgumentError, match=rf"does not take {keyword}") as found:
        DECORATED[name](**{keyword: object()})
    assert "write" in str(found.value)


def test_there_are_many_of_them() -> None:
    assert len(REFUSED) > 120 and len(GOLDEN) > 700


def test_hints_and_values_that_mean_nothing_are_taken() -> None:
    key = fgrad.random.key(0)
    np.testing.assert_array_equal(
        fgrad.random.normal(key, (3,), out_sharding=None), fgrad.random.normal(key, (3,))
    )
    assert fgrad.lax.fori_loop(0, 3, lambda i, c: c + i, 0, unroll=True) == 3
    assert fgrad.jit(lambda x: x * 2, inline=True, keep_unused=True)(2.0) == 4.0
    assert fgrad.tree.reduce(lambda a, b: a + b, [1, 2], initializer=10) == 13


def test_a_flag_is_no_number() -> None:
    @also_takes(flag=True, count=1)
    def f() -> int:
        return 1

    assert f(flag=True, count=1) == 1
    for given in ({"flag": 1}, {"count": True}, {"count": 1.0}, {"flag": None}):
        with pytest.raises(ArgumentError):
            f(**given)


# --- fgrad.numpy: what the keywords mean, plain and traced ----------------------------------------

Case = tuple[Callable[..., Any], tuple[Any, ...], Any]
MEANT: dict[str, Case] = {
    "precision": (lambda x: fnp.dot(x, x, precision="highest"), (X,), 14.0),
    "element type": (
        lambda k: fnp.dot(k, k, preferred_element_type=np.float32), (K,), np.float32(14)),
    "element type of matmul": (
        lambda a: fnp.matmul(a, a, preferred_element_type=np.float64),
        (A.astype(np.float32),), A @ A),
    "element type of einsum": (
        lambda a: fnp.einsum("ij,jk", a, a, preferred_element_type=np.float64),
        (A.astype(np.float32),), A @ A),
    "small integers": (
        lambda k: fnp.matmul(k, k, preferred_element_type=np.int32),
        (np.full(4, 100, np.int8),), np.int32(40_000)),
    "no promotion": (lambda k: fnp.sum(k, promote_integers=False), (K,), np.int32(6)),
    "promotion": (lambda k: fnp.prod(k, promote_integers=True), (K,), np.int64(6)),
    "take fill": (
        lambda x: fnp.take(x, np.array([0, 7, -1]), mode="fill"), (X,), [3.0, np.nan, 2.0]),
    "take fill value": (
        lambda x: fnp.take(x, np.array([0, 7]), fill_value=-1.0), (X,), [3.0, -1.0]),
    "take along an axis": (
        lambda a: fnp.take(a, np.array([[1, 5]]), 1, mode="fill", fill_value=0.0), (A,),
        [[[1.0, 0.0]], [[4.0, 0.0]]]),
    "take integers": (
        lambda k: fnp.take(k, np.array([9]), mode="fill"), (K,), np.array([-2**31], np.int32)),
    "take clip": (lambda x: fnp.take(x, np.array([9]), mode="clip"), (X,), [2.0]),
    "along axis": (
        lambda a: fnp.take_along_axis(a, np.array([[0, 9], [1, 0]]), 1, mode="fill"), (A,),
        [[2.0, np.nan], [4.0, 3.0]]),
    "along axis clip": (
        lambda a: fnp.take_along_axis(a, np.array([[9], [0]]), 1, mode="clip"), (A,),
        [[1.0], [3.0]]),
    "repeat": (
        lambda x, n: fnp.repeat(x, n, total_repeat_length=5), (X, np.array([2, 0, 1])),
        [3.0, 3.0, 2.0, 2.0, 2.0]),
    "repeat less": (
        lambda x, n: fnp.repeat(x, n, total_repeat_length=2), (X, np.array([1, 5, 1])),
        [3.0, 1.0]),
    "put": (lambda x: fnp.put(x, [0], [9.0], inplace=False), (X,), [9.0, 1.0, 2.0]),
    "place": (
        lambda x: fnp.place(x, np.array([True, False, True]), [9.0], inplace=False), (X,),
        [9.0, 1.0, 9.0]),
    "diagonal": (
        lambda a: fnp.fill_diagonal(a, 0.0, inplace=False), (A,), [[0.0, 1.0], [3.0, 0.0]]),
    "put along axis": (
        lambda a: fnp.put_along_axis(a, np.array([[0], [1]]), 9.0, 1, inplace=False), (A,),
        [[9.0, 1.0], [3.0, 9.0]]),
    "symmetrized": (
        lambda a: fnp.linalg.eigvalsh(a, symmetrize_input=True), (A,),
        np.linalg.eigvalsh((A + A.T) / 2)),
    "a triangle": (
        lambda a: fnp.linalg.cholesky(a, symmetrize_input=False), (A @ A.T,),
        np.linalg.cholesky(A @ A.T)),
    "indices": (lambda x: fnp.argsort(x, dtype=np.int32), (X,), np.array([1, 2, 0], np.int32)),
    "search": (lambda x: fnp.searchsorted(x, 1.5, method="sort"), (np.sort(X),), np.int64(1)),
    "alias": (lambda x: fnp.clip(arr=x, min=1.5, max=2.5), (X,), [2.5, 1.5, 2.0]),
    "zeros": (lambda x: fnp.zeros(3, out_sharding=None) + x, (X,), X),
}  # fmt: skip


@pytest.mark.parametrize("name", MEANT)
def test_meaning(name: str) -> None:
    f, args, expected = MEANT[name]
    before = [x.copy() for x in args]
    for g in (f, fgrad.jit(f)):
        found = g(*args)
        np.testing.assert_array_equal(found, expected)
        if hasattr(expected, "dtype"):
            assert found.dtype == expected.dtype
    for x, old in zip(args, before, strict=True):
        np.testing.assert_array_equal(x, old)


def test_filled_elements_have_no_derivative() -> None:
    g = fgrad.grad(lambda x: np.sum(fnp.take(x, np.array([0, 9, 0]), fill_value=1.0) ** 2))(X)
    np.testing.assert_array_equal(g, [12.0, 0.0, 0.0])
    np.testing.assert_array_equal(
        fgrad.grad(lambda a: fnp.sum(fnp.linalg.eigvalsh(a, symmetrize_input=True)))(A).round(12),
        np.eye(2),
    )


ONLY = [(name, k) for name, known in KEYWORDS.items() for k in known.only]


@pytest.mark.parametrize(("name", "keyword"), ONLY)
def test_other_values_are_refused(name: str, keyword: str) -> None:
    function: Any = fnp
    for part in name.split("."):
        function = getattr(function, part)
    with pytest.raises(ArgumentError, match=f"does not take {keyword}"):
        function(X, **{keyword: object()})


def test_modes_that_there_are_not() -> None:
    with pytest.raises(ArgumentError, match="mode='fil'"):
        fnp.take(X, np.array([0]), mode="fil")
    with pytest.raises(TypeError, match="axes"):
        fnp.take(X, np.array([0]), axes=1)


# --- arguments that a function has and never reads ------------------------------------------------

HINTS = {  # of NumPy's and JAX's: what they say changes no result, or belongs to memory
    "subok", "order", "copy", "device", "optimize", "overwrite_input", "kind", "stable",
    "writeable", "assume_unique", "sorted", "max_work", "indices_are_sorted", "unique_indices",
    "unroll", "weights", "element", "params", "ordered",
}  # fmt: skip


def unread(path: Any) -> set[str]:
    """Public functions and their arguments that no line of them has."""
    found = set()
    for f in ast.parse(path.read_text(encoding="utf-8")).body:
        if not isinstance(f, ast.FunctionDef) or f.name.startswith("_"):
            continue
        decorators = [ast.unparse(d) for d in f.decorator_list]
        if "overload" in decorators or any([d.endswith("_rule") for d in decorators]):
            continue
        names = {n.id for line in f.body for n in ast.walk(line) if isinstance(n, ast.Name)}
        given = [*f.args.posonlyargs, *f.args.args, *f.args.kwonlyargs]
        refusing = all([isinstance(line, (ast.Expr, ast.Raise)) for line in f.body])
        if not refusing:
            found |= {a.arg for a in given if a.arg not in names and a.arg[0] != "_"}
    return found


@pytest.mark.parametrize("folder", ["numpy", "lax", "nn", "random", "optim"])
def test_arguments_are_read(folder: str) -> None:
    for path in sorted((ROOT / "fgrad" / folder).glob("*.py")):
        assert unread(path) <= HINTS, path.name
