"""L5. Laws of elementwise equations, exact ones and those of real numbers alone."""

from __future__ import annotations

import math

import numpy as np

from fgrad.compile.passes.rewriter import Rewriter, is_float, lit, number_of, same
from fgrad.ir.program import Atom, Eqn, Lit
from fgrad.ops import primitives as prims

# --- elementwise


def broadcast_literal(r: Rewriter, e: Eqn) -> Atom | None:
    """f(x, broadcast(c)) -> f(x, c), for a literal c"""
    if not r.reads(e, prims.broadcast):
        return None
    found = [r.source(a, prims.broadcast) for a in e.inputs]
    literal = [
        b.inputs[0] if b is not None and isinstance(b.inputs[0], Lit) else a
        for a, b in zip(e.inputs, found, strict=True)
    ]
    if all(a is b for a, b in zip(literal, e.inputs, strict=True)):
        return None
    if all(isinstance(a, Lit) for a in literal):
        return r.full(r.make(e.prim, *literal, **e.params), e.outputs[0].aval.shape)
    return r.make(e.prim, *literal, **e.params)


def hoist_broadcast(r: Rewriter, e: Eqn) -> Atom | None:
    """f(broadcast(x), broadcast(y)) -> broadcast(f(x, y)), of equal shapes and axes, unless kernels
    cannot repeat the result"""
    if not r.reads(e, prims.broadcast) or e.outputs[0].aval.dtype.kind == "c":
        return None
    found = [r.source(a, prims.broadcast) for a in e.inputs if not isinstance(a, Lit)]
    if not found or any(b is None for b in found):
        return None
    first = found[0]
    assert first is not None
    for b in found:
        assert b is not None
        if b.params["dims"] != first.params["dims"]:
            return None
    inner = iter([b.inputs[0] for b in found if b is not None])
    x = r.make(e.prim, *[a if isinstance(a, Lit) else next(inner) for a in e.inputs], **e.params)
    return r.make(prims.broadcast, x, shape=e.outputs[0].aval.shape, dims=first.params["dims"])


def fold_literals(r: Rewriter, e: Eqn) -> Atom | None:
    """f(c) -> the number"""
    for a in e.inputs:
        if type(a) is not Lit:
            return None
    with np.errstate(all="ignore"):
        value = e.prim.evaluate_rule(*[a.value for a in e.inputs], **e.params)  # type: ignore[union-attr]
    return lit(value, e.outputs[0].aval.dtype)


def literal_last(r: Rewriter, e: Eqn) -> Atom | None:
    """c + x -> x + c"""
    x, y = e.inputs
    if not isinstance(x, Lit) or isinstance(y, Lit):
        return None
    return r.make(e.prim, y, x)


def add_zero(r: Rewriter, e: Eqn) -> Atom | None:
    """x + (-0.0) -> x and x - 0.0 -> x; for integers x + 0 -> x and x - 0 -> x"""
    x, y = e.inputs
    if number_of(y) != 0 or y.aval.dtype.kind == "b":
        return None
    if not is_float(y):
        return x
    if y.aval.dtype.kind == "c":
        return None
    negative = math.copysign(1.0, number_of(y)) < 0
    return x if negative == (e.prim is prims.add) else None


def multiply_one(r: Rewriter, e: Eqn) -> Atom | None:
    """x * 1 -> x and x / 1 -> x"""
    x, y = e.inputs
    return x if number_of(y) == 1 and y.aval.dtype.kind != "b" else None


def multiply_minus_one(r: Rewriter, e: Eqn) -> Atom | None:
    """x * -1 -> -x"""
    x, y = e.inputs
    return r.make(prims.neg, x) if number_of(y) == -1 and x.aval.dtype.kind in "if" else None


def multiply_zero(r: Rewriter, e: Eqn) -> Atom | None:
    """x * 0 -> 0, for integers"""
    x, y = e.inputs
    if number_of(y) != 0 or x.aval.dtype.kind not in "iu":
        return None
    return r.full(y, e.outputs[0].aval.shape)


