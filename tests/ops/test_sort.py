"""Sorting: order, stability, NaN, carried operands, derivative, batching."""

from __future__ import annotations

import numpy as np
import pytest
from rule_checks import check_batch, check_derivatives, check_types, rng_of

from fgrad.errors import ShapeError
from fgrad.ir.aval import aval_of
from fgrad.ops.sort import sort, sort_p


@pytest.mark.parametrize(("shape", "axis"), [((6,), 0), ((3, 4), 0), ((3, 4), 1), ((2, 0, 3), 1)])
@pytest.mark.parametrize("num_keys", [1, 2])
def test_sort(shape, axis, num_keys):
    rng = rng_of(f"sort{shape}{axis}{num_keys}")
    first = rng.integers(0, 3, shape)
    second, carried = rng.standard_normal((2, *shape))
    operands = (first, second, carried) if num_keys == 2 else (second, first, carried)
    f = lambda *xs: sort(xs, axis, num_keys)  # noqa: E731
    outs = f(*operands)
    keys = list(zip(*[np.moveaxis(x, axis, 0) for x in operands], strict=True))
    for lane in np.ndindex(*[n for a, n in enumerate(shape) if a != axis]):
        rows = sorted([tuple(x[lane] for x in row) for row in keys], key=lambda r: r[:num_keys])
        got = [np.moveaxis(x, axis, 0)[(slice(None), *lane)] for x in outs]
        assert rows == list(zip(*got, strict=True))
    assert [x.dtype for x in outs] == [x.dtype for x in operands]
    check_types(f, *operands)
    g = lambda second, carried: f(  # noqa: E731
        *((first, second, carried) if num_keys == 2 else (second, first, carried))
    )
    check_derivatives(
        lambda a, b: (g(a, b)[0 if num_keys == 1 else 1], g(a, b)[2]), second, carried
    )


def test_stable_with_nan_last():
    x = np.array([np.nan, 1.0, -0.0, 0.0, -np.inf, np.nan, 1.0, np.inf])
    y, order = sort((x, np.arange(8)), 0)
    np.testing.assert_array_equal(y, np.sort(x))
    np.testing.assert_array_equal(order, [4, 2, 3, 1, 6, 7, 0, 5])
    np.testing.assert_array_equal(sort((np.zeros(8), x, np.arange(8)), 0, 2)[2], order)


@pytest.mark.parametrize("dtype", ["?", "i1", "u8", "f2", "f4", "c16"])
def test_dtypes(dtype):
    x = np.array([3, 0, 2, 1, 0]).astype(dtype)
    (y,) = sort((x,), 0)
    assert y.dtype == x.dtype
    np.testing.assert_array_equal(y, np.sort(x))


@pytest.mark.parametrize("axis", [0, 1])
def test_batching(axis):
    rng = rng_of(f"sort batch{axis}")
    a, b, c = rng.standard_normal((3, 3, 4, 2))
    for seed in range(3):
        check_batch(lambda a, b, c: sort((a, b, c), axis, 2), a, b, c, seed=str(seed))
        check_batch(lambda a: sort((a,), axis), a, seed=str(seed))


def test_arguments_are_not_changed():
    x = np.array([2.0, 1.0])
    sort((x,), 0)
    np.testing.assert_array_equal(x, [2, 1])


def test_errors():
    x = aval_of(np.zeros((2, 3)))
    with pytest.raises(ShapeError, match="axis 2"):
        sort_p.type_of(x, axis=2, num_keys=1)
    with pytest.raises(ShapeError, match="2 keys"):
        sort_p.type_of(x, axis=0, num_keys=2)
    with pytest.raises(ShapeError, match="have shapes"):
        sort_p.type_of(x, aval_of(np.zeros(2)), axis=0, num_keys=1)
