"""L5. Stacks of small matrices: a matrix in each lane of vectors, which take each step together.

    pulled      element e of the matrices of a block    ->  lanes of vector e of the work memory
    cholesky    l[i, j] = (a[i, j] - sum_k<j l[i, k] l[j, k]) / l[j, j], four rows at a time
    factor      a^T = p l u: each lane exchanges rows of its own, by gathers and scatters
    lu_solve, triangular_solve
                x[i] = (b[i] - sum_j t[i, j] x[j]) / t[i, i], four columns at a time

A library takes one matrix after the other, whose vectors are short and whose calls cost more than
the arithmetic.  Where a stack is small, or its matrices are not, the steps are those of
`lapack.py`, with the same buffers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from fgrad.compile.cpu import lapack
from fgrad.compile.cpu.lapack import Native, failure
from fgrad.compile.kernel.machine import VECTOR_BYTES
from fgrad.compile.llvm.runtime import Source, build_counted
from fgrad.compile.llvm.structured import Routine
from fgrad.compile.llvm.text import constant, element_type
from fgrad.compile.tasks.routines import MESSAGES, SINGULAR

LARGEST = 32  # rows of a matrix; LAPACK is as fast for larger ones
SPEED_UP = 4  # of LAPACK's time
ROWS = 4  # of a triangle, or columns of a solution, that are computed together
# Divisors below the first number are multiplied by the second, by dtype.
DIVISORS = {"d": (2.0**-900, 2.0**200), "f": (2.0**-100, 2.0**60)}
INT32 = np.dtype(np.int32)


def in_lanes(dtype: np.dtype, n: int, batch: int) -> bool:
    """Whether a stack of matrices is taken a vector at a time."""
    return dtype.char in "fd" and 1 < n <= LARGEST and batch >= VECTOR_BYTES // dtype.itemsize


class _Block(Routine):
    """The text for one block of matrices, one in each lane; a lane behind the last matrix holds
    that one again."""

    def __init__(self, dtype: np.dtype) -> None:
        super().__init__()
        self.dtype = dtype
        self.lanes, self.size = VECTOR_BYTES // dtype.itemsize, dtype.itemsize
        self.part = element_type(dtype)
        self.kind = self.vector(self.part)
        self.suffix = f"v{self.lanes}f{8 * self.size}"
        self.mask = f"<{self.lanes} x i1>"
        self.numbers: list[str] = []  # of the matrices in the lanes
        self.bad = self.variable(self.vector("i32"), "zeroinitializer")

    def vector(self, part: str) -> str:
        """The type of one number of each lane."""
        return f"<{self.lanes} x {part}>"

    # The matrices.

    def begin(self, first: str) -> None:
        """The numbers of the matrices of a block."""
        last = self.op("sub nsw", "i64", "%hi", 1)
        for k in range(self.lanes):
            own = self.op("add nsw", "i64", first, k)
            self.numbers.append(
                self.select(self.compare("slt", "i64", own, last), "i64", own, last)
            )
        self.put(self.bad, "zeroinitializer")

    def rows_of(self, number: int, size: int, part: str) -> list[str]:
        """Where the matrix of each lane begins in a buffer."""
        base = self.buffer(number)
        return [self.at(base, self.op("mul nsw", "i64", m, size), part) for m in self.numbers]

    def pull(self, work: str, number: int, size: int, part: str = "", bytes_: int = 0) -> None:
        """Read the elements of all matrices."""
        part, bytes_ = part or self.part, bytes_ or self.size
        kind, rows = self.vector(part), self.rows_of(number, size, part)
        whole = size - size % self.lanes
        with self.count(0, whole, self.lanes) as e:
            found = [self.load(kind, row, e, bytes_, part) for row in rows]
            for k, value in enumerate(self.transposed(found, kind)):
                self.put_element(work, self.op("add nsw", "i64", e, k), value, kind)
        for e in range(whole, size):
            value = "poison"
            for k, row in enumerate(rows):
                one = self.load(part, row, e, bytes_)
                value = self.emit(f"insertelement {kind} {value}, {part} {one}, i64 {k}")
            self.put_element(work, e, value, kind)

    def push(self, work: str, number: int, size: int, part: str = "", bytes_: int = 0) -> None:
        """Write the elements of all matrices."""
        part, bytes_ = part or self.part, bytes_ or self.size
        kind, rows = self.vector(part), self.rows_of(number, size, part)
        whole = size - size % self.lanes
        with self.count(0, whole, self.lanes) as e:
            places = [self.op("add nsw", "i64", e, k) for k in range(self.lanes)]
            found = [self.element(work, place, kind) for place in places]
            for row, value in zip(rows, self.transposed(found, kind), strict=True):
                self.store(kind, value, row, e, bytes_, part)
        for e in range(whole, size):
            value = self.element(work, e, kind)
            for k, row in enumerate(rows):
                one = self.emit(f"extractelement {kind} {value}, i64 {k}")
                self.store(part, one, row, e, bytes_)

    def transposed(self, rows: Sequence[str], kind: str) -> list[str]:
        """The columns of a square of vectors: blocks change places, of half its side and less."""
        rows, step = list(rows), self.lanes // 2
        while step:
            for k in [k for k in range(self.lanes) if not k & step]:
                a, b = rows[k], rows[k + step]
                low = [j + (self.lanes - step if j & step else 0) for j in range(self.lanes)]
                high = [j + (self.lanes if j & step else step) for j in range(self.lanes)]
                rows[k], rows[k + step] = (
                    self.shuffled(a, b, low, kind),
                    self.shuffled(a, b, high, kind),
                )
            step //= 2
        return rows

    def shuffled(self, a: str, b: str, lanes: Sequence[int], kind: str) -> str:
        """The chosen lanes of two vectors."""
        chosen = ", ".join([f"i32 {k}" for k in lanes])
        return self.emit(f"shufflevector {kind} {a}, {kind} {b}, <{self.lanes} x i32> <{chosen}>")

    def note(self, number: int) -> None:
        """Write the flag of each matrix."""
        base, bad = self.buffer(number), self.get(self.bad)
        kind = self.vector("i32")
        for k, matrix in enumerate(self.numbers):
            one = self.emit(f"extractelement {kind} {bad}, i64 {k}")
            self.store("i8", self.emit(f"trunc i32 {one} to i8"), base, matrix, 1)

    # Elements, arithmetic.

    def element(self, work: str, place: str | int, kind: str = "") -> str:
        """One element of all matrices."""
        kind = kind or self.kind
        return self.load(kind, work, place, 4 if "i32" in kind else VECTOR_BYTES)

    def put_element(self, work: str, place: str | int, value: str, kind: str = "") -> None:
        """Write one element of all matrices."""
        kind = kind or self.kind
        self.store(kind, value, work, place, 4 if "i32" in kind else VECTOR_BYTES)

    def place(self, i: str | int, width: int, j: str | int) -> str:
        """i * width + j."""
        return self.op("add nsw", "i64", self.op("mul nsw", "i64", i, width), j)

    def real(self, name: str, *args: str) -> str:
        """A function of real numbers of all lanes."""
        return self.call(self.kind, f"llvm.{name}.{self.suffix}", *[(self.kind, a) for a in args])

    def less(self, c: str, a: str, b: str) -> str:
        """c - a b."""
        return self.real("fma", self.emit(f"fneg {self.kind} {a}"), b, c)

    def same(self, number: float) -> str:
        """A number in all lanes."""
        return constant(number, self.dtype, self.lanes)

    def divisor(self, d: str) -> Callable[[str], str]:
        """x -> x / d, as (x (1 / (d s))) s: a power of two s keeps 1 / d from being infinite where
        d is subnormal.  A product takes a sixteenth of the time of a quotient."""
        limit, scale = DIVISORS[self.dtype.char]
        tiny = self.emit(f"fcmp olt {self.kind} {self.real('fabs', d)}, {self.same(limit)}")
        s = self.select(tiny, self.kind, self.same(scale), self.same(1.0), self.mask)
        inverse = self.op("fdiv", self.kind, self.same(1.0), self.op("fmul", self.kind, d, s))
        return lambda x: self.op("fmul", self.kind, self.op("fmul", self.kind, x, inverse), s)

    def some(self, first: str, count: int) -> list[str]:
        """The numbers of some rows or columns that are computed together; the last one stands for
        those behind it."""
        following = [self.op("add nsw", "i64", first, q) for q in range(min(ROWS, count))]
        exists = [self.compare("slt", "i64", r, count) for r in following]
        pairs = zip(exists, following, strict=True)
        return [self.select(e, "i64", r, count - 1) for e, r in pairs]

    def without(
        self, work: str, places: Sequence[str], ends: tuple[str | int, str | int],
        terms: Callable[[str], tuple[str, list[str]]],
    ) -> list[str]:  # fmt: skip
        """What is left of the elements at some places without a sum of products of one number and
        one of their own, which `terms` gives for each index."""
        sums = [self.variable(self.kind, self.element(work, place)) for place in places]
        with self.count(*ends) as k:
            one, own = terms(k)
            for total, x in zip(sums, own, strict=True):
                self.put(total, self.less(self.get(total), one, x))
        return [self.get(total) for total in sums]

    def fails_where(self, condition: str) -> None:
        """Note the lanes of which something is true."""
        kind = self.vector("i32")
        now = self.emit(f"zext {self.mask} {condition} to {kind}")
        self.put(self.bad, self.op("or", kind, self.get(self.bad), now))

    def exchange(self, work: str, here: str, row: str, width: int, column: str | int) -> None:
        """Exchange the element at a place with that of the same column in another row, which is the
        lane's own: lanes of element e begin at e times their number."""
        wide = self.vector("i64")
        index = self.emit(f"sext {self.vector('i32')} {row} to {wide}")
        index = self.op("mul nsw", wide, index, f"splat (i64 {width})")
        index = self.op("add nsw", wide, index, self.splat(str(column), "i64", self.lanes))
        index = self.op("mul nsw", wide, index, f"splat (i64 {self.lanes})")
        own = ", ".join([f"i64 {k}" for k in range(self.lanes)])
        index = self.op("add nsw", wide, index, f"<{own}>")
        there = self.emit(f"getelementptr {self.part}, ptr {work}, {wide} {index}")
        pointers, all_lanes = f"<{self.lanes} x ptr>", "splat (i1 true)"
        mine = self.element(work, here)
        other = self.call(
            self.kind, f"llvm.masked.gather.{self.suffix}.v{self.lanes}p0", (pointers, there),
            ("i32", str(self.size)), (self.mask, all_lanes), (self.kind, "poison"),
        )  # fmt: skip
        self.put_element(work, here, other)
        name = f"llvm.masked.scatter.{self.suffix}.v{self.lanes}p0"
        self.declare(f"declare void @{name}({self.kind}, {pointers}, i32, {self.mask})")
        self.line(
            f"call void @{name}({self.kind} {mine}, {pointers} {there}, i32 {self.size}, "
            f"{self.mask} {all_lanes})"
        )


