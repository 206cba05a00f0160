"""L3. Orthogonal factors, singular values, eigenvalues and pseudo-inverses of matrices.

Factors are determined up to a gauge (signs and phases of vectors; rotations among vectors of equal
singular values or eigenvalues; bases of null spaces).  The derivatives are right for every function
that does not depend on the gauge; one that does has no derivative.  Where two singular values or
eigenvalues are equal, what would be divided by zero is left out: that is exact, to first order, for
such functions.  Equal eigenvalues have derivatives only as a set, which symmetric functions of them
use; second derivatives there are not defined.

[G] Giles, Collected matrix derivative results for forward and reverse mode differentiation, 2008.
[S] Seeger, Hetzel, Dai, Meissner, Lawrence, Auto-differentiating linear algebra, 2017.
[W] Walter, Lehmann, Walter, On higher-order derivatives of QR decompositions, 2012.
[P] Golub, Pereyra, The differentiation of pseudo-inverses and nonlinear least squares, 1973.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from fgrad.ir import traits
from fgrad.ir.aval import Aval
from fgrad.ir.primitive import NOT_LINEAR, Primitive
from fgrad.ops.complex import complex_dtype, conj, is_complex, real, real_dtype, to_complex
from fgrad.ops.diagonals import diagonal, on_diagonal
from fgrad.ops.elementwise import add, div, eq, lit, mul, neg, select, sub
from fgrad.ops.linalg import divide_upper, solve
from fgrad.ops.matrices import (
    adjoint,
    batch_leading,
    beside,
    block,
    check_matrix,
    hermitian,
    lower_triangle,
    matmul,
    per_column,
    per_row,
    pull_hermitian,
    real_part,
    require_finite,
    scale_columns,
    transposed,
)
from fgrad.ops.reduce import reduce_sum
from fgrad.ops.shape import pad
from fgrad.ops.stacked import pull_stacked
from fgrad.trace import Value, bind
from fgrad.tracing.fastpath import bind_one
from fgrad.typing import EqnParams


def inverse_or_zero(x: Value) -> Value:
    """1 / x, and 0 where x is 0."""
    zero = eq(x, lit(x, 0))
    return select(zero, lit(x, 0), div(lit(x, 1), select(zero, lit(x, 1), x)))


def _cast(x: Value, like: Value) -> Value:
    """Real numbers in the dtype of `like`."""
    return to_complex(x) if is_complex(like) else x


def _skew(lower_part: Value) -> Value:
    """l - l^H."""
    return sub(lower_part, adjoint(lower_part))


# --- qr: a = q r

qr_p = Primitive("qr", traits.whole(flops_over_n3=4 / 3), params=("complete",), multiple=True)


@qr_p.type_rule
def _(a: Aval, *, complete: bool) -> tuple[Aval, Aval]:
    check_matrix(qr_p, a)
    *lead, m, n = a.shape
    k = m if complete else min(m, n)
    return Aval((*lead, m, k), a.dtype), Aval((*lead, k, n), a.dtype)


@qr_p.evaluate
def _(a: Value, *, complete: bool) -> tuple[np.ndarray, np.ndarray]:
    q, r = np.linalg.qr(a, "complete" if complete else "reduced")
    return q, r


@qr_p.jvp
def _(
    primals: Sequence[Value], tangents: Sequence[Value], outs: Sequence[Value], *, complete: bool
) -> tuple[Value, Value]:
    """dq = q o + (i - q q^H) da r^-1, dr = (q^H da r^-1 - o) r with o skew and its strictly lower
    triangle that of q^H da r^-1 [W, section 3]; columns of a wide matrix beyond the square part
    follow from da = dq r + q dr, and the complement of q by dq' = -q dq^H q'."""
    (q, r), da = outs, tangents[0]
    m, n = da.shape[-2:]
    k = min(m, n)
    thin, square = block(q, 0, m, 0, k), block(r, 0, k, 0, k)
    y = divide_upper(block(da, 0, m, 0, k), square)
    x = matmul(adjoint(thin), y)
    o = _skew(lower_triangle(x, -1))
    if is_complex(da):
        line = diagonal(x)
        o = add(o, on_diagonal(sub(line, real_part(line))))
    dq = add(matmul(thin, sub(o, x)), y)
    dr = matmul(sub(x, o), square)
    if n > m:
        rest = block(r, 0, k, k, n)
        part = add(
            matmul(adjoint(thin), block(da, 0, m, k, n)),
            matmul(adjoint(dq), matmul(thin, rest)),
        )
        dr = beside(dr, part)
    if complete and m > n:
        dq = beside(dq, _complement(thin, dq, block(q, 0, m, k, m)))
        lead = len(dr.shape) - 2
        dr = pad(dr, (0,) * (lead + 2), (*[0] * lead, m - n, 0))
    return dq, dr


def _complement(q: Value, dq: Value, rest: Value) -> Value:
    """The change of an orthogonal complement that keeps it one: -q dq^H q'."""
    return neg(matmul(q, matmul(adjoint(dq), rest)))


