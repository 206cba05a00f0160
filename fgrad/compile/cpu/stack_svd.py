"""L5. Stacks of small matrices: singular values and vectors, a matrix in each lane.

    q^H a p = b        b real with elements on and right of its diagonal, as LAPACK's gebd2
    x^T b y = diag s   by steps of Golub and Kahan, as its bdsqr;  u = q x, v = p y

As in `stack_eigen.py`, a lane has a part of its own, steps and decisions are LAPACK's, and a lane
in which LAPACK goes upwards has b in reverse order, where x and y change places.  A step has no
shift where that would cost small values their accuracy.
"""

from __future__ import annotations

import numpy as np

from fgrad.base.named_tuple import NamedTuple
from fgrad.compile.cpu.lapack import LibraryCode, Native
from fgrad.compile.cpu.stack_block import ROWS, Block, Number, built
from fgrad.compile.cpu.stack_eigen import Moved, rotation, sort, turn_columns
from fgrad.compile.cpu.stack_qr import reflect, reflection
from fgrad.compile.tasks.routines import MESSAGES

STEPS = 60  # for each row, after which a lane is left to LAPACK
ROUNDING = {"d": 2.0**-53, "f": 2.0**-24}
NOTHING = {"d": 2.0**-960, "f": 2.0**-110}  # beside a matrix of size 1
ZERO = "zeroinitializer"


class Rows(NamedTuple):
    """The work memory for the bidiagonal matrix, and for x and y if they are wanted."""

    diagonal: str
    beside: str
    left: str
    right: str
    n: int


class Memory(NamedTuple):
    """The matrix, which gets the reflections from the left, those from the right, factors."""

    a: str
    across: str
    left_taus: str
    right_taus: str
    u: str
    v: str
    values: str


def svd(dtype: np.dtype, m: int, n: int, full: bool, vectors: bool, library: LibraryCode) -> Native:
    """Singular values and vectors, for m >= n.  Buffers: a, u, s, vh (or a, s); range: [0, batch).

    Arguments:
        library: the same for each matrix of a range.
    """
    columns = m if full else n

    def act(code: Block, work: list[str]) -> None:
        a, across, left_taus, right_taus, u, v, values, d, e, x, y = work
        memory = Memory(a, across, left_taus, right_taus, u, v, values)
        rows = Rows(d, e, x, y, n)
        code.pull(memory.a, 0, m * n)
        back = _scale(code, memory.a, m * n)
        _bidiagonal(code, memory, rows, m)
        turned = _turn(code, rows)
        if vectors:
            _begin_with_ones(code, rows)
        _steps(code, rows, turned, vectors)
        if vectors:
            _turn_back(code, rows, turned)
        _make_positive(code, rows, vectors)
        _sort(code, memory, rows, (m, columns) if vectors else None)
        with code.count(0, n) as i:
            value = code.of("fmul", code.real_element(memory.values, i), back)
            code.put_real_element(memory.values, i, value)
        code.push_real(memory.values, 2 if vectors else 1, n)
        if vectors:
            _vectors(code, memory, (m, n, columns))

    sizes = [m * n, n * n, n, n, m * columns, n * n, n, n, n, n * n, n * n]
    spec, flag = (m, n, full, vectors), 4 if vectors else 2
    return built("svd", spec, dtype, sizes, flag, MESSAGES["svd"], act, library)


def _scale(code: Block, a: str, count: int) -> str:
    """Make the largest element about 1, by a power of two, whose inverse is given; what is not
    finite becomes 0, and is left."""
    extent = code.begin_extent()
    with code.count(0, count * code.parts) as e:
        code.widen(extent, code.real_element(a, e))
    finite, s, back = code.scale(extent)
    with code.count(0, count * code.parts) as e:
        part = code.of("fmul", code.real_element(a, e), s)
        code.put_real_element(a, e, code.chosen(finite, part, ZERO))
    return back


