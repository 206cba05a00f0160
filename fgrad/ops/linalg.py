"""L3. Linear systems: triangular and LU factors, solutions, determinants.

Matrices stand in the last two axes.  Derivatives are those of the function that NumPy computes:
where LAPACK reads one triangle of a matrix, the derivative with respect to the other one is zero.

[G] Giles, Collected matrix derivative results for forward and reverse mode differentiation, 2008.
[M] Murray, Differentiation of the Cholesky decomposition, 2016.
[H] de Hoog, Anderssen, Lukas, Differentiation of matrix functionals using triangular
    factorization, 2011.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any

import numpy as np

from fgrad.base.lazy_import import lazy_module
from fgrad.ir import traits
from fgrad.ir.aval import INT32, INT64, Aval
from fgrad.ir.primitive import DISCRETE, NOT_LINEAR, OUT, Primitive
from fgrad.ops.complex import conj
from fgrad.ops.composed import compose_when_compiled
from fgrad.ops.diagonals import diagonal, on_diagonal
from fgrad.ops.elementwise import (
    add,
    ge,
    lit,
    mul,
    neg,
    select,
    stop_gradient,
    sub,
)
from fgrad.ops.index import gather
from fgrad.ops.matrices import (
    adjoint,
    batch_leading,
    batch_solution,
    block,
    check_equal,
    check_matrix,
    each_matrix,
    hermitian,
    identity_like,
    lower_triangle,
    matmul,
    pull_hermitian,
    transposed,
    upper_triangle,
)
from fgrad.ops.shape import iota, pad
from fgrad.ops.stacked import pull_stacked
from fgrad.trace import Tracer, Value, bind
from fgrad.tracing.fastpath import bind_one
from fgrad.typing import EqnParams

blas = lazy_module("scipy.linalg.blas")
lapack = lazy_module("scipy.linalg.lapack")

STACKED = 64  # rows up to which stacks of matrices are solved natively rather than one by one
_PREFIXES = {"f": "s", "d": "d", "F": "c", "D": "z"}


def library_routine(module: ModuleType, name: str, dtype: np.dtype) -> Callable[..., Any]:
    """SciPy's wrapper of a BLAS or LAPACK routine for a dtype: `potrf` is `dpotrf` for float64."""
    return getattr(module, _PREFIXES[dtype.char] + name)


# --- cholesky: a = l l^H

cholesky_p = Primitive("cholesky", traits.whole(flops_over_n3=1 / 3))


@cholesky_p.type_rule
def _(a: Aval) -> Aval:
    check_matrix(cholesky_p, a, square=True)
    return a.strong()


cholesky_p.evaluate(np.linalg.cholesky)


@cholesky_p.jvp
def _(primals: Sequence[Value], tangents: Sequence[Value], out: Value) -> Value:
    """dl = l phi(l^-1 da l^-H), phi: the lower triangle with half the diagonal [M, eq. 8]."""
    da = hermitian(tangents[0])
    half = solve_lower(out, da)
    w = lower_triangle(solve_lower(out, adjoint(half)))
    return matmul(out, sub(w, mul(on_diagonal(diagonal(w)), lit(w, 0.5))))


def _pull_cholesky(
    cts: Sequence[Value], _wanted: object, _values: object, outs: Sequence[Value], _params: object
) -> list[Value]:
    """g = l^-T phi(l^T ct) conj(l)^-1, pulled back to the triangle that is read [M, eq. 10]."""
    (ct,), (factor,) = cts, outs
    w = lower_triangle(matmul(transposed(factor), ct))
    w = sub(w, mul(on_diagonal(diagonal(w)), lit(w, 0.5)))
    half = transposed(triangular_solve(factor, w, True, trans=True))
    return [pull_hermitian(transposed(triangular_solve(conj(factor), half, True, trans=True)))]


cholesky_p.pullback = _pull_cholesky
cholesky_p.refuse("transpose", NOT_LINEAR)
batch_leading(cholesky_p)


def cholesky(a: Value) -> Value:
    """The lower Cholesky factor of Hermitian matrices, whose lower triangles are read."""
    return bind_one(cholesky_p, a, {})


# --- triangular_solve: op(a) x = b, one triangle of a being read

triangular_solve_p = Primitive(
    "triangular_solve", traits.whole(), params=("lower", "trans", "unit"), linear_in=(1,)
)


