"""L5. Routines: what a step without a kernel computes, as typed tasks that both backends read.

    Gemm, FusedProduct       products of matrices, and with an epilogue
    RowSort, RowTop          rows in order, their greatest elements
    RowWalk, RowSearch       running totals and extrema along rows, places in ordered rows
    ComplexParts             real, imag and complex
    MatrixRoutine            factorisations, solutions and checks, by name
    Evaluation                 all else: the evaluation of one equation
    Unbuilt, Control         loops and branches, before and after their bodies are compiled

A task determines the code of its routine; where its buffers are, the step says.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from fgrad.base.named_tuple import NamedTuple
from fgrad.base.size_functions import least, most, truncated
from fgrad.compile.kernel.ir import Kernel
from fgrad.compile.kernel.machine import (
    CHUNK_CYCLES,
    GATHER_CYCLES,
    LINE_BYTES,
    MOST_PIECES,
    PIECES_OF_A_THREAD,
    SORT_CHUNK_CYCLES,
    SORT_CYCLES,
    VECTOR_BYTES,
)
from fgrad.compile.tasks.runnable import Runnable
from fgrad.config import config
from fgrad.ir.aval import INT64
from fgrad.ir.program import Eqn, Lit

SHORT_ROW = 64  # elements of a row that is sorted by rank, in at most four vectors
SEARCHED = 64  # elements that are looked for at a time

# --- products


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
) -> Gemm:
    """`C[b] = op(A[b]) @ op(B[b])` for row-major matrices.

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
    )


class FusedProduct(NamedTuple):
    """A product whose operands, result and epilogue have types of their own.

    operand, result: names of dtypes; epilogue: "" or "bias", "relu", ...; bias: where it begins in
    its buffer, in bytes, if there is one.
    """

    gemm: Gemm
    operand: str
    result: str
    epilogue: str
    bias: tuple[int, ...]


# --- rows


