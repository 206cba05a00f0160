"""L3. Determinants, their logarithms and their gradients; matrices in the last two axes.

[G] Giles, Collected matrix derivative results for forward and reverse mode differentiation, 2008.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fgrad.ir import traits
from fgrad.ir.aval import Aval
from fgrad.ir.primitive import NOT_LINEAR, Primitive
from fgrad.ops.complex import complex_, imag, is_complex, real, real_dtype, to_complex
from fgrad.ops.diagonals import diagonal
from fgrad.ops.elementwise import div, lit, mul, sub
from fgrad.ops.linalg import solve
from fgrad.ops.matrices import (
    batch_leading,
    check_matrix,
    identity_like,
    matmul,
    per_matrix,
    require_finite,
    transposed,
)
from fgrad.ops.reduce import reduce_sum
from fgrad.ops.stacked import pull_stacked
from fgrad.trace import Value, bind
from fgrad.tracing.fastpath import bind_one

# --- slogdet: sign and log |det a|

slogdet_p = Primitive("slogdet", traits.whole(flops_over_n3=2 / 3), multiple=True)


@slogdet_p.type_rule
def _(a: Aval) -> tuple[Aval, Aval]:
    check_matrix(slogdet_p, a, square=True)
    return Aval(a.shape[:-2], a.dtype), Aval(a.shape[:-2], real_dtype(a.dtype))


@slogdet_p.evaluate
def _(a: Value) -> tuple[Value, Value]:
    return tuple(np.linalg.slogdet(a))


@slogdet_p.jvp
def _(
    primals: Sequence[Value], tangents: Sequence[Value], outs: Sequence[Value]
) -> tuple[Value | None, Value]:
    """d log |det a| + i d(phase) = tr(a^-1 da) [G, 2.2.4]."""
    (a,), (da,) = primals, tangents
    d_log_det = reduce_sum(diagonal(solve(a, da)), (len(a.shape) - 2,))
    if not is_complex(a):
        return None, d_log_det
    d_phase = imag(d_log_det)
    return mul(outs[0], complex_(lit(d_phase, 0), d_phase)), real(d_log_det)


def _pull_slogdet(
    cts: Sequence[Value | None],
    _wanted: object,
    values: Sequence[Value],
    outs: Sequence[Value],
    _params: object,
) -> list[Value | None]:
    """ct_a = w a^-T with w = ct_log, for complex a ct_log + i im(sign ct_sign)."""
    (a,), (ct_sign, ct_log) = values, cts
    if is_complex(a):
        ct_phase = None if ct_sign is None else imag(mul(outs[0], ct_sign))
        ct_log = lit(outs[1], 0) if ct_log is None else ct_log
        ct_log = to_complex(ct_log) if ct_phase is None else complex_(ct_log, ct_phase)
    if ct_log is None:
        return [None]
    return [mul(solve(a, identity_like(a), True), per_matrix(ct_log, a.shape))]


slogdet_p.pullback = _pull_slogdet
slogdet_p.refuse("transpose", NOT_LINEAR)
batch_leading(slogdet_p)


def slogdet(a: Value) -> tuple[Value, Value]:
    """The sign (or phase) of the determinant, and the logarithm of its absolute value."""
    return bind(slogdet_p, a)


# --- det, whose gradient exists at singular matrices too

det_p = Primitive("det", traits.whole(flops_over_n3=2 / 3))
cofactor_p = Primitive("cofactor", traits.whole())


@det_p.type_rule
def _(a: Aval) -> Aval:
    check_matrix(det_p, a, square=True)
    return Aval(a.shape[:-2], a.dtype)


det_p.evaluate(np.linalg.det)


@det_p.jvp
def _(primals: Sequence[Value], tangents: Sequence[Value], out: Value) -> Value:
    """d det a = sum(cofactor(a) da): Jacobi's formula."""
    return _inner_product(cofactor(primals[0]), tangents[0])


def _pull_det(
    cts: Sequence[Value], _wanted: object, values: Sequence[Value], _outs: object, _params: object
) -> list[Value]:
    c = cofactor(values[0])
    return [mul(c, per_matrix(cts[0], c.shape))]


det_p.pullback = _pull_det


def _inner_product(a: Value, b: Value) -> Value:
    """sum(a * b) of each pair of matrices."""
    n = len(a.shape)
    return reduce_sum(mul(a, b), (n - 2, n - 1))


@cofactor_p.type_rule
def _(a: Aval) -> Aval:
    check_matrix(cofactor_p, a, square=True)
    return a.strong()


@cofactor_p.evaluate
def _(a: np.ndarray) -> np.ndarray:
    """det(a) a^-T if all matrices are well conditioned, else by singular values, which takes five
    times as long: with a = u diag(s) v^H and p[i] the product of all s but s[i], it is
    conj(u) diag(p) v^T det(u v^H)."""
    by_inverse = _by_inverse(a)
    if by_inverse is not None:
        return by_inverse
    require_finite(a)
    u, s, vh = np.linalg.svd(a)
    one = np.ones_like(s[..., :1])
    before = np.cumprod(np.concatenate([one, s[..., :-1]], -1), -1)
    after = np.cumprod(np.concatenate([one, s[..., :0:-1]], -1), -1)[..., ::-1]
    phase = np.linalg.det(u) * np.linalg.det(vh)
    products = (before * after * phase[..., None])[..., None, :]
    return np.matmul(np.conjugate(u) * products, np.conjugate(vh)).astype(a.dtype, copy=False)


def _by_inverse(a: np.ndarray) -> np.ndarray | None:
    """det(a) a^-T, or None if that may lose a third of the digits."""
    det = np.linalg.det(a)
    if not a.size or not np.isfinite(det).all() or not np.all(det):
        return None
    try:
        inverse = np.linalg.inv(a)
    except np.linalg.LinAlgError:
        return None
    condition = _infinity_norm(a) * _infinity_norm(inverse)
    if not (condition * np.finfo(a.dtype).eps ** (1 / 3) < 1).all():
        return None
    return np.swapaxes(inverse, -1, -2) * det[..., None, None]


def _infinity_norm(a: np.ndarray) -> Value:
    """The greatest sum of |a| along a row of each matrix."""
    return np.maximum.reduce(np.add.reduce(np.abs(a), -1), -1)


@cofactor_p.jvp
def _(primals: Sequence[Value], tangents: Sequence[Value], c: Value) -> Value:
    """dc = (c <c, da> - c da^T c) / det a with det a = <c, a> / n; NaN at singular matrices."""
    (a,), (da,) = primals, tangents
    n = a.shape[-1]
    det = mul(_inner_product(c, a), lit(a, 1 / max(n, 1)))
    d_det = per_matrix(_inner_product(c, da), c.shape)
    numerator = sub(mul(c, d_det), matmul(matmul(c, transposed(da)), c))
    return div(numerator, per_matrix(det, c.shape))


for _prim in (det_p, cofactor_p):
    _prim.refuse("transpose", NOT_LINEAR)
    batch_leading(_prim)


def det(a: Value) -> Value:
    """The determinant."""
    return bind_one(det_p, a, {})


def cofactor(a: Value) -> Value:
    """The gradient of the determinant: det(a) a^-T, continued to singular matrices."""
    return bind_one(cofactor_p, a, {})


for _prim in (slogdet_p, det_p):
    _prim.supports = pull_stacked
