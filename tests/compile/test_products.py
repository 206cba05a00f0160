"""Matrix products: numbers, bits that do not depend on how a product is cut, other processors."""

from __future__ import annotations

import ctypes
import itertools
import os
import subprocess
import sys
import threading
from functools import cache
from pathlib import Path
from typing import Any

import llvmlite.binding as llvm
import numpy as np
import pytest

import fgrad
from fgrad.compile.cpu.gemm.function import emit_product
from fgrad.compile.cpu.gemm.micro import TABLE, Tiling, next_tile, tiling
from fgrad.compile.cpu.library import layout, pieces, product_code
from fgrad.compile.llvm.generator import compile_text
from fgrad.compile.llvm.text import ATTRIBUTES, Target
from fgrad.compile.tasks.routines import Gemm, gemm_spec
from fgrad.config import config

F32, F64 = np.dtype(np.float32), np.dtype(np.float64)
BUILDS = ["+avx512f,+avx512dq,+avx512vl,+avx512bw,+avx2,+fma", "+avx2,+fma,+avx", "+sse4.2"]
WORDS = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)
WITH_TABLE = ctypes.CFUNCTYPE(
    None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64, ctypes.c_void_p
)


def operands(spec: Gemm, seed: int = 0) -> list[np.ndarray]:
    """A, B and a C full of NaN."""
    rng = np.random.default_rng(seed)
    a = (spec.k, spec.m) if spec.trans_a else (spec.m, spec.k)
    b = (spec.n, spec.k) if spec.trans_b else (spec.k, spec.n)
    given = [rng.standard_normal((spec.batch, *shape)).astype(spec.dtype) for shape in (a, b)]
    return [*given, np.full((spec.batch, spec.m, spec.n), np.nan, spec.dtype)]


