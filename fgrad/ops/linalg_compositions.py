"""L3. Primitives of linear algebra as compositions of others: what compiled programs run.

The rules of these primitives stand with them, and their evaluation is NumPy's; a composition gives
the same numbers for real matrices, from factors for which there is native code.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from fgrad.ir.aval import INT32
from fgrad.ops.decompositions import inverse_or_zero, svd
from fgrad.ops.elementwise import (
    abs_,
    convert,
    exp,
    gt,
    lit,
    log,
    mul,
    ne,
    remainder,
    select,
    sign,
    sub,
)
from fgrad.ops.linalg import factor, lu_solve
from fgrad.ops.matrices import diagonal, matmul, scale_columns, transposed
from fgrad.ops.reduce import cumprod, reduce_max, reduce_prod, reduce_sum
from fgrad.ops.shape import broadcast, concatenate, full, iota, slice_
from fgrad.trace import Value


def solve_by_factors(a: Value, b: Value, trans: bool) -> Sequence[Value]:
    """Equal matrices have one `factor` equation after pass `cse`."""
    return [lu_solve(a, *factor(a), b, trans)]


def slogdet_by_factors(a: Value) -> Sequence[Value]:
    """The product of the signs, and the sum of the logarithms, of the diagonal of u."""
    packed, pivots = factor(a)
    line = diagonal(packed)
    last = (len(line.shape) - 1,)
    moved = convert(ne(pivots, iota(tuple(pivots.shape), INT32, last[0])), INT32)
    odd = remainder(reduce_sum(moved, last), INT32.type(2))
    parity = sub(lit(line, 1), mul(convert(odd, line.dtype), lit(line, 2)))
    return mul(reduce_prod(sign(line), last), parity), reduce_sum(log(abs_(line)), last)


def det_by_factors(a: Value) -> Sequence[Value]:
    """sign * exp(log |det a|), as in NumPy."""
    signs, logs = slogdet_by_factors(a)
    return [mul(signs, exp(logs))]


def cofactor_by_svd(a: Value) -> Sequence[Value]:
    """u diag(products of all other singular values) v^T det(u v^T)."""
    u, s, vh = svd(a)
    last = len(s.shape) - 1
    one = full((*s.shape[:-1], 1), 1, s.dtype)
    most = (0,) * len(s.shape), (*s.shape[:-1], s.shape[-1] - 1)
    rest = (*[0] * last, 1), tuple(s.shape)
    before = concatenate([one, cumprod(slice_(s, *most), last)], last)
    after = concatenate([cumprod(slice_(s, *rest), last, reverse=True), one], last)
    (phase,) = det_by_factors(matmul(u, vh))
    phase = broadcast(phase, tuple(s.shape), tuple(range(last)))
    return [matmul(scale_columns(u, mul(mul(before, after), phase)), vh)]


def pinv_by_svd(a: Value, rcond: float) -> Sequence[Value]:
    """v diag(1 / s) u^T, for the singular values that count."""
    u, s, vh = svd(a)
    last = len(s.shape) - 1
    limit = mul(reduce_max(s, (last,)), lit(s, rcond))
    counts = gt(s, broadcast(limit, tuple(s.shape), tuple(range(last))))
    inverse = inverse_or_zero(select(counts, s, lit(s, 0)))
    return [matmul(scale_columns(transposed(vh), inverse), transposed(u))]


COMPOSITIONS: dict[str, Callable[..., Sequence[Value]]] = {
    "solve": solve_by_factors,
    "slogdet": slogdet_by_factors,
    "det": det_by_factors,
    "cofactor": cofactor_by_svd,
    "pinv": pinv_by_svd,
}
