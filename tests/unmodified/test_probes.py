"""The probes of semantics in all modes; `tests/unmodified/probes.py` shows what each gives."""

from __future__ import annotations

import pytest
from known import KNOWN
from outcomes import ALLOWED, Outcome, slope_differs
from probes import MODES, Probe, functions_of, worst

PROBES = list(functions_of("semantics"))
PROBED = [p for p in PROBES if str(p) not in KNOWN]


@pytest.mark.parametrize("probe", PROBED, ids=str)
def test_equal_to_python_or_a_card(probe: Probe) -> None:
    found = worst(MODES["jit"](probe))
    assert found is not None
    assert found.kind in ALLOWED, found.says


@pytest.mark.parametrize("mode", ["jit_grad", "grad"])
@pytest.mark.parametrize("probe", PROBED, ids=str)
def test_derivatives_are_right_or_a_card(probe: Probe, mode: str) -> None:
    found = worst(MODES[mode](probe)) or Outcome("equal")
    assert found.kind in ALLOWED, found.says


def test_what_is_known_exists() -> None:
    assert set(KNOWN) <= {str(p) for p in [*PROBES, *functions_of("loops")]}


def test_a_wrong_slope_is_seen() -> None:
    assert not slope_differs(4.0, lambda t: (2 + t) ** 2)
    assert slope_differs(4.01, lambda t: (2 + t) ** 2)