@triangular_solve_p.type_rule
def _(a: Aval, b: Aval, *, lower: bool, trans: bool, unit: bool) -> Aval:
    return _solution_type(triangular_solve_p, a, b)


def _solution_type(prim: Primitive, a: Aval, b: Aval) -> Aval:
    check_matrix(prim, a, square=True)
    check_matrix(prim, b)
    check_equal(prim, (*a.shape[:-1],), (*b.shape[:-1],))
    check_equal(prim, a.dtype, b.dtype)
    return b.strong()


@triangular_solve_p.evaluate
def _(a: np.ndarray, b: np.ndarray, *, lower: bool, trans: bool, unit: bool) -> np.ndarray:
    """By trsm, since trtrs starts threads for the smallest matrices; stacks of small matrices by
    NumPy's general solver, which loops over them natively."""
    if a.ndim > 2 and a.shape[-1] <= STACKED:
        part = _evaluated_triangle(a, lower, unit)
        return np.linalg.solve(np.swapaxes(part, -1, -2) if trans else part, b)
    trsm = library_routine(blas, "trsm", a.dtype)

    def one(a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray]:
        low, flip = lower, trans
        if not unit:
            _check_singular(a)
        if not a.flags.c_contiguous:
            a, low, flip = a.T, not low, not flip
        # Read by columns, row-major matrices are transposed: x^T = b^T op(a)^-T.
        return (trsm(1.0, a.T, b.T, True, not low, flip, unit).T,)

    return each_matrix(one, [(b.shape[-2:], b.dtype)], a, b)[0]


def _evaluated_triangle(a: np.ndarray, lower: bool, unit: bool) -> np.ndarray:
    n, cut = a.shape[-1], np.tril if lower else np.triu
    if not unit:
        return cut(a)
    return cut(a, -1 if lower else 1) + np.eye(n, dtype=a.dtype)


def _check_singular(triangular: np.ndarray) -> None:
    if not triangular.diagonal().all():
        raise np.linalg.LinAlgError("Singular matrix")


@triangular_solve_p.jvp
def _(
    primals: Sequence[Value],
    tangents: Sequence[Value | None],
    x: Value,
    *,
    lower: bool,
    trans: bool,
    unit: bool,
) -> Value | None:
    """dx = op(a)^-1 (db - op(da) x), da on its triangle [G, 2.3.1]."""
    (a, _), (da, db) = primals, tangents
    if da is not None:
        part = _triangle(da, lower, unit)
        moved = neg(matmul(transposed(part) if trans else part, x))
        db = moved if db is None else add(db, moved)
    return None if db is None else triangular_solve(a, db, lower, trans, unit)


def _triangle(a: Value, low: bool, unit: bool) -> Value:
    return lower_triangle(a, -1 if unit else 0) if low else upper_triangle(a, 1 if unit else 0)


@triangular_solve_p.transpose
def _(
    ct: Value, wanted: Sequence[bool], a: Value, b: Value, *, lower: bool, trans: bool, unit: bool
) -> tuple[None, Value]:
    return None, triangular_solve(a, ct, lower, not trans, unit)


def _pull_triangular(
    cts: Sequence[Value],
    wanted: Sequence[bool],
    values: Sequence[Value],
    outs: Sequence[Value],
    params: EqnParams,
) -> list[Value | None]:
    ct_b = triangular_solve(values[0], cts[0], **{**params, "trans": not params["trans"]})
    if not wanted[0]:
        return [None, ct_b]
    ct_a = _pull_matrix(ct_b, outs[0], params["trans"])
    return [_triangle(ct_a, params["lower"], params["unit"]), ct_b if wanted[1] else None]


def _pull_matrix(ct_b: Value, x: Value, trans: bool) -> Value:
    """The cotangent of a where op(a) x = b: -ct_b x^T, or its transpose [G, 2.3.1]."""
    left, right = (x, ct_b) if trans else (ct_b, x)
    return neg(matmul(left, transposed(right)))


triangular_solve_p.pullback = _pull_triangular
batch_solution(triangular_solve_p)


def triangular_solve(
    a: Value, b: Value, lower: bool = True, trans: bool = False, unit: bool = False
) -> Value:
    """x with op(a) x = b for triangular a: op is the plain transpose if `trans`; with `unit` the
    diagonal counts as ones.  The other triangle of `a` is not read."""
    return bind(triangular_solve_p, a, b, lower=lower, trans=trans, unit=unit)