def qr(a: Value, complete: bool = False) -> tuple[Value, Value]:
    """Orthonormal q and upper triangular r with a = q r; q square if `complete`.

    The derivative needs the leading columns of `a` to be independent.
    """
    return bind(qr_p, a, complete=complete)


# --- svd: a = u diag(s) v^H

svd_p = Primitive("svd", traits.whole(flops_over_n3=22.0), params=("full",), multiple=True)
svdvals_p = Primitive("svdvals", traits.whole(flops_over_n3=8 / 3))


@svd_p.type_rule
def _(a: Aval, *, full: bool) -> tuple[Aval, Aval, Aval]:
    check_matrix(svd_p, a)
    *lead, m, n = a.shape
    k = min(m, n)
    u, vh = (m, m if full else k), (n if full else k, n)
    return (
        Aval((*lead, *u), a.dtype),
        Aval((*lead, k), real_dtype(a.dtype)),
        Aval((*lead, *vh), a.dtype),
    )


@svd_p.evaluate
def _(a: Value, *, full: bool) -> tuple[np.ndarray, ...]:
    require_finite(a)
    return tuple(np.linalg.svd(a, full_matrices=full))


@svd_p.jvp
def _(
    primals: Sequence[Value], tangents: Sequence[Value], outs: Sequence[Value], *, full: bool
) -> tuple[Value, Value, Value]:
    """With p = u^H da v: ds = re diag p, du = u (f o (p s + s p^H) + d) + (i - u u^H) da v / s,
    dv = v (f o (s p + p^H s)) + (i - v v^H) da^H u / s, f_ij = 1 / (s_j^2 - s_i^2) and d the
    imaginary diagonal of p / s [S, section 4.2; G, 3.3]."""
    (u, s, vh), da = outs, tangents[0]
    m, n = da.shape[-2:]
    k = min(m, n)
    u1, v1 = block(u, 0, m, 0, k), adjoint(block(vh, 0, k, 0, n))
    av = matmul(da, v1)
    p = matmul(adjoint(u1), av)
    ph = adjoint(p)
    row, column = per_column(s, k), per_row(s, k)
    f = inverse_or_zero(mul(sub(row, column), add(row, column)))
    f, row, column = (_cast(x, da) for x in (f, row, column))
    left = mul(f, add(mul(p, row), mul(column, ph)))
    over_s = _cast(inverse_or_zero(s), da)
    if is_complex(da):
        phase = mul(sub(diagonal(p), real_part(diagonal(p))), over_s)
        left = add(left, on_diagonal(phase))
    du = matmul(u1, left)
    dv = matmul(v1, mul(f, add(mul(column, p), mul(ph, row))))
    if m > n:
        du = add(du, scale_columns(sub(av, matmul(u1, p)), over_s))
    if n > m:
        au = matmul(adjoint(da), u1)
        dv = add(dv, scale_columns(sub(au, matmul(v1, ph)), over_s))
    if full and m > n:
        du = beside(du, _complement(u1, du, block(u, 0, m, k, m)))
    if full and n > m:
        dv = beside(dv, _complement(v1, dv, adjoint(block(vh, k, n, 0, n))))
    return du, real(diagonal(p)), adjoint(dv)