class RowSort(NamedTuple):
    """What is sorted: each row of a matrix, with payloads of its shape; None is the position.

    A function's range is that of the pieces into which the rows are divided.
    """

    dtype: np.dtype
    rows: int
    columns: int
    payloads: tuple[np.dtype | None, ...]
    keys_out: bool
    pieces: int

    @property
    def inputs(self) -> list[np.dtype]:
        """The dtypes of the buffers that are read."""
        return [self.dtype, *[p for p in self.payloads if p is not None]]

    @property
    def outputs(self) -> list[np.dtype]:
        """The dtypes of the buffers that are written."""
        return ([self.dtype] if self.keys_out else []) + [p or INT64 for p in self.payloads]

    @property
    def chunk(self) -> int:
        """The rows of a piece."""
        return -(-self.rows // self.pieces)

    @property
    def cycles(self) -> float:
        """A rough guess of the whole."""
        return float(self.rows * self.columns * SORT_CYCLES)

    @property
    def is_short(self) -> bool:
        """Whether rows are short enough to be sorted by rank."""
        return self.columns <= min(SHORT_ROW, 4 * VECTOR_BYTES // self.dtype.itemsize)

    @property
    def record_bytes(self) -> int:
        """The size of a record of a longer row: the key alone, or with a position."""
        if not self.payloads:
            return self.dtype.itemsize
        return 16 if self.dtype.itemsize == 8 else 8

    @property
    def piece_bytes(self) -> int:
        """The work memory of one piece: rows of records, one for keys and two with payloads."""
        rows = 2 if self.payloads else 1
        return -(-self.columns * self.record_bytes // LINE_BYTES) * LINE_BYTES * rows

    @property
    def work_bytes(self) -> int:
        """The work memory of all pieces."""
        return 0 if self.is_short else self.pieces * self.piece_bytes


def most_pieces() -> int:
    """Into how many pieces a range is cut at most: some for each thread, so that one which is late
    delays nobody."""
    return max(MOST_PIECES, PIECES_OF_A_THREAD * config.num_threads)


def row_sort(
    dtype: np.dtype,
    rows: int,
    columns: int,
    payloads: Sequence[np.dtype | None] = (),
    keys_out: bool = True,
) -> RowSort:
    """The task of sorting the rows of a matrix, and payloads of its shape alike.

    A payload of None is the position, as an int64, which is not read; the sorted keys are written
    unless `keys_out` is false.
    """
    pieces = int(rows * columns * SORT_CYCLES / SORT_CHUNK_CYCLES)
    pieces = max(1, min(pieces, rows, most_pieces()))
    return RowSort(np.dtype(dtype), rows, columns, tuple(payloads), keys_out, pieces)


class RowTop(NamedTuple):
    """The task: the `count` greatest elements of each row, and their places."""

    dtype: np.dtype
    rows: int
    columns: int
    count: int

    @property
    def cycles(self) -> float:
        """A rough guess of the whole."""
        return self.rows * (self.columns * self.dtype.itemsize / 16 + 30.0 * self.count)

    @property
    def pieces(self) -> int:
        """The groups of rows that are the step's range."""
        return most(1, least(truncated(self.cycles / CHUNK_CYCLES), self.rows, most_pieces()))


class RowWalk(NamedTuple):
    """The task: `op` is add, mul, max or min for a scan, argmax or argmin."""

    op: str
    dtype: np.dtype
    rows: int
    columns: int
    reverse: bool

    @property
    def lanes(self) -> int:
        """The elements of a vector.

        Products of floats are made in order, one by one: another order may overflow on its way.
        """
        in_order = self.op == "mul" and self.dtype.kind == "f"
        return 1 if in_order else VECTOR_BYTES // self.dtype.itemsize

    @property
    def cycles(self) -> float:
        """A rough guess of the whole."""
        return self.rows * (10.0 + self.columns * self.dtype.itemsize / 16)

    @property
    def pieces(self) -> int:
        """The groups of rows that are the step's range."""
        return most(1, least(truncated(self.cycles / CHUNK_CYCLES), self.rows, most_pieces()))


class RowSearch(NamedTuple):
    """The task: for each row of a table, `columns` elements; `right` of equal ones, or left."""

    dtype: np.dtype
    rows: int
    table: int
    columns: int
    right: bool

    @property
    def cycles(self) -> float:
        """A rough guess of the whole."""
        return self.rows * self.columns * self.table.bit_length() * GATHER_CYCLES

    @property
    def parts(self) -> int:
        """The parts of each row's elements."""
        wanted = int(self.cycles / self.rows / CHUNK_CYCLES)
        return max(1, min(wanted, self.columns // SEARCHED, most_pieces()))

    @property
    def pieces(self) -> int:
        """The step's range."""
        return self.rows * self.parts

    @property
    def chunk(self) -> int:
        """The elements of a part."""
        return -(-self.columns // self.parts)


def fits_search(dtype: np.dtype, table: int, columns: int) -> bool:
    """Whether there is a native search of this kind."""
    return (
        dtype.kind in "fiu" and dtype.itemsize >= 4 and 1 <= table < 2**31 and columns >= SEARCHED
    )


# --- matrices, complex numbers, the rest


class ComplexParts(NamedTuple):
    """`real`, `imag` (buffers: z, x) or `complex` (x, y, z) of parts of a dtype.

    Operands that are constants have no buffer.
    """

    name: str
    dtype: np.dtype
    size: int
    constants: tuple[float | None, ...]


SINGULAR = "Singular matrix"
MESSAGES = {
    "cholesky": "Matrix is not positive definite",
    "triangular_solve": SINGULAR,
    "factor": SINGULAR,
    "lu_solve": SINGULAR,
    "qr": "QR did not succeed",
    "svd": "SVD did not converge",
    "svdvals": "SVD did not converge",
    "eigh": "Eigenvalues did not converge",
    "eigvalsh": "Eigenvalues did not converge",
}


class MatrixRoutine(NamedTuple):
    """A routine by its name in the tables `LAPACK` of the backends, with its parameters."""

    name: str
    params: tuple[tuple[str, Any], ...]

    @property
    def batch(self) -> int:
        """The number of matrices."""
        return dict(self.params).get("batch", 1)


class SpecialFunction(NamedTuple):
    """A function of `scipy.special` applied to each element.

    dtype: of all arrays; the function itself takes float64; size: the number of elements;
    constants: for each operand its value, or None if it is an array; ones: the operands that are
    arrays of one element for all.  Buffers: the operands that are arrays, then the result.
    """

    name: str
    dtype: np.dtype
    size: int
    constants: tuple[float | None, ...]
    ones: tuple[int, ...]


def special_function(eqn: Eqn) -> SpecialFunction:
    """What an equation of a special function asks for."""
    out = eqn.outputs[0].aval
    return SpecialFunction(
        eqn.prim.name,
        out.dtype,
        out.size,
        tuple([float(a.value) if isinstance(a, Lit) else None for a in eqn.inputs]),
        tuple([k for k, a in enumerate(eqn.inputs) if a.aval.size == 1 < out.size]),
    )


class Evaluation(NamedTuple):
    """The evaluation of an equation, by NumPy, SciPy or the user; or what a backend has for it."""

    eqn: Eqn


class Unbuilt(NamedTuple):
    """A loop or branch, until its bodies are compiled."""

    eqn: Eqn


class Write(NamedTuple):
    """A kernel on the carry `None` and on results of the body, by number."""

    kernel: Kernel
    args: tuple[int | None, ...]


class Control(NamedTuple):
    """A control equation whose bodies are executables.

    The step's buffers are operands, results, constants of each body in turn, and scratch memory:
    `arena` bytes for the bodies, then places for what the bodies give and for the flag of a
    `while`.
    The last body of a loop gives what `outputs` and `writes` say (see `lower/writes.py`), and the
    operands of writes.
    """

    eqn: Eqn
    bodies: tuple[Runnable, ...]
    places: tuple[int, ...]  # offsets in the scratch memory
    outputs: tuple[int | None, ...] = ()
    writes: Mapping[int, tuple[Write, ...]] = {}


# Those that are one call of a function, on any device; the others are several, or a form of one
# device.
OneCall: TypeAlias = (
    Gemm | RowSort | RowTop | RowWalk | RowSearch | ComplexParts | MatrixRoutine | Evaluation
)
Routine: TypeAlias = OneCall | FusedProduct | Unbuilt | Control

_LABELS: dict[type, str] = {
    Gemm: "gemm",
    FusedProduct: "product",
    RowSort: "sort",
    RowTop: "top",
    RowWalk: "walk",
    RowSearch: "search",
    ComplexParts: "complex_parts",
    Evaluation: "host",
    Unbuilt: "control",
    Control: "control",
}


def label_of(routine: Routine) -> str:
    """A routine in one word, for tables of times and errors."""
    return routine.name if isinstance(routine, MatrixRoutine) else _LABELS[type(routine)]
