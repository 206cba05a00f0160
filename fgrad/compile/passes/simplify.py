"""L5. Pass `simplify`: local laws of algebra, applied where they match.

`EXACT` holds laws that keep every result to the last bit, but for the sign of zero and the order in
which equal terms are added; `FASTMATH` the laws of real numbers, applied on request.  A law is a
function whose docstring is the law; it returns what stands for the equation's result, or None.
`APPLIED` counts how often each law was used.
"""

from __future__ import annotations

from typing import Any, TypeAlias

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
from fgrad.compile.passes.rewriter import APPLIED, Law, Rewriter
from fgrad.ir.primitive import REGISTRY
from fgrad.ir.program import Program

__all__ = ["APPLIED", "EXACT", "FASTMATH", "simplify"]


def simplify(program: Program, fastmath: bool = False) -> Program:
    """The program with the laws applied in one walk.

    Requires nothing.  Ensures that no law of the tables matches, where operands come from equations
    of the program; equations that are no longer read stay, for `dce`.
    """
    return Rewriter(_FAST if fastmath else _EXACT).run(program)


_REDUCTIONS = "reduce_sum reduce_prod reduce_max reduce_min reduce_any reduce_all"

EXACT: tuple[Law, ...] = (
    Law(drop_identity, "permute reshape broadcast slice pad reverse index convert concatenate "
                       "stop_gradient"),
    Law(fold_literals, "elementwise"),
    Law(compose_permutes, "permute"),
    Law(compose_reshapes, "reshape"),
    Law(compose_broadcasts, "broadcast"),
    Law(move_scalar, "permute reshape slice reverse index"),
    Law(permute_broadcast, "permute"),
    Law(permute_as_reshape, "permute"),
    Law(compose_slices, "slice"),
    Law(undo_reverse, "reverse"),
    Law(undo_convert, "convert"),
    Law(static_slice, "dynamic_slice"),
    Law(broadcast_literal, "elementwise"),
    Law(hoist_broadcast, "elementwise"),
    Law(literal_last, "add mul max min and or xor"),
    Law(add_zero, "add sub"),
    Law(multiply_one, "mul div"),
    Law(multiply_minus_one, "mul"),
    Law(multiply_zero, "mul"),
    Law(double_negation, "neg not"),
    Law(add_negative, "add sub"),
    Law(negative_factors, "mul div"),
    Law(negative_factor, "mul div"),
    Law(negate_product, "neg"),
    Law(divide_power_of_two, "div"),
    Law(small_power, "pow"),
    Law(half_power, "pow"),
    Law(masked_by_number, "masked_mul masked_div"),
    Law(select_known, "select"),
    Law(select_not, "select"),
    Law(idempotent, "max min and or"),
    Law(reduce_nothing, _REDUCTIONS),
    Law(compose_reductions, _REDUCTIONS),
    Law(reduce_repeated, "reduce_sum reduce_max reduce_min reduce_any reduce_all"),
    Law(reduce_permuted, _REDUCTIONS),
)  # fmt: skip

FASTMATH: tuple[Law, ...] = (
    Law(add_float_zero, "add sub"),
    Law(subtract_itself, "sub"),
    Law(multiply_float_zero, "mul"),
    Law(merge_factors, "mul"),
    Law(divide_number, "div"),
    Law(undo_exp, "log exp"),
    Law(negate_difference, "neg"),
)

_Table: TypeAlias = "dict[str, list[Law]]"


class _ByPrimitive(dict[str, "list[Law]"]):
    """The laws of a primitive in the order of the tables, found at first use."""

    def __init__(self, laws: tuple[Law, ...]) -> None:
        super().__init__()
        self.all = laws

    def get(self, name: str, default: Any = ()) -> list[Law]:  # type: ignore[override]
        found = super().get(name)
        if found is None:
            kinds = {name} | ({"elementwise"} if REGISTRY[name].scalar is not None else set())
            found = self[name] = [law for law in self.all if kinds & set(law.prims.split())]
        return found


_EXACT: _Table = _ByPrimitive(EXACT)
_FAST: _Table = _ByPrimitive(EXACT + FASTMATH)