def _pull_singular(u: Value, ct_s: Value, vh: Value) -> Value:
    """The cotangent of the matrix for that of its singular values: conj(u diag(ct_s) v^H)."""
    k = ct_s.shape[-1]
    u, vh = block(u, 0, u.shape[-2], 0, k), block(vh, 0, k, 0, vh.shape[-1])
    return conj(matmul(scale_columns(u, _cast(ct_s, u)), vh))


def _pull_svd(
    cts: Sequence[Value], _wanted: object, _values: object, outs: Sequence[Value], _params: object
) -> list[Value]:
    """That of singular values alone; the vectors by the transposed jvp."""
    (ct_u, ct_s, ct_vh), (u, _, vh) = cts, outs
    if ct_u is not None or ct_vh is not None:
        return NotImplemented
    return [_pull_singular(u, ct_s, vh)]


svd_p.pullback = _pull_svd


@svdvals_p.type_rule
def _(a: Aval) -> Aval:
    check_matrix(svdvals_p, a)
    return Aval((*a.shape[:-2], min(a.shape[-2:])), real_dtype(a.dtype))


@svdvals_p.evaluate
def _(a: Value) -> np.ndarray:
    return np.linalg.svd(a, compute_uv=False)


@svdvals_p.jvp
def _(primals: Sequence[Value], tangents: Sequence[Value], out: Value) -> Value:
    """ds = re diag(u^H da v)."""
    u, _, vh = svd(primals[0])
    return real(diagonal(matmul(matmul(adjoint(u), tangents[0]), adjoint(vh))))


def svd(a: Value, full: bool = False) -> tuple[Value, Value, Value]:
    """u, s, v^H with a = u diag(s) v^H; u and v square if `full`."""
    return bind(svd_p, a, full=full)


def _pull_svdvals(
    cts: Sequence[Value], _wanted: object, values: Sequence[Value], _outs: object, _params: object
) -> list[Value]:
    u, _, vh = svd(values[0])
    return [_pull_singular(u, cts[0], vh)]


svdvals_p.pullback = _pull_svdvals


def svdvals(a: Value) -> Value:
    """The singular values, in descending order."""
    return bind_one(svdvals_p, a, {})


# --- eigh: a = v diag(w) v^H

eigh_p = Primitive("eigh", traits.whole(flops_over_n3=9.0), params=("lower",), multiple=True)
eigvalsh_p = Primitive("eigvalsh", traits.whole(flops_over_n3=4 / 3), params=("lower",))


@eigh_p.type_rule
def _(a: Aval, *, lower: bool) -> tuple[Aval, Aval]:
    check_matrix(eigh_p, a, square=True)
    return Aval(a.shape[:-1], real_dtype(a.dtype)), a.strong()


@eigh_p.evaluate
def _(a: Value, *, lower: bool) -> tuple[np.ndarray, np.ndarray]:
    values, vectors = np.linalg.eigh(a, "L" if lower else "U")
    return values, vectors


@eigh_p.jvp
def _(
    primals: Sequence[Value], tangents: Sequence[Value], outs: Sequence[Value], *, lower: bool
) -> tuple[Value, Value]:
    """With p = v^H da v: dw = re diag p, dv = v (f o p), f_ij = 1 / (w_j - w_i) [G, 3.1]."""
    w, v = outs
    n = w.shape[-1]
    p = matmul(adjoint(v), matmul(hermitian(tangents[0], lower), v))
    f = _cast(inverse_or_zero(sub(per_column(w, n), per_row(w, n))), v)
    return real(diagonal(p)), matmul(v, mul(f, p))


