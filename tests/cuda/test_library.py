"""Library steps on the device: kernels are emulated, libraries do the work on the host.

Each kind of step is planned, its kernels are compiled for the device and run with their threads in
random order, and the results are compared with NumPy's.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from typing import Any

import library_runs as runs
import numpy as np
import pytest
from emulator.libraries import StubLibraries
from emulator.nccl import Mirror, NcclStub
from real_device import stub_device
from scipy.linalg.lapack import get_lapack_funcs

from fgrad.compile.tasks.routines import RowSearch, RowTop, RowWalk, gemm_spec, row_sort
from fgrad.lower_cuda.emit.calls import Calls
from fgrad.lower_cuda.library import fourier
from fgrad.lower_cuda.library import lapack as library_lapack
from fgrad.lower_cuda.library import sort as sorting
from fgrad.lower_cuda.library.cublaslt import product_calls
from fgrad.lower_cuda.library.functions import SIGNATURES, functions, status_text
from fgrad.lower_cuda.library.lapack import LAPACK
from fgrad.lower_cuda.library.products import Product
from fgrad.lower_cuda.library.walks import walk_calls
from fgrad.ops.sort import top_k_p

TOLERANCE = {"e": 2e-2, "f": 1e-4, "F": 1e-3, "d": 1e-10, "D": 1e-10}


@pytest.fixture(autouse=True)
def libraries() -> Iterator[StubLibraries]:
    """Libraries and a driver without a device."""
    stub = StubLibraries(NcclStub(lambda size, rank, _: Mirror(rank, size)))
    with stub_device(libraries=stub):
        yield stub


def numbers(rng: np.random.Generator, dtype: Any, *shape: int) -> np.ndarray:
    """Random numbers; a few are equal."""
    dtype = np.dtype(dtype)
    if dtype.kind == "c":
        return (rng.normal(size=shape) + 1j * rng.normal(size=shape)).astype(dtype)
    if dtype.kind == "f":
        return (rng.integers(-40, 40, shape) / 8).astype(dtype)
    if dtype.kind == "b":
        return rng.random(shape) < 0.5
    return rng.integers(0 if dtype.kind == "u" else -50, 50, shape).astype(dtype)


def some(dtype: str, cases: list[Any]) -> list[Any]:
    """All cases for float32, the last one for others."""
    return cases if dtype == "f" else cases[-1:]


def with_nan(x: np.ndarray) -> np.ndarray:
    """The same with NaN and -0.0 in some places."""
    if x.dtype.kind == "f":
        x.flat[::7], x.flat[1::5] = np.nan, -0.0
    return x


def close(found: np.ndarray, wanted: np.ndarray) -> None:
    """Equal to the precision of the less precise."""
    tolerance = max(TOLERANCE.get(x.dtype.char, 0) for x in (found, wanted))
    np.testing.assert_allclose(found, wanted, rtol=tolerance, atol=tolerance)


def made(calls: Calls, *buffers: np.ndarray) -> None:
    """Compile and run."""
    runs.compiled(calls)
    runs.run(calls, *buffers)


# --- linear algebra -------------------------------------------------------------------------------


def adjoint(x: np.ndarray) -> np.ndarray:
    return x.conj().swapaxes(-1, -2)


def factored(name: str, *buffers: np.ndarray, **params: Any) -> None:
    made(
        LAPACK[name](buffers[0].dtype, batch=len(buffers[0]), buffers=len(buffers), **params),
        *buffers,
    )


SQUARES = [(1, 1), (1, 35), (2, 33), (3, 4)]


@pytest.mark.parametrize("dtype", "fdFD")
def test_cholesky_and_triangles(dtype: str) -> None:
    rng = np.random.default_rng(0)
    for batch, n in some(dtype, SQUARES):
        x = numbers(rng, dtype, batch, n, n)
        a = (x @ adjoint(x) + n * np.eye(n)).astype(dtype)
        lower = np.empty_like(a)
        factored("cholesky", a, lower, n=n)
        close(lower, np.linalg.cholesky(a))
        b, out = numbers(rng, dtype, batch, n, 2), np.empty((batch, n, 2), dtype)
        for is_lower, trans, unit in np.ndindex(2, 2, 2 if n < 9 else 1):
            t = (x / n + (1 + unit) * np.eye(n)).astype(dtype)
            factored(
                "triangular_solve", t, b, out, n=n, k=2, lower=bool(is_lower), trans=bool(trans),
                unit=bool(unit),
            )  # fmt: skip
            m = np.tril(t) if is_lower else np.triu(t)
            m = m * (1 - np.eye(n)) + np.eye(n) if unit else m
            close((m.swapaxes(1, 2) if trans else m) @ out, b)


@pytest.mark.parametrize("dtype", "fdFD")
def test_factors_solve(dtype: str) -> None:
    rng = np.random.default_rng(1)
    for batch, n in some(dtype, SQUARES):
        a = numbers(rng, dtype, batch, n, n) + np.eye(n, dtype=dtype)
        packed, pivots = np.empty_like(a), np.empty((batch, n), np.int32)
        factored("factor", a, packed, pivots, n=n)
        b, x = numbers(rng, dtype, batch, n, 3), np.empty((batch, n, 3), dtype)
        for trans in (False, True):
            factored("lu_solve", packed, pivots, b, x, n=n, k=3, trans=trans)
            np.testing.assert_allclose((a.swapaxes(1, 2) if trans else a) @ x, b, atol=2e-2)
        order = np.empty((batch, n), np.int64)
        made(LAPACK["pivots_order"](n, batch, buffers=2), pivots, order)
        for exchanges, found in zip(pivots, order, strict=True):
            wanted = np.arange(n)
            for i, j in enumerate(exchanges):
                wanted[[i, j]] = wanted[[j, i]]
            np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("dtype", "fd")
def test_stacks_of_large_matrices_are_repeated_calls(
    dtype: str, libraries: StubLibraries, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(library_lapack, "BATCHED", 32)
    rng = np.random.default_rng(15)
    a = numbers(rng, dtype, 3, 33, 33) / 33 + np.eye(33, dtype=dtype)
    b, x = numbers(rng, dtype, 3, 33, 2), np.empty((3, 33, 2), dtype)
    packed, pivots = np.empty_like(a), np.empty((3, 33), np.int32)
    factored("factor", a, packed, pivots, n=33)
    factored("lu_solve", packed, pivots, b, x, n=33, k=2, trans=False)
    np.testing.assert_allclose(a @ x, b, rtol=1e-3, atol=1e-4)
    positive = np.array(a @ adjoint(a))
    factored("cholesky", positive, packed, n=33)
    np.testing.assert_allclose(packed @ adjoint(packed), positive, rtol=1e-3, atol=1e-4)
    assert not any(["Batched" in name for name in libraries.log])


@pytest.mark.parametrize("dtype", "fd")
def test_small_matrices_pivot_as_lapack(dtype: str, libraries: StubLibraries) -> None:
    """Also where columns are 0, or nothing is known; no library is called."""
    rng = np.random.default_rng(14)
    a = numbers(rng, dtype, 6, 9, 9)
    a[1, 3], a[2], a[3, :, 4], a[4, 2, 2] = 0, 1, 0, np.nan
    packed, pivots = np.empty_like(a), np.empty((6, 9), np.int32)
    factored("factor", a, packed, pivots, n=9)
    for k in (0, 1, 2, 3, 5):
        (getrf,) = get_lapack_funcs(("getrf",), (a[k],))
        wanted, exchanges, _ = getrf(a[k].T)
        np.testing.assert_allclose(packed[k], wanted.T, rtol=1e-3, atol=1e-4)
        np.testing.assert_array_equal(pivots[k], exchanges)
    assert np.isnan(packed[4]).any()
    assert not libraries.log


@pytest.mark.parametrize("dtype", "fdFD")
def test_eigenvalues(dtype: str) -> None:
    rng = np.random.default_rng(2)
    for batch, n in some(dtype, SQUARES):
        x = numbers(rng, dtype, batch, n, n)
        a = (x + adjoint(x)).astype(dtype)
        values, vectors = np.empty((batch, n), dtype.lower()), np.empty_like(a)
        for lower in (False, True):
            half = np.tril(a) if lower else np.triu(a)
            factored("eigh", half, values, vectors, n=n, lower=lower)
            np.testing.assert_allclose(a @ vectors, vectors * values[:, None], atol=2e-3)
            factored("eigvalsh", half, values, n=n, lower=lower)
            close(values, np.linalg.eigvalsh(a))


SHAPES = [(2, 4, 4), (1, 35, 40), (1, 5, 3), (2, 3, 5)]


@pytest.mark.parametrize("dtype", "fdFD")
@pytest.mark.parametrize("whole", [False, True])
def test_rectangular_factors(dtype: str, whole: bool) -> None:
    rng = np.random.default_rng(3)
    real = np.dtype(dtype.lower())
    for batch, m, n in SHAPES if dtype == "f" else SHAPES[2:]:
        a, k = numbers(rng, dtype, batch, m, n), min(m, n)
        columns, rows = (m, n) if whole else (k, k)
        q, r = np.empty((batch, m, columns), dtype), np.empty((batch, columns, n), dtype)
        factored("qr", a, q, r, m=m, n=n, complete=whole)
        close(q @ r, a)
        close(adjoint(q) @ q, np.broadcast_to(np.eye(columns), (batch, columns, columns)))
        assert not np.tril(r, -1).any()
        u, vh = np.empty((batch, m, columns), dtype), np.empty((batch, rows, n), dtype)
        s, values = np.empty((batch, k), real), np.empty((batch, k), real)
        factored("svd", a, u, s, vh, m=m, n=n, full=whole)
        close((u[..., :k] * s[:, None]) @ vh[:, :k], a)
        close(adjoint(u) @ u, np.broadcast_to(np.eye(columns), (batch, columns, columns)))
        factored("svdvals", a, values, m=m, n=n)
        close(values, np.linalg.svd(a, compute_uv=False))


def test_packed_factors_of_rectangles() -> None:
    rng = np.random.default_rng(4)
    for batch, m, n in SHAPES:
        a, k = numbers(rng, "d", batch, m, n), min(m, n)
        packed, pivots = np.empty_like(a), np.empty((batch, k), np.int32)
        order = np.empty((batch, m), np.int64)
        factored("lu", a, packed, pivots, order, m=m, n=n)
        for x, p, rows in zip(a, packed, order, strict=True):
            close((np.tril(p, -1)[:, :k] + np.eye(m, k)) @ np.triu(p)[:k], x[rows])


@pytest.mark.parametrize(
    "name, params, message",
    [
        ("cholesky", {"n": 3}, "not positive definite"),
        (
            "triangular_solve",
            {"n": 3, "k": 3, "lower": True, "trans": False, "unit": False},
            "Singular",
        ),
    ],
)
def test_failures_are_noted(name: str, params: dict[str, Any], message: str) -> None:
    """One matrix of a stack cannot be factored."""
    good = np.eye(3)[None] + 0.1
    bad = np.concatenate([good, good * 0, good])
    others = [np.ones((3, 3, 3)) for _ in range(1 if name == "cholesky" else 2)]
    factored(name, good, *[x[:1].copy() for x in others], **params)
    with pytest.raises(runs.Failed, match=message):
        factored(name, bad, *others, **params)


# --- Fourier transforms ---------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", "FD")
@pytest.mark.parametrize("shape", [(1, 8, 1), (3, 7, 1), (2, 6, 5), (4, 1, 1)])
def test_transforms(dtype: str, shape: tuple[int, int, int]) -> None:
    rng = np.random.default_rng(5)
    outer, n, inner = shape
    half = n // 2 + 1
    z, x = (numbers(rng, kind, outer, n, inner) for kind in (dtype, dtype.lower()))
    spectrum = numbers(rng, dtype, outer, half, inner)

    def transformed(a: np.ndarray, like: np.ndarray, inverse: bool) -> np.ndarray:
        kept, out = a.copy(), np.empty_like(like)
        reads, writes = a.shape[1], like.shape[1]
        t = fourier.Transform(a.dtype, out.dtype, outer, inner, reads, writes, n, inverse)
        made(fourier.fourier_calls(t, 2), a, out)
        np.testing.assert_array_equal(a, kept)
        return out

    close(transformed(z, z, False), np.fft.fft(z, axis=1))
    close(transformed(z, z, True), np.fft.ifft(z, axis=1))
    close(transformed(x, spectrum, False), np.fft.rfft(x, axis=1))
    close(transformed(spectrum, x, True), np.fft.irfft(spectrum, n, axis=1))


# --- walks, sorts and searches --------------------------------------------------------------------

SCANS = {
    "add": np.add, "mul": np.multiply, "max": np.maximum, "min": np.minimum,
}  # fmt: skip
REALS = ["f", "d", "i4", "i8", "u1", "i2"]


def walked(op: str, x: np.ndarray, out: np.ndarray, reverse: bool = False) -> np.ndarray:
    rows, columns = x.shape
    made(walk_calls(RowWalk(op, x.dtype, rows, columns, reverse)), x, out)
    return out


TOTALS = [("add", dtype) for dtype in REALS]
TOTALS += [(op, dtype) for op in ("mul", "max", "min") for dtype in ("f", "i8")]


@pytest.mark.parametrize("op, dtype", TOTALS)
def test_running_totals(op: str, dtype: str) -> None:
    rng = np.random.default_rng(6)
    for rows, columns in some(dtype, [(1, 2), (3, 300), (9, 70)]):
        x = numbers(rng, dtype, rows, columns)
        x = x / 4 if dtype in "fd" and op == "mul" else x
        x = with_nan(x.astype(dtype)) if op in ("max", "min") else x.astype(dtype)
        for reverse in (False, True):
            found = walked(op, x, np.empty_like(x), reverse)
            step = -1 if reverse else 1
            wanted = SCANS[op].accumulate(x[:, ::step], 1, x.dtype)[:, ::step]
            close(found, wanted)


def test_long_rows_are_cut_into_strips() -> None:
    rng = np.random.default_rng(7)
    x = numbers(rng, "i4", 1, 9001)
    for reverse in (False, True):
        step = -1 if reverse else 1
        wanted = np.cumsum(x[:, ::step], 1, np.int32)[:, ::step]
        close(walked("add", x, np.empty_like(x), reverse), wanted)
    y = with_nan(numbers(rng, "f", 1, 9000))
    for op, a in (("argmax", y), ("argmin", np.nan_to_num(y))):
        found = walked(op, a, np.empty(1, np.int64))
        assert found == getattr(np, op)(a, 1)


def test_products_are_made_in_order() -> None:
    """Another order would overflow."""
    x = np.array([[1e-300, 1e200, 1e200, 1e-300, 1e250, 0.5]] * 40)
    np.testing.assert_array_equal(walked("mul", x, np.empty_like(x)), np.cumprod(x, 1))


def test_sums_keep_the_sign_of_zero() -> None:
    x = np.full((2, 5), -0.0)
    assert np.signbit(walked("add", x, np.empty_like(x))).all()


@pytest.mark.parametrize("dtype", REALS)
@pytest.mark.parametrize("op", ["argmax", "argmin"])
def test_places_of_extrema(op: str, dtype: str) -> None:
    rng = np.random.default_rng(8)
    for rows, columns in some(dtype, [(1, 2), (2, 1100), (9, 70)]):
        x = numbers(rng, dtype, rows, columns)
        for values in (x, with_nan(x.copy())):
            found = walked(op, values, np.empty(rows, np.int64))
            np.testing.assert_array_equal(found, getattr(np, op)(values, 1))


KEYS = ["f", "d", "e", "i4", "i8", "u1", "?", "i2"]


@pytest.fixture
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Chunks of 64 pairs, so that short rows are merged."""
    monkeypatch.setattr(sorting, "CHUNK", 64)
    monkeypatch.setattr(sorting, "SMALL", 64)


