"""Dead code elimination."""

from __future__ import annotations

from pass_cases import assert_becomes, body

from fgrad.compile.passes.dce import dce
from fgrad.ir.text import parse_program


def test_dead_equations_and_constants_go() -> None:
    before = body(
        "a: f64[2]", "f64[2]", "const k: f64[2] = [1.0 2.0]",
        "b: f64[2] = sin a", "c: f64[2] = add b k", "d: f64[2] = cos a", "d",
    )  # fmt: skip
    after = body("a: f64[2]", "f64[2]", "d: f64[2] = cos a", "d")
    assert_becomes(dce, before, after)


def test_inputs_stay_and_a_lean_program_is_itself() -> None:
    program = parse_program(body("a: f64[2], b: f64[2]", "f64[2]", "c: f64[2] = sin a", "c"))
    assert dce(program) is program
    assert len(program.inputs) == 2
