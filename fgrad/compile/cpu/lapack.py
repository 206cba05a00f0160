"""L5. Native linear algebra: SciPy's BLAS and LAPACK with the kernels' calling convention.

Each step is a small function `void f(ptr bufs, i64 lo, i64 hi)` over a batch of row-major matrices,
which the column-major library sees transposed; every routine is chosen so that nothing is moved:

    cholesky          a = l l^T            potrf("U"): the library's upper triangle is our lower one
    triangular_solve  op(a) x = b          trsm from the right on b^T, trsv for one column
    factor            a^T = p l u          getrf in place
    lu_solve          op(a) x = b          exchanges of rows of b, and two triangular solves

A complex number is a vector of two parts, which are moved together.  A singular matrix calls back
into Python, which notes a LinAlgError for the caller.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import NoReturn

import numpy as np

from fgrad.base.lazy_import import lazy_extension
from fgrad.base.named_tuple import NamedTuple
from fgrad.compile.cpu import blas_threads
from fgrad.compile.cpu.library import blas_address, capsule_address
from fgrad.compile.host.program import Callback
from fgrad.compile.kernel.machine import ONE_THREAD_ROWS
from fgrad.compile.llvm.runtime import Source, build_counted
from fgrad.compile.llvm.text import element_type
from fgrad.compile.tasks.routines import MESSAGES, SINGULAR
from fgrad.ops.checked import failure as failed
from fgrad.ops.checked import is_check
from fgrad.ops.complex import real_dtype

cython_lapack = lazy_extension("scipy.linalg.cython_lapack")
PREFIX = {"f": "s", "d": "d", "F": "c", "D": "z"}
STRIP = 8  # rows that are transposed together
_LAPACK = frozenset({"potrf", "getrf", "syevd", "heevd", "gesdd", "geqrf", "orgqr", "ungqr"})


class Native(NamedTuple):
    """A built step: its address, and the callback that notes its failures."""

    address: int
    failure: Callback


class LibraryCode(NamedTuple):
    """A step as text: its source, the addresses that it imports, and what notes its failures."""

    source: Source
    imports: Mapping[str, int]
    failure: Callback

    def built(self) -> Native:
        """The step, compiled."""
        return Native(build_counted([self.source], self.imports)[0], self.failure)


@lru_cache
def failure(message: str) -> Callback:
    """A callback without buffers that raises what NumPy does."""

    def fail() -> NoReturn:
        raise failed(message) if is_check(message) else np.linalg.LinAlgError(message)

    return Callback(fail, 0)


class Body:
    """The text of what is done for one matrix of the batch.

    Buffers are `%p0`, `%p1`, ... already advanced; scalars are passed by cells, as Fortran wants.
    `before` and `after` are done once, around the batch.
    """

    def __init__(self, dtype: np.dtype, flagged: bool = False) -> None:
        self.flagged = flagged
        self.part = element_type(real_dtype(dtype))
        self.is_complex = dtype.kind == "c"
        self.kind = f"<2 x {self.part}>" if self.is_complex else self.part
        self.zero = "zeroinitializer" if self.is_complex else "0.0"
        self.prefix = PREFIX[dtype.char]
        self.size = dtype.itemsize
        self.aligned = self.size // 2 if self.is_complex else self.size  # of a real number
        self.before: list[str] = []
        self.after: list[str] = []
        self.lines: list[str] = []
        self.declarations: set[str] = set()
        self.routines: set[str] = set()
        self.count = 0

    def name(self, stem: str) -> str:
        self.count += 1
        return f"{stem}{self.count}"

    def emit(self, text: str) -> str:
        """`%new = text`; returns the name."""
        name = "%" + self.name("v")
        self.lines.append(f"  {name} = {text}")
        return name

    def line(self, text: str) -> None:
        self.lines.append("  " + text)

    def label(self, name: str) -> None:
        self.lines.append(f"{name}:")

    def cell(self, kind: str, value: str) -> str:
        """The address of a constant."""
        name = "%" + self.name("c")
        self.before += [f"  {name} = alloca {kind}", f"  store {kind} {value}, ptr {name}"]
        return name

    def call(self, routine: str, *arguments: str | int | float) -> None:
        """Call a routine: letters, integers and floats by cells, %names as they are."""
        cells = []
        for x in arguments:
            if isinstance(x, str):
                cells.append(x if x.startswith("%") else self.cell("i8", str(ord(x))))
            elif isinstance(x, int):
                cells.append(self.cell("i32", str(x)))
            else:
                cells.append(self.cell(self.kind, self.number(x)))
        full = self.prefix + routine
        self.routines.add(full)
        types = ", ".join(["ptr"] * len(cells))
        self.declarations.add(f"declare void @fgrad_{full}({types})")
        self.line(f"call void @fgrad_{full}({', '.join(['ptr ' + c for c in cells])})")

    def number(self, value: float) -> str:
        """The text of a real number among the elements."""
        if not self.is_complex:
            return f"{value:e}"
        return f"<{self.part} {value:e}, {self.part} 0.0>"

    def parts_memory(self, elements: int) -> str:
        """Work memory of real numbers for the whole batch."""
        return self.memory(elements, self.aligned)

    def memory(self, elements: int, size: int | None = None) -> str:
        """Work memory for the whole batch."""
        name = "%" + self.name("m")
        self.declarations |= {"declare ptr @malloc(i64)", "declare void @free(ptr)"}
        total = max(elements, 1) * (size or self.size)
        self.before.append(f"  {name} = call ptr @malloc(i64 {total})")
        self.after.append(f"  call void @free(ptr {name})")
        return name

    def transpose(self, target: str, source: str, m: int, n: int) -> None:
        """Copy an m x n row-major matrix into the row-major n x m one."""

        def move(i: str, j: str) -> None:
            value = self.load(source, self.emit(f"add i64 {self.emit(f'mul i64 {i}, {n}')}, {j}"))
            place = self.emit(f"add i64 {self.emit(f'mul i64 {j}, {m}')}, {i}")
            self.store(value, target, place)

        self.in_strips(m, n, move)

    def in_strips(self, m: int, n: int, act: Callable[[str, str], None]) -> None:
        """`act(i, j)` for all i < m and j < n: for strips of 8 i, all j, so that what lies along i
        and what lies along j are both read and written by whole cache lines."""
        if m >= STRIP:
            strips, columns = self.begin(m // STRIP), self.begin(n)
            first = self.emit(f"mul i64 {strips[2]}, {STRIP}")
            for k in range(STRIP):
                act(self.emit(f"add i64 {first}, {k}"), columns[2])
            self.end(columns, n)
            self.end(strips, m // STRIP)
        if m % STRIP:
            columns = self.begin(n)
            for i in range(m - m % STRIP, m):
                act(str(i), columns[2])
            self.end(columns, n)

    def check(self, info: str) -> None:
        """Fail where a routine reports that it did not succeed; below 0, that it met NaN."""
        status = self.emit(f"load i32, ptr {info}")
        self.fail_if(self.emit(f"icmp ne i32 {status}, 0"))

    def copy(self, target: str, source: str, elements: int) -> None:
        self.declarations.add("declare ptr @memcpy(ptr, ptr, i64)")
        self.emit(f"call ptr @memcpy(ptr {target}, ptr {source}, i64 {elements * self.size})")

    def at(self, base: str, index: str, kind: str | None = None) -> str:
        """The address of an element."""
        return self.emit(f"getelementptr {kind or self.kind}, ptr {base}, i64 {index}")

    def load(self, base: str, index: str, kind: str | None = None) -> str:
        place = self.at(base, index, kind)
        return self.emit(f"load {kind}, ptr {place}") if kind else self.load_at(place)

    def load_at(self, place: str) -> str:
        """The element at an address; complex numbers are aligned as their parts are."""
        return self.emit(f"load {self.kind}, ptr {place}, align {self.aligned}")

    def store(self, value: str, base: str, index: str) -> None:
        self.store_at(value, self.at(base, index))

    def store_at(self, value: str, place: str) -> None:
        self.line(f"store {self.kind} {value}, ptr {place}, align {self.aligned}")

    def is_zero(self, value: str) -> str:
        """Whether an element is 0."""
        if not self.is_complex:
            return self.emit(f"fcmp oeq {self.kind} {value}, 0.0")
        both = self.emit(f"fcmp oeq {self.kind} {value}, zeroinitializer")
        parts = [self.emit(f"extractelement <2 x i1> {both}, i32 {k}") for k in (0, 1)]
        return self.emit(f"and i1 {parts[0]}, {parts[1]}")

    def begin(self, count: int, down: bool = False) -> tuple[str, str, str]:
        """Open a loop over 0 .. count - 1, at least once; returns its labels and index."""
        before, head, last = [self.name(stem) for stem in ("before", "loop", "last")]
        self.line(f"br label %{before}")
        self.label(before)
        self.line(f"br label %{head}")
        self.label(head)
        first = count - 1 if down else 0
        return head, last, self.emit(f"phi i64 [ {first}, %{before} ], [ %{last}_next, %{last} ]")

    def end(self, loop: tuple[str, str, str], count: int, down: bool = False) -> None:
        """Close a loop."""
        head, last, index = loop
        self.line(f"br label %{last}")
        self.label(last)
        self.line(f"%{last}_next = add i64 {index}, {-1 if down else 1}")
        again = self.emit(
            f"icmp s{'ge' if down else 'lt'} i64 %{last}_next, {0 if down else count}"
        )
        after = self.name("after")
        self.line(f"br i1 {again}, label %{head}, label %{after}")
        self.label(after)

    def fail_if(self, condition: str, skip: str | None = None) -> None:
        """Note a failure where a condition holds, and go on, or to the end of the matrix.

        Stacks are shared among threads, so each of their matrices has a flag instead of a call.
        """
        bad, good = self.name("bad"), self.name("good")
        self.line(f"br i1 {condition}, label %{bad}, label %{good}")
        self.label(bad)
        call = "call void @fgrad_failure(ptr %bufs, i64 0, i64 0)"
        self.line("store i8 1, ptr %flag" if self.flagged else call)
        self.line(f"br label %{skip or good}")
        self.label(good)


def build_step(
    name: str, spec: object, body: Body, strides: list[int], message: str, size: int
) -> Native:
    """A loop over the batch around a body, compiled; see `step_code`."""
    return step_code(name, spec, body, strides, message, size).built()


def step_code(
    name: str, spec: object, body: Body, strides: list[int], message: str, size: int
) -> LibraryCode:
    """A loop over the batch around a body.

    Arguments:
        name: of the step; with `spec` it determines the code.
        strides: of the buffers, in bytes.
        message: of the LinAlgError that a failure is.
        size: the larger side of a matrix; OpenBLAS, if it is called, is kept to one thread for
            small ones.
    """
    guards = blas_threads.imports() if body.routines and size <= ONE_THREAD_ROWS else {}
    content = f"lapack {name} {spec} {bool(guards)} {body.flagged}"
    strides = [*strides, 1] if body.flagged else strides
    note = failure(message)
    imports = {f"fgrad_{r}": routine_address(r) for r in body.routines}
    imports |= {"fgrad_failure": note.address, **guards}
    declarations = body.declarations | {"declare void @fgrad_failure(ptr, i64, i64)"}
    if guards:
        declarations |= blas_threads.DECLARATIONS
    bases = "".join(
        [
            f"  %at{k} = getelementptr ptr, ptr %bufs, i64 {k}\n"
            f"  %base{k} = load ptr, ptr %at{k}, align 8\n"
            for k in range(len(strides))
        ]
    )
    moves = "".join(
        [
            f"  %step{k} = mul i64 %i, {stride}\n"
            f"  %p{k} = getelementptr i8, ptr %base{k}, i64 %step{k}\n"
            for k, stride in enumerate(strides)
        ]
    )
    if body.flagged:
        moves += f"  %flag = getelementptr i8, ptr %p{len(strides) - 1}, i64 0\n"
        moves += "  store i8 0, ptr %flag\n"

    def emit(symbol: str) -> tuple[str, set[str]]:
        text = _BATCH.format(
            symbol=symbol,
            cells="\n".join(body.before),
            bases=bases,
            enter=blas_threads.ENTER if guards else "",
            leave=blas_threads.LEAVE if guards else "",
            moves=moves,
            body="\n".join(body.lines),
            after="\n".join(body.after),
        )
        return text, declarations

    return LibraryCode(Source(content, emit), imports, note)


def flags(message: str, batch: int) -> Native:
    """Fail where a matrix of a stack has.  Buffer: a flag for each; range: [0, batch)."""
    b = Body(np.dtype(np.float64))
    flag = b.emit("load i8, ptr %p0")
    b.fail_if(b.emit(f"icmp ne i8 {flag}, 0"))
    return build_step("flags", message, b, [1], message, 1)


@lru_cache
def routine_address(name: str) -> int:
    """The address of a BLAS or LAPACK routine, by its name with the prefix of the dtype."""
    if name[1:] in _LAPACK:
        return capsule_address(cython_lapack, name)
    return blas_address(name)


def cholesky(dtype: np.dtype, n: int, batch: int) -> Native:
    """l with l l^T = a, of which the lower triangle is read.  Buffers: a, l; range: [0, batch)."""
    b = Body(dtype, batch > 1)
    info = b.cell("i32", "0")
    b.copy("%p1", "%p0", n * n)
    b.call("potrf", "U", n, "%p1", n, info)
    b.check(info)
    if n > 1:  # zeros right of the diagonal
        b.declarations.add("declare ptr @memset(ptr, i32, i64)")
        loop = b.begin(n - 1)
        place = b.emit(f"mul i64 {loop[2]}, {n + 1}")
        start = b.at("%p1", b.emit(f"add i64 {place}, 1"))
        rest = b.emit(f"sub i64 {n - 1}, {loop[2]}")
        b.emit(f"call ptr @memset(ptr {start}, i32 0, i64 {b.emit(f'mul i64 {rest}, {b.size}')})")
        b.end(loop, n - 1)
    strides = [n * n * b.size] * 2
    return build_step("cholesky", (dtype.char, n), b, strides, MESSAGES["cholesky"], n)


def triangular_solve(
    dtype: np.dtype, n: int, k: int, batch: int, lower: bool, trans: bool, unit: bool
) -> Native:
    """x with op(a) x = b.  Buffers: a, b, x; range: [0, batch)."""
    b = Body(dtype, batch > 1)
    b.copy("%p2", "%p1", n * k)
    if not unit:
        _check_diagonal(b, n)
    _solve_triangle(b, "%p0", "%p2", n, k, lower, trans, unit)
    _finish(b)
    strides = [n * n * b.size, n * k * b.size, n * k * b.size]
    spec = (dtype.char, n, k, lower, trans, unit)
    return build_step("triangular_solve", spec, b, strides, SINGULAR, n)


def noted(message: str, size: int) -> Native:
    """Fail where a flag is set that a kernel has written.  Buffer: the flags, int64."""
    b = Body(np.dtype(np.float64))
    loop = b.begin(size)
    b.fail_if(b.emit(f"icmp ne i64 {b.load('%p0', loop[2], 'i64')}, 0"))
    b.end(loop, size)
    return build_step("noted", (message, size), b, [8 * size], message, 1)


def in_range(dtype: np.dtype, size: int, low: int | None, high: int | None, error: str) -> Native:
    """A copy of integers, which fails where one is out of range.  Buffers: n, copy."""
    b, kind = Body(np.dtype(np.float64)), f"i{8 * dtype.itemsize}"
    loop = b.begin(size)
    n = b.load("%p0", loop[2], kind)
    b.line(f"store {kind} {n}, ptr {b.at('%p1', loop[2], kind)}")
    sign = "u" if dtype.kind == "u" else "s"
    for test, limit in (("lt", low), ("gt", high)):
        if limit is not None:
            b.fail_if(b.emit(f"icmp {sign}{test} {kind} {n}, {limit}"))
    b.end(loop, size)
    strides = [size * dtype.itemsize] * 2
    return build_step("in_range", (dtype.char, size, low, high, error), b, strides, error, 1)


def checked(itemsize: int, size: int, error: str) -> Native:
    """A copy of an array, which fails where a check was not passed.  Buffers: x, passed, copy."""
    b, kind = Body(np.dtype(np.float64)), f"i{8 * itemsize}"
    loop = b.begin(size)
    x, passed = b.load("%p0", loop[2], kind), b.load("%p1", loop[2], "i8")
    b.line(f"store {kind} {x}, ptr {b.at('%p2', loop[2], kind)}")
    b.fail_if(b.emit(f"icmp eq i8 {passed}, 0"))
    b.end(loop, size)
    strides = [size * itemsize, size, size * itemsize]
    return build_step("checked", (itemsize, size, error), b, strides, error, 1)


def required(size: int, error: str) -> Native:
    """A copy of truth values, which fails where one is false.  Buffers: passed, copy."""
    b = Body(np.dtype(np.float64))
    loop = b.begin(size)
    passed = b.load("%p0", loop[2], "i8")
    b.line(f"store i8 {passed}, ptr {b.at('%p1', loop[2], 'i8')}")
    b.fail_if(b.emit(f"icmp eq i8 {passed}, 0"))
    b.end(loop, size)
    return build_step("required", (size, error), b, [size, size], error, 1)


def _check_diagonal(b: Body, n: int) -> None:
    """Fail, and leave the matrix at that, where a diagonal element of %p0 is 0."""
    loop = b.begin(n)
    pivot = b.load("%p0", b.emit(f"mul i64 {loop[2]}, {n + 1}"))
    b.fail_if(b.is_zero(pivot), skip="done")
    b.end(loop, n)


def _finish(b: Body) -> None:
    """The place where a failed matrix is left."""
    b.line("br label %done")
    b.label("done")


def _solve_triangle(
    b: Body, a: str, x: str, n: int, k: int, lower: bool, trans: bool, unit: bool
) -> None:
    """x := op(a)^-1 x for row-major a, the library's a^T: x^T := x^T op(a)^-T."""
    uplo, diagonal = "U" if lower else "L", "U" if unit else "N"
    if k == 1:
        b.call("trsv", uplo, "N" if trans else "T", diagonal, n, a, n, x, 1)
    else:
        b.call("trsm", "R", uplo, "T" if trans else "N", diagonal, k, n, 1.0, a, n, x, k)


