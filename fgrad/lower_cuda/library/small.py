"""L6. Matrices of up to 32 rows by a warp each: factors and triangular systems in one launch.

    cholesky    column k: l_kk = sqrt(a_kk), l_rk = a_rk / l_kk;  a_rj -= l_rk l_jk for j > k
    factor      column k: the largest element to the diagonal, l_rk = a_rk / a_kk;
                a_rj -= l_rk a_kj for j > k
    triangle    row after row: x_i = x_i / a_ii;  x_r -= a_ri x_i for the rows after it

Lane r has row r; matrices that are changed are in shared memory, several to a block.
"""

from __future__ import annotations

import numpy as np

from fgrad.base.named_tuple import NamedTuple
from fgrad.compile.llvm.text import FunctionText, element_type
from fgrad.lower_cuda.emit.calls import Address
from fgrad.lower_cuda.emit.team_text import Values, shuffle_from, warp_fold
from fgrad.lower_cuda.emit.text import BodyText, Pointer
from fgrad.lower_cuda.library.plan import Planner

MOST = 32  # rows
WARPS = 4  # of a block: so many matrices of 32 x 32 fit into shared memory
INT32 = np.dtype(np.int32)


def is_small(dtype: np.dtype, n: int) -> bool:
    """Whether a matrix is one for these kernels."""
    return dtype.kind == "f" and n <= MOST


class Small(NamedTuple):
    """A stack of n x n matrices."""

    dtype: np.dtype
    n: int
    batch: int