# --- the steps


def _built(
    name: str, spec: object, dtype: np.dtype, sizes: Sequence[int], flag: int, message: str,
    act: Callable[[_Block, list[str]], None],
) -> Native:  # fmt: skip
    """A loop over the blocks of a range around what is done for one of them.

    Arguments:
        name: of the step; with `spec` it determines the code.
        sizes: numbers in the work memory, for each part of it.
        flag: the buffer of flags.
        message: of the LinAlgError that a failure is.
        act: writes the text for a block, given the work memory.
    """

    def emit(symbol: str) -> tuple[str, set[str]]:
        code = _Block(dtype)
        code.declare("declare ptr @malloc(i64)")
        code.declare("declare void @free(ptr)")
        given = [code.emit(f"call ptr @malloc(i64 {(s + 1) * VECTOR_BYTES})") for s in sizes]
        work = []
        for memory in given:
            address = code.emit(f"ptrtoint ptr {memory} to i64")
            up = code.op("and", "i64", code.op("add", "i64", address, VECTOR_BYTES), -VECTOR_BYTES)
            work.append(code.at(memory, code.op("sub", "i64", up, address), "i8"))
        with code.count("%lo", "%hi", code.lanes) as first:
            code.begin(first)
            act(code, work)
            code.note(flag)
        for memory in given:
            code.line(f"call void @free(ptr {memory})")
        return code.define(symbol)

    content = f"stack {name} {dtype.char} {spec}"
    return Native(build_counted([Source(content, emit)])[0], failure(message))


