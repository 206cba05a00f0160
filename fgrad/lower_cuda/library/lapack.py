"""L6. Linear algebra on the device by cuSOLVER and cuBLAS, whose memory is column-major.

To them a row-major matrix is its transpose, as it is to LAPACK (compile/cpu/lapack.py), and the
same routines are chosen so that little is moved.  A stack is one call of a batched routine, or one
for each matrix, which the host program repeats; small real matrices have kernels of our own.  A
matrix that cannot be factored is noted in an int32, and becomes a LinAlgError after the program has
run.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable

import numpy as np

from fgrad.compile.tasks.routines import MESSAGES, SINGULAR
from fgrad.lower_cuda.emit.calls import Address, Argument, Calls, Number
from fgrad.lower_cuda.library import small as library_small
from fgrad.lower_cuda.library.cublaslt import DATA_TYPES
from fgrad.lower_cuda.library.matrices import (
    Stack,
    addresses,
    clear_above,
    count_from_zero,
    order_of,
    reorder,
    transpose,
    upper,
    with_parts,
    zero_diagonals,
)
from fgrad.lower_cuda.library.plan import Planner, real_dtype
from fgrad.lower_cuda.library.small import Small, Triangle, is_small, solve_triangle

PREFIX = {"f": "S", "d": "D", "F": "C", "D": "Z"}
LOWER, UPPER = 0, 1  # cublasFillMode
RIGHT = 1  # cublasSideMode
BATCHED = 256  # rows up to which one call for all matrices is faster
_NULL = Number("i64", 0)


class _Lapack(Planner):
    """Plans calls for a stack of matrices of one dtype."""

    def __init__(self, buffers: int, dtype: np.dtype, batch: int) -> None:
        super().__init__(buffers)
        self.dtype, self.batch, self.size = dtype, batch, dtype.itemsize
        self.letter = PREFIX[dtype.char]
        self.info = self.scratch(4 * batch)

    def moved(self, place: Address, elements: int, size: int | None = None) -> Address:
        """A place that goes on to the next matrix in each repetition."""
        return place._replace(step=elements * (size or self.size))

    def solver(self, routine: str, asks: tuple[int, ...], *arguments: Argument | int) -> None:
        """Call a routine of cuSOLVER for each matrix; `WORK` stands for its work memory, and the
        last argument is where it says whether it succeeded."""
        name = f"cusolverDn{self.letter}{routine}"
        handle = self.functions.handle("cusolver")
        work = self.asked(f"{name}_bufferSize", int(handle.value), *asks)
        space = self.scratch(work * self.size)
        info = self.moved(self.info, 1, 4)
        given: list[Argument | int] = []
        for x in arguments:
            if x is WORK:
                given += [space, work]
            else:
                given.append(space if x is SPACE else x)
        self.call(name, handle, *given, info, count=self.batch)

    def triangle(
        self,
        a: Address,
        x: Address,
        size: tuple[int, int],
        lower: bool,
        trans: bool,
        unit: bool,
    ) -> None:
        """x := op(a)^-1 x for row-major a, the library's a^T: x^T := x^T op(a)^-T."""
        n, k = size
        if is_small(self.dtype, n):
            how = Triangle(lower, trans, unit)
            solve_triangle(self, Small(self.dtype, n, self.batch), k, how, a, x)
            return
        real = ctypes.c_double if self.dtype.char in "dD" else ctypes.c_float
        how = (RIGHT, UPPER if lower else LOWER, int(trans), int(unit), k, n)
        handle, one = self.functions.handle("cublas"), self.cells.number(real, 1.0, 0.0)
        if not self.is_batched(n):
            moved, result = self.moved(a, n * n), self.moved(x, n * k)
            name = f"cublas{self.letter}trsm_v2"
            self.call(name, handle, *how, one, moved, n, result, k, count=self.batch)
            return
        left, right = self.addresses(a, n * n), self.addresses(x, n * k)
        name = f"cublas{self.letter}trsmBatched"
        self.call(name, handle, *how, one, left, n, right, k, self.batch)

    def is_batched(self, n: int) -> bool:
        """Whether one call for all matrices is faster than one for each."""
        return self.batch > 1 and n <= BATCHED

    def addresses(self, place: Address, elements: int) -> Address:
        """The addresses of the matrices of a stack."""
        return addresses(self, place, elements * self.size, self.batch)

    def succeeded(self, name: str) -> Calls:
        """All calls, with a check of what the routine said."""
        self.check(MESSAGES[name], self.info, self.batch)
        return self.finish()


WORK = Number("i64", -1)  # work memory and its length
SPACE = Number("i64", -2)  # work memory


