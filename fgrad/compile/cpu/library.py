"""L5. Native library steps: matrix products, with the kernels' calling convention.

A set of parameters is a table of sizes and strides, and a few instructions that pass it to the
function for its type of numbers (`gemm/`).  Products with a vector, which read each number once,
call BLAS by the public function pointers of `scipy.linalg.cython_blas`.  BLAS is column-major: a
row-major matrix is a transposed one there.
"""

from __future__ import annotations

import contextlib
import ctypes
from collections.abc import Iterable, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from fgrad.base.lazy_import import lazy_extension
from fgrad.compile.cpu import blas_threads
from fgrad.compile.cpu.gemm.function import Layout, emit_product, product_content
from fgrad.compile.cpu.gemm.micro import Tiling, tiling
from fgrad.compile.kernel.machine import CONFLICT_BYTES, L2_PART_BYTES, VECTOR_BYTES
from fgrad.compile.llvm.runtime import Source, build_counted, target
from fgrad.compile.llvm.text import element_type, literal
from fgrad.compile.tasks.routines import Gemm

cython_blas: Any = lazy_extension("scipy.linalg.cython_blas")
_PREFIX = {"float": "s", "double": "d"}


@lru_cache(maxsize=4096)
def gemm_address(spec: Gemm) -> int:
    """The address of a product.  Buffers: A, B, C; range: [0, pieces(spec).count)."""
    return build_products([spec])[0]


def build_products(specs: Sequence[Gemm]) -> list[int]:
    """The addresses of products; those not yet known are compiled together.

    Objects hold products that call the same functions: each can be loaded by itself later.
    """
    kinds: dict[Any, list[Gemm]] = {}
    for spec in specs:
        kinds.setdefault("vector" if is_vector(spec) else spec.dtype, []).append(spec)
    found: dict[Gemm, int] = {}
    for kind, alike in kinds.items():
        imports = _blas_imports() if kind == "vector" else _product_imports(kind)
        addresses = build_counted([_source(spec) for spec in alike], imports, glue=True)
        found.update(zip(alike, addresses, strict=True))
    return [found[spec] for spec in specs]


def is_vector(spec: Gemm) -> bool:
    """Whether an operand is a vector."""
    return 1 in (spec.m, spec.n) and spec.k > 0


def _source(spec: Gemm) -> Source:
    if is_vector(spec):
        guarded = bool(blas_threads.imports())
        return Source(f"gemv {tuple(spec)} {guarded}", lambda symbol: _gemv(symbol, spec, guarded))
    content = f"gemm {tuple(layout(spec))} {_product_name(spec.dtype)}"
    return Source(content, lambda symbol: _glue(symbol, spec))


@lru_cache
def _tiles(dtype: np.dtype) -> Tiling:
    made_for = target()
    return tiling(dtype, made_for.triple, made_for.features)


@lru_cache
def _product_imports(dtype: np.dtype) -> dict[str, int]:
    """The function for a type of numbers, by its name."""
    return {_product_name(dtype): build_counted([_product_source(dtype)])[0]}