def factor(dtype: np.dtype, n: int, batch: int) -> Native:
    """Packed factors of a^T, exchanges from 0.  Buffers: a, packed, pivots; range: [0, batch)."""
    b = Body(dtype, batch > 1)
    info = b.cell("i32", "0")
    b.copy("%p1", "%p0", n * n)
    b.call("getrf", n, n, "%p1", n, "%p2", info)
    count_from_zero(b, "%p2", n)
    strides = [n * n * b.size, n * n * b.size, 4 * n]
    return build_step("factor", (dtype.char, n), b, strides, SINGULAR, n)


def count_from_zero(b: Body, pivots: str, n: int) -> None:
    """Fortran's numbers of rows as ours."""
    loop = b.begin(n)
    place = b.at(pivots, loop[2], "i32")
    pivot = b.emit(f"load i32, ptr {place}")
    b.line(f"store i32 {b.emit(f'sub i32 {pivot}, 1')}, ptr {place}")
    b.end(loop, n)


def lu_solve(dtype: np.dtype, n: int, k: int, batch: int, trans: bool) -> Native:
    """x with op(a) x = b, by the factors of a^T.  Buffers: packed, pivots, b, x; range: [0, batch).

    a = u^T l^T p^T:  x = p l^-T u^-T b;   a^T = p l u:  x = u^-1 l^-1 p^T b
    """
    b = Body(dtype, batch > 1)
    b.copy("%p3", "%p2", n * k)
    _check_diagonal(b, n)
    # To us the memory holds l^T above a diagonal of ones, and u^T below.
    lower_first = [(True, False), (False, True)]  # (lower, unit)
    if trans:
        _exchange(b, n, k, down=False)
        for low, unit in reversed(lower_first):
            _solve_triangle(b, "%p0", "%p3", n, k, low, True, unit)
    else:
        for low, unit in lower_first:
            _solve_triangle(b, "%p0", "%p3", n, k, low, False, unit)
        _exchange(b, n, k, down=True)
    _finish(b)
    strides = [n * n * b.size, 4 * n, n * k * b.size, n * k * b.size]
    return build_step("lu_solve", (dtype.char, n, k, trans), b, strides, SINGULAR, n)


