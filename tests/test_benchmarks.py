"""The benchmarks run, and what they measure is right; nothing is timed here."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import cpu
import eager
import harness
import numpy as np
import pytest
import workloads_models
from digits_workloads import DIGITS

import fgrad

SMALL = [*cpu.CALLS, *DIGITS, *[w for w in workloads_models.MODELS if "jitted" in w.name]]


@pytest.mark.parametrize("workload", SMALL, ids=lambda w: w.name)
def test_compiled_workload(workload: harness.Workload) -> None:
    library = harness.fgrad_library()
    compiled = workload.make(library)()
    with fgrad.config.override(disable_jit=True):
        evaluated = workload.make(library)()
    assert harness.same_numbers(compiled, evaluated)


@pytest.mark.parametrize("make", [make for _, _, make in eager.WORKLOADS])
def test_eager_workload(make: Callable[[eager.Peer], Callable[[], Any]]) -> None:
    plain = eager.Peer("fgrad", np, lambda x: x, fgrad.grad)
    compiled = eager.Peer("jit", np, lambda x: x, lambda f: fgrad.jit(fgrad.grad(f)))
    assert harness.same_numbers(make(plain)(), make(compiled)())


def test_turns() -> None:
    calls: list[str] = []
    times = harness.take_turns({"a": lambda: calls.append("a")}, turns=3, turn_seconds=1e-4)
    assert times["a"] > 0.0
    assert len(calls) > 3


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(1.5, "1.5 s "), (0.0123, "12.3 ms"), (4.56e-6, "4.56 us"), (7e-8, "70 ns")],
)
def test_durations(seconds: float, text: str) -> None:
    assert harness.pretty(seconds) == text
