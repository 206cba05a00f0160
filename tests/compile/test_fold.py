"""Constant folding."""

from __future__ import annotations

from pass_cases import assert_becomes, body

from fgrad.compile.passes.fold import fold
from fgrad.ir.text import parse_program


def test_scalars_become_literals() -> None:
    before = body(
        "a: f64[]",
        "f64[]",
        "b: f64[] = sqrt 4.0",
        "c: f64[] = add b 1.0",
        "d: f64[] = mul a c",
        "d",
    )
    assert_becomes(fold, before, body("a: f64[]", "f64[]", "d: f64[] = mul a 3.0", "d"))


def test_small_constants_are_computed() -> None:
    before = body(
        "a: f64[2]",
        "f64[2]",
        "const k: f64[2] = [1.0 2.0]",
        "b: f64[2] = neg k",
        "c: f64[2] = add a b",
        "c",
    )
    after = body("a: f64[2]", "f64[2]", "const k: f64[2] = [-1.0 -2.0]", "c: f64[2] = add a k", "c")
    assert_becomes(fold, before, after)


def test_broadcasts_and_iotas_stay() -> None:
    program = parse_program(
        body(
            "",
            "f64[5], i64[5]",
            "a: f64[5] = broadcast[shape=(5,) dims=()] 1.0",
            "b: i64[5] = iota[shape=(5,) dtype=i64 axis=0]",
            "a b",
        )
    )
    assert fold(program) is program


def test_results_may_become_literals() -> None:
    assert_becomes(fold, body("", "f64[]", "a: f64[] = add 1.0 2.0", "a"), body("", "f64[]", "3.0"))
