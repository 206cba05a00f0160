"""Products of matrices on the device: by cuBLASLt's stub, and by kernels that are emulated.

The stub refuses what the library would refuse, and computes epilogues as the library does.
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable, Iterator
from typing import Any

import library_runs as runs
import ml_dtypes
import numpy as np
import pytest
from device_programs import check, compiled
from emulator.cublaslt import Refused
from emulator.libraries import StubLibraries
from real_device import stub_device

import fgrad
from fgrad import nn
from fgrad.compile.jit.inspect import make_program
from fgrad.compile.passes.mixed_precision_matmul import mixed_precision_matmul
from fgrad.compile.pipeline import compile_program
from fgrad.compile.tasks.routines import gemm_spec
from fgrad.compile.tasks.steps import LibraryStep
from fgrad.config import config
from fgrad.errors import MissingCudaError
from fgrad.lower_cuda.emit.calls import Address, Calls, KernelCall
from fgrad.lower_cuda.library import cublaslt as lt
from fgrad.lower_cuda.library import functions as library_functions
from fgrad.lower_cuda.library.functions import Functions, Installed, functions
from fgrad.lower_cuda.library.gemm import epilogue_kernel, gemm_kernels
from fgrad.lower_cuda.library.lapack import LAPACK
from fgrad.lower_cuda.library.products import Axis, Product, axes_of
from fgrad.lower_cuda.library.steps import calls_of

BRAIN = np.dtype(ml_dtypes.bfloat16)
NAMES = ("float32", "float64", "float16", "bfloat16", "complex64", "complex128")
TOLERANCE = {"float16": 2e-3, "bfloat16": 1e-2, "float32": 1e-5, "complex64": 1e-5}
TRANS = [(a, b) for a in (False, True) for b in (False, True)]
RNG = np.random.default_rng(0)


class Nothing:
    """A machine without libraries."""

    def has(self, library: str) -> bool:
        return False

    def address(self, name: str) -> int:
        return 0


@pytest.fixture(autouse=True)
def libraries() -> Iterator[StubLibraries]:
    """Libraries and a driver without a device."""
    stub = StubLibraries()
    with stub_device(libraries=stub):
        yield stub


def dtype_of(name: str) -> np.dtype:
    return BRAIN if name == "bfloat16" else np.dtype(name)


def numbers(name: str, *shape: int) -> np.ndarray:
    """Random numbers; small eighths, so that sums of few are exact."""
    x = RNG.integers(-16, 16, shape) / 8
    return (x + 1j * RNG.permutation(x) if name.startswith("c") else x).astype(dtype_of(name))


def close(found: Any, wanted: Any, name: str = "") -> None:
    """Equal to the precision of numbers of a name."""
    wide = "D" if np.iscomplexobj(found) else "d"
    found, wanted = np.asarray(found).astype(wide), np.asarray(wanted).astype(wide)
    tolerance = TOLERANCE.get(name, 1e-10)
    np.testing.assert_allclose(found, wanted, rtol=tolerance, atol=tolerance)


def by_library(product: Product) -> Calls:
    found = lt.product_calls(functions(), product, 3 + (product.bias is not None))
    assert found is not None
    return found


def by_kernels(product: Product) -> Calls:
    """Kernels of our own, that for an epilogue too."""
    kernels = gemm_kernels(product)
    if not product.is_plain:
        kernels += (epilogue_kernel(product, 3 + (product.bias is not None)),)
    return Calls(kernels)


BOTH = pytest.mark.parametrize("plan", [by_library, by_kernels])


def run(product: Product, plan: Callable[[Product], Calls]) -> tuple[np.ndarray, np.ndarray]:
    """What a product is, and what it should be in wide numbers."""
    spec = product.gemm
    repeated = spec.batch > 1 and spec.stride_b == 0
    a = numbers(product.operand, spec.batch, spec.m, spec.k)
    b = numbers(product.operand, 1 if repeated else spec.batch, spec.k, spec.n)
    c = np.full((spec.batch, spec.m, spec.n), 7).astype(dtype_of(product.result))
    bias = numbers(product.result, spec.n)
    left, right = (
        np.ascontiguousarray(x.swapaxes(1, 2) if trans else x)
        for x, trans in ((a, spec.trans_a), (b, spec.trans_b))
    )
    calls = plan(product)
    runs.compiled(calls)
    runs.run(calls, left, right, c, *([bias] if product.bias else []))
    wide = "D" if np.iscomplexobj(a) else "d"
    wanted = a.astype(wide) @ b.astype(wide)
    return c, wanted + bias.astype(wide) if product.bias else wanted


# --- plain products -------------------------------------------------------------------------------


@pytest.mark.parametrize("trans", TRANS)
@pytest.mark.parametrize("name", NAMES)
def test_by_cublaslt(name: str, trans: tuple[bool, bool]) -> None:
    for b, m, n, k, repeated in [(1, 3, 5, 7, 0), (3, 33, 17, 20, 0), (3, 4, 5, 6, 1)]:
        stride = 0 if repeated else None
        spec = gemm_spec(
            np.dtype("f"), m, n, k, b, trans_a=trans[0], trans_b=trans[1], stride_b=stride
        )
        close(*run(Product(spec, name, name), by_library), name)


BY_KERNEL = [("float32", trans) for trans in TRANS]
BY_KERNEL += zip(["float64", "float16", "bfloat16", "int32"], TRANS, strict=True)


@pytest.mark.parametrize("name, trans", BY_KERNEL)
def test_by_kernels(name: str, trans: tuple[bool, bool]) -> None:
    plain = trans == TRANS[0] and name == "float32"
    for b, m, n, k in [(2, 66, 3, 11), *([(1, 2, 67, 9), (2, 1, 1, 0)] if plain else [])]:
        spec = gemm_spec(np.dtype("f"), m, n, k, b, trans_a=trans[0], trans_b=trans[1])
        found, wanted = run(Product(spec, name, name), by_kernels)
        close(found, wanted.astype(np.int64).astype(name) if name[0] in "iu" else wanted, name)


@BOTH
def test_results_wider_than_operands(plan: Callable[[Product], Calls]) -> None:
    """Sums of 16-bit numbers in float32: no rounding at all of these."""
    for name in ("float16", "bfloat16"):
        found, wanted = run(Product(gemm_spec(np.dtype("e"), 5, 6, 7), name, "float32"), plan)
        np.testing.assert_array_equal(found, wanted)


@BOTH
def test_rows_of_a_larger_matrix_are_operands(plan: Callable[[Product], Calls]) -> None:
    """Leading dimensions that are longer than rows, and a column as an operand."""
    a, b, c = RNG.normal(size=(6, 9)), RNG.normal(size=(5, 8)), np.zeros((6, 7))
    for lda, k in ((9, 5), (9, 1)):
        spec = gemm_spec(np.dtype("d"), 6, 4, k, lda=lda, ldb=8, ldc=7)
        c[...] = 3.0
        runs.run(plan(Product(spec, "float64", "float64")), a, b, c)
        close(c[:, :4], a[:, :k] @ b[:k, :4])
        assert (c[:, 4:] == 3).all()


def test_tf32_only_where_asked() -> None:
    product = Product(gemm_spec(np.dtype("f"), 2, 2, 2), "float32", "float32")
    a, b = np.eye(2, dtype=np.float32) * np.float32(1 + 2**-12), np.eye(2, dtype=np.float32)
    found = []
    for tf32 in (False, True):
        c = np.zeros((2, 2), np.float32)
        with config.override(tf32=tf32):
            runs.run(by_library(product), a, b, c)
        found.append(c[0, 0])
    assert found == [np.float32(1 + 2**-12), 1]


def test_kernels_take_the_place_of_a_missing_library() -> None:
    spec = gemm_spec(np.dtype("f"), 40, 40, 40)
    buffers: Any = (0, 1, 2)
    step = LibraryStep(spec, buffers, ((0, 0, 0),))
    library_functions.use(Nothing())
    (call,) = calls_of(step).calls
    assert isinstance(call, KernelCall)
    with pytest.raises(MissingCudaError, match="cusolver is needed"):
        LAPACK["cholesky"](np.dtype("f"), 40, 1, buffers=2)


# --- batches at several distances -----------------------------------------------------------------


def test_axes_of_starts() -> None:
    def axes(*starts: int) -> Any:
        spec = gemm_spec(np.dtype("f"), 2, 2, 2, 5)
        product = Product(spec, "float32", "float32", tuple([(s, 0, s) for s in starts]))
        found = axes_of(product)
        return found and [(axis.count, axis.steps[0]) for axis in found]

    assert axes(8) == [(5, 16)]
    assert axes(8, 20, 32) == [(3, 12), (5, 16)]
    assert axes(0, 4, 8, 100, 104, 108) == [(2, 100), (3, 4), (5, 16)]
    assert axes(0, 4, 9) is None and axes(0, 4, 8, 100, 104) is None
    assert axes_of(Product(gemm_spec(np.dtype("e"), 2, 3, 4), "float16", "float32")) == (
        Axis(1, (16, 24, 24)),
    )


def attention(dtype: Any) -> Callable[..., Any]:
    def run(q: Any, k: Any, v: Any) -> Any:
        s = np.einsum("bshd,bthd->bhst", q, k).astype(np.float32)
        s = np.exp(s - np.max(s, -1, keepdims=True))
        return np.einsum("bhst,bthd->bshd", (s / np.sum(s, -1, keepdims=True)).astype(dtype), v)

    return run


def heads(b: int, h: int, dtype: Any = np.float32) -> list[np.ndarray]:
    return [(RNG.normal(size=(b, 17, h, 16)) / 2).astype(dtype) for _ in range(3)]


@pytest.mark.parametrize("b, h, products", [(3, 4, 1), (5, 2, 2), (2, 5, 2), (70, 3, 1)])
def test_scores_are_few_calls(b: int, h: int, products: int, libraries: StubLibraries) -> None:
    """One product for each index of the shorter axis, or one by a table of addresses."""
    q, k, _ = heads(b, h)
    check(lambda q, k: np.einsum("bshd,bthd->bhst", q, k), q, k, calls=1)
    assert libraries.log.count("cublasLtMatmul") == products


def test_attention_in_a_graph() -> None:
    assert "graph of 6 nodes" in check(attention(np.float32), *heads(3, 4), calls=4).describe()


def test_gradients_of_attention() -> None:
    fun = attention(np.float32)
    check(
        fgrad.grad(lambda *xs: np.sum(fun(*xs) ** 2), argnums=(0, 1, 2)), *heads(2, 3),
        calls=1, rtol=1e-4, atol=1e-5,
    )  # fmt: skip


def test_attention_by_kernels() -> None:
    library_functions.use(Nothing())
    launches = check(attention(np.float32), *heads(3, 2), calls=1).describe().splitlines()
    assert sum([line.startswith("gemm") for line in launches]) == 2


def test_uneven_batches_are_calls() -> None:
    spec = gemm_spec(np.dtype("f"), 2, 2, 2)
    product = Product(spec, "float32", "float32", ((0, 0, 0), (16, 16, 16), (48, 48, 48)))
    for plan in (by_library, by_kernels):
        a, b, c = numbers("float32", 4, 2, 2), numbers("float32", 4, 2, 2), np.zeros((4, 2, 2), "f")
        calls = plan(product)
        assert len(calls.calls) == 3
        runs.run(calls, a, b, c)
        close(c[[0, 1, 3]], (a @ b)[[0, 1, 3]])


# --- numbers of 16 bits in programs ---------------------------------------------------------------


def listed(fun: Callable[..., Any], *args: Any) -> list[str]:
    """The names of the calls of a program."""
    return [line.split()[0] for line in compiled(fun, *args).describe().splitlines()[1:]]


def same(fun: Callable[..., Any], *args: Any, tolerance: float) -> None:
    """The device's results, twice, against the CPU's."""
    on_device = fgrad.jit(fun, device="cuda")
    wanted = fgrad.tree.leaves(fgrad.jit(fun)(*args))
    for _ in range(2):
        for x, y in zip(fgrad.tree.leaves(on_device(*args)), wanted, strict=True):
            x = x.numpy()
            assert x.dtype == y.dtype and x.shape == y.shape
            x, y = x.astype(np.float64), np.asarray(y).astype(np.float64)
            np.testing.assert_allclose(x, y, rtol=tolerance, atol=tolerance)


HALVES = pytest.mark.parametrize("dtype", [np.dtype(np.float16), BRAIN], ids=str)


@HALVES
def test_products_of_halves_are_one_call(dtype: np.dtype) -> None:
    x, w = (RNG.normal(size=s).astype(dtype) for s in ((40, 30), (30, 20)))
    for fun in (
        lambda x, w: (x @ w).astype(dtype),
        lambda x, w: (w.T @ x.T).astype(dtype),
        lambda x, w: x.astype(np.float32) @ w.astype(np.float32),
        lambda x, w: (x[2:, ::-1][:, ::-1] @ w).astype(dtype),
    ):
        assert listed(fun, x, w) == ["cublasLtMatmul"]
        same(fun, x, w, tolerance=1e-2)


@HALVES
def test_layers_of_halves(dtype: np.dtype, libraries: StubLibraries) -> None:
    """Activations stay in 16 bits between products, and nothing is widened for one."""
    ws = [RNG.normal(size=(48, 48)).astype(dtype) / dtype.type(7) for _ in range(3)]
    bs = [RNG.normal(size=48).astype(dtype) for _ in range(3)]
    x = RNG.normal(size=(40, 48)).astype(dtype)

    def mlp(x: Any, ws: Any, bs: Any) -> Any:
        for w, b in zip(ws, bs, strict=True):
            x = np.maximum((x @ w).astype(dtype) + b, dtype.type(0))
        return x

    names = listed(mlp, x, ws, bs)
    assert len(names) == 6 and names.count("cublasLtMatmul") == 3
    same(mlp, x, ws, bs, tolerance=2e-2)
    same(fgrad.grad(lambda *a: np.sum(mlp(*a).astype(np.float32) ** 2)), x, ws, bs, tolerance=5e-2)


@HALVES
def test_attention_of_halves(dtype: np.dtype) -> None:
    names = listed(attention(dtype), *heads(3, 4, dtype))
    assert names.count("cublasLtMatmul") == 2
    same(attention(dtype), *heads(3, 4, dtype), tolerance=2e-2)


@HALVES
def test_a_sum_that_others_read_stays_wide(dtype: np.dtype) -> None:
    def fun(x: Any, w: Any) -> Any:
        wide = x.astype(np.float32) @ w.astype(np.float32)
        return wide, wide.astype(dtype), np.tanh(wide)

    same(fun, numbers(dtype.name, 40, 30), numbers(dtype.name, 30, 20), tolerance=1e-5)


def test_what_is_no_half_stays_wide() -> None:
    """Numbers that are made, masks of float32, and operands of two kinds."""
    x, w = numbers("bfloat16", 40, 30), numbers("float32", 30, 20)
    wide = np.float32

    def count(x: Any, w: Any) -> Any:
        return np.arange(1600, dtype=wide).reshape(40, 40) @ (x.astype(wide) @ w)

    def masks(x: Any, w: Any) -> Any:
        return np.where(w.T > 0, wide(1), wide(0)) @ np.where(w > 0, wide(2), wide(0))

    for fun in (count, masks):
        same(fun, x, w, tolerance=1e-5)
        found = mixed_precision_matmul(made(fun, x, w))
        assert "product" not in [e.prim.name for e in found.eqns]


def made(fun: Callable[..., Any], *args: Any) -> Any:
    """The program before products have their forms."""
    stages = compile_program(make_program(fun)(*args)).stages
    return next(stage.result for stage in stages if stage.name == "products")


def test_nan_and_infinity_of_halves() -> None:
    for dtype in (np.dtype(np.float16), BRAIN):
        x, w = np.ones((32, 32), dtype), np.ones((32, 32), dtype)
        x[0, 0], x[1, 0], x[2] = np.nan, np.inf, dtype.type(6e4)
        same(lambda x, w: (x @ w).astype(x.dtype), x, w, tolerance=1e-2)
    library_functions.use(Nothing())
    same(lambda x, w: (x @ w).astype(BRAIN), x, w, tolerance=1e-2)


# --- epilogues ------------------------------------------------------------------------------------

BIAS = Address(3)


@BOTH
@pytest.mark.parametrize("name", ["float32", "float16", "bfloat16"])
def test_bias(name: str, plan: Callable[[Product], Calls]) -> None:
    for batch in (1, 3):
        product = Product(gemm_spec(np.dtype("f"), 9, 7, 8, batch), name, name, bias=BIAS)
        close(*run(product, plan), name)


@BOTH
def test_activations(plan: Callable[[Product], Calls]) -> None:
    for bias in (None, BIAS):
        for name, act in (("relu", lambda x: np.maximum(x, 0)), ("gelu", nn.gelu)):
            spec = gemm_spec(np.dtype("f"), 9, 7, 8)
            found, wanted = run(Product(spec, "float32", "float32", epilogue=name, bias=bias), plan)
            close(found, act(wanted), "float32")


def linear(x: Any, w: Any, b: Any) -> Any:
    return x @ w + b


def hidden(x: Any, w: Any, b: Any) -> Any:
    return np.maximum(x @ w + b, 0)


def smooth(x: Any, w: Any, b: Any) -> Any:
    return nn.gelu(b + x @ w)


def tanh_form(x: Any, w: Any, b: Any) -> Any:
    y = x @ w + b
    return 0.5 * y * (1 + np.tanh(math.sqrt(2 / math.pi) * (y + 0.044715 * y**3)))


def layer(*lead: int) -> list[np.ndarray]:
    shapes = ((*lead, 24), (24, 20), (20,))
    return [RNG.normal(size=s).astype(np.float32) for s in shapes]


def test_a_bias_needs_no_kernel() -> None:
    for lead in ((32,), (4, 9)):
        assert listed(linear, *layer(*lead)) == ["cublasLtMatmul"]
        check(linear, *layer(*lead), atol=1e-5)
    assert listed(hidden, *layer(32)) == ["cublasLtMatmul", "max"]
    check(lambda x, w, b: (x @ w + b[None, :], b), *layer(32))


@pytest.mark.parametrize("fun", [hidden, smooth, tanh_form])
def test_activations_need_no_kernel_where_allowed(fun: Callable[..., Any]) -> None:
    args = layer(32)
    assert len(listed(fun, *args)) == 2
    with config.override(epilogues=True):
        assert listed(fun, *args) == ["cublasLtMatmul"]
        same(fun, *args, tolerance=1e-5)
        halves = [x.astype(np.float16) for x in args]
        assert listed(fun, *halves) == ["cublasLtMatmul"]
        same(fun, *halves, tolerance=4e-3)


def test_relu_of_the_library_drops_nan() -> None:
    """So it is only used where the setting says so."""
    x, w, b = layer(32)
    x[3, 5] = np.nan
    on_device = fgrad.jit(hidden, device="cuda")
    assert np.isnan(on_device(x, w, b).numpy()[3]).all()
    with config.override(epilogues=True):
        found = on_device(x, w, b).numpy()
    assert (found[3] == 0).all() and not np.isnan(found).any()


def others_read_it(x: Any, w: Any, b: Any) -> Any:
    y = x @ w
    return y, y + b


def others_read_the_sum(x: Any, w: Any, b: Any) -> Any:
    y = x @ w + b
    return np.sum(y, axis=1), np.maximum(y, 0)


@pytest.mark.parametrize(
    "fun",
    [
        others_read_it,
        others_read_the_sum,
        lambda x, w, b: x @ w + np.sin(b),
        lambda x, w, b: x @ w + x[:, :1],
        lambda x, w, b: x @ w + b[::-1],
        lambda x, w, b: nn.softmax(x @ w + b),
        lambda x, w, b: (lambda y: y + y[0])(x @ w),
        lambda x, w, b: (lambda y: np.maximum(y + y[-1], 0))(x @ w),
        lambda x, w, b: (x @ w + b) @ w.T + x,
        lambda x, w, b: (x[:1] @ w) + (x[1:2] @ w),
        fgrad.grad(lambda x, w, b: np.sum(hidden(x, w, b) ** 2), argnums=(0, 1, 2)),
    ],
)
def test_what_is_no_epilogue(fun: Callable[..., Any]) -> None:
    """Never more calls than without, and the same numbers."""
    args = layer(32)
    with config.override(epilogues=True):
        same(fun, *args, tolerance=1e-4)
        calls = len(listed(fun, *args))
    library_functions.use(Nothing())
    assert calls <= len(listed(fun, *args))


def test_epilogues_without_an_algorithm_are_kernels(libraries: StubLibraries) -> None:
    """Of float64, and with a bias that is not aligned."""
    args = layer(32)
    assert listed(linear, *[x.astype(np.float64) for x in args]) == ["cublasLtMatmul", "product"]
    check(linear, *[x.astype(np.float64) for x in args])
    x, w, b = layer(32)
    long = np.concatenate([b, b])
    check(lambda x, w, b: x @ w + b[1:21], x, w, long, calls=2)
    assert listed(lambda x, w, b: x @ w + b[1:21], x, w, long) == ["cublasLtMatmul", "product"]
    assert listed(lambda x, w, b: x @ w + b[4:24], x, w, long) == ["cublasLtMatmul"]


def test_threads_have_their_own_bias() -> None:
    """Calls of one program with other addresses, in a graph too."""
    deep = fgrad.jit(lambda x, w, b: linear(linear(linear(linear(x, w, b), w, b), w, b), w, b))
    x, w = RNG.normal(size=(20, 20)).astype("f"), RNG.normal(size=(20, 20)).astype("f") / 5
    given = fgrad.device_put((x, w))
    for _ in range(6):
        b = RNG.normal(size=20).astype(np.float32)
        wanted = x
        for _ in range(4):  # layers
            wanted = linear(wanted, w, b)
        close(deep(*given, fgrad.device_put(b)).numpy(), wanted, "float32")


# --- what the library refuses ---------------------------------------------------------------------


def refused(libraries: StubLibraries, product: Product, *buffers: np.ndarray) -> str:
    """Why a call of a product is refused, if not already its algorithm."""
    calls = lt.product_calls(functions(), product, len(buffers))
    if calls is None:
        return "no algorithm"
    with pytest.raises(AssertionError):
        runs.run(calls, *buffers)
    error = libraries.errors.pop()
    assert isinstance(error, Refused)
    return str(error)


def test_refusals(libraries: StubLibraries) -> None:
    one = np.zeros(4096, np.float32)
    spec, name = gemm_spec(np.dtype("f"), 4, 4, 4), "float32"
    plain = Product(spec, name, name)
    bytes_ = one.view(np.uint8)
    assert "not aligned" in refused(libraries, plain, bytes_[4:], one, one)
    assert lt.product_calls(functions(), Product(spec, name, "float16"), 3) is None
    assert lt.product_calls(functions(), Product(spec, "float16", "bfloat16"), 3) is None
    for wrong in (spec._replace(ldc=3), spec._replace(lda=2)):
        assert lt.product_calls(functions(), plain._replace(gemm=wrong), 3) is None
        assert "leading dimension" in str(libraries.errors.pop())
    overlapping = spec._replace(batch=2, stride_c=8)
    assert lt.product_calls(functions(), plain._replace(gemm=overlapping), 3) is None
    assert "overlap" in str(libraries.errors.pop())
    biased = plain._replace(bias=Address(3), epilogue="relu", starts=((0, 0, 0),) * 3)
    assert not any([isinstance(c, KernelCall) for c in by_library(biased).calls])
    assert "bias" in refused(libraries, plain._replace(bias=Address(3)), one, one, one, bytes_[4:])


def test_less_aligned_operands_are_asked_for() -> None:
    """Offsets and distances count, those of each operand alone."""
    spec = gemm_spec(np.dtype("e"), 3, 5, 7, 2)
    product = Product(spec, "float16", "float16", ((4, 16, 0), (8, 32, 64)))
    assert lt.alignments(product) == (2, 2, 2)
    single = product._replace(gemm=spec._replace(batch=1))
    assert lt.alignments(single) == (4, 16, 16)


class Real:
    """The installed cuBLASLt, but for what needs a device: its handle and its algorithms."""

    def __init__(self) -> None:
        self.installed, self.stub = Installed(), StubLibraries()
        self.asked = ctypes.CFUNCTYPE(ctypes.c_int32, *[ctypes.c_void_p] * 10)(self._algorithm)

    def _algorithm(self, *arguments: Any) -> int:
        ctypes.c_int32.from_address(arguments[-1]).value = 1
        return 0

    def has(self, library: str) -> bool:
        return True

    def address(self, name: str) -> int:
        if name == "cublasLtCreate":
            return self.stub.address(name)
        if name == "cublasLtMatmulAlgoGetHeuristic":
            return ctypes.cast(self.asked, ctypes.c_void_p).value or 0
        return self.installed.address(name)


def attribute(descriptor: int, number: int, kind: Any) -> int:
    """What the library reads from a descriptor."""
    value, written = kind(), ctypes.c_size_t()
    get = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_int32, *[ctypes.c_void_p] * 3)(
        Installed().address("cublasLtMatmulDescGetAttribute")
    )
    size = ctypes.sizeof(kind)
    assert not get(descriptor, number, ctypes.addressof(value), size, ctypes.addressof(written))
    assert written.value == size
    return value.value


@pytest.mark.skipif(not Installed().has("cublasLt"), reason="cuBLASLt is not installed")
def test_the_library_takes_all_attributes() -> None:
    """Descriptors need no device; a copy of one says the same, with a bias of its own."""
    f = Functions(Real())
    for name in NAMES:
        spec = gemm_spec(np.dtype("f"), 8, 16, 32, 3, trans_b=True)
        for product in (
            Product(spec, name, name),
            Product(spec, name, name, tuple([(0, 0, 256 * k) for k in range(5)])),
            Product(spec, name, name, epilogue="relu", bias=BIAS),
            Product(spec, name, name, epilogue="gelu"),
        ):
            for mode in (lt.STRIDED, lt.POINTERS):
                plan = lt._Plan(f, product, mode)
                assert plan.found
                copy = (ctypes.c_char * lt.PRODUCT_BYTES).from_buffer_copy(
                    (ctypes.c_char * lt.PRODUCT_BYTES).from_address(plan.descriptor)
                )
                at = ctypes.addressof(copy)
                assert attribute(at, lt.TRANSA, ctypes.c_int32) == lt.OP_T
                assert attribute(at, lt.TRANSB, ctypes.c_int32) == lt.OP_N
                wanted = lt.ACTIVATIONS.get(product.epilogue, lt.PLAIN)
                wanted = wanted | lt.BIAS if product.bias else wanted
                assert attribute(at, lt.EPILOGUE, ctypes.c_uint32) == wanted
                if product.bias:
                    assert attribute(at, lt.BIAS_POINTER, ctypes.c_uint64) == lt.ALIGNMENT
                    assert attribute(at, lt.BIAS_TYPE, ctypes.c_int32) == lt.DATA_TYPES[name]
