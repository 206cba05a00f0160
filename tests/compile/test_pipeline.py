"""The compiler as a whole: compiled programs give what the NumPy interpreter gives."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import HealthCheck, given, note, settings
from programs import programs

from fgrad.compile.pipeline import compile_program
from fgrad.config import config
from fgrad.ir.program import Program
from fgrad.ir.text import print_program
from fgrad.trace import run

SLOW = settings(max_examples=400, deadline=None, suppress_health_check=list(HealthCheck))


def assert_same(actual: list[Any], expected: list[Any], tolerance: float = 1e-5) -> None:
    """Equal shapes and dtypes, and numbers up to rounding."""
    for a, e in zip(actual, expected, strict=True):
        a, e = np.asarray(a), np.asarray(e)
        assert (a.shape, a.dtype) == (e.shape, e.dtype)
        if a.dtype.kind == "f":
            np.testing.assert_allclose(a, e, rtol=tolerance, atol=tolerance)
        else:
            np.testing.assert_array_equal(a, e)


@SLOW
@given(programs())
def test_compiled_equals_interpreted(case: tuple[Program, list[Any]]) -> None:
    program, args = case
    arrays = [np.ascontiguousarray(x) if np.ndim(x) else np.asarray(x) for x in args]
    note(print_program(program))
    with np.errstate(all="ignore"), config.override(check=2):
        compiled = compile_program(program)
        assert_same(compiled.executable(arrays), run(program, args))
