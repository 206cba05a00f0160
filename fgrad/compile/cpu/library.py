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

from fgrad.compile.cpu.blas_threads import runs_alone, thread_control
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


def gemm(
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
) -> int:
    """The address of `C[b] = alpha * op(A[b]) @ op(B[b]) + beta * C[b]` for row-major matrices.

    op(A) is m x k and op(B) is k x n; a transposed operand is stored the other way round.  Leading
    dimensions and strides between the matrices of a batch are in elements and default to contiguous
    storage; a stride of 0 repeats one matrix.  Buffers: A, B, C; range: [0, batch).
    """
    spec = Gemm(
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
    if is_tiny(spec):
        return build_kernel(tiny_gemm(spec))
    alone = runs_alone(m * n * k)
    content = f"gemm {tuple(spec)} {alone}"
    routine = _routine(spec)
    imports = {f"fgrad_{routine}": blas_address(routine)}
    control = thread_control()
    if control is not None:
        imports |= {"fgrad_get_threads": control.get, "fgrad_set_threads": control.set}
    return build([Source(content, lambda symbol: _emit_gemm(symbol, spec, alone))], imports)[0]


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


def _emit_gemm(symbol: str, spec: Gemm, alone: bool) -> tuple[str, set[str]]:
    """A loop over the batch around one BLAS call, which runs on one thread if it is `alone`."""
    kind = element_type(spec.dtype)
    declarations: set[str] = set()
    routine = _routine(spec)
    arguments = _gemv_arguments(spec) if routine.endswith("v") else _gemm_arguments(spec)
    cells, operands, types = [], [], []
    for k, argument in enumerate(arguments):
        types.append("ptr")
        if argument in ("%a", "%b", "%c"):
            operands.append(f"ptr {argument}")
            continue
        operands.append(f"ptr %cell{k}")
        cell = "i8" if argument in "TN" else kind if isinstance(argument, _Scalar) else "i32"
        text = str(ord(argument)) if argument in "TN" else str(argument)
        cells += [f"  %cell{k} = alloca {cell}", f"  store {cell} {text}, ptr %cell{k}"]
    declarations.add(f"declare void @fgrad_{routine}({', '.join(types)})")
    empty = spec.m == 0 or spec.n == 0 or spec.batch == 0
    call = "" if empty else f"  call void @fgrad_{routine}({', '.join(operands)})"
    moves = "\n".join(
        [
            f"  %{name}_step = mul i64 %i, {stride}\n"
            f"  %{name} = getelementptr {kind}, ptr %{name}_base, i64 %{name}_step"
            for name, stride in (("a", spec.stride_a), ("b", spec.stride_b), ("c", spec.stride_c))
        ]
    )
    first, last = "", ""
    if alone and call:
        declarations |= {"declare i32 @fgrad_get_threads()", "declare void @fgrad_set_threads(i32)"}
        first = "  %threads = call i32 @fgrad_get_threads()\n  call void @fgrad_set_threads(i32 1)"
        last = "  call void @fgrad_set_threads(i32 %threads)"
    text = _BATCH.format(
        symbol=symbol, cells="\n".join(cells), moves=moves, call=call, first=first, last=last
    )
    return text, declarations


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


_BATCH = """define void @{symbol}(ptr %bufs, i64 %lo, i64 %hi) #0 {{
entry:
{cells}
  %a_base = load ptr, ptr %bufs, align 8
  %b_at = getelementptr ptr, ptr %bufs, i64 1
  %b_base = load ptr, ptr %b_at, align 8
  %c_at = getelementptr ptr, ptr %bufs, i64 2
  %c_base = load ptr, ptr %c_at, align 8
  %some = icmp slt i64 %lo, %hi
  br i1 %some, label %first, label %end
first:
{first}
  br label %loop
loop:
  %i = phi i64 [ %lo, %first ], [ %following, %loop ]
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
