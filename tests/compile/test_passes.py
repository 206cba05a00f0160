"""Every pass over programs, alone, on random programs: what it returns computes the same."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, note, settings
from random_programs import programs

from fgrad.compile.passes.canonical_conv import canonical_conv
from fgrad.compile.passes.canonical_dot import canonical_dot
from fgrad.compile.passes.contract import contract
from fgrad.compile.passes.cse import cse
from fgrad.compile.passes.dce import dce
from fgrad.compile.passes.fold import fold
from fgrad.compile.passes.inline import inline_calls
from fgrad.compile.passes.real_parts import real_parts
from fgrad.compile.passes.simplify import simplify
from fgrad.ir.check import check_program
from fgrad.ir.program import Program
from fgrad.ir.text import print_program
from fgrad.trace import run

PASSES = (
    inline_calls, dce, cse, real_parts, fold, simplify, contract, canonical_conv, canonical_dot,
)  # fmt: skip


@pytest.mark.parametrize("rewrite", PASSES, ids=lambda f: f.__name__)
@settings(max_examples=60, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(programs())
def test_a_pass_keeps_results(
    rewrite: Callable[[Program], Program], case: tuple[Program, list[Any]]
) -> None:
    program, args = case
    note(print_program(program))
    with np.errstate(all="ignore"):
        rewritten = rewrite(program)
        check_program(rewritten, rewrite.__name__)
        for found, expected in zip(run(rewritten, args), run(program, args), strict=True):
            found, expected = np.asarray(found), np.asarray(expected)
            assert found.dtype == expected.dtype and found.shape == expected.shape
            if expected.dtype.kind == "f":
                rtol = 1e-5 if expected.dtype == np.float32 else 1e-11
                scale = np.max(np.abs(expected[np.isfinite(expected)]), initial=1.0)
                np.testing.assert_allclose(found, expected, rtol=rtol, atol=rtol * scale)
            else:
                np.testing.assert_array_equal(found, expected)