def check_sort(x: np.ndarray, seed: int) -> None:
    """Keys, places, and payloads of four sizes."""
    rng = np.random.default_rng(seed)
    payloads = [numbers(rng, dtype, *x.shape) for dtype in ("d", "i1", "D")]
    spec = row_sort(x.dtype, len(x), x.shape[1], [None, *[p.dtype for p in payloads]], True)
    outs = [np.empty_like(x), np.empty(x.shape, np.int64), *map(np.empty_like, payloads)]
    made(sorting.sort_calls(spec), x, *payloads, *outs)
    order = np.argsort(x, 1, "stable")
    wanted = [np.take_along_axis(a, order, 1) for a in (x, *payloads)]
    wanted.insert(1, order)
    for found, right in zip(outs, wanted, strict=True):
        assert found.tobytes() == np.ascontiguousarray(right).tobytes()


@pytest.mark.parametrize("dtype", KEYS)
def test_sorts(dtype: str) -> None:
    rng = np.random.default_rng(9)
    for shape in some(dtype, [(1, 1), (2, 150), (40, 20)]):
        check_sort(with_nan(numbers(rng, dtype, *shape)), 0)


def test_sorts_of_long_rows(small_chunks: None) -> None:
    rng = np.random.default_rng(10)
    for columns in (65, 200):
        check_sort(with_nan(numbers(rng, "f", 2, columns)), 1)


