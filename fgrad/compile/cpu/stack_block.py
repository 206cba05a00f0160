"""L5. The text of a step on stacks of small matrices: a matrix in each lane of vectors.

    begin         the matrices of a block, one in each lane
    pull, push    elements of these matrices  <->  work memory, element e being vector e
    plus, less    arithmetic on numbers of all lanes, real or complex
    built         the loop over the blocks of a range around what is done for one

A number of all lanes is one vector, or two: the real and the imaginary parts.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias, TypeVar

import numpy as np

from fgrad.base.named_tuple import NamedTuple
from fgrad.compile.cpu.lapack import LibraryCode, Native, failure
from fgrad.compile.kernel.machine import VECTOR_BYTES
from fgrad.compile.llvm.runtime import Source, build_counted
from fgrad.compile.llvm.structured import Routine
from fgrad.compile.llvm.text import constant, element_type
from fgrad.ops.complex import real_dtype

ROWS = 4  # of a triangle, or columns of a matrix, that are computed together
# Divisors below the first number are multiplied by the second, by dtype.
DIVISORS = {"d": (2.0**-900, 2.0**200), "f": (2.0**-100, 2.0**60)}
# Bits behind the exponent, the exponent of 1, and the largest power of two of a scale, by dtype.
EXPONENTS = {"d": (52, 1023, 1000), "f": (23, 127, 100)}

Number: TypeAlias = tuple[str, ...]  # of each lane: one vector, or a vector for each part
Place: TypeAlias = str | int
Part = TypeVar("Part")


class Extent(NamedTuple):
    """Variables: the largest size of some real numbers, and 0 as long as all are finite."""

    size: str
    odd: str


def lanes_of(dtype: np.dtype) -> int:
    """The matrices of a block."""
    return VECTOR_BYTES // real_dtype(dtype).itemsize


class Block(Routine):
    """The text for one block of matrices, one in each lane; a lane behind the last matrix holds
    that one again."""

    def __init__(self, dtype: np.dtype) -> None:
        super().__init__()
        self.dtype = real_dtype(dtype)
        self.parts = dtype.itemsize // self.dtype.itemsize
        self.lanes, self.size = lanes_of(dtype), self.dtype.itemsize
        self.part = element_type(self.dtype)
        self.kind = self.vector(self.part)
        self.suffix = f"v{self.lanes}f{8 * self.size}"
        self.mask = f"<{self.lanes} x i1>"
        self.first = ""  # the number of the matrix in the first lane
        self.numbers: list[str] = []  # of the matrices in the lanes
        self.bad = self.variable(self.vector("i32"), "zeroinitializer")
        self.left = self.variable(self.vector("i32"), "zeroinitializer")  # to a library

    def vector(self, part: str) -> str:
        """The type of one number of each lane."""
        return f"<{self.lanes} x {part}>"

    # The matrices.

    def begin(self, first: str) -> None:
        """The numbers of the matrices of a block."""
        self.first = first
        last = self.op("sub nsw", "i64", "%hi", 1)
        for k in range(self.lanes):
            own = self.op("add nsw", "i64", first, k)
            self.numbers.append(
                self.select(self.compare("slt", "i64", own, last), "i64", own, last)
            )
        self.put(self.bad, "zeroinitializer")
        self.put(self.left, "zeroinitializer")

    def rows_of(self, number: int, size: int, part: str) -> list[str]:
        """Where the matrix of each lane begins in a buffer."""
        base = self.buffer(number)
        return [self.at(base, self.op("mul nsw", "i64", m, size), part) for m in self.numbers]

    def lying(self, number: int, size: int) -> str:
        """Where the elements of a block begin in a buffer that has them in lanes."""
        return self._lying(number, size * self.parts, self.part)

    def lying_integers(self, number: int, size: int) -> str:
        """The same of int32 numbers."""
        return self._lying(number, size, "i32")

    def _lying(self, number: int, size: int, part: str) -> str:
        return self.at(self.buffer(number), self.op("mul nsw", "i64", self.first, size), part)

    def pull(self, work: str, number: int, size: int) -> None:
        """Read the elements of all matrices."""
        self._pull(work, number, size * self.parts, self.part, self.size)

    def pull_real(self, work: str, number: int, size: int) -> None:
        """Read real numbers of all matrices."""
        self._pull(work, number, size, self.part, self.size)

    def pull_integers(self, work: str, number: int, size: int) -> None:
        """Read int32 numbers of all matrices."""
        self._pull(work, number, size, "i32", 4)

    def push(self, work: str, number: int, size: int) -> None:
        """Write the elements of all matrices."""
        self._push(work, number, size * self.parts, self.part, self.size)

    def push_real(self, work: str, number: int, size: int) -> None:
        """Write real numbers of all matrices."""
        self._push(work, number, size, self.part, self.size)

    def push_integers(self, work: str, number: int, size: int) -> None:
        """Write int32 numbers of all matrices."""
        self._push(work, number, size, "i32", 4)

    def _pull(self, work: str, number: int, size: int, part: str, bytes_: int) -> None:
        kind, rows = self.vector(part), self.rows_of(number, size, part)
        whole = size - size % self.lanes
        with self.count(0, whole, self.lanes) as e:
            found = [self.load(kind, row, e, bytes_, part) for row in rows]
            for k, value in enumerate(self.transposed(found, kind)):
                self._put(work, self.op("add nsw", "i64", e, k), value, kind)
        for e in range(whole, size):
            value = "poison"
            for k, row in enumerate(rows):
                one = self.load(part, row, e, bytes_)
                value = self.emit(f"insertelement {kind} {value}, {part} {one}, i64 {k}")
            self._put(work, e, value, kind)

    def _push(self, work: str, number: int, size: int, part: str, bytes_: int) -> None:
        kind, rows = self.vector(part), self.rows_of(number, size, part)
        whole = size - size % self.lanes
        with self.count(0, whole, self.lanes) as e:
            places = [self.op("add nsw", "i64", e, k) for k in range(self.lanes)]
            found = [self._get(work, place, kind) for place in places]
            for row, value in zip(rows, self.transposed(found, kind), strict=True):
                self.store(kind, value, row, e, bytes_, part)
        for e in range(whole, size):
            value = self._get(work, e, kind)
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

    def note(self, number: int) -> None:
        """Write the flag of each matrix."""
        base, bad = self.buffer(number), self.get(self.bad)
        kind = self.vector("i32")
        for k, matrix in enumerate(self.numbers):
            one = self.emit(f"extractelement {kind} {bad}, i64 {k}")
            self.store("i8", self.emit(f"trunc i32 {one} to i8"), base, matrix, 1)

    def fails_where(self, condition: str) -> None:
        """Note the lanes of which something is true."""
        self._add(self.bad, condition)

    def leave_where(self, condition: str) -> None:
        """Leave the lanes of which something is true to a library."""
        self._add(self.left, condition)

    def _add(self, lanes: str, condition: str) -> None:
        kind = self.vector("i32")
        now = self.emit(f"zext {self.mask} {condition} to {kind}")
        self.put(lanes, self.op("or", kind, self.get(lanes), now))

    def is_left(self) -> str:
        """The lanes that are left to a library."""
        kind = self.vector("i32")
        return self.emit(f"icmp ne {kind} {self.get(self.left)}, zeroinitializer")

    def call_library(self, function: str) -> None:
        """Do the matrices that were left again, one by one."""
        kind, left = self.vector("i32"), self.get(self.left)
        for k, matrix in enumerate(self.numbers):
            one = self.emit(f"extractelement {kind} {left}, i64 {k}")
            with self.when(self.compare("ne", "i32", one, 0)):
                end = self.op("add nsw", "i64", matrix, 1)
                self.line(f"call void @{function}(ptr %bufs, i64 {matrix}, i64 {end})")

    # Elements.

    def _get(self, work: str, place: Place, kind: str) -> str:
        return self.load(kind, work, place, 4 if "i32" in kind else VECTOR_BYTES)

    def _put(self, work: str, place: Place, value: str, kind: str) -> None:
        self.store(kind, value, work, place, 4 if "i32" in kind else VECTOR_BYTES)

    def element(self, work: str, place: Place) -> Number:
        """One element of all matrices."""
        base = self._address(work, place)
        return tuple([self._get(base, p, self.kind) for p in range(self.parts)])

    def put_element(self, work: str, place: Place, value: Number) -> None:
        """Write one element of all matrices."""
        base = self._address(work, place)
        for p, part in enumerate(value):
            self._put(base, p, part, self.kind)

    def _address(self, work: str, place: Place) -> str:
        return self.at(work, place, f"[{self.parts} x {self.kind}]")

    def real_element(self, work: str, place: Place) -> str:
        """One of the real numbers of all matrices."""
        return self._get(work, place, self.kind)

    def put_real_element(self, work: str, place: Place, value: str) -> None:
        """Write one of the real numbers of all matrices."""
        self._put(work, place, value, self.kind)

    def integer(self, work: str, place: Place) -> str:
        """One int32 number of all matrices."""
        return self._get(work, place, self.vector("i32"))

    def put_integer(self, work: str, place: Place, value: str) -> None:
        """Write one int32 number of all matrices."""
        self._put(work, place, value, self.vector("i32"))

    def place(self, i: Place, width: int, j: Place) -> str:
        """i * width + j."""
        return self.op("add nsw", "i64", self.op("mul nsw", "i64", i, width), j)

    def exchange(self, work: str, here: str, row: str, width: int, column: Place) -> None:
        """Exchange the element at a place with that of the same column in another row, which is the
        lane's own."""
        there = self.own_places(work, row, width, column)
        mine, others = self.element(work, here), [self.gathered(each) for each in there]
        self.put_element(work, here, tuple(others))
        for part, each in zip(mine, there, strict=True):
            self.scatter(part, each)

    def own_places(
        self, work: str, row: str, width: int, column: Place, parts: int = 0
    ) -> list[str]:
        """The addresses of the parts of an element whose row is the lane's own: lanes of vector v
        begin at v times their number."""
        parts = parts or self.parts
        wide = self.vector("i64")
        index = self.emit(f"sext {self.vector('i32')} {row} to {wide}")
        index = self.op("mul nsw", wide, index, f"splat (i64 {width})")
        index = self.op("add nsw", wide, index, self.splat(str(column), "i64", self.lanes))
        index = self.op("mul nsw", wide, index, f"splat (i64 {parts * self.lanes})")
        found: list[str] = []
        for p in range(parts):
            own = ", ".join([f"i64 {p * self.lanes + k}" for k in range(self.lanes)])
            place = self.op("add nsw", wide, index, f"<{own}>")
            found.append(self.emit(f"getelementptr {self.part}, ptr {work}, {wide} {place}"))
        return found

    def own_element(self, work: str, row: str, shift: int = 0) -> str:
        """A real number of all matrices whose place is the lane's own."""
        return self.gathered(self.own_places(work, row, 1, shift, 1)[0])

    def put_own_element(self, work: str, row: str, value: str) -> None:
        """Write a real number to a place that is the lane's own."""
        self.scatter(value, self.own_places(work, row, 1, 0, 1)[0])

    def exchange_where(self, lanes: str, work: str, here: Place, there: Place) -> None:
        """Exchange two real numbers of some lanes."""
        x, y = self.real_element(work, here), self.real_element(work, there)
        self.put_real_element(work, here, self.chosen(lanes, y, x))
        self.put_real_element(work, there, self.chosen(lanes, x, y))

    def reverse_where(self, lanes: str, work: str, count: int) -> None:
        """Reverse the real numbers of some lanes."""
        with self.count(0, count // 2) as i:
            self.exchange_where(lanes, work, i, self.op("sub nsw", "i64", count - 1, i))

    def gathered(self, places: str) -> str:
        """What stands at a place of each lane's own."""
        pointers = f"<{self.lanes} x ptr>"
        return self.call(
            self.kind, f"llvm.masked.gather.{self.suffix}.v{self.lanes}p0", (pointers, places),
            ("i32", str(self.size)), (self.mask, "splat (i1 true)"), (self.kind, "poison"),
        )  # fmt: skip

    def scatter(self, value: str, places: str) -> None:
        """Write to a place of each lane's own."""
        name, pointers = (
            f"llvm.masked.scatter.{self.suffix}.v{self.lanes}p0",
            f"<{self.lanes} x ptr>",
        )
        self.declare(f"declare void @{name}({self.kind}, {pointers}, i32, {self.mask})")
        self.line(
            f"call void @{name}({self.kind} {value}, {pointers} {places}, i32 {self.size}, "
            f"{self.mask} splat (i1 true))"
        )

    # Real numbers of all lanes.

    def real(self, name: str, *args: str) -> str:
        """A function of real numbers."""
        return self.call(self.kind, f"llvm.{name}.{self.suffix}", *[(self.kind, a) for a in args])

    def of(self, name: str, a: str, b: str) -> str:
        """An instruction on real numbers: fadd, fsub, fmul, fdiv."""
        return self.op(name, self.kind, a, b)

    def minus(self, a: str) -> str:
        """-a."""
        return self.emit(f"fneg {self.kind} {a}")

    def same(self, number: float) -> str:
        """A number in all lanes."""
        return constant(number, self.dtype, self.lanes)

    def test(self, condition: str, a: str, b: str) -> str:
        """A comparison of real numbers."""
        return self.emit(f"fcmp {condition} {self.kind} {a}, {b}")

    def chosen(self, condition: str, a: str, b: str) -> str:
        """`a` in the lanes where a condition holds, else `b`."""
        return self.select(condition, self.kind, a, b, self.mask)

    def larger(self, a: str, b: str) -> str:
        """The larger number; `b` where one is NaN."""
        return self.chosen(self.test("ogt", a, b), a, b)

    def powers(self, size: str) -> tuple[str, str]:
        """A power of two s and 1 / s with s size near 1, which neither overflow nor vanish."""
        bits, one, most = EXPONENTS[self.dtype.char]
        whole = f"i{8 * self.size}"
        kind = self.vector(whole)

        def number(n: int) -> str:
            return f"splat ({whole} {n})"

        found = self.emit(f"bitcast {self.kind} {size} to {kind}")
        exponent = self.op("lshr", kind, found, number(bits))
        power = self.op("sub", kind, number(2 * one), exponent)
        for name, end in (("smax", one - most), ("smin", one + most)):
            full = f"llvm.{name}.v{self.lanes}{whole}"
            power = self.call(kind, full, (kind, power), (kind, number(end)))
        scales: list[str] = []
        for each in (power, self.op("sub", kind, number(2 * one), power)):
            moved = self.op("shl", kind, each, number(bits))
            scales.append(self.emit(f"bitcast {kind} {moved} to {self.kind}"))
        return scales[0], scales[1]

    def begin_extent(self) -> Extent:
        """That of no numbers."""
        return Extent(*[self.variable(self.kind, "zeroinitializer") for _ in range(2)])

    def widen(self, extent: Extent, x: str) -> None:
        """Let it have one number more."""
        self.put(extent.size, self.larger(self.real("fabs", x), self.get(extent.size)))
        self.put(extent.odd, self.of("fadd", self.get(extent.odd), self.of("fsub", x, x)))

    def scale(self, extent: Extent) -> tuple[str, str, str]:
        """The lanes whose numbers are finite, and `powers` of the largest one; the other lanes are
        left to a library."""
        finite = self.test("oeq", self.get(extent.odd), "zeroinitializer")
        self.leave_where(self.test("uno", self.get(extent.odd), "zeroinitializer"))
        return finite, *self.powers(self.get(extent.size))

    # Whole numbers of all lanes.

    def whole(self, i: Place) -> str:
        """A number of a row in all lanes."""
        return self.splat(self.emit(f"trunc i64 {i} to i32"), "i32", self.lanes)

    def compare_whole(self, condition: str, a: str, b: str) -> str:
        """A comparison of int32 numbers."""
        return self.emit(f"icmp {condition} {self.vector('i32')} {a}, {b}")

    def somewhere_other(self, rows: str, i: Place) -> str:
        """Whether the row of a lane, an int32 number, is another one than row i."""
        others = self.compare_whole("ne", rows, self.whole(i))
        return self.call("i1", f"llvm.vector.reduce.or.v{self.lanes}i1", (self.mask, others))

    def least(self, a: str) -> str:
        """The least of the int32 numbers, as one i64."""
        return self._reduced("smin", a)

    def most(self, a: str) -> str:
        """The largest of the int32 numbers, as one i64."""
        return self._reduced("smax", a)

    def _reduced(self, how: str, a: str) -> str:
        name = f"llvm.vector.reduce.{how}.v{self.lanes}i32"
        return self.emit(f"sext i32 {self.call('i32', name, (self.vector('i32'), a))} to i64")

    # Numbers of all lanes, real or complex.

    def of_real(self, x: str) -> Number:
        """A real number."""
        return (x, "zeroinitializer")[: self.parts]

    def plus(self, c: Number, a: Number, b: Number) -> Number:
        """c + a b."""
        if self.parts == 1:
            return (self.real("fma", a[0], b[0], c[0]),)
        re = self.real("fma", self.minus(a[1]), b[1], self.real("fma", a[0], b[0], c[0]))
        im = self.real("fma", a[1], b[0], self.real("fma", a[0], b[1], c[1]))
        return re, im

    def less(self, c: Number, a: Number, b: Number) -> Number:
        """c - a b."""
        return self.plus(c, self.negative(a), b)

    def times(self, a: Number, b: Number) -> Number:
        """a b."""
        if self.parts == 1:
            return (self.of("fmul", a[0], b[0]),)
        re = self.real("fma", self.minus(a[1]), b[1], self.of("fmul", a[0], b[0]))
        return re, self.real("fma", a[1], b[0], self.of("fmul", a[0], b[1]))

    def scaled(self, a: Number, t: str) -> Number:
        """a t for real t."""
        return tuple([self.of("fmul", part, t) for part in a])

    def negative(self, a: Number) -> Number:
        """-a."""
        return tuple([self.minus(part) for part in a])

    def conjugate(self, a: Number) -> Number:
        """The complex conjugate."""
        return a if self.parts == 1 else (a[0], self.minus(a[1]))

    def length(self, a: Number) -> str:
        """|re a| + |im a|, by which LAPACK compares pivots."""
        sizes = [self.real("fabs", part) for part in a]
        return sizes[0] if self.parts == 1 else self.of("fadd", *sizes)

    def add_square(self, total: str, a: Number) -> str:
        """total + |a|^2."""
        for part in a:
            total = self.real("fma", part, part, total)
        return total

    def choose(self, condition: str, a: Number, b: Number) -> Number:
        """`a` in the lanes where a condition holds, else `b`."""
        return tuple([self.chosen(condition, x, y) for x, y in zip(a, b, strict=True)])

    def is_zero(self, a: Number) -> str:
        """The lanes in which a number is 0."""
        tests = [self.test("oeq", part, "zeroinitializer") for part in a]
        return tests[0] if self.parts == 1 else self.op("and", self.mask, *tests)

    def variables(self, a: Number) -> Number:
        """Variables that begin with a number."""
        return tuple([self.variable(self.kind, part) for part in a])

    def get_number(self, variables: Number) -> Number:
        """The present number."""
        return tuple([self.get(each) for each in variables])

    def put_number(self, variables: Number, a: Number) -> None:
        """A new number."""
        for each, part in zip(variables, a, strict=True):
            self.put(each, part)

    def real_divisor(self, d: str) -> Callable[[Number], Number]:
        """x -> x / d for real d, as (x (1 / (d s))) s: a power of two s keeps 1 / d from being
        infinite where d is subnormal.  A product takes a sixteenth of the time of a quotient."""
        limit, scale = DIVISORS[self.dtype.char]
        tiny = self.test("olt", self.real("fabs", d), self.same(limit))
        s = self.chosen(tiny, self.same(scale), self.same(1.0))
        inverse = self.of("fdiv", self.same(1.0), self.of("fmul", d, s))
        return lambda x: self.scaled(self.scaled(x, inverse), s)

    def divisor(self, d: Number) -> Callable[[Number], Number]:
        """x -> x / d; for complex d by conj(d s) / |d s|^2, with a power of two s near 1 / |d|."""
        if self.parts == 1:
            return self.real_divisor(d[0])
        s, _ = self.powers(self.larger(self.real("fabs", d[0]), self.real("fabs", d[1])))
        turned = self.conjugate(self.scaled(d, s))
        square = self.add_square("zeroinitializer", turned)
        inverse = self.scaled(turned, self.of("fdiv", self.same(1.0), square))
        return lambda x: self.scaled(self.times(x, inverse), s)

    # Steps until all lanes have ended.

    def take_steps(
        self, most: int, part: Callable[[], tuple[Part, str]], step: Callable[[Part], None]
    ) -> None:
        """Steps until no lane has a part left; lanes that have one after so many steps are left to
        a library.

        Arguments:
            part: gives the part of each lane, and the lanes that have one.
        """
        count, going = self.variable("i64", "0"), self.variable("i1", "true")
        with self.repeat(lambda: self.get(going)):
            found, unfinished = part()
            some = self.call(
                "i1", f"llvm.vector.reduce.or.v{self.lanes}i1", (self.mask, unfinished)
            )
            self.put(count, self.op("add nsw", "i64", self.get(count), 1))
            more = self.compare("sle", "i64", self.get(count), most)
            self.put(going, self.op("and", "i1", some, more))
            with self.when(self.get(going)):
                step(found)
            with self.when(self.op("and", "i1", some, self.op("xor", "i1", more, "true"))):
                self.leave_where(unfinished)

    # Some rows or columns at a time.

    def some(self, first: str, count: int) -> list[str]:
        """The numbers of some rows or columns that are computed together; the last one stands for
        those behind it."""
        following = [self.op("add nsw", "i64", first, q) for q in range(min(ROWS, count))]
        exists = [self.compare("slt", "i64", r, count) for r in following]
        pairs = zip(exists, following, strict=True)
        return [self.select(e, "i64", r, count - 1) for e, r in pairs]

    def without(
        self, starts: Sequence[Number], ends: tuple[Place, Place],
        terms: Callable[[str], tuple[Number, list[Number]]],
    ) -> list[Number]:  # fmt: skip
        """What is left of some numbers without a sum of products of one number and one of their
        own, which `terms` gives for each index."""
        sums = [self.variables(start) for start in starts]
        with self.count(*ends) as k:
            one, own = terms(k)
            for total, x in zip(sums, own, strict=True):
                self.put_number(total, self.less(self.get_number(total), one, x))
        return [self.get_number(total) for total in sums]


def built(
    name: str, spec: object, dtype: np.dtype, sizes: Sequence[int], flag: int, message: str,
    act: Callable[[Block, list[str]], None], library: LibraryCode | None = None,
) -> Native:  # fmt: skip
    """A loop over the blocks of a range around what is done for one of them.

    Arguments:
        name: of the step; with `spec` it determines the code.
        sizes: elements in the work memory, for each part of it.
        flag: the buffer of flags.
        message: of the LinAlgError that a failure is.
        act: writes the text for a block, given the work memory.
        library: the same step, for the lanes that `act` leaves to it.
    """
    imports = library.imports if library else {}

    def emit(symbol: str) -> tuple[str, set[str]]:
        code = Block(dtype)
        code.declare("declare ptr @malloc(i64)")
        code.declare("declare void @free(ptr)")
        memories = [(s * code.parts + 1) * VECTOR_BYTES for s in sizes]
        given = [code.emit(f"call ptr @malloc(i64 {memory})") for memory in memories]
        work: list[str] = []
        for memory in given:
            address = code.emit(f"ptrtoint ptr {memory} to i64")
            up = code.op("and", "i64", code.op("add", "i64", address, VECTOR_BYTES), -VECTOR_BYTES)
            work.append(code.at(memory, code.op("sub", "i64", up, address), "i8"))
        with code.count("%lo", "%hi", code.lanes) as first:
            code.begin(first)
            act(code, work)
            code.note(flag)
            if library:
                code.call_library(f"{symbol}_library")
        for memory in given:
            code.line(f"call void @free(ptr {memory})")
        text, declarations = code.define(symbol)
        if not library:
            return text, declarations
        other, more = library.source.emit(f"{symbol}_library")
        return f"{other.replace('define', 'define internal', 1)}\n{text}", declarations | more

    content = f"stack {name} {dtype.char} {spec} {library.source.content if library else ''}"
    return Native(build_counted([Source(content, emit)], imports)[0], failure(message))
