"""A sample of the random in-place programs; `python tests/inplace_programs.py` runs more."""

from __future__ import annotations

import pytest
from inplace_programs import COMPILED, MODES, check_many

# What a program may meet: the beginnings of the cards.
REFUSALS = (
    "CustomRuleError: g closes over a value that is being differentiated.",
    "ArgumentError: assignment destination is read-only",
    "InPlaceError: Whether NumPy would see this write through a reshape is not known.",
    "InPlaceError: np.",
    "LostDerivativeError: ",
    "ArgumentWriteError: vmap(f) writes into an argument that shares memory with another one.",
)


@pytest.mark.parametrize("seed", range(4))
def test_random_programs(seed: int) -> None:
    counts = check_many(seed, 40, [m for m in MODES if m not in COMPILED])
    assert not counts.mismatches, "\n".join(f"{r.mode}: {r.wrong}" for r in counts.mismatches)
    assert all(kind.startswith(REFUSALS) for kind in counts.refusals), counts.refusals


def test_compiled_random_programs() -> None:
    counts = check_many(9, 15, COMPILED, every=1)
    assert not counts.mismatches, "\n".join(f"{r.mode}: {r.wrong}" for r in counts.mismatches)
