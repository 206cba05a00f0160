"""A sample of the functions that take a number: none of them loses a derivative in silence."""

from __future__ import annotations

import number_readers


def test_no_function_loses_a_derivative_in_silence() -> None:
    table, lists = number_readers.survey(every=12)
    assert not lists.get("silent")
    assert not lists.get("rough")
    assert sum([row["raised"] for row in table.values()]) > 50
    assert sum([row["right"] for row in table.values()]) > 50


def test_the_survey_finds_what_is_lost() -> None:
    calls = {
        "right": lambda x: x * x,
        "zero": lambda x: 2.0 * int(3 * x),
        "raised": lambda x: x * x.item(),
        "silent": lambda x: x * number_readers.fgrad.stop_gradient(x),
        "rough": lambda x: 1.0 if x > number_readers.X else 0.0,
    }
    for expected, call in calls.items():
        assert number_readers.verdict(call) == expected
