"""Each function of SciPy's with an axis, with every kind of axis: SciPy's values, or an error; an
error wherever there is no such axis."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from scipy_axis_cases import ARRAYS, CASES, CONSTANTS
from scipy_tables import arrays_of, differs, names_in, program, traced

INSIDE = (0, 1, -1, None, np.int64(1), (0, 1), (2, 0, 1))
OUTSIDE = (3, -4, (0, 3))  # of three axes
REFUSED = (Exception,)  # SciPy's, of many classes
# What has no traced form, and tuples of one axis where SciPy's code happens to take them.
LESS = (
    "st.bootstrap", "sl.solve_circulant", "sg.detrend(x, type=", "sg.resample(x, 3",
    "st.directional_stats",
)  # fmt: skip


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        yield


def _outcomes(line: str, axis: Any) -> tuple[Any, Any]:
    """SciPy's arrays and fgrad's, or None where it raises, and the error."""
    constants = {**CONSTANTS, "AX": axis}
    given = [ARRAYS[n] for n in names_in(line, ARRAYS)]
    outcomes: list[Any] = []
    for own in (False, True):
        f = program(line, ARRAYS, constants, own)
        try:
            outcomes.append(traced(f, given) if own else arrays_of(f(*given)))
        except REFUSED as error:
            outcomes.append(error)
    return outcomes[0], outcomes[1]


@pytest.mark.parametrize("line", CASES)
def test_axes_are_scipys(line: str) -> None:
    wrong = []
    for axis in INSIDE:
        wanted, found = _outcomes(line, axis)
        if isinstance(wanted, Exception):
            continue
        if isinstance(found, Exception):
            if not line.startswith(LESS):
                wrong.append(f"{axis}: {found}")
        elif text := differs(found, wanted):
            wrong.append(f"{axis}: {text}")
    assert not wrong


@pytest.mark.parametrize("line", CASES)
def test_axes_that_are_not_there(line: str) -> None:
    wrong = []
    for axis in OUTSIDE:
        wanted, found = _outcomes(line, axis)
        if isinstance(found, Exception):
            continue
        text = str(wanted) if isinstance(wanted, Exception) else differs(found, wanted)
        if text:
            wrong.append(f"{axis}: {text}")
    assert not wrong