def cholesky(dtype: np.dtype, n: int, batch: int, buffers: int) -> Calls:
    """l with l l^T = a.  Buffers: a, l."""
    plan, out = _Lapack(buffers, dtype, batch), Address(1)
    if is_small(dtype, n):
        library_small.cholesky(plan, Small(dtype, n, batch), Address(0), out, plan.info)
        return plan.succeeded("cholesky")
    plan.copy(out, Address(0), batch * n * n * plan.size)
    if not plan.is_batched(n):
        plan.solver("potrf", (UPPER, n, 0, n), UPPER, n, plan.moved(out, n * n), n, WORK)
    else:
        handle, name = plan.functions.handle("cusolver"), f"cusolverDn{plan.letter}potrfBatched"
        plan.call(name, handle, UPPER, n, plan.addresses(out, n * n), n, plan.info, batch)
    clear_above(plan, out, dtype, n, batch)
    return plan.succeeded("cholesky")


def triangular_solve(
    dtype: np.dtype, n: int, k: int, batch: int, lower: bool, trans: bool, unit: bool, buffers: int
) -> Calls:
    """x with op(a) x = b.  Buffers: a, b, x."""
    plan = _Lapack(buffers, dtype, batch)
    plan.copy(Address(2), Address(1), batch * n * k * plan.size)
    plan.triangle(Address(0), Address(2), (n, k), lower, trans, unit)
    if not unit:
        plan.check(SINGULAR, zero_diagonals(plan, Address(0), dtype, n, batch), batch)
    return plan.finish()


def factor(dtype: np.dtype, n: int, batch: int, buffers: int) -> Calls:
    """Packed factors of a^T, exchanges from 0.  Buffers: a, packed, pivots."""
    plan, packed, pivots = _Lapack(buffers, dtype, batch), Address(1), Address(2)
    if is_small(dtype, n):
        library_small.factor(plan, Small(dtype, n, batch), Address(0), packed, pivots)
        return plan.finish()
    plan.copy(packed, Address(0), batch * n * n * plan.size)
    if plan.is_batched(n):
        handle, name = plan.functions.handle("cublas"), f"cublas{plan.letter}getrfBatched"
        matrices = plan.addresses(packed, n * n)
        plan.call(name, handle, n, matrices, n, pivots, plan.info, batch)
        count_from_zero(plan, pivots, batch * n)
    else:
        _getrf(plan, packed, pivots, n, n)
    return plan.finish()


def _getrf(plan: _Lapack, matrices: Address, pivots: Address, m: int, n: int) -> None:
    """Factor column-major m x n matrices in place."""
    k = min(m, n)
    moved, exchanges = plan.moved(matrices, m * n), plan.moved(pivots, k, 4)
    plan.solver("getrf", (m, n, 0, m), m, n, moved, m, SPACE, exchanges)
    count_from_zero(plan, pivots, plan.batch * k)


def lu_solve(dtype: np.dtype, n: int, k: int, batch: int, trans: bool, buffers: int) -> Calls:
    """x with op(a) x = b, by the factors of a^T.  Buffers: packed, pivots, b, x.

    a = u^T l^T p^T:  x = p l^-T u^-T b;   a^T = p l u:  x = u^-1 l^-1 p^T b
    """
    plan = _Lapack(buffers, dtype, batch)
    packed, pivots, b, x = (Address(i) for i in range(4))
    order, size = plan.scratch(8 * batch * n), (batch, n, k)
    order_of(plan, order, pivots, (batch, n, n))
    # To us the memory holds l^T above a diagonal of ones, and u^T below.
    if trans:
        reorder(plan, x, b, order, dtype, size)
        plan.triangle(packed, x, (n, k), False, True, True)
        plan.triangle(packed, x, (n, k), True, True, False)
    else:
        y = plan.scratch(batch * n * k * plan.size)
        plan.copy(y, b, batch * n * k * plan.size)
        plan.triangle(packed, y, (n, k), True, False, False)
        plan.triangle(packed, y, (n, k), False, False, True)
        reorder(plan, x, y, order, dtype, size, back=True)
    plan.check(SINGULAR, zero_diagonals(plan, packed, dtype, n, batch), batch)
    return plan.finish()


def lu(dtype: np.dtype, m: int, n: int, batch: int, buffers: int) -> Calls:
    """Packed factors of a, exchanges from 0, the order of the rows.  Buffers: a, packed, pivots,
    order."""
    plan = _Lapack(buffers, dtype, batch)
    a, packed, pivots, order = (Address(i) for i in range(4))
    columns = plan.scratch(batch * m * n * plan.size)
    transpose(plan, Stack(columns, m * n), Stack(a, m * n), dtype, (batch, m, n))
    _getrf(plan, columns, pivots, m, n)
    transpose(plan, Stack(packed, m * n), Stack(columns, m * n), dtype, (batch, n, m))
    order_of(plan, order, pivots, (batch, m, min(m, n)))
    return plan.finish()


