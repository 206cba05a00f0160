"""L6. Products of matrices by cuBLASLt: descriptors and an algorithm, chosen when they are planned.

cuBLASLt is column-major: a row-major matrix is a transposed one there, so operands change places.

    C = op(A) op(B), row-major     C^T = op(B)^T op(A)^T: its first operand is B, as it lies in
                                   memory n x k, or k x n and transposed if B was

float32 is computed in float32, in TF32 only where config.tf32 says so; numbers of 16 bits too, and
rounded once.

    batches at one distance        one call
    ... at two distances or more   one call, of a table of addresses that a kernel writes before it

The address of a bias is part of a product's descriptor.  Calls of several threads share that, so
each makes a copy with its own address.
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from fgrad.compile.llvm.runtime import Source, build
from fgrad.config import config
from fgrad.lower_cuda.emit.calls import Address, Argument, Calls, FunctionCall, Number, Stream
from fgrad.lower_cuda.emit.text import BodyText
from fgrad.lower_cuda.library.functions import Cells, Functions
from fgrad.lower_cuda.library.plan import Planner
from fgrad.lower_cuda.library.products import Product, axes_of, matrices, moved

WORKSPACE = 32 << 20  # bytes that an algorithm may use
ALIGNMENT = 16  # of buffers, at least
FEW_CALLS = 2  # up to which calls are no more launches than a table of addresses and one call
TABLE_ENTRY = 8
WORK_ALIGNMENT = 256  # of work memory
ARGUMENTS, DESCRIPTOR_AT, WORK_AT = 16, 1, 13  # of cublasLtMatmul
_NULL = Number("i64", 0)

# cudaDataType, by the names of numbers
DATA_TYPES = {
    "float32": 0, "float64": 1, "float16": 2, "complex64": 4, "complex128": 5, "bfloat16": 14,
}  # fmt: skip
COMPUTE_32F, COMPUTE_32F_FAST_TF32, COMPUTE_64F = 68, 77, 70  # cublasComputeType
_DOUBLES = ("float64", "complex128")
_SCALES = {"float16": "float32", "bfloat16": "float32"}
OP_N, OP_T = 0, 1  # cublasOperation

# Attributes of a product, of a layout, and of a preference.
TRANSA, TRANSB, EPILOGUE, BIAS_POINTER, BIAS_TYPE = 3, 4, 7, 8, 26
BATCH_COUNT, BATCH_STRIDE, BATCH_MODE = 5, 6, 8
MAX_WORKSPACE, MIN_ALIGNMENT = 1, 5
STRIDED, POINTERS = 0, 1  # modes of batches
PLAIN, BIAS = 1, 4  # epilogues; with an activation these are added up
ACTIVATIONS = {"relu": 2, "gelu": 32}

# The descriptor of a product is plain memory: 256 bytes of the versions so far.
PRODUCT_BYTES = 512
# cublasLtMatmulHeuristicResult_t: the algorithm, its workspace, its status, the rest
WORKSPACE_AT, STATE_AT, RESULT_BYTES = 64, 72, 96


def product_calls(f: Functions, product: Product, buffers: int) -> Calls | None:
    """The calls of a product; None if there is no algorithm for it.

    `buffers` is how many the step has: A, B, C, and a bias.
    """
    if len(product.starts) > FEW_CALLS and axes_of(product) is not None:
        plan = _Plan(f, product, POINTERS)
        if plan.found:
            return plan.by_addresses(buffers)
    plan = _Plan(f, product, STRIDED)
    return plan.one_by_one(buffers) if plan.found else None


class _Plan:
    """The descriptors of a product, and the algorithm for it."""

    def __init__(self, f: Functions, product: Product, mode: int) -> None:
        self.f, self.product, self.mode = f, product, mode
        self.cells = Cells()
        self.handle = f.handle("cublasLt")
        self.batch = matrices(product) if mode == POINTERS else product.gemm.batch
        spec, (step_a, step_b, step_c) = product.gemm, _strides(product)
        operand, result = product.operand, product.result
        self.descriptor = self._descriptor()
        self.left = self._layout(operand, spec.n, spec.k, spec.trans_b, spec.ldb, step_b)
        self.right = self._layout(operand, spec.k, spec.m, spec.trans_a, spec.lda, step_a)
        self.result = self._layout(result, spec.n, spec.m, False, spec.ldc, step_c)
        kind = ctypes.c_double if operand in _DOUBLES else ctypes.c_float
        self.one, self.zero = (self.cells.number(kind, x, 0.0) for x in (1.0, 0.0))
        self.workspace = 0
        self.found = self._choose(alignments(product)) and _is_aligned(product)

    # Descriptors.

    def _descriptor(self) -> int:
        """The descriptor of the product itself."""
        product, spec = self.product, self.product.gemm
        scale = DATA_TYPES[_SCALES.get(product.operand, product.operand)]
        made = self.cells.address(ctypes.c_uint64, *[0] * (PRODUCT_BYTES // 8))
        compute = COMPUTE_64F if product.operand in _DOUBLES else COMPUTE_32F
        if config.tf32 and product.operand in ("float32", "complex64"):
            compute = COMPUTE_32F_FAST_TF32
        self.f.call("cublasLtMatmulDescInit_internal", made, PRODUCT_BYTES, compute, scale)
        for attribute, trans in ((TRANSA, spec.trans_b), (TRANSB, spec.trans_a)):
            self._set("MatmulDesc", made, attribute, ctypes.c_int32, OP_T if trans else OP_N)
        if not product.is_plain:
            epilogue = ACTIVATIONS.get(product.epilogue, 0) | (BIAS if product.bias else 0)
            self._set("MatmulDesc", made, EPILOGUE, ctypes.c_uint32, epilogue)
        if product.bias:
            kind = DATA_TYPES[product.result]
            self._set("MatmulDesc", made, BIAS_TYPE, ctypes.c_int32, kind)
            # No address yet, but one that is as aligned: the choice of an algorithm depends on it.
            self._set("MatmulDesc", made, BIAS_POINTER, ctypes.c_uint64, ALIGNMENT)
        return made

    def _new(self, what: str, *arguments: int) -> int:
        """A descriptor of something else."""
        made = self.f.created(f"cublasLt{what}Create", *arguments)
        return self.cells.own(self.f, f"cublasLt{what}Destroy", made)

    def _set(self, what: str, handle: int, attribute: int, kind: Any, value: int) -> None:
        """Set an attribute of a descriptor."""
        cell = self.cells.address(kind, value)
        size = ctypes.sizeof(kind)
        self.f.call(f"cublasLt{what}SetAttribute", handle, attribute, cell, size)

    def _layout(
        self, name: str, rows: int, columns: int, trans: bool, leading: int, stride: int
    ) -> int:
        """A batch of column-major matrices, stored the other way round if `trans`."""
        if trans:
            rows, columns = columns, rows
        layout = self._new("MatrixLayout", DATA_TYPES[name], rows, columns, leading)
        if self.batch > 1:
            self._set("MatrixLayout", layout, BATCH_COUNT, ctypes.c_int32, self.batch)
        if self.mode == POINTERS:
            self._set("MatrixLayout", layout, BATCH_MODE, ctypes.c_uint32, POINTERS)
        elif self.batch > 1:
            self._set("MatrixLayout", layout, BATCH_STRIDE, ctypes.c_int64, stride)
        return layout

    def _choose(self, aligned: Sequence[int]) -> bool:
        """Ask for the best algorithm for A, B and C of some alignments; whether there is one."""
        wish = self._new("MatmulPreference")
        self._set("MatmulPreference", wish, MAX_WORKSPACE, ctypes.c_uint64, WORKSPACE)
        a, b, c = aligned
        for k, alignment in enumerate((b, a, c, c)):
            at = MIN_ALIGNMENT + k
            self._set("MatmulPreference", wish, at, ctypes.c_uint32, alignment)
        found = self.algorithm = self.cells.address(ctypes.c_uint64, *[0] * (RESULT_BYTES // 8))
        count = self.cells.address(ctypes.c_int32, 0)
        status = self.f.status(
            "cublasLtMatmulAlgoGetHeuristic", self.handle.value, self.descriptor, self.left,
            self.right, self.result, self.result, wish, 1, found, count,
        )  # fmt: skip
        self.workspace = ctypes.c_uint64.from_address(found + WORKSPACE_AT).value
        state = ctypes.c_int32.from_address(found + STATE_AT).value
        return not status and not state and ctypes.c_int32.from_address(count).value > 0

    # Calls.

    def one_by_one(self, buffers: int) -> Calls:
        """A call for each start."""
        work = Address(buffers) if self.workspace else None
        room = (self.workspace + WORK_ALIGNMENT,) if self.workspace else ()
        calls = [
            self._call([Address(k, at) for k, at in enumerate(start)], work)
            for start in self.product.starts
        ]
        return Calls(tuple(calls), room)

    def by_addresses(self, buffers: int) -> Calls:
        """A kernel that writes the addresses of all matrices, and one call."""
        plan = Planner(buffers)
        size = TABLE_ENTRY * self.batch
        table = plan.scratch(3 * size)
        plan.each(self.batch, self._write_addresses, table, *[Address(k) for k in range(3)])
        work = plan.scratch(self.workspace + WORK_ALIGNMENT) if self.workspace else None
        calls = plan.finish()
        tables = [table._replace(offset=k * size) for k in range(3)]
        return calls._replace(calls=(*calls.calls, self._call(tables, work)))

    def _write_addresses(self, body: BodyText, e: str) -> None:
        """The addresses of A, B and C of a number."""
        axes = axes_of(self.product)
        assert axes is not None
        table = body.pointer(0, "i64")
        for which in range(3):
            start = body.cast("ptrtoint", "i8 addrspace(1)*", f"%p{which + 1}", "i64")
            offset = moved(body, e, axes, which, self.product.starts[0][which])
            address = body.op("add", "i64", start, offset)
            body.store(address, table, body.op("add", "i64", e, which * self.batch))

    def _call(self, places: Sequence[Address], work: Address | None) -> FunctionCall:
        """The product of matrices at some places, or of those whose addresses are there."""
        a, b, c = places
        name = "cublasLtMatmul"
        objects = (self.descriptor, self.left, self.right, self.result)
        descriptor, left, right, result = [Number("i64", x) for x in objects]
        used = [self.f.address(name), self.f.address("cublasLtMatmulDescSetAttribute")]
        arguments: tuple[Argument, ...] = (
            *[Number("i64", address) for address in used], self.product.bias or _NULL,
            self.handle, descriptor, self.one, b, left, a, right, self.zero, c, result, c, result,
            Number("i64", self.algorithm), work or _NULL, Number("i64", self.workspace), Stream(),
        )  # fmt: skip
        return FunctionCall(name, matmul_address(), arguments, 1, (self.cells,))


def _strides(product: Product) -> tuple[int, int, int]:
    spec = product.gemm
    return spec.stride_a, spec.stride_b, spec.stride_c


def alignments(product: Product) -> tuple[int, int, int]:
    """What divides the addresses of all matrices A, of B and of C."""
    a, b, c = (
        math.gcd(ALIGNMENT, step if product.gemm.batch > 1 else 0, *[s[k] for s in product.starts])
        for k, step in enumerate(product.steps)
    )
    return a, b, c


def _is_aligned(product: Product) -> bool:
    """Whether epilogues can read the bias."""
    return product.bias is None or product.bias.offset % ALIGNMENT == 0


# --- calls ----------------------------------------------------------------------------------------


@lru_cache
def matmul_address() -> int:
    """The address of a function that calls `cublasLtMatmul`: with its arguments, after its address,
    that of the function that sets an attribute, and the address of a bias, or 0."""
    text = _matmul("f")[0]
    return build([Source(f"cublasLt {text}", _matmul)])[0]


def _matmul(symbol: str) -> tuple[str, set[str]]:
    """A bias is set in a copy of the descriptor; work memory begins where the library wants it."""
    changed = {DESCRIPTOR_AT: "%descriptor", WORK_AT: "%work"}
    pointers = ", ".join([f"i64 %a{k}" for k in range(ARGUMENTS)])
    given = ", ".join([f"i64 {changed.get(k, f'%a{k}')}" for k in range(ARGUMENTS)])
    text = (
        f"define i32 @{symbol}(ptr %product, ptr %set, i64 %bias, {pointers}) #0 {{\nentry:\n"
        + f"  %own = alloca i64, i64 {PRODUCT_BYTES // 8}, align 16\n"
        + "  %cell = alloca i64, align 8\n  store i64 %bias, ptr %cell, align 8\n"
        + f"  %after = add i64 %a{WORK_AT}, {WORK_ALIGNMENT - 1}\n"
        + f"  %work = and i64 %after, {-WORK_ALIGNMENT}\n"
        + "  %plain = icmp eq i64 %bias, 0\n  br i1 %plain, label %run, label %copy\ncopy:\n"
        + f"  %shared = inttoptr i64 %a{DESCRIPTOR_AT} to ptr\n"
        + f"  %copied = call ptr @memcpy(ptr %own, ptr %shared, i64 {PRODUCT_BYTES})\n"
        + f"  %is_set = call i32 %set(ptr %own, i32 {BIAS_POINTER}, ptr %cell, i64 8)\n"
        + "  %own_number = ptrtoint ptr %own to i64\n"
        + "  %good = icmp eq i32 %is_set, 0\n  br i1 %good, label %run, label %failed\n"
        + "failed:\n  ret i32 %is_set\nrun:\n"
        + f"  %descriptor = phi i64 [ %a{DESCRIPTOR_AT}, %entry ], [ %own_number, %copy ]\n"
        + f"  %result = call i32 %product({given})\n  ret i32 %result\n}}"
    )
    return text, {"declare ptr @memcpy(ptr, ptr, i64)"}
