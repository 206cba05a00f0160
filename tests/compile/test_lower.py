"""Lowering: every primitive has a rule, and compiled results are NumPy's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from sources import load_primitives

import fgrad
import fgrad.ops
from fgrad.compile.kernel.text import print_kernel
from fgrad.compile.lower.groups import LIBRARY_STEPS
from fgrad.compile.lower.nest import NESTS
from fgrad.compile.lower.rules import RULES
from fgrad.compile.passes.inline import EXPANSIONS
from fgrad.compile.pipeline import compile_program
from fgrad.ir.aval import aval_of
from fgrad.ir.primitive import REGISTRY
from fgrad.ir.traits import Holds
from fgrad.ops import dot, elementwise, index, random_bits, reduce, shape, sort, window
from fgrad.trace import run, trace

load_primitives()

RNG = np.random.default_rng(0)
A = RNG.normal(size=(3, 40, 50))
B = RNG.normal(size=(50, 30))
C = RNG.normal(size=(3, 30, 50))
IMAGE = RNG.normal(size=(4, 6, 9, 8))


def _is_lowered(name: str) -> bool:
    if name == "barrier":  # a group that passes its operands on
        return True
    prim = REGISTRY[name]
    try:
        return RULES[prim] is not None
    except KeyError:
        tables = NESTS, LIBRARY_STEPS, EXPANSIONS
        by_itself = any(prim in t for t in tables) or prim.host is not None
        return by_itself or prim.composition is not None or prim.holds is Holds.CALL


@pytest.mark.parametrize("name", sorted(REGISTRY))
def test_every_primitive_is_lowered(name: str) -> None:
    assert _is_lowered(name)


def assert_compiles(fun: Callable[..., Any], *args: Any) -> None:
    """Compiled and interpreted results agree in shape, dtype and numbers."""
    program = trace(fun, [aval_of(x) for x in args]).program
    arrays = [np.asarray(x, order="C") for x in args]
    with np.errstate(all="ignore"):
        expected = run(program, args)
    for a, e in zip(compile_program(program).executable(arrays), expected, strict=True):
        a, e = np.asarray(a), np.asarray(e)
        assert (a.shape, a.dtype) == (e.shape, e.dtype)
        tolerance = 1e-5 if a.dtype.itemsize < 8 else 1e-11
        np.testing.assert_allclose(a, e, rtol=tolerance, atol=tolerance)


def _dot(contract: Any, batch: Any = ((), ())) -> Callable[..., Any]:
    return lambda a, b: [dot.dot_general(a, b, contract, batch)]


@pytest.mark.parametrize(
    ("fun", "args"),
    [
        (_dot(((2,), (0,))), (A, B)),
        (_dot(((2,), (2,)), ((0,), (0,))), (A, C)),
        (_dot(((2,), (0,))), (A, B[:, 0].copy())),
        (_dot(((0, 1), (0, 1))), (A, A)),
        (_dot(((), ())), (A[0, 0], B[0])),
        (_dot(((1,), (1,)), ((0,), (0,))), (A[:, 0], C[:, 0])),
        (_dot(((1,), (0,))), (np.arange(12).reshape(3, 4), np.arange(8).reshape(4, 2))),
        (_dot(((1,), (0,))), (A[0] > 0, B > 0)),
    ],
)
def test_products(fun: Callable[..., Any], args: Any) -> None:
    assert_compiles(fun, *args)


@pytest.mark.parametrize(
    "fun",
    [
        lambda a, b: shape.permute(b, (1, 0)),
        lambda a, b: shape.slice_(b, (10, 5), (50, 30), (1, 1)),
        lambda a, b: shape.slice_(b, (0, 0), (50, 30), (1, 2)),
        lambda a, b: shape.reverse(b, (0,)),
        lambda a, b: elementwise.exp(b),
    ],
)
def test_products_of_moved_operands(fun: Callable[..., Any]) -> None:
    def product(a: Any, b: Any) -> list[Any]:
        b = fun(a, b)
        axis = 0 if b.shape[0] in (50, 40) else 1
        a = shape.slice_(a, (0, 0, 0), (3, 40, b.shape[axis]))
        return [dot.dot_general(a, b, ((2,), (axis,)), ((), ()))]

    assert_compiles(product, A, B)


def test_products_with_batch_axes_that_have_no_common_stride() -> None:
    def heads(a: Any, b: Any) -> list[Any]:
        a, b = shape.reshape(a, (3, 40, 5, 10)), shape.reshape(b, (3, 30, 5, 10))
        return [dot.dot_general(a, b, ((3,), (3,)), ((0, 2), (0, 2)))]

    assert_compiles(heads, A, C)


def test_products_of_a_repeated_operand() -> None:
    def repeated(a: Any, b: Any) -> list[Any]:
        b = shape.broadcast(b, (3, 50, 30), (1, 2))
        left = dot.dot_general(a, b, ((2,), (1,)), ((0,), (0,)))
        return [left, dot.dot_general(b, a, ((1,), (2,)), ((0,), (0,)))]

    assert_compiles(repeated, A, B)


@pytest.mark.parametrize("feature_groups", [1, 2, 3])
@pytest.mark.parametrize("batch_groups", [1, 2])
@pytest.mark.parametrize(
    "geometry",
    [
        ((1, 1), ((0, 0), (0, 0)), (1, 1), (1, 1)),
        ((2, 1), ((0, 0), (1, 2)), (1, 1), (1, 2)),
        ((1, 2), ((-1, 1), (2, 2)), (2, 1), (1, 1)),
    ],
)
def test_convolutions(feature_groups: int, batch_groups: int, geometry: Any) -> None:
    w = RNG.normal(size=(6 * batch_groups, 6 // feature_groups, 3, 2))
    groups = (feature_groups, batch_groups)
    assert_compiles(lambda x, w: [window.conv(x, w, *geometry, *groups)], IMAGE, w)


def test_windows_and_fold() -> None:
    geometry = ((2, 3), (3, 2), (2, 1), (1, 2))
    assert_compiles(lambda x: [window.windows(x, *geometry)], IMAGE)
    y = window.windows(IMAGE, *geometry)
    assert_compiles(lambda y: [window.fold(y, IMAGE.shape, *geometry)], y)


@pytest.mark.parametrize("axis", [0, 1])
def test_sorting(axis: int) -> None:
    x = RNG.normal(size=(5, 7))
    x[2, 3] = np.nan
    keys = RNG.integers(0, 3, (5, 7))
    assert_compiles(lambda a: sort.sort([a], axis), x)
    assert_compiles(lambda a, b: sort.sort([a, b], axis), np.round(x), x)
    assert_compiles(lambda a, b, c: sort.sort([a, b, c], axis, 2), keys, np.round(x), x)


def test_random_bits() -> None:
    assert_compiles(lambda k: [random_bits.random_bits(k, (5, 3))], np.array([3, 99], np.uint32))
    keys = np.arange(8, dtype=np.uint32).reshape(4, 2)
    assert_compiles(lambda k: [random_bits.random_bits(k, ())], keys)


@pytest.mark.parametrize("mode", ["set", "add", "mul", "min", "max"])
def test_scatter_drops_what_is_out_of_bounds(mode: str) -> None:
    where = np.array([[0, 2], [7, 2]])
    updates = np.arange(12.0).reshape(2, 2, 3)
    assert_compiles(
        lambda x, u: [index.scatter(x, (where,), u, (0,), mode)], RNG.normal(size=(4, 3)), updates
    )


@pytest.mark.parametrize("mode", ["clip", "fill"])
@pytest.mark.parametrize("dtype", [np.int64, np.int32, np.uint8, np.uint64])
def test_gather_by_all_integers(mode: str, dtype: type) -> None:
    rows = np.array([0, 2, 9], dtype)
    assert_compiles(lambda x, i: [index.gather(x, (i, i), (0, 2), mode)], A, rows)


def test_positions_of_extremes_with_nan() -> None:
    x = RNG.normal(size=(3, 5))
    x[1, 2] = x[1, 4] = np.nan
    x[0, 1] = x[0, 3] = 9.0
    assert_compiles(lambda a: [reduce.argmax(a, 1), reduce.argmin(a, 1), reduce.argmax(a, 0)], x)


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int32, np.int64, np.uint8, np.bool_])
def test_reductions_of_all_dtypes(dtype: type) -> None:
    x = RNG.integers(0, 5, (4, 6, 5)).astype(dtype)
    names = ["reduce_sum", "reduce_prod", "reduce_max", "reduce_min"]
    for axes in ((0,), (1,), (2,), (0, 2), (0, 1, 2)):
        funs = [getattr(reduce, name) for name in names]
        assert_compiles(lambda a, axes=axes, funs=funs: [f(a, axes) for f in funs], x)


def test_empty_arrays() -> None:
    x = np.zeros((0, 3))
    assert_compiles(lambda a: [reduce.reduce_sum(a, (0,)), elementwise.sin(a)], x)
    assert_compiles(lambda a: [dot.dot_general(a, a, ((0,), (0,)), ((), ()))], x)


def _heads(x: Any) -> Any:
    """(batch, time, 3 * heads * width) -> (3, batch, heads, time, width)"""
    return np.transpose(x.reshape(2, 5, 3, 4, 6), (2, 0, 3, 1, 4))


def test_merged_axes_are_cut_where_places_would_be_divided() -> None:
    x, y, z = RNG.normal(size=(2, 5, 72)), RNG.normal(size=(3, 2, 4, 5, 6)), RNG.normal(size=72)
    merged = lambda y: np.transpose(y, (1, 3, 0, 2, 4)).reshape(2, 5, 72)  # noqa: E731
    for fun, args in (
        (lambda y, x, z: merged(y) * x + z, (y, x, z)),
        (lambda x, y: _heads(x)[0] * _heads(x)[1] + y[2], (x, y)),
        (lambda x, z: (x * z).reshape(10, 72).T[7:50].reshape(43, 2, 5) * 2, (x, z)),
        (lambda y: np.roll(merged(y), 5, axis=2) - np.flip(merged(y), axis=1), (y,)),
    ):
        expected, found = fun(*args), fgrad.jit(fun)(*args)
        np.testing.assert_allclose(found, expected, rtol=1e-13)
    kernel = fgrad.inspect(lambda y, x, z: merged(y) * x + z)(y, x, z).kernels[0]
    assert "floor_divide" not in print_kernel(kernel)