def pivots_order(n: int, batch: int, buffers: int) -> Calls:
    """The order of the rows.  Buffers: exchanges, order."""
    plan = Planner(buffers)
    order_of(plan, Address(1), Address(0), (batch, n, n))
    return plan.finish()


def qr(dtype: np.dtype, m: int, n: int, batch: int, complete: bool, buffers: int) -> Calls:
    """Orthonormal and triangular factors.  Buffers: a, q, r."""
    plan, k = _Lapack(buffers, dtype, batch), min(m, n)
    columns = m if complete else k
    step = m * max(n, columns)
    work, tau = plan.scratch(batch * step * plan.size), plan.scratch(batch * k * plan.size)
    matrices, scales = plan.moved(work, step), plan.moved(tau, k)
    transpose(plan, Stack(work, step), Stack(Address(0), m * n), dtype, (batch, m, n))
    plan.solver("geqrf", (m, n, 0, m), m, n, matrices, m, scales, WORK)
    upper(plan, Address(2), Stack(work, step), dtype, (batch, columns, n, m))
    routine = "ungqr" if dtype.kind == "c" else "orgqr"
    plan.solver(routine, (m, columns, k, 0, m, 0), m, columns, k, matrices, m, scales, WORK)
    target = Stack(Address(1), m * columns)
    transpose(plan, target, Stack(work, step), dtype, (batch, columns, m))
    return plan.succeeded("qr")


def svd(
    dtype: np.dtype, m: int, n: int, batch: int, buffers: int, full: bool = False,
    vectors: bool = True,
) -> Calls:  # fmt: skip
    """Singular values and vectors.  Buffers: a, u, s, vh (or a, s).

    The routine wants at least as many rows as columns.  A wide a is a tall matrix to it as it is:
    a^T = U S V, so that u = V^T and vh = U^T, which is how they lie in memory.
    """
    plan, k = _Lapack(buffers, dtype, batch), min(m, n)
    u, values, vh = (Address(1), Address(2), Address(3)) if vectors else (Address(1),) * 3
    values = plan.moved(values, k, real_dtype(dtype).itemsize)
    work = plan.scratch(batch * m * n * plan.size)
    if n >= m:
        plan.copy(work, Address(0), batch * m * n * plan.size)
        _gesvd(plan, work, (n, m), (vh, values, u), full, vectors)
        return plan.succeeded("svd")
    transpose(plan, Stack(work, m * n), Stack(Address(0), m * n), dtype, (batch, m, n))
    columns = m if full else k
    left = plan.scratch(batch * m * columns * plan.size) if vectors else u
    right = plan.scratch(batch * n * n * plan.size) if vectors else u
    _gesvd(plan, work, (m, n), (left, values, right), full, vectors)
    if vectors:
        step = m * columns
        transpose(plan, Stack(u, step), Stack(left, step), dtype, (batch, columns, m))
        transpose(plan, Stack(vh, n * n), Stack(right, n * n), dtype, (batch, n, n))
    return plan.succeeded("svd")


def _gesvd(
    plan: _Lapack, work: Address, size: tuple[int, int], outs: tuple[Address, Address, Address],
    full: bool, vectors: bool,
) -> None:  # fmt: skip
    """Decompose column-major m x n matrices, m >= n, which are lost."""
    m, n = size
    job = ord(("A" if full else "S") if vectors else "N")
    left, values, right = outs
    left, right = plan.moved(left, m * (m if full else n)), plan.moved(right, n * n)
    given = (left, m, right, n) if vectors else (_NULL, m, _NULL, n)
    plan.solver(
        "gesvd", (m, n), job, job, m, n, plan.moved(work, m * n), m, values, *given, WORK, _NULL
    )


def svdvals(dtype: np.dtype, m: int, n: int, batch: int, buffers: int) -> Calls:
    """Singular values.  Buffers: a, s."""
    return svd(dtype, m, n, batch, buffers, vectors=False)


def eigh(
    dtype: np.dtype, n: int, batch: int, lower: bool, buffers: int, vectors: bool = True
) -> Calls:
    """Eigenvalues and eigenvectors.  Buffers: a, w, v (or a, w).

    The routine sees a^T, the conjugate of a: its vectors are conjugate to ours.
    """
    plan, real = _Lapack(buffers, dtype, batch), real_dtype(dtype)
    work, values = plan.scratch(batch * n * n * plan.size), Address(1)
    plan.copy(work, Address(0), batch * n * n * plan.size)
    job, triangle = int(vectors), UPPER if lower else LOWER
    if batch == 1:
        name = "heevd" if dtype.kind == "c" else "syevd"
        plan.solver(name, (job, triangle, n, 0, n, 0), job, triangle, n, work, n, values, WORK)
    else:
        _batched(plan, work, values, (n, job, triangle), real)
    if vectors:
        target, source = Stack(Address(2), n * n), Stack(work, n * n)
        transpose(plan, target, source, dtype, (batch, n, n), conjugate=True)
    return plan.succeeded("eigh")


