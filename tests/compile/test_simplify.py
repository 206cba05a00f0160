"""Every law of `simplify` fires, and does what its docstring says."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from pass_cases import assert_becomes, body
from random_programs import programs

from fgrad.compile.passes.simplify import APPLIED, EXACT, FASTMATH, simplify
from fgrad.ir.program import Program
from fgrad.ir.text import parse_program
from fgrad.trace import run

X = "a: f64[2,3]"


def _case(law: str, inputs: str, outputs: str, before: list[str], after: list[str]) -> Any:
    return pytest.param(law, body(inputs, outputs, *before), body(inputs, outputs, *after), id=law)


CASES = [
    _case("drop_identity", X, "f64[2,3]", ["b: f64[2,3] = reshape[shape=(2, 3)] a", "b"], ["a"]),
    _case(
        "fold_literals",
        "",
        "f64[]",
        ["b: f64[] = add 1.0 2.0", "b"],
        ["3.0"],
    ),
    _case(
        "compose_permutes",
        X,
        "f64[2,3]",
        ["b: f64[3,2] = permute[axes=(1, 0)] a", "c: f64[2,3] = permute[axes=(1, 0)] b", "c"],
        ["a"],
    ),
    _case(
        "compose_reshapes",
        X,
        "f64[3,2]",
        ["b: f64[6] = reshape[shape=(6,)] a", "c: f64[3,2] = reshape[shape=(3, 2)] b", "c"],
        ["c: f64[3,2] = reshape[shape=(3, 2)] a", "c"],
    ),
    _case(
        "compose_broadcasts",
        "a: f64[3]",
        "f64[4,2,3]",
        [
            "b: f64[2,3] = broadcast[shape=(2, 3) dims=(1,)] a",
            "c: f64[4,2,3] = broadcast[shape=(4, 2, 3) dims=(1, 2)] b",
            "c",
        ],
        ["c: f64[4,2,3] = broadcast[shape=(4, 2, 3) dims=(2,)] a", "c"],
    ),
    _case(
        "move_scalar",
        "a: f64[]",
        "f64[6]",
        [
            "b: f64[2,3] = broadcast[shape=(2, 3) dims=()] a",
            "c: f64[6] = reshape[shape=(6,)] b",
            "c",
        ],
        ["c: f64[6] = broadcast[shape=(6,) dims=()] a", "c"],
    ),
    _case(
        "permute_broadcast",
        "a: f64[3]",
        "f64[3,2]",
        [
            "b: f64[2,3] = broadcast[shape=(2, 3) dims=(1,)] a",
            "c: f64[3,2] = permute[axes=(1, 0)] b",
            "c",
        ],
        ["c: f64[3,2] = broadcast[shape=(3, 2) dims=(0,)] a", "c"],
    ),
    _case(
        "permute_as_reshape",
        "a: f64[1,3]",
        "f64[3,1]",
        ["b: f64[3,1] = permute[axes=(1, 0)] a", "b"],
        ["b: f64[3,1] = reshape[shape=(3, 1)] a", "b"],
    ),
    _case(
        "compose_slices",
        "a: f64[9]",
        "f64[2]",
        [
            "b: f64[4] = slice[start=(1,) stop=(9,) step=(2,)] a",
            "c: f64[2] = slice[start=(1,) stop=(4,) step=(2,)] b",
            "c",
        ],
        ["c: f64[2] = slice[start=(3,) stop=(8,) step=(4,)] a", "c"],
    ),
    _case(
        "undo_reverse",
        X,
        "f64[2,3]",
        ["b: f64[2,3] = reverse[axes=(1,)] a", "c: f64[2,3] = reverse[axes=(1,)] b", "c"],
        ["a"],
    ),
    _case(
        "undo_convert",
        "a: f32[2]",
        "f32[2]",
        ["b: f64[2] = convert[dtype=f64] a", "c: f32[2] = convert[dtype=f32] b", "c"],
        ["a"],
    ),
    _case(
        "static_slice",
        "a: f64[5]",
        "f64[2]",
        ["b: f64[2] = dynamic_slice[sizes=(2,)] a 9", "b"],
        ["b: f64[2] = slice[start=(3,) stop=(5,) step=(1,)] a", "b"],
    ),
    _case(
        "index_as_reshape",
        "a: f64[1,1]",
        "f64[]",
        ["b: f64[] = index[ints=(0, 0)] a", "b"],
        ["b: f64[] = reshape[shape=()] a", "b"],
    ),
    _case(
        "broadcast_literal",
        X,
        "f64[2,3]",
        ["b: f64[2,3] = broadcast[shape=(2, 3) dims=()] 2.0", "c: f64[2,3] = mul a b", "c"],
        ["c: f64[2,3] = mul a 2.0", "c"],
    ),
    _case(
        "hoist_broadcast",
        "a: f64[3]",
        "f64[2,3]",
        ["b: f64[2,3] = broadcast[shape=(2, 3) dims=(1,)] a", "c: f64[2,3] = sin b", "c"],
        ["b: f64[3] = sin a", "c: f64[2,3] = broadcast[shape=(2, 3) dims=(1,)] b", "c"],
    ),
    _case(
        "literal_last",
        X,
        "f64[2,3]",
        ["b: f64[2,3] = add 2.0 a", "b"],
        ["b: f64[2,3] = add a 2.0", "b"],
    ),
    _case("add_zero", X, "f64[2,3]", ["b: f64[2,3] = sub a 0.0", "b"], ["a"]),
    _case("multiply_one", X, "f64[2,3]", ["b: f64[2,3] = div a 1.0", "b"], ["a"]),
    _case(
        "multiply_minus_one",
        X,
        "f64[2,3]",
        ["b: f64[2,3] = mul a -1.0", "b"],
        ["b: f64[2,3] = neg a", "b"],
    ),
    _case(
        "multiply_zero",
        "a: i64[2]",
        "i64[2]",
        ["b: i64[2] = mul a 0", "b"],
        ["b: i64[2] = broadcast[shape=(2,) dims=()] 0", "b"],
    ),
    _case(
        "double_negation", X, "f64[2,3]", ["b: f64[2,3] = neg a", "c: f64[2,3] = neg b", "c"], ["a"]
    ),
    _case(
        "add_negative",
        "a: f64[2], b: f64[2]",
        "f64[2]",
        ["c: f64[2] = neg b", "d: f64[2] = add a c", "d"],
        ["d: f64[2] = sub a b", "d"],
    ),
    _case(
        "negative_factors",
        "a: f64[2], b: f64[2]",
        "f64[2]",
        ["c: f64[2] = neg a", "d: f64[2] = neg b", "e: f64[2] = mul c d", "e"],
        ["e: f64[2] = mul a b", "e"],
    ),
    _case(
        "negative_factor",
        X,
        "f64[2,3]",
        ["b: f64[2,3] = neg a", "c: f64[2,3] = mul b 3.0", "c"],
        ["c: f64[2,3] = mul a -3.0", "c"],
    ),
    _case(
        "negate_product",
        X,
        "f64[2,3]",
        ["b: f64[2,3] = mul a 3.0", "c: f64[2,3] = neg b", "c"],
        ["c: f64[2,3] = mul a -3.0", "c"],
    ),
    _case(
        "divide_power_of_two",
        X,
        "f64[2,3]",
        ["b: f64[2,3] = div a 4.0", "b"],
        ["b: f64[2,3] = mul a 0.25", "b"],
    ),
    _case(
        "small_power",
        X,
        "f64[2,3]",
        ["b: f64[2,3] = pow a 3.0", "b"],
        ["b: f64[2,3] = mul a a", "c: f64[2,3] = mul b a", "c"],
    ),
    _case(
        "half_power",
        X,
        "f64[2,3]",
        ["b: f64[2,3] = pow a -0.5", "b"],
        ["b: f64[2,3] = add a 0.0", "c: f64[2,3] = div 1.0 b", "d: f64[2,3] = sqrt c", "d"],
    ),
    _case(
        "masked_by_number",
        X,
        "f64[2,3]",
        ["b: f64[2,3] = masked_mul a 3.0", "b"],
        ["b: f64[2,3] = mul a 3.0", "b"],
    ),
    _case("select_known", X, "f64[2,3]", ["b: f64[2,3] = select False 1.0 a", "b"], ["a"]),
    _case(
        "select_not",
        "a: bool[2], b: f64[2]",
        "f64[2]",
        ["c: bool[2] = not a", "d: f64[2] = select c b 0.0", "d"],
        ["d: f64[2] = select a 0.0 b", "d"],
    ),
    _case("idempotent", X, "f64[2,3]", ["b: f64[2,3] = max a a", "b"], ["a"]),
    _case(
        "reduce_nothing",
        "a: f64[2,1]",
        "f64[2]",
        ["b: f64[2] = reduce_sum[axes=(1,)] a", "b"],
        ["b: f64[2] = reshape[shape=(2,)] a", "b"],
    ),
    _case(
        "compose_reductions",
        X,
        "f64[]",
        ["b: f64[3] = reduce_max[axes=(0,)] a", "c: f64[] = reduce_max[axes=(0,)] b", "c"],
        ["c: f64[] = reduce_max[axes=(0, 1)] a", "c"],
    ),
    _case(
        "reduce_repeated",
        "a: f64[3]",
        "f64[3]",
        [
            "b: f64[4,3] = broadcast[shape=(4, 3) dims=(1,)] a",
            "c: f64[3] = reduce_sum[axes=(0,)] b",
            "c",
        ],
        ["c: f64[3] = mul a 4.0", "c"],
    ),
    _case(
        "reduce_permuted",
        "a: f64[2,3,4]",
        "f64[4,2]",
        ["b: f64[4,3,2] = permute[axes=(2, 1, 0)] a", "c: f64[4,2] = reduce_sum[axes=(1,)] b", "c"],
        ["c: f64[2,4] = reduce_sum[axes=(1,)] a", "d: f64[4,2] = permute[axes=(1, 0)] c", "d"],
    ),
]
FAST_CASES = [
    _case("add_float_zero", X, "f64[2,3]", ["b: f64[2,3] = add a 0.0", "b"], ["a"]),
    _case(
        "subtract_itself",
        "a: f64[2]",
        "f64[2]",
        ["b: f64[2] = sub a a", "b"],
        ["b: f64[2] = broadcast[shape=(2,) dims=()] 0.0", "b"],
    ),
    _case(
        "multiply_float_zero",
        "a: f64[2]",
        "f64[2]",
        ["b: f64[2] = mul a 0.0", "b"],
        ["b: f64[2] = broadcast[shape=(2,) dims=()] 0.0", "b"],
    ),
    _case(
        "merge_factors",
        "a: f64[2]",
        "f64[2]",
        ["b: f64[2] = mul a 3.0", "c: f64[2] = mul b 5.0", "c"],
        ["c: f64[2] = mul a 15.0", "c"],
    ),
    _case(
        "divide_number",
        "a: f64[2]",
        "f64[2]",
        ["b: f64[2] = div a 10.0", "b"],
        ["b: f64[2] = mul a 0.1", "b"],
    ),
    _case(
        "undo_exp", "a: f64[2]", "f64[2]", ["b: f64[2] = exp a", "c: f64[2] = log b", "c"], ["a"]
    ),
    _case(
        "negate_difference",
        "a: f64[2], b: f64[2]",
        "f64[2]",
        ["c: f64[2] = sub a b", "d: f64[2] = neg c", "d"],
        ["d: f64[2] = sub b a", "d"],
    ),
]


@pytest.mark.parametrize(("law", "before", "after"), CASES)
def test_exact_laws(law: str, before: str, after: str) -> None:
    count = APPLIED[law]
    assert_becomes(simplify, before, after)
    assert APPLIED[law] > count


@pytest.mark.parametrize(("law", "before", "after"), FAST_CASES)
def test_fast_laws(law: str, before: str, after: str) -> None:
    count = APPLIED[law]
    assert_becomes(lambda p: simplify(p, fastmath=True), before, after)
    assert APPLIED[law] > count


def test_every_law_has_a_case() -> None:
    named = {case.id for case in CASES + FAST_CASES}
    assert named == {law.name for law in EXACT + FASTMATH}


@pytest.mark.parametrize(
    "line", ["b: f64[2] = add a 0.0", "b: f64[2] = mul a 0.0", "b: f64[2] = sub a a"]
)
def test_laws_that_change_values_are_not_exact(line: str) -> None:
    text = body("a: f64[2]", "f64[2]", line, "b")
    assert_becomes(simplify, text, text)


def test_half_powers_agree_with_numpy_at_the_edges() -> None:
    x = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, -1.0, 2.0, 1e-300, 1e300])
    for power in (0.5, 1.5, -0.5, -1.5):
        from_text = body("a: f64[9]", "f64[9]", f"b: f64[9] = pow a {power}", "b")
        program = simplify(parse_program(from_text))
        with np.errstate(all="ignore"):
            np.testing.assert_allclose(
                run(program, [x])[0], np.power(x, np.full(9, power)), rtol=1e-15
            )


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(programs())
def test_simplified_programs_compute_the_same(case: tuple[Program, list[Any]]) -> None:
    program, args = case
    with np.errstate(all="ignore"):
        for a, b in zip(run(program, args), run(simplify(program), args), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-5)
