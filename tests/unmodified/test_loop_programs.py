"""A sample of the random loop programs; `python tests/unmodified/loop_programs.py` runs more."""

from __future__ import annotations

import pytest
from loop_grammar import Statement, reduced
from loop_programs import MODES, check_many, program, tried

COUNT = 12


@pytest.mark.parametrize("part", range(2))
def test_random_programs(part: int) -> None:
    counts = check_many(1, range(part, COUNT, 2), list(MODES))
    assert not counts.mismatches, [(p.name, mode, o) for p, mode, o in counts.mismatches]


@pytest.mark.parametrize("part", range(2))
def test_random_programs_about_names(part: int) -> None:
    counts = check_many(3, range(part, COUNT, 2), list(MODES), grammar="names")
    assert not counts.mismatches, [(p.name, mode, o) for p, mode, o in counts.mismatches]
    assert counts.equal["jit"] >= COUNT // 4  # most are no refusals


@pytest.mark.parametrize(
    ("seed", "number", "mode"),
    [(2811, 5070, "jit_grad"), (2901, 3373, "jit"), (2911, 13118, "jit")],
)
def test_programs_that_were_wrong_once(seed: int, number: int, mode: str) -> None:
    counts = check_many(seed, [number], [mode])
    assert counts.equal[mode] == 1


@pytest.mark.parametrize("part", range(2))
def test_random_programs_about_kinds_of_numbers(part: int) -> None:
    counts = check_many(5, range(part, 3 * COUNT, 2), ["jit", "again", "lanes"], grammar="kinds")
    assert not counts.mismatches, [(p.name, mode, o) for p, mode, o in counts.mismatches]
    assert counts.equal["jit"] >= COUNT // 2


def test_numbers_name_programs() -> None:
    first, second = program(3, 5), program(3, 5)
    assert first.statements == second.statements


def test_a_program_is_reduced_to_what_fails() -> None:
    p = program(3, 5)
    wrong = Statement(("t = 77.0",))
    statements = (*p.statements[:-1], wrong, p.statements[-1])

    def fails(block: tuple[Statement, ...]) -> bool:
        made = tried(block, "reduced", p.case)
        return made is not None and made.right.result is not None and made.right.result[1] == 77.0

    # What the program returns must be bound: s, t and c in one line, x and m are arguments.
    names = p.statements[-1].heads[0].split(",")
    assert len(reduced(statements, fails)) == len(names) - 4 + 2