def check_top(x: np.ndarray, count: int) -> None:
    rows, columns = x.shape
    values, places = np.empty((rows, count), x.dtype), np.empty((rows, count), np.int64)
    made(sorting.top_calls(RowTop(x.dtype, rows, columns, count)), x, values, places)
    wanted = top_k_p.evaluate_rule(x, k=count)
    np.testing.assert_array_equal(values, wanted[0])
    np.testing.assert_array_equal(places, wanted[1])


@pytest.mark.parametrize("dtype", KEYS)
def test_greatest_elements(dtype: str) -> None:
    rng = np.random.default_rng(11)
    for (rows, columns), count in some(dtype, [((1, 1), 1), ((2, 150), 150), ((5, 20), 3)]):
        check_top(with_nan(numbers(rng, dtype, rows, columns)), count)


@pytest.mark.parametrize("count", [3, 30, 50])
def test_greatest_elements_of_long_rows(count: int, small_chunks: None) -> None:
    """Few are selected from chunk after chunk; for many the rows are sorted."""
    rng = np.random.default_rng(12)
    for columns in (64, 65, 300):
        check_top(with_nan(numbers(rng, "f", 2, columns)), count)


@pytest.mark.parametrize("dtype", KEYS)
@pytest.mark.parametrize("right", [False, True])
def test_searches(dtype: str, right: bool) -> None:
    rng = np.random.default_rng(13)
    for rows, length in some(dtype, [(1, 1), (3, 40)]):
        table = np.sort(with_nan(numbers(rng, dtype, rows, length)), 1)
        values = with_nan(numbers(rng, dtype, rows, 30))
        found = np.empty(values.shape, np.int64)
        calls = sorting.search_calls(RowSearch(table.dtype, rows, length, 30, right))
        made(calls, table, values, found)
        side = "right" if right else "left"
        wanted = [np.searchsorted(a, v, side) for a, v in zip(table, values, strict=True)]
        np.testing.assert_array_equal(found, wanted)