def _exchange(b: Body, n: int, k: int, down: bool) -> None:
    """Exchange row i of %p3 with row pivots[i], for all i in ascending or descending order."""
    loop = b.begin(n, down)
    index = loop[2]
    pivot = b.emit(f"sext i32 {b.load('%p1', index, 'i32')} to i64")
    swap, kept = b.name("swap"), b.name("kept")
    differs = b.emit(f"icmp ne i64 {pivot}, {index}")
    b.line(f"br i1 {differs}, label %{swap}, label %{kept}")
    b.label(swap)
    here, there = (b.at("%p3", b.emit(f"mul i64 {x}, {k}")) for x in (index, pivot))
    if k == 1:
        left, right = b.load_at(here), b.load_at(there)
        b.store_at(right, here)
        b.store_at(left, there)
    else:
        b.call("swap", k, here, 1, there, 1)
    b.line(f"br label %{kept}")
    b.label(kept)
    b.end(loop, n, down)


_BATCH = """define void @{symbol}(ptr %bufs, i64 %lo, i64 %hi) #0 {{
entry:
{cells}
{bases}{enter}
  br label %begin
begin:
  %some = icmp slt i64 %lo, %hi
  br i1 %some, label %matrix, label %end
matrix:
  %i = phi i64 [ %lo, %begin ], [ %following, %next ]
{moves}{body}
  br label %next
next:
  %following = add i64 %i, 1
  %again = icmp slt i64 %following, %hi
  br i1 %again, label %matrix, label %end
end:
{leave}
{after}
  ret void
}}"""