def _product_source(dtype: np.dtype) -> Source:
    tiles = _tiles(dtype)
    return Source(product_content(tiles), lambda symbol: emit_product(symbol, tiles))


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
    blocks = max(1, -(-spec.k // tiles.depth))
    depth = max(1, -(-spec.k // blocks))
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
        block=max(1, block_bytes() // (depth * tiles.columns * size)) * tiles.columns,
        ahead=int(spec.batch * spec.m * spec.k * size > L2_PART_BYTES),
        copy_a=int(_copies_a(spec)),
        copy_b=int(_copies_b(spec)),
    )


@lru_cache
def block_bytes() -> int:
    """How much of B is worked on at once: the L2 cache of a core, or 2 MB if that is large, since
    the L3 cache of such a machine is fast enough for it."""
    with contextlib.suppress(OSError, ValueError):
        text = Path("/sys/devices/system/cpu/cpu0/cache/index2/size").read_text()
        size = int(text.strip().removesuffix("K")) << 10
        return max(size, 2 << 20) if size >= 1 << 20 else size
    return 512 << 10


def _copies_a(spec: Gemm) -> bool:
    """Whether rows of A are copied before they are used: if they fall on the same cache sets."""
    return not spec.trans_a and spec.m > 1 and spec.lda * spec.dtype.itemsize % CONFLICT_BYTES == 0


def _copies_b(spec: Gemm) -> bool:
    """The same of B: if its columns have to become rows, or if many rows of A use each of a matrix
    that is not near."""
    size = spec.k * spec.n * spec.dtype.itemsize
    return spec.trans_b or any([size >= least and spec.m >= rows for least, rows in FAR])


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
    cycles = spec.m * spec.n * spec.k / (VECTOR_BYTES / spec.dtype.itemsize)
    if is_vector(spec):
        return Pieces(spec.m, spec.n, 1, 1, spec.batch, cycles)
    tiles = tiles or _tiles(spec.dtype)
    most = max(1, CELLS // max(spec.batch, 1))
    strips = max(1, min(spec.n // (2 * tiles.columns), most, STRIPS))
    columns = max(1, -(-spec.n // (strips * tiles.columns))) * tiles.columns
    strips = -(-spec.n // columns)
    down = max(1, min(spec.m // (2 * tiles.rows[0]), most // max(strips, 1)))
    rows = max(1, -(-spec.m // down))
    down = -(-spec.m // rows)
    cells = down * strips
    return Pieces(rows, columns, down, cells, cells * spec.batch, cycles / max(cells, 1))


CELLS = 64  # at most
STRIPS = 8  # at most


def _glue(symbol: str, spec: Gemm) -> tuple[str, set[str]]:
    """A call of the function for the type of numbers, with the table."""
    words = layout(spec)
    name = _product_name(spec.dtype)
    table = ", ".join([f"i64 {word}" for word in words])
    text = (
        f"@{symbol}_table = internal constant [{len(words)} x i64] [{table}]\n"
        f"define void @{symbol}(ptr %bufs, i64 %lo, i64 %hi) #0 {{\n"
        f"  tail call void @{name}(ptr %bufs, i64 %lo, i64 %hi, ptr @{symbol}_table)\n"
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


def _gemv(symbol: str, spec: Gemm, guarded: bool) -> tuple[str, set[str]]:
    """BLAS calls for a range of a batch."""
    kind = element_type(spec.dtype)
    routine = f"{_PREFIX[kind]}gemv"
    cells, operands, types = [], [], []
    for k, (cell, value) in enumerate(_gemv_arguments(spec)):
        types.append("ptr")
        if cell == "ptr":
            operands.append(f"ptr {value}")
        else:
            operands.append(f"ptr %cell{k}")
            cells += [f"  %cell{k} = alloca {cell}", f"  store {cell} {value}, ptr %cell{k}"]
    declarations = {f"declare void @fgrad_{routine}({', '.join(types)})"}
    first, last = "  br label %entered\nentered:", "  br label %left\nleft:"
    if guarded:
        declarations |= blas_threads.DECLARATIONS
        first, last = blas_threads.ENTER, blas_threads.LEAVE
    moves = "\n".join(
        [
            f"  %{name}_step = mul i64 %i, {step}\n"
            f"  %{name} = getelementptr {kind}, ptr %{name}_base, i64 %{name}_step"
            for name, step in zip("abc", (spec.stride_a, spec.stride_b, spec.stride_c), strict=True)
        ]
    )
    text = _BATCH.format(
        symbol=symbol,
        cells="\n".join(cells),
        moves=moves,
        call=f"  call void @fgrad_{routine}({', '.join(operands)})",
        first=first,
        last=last,
    )
    return text, declarations


def _gemv_arguments(spec: Gemm) -> list[tuple[str, str]]:
    """A product with a vector: y = M x, where M is A (n = 1) or B' (m = 1)."""
    if spec.n == 1:
        matrix, ld, stored_transposed, rows = "%a", spec.lda, spec.trans_a, spec.m
        vector, step = "%b", 1 if spec.trans_b else spec.ldb
        result_step = spec.ldc
    else:
        matrix, ld, stored_transposed, rows = "%b", spec.ldb, not spec.trans_b, spec.n
        vector, step = "%a", spec.lda if spec.trans_a else 1
        result_step = 1
    flag, shape = ("N", (rows, spec.k)) if stored_transposed else ("T", (spec.k, rows))
    kind = element_type(spec.dtype)
    one, zero = [(kind, literal(x, spec.dtype)) for x in (1.0, 0.0)]
    sizes = [("i32", str(shape[0])), ("i32", str(shape[1]))]
    operands = [("ptr", matrix), ("i32", str(ld)), ("ptr", vector), ("i32", str(step))]
    result = [("ptr", "%c"), ("i32", str(result_step))]
    return [("i8", str(ord(flag))), *sizes, one, *operands, zero, *result]


_BATCH = """define void @{symbol}(ptr %bufs, i64 %lo, i64 %hi) #0 {{
entry:
  %a_base = load ptr, ptr %bufs, align 8
  %b_at = getelementptr ptr, ptr %bufs, i64 1
  %b_base = load ptr, ptr %b_at, align 8
  %c_at = getelementptr ptr, ptr %bufs, i64 2
  %c_base = load ptr, ptr %c_at, align 8
{cells}
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