def cholesky(dtype: np.dtype, n: int, batch: int) -> Native:
    """l with l l^T = a, of which the lower triangle is read.  Buffers: a, l; range: [0, batch)."""
    if not in_lanes(dtype, n, batch):
        return lapack.cholesky(dtype, n, batch)

    def act(code: _Block, work: list[str]) -> None:
        (w,) = work
        code.pull(w, 0, n * n)
        with code.count(0, n) as j:
            _column(code, w, n, j)
        with code.count(0, n) as i, code.count(code.op("add nsw", "i64", i, 1), n) as j:
            code.put_element(w, code.place(i, n, j), "zeroinitializer")
        code.push(w, 1, n * n)

    return _built("cholesky", n, dtype, [n * n], 2, MESSAGES["cholesky"], act)


def _column(code: _Block, w: str, n: int, j: str) -> None:
    """Column j of a factor, of those before it."""
    with code.count(j, n, ROWS) as i:
        starts = [code.op("mul nsw", "i64", r, n) for r in code.some(i, n)]
        places = [code.op("add nsw", "i64", s, j) for s in starts]

        def terms(k: str) -> tuple[str, list[str]]:
            rows = [code.op("add nsw", "i64", s, k) for s in starts]
            return code.element(w, code.place(j, n, k)), [code.element(w, r) for r in rows]

        sums = code.without(w, places, ("0", j), terms)
        for place, total in zip(places, sums, strict=True):
            code.put_element(w, place, total)
    diagonal = code.place(j, n, j)
    square = code.element(w, diagonal)
    code.fails_where(code.emit(f"fcmp ole {code.kind} {square}, zeroinitializer"))
    root = code.real("sqrt", square)
    code.put_element(w, diagonal, root)
    divided = code.divisor(root)
    with code.count(code.op("add nsw", "i64", j, 1), n) as i:
        place = code.place(i, n, j)
        code.put_element(w, place, divided(code.element(w, place)))


