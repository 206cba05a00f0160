"""L5. Native library steps: matrix products through SciPy's BLAS, with the kernels' calling
convention.

Each set of parameters gets a small function `void f(ptr bufs, i64 lo, i64 hi)` that calls BLAS by
the public function pointers of `scipy.linalg.cython_blas`; `[lo, hi)` is the range of the batch.
BLAS is column-major, so a row-major C = A @ B is computed as C' = B' @ A'.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from fgrad.compile.cpu import blas_threads
from fgrad.compile.cpu.llvm_text import element_type, literal
from fgrad.compile.cpu.runtime import Source, build, build_kernel
from fgrad.compile.kernel.ir import (
    Affine,
    Buffer,
    Const,
    Init,
    Kernel,
    Load,
    Loop,
    Op,
    Read,
    Statement,
    Store,
    Update,
)
from fgrad.lazy import lazy_extension

cython_blas: Any = lazy_extension("scipy.linalg.cython_blas")
VECTOR_BYTES = 64
BLOCK = 16  # rows or columns of a piece: a multiple of the register tiles of most BLAS kernels
TINY = 64  # multiply-adds of vectors up to which a product is emitted instead of called
_PREFIX = {"float": "s", "double": "d"}


class Gemm(NamedTuple):
    """The parameters of `gemm`."""

    dtype: np.dtype
    m: int
    n: int
    k: int
    batch: int
    lda: int
    ldb: int
    ldc: int
    trans_a: bool
    trans_b: bool
    stride_a: int
    stride_b: int
    stride_c: int
    alpha: float
    beta: float


def gemm_spec(
    dtype: np.dtype,
    m: int,
    n: int,
    k: int,
    batch: int = 1,
    lda: int | None = None,
    ldb: int | None = None,
    ldc: int | None = None,
    trans_a: bool = False,
    trans_b: bool = False,
    stride_a: int | None = None,
    stride_b: int | None = None,
    stride_c: int | None = None,
    alpha: float = 1.0,
    beta: float = 0.0,
) -> Gemm:
    """`C[b] = alpha * op(A[b]) @ op(B[b]) + beta * C[b]` for row-major matrices.

    op(A) is m x k and op(B) is k x n; a transposed operand is stored the other way round.  Leading
    dimensions and strides between the matrices of a batch are in elements and default to contiguous
    storage; a stride of 0 repeats one matrix.
    """
    return Gemm(
        np.dtype(dtype),
        m,
        n,
        k,
        batch,
        lda or max(1, m if trans_a else k),
        ldb or max(1, k if trans_b else n),
        ldc or max(1, n),
        trans_a,
        trans_b,
        m * k if stride_a is None else stride_a,
        k * n if stride_b is None else stride_b,
        m * n if stride_c is None else stride_c,
        alpha,
        beta,
    )


def gemm(*args: Any, **params: Any) -> int:
    """The address of the product `gemm_spec(*args, **params)`.

    Buffers: A, B, C; range: [0, pieces(spec).count).
    """
    return gemm_address(gemm_spec(*args, **params))


@lru_cache(maxsize=4096)
def gemm_address(spec: Gemm) -> int:
    """The address of a product."""
    return build_kernel(tiny_gemm(spec)) if is_tiny(spec) else build_products([spec])[0]


def build_products(specs: Sequence[Gemm]) -> list[int]:
    """The addresses of products that are not tiny; those not yet known are compiled together."""
    return build([_source(spec) for spec in specs], _imports(), glue=True) if specs else []


def _source(spec: Gemm) -> Source:
    guarded = bool(blas_threads.imports())
    content = f"gemm {tuple(spec)} {pieces(spec)} {guarded}"
    return Source(content, lambda symbol: _emit_gemm(symbol, spec, guarded))


@lru_cache
def _imports() -> dict[str, int]:
    """The addresses of all that products call."""
    routines = [prefix + name for prefix in _PREFIX.values() for name in ("gemm", "gemv")]
    return {f"fgrad_{name}": blas_address(name) for name in routines} | blas_threads.imports()


class Pieces(NamedTuple):
    """How a product is cut for threads: the axis of the range, the rows or columns of one piece,
    the number of pieces, and the cycles that each takes."""

    axis: str  # "batch", "m" or "n"
    size: int
    count: int
    cycles: float


def pieces(spec: Gemm) -> Pieces:
    """The range of a product: the matrices of a batch, or blocks of rows or columns of one."""
    work = spec.m * spec.n * spec.k / (VECTOR_BYTES / spec.dtype.itemsize)
    if spec.batch != 1 or 1 in (spec.m, spec.n) or is_tiny(spec):
        return Pieces("batch", 1, spec.batch, work)
    axis, length = ("m", spec.m) if spec.m >= spec.n else ("n", spec.n)
    count = max(1, -(-length // BLOCK))
    return Pieces(axis, BLOCK, count, work / count)


def is_tiny(spec: Gemm) -> bool:
    """Whether a product is a few vectors of arithmetic, less than the overhead of a BLAS call."""
    columns = -(-spec.n // _lanes(spec))
    gathers = spec.trans_b and spec.n > 1 and spec.k > 1
    limit = TINY // 4 if gathers else TINY
    return 0 < spec.m * columns * spec.k <= limit and spec.batch > 0


def _lanes(spec: Gemm) -> int:
    lanes = VECTOR_BYTES // spec.dtype.itemsize
    while lanes >= 2 * spec.n and lanes > 1:
        lanes //= 2
    return lanes


def tiny_gemm(spec: Gemm) -> Kernel:
    """The product as a scheduled kernel: all rows unrolled, vectors along the columns."""
    a = (("b", spec.stride_a), ("i", 1 if spec.trans_a else spec.lda))
    a += (("k", spec.lda if spec.trans_a else 1),)
    b = (("b", spec.stride_b), ("j", spec.ldb if spec.trans_b else 1))
    b += (("k", 1 if spec.trans_b else spec.ldb),)
    c = Affine(0, _terms((("b", spec.stride_c), ("i", spec.ldc), ("j", 1))))
    product = (
        Load(0, "a", Affine(0, _terms(a))),
        Load(1, "b", Affine(0, _terms(b))),
        Op(2, "mul", (0, 1), spec.dtype),
        Update("s", 2),
    )
    scaled: tuple[Statement, ...] = (Const(4, spec.alpha, spec.dtype),)
    scaled += (Op(5, "mul", (3, 4), spec.dtype),)
    if spec.beta:
        scaled += (Load(6, "c", c), Const(7, spec.beta, spec.dtype))
        scaled += (Op(8, "mul", (6, 7), spec.dtype), Op(9, "add", (5, 8), spec.dtype))
    if spec.alpha == 1.0 and not spec.beta:
        scaled = ()
    result = Store("c", c, 9 if spec.beta else 5 if scaled else 3)
    body = (
        Init("s", "add", spec.dtype, 0.0),
        Loop("k", spec.k, "reduce", product, 0, spec.k),
        Read(3, "s"),
        *scaled,
        result,
    )
    lanes = _lanes(spec)
    columns = Loop("j", spec.n, "parallel", body, lanes, max(1, spec.n // lanes))
    rows = Loop("i", spec.m, "parallel", (columns,), 0, spec.m)
    span = {"b": spec.batch - 1, "i": spec.m - 1, "j": spec.n - 1, "k": spec.k - 1}
    roles = (("a", a, "in"), ("b", b, "in"), ("c", c.terms, "inout"))
    buffers = tuple(
        [
            Buffer(name, spec.dtype, 1 + sum([step * span[axis] for axis, step in terms]), role)
            for name, terms, role in roles
        ]
    )
    return Kernel("gemm", buffers, (Loop("b", spec.batch, "parallel", (rows,)),))


def _terms(terms: Sequence[tuple[str, int]]) -> tuple[tuple[str, int], ...]:
    return tuple(sorted([term for term in terms if term[1]]))


@lru_cache
def blas_address(name: str) -> int:
    """The address of a BLAS routine, from SciPy's table of function pointers."""
    return capsule_address(cython_blas, name)