def _bidiagonal(code: Block, memory: Memory, rows: Rows, m: int) -> None:
    """a := h^H a g for each column and row: q = h_0 h_1 .., p = g_0 g_1 .."""
    n, a, across = rows.n, memory.a, memory.across
    with code.count(0, n) as j:
        top, after = code.place(j, n, j), code.op("add nsw", "i64", j, 1)
        height = code.op("sub nsw", "i64", m, j)
        reflection(code, a, (top, n, height), memory.left_taus, j)
        code.put_real_element(rows.diagonal, j, code.element(a, top)[0])
        turned = code.conjugate(code.element(memory.left_taus, j))
        reflect(code, (a, n, j), (a, n), (j, m), (after, n), turned)
        with code.when(code.compare("slt", "i64", after, n)):
            with code.count(after, n) as k:
                x = code.conjugate(code.element(a, code.place(j, n, k)))
                code.put_element(across, code.place(k, n, j), x)
            first = code.place(after, n, j)
            length = code.op("sub nsw", "i64", n - 1, j)
            reflection(code, across, (first, n, length), memory.right_taus, j)
            code.put_real_element(rows.beside, j, code.element(across, first)[0])
            code.put_element(across, first, code.of_real(code.same(1.0)))
            _reflect_rows(code, memory, (j, after), (m, n))
    code.put_real_element(rows.beside, n - 1, ZERO)


def _reflect_rows(code: Block, memory: Memory, at: tuple[str, str], shape: tuple[int, int]) -> None:
    """Rows r := r - tau (r v) v^H below row j, some at a time, v being column j of `across`."""
    (j, after), (m, n) = at, shape
    zero, tau = code.of_real(ZERO), code.element(memory.right_taus, j)
    with code.count(after, m, ROWS) as i:
        some = code.some(i, m)

        def terms(k: str) -> tuple[Number, list[Number]]:
            v = code.element(memory.across, code.place(k, n, j))
            return v, [code.element(memory.a, code.place(row, n, k)) for row in some]

        sums = code.without([zero] * len(some), (after, n), terms)
        weights = [code.times(tau, each) for each in sums]
        with code.count(after, n) as k:
            v = code.conjugate(code.element(memory.across, code.place(k, n, j)))
            places = [code.place(row, n, k) for row in some]
            found = [code.element(memory.a, place) for place in places]
            for place, x, weight in zip(places, found, weights, strict=True):
                code.put_element(memory.a, place, code.plus(x, weight, v))


def _begin_with_ones(code: Block, rows: Rows) -> None:
    """x = y = 1."""
    for work in (rows.left, rows.right):
        with code.count(0, rows.n**2) as e:
            code.put_real_element(work, e, ZERO)
        with code.count(0, rows.n) as i:
            one = code.op("mul nsw", "i64", i, rows.n + 1)
            code.put_real_element(work, one, code.same(1.0))


def _turn(code: Block, rows: Rows) -> str:
    """Reverse the lanes whose first element is smaller than the last one, and give them."""
    n, d = rows.n, rows.diagonal
    sizes = [code.real("fabs", code.real_element(d, k)) for k in (0, n - 1)]
    turned = code.test("olt", *sizes)
    for work, count in ((d, n), (rows.beside, n - 1)):
        code.reverse_where(turned, work, count)
    return turned