class _Shared:
    """A matrix in shared memory for each warp, and the text that works on it."""

    def __init__(self, spec: Small) -> None:
        self.spec = spec
        self.body = BodyText()
        self.kind = element_type(spec.dtype)
        self.pitch = spec.n + 1
        size = spec.n * self.pitch
        memory = self.body.shared("matrices", self.kind, WARPS * size)
        body = self.body
        self.a = body.at(memory, body.op("mul", "i32", "%y", size), "i32")
        item = body.op("mul", "i64", body.wide("%block"), WARPS)
        self.item = body.op("add", "i64", item, body.wide("%y"))
        self.exists = body.compare("slt", "i64", self.item, spec.batch)

    @property
    def grid(self) -> int:
        """The blocks that all matrices need."""
        return -(-self.spec.batch // WARPS)

    def global_matrix(self, number: int) -> Pointer:
        """The warp's matrix in a buffer."""
        body, n = self.body, self.spec.n
        base = body.pointer(number, self.kind)
        return body.at(base, body.op("mul", "i64", self.item, n * n))

    def take(self, transposed: bool) -> None:
        """Copy the matrix from buffer 0, of which rows become columns if `transposed`."""
        self._move(self.global_matrix(0), transposed, True)

    def give(self, number: int, transposed: bool) -> None:
        """Copy the matrix to a buffer."""
        self._move(self.global_matrix(number), transposed, False)

    def _move(self, far: Pointer, transposed: bool, reads: bool) -> None:
        body, n = self.body, self.spec.n
        with body.when(self.exists), body.count("%x", n * n, 32, "i32") as e:
            row, column = body.op("udiv", "i32", e, n), body.op("urem", "i32", e, n)
            near = self.at(column, row) if transposed else self.at(row, column)
            if reads:
                body.store(body.load(far, e, "i32"), near)
            else:
                body.store(body.load(near), far, e, "i32")

    def at(self, row: str, column: str) -> Pointer:
        """The address of an element in shared memory."""
        body = self.body
        place = body.op("add", "i32", body.op("mul", "i32", row, self.pitch), column)
        return body.at(self.a, place, "i32")

    def minus(self, target: Pointer, a: str, b: str) -> None:
        """target -= a b."""
        body, kind = self.body, self.kind
        product = body.op("fmul", kind, a, b)
        body.store(body.op("fsub", kind, body.load(target), product), target)

    def below(self, k: str) -> str:
        """Whether the lane has a row under row k."""
        body = self.body
        inside = body.compare("ult", "i32", "%x", self.spec.n)
        return body.op("and", "i1", inside, body.compare("ugt", "i32", "%x", k))

    def launch(self, plan: Planner, *places: Address) -> None:
        """Add the launch."""
        plan.kernel(self.body.finish(len(places)), self.grid, (32, WARPS), *places)


def cholesky(plan: Planner, spec: Small, a: Address, out: Address, info: Address) -> None:
    """out := l with l l^T = a; info := 1 where a is not positive definite."""
    work = _Shared(spec)
    body, kind = work.body, work.kind
    work.take(transposed=False)
    body.barrier()
    failed = body.variable("i32", 0)
    with body.count(0, spec.n, kind="i32") as k:
        pivot = body.load(work.at(k, k))
        bad = body.emit(f"fcmp ule {kind} {pivot}, 0.0")
        body.put(failed, body.select(bad, "i32", 1, body.get(failed)))
        root = _sqrt(body, spec.dtype, pivot)
        body.barrier()
        with body.when(body.compare("eq", "i32", "%x", k)):
            body.store(root, work.at(k, k))
        with body.when(work.below(k)):
            own = work.at("%x", k)
            body.store(body.op("fdiv", kind, body.load(own), root), own)
        body.barrier()
        with body.when(work.below(k)):
            mine = body.load(work.at("%x", k))
            after, end = body.op("add", "i32", k, 1), body.op("add", "i32", "%x", 1)
            with body.count(after, end, kind="i32") as j:
                work.minus(work.at("%x", j), mine, body.load(work.at(j, k)))
        body.barrier()
    has_row = body.compare("ult", "i32", "%x", spec.n)
    right = body.op("add", "i32", "%x", 1)
    with body.when(has_row), body.count(right, spec.n, kind="i32") as j:
        body.store("0.0", work.at("%x", j))
    body.barrier()
    work.give(1, transposed=False)
    first = body.compare("eq", "i32", "%x", 0)
    with body.when(body.op("and", "i1", work.exists, first)):
        body.store(body.get(failed), body.pointer(2, "i32"), work.item)
    work.launch(plan, a, out, info)


def _sqrt(body: BodyText, dtype: np.dtype, value: str) -> str:
    kind, name = element_type(dtype), f"llvm.sqrt.f{8 * dtype.itemsize}"
    body.declare(f"declare {kind} @{name}({kind})")
    return body.emit(f"call {kind} @{name}({kind} {value})")


def factor(plan: Planner, spec: Small, a: Address, packed: Address, pivots: Address) -> None:
    """Packed factors of a^T with its columns in memory, exchanges from 0."""
    work = _Shared(spec)
    body, kind = work.body, work.kind
    work.take(transposed=True)
    body.barrier()
    exchanges = body.pointer(2, "i32")
    with body.count(0, spec.n, kind="i32") as k:
        largest = _largest(work, k)
        body.barrier()
        first = body.compare("eq", "i32", "%x", 0)
        with body.when(body.op("and", "i1", work.exists, first)):
            at = body.op("mul", "i64", work.item, spec.n)
            body.store(largest, exchanges, body.op("add", "i64", at, body.wide(k)))
        with body.when(body.compare("ult", "i32", "%x", spec.n)):
            here, there = work.at(k, "%x"), work.at(largest, "%x")
            upper, lower = body.load(here), body.load(there)
            body.store(lower, here)
            body.store(upper, there)
        body.barrier()
        pivot = body.load(work.at(k, k))
        divides = body.emit(f"fcmp une {kind} {pivot}, 0.0")
        with body.when(body.op("and", "i1", work.below(k), divides)):
            own = work.at("%x", k)
            scale = body.op("fdiv", kind, body.load(own), pivot)
            body.store(scale, own)
            with body.count(body.op("add", "i32", k, 1), spec.n, kind="i32") as j:
                work.minus(work.at("%x", j), scale, body.load(work.at(k, j)))
        body.barrier()
    work.give(1, transposed=True)
    work.launch(plan, a, packed, pivots)


def _largest(work: _Shared, k: str) -> str:
    """The row from k on with the largest element of column k, the first of equal ones."""
    body, kind = work.body, work.kind
    name = f"llvm.fabs.f{8 * work.spec.dtype.itemsize}"
    body.declare(f"declare {kind} @{name}({kind})")
    size = body.variable(kind, "-1.0")
    inside = body.compare("ult", "i32", "%x", work.spec.n)
    with body.when(body.op("and", "i1", inside, body.compare("uge", "i32", "%x", k))):
        value = body.load(work.at("%x", k))
        body.put(size, body.emit(f"call {kind} @{name}({kind} {value})"))

    def larger(text: FunctionText, a: Values, b: Values) -> Values:
        wins = text.emit(f"fcmp ogt {kind} {b[0]}, {a[0]}")
        same = text.emit(f"fcmp oeq {kind} {b[0]}, {a[0]}")
        earlier = text.emit(f"icmp ult i32 {b[1]}, {a[1]}")
        takes = text.emit(f"or i1 {wins}, {text.emit(f'and i1 {same}, {earlier}')}")
        return (
            text.emit(f"select i1 {takes}, {kind} {b[0]}, {kind} {a[0]}"),
            text.emit(f"select i1 {takes}, i32 {b[1]}, i32 {a[1]}"),
        )

    found = warp_fold(body, larger, (body.get(size), "%x"), (work.spec.dtype, INT32))
    # NaN compares with nothing, so lanes may disagree: the first one decides.
    row = shuffle_from(body, found[1], INT32, "0")
    fits = body.compare("ult", "i32", row, work.spec.n)
    fits = body.op("and", "i1", fits, body.compare("uge", "i32", row, k))
    return body.select(fits, "i32", row, k)


class Triangle(NamedTuple):
    """How a triangular system is solved: op(a) x = b."""

    lower: bool
    trans: bool
    unit: bool


def solve_triangle(
    plan: Planner, spec: Small, columns: int, how: Triangle, a: Address, x: Address
) -> None:
    """x := op(a)^-1 x, a warp for each column of each x."""
    body, kind, n = BodyText(), element_type(spec.dtype), spec.n
    item = body.op("mul", "i64", body.wide("%block"), WARPS)
    item = body.op("add", "i64", item, body.wide("%y"))
    items = spec.batch * columns
    with body.when(body.compare("slt", "i64", item, items)):
        b = body.op("udiv", "i64", item, columns)
        column = body.op("urem", "i64", item, columns)
        matrix = body.at(body.pointer(0, kind), body.op("mul", "i64", b, n * n))
        own = body.op("add", "i64", body.op("mul", "i64", b, n), body.wide("%x"))
        own = body.op("add", "i64", body.op("mul", "i64", own, columns), column)
        target = body.at(body.pointer(1, kind), own)
        inside = body.compare("ult", "i32", "%x", n)
        value = body.variable(kind, "0.0")
        with body.when(inside):
            body.put(value, body.load(target))
        forward = how.lower != how.trans
        with body.count(0, n, kind="i32") as step:
            i = step if forward else body.op("sub", "i32", n - 1, step)
            if not how.unit:
                pivot = body.load(matrix, body.op("mul", "i32", i, n + 1), "i32")
                with body.when(body.compare("eq", "i32", "%x", i)):
                    body.put(value, body.op("fdiv", kind, body.get(value), pivot))
            known = shuffle_from(body, body.get(value), spec.dtype, i)
            later = body.compare("ugt" if forward else "ult", "i32", "%x", i)
            with body.when(body.op("and", "i1", inside, later)):
                row, other = (i, "%x") if how.trans else ("%x", i)
                at = body.op("add", "i32", body.op("mul", "i32", row, n), other)
                product = body.op("fmul", kind, body.load(matrix, at, "i32"), known)
                body.put(value, body.op("fsub", kind, body.get(value), product))
        with body.when(inside):
            body.store(body.get(value), target)
    plan.kernel(body.finish(2), -(-items // WARPS), (32, WARPS), a, x)
