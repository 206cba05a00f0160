"""Buffers: temporaries do not overlap while both live, and memory is used again."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from pass_cases import body
from random_programs import programs

from fgrad.compile.fuse.partition import fuse
from fgrad.compile.kernel.machine import LINE_BYTES
from fgrad.compile.lower.groups import lower
from fgrad.compile.tasks.plan import Plan, plan
from fgrad.ir.program import Program
from fgrad.ir.text import parse_program


def planned(program: Program) -> Plan:
    """The plan of a program without rewriting it."""
    fusion = fuse(program)
    return plan(program, lower(fusion.groups, fusion.virtual))


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(programs(max_equations=30))
def test_live_temporaries_do_not_overlap(case: tuple[Program, list[Any]]) -> None:
    result = planned(case[0])
    lives: dict[int, list[Any]] = {}
    for k, step in enumerate(result.steps):
        for var in step.args:
            slot = result.slots[var]
            if slot.kind == "arena":
                size = var.aval.size * var.aval.dtype.itemsize
                life = lives.setdefault(id(var), [slot.index, slot.index + size, k, k])
                life[3] = k
                assert slot.index % LINE_BYTES == 0
                assert slot.index + size <= result.arena_bytes
    spans = list(lives.values())
    for i, (low, high, first, last) in enumerate(spans):
        for other_low, other_high, other_first, other_last in spans[:i]:
            apart = high <= other_low or other_high <= low
            reused = low == other_low and first != other_first
            assert apart or last < other_first or other_last < first or reused


@pytest.mark.parametrize(
    ("step", "places"),
    [("cumsum[axis=0 reverse=False]", 0), ("cumsum[axis=0 reverse=True]", 0), ("transposed", 2)],
)
def test_a_chain_of_temporaries_is_in_the_result_or_takes_two_places(
    step: str, places: int
) -> None:
    lines, last = [], "a"
    for k in range(10):
        name = f"b{chr(97 + k)}"
        if step == "transposed":
            lines.append(f"{name}t: f64[10,10] = permute[axes=(1, 0)] {last}")
            lines.append(f"{name}: f64[10,10] = cumsum[axis=0 reverse=False] {name}t")
        else:
            lines.append(f"{name}: f64[10,10] = {step} {last}")
        last = name
    program = parse_program(body("a: f64[10,10]", "f64[10,10]", *lines, last))
    size = -(-800 // LINE_BYTES) * LINE_BYTES
    assert planned(program).arena_bytes == places * size


def test_results_that_are_arguments_are_copied() -> None:
    program = parse_program(
        body("a: f64[2]", "f64[2], f64[2], f64[]", "b: f64[2] = sin a", "a b 1.0")
    )
    result = planned(program)
    assert [k for _, k in result.copies] == [0]
    assert [k for k, _ in result.literals] == [2]


def test_a_result_returned_twice_is_copied_once() -> None:
    program = parse_program(body("a: f64[2]", "f64[2], f64[2]", "b: f64[2] = sin a", "b b"))
    assert [k for _, k in planned(program).copies] == [1]
