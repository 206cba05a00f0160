"""L5. Native library steps: matrix products, with the kernels' calling convention.

A set of parameters is a table of sizes and strides, the last buffer of a call: the function for a
type of numbers (`gemm/`) serves all of them.  Products with a vector, which read each number once,
are cut into cells that call BLAS by the public function pointers of `scipy.linalg.cython_blas`.
BLAS is column-major: a row-major matrix is a transposed one there.
"""

from __future__ import annotations

import contextlib
import ctypes
from collections.abc import Iterable
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from fgrad.base.lazy_import import lazy_extension, lazy_module
from fgrad.base.named_tuple import NamedTuple
from fgrad.base.size_functions import chosen, least, most
from fgrad.compile.cpu import blas_threads
from fgrad.compile.cpu.gemm.layout import Layout, product_content
from fgrad.compile.cpu.gemm.micro import Tiling, tiling
from fgrad.compile.kernel.machine import (
    CONFLICT_BYTES,
    L2_PART_BYTES,
    MEMORY_BYTES_PER_CYCLE,
    VECTOR_BYTES,
)
from fgrad.compile.llvm.runtime import Source, build_counted, kept_code, target
from fgrad.compile.llvm.text import element_type, literal
from fgrad.compile.tasks.routines import Gemm

if TYPE_CHECKING:
    from fgrad.compile.cpu.gemm import function
else:
    function = lazy_module("fgrad.compile.cpu.gemm.function")

cython_blas = lazy_extension("scipy.linalg.cython_blas")
_PREFIX = {"float": "s", "double": "d"}


class Product(NamedTuple):
    """A product: buffers A, B, C, table; range: [0, pieces(spec).count)."""

    address: int
    table: tuple[int, ...]


def product_code(spec: Gemm) -> Product:
    """The code of a product, and its table."""
    if is_vector(spec):
        guarded = bool(blas_threads.imports())
        return Product(_vector_address(spec.dtype, guarded), _vector_words(spec))
    return Product(_matrix_address(spec.dtype), tuple(layout(spec)))


@kept_code
def _vector_address(dtype: np.dtype, guarded: bool) -> int:
    source = Source(f"gemv {dtype.str} {guarded}", lambda symbol: _gemv(symbol, dtype, guarded))
    return build_counted([source], _blas_imports(), glue=True)[0]


@kept_code
def _matrix_address(dtype: np.dtype) -> int:
    content = f"gemm {_product_name(dtype)}"
    source = Source(content, lambda symbol: _glue(symbol, dtype))
    return build_counted([source], _product_imports(dtype), glue=True)[0]


def is_vector(spec: Gemm) -> bool:
    """Whether an operand is a vector."""
    return 1 in (spec.m, spec.n) and spec.k > 0


@lru_cache
def _tiles(dtype: np.dtype) -> Tiling:
    made_for = target()
    return tiling(dtype, made_for.triple, made_for.features)


@kept_code
def _product_imports(dtype: np.dtype) -> dict[str, int]:
    """The function for a type of numbers, by its name."""
    return {_product_name(dtype): build_counted([_product_source(dtype)])[0]}


def _product_source(dtype: np.dtype) -> Source:
    tiles = _tiles(dtype)
    return Source(product_content(tiles), lambda symbol: function.emit_product(symbol, tiles))


def product_sources(specs: Iterable[Gemm]) -> list[Source]:
    """The functions that products call, to be built together with other code."""
    dtypes = dict.fromkeys([spec.dtype for spec in specs if not is_vector(spec)])
    return [_product_source(dtype) for dtype in dtypes]


def _product_name(dtype: np.dtype) -> str:
    return f"fgrad_product_{element_type(dtype)}"


