"""L5. Stacks of small matrices: orthonormal and triangular factors, a matrix in each lane.

    a = h_0 .. h_k-1 r,  h_j = 1 - tau_j v_j v_j^H,  v_j = (0, .., 0, 1, x / (alpha - beta))

The steps, and so the signs, are those of LAPACK's geqr2 and org2r: beta = -sign(re alpha) |column|,
tau = (beta - alpha) / beta, and h = 1 where there is nothing below the diagonal.  A column is
scaled by a power of two of its lane while its length is computed.
"""

from __future__ import annotations

import numpy as np

from fgrad.compile.cpu.lapack import Native
from fgrad.compile.cpu.stack_block import ROWS, Block, Number, Place, built
from fgrad.compile.tasks.routines import MESSAGES


def qr(dtype: np.dtype, m: int, n: int, complete: bool) -> Native:
    """Orthonormal and triangular factors.  Buffers: a, q, r; range: [0, batch)."""
    k = min(m, n)
    columns = m if complete else k

    def act(code: Block, work: list[str]) -> None:
        a, q, taus = work
        zero = code.of_real("zeroinitializer")
        code.pull(a, 0, m * n)
        with code.count(0, k) as j:
            reflection(code, a, (code.place(j, n, j), n, code.op("sub nsw", "i64", m, j)), taus, j)
            turned = code.conjugate(code.element(taus, j))
            rest = (code.op("add nsw", "i64", j, 1), n)
            reflect(code, (a, n, j), (a, n), (j, m), rest, turned)
        product(code, (a, n), (q, m, columns), taus, k)
        with code.count(1, columns) as i:
            wide = code.compare("slt", "i64", i, n)
            with code.count(0, code.select(wide, "i64", i, n)) as j:
                code.put_element(a, code.place(i, n, j), zero)
        code.push(q, 1, m * columns)
        code.push(a, 2, columns * n)

    sizes = [m * n, m * columns, k]
    return built("qr", (m, n, complete), dtype, sizes, 3, MESSAGES["qr"], act)


def product(
    code: Block, source: tuple[str, int], target: tuple[str, int, int], taus: str, k: int,
    shift: int = 0,
) -> None:  # fmt: skip
    """q := h_0 .. h_k-1, as LAPACK's org2r.

    Arguments:
        source: whose column j has v_j, which begins in row j + shift, and its width.
        target: q, its rows and columns.
    """
    (a, n), (q, m, columns) = source, target
    zero, one = code.of_real("zeroinitializer"), code.of_real(code.same(1.0))
    with code.count(0, m * columns) as e:
        code.put_element(q, e, zero)
    for ends in ((0, shift), (k + shift, columns)):
        with code.count(*ends) as j:
            code.put_element(q, code.place(j, columns, j), one)
    with code.count(0, k) as at:
        j = code.op("sub nsw", "i64", k - 1, at)
        first = code.op("add nsw", "i64", j, shift)
        after = code.op("add nsw", "i64", first, 1)
        tau = code.element(taus, j)
        reflect(code, (a, n, j), (q, columns), (first, m), (after, columns), tau)
        code.put_element(q, code.place(first, columns, first), code.less(one, tau, one))
        with code.count(after, m) as i:
            v = code.element(a, code.place(i, n, j))
            code.put_element(q, code.place(i, columns, first), code.less(zero, tau, v))


def reflection(code: Block, a: str, column: tuple[str, int, str], taus: str, j: Place) -> None:
    """h with h^H (alpha, x) = (beta, 0): beta and v overwrite them, tau is number j of `taus`.

    Arguments:
        column: the place of alpha, the distance to the next element, and the number of elements.
    """
    first, step, count = column

    def place(i: str) -> str:
        return code.op("add nsw", "i64", first, code.op("mul nsw", "i64", i, step))

    alpha = code.element(a, first)
    below = code.variable(code.kind, "zeroinitializer")
    with code.count(1, count) as i:
        for part in code.element(a, place(i)):
            code.put(below, code.larger(code.real("fabs", part), code.get(below)))
    size = code.get(below)
    for part in alpha:
        size = code.larger(code.real("fabs", part), size)
    s, back = code.powers(size)
    total = code.variable(code.kind, "zeroinitializer")
    with code.count(1, count) as i:
        x = code.scaled(code.element(a, place(i)), s)
        code.put(total, code.add_square(code.get(total), x))
    near = code.scaled(alpha, s)
    nothing = code.op("and", code.mask, *[
        code.test("oeq", code.get(each), "zeroinitializer") for each in (below, total)
    ])  # fmt: skip
    for part in near[1:]:
        nothing = code.op("and", code.mask, nothing, code.test("oeq", part, "zeroinitializer"))
    length = code.real("sqrt", code.add_square(code.get(total), near))
    beta = code.minus(code.real("copysign", length, near[0]))
    zero, one = code.of_real("zeroinitializer"), code.of_real(code.same(1.0))
    differs: Number = (code.of("fsub", near[0], beta), *near[1:])
    tau = code.scaled(code.negative(differs), code.of("fdiv", code.same(1.0), beta))
    code.put_element(taus, j, code.choose(nothing, zero, tau))
    code.put_element(
        a, first, code.choose(nothing, alpha, code.of_real(code.of("fmul", beta, back)))
    )
    divided = code.divisor(code.choose(nothing, one, differs))
    with code.count(1, count) as i:
        at = place(i)
        code.put_element(a, at, divided(code.scaled(code.element(a, at), s)))


def reflect(
    code: Block, source: tuple[str, int, str], target: tuple[str, int], rows: tuple[str, int],
    columns: tuple[str, int], tau: Number,
) -> None:  # fmt: skip
    """Columns c := c - tau v (v^H c) of a target, some at a time.

    Arguments:
        source: of v, its width, and the column of v, whose first element counts as one.
        target: the target and its width.
        rows: from the first element of v on, likewise of the target.
        columns: of the target.
    """
    (a, n, j), (t, width), (begin, m) = source, target, rows
    zero = code.of_real("zeroinitializer")
    nothing, after = code.is_zero(tau), code.op("add nsw", "i64", begin, 1)
    with code.count(columns[0], columns[1], ROWS) as c:
        some = code.some(c, columns[1])
        tops = [code.place(begin, width, column) for column in some]
        firsts = [code.element(t, top) for top in tops]

        def terms(i: str) -> tuple[Number, list[Number]]:
            v = code.conjugate(code.element(a, code.place(i, n, j)))
            return v, [code.element(t, code.place(i, width, column)) for column in some]

        sums = code.without([code.negative(first) for first in firsts], (after, m), terms)
        weights = [code.choose(nothing, zero, code.times(tau, each)) for each in sums]
        for top, first, weight in zip(tops, firsts, weights, strict=True):
            code.put_element(t, top, code.plus(first, weight, code.of_real(code.same(1.0))))
        with code.count(after, m) as i:
            v = code.element(a, code.place(i, n, j))
            places = [code.place(i, width, column) for column in some]
            found = [code.element(t, place) for place in places]
            for place, x, weight in zip(places, found, weights, strict=True):
                code.put_element(t, place, code.plus(x, v, weight))
