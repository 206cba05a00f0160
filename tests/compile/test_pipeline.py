"""The compiler as a whole: compiled programs give what the NumPy interpreter gives."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, note, settings
from random_programs import programs

from fgrad.compile import pipeline
from fgrad.compile.jit.inspect import inspect, make_program
from fgrad.compile.pipeline import compile_program
from fgrad.config import config
from fgrad.errors import CheckError
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


def test_stages_are_shown_and_dumped(tmp_path: Any, capsys: Any) -> None:
    shown = frozenset({"program", "kernel", "llvm", "time"})
    with config.override(show=shown, dump=str(tmp_path)):
        compile_program(make_program(lambda x: np.sin(x) * 2)(np.zeros(3)))
    error = capsys.readouterr().err
    for part in ("sin a", "parallel i0 in 3", "define void @kernel_0", "ms"):
        assert part in error
    assert "cse" in error
    files = {path.name for path in tmp_path.iterdir()}
    assert "03_cse.txt" in files
    assert any(name.endswith("_schedule.ll") for name in files)


def test_a_pass_that_changes_results_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def wrong(program: Program) -> Program:
        return program.replace(outputs=program.inputs)

    monkeypatch.setattr(pipeline, "cse", wrong)
    program = make_program(lambda x: np.sin(x) * 2)(np.zeros(3))
    with config.override(check=3), pytest.raises(CheckError, match="pass 'cse' changed result 0"):
        compile_program(program, [np.ones(3)])


def test_inspect_reports_all_stages() -> None:
    stages = inspect(lambda x: np.sum(np.exp(x)))(np.ones(4))
    assert len(stages.kernels) == 1
    assert "define void" in stages.llvm
    assert "canonical_dot" in stages.report()
    assert "exp" in str(stages)
