"""L6. Products of matrices by a kernel of our own, where cuBLASLt is not installed.

    C[b] = op(A[b]) op(B[b])     a block has a tile of 64 x 64, each of its threads 4 x 4 of it;
                                 8 columns of A and rows of B at a time are in shared memory

Sums are made in the order of k, by fused multiply-adds; numbers of 16 bits are added up in float32.
"""

from __future__ import annotations

from fgrad.base.named_tuple import NamedTuple
from fgrad.compile.llvm.text import element_type
from fgrad.lower_cuda.emit.calls import Address, KernelCall
from fgrad.lower_cuda.emit.machine import THREADS
from fgrad.lower_cuda.emit.text import BodyText, Pointer
from fgrad.lower_cuda.library.plan import Planner
from fgrad.lower_cuda.library.products import (
    Product,
    act,
    axes_of,
    matrices,
    memory_type,
    moved,
    narrowed,
    register_dtype,
    widened,
)

TILE = 64  # rows and columns of C in a block
DEPTH = 8  # of the tiles of A and B
OWN = 4  # rows and columns of C in a thread
PITCH = TILE + 4  # elements from row to row in shared memory: fewer conflicts, and aligned


class _Operand(NamedTuple):
    """A matrix of `lines` x k elements, whose element is at `line * step + k * along`."""

    lines: int
    step: int
    along: int


