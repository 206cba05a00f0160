"""Native sorting of rows: every sorter, dtype and payload against NumPy's stable sort."""

from __future__ import annotations

import numpy as np
import pytest

import fgrad
from fgrad.compile.cpu.rows.sorting import sort_rows
from fgrad.compile.host.program import Call, HostProgram
from fgrad.compile.tasks.routines import RowSort, row_sort

CODES = ["f2", "f4", "f8", "i1", "i2", "i4", "i8", "u1", "u4", "u8", "bool"]
SHAPES = [(3, 1), (2, 3), (5, 16), (3, 17), (2, 64), (1, 65), (3, 100), (0, 5), (2, 300), (1, 9000)]


def run(spec: RowSort, arrays: list[np.ndarray]) -> None:
    """Sort arrays, with work memory behind them."""
    work = np.empty(spec.work_bytes, np.uint8)
    buffers = [*arrays, work]
    step = Call(sort_rows(spec), 0, spec.pieces, tuple(range(len(buffers))))
    HostProgram([step], len(buffers)).run([x.ctypes.data for x in buffers])


def numbers(code: str, shape: tuple[int, ...], kind: str) -> np.ndarray:
    """Keys of a kind: spread, few values, those that compare unlike their bits, in order."""
    rng = np.random.default_rng(len(code) + shape[-1])
    dtype = np.dtype(code)
    if kind == "spread" and dtype.kind in "iu":
        return rng.integers(np.iinfo(dtype).min, np.iinfo(dtype).max, shape, dtype, endpoint=True)
    x = rng.standard_normal(shape) * (3 if kind == "few" else 100)
    x = np.round(x) if kind == "few" else x
    with np.errstate(invalid="ignore"):
        x = x.astype(dtype)
    if kind == "odd" and dtype.kind == "f" and shape[-1] > 2:
        x[:, ::5], x[:, 1::4], x[:, 2::4] = np.nan, 0, -0.0
        x[:, ::7], x[:, 3::9], x[:, 4::11] = -np.nan, np.inf, -np.inf
    return np.sort(x, axis=-1)[:, ::-1].copy() if kind == "falling" else x


@pytest.mark.parametrize("kind", ["spread", "few", "odd", "falling"])
@pytest.mark.parametrize("code", CODES)
def test_rows(code: str, kind: str) -> None:
    """Keys alone have the bits of a stable sort, signs of zeros and of NaN included."""
    for shape in SHAPES:
        keys = numbers(code, shape, kind)
        out = np.empty_like(keys)
        run(row_sort(keys.dtype, *shape), [keys, out])
        assert out.tobytes() == np.sort(keys, axis=-1, kind="stable").tobytes(), shape


@pytest.mark.parametrize("kind", ["spread", "few", "odd", "falling"])
@pytest.mark.parametrize("code", CODES)
def test_rows_with_payloads(code: str, kind: str) -> None:
    """Positions and payloads follow the keys; equal keys stay in their order."""
    for shape in SHAPES:
        keys = numbers(code, shape, kind)
        bytes_ = np.arange(keys.size, dtype="u1").reshape(shape)
        doubles = np.arange(keys.size, dtype="f8").reshape(shape)
        spec = row_sort(keys.dtype, *shape, (bytes_.dtype, None, doubles.dtype))
        outs = [np.empty_like(keys), np.empty_like(bytes_), np.empty(shape, "i8")]
        outs.append(np.empty_like(doubles))
        run(spec, [keys, bytes_, doubles, *outs])
        order = np.argsort(keys, axis=-1, kind="stable")
        np.testing.assert_array_equal(outs[2], order)
        for out, source in zip((outs[0], outs[1], outs[3]), (keys, bytes_, doubles), strict=True):
            assert out.tobytes() == np.take_along_axis(source, order, -1).tobytes(), shape


def test_clusters_that_leading_bits_do_not_part() -> None:
    """Insertion gives up on keys that differ in their last bits only, and nothing is lost."""
    rng = np.random.default_rng(0)
    near = 1.0 + rng.permutation(20000) * 2.0**-52
    x = np.concatenate([-near, near])[None]
    out, order = np.empty_like(x), np.empty(x.shape, "i8")
    run(row_sort(x.dtype, *x.shape), [x, out])
    np.testing.assert_array_equal(out, np.sort(x))
    run(row_sort(x.dtype, *x.shape, (None,), False), [x, order])
    np.testing.assert_array_equal(order, np.argsort(x, kind="stable"))


@pytest.mark.parametrize("axis", [0, 1, 2, None])
def test_jitted_sorts(axis: int | None) -> None:
    """Along any axis; keys and positions of one sort, or only one of them."""
    x = np.random.default_rng(0).integers(0, 9, (4, 30, 70)).astype("f4")
    keys = fgrad.jit(lambda x: np.sort(x, axis=axis))(x)
    order = fgrad.jit(lambda x: np.argsort(x, axis=axis))(x)
    np.testing.assert_array_equal(keys, np.sort(x, axis=axis))
    np.testing.assert_array_equal(order, np.argsort(x, axis=axis, kind="stable"))


def test_jitted_lexsort_and_gradient() -> None:
    """Several keys, and tangents that move with their elements."""
    rng = np.random.default_rng(0)
    keys = [rng.integers(0, 4, (3, 300)) for _ in range(3)]
    found = fgrad.jit(lambda *k: np.lexsort(k))(*keys)
    np.testing.assert_array_equal(found, np.lexsort(keys))
    x, weights = rng.standard_normal((2, 5, 200))

    def loss(x: np.ndarray) -> np.ndarray:
        return np.sum(np.sort(x, axis=0) * weights)

    np.testing.assert_array_equal(fgrad.jit(fgrad.grad(loss))(x), fgrad.grad(loss)(x))


def test_the_number_of_rows_may_be_large() -> None:
    """Rows are divided into pieces, which threads share."""
    x = np.random.default_rng(0).standard_normal((5001, 70))
    sort = fgrad.jit(lambda x: (np.sort(x, axis=-1), np.argsort(x, axis=-1)))
    for _ in range(3):
        keys, order = sort(x)
        np.testing.assert_array_equal(keys, np.sort(x, axis=-1))
        np.testing.assert_array_equal(order, np.argsort(x, axis=-1, kind="stable"))
