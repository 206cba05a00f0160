"""Gather, scatter and blocks: meaning, derivatives, batching."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from rule_checks import check_batch, check_derivatives, check_types, rng_of

import fgrad
from fgrad.errors import DtypeError, ShapeError
from fgrad.ir.aval import aval_of
from fgrad.ops import index
from fgrad.ops.index import dynamic_slice, dynamic_update, gather, scatter
from fgrad.trace import trace

SHAPES = [((5,), (0,)), ((4, 3), (0,)), ((3, 4), (1,)), ((3, 4, 2), (0, 2)), ((2, 3, 2), (0, 1, 2))]
INDEX_SHAPES = [(), (6,), (2, 3), (0,)]
MODES = ["set", "add", "mul", "min", "max"]
CASES = list(itertools.product(SHAPES, INDEX_SHAPES))


def draw(case, rng, low=0, over=0):
    """x, indices (up to `over` beyond the bounds) and axes of a case."""
    (shape, axes), index_shape = case
    indices = tuple(np.asarray(rng.integers(low, shape[a] + over, index_shape))[()] for a in axes)
    return rng.standard_normal(shape), indices, axes


def updates_like(x, indices, axes, rng):
    rest = [n for a, n in enumerate(x.shape) if a not in axes]
    return rng.standard_normal((*np.shape(indices[0]), *rest))


def loop_gather(x, indices, axes, mode):
    rest = [n for a, n in enumerate(x.shape) if a not in axes]
    out = np.zeros((*np.shape(indices[0]), *rest), x.dtype)
    for at in np.ndindex(np.shape(indices[0])):
        ids = [int(i[at]) for i in indices]
        inside = all(0 <= i < x.shape[a] for i, a in zip(ids, axes, strict=True))
        if inside or mode == "clip":
            ids = [min(max(i, 0), x.shape[a] - 1) for i, a in zip(ids, axes, strict=True)]
            place = [slice(None)] * x.ndim
            for i, a in zip(ids, axes, strict=True):
                place[a] = i
            out[at] = x[tuple(place)]
    return out


COMBINE = {
    "set": lambda a, b: b,
    "add": np.add,
    "mul": np.multiply,
    "min": np.minimum,
    "max": np.maximum,
}


def loop_scatter(x, indices, updates, axes, mode):
    out = x.copy()
    for at in np.ndindex(np.shape(indices[0])):
        ids = [int(i[at]) for i in indices]
        if all(0 <= i < x.shape[a] for i, a in zip(ids, axes, strict=True)):
            place = [slice(None)] * x.ndim
            for i, a in zip(ids, axes, strict=True):
                place[a] = i
            out[tuple(place)] = COMBINE[mode](out[tuple(place)], updates[at])
    return out


@pytest.mark.parametrize("mode", ["clip", "fill"])
@pytest.mark.parametrize("case", CASES)
def test_gather(case, mode):
    rng = rng_of(f"gather{case}{mode}")
    x, indices, axes = draw(case, rng, -1, 2)
    f = lambda x, *i: gather(x, i, axes, mode)  # noqa: E731
    np.testing.assert_array_equal(f(x, *indices), loop_gather(x, indices, axes, mode))
    check_types(f, x, *indices)
    check_derivatives(lambda x: f(x, *indices), x, seed=str(case))


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("case", CASES)
def test_scatter(case, mode):
    rng = rng_of(f"scatter{case}{mode}")
    x, indices, axes = draw(case, rng, -1, 2)
    u = updates_like(x, indices, axes, rng)
    f = lambda x, u, *i: scatter(x, i, u, axes, mode)  # noqa: E731
    expected = loop_scatter(x, indices, u, axes, mode)
    np.testing.assert_allclose(f(x, u, *indices), expected, rtol=1e-14)
    check_types(f, x, u, *indices)
    check_derivatives(lambda x, u: f(x, u, *indices), x, u, seed=str(case))
    check_derivatives(lambda u: f(x, u, *indices), u, order=1, seed=str(case))
    check_derivatives(lambda x: f(x, u, *indices), x, order=1, seed=str(case))


@pytest.mark.parametrize("case", CASES)
def test_batching(case):
    rng = rng_of(f"batch{case}")
    draws = [draw(case, rng, 0, 1) for _ in range(3)]
    xs, axes = [d[0] for d in draws], draws[0][2]
    us = [updates_like(x, i, axes, rng) for x, i, _ in draws]
    indices = list(zip(*[d[1] for d in draws], strict=True))
    check_batch(lambda x, *i: gather(x, i, axes), xs, *indices, seed=str(case))
    check_batch(lambda x, *i: gather(x, i, axes, "fill"), xs, *indices, seed=str(case))
    for mode in ("set", "mul") if len(axes) > 2 else MODES:
        f = lambda x, u, *i, mode=mode: scatter(x, i, u, axes, mode)  # noqa: E731
        check_batch(f, xs, us, *indices, seed=str(case))


def test_set_keeps_the_last_and_its_gradient():
    x, u, i = np.zeros(4), np.array([1.0, 2.0, 3.0]), np.array([1, 1, 2])
    np.testing.assert_array_equal(scatter(x, (i,), u, (0,)), [0, 2, 3, 0])
    _, pull = fgrad.vjp(lambda x, u: scatter(x, (i,), u, (0,)), x, u)
    ct_x, ct_u = pull(np.array([1.0, 2.0, 3.0, 4.0]))
    np.testing.assert_array_equal(ct_x, [1, 0, 0, 4])
    np.testing.assert_array_equal(ct_u, [0, 2, 3])


def test_product_with_zeros_has_all_derivatives():
    """out = x u1 u2 u3 at one place, with one and with two zeros."""
    i = np.array([1, 1, 0, 1])
    f = lambda x, u: scatter(x, (i,), u, (0,), "mul")  # noqa: E731
    x = np.array([0.7, 1.3])
    for u in ([0.0, 2.0, 0.5, 3.0], [0.0, 0.0, 0.5, 3.0]):
        check_derivatives(f, x, np.array(u), order=3, tol=1e-4)


def test_extremum_ties_share():
    i = np.array([0, 0, 1])
    _, pull = fgrad.vjp(
        lambda x, u: scatter(x, (i,), u, (0,), "max"),
        np.array([2.0, 5.0]),
        np.array([2.0, 1.0, 5.0]),
    )
    ct_x, ct_u = pull(np.array([1.0, 1.0]))
    np.testing.assert_array_equal(ct_x, [0.5, 0.5])
    np.testing.assert_array_equal(ct_u, [0.5, 0, 0.5])


@pytest.mark.parametrize("dtype", ["i1", "u1", "i4", "u8", "f2", "f4", "c8", "?"])
def test_dtypes(dtype):
    x = np.arange(6).reshape(3, 2).astype(dtype)
    i = np.array([2, 0], "i1")
    assert gather(x, (i,), (0,)).dtype == x.dtype
    for mode in MODES[:3] if dtype == "c8" else MODES:
        out = scatter(x, (i,), x[:2], (0,), mode)
        assert out.dtype == x.dtype
        np.testing.assert_array_equal(out, loop_scatter(x, (i,), x[:2], (0,), mode))


def test_narrow_index_dtypes_reach_beyond_their_range():
    x = np.arange(300.0)
    for dtype in ("i1", "u1", "u8"):
        i = np.array([3, 100], dtype)
        np.testing.assert_array_equal(gather(x, (i,), (0,)), [3, 100])
        check_derivatives(lambda x, i=i: gather(x, (i,), (0,)), x)
    big = np.array([2**64 - 1], "u8")
    np.testing.assert_array_equal(gather(x, (big,), (0,)), [299])
    np.testing.assert_array_equal(gather(x, (big,), (0,), "fill"), [0])


def test_empty_axis():
    x, none, some = np.zeros((0, 2)), np.zeros((0,), int), np.zeros((3,), int)
    assert gather(x, (none,), (0,)).shape == (0, 2)
    np.testing.assert_array_equal(gather(x, (some,), (0,), "fill"), np.zeros((3, 2)))
    assert scatter(x, (some,), np.ones((3, 2)), (0,), "add").shape == (0, 2)


BLOCKS = [
    ((7,), (3,)),
    ((5, 4), (2, 4)),
    ((5, 4), (5, 4)),
    ((3, 4, 5), (2, 1, 3)),
    ((4, 3), (0, 2)),
    ((), ()),
]


@pytest.mark.parametrize(("shape", "sizes"), BLOCKS)
def test_blocks(shape, sizes):
    rng = rng_of(f"blocks{shape}{sizes}")
    x, u = np.asarray(rng.standard_normal(shape))[()], np.asarray(rng.standard_normal(sizes))[()]
    for _ in range(4):
        starts = [np.int32(rng.integers(-2, n + 2)) for n in shape]
        at = [min(max(int(s), 0), n - k) for s, n, k in zip(starts, shape, sizes, strict=True)]
        place = tuple(slice(s, s + k) for s, k in zip(at, sizes, strict=True))
        out = dynamic_update(x, u, starts)
        np.testing.assert_array_equal(dynamic_slice(x, starts, sizes), x[place])
        np.testing.assert_array_equal(out[place], u)
        rest = np.ones(shape, bool)
        rest[place] = False
        np.testing.assert_array_equal(np.asarray(out)[rest], np.asarray(x)[rest])
        check_types(lambda x, *s: dynamic_slice(x, s, sizes), x, *starts)
        check_types(lambda x, u, *s: dynamic_update(x, u, s), x, u, *starts)
        check_derivatives(lambda x, s=starts: dynamic_slice(x, s, sizes), x)
        check_derivatives(lambda x, u, s=starts: dynamic_update(x, u, s), x, u)


@pytest.mark.parametrize(("shape", "sizes"), BLOCKS[:-1])
def test_blocks_batched(shape, sizes):
    rng = rng_of(f"blocks batched{shape}{sizes}")
    xs = [rng.standard_normal(shape) for _ in range(3)]
    us = [rng.standard_normal(sizes) for _ in range(3)]
    starts = [[rng.integers(-2, n + 2) for _ in range(3)] for n in shape]
    check_batch(lambda x, *s: dynamic_slice(x, s, sizes), xs, *starts)
    check_batch(lambda x, u, *s: dynamic_update(x, u, s), xs, us, *starts)


def test_errors_name_the_problem():
    x, i = aval_of(np.zeros((3, 4))), aval_of(np.zeros(2, int))
    with pytest.raises(ShapeError, match="axes"):
        index.gather_p.type_of(x, i, axes=(2,), mode="clip")
    with pytest.raises(DtypeError, match="float64"):
        index.gather_p.type_of(x, x, axes=(0,), mode="clip")
    with pytest.raises(ShapeError, match="updates have shape"):
        index.scatter_p.type_of(x, x, i, axes=(0,), mode="set")
    with pytest.raises(ShapeError, match="does not fit"):
        trace(lambda x: [dynamic_slice(x, (np.int64(0), np.int64(0)), (4, 4))], [x])
