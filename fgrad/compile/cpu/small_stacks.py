"""L5. Stacks of small matrices: a matrix in each lane of vectors, which take each step together.

    cholesky    l[i, j] = (a[i, j] - sum_k<j l[i, k] conj(l[j, k])) / l[j, j], four rows at a time
    factor      a^T = p l u: each lane exchanges rows of its own, by gathers and scatters
    lu_solve, triangular_solve
                x[i] = (b[i] - sum_j t[i, j] x[j]) / t[i, i], four rows and columns at a time

A library takes one matrix after the other, whose vectors are short and whose calls cost more than
the arithmetic.  Where a stack is small, or its matrices are not, the steps are those of
`lapack.py`, with the same buffers.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from fgrad.base.named_tuple import NamedTuple
from fgrad.compile.cpu import lapack
from fgrad.compile.cpu.lapack import Native
from fgrad.compile.cpu.stack_block import ROWS, Block, Number, built, lanes_of
from fgrad.compile.tasks.routines import MESSAGES, SINGULAR

LARGEST = 32  # rows of a matrix; LAPACK is as fast for larger ones


def in_lanes(dtype: np.dtype, n: int, batch: int) -> bool:
    """Whether a stack of matrices is taken a vector at a time."""
    return dtype.char in "fdFD" and 1 < n <= LARGEST and batch >= lanes_of(dtype)


def suits(dtype: np.dtype, n: int, k: int, batch: int) -> bool:
    """Whether systems with k right-hand sides are."""
    return in_lanes(dtype, n, batch) and k <= LARGEST


def cholesky(dtype: np.dtype, n: int, batch: int) -> Native:
    """l with l l^H = a, of which the lower triangle is read.  Buffers: a, l; range: [0, batch)."""
    if not in_lanes(dtype, n, batch):
        return lapack.cholesky(dtype, n, batch)

    def act(code: Block, work: list[str]) -> None:
        (w,) = work
        code.pull(w, 0, n * n)
        with code.count(0, n) as j:
            _column(code, w, n, j)
        with code.count(0, n) as i, code.count(code.op("add nsw", "i64", i, 1), n) as j:
            code.put_element(w, code.place(i, n, j), code.of_real("zeroinitializer"))
        code.push(w, 1, n * n)

    return built("cholesky", n, dtype, [n * n], 2, MESSAGES["cholesky"], act)


def _column(code: Block, w: str, n: int, j: str) -> None:
    """Column j of a factor, of those before it."""
    with code.count(j, n, ROWS) as i:
        starts = [code.op("mul nsw", "i64", r, n) for r in code.some(i, n)]
        places = [code.op("add nsw", "i64", s, j) for s in starts]

        def terms(k: str) -> tuple[Number, list[Number]]:
            rows = [code.op("add nsw", "i64", s, k) for s in starts]
            one = code.conjugate(code.element(w, code.place(j, n, k)))
            return one, [code.element(w, r) for r in rows]

        sums = code.without([code.element(w, place) for place in places], (0, j), terms)
        for place, total in zip(places, sums, strict=True):
            code.put_element(w, place, total)
    diagonal = code.place(j, n, j)
    square = code.element(w, diagonal)[0]
    code.fails_where(code.test("ole", square, "zeroinitializer"))
    root = code.of_real(code.real("sqrt", square))
    code.put_element(w, diagonal, root)
    divided = code.real_divisor(root[0])
    with code.count(code.op("add nsw", "i64", j, 1), n) as i:
        place = code.place(i, n, j)
        code.put_element(w, place, divided(code.element(w, place)))


def factor(dtype: np.dtype, n: int, batch: int, lanes: bool = False) -> Native:
    """Packed factors of a^T, exchanges from 0; `lanes`: they stay in lanes (`lane_factors.py`).
    Buffers: a, packed, pivots; range: [0, batch)."""
    if not in_lanes(dtype, n, batch):
        return lapack.factor(dtype, n, batch)

    def act(code: Block, work: list[str]) -> None:
        w, pivots = (code.lying(1, n * n), code.lying_integers(2, n)) if lanes else work
        code.pull(w, 0, n * n)
        with code.count(0, n) as k:
            _eliminate(code, w, pivots, n, k)
        if not lanes:
            code.push(w, 1, n * n)
            code.push_integers(pivots, 2, n)

    return built("factor", (n, lanes), dtype, [] if lanes else [n * n, n], 3, SINGULAR, act)


def _eliminate(code: Block, w: str, pivots: str, n: int, k: str) -> None:
    """Step k of the elimination; element (i, j) of a^T is number j n + i."""
    after = code.op("add nsw", "i64", k, 1)
    start = code.op("mul nsw", "i64", k, n)
    diagonal = code.op("add nsw", "i64", start, k)
    row = _largest(code, w, start, diagonal, (k, after, n))
    code.put_integer(pivots, k, row)
    with code.when(code.somewhere_other(row, k)), code.count(0, n) as j:
        first = code.op("mul nsw", "i64", j, n)
        code.exchange(w, code.op("add nsw", "i64", first, k), row, 1, first)
    pivot = code.element(w, diagonal)
    one = code.of_real(code.same(1.0))
    divided = code.divisor(code.choose(code.is_zero(pivot), one, pivot))
    with code.count(after, n) as i:
        place = code.op("add nsw", "i64", start, i)
        code.put_element(w, place, divided(code.element(w, place)))
    with code.count(after, n, ROWS) as j:
        firsts = [code.op("mul nsw", "i64", column, n) for column in code.some(j, n)]
        us = [code.element(w, code.op("add nsw", "i64", first, k)) for first in firsts]
        with code.count(after, n) as i:
            factor_i = code.element(w, code.op("add nsw", "i64", start, i))
            places = [code.op("add nsw", "i64", first, i) for first in firsts]
            left = [
                code.less(code.element(w, place), factor_i, u)
                for place, u in zip(places, us, strict=True)
            ]
            for place, x in zip(places, left, strict=True):
                code.put_element(w, place, x)


def _largest(code: Block, w: str, start: str, diagonal: str, rows: tuple[str, str, int]) -> str:
    """The row with the largest element of a column, from its diagonal on."""
    k, after, n = rows
    numbers = code.vector("i32")
    best = code.variable(code.kind, code.length(code.element(w, diagonal)))
    row = code.variable(numbers, code.whole(k))
    with code.count(after, n) as i:
        size = code.length(code.element(w, code.op("add nsw", "i64", start, i)))
        larger = code.test("ogt", size, code.get(best))
        mine = code.whole(i)
        code.put(best, code.chosen(larger, size, code.get(best)))
        code.put(row, code.select(larger, numbers, mine, code.get(row), code.mask))
    return code.get(row)


def triangular_solve(
    dtype: np.dtype, n: int, k: int, batch: int, lower: bool, trans: bool, unit: bool
) -> Native:
    """x with op(a) x = b.  Buffers: a, b, x; range: [0, batch)."""
    if not suits(dtype, n, k, batch):
        return lapack.triangular_solve(dtype, n, k, batch, lower, trans, unit)

    def act(code: Block, work: list[str]) -> None:
        a, x = work
        code.pull(a, 0, n * n)
        code.pull(x, 1, n * k)
        if not unit:
            _check_diagonal(code, a, n)
        _substitute(code, a, x, n, k, lower, trans, unit)
        code.push(x, 2, n * k)

    spec = (n, k, lower, trans, unit)
    return built("triangular_solve", spec, dtype, [n * n, n * k], 3, SINGULAR, act)


def lu_solve(
    dtype: np.dtype, n: int, k: int, batch: int, trans: bool, lanes: bool = False
) -> Native:
    """x with op(a) x = b, by the factors of a^T, which may lie in lanes.
    Buffers: packed, pivots, b, x; range: [0, batch).

    a = u^T l^T p^T:  x = p l^-T u^-T b;   a^T = p l u:  x = u^-1 l^-1 p^T b
    """
    if not suits(dtype, n, k, batch):
        return lapack.lu_solve(dtype, n, k, batch, trans)

    def act(code: Block, work: list[str]) -> None:
        x = work[0]
        if lanes:
            a, pivots = code.lying(0, n * n), code.lying_integers(1, n)
        else:
            a, pivots = work[1:]
            code.pull(a, 0, n * n)
            code.pull_integers(pivots, 1, n)
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

    spec, sizes = (n, k, trans, lanes), [n * k, *([] if lanes else [n * n, n])]
    return built("lu_solve", spec, dtype, sizes, 4, SINGULAR, act)


def _check_diagonal(code: Block, a: str, n: int) -> None:
    """Fail where a diagonal element is 0."""
    with code.count(0, n) as i:
        pivot = code.element(a, code.op("mul nsw", "i64", i, n + 1))
        code.fails_where(code.is_zero(pivot))


def _exchange_rows(code: Block, x: str, pivots: str, n: int, k: int, down: bool) -> None:
    """Exchange row i with row pivots[i], for all i in ascending or descending order."""
    with code.count(0, n) as at:
        i = code.op("sub nsw", "i64", n - 1, at) if down else at
        row = code.integer(pivots, i)
        with code.when(code.somewhere_other(row, i)), code.count(0, k) as c:
            code.exchange(x, code.place(i, k, c), row, k, c)


def _substitute(
    code: Block, a: str, x: str, n: int, k: int, lower: bool, trans: bool, unit: bool
) -> None:
    """x := op(t)^-1 x for a triangle t of a: a block of rows after the other, some columns at a
    time, so that what is read serves several products and sums need not wait."""
    step = _Triangle(code, a, x, n, k, lower, trans, unit)
    high, wide = (8 // code.parts, 1) if k == 1 else (4, 4 // code.parts)
    whole = n - n % high
    with code.count(0, whole, high) as at:
        step.rows(at, high, wide)
    if n > whole:
        step.rows(str(whole), n - whole, wide)


class _Triangle(NamedTuple):
    """The rows of a triangular system; row `at` is the one that is solved after `at` others."""

    code: Block
    a: str
    x: str
    n: int
    k: int
    lower: bool
    trans: bool
    unit: bool

    def row(self, at: str) -> str:
        """The number of a row."""
        forward = self.lower is not self.trans
        return at if forward else self.code.op("sub nsw", "i64", self.n - 1, at)

    def coefficient(self, i: str, j: str) -> Number:
        """Element (i, j) of op(t)."""
        place = self.code.place(j, self.n, i) if self.trans else self.code.place(i, self.n, j)
        return self.code.element(self.a, place)

    def rows(self, at: str, high: int, wide: int) -> None:
        """Solve some rows."""
        code = self.code
        rows = [self.row(code.op("add nsw", "i64", at, q)) for q in range(high)]
        ends: list[Callable[[Number], Number]] = [
            (lambda total: total) if self.unit else code.divisor(self.coefficient(i, i))
            for i in rows
        ]
        whole = self.k - self.k % wide
        with code.count(0, whole, wide) as c:
            self.tile(at, rows, ends, [code.op("add nsw", "i64", c, p) for p in range(wide)])
        if self.k > whole:
            self.tile(at, rows, ends, [str(c) for c in range(whole, self.k)])

    def tile(
        self, at: str, rows: list[str], ends: list[Callable[[Number], Number]], columns: list[str]
    ) -> None:
        """Solve some rows of some columns.

        x[i] = (x[i] - sum_j before the rows t[i, j] x[j] - sum_j among them t[i, j] x[j]) / t[i, i]
        """
        code, x, k = self.code, self.x, self.k
        sums = [
            [code.variables(code.element(x, code.place(i, k, c))) for c in columns] for i in rows
        ]
        with code.count(0, at) as before:
            j = self.row(before)
            known = [code.element(x, code.place(j, k, c)) for c in columns]
            for i, totals in zip(rows, sums, strict=True):
                t = self.coefficient(i, j)
                for total, one in zip(totals, known, strict=True):
                    code.put_number(total, code.less(code.get_number(total), t, one))
        solved: list[list[Number]] = []
        for i, totals, divided in zip(rows, sums, ends, strict=True):
            left = [code.get_number(total) for total in totals]
            for j, known in zip(rows, solved, strict=False):
                t = self.coefficient(i, j)
                left = [code.less(one, t, other) for one, other in zip(left, known, strict=True)]
            solved.append([divided(one) for one in left])
            for c, one in zip(columns, solved[-1], strict=True):
                code.put_element(x, code.place(i, k, c), one)