def _pull_eigenvalues(v: Value, ct_w: Value | None, ct_v: Value | None, w: Any) -> Any:
    """The cotangent of the Hermitian matrix: conj(v) (diag ct_w + f o (v^T ct_v)) v^T."""
    back = transposed(v)
    total = None if ct_w is None else matmul(scale_columns(conj(v), _cast(ct_w, v)), back)
    if ct_v is None:
        return total
    n = v.shape[-1]
    f = _cast(inverse_or_zero(sub(per_column(w, n), per_row(w, n))), v)
    turned = matmul(matmul(conj(v), mul(f, matmul(back, ct_v))), back)
    return turned if total is None else add(total, turned)


def _pull_eigh(
    cts: Sequence[Value | None],
    _wanted: object,
    _values: object,
    outs: Sequence[Value],
    params: EqnParams,
) -> list[Value]:
    (ct_w, ct_v), (w, v) = cts, outs
    return [pull_hermitian(_pull_eigenvalues(v, ct_w, ct_v, w), params["lower"])]


eigh_p.pullback = _pull_eigh


@eigvalsh_p.type_rule
def _(a: Aval, *, lower: bool) -> Aval:
    check_matrix(eigvalsh_p, a, square=True)
    return Aval(a.shape[:-1], real_dtype(a.dtype))


@eigvalsh_p.evaluate
def _(a: Value, *, lower: bool) -> np.ndarray:
    return np.linalg.eigvalsh(a, "L" if lower else "U")


@eigvalsh_p.jvp
def _(primals: Sequence[Value], tangents: Sequence[Value], out: Value, *, lower: bool) -> Value:
    """dw = re diag(v^H da v)."""
    _, v = eigh(primals[0], lower)
    return real(diagonal(matmul(adjoint(v), matmul(hermitian(tangents[0], lower), v))))


def _pull_eigvalsh(
    cts: Sequence[Value | None],
    _wanted: object,
    values: Sequence[Value],
    _outs: object,
    params: EqnParams,
) -> list[Value]:
    _, v = eigh(values[0], params["lower"])
    return [pull_hermitian(_pull_eigenvalues(v, cts[0], None, None), params["lower"])]


eigvalsh_p.pullback = _pull_eigvalsh


def eigh(a: Value, lower: bool = True) -> tuple[Value, Value]:
    """Ascending eigenvalues and orthonormal eigenvectors of Hermitian matrices, of which one
    triangle is read."""
    return bind(eigh_p, a, lower=lower)


def eigvalsh(a: Value, lower: bool = True) -> Value:
    """The ascending eigenvalues of Hermitian matrices, of which one triangle is read."""
    return bind_one(eigvalsh_p, a, {"lower": lower})


# --- eig: a v = v diag(w), with complex results whatever the values

eig_p = Primitive(
    "eig", traits.whole(algorithm=traits.Algorithm.EIGENVALUES, flops_over_n3=25.0), multiple=True
)
eigvals_p = Primitive(
    "eigvals", traits.whole(algorithm=traits.Algorithm.EIGENVALUES, flops_over_n3=10.0)
)


@eig_p.type_rule
def _(a: Aval) -> tuple[Aval, Aval]:
    check_matrix(eig_p, a, square=True)
    dtype = complex_dtype(a.dtype)
    return Aval(a.shape[:-1], dtype), Aval(a.shape, dtype)


@eig_p.evaluate
def _(a: Value) -> tuple[np.ndarray, np.ndarray]:
    w, v = np.linalg.eig(a)
    dtype = complex_dtype(a.dtype)
    return w.astype(dtype, copy=False), v.astype(dtype, copy=False)


@eig_p.jvp
def _(
    primals: Sequence[Value], tangents: Sequence[Value], outs: Sequence[Value]
) -> tuple[Value, Value]:
    """With p = v^-1 da v: dw = diag p, dv = v (f o p) less what would change the length of the
    vectors, f_ij = 1 / (w_j - w_i) [G, 3.1]."""
    w, v = outs
    n = w.shape[-1]
    p = solve(v, matmul(to_complex(tangents[0]), v))
    f = inverse_or_zero(sub(per_column(w, n), per_row(w, n)))
    dv = matmul(v, mul(f, p))
    growth = real_part(reduce_sum(mul(conj(v), dv), (len(v.shape) - 2,)))
    return diagonal(p), sub(dv, scale_columns(v, growth))


