"""L5. Stacks of small matrices: a matrix in each lane of vectors, which take each step together.

    cholesky    l[i, j] = (a[i, j] - sum_k<j l[i, k] conj(l[j, k])) / l[j, j], four rows at a time
    factor      a^T = p l u: each lane exchanges rows of its own, by gathers and scatters
    lu_solve, triangular_solve
                x[i] = (b[i] - sum_j t[i, j] x[j]) / t[i, i], four columns at a time

A library takes one matrix after the other, whose vectors are short and whose calls cost more than
the arithmetic.  Where a stack is small, or its matrices are not, the steps are those of
`lapack.py`, with the same buffers.
"""

from __future__ import annotations

import numpy as np

from fgrad.compile.cpu import lapack
from fgrad.compile.cpu.lapack import Native
from fgrad.compile.cpu.stack_block import ROWS, Block, Number, built, lanes_of
from fgrad.compile.tasks.routines import MESSAGES, SINGULAR

LARGEST = 32  # rows of a matrix; LAPACK is as fast for larger ones


def in_lanes(dtype: np.dtype, n: int, batch: int) -> bool:
    """Whether a stack of matrices is taken a vector at a time."""
    return dtype.char in "fdFD" and 1 < n <= LARGEST and batch >= lanes_of(dtype)


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


def factor(dtype: np.dtype, n: int, batch: int) -> Native:
    """Packed factors of a^T, exchanges from 0.  Buffers: a, packed, pivots; range: [0, batch)."""
    if not in_lanes(dtype, n, batch):
        return lapack.factor(dtype, n, batch)

    def act(code: Block, work: list[str]) -> None:
        w, pivots = work
        code.pull(w, 0, n * n)
        with code.count(0, n) as k:
            _eliminate(code, w, pivots, n, k)
        code.push(w, 1, n * n)
        code.push_integers(pivots, 2, n)

    return built("factor", n, dtype, [n * n, n], 3, SINGULAR, act)


def _eliminate(code: Block, w: str, pivots: str, n: int, k: str) -> None:
    """Step k of the elimination; element (i, j) of a^T is number j n + i."""
    after = code.op("add nsw", "i64", k, 1)
    start = code.op("mul nsw", "i64", k, n)
    diagonal = code.op("add nsw", "i64", start, k)
    row = _largest(code, w, start, diagonal, (k, after, n))
    code.put_integer(pivots, k, row)
    with code.count(0, n) as j:
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
    if not in_lanes(dtype, n, batch) or k > LARGEST:
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


def lu_solve(dtype: np.dtype, n: int, k: int, batch: int, trans: bool) -> Native:
    """x with op(a) x = b, by the factors of a^T.  Buffers: packed, pivots, b, x; range: [0, batch).

    a = u^T l^T p^T:  x = p l^-T u^-T b;   a^T = p l u:  x = u^-1 l^-1 p^T b
    """
    if not in_lanes(dtype, n, batch) or k > LARGEST:
        return lapack.lu_solve(dtype, n, k, batch, trans)

    def act(code: Block, work: list[str]) -> None:
        a, x, pivots = work
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

    spec, sizes = (n, k, trans), [n * n, n * k, n]
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
        with code.count(0, k) as c:
            code.exchange(x, code.place(i, k, c), row, k, c)


def _substitute(
    code: Block, a: str, x: str, n: int, k: int, lower: bool, trans: bool, unit: bool
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

            def terms(j: str) -> tuple[Number, list[Number]]:
                t = code.element(a, code.place(j, n, i) if trans else code.place(i, n, j))
                return t, [code.element(x, code.place(j, k, column)) for column in columns]

            sums = code.without([code.element(x, place) for place in places], before, terms)
            for place, total in zip(places, sums, strict=True):
                code.put_element(x, place, divided(total))