def solve_lower(a: Value, b: Value) -> Value:
    """a^-1 b for lower triangular a."""
    return triangular_solve(a, b, True)


def divide_upper(b: Value, a: Value) -> Value:
    """b a^-1 for upper triangular a."""
    return transposed(triangular_solve(a, transposed(b), False, trans=True))


# --- lu: p a = l u, packed as in LAPACK

lu_p = Primitive("lu", traits.whole(flops_over_n3=2 / 3), multiple=True)


@lu_p.type_rule
def _(a: Aval) -> tuple[Aval, Aval, Aval]:
    check_matrix(lu_p, a)
    *lead, m, n = a.shape
    return a.strong(), Aval((*lead, min(m, n)), INT32), Aval((*lead, m), INT64)


@lu_p.evaluate
def _(a: np.ndarray) -> tuple[np.ndarray, ...]:
    getrf = library_routine(lapack, "getrf", a.dtype)
    m, n = a.shape[-2:]

    def one(a: np.ndarray) -> tuple[np.ndarray, ...]:
        packed, pivots, _ = getrf(a)
        return packed, pivots, permutation_of(pivots, m)

    shapes = [((m, n), a.dtype), ((min(m, n),), INT32), ((m,), INT64)]
    packed, pivots, order = each_matrix(one, shapes, a)
    if not a.size:
        order[...] = np.arange(m)
    return packed, pivots.astype(INT32, copy=False), order


def permutation_of(pivots: np.ndarray, m: int) -> np.ndarray:
    """The order of the rows after LAPACK's exchanges of row i with row pivots[i]."""
    order = np.arange(m, dtype=INT64)
    for i, p in enumerate(pivots.tolist()):
        if i != p:
            order[i], order[p] = order[p], order[i]
    return order


@lu_p.jvp
def _(
    primals: Sequence[Value], tangents: Sequence[Value], outs: Sequence[Value]
) -> tuple[Value, None, None]:
    """dl = l tril(f, -1), du = triu(f) u with f = l^-1 (p da) u^-1; l and u are made square by
    identities where a is not [H, section 3]."""
    packed, _, order = outs
    low, up = lu_factors(packed)
    f = divide_upper(triangular_solve(low, permute_rows(tangents[0], order), unit=True), up)
    return add(matmul(low, lower_triangle(f, -1)), matmul(upper_triangle(f), up)), None, None


def lu_factors(packed: Value) -> tuple[Value, Value]:
    """Square l and u of a packed (m, n) factorisation: p a = l [i] u with [i] of shape (m, n)."""
    m, n = packed.shape[-2:]
    k = min(m, n)
    lead = len(packed.shape) - 2
    low = lower_triangle(block(packed, 0, m, 0, k), -1)
    low = pad(low, (0,) * (lead + 2), (*[0] * (lead + 1), m - k))
    up = upper_triangle(block(packed, 0, k, 0, n))
    up = pad(up, (0,) * (lead + 2), (*[0] * lead, n - k, 0))
    if n > k:
        rest = diagonal(identity_like(up))
        tail = ge(iota(rest.shape, INT64, lead), np.int64(k))
        up = add(up, on_diagonal(select(tail, rest, lit(rest, 0))))
    return add(low, identity_like(low)), up


def permute_rows(a: Value, order: Value) -> Value:
    """Row i of the result is row order[i] of `a`."""
    lead = order.shape[:-1]
    where = [iota(order.shape, INT64, i) for i in range(len(lead))]
    return gather(a, (*where, order), tuple(range(len(lead) + 1)))


lu_p.refuse("transpose", NOT_LINEAR)
batch_leading(lu_p)


def lu(a: Value) -> tuple[Value, Value, Value]:
    """The packed factors, the exchanges of rows (from 0) and the resulting order of the rows."""
    return bind(lu_p, a)


pivots_order_p = Primitive("pivots_order", traits.whole())


@pivots_order_p.type_rule
def _(pivots: Aval) -> Aval:
    return Aval(pivots.shape, INT64)


@pivots_order_p.evaluate
def _(pivots: Value) -> np.ndarray:
    order = np.empty(pivots.shape, INT64)
    for lane in np.ndindex(*pivots.shape[:-1]):
        order[lane] = permutation_of(pivots[lane], pivots.shape[-1])
    return order


pivots_order_p.refuse("jvp", DISCRETE)
batch_leading(pivots_order_p)