def _batched(
    plan: _Lapack,
    work: Address,
    values: Address,
    sizes: tuple[int, int, int],
    real: np.dtype,
) -> None:
    """Eigenvalues of all matrices in one call."""
    n, job, triangle = sizes
    kind, kind_w = DATA_TYPES[plan.dtype.name], DATA_TYPES[real.name]
    order, batch = (Number("i64", x) for x in (n, plan.batch))
    x = _Generic(plan, "cusolverDnXsyevBatched")
    x.ask(job, triangle, n, kind, 0, n, kind_w, 0, kind, after=(plan.batch,))
    given = (job, triangle, order, kind, work, order, kind_w, values, kind)
    x.call(*given, after=(plan.info, batch))


class _Generic:
    """A routine of the kind that takes types of numbers as arguments, and has work memory on the
    device and on the host."""

    def __init__(self, plan: _Lapack, name: str) -> None:
        self.plan, self.name = plan, name
        self.handle = plan.functions.handle("cusolver")
        made = plan.functions.created("cusolverDnCreateParams")
        self.params = plan.cells.own(plan.functions, "cusolverDnDestroyParams", made)

    def ask(self, *arguments: int, after: tuple[int, ...] = ()) -> None:
        """Ask how much work memory is needed."""
        plan = self.plan
        sizes = plan.cells.address(ctypes.c_uint64, 0, 0)
        given = (int(self.handle.value), self.params, *arguments, sizes, sizes + 8, *after)
        plan.functions.call(f"{self.name}_bufferSize", *given)
        device, host = (ctypes.c_uint64 * 2).from_address(sizes)
        on_host = plan.cells.number(ctypes.c_uint8, *[0] * max(host, 1))
        lengths = [Number("i64", size) for size in (device, host)]
        self.work = (plan.scratch(device), lengths[0], on_host, lengths[1])

    def call(self, *arguments: Argument | int, after: tuple[Argument, ...], count: int = 1) -> None:
        """Add the call."""
        given = (Number("i64", self.params), *arguments, *self.work, *after)
        self.plan.call(self.name, self.handle, *given, count=count)


def eig(dtype: np.dtype, n: int, batch: int, buffers: int, vectors: bool = True) -> Calls:
    """Eigenvalues and eigenvectors of any matrices, all complex.  Buffers: a, w, v (or a, w)."""
    wide = np.dtype(dtype.char.upper())
    plan, source = _Lapack(buffers, wide, batch), Address(0)
    work, found = (plan.scratch(batch * n * n * plan.size) for _ in range(2))
    if dtype.kind != "c":
        with_parts(plan, found, source, dtype, batch * n * n)
        source = found
    transpose(plan, Stack(work, n * n), Stack(source, n * n), wide, (batch, n, n))
    kind, order, one = DATA_TYPES[wide.name], Number("i64", n), Number("i64", 1)
    x = _Generic(plan, "cusolverDnXgeev")
    x.ask(0, int(vectors), n, kind, 0, n, kind, 0, kind, 0, 1, kind, 0, n, kind)
    x.call(
        0, int(vectors), order, kind, plan.moved(work, n * n), order, kind,
        plan.moved(Address(1), n), kind, _NULL, one, kind, plan.moved(found, n * n), order, kind,
        after=(plan.moved(plan.info, 1, 4),), count=batch,
    )  # fmt: skip
    if vectors:
        transpose(plan, Stack(Address(2), n * n), Stack(found, n * n), wide, (batch, n, n))
    return plan.succeeded("eigh")


def eigvalsh(dtype: np.dtype, n: int, batch: int, lower: bool, buffers: int) -> Calls:
    """Eigenvalues.  Buffers: a, w."""
    return eigh(dtype, n, batch, lower, buffers, vectors=False)


def noted(message: str, size: int, buffers: int) -> Calls:
    """Fail where a flag, an int64, is set.  Buffer: the flags."""
    plan = Planner(buffers)
    plan.check(message, Address(0), 2 * size)
    return plan.finish()


def flags(buffers: int, **_: object) -> Calls:
    """Nothing: steps on stacks check on their own."""
    return Planner(buffers).finish()


LAPACK: dict[str, Callable[..., Calls]] = {
    "cholesky": cholesky,
    "triangular_solve": triangular_solve,
    "factor": factor,
    "lu_solve": lu_solve,
    "noted": noted,
    "flags": flags,
    "lu": lu,
    "pivots_order": pivots_order,
    "qr": qr,
    "svd": svd,
    "svdvals": svdvals,
    "eigh": eigh,
    "eigvalsh": eigvalsh,
}