def gemm_kernels(product: Product) -> tuple[KernelCall, ...]:
    """The launches of a plain product; buffers: A, B, C."""
    if axes_of(product) is None:
        parts = [product._replace(starts=(start,)) for start in product.starts]
        return tuple([launch for part in parts for launch in gemm_kernels(part)])
    spec = product.gemm
    blocks = matrices(product) * -(-spec.m // TILE) * -(-spec.n // TILE)
    places = tuple([Address(k) for k in range(3)])
    return (KernelCall(_Product(product).text(), blocks, (THREADS, 1), places),)


def epilogue_kernel(product: Product, buffers: int) -> KernelCall:
    """The launch that does to C what follows the sums of a product."""
    spec, name = product.gemm, product.result
    dtype = register_dtype(name)
    assert spec.ldc == spec.n
    places = (Address(2), *([product.bias] if product.bias else []))

    def write(body: BodyText, e: str) -> None:
        c = body.pointer(0, memory_type(name))
        value = widened(body, body.load(c, e), name)
        if product.bias is not None:
            row = body.pointer(1, memory_type(name))
            bias = widened(body, body.load(row, body.op("urem", "i64", e, spec.n)), name)
            value = body.op("fadd", element_type(dtype), value, bias)
        if product.epilogue:
            value = act(body, value, product.epilogue, dtype)
        body.store(narrowed(body, value, name, dtype), c, e)

    plan = Planner(buffers)
    plan.each(matrices(product) * spec.m * spec.n, write, *places)
    (launch,) = plan.finish().calls
    assert isinstance(launch, KernelCall)
    return launch


class _Product:
    """Writes the body."""

    def __init__(self, product: Product) -> None:
        self.product, self.spec = product, product.gemm
        self.body = body = BodyText()
        self.memory = memory_type(product.operand)
        self.wide = register_dtype(product.operand)
        self.kind = element_type(self.wide)
        self.tiles = [body.shared(name, self.kind, DEPTH * PITCH) for name in ("a_tile", "b_tile")]

    def text(self) -> str:
        """The whole body."""
        body, spec = self.body, self.spec
        across = -(-spec.n // TILE)
        tiles = across * -(-spec.m // TILE)
        block = body.wide("%block")
        number, tile = body.op("udiv", "i64", block, tiles), body.op("urem", "i64", block, tiles)
        row = body.op("mul", "i64", body.op("udiv", "i64", tile, across), TILE)
        column = body.op("mul", "i64", body.op("urem", "i64", tile, across), TILE)
        a = _Operand(spec.m, *((1, spec.lda) if spec.trans_a else (spec.lda, 1)))
        b = _Operand(spec.n, *((spec.ldb, 1) if spec.trans_b else (1, spec.ldb)))
        a_at, b_at, c_at = (self._matrix(which, number) for which in range(3))
        zero = "0" if self.wide.kind != "f" else "0.0"
        sums = [body.variable(self.kind, zero) for _ in range(OWN * OWN)]
        down, along = body.op("udiv", "i32", "%x", TILE // OWN), body.op("urem", "i32", "%x", 16)
        with body.count(0, spec.k, DEPTH) as k:
            self._fill(self.tiles[0], a_at, a, row, k)
            self._fill(self.tiles[1], b_at, b, column, k)
            body.barrier()
            with body.count(0, DEPTH, kind="i32") as step:
                self._add(sums, step, down, along)
            body.barrier()
        self._write(sums, c_at, row, column, down, along)
        return body.finish(3)

    def _matrix(self, which: int, number: str) -> Pointer:
        """A, B or C of a number."""
        body, axes = self.body, axes_of(self.product)
        assert axes is not None
        at = moved(body, number, axes, which, self.product.starts[0][which])
        kind = memory_type(self.product.result) if which == 2 else self.memory
        return body.view(body.at(body.pointer(which, "i8"), at), kind)

    def _fill(self, tile: Pointer, base: Pointer, x: _Operand, line: str, k: str) -> None:
        """tile[step, line] := x[line, k + step], 0 outside; neighbours in memory by neighbours."""
        body = self.body
        for part in range(TILE * DEPTH // THREADS):
            e = body.op("add", "i32", "%x", part * THREADS)
            if x.along == 1:
                lines, steps = body.op("udiv", "i32", e, DEPTH), body.op("urem", "i32", e, DEPTH)
            else:
                lines, steps = body.op("urem", "i32", e, TILE), body.op("udiv", "i32", e, TILE)
            i = body.op("add", "i64", line, body.wide(lines))
            j = body.op("add", "i64", k, body.wide(steps))
            value = body.variable(self.kind, "0" if self.wide.kind != "f" else "0.0")
            inside = body.compare("slt", "i64", i, x.lines)
            inside = body.op("and", "i1", inside, body.compare("slt", "i64", j, self.spec.k))
            with body.when(inside):
                at = body.op("mul", "i64", i, x.step)
                at = body.op("add", "i64", at, body.op("mul", "i64", j, x.along))
                body.put(value, widened(body, body.load(base, at), self.product.operand))
            at = body.op("add", "i32", body.op("mul", "i32", steps, PITCH), lines)
            body.store(body.get(value), tile, at, "i32")

    def _add(self, sums: list[str], step: str, down: str, along: str) -> None:
        """The products of a column of A and a row of B."""
        body = self.body
        start = body.op("mul", "i32", step, PITCH)
        columns = []
        for tile, number in zip(self.tiles, (down, along), strict=True):
            first = body.op("add", "i32", start, body.op("mul", "i32", number, OWN))
            own = body.at(tile, first, "i32")
            columns.append([body.load(own, k, "i32") for k in range(OWN)])
        left, right = columns
        for i, a in enumerate(left):
            for j, b in enumerate(right):
                cell = sums[i * OWN + j]
                body.put(cell, self._muladd(a, b, body.get(cell)))

    def _muladd(self, a: str, b: str, c: str) -> str:
        body, kind = self.body, self.kind
        if self.wide.kind != "f":
            return body.op("add", kind, body.op("mul", kind, a, b), c)
        name = f"llvm.fma.f{8 * self.wide.itemsize}"
        body.declare(f"declare {kind} @{name}({kind}, {kind}, {kind})")
        return body.emit(f"call {kind} @{name}({kind} {a}, {kind} {b}, {kind} {c})")

    def _write(
        self, sums: list[str], c: Pointer, row: str, column: str, down: str, along: str
    ) -> None:
        """The thread's elements of C."""
        body, spec = self.body, self.spec
        first = body.op("add", "i64", row, body.wide(body.op("mul", "i32", down, OWN)))
        left = body.op("add", "i64", column, body.wide(body.op("mul", "i32", along, OWN)))
        for i in range(OWN):
            at_row = body.op("add", "i64", first, i)
            for j in range(OWN):
                at_column = body.op("add", "i64", left, j)
                inside = body.compare("slt", "i64", at_row, spec.m)
                inside = body.op("and", "i1", inside, body.compare("slt", "i64", at_column, spec.n))
                with body.when(inside):
                    at = body.op("mul", "i64", at_row, spec.ldc)
                    at = body.op("add", "i64", at, at_column)
                    value = body.get(sums[i * OWN + j])
                    body.store(narrowed(body, value, self.product.result, self.wide), c, at)