def _turn_back(code: Block, rows: Rows, turned: str) -> None:
    """Exchange x and y in reverse order of rows, where b was reversed."""
    n = rows.n
    with code.count(0, (n + 1) // 2) as i, code.count(0, n) as j:
        places = [code.place(row, n, j) for row in (i, code.op("sub nsw", "i64", n - 1, i))]
        x, y = (
            [code.real_element(work, place) for place in places] for work in (rows.left, rows.right)
        )
        for work, own, other in ((rows.left, x, y[::-1]), (rows.right, y, x[::-1])):
            for place, mine, its in zip(places, own, other, strict=True):
                code.put_real_element(work, place, code.chosen(turned, its, mine))


def _make_positive(code: Block, rows: Rows, vectors: bool) -> None:
    """|d|, and the columns of y with it."""
    n = rows.n
    with code.count(0, n) as j:
        d = code.real_element(rows.diagonal, j)
        code.put_real_element(rows.diagonal, j, code.real("fabs", d))
        if vectors:
            below = code.test("olt", d, ZERO)
            with code.count(0, n) as i:
                place = code.place(i, n, j)
                y = code.real_element(rows.right, place)
                code.put_real_element(rows.right, place, code.chosen(below, code.minus(y), y))


def _sort(code: Block, memory: Memory, rows: Rows, shape: tuple[int, int] | None) -> None:
    """Singular values in descending order, x into the beginning of u and y into v."""
    n, moved = rows.n, list[Moved]()
    if shape:
        m, columns = shape
        for work, size in ((memory.u, m * columns), (memory.v, n * n)):
            with code.count(0, size) as e:
                code.put_element(work, e, code.of_real(ZERO))
        with code.count(n, columns) as j:
            code.put_element(memory.u, code.place(j, columns, j), code.of_real(code.same(1.0)))
        moved = [Moved(rows.left, memory.u, columns, 1), Moved(rows.right, memory.v, n, 1)]
    sort(code, (rows.diagonal, memory.values), n, moved, "ogt")


def _vectors(code: Block, memory: Memory, shape: tuple[int, int, int]) -> None:
    """u = h_0 h_1 .. x, and v^H for v = g_0 g_1 .. y."""
    m, n, columns = shape
    with code.count(0, n) as at:
        j = code.op("sub nsw", "i64", n - 1, at)
        tau = code.element(memory.left_taus, j)
        reflect(code, (memory.a, n, j), (memory.u, columns), (j, m), ("0", columns), tau)
    with code.count(1, n) as at:
        j = code.op("sub nsw", "i64", n - 1, at)
        after, tau = code.op("add nsw", "i64", j, 1), code.element(memory.right_taus, j)
        reflect(code, (memory.across, n, j), (memory.v, n), (after, n), ("0", n), tau)
    with code.count(0, n) as i, code.count(0, code.op("add nsw", "i64", i, 1)) as j:
        places = code.place(i, n, j), code.place(j, n, i)
        x, y = (code.conjugate(code.element(memory.v, place)) for place in places)
        code.put_element(memory.v, places[0], y)
        code.put_element(memory.v, places[1], x)
    code.push(memory.u, 1, m * columns)
    code.push(memory.v, 3, n * n)


# --- the steps


class Lane(NamedTuple):
    """The part of each lane, from row `first` to row `last`; the least of what its values may be,
    and its largest element."""

    first: str
    last: str
    least: str
    largest: str


def _tolerance(code: Block) -> float:
    return max(10.0, min(100.0, ROUNDING[code.dtype.char] ** -0.125)) * ROUNDING[code.dtype.char]


def _steps(code: Block, rows: Rows, turned: str, vectors: bool) -> None:
    """Steps of all lanes until each of them has nothing left beside its diagonal."""
    nothing = _nothing(code, rows)
    code.take_steps(
        STEPS * rows.n,
        lambda: _part(code, rows, nothing),
        lambda lane: _step(code, rows, lane, turned, vectors),
    )


def _smaller(code: Block, a: str, b: str) -> str:
    return code.chosen(code.test("olt", a, b), a, b)


def _nothing(code: Block, rows: Rows) -> str:
    """What counts as nothing: a bound of the least value, times the tolerance."""
    n, d = rows.n, rows.diagonal
    bound = code.variable(code.kind, code.real("fabs", code.real_element(d, 0)))
    least = code.variable(code.kind, code.get(bound))
    with code.count(0, n - 1) as i:
        e = code.real("fabs", code.real_element(rows.beside, i))
        code.put(bound, _following(code, rows, i, code.get(bound), e))
        code.put(least, _smaller(code, code.get(bound), code.get(least)))
    scaled = code.of("fmul", code.get(least), code.same(_tolerance(code) / n**0.5))
    return code.larger(scaled, code.same(6.0 * n**3 * NOTHING[code.dtype.char]))


def _following(code: Block, rows: Rows, i: str, bound: str, e: str) -> str:
    """|d[i + 1]| mu / (mu + |e[i]|)."""
    d = code.real_element(rows.diagonal, code.op("add nsw", "i64", i, 1))
    total = code.of("fadd", bound, e)
    share = code.of(
        "fdiv", bound, code.chosen(code.test("oeq", total, ZERO), code.same(1.0), total)
    )
    return code.of("fmul", code.real("fabs", d), share)


def _part(code: Block, rows: Rows, nothing: str) -> tuple[Lane, str]:
    """The last part of each lane that is not finished, and the lanes that have one.  Elements that
    are small beside the values of their part become 0."""
    n, kind, tolerance = rows.n, code.vector("i32"), code.same(_tolerance(code))
    d_0 = code.real("fabs", code.real_element(rows.diagonal, 0))
    bound, low, high = (code.variable(code.kind, d_0) for _ in range(3))
    begin, first, last = (code.variable(kind, ZERO) for _ in range(3))
    lows, highs = ([code.variable(code.kind, ZERO) for _ in range(2)] for _ in range(2))
    with code.count(0, n - 1) as i:
        following = code.op("add nsw", "i64", i, 1)
        e = code.real_element(rows.beside, i)
        size, d = (code.real("fabs", x) for x in (e, code.real_element(rows.diagonal, following)))
        limit = code.larger(code.of("fmul", tolerance, code.get(bound)), nothing)
        small = code.test("ole", size, limit)
        code.put_real_element(rows.beside, i, code.chosen(small, ZERO, e))
        mu = code.chosen(small, d, _following(code, rows, i, code.get(bound), size))
        code.put(bound, mu)
        new_low = _smaller(code, mu, code.get(low))
        new_high = code.larger(code.larger(size, d), code.get(high))
        for record, values in (
            (lows, (code.get(low), new_low)),
            (highs, (code.get(high), new_high)),
        ):
            for variable, value in zip(record, values, strict=True):
                code.put(variable, code.chosen(small, code.get(variable), value))
        here = code.whole(following)
        code.put(first, code.select(small, kind, code.get(first), code.get(begin), code.mask))
        code.put(last, code.select(small, kind, code.get(last), here, code.mask))
        code.put(begin, code.select(small, kind, here, code.get(begin), code.mask))
        code.put(low, code.chosen(small, d, new_low))
        code.put(high, code.chosen(small, d, new_high))
    unfinished = code.compare_whole("slt", code.get(first), code.get(last))
    return _without_small_end(
        code, rows, (code.get(first), code.get(last)), lows, highs
    ), unfinished


def _without_small_end(
    code: Block, rows: Rows, part: tuple[str, str], lows: list[str], highs: list[str]
) -> Lane:
    """A part without its last row, where the element beside that is small; two rows stay."""
    first, last = part
    kind = code.vector("i32")
    before = _before(code, last)
    e, d = (
        code.real("fabs", code.own_element(work, row))
        for work, row in ((rows.beside, before), (rows.diagonal, last))
    )
    small = code.test("ole", e, code.of("fmul", d, code.same(_tolerance(code))))
    small = code.op("and", code.mask, small, code.compare_whole("slt", first, before))
    spare = f"splat (i32 {rows.n - 1})"
    where = code.select(small, kind, before, spare, code.mask)
    code.put_own_element(rows.beside, where, ZERO)
    return Lane(
        first, code.select(small, kind, before, last, code.mask),
        code.chosen(small, *[code.get(each) for each in lows]),
        code.chosen(small, *[code.get(each) for each in highs]),
    )  # fmt: skip


def _before(code: Block, last: str) -> str:
    """last - 1, at least 0."""
    kind = code.vector("i32")
    one = code.op("sub nsw", kind, last, "splat (i32 1)")
    return code.call(kind, f"llvm.smax.v{code.lanes}i32", (kind, one), (kind, ZERO))


class Turn(NamedTuple):
    """What solves a part of two rows: their values, and (cos, sin) for columns of x and of y."""

    upper: str
    lower: str
    left: tuple[str, str]
    right: tuple[str, str]


class Start(NamedTuple):
    """What a step begins with: the lanes without a shift, the first pair to be turned, and the
    lanes that have two rows, which are solved."""

    plain: str
    f: str
    g: str
    two: str
    turn: Turn


def _start(code: Block, rows: Rows, lane: Lane, turned: str) -> Start:
    before, rounding = _before(code, lane.last), ROUNDING[code.dtype.char]
    d_first, d_last = (code.own_element(rows.diagonal, row) for row in (lane.first, lane.last))
    e_first = code.own_element(rows.beside, lane.first)
    shift = _least_value(
        code, code.own_element(rows.diagonal, before), code.own_element(rows.beside, before), d_last
    )
    tolerance = _tolerance(code)
    ratio = rows.n * tolerance / max(rounding, 0.01 * tolerance)
    plain = code.test("ole", code.of("fmul", lane.least, code.same(ratio)), lane.largest)
    share = code.of("fdiv", shift, d_first)
    tiny = code.test("olt", code.of("fmul", share, share), code.same(rounding))
    plain = code.op("or", code.mask, plain, tiny)
    difference = code.of("fsub", code.real("fabs", d_first), shift)
    sign = code.real("copysign", code.same(1.0), d_first)
    f = code.of("fmul", difference, code.of("fadd", sign, share))
    two = code.compare_whole(
        "eq", lane.first, code.op("sub nsw", code.vector("i32"), lane.last, "splat (i32 1)")
    )
    turn = _two_rows(
        code, code.chosen(turned, d_last, d_first), e_first, code.chosen(turned, d_first, d_last)
    )
    other = Turn(
        turn.lower, turn.upper, (turn.right[0], code.minus(turn.right[1])),
        (turn.left[0], code.minus(turn.left[1])),
    )  # fmt: skip
    chosen = [
        tuple([code.chosen(turned, x, y) for x, y in zip(a, b, strict=True)])
        for a, b in ((other[:2], turn[:2]), (other.left, turn.left), (other.right, turn.right))
    ]
    return Start(plain, f, e_first, two, Turn(*chosen[0], chosen[1], chosen[2]))  # type: ignore[arg-type]


def _least_value(code: Block, f: str, g: str, h: str) -> str:
    """The smaller singular value of [[f, g], [0, h]], as LAPACK's las2."""
    f, g, h = (code.real("fabs", x) for x in (f, g, h))
    least, most = _smaller(code, f, h), code.larger(f, h)
    one = code.same(1.0)
    ratio, across = code.of("fdiv", least, most), code.of("fdiv", g, most)
    square = code.of("fmul", across, across)
    total, difference = code.of("fadd", one, ratio), code.of("fsub", one, ratio)
    roots = [code.real("sqrt", code.real("fma", x, x, square)) for x in (total, difference)]
    c = code.of("fdiv", code.same(2.0), code.of("fadd", *roots))
    return code.chosen(code.test("oeq", least, ZERO), ZERO, code.of("fmul", least, c))


def _two_rows(code: Block, f: str, g: str, h: str) -> Turn:
    """The singular values of [[f, g], [0, h]], the larger first, and the rotations of its vectors,
    as LAPACK's lasv2."""
    one, two = code.same(1.0), code.same(2.0)
    swap = code.test("ogt", code.real("fabs", h), code.real("fabs", f))
    ft, ht = code.chosen(swap, h, f), code.chosen(swap, f, h)
    fa, ga, ha = (code.real("fabs", x) for x in (ft, g, ht))
    wide = code.test("ogt", ga, fa)
    huge = code.test("olt", fa, code.of("fmul", ga, code.same(ROUNDING[code.dtype.char])))
    length = code.of("fdiv", code.of("fsub", fa, ha), fa)
    m = code.of("fdiv", g, ft)
    t = code.of("fsub", two, length)
    s, r = (code.real("sqrt", code.real("fma", m, m, code.of("fmul", x, x))) for x in (t, length))
    a = code.of("fmul", code.same(0.5), code.of("fadd", s, r))
    terms = [code.of("fdiv", m, code.of("fadd", x, y)) for x, y in ((s, t), (r, length))]
    t = code.of("fmul", code.of("fadd", *terms), code.of("fadd", one, a))
    root = code.real("sqrt", code.real("fma", t, t, code.same(4.0)))
    crt, srt = code.of("fdiv", two, root), code.of("fdiv", t, root)
    clt = code.of("fdiv", code.real("fma", srt, m, crt), a)
    slt = code.of("fdiv", code.of("fmul", code.of("fdiv", ht, ft), srt), a)
    values = [
        (ga, code.of("fmul", fa, a)),
        (code.of("fmul", code.of("fdiv", fa, ga), ha), code.of("fdiv", ha, a)),
        (one, clt), (code.of("fdiv", ht, g), slt), (code.of("fdiv", ft, g), crt), (one, srt),
    ]  # fmt: skip
    most, least, clt, slt, crt, srt = (code.chosen(huge, x, y) for x, y in values)
    left = code.chosen(swap, srt, clt), code.chosen(swap, crt, slt)
    right = code.chosen(swap, slt, crt), code.chosen(swap, clt, srt)

    def signs(*numbers: str) -> str:
        total = one
        for x in numbers:
            total = code.of("fmul", total, code.real("copysign", one, x))
        return total

    high, across = signs(right[0], left[0], f), signs(right[1], left[0], g)
    low = signs(right[1], left[1], h)
    sign = code.chosen(wide, across, code.chosen(swap, low, high))
    upper = code.real("copysign", most, sign)
    lower = code.real("copysign", least, code.of("fmul", sign, signs(f, h)))
    return Turn(upper, lower, left, right)


def _step(code: Block, rows: Rows, lane: Lane, turned: str, vectors: bool) -> None:
    """A step of the part of each lane, from its first row to its last one, as LAPACK's bdsqr."""
    d, e, start = rows.diagonal, rows.beside, _start(code, rows, lane, turned)
    plain, one = start.plain, code.same(1.0)
    c, old_c, old_s = (code.variable(code.kind, one) for _ in range(3))
    f, g = code.variable(code.kind, start.f), code.variable(code.kind, start.g)
    d_now, e_now = (code.variable(code.kind, ZERO) for _ in range(2))
    with code.count(code.least(lane.first), code.most(lane.last)) as i:
        following, here = code.op("add nsw", "i64", i, 1), code.whole(i)
        begins = code.compare_whole("eq", here, lane.first)
        inside = code.op(
            "and", code.mask, code.compare_whole("sge", here, lane.first),
            code.compare_whole("slt", here, lane.last),
        )  # fmt: skip
        ends = code.op(
            "and", code.mask, inside, code.compare_whole("eq", code.whole(following), lane.last)
        )
        two = code.op("and", code.mask, ends, start.two)
        d_i, d_next = code.real_element(d, i), code.real_element(d, following)
        e_i, e_next = code.real_element(e, i), code.real_element(e, following)
        d_here = code.chosen(begins, d_i, code.get(d_now))
        e_here = code.chosen(code.op("or", code.mask, begins, plain), e_i, code.get(e_now))
        f_1 = code.chosen(plain, code.of("fmul", d_here, code.get(c)), code.get(f))
        c_1, s_1, r_1 = rotation(code, f_1, code.chosen(plain, e_here, code.get(g)))
        _put_before(
            code,
            e,
            i,
            (inside, begins),
            code.chosen(plain, code.of("fmul", code.get(old_s), r_1), r_1),
        )
        mixed = code.real("fma", c_1, d_here, code.of("fmul", s_1, e_here))
        f_2 = code.chosen(plain, code.of("fmul", code.get(old_c), r_1), mixed)
        c_2, s_2, r_2 = rotation(code, f_2, code.of("fmul", d_next, s_1))
        beside = code.real("fma", c_1, e_here, code.minus(code.of("fmul", s_1, d_here)))
        below = code.of("fmul", c_1, d_next)  # also what the last row has without a shift
        rest = code.real("fma", c_2, beside, code.of("fmul", s_2, below))
        new_d = code.real("fma", c_2, below, code.minus(code.of("fmul", s_2, beside)))
        end_d = code.chosen(plain, code.of("fmul", below, c_2), new_d)
        end_e = code.chosen(plain, code.of("fmul", below, s_2), rest)
        turn = start.turn
        code.put_real_element(d, i, code.chosen(inside, code.chosen(two, turn.upper, r_2), d_i))
        end_d = code.chosen(two, turn.lower, end_d)
        code.put_real_element(d, following, code.chosen(ends, end_d, d_next))
        code.put_real_element(e, i, code.chosen(ends, code.chosen(two, ZERO, end_e), e_i))
        for variable, value in (
            (c, c_1), (old_c, c_2), (old_s, s_2), (f, rest), (g, code.of("fmul", s_2, e_next)),
            (d_now, code.chosen(plain, d_next, new_d)), (e_now, code.of("fmul", c_2, e_next)),
        ):  # fmt: skip
            code.put(variable, code.chosen(inside, value, code.get(variable)))
        if vectors:
            for work, own, solved in (
                (rows.left, (c_2, s_2), turn.left), (rows.right, (c_1, s_1), turn.right),
            ):  # fmt: skip
                cosine, sine = (code.chosen(two, x, y) for x, y in zip(solved, own, strict=True))
                cosine = code.chosen(inside, cosine, one)
                sine = code.chosen(inside, code.minus(sine), ZERO)
                turn_columns(code, (work, 1), rows.n, i, cosine, sine)


def _put_before(code: Block, e: str, i: str, lanes: tuple[str, str], value: str) -> None:
    """Write e[i - 1] in the lanes inside of their part, but not at its beginning."""
    inside, begins = lanes
    before = code.op("sub nsw", "i64", i, 1)
    before = code.select(code.compare("slt", "i64", before, 0), "i64", 0, before)
    later = code.op("and", code.mask, inside, code.op("xor", code.mask, begins, "splat (i1 true)"))
    code.put_real_element(e, before, code.chosen(later, value, code.real_element(e, before)))