def expected(spec: Gemm, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """The product in float64."""
    left = a.swapaxes(1, 2) if spec.trans_a else a
    right = b.swapaxes(1, 2) if spec.trans_b else b
    return left.astype(F64) @ right.astype(F64)


def run(spec: Gemm, arrays: list[np.ndarray], cuts: tuple[int, ...] = ()) -> np.ndarray:
    """The product by this machine's function, in ranges that end at `cuts`."""
    address, words = product_code(spec)
    function, table = WORDS(address), np.array(words, np.int64)
    pointers = (ctypes.c_void_p * 4)(*[x.ctypes.data for x in [*arrays, table]])
    bounds = [0, *cuts, pieces(spec).count]
    for lo, hi in itertools.pairwise(bounds):
        function(ctypes.addressof(pointers), lo, hi)
    return arrays[2]


def assert_close(spec: Gemm, got: np.ndarray, wanted: np.ndarray) -> None:
    eps = np.finfo(spec.dtype).eps
    np.testing.assert_allclose(got, wanted, rtol=0, atol=4 * eps * max(spec.k, 4))


def random_spec(rng: np.random.Generator, largest: int) -> Gemm:
    m, n, k = (int(2 + rng.integers(0, top)) for top in rng.choice([4, 20, 70, largest], 3))
    ta, tb = (bool(flag) for flag in rng.integers(0, 2, 2))
    dtype = (F32, F64)[int(rng.integers(2))]
    return gemm_spec(dtype, m, n, k, int(rng.integers(1, 4)), trans_a=ta, trans_b=tb)


@pytest.mark.parametrize("seed", range(8))
def test_random_shapes(seed: int) -> None:
    rng = np.random.default_rng(seed)
    for _ in range(40):
        spec = random_spec(rng, 130)
        a, b, c = operands(spec)
        assert_close(spec, run(spec, [a, b, c]), expected(spec, a, b))


@pytest.mark.parametrize("shape", [(1500, 40, 700), (33, 1300, 600), (257, 300, 1500)])
@pytest.mark.parametrize("trans", [(False, False), (True, False), (False, True), (True, True)])
@pytest.mark.parametrize("dtype", [F32, F64], ids=str)
def test_larger_shapes(
    shape: tuple[int, int, int], trans: tuple[bool, bool], dtype: np.dtype
) -> None:
    """Several blocks of columns and of k, copies of both operands."""
    m, n, k = shape
    spec = gemm_spec(dtype, m, n, k, trans_a=trans[0], trans_b=trans[1])
    a, b, c = operands(spec)
    assert_close(spec, run(spec, [a, b, c]), expected(spec, a, b))


def test_rows_on_the_same_cache_sets_are_copied() -> None:
    spec = gemm_spec(F32, 45, 70, 30, lda=1024, ldb=2048)
    a, b, c = (np.zeros(shape, F32) for shape in ((45, 1024), (30, 2048), (45, 70)))
    rng = np.random.default_rng(0)
    a[:], b[:] = rng.standard_normal(a.shape), rng.standard_normal(b.shape)
    assert layout(spec).copy_a
    assert_close(spec, run(spec, [a, b, c]), a[:, :30].astype(F64) @ b[:30, :70].astype(F64))


def test_leading_dimensions_leave_the_rest_alone() -> None:
    rng = np.random.default_rng(1)
    a, b = rng.standard_normal((5, 30, 40)), rng.standard_normal((50, 60))
    c = np.full((5, 35, 45), 7.0)
    spec = gemm_spec(F64, 21, 37, 33, 5, 40, 60, 45, stride_a=1200, stride_b=0, stride_c=35 * 45)
    run(spec, [a, b, c])
    np.testing.assert_allclose(c[:, :21, :37], a[:, :21, :33] @ b[:33, :37], 1e-12, 1e-12)
    assert (c[:, 21:] == 7).all() and (c[:, :, 37:] == 7).all()


@pytest.mark.parametrize("shape", [(3, 0, 4), (0, 5, 4), (3, 4, 0), (20, 40, 0)])
def test_empty(shape: tuple[int, int, int]) -> None:
    m, n, k = shape
    spec = gemm_spec(F32, m, n, k, 2)
    a, b, c = operands(spec)
    run(spec, [a, b, c])
    assert (c == 0).all()


@pytest.mark.parametrize("batch", [(70, 3), (5, 2), (2, 3), (200, 70)])
def test_heads_beside_rows(batch: tuple[int, int]) -> None:
    """Two batch axes without a common stride: calls for the shorter one, or a copy."""
    b, h = batch
    q, k = (np.random.default_rng(b).normal(size=(b, 17, h, 17)).astype(F32) for _ in range(2))

    def scores(q: Any, k: Any) -> Any:
        return np.einsum("bshd,bthd->bhst", q, k)

    np.testing.assert_allclose(fgrad.jit(scores)(q, k), scores(q, k), rtol=1e-4, atol=1e-4)


def test_infinities_and_nan() -> None:
    spec = gemm_spec(F64, 20, 40, 300)
    a, b, c = operands(spec)
    a[0, 3, 200], a[0, 4, 7], b[0, 9, 30], a[0, :, 9] = np.nan, np.inf, -np.inf, 0.0
    with np.errstate(invalid="ignore"):
        np.testing.assert_array_equal(
            np.isfinite(run(spec, [a, b, c])), np.isfinite(expected(spec, a, b))
        )
        np.testing.assert_array_equal(np.isnan(c), np.isnan(expected(spec, a, b)))


# Bits.


@pytest.mark.parametrize("seed", range(4))
def test_cuts_do_not_change_bits(seed: int) -> None:
    rng = np.random.default_rng(seed)
    for _ in range(15):
        spec = random_spec(rng, 400)
        a, b, c = operands(spec)
        whole = run(spec, [a, b, c.copy()])
        count = pieces(spec).count
        cuts = tuple(sorted(int(cut) for cut in rng.integers(0, count + 1, 3)))
        np.testing.assert_array_equal(run(spec, [a, b, c], cuts), whole)


@pytest.mark.parametrize("dtype", [F32, F64])
@pytest.mark.parametrize(("m", "n", "k"), [(1, 5000, 301), (5000, 1, 301), (3, 1, 400_001)])
def test_products_with_vectors_are_cut_for_threads(m: int, n: int, k: int, dtype: type) -> None:
    """A cell is one call of BLAS, with the same bits whoever computes the others."""
    for ta, tb, batch in itertools.product([False, True], [False, True], [1, 2]):
        spec = gemm_spec(dtype, m, n, k, batch, trans_a=ta, trans_b=tb)
        a, b, c = operands(spec)
        whole = run(spec, [a, b, c.copy()])
        assert_close(spec, whole, expected(spec, a, b))
        count = pieces(spec).count
        assert count >= 2 or m * n == 3  # columns of a matrix with three of them
        np.testing.assert_array_equal(run(spec, [a, b, c], tuple(range(1, count))), whole)


def test_a_part_of_a_product_has_the_same_bits() -> None:
    """Whatever tile an element is in, it is the same chain of fused products."""
    rng = np.random.default_rng(2)
    a, b = rng.standard_normal((90, 600)).astype(F32), rng.standard_normal((600, 130)).astype(F32)
    whole = fgrad.jit(np.matmul)(a, b)
    for rows, columns in ((17, 130), (90, 33), (2, 5), (50, 64)):
        part = fgrad.jit(np.matmul)(a[:rows], np.ascontiguousarray(b[:, :columns]))
        np.testing.assert_array_equal(part, whole[:rows, :columns])
        turned = fgrad.jit(lambda x, y: x.T @ y.T)(
            np.ascontiguousarray(a[:rows].T), np.ascontiguousarray(b[:, :columns].T)
        )
        np.testing.assert_array_equal(turned, part)


@pytest.mark.parametrize("dtype", [F32, F64], ids=str)
@pytest.mark.parametrize("shapes", [((300, 500), (500, 260)), ((40, 64, 90), (40, 90, 64))])
def test_threads_do_not_change_bits(shapes: tuple[tuple[int, ...], ...], dtype: np.dtype) -> None:
    rng = np.random.default_rng(3)
    a, b = (rng.standard_normal(shape).astype(dtype) for shape in shapes)
    results = []
    for threads in (1, 2, 4):
        with config.override(num_threads=threads):
            results.append(fgrad.jit(lambda x, y: x @ y)(a, b))
    np.testing.assert_array_equal(results[1], results[0])
    np.testing.assert_array_equal(results[2], results[0])


def test_a_busy_pool_does_not_change_bits() -> None:
    rng = np.random.default_rng(4)
    a, b = rng.standard_normal((300, 400)), rng.standard_normal((400, 250))
    with config.override(num_threads=3):
        product = fgrad.jit(lambda x, y: x @ y)
        wanted = product(a, b)
    same: list[bool] = []

    def check() -> None:
        same.extend([bool(np.array_equal(product(a, b), wanted)) for _ in range(10)])

    threads = [threading.Thread(target=check) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(same) == 40 and all(same)


# Tiles and processors.


@pytest.mark.parametrize("features", BUILDS)
def test_tiles_cover_all_rows(features: str) -> None:
    tiles = tiling(F32, "x86_64-linux", features)
    chosen = next_tile(tiles)
    for left in range(1, TABLE + 1):
        rows = left
        while rows > 0:
            rows -= tiles.rows[chosen[rows]]
        assert -rows < tiles.rows[-1]
    assert next_tile(tiling(F64, "arm64-apple-darwin", ""))[TABLE] == 0


@cache
def product_for(features: str, dtype: np.dtype) -> tuple[object, object, Tiling]:
    """The function for a processor with these features, in memory."""
    triple = llvm.get_process_triple()
    tiles = tiling(dtype, triple, features)
    text, declarations = emit_product("f", tiles)
    module = "\n".join([*sorted(declarations), text, ATTRIBUTES, ""])
    code = compile_text(module, Target(triple, "x86-64", features))
    jit = llvm.create_lljit_compiler()
    builder = llvm.JITLibraryBuilder().add_object_img(code).add_current_process()
    tracker = builder.export_symbol("f").link(jit, "f")
    return (jit, tracker), WITH_TABLE(tracker["f"]), tiles


@pytest.mark.parametrize("features", BUILDS)
@pytest.mark.parametrize("dtype", [F32, F64], ids=str)
def test_other_x86_features(features: str, dtype: np.dtype) -> None:
    host = llvm.get_host_cpu_features()
    if "x86_64" not in llvm.get_process_triple():
        pytest.skip("needs an x86 processor")
    if not all(host.get(name[1:]) for name in features.split(",")):
        pytest.skip("the processor lacks these features")
    _, function, tiles = product_for(features, dtype)
    rng = np.random.default_rng(5)
    for _ in range(25):
        spec = random_spec(rng, 300)._replace(dtype=dtype)
        a, b, c = operands(spec)
        pointers = (ctypes.c_void_p * 3)(*[x.ctypes.data for x in (a, b, c)])
        table = np.array(layout(spec, tiles), np.int64)
        count = pieces(spec, tiles).count
        function(ctypes.addressof(pointers), 0, count, table.ctypes.data)  # type: ignore[operator]
        assert_close(spec, c, expected(spec, a, b))


def test_products_of_two_types_are_found_on_disk_one_by_one(tmp_path: Path) -> None:
    script = (
        "import sys, numpy as np, fgrad\n"
        "which = sys.argv[1]\n"
        "a, b = np.ones((40, 30), 'f'), np.ones((30, 20), 'f')\n"
        "x, y = a.astype(float), b.astype(float)\n"
        "both = lambda: fgrad.jit(lambda a, b, x, y: (a @ b, x @ y))(a, b, x, y)\n"
        "one = lambda p, q: fgrad.jit(lambda p, q: p @ q + 1)(p, q)\n"
        "out = both()[0] if which == 'both' else one(a, b) if which == 'f' else one(x, y)\n"
        "assert out[0, 0] in (30, 31)\n"
    )
    environment = {**os.environ, "FGRAD_CACHE_DIR": str(tmp_path), "FGRAD_CACHE": "1"}
    for which in ("both", "f", "d", "both"):
        done = subprocess.run(
            [sys.executable, "-c", script, which], env=environment, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stderr
        assert "error" not in done.stderr
