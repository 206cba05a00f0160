"""Programs that people write are captured: equal to Python, and no card, in every mode."""

from __future__ import annotations

import pytest
from kernels import MODES
from outcomes import EQUAL, call_python
from probes import Probe, functions_of, worst

REACHED = ("slices", "comprehensions", "elements", "windows")
PROBES = [p for p in functions_of("semantics") if p.path.stem in REACHED]


def raises(probe: Probe) -> bool:
    """Whether Python raises an error."""
    function = probe.load()
    return any([call_python(function, c).raised for c in function.cases])  # type: ignore[attr-defined]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("probe", PROBES, ids=str)
def test_equal_to_python(probe: Probe, mode: str) -> None:
    if mode == "vmap" and raises(probe):  # one example's error is no other's
        return
    found = worst(MODES[mode](probe))
    if found is not None:
        assert found.kind == EQUAL, found.says
