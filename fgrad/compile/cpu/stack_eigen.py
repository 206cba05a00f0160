"""L5. Stacks of small Hermitian matrices: eigenvalues and eigenvectors, a matrix in each lane.

    q^H a q = t        t tridiagonal, by reflections, as LAPACK's hetd2
    z^H t z = diag w   by implicit QL steps with Wilkinson's shift, as its steqr; v = q z

A lane has a part of its own, from row l to row m, in which it turns neighbouring columns; all lanes
walk along the same rows.  Steps, decisions and shifts are LAPACK's, so that vectors have its signs,
unless rounding decides whether an element is small; where LAPACK goes upwards (QR), a lane has its
matrix in reverse order.  Matrices that are not finite, or do not converge, are left to it.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fgrad.base.named_tuple import NamedTuple
from fgrad.compile.cpu.lapack import LibraryCode, Native
from fgrad.compile.cpu.stack_block import ROWS, Block, Number, built
from fgrad.compile.cpu.stack_qr import product, reflection
from fgrad.compile.tasks.routines import MESSAGES

STEPS = 30  # for each row, after which LAPACK gives up
TINY = {"d": (2.0**-53, 2.0**-1000), "f": (2.0**-24, 2.0**-120)}  # rounding; squares that are 0
LARGE = {"d": 2.0**60, "f": 2.0**30}  # numbers beside which 1 counts for nothing


class Rows(NamedTuple):
    """The work memory for the tridiagonal matrix, and the vectors if they are wanted."""

    diagonal: str
    beside: str
    vectors: str
    n: int


def eigh(dtype: np.dtype, n: int, lower: bool, vectors: bool, library: LibraryCode) -> Native:
    """Eigenvalues and eigenvectors.  Buffers: a, w, v (or a, w); range: [0, batch).

    Arguments:
        library: the same for each matrix of a range.
    """

    def act(code: Block, work: list[str]) -> None:
        a, q, taus, diagonal, beside, pair = work
        rows = Rows(diagonal, beside, q if vectors else "", n)
        code.pull(a, 0, n * n)
        if not lower:
            _reverse(code, a, n * n, code.parts)
        back = _scale(code, a, n)
        _tridiagonal(code, a, taus, pair, rows)
        if vectors:
            product(code, (a, n), (q, n, n), taus, n - 1, 1)
        if not lower:
            _reverse(code, diagonal, n, 1)
            _reverse(code, beside, n - 1, 1)
            if vectors:
                _reverse(code, q, n * n, code.parts)
        _steps(code, rows, _turn(code, rows))
        sort(code, (diagonal, pair), n, [Moved(q, a, n, code.parts)] if vectors else [])
        with code.count(0, n) as i:
            code.put_real_element(pair, i, code.of("fmul", code.real_element(pair, i), back))
        code.push_real(pair, 1, n)
        if vectors:
            code.push(a, 2, n * n)

    sizes = [n * n, n * n, n, n, n, 2 * n]
    spec, flag = (n, lower, vectors), 2 + vectors
    return built("eigh", spec, dtype, sizes, flag, MESSAGES["eigh"], act, library)


def _reverse(code: Block, work: str, count: int, parts: int) -> None:
    """Elements in reverse order; of a matrix, one triangle becomes the other."""
    with code.count(0, count // 2) as i:
        other = code.op("sub nsw", "i64", count - 1, i)
        for p in range(parts):
            places = [code.place(each, parts, p) for each in (i, other)]
            values = [code.real_element(work, place) for place in places]
            for place, value in zip(places, reversed(values), strict=True):
                code.put_real_element(work, place, value)


def _scale(code: Block, a: str, n: int) -> str:
    """Make the upper triangle that of the lower one, and the largest element about 1, by a power of
    two, whose inverse is given; what is not finite becomes 0, and is left."""
    extent = code.begin_extent()
    with code.count(0, n) as i:
        diagonal = code.place(i, n, i)
        code.put_element(a, diagonal, code.of_real(code.element(a, diagonal)[0]))
        with code.count(0, code.op("add nsw", "i64", i, 1)) as j:
            for part in code.element(a, code.place(i, n, j)):
                code.widen(extent, part)
    finite, s, back = code.scale(extent)
    with code.count(0, n) as i, code.count(0, code.op("add nsw", "i64", i, 1)) as j:
        place, zero = code.place(i, n, j), code.of_real("zeroinitializer")
        x = code.choose(finite, code.scaled(code.element(a, place), s), zero)
        code.put_element(a, code.place(j, n, i), code.conjugate(x))
        code.put_element(a, place, x)
    return back


def _tridiagonal(code: Block, a: str, taus: str, pair: str, rows: Rows) -> None:
    """a := h^H a h for each column: with w = tau a v - tau / 2 (tau (a v)^H v) v it is
    a - v w^H - w v^H.  The memory `pair` holds the elements of v and w in turn."""
    n, zero = rows.n, code.of_real("zeroinitializer")
    with code.count(0, n - 1) as j:
        first = code.op("add nsw", "i64", j, 1)
        top = code.place(first, n, j)
        reflection(code, a, (top, n, code.op("sub nsw", "i64", n - 1, j)), taus, j)
        code.put_real_element(rows.beside, j, code.element(a, top)[0])
        tau = code.element(taus, j)
        with code.count(first, n) as i:
            code.put_element(pair, code.place(i, 2, 0), code.element(a, code.place(i, n, j)))
        code.put_element(pair, code.place(first, 2, 0), code.of_real(code.same(1.0)))
        total = code.variables(zero)
        with code.count(first, n, ROWS) as i:
            some = code.some(i, n)

            def terms(k: str, some: Sequence[str] = some) -> tuple[Number, list[Number]]:
                own = [code.element(a, code.place(row, n, k)) for row in some]
                return code.element(pair, code.place(k, 2, 0)), own

            sums = code.without([zero] * len(some), (first, n), terms)
            for row, each in zip(some, sums, strict=True):
                w = code.times(tau, code.negative(each))
                code.put_element(pair, code.place(row, 2, 1), w)
        with code.count(first, n) as i:
            v, w = (code.element(pair, code.place(i, 2, k)) for k in (0, 1))
            code.put_number(total, code.plus(code.get_number(total), code.conjugate(w), v))
        half = code.scaled(code.times(tau, code.get_number(total)), code.same(-0.5))
        with code.count(first, n) as i:
            v, w = (code.element(pair, code.place(i, 2, k)) for k in (0, 1))
            code.put_element(pair, code.place(i, 2, 1), code.plus(w, half, v))
        _subtract(code, a, pair, first, n)
    with code.count(0, n) as i:
        code.put_real_element(rows.diagonal, i, code.element(a, code.place(i, n, i))[0])
    code.put_real_element(rows.beside, n - 1, "zeroinitializer")


def _subtract(code: Block, a: str, pair: str, first: str, n: int) -> None:
    """a - v w^H - w v^H, some rows at a time."""
    with code.count(first, n, ROWS) as i:
        some = code.some(i, n)
        v, w = ([code.element(pair, code.place(row, 2, k)) for row in some] for k in (0, 1))
        with code.count(first, n) as k:
            v_k, w_k = (code.conjugate(code.element(pair, code.place(k, 2, p))) for p in (0, 1))
            places = [code.place(row, n, k) for row in some]
            left = [
                code.less(code.less(code.element(a, place), v_i, w_k), w_i, v_k)
                for place, v_i, w_i in zip(places, v, w, strict=True)
            ]
            for place, x in zip(places, left, strict=True):
                code.put_element(a, place, x)


def _turn(code: Block, rows: Rows) -> str:
    """Reverse the lanes whose last element is smaller than the first one, and give them."""
    n, d = rows.n, rows.diagonal
    sizes = [code.real("fabs", code.real_element(d, k)) for k in (n - 1, 0)]
    turned = code.test("olt", *sizes)
    for work, count in ((d, n), (rows.beside, n - 1)):
        code.reverse_where(turned, work, count)
    if rows.vectors:
        with code.count(0, n) as i, code.count(0, n // 2) as j:
            other = code.op("sub nsw", "i64", n - 1, j)
            for p in range(code.parts):
                here, there = (
                    code.place(code.place(i, n, column), code.parts, p) for column in (j, other)
                )
                code.exchange_where(turned, rows.vectors, here, there)
    return turned


# --- the steps


class Lane(NamedTuple):
    """The part of each lane: from row `first` to row `last`, as vectors of i32."""

    first: str
    last: str


def _steps(code: Block, rows: Rows, turned: str) -> None:
    """Steps of all lanes until each of them has nothing left beside its diagonal."""
    n, kind = rows.n, code.vector("i32")
    first = code.variable(kind, "zeroinitializer")

    def part() -> tuple[Lane, str]:
        last = code.variable(kind, f"splat (i32 {n - 1})")
        begin, end = (
            code.variable(kind, f"splat (i32 {n - 1})"),
            code.variable(kind, "zeroinitializer"),
        )
        with code.count(0, n - 1) as at:
            i = code.op("sub nsw", "i64", n - 2, at)
            here = code.whole(i)
            small = _is_small(code, rows, i)
            later = code.compare_whole("sge", here, code.get(first))
            starts = code.emit(
                f"select {code.mask} {small}, {code.mask} zeroinitializer, {code.mask} {later}"
            )
            code.put(begin, code.select(starts, kind, here, code.get(begin), code.mask))
            code.put(end, code.select(starts, kind, code.get(last), code.get(end), code.mask))
            code.put(last, code.select(small, kind, here, code.get(last), code.mask))
        lane = Lane(code.get(begin), code.get(end))
        code.put(first, lane.first)
        return lane, code.compare_whole("slt", lane.first, f"splat (i32 {n - 1})")

    code.take_steps(STEPS * n, part, lambda lane: _step(code, rows, lane, turned))


def _is_small(code: Block, rows: Rows, i: str) -> str:
    """e[i]^2 <= eps^2 |d[i] d[i + 1]|, or nothing."""
    rounding, nothing = TINY[code.dtype.char]
    e = code.real_element(rows.beside, i)
    d = [
        code.real("fabs", code.real_element(rows.diagonal, k))
        for k in (i, code.op("add nsw", "i64", i, 1))
    ]
    bound = code.real(
        "fma", code.of("fmul", d[0], code.same(rounding**2)), d[1], code.same(nothing)
    )
    return code.test("ole", code.of("fmul", e, e), bound)


class Pair(NamedTuple):
    """What solves a part of two rows: their elements, and the rotation of their columns."""

    upper: str
    lower: str
    c: str
    s: str


def _step(code: Block, rows: Rows, lane: Lane, turned: str) -> None:
    """A QL step of the part of each lane, from its last row up; two rows are solved at once."""
    n, d, e, kind = rows.n, rows.diagonal, rows.beside, code.vector("i32")
    most = f"splat (i32 {n - 2})"
    at = code.call(kind, f"llvm.smin.v{code.lanes}i32", (kind, lane.first), (kind, most))
    p, beside = (code.own_element(w, at) for w in (d, e))
    below = code.own_element(d, at, 1)
    code.put_own_element(e, lane.last, "zeroinitializer")
    shift = _shift(code, p, beside, below)
    pair = _two_rows(code, code.chosen(turned, below, p), beside, code.chosen(turned, p, below))
    pair = Pair(
        code.chosen(turned, pair.lower, pair.upper), code.chosen(turned, pair.upper, pair.lower),
        pair.c, code.chosen(turned, pair.s, code.minus(pair.s)),
    )  # fmt: skip
    one_before = code.op("sub nsw", kind, lane.last, "splat (i32 1)")
    is_pair = code.compare_whole("eq", lane.first, one_before)
    c, s = (code.variable(code.kind, code.same(1.0)) for _ in range(2))
    move, g = (code.variable(code.kind, "zeroinitializer") for _ in range(2))
    low, high = code.least(lane.first), code.most(lane.last)
    d_next = code.variable(code.kind, code.real_element(d, high))
    with code.count(0, code.op("sub nsw", "i64", high, low)) as k:
        i = code.op("sub nsw", "i64", code.op("sub nsw", "i64", high, 1), k)
        following = code.op("add nsw", "i64", i, 1)
        here = code.whole(i)
        inside = code.op(
            "and", code.mask, code.compare_whole("sge", here, lane.first),
            code.compare_whole("slt", here, lane.last),
        )  # fmt: skip
        begins = code.compare_whole("eq", here, one_before)
        ends = code.op("and", code.mask, inside, code.compare_whole("eq", here, lane.first))
        d_i, old = code.real_element(d, i), code.get(d_next)
        e_i, e_next = code.real_element(e, i), code.real_element(e, following)
        start = code.chosen(begins, code.of("fadd", old, shift), code.get(g))
        f, b = (code.of("fmul", code.get(each), e_i) for each in (s, c))
        new_c, new_s, r = rotation(code, start, f)
        g_next = code.of("fsub", old, code.get(move))
        difference = code.of("fmul", code.of("fsub", d_i, g_next), new_s)
        t = code.real("fma", code.of("fmul", new_c, code.same(2.0)), b, difference)
        moved = code.of("fmul", new_s, t)
        left = code.real("fma", new_c, t, code.minus(b))
        two = code.op("and", code.mask, ends, is_pair)
        after = code.chosen(two, pair.lower, code.of("fadd", g_next, moved))
        before = code.real_element(d, following)
        code.put_real_element(d, following, code.chosen(inside, after, before))
        kept = code.op(
            "and", code.mask, inside, code.op("xor", code.mask, begins, "splat (i1 true)")
        )
        code.put_real_element(e, following, code.chosen(kept, r, e_next))
        last = code.chosen(two, pair.upper, code.of("fsub", d_i, moved))
        code.put_real_element(d, i, code.chosen(ends, last, d_i))
        rest = code.chosen(two, "zeroinitializer", left)
        code.put_real_element(e, i, code.chosen(ends, rest, e_i))
        code.put(d_next, d_i)
        for variable, value in ((c, new_c), (s, new_s), (move, moved), (g, left)):
            code.put(variable, code.chosen(inside, value, code.get(variable)))
        if rows.vectors:
            turn_c = code.chosen(two, pair.c, new_c)
            turn_s = code.chosen(two, pair.s, new_s)
            cosine = code.chosen(inside, turn_c, code.same(1.0))
            turn_columns(
                code,
                (rows.vectors, code.parts),
                rows.n,
                i,
                cosine,
                code.chosen(inside, turn_s, "zeroinitializer"),
            )


def _shift(code: Block, p: str, beside: str, below: str) -> str:
    """e / (g + sign(g) sqrt(g^2 + 1)) - p, with g = (d[l + 1] - p) / (2 e): what is added to the
    last element."""
    g = code.of("fdiv", code.of("fsub", below, p), code.of("fadd", beside, beside))
    size = code.real("fabs", g)
    root = code.real("sqrt", code.real("fma", g, g, code.same(1.0)))
    large = code.test("ogt", size, code.same(LARGE[code.dtype.char]))
    length = code.real("copysign", code.chosen(large, size, root), g)
    return code.of("fsub", code.of("fdiv", beside, code.of("fadd", g, length)), p)


def rotation(code: Block, f: str, g: str) -> tuple[str, str, str]:
    """c, s, r with c f + s g = r, -s f + c g = 0 and c >= 0; none where both are nothing."""
    square = code.real("fma", f, f, code.of("fmul", g, g))
    nothing = code.test("ole", square, code.same(TINY[code.dtype.char][1]))
    length = code.real("sqrt", square)
    inverse = code.of("fdiv", code.same(1.0), length)
    c = code.of("fmul", code.real("fabs", f), inverse)
    s = code.of("fmul", g, code.real("copysign", inverse, f))
    return (
        code.chosen(nothing, code.same(1.0), c),
        code.chosen(nothing, "zeroinitializer", s),
        code.chosen(nothing, f, code.real("copysign", length, f)),
    )


def _two_rows(code: Block, a: str, b: str, c: str) -> Pair:
    """The eigenvalues of [[a, b], [b, c]], the larger in size first, and (cos, sin) of its vector,
    as LAPACK's laev2."""
    zero, one = "zeroinitializer", code.same(1.0)
    total, difference = code.of("fadd", a, c), code.of("fsub", a, c)
    twice = code.of("fadd", b, b)
    size, across = code.real("fabs", difference), code.real("fabs", twice)
    upper = code.test("ogt", code.real("fabs", a), code.real("fabs", c))
    most, least = code.chosen(upper, a, c), code.chosen(upper, c, a)
    larger, smaller = (
        code.larger(size, across),
        code.chosen(code.test("ogt", size, across), across, size),
    )
    ratio = code.of("fdiv", smaller, larger)
    length = code.of("fmul", larger, code.real("sqrt", code.real("fma", ratio, ratio, one)))
    signed = code.real("copysign", length, code.chosen(code.test("olt", total, zero), total, one))
    first = code.of("fmul", code.same(0.5), code.of("fadd", total, signed))
    whole = code.of("fmul", code.of("fdiv", most, first), least)
    other = code.of("fsub", whole, code.of("fmul", code.of("fdiv", b, first), b))
    balanced = code.test("oeq", total, zero)
    second = code.chosen(balanced, code.minus(first), other)
    falls = code.test("olt", difference, zero)
    cs = code.of("fadd", difference, code.chosen(falls, code.minus(length), length))
    steep = code.test("ogt", code.real("fabs", cs), across)
    tangent = code.minus(
        code.of("fdiv", code.chosen(steep, twice, cs), code.chosen(steep, cs, twice))
    )
    root = code.real("sqrt", code.real("fma", tangent, tangent, one))
    near = code.of("fdiv", one, root)
    far = code.of("fmul", tangent, near)
    cosine, sine = code.chosen(steep, far, near), code.chosen(steep, near, far)
    opposite = code.op("xor", code.mask, code.test("olt", total, zero), falls)
    turned_c, turned_s = (
        code.chosen(opposite, cosine, code.minus(sine)),
        code.chosen(opposite, sine, cosine),
    )
    return Pair(first, second, turned_c, turned_s)