@eigvals_p.type_rule
def _(a: Aval) -> Aval:
    check_matrix(eigvals_p, a, square=True)
    return Aval(a.shape[:-1], complex_dtype(a.dtype))


@eigvals_p.evaluate
def _(a: Value) -> np.ndarray:
    return np.linalg.eigvals(a).astype(complex_dtype(a.dtype), copy=False)


@eigvals_p.jvp
def _(primals: Sequence[Value], tangents: Sequence[Value], out: Value) -> Value:
    """dw = diag(v^-1 da v), in the order of `out`, which `eig` has too."""
    _, v = eig(primals[0])
    return diagonal(solve(v, matmul(to_complex(tangents[0]), v)))


def eig(a: Value) -> tuple[Value, Value]:
    """Eigenvalues and eigenvectors of unit length, in the columns of v; both complex.

    The derivative needs as many independent eigenvectors as there are.
    """
    return bind(eig_p, a)


def eigvals(a: Value) -> Value:
    """The eigenvalues, complex."""
    return bind_one(eigvals_p, a, {})


# --- pinv: the Moore-Penrose inverse

pinv_p = Primitive("pinv", traits.whole(flops_over_n3=24.0), params=("rcond",))


@pinv_p.type_rule
def _(a: Aval, *, rcond: float) -> Aval:
    check_matrix(pinv_p, a)
    *lead, m, n = a.shape
    return Aval((*lead, n, m), a.dtype)


@pinv_p.evaluate
def _(a: Value, *, rcond: float) -> np.ndarray:
    require_finite(a)
    return np.linalg.pinv(a, rcond)


@pinv_p.jvp
def _(primals: Sequence[Value], tangents: Sequence[Value], b: Value, *, rcond: float) -> Value:
    """db = -b da b + b b^H da^H (i - a b) + (i - b a) da^H b^H b, at constant rank [P, 4.12]."""
    (a,), (da,) = primals, tangents
    bh, dah = adjoint(b), adjoint(da)
    first = matmul(matmul(b, bh), sub(dah, matmul(matmul(dah, a), b)))
    second = matmul(sub(dah, matmul(b, matmul(a, dah))), matmul(bh, b))
    return sub(add(first, second), matmul(b, matmul(da, b)))


def _pull_pinv(
    cts: Sequence[Value],
    _wanted: object,
    values: Sequence[Value],
    outs: Sequence[Value],
    _params: object,
) -> list[Value]:
    """The transpose: conj((i - a b) ct^T b b^H + b^H b ct^T (i - b a)) - b^T ct b^T."""
    (ct,), (a,), (b,) = cts, values, outs
    bh, y = adjoint(b), transposed(ct)
    left = matmul(matmul(sub(y, matmul(a, matmul(b, y))), b), bh)
    right = matmul(bh, matmul(b, sub(y, matmul(matmul(y, b), a))))
    turned = transposed(b)
    return [sub(conj(add(left, right)), matmul(matmul(turned, ct), turned))]


pinv_p.pullback = _pull_pinv


def pinv(a: Value, rcond: float) -> Value:
    """The pseudo-inverse; singular values up to rcond times the largest count as 0."""
    return bind_one(pinv_p, a, {"rcond": rcond})


for _prim in (
    qr_p, svd_p, svdvals_p, eigh_p, eigvalsh_p, eig_p, eigvals_p, pinv_p
):  # fmt: skip
    _prim.refuse("transpose", NOT_LINEAR)
    batch_leading(_prim)


for _prim in (qr_p, svd_p, svdvals_p, eigh_p, eigvalsh_p, eig_p, eigvals_p, pinv_p):
    _prim.supports = pull_stacked