def capsule_address(module: Any, name: str) -> int:
    """The address of a function that a Cython module exports."""
    capsule = module.__pyx_capi__[name]
    api = ctypes.pythonapi
    get_name = ctypes.PYFUNCTYPE(ctypes.c_char_p, ctypes.py_object)(("PyCapsule_GetName", api))
    get = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)
    return get(("PyCapsule_GetPointer", api))(capsule, get_name(capsule))


def _routine(spec: Gemm) -> str:
    prefix = _PREFIX[element_type(spec.dtype)]
    return prefix + ("gemv" if 1 in (spec.m, spec.n) and spec.k > 0 else "gemm")


def _emit_gemm(symbol: str, spec: Gemm, guarded: bool) -> tuple[str, set[str]]:
    """BLAS calls for a range of pieces: a loop over a batch, or one call for several blocks."""
    kind = element_type(spec.dtype)
    cut = pieces(spec)
    routine = _routine(spec)
    arguments = _gemv_arguments(spec) if routine.endswith("v") else _gemm_arguments(spec)
    length = {"m": spec.m, "n": spec.n}.get(cut.axis)
    cells, operands, types = [], [], []
    for k, argument in enumerate(arguments):
        types.append("ptr")
        if argument in ("%a", "%b", "%c"):
            operands.append(f"ptr {argument}")
            continue
        operands.append(f"ptr %cell{k}")
        cell = "i8" if argument in "TN" else kind if isinstance(argument, _Scalar) else "i32"
        text = str(ord(argument)) if argument in "TN" else str(argument)
        if length is not None and k == {"n": 2, "m": 3}[cut.axis]:
            text = "%part32"
        cells += [f"  %cell{k} = alloca {cell}", f"  store {cell} {text}, ptr %cell{k}"]
    declarations = {f"declare void @fgrad_{routine}({', '.join(types)})"}
    empty = spec.m == 0 or spec.n == 0 or spec.batch == 0
    call = "" if empty else f"  call void @fgrad_{routine}({', '.join(operands)})"
    first, last = "", ""
    if guarded and call:
        declarations |= blas_threads.DECLARATIONS
        first, last = blas_threads.ENTER, blas_threads.LEAVE
    steps = _piece_steps(spec, cut)
    moves = "\n".join(
        [
            f"  %{name}_step = mul i64 %i, {step}\n"
            f"  %{name} = getelementptr {kind}, ptr %{name}_base, i64 %{name}_step"
            for name, step in zip("abc", steps, strict=True)
        ]
    )
    form = _BATCH if length is None else _BLOCKS
    text = form.format(
        symbol=symbol,
        cells="\n".join(cells),
        moves=moves,
        call=call,
        first=first or "  br label %entered\nentered:",
        last=last or "  br label %left\nleft:",
        size=cut.size,
        length=length,
    )
    return text, declarations


