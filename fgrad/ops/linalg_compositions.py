"""L3. Primitives of linear algebra as compositions of others: what compiled programs run.

The rules of these primitives stand with them, and their evaluation is NumPy's; a composition gives
the same numbers, from factors for which there is native code.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from fgrad.ir.aval import INT32, INT64, aval_of
from fgrad.ir.primitive import Primitive
from fgrad.ops.complex import conj, imag, is_complex, real, real_dtype, to_complex
from fgrad.ops.control import switch
from fgrad.ops.decompositions import inverse_or_zero, pinv_p, svd
from fgrad.ops.determinants import cofactor_p, det_p, slogdet_p
from fgrad.ops.diagonals import diagonal
from fgrad.ops.elementwise import (
    abs_,
    add,
    and_,
    convert,
    exp,
    gt,
    isfinite,
    lit,
    log,
    lt,
    mul,
    ne,
    remainder,
    select,
    sign,
    sub,
)
from fgrad.ops.linalg import factor, lu_solve, solve_p
from fgrad.ops.matrices import adjoint, identity_like, matmul, per_matrix, scale_columns
from fgrad.ops.reduce import cumprod, reduce_all, reduce_max, reduce_prod, reduce_sum
from fgrad.ops.shape import broadcast, concatenate, full, iota, slice_
from fgrad.trace import Value, trace


def solve_by_factors(a: Value, b: Value, trans: bool) -> Sequence[Value]:
    """Equal matrices have one `factor` equation after pass `cse`."""
    return [lu_solve(a, *factor(a), b, trans)]


def slogdet_by_factors(a: Value) -> Sequence[Value]:
    """The product of the signs or phases, and the sum of the logarithms, of the diagonal of u."""
    packed, pivots = factor(a)
    line = diagonal(packed)
    last = (len(line.shape) - 1,)
    moved = convert(ne(pivots, iota(tuple(pivots.shape), INT32, last[0])), INT32)
    odd = remainder(reduce_sum(moved, last), INT32.type(2))
    part = real_dtype(line.dtype)
    parity = sub(part.type(1), mul(convert(odd, part), part.type(2)))
    if not is_complex(line):
        return mul(reduce_prod(sign(line), last), parity), reduce_sum(log(abs_(line)), last)
    phases = reduce_prod(sign(line), last)
    return mul(phases, to_complex(parity)), reduce_sum(real(log(line)), last)


def det_by_factors(a: Value) -> Sequence[Value]:
    """sign * exp(log |det a|), as in NumPy."""
    signs, logs = slogdet_by_factors(a)
    return [mul(signs, exp(to_complex(logs) if is_complex(a) else logs))]


def cofactor_by_svd(a: Value) -> Sequence[Value]:
    """conj(u) diag(products of all other singular values) v^T det(u v^H)."""
    u, s, vh = svd(a)
    last = len(s.shape) - 1
    one = full((*s.shape[:-1], 1), 1, s.dtype)
    most = (0,) * len(s.shape), (*s.shape[:-1], s.shape[-1] - 1)
    rest = (*[0] * last, 1), tuple(s.shape)
    before = concatenate([one, cumprod(slice_(s, *most), last)], last)
    after = concatenate([cumprod(slice_(s, *rest), last, reverse=True), one], last)
    (phase,) = det_by_factors(matmul(u, vh))
    phase = broadcast(phase, tuple(s.shape), tuple(range(last)))
    others = mul(before, after)
    others = mul(to_complex(others) if is_complex(a) else others, phase)
    return [matmul(scale_columns(conj(u), others), conj(vh))]


def cofactor_by_factors(a: Value) -> Sequence[Value]:
    """det(a) a^-T by the factors of `det`; as the evaluation does, by singular values where a
    matrix is singular, or so nearly that a third of the digits may be lost."""
    packed, pivots = factor(a)
    (det,) = det_by_factors(a)
    regular = and_(isfinite(det), ne(det, lit(det, 0)))
    return _chosen(regular, _by_inverse, a, packed, pivots, det)


def _by_inverse(a: Value, packed: Value, pivots: Value, det: Value) -> Sequence[Value]:
    inverse = lu_solve(a, packed, pivots, identity_like(a), True)  # transposed
    last = len(a.shape) - 1
    sizes = [reduce_sum(_size(x), (k,)) for x, k in ((a, last), (inverse, last - 1))]
    height, width = [reduce_max(x, (last - 1,)) for x in sizes]
    loss = float(np.finfo(a.dtype).eps) ** (1 / 3)
    exact = lt(mul(mul(height, width), lit(height, loss)), lit(height, 1))
    return _chosen(exact, lambda _, x, det: [mul(x, per_matrix(det, x.shape))], a, inverse, det)


def _size(x: Value) -> Value:
    """|x|, or a bound of it."""
    return add(abs_(real(x)), abs_(imag(x))) if is_complex(x) else abs_(x)


def _chosen(
    holds: Value, function: Callable[..., Sequence[Value]], *operands: Value
) -> Sequence[Value]:
    """A function where a condition holds for all matrices, else `cofactor_by_svd` of the first."""
    avals = [aval_of(x).strong() for x in operands]
    branches = [
        trace(lambda a, *_: cofactor_by_svd(a), avals, "cofactor").program,
        trace(function, avals, "cofactor").program,
    ]
    every = reduce_all(holds, tuple(range(len(holds.shape)))) if holds.shape else holds
    return switch(convert(every, INT64), branches, operands)


def pinv_by_svd(a: Value, rcond: float) -> Sequence[Value]:
    """v diag(1 / s) u^H, for the singular values that count."""
    u, s, vh = svd(a)
    last = len(s.shape) - 1
    limit = mul(reduce_max(s, (last,)), lit(s, rcond))
    counts = gt(s, broadcast(limit, tuple(s.shape), tuple(range(last))))
    inverse = inverse_or_zero(select(counts, s, lit(s, 0)))
    inverse = to_complex(inverse) if is_complex(a) else inverse
    return [matmul(scale_columns(adjoint(vh), inverse), adjoint(u))]


COMPOSITIONS: dict[Primitive, Callable[..., Sequence[Value]]] = {
    solve_p: solve_by_factors,
    slogdet_p: slogdet_by_factors,
    det_p: det_by_factors,
    cofactor_p: cofactor_by_factors,
    pinv_p: pinv_by_svd,
}
