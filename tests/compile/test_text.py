"""Programs as text: parsing what was printed gives the same program."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from random_programs import programs

from fgrad.ir.program import Program
from fgrad.ir.text import equal_programs, parse_program, print_program
from fgrad.ops import elementwise, shape  # noqa: F401 - define the primitives that texts name

TEXT = """\
program f(a: f64[2,3], b: i32[]~) -> (f64[3,2], i32[]):
  const c: f64[2] = [1.0 -0.0]
  d: f64[2,3] = mul a 2.0
  e: f64[2,3] = select True d inf
  f: f64[3,2] = permute[axes=(1, 0)] e
  g: f32[] = convert[dtype=f32] 1.5
  h: f32[] = add g 2.0:f32
  i: i32[] = add b -7:i32
  return f i
"""


def test_text_round_trip() -> None:
    program = parse_program(TEXT)
    again = print_program(program, locs=False)
    assert equal_programs(parse_program(again), program)
    assert [line.split(" #")[0].rstrip() for line in again.splitlines()] == TEXT.splitlines()


@settings(max_examples=30, deadline=None, suppress_health_check=list(HealthCheck))
@given(programs())
def test_random_programs_round_trip(case: tuple[Program, list[Any]]) -> None:
    program, _ = case
    arrays = [array for _, array in program.consts]
    assert equal_programs(parse_program(print_program(program), arrays), program)


def test_large_constants_are_named_by_digest() -> None:
    array = np.arange(100.0)
    text = "program f() -> (f64[100]):\n  const a: f64[100] = {}\n  return a\n"
    program = parse_program(text.format("[" + " ".join(map(str, array)) + "]"))
    printed = print_program(program)
    assert "digest:" in printed
    assert equal_programs(parse_program(printed, [array]), program)
    with pytest.raises(ValueError, match="no array was given"):
        parse_program(printed)


NESTED = """\
program f(a: f64[]) -> (f64[], f64[]):
  b: f64[] = call[program=@1 name='g'] a
  c: f64[] = call[program=@1 name='g'] b
  return b c

program @1 g(a: f64[]) -> (f64[]):
  b: f64[] = call[program=@2 name='h'] a
  return b

program @2 h(a: f64[]) -> (f64[]):
  b: f64[] = sin a
  return b
"""


def test_programs_in_parameters() -> None:
    pytest.importorskip("fgrad.compile.jit.call")
    program = parse_program(NESTED)
    inner = program.eqns[0].params["program"]
    assert program.eqns[1].params["program"] is inner
    assert inner.eqns[0].params["program"].name == "h"
    assert equal_programs(parse_program(print_program(program)), program)


@pytest.mark.parametrize("other", ["mul a 3.0", "add a 2.0", "mul 2.0 a"])
def test_different_programs_are_not_equal(other: str) -> None:
    program = parse_program(TEXT)
    changed = parse_program(TEXT.replace("mul a 2.0", other))
    assert not equal_programs(program, changed)


@pytest.mark.parametrize("line", ["d: f64[2,3] = nonsense a", "d: f64[2,3] = mul a z", "??"])
def test_bad_lines_are_named(line: str) -> None:
    with pytest.raises(ValueError):
        parse_program(TEXT.replace("d: f64[2,3] = mul a 2.0", line))


@pytest.mark.parametrize("inner", ["call[program=@1 name='g'] a", "call[program=@0 name='g'] a"])
def test_programs_that_are_part_of_themselves_are_refused(inner: str) -> None:
    text = (
        "program f(a: f64[2]) -> (f64[2]):\n  b: f64[2] = call[program=@1 name='g'] a\n  return b\n"
        f"program @1 g(a: f64[2]) -> (f64[2]):\n  b: f64[2] = {inner}\n  return b\n"
    )
    with pytest.raises(ValueError, match="part of itself"):
        parse_program(text)
