"""The loop kernels in all modes; `python tests/unmodified/kernels.py` shows what each gives."""

from __future__ import annotations

import pytest
from kernels import MODES
from known import KNOWN
from outcomes import ALLOWED, Outcome, call_python
from probes import Probe, functions_of, worst

KERNELS = list(functions_of("loops"))


@pytest.mark.parametrize("kernel", KERNELS, ids=str)
def test_python_runs_it(kernel: Probe) -> None:
    plain = kernel.load()
    for case in plain.cases:  # type: ignore[attr-defined]
        assert call_python(plain, case).raised is None


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("kernel", [k for k in KERNELS if str(k) not in KNOWN], ids=str)
def test_right_or_a_card(kernel: Probe, mode: str) -> None:
    found = worst(MODES[mode](kernel)) or Outcome("equal")
    assert found.kind in ALLOWED, found.says
