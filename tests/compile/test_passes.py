"""Every pass over programs, alone, on random programs: what it returns computes the same."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, note, settings
from random_programs import programs

from fgrad.compile import pipeline
from fgrad.compile.jit.inspect import make_program
from fgrad.compile.pipeline import compile_program
from fgrad.ir.check import check_program
from fgrad.ir.program import Program
from fgrad.ir.text import print_program
from fgrad.tools.run import PASSES
from fgrad.trace import run

OF_BACKENDS = {"library_conv", "prepare", "products"}


def test_all_passes_of_the_compiler_are_in_the_table() -> None:
    stages = compile_program(make_program(np.sin)(np.ones(3))).stages
    over_programs = [stage.name for stage in stages if isinstance(stage.result, Program)]
    names = dict.fromkeys(name.removesuffix(" again") for name in over_programs)
    assert [name for name in names if name not in OF_BACKENDS] == list(PASSES)


def test_the_list_of_passes_names_all() -> None:
    stages = compile_program(make_program(np.sin)(np.ones(3))).stages
    listed = re.findall(r"\w+", pipeline.__doc__ or "")
    names = [stage.name.removesuffix(" again") for stage in stages]
    of_backends = {*OF_BACKENDS, "join", "build"}
    assert [name for name in names if name not in {*of_backends, *listed}] == []


@pytest.mark.parametrize("rewrite", PASSES.values(), ids=PASSES)
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
