"""Common subexpressions."""

from __future__ import annotations

from pass_cases import assert_becomes, body

from fgrad.compile.passes.cse import cse
from fgrad.ir.text import parse_program


def test_equal_equations_become_one() -> None:
    before = body(
        "a: f64[2]", "f64[2]",
        "b: f64[2] = sin a", "c: f64[2] = sin a", "d: f64[2] = mul b c", "d",
    )  # fmt: skip
    after = body("a: f64[2]", "f64[2]", "b: f64[2] = sin a", "d: f64[2] = mul b b", "d")
    assert_becomes(cse, before, after)


def test_order_does_not_matter_where_the_operation_commutes() -> None:
    before = body(
        "a: f64[], b: f64[]", "f64[], f64[]",
        "c: f64[] = add a b", "d: f64[] = add b a", "e: f64[] = sub c d", "c e",
    )  # fmt: skip
    after = body(
        "a: f64[], b: f64[]", "f64[], f64[]", "c: f64[] = add a b", "e: f64[] = sub c c", "c e"
    )
    assert_becomes(cse, before, after)


def test_parameters_and_signs_of_zero_keep_equations_apart() -> None:
    text = body(
        "a: f64[2]", "f64[2], f64[2], f32[2], f16[2]",
        "b: f64[2] = add a 0.0", "c: f64[2] = add a -0.0",
        "d: f32[2] = convert[dtype=f32] a", "e: f16[2] = convert[dtype=f16] a", "b c d e",
    )  # fmt: skip
    program = parse_program(text)
    assert cse(program) is program