def _piece_steps(spec: Gemm, cut: Pieces) -> tuple[int, int, int]:
    """Elements from one piece to the next, in A, B and C."""
    if cut.axis == "m":
        return cut.size * (1 if spec.trans_a else spec.lda), 0, cut.size * spec.ldc
    if cut.axis == "n":
        return 0, cut.size * (spec.ldb if spec.trans_b else 1), cut.size
    return spec.stride_a, spec.stride_b, spec.stride_c


class _Scalar(str):
    """The literal of alpha or beta."""


def _gemm_arguments(spec: Gemm) -> list[str]:
    flags = ["T" if spec.trans_b else "N", "T" if spec.trans_a else "N"]
    alpha, beta = (_Scalar(literal(x, spec.dtype)) for x in (spec.alpha, spec.beta))
    sizes = [str(spec.n), str(spec.m), str(spec.k)]
    return [
        *flags,
        *sizes,
        alpha,
        "%b",
        str(spec.ldb),
        "%a",
        str(spec.lda),
        beta,
        "%c",
        str(spec.ldc),
    ]


def _gemv_arguments(spec: Gemm) -> list[str]:
    """A product with a vector: y = M x, where M is A (n = 1) or B' (m = 1)."""
    alpha, beta = (_Scalar(literal(x, spec.dtype)) for x in (spec.alpha, spec.beta))
    if spec.n == 1:
        matrix, ld, stored_transposed, rows = "%a", spec.lda, spec.trans_a, spec.m
        vector, step = "%b", 1 if spec.trans_b else spec.ldb
        result_step = spec.ldc
    else:
        matrix, ld, stored_transposed, rows = "%b", spec.ldb, not spec.trans_b, spec.n
        vector, step = "%a", spec.lda if spec.trans_a else 1
        result_step = 1
    flag, shape = ("N", (rows, spec.k)) if stored_transposed else ("T", (spec.k, rows))
    sizes = [str(shape[0]), str(shape[1])]
    return [flag, *sizes, alpha, matrix, str(ld), vector, str(step), beta, "%c", str(result_step)]


_HEAD = """define void @{symbol}(ptr %bufs, i64 %lo, i64 %hi) #0 {{
entry:
  %a_base = load ptr, ptr %bufs, align 8
  %b_at = getelementptr ptr, ptr %bufs, i64 1
  %b_base = load ptr, ptr %b_at, align 8
  %c_at = getelementptr ptr, ptr %bufs, i64 2
  %c_base = load ptr, ptr %c_at, align 8
"""
_BATCH = (
    _HEAD
    + """{cells}
  %some = icmp slt i64 %lo, %hi
  br i1 %some, label %first, label %end
first:
{first}
  br label %loop
loop:
  %i = phi i64 [ %lo, %entered ], [ %following, %loop ]
{moves}
{call}
  %following = add i64 %i, 1
  %again = icmp slt i64 %following, %hi
  br i1 %again, label %loop, label %last
last:
{last}
  br label %end
end:
  ret void
}}"""
)
# One call for the blocks [lo, hi) of rows or columns; the last block may be short.
_BLOCKS = (
    _HEAD
    + """  %i = add i64 %lo, 0
  %begin = mul i64 %lo, {size}
  %whole_end = mul i64 %hi, {size}
  %short = icmp slt i64 %whole_end, {length}
  %end_at = select i1 %short, i64 %whole_end, i64 {length}
  %part = sub i64 %end_at, %begin
  %part32 = trunc i64 %part to i32
{cells}
  %some = icmp sgt i64 %part, 0
  br i1 %some, label %first, label %end
first:
{first}
{moves}
{call}
{last}
  br label %end
end:
  ret void
}}"""
)
