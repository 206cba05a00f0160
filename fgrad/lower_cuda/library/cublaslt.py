"""L6. Products of matrices by cuBLASLt: descriptors and an algorithm, chosen when they are planned.

cuBLASLt is column-major: a row-major matrix is a transposed one there, so operands change places.

    C = op(A) op(B), row-major     C^T = op(B)^T op(A)^T: its first operand is B, as it lies in
                                   memory n x k, or k x n and transposed if B was

float32 is computed in float32, in TF32 only where config.tf32 says so; float16 in float32.
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Sequence
from typing import Any

from fgrad.compile.cpu.library import Gemm
from fgrad.config import config
from fgrad.lower_cuda.library.calls import Calls, FunctionCall, Number, Place, Stream
from fgrad.lower_cuda.library.functions import Cells, Functions

WORKSPACE = 32 << 20  # bytes that an algorithm may use
ALIGNMENT = 16  # of buffers, at least

DATA_TYPES = {"f": 0, "d": 1, "e": 2, "F": 4, "D": 5}  # cudaDataType
COMPUTE_32F, COMPUTE_32F_FAST_TF32, COMPUTE_64F = 68, 77, 70  # cublasComputeType
_COMPUTE = {
    "f": COMPUTE_32F,
    "e": COMPUTE_32F,
    "F": COMPUTE_32F,
    "d": COMPUTE_64F,
    "D": COMPUTE_64F,
}
_SCALE = {"f": "f", "e": "f", "d": "d", "F": "F", "D": "D"}
OP_N, OP_T = 0, 1  # cublasOperation

# Attributes of a product, of a layout, and of a preference.
TRANSA, TRANSB = 3, 4
BATCH_COUNT, BATCH_STRIDE = 5, 6
MAX_WORKSPACE, MIN_ALIGNMENT = 1, 5

# cublasLtMatmulHeuristicResult_t: the algorithm, its workspace, the rest
WORKSPACE_AT, RESULT_BYTES = 64, 96


def gemm_calls(
    f: Functions, spec: Gemm, places: Sequence[tuple[Place, ...]], scratch: int
) -> Calls | None:
    """The calls of a product, one for each triple of places; None if there is no algorithm for it.
    `scratch` is the number of the scratch area."""
    plan = _Plan(f, spec, [place for triple in places for place in triple])
    if not plan.algorithms:
        return None
    calls = tuple([plan.call(triple, Place(scratch)) for triple in places])
    return Calls(calls, (plan.workspace,) if plan.workspace else ())


class _Plan:
    """The descriptors of a product, and the algorithm for it."""

    def __init__(self, f: Functions, spec: Gemm, places: list[Place]) -> None:
        self.f, self.spec = f, spec
        self.cells = Cells()
        self.handle = f.handle("cublasLt")
        char = spec.dtype.char
        compute = COMPUTE_32F_FAST_TF32 if config.tf32 and char in "fF" else _COMPUTE[char]
        scale = DATA_TYPES[_SCALE[char]]
        self.product = self._new("MatmulDesc", compute, scale)
        for attribute, trans in ((TRANSA, spec.trans_b), (TRANSB, spec.trans_a)):
            self._set(
                "MatmulDesc", self.product, attribute, ctypes.c_int32, OP_T if trans else OP_N
            )
        self.left = self._layout(spec.n, spec.k, spec.trans_b, spec.ldb, spec.stride_b)
        self.right = self._layout(spec.k, spec.m, spec.trans_a, spec.lda, spec.stride_a)
        self.result = self._layout(spec.n, spec.m, False, spec.ldc, spec.stride_c)
        kind = ctypes.c_double if spec.dtype.char in "dD" else ctypes.c_float
        self.one, self.zero = (self.cells.number(kind, x, 0.0) for x in (1.0, 0.0))
        self._choose(_alignment(spec, places))

    def _new(self, what: str, *arguments: int) -> int:
        """A descriptor."""
        made = self.f.created(f"cublasLt{what}Create", *arguments)
        return self.cells.own(self.f, f"cublasLt{what}Destroy", made)

    def _set(self, what: str, handle: int, attribute: int, kind: Any, value: int) -> None:
        """Set an attribute of a descriptor."""
        cell = self.cells.address(kind, value)
        size = ctypes.sizeof(kind)
        self.f.call(f"cublasLt{what}SetAttribute", handle, attribute, cell, size)

    def _layout(self, rows: int, columns: int, trans: bool, leading: int, stride: int) -> int:
        """A batch of column-major matrices, stored the other way round if `trans`."""
        if trans:
            rows, columns = columns, rows
        kind = DATA_TYPES[self.spec.dtype.char]
        layout = self._new("MatrixLayout", kind, rows, columns, leading)
        if self.spec.batch > 1:
            self._set("MatrixLayout", layout, BATCH_COUNT, ctypes.c_int32, self.spec.batch)
            self._set("MatrixLayout", layout, BATCH_STRIDE, ctypes.c_int64, stride)
        return layout

    def _choose(self, alignment: int) -> None:
        """Ask for the best algorithm for buffers of an alignment."""
        wish = self._new("MatmulPreference")
        self._set("MatmulPreference", wish, MAX_WORKSPACE, ctypes.c_uint64, WORKSPACE)
        for operand in range(4):
            at = MIN_ALIGNMENT + operand
            self._set("MatmulPreference", wish, at, ctypes.c_uint32, alignment)
        found = self.cells.address(ctypes.c_uint8, *[0] * RESULT_BYTES)
        count = self.cells.address(ctypes.c_int32, 0)
        self.f.call(
            "cublasLtMatmulAlgoGetHeuristic", self.handle.value, self.product, self.left,
            self.right, self.result, self.result, wish, 1, found, count,
        )  # fmt: skip
        self.algorithm = found
        self.algorithms = ctypes.c_int32.from_address(count).value
        self.workspace = ctypes.c_uint64.from_address(found + WORKSPACE_AT).value

    def call(self, places: tuple[Place, ...], workspace: Place) -> FunctionCall:
        """The product of matrices at some places."""
        a, b, c = places
        name = "cublasLtMatmul"
        descriptors = [Number("i64", x) for x in (self.product, self.left, self.right, self.result)]
        product, left, right, result = descriptors
        arguments = (
            self.handle, product, self.one, b, left, a, right, self.zero, c, result, c, result,
            Number("i64", self.algorithm), workspace if self.workspace else Number("i64", 0),
            Number("i64", self.workspace), Stream(),
        )  # fmt: skip
        return FunctionCall(name, self.f.address(name), arguments, 1, (self.cells,))


def _alignment(spec: Gemm, places: list[Place]) -> int:
    """Bytes that divide the addresses of all matrices."""
    strides = (spec.stride_a, spec.stride_b, spec.stride_c) if spec.batch > 1 else ()
    offsets = [place.offset for place in places]
    return math.gcd(ALIGNMENT, *offsets, *[s * spec.dtype.itemsize for s in strides])