def factor(dtype: np.dtype, n: int, batch: int) -> Native:
    """Packed factors of a^T, exchanges from 0.  Buffers: a, packed, pivots; range: [0, batch)."""
    if not in_lanes(dtype, n, batch):
        return lapack.factor(dtype, n, batch)

    def act(code: _Block, work: list[str]) -> None:
        w, pivots = work
        code.pull(w, 0, n * n)
        with code.count(0, n) as k:
            _eliminate(code, w, pivots, n, k)
        code.push(w, 1, n * n)
        code.push(pivots, 2, n, "i32", 4)

    return _built("factor", n, dtype, [n * n, n], 3, SINGULAR, act)


def _eliminate(code: _Block, w: str, pivots: str, n: int, k: str) -> None:
    """Step k of the elimination; element (i, j) of a^T is number j n + i."""
    numbers, after = code.vector("i32"), code.op("add nsw", "i64", k, 1)
    start = code.op("mul nsw", "i64", k, n)
    diagonal = code.op("add nsw", "i64", start, k)
    best = code.variable(code.kind, code.real("fabs", code.element(w, diagonal)))
    row = code.variable(numbers, _number(code, k))
    with code.count(after, n) as i:
        size = code.real("fabs", code.element(w, code.op("add nsw", "i64", start, i)))
        larger = code.emit(f"fcmp ogt {code.kind} {size}, {code.get(best)}")
        mine = _number(code, i)
        code.put(best, code.select(larger, code.kind, size, code.get(best), code.mask))
        code.put(row, code.select(larger, numbers, mine, code.get(row), code.mask))
    code.put_element(pivots, k, code.get(row), numbers)
    with code.count(0, n) as j:
        first = code.op("mul nsw", "i64", j, n)
        code.exchange(w, code.op("add nsw", "i64", first, k), code.get(row), 1, first)
    pivot = code.element(w, diagonal)
    is_zero = code.emit(f"fcmp oeq {code.kind} {pivot}, zeroinitializer")
    divided = code.divisor(code.select(is_zero, code.kind, code.same(1.0), pivot, code.mask))
    with code.count(after, n) as i:
        place = code.op("add nsw", "i64", start, i)
        code.put_element(w, place, divided(code.element(w, place)))
    with code.count(after, n) as j:
        first = code.op("mul nsw", "i64", j, n)
        u = code.element(w, code.op("add nsw", "i64", first, k))
        with code.count(after, n) as i:
            place = code.op("add nsw", "i64", first, i)
            factor_i = code.element(w, code.op("add nsw", "i64", start, i))
            code.put_element(w, place, code.less(code.element(w, place), factor_i, u))


