"""L3. `dot_general`: every product of NumPy with contracted and batched axes.

result axes = batch axes, then the free axes of a, then the free axes of b
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import lru_cache

import numpy as np

from fgrad.base.named_tuple import NamedTuple
from fgrad.errors import DtypeError, ShapeError
from fgrad.ir import traits
from fgrad.ir.aval import Aval
from fgrad.ir.primitive import Primitive
from fgrad.ops.families import bilinear_jvp, in_float32
from fgrad.ops.loop_to_python import PREPARED
from fgrad.ops.shape import Ints, inverse_permutation, permute
from fgrad.ops.stacked import pull_outer
from fgrad.trace import Value
from fgrad.tracing.fastpath import bind_pair

Pair = tuple[Ints, Ints]

dot_general_p = Primitive(
    "dot_general", traits.contracting(), params=("contract", "batch"), linear_in="each"
)
dot_general_p.jvp(bilinear_jvp(dot_general_p))
dot_general_p.makes_order = True
dot_general_p.supports = pull_outer


@dot_general_p.type_rule
def _(a: Aval, b: Aval, *, contract: Pair, batch: Pair) -> Aval:
    for left, right in (contract, batch):
        la, lb = [a.shape[i] for i in left], [b.shape[i] for i in right]
        if la != lb:
            raise ShapeError(
                f"dot_general: axes {left} of {a.shape} and {right} of {b.shape} differ in length."
            )
    if a.dtype != b.dtype:
        raise DtypeError(f"dot_general: operands have dtypes {a.dtype} and {b.dtype}.")
    plan = _plan(a.ndim, b.ndim, contract, batch)
    shape = [a.shape[i] for i in batch[0]]
    shape += [a.shape[i] for i in plan.a_free] + [b.shape[i] for i in plan.b_free]
    return Aval(tuple(shape), a.dtype)


class _Plan(NamedTuple):
    """Free axes of both operands; the orders (batch, free, contract), (batch, contract, free)."""

    a_free: Ints
    b_free: Ints
    a_order: Ints
    b_order: Ints
    matmul: bool
    dot: tuple[bool, bool] | None  # whether np.dot takes a and b transposed, if it can do it


@lru_cache(maxsize=4096)
def _plan(a_ndim: int, b_ndim: int, contract: Pair, batch: Pair) -> _Plan:
    a_free = tuple(i for i in range(a_ndim) if i not in contract[0] and i not in batch[0])
    b_free = tuple(i for i in range(b_ndim) if i not in contract[1] and i not in batch[1])
    a_order = (*batch[0], *a_free, *contract[0])
    b_order = (*batch[1], *contract[1], *b_free)
    matmul = len(contract[0]) == 1 and len(a_free) == 1 and len(b_free) == 1
    dot = None
    if not batch[0] and len(contract[0]) == 1 and a_ndim <= 2 and b_ndim <= 2:
        dot = (contract[0][0] != a_ndim - 1, contract[1][0] != 0)
    return _Plan(a_free, b_free, a_order, b_order, matmul, dot)


class _TransposePlan(NamedTuple):
    """The products that give both cotangents, and the orders of their axes."""

    a_contract: Pair
    a_batch: Pair
    a_order: Ints | None  # None where they stay
    b_contract: Pair
    b_batch: Pair
    b_order: Ints | None


@lru_cache(maxsize=4096)
def _transpose_plan(a_ndim: int, b_ndim: int, contract: Pair, batch: Pair) -> _TransposePlan:
    plan = _plan(a_ndim, b_ndim, contract, batch)
    nb, na = len(batch[0]), len(plan.a_free)
    ct_batch = tuple(range(nb))
    ct_a = tuple(range(nb, nb + na))
    ct_b = tuple(range(nb + na, nb + na + len(plan.b_free)))
    return _TransposePlan(
        (ct_b, plan.b_free),
        (ct_batch, batch[1]),
        _reordered((*batch[0], *plan.a_free, *_paired(contract[1], contract[0]))),
        (plan.a_free, ct_a),
        (batch[0], ct_batch),
        _reordered((*batch[1], *_paired(contract[0], contract[1]), *plan.b_free)),
    )


def _prepared(
    a: Aval, b: Aval, *, contract: Pair, batch: Pair
) -> Callable[[np.ndarray, np.ndarray], np.ndarray] | None:
    """The evaluation of products for `np.dot`."""
    plan = _plan(len(a.shape), len(b.shape), contract, batch)
    if a.dtype.kind == "V" or plan.dot is None:
        return None
    turned_a, turned_b = plan.dot
    if not turned_a and not turned_b:
        return np.dot
    return lambda x, y: np.dot(x.T if turned_a else x, y.T if turned_b else y)


PREPARED[dot_general_p] = _prepared


@dot_general_p.evaluate
def _(a: np.ndarray, b: np.ndarray, *, contract: Pair, batch: Pair) -> Value:
    plan = _plan(a.ndim, b.ndim, contract, batch)
    if plan.dot is None or a.dtype.kind == "V":
        return _product(a, b, plan=plan, contract=contract, batch=batch)
    turned_a, turned_b = plan.dot  # the method, as `np.dot` looks first for who overrides it
    return (a.T if turned_a else a).dot(b.T if turned_b else b)


@in_float32
def _product(a: Value, b: Value, *, plan: _Plan, contract: Pair, batch: Pair) -> Value:
    if plan.dot is not None:
        return np.dot(a.T if plan.dot[0] else a, b.T if plan.dot[1] else b)
    if not contract[0] and not batch[0]:
        return np.multiply(a.reshape(a.shape + (1,) * b.ndim) if b.ndim else a, b)
    left, right = a.transpose(plan.a_order), b.transpose(plan.b_order)
    if plan.matmul:
        return np.matmul(left, right)
    nb = len(batch[0])
    lead = left.shape[:nb]
    m, n = left.shape[nb : nb + len(plan.a_free)], right.shape[nb + len(contract[0]) :]
    if not (lead or m or n):
        return np.dot(left.reshape(-1), right.reshape(-1))
    k = math.prod(left.shape[nb + len(plan.a_free) :])
    left = left.reshape(*lead, math.prod(m), k)
    right = right.reshape(*lead, k, math.prod(n))
    return np.matmul(left, right).reshape(lead + m + n)[()]


@dot_general_p.transpose
def _(
    ct: Value, wanted: Sequence[bool], a: Value, b: Value, *, contract: Pair, batch: Pair
) -> tuple[Value | None, Value | None]:
    """ct_a = ct . b over b's free axes; ct_b = a . ct over a's free axes."""
    plan = _transpose_plan(len(a.shape), len(b.shape), contract, batch)
    left = right = None
    if wanted[0]:
        left = dot_general(ct, b, plan.a_contract, plan.a_batch)
        left = left if plan.a_order is None else permute(left, plan.a_order)
    if wanted[1]:
        right = dot_general(a, ct, plan.b_contract, plan.b_batch)
        right = right if plan.b_order is None else permute(right, plan.b_order)
    return left, right


def _reordered(axes: Ints) -> Ints | None:
    """The permutation that undoes the order of some axes; None if it is theirs."""
    inverse = inverse_permutation(axes)
    return None if inverse == tuple(range(len(axes))) else inverse


def _paired(order: Ints, partner: Ints) -> Ints:
    """The partners of axes taken in ascending order."""
    return tuple(partner[order.index(i)] for i in sorted(order))


@dot_general_p.batch
def _(
    size: int, operands: Sequence[Value], dims: Sequence[int | None], *, contract: Pair, batch: Pair
) -> tuple[Value, int]:
    (a, b), (da, db) = operands, dims
    (ca, cb), (ba, bb) = contract, batch
    if da is not None:
        ca, ba = _shifted(ca, da), _shifted(ba, da)
    if db is not None:
        cb, bb = _shifted(cb, db), _shifted(bb, db)
    if da is not None and db is not None:
        return dot_general(a, b, (ca, cb), ((da, *ba), (db, *bb))), 0
    plan = _plan(len(a.shape), len(b.shape), (ca, cb), (ba, bb))
    out = dot_general(a, b, (ca, cb), (ba, bb))
    if da is not None:
        return out, len(ba) + plan.a_free.index(da)
    return out, len(ba) + len(plan.a_free) + plan.b_free.index(db)


def _shifted(axes: Ints, d: int) -> Ints:
    return tuple(i + (i >= d) for i in axes)


def dot_general(a: Value, b: Value, contract: Pair, batch: Pair = ((), ())) -> Value:
    """Sum products over `contract` axes, elementwise over `batch` axes, all pairs of the others."""
    return bind_pair(dot_general_p, a, b, {"contract": contract, "batch": batch})