# --- functions of libraries -----------------------------------------------------------------------


def test_every_function_has_a_stub(libraries: StubLibraries) -> None:
    assert all([libraries.address(name) for name in SIGNATURES])
    assert not libraries.address("cublasNothing")


def test_descriptors_and_plans_end_with_the_program(libraries: StubLibraries) -> None:
    x, y = np.ones((1, 8, 1), "D"), np.ones((1, 8, 1), "D")
    handles = [functions().handle("cublasLt")]
    for _ in range(2):
        product = Product(gemm_spec(np.dtype("f"), 9, 9, 9), "float32", "float32")
        calls = product_calls(functions(), product, 3)
        t = fourier.Transform(x.dtype, y.dtype, 1, 1, 8, 8, 8, False)
        runs.run(fourier.fourier_calls(t, 2), x, y)
        assert libraries.alive == len(handles) + 4
        del calls
        gc.collect()
        assert libraries.alive == len(handles)


def test_failed_calls_are_cards(libraries: StubLibraries) -> None:
    assert status_text("cufftXtExec", 4) == "cufftXtExec failed with status 4: invalid value."
    with pytest.raises(Exception, match="cublasLtMatmul failed with status 7"):
        functions().call("cublasLtMatmul", *[0] * 16)
    libraries.errors.clear()