def double_negation(r: Rewriter, e: Eqn) -> Atom | None:
    """-(-x) -> x and not not x -> x"""
    inner = r.source(e.inputs[0], e.prim)
    return None if inner is None else inner.inputs[0]


def add_negative(r: Rewriter, e: Eqn) -> Atom | None:
    """x + (-y) -> x - y, (-x) + y -> y - x and x - (-y) -> x + y"""
    x, y = e.inputs
    right = r.source(y, prims.neg)
    if right is not None:
        return r.make(prims.sub if e.prim is prims.add else prims.add, x, right.inputs[0])
    left = r.source(x, prims.neg) if e.prim is prims.add else None
    return None if left is None else r.make(prims.sub, y, left.inputs[0])


def negative_factor(r: Rewriter, e: Eqn) -> Atom | None:
    """(-x) * c -> x * (-c) and (-x) / c -> x / (-c)"""
    inner, c = r.source(e.inputs[0], prims.neg), number_of(e.inputs[1])
    if inner is None or c is None or e.inputs[1].aval.dtype.kind not in "f":
        return None
    return r.make(e.prim, inner.inputs[0], lit(-c, e.inputs[1].aval.dtype))


def negative_factors(r: Rewriter, e: Eqn) -> Atom | None:
    """(-x) * (-y) -> x * y"""
    left, right = (r.source(a, prims.neg) for a in e.inputs)
    if left is None or right is None:
        return None
    return r.make(e.prim, left.inputs[0], right.inputs[0])


def negate_product(r: Rewriter, e: Eqn) -> Atom | None:
    """-(x * c) -> x * (-c)"""
    inner = r.source(e.inputs[0], prims.mul, prims.div)
    c = None if inner is None else number_of(inner.inputs[1])
    if inner is None or c is None or inner.inputs[1].aval.dtype.kind not in "f":
        return None
    return r.make(inner.prim, inner.inputs[0], lit(-c, inner.inputs[1].aval.dtype))


def divide_power_of_two(r: Rewriter, e: Eqn) -> Atom | None:
    """x / 2**k -> x * 2**-k"""
    x, y = e.inputs
    c = number_of(y)
    if c is None or y.aval.dtype.kind != "f" or not math.isfinite(c) or c == 0:
        return None
    if abs(math.frexp(c)[0]) != 0.5 or not 2.0**-14 <= abs(c) <= 2.0**14:
        return None
    return r.make(prims.mul, x, lit(1 / c, y.aval.dtype))


def small_power(r: Rewriter, e: Eqn) -> Atom | None:
    """x ** 1 -> x, x ** 2 -> x x, x ** 3 -> x x x, x ** 4 -> (x x)(x x), x ** -1 -> 1 / x"""
    x, y = e.inputs
    c = number_of(y)
    if isinstance(x, Lit) or c not in (1, 2, 3, 4, -1):
        return None
    if c == -1:
        return r.make(prims.div, lit(1, x.aval.dtype), x) if is_float(x) else None
    square = x if c == 1 else r.make(prims.mul, x, x)
    if c == 4:
        return r.make(prims.mul, square, square)
    return r.make(prims.mul, square, x) if c == 3 else square


def half_power(r: Rewriter, e: Eqn) -> Atom | None:
    """x ** -0.5 -> sqrt(1 / (x + 0)) and x ** -1.5 -> t sqrt(t) with t = 1 / (x + 0);
    x ** 0.5 -> sqrt(x + 0) and x ** 1.5 -> x sqrt(x), but inf at -inf"""
    x, y = e.inputs
    c, dtype = number_of(y), x.aval.dtype
    if isinstance(x, Lit) or dtype.kind != "f" or c not in (0.5, 1.5, -0.5, -1.5):
        return None
    base = r.make(prims.add, x, lit(0.0, dtype))
    if c < 0:
        base = r.make(prims.div, lit(1, dtype), base)
    root = r.make(prims.sqrt, base)
    out = r.make(prims.mul, base, root) if abs(c) == 1.5 else root
    if c < 0:
        return out
    infinite = r.make(prims.eq, x, lit(-math.inf, dtype))
    return r.make(prims.select, infinite, lit(math.inf, dtype), out)