def turn_columns(code: Block, vectors: tuple[str, int], n: int, i: str, c: str, s: str) -> None:
    """Columns i and i + 1 of the vectors: (c x - s y, s x + c y).

    Arguments:
        vectors: the memory, and the parts of a number in it.
    """
    work, parts = vectors
    against = code.minus(s)
    for row in code.unrolled(0, n, ROWS):
        place = code.op("mul nsw", "i64", code.place(row, n, i), parts)
        places = [code.op("add nsw", "i64", place, k) for k in range(2 * parts)]
        found = [code.real_element(work, each) for each in places]
        pairs = list(zip(found[:parts], found[parts:], strict=True))
        turned = [
            code.real("fma", u, x, code.of("fmul", v, y))
            for u, v in ((c, against), (s, c))
            for x, y in pairs
        ]
        for each, value in zip(places, turned, strict=True):
            code.put_real_element(work, each, value)


class Moved(NamedTuple):
    """A matrix whose columns are moved: `parts` of its numbers, into the first parts of others."""

    source: str
    target: str
    width: int
    parts: int


def sort(
    code: Block, values: tuple[str, str], n: int, moved: Sequence[Moved], before: str = "olt"
) -> None:
    """Values in order, and the columns of matrices with them.

    Arguments:
        values: the memory that they are in, and the one that they go to.
        before: how a value compares with those behind it.
    """
    kind = code.vector("i32")
    with code.count(0, n) as j:
        mine, count = code.real_element(values[0], j), code.variable(kind, "zeroinitializer")
        with code.count(0, n) as k:
            other = code.real_element(values[0], k)
            earlier = code.splat(code.compare("slt", "i64", k, j), "i1", code.lanes)
            equal = code.op("and", code.mask, code.test("oeq", other, mine), earlier)
            less = code.op("or", code.mask, code.test(before, other, mine), equal)
            one = code.emit(f"zext {code.mask} {less} to {kind}")
            code.put(count, code.op("add", kind, code.get(count), one))
        rank = code.get(count)
        code.put_own_element(values[1], rank, mine)
        for each in moved:
            with code.count(0, n) as i:
                row = code.op("mul nsw", "i64", i, each.width)
                here = code.op("mul nsw", "i64", code.place(i, n, j), each.parts)
                places = code.own_places(each.target, rank, 1, row, code.parts)
                for p in range(each.parts):
                    part = code.real_element(each.source, code.op("add nsw", "i64", here, p))
                    code.scatter(part, places[p])