def layout(spec: Gemm, tiles: Tiling | None = None) -> Layout:
    """The table of a product, for this machine's tiles or others."""
    tiles = tiles or _tiles(spec.dtype)
    size = spec.dtype.itemsize
    a_row, a_step = (1, spec.lda) if spec.trans_a else (spec.lda, 1)
    b_step, b_column = (1, spec.ldb) if spec.trans_b else (spec.ldb, 1)
    cut = pieces(spec, tiles)
    blocks = most(1, -(-spec.k // tiles.depth))
    depth = most(1, -(-spec.k // blocks))
    return Layout(
        m=spec.m,
        n=spec.n,
        k=spec.k,
        depth=depth,
        cells=cut.cells,
        cells_down=cut.down,
        cell_rows=cut.rows,
        cell_columns=cut.columns,
        a_row=a_row * size,
        a_step=a_step * size,
        b_step=b_step * size,
        b_column=b_column * size,
        c_row=spec.ldc * size,
        a_next=spec.stride_a * size,
        b_next=spec.stride_b * size,
        c_next=spec.stride_c * size,
        block=most(1, block_bytes() // (depth * tiles.columns * size)) * tiles.columns,
        ahead=chosen(L2_PART_BYTES, spec.batch * spec.m * spec.k * size, 1, 0),
        copy_a=int(_copies_a(spec)),
        copy_b=_copies_b(spec),
    )


@lru_cache
def block_bytes() -> int:
    """How much of B is worked on at once: the L2 cache of a core, or 2 MB if that is large, since
    the L3 cache of such a machine is fast enough for it."""
    with contextlib.suppress(OSError, ValueError):
        with open("/sys/devices/system/cpu/cpu0/cache/index2/size") as file:
            size = int(file.read().strip().removesuffix("K")) << 10
        return most(size, 2 << 20) if size >= 1 << 20 else size
    return 512 << 10


def _copies_a(spec: Gemm) -> bool:
    """Whether rows of A are copied before they are used: if they fall on the same cache sets."""
    return not spec.trans_a and spec.m > 1 and spec.lda * spec.dtype.itemsize % CONFLICT_BYTES == 0


def _copies_b(spec: Gemm) -> int:
    """The same of B: if its columns have to become rows, or if many rows of A use each of a matrix
    that is not near."""
    if spec.trans_b:
        return 1
    size, copies = spec.k * spec.n * spec.dtype.itemsize, 0
    for enough, rows in FAR:
        copies = chosen(size, enough, copies, chosen(spec.m, rows, copies, 1))
    return copies


FAR = ((512 << 10, 112), (6 << 20, 28))  # bytes of B and rows of A from which copies pay


class Pieces(NamedTuple):
    """How a product is cut for threads: cells of `rows` x `columns` of C, strip after strip, `down`
    in each strip and `cells` in each product of a batch; all cells, and the cycles of each."""

    rows: int
    columns: int
    down: int
    cells: int
    count: int
    cycles: float


def pieces(spec: Gemm, tiles: Tiling | None = None) -> Pieces:
    """The range of a product."""
    if is_vector(spec):
        return _vector_pieces(spec)
    cycles = spec.m * spec.n * spec.k / (VECTOR_BYTES / spec.dtype.itemsize)
    tiles = tiles or _tiles(spec.dtype)
    cells = most(1, CELLS // most(spec.batch, 1))
    strips = most(1, least(spec.n // (2 * tiles.columns), cells, STRIPS))
    columns = most(1, -(-spec.n // (strips * tiles.columns))) * tiles.columns
    strips = -(-spec.n // columns)
    down = most(1, least(spec.m // (2 * tiles.rows[0]), cells // most(strips, 1)))
    rows = most(1, -(-spec.m // down))
    down = -(-spec.m // rows)
    cells = down * strips
    return Pieces(rows, columns, down, cells, cells * spec.batch, cycles / most(cells, 1))


CELLS = 64  # at most
STRIPS = 8  # at most


def _vector_pieces(spec: Gemm) -> Pieces:
    """The range of a product with a vector: cells of whole results, which read parts of the matrix
    that are not in another cell."""
    results, size = spec.m * spec.n, spec.dtype.itemsize
    read = results * spec.k * size
    near = read <= L2_PART_BYTES
    cycles = read / (VECTOR_BYTES if near else MEMORY_BYTES_PER_CYCLE)
    along_rows = _stored_transposed(spec)
    run = RUN_BYTES // size if along_rows else 1
    cells = most(1, CELLS // most(spec.batch, 1))
    cells = most(1, least(read // CELL_BYTES, results // run, cells))
    each = -(-results // cells)
    cells = -(-results // each)
    return Pieces(each, 1, 1, cells, cells * spec.batch, cycles / cells)


CELL_BYTES = 1 << 20  # of a matrix, at least, for one call of BLAS with a vector
RUN_BYTES = 1 << 13  # of each row, at least, where cells are columns of a matrix


def _glue(symbol: str, dtype: np.dtype) -> tuple[str, set[str]]:
    """A call of the function for the type of numbers, with the table among the buffers."""
    name = _product_name(dtype)
    text = (
        f"define void @{symbol}(ptr %bufs, i64 %lo, i64 %hi) #0 {{\n"
        "  %at = getelementptr ptr, ptr %bufs, i64 3\n"
        "  %table = load ptr, ptr %at, align 8\n"
        f"  tail call void @{name}(ptr %bufs, i64 %lo, i64 %hi, ptr %table)\n"
        "  ret void\n}"
    )
    return text, {f"declare void @{name}(ptr, i64, i64, ptr)"}


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


@lru_cache
def _blas_imports() -> dict[str, int]:
    """The addresses of all that products with vectors call."""
    routines = {f"fgrad_{prefix}gemv": blas_address(f"{prefix}gemv") for prefix in "sd"}
    return routines | blas_threads.imports()


class VectorWords(NamedTuple):
    """The table of a product with a vector: y = M x, where M is A, or B if `turned`.

    `results` are the elements of y, `next` is from the numbers of M for one to those for the next.
    """

    flag: int
    ld: int
    step: int
    result_step: int
    turned: int
    a: int
    b: int
    c: int
    cells: int
    cell_results: int
    results: int
    k: int
    next: int


def _vector_words(spec: Gemm) -> VectorWords:
    if spec.n == 1:
        ld, step, result_step = spec.lda, 1 if spec.trans_b else spec.ldb, spec.ldc
    else:
        ld, step, result_step = spec.ldb, spec.lda if spec.trans_a else 1, 1
    flag, following = ("N", 1) if _stored_transposed(spec) else ("T", ld)
    strides = spec.stride_a, spec.stride_b, spec.stride_c
    cut = pieces(spec)
    return VectorWords(
        ord(flag),
        ld,
        step,
        result_step,
        int(spec.n != 1),
        *strides,
        cut.cells,
        cut.rows,
        spec.m * spec.n,
        spec.k,
        following,
    )


def _stored_transposed(spec: Gemm) -> bool:
    """Whether the matrix of a product with a vector has the numbers of a result in a column."""
    return spec.trans_a if spec.n == 1 else not spec.trans_b


def _gemv(symbol: str, dtype: np.dtype, guarded: bool) -> tuple[str, set[str]]:
    """BLAS calls for a range of a batch."""
    kind = element_type(dtype)
    routine = f"{_PREFIX[kind]}gemv"
    declarations = {f"declare void @fgrad_{routine}({', '.join(['ptr'] * 11)})"}
    first, last = "  br label %entered\nentered:", "  br label %left\nleft:"
    if guarded:
        declarations |= blas_threads.DECLARATIONS
        first, last = blas_threads.ENTER, blas_threads.LEAVE
    words, cells = [], []
    for k, name in enumerate(VectorWords._fields):
        words += [
            f"  %{name}_word_at = getelementptr i64, ptr %table, i64 {k}",
            f"  %{name}_word = load i64, ptr %{name}_word_at, align 8",
        ]
    for name in ("flag", "ld", "step", "result_step"):
        size = "i8" if name == "flag" else "i32"
        cells += [
            f"  %{name} = alloca {size}",
            f"  %{name}_value = trunc i64 %{name}_word to {size}",
            f"  store {size} %{name}_value, ptr %{name}",
        ]
    cells += ["  %rows = alloca i32", "  %columns = alloca i32"]
    for name, value in (("one", 1.0), ("zero", 0.0)):
        cells += [
            f"  %{name} = alloca {kind}",
            f"  store {kind} {literal(value, dtype)}, ptr %{name}",
        ]
    moves = "\n".join(
        [
            f"  %{name}_step = mul i64 %which, %{name}_word\n"
            f"  %{name} = getelementptr {kind}, ptr %{name}_base, i64 %{name}_step"
            for name in "abc"
        ]
    )
    operands = [
        "flag",
        "rows",
        "columns",
        "one",
        "matrix",
        "ld",
        "vector",
        "step",
        "zero",
        "result",
        "result_step",
    ]
    text = _BATCH.format(
        symbol=symbol,
        kind=kind,
        cells="\n".join([*words, *cells]),
        moves=moves,
        call=f"  call void @fgrad_{routine}({', '.join([f'ptr %{name}' for name in operands])})",
        first=first,
        last=last,
    )
    return text, declarations


_BATCH = """define void @{symbol}(ptr %bufs, i64 %lo, i64 %hi) #0 {{
entry:
  %a_base = load ptr, ptr %bufs, align 8
  %b_at = getelementptr ptr, ptr %bufs, i64 1
  %b_base = load ptr, ptr %b_at, align 8
  %c_at = getelementptr ptr, ptr %bufs, i64 2
  %c_base = load ptr, ptr %c_at, align 8
  %table_at = getelementptr ptr, ptr %bufs, i64 3
  %table = load ptr, ptr %table_at, align 8
{cells}
  %turned = icmp ne i64 %turned_word, 0
  %columns_first = icmp eq i64 %flag_word, 78
  %some = icmp slt i64 %lo, %hi
  br i1 %some, label %first, label %end
first:
{first}
  br label %loop
loop:
  %i = phi i64 [ %lo, %entered ], [ %following, %loop ]
  %which = udiv i64 %i, %cells_word
  %cell = urem i64 %i, %cells_word
{moves}
  %before = mul i64 %cell, %cell_results_word
  %left_over = sub i64 %results_word, %before
  %is_last_cell = icmp slt i64 %left_over, %cell_results_word
  %count = select i1 %is_last_cell, i64 %left_over, i64 %cell_results_word
  %down = select i1 %columns_first, i64 %count, i64 %k_word
  %across = select i1 %columns_first, i64 %k_word, i64 %count
  %down_value = trunc i64 %down to i32
  %across_value = trunc i64 %across to i32
  store i32 %down_value, ptr %rows
  store i32 %across_value, ptr %columns
  %whole = select i1 %turned, ptr %b, ptr %a
  %skipped = mul i64 %before, %next_word
  %matrix = getelementptr {kind}, ptr %whole, i64 %skipped
  %put = mul i64 %before, %result_step_word
  %result = getelementptr {kind}, ptr %c, i64 %put
  %vector = select i1 %turned, ptr %a, ptr %b
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