def pivots_order(pivots: Value) -> Value:
    """The order of the rows of square matrices after their exchanges."""
    return bind(pivots_order_p, pivots)


# --- factor: a^T = p l u, the transpose of what LAPACK packs: in row-major order, its own memory

factor_p = Primitive("factor", traits.whole(flops_over_n3=2 / 3), multiple=True)


@factor_p.type_rule
def _(a: Aval) -> tuple[Aval, Aval]:
    check_matrix(factor_p, a, square=True)
    return a.strong(), Aval(a.shape[:-1], INT32)


@factor_p.evaluate
def _(a: np.ndarray) -> tuple[np.ndarray, ...]:
    getrf = library_routine(lapack, "getrf", a.dtype)

    def one(a: np.ndarray) -> tuple[np.ndarray, ...]:
        packed, pivots, _ = getrf(a.T)
        return packed.T, pivots.astype(INT32, copy=False)

    return each_matrix(one, [(a.shape[-2:], a.dtype), (a.shape[-1:], INT32)], a)


factor_p.refuse("jvp", "is applied to matrices without a derivative: see `lu_solve`")
factor_p.refuse("transpose", NOT_LINEAR)
batch_leading(factor_p)


def factor(a: Value) -> tuple[Value, Value]:
    """Packed factors and exchanges for `lu_solve`, `slogdet` and `det`; no derivative passes."""
    return bind(factor_p, stop_gradient(a))


# --- lu_solve: op(a) x = b, with the factors of a

lu_solve_p = Primitive("lu_solve", traits.whole(), params=("trans",), linear_in=(3,))


@lu_solve_p.type_rule
def _(a: Aval, packed: Aval, pivots: Aval, b: Aval, *, trans: bool) -> Aval:
    check_equal(lu_solve_p, a.shape, packed.shape)
    return _solution_type(lu_solve_p, a, b)


@lu_solve_p.evaluate
def _(
    a: Value, packed: np.ndarray, pivots: np.ndarray, b: np.ndarray, *, trans: bool
) -> np.ndarray:
    """x = p l^-T u^-T b, or u^-1 l^-1 p^T b; the memory holds u^T below l^T.

    By getrs for one column; for more, it starts threads for the smallest matrices.
    """
    trsm = library_routine(blas, "trsm", b.dtype)
    getrs = library_routine(lapack, "getrs", b.dtype)

    def one(packed: np.ndarray, pivots: np.ndarray, b: np.ndarray) -> tuple[np.ndarray]:
        _check_singular(packed)
        if b.shape[1] == 1:
            return (getrs(packed.T, pivots, b, not trans)[0],)
        order = permutation_of(pivots, len(pivots))
        if trans:
            half = trsm(1.0, packed.T, b[order].T, True, True, True, True)
            return (trsm(1.0, packed.T, half, True, False, True, False, overwrite_b=True).T,)
        half = trsm(1.0, packed.T, b.T, True, False, False, False)
        half = trsm(1.0, packed.T, half, True, True, False, True, overwrite_b=True).T
        x = np.empty_like(half)
        x[order] = half
        return (x,)

    return each_matrix(one, [(b.shape[-2:], b.dtype)], packed, pivots, b)[0]


@lu_solve_p.jvp
def _(
    primals: Sequence[Value], tangents: Sequence[Value | None], x: Value, *, trans: bool
) -> Value | None:
    """dx = op(a)^-1 (db - op(da) x); the factors are a function of a [G, 2.3.1]."""
    (a, packed, pivots, _), (da, _, _, db) = primals, tangents
    if da is not None:
        moved = neg(matmul(transposed(da) if trans else da, x))
        db = moved if db is None else add(db, moved)
    return None if db is None else lu_solve(a, packed, pivots, db, trans)


@lu_solve_p.transpose
def _(
    ct: Value,
    wanted: Sequence[bool],
    a: Value,
    packed: Value,
    pivots: Value,
    b: Value,
    *,
    trans: bool,
) -> tuple[None, None, None, Value]:
    return None, None, None, lu_solve(a, packed, pivots, ct, not trans)