def _number(code: _Block, i: str) -> str:
    """The number of a row in all lanes."""
    return code.splat(code.emit(f"trunc i64 {i} to i32"), "i32", code.lanes)


def triangular_solve(
    dtype: np.dtype, n: int, k: int, batch: int, lower: bool, trans: bool, unit: bool
) -> Native:
    """x with op(a) x = b.  Buffers: a, b, x; range: [0, batch)."""
    if not in_lanes(dtype, n, batch) or k > LARGEST:
        return lapack.triangular_solve(dtype, n, k, batch, lower, trans, unit)

    def act(code: _Block, work: list[str]) -> None:
        a, x = work
        code.pull(a, 0, n * n)
        code.pull(x, 1, n * k)
        if not unit:
            _check_diagonal(code, a, n)
        _substitute(code, a, x, n, k, lower, trans, unit)
        code.push(x, 2, n * k)

    spec = (n, k, lower, trans, unit)
    return _built("triangular_solve", spec, dtype, [n * n, n * k], 3, SINGULAR, act)


def lu_solve(dtype: np.dtype, n: int, k: int, batch: int, trans: bool) -> Native:
    """x with op(a) x = b, by the factors of a^T.  Buffers: packed, pivots, b, x; range: [0, batch).

    a = u^T l^T p^T:  x = p l^-T u^-T b;   a^T = p l u:  x = u^-1 l^-1 p^T b
    """
    if not in_lanes(dtype, n, batch) or k > LARGEST:
        return lapack.lu_solve(dtype, n, k, batch, trans)

    def act(code: _Block, work: list[str]) -> None:
        a, x, pivots = work
        code.pull(a, 0, n * n)
        code.pull(pivots, 1, n, "i32", 4)
        code.pull(x, 2, n * k)
        _check_diagonal(code, a, n)
        # The memory holds l^T above a diagonal of ones, and u^T below: (lower, unit).
        if trans:
            _exchange_rows(code, x, pivots, n, k, down=False)
            _substitute(code, a, x, n, k, False, True, True)
            _substitute(code, a, x, n, k, True, True, False)
        else:
            _substitute(code, a, x, n, k, True, False, False)
            _substitute(code, a, x, n, k, False, False, True)
            _exchange_rows(code, x, pivots, n, k, down=True)
        code.push(x, 3, n * k)

    spec, sizes = (n, k, trans), [n * n, n * k, n]
    return _built("lu_solve", spec, dtype, sizes, 4, SINGULAR, act)


def _check_diagonal(code: _Block, a: str, n: int) -> None:
    """Fail where a diagonal element is 0."""
    with code.count(0, n) as i:
        pivot = code.element(a, code.op("mul nsw", "i64", i, n + 1))
        code.fails_where(code.emit(f"fcmp oeq {code.kind} {pivot}, zeroinitializer"))


def _exchange_rows(code: _Block, x: str, pivots: str, n: int, k: int, down: bool) -> None:
    """Exchange row i with row pivots[i], for all i in ascending or descending order."""
    with code.count(0, n) as at:
        i = code.op("sub nsw", "i64", n - 1, at) if down else at
        row = code.element(pivots, i, code.vector("i32"))
        with code.count(0, k) as c:
            code.exchange(x, code.place(i, k, c), row, k, c)


def _substitute(
    code: _Block, a: str, x: str, n: int, k: int, lower: bool, trans: bool, unit: bool
) -> None:
    """x := op(t)^-1 x for a triangle t of a: row by row, some columns at a time."""
    forward = lower is not trans
    with code.count(0, n) as at:
        i = at if forward else code.op("sub nsw", "i64", n - 1, at)
        before = (0, i) if forward else (code.op("add nsw", "i64", i, 1), n)
        diagonal = code.element(a, code.op("mul nsw", "i64", i, n + 1))
        divided = (lambda total: total) if unit else code.divisor(diagonal)
        with code.count(0, k, ROWS) as c:
            columns = code.some(c, k)
            places = [code.place(i, k, column) for column in columns]

            def terms(j: str) -> tuple[str, list[str]]:
                t = code.element(a, code.place(j, n, i) if trans else code.place(i, n, j))
                return t, [code.element(x, code.place(j, k, column)) for column in columns]

            sums = code.without(x, places, before, terms)
            for place, total in zip(places, sums, strict=True):
                code.put_element(x, place, divided(total))