def masked_by_number(r: Rewriter, e: Eqn) -> Atom | None:
    """masked_mul(t, c) -> t * c, masked_div(t, c) -> t / c, for a finite c that is not 0 below"""
    c = number_of(e.inputs[1])
    if c is None or isinstance(c, complex) or not math.isfinite(c):
        return None
    if e.prim is prims.masked_mul:
        return r.make(prims.mul, *e.inputs)
    return r.make(prims.div, *e.inputs) if c else None


def select_known(r: Rewriter, e: Eqn) -> Atom | None:
    """select(True, x, y) -> x, select(False, x, y) -> y and select(c, x, x) -> x"""
    c, x, y = e.inputs
    chosen = None
    if isinstance(c, Lit):
        chosen = x if c.value else y
    elif same(x, y):
        chosen = x
    return None if chosen is None or chosen.aval.shape != e.outputs[0].aval.shape else chosen


def select_not(r: Rewriter, e: Eqn) -> Atom | None:
    """select(not c, x, y) -> select(c, y, x)"""
    inner = r.source(e.inputs[0], prims.not_)
    return (
        None if inner is None else r.make(prims.select, inner.inputs[0], e.inputs[2], e.inputs[1])
    )


def idempotent(r: Rewriter, e: Eqn) -> Atom | None:
    """max(x, x) -> x, and so for min, and, or"""
    return e.inputs[0] if same(*e.inputs) else None


# --- laws of real numbers


def add_float_zero(r: Rewriter, e: Eqn) -> Atom | None:
    """x + 0.0 -> x and x - 0.0 -> x"""
    return e.inputs[0] if number_of(e.inputs[1]) == 0 else None


def subtract_itself(r: Rewriter, e: Eqn) -> Atom | None:
    """x - x -> 0"""
    x, y = e.inputs
    return r.full(lit(0, x.aval.dtype), x.aval.shape) if same(x, y) else None


def multiply_float_zero(r: Rewriter, e: Eqn) -> Atom | None:
    """x * 0.0 -> 0.0"""
    if number_of(e.inputs[1]) != 0:
        return None
    return r.full(lit(0, e.inputs[1].aval.dtype), e.outputs[0].aval.shape)


def merge_factors(r: Rewriter, e: Eqn) -> Atom | None:
    """(x * a) * b -> x * (a b)"""
    inner, b = r.source(e.inputs[0], prims.mul), number_of(e.inputs[1])
    a = None if inner is None else number_of(inner.inputs[1])
    if inner is None or a is None or b is None:
        return None
    return r.make(prims.mul, inner.inputs[0], lit(a * b, e.inputs[1].aval.dtype))


def divide_number(r: Rewriter, e: Eqn) -> Atom | None:
    """x / c -> x * (1 / c)"""
    c = number_of(e.inputs[1])
    if not c:
        return None
    return r.make(prims.mul, e.inputs[0], lit(1 / c, e.inputs[1].aval.dtype))


def undo_exp(r: Rewriter, e: Eqn) -> Atom | None:
    """log(exp(x)) -> x and exp(log(x)) -> x"""
    inner = r.source(e.inputs[0], prims.exp if e.prim is prims.log else prims.log)
    return None if inner is None else inner.inputs[0]


def negate_difference(r: Rewriter, e: Eqn) -> Atom | None:
    """-(x - y) -> y - x"""
    inner = r.source(e.inputs[0], prims.sub)
    return None if inner is None else r.make(prims.sub, inner.inputs[1], inner.inputs[0])