def _pull_lu_solve(
    cts: Sequence[Value],
    wanted: Sequence[bool],
    values: Sequence[Value],
    outs: Sequence[Value],
    params: EqnParams,
) -> list[Value | None]:
    a, packed, pivots = values[:3]
    ct_b = lu_solve(a, packed, pivots, cts[0], not params["trans"])
    ct_a = _pull_matrix(ct_b, outs[0], params["trans"]) if wanted[0] else None
    return [ct_a, None, None, ct_b if wanted[3] else None]


lu_solve_p.pullback = _pull_lu_solve
batch_solution(lu_solve_p)


def lu_solve(a: Value, packed: Value, pivots: Value, b: Value, trans: bool = False) -> Value:
    """x with op(a) x = b, by the factors of a, through which no derivative passes."""
    return bind(lu_solve_p, a, packed, pivots, b, trans=trans)


# --- solve: the same without factors, for stacks of matrices in NumPy

solve_p = Primitive("solve", traits.whole(), params=("trans",), linear_in=(1,))


@solve_p.type_rule
def _(a: Aval, b: Aval, *, trans: bool) -> Aval:
    return _solution_type(solve_p, a, b)


@solve_p.evaluate
def _(a: Value, b: Value, *, trans: bool) -> np.ndarray:
    return np.linalg.solve(np.swapaxes(a, -1, -2) if trans else a, b)


@solve_p.jvp
def _(
    primals: Sequence[Value], tangents: Sequence[Value | None], x: Value, *, trans: bool
) -> Value | None:
    """dx = op(a)^-1 (db - op(da) x) [G, 2.3.1]."""
    a, (da, db) = primals[0], tangents
    if da is not None:
        moved = neg(matmul(transposed(da) if trans else da, x))
        db = moved if db is None else add(db, moved)
    return None if db is None else bind(solve_p, a, db, trans=trans)


@solve_p.transpose
def _(ct: Value, wanted: Sequence[bool], a: Value, b: Value, *, trans: bool) -> tuple[None, Value]:
    return None, bind(solve_p, a, ct, trans=not trans)


def _pull_solve(
    cts: Sequence[Value | None],
    wanted: Sequence[bool],
    values: Sequence[Value],
    outs: Sequence[Value],
    params: EqnParams,
) -> list[Value | None]:
    ct_b = bind(solve_p, values[0], cts[0], trans=not params["trans"])
    ct_a = _pull_matrix(ct_b, outs[0], params["trans"]) if wanted[0] else None
    return [ct_a, ct_b if wanted[1] else None]


solve_p.pullback = _pull_solve
batch_solution(solve_p)


def _keeps_factors(a: Value | None) -> bool:
    """Whether factors of a matrix are worth keeping: in programs that will be compiled, and of one
    known matrix; but not for stacks in NumPy, whose factors Python would make one by one, nor for
    small matrices, which NumPy factors again in less time."""
    while isinstance(a, Tracer):
        if not a.builder.eager:
            return True
        a = a.value
    return a is not None and a.ndim == 2 and a.shape[-1] > STACKED


def solve(a: Value, b: Value, trans: bool = False) -> Value:
    """x with op(a) x = b, for matrices a and b; derivatives use the same factors if there are."""
    if _keeps_factors(a):
        return lu_solve(a, *factor(a), b, trans)
    return bind(solve_p, a, b, trans=trans)


# --- inv

inv_p = Primitive("inv", traits.whole(), reads=((OUT,),))


@inv_p.type_rule
def _(a: Aval) -> Aval:
    check_matrix(inv_p, a, square=True)
    return a.strong()


inv_p.evaluate(np.linalg.inv)
inv_p.refuse("transpose", NOT_LINEAR)
compose_when_compiled(inv_p, lambda a: solve(a, identity_like(a)))


@inv_p.jvp
def _(primals: Sequence[Value], tangents: Sequence[Value], x: Value) -> Value:
    """dx = -x da x."""
    return neg(matmul(matmul(x, tangents[0]), x))


def _pull_inv(
    cts: Sequence[Value], _wanted: object, _values: object, outs: Sequence[Value], _params: object
) -> list[Value]:
    """ct_a = -x^T ct x^T."""
    turned = transposed(outs[0])
    return [neg(matmul(matmul(turned, cts[0]), turned))]


inv_p.pullback = _pull_inv
batch_leading(inv_p)


def inv(a: Value) -> Value:
    """The inverse."""
    return bind_one(inv_p, a, {})


for _prim in (cholesky_p, triangular_solve_p, lu_p, lu_solve_p, solve_p, inv_p):
    _prim.supports = pull_stacked
