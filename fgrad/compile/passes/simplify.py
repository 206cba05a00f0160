"""L5. Pass `simplify`: local laws of algebra, applied where they match.

`EXACT` holds laws that keep every result to the last bit, but for the sign of zero and the order in
which equal terms are added; `FASTMATH` the laws of real numbers, applied on request.  A law is a
function whose docstring is the law; it returns what stands for the equation's result, or None.
`APPLIED` counts how often each law was used.
"""

from __future__ import annotations

from fgrad.compile.passes.laws_algebra import (
    add_float_zero,
    add_negative,
    add_zero,
    broadcast_literal,
    divide_number,
    divide_power_of_two,
    double_negation,
    fold_literals,
    half_power,
    hoist_broadcast,
    idempotent,
    literal_last,
    masked_by_number,
    merge_factors,
    multiply_float_zero,
    multiply_minus_one,
    multiply_one,
    multiply_zero,
    negate_difference,
    negate_product,
    negative_factor,
    negative_factors,
    select_known,
    select_not,
    small_power,
    subtract_itself,
    undo_exp,
)
from fgrad.compile.passes.laws_moves import (
    compose_broadcasts,
    compose_permutes,
    compose_reductions,
    compose_reshapes,
    compose_slices,
    drop_identity,
    index_as_reshape,
    move_scalar,
    permute_as_reshape,
    permute_broadcast,
    reduce_nothing,
    reduce_permuted,
    reduce_repeated,
    static_slice,
    undo_convert,
    undo_reverse,
)
from fgrad.compile.passes.rewriter import APPLIED, ELEMENTWISE, Law, Rewriter
from fgrad.ir.primitive import Primitive, folds
from fgrad.ir.program import Program
from fgrad.ir.traits import Along
from fgrad.ops import primitives as prims

__all__ = ["APPLIED", "EXACT", "EXACT_LAWS", "FASTMATH", "simplify"]


def simplify(program: Program, fastmath: bool = False) -> Program:
    """The program with the laws applied in one walk.

    Requires nothing.  Ensures that no law of the tables matches, where operands come from equations
    of the program; equations that are no longer read stay, for `dce`.
    """
    return Rewriter(_FAST if fastmath else EXACT_LAWS).run(program)


_REDUCTIONS = tuple(folds(Along.AXES))

EXACT: tuple[Law, ...] = (
    Law(
        drop_identity,
        (
            prims.permute,
            prims.reshape,
            prims.broadcast,
            prims.slice,
            prims.pad,
            prims.reverse,
            prims.index,
            prims.convert,
            prims.concatenate,
            prims.stop_gradient,
        ),
    ),
    Law(fold_literals, ELEMENTWISE),
    Law(compose_permutes, (prims.permute,)),
    Law(compose_reshapes, (prims.reshape,)),
    Law(compose_broadcasts, (prims.broadcast,)),
    Law(move_scalar, (prims.permute, prims.reshape, prims.slice, prims.reverse, prims.index)),
    Law(permute_broadcast, (prims.permute,)),
    Law(permute_as_reshape, (prims.permute,)),
    Law(compose_slices, (prims.slice,)),
    Law(undo_reverse, (prims.reverse,)),
    Law(undo_convert, (prims.convert,)),
    Law(static_slice, (prims.dynamic_slice,)),
    Law(index_as_reshape, (prims.index,)),
    Law(broadcast_literal, ELEMENTWISE),
    Law(hoist_broadcast, ELEMENTWISE),
    Law(
        literal_last, (prims.add, prims.mul, prims.max, prims.min, prims.and_, prims.or_, prims.xor)
    ),
    Law(add_zero, (prims.add, prims.sub)),
    Law(multiply_one, (prims.mul, prims.div)),
    Law(multiply_minus_one, (prims.mul,)),
    Law(multiply_zero, (prims.mul,)),
    Law(double_negation, (prims.neg, prims.not_)),
    Law(add_negative, (prims.add, prims.sub)),
    Law(negative_factors, (prims.mul, prims.div)),
    Law(negative_factor, (prims.mul, prims.div)),
    Law(negate_product, (prims.neg,)),
    Law(divide_power_of_two, (prims.div,)),
    Law(small_power, (prims.pow,)),
    Law(half_power, (prims.pow,)),
    Law(masked_by_number, (prims.masked_mul, prims.masked_div)),
    Law(select_known, (prims.select,)),
    Law(select_not, (prims.select,)),
    Law(idempotent, (prims.max, prims.min, prims.and_, prims.or_)),
    Law(reduce_nothing, _REDUCTIONS),
    Law(compose_reductions, _REDUCTIONS),
    Law(
        reduce_repeated,
        (prims.reduce_sum, prims.reduce_max, prims.reduce_min, prims.reduce_any, prims.reduce_all),
    ),
    Law(reduce_permuted, _REDUCTIONS),
)

FASTMATH: tuple[Law, ...] = (
    Law(add_float_zero, (prims.add, prims.sub)),
    Law(subtract_itself, (prims.sub,)),
    Law(multiply_float_zero, (prims.mul,)),
    Law(merge_factors, (prims.mul,)),
    Law(divide_number, (prims.div,)),
    Law(undo_exp, (prims.log, prims.exp)),
    Law(negate_difference, (prims.neg,)),
)


class _ByPrimitive(dict[Primitive, list[Law]]):
    """The laws of a primitive in the order of the tables, found at first use."""

    def __init__(self, laws: tuple[Law, ...]) -> None:
        super().__init__()
        self.all = laws

    def get(self, prim: Primitive, default: object = ()) -> list[Law]:  # type: ignore[override]
        found = super().get(prim)
        if found is None:
            found = self[prim] = [law for law in self.all if law.rewrites(prim)]
        return found


EXACT_LAWS = _ByPrimitive(EXACT)
_FAST = _ByPrimitive(EXACT + FASTMATH)
